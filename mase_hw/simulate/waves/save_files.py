"""Save files for GTKWave (``.gtkw``) and command files for Surfer (``.sucl``), which show waves by node.

GTKWave: the lines of its ``savefile.c``; a line of flags holds for the signals behind it. Surfer: its commands, one a
line (https://docs.surfer-project.org/book/); items are added first and formatted by their number afterwards, which is
written in hexadecimal with the letters a to p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mase_hw.host.disk import write_whole
from mase_hw.simulate.waves.shown import Shown, groups

GTKWAVE, SURFER = ".gtkw", ".sucl"
MOST_LANES = 8
"""Lanes of a stream that are listed; all are in the waves."""
MARKER = "first_wrong_beat"
_DECIMAL, _BINARY, _RIGHT, _BLANK, _SIGNED = 1 << 2, 1 << 3, 1 << 5, 1 << 9, 1 << 10
_BEGIN, _END, _SHIFT = 1 << 23, 1 << 24, 1 << 30
_MARKERS = 26
"""Named markers of GTKWave."""


@dataclass(frozen=True)
class Mark:
    """Where a run goes wrong.

    Args:
        time: In the unit of the waves.
        output: The port.
        lane: The first lane that is wrong.
    """

    time: int
    output: str
    lane: int


def write_save_files(waves: Path, top: str, streams: Sequence[Shown], mark: Mark | None) -> tuple[Path, Path]:
    """Write both beside the waves.

    Args:
        waves: The FST.
        top: Path of the top level in it.
        streams: What is shown.
        mark: The first wrong beat; None if there is none.

    Returns:
        The save file of GTKWave, and the command file of Surfer.

    Raises:
        OSError: If they cannot be written.
    """
    made = []
    for suffix, text in ((GTKWAVE, gtkwave(waves.name, top, streams, mark)), (SURFER, surfer(top, streams, mark))):
        file = waves.with_suffix(suffix)
        write_whole(file, text)
        made.append(file)
    return made[0], made[1]


def gtkwave(waves: str, top: str, streams: Sequence[Shown], mark: Mark | None) -> str:
    """The save file of GTKWave.

    Args:
        waves: Name of the FST beside it.
        top: Path of the top level in it.
        streams: What is shown.
        mark: Where the marker is.
    """
    time = -1 if mark is None else mark.time
    lines = [
        "[*] Written by mase_hw: streams by node, lanes as fixed-point numbers",
        f'[dumpfile] "{waves}"',
        f"*0.0 {time} {time}" + " -1" * (_MARKERS - 1),
        *([] if mark is None else [f"[markername] A{MARKER}"]),
        f"@{_BINARY | _RIGHT:x}",
        f"{top}.clk",
        f"{top}.rst",
    ]
    for group, members in groups(streams).items():
        lines += [f"@{_BEGIN | _BLANK:x}", f"-{group}"]
        for stream in members:
            lines += [f"@{_BEGIN | _BLANK:x}", f"-{stream.name}", f"@{_BINARY | _RIGHT:x}"]
            lines += [f"{top}.{stream.scope}.{part}" for part in ("valid", "ready")]
            shifted = stream.frac_width > 0 and stream.width > 1  # GTKWave shifts to the right only
            flags = _RIGHT | (_SIGNED if stream.signed else _DECIMAL) | (_SHIFT if shifted else 0)
            lines.append(f"@{flags:x}")
            for lane in listed(stream, mark):
                lines += [f"[fpshift_count] {stream.frac_width}"] if shifted else []
                lines.append(f"{top}.{stream.scope}.lane_{lane}{stream.range}")
            lines += [f"@{_END | _BLANK:x}", f"-{stream.name}"]
        lines += [f"@{_END | _BLANK:x}", f"-{group}"]
    return "\n".join([*lines, ""])


def surfer(top: str, streams: Sequence[Shown], mark: Mark | None) -> str:
    """The command file of Surfer.

    Args:
        top: Path of the top level in the waves.
        streams: What is shown.
        mark: Where the cursor and the marker are.
    """
    commands = ["# Written by mase_hw: streams by node, lanes as fixed-point numbers"]
    items = [f"variable_add {top}.clk", f"variable_add {top}.rst"]
    formats: dict[int, str] = {}
    for group, members in groups(streams).items():
        items.append(f"divider_add {group}")
        for stream in members:
            items.append(f"divider_add {stream.name}")
            items += [f"variable_add {top}.{stream.scope}.{part}" for part in ("valid", "ready")]
            for lane in listed(stream, mark):
                formats[len(items)] = f"{'Signed' if stream.signed else 'Unsigned'} fixed point"
                items.append(f"variable_add {top}.{stream.scope}.lane_{lane}")
    commands += items
    for number, name in formats.items():
        commands += [f"item_focus {letters(number)}_", f"item_set_format {name}"]
    commands.append("item_unfocus")
    if mark is not None:
        commands += [f"cursor_set {mark.time}", f"marker_set {MARKER} {mark.time}"]
    return "\n".join([*commands, ""])


def listed(stream: Shown, mark: Mark | None) -> list[int]:
    """The lanes of a stream that are listed: the first ones, and the one that is wrong."""
    found = list(range(min(stream.lanes, MOST_LANES)))
    if mark is not None and stream.output == mark.output and mark.lane not in found:
        found.append(mark.lane)
    return found


def letters(number: int) -> str:
    """A number of an item as Surfer takes it: hexadecimal, digits as the letters a to p."""
    return "".join("abcdefghijklmnop"[int(digit, 16)] for digit in f"{number:x}")
