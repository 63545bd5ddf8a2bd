"""What a model may look like: dead branches, inputs that nothing reads, results that are inputs; and what is folded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError, GraphError
from mase_hw.ir import MaseGraph
from tests.e2e.test_joins import check_every_beat


class Odd(nn.Module):
    """A dead branch, an input that nothing reads, and results that only move data."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 4), nn.Linear(5, 4)

    def forward(self, x: Tensor, unread: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        torch.sigmoid(torch.relu(self.b(x)))
        return self.a(x), x.transpose(1, 2), x.flatten(1)


def test_dead_branches_and_copies(tmp_path: Path) -> None:
    torch.manual_seed(1)
    x, y = torch.randn(12, 3, 5), torch.randn(12, 2, 7)
    told: list[str] = []
    design = mase_hw.compile(Odd(), (x[:1], y[:1]), out=tmp_path / "bundle", calibration=[(x, y)], progress=told.append)
    assert "not in hardware, since nothing reads it: b, relu, sigmoid" in told
    modules = [instance["module"] for instance in design.manifest["instances"]]
    assert modules.count("fixed_linear") == 1 and "fixed_function" not in modules
    with torch.no_grad():
        wanted = design.model(x, y)
    for stalls in (None, 0.3):
        simulation = design.simulate((x, y), engine="batch", stalls=stalls, seed=3, work_dir=tmp_path / "work")
        assert simulation.passed
        for output, want in zip(simulation.outputs.values(), wanted, strict=True):
            assert torch.equal(output, want.double())
        if stalls is None:
            assert design.timing["exact"]
            check_every_beat(design, simulation.result, 12)
    _, moved, flat = simulation.outputs.values()
    assert torch.equal(moved, flat.reshape(-1, 3, 5).transpose(1, 2))
    assert float((flat - x.flatten(1)).abs().max()) <= design.streams["data_out_2"].fmt.scale / 2


class Beside(nn.Module):
    """An input that nothing reads, whose frames are longer than those of the result."""

    def forward(self, x: Tensor, unread: Tensor) -> Tensor:
        return x * 3


def test_the_interval_is_that_of_an_unread_input(tmp_path: Path) -> None:
    """The result has one beat per frame, one in every cycle, but a frame of the other input takes four."""
    x, y = torch.randn(8, 3), torch.randn(8, 4, 2)
    config = {"hardware": {"max_parallelism": 4}}
    design = mase_hw.compile(Beside(), (x[:1], y[:1]), config, out=tmp_path / "bundle", calibration=[(x, y)])
    assert [design.streams[f"data_in_{i}"].beats for i in range(2)] == [1, 4]
    simulation = design.simulate((x, y), engine="batch")
    assert simulation.timings["data_out_0"].interval == 1
    assert simulation.interval == design.timing["interval"] == 4


def test_a_model_that_computes_nothing(tmp_path: Path) -> None:
    x = torch.randn(4, 3)
    design = mase_hw.compile(nn.Identity(), x[:1], out=tmp_path / "bundle", calibration=[x])
    assert [instance["module"] for instance in design.manifest["instances"]] == ["fixed_cast"]


class Folded(nn.Module):
    """A normalisation and constants, none of which is a node of the hardware."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3))
        self.gain = nn.Parameter(torch.rand(3, 1, 1) + 0.5)
        self.more = nn.Parameter(torch.rand(3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        torch.tanh(x)
        y: Tensor = self.body(x) * self.gain
        return y + self.more * 2


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quantize": {"overrides": {"body_1": {"config": {}}}}}, "overrides.body_1: was folded into body_0"),
        ({"quantize": {"overrides": {"body.1": {"config": {}}}}}, "overrides.body.1: was folded into body_0"),
        ({"quantize": {"by": "name", "mul_1": {"config": {}}}}, "mul_1: was computed once and stored as mul_1_folded"),
        ({"quantize": {"overrides": {"gain": {"config": {}}}}}, "gain: is a constant: its format is .* of mul"),
        ({"quantize": {"overrides": {"tanh": {"config": {}}}}}, "tanh: was removed, since nothing reads it"),
        ({"hardware": {"parallelism": {"body_1": {"data_in_0": 1}}}}, "body_1, which was folded into body_0"),
        ({"hardware": {"parallelism": {"gain": {"data_in_0": 1}}}}, "gain, which is a constant, which mul holds"),
        ({"hardware": {"fifo_depth": {"body_1.data_in_0": 4}}}, "body_1, which was folded into body_0"),
    ],
)
def test_what_was_folded_is_said(config: dict[str, Any], message: str, tmp_path: Path) -> None:
    """A rule, an override or lanes for a node that is gone: what became of it."""
    with pytest.raises(ConfigError, match=message):
        mase_hw.compile(Folded().eval(), torch.randn(1, 2, 3, 3), config, out=tmp_path / "bundle")


class Passing(nn.Module):
    """Layers that compute nothing, and calls of which only the parts are in hardware."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.drop, self.same, self.flat = nn.Linear(6, 6), nn.Dropout(0.5), nn.Identity(), nn.Flatten()
        self.block = nn.Sequential(nn.Linear(6, 4), nn.Dropout())

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.same(self.drop(self.fc(x)))
        first, second = x.chunk(2, 1)
        spread, _ = torch.var_mean(x, 1)
        return self.flat(self.block(x)), first + second, spread, x.max(1)[0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("drop", "passes on what fc gives"),
        ("same", "passes on what fc gives"),
        ("block.1", "passes on what block_0 gives"),
        ("flat", "passes on what block_0 gives"),
        ("chunk", "was cut into getitem, getitem_1"),
        ("var_mean", "was written as getitem_2"),
        ("max_1", "was written as getitem_4"),
    ],
)
def test_what_passes_on_or_was_cut(name: str, message: str, tmp_path: Path) -> None:
    """An override, a rule and lanes for what is no node of the hardware: into what it went."""
    config = {"config": {"data_out_width": 9}}
    for where in (
        {"quantize": {"overrides": {name: config}}},
        {"quantize": {"by": "name", "default": config, name: config}},
        {"hardware": {"parallelism": {name: {"data_in_0": 1}}}},
    ):
        with pytest.raises(ConfigError, match=message):
            mase_hw.compile(Passing().eval(), torch.randn(1, 6), where, out=tmp_path / "bundle")


