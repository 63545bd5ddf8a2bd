"""Netlist replay: the mapped netlist, simulated with the bundle's vectors, must give the same bits as the RTL.

Mapping tools have bugs of their own, so that a correct RTL is not enough. The models of the cells are Yosys's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mase_hw.design.design import Design
from mase_hw.design.vectors import Played, Sides
from mase_hw.errors import ConfigError, ToolError
from mase_hw.host.documents import Json
from mase_hw.host.resources import sim_root
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines import batch
from mase_hw.simulate.plan import DEFAULTS, Limits, SimulationOptions, Stalls
from mase_hw.synth.targets import Target
from mase_hw.synth.tools import Tell, yosys_data

FOREIGN = {
    "COMBDLY": "the vendor's models assign combinational outputs with <=",
    "INITIALDLY": "the vendor's models set initial values with <=",
    "PINMISSING": "a netlist leaves out the pins of a cell that carry nothing",
    "UNOPTFLAT": "a cell's model is one block, so its other pins look like a loop; Yosys looks for real ones",
    "WIDTHEXPAND": "the vendor's models count in 32 bits",
    "WIDTHTRUNC": "a look-up table is a constant shifted by its inputs, of which one bit is taken",
}
"""What Verilator may say of a netlist and of the vendor's models of its cells, and why it is no fault."""
STALLS = 0.3
NEXUS_MODELS, NEXUS_FUNCTION = "cells_sim_nexus.v", "parse_init.vh"
"""Models of Nexus, which read the contents of a look-up table by a function that lies beside them."""
_MACRO = re.compile(r"^`define[ \t]+(\w+)(?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE)
_SPECIFY = re.compile(r"^\s*specify\b.*?\bendspecify\b[^\n]*$", re.DOTALL | re.MULTILINE)
_OPEN_RESET = re.compile(r"^(\s*input\s+RST\w+)", re.MULTILINE)
_MODULE = re.compile(r"^(?:\(\*[^\n]*\*\)\s*)*module\s+(\\?[\w$]+)\b.*?^\s*endmodule", re.DOTALL | re.MULTILINE)


def cell_models(files: Sequence[Path], cells: set[str]) -> str:
    """The models of these cells, and of what they use, without their path delays.

    Raises:
        ToolError: If there is no model of a cell, or an empty one.
    """
    models: dict[str, str] = {}
    macros: dict[str, str] = {}
    for file in files:
        text = _SPECIFY.sub("", file.read_text(encoding="utf-8"))
        if file.name == NEXUS_MODELS:
            function = file.with_name(NEXUS_FUNCTION)
            text = text.replace(f'`include "{NEXUS_FUNCTION}"', function.read_text(encoding="utf-8"))
        for macro in _MACRO.finditer(text):
            # Of alternatives the last: iCE40's without values of unconnected inputs, with which Verilator simulates
            # something else.
            macros[macro.group(1)] = macro.group(0)
        models |= {match.group(1).lstrip("\\"): match.group(0) for match in _MODULE.finditer(text)}
    if "DSP48E1" in models:
        # Yosys leaves the reset of the register behind the pre-adder open: read as 0 here, see docs/synthesis.md.
        models["DSP48E1"] = _OPEN_RESET.sub(r"\1 = 1'b0", models["DSP48E1"])
    wanted, chosen = sorted(cells), dict[str, str]()
    while wanted:
        cell = wanted.pop()
        if cell in chosen:
            continue
        if cell not in models:
            raise ToolError(
                "a cell of the netlist has no simulation model",
                node=cell,
                remedy="use a target whose netlist can be simulated: generic or xc7",
            )
        chosen[cell] = models[cell]
        words = set(re.findall(r"[\w$]+", models[cell] + _definitions(models[cell], macros)))
        wanted += sorted((words & models.keys()) - chosen.keys())
    return _definitions("".join(chosen.values()), macros) + "".join(f"{chosen[cell]}\n\n" for cell in sorted(chosen))


def _definitions(text: str, macros: Mapping[str, str]) -> str:
    """Those of the macros that a text uses, and of what they use."""
    used: set[str] = set()
    fresh = {"": text}
    while fresh:
        words = {word for each in fresh.values() for word in re.findall(r"`(\w+)", each)}
        fresh = {name: macros[name] for name in (words & macros.keys()) - used}
        used |= fresh.keys()
    return "".join(f"{macros[name]}\n" for name in sorted(used))


def without_model(files: Sequence[Path], cells: set[str]) -> list[str]:
    """The cells that these files have no model of, or an empty one."""
    missing = []
    for cell in sorted(cells):
        try:
            model = cell_models(files, {cell})
        except ToolError:
            missing.append(cell)
            continue
        if not re.search(r"\b(assign|always|[Gg]enerate)\b", model):
            missing.append(cell)
    return missing


def model_files(target: Target) -> list[Path]:
    """The files with the models of a target's cells."""
    ours = "ours/"
    return [
        sim_root() / "cells" / name.removeprefix(ours) if name.startswith(ours) else yosys_data(name)
        for name in target.models
    ]


def replay(
    design: Design, netlist: Path, files: Sequence[Path], cells: set[str], folder: Path, cache: Path, tell: Tell
) -> Json:
    """Simulate a netlist against the vectors of its bundle, at full rate and with random stalls.

    Args:
        design: The bundle.
        netlist: Verilog.
        files: Models of its cells.
        cells: Types of its cells.
        folder: Where to build and run.
        cache: The build cache.
        tell: Told what is being done.

    Returns:
        What was compared, as JSON types; ``text`` is for people.

    Raises:
        MismatchError: At least one bit differs.
        SimulationError: There is no complete verdict.
        ToolError: A cell has no model.
    """
    dut = netlist_dut(design, netlist, files, cells, folder)
    tell("building the simulator of the netlist")
    played = Played.of(*vectors_of(design), design.streams)
    built = batch.build(dut, folder / "build", cache_dir=cache, cycles=DEFAULTS.cycles(design.timing, played.frames))
    beats, cycles = 0, 0
    for name, stalls in (("full", Stalls.none()), ("stalls", Stalls.random(STALLS, STALLS))):
        limits = Limits.of(design.timing, played.frames, stalls)
        options = SimulationOptions("batch", 1, stalls)
        result = batch.simulate(built, folder / f"run-{name}", played.beats_in, played.beats_out, limits, options)
        result.raise_on_failure()
        beats, cycles = beats + result.beats_compared, cycles + result.cycles
    text = f"netlist replay: {beats} beats compared at full rate and with stalls, 0 mismatches, {cycles} cycles"
    return {"beats": beats, "cycles": cycles, "mismatches": 0, "text": text}


def netlist_dut(design: Design, netlist: Path, files: Sequence[Path], cells: set[str], folder: Path) -> Dut:
    """What is simulated: the models of the cells, written to ``folder``, and the netlist.

    Raises:
        ToolError: A cell has no model.
    """
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "cells.v"
    library.write_text("`timescale 1ps / 1ps\n" + cell_models(files, cells), encoding="utf-8")
    streams = tuple(design.streams.values())
    return Dut(design.record.top, (library, netlist), streams=streams, foreign=tuple(FOREIGN))


def vectors_of(design: Design) -> Sides:
    """The bundle's own vectors.

    Raises:
        ConfigError: If it has none.
    """
    if design.record.vectors is None:
        raise ConfigError(
            "the bundle has no vectors, so its netlist cannot be simulated",
            node=str(design.path),
            remedy="compile it with vectors, or synthesise without replay",
        )
    return design.vectors()
