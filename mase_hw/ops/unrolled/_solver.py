"""From a matrix of constants to a graph of shifts and additions that computes its product with a vector.

The constants are written in canonical signed digits (Reitwieser, 1960): no two neighbouring digits are non-zero, and no
notation has fewer. Then terms that several sums need are computed once: the pair of terms ``x_i + s * (x_j << d)`` that
saves the most adder bits becomes a value of its own, in every row, until no pair occurs twice. This is elimination of
two-term common subexpressions over the whole matrix (Hosangadi, Fallah and Kastner, 2005), weighted by the bits in
which the two operands overlap, as in da4ml (Sun et al., 2025). What is left of a row is added in a tree
(:mod:`mase_hw.ops.unrolled._trees`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mase_hw.ops.unrolled._graph import Graph, Term
from mase_hw.ops.unrolled._trees import Signed, added, combine, levels_of

_SMALL = 6144
"""Non-zero digits of a matrix for which more than one attempt is made."""
_DEPTHS = (4, 0, 2)
"""Sums that are computed from each other one after the other, at most."""
_SCORES = ((2, 1), (0, 1), (0, 8))
"""What is added to the number of additions that a pair saves, and to the bits of each."""
_REUSE = 3
"""Digits that the addition of another row's sum counts for: it is a wide one."""


def digits(value: int) -> dict[int, int]:
    """Canonical signed digits: the sign of each non-zero digit by its place."""
    found: dict[int, int] = {}
    place = 0
    while value:
        if value & 1:
            found[place] = 2 - (value & 3)
            value -= found[place]
        value >>= 1
        place += 1
    return found


Columns = Sequence[tuple[int, int]]
"""Of every column of a matrix the input that it multiplies, and its position."""
_Pair = tuple[int, int, int, int, int]
"""What two terms have in common with others that are shifted, moved or negated together: both values, the places and
the positions from one to the other, and whether their signs are equal."""


class _Rows:
    """The sums that are still to be computed, and how often every pair of terms occurs in them."""

    def __init__(self, graph: Graph, matrix: Sequence[Sequence[int]], columns: Columns, score: tuple[int, int]) -> None:
        self.graph, self.score = graph, score
        self.rows: list[dict[Term, int]] = []
        self.count: dict[_Pair, int] = {}
        self.heap: list[tuple[int, _Pair]] = []
        self._weights: dict[tuple[int, ...], int] = {}
        for row in matrix:
            terms: dict[Term, int] = {}
            self.rows.append(terms)
            for (number, at), value in zip(columns, row, strict=True):
                for shift, sign in digits(value).items():
                    self._enter(terms, (number, shift, at), sign)
        self.heap = [(-self._saved(pair), pair) for pair, times in self.count.items() if times > 1]
        heapq.heapify(self.heap)

    @staticmethod
    def _pair(one: Term, sign: int, other: Term, other_sign: int) -> _Pair:
        if one > other:
            one, other = other, one
        return one[0], other[0], other[1] - one[1], other[2] - one[2], sign * other_sign

    def _enter(self, row: dict[Term, int], term: Term, sign: int) -> list[_Pair]:
        pairs = [self._pair(term, sign, other, other_sign) for other, other_sign in row.items()]
        for pair in pairs:
            self.count[pair] = self.count.get(pair, 0) + 1
        row[term] = sign
        return pairs

    def _leave(self, row: dict[Term, int], term: Term) -> None:
        sign = row.pop(term)
        for other, other_sign in row.items():
            pair = self._pair(term, sign, other, other_sign)
            times = self.count[pair] - 1
            if times:
                self.count[pair] = times
            else:
                del self.count[pair]

    def _saved(self, pair: _Pair) -> int:
        """Adder bits that computing a pair once saves."""
        one, other, shift, _, _ = pair
        weight = self._weights.get(pair[:4])
        if weight is None:
            a, b = self.graph.values[one], self.graph.values[other]
            low, high = max(0, shift), min(a.width, b.width + shift)
            weight = self._weights[pair[:4]] = max(high - low, 0) + self.score[1]
        times = self.count.get(pair, 0)
        return (times - 1 + self.score[0]) * weight if times > 1 else 0

    def share(self) -> None:
        """Compute pairs of terms that occur several times once, the most worthwhile first."""
        while self.heap:
            stored, pair = heapq.heappop(self.heap)
            saved = self._saved(pair)
            if saved <= 0:
                continue
            if saved != -stored:
                heapq.heappush(self.heap, (-saved, pair))
                continue
            self._replace(pair)

    def _places(self, row: dict[Term, int], pair: _Pair) -> Iterator[Term]:
        """The first terms of the pair in a row, each term in one place only."""
        one, other, distance, apart, sign = pair
        used: set[Term] = set()
        for (value, shift, at), own in sorted(row.items()):
            if value != one or (value, shift, at) in used:
                continue
            partner = (other, shift + distance, at + apart)
            if row.get(partner, 0) == own * sign and partner not in used:
                used |= {(value, shift, at), partner}
                yield value, shift, at

    def _replace(self, pair: _Pair) -> None:
        found = [(row, term) for row in self.rows for term in list(self._places(row, pair))]
        if len(found) < 2:
            # Pairs that overlap in a row were counted twice; no longer worth anything.
            self._weights[pair[:4]] = 0
            return
        one, other, distance, apart, sign = pair
        (made, moved, placed), negative = combine(self.graph, (one, 0, 0), 1, (other, distance, apart), sign)
        touched: set[_Pair] = set()
        for row, term in found:
            own, (_, shift, at) = row[term], term
            self._leave(row, term)
            self._leave(row, (other, shift + distance, at + apart))
            touched.update(self._enter(row, (made, shift + moved, at + placed), own * negative))
        for new in touched:
            if self.count.get(new, 0) > 1:
                heapq.heappush(self.heap, (-self._saved(new), new))