def test_the_path_of_a_block_is_for_what_computes(tmp_path: Path) -> None:
    """Of a block with a dropout, an override is for the layers that have a format."""
    config = {
        "quantize": {"overrides": {"block": {"config": {"data_out_width": 5}}}},
        "hardware": {"parallelism": {"block_0": {"data_in_0": 1}}},
    }
    design = mase_hw.compile(Passing().eval(), torch.randn(1, 6), config, out=tmp_path / "bundle")
    assert design.streams["data_out_0"].fmt.width == 5
    names = {i["node"]: i["parameters"] for i in design.manifest["instances"]}
    assert names["block_0"]["DATA_IN_0_PARALLELISM_DIM_0"] == 1


class Steered(nn.Module):
    """Python code that shapes decide."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        frames, rows, columns = x.shape
        assert x.dim() == 3 and len(x.shape) == 3
        x = self.a(x) if columns == 5 else torch.relu(x)
        for _ in range(x.size(1) - 1):
            x = self.b(x)
        if x.shape[-1] > x.shape[1] and not x.is_floating_point():
            x = torch.sigmoid(x)
        parts = [part * (index + 1) for index, part in enumerate(x.chunk(rows - 1, dim=-1))]
        return torch.cat(parts, -1).reshape(frames, -1)


def test_shapes_steer_python(tmp_path: Path) -> None:
    """The number of frames stays open: the calibration has more of them than the example."""
    torch.manual_seed(2)
    x, model = torch.randn(8, 3, 5), Steered()
    design = mase_hw.compile(model, x[:1], out=tmp_path / "bundle", calibration=[x])
    with torch.no_grad():
        wanted, found = model(x), design.model(x)
    assert found.shape == wanted.shape == (8, 12)
    assert float((found - wanted).square().mean()) < 0.01 * float(wanted.square().mean())
    with pytest.raises(GraphError, match="cannot be traced"):
        MaseGraph(model)
    assert {node.name for node in MaseGraph(model, example=[x]).nodes} >= {"a", "b", "b_1", "mul_1"}


@pytest.mark.parametrize(
    ("forward", "text"),
    [
        (lambda x: x * 2 if x.sum() > 0 else x, "control flow"),
        (lambda x: torch.cat([x * i for i in range(x.argmax())]), "value of a tensor"),
    ],
)
def test_values_do_not(forward: Any, text: str, tmp_path: Path) -> None:
    class Decides(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = forward(x)
            return result

    with pytest.raises(GraphError, match=text) as caught:
        mase_hw.compile(Decides(), torch.randn(1, 4), out=tmp_path / "bundle")
    assert "only its shape can" in str(caught.value)
