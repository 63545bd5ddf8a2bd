"""Products of two tensors of data: which elements are multiplied is found by the golden, and sums of them are added.

With a unit vector for the one tensor and numbers for the other, a result is the number of the element that is
multiplied. What is constant is a coefficient; equal products are one value, whichever op asks for them; and the sums
are those of a linear layer whose inputs are the products.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import torch

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.ops.unrolled._network import BEAT, WIDE, Elements, Masked, Network, Product, Step
from mase_hw.ops.unrolled._tables import FEW, looked

PRODUCTS = {"mul", "grouped_matmul"}
"""Ops whose exact results are sums of products of two elements, one of each tensor."""
KINDS = 4
"""Kinds of products that the parameters of a module tell apart."""
MOST = 4096
"""Most products that one op has in a frame, and most elements of each tensor."""
Integers = npt.NDArray[np.int64]


def products(network: Network, step: Step, given: Sequence[Elements]) -> tuple[Elements, Integers, Integers, int]:
    """An op of products as ``matrix @ inputs + constants``: the inputs, the matrix, the constants, the fraction width.

    Raises:
        UnsupportedError: If there are too many products, or their sums have too many bits.
    """
    first, second, rows = _pairs(step, [each.shape for each in given])
    columns: dict[int, dict[int, int]] = {}
    constants = [0] * math.prod(step.shape)
    pairs = zip(given[0].reshape(-1)[first].tolist(), given[1].reshape(-1)[second].tolist(), strict=True)
    for row, pair in zip(rows.tolist(), pairs, strict=True):
        element, factor = _term(network, *pair)
        fixed = network.constant(element)
        if fixed is not None:
            constants[row] += fixed * factor
        elif factor:
            of = columns.setdefault(element, {})
            of[row] = of.get(row, 0) + factor
    matrix = np.zeros((len(constants), len(columns)), dtype=np.int64)
    for column, of in enumerate(columns.values()):
        matrix[list(of), column] = list(of.values())
    ends = np.array([max(map(abs, network.ends(each))) for each in columns], dtype=object)
    most = max((np.abs(matrix).astype(object) @ ends).tolist(), default=0) + max(map(abs, constants), default=0)
    if most.bit_length() >= WIDE:
        raise _refused(step, f"sums of products of {most.bit_length() + 1} bits", f"at most {WIDE}")
    formats = step.arithmetic.formats
    frac = formats["data_in_0"].frac_width + formats["data_in_1"].frac_width
    return np.array(list(columns), dtype=np.int64), matrix, np.array(constants, dtype=np.int64), frac


def _pairs(step: Step, shapes: Sequence[tuple[int, ...]]) -> tuple[Integers, Integers, Integers]:
    """Of every product the elements of both tensors, and that of the result whose sum it is in."""
    sizes = [math.prod(shape) for shape in shapes]
    if max(sizes) > MOST:
        raise _refused(step, f"products of tensors of {sizes[0]} and {sizes[1]} elements", f"at most {MOST} each")
    above = sizes[1] + 1
    formats = {
        **step.arithmetic.formats,
        "data_in_0": FixedFormat(2, 0),
        "data_in_1": FixedFormat(above.bit_length() + 1, 0),
        "data_out_0": FixedFormat(WIDE, 0),
    }
    exact = dataclasses.replace(step, arithmetic=dataclasses.replace(step.arithmetic, formats=formats))
    units = torch.eye(sizes[0]).reshape(-1, *shapes[0][1:])
    codes = torch.arange(1, above, dtype=torch.float32).expand(sizes[0], -1)
    up, down = (
        exact.run([units, numbers.reshape(-1, *shapes[1][1:])]).reshape(sizes[0], -1).to(torch.int64).numpy()
        for numbers in (codes, above - codes)
    )
    first, rows = np.nonzero(up + down)
    if (up + down)[first, rows].max(initial=above) != above:
        raise _refused(step, "an element that is multiplied by several for one result", "one")
    if len(rows) > MOST:
        raise _refused(step, f"{len(rows)} products", f"at most {MOST}")
    return first, up[first, rows] - 1, rows


def _term(network: Network, one: int, other: int) -> tuple[int, int]:
    """The product of two elements as an element, and a factor of that."""
    for element, by in ((one, other), (other, one)):
        fixed = network.constant(by)
        if fixed is not None:
            return element, fixed
    shifts = sum(network.shifts.get(each, (0, None))[0] for each in (one, other))
    return multiplied(network, one, other), 1 << shifts


def multiplied(network: Network, one: int, other: int) -> int:
    """The element that the product of two is, in the later one's beat.

    One bit chooses; of few bits it is a table.
    """
    beat = max(one // BEAT, other // BEAT)
    a, b = sorted(network.at(element, beat) for element in (one, other))
    ranges, widths = [network.ends(number) for number in (a, b)], [network.graph.values[n].width for n in (a, b)]
    ends = {x * y for x in ranges[0] for y in ranges[1]}
    bit = ranges.index((0, 1)) if (0, 1) in ranges else None
    if a == b and widths[0] <= FEW:
        number = looked(network, [a], _codes(ranges[0]) ** 2)
    elif bit is not None:
        number = network.enter(Masked((b, a)[bit], (a, b)[bit]), (min(ends), max(ends)), 1)
    elif a != b and sum(widths) <= FEW:
        number = looked(network, [a, b], np.outer(_codes(ranges[0]), _codes(ranges[1])))
    else:
        if a == b:
            ends = {end * end for end in ranges[0]} | ({0} if ranges[0][0] < 0 < ranges[0][1] else set())
        number = network.enter(Product(a, b), (min(ends), max(ends)), levels_of(min(widths)))
    return number + beat * BEAT if network.constant(number) is None else number


def _codes(ends: tuple[int, int]) -> Integers:
    return np.arange(ends[0], ends[1] + 1, dtype=np.int64)


def levels_of(rows: int) -> int:
    """Additions that a product takes as long as: those of a balanced tree of its rows, one a bit of the narrower."""
    return max((rows - 1).bit_length(), 1)


Kind = tuple[int, int]
"""Bits of both operands of a product, each with a sign, the wider one first."""


class Products(msgspec.Struct, frozen=True):
    """Products of data of a module, of at most so many kinds.

    Args:
        products: How many of each.
        product_bits: Bits of their operands, each with a sign, the wider one first.
    """

    products: tuple[int, int, int, int]
    product_bits: tuple[int, int, int, int, int, int, int, int]


def kinds_of(network: Network, numbers: Sequence[int]) -> Products:
    """The products among some values; kinds beyond those that there are places for count as the next larger one."""
    made = [each for number in numbers if isinstance(each := network.made.get(number), Product)]
    found = collections.Counter(_kind(network, each) for each in made)
    while len(found) > KINDS:
        pairs = itertools.combinations(sorted(found), 2)
        one, other = min(pairs, key=lambda pair: _more(found, *pair))
        count = found.pop(one) + found.pop(other)
        found[max(one[0], other[0]), max(one[1], other[1])] += count
    rest = KINDS - len(found)
    kinds = [*sorted(found.items(), reverse=True), *[((0, 0), 0)] * rest]
    counts, bits = [count for _, count in kinds], [width for kind, _ in kinds for width in kind]
    return msgspec.convert({"products": counts, "product_bits": bits}, Products)


def _kind(network: Network, made: Product) -> Kind:
    """Those of a product."""
    widths = []
    for number in (made.one, made.other):
        low, _ = network.ends(number)
        widths.append(network.graph.values[number].width + int(low >= 0))
    return max(widths), min(widths)


def _more(found: Mapping[Kind, int], one: Kind, other: Kind) -> tuple[int, Kind, Kind]:
    """By how much products get larger if two kinds are one; in order where that is equal."""
    both = max(one[0], other[0]) * max(one[1], other[1])
    return sum(found[kind] * (both - kind[0] * kind[1]) for kind in (one, other)), one, other


def _refused(step: Step, got: str, expected: str) -> UnsupportedError:
    return UnsupportedError(
        "products of data cannot take a whole frame per beat here",
        node=step.node,
        field="hardware.unroll",
        got=got,
        expected=expected,
        remedy="leave this op out of the part that is one expression (hardware.unroll_first, hardware.unroll_last)",
    )
