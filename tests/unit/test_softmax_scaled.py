"""Softmax of scaled integers against exact shares, computed with 60 digits."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, Rounding, ScaledFormat
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize, quantize
from mase_hw.ops.requantize import requantization
from mase_hw.ops.rows.softmax import GUARD
from mase_hw.passes.quantize.integers.sums import shares_for, shares_of

OPS = default_catalogue()


def shares(codes: Any, x: ScaledFormat, sign: int) -> list[Any]:
    """The exact softmax of a row of codes."""
    with mpmath.workdps(60):
        terms = [mpmath.exp(sign * (int(m) - x.zero_point) * mpmath.mpf(x.scales[0])) for m in codes]
        return [term / mpmath.fsum(terms) for term in terms]


def given(name: str, x: ScaledFormat, want: ScaledFormat, codes: Any) -> Any:
    """Codes of the result, in the way that a planner of given formats takes."""
    exact = shares_for(want)
    formats: dict[str, FixedFormat] = {"data_in_0": x, "data_out_0": exact}
    out = Quantized(OPS[name], Arithmetic(formats))(dequantize(torch.tensor(codes, dtype=torch.float64), x))
    if exact != want:
        out = Quantized(OPS["requantize"], *requantization(exact, want))(out)
    return quantize(out, want).long().numpy()


@pytest.mark.parametrize("name", ["softmax", "softmin"])
@pytest.mark.parametrize(
    ("want", "worst"),
    [
        (shares_of(8, False), 1.0),
        (shares_of(8, True), 1.0),
        (ScaledFormat.make(8, 2.0**-8, -128), 1.0),
        (ScaledFormat.make(8, float(np.float32(1 / 255)), signed=False), 0.5 + 2.0 ** -(GUARD + 1)),
        (ScaledFormat.make(10, 0.0009, -512), 0.5 + 2.0 ** -(GUARD + 1)),
    ],
)
def test_shares(name: str, want: ScaledFormat, worst: float) -> None:
    """Within what the documentation says, in order, and the same whatever the zero point of the data is."""
    codes = np.random.default_rng(3).integers(-128, 128, (40, 9))
    codes[0] = 5  # all equal
    for scale in (0.4, 0.0213):
        x = ScaledFormat.make(8, scale, 17)
        found = given(name, x, want, codes)
        for row, got in zip(codes, found, strict=True):
            for exact, m in zip(shares(row, x, 1 if name == "softmax" else -1), got.tolist(), strict=True):
                steps = min(max(float(exact / want.scale) + want.zero_point, want.min_mantissa), want.max_mantissa)
                assert abs(m - steps) <= worst
            order = np.argsort(row if name == "softmax" else -row, kind="stable")
            assert (np.diff(got[order]) >= 0).all()
        moved = ScaledFormat.make(9, scale, -100)
        assert (given(name, moved, want, codes - 117) == found).all()
    assert len(np.unique(found)) > 30


def test_formats() -> None:
    for step in (2.0**-8, 1 / 255):
        assert shares_for(ScaledFormat.make(8, step, signed=False)) == ScaledFormat.make(8, step, signed=False)
        assert shares_for(ScaledFormat.make(8, step, -128)) == ScaledFormat.make(9, step, signed=False)
    for out in (ScaledFormat.make(8, 0.1, 3), ScaledFormat.make(8, 0.125, high=7)):
        with pytest.raises(UnsupportedError, match="a result without a zero point and limits"):
            Quantized(OPS["softmax"], Arithmetic({"data_in_0": ScaledFormat.make(8, 0.1), "data_out_0": out}))
    for formats in ({"data_in_0": ScaledFormat.make(8, 0.1), "data_out_0": FixedFormat(8, 3)},):
        with pytest.raises(UnsupportedError, match="fixed point only"):
            Quantized(OPS["log_softmax"], Arithmetic(formats, Rounding.HALF_EVEN))


@pytest.mark.parametrize("count", [2, 3, 6, 7, 10, 30, 34, 254])
def test_equal_numbers(count: int) -> None:
    """A share of equal numbers is ``1 / count``, rounded once to the step as float32 has it."""
    want = ScaledFormat.make(8, float(np.float32(1 / 255)), signed=False)
    found = given("softmax", ScaledFormat.make(8, 0.1), want, np.full((1, count), 5))
    assert set(found.flatten().tolist()) == {round(1 / (count * Fraction(want.scale)))}


def test_gradients() -> None:
    """As of floats, up to the steps of the formats."""
    x = ScaledFormat.make(8, 0.03, 5)
    values = torch.tensor([[0.3, -0.6, 1.2]], requires_grad=True)
    weights = torch.tensor([[1.0, 2.0, -1.0]])
    (
        Quantized(OPS["softmax"], Arithmetic({"data_in_0": x, "data_out_0": shares_of(8, False)}))(values) * weights
    ).sum().backward()
    found = values.grad
    other = values.detach().clone().requires_grad_()
    (torch.softmax(other, -1) * weights).sum().backward()
    assert found is not None and other.grad is not None and torch.allclose(found, other.grad, atol=0.02)
