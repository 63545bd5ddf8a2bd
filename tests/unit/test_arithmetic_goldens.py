"""Quotients, whole numbers and comparisons against Python's fractions, for every pair of codes."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch

from mase_hw.catalogue import default_catalogue
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.opdef import Arithmetic
from tests.unit.oracle import by_fraction

S5, S4, U4 = FixedFormat(5, 2), FixedFormat(4, 1), FixedFormat(4, 3, signed=False)


def codes(fmt: FixedFormat) -> list[int]:
    return list(range(fmt.min_mantissa, fmt.max_mantissa + 1))


def golden(name: str, a: Arithmetic, **tensors: list[int]) -> list[int]:
    op = default_catalogue()[name]
    assert op.golden is not None
    given = {key: torch.tensor(value, dtype=torch.float32) for key, value in tensors.items()}
    return [int(v) for v in op.golden(a, given)["data_out_0"].tolist()]


@pytest.mark.parametrize("overflow", Overflow)
@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize(
    ("over", "under", "out"),
    [(S5, S4, FixedFormat(6, 3)), (U4, S5, FixedFormat(4, 4)), (S5, U4, FixedFormat(3, -1))],
)
def test_quotients(
    over: FixedFormat, under: FixedFormat, out: FixedFormat, rounding: Rounding, overflow: Overflow
) -> None:
    pairs = list(itertools.product(codes(over), codes(under)))
    a = Arithmetic({"data_in_0": over, "data_in_1": under, "data_out_0": out}, rounding, overflow)
    found = golden("div", a, data_in_0=[n for n, _ in pairs], data_in_1=[d for _, d in pairs])
    for (n, d), result in zip(pairs, found, strict=True):
        if d == 0:
            wanted = out.max_mantissa if n > 0 else out.min_mantissa if n < 0 else 0
        else:
            value = Fraction(n, d) * Fraction(2) ** (under.frac_width - over.frac_width)
            wanted = by_fraction(value, (out.width, out.frac_width, out.signed), rounding.name, overflow.name)
        assert result == wanted, (n, d)


@pytest.mark.parametrize("overflow", Overflow)
@pytest.mark.parametrize(("name", "function"), [("floor_quotient", math.floor), ("trunc_quotient", math.trunc)])
@pytest.mark.parametrize(("over", "under"), [(S5, S4), (U4, S5), (S5, U4), (FixedFormat(5, -1), FixedFormat(4, 3))])
def test_whole_quotients(
    name: str, function: Callable[[Fraction], int], over: FixedFormat, under: FixedFormat, overflow: Overflow
) -> None:
    """In the format that the op chooses no quotient saturates; a number divided by zero is the end of it."""
    op = default_catalogue()[name]
    assert op.exact_out is not None
    out = op.exact_out({"data_in_0": over, "data_in_1": under}, (1,), {})
    pairs = list(itertools.product(codes(over), codes(under)))
    a = Arithmetic({"data_in_0": over, "data_in_1": under, "data_out_0": out}, Rounding.HALF_UP, overflow)
    found = golden(name, a, data_in_0=[n for n, _ in pairs], data_in_1=[d for _, d in pairs])
    for (n, d), result in zip(pairs, found, strict=True):
        if d:
            assert result == function(Fraction(n, d) * Fraction(2) ** (under.frac_width - over.frac_width)), (n, d)
        else:
            assert result == (out.max_mantissa if n > 0 else out.min_mantissa if n < 0 else 0)


@pytest.mark.parametrize(
    ("name", "function"), [("floor", math.floor), ("ceil", math.ceil), ("round", round), ("trunc", math.trunc)]
)
@pytest.mark.parametrize("source", [FixedFormat(6, 2), FixedFormat(5, 7), FixedFormat(4, -1), FixedFormat(4, 1), U4])
def test_whole_numbers(name: str, function: object, source: FixedFormat) -> None:
    out = FixedFormat(9, 1)
    found = golden(name, Arithmetic({"data_in_0": source, "data_out_0": out}), data_in_0=codes(source))
    wanted = [2 * function(Fraction(m) / Fraction(2) ** source.frac_width) for m in codes(source)]  # type: ignore[operator]
    assert found == wanted


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_comparisons(name: str) -> None:
    bit, function = FixedFormat(1, 0, signed=False), getattr(operator, name)
    pairs = list(itertools.product(codes(S5), codes(S4)))
    a = Arithmetic({"data_in_0": S5, "data_in_1": S4, "data_out_0": bit})
    found = golden(name, a, data_in_0=[x for x, _ in pairs], data_in_1=[y for _, y in pairs])
    assert found == [int(function(Fraction(x, 4), Fraction(y, 2))) for x, y in pairs]
    for number in (0.5, 0.3, -9.0, 3.75):
        a = Arithmetic({"data_in_0": S5, "data_out_0": bit}, attributes={"number": number})
        found = golden(f"{name}_number", a, data_in_0=codes(S5))
        assert found == [int(function(Fraction(m, 4), Fraction(number))) for m in codes(S5)]


@pytest.mark.parametrize("reverse", [False, True])
def test_choices(reverse: bool) -> None:
    bit, out = FixedFormat(2, 0), FixedFormat(4, 0)
    triples = list(itertools.product(codes(bit), codes(S5), codes(S4)))
    condition, kept, other = ([t[i] for t in triples] for i in range(3))
    second = "constant" if reverse else "data_in_2"
    formats = {"data_in_0": bit, "data_in_1": S5, second: S4, "data_out_0": out}
    a = Arithmetic(formats, Rounding.HALF_UP, Overflow.WRAP, {"reversed": True} if reverse else {})
    found = golden("choose" if reverse else "where", a, data_in_0=condition, data_in_1=kept, **{second: other})
    for (c, x, y), result in zip(triples, found, strict=True):
        value = Fraction(x, 4) if (c != 0) != reverse else Fraction(y, 2)
        assert result == by_fraction(value, (4, 0, True), "HALF_UP", "WRAP")


def test_stored_results() -> None:
    """The constant, whatever the data is."""
    a = Arithmetic({"data_in_0": S4, "constant": S5, "data_out_0": FixedFormat(4, 1)}, Rounding.TRUNC)
    found = golden("stored_result", a, data_in_0=[1, 2], constant=codes(S5))
    assert found == [by_fraction(Fraction(m, 4), (4, 1, True), "TRUNC", "SATURATE") for m in codes(S5)]


def test_copies() -> None:
    found = golden("passed_on", Arithmetic({"data_in_0": S5, "data_out_0": FixedFormat(4, 1)}), data_in_0=codes(S5))
    assert found == [by_fraction(Fraction(m, 4), (4, 1, True), "HALF_EVEN", "SATURATE") for m in codes(S5)]