class Early:
    """Adds the constant of a sum to an operand that is there before the others, so that it takes no addition behind.

    Args:
        graph: The graph.
        sums: All sums that are computed in it; what only one of them reads may be computed anew.
    """

    def __init__(self, graph: Graph, sums: Sequence[Signed | None]) -> None:
        self.graph = graph
        self.readers = graph.readers([term[0][0] for term in sums if term is not None])

    def term(self, term: Signed, constant: int) -> Signed | None:
        """The term with another constant in place of its own, as late as it; None if it would be later.

        The constant has to be a multiple of what the term is shifted by.
        """
        (number, shift, at), sign = term
        if at or constant % (1 << shift):
            return None
        found = self._moved(number, sign < 0, constant >> shift, self.graph.values[number].level)
        return None if found is None else ((found, shift, 0), 1)

    def _moved(self, number: int, negative: bool, constant: int, level: int) -> int | None:
        """A value, or its negative, with another constant, at most so late; as a number that may be negative."""
        values, made = self.graph.values, self.graph.values[number]
        rest = constant - (-made.constant if negative else made.constant)
        if made.level < level:
            return self.graph.offset(number, 0, negative, rest)
        if made.a < 0 or number in self.graph.ranges or self.readers.get(number, 0) > 1 or self.graph.offsets(number):
            return None
        sides = [(made.a, made.a_shift, negative), (made.b, made.b_shift, negative != made.minus)]
        for at in sorted((0, 1), key=lambda k: (values[sides[k][0]].level, k)):
            (own, shift, less), (other, places, minus) = sides[at], sides[1 - at]
            beside = values[other]
            if made.a_at or made.b_at or values[other].level >= level or (beside.signed and minus):
                continue
            more = (1 << (beside.width + places)) - (beside.constant << places) if minus else beside.constant << places
            if (constant - more) % (1 << shift):
                continue
            early = self._moved(own, less, (constant - more) >> shift, level - 1)
            if early is not None:
                return self.graph.add((early, shift, 0), (other, places, 0), minus)
        return None


