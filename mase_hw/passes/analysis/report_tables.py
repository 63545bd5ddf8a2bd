"""What all reports share: tables on the terminal, text or JSON in a file, and metadata as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import AliasChoices, ConfigDict, Field
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text
from torch import fx

from mase_hw.errors import ConfigError
from mase_hw.host.disk import write_whole
from mase_hw.host.shown import paper
from mase_hw.ir.records import plain
from mase_hw.passes.base import Info, PassArgs


class ReportArgs(PassArgs):
    """Arguments of every report."""

    model_config = ConfigDict(populate_by_name=True)

    file_name: Path | None = Field(
        default=None,
        validation_alias=AliasChoices("file_name", "save_path"),
        description="file to write instead of the terminal: ``info`` as JSON if the name ends in ``.json``, else the "
        "tables as text; its folder is made",
    )
    show: bool = Field(default=True, description="print to the terminal if no file is given")


@dataclass(frozen=True)
class Table:
    """A table of plain strings, drawn at the width of the terminal or, in a file, as wide as it is.

    Args:
        title: Shown above it.
        columns: Headings; one that starts with ``>`` is of right-aligned numbers.
        rows: Cells, as many as columns.
        total: A last row, set off.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    total: Sequence[str] = ()

    def draw(self) -> RichTable:
        """The table for rich; cells are Text, so that the brackets of a shape are not read as markup."""
        table = RichTable(
            title=Text(self.title), box=box.SIMPLE_HEAD, title_justify="left", show_footer=bool(self.total)
        )
        for heading, footer in zip(self.columns, self.total or [""] * len(self.columns), strict=True):
            name = Text(heading.removeprefix(">"))
            if heading.startswith(">"):
                table.add_column(name, Text(footer), justify="right", overflow="fold")
            else:
                table.add_column(name, Text(footer), overflow="fold")
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table


Section = Table | str


def publish(sections: Sequence[Section], info: Info, args: ReportArgs) -> None:
    """Print a report, or write it to the file that was asked for.

    Raises:
        ConfigError: If the file cannot be written; one that was there stays as it was.
    """
    if args.file_name is None:
        if args.show:
            console = Console(soft_wrap=False)
            _draw(sections, console if console.is_terminal else Console(width=_width(sections)))
        return
    if args.file_name.suffix == ".json":
        text = json.dumps(info, indent=2) + "\n"
    else:
        console, buffer = paper(_width(sections))
        _draw(sections, console)
        text = "".join(f"{line.rstrip()}\n" for line in buffer.getvalue().splitlines())
    _write(args.file_name, text)


def _draw(sections: Sequence[Section], console: Console) -> None:
    for section in sections:
        console.print(section.draw() if isinstance(section, Table) else Text(section))


def _width(sections: Sequence[Section]) -> int:
    """Columns that hold every table unfolded: for files and pipes, which have no width of their own."""
    console, _ = paper(1_000_000)
    tables = [s.draw() for s in sections if isinstance(s, Table)]
    widths = [Measurement.get(console, console.options, table).maximum for table in tables]
    lines = [len(line) for text in sections if isinstance(text, str) for line in text.splitlines()]
    return max([80, *widths, *lines])


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    try:
        write_whole(path, text)
    except OSError as error:
        raise ConfigError(
            "the report cannot be written",
            field="file_name",
            got=f"{path}: {error.strerror or error}",
            remedy="choose another file, or check its permissions and the free space",
        ) from error


def jsonable(value: Any) -> Any:
    """Metadata as JSON: tensors by shape and type, nodes by name, everything else that JSON lacks as text."""
    value = plain(value)
    if isinstance(value, torch.Tensor):
        return {"shape": list(value.shape), "dtype": str(value.dtype)}
    if isinstance(value, dict):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(v) for v in value]
    if isinstance(value, fx.Node):
        return value.name
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return value
    return str(value)
