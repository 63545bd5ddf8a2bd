"""How much of ``torch.nn`` is in hardware, as a table and as a number.

The list is in ``coverage.json``, which ``scripts/reference.py`` makes from PyTorch and the catalogue, because asking
either loads PyTorch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from mase_hw.host.documents import Json

LIST = Path(__file__).with_suffix(".json")
HARDWARE, LOWERED, ANALYSIS, MISSING, NO_SENSE = "hardware", "lowered", "analysis only", "missing", "no sense"
"""What can be said of a layer; the last one does not count."""
KINDS = {"layers": "layers of torch.nn", "functionals": "functions of torch.nn.functional"}


class Row(NamedTuple):
    """A layer or a function.

    Args:
        name: In ``torch.nn`` or ``torch.nn.functional``.
        status: One of the five.
        detail: Its module, what it becomes, or why it is not counted.
    """

    name: str
    status: str
    detail: str


def rows() -> dict[str, list[Row]]:
    """The list, by kind."""
    found = json.loads(LIST.read_text(encoding="utf-8"))
    return {kind: [Row(*row) for row in found[kind]] for kind in KINDS}


def share(found: Iterable[Row]) -> tuple[int, int]:
    """How many are in hardware or lowered, and how many make sense there."""
    counted = [row for row in found if row.status != NO_SENSE]
    return sum(row.status in (HARDWARE, LOWERED) for row in counted), len(counted)


def sentence(kind: str, found: Iterable[Row]) -> str:
    """The number."""
    covered, counted = share(found)
    return (
        f"{covered} of {counted} {KINDS[kind]} that make sense for inference on fixed shapes: {covered / counted:.0%}"
    )


def counted() -> Json:
    """The list and the share of each kind, for programs."""
    listed = {}
    for kind, found in rows().items():
        covered, of = share(found)
        listed[kind] = {"covered": covered, "counted": of, "rows": [row._asdict() for row in found]}
    return listed


def show() -> None:
    """Print the list, and the share of each kind."""
    console, found = Console(), rows()
    for kind, listed in found.items():
        table = Table(kind, "status", "hardware, or why not", box=None, pad_edge=False)
        for row in sorted(listed, key=lambda r: ([HARDWARE, LOWERED, ANALYSIS, MISSING, NO_SENSE].index(r.status), r)):
            table.add_row(*row)
        console.print(table)
        console.print()
    for kind, listed in found.items():
        console.print(sentence(kind, listed), highlight=False)
