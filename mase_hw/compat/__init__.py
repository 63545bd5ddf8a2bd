"""Names of the documents of MASE and AFE: an alias each.

What was written for them runs with these. Names of MASE are those of this package. A function of AFE makes a step, to
be run on a network and its data, ``calibration(method="mse")(network, data)``, or put into a pipeline.
``docs/names.md`` lists them, and what differs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from mase_hw import passes
from mase_hw.design.design import load_design
from mase_hw.design.simulation import Simulation
from mase_hw.ir import MaseGraph
from mase_hw.partition.passes import transformed

_ROOMS = ("ir", "passes.evaluation", "passes", "passes.helpers", "emit.passes", "importers", "partition")
"""Where the names that are the same are found."""
InputDict = dict[str, Tensor]
Network = Callable[..., MaseGraph]
"""A step of AFE: called with a network, and data if it takes any, it returns the network."""


def __getattr__(name: str) -> Any:
    for room in map(importlib.import_module, (f"mase_hw.{room}" for room in _ROOMS)):
        if not name.startswith("_") and hasattr(room, name):
            return getattr(room, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _step(one: Callable[..., Any]) -> Callable[..., Network]:
    def configured(**args: Any) -> Network:
        def run(network: MaseGraph, data: Any = None) -> MaseGraph:
            made: MaseGraph = one(network, args if data is None else {**args, "data": data})[0]
            return made

        if isinstance(one, passes.GraphPass):  # by which a pipeline judges the order
            run.graph_pass = one  # type: ignore[attr-defined]
        return run

    return configured


update_quantization_configs = _step(passes.update_quantization_configs)
calibration = _step(passes.calibrate_analysis_pass)
quantization = _step(passes.quantize_transform_pass)
equalization = _step(passes.equalization_transform_pass)
calibration_quantization = _step(passes.calibration_quantization_transform_pass)
noise_analysis = _step(passes.noise_analysis_pass)
tvm_transformations = transformed


def dump_diagnostic_files_after(
    step: Network, prefix: str = "", suffix: str = "", condition: bool | Callable[[MaseGraph], bool] = True
) -> Network:
    """A step and the files of :func:`mase_hw.passes.dump_diagnostic_files`; ``prefix`` may begin with a folder."""

    def run(network: MaseGraph, data: Any = None) -> MaseGraph:
        made = step(network, data)
        if condition(made) if callable(condition) else condition:
            folder, _, start = prefix.rpartition("/")
            passes.dump_diagnostic_files(made, folder or ".", start, suffix)
        return made

    return run


def simulate(project_dir: str | Path, **options: Any) -> Simulation:
    """Simulate what was emitted; options as of :meth:`mase_hw.design.design.Design.simulate`."""
    return load_design(project_dir).simulate(**options)
