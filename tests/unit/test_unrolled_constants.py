"""Graphs of shifts and additions: exact for any matrix, no wider than they must be, cheaper than their digits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mase_hw.formats import FixedFormat
from mase_hw.ops.unrolled._graph import Graph
from mase_hw.ops.unrolled._solver import digits, plan, solve
from mase_hw.ops.unrolled.unrolled import Stages


def adders(graph: Graph) -> int:
    """Additions of a graph, those of constants to outputs not counted."""
    return sum(made.a >= 0 and not graph.offsets(number) for number, made in enumerate(graph.values))


def naive(matrix: list[list[int]]) -> int:
    """Additions of canonical signed digits, row by row."""
    return sum(max(sum(len(digits(w)) for w in row) - 1, 0) for row in matrix)


@pytest.mark.parametrize("value", [*range(-300, 301), -(1 << 40), (1 << 40) - 1, 0x5555, 0x7FFF])
def test_digits_are_canonical(value: int) -> None:
    """They add up, no two neighbours are non-zero, and there are no more than in any other notation."""
    found = digits(value)
    assert sum(sign << place for place, sign in found.items()) == value
    assert set(found.values()) <= {-1, 1}
    assert all(b - a > 1 for a, b in itertools.pairwise(sorted(found)))
    assert len(found) == bin((3 * abs(value)) ^ abs(value)).count("1")


@pytest.mark.parametrize("seed", range(60))
def test_random_matrices(seed: int) -> None:
    """Every output is the product, every value lies in its range, and the ranges are reached."""
    rng = np.random.default_rng(seed)
    rows, columns = (int(n) for n in rng.integers(1, 9, 2))
    bits, width = int(rng.integers(1, 17)), int(rng.integers(1, 17))
    fmt = FixedFormat(width, 0, bool(rng.integers(2)))
    matrix = rng.integers(-(1 << (bits - 1)), (1 << bits) - 1, (rows, columns)) * (rng.random((rows, columns)) < 0.8)
    constants = (rng.integers(-(1 << bits), 1 << bits, rows) * (rng.random(rows) < 0.7)).tolist()
    ends = [(fmt.min_mantissa, fmt.max_mantissa)] * columns
    graph = solve(matrix.tolist(), constants, ends)
    for _ in range(8):
        x = [int(v) for v in rng.integers(fmt.min_mantissa, fmt.max_mantissa, columns, endpoint=True)]
        products = (sum(w * v for w, v in zip(row, x, strict=True)) for row in matrix.tolist())
        assert graph.evaluate(x) == [p + c for p, c in zip(products, constants, strict=True)]
    last = {output[0] for output in graph.outputs if output is not None}
    for number, made in enumerate(graph.values):
        assert not made.signed or not made.coefficients or number in last, "a sign inside"
        for pick, end in ((min, made.low), (max, made.high)):
            reached = sum(pick(c * low, c * high) for i, c in made.coefficients.items() for low, high in [ends[i]])
            assert reached + made.constant == end
        low, high = (-(1 << (made.width - 1)), 1 << (made.width - 1)) if made.signed else (0, 1 << made.width)
        assert low <= made.low and made.high < high, "a value does not fit its bits"
        smaller = (low // 2, high // 2) if made.width > 1 else (0, 0)
        assert made.width == 1 or made.low < smaller[0] or made.high >= smaller[1], "a bit too many"


def test_what_is_zero_costs_nothing() -> None:
    """Inputs and outputs without a weight, powers of two, and equal rows need no adder of their own."""
    ends = [(-128, 127)] * 4
    assert solve([[0] * 4] * 3, [0] * 3, ends).adder_bits == 0
    assert solve([[1, 0, 0, 0], [0, 0, 64, 0]], [0, 0], ends).adder_bits == 0
    wide, narrow = ([[5, 0, 3, 0], [7, 0, 0, 9]], [[5, 3], [7, 0]])
    assert solve([[5, 0, 3, 0]], [0], ends).adder_bits == solve([[5, 3]], [0], ends[:2]).adder_bits
    assert solve([wide[0], wide[0]], [0, 0], ends).adder_bits == solve([wide[0]], [0], ends).adder_bits
    assert solve([narrow[0]], [0], [(0, 127)] * 2).adder_bits < solve([narrow[0]], [0], ends[:2]).adder_bits
    once = solve([wide[0], [-w for w in wide[0]], wide[0]], [5, -5, 5], ends)
    assert adders(once) == adders(solve([wide[0]], [5], ends)) and once.outputs[0] == once.outputs[2]
    # Bits that do not overlap are wires: x + 256 y of two bytes.
    assert solve([[1, 256]], [0], [(0, 255)] * 2).adder_bits == 0


@pytest.mark.parametrize(("size", "bits", "share"), [(8, 8, 0.75), (16, 8, 0.56), (16, 4, 0.62)])
def test_terms_are_shared(size: int, bits: int, share: float) -> None:
    """Fewer additions than digits, by the factor that the method is known for."""
    rng = np.random.default_rng(1)
    matrix = rng.integers(-(1 << (bits - 1)), 1 << (bits - 1), (size, size)).tolist()
    graph = solve(matrix, [0] * size, [(-128, 127)] * size)
    assert adders(graph) <= share * naive(matrix)


def test_no_sign_is_extended() -> None:
    """Bits that only one operand has are carries alone; of what is subtracted each is inverted."""
    graph = Graph([(-8, 7), (-128, 127), (0, 3)])
    assert [made.width for made in graph.values] == [4, 8, 2] and not any(made.signed for made in graph.values)
    bits = {
        (1, 0, 0, 0, False): 4,  # the upper four are carries
        (0, 2, 1, 0, False): 4,  # the lower two pass
        (0, 0, 1, 2, False): 2,
        (2, 6, 1, 0, False): 2,
        (2, 7, 1, 0, False): 1,
        (0, 0, 2, 4, False): 0,  # wires
        (1, 0, 0, 0, True): 4,
        (0, 0, 1, 0, True): 8,  # four of them only inverted
    }
    for operands, count in bits.items():
        a, a_shift, b, b_shift, minus = operands
        made = graph.add((a, a_shift, 0), (b, b_shift, 0), minus)
        assert graph.bits(made) == count, operands
        assert graph.apart(made) == (count == 0), operands
    # 11 bits: the sign is not counted, of the constant taken off the lowest one is a carry.
    value = graph.add((0, 2, 0), (1, 0, 0), False)
    assert graph.bits(graph.offset(value, 0, False, 0b101100)) == 2
    assert graph.bits(graph.offset(value, 0, False, 0b100000)) == 0
    assert graph.bits(graph.offset(value, 0, True, 0b101100)) == graph.values[value].width - 3


@pytest.mark.parametrize("levels", range(5))
def test_stages_hold_what_is_needed(levels: int) -> None:
    """Step by step through the registers every output is right, and no stage is deeper than asked for."""
    rng = np.random.default_rng(7)
    matrix = rng.integers(-128, 128, (5, 6)).tolist()
    graph = solve(matrix, [3, 0, -9, 100, 1], [(-8, 7)] * 6)
    stages = Stages(graph, levels)
    assert stages.count == (-(-(graph.levels + 1) // levels) if levels else 1)
    kept = set(stages.kept())
    for number, made in enumerate(graph.values):
        for operand in (made.a, made.b):
            if operand >= 0 and graph.moves(operand):
                crossed = range(stages.of(operand), stages.of(number))
                assert {(operand, stage) for stage in crossed} <= kept
    for output in graph.outputs:
        assert output is not None
        assert {(output[0], stage) for stage in range(stages.of(output[0]), stages.count - 1)} <= kept
    if levels:
        depth = [0] * len(graph.values)
        for number, made in enumerate(graph.values):
            same = [depth[o] for o in (made.a, made.b) if o >= 0 and stages.of(o) == stages.of(number)]
            depth[number] = max(same, default=0) + 1 if made.a >= 0 else 0
        assert max(depth) <= levels
    assert stages.register_bits <= sum(graph.values[number].width for number, _ in kept)


def test_a_bit_that_passes_has_one_register() -> None:
    """Of x and x + 4 y, both wanted a cycle later, two bits are the same; of x | 16 y all are those of x and y."""
    graph = Graph([(0, 15), (0, 15)])
    graph.outputs = [
        (graph.add((0, 0, 0), (1, 2, 0), False), 0),
        (graph.add((0, 0, 0), (1, 4, 0), False), 0),
        (0, 0),
    ]
    stages = Stages(graph, 1)
    assert [graph.values[n].width for n, _ in stages.kept()] == [4, 7, 8]
    assert stages.register_bits == 4 + (7 - 2) + 4
    assert [graph.source(2, bit) for bit in range(7)] == [(0, 0), (0, 1), *((2, bit) for bit in range(2, 7))]


def test_sums_that_are_earlier_are_worth_some_bits() -> None:
    """Where what a sum keeps in each level counts, a plan has fewer levels, and the same products."""
    rng = np.random.default_rng(0)
    matrix = rng.integers(-32, 32, (32, 8)).tolist()
    ends = [(-32, 31)] * 8
    least, earlier = plan(matrix, [0] * 32, ends), plan(matrix, [0] * 32, ends, kept=1 / 6)
    assert earlier.graph.levels < least.graph.levels
    assert least.graph.adder_bits <= earlier.graph.adder_bits <= 1.05 * least.graph.adder_bits
    x = rng.integers(-32, 32, 8).tolist()
    assert earlier.graph.evaluate(x) == (np.array(matrix) @ np.array(x)).tolist()
