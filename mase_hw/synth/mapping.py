"""How a design is read, mapped and counted by Yosys, each instance of the top level by itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from mase_hw.emit.pack_ecp5 import pack
from mase_hw.errors import ToolError
from mase_hw.regress.job import write_json
from mase_hw.synth.targets import LATCHES, Counts, Target, cells_of, count_products, instance_of
from mase_hw.synth.tools import Tell, run_yosys

NETLIST, STATISTICS = "netlist.json", "statistics.json"
WRITE_NETLIST, COUNT = f"write_json {NETLIST}", f"tee -q -o {STATISTICS} stat -json"
_INTERNAL = frozenset({"$scopeinfo", "$print", "$check"})


def reading(top: str, files: Iterable[str], instances: Iterable[str]) -> list[str]:
    """Commands that read RTL so that every instance of the top level stays a module, and what is below is one piece.

    Args:
        top: The top module.
        files: Its RTL, dependencies first.
        instances: Names of the instances.
    """
    keep = " ".join(f"*${top}.{name}" for name in instances)
    return [
        f"read_slang -j 1 --keep-hierarchy --ignore-assertions --top {top} {' '.join(files)}",
        f"hierarchy -check -top {top}",
        *([f"setattr -mod -set keep_hierarchy 1 {keep}"] if keep else []),
    ]


def map_design(target: Target, commands: Sequence[str], written: Sequence[str], folder: Path, tell: Tell) -> None:
    """Map a design, with what the target does behind Yosys.

    Args:
        target: What it is mapped to.
        commands: Read and map it, and write :data:`NETLIST`.
        written: What is written of the mapped design besides, :data:`STATISTICS` among it.
        folder: Where Yosys runs.
        tell: Told which pass is at work.

    Raises:
        ToolError: If Yosys fails.
    """
    if not target.packs:
        run_yosys([*commands, *written], folder, "map.log", tell)
        if target.products:
            count_products(folder / STATISTICS, folder / NETLIST)
        return
    run_yosys(commands, folder, "map.log", tell)
    path = folder / NETLIST
    netlist = json.loads(path.read_text(encoding="utf-8"))
    write_json(folder / "packed.json", pack(netlist))
    path.write_text(json.dumps(netlist), encoding="utf-8")
    run_yosys([f"read_json {NETLIST}", *written], folder, "pack.log", tell)


def read_cells(path: Path, top: str) -> dict[str, Counts]:
    """Cells by type of every instance of the top level, and by an empty name of the top level itself.

    Args:
        path: What ``stat -json`` wrote.
        top: The top module.

    Raises:
        ToolError: If the file is not what Yosys writes, or a latch was made.
    """
    try:
        modules = json.loads(path.read_text(encoding="utf-8"))["modules"]
        cells: dict[str, Counts] = {}
        for name, entry in modules.items():
            # A flat module has no submodules; names of modules hold a dollar, those of cells may begin with one.
            own = {
                kind: n for kind, n in cells_of(entry).items() if f"\\{kind}" not in modules and kind not in _INTERNAL
            }
            cells[instance_of(name.removeprefix("\\"), top)] = own
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ToolError("Yosys's statistics cannot be read", node=str(path), got=repr(problem)) from problem
    latches = sorted(f"{i}: {kind}" for i, kinds in cells.items() for kind in kinds if LATCHES.fullmatch(kind))
    if latches:
        raise ToolError("the netlist has latches", node=top, got=", ".join(latches))
    return cells
