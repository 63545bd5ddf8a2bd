"""A fit whose design is measured: choose by estimates, map what was chosen, choose again by its counts.

A count that was measured takes the place of the estimate of every candidate of the same kind. So a design that was
estimated too low is not chosen again, and the rounds end when a design is chosen by counts that are all measured. What
is kept in the cache decides how long a round takes, and nothing else: the same model and target give the same design.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from mase_hw.compiler.common_arguments import Tell
from mase_hw.cost.devices import RESOURCES, Kind, Resources
from mase_hw.cost.model import kind_of
from mase_hw.fit.choose import Choice, Chooser, UnmetError
from mase_hw.fit.result import Measuring
from mase_hw.fit.sharing import choose, order
from mase_hw.fit.target import Goal
from mase_hw.hardware.manifest import Manifest
from mase_hw.ir import MaseGraph
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.synth.measure import measured

ROUNDS = 6
"""Designs that are chosen and measured at most."""


def choose_measured(
    graph: MaseGraph, args: HardwareArgs, goal: Goal, tell: Tell, place: Path | bool
) -> tuple[Chooser, Choice, Measuring]:
    """The best design for a goal, by the measured counts of its modules.

    Args:
        graph: As for :func:`mase_hw.fit.sharing.choose`, as are the next two.
        args: What the user asked of the hardware.
        goal: What is to be reached.
        tell: Told what is being done.
        place: As for :func:`mase_hw.synth.measure.measured`.

    Returns:
        What found it, the choice with its measured counts, and how it was come by.

    Raises:
        ConfigError: If nothing meets the target, or nothing that was measured does.
        ToolError: If Yosys is missing, or cannot map a module.
    """
    known: dict[Kind, Resources] = {}
    within: list[tuple[Chooser, Choice]] = []
    rounds = 0
    while rounds < ROUNDS:
        try:
            chooser, choice = choose(graph, args, dataclasses.replace(goal, measured=dict(known)), tell)
        except UnmetError:
            if not within:
                raise
            break
        rounds += 1
        tell(f"measuring the design of round {rounds}")
        manifest = chooser.netlist(choice.args)
        counts = measured(chooser.graph, goal.family, tell, place)
        total = counts.total.as_dict()
        choice = dataclasses.replace(choice, use=total, not_estimated={}, measured=counts.counts)
        fits = all(total[name] <= most for name, most in goal.budgets.items())
        before, known = known, _learned(known, manifest, counts.counts)
        if fits and known == before:
            return chooser, choice, Measuring(rounds, settled=True)
        within += [(chooser, choice)] if fits else []
        if known == before:
            break
    if not within:
        raise _beyond(rounds, choice, goal)
    chooser, choice = min(within, key=lambda each: order(*each))
    return chooser, choice, Measuring(rounds, settled=False)


def _learned(
    known: Mapping[Kind, Resources], manifest: Manifest, counts: Mapping[str, Resources]
) -> dict[Kind, Resources]:
    """What is known of kinds of modules with those of one more design: of several contents the most."""
    found = dict(known)
    for entry in manifest.instances:
        kind, new = kind_of(entry.module, entry.parameters), counts[entry.name].as_dict()
        old = found.get(kind, Resources()).as_dict()
        found[kind] = Resources.of({name: max(old[name], new[name]) for name in RESOURCES})
    return found


def _beyond(rounds: int, choice: Choice, goal: Goal) -> UnmetError:
    over = [f"{choice.use[name]} {name}" for name, most in goal.budgets.items() if choice.use[name] > most]
    return UnmetError(
        "no design that was measured is within the budgets",
        field="target",
        got=f"{' and '.join(over)} of the last one, in round {rounds}",
        expected=", ".join(f"{most} {name}" for name, most in goal.budgets.items()),
        remedy="raise the budgets, or lower the rate",
    )
