"""Draw the rooms of the package from their imports: ``python -m scripts.architecture``, or ``--check``.

A room is a folder of ``mase_hw``. The modules beside the folders that import no room are one box at the bottom; one
that imports a room has a box of its own. An arrow leads from a room to what it imports. Arrows that others imply are
left out, so that the order can be seen: the longest chain of imports stands in one column.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "architecture.svg"
PACKAGE = "mase_hw"
BASE = "base"
HIDDEN = {"__init__", "_version", "flow"}
"""Names that only lead to others: the public interface, and former names."""

WIDTH, HEIGHT, GAP, MARGIN = 330, 58, 26, 14
SIDE = 250
"""Width of the boxes beside the main column."""
OUT, IN = 20, HEIGHT - 16
"""Where arrows to and from the side meet a box, in pixels below its top."""
Box = tuple[float, float, float, float]
"""Left, top, width and height in pixels."""


@functools.cache
def imports() -> dict[str, set[str]]:
    """What every room imports; modules beside the rooms that import none are :data:`BASE`."""
    files = (ROOT / PACKAGE).rglob("*.py")
    known = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p for p in files}
    found: dict[str, set[str]] = {}
    for module, path in sorted(known.items()):
        if place := _place(module):
            below = {_place(name) for name in _imported(path, set(known))} - {"", place}
            found.setdefault(place, set()).update(below)
    base = _base(found)
    merged: dict[str, set[str]] = {BASE: set()}
    for place, below in found.items():
        if place not in base:
            merged[place] = {BASE if other in base else other for other in below}
    return merged


def _place(module: str) -> str:
    """The folder or the module beside the folders to which a module belongs."""
    parts = module.split(".")[1:]
    return "" if not parts or parts[0] in HIDDEN else parts[0]


def _base(found: Mapping[str, set[str]]) -> set[str]:
    """Modules beside the folders that need no folder, directly or through each other."""
    base = {place for place in found if not (ROOT / PACKAGE / place).is_dir()}
    while outside := {place for place in base if not found[place] <= base}:
        base -= outside
    return base


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Some statements and those inside them, without the expressions, of which there are ten times as many."""
    for each in body:
        yield each
        for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(each, inner, ()))


def _imported(path: Path, known: set[str]) -> Iterator[str]:
    for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
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

    @functools.cache
    def reach(room: str) -> set[str]:
        return {room}.union(*(reach(other) for other in rooms[room]))

    return {
        room: {one for one in below if not any(one in reach(other) for other in below - {one})}
        for room, below in rooms.items()
    }


def purpose(room: str) -> str:
    """The first sentence of a room's documentation; of the base, its modules."""
    if room == BASE:
        rooms = imports()
        return ", ".join(sorted(p.stem for p in (ROOT / PACKAGE).glob("*.py") if p.stem not in HIDDEN | set(rooms)))
    folder = ROOT / PACKAGE / room
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
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
    """The row of a room: of one beside the main column, below the lowest room that imports it."""
    if room in chain:
        return chain.index(room)
    return max((_row(user, rooms, chain) for user in rooms if room in rooms[user]), default=-1) + 1


def layout(rooms: Mapping[str, set[str]]) -> dict[str, Box]:
    """Where every box stands: the main column on the left, every other room beside it."""
    chain = main_column(rooms)
    at: dict[str, Box] = {
        room: (MARGIN, MARGIN + row * (HEIGHT + GAP), WIDTH, HEIGHT) for row, room in enumerate(chain)
    }
    drawn = reduced(rooms)
    taken: dict[int, list[range]] = {}
    """Rows that are in use of every column beside the main one, arrows included; the lowest rooms stand innermost."""
    beside = sorted(((_row(room, rooms, chain), room) for room in set(rooms) - set(chain) - {BASE}), reverse=True)
    for row, room in beside:
        ends = [chain.index(other) if other in chain else len(chain) for other in drawn[room]]
        rows = range(row - 1, max(ends, default=row) + 1)
        column = next(i for i in range(len(rooms)) if not any(set(rows) & set(used) for used in taken.get(i, ())))
        taken.setdefault(column, []).append(rows)
        at[room] = (MARGIN + WIDTH + 40 + column * (SIDE + 24), MARGIN + row * (HEIGHT + GAP), SIDE, HEIGHT)
    right = max(left + width for left, _, width, _ in at.values())
    at[BASE] = (MARGIN, MARGIN + len(chain) * (HEIGHT + GAP), right - MARGIN, HEIGHT)
    return at


def _arrow(start: Box, end: Box) -> str:
    """From a room to one below it: straight down, or round one corner.

    An arrow to the side leaves a box in its upper half and enters one in its lower half, so that no two share a line.
    """
    (left, top, width, height), (to_left, to_top, to_width, _) = start, end
    middle = left + width / 2
    if to_left <= middle <= to_left + to_width:
        points = [(middle, top + height), (middle, to_top)]
    elif middle < to_left:
        points = [(left + width, top + OUT), (to_left + to_width / 2, top + OUT)]
        points.append((points[-1][0], to_top))
    else:
        points = [(middle, top + height), (middle, to_top + IN), (to_left + to_width, to_top + IN)]
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
