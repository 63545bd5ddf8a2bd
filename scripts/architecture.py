"""Draw the rooms of the package from their imports: ``python -m scripts.architecture``, or ``--check``.

A room is a folder of ``mase_hw``; the modules beside the folders, which import no room, are one box at the bottom. An
arrow leads from a room to what it imports. Arrows that others imply are left out, so that the order can be seen: the
longest chain of imports stands in one column, with what a model becomes on its way from the bottom to the top.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "architecture.svg"
PACKAGE = "mase_hw"
BASE = "base"
HIDDEN = {"__init__", "_version", "flow"}
"""Names that only lead to others: the public interface, and former names."""

ROOMS_OF_ONE = {"catalogue"}
"""Modules beside the rooms that import rooms: each is a room of its own."""

WIDTH, HEIGHT, GAP, MARGIN = 330, 58, 26, 14
SIDE = 250
"""Width of the boxes beside the main column."""
Box = tuple[float, float, float, float]
"""Left, top, width and height in pixels."""


def imports() -> dict[str, set[str]]:
    """What every room imports; all modules beside the rooms are :data:`BASE`."""
    files = (ROOT / PACKAGE).rglob("*.py")
    known = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in files}
    found: dict[str, set[str]] = {}
    for module, path in sorted(known.items()):
        room = _room(module)
        if room:
            below = {_room(name) for name in _imported(path, set(known))} - {"", room}
            found.setdefault(room, set()).update(below)
    return found


def _room(module: str) -> str:
    parts = module.split(".")[1:]
    if not parts or parts[0] in HIDDEN:
        return ""
    return parts[0] if (ROOT / PACKAGE / parts[0]).is_dir() or parts[0] in ROOMS_OF_ONE else BASE


def _imported(path: Path, known: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith(f"{PACKAGE}."))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from (below & known) or {str(node.module)}


def ranks(rooms: Mapping[str, set[str]]) -> dict[str, int]:
    """Length of the longest chain of imports below every room.

    Raises:
        ValueError: If rooms import each other in a circle.
    """
    found: dict[str, int] = {}

    def rank(room: str, above: tuple[str, ...]) -> int:
        if room in above:
            raise ValueError(f"rooms import each other in a circle: {' -> '.join([*above, room])}")
        if room not in found:
            found[room] = max((1 + rank(other, (*above, room)) for other in rooms[room]), default=0)
        return found[room]

    for room in rooms:
        rank(room, ())
    return found


def reduced(rooms: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Without the imports that follow from others."""

    def reach(room: str) -> set[str]:
        return {room}.union(*(reach(other) for other in rooms[room]))

    return {
        room: {one for one in below if not any(one in reach(other) for other in below - {one})}
        for room, below in rooms.items()
    }


