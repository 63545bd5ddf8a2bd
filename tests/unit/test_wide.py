"""Integers of two tensors against Python's: operators, casts with their ties, and the goldens that need them."""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.numerics import carrier, cast
from mase_hw.numerics.exact_sums import exact_linear, exact_matmul
from mase_hw.numerics.wide import BITS, WIDE, Wide

from .oracle import by_fraction

MODES = list(itertools.product(Rounding, Overflow))
EDGES = [0, 1, -1, (1 << 62) - 1, 1 << 62, -(1 << 62), (1 << 63) - 1, 1 << 63, -(1 << 63), 1 << 64, -(1 << 64) - 1]


def numbers(bits: int, count: int = 200, seed: int = 0) -> list[int]:
    """Of all lengths up to so many bits, and of both signs."""
    draw = random.Random(seed * 1000 + bits)
    found = [draw.randrange(-(1 << draw.randint(1, bits)), 1 << draw.randint(1, bits)) for _ in range(count)]
    return [v for v in EDGES if abs(v) < 1 << bits] + found


def wide(values: list[int]) -> Wide:
    return Wide.listed(values, (len(values),))


def as_format(fmt: FixedFormat) -> tuple[int, int, bool]:
    return fmt.width, fmt.frac_width, fmt.signed


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul], ids=lambda f: f.__name__)
def test_operators(operation: Callable[[Any, Any], Any]) -> None:
    bits = 61 if operation is operator.mul else 123
    xs, ys = numbers(bits), numbers(bits, seed=1)
    wanted = [operation(x, y) for x, y in zip(xs, ys, strict=True)]
    assert operation(wide(xs), wide(ys)).integers() == wanted
    for y in (3, -(1 << 40) + 1, 1 << 30):
        assert operation(wide(xs), y).integers() == [operation(x, y) for x in xs]
    small = torch.tensor([v for v in xs if abs(v) < 1 << 63], dtype=torch.int64)
    other = wide(ys[: len(small)])
    wanted = [operation(x, y) for x, y in zip(small.tolist(), ys, strict=False)]
    assert operation(Wide.of(small), other).integers() == wanted
    assert operation(small, other).integers() == wanted, "the operator of a tensor"
    assert (-wide(xs)).integers() == [-x for x in xs]


def test_a_product_of_unequal_factors() -> None:
    """Down to a sign alone: 124 bits are the longer factor's."""
    for bits in (1, 20, 62, 63, 94, 122):
        xs, ys = numbers(bits), numbers(123 - bits, seed=2)
        for x, y in zip(xs, ys, strict=False):
            assert (wide([x]) * wide([y])).integers() == (wide([y]) * wide([x])).integers() == [x * y]


def test_shifts() -> None:
    xs = numbers(123)
    for bits in (0, 1, 30, 61, 62, 63, 100, 124, 126, 200):
        assert (wide(xs) >> bits).integers() == [x >> bits for x in xs]
        fitting = [x for x in xs if abs(x << bits) < 1 << 124] or [0]
        assert (wide(fitting) << bits).integers() == [x << bits for x in fitting]


def test_sums_carry() -> None:
    """4,096 lower parts of 62 bits leave int64."""
    xs = [(1 << 62) - 1] * 4095 + [-(1 << 100)]
    assert wide(xs).reshape(64, 64).sum(-1).integers() == [sum(xs[64 * i : 64 * i + 64]) for i in range(64)]
    assert wide(xs).sum((0,), keepdim=True).integers() == [sum(xs)]
    assert wide(xs).cumsum(0).integers() == list(itertools.accumulate(xs))


