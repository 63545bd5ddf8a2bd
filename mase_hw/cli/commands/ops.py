"""The subcommand ``ops``.

It reads its list from ``ops.json``, which ``scripts/reference.py`` makes from the catalogue, because loading the
catalogue loads PyTorch.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column, Table

from mase_hw.cli import coverage
from mase_hw.cli._common import OK
from mase_hw.cli.answers import answer
from mase_hw.host.documents import Json

if TYPE_CHECKING:
    from mase_hw.opdef import OpDef

HELP = "list the catalogue of ops"
LIST = Path(__file__).with_suffix(".json")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--coverage", action="store_true", help="say of every layer and function of torch.nn what it becomes, and count"
    )


def listed(ops: Iterable[OpDef]) -> str:
    """The list as JSON: of every op with hardware name, kind, torch targets and module; names of the others."""
    rows, others = [], []
    for op in ops:
        if op.hardware is None and not op.implicit:
            others.append(op.name)
            continue
        targets = [*(m.__name__ for m in op.modules), *(f.__name__ for f in op.functions)]
        targets += [f".{method}()" for method in op.methods]
        module = op.hardware.module if op.hardware else "none needed"
        rows.append([op.name, op.mase_type or "structural", ", ".join(dict.fromkeys(targets)) or "-", module])
    return json.dumps({"ops": rows, "others": sorted(others)}, indent=1) + "\n"


def run(arguments: argparse.Namespace) -> int:
    """Print the catalogue, or how much of PyTorch it covers."""
    if arguments.coverage:
        return answer(arguments, OK, coverage.counted(), coverage.show)
    found = json.loads(LIST.read_text(encoding="utf-8"))
    ops = [dict(zip(("op", "kind", "torch", "hardware"), row, strict=True)) for row in found["ops"]]
    return answer(arguments, OK, {**found, "ops": ops}, lambda: _show(found))


def _show(found: Json) -> None:
    name = Column("op", min_width=max(len(row[0]) for row in found["ops"]))
    table = Table(name, "kind", "torch", "hardware", box=None, pad_edge=False)
    for row in found["ops"]:
        table.add_row(*row)
    console = Console()
    console.print(table)
    console.print("\nKnown to the analysis passes, not in hardware:")
    console.print(", ".join(found["others"]), highlight=False)
