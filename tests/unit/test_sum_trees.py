"""Trees of additions: the sum is exact, no later than it may be, and has fewer adder bits than a balanced tree."""

from __future__ import annotations

import functools
import itertools
import random

import pytest

from mase_hw.ops.unrolled._graph import Graph
from mase_hw.ops.unrolled._solver import plan
from mase_hw.ops.unrolled._trees import Signed, added, levels_of


def row_of(draw: random.Random, count: int) -> tuple[Graph, list[Signed]]:
    """Values of some bits at some levels, shifted, with signs."""
    graph = Graph([])
    row: list[Signed] = []
    for _ in range(count):
        bits, signed = draw.randint(1, 9), draw.random() < 0.5
        ends = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
        term = graph.enter(*ends, draw.randint(0, 3)), draw.randint(0, 6), 0
        row.append((term, draw.choice((1, -1))))
    return graph, row


def sum_in(graph: Graph, term: Signed, inputs: list[int]) -> int:
    """What a term is without its constant, operation by operation."""
    (value, shift, _), sign = term
    graph.outputs = [(value, shift)]
    return sign * (graph.evaluate(inputs)[0] - (graph.values[value].constant << shift))


@pytest.mark.parametrize("seed", range(40))
def test_sums_are_exact_and_in_time(seed: int) -> None:
    """For the level of a balanced tree and later ones."""
    draw = random.Random(seed)
    count, later = draw.randint(1, 12), draw.randint(0, 2)
    graph, row = row_of(draw, count)
    latest = levels_of(graph.values[value].level for (value, _, _), _ in row) + later
    found = added(graph, row, latest)
    assert found is not None and graph.values[found[0][0]].level <= latest
    for _ in range(5):
        inputs = [draw.randint(*graph.ranges[n]) for n in range(count)]
        wanted = sum(sign * (inputs[value] << shift) for (value, shift, _), sign in row)
        assert sum_in(graph, found, inputs) == wanted
    assert added(graph, [], latest) is None


@functools.cache
def least(levels: tuple[int, ...]) -> int:
    """The level of the best of all trees."""
    if len(levels) == 1:
        return levels[0]
    found = []
    for one, other in itertools.combinations(range(len(levels)), 2):
        rest = [level for at, level in enumerate(levels) if at not in (one, other)]
        found.append(least(tuple(sorted([*rest, max(levels[one], levels[other]) + 1]))))
    return min(found)


def test_no_tree_is_earlier() -> None:
    for count in range(1, 6):
        for levels in itertools.combinations_with_replacement(range(4), count):
            assert levels_of(levels) == least(levels)
    assert levels_of([]) == -1


def test_fewer_adder_bits_in_as_many_levels() -> None:
    """Six to ten terms of six bits: seldom a bit more than in a balanced tree, and fewer over many rows."""
    bits = {}
    for seed, free in itertools.product(range(30), (False, True)):
        draw = random.Random(seed)
        graph = Graph([(0, 63)] * 10)
        row: list[Signed] = [((n, draw.randint(0, 5), 0), 1) for n in range(draw.randint(6, 10))]
        added(graph, row, levels_of([0] * len(row)) if free else None)
        bits[seed, free] = graph.adder_bits
    assert all(bits[seed, True] <= bits[seed, False] + 1 for seed in range(30))
    before, behind = (sum(bits[seed, free] for seed in range(30)) for free in (False, True))
    assert behind < 0.99 * before


def test_a_plan_with_late_sums_has_fewer_adder_bits() -> None:
    """Rows of a layer of 6-bit weights that would be there early are as late as the latest one, and no later."""
    draw = random.Random(0)
    matrix = [[draw.randint(-32, 31) for _ in range(12)] for _ in range(16)]
    ends = [(0, 63)] * 12
    early, late = (plan(matrix, [0] * 16, ends, kept=1 / 6, late=late) for late in (False, True))
    assert late.graph.levels <= early.graph.levels and late.graph.adder_bits < 0.97 * early.graph.adder_bits
    for _ in range(4):
        x = [draw.randint(0, 63) for _ in range(12)]
        assert late.graph.evaluate(x) == [sum(w * v for w, v in zip(row, x, strict=True)) for row in matrix]


def test_one_operand_is_at_the_lowest_place() -> None:
    """RTL passes the lowest bits of the first operand by, which must not be shifted then."""
    graph = Graph([(0, 7), (0, 7)])
    assert graph.add((0, 2, 0), (1, 0, 0), False) == 2
    for minus in (False, True):
        with pytest.raises(ValueError, match=r"both operands of a sum are shifted, by . and . places"):
            graph.add((0, 2, 0), (1, 1, 0), minus)
