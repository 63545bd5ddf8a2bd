"""Softmax and its relatives against float64: at most 1 LSB, in order, at every code."""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from fractions import Fraction

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat
from mase_hw.numerics.exact_sums import shifted_product
from mase_hw.opdef import Arithmetic
from mase_hw.ops.rows._rows import WORST, evaluate, exponent
from mase_hw.ops.rows.softmax import FLOAT, LOG, SOFTMAX, SOFTMIN, exponentials, golden
from tests.unit.oracle import by_fraction

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
    out = golden(function, Arithmetic({"data_in_0": source, "data_out_0": target}), {"data_in_0": x})["data_out_0"]
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
    (golden(SOFTMAX, a, {"data_in_0": x})["data_out_0"] * weights).sum().backward()
    real = (x.detach().double() / 16).requires_grad_()
    (F.softmax(real, -1) * 4096 * weights).sum().backward()
    assert x.grad is not None and real.grad is not None
    torch.testing.assert_close(x.grad.double(), real.grad / 16, rtol=1e-5, atol=1e-5)


def test_too_wide_is_refused() -> None:
    with pytest.raises(FormatError, match="needs too large a memory"):
        exponent(30, 26, 20)
    with pytest.raises(FormatError, match="too wide"):
        exponent(16, 12, 43)


def rounded_exponential(distance: int, source: int, frac: int) -> int:
    """``exp(-distance * 2**-source)`` in LSBs of ``2**-frac``, by decimals of 28 digits."""
    exact = (-Decimal(distance) * Decimal(2) ** -source).exp() * 2**frac
    return round(Fraction(exact))


@pytest.mark.parametrize("size", [2, 4, 5, 64])
def test_every_bit(size: int) -> None:
    """Exponentials with as many more fraction bits as a row has address bits; their quotients rounded once."""
    source, target = S8, FixedFormat(12, 12, signed=False)
    frac = target.frac_width + math.ceil(math.log2(size))
    terms = [rounded_exponential(d, source.frac_width, frac) for d in range(1 << source.width)]
    x = rows(source, size)[50:90]
    out = golden(SOFTMAX, Arithmetic({"data_in_0": source, "data_out_0": target}), {"data_in_0": x})["data_out_0"]
    for found, row in zip(out.tolist(), x.tolist(), strict=True):
        each = [terms[max(row) - v] for v in row]
        wanted = [by_fraction(Fraction(e, sum(each)), (12, 12, False), "HALF_EVEN", "SATURATE") for e in each]
        assert found == wanted


@pytest.mark.parametrize("frac", [6, 12, 20, 21, 22, 24, 30, 34, 36, 42])
def test_wide_exponentials(frac: int) -> None:
    """The product of two factors, in float64, int64 or more bits than either, is that of Python integers."""
    plan = exponent(20, 14, frac)
    last = (1 << plan.index) - 1
    distances = [0, 1, 5, 1000, *range(1 << plan.fine, last, 997), last, last + 1]
    drop, wanted = 2 * plan.factor - frac, []
    for d in distances[:-1]:
        product = int(plan.coarse_table[d >> plan.fine]) * int(plan.fine_table[d & ((1 << plan.fine) - 1)])
        wanted.append((product + (1 << (drop - 1))) >> drop)
    assert wanted[0] == 1 << frac and plan.fine
    for given in (torch.tensor(distances), torch.tensor(distances, dtype=torch.float32)):
        assert evaluate(plan, given).tolist() == [*wanted, 0]


def test_long_rows() -> None:
    """A row of 32,768 values of 16 bits: at most 1 LSB from the exact quotient, and never above 1 together."""
    source, target = FixedFormat(16, 12), FixedFormat(16, 20, signed=False)
    x = torch.randint(-(1 << 15), 1 << 15, (2, 32768), generator=torch.Generator().manual_seed(0))
    out = golden(SOFTMAX, Arithmetic({"data_in_0": source, "data_out_0": target}), {"data_in_0": x})["data_out_0"]
    exact = torch.softmax(x.double() / 4096, -1) * 2**20
    assert float((out.double() - exact).abs().max()) <= 1 and float(exact.max()) > 50


@pytest.mark.parametrize("drop", [1, 31, 61, 62, 63, 90])
def test_shifted_products(drop: int) -> None:
    values = [0, 1, 3, (1 << 31) - 1, 1 << 31, (1 << 52) + 12345, (1 << 61) - 1]
    pairs = [(x, y) for x in values for y in values if (x * y) >> drop < 1 << 62]
    found = shifted_product(*(torch.tensor(side) for side in zip(*pairs, strict=True)), drop)
    assert found.tolist() == [(x * y + (1 << (drop - 1))) >> drop for x, y in pairs]


