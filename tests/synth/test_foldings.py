"""Single layers in several foldings: one DSP block per multiplier, large ROMs in block RAM, every count as recorded."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from mase_hw.emit.estimate import estimate


def regression(root: Path) -> ModuleType:
    """The script that measures them."""
    spec = importlib.util.spec_from_file_location("regress_synthesis", root / "regress" / "synthesis.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ASKED = {
    "linear_16x8_1x1": 1,
    "linear_16x8_4x2": 8,
    "linear_16x8_8x8": 64,
    "linear_256x64_4x4": 16,
    "conv_4x4_1x1": 1,
    "conv_4x4_2x2": 4,
    "conv_4x8_4x4": 16,
    "digits_mlp": 104,
}


QUICK = ("linear_16x8_1x1",)
"""Compared in every run of the tests; the others take minutes."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK)) for n in ASKED])
def test_counts(name: str, root: Path, tmp_path: Path) -> None:
    script = regression(root)
    assert script.DESIGNS.keys() == ASKED.keys()
    design, report = script.measure(name, tmp_path)
    found = script.figures(design, report)
    assert found["dsp"] == found["multipliers"] == ASKED[name]
    # A gain is recorded as well, else it can be lost again without anybody noticing.
    assert found == json.loads(script.BASELINE.read_text())[name], "regress/synthesis.py --update records it"
    assert not [warning for warning in report.warnings if "DSP" in warning or "nothing is left" in warning]
    # Of 64 words and less a LUT holds one bit: those of the digits MLP are there.
    large = [m for m in report.memories if m.words > 64 and m.words * m.width >= 2 * 18 * 1024]
    assert all(memory.place == "block RAM" for memory in large)
    assert bool(large) == (name == "linear_256x64_4x4")
    # The README's estimate, made without any tool.
    guess = estimate(design.manifest)
    assert guess["dsp"] == found["dsp"]
    assert all(found[column] / 2 <= guess[column] <= found[column] * 2 for column in ("lut", "ff")), (guess, found)


def test_both_directions(root: Path) -> None:
    script = regression(root)
    known = {"lut": 10, "ff": 5}
    assert script.verdict_on(known, known) == ""
    assert script.verdict_on({"lut": 11, "ff": 4}, known).startswith("WORSE")
    assert script.verdict_on({"lut": 10, "ff": 4}, known).startswith("BETTER")
    assert script.verdict_on(known, {}).startswith("NOT RECORDED")
