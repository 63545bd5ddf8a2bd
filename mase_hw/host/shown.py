"""Results as people see them: the same text in a terminal, in a file and in a notebook."""

from __future__ import annotations

import html
import io
from abc import ABC, abstractmethod

from rich.console import Console


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


def paper(width: int) -> tuple[Console, io.StringIO]:
    """A console that writes plain text, and the text: nothing of it goes to the terminal or the notebook it runs in.

    Args:
        width: Columns.
    """
    text = io.StringIO()
    return Console(file=text, width=width, color_system=None, force_terminal=False, force_jupyter=False), text
