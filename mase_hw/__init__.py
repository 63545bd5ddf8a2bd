"""PyTorch model in; bit-exact, verified, synthesisable SystemVerilog dataflow accelerator out.

Examples:
    >>> design = mase_hw.compile(model, example_inputs, out="build/design")
    >>> design.simulate(test_inputs)
"""

import importlib
from typing import TYPE_CHECKING, Any

from mase_hw._version import __version__
from mase_hw.errors import MaseHwError

if TYPE_CHECKING:
    from mase_hw.compiler.compile import compile
    from mase_hw.compiler.config import CompileConfig
    from mase_hw.design.design import Design, load_design
    from mase_hw.design.simulation import Simulation
    from mase_hw.devices import compile_devices, load_devices
    from mase_hw.formats import FixedFormat, Overflow, Rounding
    from mase_hw.host.shown import NotebookProgress
    from mase_hw.importers import from_hgq, from_trees, import_model, load_float8_weights, load_group_weights
    from mase_hw.ir import MaseGraph, custom_op
    from mase_hw.partition import compile_partitioned
    from mase_hw.preflight.check import check

__all__ = [
    "CompileConfig",
    "Design",
    "FixedFormat",
    "MaseGraph",
    "MaseHwError",
    "NotebookProgress",
    "Overflow",
    "Rounding",
    "Simulation",
    "__version__",
    "check",
    "compile",
    "compile_devices",
    "compile_partitioned",
    "custom_op",
    "from_hgq",
    "from_trees",
    "import_model",
    "load_design",
    "load_devices",
    "load_float8_weights",
    "load_group_weights",
]

# Imported on first use: torch takes seconds, and `mase-hw doctor` must run where it is missing.
_HOMES = {
    "CompileConfig": "mase_hw.compiler.config",
    "Design": "mase_hw.design.design",
    "FixedFormat": "mase_hw.formats",
    "MaseGraph": "mase_hw.ir",
    "NotebookProgress": "mase_hw.host.shown",
    "Overflow": "mase_hw.formats",
    "Rounding": "mase_hw.formats",
    "Simulation": "mase_hw.design.simulation",
    "check": "mase_hw.preflight.check",
    "compile": "mase_hw.compiler.compile",
    "compile_devices": "mase_hw.devices",
    "compile_partitioned": "mase_hw.partition",
    "custom_op": "mase_hw.ir",
    "from_hgq": "mase_hw.importers",
    "from_trees": "mase_hw.importers",
    "import_model": "mase_hw.importers",
    "load_float8_weights": "mase_hw.importers",
    "load_group_weights": "mase_hw.importers",
    "load_design": "mase_hw.design.design",
    "load_devices": "mase_hw.devices",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