def finished(
    graph: Graph, sums: Sequence[Signed | None], constants: Sequence[int], early: Early | None = None
) -> list[tuple[int, int] | None]:
    """The outputs: each sum with the constant that is wanted in place of its own, each of them computed once.

    Args:
        graph: The graph.
        sums: Without their constants.
        constants: An integer for every sum.
        early: Where the constants of the latest sums are added before these are complete; None to add all behind.
    """
    found: dict[tuple[Signed | None, int], tuple[int, int] | None] = {}
    latest = max((graph.values[term[0][0]].level for term in sums if term is not None), default=0)
    for term, wanted in zip(sums, constants, strict=True):
        if (term, wanted) in found:
            continue
        if term is None:
            found[term, wanted] = (graph.constant(wanted), 0) if wanted else None
            continue
        (value, shift, _), sign = term
        rest = wanted - sign * (graph.values[value].constant << shift)
        if sign > 0 and not rest:
            found[term, wanted] = value, shift
            continue
        if early is not None and graph.values[value].level == latest:
            before = early.term(term, wanted)
            if before is not None:
                found[term, wanted] = before[0][:2]
                continue
        moved = min(shift, (rest & -rest).bit_length() - 1) if rest else shift
        found[term, wanted] = graph.offset(value, shift - moved, sign < 0, rest >> moved), moved
    return [found[term, wanted] for term, wanted in zip(sums, constants, strict=True)]


def _parents(matrix: Sequence[Sequence[int]], depth: int) -> list[tuple[int, int, int]]:
    """Rows in an order in which each may be computed from one before it: row, that one (-1 for none) and its sign.

    The tree of fewest digits (Prim, 1957) of at most so many rows one after the other.
    """
    found: list[tuple[int, int, int]] = []
    best = {r: (sum(len(digits(w)) for w in row), -1, 1) for r, row in enumerate(matrix)}
    at = {-1: 0}
    while best:
        row = min(best, key=lambda r: (best[r][0], r))
        _, parent, sign = best.pop(row)
        found.append((row, parent, sign))
        at[row] = at[parent] + 1
        if at[row] > depth:
            continue
        for other, (known, _, _) in best.items():
            for sign in (1, -1):
                rest = (w - sign * v for w, v in zip(matrix[other], matrix[row], strict=True))
                count = sum(len(digits(w)) for w in rest) + _REUSE
                if count < known:
                    known = count
                    best[other] = count, row, sign
    return found


def _latest(graph: Graph, rows: _Rows, parents: Sequence[tuple[int, int, int]]) -> dict[int, int]:
    """Of every row the level that its sum may have: the latest of all, if no other row is computed from it."""
    levels: dict[int, int] = {}
    for row, parent, _ in parents:
        own = [graph.values[value].level for value, _, _ in rows.rows[row]]
        levels[row] = levels_of([*own, levels[parent]] if parent in levels and levels[parent] >= 0 else own)
    read, last = {parent for _, parent, _ in parents}, max(levels.values(), default=0)
    return {row: level if row in read else last for row, level in levels.items()}


def _attempt(
    matrix: Sequence[Sequence[int]],
    constants: Sequence[int],
    inputs: Sequence[tuple[int, int]],
    columns: Columns,
    depth: int,
    score: tuple[int, int],
    late: bool,
) -> Plan:
    graph = Graph(inputs)
    parents = _parents(matrix, depth) if depth else [(row, -1, 1) for row in range(len(matrix))]
    differences: list[list[int]] = [[] for _ in matrix]
    for row, parent, sign in parents:
        before = matrix[parent] if parent >= 0 else [0] * len(columns)
        differences[row] = [w - sign * v for w, v in zip(matrix[row], before, strict=True)]
    rows = _Rows(graph, differences, columns, score)
    rows.share()
    latest = _latest(graph, rows, parents) if late else {}
    sums: dict[int, Signed | None] = {-1: None}
    for row, parent, sign in parents:
        terms, base = list(rows.rows[row].items()), sums[parent]
        if base is not None:
            terms.append((base[0], base[1] * sign))
        sums[row] = added(graph, terms, latest.get(row))
    ordered = tuple(sums[row] for row in range(len(matrix)))
    graph.outputs = finished(graph, ordered, constants)
    return Plan(graph, ordered)


