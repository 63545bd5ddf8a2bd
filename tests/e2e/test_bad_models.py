"""Models and data that cannot become hardware: a clear error of the right kind, and nothing written."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError, FormatError, GraphError, UnsupportedError
from tests.e2e.refusal import X, refused
from tests.unit.pipeline import MLP, WIDTHS, inputs, rule, seeded


class Squashed(nn.Module):
    """Two ops that no catalogue will ever have."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.pinv(torch.angle(self.fc(x)))


def test_unknown_op(out: Path) -> None:
    texts = [
        "2 node(s)",
        "angle (call_function torch.angle)",
        "pinv",
        "mase-hw ops",
        "replace the layer",
        "custom_ops",
    ]
    refused(out, UnsupportedError, texts, Squashed().eval(), X)


def test_unknown_layer(out: Path) -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.FractionalMaxPool2d(2, 2)).eval()
    refused(out, UnsupportedError, ["_1", "torch.nn.modules.pooling.FractionalMaxPool2d"], model, X)


class Doubled(nn.Linear):
    """Computes something else than its base."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.angle(super().forward(x))


def test_a_subclass_with_another_forward(out: Path) -> None:
    refused(out, UnsupportedError, ["angle"], nn.Sequential(Doubled(6, 3)).eval(), X)


@pytest.mark.parametrize("kind", ["forward_hook", "forward_pre_hook"])
@pytest.mark.parametrize("where", ["0", ""])
def test_hooks(out: Path, kind: str, where: str) -> None:
    """A hook changes what a module computes; hardware without it would be something else."""
    model = nn.Sequential(nn.Linear(6, 3)).eval()
    target = model.get_submodule(where)
    if kind == "forward_hook":
        target.register_forward_hook(lambda _m, _i, result: result * 2)
    else:
        target.register_forward_pre_hook(lambda _m, given: (given[0] * 2,))
    refused(out, UnsupportedError, ["hook"], model, X)


class AlwaysDrops(nn.Module):
    """Dropout that is on in evaluation, too: its result is random, unless nothing is dropped."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.fc, self.share = nn.Linear(6, 3), share

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.dropout(x, self.share, training=True))


def test_attribute_that_hardware_cannot_have(out: Path) -> None:
    refused(out, UnsupportedError, ["dropout", "training"], AlwaysDrops(0.0).eval(), X)


def test_a_random_result(out: Path) -> None:
    texts = ["different results for the same input", "AlwaysDrops", "random numbers", "dropout"]
    refused(out, GraphError, texts, AlwaysDrops(0.5).eval(), X)


class DropsAndSorts(AlwaysDrops):
    """Two kinds of what cannot be: no op, and random."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cummax(super().forward(x) + x.cumprod(-1)[:, :3], -1)[0]


def test_what_is_random_is_named_beside_what_is_no_op(out: Path) -> None:
    texts = ["2 node(s)", "1 line(s) are random", "cumprod", "cummax", "dropout with p = 0.5", "nn.Dropout"]
    refused(out, UnsupportedError, texts, DropsAndSorts(0.5).eval(), X)


@pytest.mark.parametrize(
    "config", [None, {"quantize": {"default": rule(**WIDTHS, weight_frac_width=4, bias_frac_width=4)}}]
)
@pytest.mark.parametrize("name", ["fc1.weight", "fc2.bias"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_not_a_number(out: Path, name: str, config: Any, value: float) -> None:
    model = seeded(MLP)
    with torch.no_grad():
        dict(model.named_parameters())[name].view(-1)[1] = value
    refused(out, FormatError, [f"{name} has {'NaN' if math.isnan(value) else 'infinite'} values"], model, X, config)


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 2), nn.Linear(6, 3)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.a(x), self.b(y)


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ((), ["x: missing", "y: missing"]),
        (X, ["y: missing", "expected: x, y"]),
        ({"x": X, "z": X}, ["y: missing", "z: the model has no such input"]),
        ((X, X, X), ["more example inputs than the model takes", "got: 3"]),
        ((X, "text"), ["y: not a tensor but str"]),
    ],
)
def test_missing_inputs(out: Path, given: Any, texts: list[str]) -> None:
    refused(out, ConfigError, texts, TwoInputs().eval(), given)


@pytest.mark.parametrize("shape", [(1, 5), (6, 1), (1, 6, 5)])
def test_shape_mismatch(out: Path, shape: tuple[int, ...]) -> None:
    texts = ["node 'fc1' cannot be evaluated", str(list(shape)), "weight [5, 6]", "check the shapes of dummy_in"]
    refused(out, GraphError, texts, seeded(MLP), torch.zeros(shape))


def test_calibration_data(out: Path) -> None:
    for data, kind, text in (
        ([], ConfigError, "no calibration data"),
        ([inputs(4, 5)], ConfigError, "does not have the shape of dummy_in"),
        ([X * math.nan], FormatError, "has NaN values"),
    ):
        with pytest.raises(kind, match=text):
            mase_hw.compile(seeded(MLP), X, out=out, calibration=data)
    with pytest.raises(ConfigError, match="shape of the example"):
        mase_hw.compile(seeded(MLP), X, out=out, vectors=inputs(4, 5))
