"""The best cuts of a row of layers for devices in a row, with as few runs of layers solved as that takes.

What a run of layers costs is known more or less closely: from sums over its layers, from the relaxation of its budgets,
and from its solver, each of which takes much longer than the one before. Dynamic programming over the bounds that are
known (R. Bellman, "Dynamic Programming", 1957) finds the cuts that could be the cheapest; what is open of their runs is
looked at more closely, and so on until no cuts with an open run can be cheaper than the best that are known. That is
best-first search (R. Dechter and J. Pearl, "Generalized best-first search strategies and the optimality of A*", 1985):
its answer is that of solving every run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mase_hw.fit.budget import Impossible, Solution
from mase_hw.fit.problem import SHARE

NEVER = 1 << 60
"""More than any sum of shares."""
SUMS, RELAXED, SOLVED = range(3)
"""How closely a run was looked at."""


@dataclass(frozen=True)
class Known:
    """What is known of a run.

    Args:
        level: How closely it was looked at.
        bound: It costs no less; ``NEVER`` if no choice is within the budgets.
        value: What the best choice that is known costs; ``NEVER`` if none is.
    """

    level: int
    bound: int
    value: int = NEVER

    @property
    def settled(self) -> bool:
        """Whether looking more closely would say nothing more."""
        return self.level == SOLVED or self.bound >= self.value


@dataclass(frozen=True)
class Cuts:
    """What was found.

    Args:
        value: The sum of the runs.
        ends: Of every device, the number of layers on it and before it; None if no cuts were found.
        bound: No cuts have less; ``NEVER`` if it is proven that there are none.
    """

    value: int
    ends: tuple[int, ...] | None
    bound: int


class Search:
    """Finds the best cuts.

    Args:
        places: Numbers of layers before which may be cut, in rising order, those of no layer and of all included.
        kinds: Of every device, the first one like it.
        allowed: Whether what enters and leaves a run can, by its first layer, the one behind it, and the device.
        least: What a run on a kind of device costs at least, by sums over its layers; None if it has no room.
        solve: Looks at a run on a kind of device, by its relaxation alone or with its solver.
        tell: Told what is being done.
        within: Whether longer runs cost no less than one, as nothing is asked of it at its ends alone.
    """

    def __init__(
        self,
        places: Sequence[int],
        kinds: Sequence[int],
        allowed: Callable[[int, int, int], bool],
        least: Callable[[int, int, int], int | None],
        solve: Callable[[int, int, int, bool], Solution | Impossible],
        tell: Callable[[str], object],
        within: Callable[[int, int, int], bool] = lambda *_: True,
    ) -> None:
        self.places, self.kinds, self.allowed = places, kinds, allowed
        self.least, self.solve, self.tell, self.within = least, solve, tell, within
        self.looked = [0, 0, 0]
        """How many runs were looked at so closely."""
        self._known: dict[tuple[int, int, int], Known] = {}
        self._allowed: dict[tuple[int, int, int], bool] = {}
        self._looked: list[tuple[int, int, int]] = []

    def best(self, devices: int, end: int, gap: float = 0.0) -> Cuts:
        """The cheapest cuts.

        Args:
            devices: So many of them, the first ones.
            end: So many layers, the first ones.
            gap: By how much the bound may be below the value, as a share of it.
        """
        while True:
            value, ends = self._cheapest(devices, end, by_value=True).get(False, (NEVER, None))
            ways = self._cheapest(devices, end)
            if not ways:
                return Cuts(NEVER, None, NEVER)
            bound = min(way[0] for way in ways.values())
            open_, path = ways.get(True, (NEVER, ()))
            if open_ >= value or (value < NEVER and value - bound <= gap * value):
                return Cuts(value, ends, min(bound, value))
            self._look(path, value, open_)

    def _look(self, path: Sequence[int], value: int, bound: int) -> None:
        """Look more closely at what is open of cuts, first at what is known least."""
        runs = [
            (low, high, kind)
            for low, high, kind in zip((0, *path), path, self.kinds, strict=False)
            if low < high and not self._known[low, high, kind].settled
        ]
        run = min(runs, key=lambda each: self._known[each].level)
        level = self._known[run].level + 1
        self.looked[level] += 1
        best = "none yet" if value >= NEVER else f"{value / SHARE:.4f}"
        self.tell(
            f"cuts: best {best}, no open ones below {bound / SHARE:.4f}; layers {run[0]} to {run[1] - 1} are "
            f"{'relaxed' if level == RELAXED else 'solved'} ({self.looked[RELAXED]} relaxed, {self.looked[SOLVED]} "
            "solved)"
        )
        found = self.solve(*run, level == SOLVED)
        before = self._known[run].bound
        if isinstance(found, Solution):
            self._known[run] = Known(level, max(before, found.bound), found.value)
        else:
            self._known[run] = Known(level, NEVER if found.proven else max(before, found.bound))
        if self.within(*run):
            self._looked.append(run)
            for other in self._known:
                self._raise(other, [run])

    def _raise(self, run: tuple[int, int, int], parts: Sequence[tuple[int, int, int]]) -> None:
        """Note that a run costs no less than parts of it: what one device cannot hold, it cannot hold with more."""
        low, high, kind = run
        known = self._known[run]
        inside = [self._known[part].bound for part in parts if low <= part[0] and part[1] <= high and kind == part[2]]
        if max(inside, default=0) > known.bound:
            self._known[run] = dataclasses.replace(known, bound=max(inside))

    def _cheapest(self, devices: int, end: int, *, by_value: bool = False) -> dict[bool, tuple[int, tuple[int, ...]]]:
        """The least sum and its ends: of cuts of which a run is open, and of those of which none is.

        Args:
            devices: So many of them.
            end: So many layers.
            by_value: By what the best known choices cost, no matter what is open; else by bounds.
        """
        ways: dict[tuple[int, bool], tuple[int, tuple[int, ...]]] = {(0, False): (0, ())}
        for device in range(devices):
            then: dict[tuple[int, bool], tuple[int, tuple[int, ...]]] = {}
            for (low, open_), (sum_, ends) in ways.items():
                # What is left over behind the last device is not made.
                for high in self.places if device + 1 < devices else (end,):
                    if not low <= high <= end:
                        continue
                    run = self._run(low, high, device)
                    cost = run.value if by_value else run.bound
                    if cost >= NEVER:
                        continue
                    key = high, not by_value and (open_ or not run.settled)
                    if key not in then or sum_ + cost < then[key][0]:
                        then[key] = sum_ + cost, (*ends, high)
            ways = then
        return {open_: way for (_, open_), way in ways.items()}

    def _run(self, low: int, high: int, device: int) -> Known:
        """What is known of a run."""
        if low == high:
            return Known(SOLVED, 0, 0)
        kind = self.kinds[device]
        at, run = (low, high, device), (low, high, kind)
        if at not in self._allowed:
            self._allowed[at] = self.allowed(*at)
        if not self._allowed[at]:
            return Known(SOLVED, NEVER)
        if run not in self._known:
            least = self.least(*run)
            self._known[run] = Known(SOLVED, NEVER) if least is None else Known(SUMS, least)
            self._raise(run, self._looked)
        return self._known[run]
