"""Models whose data flow is easy to get wrong: writes in place, one tensor returned twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError
from tests.e2e.conftest import Workshop
from tests.ir.nets import With


class ReadAfterwards(nn.Module):
    """What an in-place op wrote over is read again; PyTorch gives the reader the rectified values."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.relu = nn.Linear(6, 4), nn.ReLU(inplace=True)
        self.a, self.b = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.fc(x)
        return self.a(self.relu(x)), self.b(x)


class Same(nn.Module):
    """One tensor is two results."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.fc(x)
        return y, y


class Branches(nn.Module):
    """Code that tracing follows one way only, unless the argument is fixed."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.fc, self.kind = nn.Linear(6, 3), kind

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        y = self.fc(x)
        if self.kind == "none" and mask is None:
            y = y.relu()
        if self.kind == "type" and isinstance(x, Tensor):
            y = y.relu()
        return y


def branches_to_relu(kind: str, folder: Path) -> None:
    torch.manual_seed(5)
    x = torch.randn(24, 6)
    design = mase_hw.compile(Branches(kind).eval(), x[:1], out=folder / "bundle", calibration=[x])
    assert "relu" in [n.name for n in design._with_graph().nodes]
    with torch.no_grad():
        assert float(design.model(x).min()) == 0.0


def test_an_argument_left_at_its_default(tmp_path: Path) -> None:
    """The default is fixed before tracing, so the branch on it is the right one."""
    branches_to_relu("none", tmp_path)


def test_a_branch_on_a_type(tmp_path: Path) -> None:
    """The tracer takes the wrong branch, which the example shows; torch.export takes the right one."""
    branches_to_relu("type", tmp_path)


def test_a_question_about_the_shape(tmp_path: Path) -> None:
    """Which is the first that reads the input."""
    model = With(nn.Linear(6, 4), lambda fc, x: fc(x).view(x.size(0), 2, 2))
    design = mase_hw.compile(model.eval(), torch.randn(1, 6), out=tmp_path / "bundle")
    assert design.streams["data_out_0"].shape == (1, 2, 2)


def test_a_model_trained_after_emission(tmp_path: Path) -> None:
    design = mase_hw.compile(nn.Sequential(nn.Linear(6, 3)).eval(), torch.randn(1, 6), out=tmp_path / "bundle")
    with torch.no_grad():
        next(design.model.parameters()).mul_(-1.0)
    with pytest.raises(ConfigError, match="not those of the bundle"):
        design.simulate(torch.randn(2, 6))


def test_two_simulations_at_once(tmp_path: Path, workshop: Workshop) -> None:
    """They share a work folder, so they take turns."""
    torch.manual_seed(5)
    design = mase_hw.compile(Same().eval(), torch.randn(1, 6), out=tmp_path / "bundle")
    work = workshop.work(design, tmp_path, "Same-turns")
    with ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(design.simulate, torch.randn(20, 6), work_dir=work, seed=s, waves=False) for s in range(3)]
        assert all(run.result().passed for run in runs)


@pytest.mark.parametrize("example", [None, 3, "text"])
def test_an_example_that_is_no_tensor(tmp_path: Path, example: object) -> None:
    with pytest.raises(ConfigError, match="example"):
        mase_hw.compile(Same().eval(), example, out=tmp_path / "bundle")  # type: ignore[arg-type]


def test_a_rule_for_casts_is_refused(tmp_path: Path) -> None:
    """No model contains a cast, so the rule would be ignored."""
    config = {"quantize": {"cast": {"config": {"rounding": "floor"}}}}
    with pytest.raises(ConfigError, match="cast: no such op"):
        mase_hw.compile(Same().eval(), torch.randn(1, 6), config, out=tmp_path / "bundle")
    assert not list(tmp_path.iterdir())


def simulated(model: nn.Module, folder: Path, workshop: Workshop) -> tuple[list[Tensor], list[Tensor]]:
    """What the hardware computes, and what the float model does."""
    torch.manual_seed(5)
    x = torch.randn(24, 6)
    design = mase_hw.compile(model.eval(), x[:1], out=folder / "bundle", calibration=[x])
    work = workshop.work(design, folder, type(model).__name__)
    result = design.simulate(x, work_dir=work, waves=False, stalls=0.3)
    with torch.no_grad():
        return list(result.outputs.values()), list(model(x.clone()))


def test_in_place_op_with_another_reader(tmp_path: Path, workshop: Workshop) -> None:
    model = ReadAfterwards()
    found, wanted = simulated(model, tmp_path, workshop)
    for a, b in zip(found, wanted, strict=True):
        assert float((a - b).abs().max()) < 0.1  # 8 bits of noise; reading the unrectified values is off by more
    with torch.no_grad():
        torch.manual_seed(5)
        unrectified = model.b(model.fc(torch.randn(24, 6)))
    assert float((found[1] - unrectified).abs().max()) > 0.2


def test_the_same_result_twice(tmp_path: Path, workshop: Workshop) -> None:
    found, wanted = simulated(Same(), tmp_path, workshop)
    assert len(found) == 2 and torch.equal(found[0], found[1])
    assert float((found[0] - wanted[0]).abs().max()) < 0.1
