"""What Yosys maps single modules to: many of them in one run, each as it stands in a design.

Every module is an instance of a top level that does nothing else. Its hierarchy is kept and what is below it becomes
one piece, as ``mase-hw synth`` does with a design, so that the counts of an instance are those that it has there.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mase_hw.cost.casts import parameters_of
from mase_hw.emit.netlist import Instance
from mase_hw.emit.render import render_generated
from mase_hw.hardware.library import source
from mase_hw.host.resources import rtl_root
from mase_hw.opdef import SUPPORT, Generated
from mase_hw.synth.mapping import COUNT, STATISTICS, WRITE_NETLIST, map_design, read_cells, reading
from mase_hw.synth.targets import find_target

COLUMNS = ("lut", "ff", "dsp", "bram")
TOP = "batch"
Pin = tuple[str, int, bool]
"""A name, its bits, and whether it is driven from outside."""


def _pins(inputs: str, outputs: str) -> list[Pin]:
    """Those of a list of names, each with its bits behind a colon if it has more than one."""
    listed = ((each.partition(":"), driven) for of, driven in ((inputs, True), (outputs, False)) for each in of.split())
    return [(name, int(bits or 1), driven) for (name, _, bits), driven in listed]


def aside(module: str, p: Mapping[str, Any]) -> list[Pin]:
    """The pins of a module besides its streams: of what loads parameters, or reads them from external memory."""
    match module:
        case "ram_source":
            taken = "bank load_begin load_next load_back load_data:32 load_turn"
            return _pins(taken, "load_read:32 load_done")
        case "external_source":
            return _pins(f"ask_ready word_data:{p['BUS']} word_valid", "ask_valid ask_address:32 full late")
        case "parameter_load":
            taken = "in_data:32 in_last in_valid out_ready empty load_read:32"
            given = "in_ready out_data:32 out_last out_valid state:4 digest:32 hold core_rst source_rst"
            return _pins(taken, f"{given} bank load_begin load_next load_back load_data:32")
        case "frame_gate":
            n = p["INPUTS"]
            taken = f"hold in_valid:{n} core_ready:{n} out_moves:{p['OUTPUTS']}"
            return _pins(taken, f"empty in_ready:{n} core_valid:{n}")
        case "external_reader":
            n = p["SOURCES"]
            taken = f"ask_valid:{n} ask_address:{32 * n} source_full:{n} read_ready data_valid"
            return _pins(taken, f"ask_ready:{n} word_valid:{n} primed read_valid read_address:32 read_words:16")
        case "external_image":
            asks = "image:32 image_valid empty ask_valid ask_address:32 ask_words:16"
            taken = f"{asks} read_ready data_valid data:{p['BUS']}"
            given = "image_ready state:3 digest:32 hold core_rst ask_ready word_valid"
            return _pins(taken, f"{given} read_valid read_address:32 read_words:16")
    return []


@dataclass(frozen=True)
class Item:
    """A module to measure.

    Args:
        instance: The instance, of any netlist.
        files: What its module needs, dependencies first.
        memories: Content of memory files by the parameter that takes the path.
        generated: What makes the module, where it is made for its constants.
    """

    instance: Instance
    files: tuple[str, ...]
    memories: Mapping[str, str]
    generated: Generated | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """Without paths of files."""
        return {k: v for k, v in self.instance.parameters.items() if k != "MEM_FILE"}

    def contents(self, family: str) -> dict[str, int]:
        """What the cost model of a family takes of the words of a ROM or of a table; nothing of other modules."""
        parameters = self.parameters
        if self.instance.module == "rom_source":
            text, bits = self.memories["MEM_FILE"], parameters["WIDTH"]
        elif self.instance.module == "fixed_function" and not parameters["SEGMENTS"]:
            text, bits = self.memories["TABLE_FILE"], parameters["DATA_OUT_0_PRECISION_0"]
        else:
            return {}
        return parameters_of([int(word, 16) for word in text.split()], bits, family)


def measure(items: Sequence[Item], family: str, folder: Path) -> list[dict[str, int]]:
    """Map modules in one run of Yosys.

    Args:
        items: Modules.
        family: A target of ``mase-hw synth``.
        folder: Where to work; emptied.

    Returns:
        Counts by column, in the order of the items.

    Raises:
        ToolError: If Yosys fails.
    """
    target = find_target(family)
    shutil.rmtree(folder, ignore_errors=True)
    files = _write(items, folder)
    read = reading(TOP, files, (f"u_{number}" for number in range(len(items))))
    commands = [*read, *target.mapper.script(TOP, pads=False), WRITE_NETLIST]
    map_design(target, commands, [COUNT], folder, _quiet)
    cells = read_cells(folder / STATISTICS, TOP)
    counts = [target.count(cells.get(f"u_{number}", {}))[0] for number in range(len(items))]
    return [{column: each[column] for column in COLUMNS} for each in counts]


def _quiet(_: str) -> None:
    """Nobody is told."""


def _write(items: Sequence[Item], folder: Path) -> list[str]:
    (folder / "mem").mkdir(parents=True)
    names: list[str] = []
    for file in dict.fromkeys(file for item in items for file in (*SUPPORT, *item.files)):
        path = folder / "rtl" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source(rtl_root() / file), encoding="utf-8")
        names.append(f"rtl/{file}")
    for item in items:
        if item.generated is not None and f"{item.generated.module}.sv" not in names:
            (folder / f"{item.generated.module}.sv").write_text(render_generated(item.generated), encoding="utf-8")
            names.append(f"{item.generated.module}.sv")
    inputs = outputs = 0
    lines: list[str] = []
    for number, item in enumerate(items):
        instance = item.instance
        parameters: dict[str, Any] = dict(instance.parameters)
        for name, text in item.memories.items():
            file = f"mem/{number}_{name}.mem"
            (folder / file).write_text(text, encoding="ascii")
            parameters[name] = f'"{file}"'
        pins: list[str] = []
        found = aside(instance.module, item.parameters)
        for port in instance.ports:
            wide = instance.branches or 1
            into = port.direction == "in"
            handshake = wide if not into else 1
            found += [(port.name, port.bits, into), (port.valid, handshake, into), (port.ready, handshake, not into)]
        for pin, bits, driven in found:
            if driven:
                pins.append(f".{pin}(i[{inputs}+:{bits}])")
                inputs += bits
            else:
                pins.append(f".{pin}(o[{outputs}+:{bits}])")
                outputs += bits
        pins += [f".{name}({value})" for name, value in instance.tied.items()]
        pins += [f".{name}()" for name in instance.unread]
        # Numbers of several streams or sources are one.
        wide = {n: f"{v.bit_length()}'d{v}" for n, v in parameters.items() if isinstance(v, int) and v >> 31 > 0}
        listed = ", ".join(f".{name}({value})" for name, value in {**parameters, **wide}.items())
        lines.append(f"  {instance.module} #({listed}) u_{number} (.clk, .rst, {', '.join(pins)});")
    head = f"module {TOP} (input logic clk, input logic rst, input logic [{max(inputs, 1) - 1}:0] i, "
    head += f"output logic [{max(outputs, 1) - 1}:0] o);"
    (folder / f"{TOP}.sv").write_text("\n".join([head, *lines, "endmodule", ""]), encoding="utf-8")
    return [*names, f"{TOP}.sv"]
