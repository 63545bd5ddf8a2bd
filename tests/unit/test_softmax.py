"""Softmax and its relatives against float64: at most 1 LSB, in order, at every code."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat
from mase_hw.opdef import Arithmetic
from mase_hw.ops.rows._exponent import WORST, evaluate, exponent
from mase_hw.ops.rows.softmax import FLOAT, LOG, SOFTMAX, SOFTMIN, golden

U8, S8, S16 = FixedFormat(8, 8, signed=False), FixedFormat(8, 4), FixedFormat(16, 11)
PAIRS = [
    (S8, U8),
    (S8, FixedFormat(8, 7)),
    (FixedFormat(8, -1), U8),
    (S8, FixedFormat(8, 6)),
    (S16, FixedFormat(16, 16, signed=False)),
    (FixedFormat(12, 5, signed=False), FixedFormat(5, 5, signed=False)),
    (FixedFormat(20, 15), FixedFormat(8, 12, signed=False)),
]
LOGS = [
    (S8, FixedFormat(8, 3)),
    (S16, FixedFormat(16, 10)),
    (FixedFormat(8, 6), FixedFormat(12, 9)),
    (S8, FixedFormat(6, -1)),
]


def rows(source: FixedFormat, size: int) -> Tensor:
    """Rows of everything that is awkward: all equal, one winner, two near the top, a slow slope, noise."""
    torch.manual_seed(size)
    low, high = source.min_mantissa, source.max_mantissa
    noise = torch.randint(low, high + 1, (60, size))
    narrow = high - torch.randint(0, 40, (60, size))
    slope = torch.linspace(low, high, size).round().long()[None]
    flat = torch.full((1, size), low)
    winner = flat.clone()
    winner[0, -1] = high
    pair = winner.clone()
    pair[0, 0] = high - 1
    # One winner, all others at one distance: where their exponentials round alike, the errors add up.
    others = high - torch.arange(0, high - low + 1, max(1, (high - low) // 255))[:, None].expand(-1, size).clone()
    others[:, 0] = high
    return torch.cat([noise, narrow, slope, flat, winner, pair, others])


@pytest.mark.parametrize("size", [1, 2, 64, 197])
@pytest.mark.parametrize(
    ("function", "pair"), [*((f, p) for f in (SOFTMAX, SOFTMIN) for p in PAIRS), *((LOG, p) for p in LOGS)]
)
def test_within_one_lsb_and_in_order(function: int, pair: tuple[FixedFormat, FixedFormat], size: int) -> None:
    source, target = pair
    x = rows(source, size)
    out = golden(function)(Arithmetic({"data_in_0": source, "data_out_0": target}), {"data_in_0": x})["data_out_0"]
    exact = FLOAT[function](x.double() * source.scale, -1) * math.ldexp(1.0, target.frac_width)
    exact = exact.clamp(target.min_mantissa, target.max_mantissa)
    assert float((out.double() - exact).abs().max()) <= 1
    order = (-x if function == SOFTMIN else x).argsort(dim=-1)
    assert (out.gather(-1, order).diff(dim=-1) >= 0).all(), "a larger element got the smaller result"


@pytest.mark.parametrize(
    ("width", "source", "frac"),
    [(8, 4, 14), (12, 9, 10), (14, 10, 8), (16, 15, 22), (18, 14, 20), (3, -2, 9), (16, 12, 26), (16, 13, 34)],
)
def test_every_exponential(width: int, source: int, frac: int) -> None:
    """All distances: never rising, 1 at zero, at most the stated error."""
    found = evaluate(exponent(width, source, frac), torch.arange(1 << width))
    exact = torch.exp(-torch.arange(1 << width, dtype=torch.float64) * 2.0**-source) * 2.0**frac
    assert int(found[0]) == 1 << frac and (found.diff() <= 0).all()
    assert float((found.double() - exact).abs().max()) <= WORST + 1e-6


def test_the_gradient_is_that_of_the_float_function() -> None:
    x = torch.randint(-128, 128, (4, 9)).float().requires_grad_()
    a = Arithmetic({"data_in_0": S8, "data_out_0": FixedFormat(12, 12, signed=False)})
    weights = torch.randn(4, 9)
    (golden(SOFTMAX)(a, {"data_in_0": x})["data_out_0"] * weights).sum().backward()
    real = (x.detach().double() / 16).requires_grad_()
    (F.softmax(real, -1) * 4096 * weights).sum().backward()
    assert x.grad is not None and real.grad is not None
    torch.testing.assert_close(x.grad.double(), real.grad / 16, rtol=1e-5, atol=1e-5)


def test_too_wide_is_refused() -> None:
    with pytest.raises(FormatError, match="needs too large a memory"):
        exponent(30, 26, 20)
    with pytest.raises(FormatError, match="too wide"):
        exponent(16, 12, 37)
