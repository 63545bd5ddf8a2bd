"""Softmax of rows: distances from the largest element, a table of exponentials, their sum, and a division for each.

What each step is says :mod:`mase_hw.ops.rows.softmax`, whose tables these are. A share is divided bit by bit: what is
left, twice as large, is compared with the sum of the row, which is taken off where it is not larger. Behind the bits of
the result come one more and one that says whether anything is left, so that every rounding sees what it needs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import torch

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.ops.rows._rows import along, evaluate
from mase_hw.ops.rows.softmax import SOFTMAX, exponentials
from mase_hw.ops.unrolled._network import BEAT, Above, Elements, Larger, Network, Reached, Rest, Rounded, Step
from mase_hw.ops.unrolled._tables import MOST_CODES, looked
from mase_hw.ops.unrolled._trees import Signed, moved

BELOW = 2
"""Bits of a share behind those of the result."""


def larger(network: Network, one: int, other: int) -> int:
    """The larger one of two elements, in the later one's beat."""
    ends = [network.ends(number) for number in (one, other)]
    for mine, theirs, number in ((ends[0], ends[1], one), (ends[1], ends[0], other)):
        if one == other or mine[0] >= theirs[1]:
            return number
    beat = max(one // BEAT, other // BEAT)
    one, other = (network.at(number, beat) for number in (one, other))
    both = max(ends[0][0], ends[1][0]), max(ends[0][1], ends[1][1])
    number = network.enter(Larger(min(one, other), max(one, other)), both, 1)
    return number if network.constant(number) is not None else number + beat * BEAT


def largest(network: Network, elements: Sequence[int]) -> int:
    """The largest of some elements."""
    waiting = list(elements)
    while len(waiting) > 1:
        one, other, *waiting = waiting
        waiting.append(larger(network, one, other))
    return waiting[0]


def softmax(
    network: Network, step: Step, x: Elements, summed: Callable[[list[int]], int]
) -> tuple[list[tuple[int, int]], int]:
    """The shares of all elements, each a sum of bits and the places that it is shifted by, and their fraction width.

    Args:
        network: The network.
        step: The softmax.
        x: Elements of its input.
        summed: What makes the exact sum of elements.
    """
    dim = along(step.arithmetic.attributes, x.ndim)
    frac = max(step.arithmetic.formats["data_out_0"].frac_width, 0) + BELOW
    places = np.moveaxis(np.arange(x.size).reshape(x.shape), dim, -1).reshape(-1, x.shape[dim])
    found = [(0, 0)] * x.size
    for row in places.tolist():
        terms, one = _exponentials(network, step, x.reshape(-1)[row].tolist())
        plain = summed(terms)
        low, high = network.ends(plain)
        fmt = FixedFormat(high.bit_length(), 0, signed=False)
        made = Rounded(plain, 0, 0, fmt, Rounding.FLOOR, Overflow.SATURATE, half=False, element=True)
        total = network.enter(made, (max(low, one), high), 0)  # the largest element alone is 1
        for place, term in zip(row, terms, strict=True):
            found[place] = _joined(network, _bits(network, term, total, frac))
    return found, frac


def _exponentials(network: Network, step: Step, row: list[int]) -> tuple[list[int], int]:
    """The exponentials of a row, and what 1 is among them."""
    plan, most, found = exponentials(step.arithmetic, len(row), SOFTMAX), largest(network, row), []
    for number in row:
        low = max(network.ends(most)[0] - network.ends(number)[1], 0)
        high = 0 if number == most else network.ends(most)[1] - network.ends(number)[0]
        if high - low >= MOST_CODES:
            raise UnsupportedError(
                "a softmax of numbers so far apart cannot take a whole frame per beat",
                node=step.node,
                field="hardware.unroll",
                got=f"distances of {high - low + 1} numbers",
                expected=f"at most {MOST_CODES}",
                remedy="give its input fewer bits, or leave it out of the part that is one expression",
            )
        table = evaluate(plan, torch.arange(low, high + 1)).to(torch.int64).numpy()
        distance = network.enter(Rest(most, number, 0), (low, high), 1)
        found.append(looked(network, [distance], table))
    return found, 1 << plan.frac


def _bits(network: Network, value: int, total: int, places: int) -> list[int]:
    """The bits of the quotient of a value and a sum that is not smaller, from 1 on, and whether anything is left."""
    bits, rest, shift = [], value, 0
    least, most = network.ends(total)
    for _ in range(places):
        high = network.ends(rest)[1] << shift
        bits.append(network.enter(Reached(rest, total, shift), (0, int(high >= least)), 1))
        if high >= least:
            rest, shift = network.enter(Rest(rest, total, shift), (0, min(high, most - 1)), 1), 0
        shift += 1
    left = (0, int(network.ends(rest)[1] > 0))
    return [*bits, network.enter(Above(rest, 0), left, 1)]


def _joined(network: Network, bits: list[int]) -> tuple[int, int]:
    """Bits side by side, the highest first, which takes no time: their sum, and places that it is shifted by."""
    values = network.graph.values
    term: Signed | None = None
    for bit in bits:
        term = moved(term, 1, negative=False)
        if network.constant(bit) is None:
            term = network.sum_of(term, ((bit, 0, 0), 1))
        if term is not None and (value := values[term[0][0]]).a >= 0:
            level = max(values[value.a].level, values[value.b].level)
            values[term[0][0]] = dataclasses.replace(value, level=level)
    return (network.graph.constant(0), 0) if term is None else term[0][:2]
