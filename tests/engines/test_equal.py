"""All engines see the same: verdicts, beats and cycle numbers, at full rate and under stalls, whole and faulty."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mase_hw.simulate.plan import Stalls
from mase_hw.simulate.result import SimResult
from tests.catalogue.harness import expected, item, stimulus
from tests.engines.conftest import ENGINES, Builder, play
from tests.sim.conftest import TOLD, asked, slice_dut, told
from tests.sim.test_verdict import FAULTS

STALLS = {
    "none": Stalls.none(),
    "both": Stalls.random(0.5, 0.5),
    "output": Stalls.random(0.0, 0.9),
    "bursts": Stalls(valid_burst=(5, 150), ready_burst=(7, 130)),
    "mixed": Stalls(0.2, 0.2, (1, 1), (3, 1)),
}

OTHERS = ("batch", "fast")
"""Compared with the per-cycle engine."""

CASES = ["linear-uneven_fold", "linear-beyond_float64", "cast-forty_bits", "relu-requantise", "repack-4to3_rows10to10"]


def assert_equal(a: SimResult, b: SimResult) -> None:
    assert type(a.failure) is type(b.failure), f"{a.report()}\n{b.report()}"
    assert a.cycles == b.cycles and set(a.ports) == set(b.ports)
    for name, port in a.ports.items():
        other = b.ports[name]
        for kind in ("presented", "accepted"):
            assert getattr(port.cycles, kind).tolist() == getattr(other.cycles, kind).tolist(), (name, kind)
        assert port.to_json() == other.to_json()
    for name, beats in a.outputs.items():
        assert np.array_equal(beats, b.outputs[name])


@pytest.mark.parametrize("stalls", STALLS)
@pytest.mark.parametrize("top", ["pass_through", "faulty_slice"])
def test_same_cycles(builder: Builder, tmp_path: Path, top: str, stalls: str) -> None:
    results = {
        name: play(name, builder(name, slice_dut(top), top), tmp_path / name, stalls=STALLS[stalls], seed=3)
        for name in ENGINES
    }
    assert results["cocotb"].passed
    for name in OTHERS:
        assert_equal(results["cocotb"], results[name])


# Faults 8 and 9 end the program before it can record anything; 11 depends on initial values, of which each build has
# its own.
@pytest.mark.parametrize(("fault", "kind", "message"), FAULTS)
def test_same_verdict(builder: Builder, tmp_path: Path, fault: int, kind: type, message: str) -> None:
    dut, stalls = slice_dut(**TOLD), Stalls.random(0.3, 0.6)
    built = {name: told(builder(name, dut, "told"), tmp_path / f"{name} memory", fault) for name in ENGINES}
    results = {name: play(name, built[name], tmp_path / name, stalls=stalls, seed=4) for name in ENGINES}
    for name in OTHERS:
        failure = results[name].failure
        assert type(failure) is kind and re.search(f"(?s){message}", str(failure)), results[name].report()
        if fault not in (8, 9, 11):
            assert_equal(results["cocotb"], results[name])
            assert results["cocotb"].failure is not None and str(results["cocotb"].failure) == str(failure)


def test_extra_beat(builder: Builder, tmp_path: Path) -> None:
    dut = slice_dut(**TOLD)
    built = {name: told(builder(name, dut, "told"), tmp_path / f"{name} memory", 7, 29) for name in ENGINES}
    results = {name: play(name, built[name], tmp_path / name) for name in ENGINES}
    for name in OTHERS:
        assert_equal(results["cocotb"], results[name])
        assert str(results["cocotb"].failure) == str(results[name].failure)


def test_limit_and_hang(builder: Builder, tmp_path: Path) -> None:
    for number, options in enumerate(({"max_cycles": 20}, {"watchdog": 5, "max_cycles": 50})):
        results = {
            name: play(name, builder(name, slice_dut(), "faulty_slice"), tmp_path / f"{name}{number}", **options)
            for name in ENGINES
        }
        for name in OTHERS:
            assert_equal(results["cocotb"], results[name])


@pytest.mark.parametrize("stalls", ["none", "both"])
@pytest.mark.parametrize("name", [*CASES[:2], *(pytest.param(n, marks=pytest.mark.slow) for n in CASES[2:])])
def test_op_cases(builder: Builder, tmp_path: Path, name: str, stalls: str) -> None:
    it = item(name)
    tensors = stimulus(it)
    golden = expected(it, tensors)
    sides = [{s.name: s.pack(side[s.name]) for s in it.streams if s.name in side} for side in (tensors, golden)]
    results = {}
    for engine in ENGINES:
        built = builder(engine, it.dut(), name)
        options = {"watchdog": 4000, "max_cycles": 200_000, "stalls": STALLS[stalls], "seed": 11}
        results[engine] = (
            ENGINES[engine].simulate(built, tmp_path / engine, *sides, *asked(**options)).raise_on_failure()
        )
    for engine in OTHERS:
        assert_equal(results["cocotb"], results[engine])
