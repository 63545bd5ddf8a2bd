"""A reset in the middle of a frame: the design recovers and does, to the bit and the cycle, what it did before."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import ConfigError, MismatchError, ResultsError, SimulationError
from mase_hw.simulate.plan import PATTERNS, Reset, Stalls
from tests.e2e_cnn import nets
from tests.engines.conftest import Builder, play
from tests.engines.test_equal import assert_equal
from tests.sim.conftest import slice_dut

UNITS = ("cycles", "in", "out")


def _linear() -> tuple[nn.Module, torch.Tensor, dict[str, Any]]:
    parallelism = {"_0": {"data_in_0": 2, "data_out_0": 3}, "_2": {"data_in_0": 3}}
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)).eval()
    return model, torch.rand(4, 4) * 2 - 1, {"hardware": {"parallelism": parallelism}}


def _residual() -> tuple[nn.Module, torch.Tensor, dict[str, Any]]:
    """Convolutions, a fork, a FIFO on the way around, a join."""
    return nets.ready(nets.BasicBlock(2, 2)), torch.rand(4, 2, 4, 4) * 2 - 1, {"hardware": {"max_parallelism": 2}}


NETWORKS = {"linear": _linear, "residual": _residual}


@pytest.fixture(scope="module", params=NETWORKS)
def design(request: pytest.FixtureRequest, work: Path) -> mase_hw.Design:
    torch.manual_seed(1)
    model, x, config = NETWORKS[request.param]()
    out = work / f"resets-{request.param}"
    return mase_hw.compile(model, x[:1], config, out=out, calibration=[x], vectors=x)


def _points(design: mase_hw.Design) -> list[tuple[Reset, ...]]:
    """While memories prefetch, in the first frame, between frames, near the end; and several in one run."""
    last, interval = int(design.timing["last"]), int(design.timing["interval"])
    frame_in = sum(s.frame_beats for s in design.streams.values() if s.direction == "in")
    frame_out = sum(s.frame_beats for s in design.streams.values() if s.direction == "out")
    cycles = sorted({1, 5, 8 + last // 3, 8 + last, 8 + last + interval // 2, 8 + last + 2 * interval})
    points = [(Reset(at),) for at in cycles]
    points += [(Reset(at, "in"),) for at in {1, frame_in, frame_in + frame_in // 2 + 1, 4 * frame_in}]
    points += [(Reset(at, "out"),) for at in {1, frame_out, 2 * frame_out + frame_out // 2, 4 * frame_out}]
    points.append((Reset(frame_in + 1, "in"), Reset(3, length=2), Reset(1, "out", length=4)))
    return points


@pytest.mark.parametrize("stalls", ["none", "single"])
def test_recovers(design: mase_hw.Design, stalls: str) -> None:
    """One cycle of reset, anywhere: the records are those of a run that was never disturbed."""
    options: dict[str, Any] = {"engine": "batch", "stalls": stalls, "seed": 6, "waves": False}
    undisturbed = design.simulate(**options).result
    for resets in _points(design):
        result = design.simulate(**options, reset_at=resets).result
        assert result.passed, resets
        assert_equal(undisturbed, result)


@pytest.mark.parametrize("stalls", PATTERNS)
def test_patterns(design: mase_hw.Design, stalls: str) -> None:
    """Back-to-back frames, stalls of one cycle, long ones, a slow side; whole, and after a reset under stalls."""
    for resets in ((), (Reset(3, "out"),)):
        result = design.simulate(engine="batch", stalls=stalls, seed=2, waves=False, reset_at=resets).result
        assert result.passed and result.beats_compared


def test_back_to_back(design: mase_hw.Design) -> None:
    """At full rate the inputs leave no gap between frames but what the design itself asks for."""
    accepted = design.simulate(engine="batch", waves=False).result.ports["data_in_0"]
    offered = accepted.cycles.presented[1:]
    assert (offered == accepted.cycles.accepted[:-1] + 1).all()


def test_engines_agree(builder: Builder, tmp_path: Path) -> None:
    for number, (unit, stalls) in enumerate((u, s) for u in UNITS for s in (Stalls.none(), Stalls.random(0.3, 0.5))):
        for resets in ((Reset(9, unit),), (Reset(13, unit, length=3), Reset(2, unit))):
            results = [
                play(
                    name, builder(name, slice_dut(), "faulty_slice"), tmp_path / f"{name}{number}", stalls=stalls,
                    reset_at=resets, seed=3,
                )
                for name in ("cocotb", "batch")
            ]  # fmt: skip
            assert results[0].passed
            assert_equal(*results)


@pytest.mark.parametrize("engine", ["cocotb", "batch", "fast"])
def test_a_reset_that_never_comes(builder: Builder, tmp_path: Path, engine: str) -> None:
    """Nothing is proven about recovery by a run that ends before."""
    built = builder(engine, slice_dut(), "faulty_slice")
    for reset in (Reset(5000), Reset(31, "in"), Reset(31, "out")):
        result = play(engine, built, tmp_path, reset_at=(Reset(4), reset))
        assert type(result.failure) is ResultsError
        with pytest.raises(ResultsError, match=r"ended before a reset.*\n  got: 1 resets; .*\n  expected: 2"):
            result.raise_on_failure()


def test_a_share_is_reset_too(builder: Builder, tmp_path: Path) -> None:
    built = builder("batch", slice_dut(), "faulty_slice")
    assert play("batch", built, tmp_path, jobs=2, reset_at=(Reset(3, "out"),)).passed


@pytest.mark.parametrize("design", ["linear"], indirect=True)
def test_a_design_that_forgets_its_reset(design: mase_hw.Design, tmp_path: Path) -> None:
    """A memory that goes on where it was: unseen by a run with one reset, found by one in the middle of a frame."""
    shutil.copytree(design.path, tmp_path / "bundle")
    path = tmp_path / "bundle" / "rtl" / "lib" / "rom_source.sv"
    text = path.read_text()
    forgetful = text.replace("      count_q <= {AddrW{Down}};\n    end else if (step)", "    end else if (step)")
    forgetful = forgetful.replace(" count_q;\n", " count_q;\n  initial count_q = '0;\n", 1)
    assert forgetful.count("count_q") == text.count("count_q"), "one place less, one more"
    path.write_text(forgetful)
    broken = mase_hw.Design(tmp_path / "bundle", verify=False)
    options: dict[str, Any] = {"engine": "batch", "waves": False, "check": False}
    options["work_dir"] = design.path.with_name("forgetful.work")
    assert broken.simulate(**options).passed
    failures = [broken.simulate(**options, reset_at=resets).result.failure for resets in _points(design)]
    assert any(type(failure) is MismatchError for failure in failures)
    assert all(failure is None or isinstance(failure, SimulationError) for failure in failures)


def test_refused() -> None:
    for wrong in ({"at": 0}, {"at": 1, "length": 0}, {"at": 1, "unit": "frames"}):
        with pytest.raises(ConfigError, match="reset"):
            Reset(**wrong)
    assert [Reset.parse(text) for text in ("40", "in:5", "out:3", "cycles:7")] == [
        Reset(40), Reset(5, "in"), Reset(3, "out"), Reset(7),
    ]  # fmt: skip
    for text in ("", "in:", "x:4", "-3", "in:five"):
        with pytest.raises(ConfigError):
            Reset.parse(text)
    with pytest.raises(ConfigError, match="slow_input"):
        Stalls.named("slow_inpt")
