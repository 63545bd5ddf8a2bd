"""The cases of every run reach every generate branch of every file: hardware that no case elaborates is unproven."""

from __future__ import annotations

import re
from pathlib import Path

from tests.rtl import LIBRARY

from .elaborate import Place, elaborate
from .groups import group_dut, groups
from .harness import HARDWARE_OPS, ITEMS, files_of
from .often import ALSO, FUNCTIONS, OFTEN

# A generate block is labelled g_...; one that begins with $fatal is a parameter check, for test_guards.py.
BLOCK = re.compile(r"begin : (g_\w+)\b(?!(?:\s*//[^\n]*)*\s*\$fatal)")

# Branches that no case reaches, and what proves them instead.
ELSEWHERE = {"fixed_matmul.g_streamed": "tests/e2e/test_decode_external.py"}


def blocks(file: str) -> dict[Place, str]:
    """Where the generate blocks of a source begin, and their names."""
    path = LIBRARY / file
    text = path.read_text(encoding="utf-8")
    # By place, since a label may be used twice in a file, in different scopes.
    return {
        (str(path.resolve()), len(text[: match.start()].encode())): f"{path.stem}.{match[1]}"
        for match in BLOCK.finditer(text)
    }


def test_every_generate_branch_is_elaborated(tmp_path: Path) -> None:
    """By slang, which takes an eighth of the time of Verilator and reaches the same blocks in every group of cases."""
    every = {place: name for op in HARDWARE_OPS for file in files_of(op) for place, name in blocks(file).items()}
    reached: set[Place] = set()
    for group in groups([it for it in ITEMS if it.id in OFTEN]):
        dut = group_dut(group, tmp_path)
        found = elaborate(dut.sources, dut.top, {})
        assert found.accepted, found
        reached |= found.reached
    assert len(every) > 200
    assert sorted(name for place, name in every.items() if place not in reached) == sorted(ELSEWHERE)


def test_cases_that_are_named_are_there() -> None:
    assert ALSO <= OFTEN < {it.id for it in ITEMS}
    built = {it.op.name for it in ITEMS if it.id in OFTEN}
    assert built - FUNCTIONS == {op.name for op in HARDWARE_OPS} - FUNCTIONS and built & FUNCTIONS
