"""Single layers in several foldings: one DSP block per multiplier, large ROMs in block RAM, every count as recorded."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from mase_hw.emit.estimate import estimate
from mase_hw.synth.synthesise import synthesise

from .conftest import work_of


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
    "conv_16x16_8x8_packed": 32,
    "digits_mlp": 104,
    "linear_64x64_8x8_packed": 32,
    "linear_64x64_8x8_packed_in_tables": 32,
    "linear_64x64_8x8_packed_every_code": 32,
    "linear_64x64_8x8_chain": 64,
    "linear_64x64_8x8_binary": 0,
    "linear_64x64_8x8_ternary": 0,
    "unrolled_16x16": 0,
    "unrolled_32x32": 0,
    "unrolled_64_32_32_10": 0,
}
REPLAYED = (*(name for name in ASKED if "64x64" in name or "packed" in name), "unrolled_16x16")
"""Sums in chains: Yosys takes the registers between the products into the blocks, so their netlists are simulated; and
carry chains of bits that only one operand has."""
BLOCKS = [f"{kind}_block{target}" for kind in ("vit", "causal", "llama") for target in ("", "_ecp5")]
"""One of each kind of a transformer, of width 16 with one multiplier a product, for both targets."""


POOLS = {"max_pool_8x8x8": 200, "max_pool_64x32x32": 200, "max_pool_64x32x32_overlapping": 520}
"""Maxima over windows with 8 lanes of 8 bits, and the most LUTs of each."""
QUICK = ("linear_16x8_1x1",)
"""Compared in every run of the tests; the others take minutes."""


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in QUICK)) for n in ASKED])
def test_counts(name: str, root: Path, tmp_path: Path) -> None:
    script = regression(root)
    assert script.DESIGNS.keys() == {*ASKED, *BLOCKS, *POOLS, *script.NETWORKS, "softmax_64"}
    design, report = script.measure(name, tmp_path, replay=name in REPLAYED)
    found = script.figures(design, report)
    assert found["dsp"] == found["multipliers"] == ASKED[name]
    assert name not in REPLAYED or (report.replay is not None and report.replay["mismatches"] == 0)
    # A gain is recorded as well, else it can be lost again without anybody noticing.
    assert found == json.loads(script.BASELINE.read_text())[name], "regress/synthesis.py --update records it"
    assert not [warning for warning in report.warnings if "DSP" in warning or "nothing is left" in warning]
    # Of 64 words and less a LUT holds one bit: those of the digits MLP are there.
    large = [m for m in report.memories if m.words > 64 and m.words * m.width >= 2 * 18 * 1024]
    assert all(memory.place == "block RAM" for memory in large)
    assert bool(large) == (name == "linear_256x64_4x4")
    # The README's estimate, made without any tool.
    guess = estimate(design.record)
    assert guess["dsp"] == found["dsp"]
    assert all(found[column] / 2 <= guess[column] <= found[column] * 2 for column in ("lut", "ff")), (guess, found)


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_of_a_transformer(name: str, root: Path, tmp_path: Path) -> None:
    """The counts are as recorded, and the netlist gives what the RTL does, at full rate and with stalls."""
    script = regression(root)
    design, report = script.measure(name, tmp_path, replay=True)
    assert report.target == script.target_of(name)
    assert report.replay is not None and report.replay["mismatches"] == 0
    assert report.replay["beats"] >= 2 * 2 * 4 * 16  # frames of 4 tokens of 16, in two runs
    assert script.figures(design, report) == json.loads(script.BASELINE.read_text())[name]


@pytest.mark.slow
def test_a_softmax_of_64_elements(root: Path, tmp_path: Path) -> None:
    """One lane, 8 bits: no more than 600 LUTs."""
    script = regression(root)
    design, report = script.measure("softmax_64", tmp_path)
    (softmax,) = (i for i in design.manifest["instances"] if i["module"] == "fixed_softmax")
    names = (
        "DATA_IN_0_PRECISION_0",
        "DATA_OUT_0_PRECISION_0",
        "DATA_IN_0_TENSOR_SIZE_DIM_0",
        "DATA_IN_0_PARALLELISM_DIM_0",
    )
    assert [softmax["parameters"][name] for name in names] == [8, 8, 64, 1]
    found = script.figures(design, report)
    assert found["lut"] <= 600 and found == json.loads(script.BASELINE.read_text())["softmax_64"]


@pytest.mark.slow
@pytest.mark.parametrize("name", POOLS)
def test_a_pool_of_eight_lanes(name: str, root: Path, tmp_path: Path) -> None:
    """Small, in block RAM where a row of windows is long, and the netlist gives what the RTL does."""
    script = regression(root)
    design, report = script.measure(name, tmp_path, replay=True)
    assert report.replay is not None and report.replay["mismatches"] == 0
    found = script.figures(design, report)
    assert found["lut"] <= POOLS[name] and found == json.loads(script.BASELINE.read_text())[name]


@pytest.mark.slow
def test_the_digits_on_ecp5(root: Path, tmp_path: Path) -> None:
    """ROMs in block RAM with the registers of the blocks, sums that start with the half of the rounding."""
    script = regression(root)
    design = script.emit("digits_mlp_ecp5", tmp_path)
    report = synthesise(design, "ecp5")
    found = script.figures(design, report)
    assert found["lut"] <= 3800 and found == json.loads(script.BASELINE.read_text())["digits_mlp_ecp5"]
    assert report.replay is not None and report.replay["mismatches"] == 0
    packed = json.loads((work_of(design, "ecp5") / "packed.json").read_text())
    assert packed["outputs"] == packed["memories"] == report.total["bram"]


def test_both_directions(root: Path) -> None:
    script = regression(root)
    known = {"lut": 10, "ff": 5}
    assert script.verdict_on(known, known) == ""
    assert script.verdict_on({"lut": 11, "ff": 4}, known).startswith("WORSE")
    assert script.verdict_on({"lut": 10, "ff": 4}, known).startswith("BETTER")
    assert script.verdict_on(known, {}).startswith("NOT RECORDED")
