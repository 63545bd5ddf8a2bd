"""The design that meets a target, of all ways to share hardware, of positions of a beat and of whole frames; the pass.

A number of cycles and an area do not say whether one block of hardware or several are better: few take little, and
pass every frame through them as often as there are blocks. Beats of several positions take as many times the
multipliers, and may be the only ones that are fast enough; so may a part of the network that is one expression of its
constants. So every way is a choice by itself, with its proof, and the best of them is taken. What is proven of all of
them is proven of the choice.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from pydantic import Field, NonNegativeInt

from mase_hw.cost.devices import RESOURCES
from mase_hw.errors import ConfigError, MaseHwError
from mase_hw.fit.bounds import Bounds
from mase_hw.fit.choose import ANY_RATE, Choice, Chooser, Tell, UnmetError, Way
from mase_hw.fit.parts import Framed, Parts
from mase_hw.fit.target import Goal, Target
from mase_hw.fit.target import goal as goal_of
from mase_hw.ir import MaseGraph
from mase_hw.passes.base import Info, PassArgs, graph_pass
from mase_hw.passes.mapping.add_hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.passes.mapping.shared_blocks import numbers, shared_blocks
from mase_hw.passes.mapping.unroll_frame import put


def choose(
    graph: MaseGraph, args: HardwareArgs, goal: Goal, tell: Tell = lambda _: None, tokens: int = 0
) -> tuple[Chooser, Choice]:
    """The best design for a goal, and what found it.

    Args:
        graph: As for :class:`mase_hw.fit.choose.Chooser`.
        args: As for it.
        goal: What is to be reached; of the modules that it names blocks may share hardware, and beats may have the
            numbers of positions that it names.
        tell: Told what is being done.
        tokens: As for it.

    Raises:
        ConfigError: If nothing meets the target, with the nearest that does.
        MaseHwError: As the hardware metadata pass.
    """
    if twice := [path for path in goal.shared if path in args.shared]:
        raise ConfigError(
            "whether these blocks share hardware is said already",
            field="target.shared",
            got=", ".join(twice),
            remedy="leave them out of hardware.shared, or of target.shared",
        )
    parts = Parts(graph, args, goal, tokens)
    folded = list(_ways(graph, args, goal))
    if len(folded) == 1 and not parts.all:
        chooser = Chooser(graph, _args_of(args, goal, folded[0]), goal, tell, tokens)
        return chooser, chooser.choose()
    tried = _Tried(graph, args, goal, tell, tokens, parts)
    for way in folded:
        tried.folded(way, nearest=len(folded) == 1)
    for framed in sorted(parts.all, key=lambda each: each.products > goal.whole_frames):
        if framed.products <= goal.whole_frames or tried.multiplies(framed):
            tried.framed(framed)
    if not tried.found:
        raise _unmet(tried, len(folded) > 1)
    return tried.best()


@dataclass
class _Tried:
    """The ways that were tried, and what came of them.

    Args:
        graph: As for :func:`choose`, as are the following ones.
        args: As for it.
        goal: As for it.
        tell: As for it.
        tokens: As for it.
        parts: What may be one expression.
        found: What found a design, and the design.
        ways: All that were tried.
        errors: Of those for which nothing was found, but for expressions that cannot be.
        bounds: What designs with an expression do not stay below; None before one without was tried.
    """

    graph: MaseGraph
    args: HardwareArgs
    goal: Goal
    tell: Tell
    tokens: int
    parts: Parts
    found: list[tuple[Chooser, Choice]] = field(default_factory=list)
    ways: list[Way] = field(default_factory=list)
    errors: list[UnmetError] = field(default_factory=list)
    bounds: Bounds | None = None

    def folded(self, way: Way, *, nearest: bool) -> None:
        """Try a way without an expression."""
        self.tell(f"choosing for {said_of(way)}")
        try:
            chooser = Chooser(
                self.graph, _args_of(self.args, self.goal, way), self.goal, self.tell, self.tokens, nearest=nearest
            )
            if self.parts.all and way.positions in (None, self.args.positions):
                self.bounds = Bounds(chooser)
            self._take(way, chooser, chooser.choose())
        except UnmetError as error:
            self._note(way, error)

    def framed(self, framed: Framed) -> None:
        """Try a part as an expression, the rest folded."""
        way = Way({}, None, {}, framed=framed)
        best = self.best_of()
        if self.bounds is not None and (why := self.bounds.worse(framed, best)):
            self.ways.append(dataclasses.replace(way, why=why, impossible=best is None))
            return
        if why := self.parts.bad(framed):
            self.ways.append(dataclasses.replace(way, impossible=True, why=why))
            return
        self.tell(f"choosing for {said_of(way)}")
        try:
            graph, part, node = self.parts.of(framed)
            small = None if self.bounds is None else self.bounds.space.small
            chooser = Chooser(
                graph, framed.asked(self.args), self.goal, self.tell, self.tokens, nearest=False, small=small
            )
            (alone,) = chooser.space.options[node].within(ANY_RATE)
            area, fill = int(alone.use @ chooser.weights), alone.latency.fill
            if self.bounds is not None and (why := self.bounds.worse(framed, best, area, fill)):
                self.ways.append(dataclasses.replace(way, why=why, impossible=best is None))
                return
            choice = dataclasses.replace(chooser.choose(), part=part)
        except UnmetError as error:
            self._note(way, error)
        except MaseHwError as error:
            self.ways.append(dataclasses.replace(way, impossible=True, why=self.parts.refuse(framed, error)))
        else:
            self._take(way, chooser, choice)

    def multiplies(self, framed: Framed) -> bool:
        """Whether nothing was found that is as fast, or a design with a multiplier for every other product of a beat.

        Where the budgets are less than the slowest design takes, an expression of many products is not within them
        either, as a rule; finding its additions would only delay the answer.
        """
        best = self.best_of()
        if best is None:
            return not any(error.at_any_rate for error in self.errors)
        return 2 * sum(best.chosen[n].multipliers for n in framed.nodes if n in best.chosen) >= framed.products

    def best_of(self) -> Choice | None:
        """The best design so far."""
        return min(self.found, key=lambda each: order(*each))[1] if self.found else None

    def best(self) -> tuple[Chooser, Choice]:
        """The best design, with what is proven of all ways."""
        best = min(self.found, key=lambda each: order(*each))
        choice = _of_all(best[1], [choice for _, choice in self.found], self.ways)
        return best[0], dataclasses.replace(choice, refused=dict(self.parts.refused))

    def _take(self, way: Way, chooser: Chooser, choice: Choice) -> None:
        self.found.append((chooser, choice))
        self.ways.append(dataclasses.replace(way, interval=choice.manifest.timing.interval, use=choice.use))

    def _note(self, way: Way, error: UnmetError) -> None:
        self.errors.append(error)
        self.ways.append(dataclasses.replace(way, impossible=error.proven))


def _args_of(args: HardwareArgs, goal: Goal, way: Way) -> HardwareArgs:
    """Arguments that ask for a way to share hardware, and for positions of a beat."""
    changed: dict[str, object] = {"shared": way.shared} if goal.shared else {}
    changed |= {} if way.positions is None else {"positions": way.positions}
    return args.model_copy(update=changed) if changed else args


def said_of(way: Way) -> str:
    """A way for people."""
    listed = [f"{n} block{'s' if n > 1 else ''} of hardware for {path}" for path, n in way.shared.items()]
    if way.positions is not None:
        listed.append(f"{way.positions} position{'s' if way.positions > 1 else ''} a beat")
    if way.framed is not None:
        listed.append(str(way.framed))
    return ", ".join(listed) or "everything folded"


def _ways(graph: MaseGraph, args: HardwareArgs, goal: Goal) -> Iterator[Way]:
    """All ways, the one that shares nothing first."""
    blocks = {path: shared_blocks(graph, path).passes for path in goal.shared}
    kept = dict.fromkeys(args.shared, 1) | (args.shared if isinstance(args.shared, dict) else {})
    for positions in goal.positions or (None,):
        for each in itertools.product(*([n, *reversed(numbers(n))] for n in blocks.values())):
            few = {path: number for path, number in zip(blocks, each, strict=True) if number < blocks[path]}
            yield Way(kept | few, None, {}, positions=positions)


def order(chooser: Chooser, choice: Choice) -> tuple[float, ...]:
    """The less the better: area, or cycles and then area."""
    area = float(np.array([choice.use[name] for name in RESOURCES]) @ chooser.weights[: len(RESOURCES)])
    timing = choice.manifest.timing
    least = {"interval": (timing.interval,), "latency": (timing.last,), "area": ()}[chooser.goal.minimise]
    return (*least, area)


def _of_all(best: Choice, choices: Sequence[Choice], ways: Sequence[Way]) -> Choice:
    """The best choice with what is proven of all."""
    bounds = [each.solution.bound for each in choices if not each.solution.proven]
    opened = [each.open_interval for each in choices if each.open_interval is not None]
    least = min(opened, default=best.manifest.timing.interval)
    return dataclasses.replace(
        best,
        solution=dataclasses.replace(best.solution, bound=min([best.solution.bound, *bounds])),
        open_interval=least if least < best.manifest.timing.interval else None,
        ways=tuple(ways),
    )


def _unmet(tried: _Tried, several: bool) -> UnmetError:
    """What no way meets: the error of the last one that is folded, with the nearest of all, and why no expression."""
    goal, errors = tried.goal, tried.errors
    ways = [way for way in tried.ways if way.framed is None]
    error = errors[len(ways) - 1]
    proven = all(way.impossible for way in tried.ways)
    remedy = _nearest(tried, error) if several and goal.interval is not None else error.remedy
    reasons = [f"{said_of(way)}: {way.why or 'takes more'}" for way in tried.ways if way.framed is not None]
    if reasons or (tried.parts.why and goal.whole_frames):
        remedy = f"{remedy}; not met by an expression either: {'; '.join(reasons[-3:]) or tried.parts.why}"
    message = error.message
    if several:
        message = "no design within the budgets meets the target, whether blocks share hardware or not"
        if not goal.shared:
            message = "no design within the budgets meets the target, whatever positions a beat has"
        if not proven:
            message = message.replace("meets the target", "was found that meets the target")
    return UnmetError.known(
        proven, message, node=error.node, field=error.field, got=error.got, expected=error.expected, remedy=remedy
    )


def _nearest(tried: _Tried, error: UnmetError) -> str:
    """What can be done, with the nearest that is possible."""
    goal = tried.goal
    try:
        slower = dataclasses.replace(goal, interval=None, minimise="interval")
        nearest = choose(tried.graph, tried.args, slower, tried.tell)[1]
    except ConfigError:
        return f"even the slowest design takes more; {error.remedy}"
    cycles = nearest.manifest.timing.interval
    how = next((said_of(way) for way in nearest.ways if way.interval == cycles), "")
    return (
        f"the nearest within the budgets is {cycles} cycles per frame ({goal.fps(cycles):.6g} frames per "
        f"second), with {how}; or {error.remedy}"
    )


HARDWARE = "add_hardware_metadata_analysis_pass"
NOT_ESTIMATED = "not_estimated"
"""In ``meta`` of a graph: the modules without an estimate for which its budgets are not proven."""


class FitArgs(PassArgs):
    """Arguments of ``fit_hardware_analysis_pass``."""

    target: Target = Field(description="what the design is to reach and may take")
    hardware: HardwareArgs = Field(
        default_factory=HardwareArgs, description=f"arguments of ``{HARDWARE}``, which are kept"
    )
    context: NonNegativeInt = Field(
        default=0,
        description="of a causal language model whose tokens come one at a time: those of a frame; the latency is then "
        "that of the last one by itself",
    )


@graph_pass(
    "fit_hardware_analysis_pass",
    args=FitArgs,
    needs=("add_common_metadata_analysis_pass", "quantize_transform_pass"),
    gives=(HARDWARE,),
)
def fit_hardware_analysis_pass(graph: MaseGraph, args: FitArgs) -> tuple[MaseGraph, Info]:
    """Choose lanes and implementations for a target, and with them module and parameters of every node.

    Returns:
        The same graph, and what ``add_hardware_metadata_analysis_pass`` reports, with ``not_estimated``: the number of
        instances of every module without an estimate, beside which no budget is proven.

    Raises:
        ConfigError: If the target cannot be met, with the nearest that can.
    """
    wanted = goal_of(args.target, args.hardware.family)
    choice = choose(graph, args.hardware, wanted, tokens=args.context)[1]
    graph.meta[NOT_ESTIMATED] = dict(choice.not_estimated) if wanted.budgets else {}
    if choice.part is not None:
        put(graph, choice.part)
    graph, info = add_hardware_metadata_analysis_pass(graph, choice.args)
    return graph, {**info, NOT_ESTIMATED: dict(choice.not_estimated)}
