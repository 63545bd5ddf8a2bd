"""The simulation engines, by name. All play the same plan and are judged by the same scoreboard."""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from mase_hw.errors import ConfigError, suggest
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.result import SimResult

_HOMES: dict[str, tuple[str, str]] = {
    "batch": ("mase_hw.simulate.engines.batch.engine", "BATCH"),
    "cocotb": ("mase_hw.simulate.engines.cocotb.engine", "COCOTB"),
    "fast": ("mase_hw.simulate.engines.fast.engine", "FAST"),
}
"""Engine -> module and name of its constant; imported on first use."""
DEFAULT = "cocotb"


class Engine(Protocol):
    """What an engine can do; :mod:`mase_hw.simulate.engines.cocotb.engine` says what the arguments mean."""

    name: str

    def build(self, dut: Any, build_dir: Any, **options: Any) -> Built:
        """Build a simulator, or find a current one."""

    def simulate(self, built: Built, run_dir: Any, stimulus: Any, expected: Any, **options: Any) -> SimResult:
        """Play stimulus and judge what comes out."""


def names() -> list[str]:
    """Names of all engines."""
    return sorted(_HOMES)


def engine(name: str) -> Engine:
    """The engine of that name.

    Raises:
        ConfigError: If there is none.
    """
    if not isinstance(name, str) or name not in _HOMES:
        raise ConfigError(
            "unknown simulation engine", field="engine", got=name, expected=" | ".join(names()),
            remedy=suggest(str(name), names()),
        )  # fmt: skip
    module, constant = _HOMES[name]
    found: Engine = getattr(importlib.import_module(module), constant)
    return found
