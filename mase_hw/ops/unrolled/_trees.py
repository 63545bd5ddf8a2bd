"""Sums of several terms: a balanced tree of additions, or one of as many levels that has fewer adder bits.

An adder bit takes two bits and leaves one. So a tree has as many adder bits as its terms have bits, less those of the
sum, and one more wherever a sum is wider than both operands or a bit is inverted that has none beside it. A wide sum
that takes a narrow term is seldom wider than before, while in a balanced tree nearly every one is. So the two terms are
added next that need the fewest such bits, as long as the rest fits into the levels that there are: terms at levels
``l`` fit below a level ``n`` if and only if the sum of ``2 ** l`` is at most ``2 ** n`` (Kraft, 1949).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence

from mase_hw.ops.unrolled._graph import Graph, Term

_TERMS = range(6, 129)
"""Terms of a sum for which pairs are looked for: of fewer there is little to choose, of more there are too many."""

Signed = tuple[Term, int]
"""A term and its sign."""


def combine(graph: Graph, one: Term, sign: int, other: Term, other_sign: int) -> Signed:
    """Add two terms; the value is their sum or its negative.

    Both are the sum of the inputs, without its constant. Of a difference the operand of fewer bits is subtracted.
    """
    moved, at = min(one[1], other[1]), min(one[2], other[2])
    a, b = (one[0], one[1] - moved, one[2] - at), (other[0], other[1] - moved, other[2] - at)
    if sign == other_sign:
        return (graph.add(a, b, False), moved, at), sign
    if (graph.values[a[0]].width, -a[1]) < (graph.values[b[0]].width, -b[1]):
        a, b, sign = b, a, other_sign
    return (graph.add(a, b, True), moved, at), sign


def moved(term: Signed | None, shift: int, negative: bool) -> Signed | None:
    """A term shifted by more places, and perhaps negated."""
    if term is None:
        return None
    (value, places, at), sign = term
    return (value, places + shift, at), -sign if negative else sign


def sum_of(graph: Graph, one: Signed | None, other: Signed | None) -> Signed | None:
    """The sum of two terms of which either may be missing."""
    if one is None or other is None:
        return one or other
    return combine(graph, one[0], one[1], other[0], other[1])


def levels_of(levels: Iterable[int]) -> int:
    """The level of a balanced tree of terms at some levels; -1 if there is none."""
    heap = list(levels)
    heapq.heapify(heap)
    while len(heap) > 1:
        heapq.heappop(heap)
        heapq.heapreplace(heap, heap[0] + 1)
    return heap[0] if heap else -1


def added(graph: Graph, row: Sequence[Signed], latest: int | None = None) -> Signed | None:
    """The sum of a row's terms, without its constant; None if there is no term.

    Args:
        graph: The graph.
        row: Its terms.
        latest: The level that the sum may have, in favour of adder bits; None for a balanced tree.
    """
    if latest is None or len(row) not in _TERMS:
        return _balanced(graph, row)
    return _skewed(graph, row, latest)


def _balanced(graph: Graph, row: Sequence[Signed]) -> Signed | None:
    terms = [(graph.values[value].level, shift, value, at, sign) for (value, shift, at), sign in row]
    heapq.heapify(terms)
    while len(terms) > 1:
        _, shift, value, at, sign = heapq.heappop(terms)
        _, other_shift, other, other_at, other_sign = heapq.heappop(terms)
        (made, moved, at), sign = combine(graph, (value, shift, at), sign, (other, other_shift, other_at), other_sign)
        heapq.heappush(terms, (graph.values[made].level, moved, made, at, sign))
    if not terms:
        return None
    _, shift, value, at, sign = terms[0]
    return (value, shift, at), sign


def _skewed(graph: Graph, row: Sequence[Signed], latest: int) -> Signed | None:
    terms = dict(enumerate(row))
    pairs = [_pair(graph, terms, one, other) for one, other in itertools.combinations(terms, 2)]
    heapq.heapify(pairs)
    room = (1 << latest) - sum(1 << graph.values[value].level for (value, _, _), _ in row)
    for number in itertools.count(len(row)):
        # Two terms that leave no room for the rest never will: the room only becomes less.
        while pairs and (pairs[0][1] > room or pairs[0][-2] not in terms or pairs[0][-1] not in terms):
            heapq.heappop(pairs)
        if not pairs:
            break
        _, used, _, _, one, other = heapq.heappop(pairs)
        room -= used
        (a, sign), (b, other_sign) = terms.pop(one), terms.pop(other)
        made = combine(graph, a, sign, b, other_sign)
        terms[number] = made
        for each in terms.keys() - {number}:
            heapq.heappush(pairs, _pair(graph, terms, each, number))
    return next(iter(terms.values()))


def _pair(graph: Graph, terms: Mapping[int, Signed], one: int, other: int) -> tuple[int, int, int, int, int, int]:
    """Two terms, by what is better: few bits that their sum has in vain, then little room that a later one takes."""
    ((a, a_shift, _), sign), ((b, b_shift, _), other_sign) = terms[one], terms[other]
    sides = [(graph.values[a], a_shift), (graph.values[b], b_shift)]
    tops = [value.width + shift for value, shift in sides]
    both, ends, bits = max(min(tops) - max(a_shift, b_shift), 0), [value.high << shift for value, shift in sides], 0
    if sign != other_sign:
        less = min((0, 1), key=lambda k: (sides[k][0].width, -sides[k][1]))  # as `combine` does
        ends[less] = (1 << tops[less]) - (sides[less][0].low << sides[less][1])
        bits = sides[less][0].width - both
    wider = max(sum(ends).bit_length() - max(tops), 0)
    levels = [value.level for value, _ in sides]
    used = (1 << max(levels)) - (1 << min(levels))
    return bits + wider, used, max(levels), abs(a_shift - b_shift), one, other
