"""Random networks with branches in Verilator: every bit and every cycle, or a refusal that says why."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import mase_hw
from mase_hw.errors import ConfigError, FormatError, MaseHwError, UnsupportedError

from .random_nets import Case, random_case

CI = (1, 9, 22)
"""Networks of every run."""
INSIDE = (1, 26)
"""Of them, those whose inner edges are stalled too, which takes a simulator of its own."""
LONG = (2, 26, *range(100, 150))
"""Networks of the long run."""
MOST_REFUSED = 0.3
REFUSALS = (UnsupportedError, ConfigError, FormatError)
"""What may be refused: the model, its configuration or its formats; any other error is one of ours."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all bundles: the simulators of a folder share what they have in common."""
    return tmp_path_factory.mktemp("random")


def compiled(case: Case, out: Path) -> mase_hw.Design | MaseHwError:
    """The design, or a refusal that gives a place and a reason and has left nothing behind."""
    example = [x[: case.batch] for x in case.inputs]
    try:
        return mase_hw.compile(case.net, example, case.config, out=out, calibration=[tuple(case.inputs)])
    except REFUSALS as error:
        assert error.node and error.message and (error.remedy or error.expected), f"no reason: {error}\n{case}"
        assert not out.exists(), f"a refused design was written: {error}\n{case}"
        return error


def reference(design: mase_hw.Design, case: Case) -> list[Tensor]:
    """Every output from the quantised model, frame by frame."""
    frames = []
    with torch.no_grad():
        for frame in case.frames():
            results = design.model(*frame)
            frames.append(results if isinstance(results, tuple) else (results,))
    return [torch.cat(outputs) for outputs in zip(*frames, strict=True)]


def check(seed: int, folder: Path, inside: bool = True) -> mase_hw.Design | MaseHwError:
    """Frames at full rate, under stalls of the ports, and of all edges; returns the design, or why there is none."""
    case = random_case(seed)
    design = compiled(case, folder / f"net{seed}")
    if isinstance(design, MaseHwError):
        return design
    if not design.timing["exact"]:
        # Ways of different pace, with much room between them: it takes frames until the slow one holds up the fast.
        case = random_case(seed, frames=45)
    full = design.simulate(tuple(case.inputs), engine="batch", waves=False, check=False)
    assert full.passed and full.result.mismatches == 0, f"{full.report()}\n{case}"
    wanted = reference(design, case)
    assert len(full.outputs) == len(wanted) == len(case.net.results)
    for got, want in zip(full.outputs.values(), wanted, strict=True):
        assert torch.equal(got.reshape(want.shape), want.double()), case
    stalled = design.simulate(tuple(case.inputs), engine="batch", stalls=0.4, seed=seed, waves=False, check=False)
    assert stalled.passed and stalled.result.mismatches == 0, f"{stalled.report()}\n{case}"
    if inside:
        check_inside(design, case, seed)
    # The interval of a design that does not repeat itself is an average; all else is exact.
    loose = 0.0 if design.timing["exact"] else 0.01
    assert full.interval == pytest.approx(design.timing["interval"], rel=loose, abs=0), case
    assert full.fill == pytest.approx(design.timing["fill"], rel=2 * loose, abs=0), case
    return design


def check_inside(design: mase_hw.Design, case: Case, seed: int) -> None:
    """Frames, and the bundle's own vectors, with stalls on every edge."""
    for inputs, stalls in ((tuple(case.inputs), 0.2), (None, None)):
        options = {"engine": "batch", "seed": seed, "waves": False, "check": False, "stalls": stalls}
        found = design.simulate(inputs, inner_stalls=0.3, **options)
        assert found.passed and found.result.mismatches == 0, f"{found.report()}\n{case}"
    exercise = found.result.exercise
    assert exercise is not None and all(exercise.edges.values()), f"{found.report()}\n{case}"


@pytest.mark.parametrize("seed", CI)
def test_random_network(seed: int, folder: Path) -> None:
    design = check(seed, folder, inside=seed in INSIDE)
    assert isinstance(design, mase_hw.Design), f"the networks of every run are none that is refused: {design}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", LONG)
def test_many_random_networks(seed: int, folder: Path) -> None:
    check(seed, folder, inside=seed in INSIDE)


@pytest.mark.slow
def test_few_are_refused(tmp_path: Path) -> None:
    found = {seed: compiled(random_case(seed), tmp_path / f"net{seed}") for seed in LONG}
    refused = {seed: error for seed, error in found.items() if isinstance(error, MaseHwError)}
    assert len(refused) <= MOST_REFUSED * len(found), "\n".join(f"{s}: {e}" for s, e in refused.items())


def test_a_seed_is_a_network() -> None:
    """The same seed gives the same listing, weights, frames and configuration; another one another network."""
    one, two, other = random_case(3), random_case(3), random_case(4)
    assert str(one) == str(two) and str(one) != str(other)
    assert all(torch.equal(a, b) for a, b in zip(one.inputs, two.inputs, strict=True))
    pairs = zip(one.net.state_dict().items(), two.net.state_dict().items(), strict=True)
    assert all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def test_the_networks_have_everything() -> None:
    """What the long run must contain: kinds of steps, reconvergent paths, formats, lanes."""
    cases = [random_case(seed) for seed in LONG]
    kinds = set().union(*(case.kinds for case in cases))
    wanted = {"convolution 2d", "convolution 1d", "grouped convolution 2d", "depthwise convolution 2d", "batch norm"}
    wanted |= {"max pool", "average pool", "adaptive average", "mean", "linear", "flatten", "flatten to sequence"}
    wanted |= {
        "add",
        "sub",
        "mul",
        "cat",
        "permute",
        "channel shuffle",
        "upsample",
        "pad",
        "shared module",
        "prelu",
        "slice",
    }
    assert wanted <= kinds, wanted - kinds
    assert len(kinds) > 40
    reads = [[i for step in case.net.steps for i in step.reads] + case.net.results for case in cases]
    assert sum(any(found.count(i) > 1 for i in found) for found in reads) > 25, "tensors used in several places"
    assert any(len(case.inputs) > 1 for case in cases) and any(case.batch > 1 for case in cases)
    assert {len(case.net.results) for case in cases} >= {1, 2, 3}
    rules = [rule["config"] for case in cases for rule in case.config["quantize"]["overrides"].values()]
    assert {rule["data_out_width"] for rule in rules} >= {2, 3, 4, 5, 6, 7, 8, 16}
    assert {rule.get("overflow") for rule in rules} >= {None, "wrap"}
    assert sum(rule.get("weight_granularity") == "channel" for rule in rules) > 10
