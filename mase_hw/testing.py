"""A team's own test of bit accuracy in three lines, with pytest.

pytest_plugins = ["mase_hw.testing"]  # in conftest.py

def test_model(bit_exact):
bit_exact(model, example, "net.toml", calibration=batches)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mase_hw.compiler.compile import compile
from mase_hw.design.design import Design
from mase_hw.simulate.plan import Stalls

STALLS: tuple[float, ...] = (0.0, 0.3)
"""Probabilities of stalls at the ports, each a simulation."""


def assert_bit_exact(design: Design, *, engine: str = "batch", stalls: Sequence[float | str | Stalls] = STALLS) -> None:
    """Simulate a design against the quantised PyTorch model, once for each kind of stalls.

    Args:
        design: The design.
        engine: Of the simulation.
        stalls: How unwilling its surroundings are; 0 for full rate.

    Raises:
        AssertionError: If a bit of any beat differs, the design hangs, or a run at full rate does not take the cycles
            that were predicted; says what the simulation said.
        MaseHwError: If something is wrong with the arguments or the tools.
    """
    if not stalls:
        raise AssertionError("nothing was simulated: give at least one kind of stalls")
    for each in stalls:
        found = design.simulate(engine=engine, stalls=each, check=False)
        if not found.passed:
            raise AssertionError(f"the hardware is not the quantised model, with stalls {each}\n{found.result.failure}")
        if not found.result.beats_compared:
            raise AssertionError(f"no beat was compared, with stalls {each}")
        if each == 0 and design.timing["exact"] and found.interval not in (None, design.timing["interval"]):
            raise AssertionError(f"{found.interval} cycles per frame instead of {design.timing['interval']}")


class BitExact:
    """Compiles a model and asserts that its hardware is the quantised model, bit for bit.

    Args:
        folder: Where the designs are written and simulated.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._made = folder, 0

    def __call__(
        self,
        model: Any,
        example_inputs: Any,
        config: Any = None,
        *,
        calibration: Iterable[Any] | None = None,
        vectors: Any = None,
        engine: str = "batch",
        stalls: Sequence[float | str | Stalls] = STALLS,
    ) -> Design:
        """Arguments as for :func:`mase_hw.compile` and :func:`assert_bit_exact`; returns the design."""
        self._made += 1
        out = self._folder / f"design_{self._made}"
        design = compile(model, example_inputs, config, out=out, calibration=calibration, vectors=vectors)
        assert_bit_exact(design, engine=engine, stalls=stalls)
        return design


@pytest.fixture
def bit_exact(tmp_path: Path) -> BitExact:
    """Compiles into a folder of the test and simulates there."""
    return BitExact(tmp_path)
