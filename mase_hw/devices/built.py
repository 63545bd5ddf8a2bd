"""Cuts that fit as they are built: with FIFOs, sources of parameters as they are arranged, and the ends of links.

The estimates of single layers know none of these, so what is chosen is built, and as much is kept back of every device
that takes too much as the design took beyond its estimates; then it is chosen anew, as :mod:`mase_hw.fit.choose` does
for one device. What nothing is kept back for is a relaxation: its bound holds for all cuts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from mase_hw.compiler.config import ConfigLike
from mase_hw.cost.devices import Resources
from mase_hw.design.design import Progress
from mase_hw.devices.area import beyond, taken
from mase_hw.devices.design import DevicesDesign, compile_devices
from mase_hw.devices.fit import DevicesFit, fit_devices
from mase_hw.emit.reference import Inputs
from mase_hw.errors import ConfigError
from mase_hw.fit.choose import ATTEMPTS
from mase_hw.fit.target import TargetLike

Kept = dict[int, dict[str, int]]
"""Of every device how much of what is kept back."""


def fit_built(
    model: nn.Module,
    example_inputs: Inputs,
    devices: Sequence[TargetLike],
    config: ConfigLike = None,
    *,
    out: Path | str,
    progress: Progress | None = None,
    **options: Any,
) -> tuple[DevicesFit, DevicesDesign]:
    """Choose as :func:`~mase_hw.devices.fit.fit_devices`, and build, until all devices hold what was built.

    Args:
        model: As for ``fit_devices``, as are all others that are not said here.
        example_inputs: One frame.
        devices: In order.
        config: The configuration.
        out: As for ``compile_devices``; where nothing fits, the last design that was tried is left there.
        progress: Told what is being done.
        options: Of ``fit_devices``.

    Returns:
        What was chosen, with the bound of the choice for which nothing was kept back, and its design.

    Raises:
        ConfigError: As ``fit_devices``, or if no choice was found that fits as it is built; nothing is proven then.
    """
    tell = progress or (lambda _: None)
    fields = [dict(each) if isinstance(each, Mapping) else each.model_dump(exclude_unset=True) for each in devices]
    found = first = fit_devices(model, example_inputs, devices, config, progress=progress, **options)
    kept: Kept = {}
    for _ in range(ATTEMPTS):
        runs = [dataclasses.replace(run, goal=of.goal) for run, of in zip(found.runs, first.runs, strict=True)]
        found = dataclasses.replace(found, runs=runs, bound=first.bound)
        design = compile_devices(model, example_inputs, found.config, out=out, progress=progress)
        over = beyond(found, design)
        if not over:
            return found, design
        _keep_back(kept, over, found, taken(design, found.config.hardware.family))
        tell(f"built, it takes too much: {over}; kept back: {kept}")
        less = [{**each, **_left(kept.get(n, {}), first, n)} for n, each in enumerate(fields)]
        try:
            found = fit_devices(model, example_inputs, less, config, progress=progress, **options)
        except ConfigError as error:
            raise _unmet(over) from error
    raise _unmet(over)


def _keep_back(kept: Kept, over: Mapping[int, Mapping[str, int]], found: DevicesFit, use: dict[int, Resources]) -> None:
    """Leave as much as the design took beyond its estimates; and more where that was not enough."""
    for number, much in over.items():
        of = kept.setdefault(number, {})
        for name, too_much in much.items():
            unknown = getattr(use[number], name) - found.runs[number].use[name]
            of[name] = max(of.get(name, 0) + 1, unknown + (too_much if name in of else 0))


def _left(kept: Mapping[str, int], first: DevicesFit, number: int) -> dict[str, int]:
    """Budgets of a device, less what is kept back of them."""
    return {name: max(first.runs[number].goal.budgets[name] - much, 1) for name, much in kept.items()}


def _unmet(over: Mapping[int, Mapping[str, int]]) -> ConfigError:
    much = "; ".join(
        f"device {number}: {', '.join(f'{n} {name} too many' for name, n in of.items())}" for number, of in over.items()
    )
    return ConfigError(
        "no choice was found that fits with its FIFOs, sources and ends of links",
        field="devices",
        got=f"in the last design that was built {much}",
        expected="room for them",
        remedy="raise the interval, choose a narrower external memory, or give more or larger devices",
    )
