"""Stages with the fewest bits of registers, against every choice of stages there is."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

import pytest

from mase_hw.ops.unrolled._retimed import END, Kept, Limits, closure, fewest_bits, too_long


def bits_of(kept: Sequence[Kept], stages: Mapping[int, int], last: int) -> int:
    """Each bit has a register behind every stage from its own to that of the last reader."""
    places = {**stages, END: last}
    return sum(each.bits * (max(places[reader] for reader in each.readers) - stages[each.source]) for each in kept)


def longest(operands: Mapping[int, Sequence[int]], delay: Mapping[int, int], stages: Mapping[int, int]) -> int:
    """The longest path within a stage."""
    found: dict[int, int] = {}
    for number, before in operands.items():
        found[number] = delay[number] + max([found[o] for o in before if stages[o] == stages[number]], default=0)
    return max(found.values())


@pytest.mark.parametrize("seed", range(40))
def test_no_other_stages_keep_fewer_bits(seed: int) -> None:
    """All stages of seven values that keep their order and the room of a stage, begun with any of them."""
    draw = random.Random(seed)
    count, room, delay = draw.choice([2, 3]), draw.choice([1, 2, 3]), {}
    operands: dict[int, list[int]] = {}
    for number in range(7):
        inner = number > 1
        operands[number] = draw.sample(range(number), min(number, draw.choice([1, 2, 2]))) if inner else []
        delay[number] = draw.choice([0, 1, 1, room]) if inner else 0
    readers = {n: [r for r, before in operands.items() if n in before] for n in operands}
    kept = [
        Kept(draw.randint(1, 9), n, (*(r or [END]), *([END] if draw.random() < 0.2 else [])))
        for n, r in readers.items()
    ]
    # Some bits of a value pass another one, whose readers read them too.
    kept += [
        Kept(draw.randint(1, 9), number, tuple({*readers[number], *(readers[reader] or [END])}))
        for number in operands
        for reader in readers[number][:1]
    ]
    allowed = [
        stages
        for chosen in itertools.product(range(count), repeat=5)
        for stages in [dict(enumerate((0, 0, *chosen)))]
        if all(stages[o] <= stages[n] for n in operands for o in operands[n])
        and longest(operands, delay, stages) <= room
    ]
    limits = Limits(operands, too_long(operands, delay, room), count - 1)
    least = min((bits_of(kept, stages, count - 1) for stages in allowed), default=0)
    for begin in draw.sample(allowed, min(len(allowed), 5)):
        found = fewest_bits(kept, limits, begin)
        assert found in allowed
        assert bits_of(kept, found, count - 1) == least


@pytest.mark.parametrize("seed", range(40))
def test_the_heaviest_closure(seed: int) -> None:
    """No other set that has all that it needs weighs more; needs may go round."""
    draw = random.Random(seed)
    weights = [draw.randint(-9, 9) for _ in range(8)]
    needs = [draw.sample(range(8), draw.choice([0, 1, 2])) for _ in weights]
    closed = [
        chosen
        for size in range(9)
        for chosen in itertools.combinations(range(8), size)
        if all(other in chosen for index in chosen for other in needs[index])
    ]
    found = closure(weights, needs)
    assert tuple(found) in closed
    assert sum(weights[index] for index in found) == max(sum(weights[index] for index in each) for each in closed)


def test_what_takes_longer_than_a_stage() -> None:
    """Only the nearest values are kept apart; one that takes longer than a stage has its own."""
    operands = {0: [], 1: [0], 2: [1], 3: [2, 0], 4: [3]}
    assert too_long(operands, {0: 0, 1: 1, 2: 1, 3: 1, 4: 1}, 2) == {0: [], 1: [], 2: [], 3: [1], 4: [2]}
    assert too_long(operands, {0: 0, 1: 1, 2: 5, 3: 0, 4: 1}, 2) == {0: [], 1: [], 2: [1], 3: [], 4: [2]}