def test_comparisons_and_choices() -> None:
    xs, ys = numbers(120), [x + d for x, d in zip(numbers(120), itertools.cycle((0, 1, -1, 1 << 70)), strict=False)]
    a, b = wide(xs), wide(ys)
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        wanted = [getattr(operator, name)(x, y) for x, y in zip(xs, ys, strict=True)]
        assert getattr(torch, name)(a, b).tolist() == wanted, name  # what a golden of a comparison calls
    stands: Any = torch
    assert stands.maximum(a, b).integers() == list(map(max, xs, ys))
    assert stands.minimum(a, b).integers() == list(map(min, xs, ys))
    assert stands.where(a >= 0, a, b).integers() == [x if x >= 0 else y for x, y in zip(xs, ys, strict=True)]
    assert stands.addcmul(a, wide([7]), wide([3])).integers() == [x + 21 for x in xs]
    assert a.clamp(min=0).integers() == [max(x, 0) for x in xs]
    assert (a < 0).tolist() == [x < 0 for x in xs]


def test_elements_move_as_those_of_a_tensor() -> None:
    values = [v << 70 | 5 for v in range(-12, 12)]
    x, y = wide(values), torch.arange(-12, 12)
    stands: Any = torch

    def moved(move: Callable[[Any], Any]) -> None:
        assert move(x.reshape(2, 3, 4)).integers() == [v << 70 | 5 for v in move(y.reshape(2, 3, 4)).flatten().tolist()]

    for move in (
        lambda v: v.permute(0, 2, 1),
        lambda v: v.transpose(-1, 0).flatten(1, 2),
        lambda v: v[:, 1:, ...].unsqueeze(0),
        lambda v: v.chunk(2, -1)[1],
        lambda v: stands.cat([v, v[:1]], 0),
        lambda v: stands.stack([v, v], -1),
        lambda v: list(v)[1],
    ):
        moved(move)
    assert stands.tril(x.reshape(6, 4), -1).integers() == [
        v << 70 | 5 if v or at == 12 else 0 for at, v in enumerate(torch.tril(y.reshape(6, 4), -1).flatten().tolist())
    ]
    assert x.shape == (24,) and x.device == y.device and x.dtype == WIDE
    with pytest.raises(AttributeError, match="no frexp"):
        x.frexp()
    with pytest.raises(TypeError):
        stands.exp(x)


@pytest.mark.parametrize(("rounding", "overflow"), MODES, ids=str)
def test_casts(rounding: Rounding, overflow: Overflow) -> None:
    """Random integers of up to 124 bits, ties and their neighbours among them, to formats of all sides of them."""
    seen = 0
    for frac, bits in itertools.product((0, 50, 68, 100), (64, 90, 124)):
        for fmt in (
            FixedFormat(32, frac - 2),
            FixedFormat(53, frac),
            FixedFormat(24, frac - 40),
            FixedFormat(40, frac - 70, signed=False),
            FixedFormat(48, frac - 100),
            FixedFormat(20, frac + 7),
            FixedFormat(8, frac - 160),
        ):
            drop = max(frac - fmt.frac_width, 1)
            values = numbers(bits, 60)
            ties = [(2 * v + 1) << (drop - 1) for v in numbers(max(1, bits - drop - 1), 40, seed=3)]
            values += [t + d for t in ties for d in (-1, 0, 1) if abs(t) < 1 << 124]
            seen += sum(abs(t) >= 1 << 64 for t in ties)
            got = cast(wide(values), frac, fmt, rounding, overflow).to(torch.int64).tolist()
            wanted = [
                by_fraction(Fraction(v) / Fraction(2) ** frac, as_format(fmt), rounding.name, overflow.name)
                for v in values
            ]
            assert got == wanted, (frac, bits, fmt)
    assert seen > 300, "ties of more than 64 bits"


def test_the_carrier_is_asked_for() -> None:
    assert carrier((1 << 63) - 1, wide=True) == torch.int64
    assert carrier(1 << 63, wide=True) == carrier(1 << (BITS - 1), wide=True) == WIDE
    with pytest.raises(FormatError, match="at most 64 bits"):
        carrier(1 << 63)
    with pytest.raises(FormatError, match="at most 126 bits"):
        carrier((1 << (BITS - 1)) + 1, wide=True)


