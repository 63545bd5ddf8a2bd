"""Sums of many terms with fewer carries one after the other: three terms become two without a carry chain.

The parity and the majority of three bits are a full adder of every place by itself (Wallace, 1964), a look-up table
late; two terms are left at the end, which one carry chain adds. Terms that are there first are taken first (Oklobdzija,
Villeger and Liu, 1996). Before that, as many neighbours as the time allows are added by carry chains in pairs, which
take half as many look-up tables.

What is subtracted is the complement of its bits, so its sum is right but for a constant, and the constant of a sum is
one more term. All is computed modulo the power of two that holds the result.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Sequence

from mase_hw.ops.unrolled._delays import Delays, delay_of
from mase_hw.ops.unrolled._network import Network, Saved
from mase_hw.ops.unrolled._trees import Signed, combine

_PAIRS = (2, 1, 0)
"""Additions of pairs before the terms are saved, the cheapest first."""
_FEWEST = 3
"""Terms that are worth it."""


class CarrySave:
    """Sums of one layer.

    Args:
        network: Where they are.
        delays: Of the family.
        sums: All sums of the layer; what only one of them reads is computed anew.
    """

    def __init__(self, network: Network, delays: Delays, sums: Sequence[Signed | None]) -> None:
        self.network, self.graph, self.delays = network, network.graph, delays
        self.readers = self.graph.readers([term[0][0] for term in sums if term is not None])

    def arrival(self, number: int) -> int:
        """Picoseconds from the inputs of the network to a value."""
        known, waiting = self.network.arrivals, [number]
        while waiting:
            at = waiting[-1]
            missing = [each for each in self.network.operands(at) if each not in known]
            waiting += missing
            if not missing:
                before = max((known[each] for each in self.network.operands(at)), default=0)
                known[at] = before + delay_of(self.network, self.delays, at)
                waiting.pop()
        return known[number]

    def sooner(
        self, terms: Sequence[Signed | None], constants: Sequence[int], found: Sequence[tuple[int, int] | None]
    ) -> list[tuple[int, int] | None]:
        """The outputs, of which those that come latest are computed by saving carries.

        Args:
            terms: Without their constants.
            constants: An integer for every sum.
            found: What computes them by additions alone.
        """
        made: dict[tuple[int, int], list[tuple[int, tuple[int, int]]]] = {}
        for term, constant, given in zip(terms, constants, found, strict=True):
            if term is not None and given is not None and given not in made:
                made[given] = self._choices(term, constant)
        best = {given: min([self.arrival(given[0]), *(at for at, _ in all_)]) for given, all_ in made.items()}
        limit = max(best.values(), default=0)

        def chosen(given: tuple[int, int] | None) -> tuple[int, int] | None:
            if given is None or given not in made or self.arrival(given[0]) <= limit:
                return given
            return next(output for at, output in made[given] if at <= limit)

        return [chosen(given) for given in found]

    def _choices(self, term: Signed, constant: int) -> list[tuple[int, tuple[int, int]]]:
        """When a sum is there, and what it is, for every number of additions before."""
        leaves = self._leaves(term)
        if len(leaves) < _FEWEST or any(self.graph.values[value].signed for (value, _, _), _ in leaves):
            return []
        low, high = self._ends(term, constant)
        found = []
        for pairs in _PAIRS:
            if len(leaves) >> pairs >= _FEWEST - 1:
                output = self._saved(self._added(leaves, pairs), constant, (low, high))
                found.append((self.arrival(output[0]), output))
        return found

    def _ends(self, term: Signed, constant: int) -> tuple[int, int]:
        (number, shift, _), sign = term
        value = self.graph.values[number]
        ends = [sign * ((end - value.constant) << shift) + constant for end in (value.low, value.high)]
        return min(ends), max(ends)

    def _leaves(self, term: Signed) -> list[Signed]:
        """The terms of a sum that others read as well, or that are no sums."""
        found, waiting = [], [(term, True)]
        while waiting:
            ((number, shift, at), sign), root = waiting.pop()
            made = self.graph.values[number]
            alone = root or self.readers.get(number, 0) == 1
            if not alone or made.a < 0 or number in self.graph.ranges or self.graph.offsets(number):
                found.append(((number, shift, at), sign))
                continue
            waiting.append((((made.a, made.a_shift + shift, 0), sign), False))
            waiting.append((((made.b, made.b_shift + shift, 0), -sign if made.minus else sign), False))
        return found

    def _added(self, leaves: Sequence[Signed], times: int) -> list[Signed]:
        """The terms, of which those that are there first were added in pairs so many times."""
        terms = list(leaves)
        for _ in range(times):
            terms.sort(key=lambda term: (self.arrival(term[0][0]), term[0][1], term[0][0], term[1]))
            pairs = zip(terms[::2], terms[1::2], strict=False)
            alone = terms[-1:] if len(terms) % 2 else []
            both = [combine(self.graph, a, s, b, t) for (a, s), (b, t) in pairs]
            terms = [term for term in both if self.graph.moves(term[0][0])] + alone  # others cancel
        return terms if len(terms) > 1 else list(leaves)

    def _saved(self, terms: Sequence[Signed], constant: int, ends: tuple[int, int]) -> tuple[int, int]:
        """The sum of terms and a constant, from carries that are saved, and the places by which it is shifted."""
        graph, width = self.graph, max((-ends[0] - 1).bit_length(), ends[1].bit_length()) + int(ends[0] < 0)
        coefficients: dict[int, int] = {}
        heap: list[tuple[int, int, int, bool]] = []
        rest = constant
        for (number, shift, _), sign in terms:
            value = graph.values[number]
            for i, c in value.coefficients.items():
                coefficients[i] = coefficients.get(i, 0) + sign * (c << shift)
            own = value.constant if sign > 0 else (1 << value.width) - 1 - value.constant
            rest -= own << shift
            heap.append((self.arrival(number), number, shift, sign < 0))
        rest %= 1 << width
        if rest:
            spare = (rest & -rest).bit_length() - 1
            heap.append((0, graph.constant(rest >> spare), spare, False))
        heapq.heapify(heap)
        while len(heap) > 2 or any(inverted for *_, inverted in heap):
            three = tuple(heapq.heappop(heap)[1:] for _ in range(min(len(heap), 3)))
            for carry in (False, True):
                made = self.network.saved(Saved(three, carry, width))
                if made is not None:
                    heapq.heappush(heap, (self.arrival(made[0]), *made, False))
        (_, a, a_shift, _), (_, b, b_shift, _) = sorted(heap, key=lambda each: each[2])
        # All terms are multiples of the power of two that the lowest is, so the sum is one for all inputs.
        number = graph.add((a, 0, 0), (b, b_shift - a_shift, 0), False)
        exact = {i: c >> a_shift for i, c in coefficients.items() if c}
        low, high = (end >> a_shift for end in ends)
        graph.values[number] = dataclasses.replace(
            graph.values[number], low=low, high=high, coefficients=exact, constant=constant >> a_shift
        )
        self.network.wrapped.add(number)
        return number, a_shift
