"""The design that meets a target: what is chosen for every node, and how good it is proven to be."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mase_hw.cost.devices import RESOURCES, Resources
from mase_hw.emit.estimate import estimate
from mase_hw.emit.passes import bundle_of, emit_verilog_top_transform_pass
from mase_hw.errors import ConfigError
from mase_hw.fit.budget import Impossible, Solution, solve
from mase_hw.fit.candidates import Candidate, moved
from mase_hw.fit.latency import Latency
from mase_hw.fit.parts import Framed
from mase_hw.fit.problem import SHARE, WORDS, Numbers, Prices, named
from mase_hw.fit.space import Candidates, Space
from mase_hw.fit.target import NOMINAL, Goal
from mase_hw.hardware.manifest import Manifest
from mase_hw.ir import MaseGraph
from mase_hw.passes.mapping.add_hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.mapping.args import KERNEL, HardwareArgs, Lanes
from mase_hw.passes.mapping.unroll_frame import Part

SPREAD = 4.0
"""Layers with multipliers are not made more than so many times faster than the interval, unless for the latency."""
LATENCY_SPREAD = 16.0
SLOWER = 1.6
"""How many times slower than the fastest design within the budgets a layer may be where the latency is sought."""
BEGINNINGS = (1.0, 1.2, 1.45)
"""Intervals, as multiples of the shortest one, at which the search for the latency begins."""
ATTEMPTS = 4
AIMS = 6
"""Intervals of the slowest stage that are tried where frames come back late to blocks that share hardware."""
COARSE = 1 << 24
"""A whole device where nothing is read from outside: of that no budget is millions."""
ANY_RATE = 1 << 40
"""Cycles per frame that are slower than any layer."""
Tell = Callable[[str], object]


@dataclass(frozen=True)
class Way:
    """A way in which blocks may share hardware, or a part be one expression, and what came of it.

    Args:
        shared: Modules whose children share hardware, and how many of them have some.
        interval: Cycles per frame of the best design; None if none was found.
        use: What it takes.
        impossible: Whether it is proven that there is none.
        positions: Neighbouring positions of a beat; None as the configuration has them.
        framed: The part of the network that is one expression; None if all is folded.
        why: Why there is none, of a part that cannot be one, or takes more by itself than what was found.
    """

    shared: Mapping[str, int]
    interval: int | None
    use: Mapping[str, int]
    impossible: bool = False
    positions: int | None = None
    framed: Framed | None = None
    why: str = ""


class UnmetError(ConfigError):
    """Nothing that was tried meets the target; ``proven`` says whether there is nothing.

    ``at_any_rate`` is set where even the slowest design takes more than the budgets, as far as that was asked.
    """

    proven = False
    at_any_rate = False

    @classmethod
    def known(cls, proven: bool, message: str, **more: Any) -> Self:
        """An error that says whether it is proven."""
        error = cls(message, **more)
        error.proven = proven
        return error


@dataclass(frozen=True)
class Choice:
    """What was chosen.

    Args:
        chosen: By node; of those that share hardware the first.
        solution: How good it is proven to be.
        args: The same as arguments of the hardware metadata pass.
        manifest: Of the netlist that follows.
        use: What the whole design takes, FIFOs included.
        not_estimated: The number of instances of every module that is not estimated: the design takes more.
        open_interval: The fewest cycles per frame that were not proven to be impossible, though nothing was found;
            None if there are none below those of the choice, or they are not what is to be least.
        ways: How blocks may share hardware, or parts be expressions, as far as that was to be chosen.
        part: What is one expression; None if all is folded.
        refused: Why nodes cannot be in an expression, as far as that was found out.
        measured: What was measured of its instances, by name; the others are estimated.
    """

    chosen: Mapping[str, Candidate]
    solution: Solution
    args: HardwareArgs
    manifest: Manifest
    use: Mapping[str, int]
    not_estimated: Mapping[str, int]
    open_interval: int | None = None
    ways: Sequence[Way] = ()
    part: Part | None = None
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    measured: Mapping[str, Resources] = dataclasses.field(default_factory=dict)

    @property
    def proven(self) -> bool:
        """Whether no choice is better by the estimates."""
        settled = all(way.interval is not None or way.impossible or way.why for way in self.ways)
        return self.solution.proven and self.open_interval is None and settled

    @property
    def gap(self) -> float:
        """By how much a better choice could be better at most, as a share of the bound."""
        if self.open_interval is None:
            return self.solution.gap
        return self.manifest.timing.interval / self.open_interval - 1


class Chooser:
    """Finds the design for a goal.

    Args:
        graph: Quantised and verified.
        args: What the user asked of the hardware, which is kept.
        goal: What is to be reached.
        tell: Told what is being done.
        tokens: Of a frame, if they come one at a time: the latency is then that of the last one.
        nearest: Whether an error says how fast a design within the budgets can be, which has to be sought.
        small: The layers that may become additions by themselves; None for the smallest.

    Raises:
        MaseHwError: As the hardware metadata pass.
    """

    def __init__(
        self,
        graph: MaseGraph,
        args: HardwareArgs,
        goal: Goal,
        tell: Tell = lambda _: None,
        tokens: int = 0,
        *,
        nearest: bool = True,
        small: Collection[str] | None = None,
    ) -> None:
        self.goal, self.graph, self.tell, self.tokens, self.nearest = goal, graph, tell, tokens, nearest
        # What is moved to external memory to have less on the chip is read again for each use.
        again = {"external_buffer": 0} if goal.external and args.external_buffer is None else {}
        self.args = args.model_copy(update={"family": goal.family, **again})
        self._open: int | None = None
        self._within: tuple[Candidates, Solution] | None = None
        orders = goal.minimise == "latency"
        self._outside = goal.external or args.reads_outside
        if self._outside and orders:
            raise ConfigError(
                "how late weights from external memory come is not known to what makes the latency least",
                field="target.minimise",
                got="latency, with parameters in external memory",
                expected="area or interval",
            )
        if args.shared and (orders or tokens):
            raise ConfigError(
                "how late frames come back to blocks that share hardware is not known to what makes the latency least",
                field="hardware.shared" if list(args.shared) != list(goal.shared) else "target.shared",
                got=f"{', '.join(args.shared)}, with {'decode.context' if tokens else 'minimise = latency'}",
                expected="area or interval, of whole frames",
            )
        self.space = Space(
            graph,
            self.args,
            orders=orders,
            unrolled=goal.unrolled if small is None else small,
            logic=goal.logic,
            external=goal.external,
            prices=Prices(goal.family, goal.measured),
        )
        whole = SHARE if self._outside else COARSE
        shares = [whole // max(goal.budgets.get(name, NOMINAL[name]), 1) + 1 for name in RESOURCES]
        self.weights = np.array([*shares, 0], dtype=np.int64)

    @functools.cached_property
    def fastest(self) -> tuple[int, str]:
        """The fewest cycles per frame that anything can reach, and the node that needs them."""
        return self.space.fastest()

    def choose(self) -> Choice:
        """The best design within the budgets.

        Raises:
            ConfigError: If nothing meets the target, with the nearest that does.
        """
        if self.goal.interval is not None and self.goal.interval < self.fastest[0]:
            raise self._too_fast()
        if self.goal.minimise == "latency":
            return self._in_limit(self._lowest_latency())
        reserve = dict.fromkeys(RESOURCES, 0)
        for _ in range(ATTEMPTS):
            interval = self.goal.interval
            if self.goal.minimise == "interval":
                interval = self._least_interval(reserve)
            elif interval is None:
                interval = ANY_RATE
            candidates, solution = self._cheapest(interval, reserve)
            if isinstance(solution, Impossible) and self._within is not None:
                # What made the bisection stop here is within the budgets, though it may not be the cheapest.
                candidates, solution = self._within
            if isinstance(solution, Impossible):
                raise self._too_much(interval, solution, reserve)
            choice = self._built(candidates, solution)
            if self._late(choice):
                choice = self._in_time(choice, interval, reserve)
            if (over := self._over(choice)) is None:
                return choice
            self._keep_back(reserve, over, choice)
        raise self._between(over)

    def _in_limit(self, choice: Choice) -> Choice:
        """The choice of the lowest latency, unless that is above the limit.

        Raises:
            UnmetError: If it is.
        """
        last, most = choice.manifest.timing.last + 1, self.goal.latency
        if most is None or last <= most:
            return choice
        nanoseconds = 1000 / self.goal.mhz
        raise UnmetError.known(
            choice.proven,
            "no design has so low a latency" if choice.proven else "no design was found that has so low a latency",
            field="target.latency_ns",
            got=f"{last} cycles, {last * nanoseconds:g} ns, at the lowest",
            expected=f"at most {most} cycles at {self.goal.mhz:g} MHz",
            remedy="allow more, or raise the budgets or the clock",
        )

    def _in_time(self, late: Choice, interval: int, reserve: Mapping[str, int]) -> Choice:
        """The cheapest design whose frames come back in time, of those for shorter intervals of the slowest stage.

        Args:
            late: The cheapest one for the interval that was asked for, whose frames do not.
            interval: For which it was chosen.
            reserve: As for the choice.

        Raises:
            UnmetError: If there is none among those that were tried.
        """
        low, high, best = self.fastest[0], interval, None
        aim = max(low, interval * interval // late.manifest.timing.interval)
        for _ in range(AIMS if self.goal.minimise == "area" else 0):
            candidates, solution = self._cheapest(aim, reserve)
            if isinstance(solution, Solution):
                # No choice for the interval that was asked for is below the first bound.
                bound = min(solution.bound, late.solution.bound)
                choice = self._built(candidates, dataclasses.replace(solution, bound=bound))
                if self._late(choice):
                    high = aim
                elif best is None or choice.solution.value <= best.solution.value:
                    best = choice
            if high > aim:
                low = aim + 1
            if low >= high:
                break
            aim = (low + high) // 2
        if best is None:
            raise self._waits(late)
        return best

    def _late(self, choice: Choice) -> bool:
        """Whether a design with blocks that share hardware is slower than was asked, as a pass waits for a frame."""
        asked = self.goal.interval
        return bool(self.space.twins) and asked is not None and choice.manifest.timing.interval > asked

    def front(self, around: int) -> list[tuple[int, dict[str, int]]]:
        """Cycles per frame and the least area for them, without budgets, from a sixteenth to 16 times a number."""
        found: dict[int, dict[str, int]] = {}
        for power in range(-8, 9):
            interval = max(int(around * 2 ** (power / 2)), self.fastest[0])
            candidates = self.space.candidates(interval, SPREAD)
            problem = self.space.problem(candidates, interval)
            solution = solve(problem, self.weights, {WORDS: interval} if self._outside else {})
            if isinstance(solution, Solution):
                found[_cycles(candidates, solution)] = named(solution.total)
        kept, least = [], float("inf")
        for interval in sorted(found):
            value = float(np.array([found[interval][name] for name in RESOURCES]) @ self.weights[: len(RESOURCES)])
            if value < least:
                kept.append((interval, found[interval]))
                least = value
        return kept

    def _cheapest(
        self, interval: int, reserve: Mapping[str, int], weights: Numbers | None = None
    ) -> tuple[Candidates, Solution | Impossible]:
        candidates = self.space.candidates(interval, SPREAD)
        self._refuse_contradictions(candidates, interval)
        problem = self.space.problem(candidates, interval)
        return candidates, solve(
            problem, self.weights if weights is None else weights, self._budgets(reserve, interval)
        )

    def _budgets(self, reserve: Mapping[str, int], interval: int) -> dict[int, int]:
        """Of every measure that is limited its most; memory brings a word per cycle."""
        words = {WORDS: interval} if self._outside else {}
        return words | {RESOURCES.index(name): most - reserve[name] for name, most in self.goal.budgets.items()}

    def _least_interval(self, reserve: Mapping[str, int]) -> int:
        """The fewest cycles per frame within the budgets, by bisection."""
        low, _ = self.fastest
        self._open = None
        high = self.goal.interval or low
        any_will_do = np.zeros_like(self.weights)
        candidates, found = self._cheapest(high, reserve, any_will_do)
        while isinstance(found, Impossible):
            if self.goal.interval is not None or high >= ANY_RATE:
                raise self._too_much(high, found, reserve)
            self._note_open(high, found)
            low, high = high, high * 4
            candidates, found = self._cheapest(high, reserve, any_will_do)
        while True:
            high = _cycles(candidates, found)
            self._within = candidates, found
            # Nothing changes between the cycles of one candidate and of the next one.
            steps = [n for n in self.space.intervals(high, SPREAD) if low <= n < high]
            while steps:
                at = len(steps) // 2
                candidates, found = self._cheapest(steps[at], reserve, any_will_do)
                if isinstance(found, Solution):
                    break
                self._note_open(steps[at], found)
                low, steps = steps[at] + 1, steps[at + 1 :]
            else:
                return self._fewest_words(low - 1, high, reserve) if self._outside else high

    def _fewest_words(self, below: int, high: int, reserve: Mapping[str, int]) -> int:
        """The fewest cycles per frame that words decide: between those of two candidates, of which one is too few."""
        candidates = self.space.candidates(below, SPREAD)
        if below < self.fastest[0]:
            return high
        words = np.zeros_like(self.weights)
        words[WORDS] = 1
        budgets = self._budgets(reserve, high)
        found = solve(self.space.problem(candidates, below), words, budgets)
        if isinstance(found, Solution):
            self._within = candidates, found
            high = _cycles(candidates, found)
        bound = found.bound if isinstance(found, Solution) else 0 if not found.proven else high
        if bound < high:
            self._open = max(bound, below)
        return high

    def _note_open(self, interval: int, found: Impossible) -> None:
        if not found.proven:
            self._open = interval if self._open is None else min(self._open, interval)

    def _lowest_latency(self) -> Choice:
        reserve = dict.fromkeys(RESOURCES, 0)
        least = self._least_interval(reserve) if self.goal.budgets else self.fastest[0]
        most = self.goal.interval or int(least * SLOWER)
        candidates = self.space.candidates(most, LATENCY_SPREAD, pace=least)
        for _ in range(ATTEMPTS):
            budgets = self._budgets(reserve, most)
            found = Latency(self.space, candidates, most, budgets, self.weights, least, self.tokens)
            solution = found.sought(self._beginnings(candidates, least, most, reserve))
            if solution is None:
                raise self._too_much(least, Impossible(False, None), reserve)
            choice = self._built(candidates, solution)
            if (over := self._over(choice)) is None:
                return choice
            self._keep_back(reserve, over, choice)
        raise self._between(over)

    def _beginnings(
        self, candidates: Candidates, least: int, most: int, reserve: Mapping[str, int]
    ) -> list[dict[str, int]]:
        """Choices of least area at some intervals, in numbers of the candidates."""
        found = []
        for slower in BEGINNINGS:
            of, solution = self._cheapest(min(int(least * slower), most), reserve)
            if isinstance(solution, Solution):
                numbers = {}
                for name, at in solution.chosen.items():
                    wanted = of[name][at]
                    alike = [i for i, c in enumerate(candidates[name]) if c.lanes == wanted.lanes]
                    same = [i for i in alike if candidates[name][i] is wanted]
                    numbers[name] = (same or alike or [0])[0]
                found.append(numbers)
        return found

    def _built(self, candidates: Candidates, solution: Solution) -> Choice:
        """The netlist of a choice, and what all of it takes."""
        chosen = _picked(candidates, solution)
        args = arguments(self.args, chosen, self.space.twins)
        manifest = self.netlist(args)
        measured = self.space.prices.known(manifest.instances)
        use = estimate(manifest, self.goal.family, measured)
        left = use.pop("not_estimated")
        open_interval = None
        if self.goal.minimise == "interval":
            # Of blocks that share hardware the slowest stage alone is known before.
            least = _cycles(candidates, solution) if self.space.twins else manifest.timing.interval
            least = least if self._open is None else min(least, self._open)
            open_interval = least if least < manifest.timing.interval else None
        return Choice(chosen, solution, args, manifest, use, left, open_interval, measured=measured)

    def netlist(self, args: HardwareArgs) -> Manifest:
        """Make the netlist for arguments of the hardware metadata pass; the graph has it then."""
        add_hardware_metadata_analysis_pass(self.graph, args)
        emit_verilog_top_transform_pass(self.graph, {"steady": False, "context": self.tokens})
        return bundle_of(self.graph).record

    def _between(self, over: Mapping[str, int] | None) -> UnmetError:
        return UnmetError(
            "what stands between the layers takes more than the budgets leave",
            field="target",
            got=", ".join(f"{number} {name} too many" for name, number in (over or {}).items() if number),
            remedy="raise the budgets, or lower the rate",
        )

    def _waits(self, choice: Choice) -> UnmetError:
        return UnmetError(
            "blocks that share hardware wait for a frame to come back",
            field="target",
            got=f"{choice.manifest.timing.interval} cycles per frame, {_cycles_of(choice.chosen)} of the slowest stage",
            expected=f"at most {self.goal.interval}",
            remedy="compile the model with several images in a frame, which fill the block, or ask for a lower rate",
        )

    def _over(self, choice: Choice) -> dict[str, int] | None:
        """By how much a built design exceeds the budgets; None if it does not."""
        over = {name: max(choice.use[name] - most, 0) for name, most in self.goal.budgets.items()}
        return {**dict.fromkeys(RESOURCES, 0), **over} if any(over.values()) else None

    def _keep_back(self, reserve: dict[str, int], over: Mapping[str, int], choice: Choice) -> None:
        """Leave room for what the estimates of single layers do not know, FIFOs above all, as in the last design."""
        for number, name in enumerate(RESOURCES):
            if over[name]:
                unknown = choice.use[name] - int(choice.solution.total[number])
                # Another design has others: where what the last one took was not enough, some more is kept.
                reserve[name] = max(reserve[name] + 1, unknown + (over[name] if reserve[name] else 0))

    def _refuse_contradictions(self, candidates: Candidates, interval: int) -> None:
        for name, of in candidates.items():
            if of:
                continue
            fastest = self.space.options[name].fastest()
            asked = [key for key in ("parallelism", "implementation", "order") if name in getattr(self.space.args, key)]
            given = self.space.args.parallelism.get(name)
            raise UnmetError.known(
                True,
                "what is chosen by hand contradicts the target",
                node=name,
                field=f"hardware.{asked[0] if asked else 'max_parallelism'}" + (f".{name}" if asked else ""),
                got=f"{given}, {fastest} cycles per frame" if given else f"{fastest} cycles per frame",
                expected=f"at most {interval} cycles per frame",
                remedy=f"leave it to the solver, or ask for at most {self.goal.fps(fastest):.6g} frames per second",
            )

    def _too_fast(self) -> UnmetError:
        cycles, node = self.fastest
        given = node in self.space.args.parallelism
        return UnmetError.known(
            True,
            "what is chosen by hand contradicts the target" if given else "no design is as fast as the target",
            node=node,
            field=f"hardware.parallelism.{node}" if given else "target",
            got=f"{self.goal.interval} cycles per frame ({self.goal.fps(self.goal.interval or 1):.6g} per second)",
            expected=f"{cycles} or more ({self.goal.fps(cycles):.6g} frames per second at {self.goal.mhz:g} MHz)",
            remedy=f"ask for fps = {self.goal.fps(cycles):.6g}, or for a faster clock"
            + (", or leave the lanes to the solver" if given else ""),
        )

    def _too_much(self, interval: int, found: Impossible, reserve: Mapping[str, int]) -> UnmetError:
        """Nothing at this rate is within the budgets; the nearest that is."""
        nearest = "" if found.nearest is None else self._shortfall(found.nearest)
        remedy = "raise the budgets, or choose a larger device"
        at_any_rate = interval >= ANY_RATE
        if self.goal.interval is not None and self.nearest:
            slower = dataclasses.replace(self.goal, interval=None, minimise="interval")
            try:
                free = Chooser(self.graph, self.args, slower, self.tell)
                least = free._least_interval(reserve)
                remedy = (
                    f"the nearest within the budgets is {least} cycles per frame "
                    f"({self.goal.fps(least):.6g} frames per second); or {remedy}"
                )
            except ConfigError:
                remedy = f"even the slowest design takes more; {remedy}"
                at_any_rate = True
        error = UnmetError.known(
            found.proven,
            "no design within the budgets meets the target"
            if found.proven
            else "no design within the budgets was found that meets the target",
            field="target",
            got=f"{'any rate' if interval >= ANY_RATE else f'{interval} cycles per frame'}{nearest}",
            expected=", ".join(f"{most} {name}" for name, most in self.goal.budgets.items()),
            remedy=remedy,
        )
        error.at_any_rate = at_any_rate
        return error

    def _shortfall(self, total: Numbers) -> str:
        taken = named(total[: len(RESOURCES)])
        over = [f"{taken[name]} {name}" for name, most in self.goal.budgets.items() if taken[name] > most]
        return f", which takes {' and '.join(over)}" if over else ""


def _picked(candidates: Candidates, solution: Solution) -> dict[str, Candidate]:
    return {name: candidates[name][at] for name, at in solution.chosen.items()}


def _cycles(candidates: Candidates, solution: Solution) -> int:
    """Cycles per frame of a choice: those of its slowest layer, or of its words."""
    return max(int(solution.total[WORDS]), _cycles_of(_picked(candidates, solution)))


def _cycles_of(chosen: Mapping[str, Candidate]) -> int:
    return max(each.cycles for each in chosen.values())


def arguments(args: HardwareArgs, chosen: Mapping[str, Candidate], twins: Mapping[str, Sequence[str]]) -> HardwareArgs:
    """Arguments of the hardware metadata pass that ask for what was chosen.

    Args:
        args: What else is asked for.
        chosen: By node.
        twins: Of nodes that share hardware those that are built as the one that was chosen for.
    """
    chosen = {name: each for by, each in chosen.items() for name in twins.get(by, (by,))}
    lanes: dict[str, dict[str, Lanes]] = {}
    for name, each in chosen.items():
        if each.whole:
            continue
        lanes[name] = dict(each.lanes)
        if each.kernel is not None:
            lanes[name] |= {KERNEL: list(each.kernel)}
    return moved(args, [f"{name}.{tensor}" for name, each in chosen.items() for tensor in each.outside]).model_copy(
        update={
            "parallelism": lanes,
            "implementation": {n: c.implementation for n, c in chosen.items() if c.implementation},
            "order": {n: c.order for n, c in chosen.items() if c.order},
        }
    )
