"""Three faults that a few frames of a CNN do not show, whatever stalls its ports: each is found, for its reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mase_hw
from mase_hw.errors import MismatchError
from mase_hw.simulate.result import SimResult

from .conftest import images
from .mutants import FULL, READY, TIE, choose, with_mutants

FEW = images(4, seed=5)


@pytest.fixture(scope="module")
def faulty(cnn: mase_hw.Design, work: Path) -> mase_hw.Design:
    return with_mutants(cnn, work / "faulty")


@pytest.fixture
def play(faulty: mase_hw.Design) -> Callable[..., SimResult]:
    def run(mutant: int, inputs: Any = None, **options: Any) -> SimResult:
        choose(faulty.path, mutant)
        asked = {"engine": "batch", "waves": False, "check": False, "diagnose": False, **options}
        return faulty.simulate(inputs, **asked).result

    return run


@pytest.mark.parametrize("mutant", [READY, FULL])
def test_a_beat_lost_when_there_is_no_room(play: Callable[..., SimResult], mutant: int) -> None:
    for stalls in (None, "random", "long"):
        assert play(mutant, FEW, stalls=stalls).passed, "stalls of the ports have come to show it: choose another fault"
    assert play(0, FEW, inner_stalls=0.2).passed, "without a fault"
    result = play(mutant, FEW, inner_stalls=0.2)
    assert isinstance(result.failure, MismatchError), result.report()


def test_a_tie_below_zero_to_the_wrong_side(play: Callable[..., SimResult]) -> None:
    """Stalls do not matter, frames do."""
    passes = play(TIE, FEW, inner_stalls=0.2)
    assert passes.passed, "these frames have come to show it: choose others"
    assert passes.exercise is not None and "fc" in passes.exercise.missing["no tie below zero"], "it says so"
    result = play(TIE, inner_stalls=0.2)
    assert isinstance(result.failure, MismatchError), result.report()
    assert play(0, inner_stalls=0.2).passed, "without a fault"


def test_it_is_explained_with_the_same_stalls(play: Callable[..., SimResult]) -> None:
    """The run with probes has the connectors as well, and does the same in every cycle."""
    result = play(READY, FEW, inner_stalls=0.2, diagnose=True)
    found = result.diagnosis
    assert found is not None and [loss.who for loss in found.losses] == ["u_add"], "it has the skid buffer"
    # Only the frames up to the one that failed are played again.
    for port, accepted in found.result.accepted.items():
        assert len(accepted) and accepted.tolist() == result.accepted[port][: len(accepted)].tolist()