@dataclass(frozen=True)
class Plan:
    """What computes the product of a matrix with a vector, at one position.

    Args:
        graph: Its sums; the outputs have their constants.
        sums: Of every row the sum without its constant, as a value of the graph; None of a row without weights.
    """

    graph: Graph
    sums: tuple[Signed | None, ...]


def plan(
    matrix: Sequence[Sequence[int]],
    constants: Sequence[int],
    inputs: Sequence[tuple[int, int]],
    columns: Columns | None = None,
    kept: float = 0,
    late: bool = False,
) -> Plan:
    """What computes ``matrix @ x + constants``: of a few attempts the one of the fewest adder bits.

    Args:
        matrix: Integers, a row for every output.
        constants: An integer for every output.
        inputs: Range of every input.
        columns: What each column multiplies, where a window slides: then what is shared is shared between positions as
            well. By default the inputs, in order.
        kept: Adder bits that a bit of a sum counts for, for every addition that the sums are later.
        late: Sums that would be there before the latest ones may be as late as these, where that saves adder bits.
    """

    def cost(found: Plan) -> tuple[float, int]:
        values, sums = found.graph.values, [term[0][0] for term in found.sums if term is not None]
        levels = max((values[number].level for number in sums), default=0)
        return found.graph.adder_bits + kept * levels * sum(values[number].width for number in sums), levels

    size = sum(len(digits(w)) for row in matrix for w in row)
    named = [(number, 0) for number in range(len(inputs))] if columns is None else columns
    attempts = (
        _attempt(matrix, constants, inputs, named, depth, score, late)
        for depth in (_DEPTHS if size <= _SMALL else (0,) if kept else _DEPTHS[:1])
        for score in (_SCORES if size <= _SMALL else _SCORES[:1])
    )
    return min(attempts, key=cost)


def solve(matrix: Sequence[Sequence[int]], constants: Sequence[int], inputs: Sequence[tuple[int, int]]) -> Graph:
    """The graph of ``matrix @ x + constants``.

    Args:
        matrix: Integers, a row for every output.
        constants: An integer for every output.
        inputs: Range of every input.

    Returns:
        A graph whose outputs are the sums.
    """
    return plan(matrix, constants, inputs).graph


def merged(
    inputs: npt.NDArray[np.int64], matrix: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """With one column for every value: where many rows take it, as of pairs, what they share is found over them all."""
    numbers, first, place = np.unique(inputs, return_index=True, return_inverse=True)
    if len(numbers) == len(inputs):
        return inputs, matrix
    order = np.argsort(np.argsort(first))
    summed = np.zeros((len(matrix), len(numbers)), dtype=matrix.dtype)
    np.add.at(summed.T, order[place], matrix.T)
    return inputs[np.sort(first)], summed


def apart(matrix: npt.NDArray[np.int64]) -> list[list[int]]:
    """Rows that share a column, directly or through others, together; those without any are left out."""
    group_of_column: dict[int, int] = {}
    groups: dict[int, list[int]] = {}
    for row, weights in enumerate(matrix):
        columns = [int(column) for column in np.flatnonzero(weights)]
        met = sorted({group_of_column[column] for column in columns if column in group_of_column})
        joined = [row]
        for group in met:
            joined = groups.pop(group) + joined if group != row else joined
        if columns:
            groups[row] = joined
            changed = {column for column, group in group_of_column.items() if group in met}
            group_of_column |= dict.fromkeys((*changed, *columns), row)
    return [sorted(rows) for rows in groups.values()]
