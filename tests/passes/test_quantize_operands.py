"""Operands of elementwise ops: what is data, what a constant; every bit against fractions."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw.errors import UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.passes import add_common_metadata_analysis_pass, init_metadata_analysis_pass, quantize_transform_pass
from mase_hw.passes.quantize.operands import exact_format

CONFIG = {
    "name": "fixed",
    **{f"{part}_{key}": value for part in ("data_in", "data_out") for key, value in (("width", 8), ("frac_width", 4))},
    "weight_width": 6,
}
HIGH = Fraction(5, 4)
STORED = torch.tensor([[0.5], [-1.25], [0.875]])


class Net(nn.Module):
    """One function of two inputs, a stored tensor and a parameter."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("stored", STORED.clone())

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        result: Tensor = self.function(x, y, self.stored)
        return result


def quantised(function: Callable[..., Tensor]) -> MaseGraph:
    """The net in fixed point: data at 8 bits, 4 of them fraction."""
    x = torch.zeros(3, 4)
    graph = MaseGraph(Net(function))
    graph, _ = init_metadata_analysis_pass(graph)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": x, "y": x}})
    graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": CONFIG}})
    return graph


def cast(value: Fraction) -> Fraction:
    """Half-even to 4 fraction bits, saturating at 8 bits: the oracle."""
    return Fraction(max(-128, min(127, round(value * 16))), 16)


BINARY: dict[str, tuple[Callable[..., Any], Callable[..., Fraction]]] = {
    "x + y": (lambda x, y, s: x + y, lambda x, y, s: x + y),
    "x += y": (lambda x, y, s: operator.iadd(x * 1, y), lambda x, y, s: x + y),
    "add": (lambda x, y, s: torch.add(x, y), lambda x, y, s: x + y),
    "add_": (lambda x, y, s: (x * 1).add_(y), lambda x, y, s: x + y),
    "x - y": (lambda x, y, s: x - y, lambda x, y, s: x - y),
    "x * y": (lambda x, y, s: x * y, lambda x, y, s: x * y),
    "maximum": (lambda x, y, s: torch.maximum(x, y), lambda x, y, s: max(x, y)),
    "minimum": (lambda x, y, s: torch.minimum(x, y), lambda x, y, s: min(x, y)),
    "number after": (lambda x, y, s: (x - 0.75) + y * 0, lambda x, y, s: cast(x - Fraction(3, 4))),
    "number before": (lambda x, y, s: 1.5 - x + y * 0, lambda x, y, s: cast(Fraction(3, 2) - x)),
    "stored after": (lambda x, y, s: (x * s) + y * 0, lambda x, y, s: cast(x * s)),
    "stored before": (lambda x, y, s: (s - x) + y * 0, lambda x, y, s: cast(s - x)),
    "stored, reshaped": (lambda x, y, s: x * s.view(1, 3).reshape(3, 1) + y * 0, lambda x, y, s: cast(x * s)),
    "twice": (lambda x, y, s: x + x + y * 0, lambda x, y, s: cast(x + x)),
    "neg": (lambda x, y, s: -x + y * 0, lambda x, y, s: cast(-x)),
    "abs": (lambda x, y, s: abs(x) + y * 0, lambda x, y, s: cast(abs(x))),
    "clamp": (lambda x, y, s: x.clamp(-0.8, 1.25) + y * 0, lambda x, y, s: max(cast(Fraction(-0.8)), min(x, HIGH))),
}


@pytest.mark.parametrize("name", BINARY)
def test_bits(name: str) -> None:
    """All combinations of extremes and random values, element by element."""
    function, oracle = BINARY[name]
    model = quantised(function).model
    codes = torch.randint(-128, 128, (40, 2, 3, 4), generator=torch.Generator().manual_seed(3))
    codes[0], codes[1], codes[2, 0], codes[2, 1] = -128, 127, -128, 127
    values = codes.double() / 16
    for x, y in values:
        got = model(x.float(), y.float())
        for row in range(3):
            for column in range(4):
                a, b = (Fraction(v[row, column].item()) for v in (x, y))
                wanted = cast(oracle(a, b, Fraction(STORED[row, 0].item())))
                assert Fraction(got[row, column].item()) == wanted, (name, a, b)


def test_metadata_of_a_constant() -> None:
    """A constant is a parameter of the node, in its own format; the data behind it is the first data input."""
    graph = quantised(lambda x, y, s: (s - x) + y * 0)
    args = graph.meta_of(graph.node("sub")).common.args
    assert set(args.tensors) == {"data_in_0", "constant"} and args["reversed"] is True
    assert args["constant"].shape == [3, 1] and args["constant"].precision == [6, 4]  # -1.25 needs two bits before
    assert [n for n in graph.nodes if n.op == "get_attr"] == []


@pytest.mark.parametrize(
    ("number", "width", "wanted"),
    [(0.5, 8, (2, 1)), (-1.0, 8, (2, 0)), (6.0, 8, (3, -1)), (0.0, 8, (2, 0)), (0.1, 8, None), (127.0, 7, None)],
)
def test_numbers_are_exact_where_they_fit(number: float, width: int, wanted: tuple[int, int] | None) -> None:
    fmt = exact_format(number, width)
    assert (None if fmt is None else (fmt.width, fmt.frac_width)) == wanted
    if fmt is not None:
        mantissa = Fraction(number) * Fraction(2) ** fmt.frac_width
        assert mantissa.denominator == 1 and fmt.min_mantissa <= mantissa <= fmt.max_mantissa


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, y, s: torch.add(x, y, alpha=2), "scaled operand"),
        (lambda x, y, s: x.clamp(min=float("nan")) + y, "only numbers are limits"),
    ],
)
def test_refused(function: Callable[..., Tensor], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        quantised(function)