@pytest.mark.parametrize("bits", [34, 44, 53])
def test_sums_of_products(bits: int) -> None:
    inner = 64
    ends = [-(1 << bits - 1), (1 << bits - 1) - 1]
    x = [ends[:1] * inner, ends[1:] * inner, numbers(bits - 1, inner)[:inner]]
    w = [ends[:1] * inner, ends * (inner // 2), numbers(bits - 1, inner, seed=1)[:inner]]
    wanted = [sum(map(operator.mul, row, column)) for row in x for column in w]
    given, bound = (torch.tensor(x), torch.tensor(w)), inner << 2 * (bits - 1)
    found: Any = exact_linear(*given, bound)
    assert found.dtype == WIDE and found.shape == (3, 3) and found.integers() == wanted
    found = exact_matmul(given[0], given[1].T, bound)
    assert found.integers() == wanted


def golden(name: str, formats: dict[str, FixedFormat], tensors: dict[str, Tensor], **more: Any) -> list[int]:
    compute = default_catalogue()[name].golden
    assert compute is not None
    modes = [more.pop(key) for key in ("rounding", "overflow") if key in more]
    found = compute(Arithmetic(formats, *modes, attributes=more), tensors)["data_out_0"]
    return [int(v) for v in found.flatten().tolist()]


def mantissas(fmt: FixedFormat, *shape: int, seed: int = 0) -> Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.randint(fmt.min_mantissa, fmt.max_mantissa + 1, shape, generator=made)


@pytest.mark.parametrize(("rounding", "overflow"), MODES, ids=str)
def test_goldens_of_products(rounding: Rounding, overflow: Overflow) -> None:
    """A linear layer with shifts by channel, a convolution, a product of two streams, an affine map, a PReLU."""
    s = FixedFormat
    fmt = {"data_in_0": s(36, 28), "weight": s(36, 24), "bias": s(40, 60), "data_out_0": s(40, 58)}
    how = {"rounding": rounding, "overflow": overflow}

    def result(exact: int, frac: int, out: FixedFormat) -> int:
        return by_fraction(Fraction(exact) / Fraction(2) ** frac, as_format(out), rounding.name, overflow.name)

    x, w, b = mantissas(fmt["data_in_0"], 5, 7), mantissas(fmt["weight"], 3, 7, seed=1), mantissas(fmt["bias"], 3)
    shift = torch.tensor([0, 3, 1])
    formats = fmt | {"weight_shift": s(2, 0, signed=False)}
    got = golden("linear", formats, {"data_in_0": x, "weight": w, "bias": b, "weight_shift": shift}, **how)
    rows = [
        ((sum(map(operator.mul, row, column)) << k) << 8) + bias
        for row in x.tolist()
        for column, k, bias in zip(w.tolist(), shift.tolist(), b.tolist(), strict=True)
    ]
    assert got == [result(v, 60, fmt["data_out_0"]) for v in rows]
    assert max(map(abs, rows)) > 1 << 72

    image, kernel = mantissas(fmt["data_in_0"], 1, 4, 3, 4), mantissas(fmt["weight"], 2, 2, 2, 3, seed=2)
    given = {"data_in_0": image, "weight": kernel, "bias": b[:2]}
    got = golden("conv2d", fmt, given, **how, groups=2, padding=(1, 0), stride=(1, 1), dilation=1)
    padded = torch.nn.functional.pad(image, (0, 0, 1, 1))[0].tolist()
    wanted = [
        (sum(padded[2 * o + c][y + dy][at + dx] * kernel[o, c, dy, dx].item()
             for c in range(2) for dy in range(2) for dx in range(3)) << 8) + b[o].item()
        for o in range(2) for y in range(4) for at in range(2)
    ]  # fmt: skip
    assert got == [result(int(v), 60, fmt["data_out_0"]) for v in wanted]

    other = {"data_in_0": s(36, 28), "data_in_1": s(36, 24), "data_out_0": s(40, 50)}
    y = mantissas(other["data_in_1"], 1, 7, 1, 3, seed=4)
    got = golden("grouped_matmul", other, {"data_in_0": x.reshape(1, 5, 1, 7), "data_in_1": y}, **how, transposed=False)
    columns = y.reshape(7, 3).T.tolist()
    sums = [sum(map(operator.mul, row, column)) for row in x.tolist() for column in columns]
    assert got == [result(v, 52, other["data_out_0"]) for v in sums]

    got = golden("batch_norm1d", fmt, {"data_in_0": x, "weight": w[0], "bias": b[:1]}, **how)
    affine = [(v * k << 8) + b[0].item() for row in x.tolist() for v, k in zip(row, w[0].tolist(), strict=True)]
    assert got == [result(int(v), 60, fmt["data_out_0"]) for v in affine]

    got = golden("prelu", fmt, {"data_in_0": x, "weight": w[0, :1]}, **how)
    bent = [v << 24 if v >= 0 else v * w[0, 0].item() for row in x.tolist() for v in row]
    assert got == [result(int(v), 52, fmt["data_out_0"]) for v in bent]

    got = golden("mul", other, {"data_in_0": x, "data_in_1": mantissas(other["data_in_1"], 5, 7)}, **how)
    pairs = zip(x.flatten().tolist(), mantissas(other["data_in_1"], 5, 7).flatten().tolist(), strict=True)
    assert got == [result(v * k, 52, other["data_out_0"]) for v, k in pairs]


@pytest.mark.parametrize(("rounding", "overflow"), MODES, ids=str)
def test_goldens_that_divide(rounding: Rounding, overflow: Overflow) -> None:
    """Variance, deviation, length and mean; means of 8 and of equal numbers meet ties and whole numbers."""
    source, size = FixedFormat(40, 30), 8
    x = mantissas(source, 40, size)
    x[:8] &= ~7
    x[8:12] = x[8:12, :1]
    shifted = {"data_in_0": source, "data_out_0": FixedFormat(50, 66)}
    how = {"rounding": rounding, "overflow": overflow}
    got = golden("mean_over", shifted, {"data_in_0": x}, **how, dim=-1)
    sums = [Fraction(sum(row), size << 30) for row in x.tolist()]
    assert got == [by_fraction(v, (50, 66, True), rounding.name, overflow.name) for v in sums]
    wide_sums = golden("cumsum", shifted | {"data_in_0": FixedFormat(53, 30)}, {"data_in_0": x << 12}, **how, dim=-1)
    running = [Fraction(v << 12, 1 << 30) for row in x.tolist() for v in itertools.accumulate(row)]
    assert wide_sums == [by_fraction(v, (50, 66, True), rounding.name, overflow.name) for v in running]
    for name, correction, frac in itertools.product(("var", "std", "norm"), (0, 1), (28, 34)):
        target = FixedFormat(48, frac)
        given = {"data_in_0": source, "data_out_0": target}
        got = golden(name, given, {"data_in_0": x}, **how, size=size, correction=correction)
        for row, found in zip(x.tolist(), got, strict=True):
            mean = Fraction(0) if name == "norm" else Fraction(sum(row), size)
            square = sum(((v - mean) ** 2 for v in row), Fraction(0)) / Fraction(4) ** 30
            square = square if name == "norm" else square / (size - correction)
            if name != "var":
                # A root between two halves of an LSB is rounded as any number between them.
                whole = square * Fraction(4) ** (frac + 1)
                root = math.isqrt(math.floor(whole))
                square = (Fraction(root) + Fraction(int(root * root != whole), 2)) / Fraction(2) ** (frac + 1)
            assert found == by_fraction(square, as_format(target), rounding.name, overflow.name), (name, row)
