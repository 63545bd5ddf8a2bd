"""The design that meets a target, of all ways in which blocks share hardware and beats have positions, and the pass.

A number of cycles and an area do not say whether one block of hardware or several are better: few take little, and
pass every frame through them as often as there are blocks. Beats of several positions take as many times the
multipliers, and may be the only ones that are fast enough. So every way is a choice by itself, with its proof, and the
best of them is taken. What is proven of all of them is proven of the choice.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import Field, NonNegativeInt

from mase_hw.cost.devices import RESOURCES
from mase_hw.errors import ConfigError
from mase_hw.fit.choose import Choice, Chooser, Tell, UnmetError, Way
from mase_hw.fit.target import Goal, Target
from mase_hw.fit.target import goal as goal_of
from mase_hw.ir import MaseGraph
from mase_hw.passes.base import Info, PassArgs, graph_pass
from mase_hw.passes.mapping.add_hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.passes.mapping.shared_blocks import numbers, shared_blocks


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
    if not goal.shared and not goal.positions:
        chooser = Chooser(graph, args, goal, tell, tokens)
        return chooser, chooser.choose()
    if twice := [path for path in goal.shared if path in args.shared]:
        raise ConfigError(
            "whether these blocks share hardware is said already",
            field="target.shared",
            got=", ".join(twice),
            remedy="leave them out of hardware.shared, or of target.shared",
        )
    ways: list[Way] = []
    found: list[tuple[Chooser, Choice]] = []
    errors: list[UnmetError] = []
    for way in _ways(graph, args, goal):
        tell(f"choosing for {said_of(way)}")
        changed: dict[str, object] = {"shared": way.shared} if goal.shared else {}
        changed |= {} if way.positions is None else {"positions": way.positions}
        try:
            chooser = Chooser(graph, args.model_copy(update=changed), goal, tell, tokens, nearest=False)
            choice = chooser.choose()
        except UnmetError as error:
            errors.append(error)
            ways.append(dataclasses.replace(way, impossible=error.proven))
        else:
            found.append((chooser, choice))
            ways.append(dataclasses.replace(way, interval=choice.manifest.timing.interval, use=choice.use))
    if not found:
        raise _unmet(graph, args, goal, errors, tell)
    best = min(found, key=lambda each: _order(*each))
    return best[0], _of_all(best[1], [choice for _, choice in found], ways)


def said_of(way: Way) -> str:
    """A way for people."""
    listed = [f"{n} block{'s' if n > 1 else ''} of hardware for {path}" for path, n in way.shared.items()]
    if way.positions is not None:
        listed.append(f"{way.positions} position{'s' if way.positions > 1 else ''} a beat")
    return ", ".join(listed) or "hardware of every block"


def _ways(graph: MaseGraph, args: HardwareArgs, goal: Goal) -> Iterator[Way]:
    """All ways, the one that shares nothing first."""
    blocks = {path: shared_blocks(graph, path).passes for path in goal.shared}
    kept = dict.fromkeys(args.shared, 1) | (args.shared if isinstance(args.shared, dict) else {})
    for positions in goal.positions or (None,):
        for each in itertools.product(*([n, *reversed(numbers(n))] for n in blocks.values())):
            few = {path: number for path, number in zip(blocks, each, strict=True) if number < blocks[path]}
            yield Way(kept | few, None, {}, positions=positions)


def _order(chooser: Chooser, choice: Choice) -> tuple[float, ...]:
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


def _unmet(graph: MaseGraph, args: HardwareArgs, goal: Goal, errors: Sequence[UnmetError], tell: Tell) -> UnmetError:
    """What no way meets: the error of the one that shares most, with the nearest of all."""
    error = errors[-1]
    proven = all(each.proven for each in errors)
    remedy = error.remedy
    if goal.interval is not None:
        try:
            slower = dataclasses.replace(goal, interval=None, minimise="interval")
            nearest = choose(graph, args, slower, tell)[1]
        except ConfigError:
            remedy = f"even the slowest design takes more; {remedy}"
        else:
            cycles = nearest.manifest.timing.interval
            how = next((said_of(way) for way in nearest.ways if way.interval == cycles), "")
            remedy = (
                f"the nearest within the budgets is {cycles} cycles per frame ({goal.fps(cycles):.6g} frames per "
                f"second), with {how}; or {remedy}"
            )
    message = "no design within the budgets meets the target, whether blocks share hardware or not"
    if not goal.shared:
        message = "no design within the budgets meets the target, whatever positions a beat has"
    found = message if proven else message.replace("meets the target", "was found that meets the target")
    return UnmetError.known(proven, found, field=error.field, got=error.got, expected=error.expected, remedy=remedy)


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
    graph, info = add_hardware_metadata_analysis_pass(graph, choice.args)
    return graph, {**info, NOT_ESTIMATED: dict(choice.not_estimated)}
