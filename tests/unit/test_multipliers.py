"""Lanes that share a multiplier: every pair of weights with every activation, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from mase_hw.errors import MaseHwError, UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.opdef import Arithmetic, Request
from mase_hw.ops.products._multipliers import Multiplication, choose


def request(
    act: FixedFormat, weight: FixedFormat, *, asked: str = "packed", family: str = "", narrow: bool = False
) -> Request:
    """What a layer asks for."""
    formats = {"data_in_0": act, "weight": weight}
    return Request("fc", Arithmetic(formats), {}, {}, implementation=asked, family=family, narrow=narrow)


S8, U8, S4 = FixedFormat(8, 4), FixedFormat(8, 4, signed=False), FixedFormat(4, 2)


def test_every_product_of_two_lanes() -> None:
    """All pairs of weights in [-127, 127] times all activations: the fields of the one product are both of theirs."""
    spacing = choose(request(S8, S8, narrow=True), 2, 4).spacing
    low, high = np.meshgrid(np.arange(-127, 128), np.arange(-127, 128))
    operand = (high << spacing) + low
    assert operand.min() >= -(2**24) and operand.max() < 2**24
    half = 1 << (spacing - 1)
    for x in range(-128, 128):
        product = operand * x + half
        field = (product & ((1 << spacing) - 1)) - half
        assert (field == low * x).all() and (product >> spacing == high * x).all()


CASES = [
    (S8, S8, 2, 8, True, Multiplication(2, 4, 17, True)),
    (S8, S8, 2, 8, False, Multiplication(2, 2, 16, False)),  # 128 * 128 twice: one more than half a field of 16 bits
    (U8, S8, 2, 8, True, Multiplication(2, 2, 17, True)),
    (S4, S4, 4, 8, True, Multiplication(4, 1, 7, True)),
    (S4, S4, 3, 8, False, Multiplication(3, 4, 10, False)),
]


@pytest.mark.parametrize(("act", "weight", "lanes", "products", "narrow", "wanted"), CASES)
def test_what_fits(
    act: FixedFormat, weight: FixedFormat, lanes: int, products: int, narrow: bool, wanted: Multiplication
) -> None:
    found = choose(request(act, weight, narrow=narrow), lanes, products)
    assert (found.packed, found.chain, found.narrow) == (wanted.packed, wanted.chain, wanted.narrow)
    # The extremes, in integers: operand and sums of a chain, which may start one lower than the middle of a field.
    lowest = -weight.max_mantissa if narrow else weight.min_mantissa
    for first in (lowest, weight.max_mantissa):
        for second in (lowest, weight.max_mantissa):
            operand = sum((first if lane % 2 else second) << (lane * found.spacing) for lane in range(found.packed))
            assert -(2**24) <= operand < 2**24
    sums = [found.chain * w * x for w in (lowest, weight.max_mantissa) for x in (act.min_mantissa, act.max_mantissa)]
    assert max(sums) - min(sums) < 2**found.spacing


def test_chosen_by_family() -> None:
    """Nothing is chosen for no family in particular, nor for one whose blocks hold no two products."""
    assert choose(request(S8, S8, asked=""), 4, 8).chain == 0
    assert choose(request(S8, S8, asked="", family="ecp5"), 4, 8).chain == 0
    assert choose(request(S8, S8, asked="", family="xc7"), 4, 8).packed == 2
    assert choose(request(S8, S8, asked="", family="xc7"), 1, 8) == Multiplication(1, 4, 17, False)
    assert choose(request(FixedFormat(30, 0), S8, asked="", family="xc7"), 4, 8).chain == 0


@pytest.mark.parametrize(
    ("asked", "lanes", "changes", "why", "nearest"),
    [
        ("packed", 1, {}, "no two output lanes share", "chain"),
        ("packed", 4, {"act": FixedFormat(16, 4), "weight": FixedFormat(16, 4)}, "do not fit a block", "chain"),
        ("packed", 4, {"family": "ecp5"}, "blocks of ecp5", "tree"),
        ("chain", 4, {"act": FixedFormat(30, 4)}, "do not fit a block of 25 x 18", "tree"),
    ],
)
def test_refused(asked: str, lanes: int, changes: dict[str, object], why: str, nearest: str) -> None:
    given = {"act": S8, "weight": S8, "asked": asked, **changes}
    with pytest.raises(UnsupportedError, match=why) as caught:
        choose(request(**given), lanes, 8)  # type: ignore[arg-type]
    assert caught.value.expected == nearest and caught.value.field == "hardware.implementation.fc"


def test_unknown() -> None:
    with pytest.raises(MaseHwError, match="no such implementation"):
        choose(request(S8, S8, asked="pack"), 4, 8)
