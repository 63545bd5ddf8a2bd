"""What of the foldings of a layer is timed: the rest is left out without, and nothing is left out that is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import mase_hw.fit.candidates as foldings
from mase_hw.compiler.config import load_config
from mase_hw.fit.candidates import Choice
from mase_hw.fit.space import Space, _needed
from mase_hw.hardware.external import _divisors
from mase_hw.hardware.latency import Latency
from mase_hw.preflight.mapped import mapped_graph
from mase_hw.steps import Steps


def space() -> Space:
    """A strided convolution, one with many channels, and a linear layer, whose weights may be outside."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 12, 1), nn.Flatten(), nn.Linear(192, 6)
    ).eval()
    settings = load_config({"hardware": {"family": "xc7", "external_buffer": 0}})
    graph = mapped_graph(model, torch.rand(1, 3, 8, 8), settings, None, lambda _: None, None)
    return Space(graph, settings.hardware, external=True)


@pytest.mark.parametrize("interval", [400, 3000])
def test_the_same_as_if_all_were_timed(interval: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidates, in their order, of a search that times all of them; fewer are timed."""
    timed: list[str] = []

    def timing_of(node: str, latency: Any, params: Any) -> Latency:
        timed.append(node)
        found: Latency = latency(params)
        return found

    monkeypatch.setattr(foldings, "timing_of", timing_of)
    quick, slow = space(), space()
    found = quick.candidates(interval)
    few = len(timed)
    timed.clear()
    for name, options in slow.options.items():
        of = options.within(interval)
        wanted = [of[i].choice for i in _needed(of, slow._prices(of, None))]
        assert [each.choice for each in found[name]] == wanted and wanted
        assert all(each.clocked.least <= each.cycles <= interval for each in of)
    assert few < len(timed) * 0.7


@pytest.mark.parametrize(("rows", "passes", "tiles"), [(1, 1, 1), (1, 3, 1), (2, 1, 3), (3, 2, 4), (2, 5, 2)])
def test_the_steps_of_a_linear_layer(rows: int, passes: int, tiles: int) -> None:
    """Those at which something happens, against counts of every step: row by row, pass by pass, tile by tile."""
    model = nn.Linear(2 * tiles, 3 * passes).eval()
    settings = load_config({"hardware": {"family": "xc7"}})
    graph = mapped_graph(model, torch.rand(rows, 2 * tiles), settings, None, lambda _: None, None)
    (options,) = Space(graph, settings.hardware).options.values()
    made = options._candidate(Choice({"data_in_0": 2, "data_out_0": 3}, None, "tree"))
    assert made is not None
    (steps,) = made.latency.steps
    needs, frees, emits = [], [], []
    for row, turn, tile in np.ndindex(rows, passes, tiles):
        needs.append(row * tiles + (tile + 1 if turn == 0 else tiles))
        frees.append(row * tiles + (tile + 1 if turn == passes - 1 else 0))
        emits.append(row * passes + turn + (tile == tiles - 1))
    if passes > 1:  # the replay buffer reads a step ahead
        frees = [*frees[1:], rows * tiles]
    counts = [np.maximum.accumulate(np.array(of)) for of in (needs, frees, emits)]
    wanted = Steps(
        counts[:1], counts[1:2], counts[2], delay=steps.delay, pipe=steps.pipe, room=steps.room, queue=steps.queue
    )
    assert (steps.steps, steps.beats_in, steps.beats_out) == (wanted.steps, wanted.beats_in, wanted.beats_out)
    for have, want in zip(
        (*steps.need_steps, *steps.free_steps, *steps.emit_steps),
        (*wanted.need_steps, *wanted.free_steps, *wanted.emit_steps),
        strict=True,
    ):
        assert have.tolist() == want.tolist()
    assert Latency.from_steps(wanted).interval == made.latency.interval


def test_divisors() -> None:
    for number in range(1, 200):
        assert _divisors(number) == [n for n in range(1, number + 1) if number % n == 0]