def purpose(room: str) -> str:
    """The first sentence of a room's documentation."""
    if room == BASE:
        return ", ".join(sorted(p.stem for p in (ROOT / PACKAGE).glob("*.py") if p.stem not in HIDDEN | ROOMS_OF_ONE))
    file = ROOT / PACKAGE / (f"{room}.py" if room in ROOMS_OF_ONE else f"{room}/__init__.py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].split(". ")[0].replace("\n", " ").replace("`", "").rstrip(".")


def main_column(rooms: Mapping[str, set[str]]) -> list[str]:
    """The longest chain of imports, from the top to just above the base."""
    height = ranks(rooms)
    chain = [max(rooms, key=lambda room: (height[room], room))]
    while height[chain[-1]] > 1:
        chain.append(max(rooms[chain[-1]], key=lambda room: (height[room], room)))
    return chain


def _row(room: str, rooms: Mapping[str, set[str]], chain: list[str]) -> int:
    """The row of a room beside the main column: below the lowest room that imports it."""
    return max((row for row, user in enumerate(chain) if room in rooms[user]), default=0) + 1


def layout(rooms: Mapping[str, set[str]]) -> dict[str, Box]:
    """Where every box stands: the main column on the left, every other room beside it."""
    chain = main_column(rooms)
    at: dict[str, Box] = {
        room: (MARGIN, MARGIN + row * (HEIGHT + GAP), WIDTH, HEIGHT) for row, room in enumerate(chain)
    }
    taken: list[int] = []
    """Of every column beside the main one, the row down to which it is in use."""
    for row, room in sorted((_row(room, rooms, chain), room) for room in set(rooms) - set(chain) - {BASE}):
        column = next((i for i, last in enumerate(taken) if last < row - 1), len(taken))
        taken[column : column + 1] = [len(chain) if rooms[room] else row]
        at[room] = (MARGIN + WIDTH + 40 + column * (SIDE + 24), MARGIN + row * (HEIGHT + GAP), SIDE, HEIGHT)
    right = max(left + width for left, _, width, _ in at.values())
    at[BASE] = (MARGIN, MARGIN + len(chain) * (HEIGHT + GAP), right - MARGIN, HEIGHT)
    return at


def _arrow(start: Box, end: Box) -> str:
    """From a room to one below it: straight down, or round one corner."""
    (left, top, width, height), (to_left, to_top, to_width, _) = start, end
    middle = left + width / 2
    if to_left <= middle <= to_left + to_width:
        points = [(middle, top + height), (middle, to_top)]
    elif middle < to_left:
        points = [(left + width, top + height / 2), (to_left + to_width / 2, top + height / 2)]
        points.append((points[-1][0], to_top))
    else:
        points = [(middle, top + height), (middle, to_top + HEIGHT / 2), (to_left + to_width, to_top + HEIGHT / 2)]
    path = " L ".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path d="M {path}" fill="none" stroke="#5b6470" stroke-width="1.4" marker-end="url(#tip)"/>'


def _card(room: str, box: Box) -> Iterator[str]:
    left, top, width, height = box
    fill = {BASE: "#eceff3"}.get(room, "#dbe9f6" if width == WIDTH else "#f5ecd7")
    yield (
        f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="5" fill="{fill}" stroke="#8794a3"/>'
    )
    name = "modules beside the rooms" if room == BASE else f"{PACKAGE}.{room}"
    yield f'<text x="{left + 10:g}" y="{top + 18:g}" font-weight="bold" font-size="13">{name}</text>'
    for row, line in enumerate(wrap(purpose(room), int((width - 16) / 5.8))[:2]):
        yield f'<text x="{left + 10:g}" y="{top + 34 + 14 * row:g}" font-size="11">{escape(line)}</text>'


def picture() -> str:
    """The picture as SVG; the same sources give the same bytes."""
    rooms = imports()
    at = layout(rooms)
    wide = max(left + width for left, _, width, _ in at.values()) + MARGIN
    high = max(top + height for _, top, _, height in at.values()) + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{high:g}" viewBox="0 0 {wide:g} {high:g}"'
        ' font-family="Helvetica, Arial, sans-serif" fill="#1d2630">',
        "<title>The rooms of mase_hw; an arrow leads from a room to what it imports</title>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M 0 0 L 8 4 L 0 8 z" fill="#5b6470"/></marker></defs>',
        f'<rect width="{wide:g}" height="{high:g}" fill="#ffffff"/>',
    ]
    lines += [_arrow(at[room], at[other]) for room, below in sorted(reduced(rooms).items()) for other in sorted(below)]
    lines += [line for room, box in at.items() for line in _card(room, box)]
    return "\n".join([*lines, "</svg>"]) + "\n"


def main(arguments: list[str]) -> int:
    """Write the picture, or with ``--check`` say whether it is the one of the sources."""
    new = picture()
    same = PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == new
    if not same and "--check" not in arguments:
        PICTURE.write_text(new, encoding="utf-8")
    if not same:
        print(f"{PICTURE.relative_to(ROOT)}: {'differs from the imports' if '--check' in arguments else 'written'}")
    return 1 if "--check" in arguments and not same else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
