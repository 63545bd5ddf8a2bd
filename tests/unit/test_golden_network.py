"""A whole quantised network against Python integers: no torch, no numpy, nothing of the package in the reference.

The network: x -> fc1 -> relu -> cast -> fc2, odd sizes, every format different, sums far beyond the ranges.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import nn

from mase_hw.ir import MaseGraph
from mase_hw.passes import add_common_metadata_analysis_pass, init_metadata_analysis_pass, verify_analysis_pass
from mase_hw.passes.quantize.quantize import quantize_transform_pass

ROUNDINGS = ("half_even", "half_up", "floor", "trunc", "half_away")
OVERFLOWS = ("saturate", "wrap")


@dataclass(frozen=True)
class Fmt:
    width: int
    frac: int
    signed: bool = True

    def keys(self, tensor: str) -> dict[str, Any]:
        """As the configuration writes it."""
        return {f"{tensor}_width": self.width, f"{tensor}_frac_width": self.frac, f"{tensor}_signed": self.signed}


X, W1, B1, Y1 = Fmt(9, 5), Fmt(7, 6), Fmt(10, 12), Fmt(9, 4)
R = Fmt(7, 3, signed=False)
Z, W2, B2, Y2 = Fmt(6, 2), Fmt(5, 3), Fmt(8, 1), Fmt(7, 2)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.relu, self.fc2 = nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.relu(self.fc1(x)))


def configuration(rounding: str, overflow: str) -> dict[str, Any]:
    """Arguments of the quantisation pass; every format given."""

    def rule(**formats: Fmt) -> dict[str, Any]:
        keys = {key: value for name, fmt in formats.items() for key, value in fmt.keys(name).items()}
        return {"config": {"name": "fixed", "rounding": rounding, "overflow": overflow, **keys}}

    return {
        "by": "name",
        "fc1": rule(data_in=X, weight=W1, bias=B1, data_out=Y1),
        "relu": rule(data_in=Y1, data_out=R),
        "fc2": rule(data_in=Z, weight=W2, bias=B2, data_out=Y2),
    }


def quantised(rounding: str, overflow: str, model: nn.Module) -> MaseGraph:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": torch.zeros(1, 7)}})
    graph, info = quantize_transform_pass(graph, configuration(rounding, overflow))
    assert info["casts"] == ["fc2_cast"]
    verify_analysis_pass(graph)
    return graph


def divide(m: int, shift: int, rounding: str) -> int:
    """m / 2**shift, rounded; only integer operations."""
    if shift <= 0:
        return m << -shift
    whole, rest, half = m >> shift, m & ((1 << shift) - 1), 1 << (shift - 1)
    if rounding == "half_even":
        return whole + (1 if rest > half or (rest == half and whole & 1) else 0)
    if rounding == "half_up":
        return whole + (1 if rest >= half else 0)
    if rounding == "half_away":
        return whole + (1 if rest > half or (rest == half and m > 0) else 0)
    return whole + (1 if rounding == "trunc" and m < 0 and rest else 0)


def bring(m: int, frac: int, fmt: Fmt, rounding: str = "half_even", overflow: str = "saturate") -> int:
    m = divide(m, frac - fmt.frac, rounding)
    low = -(1 << (fmt.width - 1)) if fmt.signed else 0
    high = low + (1 << fmt.width) - 1
    if overflow == "saturate":
        return low if m < low else high if m > high else m
    while m > high:
        m -= 1 << fmt.width
    while m < low:
        m += 1 << fmt.width
    return m


def enter(value: float, fmt: Fmt) -> int:
    """A float into a format: half-even, saturating; every float is an integer over a power of two."""
    exact = Fraction(value)
    return bring(exact.numerator, exact.denominator.bit_length() - 1, fmt)


def linear(
    x: list[int], fx: Fmt, w: list[list[int]], fw: Fmt, b: list[int], fb: Fmt, y: Fmt, modes: tuple[str, str]
) -> list[int]:
    frac = max(fx.frac + fw.frac, fb.frac)
    outputs = []
    for row, bias in zip(w, b, strict=True):
        total = sum(a * c for a, c in zip(x, row, strict=True)) << (frac - fx.frac - fw.frac)
        outputs.append(bring(total + (bias << (frac - fb.frac)), frac, y, *modes))
    return outputs


def reference(frame: list[float], weights: dict[str, Any], modes: tuple[str, str]) -> list[int]:
    def parameters(name: str, fw: Fmt, fb: Fmt) -> tuple[list[list[int]], list[int]]:
        rows = [[enter(v, fw) for v in row] for row in weights[f"{name}.weight"]]
        return rows, [enter(v, fb) for v in weights[f"{name}.bias"]]

    w1, b1 = parameters("fc1", W1, B1)
    w2, b2 = parameters("fc2", W2, B2)
    hidden = linear([enter(v, X) for v in frame], X, w1, W1, b1, B1, Y1, modes)
    rectified = [bring(max(m, 0), Y1.frac, R, *modes) for m in hidden]
    # A cast that the quantisation pass puts between formats is like every entry: half-even, saturating.
    narrow = [bring(m, R.frac, Z) for m in rectified]
    return linear(narrow, Z, w2, W2, b2, B2, Y2, modes)


@pytest.fixture(scope="module")
def model() -> Net:
    torch.manual_seed(3)
    net = Net()
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            parameter.mul_(3.0 if "fc2" in name else 2.0)
    return net


@pytest.fixture(scope="module")
def frames() -> torch.Tensor:
    """Ordinary inputs, large ones, and multiples of half an input step, which are ties."""
    torch.manual_seed(4)
    ties = torch.randint(-600, 600, (60, 7)) / 64
    return torch.cat([torch.randn(60, 7) * 2, torch.randn(60, 7) * 20, ties, torch.zeros(1, 7)])


@pytest.mark.parametrize("modes", list(itertools.product(ROUNDINGS, OVERFLOWS)), ids="-".join)
def test_every_bit_of_a_network(model: Net, frames: torch.Tensor, modes: tuple[str, str]) -> None:
    graph = quantised(*modes, model)
    found = (graph.model(frames) * 2**Y2.frac).tolist()
    weights = {name: p.tolist() for name, p in model.named_parameters()}
    expected = [reference(frame, weights, modes) for frame in frames.tolist()]
    assert found == expected
    # The test would show little if nothing were rounded, cut off or different from frame to frame.
    flat = [v for row in expected for v in row]
    assert len(set(flat)) > 50
    if modes[1] == "saturate":
        assert {-64, 63} & set(flat)


def test_modes_give_different_networks(model: Net, frames: torch.Tensor) -> None:
    """Each mode is really used: no two agree on all of these inputs."""
    results = [
        str(quantised(*modes, model).model(frames).tolist()) for modes in itertools.product(ROUNDINGS, OVERFLOWS)
    ]
    assert len(set(results)) == len(results)


@pytest.mark.parametrize("shape", [(7,), (1, 7), (5, 7), (2, 3, 7), (2, 2, 2, 7)])
def test_leading_dimensions_are_a_batch(model: Net, shape: tuple[int, ...]) -> None:
    torch.manual_seed(5)
    graph = quantised("half_even", "saturate", model)
    x = torch.randn(shape) * 4
    weights = {name: p.tolist() for name, p in model.named_parameters()}
    found = (graph.model(x) * 2**Y2.frac).reshape(-1, 3).tolist()
    assert found == [reference(frame, weights, ("half_even", "saturate")) for frame in x.reshape(-1, 7).tolist()]