@pytest.mark.parametrize("size", [2, 4, 64])
@pytest.mark.parametrize("pair", PAIRS)
def test_exponentials_are_as_fine_as_the_bound_asks(pair: tuple[FixedFormat, FixedFormat], size: int) -> None:
    """Errors of all terms of a row are half an LSB of the result; with one bit less they would not be."""
    source, target = pair
    plan = exponentials(Arithmetic({"data_in_0": source, "data_out_0": target}), size, SOFTMAX)
    error = size * (Fraction(WORST) if plan.fine else Fraction(1, 2)) / Fraction(2) ** plan.frac
    assert error <= Fraction(1, 2) / Fraction(2) ** target.frac_width < 2 * error


@pytest.mark.parametrize("shape", [(), (5,), (4, 5), (2, 3, 4), (2, 3, 4, 2)])
@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
def test_rows_run_along_the_dimension_of_pytorch(shape: tuple[int, ...]) -> None:
    """The named one, counted from either end; PyTorch's own choice if none is."""
    torch.manual_seed(1)
    x = torch.randint(-128, 128, shape)
    rank = max(len(shape), 1)
    for dim in (None, *range(-rank, rank)):
        a = Arithmetic({"data_in_0": S8, "data_out_0": U8}, attributes={"dim": dim})
        out = golden(SOFTMAX, a, {"data_in_0": x})["data_out_0"]
        exact = F.softmax(x.double() / 16, dim) * 256
        assert float((out.double() - exact.clamp(max=255)).abs().max()) <= 1, dim
        a = Arithmetic({"data_in_0": S8, "data_out_0": FixedFormat(12, 6)}, attributes={"dim": dim})
        out, exact = golden(LOG, a, {"data_in_0": x})["data_out_0"], F.log_softmax(x.double() / 16, dim) * 64
        assert float((out.double() - exact).abs().max()) <= 1, dim


@pytest.mark.parametrize("function", [SOFTMAX, SOFTMIN, LOG])
def test_a_shape_without_values(function: int) -> None:
    """It gives the shape and the carrier that values would give."""
    a = Arithmetic({"data_in_0": S8, "data_out_0": FixedFormat(30, 20)})
    op = functools.partial(golden, function)
    found = op(a, {"data_in_0": torch.empty(3, 5, device="meta")})["data_out_0"]
    values = op(a, {"data_in_0": torch.zeros(3, 5)})["data_out_0"]
    assert found.is_meta and found.shape == values.shape and found.dtype == values.dtype


def test_a_logarithm_uses_the_widest_carrier_and_no_more() -> None:
    """Far below the largest element the result is the distance itself: exact while it fits 64 bits, refused beyond."""
    # The logarithm has 3 fraction bits more than the result, so a distance of 49 bits becomes one of 62.
    target, top = FixedFormat(62, 10), (1 << 48) - 1
    x = torch.tensor([[top, -top - 1], [top, 1], [top - 3**29, top]])
    a = Arithmetic({"data_in_0": FixedFormat(49, 0), "data_out_0": target})
    out = golden(LOG, a, {"data_in_0": x})["data_out_0"]
    assert out.tolist() == [[(v - max(row)) << 10 for v in row] for row in x.tolist()]
    with pytest.raises(FormatError, match="does not fit the widest carrier"):
        golden(LOG, Arithmetic({"data_in_0": FixedFormat(50, 0), "data_out_0": target}), {"data_in_0": x})


def test_the_sum_of_a_logarithm_may_be_the_wider_part() -> None:
    """An input of 60 fraction bits: the logarithm of 20 has 2 bits before them, which fit; that of 60 has 3."""
    a = Arithmetic({"data_in_0": FixedFormat(8, 60), "data_out_0": FixedFormat(16, 10)})
    x = torch.randint(-128, 128, (3, 20))
    # Elements differ by less than 2**-52, so all of a row have the same share.
    out = golden(LOG, a, {"data_in_0": x})["data_out_0"].to(torch.int64)
    assert set(out.flatten().tolist()) == {round(Fraction(-Decimal(20).ln() * 2**10))}
    with pytest.raises(FormatError, match="does not fit the widest carrier"):
        golden(LOG, a, {"data_in_0": torch.zeros(3, 60)})


@pytest.mark.parametrize(("width", "source", "frac"), [(8, 4, 14), (16, 4, 10), (16, 12, 26)])
def test_an_exponential_is_stored_in_as_many_bits_as_it_needs(width: int, source: int, frac: int) -> None:
    """1 is the largest word of a memory; it has addresses up to where the exponential becomes 0, and no bit more."""
    plan = exponent(width, source, frac)
    for memory in plan.memories().values():
        assert memory.bits == max(memory.words).bit_length()
    least = 1 << (plan.index - 1)
    assert rounded_exponential(least, source, frac) > 0
    assert plan.index == width or rounded_exponential(2 * least, source, frac) == 0
