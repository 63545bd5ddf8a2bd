"""Elements that change places in part within a beat: wires around a reorder buffer, whose words are then longer.

A beat of a tile has elements of several positions and channels. Where those that belong together in another order are
all in a beat, though not behind each other, wires put them there first (``beat_turn``), and wires behind the buffer put
what it gives into place.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mase_hw.layouts import Layout
from mase_hw.ops.turn import Turn, tiles_within

TURNS = 3
"""Changes of places behind each other that are tried on each side of a buffer."""
PARTS = 6
"""Factors of an order that wires may move."""
MOST = 4
"""Beats of the wider neighbour that wires may have in one."""

Order = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One change of order: that of a beat if ``turn`` says which, else one through a buffer."""

    have: Layout
    want: Layout
    turn: Turn | None


def changes(have: Layout, want: Layout, lanes: int) -> list[Step]:
    """The changes of order between two neighbours one after the other: one, or of tiles those that are faster.

    Args:
        have: Order in which the elements come.
        want: Order in which they leave.
        lanes: Of the wider neighbour.
    """
    turn = tiles_within(have, want)
    several = turn is None and max(have.beside, want.beside) > 1
    made = (steps_between(have, want, lanes) if several else []) or [Step(have, want, turn)]
    # What leaves is named as it was asked for: rows of a tile are none of its parts.
    return [*made[:-1], dataclasses.replace(made[-1], want=want)]


def steps_between(have: Layout, want: Layout, lanes: int) -> list[Step]:
    """Changes of order one after the other with the longest words, up to a beat, and the fewest elements in wires.

    Args:
        have: Order in which the elements come.
        want: Order in which they leave.
        lanes: Of the wider neighbour: longer words are of no use.

    Returns:
        Nothing if wires are of no use.
    """
    best: tuple[tuple[int, int], list[Step]] = ((0, 0), [])
    for cuts in _cuts(have, want, lanes):
        sizes, orders = _refined(have, cuts), (_order(have, cuts), _order(want, cuts))
        if sizes is None:
            continue
        for come, leave in itertools.product(range(min(len(sizes), PARTS) + 1), repeat=2):
            ends = [set(order[len(order) - count :]) for order, count in zip(orders, (come, leave), strict=True)]
            wires = [math.prod(sizes[i] for i in end) for end in ends]
            word = math.prod(sizes[i] for i in ends[0] & ends[1])
            rank = (min(word, lanes), -sum(wires))
            if max(wires) > MOST * lanes or rank <= best[0]:
                continue
            if (found := _steps(have.shape, sizes, orders, (come, leave))) is not None:
                best = (rank, found)
    return best[1] if any(step.turn is not None for step in best[1]) else []


def _cuts(have: Layout, want: Layout, lanes: int) -> Iterator[list[int]]:
    """Where the row-major sequence is cut: where either order cuts it, and perhaps inside one factor as well."""
    own = {math.prod(layout.factors[i:]) for layout in (have, want) for i in range(len(layout.factors))} | {1}
    yield sorted(own, reverse=True)
    for inner, outer in itertools.pairwise(sorted(own)):
        for part in range(2, min(outer // inner, lanes + 1)):
            if (outer // inner) % part == 0:
                yield sorted({*own, inner * part}, reverse=True)


def _refined(layout: Layout, cuts: Sequence[int]) -> list[int] | None:
    """Sizes between cuts, outermost first; None if one does not divide the next."""
    total = math.prod(layout.shape)
    borders = [total, *(cut for cut in cuts if cut < total)]
    if any(outer % inner for outer, inner in itertools.pairwise(borders)):
        return None
    return [outer // inner for outer, inner in itertools.pairwise(borders)]


def _order(layout: Layout, cuts: Sequence[int]) -> Order:
    """The order of a layout in parts between cuts."""
    total = math.prod(layout.shape)
    borders = [total, *(cut for cut in cuts if cut < total)]
    ends = [math.prod(layout.factors[i:]) for i in range(len(layout.factors))] + [1]
    found: list[int] = []
    for factor in layout.order:
        found += [i for i, border in enumerate(borders[:-1]) if ends[factor] >= border > ends[factor + 1]]
    return tuple(found)


def _steps(
    shape: tuple[int, ...], sizes: Sequence[int], orders: tuple[Order, Order], counts: tuple[int, int]
) -> list[Step] | None:
    """Wires, a buffer where one is needed, and wires; None if that takes too many turns."""
    tails = [order[len(order) - count :] for order, count in zip(orders, counts, strict=True)]
    together = [i for i in tails[1] if i in tails[0]]
    inner = [(*(i for i in tail if i not in together), *together) for tail in tails]
    before, behind = _turns(tails[0], inner[0]), _turns(inner[1], tails[1])
    if before is None or behind is None:
        return None
    heads = [order[: len(order) - count] for order, count in zip(orders, counts, strict=True)]
    come = [(*heads[0], *tail) for tail in before]
    leave = [(*heads[1], *tail) for tail in behind]
    laid = [Layout(shape, tuple(sizes), order) for order in (*come, *leave)]
    pairs = list(zip(itertools.pairwise(laid), itertools.pairwise([*before, *behind]), strict=True))
    made = []
    for at, ((have, want), (old, new)) in enumerate(pairs):
        crosses = at == len(come) - 1
        if have != want:
            made.append(Step(have, want, None if crosses else _turn(sizes, old, new)))
    return made


def _turns(have: Order, want: Order) -> list[Order] | None:
    """Orders from one to another, each with two neighbouring parts of the one before exchanged at its beginning."""
    if have == want:
        return [have]
    ways, seen = [[have]], {have}
    for _ in range(TURNS):
        longer = []
        for way in ways:
            for middle, end in itertools.combinations(range(1, len(have) + 1), 2):
                last = way[-1]
                new = (*last[middle:end], *last[:middle], *last[end:])
                if new == want:
                    return [*way, new]
                if new not in seen:
                    seen.add(new)
                    longer.append([*way, new])
        ways = longer
    return None


def _turn(sizes: Sequence[int], have: Order, want: Order) -> Turn:
    """The matrix that is transposed between two orders of :func:`_turns`."""
    columns = have.index(want[0])
    end = want.index(have[0]) + columns
    parts = have[:columns], have[columns:end], have[end:]
    rows, across, inner = (math.prod(sizes[i] for i in part) for part in parts)
    return Turn(rows, across, inner)
