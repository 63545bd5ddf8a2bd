"""The cases reach every generate branch of every file they declare: hardware that no case elaborates is unproven."""

from __future__ import annotations

import re
from pathlib import Path

from mase_hw.resources import rtl_root
from mase_hw.simulate.engines.cocotb.engine import BuildTools

from .groups import group_dut, groups
from .harness import HARDWARE_OPS, ITEMS, files_of
from .test_lint import verilate

# A generate block is labelled g_...; one that begins with $fatal is a parameter check, for test_guards.py.
BLOCK = re.compile(r"begin : (g_\w+)\b(?!(?:\s*//[^\n]*)*\s*\$fatal)")

# Branches that no case reaches, and what proves them instead.
ELSEWHERE: dict[str, str] = {}


def blocks(file: str) -> tuple[str, list[str]]:
    """A source in which every generate block says its name when it is elaborated, and those names."""
    names: list[str] = []

    def announce(match: re.Match[str]) -> str:
        name = f"{Path(file).stem}.{match[1]}"
        # A label may be used twice in a file, in different scopes.
        twice = sum(other.split("#")[0] == name for other in names)
        names.append(f"{name}#{twice + 1}" if twice else name)
        return f'{match[0]}\n$info("reached {names[-1]};");'

    return BLOCK.sub(announce, (rtl_root() / file).read_text(encoding="utf-8")), names


def test_every_generate_branch_is_elaborated(tools: BuildTools, tmp_path: Path) -> None:
    every: set[str] = set()
    for file in {file for op in HARDWARE_OPS for file in files_of(op)}:
        text, names = blocks(file)
        every |= set(names)
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text, encoding="utf-8")
    reached: set[str] = set()
    for group in groups(ITEMS):
        dut = group_dut(group, tmp_path)
        files = [p.relative_to(rtl_root()) if p.is_relative_to(rtl_root()) else p for p in dut.sources]
        code, output = verilate(tools, tmp_path, dut.top, files, {})
        assert code == 0, output
        reached |= set(re.findall(r"reached ([\w.#]+);", output))
    assert reached <= every and len(reached) > 40
    assert sorted(every - reached) == sorted(ELSEWHERE)
