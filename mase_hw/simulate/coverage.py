"""Line and toggle coverage of a run, as Verilator's model counts it, summed up by module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mase_hw.errors import ResultsError
from mase_hw.host.documents import Json

FILE = "coverage.dat"
FLAGS = ("--coverage-line", "--coverage-toggle")
KINDS = ("line", "branch", "toggle")
_MAGIC = "# SystemC::Coverage-"


@dataclass(frozen=True)
class Point:
    """A place in the source that is covered once it was reached, or once a bit changed.

    Args:
        module: Name of the source file without its suffix.
        kind: ``line`` (a block), ``branch`` (one way of a decision) or ``toggle`` (one edge of one bit).
        line: Line in the source.
        column: Column in the source.
        what: Verilator's word for it: a signal, or the kind of block.
    """

    module: str
    kind: str
    line: int
    column: int
    what: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.what}"


@dataclass(frozen=True)
class Coverage:
    """How often each point was reached, over all instances and parameters of a module.

    Args:
        counts: By point.
    """

    counts: Mapping[Point, int]

    def share(self, kind: str, module: str | None = None) -> tuple[int, int]:
        """Points of a kind that were reached, and all of them; of one module, or of all."""
        of = [n for p, n in self.counts.items() if p.kind == kind and module in (None, p.module)]
        return sum(n > 0 for n in of), len(of)

    @property
    def modules(self) -> list[str]:
        """Every module with a point."""
        return sorted({point.module for point in self.counts})

    def missed(self, kind: str) -> list[Point]:
        """Points of a kind that were never reached."""
        return sorted(
            (p for p, n in self.counts.items() if p.kind == kind and not n), key=lambda p: (p.module, p.line, p.column)
        )

    def report(self) -> str:
        """A table for people."""
        names = [*self.modules, None]
        width = max(len(name or "all") for name in names)
        lines = [f"{'coverage':{width}}" + "".join(f"{kind:>22}" for kind in KINDS)]
        for name in names:
            cells = []
            for kind in KINDS:
                hit, total = self.share(kind, name)
                cells.append(f"{hit:7} of {total:5} {hit / total:5.0%}" if total else "-")
            lines.append(f"{name or 'all':{width}}" + "".join(f"{cell:>22}" for cell in cells))
        return "\n".join(lines)

    def to_json(self) -> Json:
        """Reached and all points, by module and kind."""
        return {
            name: {kind: dict(zip(("hit", "points"), self.share(kind, name), strict=True)) for kind in KINDS}
            for name in self.modules
        }


def read_coverage(paths: Iterable[Path]) -> Coverage:
    """Read what one or several runs of one simulator wrote, and add it up.

    Raises:
        ResultsError: If a file is missing, empty or cut short.
    """
    counts: Counter[Point] = Counter()
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
            lines = text.split("\n")
            if not lines[0].startswith(_MAGIC) or lines[-1] or len(lines) < 3:
                raise ValueError("the head, the end or everything is missing")
            for line in lines[1:-1]:
                point, count = _point(line)
                counts[point] += count
        except (OSError, ValueError, KeyError) as problem:
            raise ResultsError("the coverage of the run cannot be read", node=str(path), got=str(problem)) from problem
    return Coverage(dict(counts))


def _point(line: str) -> tuple[Point, int]:
    """A line is ``C '<key>' <count>``, the key a sequence of a byte 1, a name, a byte 2, a value."""
    key, count = line.removeprefix("C '").rsplit("' ", 1)
    fields = dict(part.split("\x02", 1) for part in key.split("\x01")[1:])
    point = Point(Path(fields["f"]).stem, fields["t"], int(fields["l"]), int(fields["n"]), fields["o"])
    return point, int(count)
