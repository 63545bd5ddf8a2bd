"""Changes of the C++ that Verilator wrote, before it is compiled for a long run: the same results with less work.

The parts are independent of each other: copies of wide registers (``copies.py``), checks (``checks.py``), copies that
registers are computed in (``shadows.py``) and results that are kept (``kept.py``). Each replaces only what it has shown
to mean the same; whatever else there is stays as Verilator wrote it.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import Counter
from pathlib import Path

from mase_hw.simulate.engines.batch.checks import rare_first
from mase_hw.simulate.engines.batch.copies import as_memory
from mase_hw.simulate.engines.batch.kept import kept
from mase_hw.simulate.engines.batch.products import AS_IT_IS, declared
from mase_hw.simulate.engines.batch.shadows import in_place
from mase_hw.simulate.engines.batch.statements import Change, Function, edited, functions, written

_FILES = ("refine", "copies", "products", "statements", "checks", "shadows", "kept", "edges")
RECIPE = hashlib.sha256(b"".join(Path(__file__).with_name(f"{name}.py").read_bytes() for name in _FILES)).hexdigest()
"""Names what is done to a model: a simulator that was made by another version of it is another simulator."""

_NAME = re.compile(r"\b[A-Za-z_]\w*")
_ROOT = "Vtop___024root___"


def refine(model: Path) -> None:
    """Change all C++ files of a generated model.

    Args:
        model: The folder.
    """
    sizes = declared(model)
    texts: dict[Path, str] = {}
    found: dict[Path, list[Function]] = {}
    writes: Counter[str] = Counter()
    for source in sorted(model.glob("*.cpp")):
        text = source.read_text(**AS_IT_IS)
        if "__Slow" in source.name:
            continue  # what is done before the first cycle, and after the last
        text = as_memory(text)
        texts[source], found[source] = text, list(functions(text))
        done = 0
        for function in found[source]:
            # Of what is not read, every name may be written.
            writes.update(2 * list(set(_NAME.findall(text, done, function.start))))
            writes.update(name for inner in function.all() for name in written(inner))
            done = function.end
        writes.update(2 * list(set(_NAME.findall(text, done))))
    for source, text in texts.items():
        changes: list[Change] = []
        for function in found[source]:
            changes += rare_first(function, text)
            changes += in_place(function)
            for group in kept(function, text, sizes, writes) if function.name.startswith(_ROOT) else []:
                if _apart(changes, group):
                    changes += group
        source.write_text(edited(text, changes), **AS_IT_IS)


def _apart(changes: list[Change], more: list[Change]) -> bool:
    """Whether no two of these changes are of one part of the text."""
    ends = sorted((start, end) for start, end, _ in (*changes, *more))
    return all(end <= start for (_, end), (start, _) in itertools.pairwise(ends))
