"""Lanes that share a multiplier: every pair of weights with every activation, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from mase_hw.errors import MaseHwError, UnsupportedError
from mase_hw.formats import FixedFormat, SignFormat
from mase_hw.opdef import Arithmetic, Request
from mase_hw.ops.products._multipliers import Multiplication, choose, logic_rows


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


def test_every_product_of_two_lanes_with_every_weight() -> None:
    """The lower weight is lifted by 128, and the sum starts with 128 times what the activation lacks to 127."""
    spacing = choose(request(S8, S8), 2, 4).spacing
    low, high = np.meshgrid(np.arange(-128, 128), np.arange(-128, 128))
    operand = (high << spacing) + low + 128
    assert operand.min() >= -(2**24) and operand.max() < 2**24
    for x in range(-128, 128):
        product = operand * x + 128 * (127 - x)
        # The field begins with 128 * 127, its middle for this one product.
        field = (product & ((1 << spacing) - 1)) - 128 * 127
        assert (field == low * x).all() and (product >> spacing == high * x).all()


# Lanes, products, and what is found: lanes that share, products of a chain, bits of a field, whether they are lifted.
# A chain is as long as its sums fit into a bit more than their fields, up to eight products, and all are equally long.
CASES = [
    (S8, S8, 2, 8, True, (2, 8, 17, False)),  # eight times 32,512 are below 2^18
    (S8, S8, 2, 8, False, (2, 4, 16, False)),  # four times 32,640 are below 2^17, and 24 bits need no lift
    (U8, S8, 2, 8, True, (2, 4, 17, False)),
    (S4, S4, 4, 8, True, (4, 2, 7, False)),
    (U8, S8, 2, 8, False, (2, 4, 17, True)),
    (S4, S4, 3, 8, False, (3, 8, 10, False)),
    (S4, S4, 4, 8, False, (4, 1, 7, True)),  # lifted sums in more than two fields have no bit more
    (S8, S4, 3, 8, False, (3, 1, 10, False)),  # 2,040 and the sign of the field below are below 2^11
]
WIDER = [
    (S8, S8, 2, 8, False, (2, 8, 18, False)),
    (U8, S8, 2, 8, False, (2, 8, 18, False)),
    (S8, S4, 3, 8, False, (3, 2, 11, False)),
    (S4, S4, 4, 8, False, (4, 2, 7, False)),
]


@pytest.mark.parametrize(
    ("family", "act", "weight", "lanes", "products", "narrow", "wanted"),
    [*(("xc7", *case) for case in CASES), *(("xcup", *case) for case in WIDER)],
)
def test_what_fits(
    family: str,
    act: FixedFormat,
    weight: FixedFormat,
    lanes: int,
    products: int,
    narrow: bool,
    wanted: tuple[int, int, int, bool],
) -> None:
    found = choose(request(act, weight, narrow=narrow, family=family), lanes, products)
    length = -(-products // -(-products // found.chain))
    assert (found.packed, length, found.spacing, found.lift) == wanted
    assert found.narrow == narrow
    # The extremes, in integers: operand and sums of a chain, wherever they start.
    lowest = -weight.max_mantissa if narrow else weight.min_mantissa
    for first in (lowest, weight.max_mantissa):
        for second in (lowest, weight.max_mantissa):
            lanes_of = [first if lane % 2 else second for lane in range(found.packed)]
            lifted = [w + (2 ** (weight.width - 1) if found.lift else 0) for w in lanes_of[:-1]] + lanes_of[-1:]
            operand = sum(w << (lane * found.spacing) for lane, w in enumerate(lifted))
            limit = {"xc7": 2**24, "xcup": 2**26}[family]
            assert -limit <= operand < limit
    ends = [w * x for w in (lowest, weight.max_mantissa) for x in (act.min_mantissa, act.max_mantissa)]
    # A bit more than a field: the one above says the sign, which a field between others has to hold as well.
    over = not (found.lift and found.packed > 2)
    room = 2 ** (found.spacing + over) - (over and found.packed > 2)
    assert length * (max(ends) - min(ends)) < room


def test_chosen_by_family() -> None:
    """Nothing is chosen for no family in particular, nor for one whose blocks hold no two products."""
    assert choose(request(S8, S8, asked=""), 4, 8).chain == 0
    assert choose(request(S8, S8, asked="", family="ecp5"), 4, 8).chain == 0
    assert choose(request(S8, S8, asked="", family="xc7"), 4, 8).packed == 2
    assert choose(request(S8, S8, asked="", family="xc7"), 1, 8) == Multiplication(1, 8, 17, False)
    assert choose(request(FixedFormat(30, 0), S8, asked="", family="xc7"), 4, 8).chain == 0


@pytest.mark.parametrize(("family", "together"), [("", 2), ("xc7", 2), ("xcup", 2), ("ecp5", 1), ("ice40", 1)])
def test_logic_is_for_every_family_and_never_chosen(family: str, together: int) -> None:
    """Whatever the widths: no block has to hold them. With look-up tables of six inputs, rows of two make one sum."""
    for act, weight in ((S8, S8), (FixedFormat(30, 0), U8)):
        found = choose(request(act, weight, asked="logic", family=family, narrow=True), 1, 9)
        assert found == Multiplication(narrow=True, logic=together)
        assert not choose(request(act, weight, asked="", family=family), 1, 9).logic


def test_signs_have_no_multipliers_to_make() -> None:
    with pytest.raises(UnsupportedError, match="need no multiplier") as caught:
        choose(request(S8, SignFormat.ternary(2), asked="logic"), 4, 8)
    assert caught.value.expected == "tree" and caught.value.got == "logic"


# Rows: half of the bits of a signed operand, one more of an unsigned one, of the operand that makes less of them.
ROWS = [((8, True), (8, True), 4), ((8, False), (8, True), 4), ((8, False), (8, False), 5), ((4, True), (9, True), 2)]


@pytest.mark.parametrize(("a", "b", "rows"), [*ROWS, ((16, True), (3, False), 2), ((1, True), (7, True), 1)])
def test_rows(a: tuple[int, bool], b: tuple[int, bool], rows: int) -> None:
    assert logic_rows(a, b) == rows


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
