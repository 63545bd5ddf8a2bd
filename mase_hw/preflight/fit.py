"""``fit``: the smallest design that meets a target, from a model, in memory."""

from __future__ import annotations

from typing import Unpack

from torch import nn

from mase_hw.compiler.common_arguments import CommonArguments, unpacked
from mase_hw.compiler.config import ConfigLike, load_config, with_target
from mase_hw.emit.reference import Inputs
from mase_hw.fit.result import Fit, Point
from mase_hw.fit.sharing import choose
from mase_hw.fit.target import Target, TargetLike, goal
from mase_hw.preflight.mapped import mapped_graph


def fit(
    model: nn.Module,
    example_inputs: Inputs,
    config: ConfigLike = None,
    *,
    target: TargetLike | None = None,
    front: bool = True,
    **common: Unpack[CommonArguments],
) -> Fit:
    """Choose lanes and implementations of every layer for a target, without writing anything.

    Args:
        model: As for :func:`mase_hw.compile`; it is copied and not changed.
        example_inputs: One frame.
        config: The configuration; lanes that it gives are kept.
        target: What is to be reached, in place of the table ``target`` of the configuration; see
            :class:`mase_hw.fit.target.Target`.
        front: Whether the least area for other rates is found as well.
        common: ``calibration``, ``custom_ops`` and ``progress``; see
            :class:`mase_hw.compiler.common_arguments.CommonArguments`.

    Returns:
        What was chosen.

    Raises:
        ConfigError: If the target cannot be met, with the nearest that can.
        MaseHwError: Whatever ``compile`` would refuse.
    """
    calibration, custom_ops, tell = unpacked(**common)
    settings = with_target(load_config(config), target)
    wanted = goal(settings.target, settings.hardware.family)
    hardware = settings.hardware.model_copy(update={"family": wanted.family})
    settings = settings.model_copy(update={"hardware": hardware, "target": Target(shared=settings.target.shared)})
    graph = mapped_graph(model, example_inputs, settings, calibration, tell, custom_ops)
    tell("choosing lanes and implementations")
    chooser, choice = choose(graph, hardware, wanted, tell)
    around = choice.manifest.timing.interval
    found = [Point(*each) for each in chooser.front(around)] if front else []
    return Fit(wanted, choice, tuple(found))
