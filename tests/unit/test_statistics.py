"""Variance, deviation and length of rows against Python's fractions and integer roots: exactly rounded."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.opdef import Arithmetic
from mase_hw.ops.rows.statistics import NORM, STD, VAR, golden, moment_width


def floor_of(value: Fraction, root: bool, frac: int) -> tuple[int, bool]:
    """The value, or its root, times ``2**frac``, rounded down; and whether that is exact."""
    scaled = value * Fraction(4 if root else 2) ** frac
    whole = scaled.numerator // scaled.denominator
    found = math.isqrt(whole) if root else whole
    return found, scaled == (found * found if root else found)


def nearest(value: Fraction, root: bool, frac: int) -> int:
    """Half to even."""
    twice, exact = floor_of(value, root, frac + 1)
    whole, half = divmod(twice, 2)
    return whole + (half and (not exact or whole % 2))


@pytest.mark.parametrize("frac", [-2, 0, 3, 9])
@pytest.mark.parametrize(("function", "correction"), [(VAR, 0), (VAR, 1), (STD, 0), (STD, 1), (NORM, 0)])
def test_exactly_rounded(function: int, correction: int, frac: int) -> None:
    torch.manual_seed(frac)
    source, target = FixedFormat(8, 4), FixedFormat(24, frac, signed=False)
    for size in (2, 5, 64):
        x = torch.randint(-128, 128, (40, size))
        x[:4] //= 64
        for rounding in (Rounding.HALF_EVEN, Rounding.FLOOR):
            a = Arithmetic({"data_in_0": source, "data_out_0": target}, rounding, Overflow.SATURATE)
            a = Arithmetic(a.formats, rounding, Overflow.SATURATE, {"size": size, "correction": correction})
            out = golden(function, a, {"data_in_0": x})["data_out_0"]
            for row, got in zip(x.tolist(), out.flatten().tolist(), strict=True):
                mean = Fraction(0 if function == NORM else sum(row), size)
                square = sum((v - mean) ** 2 for v in row) / Fraction(256)
                square = square if function == NORM else square / (size - correction)
                root = function != VAR
                wanted = floor_of(square, root, frac)[0] if rounding is Rounding.FLOOR else nearest(square, root, frac)
                assert got == min(wanted, target.max_mantissa)


@pytest.mark.parametrize("keep", [None, False, True])
@pytest.mark.parametrize("dim", [None, (), 1, -1, (0, 2)])
def test_rows_are_those_of_pytorch(dim: int | tuple[int, ...] | None, keep: bool | None) -> None:
    torch.manual_seed(1)
    x = torch.randint(-128, 128, (3, 4, 5))
    given = {"dim": dim} | ({} if keep is None else {"keepdim": keep})
    a = Arithmetic({"data_in_0": FixedFormat(8, 4), "data_out_0": FixedFormat(16, 6)}, attributes=given)
    out = golden(STD, a, {"data_in_0": x})["data_out_0"].double()
    exact = torch.std(x.double() / 16, dim, keepdim=bool(keep)) * 64
    assert out.shape == exact.shape and float((out - exact).abs().max()) <= 0.5 + 1e-9


def test_roots_next_to_squares() -> None:
    """Where float64 has the root of ``k**2 - 1`` as ``k``."""
    rows, wanted = [], []
    for root in (1 << 12, 1 << 26, (1 << 27) + 2, 1 << 28, 3 << 27):
        for square in (root**2 - 1, root**2, root**2 + 1):
            row, rest = [], square
            while rest:
                row.append(min(math.isqrt(rest), (1 << 28) - 1))
                rest -= row[-1] ** 2
            rows.append(row + [0] * (12 - len(row)))
            wanted.append(math.isqrt(square) // 2)
    formats = {"data_in_0": FixedFormat(29, 1), "data_out_0": FixedFormat(32, 0)}
    a = Arithmetic(formats, Rounding.FLOOR, Overflow.SATURATE, {"size": 12})
    assert golden(NORM, a, {"data_in_0": torch.tensor(rows)})["data_out_0"].flatten().tolist() == wanted


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("size", [2, 4, 6])
def test_moments_are_as_wide_as_the_largest(width: int, size: int) -> None:
    """Of a row that is half the least and half the greatest number."""
    row = [0] * (size // 2) + [2**width - 1] * (size // 2)
    largest = size * sum(v * v for v in row) - sum(row) ** 2
    assert moment_width(FixedFormat(width, 0), size, VAR) == largest.bit_length()


def test_the_gradient_is_that_of_the_float_function() -> None:
    x = torch.randint(-60, 60, (4, 9)).float().requires_grad_()
    a = Arithmetic({"data_in_0": FixedFormat(8, 4), "data_out_0": FixedFormat(12, 6)}, attributes={"size": 9})
    golden(STD, a, {"data_in_0": x})["data_out_0"].sum().backward()
    real = (x.detach().double() / 16).requires_grad_()
    (real.std(-1) * 64).sum().backward()
    assert x.grad is not None and real.grad is not None
    torch.testing.assert_close(x.grad.double(), real.grad / 16, rtol=1e-4, atol=1e-5)
