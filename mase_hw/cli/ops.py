"""The subcommand ``ops``."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from mase_hw.cli._common import OK

HELP = "list the catalogue of ops"


def configure(parser: argparse.ArgumentParser) -> None:
    """The command takes none."""


def run(arguments: argparse.Namespace) -> int:
    """Print the catalogue."""
    from mase_hw.catalogue import default_catalogue

    table = Table("op", "kind", "torch", "hardware", box=None, pad_edge=False)
    others = []
    for op in default_catalogue():
        if op.hardware is None and not op.implicit:
            others.append(op.name)
            continue
        targets = [*(m.__name__ for m in op.modules), *(f.__name__ for f in op.functions)]
        targets += [f".{method}()" for method in op.methods]
        module = op.hardware.module if op.hardware else "none needed"
        table.add_row(op.name, op.mase_type or "structural", ", ".join(dict.fromkeys(targets)) or "-", module)
    console = Console()
    console.print(table)
    console.print("\nKnown to the analysis passes, not in hardware:")
    console.print(", ".join(sorted(others)), highlight=False)
    return OK
