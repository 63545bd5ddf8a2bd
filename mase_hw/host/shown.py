"""Results as people see them: the same text in a terminal, in a file and in a notebook."""

from __future__ import annotations

import html
import io
import time
from abc import ABC, abstractmethod
from pathlib import Path, PosixPath
from typing import Any

import jinja2
from rich.console import Console

_REFRESH = 0.2
"""Seconds between two states of a bar."""
_HEIGHT = 720
"""Pixels of a page inside a notebook."""


class Shown(ABC):
    """A result that has a text for people, which a notebook shows, and one line for everything else."""

    @abstractmethod
    def text(self) -> str:
        """Tables and sentences for people."""

    @abstractmethod
    def headline(self) -> str:
        """What matters most, in one line."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.headline()})"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text())}</pre>"


class Page(PosixPath):
    """The file of an HTML page, which a notebook shows."""

    def _repr_html_(self) -> str:
        text = html.escape(self.read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{text}" style="width:100%;height:{_HEIGHT}px;border:0"></iframe>'


def rendered(template: Path, **values: Any) -> str:
    """An HTML page of a template and its values, all of which it must find."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template.parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template.name).render(**values)


class NotebookProgress:
    """What is told while something works, in the output of a notebook's cell: lines, and a bar for what is counted.

    ``mase_hw.compile(..., progress=mase_hw.NotebookProgress())``; functions that take ``progress`` take it.
    """

    def __init__(self) -> None:
        from IPython import get_ipython
        from IPython.display import display

        self._lines: list[str] = []
        self._bars: dict[str, str] = {}
        self._next = 0.0
        self._handle: Any = display(self, display_id=True)
        notebook = get_ipython()
        if notebook is not None:
            notebook.events.register("post_run_cell", lambda *_: self._show())

    def __call__(self, line: object) -> None:
        """Add a line; what was counted before is over."""
        self._lines.append(str(line))
        self._show()

    def count(self, what: str, done: int, total: int | None, unit: str) -> None:
        """Show how far something is; see :class:`mase_hw.host.progress.Counting`."""
        of = "" if total is None else f' value="{done}" max="{total}"'
        counted = f"{done:,} {unit}" if total is None else f"{done:,} of {total:,} {unit}"
        self._bars[what] = f"<div>{html.escape(what)} <progress{of}></progress> {html.escape(counted)}</div>"
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _REFRESH
            self._handle.update(self)

    def _show(self) -> None:
        """Show the lines; a bar is there while nothing else is said, and until the cell is done."""
        self._bars.clear()
        self._handle.update(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(chr(10).join(self._lines))}</pre>{''.join(self._bars.values())}"


def paper(width: int) -> tuple[Console, io.StringIO]:
    """A console that writes plain text, and the text: nothing of it goes to the terminal or the notebook it runs in.

    Args:
        width: Columns.
    """
    text = io.StringIO()
    return Console(file=text, width=width, color_system=None, force_terminal=False, force_jupyter=False), text
