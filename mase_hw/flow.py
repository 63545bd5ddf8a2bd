"""Former names of the modules around a design; each still works and says where the module lives now.

``mase_hw.flow`` was one folder. Its modules are in the rooms :mod:`mase_hw.host`, :mod:`mase_hw.simulate`,
:mod:`mase_hw.design`, :mod:`mase_hw.compiler`, :mod:`mase_hw.synth`, :mod:`mase_hw.regress` and :mod:`mase_hw.cli`.
"""

from __future__ import annotations

import importlib
from typing import Any

from mase_hw.deprecation import deprecated, former_modules

MOVED = {
    "arguments": "simulate.arguments",
    "attach": "design.attach_model",
    "batch": "simulate.engines.batch.engine",
    "bench": "simulate.engines.cocotb.engine",
    "build": "simulate.build.simulator",
    "cache": "simulate.build.cache",
    "compile": "compiler.compile",
    "config": "compiler.config",
    "coverage": "simulate.coverage",
    "design": "design.design",
    "diagnose": "simulate.diagnose.diagnose",
    "disk": "host.disk",
    "doctor": "host.doctor",
    "dut": "simulate.dut",
    "engines": "simulate.engines.registry",
    "explain": "simulate.diagnose.explain",
    "failure": "simulate.diagnose.failure",
    "fast": "simulate.engines.fast.engine",
    "intervene": "simulate.intervene",
    "judge": "simulate.judge",
    "lint": "host.lint",
    "plan": "simulate.plan",
    "prepare": "simulate.engines.precompile",
    "probes": "host.tool_checks",
    "quantised": "compiler.quantised_graph",
    "regress": "regress.regress",
    "regress_baseline": "regress.baseline",
    "regress_job": "regress.job",
    "regress_matrix": "regress.matrix",
    "regress_ops": "regress.ops",
    "regress_pool": "regress.pool",
    "regress_report": "regress.report",
    "result": "simulate.result",
    "run": "simulate.run",
    "simulation": "design.simulation",
    "stages": "compiler.stages",
    "synth": "synth.synthesise",
    "synth_report": "synth.report",
    "synth_targets": "synth.targets",
    "timing": "simulate.timing",
    "toolchain": "host.toolchain",
    "tools": "simulate.build.tools",
}
"""Former name in this package -> present name in ``mase_hw``."""

__path__: list[str] = []  # makes ``from mase_hw.flow.design import Design`` ask the finder of former names


former_modules(__name__, MOVED)


def __getattr__(name: str) -> Any:
    if name not in MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    new = f"mase_hw.{MOVED[name]}"
    deprecated(f"{__name__}.{name}", new)
    return importlib.import_module(new)
