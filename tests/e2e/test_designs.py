"""Whole designs in Verilator, equal to the quantised model bit for bit, in the predicted number of cycles."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import mase_hw
from mase_hw.simulate.plan import SimulationOptions, Stalls
from tests.e2e.conftest import Workshop
from tests.e2e.designs import DESIGNS
from tests.unit import test_golden_network as golden

Designs = dict[str, mase_hw.Design]


def as_tuple(value: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (value,) if isinstance(value, Tensor) else value


def by_frames(model: torch.nn.Module, given: tuple[Tensor, ...], example: tuple[Tensor, ...]) -> list[Tensor]:
    """What the model computes, called once a frame: some models reshape by the size of their example."""
    count = len(given[0]) // len(example[0])
    slices = [[g[i * len(e) : (i + 1) * len(e)] for g, e in zip(given, example, strict=True)] for i in range(count)]
    with torch.no_grad():
        results = [as_tuple(model(*frame)) for frame in slices]
    return [torch.cat(parts) for parts in zip(*results, strict=True)]


@pytest.mark.parametrize("stalls", [0.0, 0.4])
@pytest.mark.parametrize("name", DESIGNS)
def test_design(designs: Designs, workshop: Workshop, tmp_path: Path, name: str, stalls: float) -> None:
    design, case = designs[name], DESIGNS[name]
    casts = [i for i in design.manifest["instances"] if i["module"] == "fixed_cast"]
    assert len(casts) == case.casts
    given = case.frames(12)
    lines: list[str] = []
    simulation = design.simulate(
        given, stalls=stalls, seed=5, work_dir=workshop.work(design, tmp_path, name), progress=lines.append
    )
    result = simulation.result
    assert simulation.passed and result.mismatches == 0 and simulation.frames == 12
    outputs = [s for s in design.streams.values() if s.direction == "out"]
    assert len(outputs) == case.outputs
    assert result.beats_compared == sum(12 * s.beats for s in outputs)
    expected = by_frames(design.model, given, case.example)
    for stream, want in zip(outputs, expected, strict=True):
        assert torch.equal(simulation.outputs[stream.name], want.double()), stream.name
        assert len(want.unique()) > 5, "a design whose output never changes would show nothing"
    if not stalls:
        assert (simulation.fill, simulation.interval) == (design.timing["fill"], design.timing["interval"])
    else:
        slowest = max(simulation.timings.values(), key=lambda timing: timing.last)
        assert slowest.last >= design.timing["last"] + 11 * design.timing["interval"]
    # How far a simulator is optimised rests on it: not on how long a run may take, which is many times that.
    expected_cycles = SimulationOptions(stalls=Stalls.random(stalls, stalls)).cycles(design.timing, 12)
    assert 0.5 <= result.cycles / expected_cycles <= 2.5
    assert any("simulating 12 frames" in line for line in lines) and any("reused in" in line for line in lines)
    report = simulation.report()
    assert report.startswith("passed:") and f"predicted {design.timing['interval']} cycles" in report


@pytest.mark.parametrize(("name", "modes"), [("golden", ("half_even", "saturate")), ("serial", ("floor", "wrap"))])
def test_hardware_equals_python_integers(
    designs: Designs, workshop: Workshop, tmp_path: Path, name: str, modes: tuple[str, str]
) -> None:
    """Straight from the float model to the beats of the RTL, without any arithmetic of torch or of the package."""
    design, case = designs[name], DESIGNS[name]
    (x,) = case.frames(40)
    simulation = design.simulate(x, work_dir=workshop.work(design, tmp_path, name))
    weights = {key: p.tolist() for key, p in case.model.named_parameters()}
    expected = [golden.reference(frame, weights, modes) for frame in x.tolist()]
    assert (simulation.output * 2**golden.Y2.frac).tolist() == expected


def test_the_slowest_layer_sets_the_interval(designs: Designs) -> None:
    """in * out / multipliers a vector, tiles rounded up: 7 by 5 at 3 x 2 is 3 * 3, at 1 x 1 it is 35."""
    assert (designs["golden"].timing["interval"], designs["golden"].timing["bottleneck"]) == (9, "u_fc1")
    assert (designs["serial"].timing["interval"], designs["serial"].timing["bottleneck"]) == (35, "u_fc1")
    # Six rows; fc1 is unrolled (6 cycles), fc2 takes two passes of one tile (12), as long as its result takes to leave.
    assert designs["rows"].timing["interval"] == 12 and designs["rows"].timing["bottleneck"] in ("u_fc2", "data_out_0")


def test_the_bundles_own_vectors(designs: Designs, workshop: Workshop, tmp_path: Path) -> None:
    """A bundle from disk, as a hardware engineer gets it: no model, only files."""
    design = mase_hw.load_design(designs["golden"].path)
    work = workshop.work(design, tmp_path, "golden")
    simulation = design.simulate(work_dir=work)
    assert simulation.passed and simulation.frames == 3
    again = design.simulate(work_dir=work, seed=9, stalls=0.2)
    assert torch.equal(again.output, simulation.output)
    assert torch.equal(
        simulation.output,
        by_frames(designs["golden"].model, DESIGNS["golden"].frames(3), DESIGNS["golden"].example)[0].double(),
    )


def test_one_frame_has_no_interval(designs: Designs, workshop: Workshop, tmp_path: Path) -> None:
    design = designs["golden"]
    simulation = design.simulate(DESIGNS["golden"].frames(1), work_dir=workshop.work(design, tmp_path, "golden"))
    assert simulation.fill == design.timing["fill"] and simulation.interval is None
    assert (
        simulation.result.accepted["data_out_0"][-1] - simulation.result.accepted["data_in_0"][0]
        == design.timing["last"]
    )
