"""What a command says while it works: lines, and on a terminal a bar with the rate and the time left."""

from __future__ import annotations

import argparse
import sys
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text


class _Rate(ProgressColumn):
    """How much is done a second; a minute, if it is less than one a second."""

    def render(self, task: Task) -> Text:
        """The rate as text."""
        speed, unit = task.finished_speed or task.speed, task.fields.get("unit", "")
        if not speed:
            return Text(unit)
        return Text(f"{speed:,.1f} {unit}/s" if speed >= 1 else f"{speed * 60:,.1f} {unit}/min")


class _Done(ProgressColumn):
    """How much is done, of how much."""

    def render(self, task: Task) -> Text:
        """As text."""
        return Text(f"{task.completed:,.0f}/{'?' if task.total is None else f'{task.total:,.0f}'}")


class Voice:
    """Tells lines.

    Args:
        lines: Where lines go.
    """

    def __init__(self, lines: TextIO) -> None:
        self._lines = lines

    def __call__(self, line: object) -> None:
        """Print a line at once."""
        self.quiet()
        print(line, file=self._lines, flush=True)

    def quiet(self) -> None:
        """Take away what is no line."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.quiet()


class Bars(Voice):
    """Tells lines, and shows how far work is while nothing else is said; a bar is gone before a line is printed.

    Args:
        lines: Where lines go.
        terminal: Where bars go.
    """

    def __init__(self, lines: TextIO, terminal: TextIO) -> None:
        super().__init__(lines)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(24),
            _Done(),
            _Rate(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(file=terminal, force_terminal=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._shown = False
        self._tasks: dict[str, TaskID] = {}

    def count(self, what: str, done: int, total: int | None, unit: str) -> None:
        """Show how far something is; see :class:`mase_hw.host.progress.Counting`."""
        if not self._shown:
            self._bars.start()
            self._shown = True
        if what not in self._tasks:
            self._tasks[what] = self._bars.add_task(what, total=total, unit=unit)
        self._bars.update(self._tasks[what], completed=done, total=total)
        if total is not None and done >= total:
            self._bars.remove_task(self._tasks.pop(what))

    def quiet(self) -> None:
        """Take the bars away; rates go on where they were."""
        if self._shown:
            self._bars.stop()
            self._shown = False


def voice(arguments: argparse.Namespace, *, aside: bool = False) -> Voice:
    """The voice of a command, with bars if its standard error output is a terminal.

    With ``--json`` the standard output is for the answer alone.

    Args:
        arguments: Of the command line.
        aside: Lines are no part of the answer in any case.
    """
    lines = sys.stderr if arguments.json or aside else sys.stdout
    return Bars(lines, sys.stderr) if sys.stderr.isatty() else Voice(lines)
