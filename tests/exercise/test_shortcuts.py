"""What is left out for speed changes nothing.

Predictions that reuse what FIFOs were chosen with, faults in one channel, words that nobody reads, frames that were
simulated already.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

import mase_hw
from mase_hw.emit.build import build_followed
from mase_hw.emit.schedule import predict
from mase_hw.ir import MaseGraph
from mase_hw.vectors import choose as choosing
from mase_hw.vectors import faults
from mase_hw.vectors.choose import cast_faults, measure, random_frames
from mase_hw.vectors.faults import Memories, WrongCast, detected
from mase_hw.vectors.playback import Playback, cut, playbacks
from mase_hw.vectors.watch import CAST_FAULTS, count_casts

FRAMES = 5


@pytest.fixture(scope="module")
def graph(cnn: mase_hw.Design) -> MaseGraph:
    assert cnn.graph is not None
    return cnn.graph


@pytest.fixture(scope="module")
def frames(graph: MaseGraph) -> dict[str, Tensor]:
    return random_frames(graph, FRAMES, 11)


def test_prediction_with_and_without_what_is_known(cnn: mase_hw.Design, graph: MaseGraph) -> None:
    """The design has a fork and a join, so its FIFOs are chosen by following it: the prediction may use that."""
    netlist, followed = build_followed(graph, "top")
    assert followed is not None and netlist.fifos
    anew = predict(netlist, graph.catalogue)
    assert predict(netlist, graph.catalogue, followed) == anew
    assert (anew.fill, anew.interval) == (cnn.timing["fill"], cnn.timing["interval"])


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["rows", "channels_last"])
@pytest.mark.parametrize("room", [faults.ROOM, 1], ids=["together", "one_by_one"])
def test_faults_as_channels(
    room: int,
    layout: torch.memory_format,
    graph: MaseGraph,
    frames: dict[str, Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wrong bits of weights are simulated as channels beside each other; the whole op shows the same frames.

    However the weights lie in memory, as those of imported files do in another order.
    """
    given = Playback.mantissas

    def mantissas(part: Playback, node: fx.Node) -> dict[str, Tensor]:
        found = given(part, node)
        return {name: t.contiguous(memory_format=layout) if t.dim() == 4 else t for name, t in found.items()}

    monkeypatch.setattr(Playback, "mantissas", mantissas)
    memories = Memories(graph)
    bits = memories.sample(120, "channels")
    assert {bit.parameter for bit in bits} == {"weight", "bias"}
    parts = playbacks(graph, frames, stacks=True)
    monkeypatch.setattr(faults, "ROOM", room)
    whole = []
    faulty = Memories.faulty
    monkeypatch.setattr(Memories, "faulty", lambda *args: whole.append(args) or faulty(*args))
    found = detected(memories, parts, bits)
    assert not whole
    monkeypatch.setattr(faults, "_place", lambda *args: None)
    assert torch.equal(detected(memories, parts, bits), found) and len(whole) == len(bits)
    assert bool(found.any()) and not bool(found.all())


class Recurrent(nn.Module):
    """Tables inside a recurrence, and one of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(2, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.gru(x)[0])


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> MaseGraph:
    torch.manual_seed(3)
    widths = {"data_in_width": 5, "weight_width": 5, "bias_width": 5, "data_out_width": 5}
    rules = {"default": {"config": widths}, "recurrence": {"config": {"gate_width": 5}}}
    config = {"quantize": rules, "vectors": {"faults": 4, "frames": 1}}
    x = torch.randn(4, 3, 2)
    out = tmp_path_factory.mktemp("recurrent") / "design"
    design = mase_hw.compile(Recurrent().eval(), x[:1], config, out=out, calibration=[x])
    assert design.graph is not None
    return design.graph


@pytest.mark.parametrize("stacks", [False, True])
def test_faults_of_a_recurrence_at_once(stacks: bool, recurrent: MaseGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong bits and wrong casts go through the time steps together; each alone shows the same frames."""
    memories = Memories(recurrent)
    bits = [bit for bit in memories.sample(memories.bits, "") if bit.node != "sigmoid"][::7]
    assert {bit.parameter for bit in bits} == {"weight", "bias", "SIGMOID_FILE", "TANH_FILE"}
    drawn = random_frames(recurrent, 3, 2)
    casts = [cast for cast in cast_faults(count_casts(recurrent, drawn, stacks)) if cast.node != "sigmoid"]
    assert {cast.kind for cast in casts if isinstance(cast, WrongCast)} == set(CAST_FAULTS)
    parts = playbacks(recurrent, drawn, stacks=stacks)
    whole = []
    faulty = Memories.faulty
    monkeypatch.setattr(Memories, "faulty", lambda *args: whole.append(args) or faulty(*args))
    monkeypatch.setattr(faults, "ROOM", 200)
    found = detected(memories, parts, [*bits, *casts])
    recurrences = {node.name for node in recurrent.nodes if recurrent.meta_of(node).common.mase_op == "recurrence"}
    assert not [args for args in whole if args[2].name in recurrences]
    monkeypatch.setattr(Memories, "several", lambda *args: False)
    assert torch.equal(detected(memories, parts, [*bits, *casts]), found)
    assert bool(found.any()) and not bool(found.all())


def test_time_steps_count_towards_the_budget(recurrent: MaseGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recurrence is gone through step by step, for several frames at a time as well: of a long one less is tried."""
    real = random_frames(recurrent, 3, 2)
    few = choosing.choose(recurrent, real, {}, 16, 0)
    assert few.stacks and few.sources["calibration"] + few.sources["random"] > 1
    played = []
    monkeypatch.setattr(choosing, "detected", lambda *args: played.append(args) or detected(*args))
    monkeypatch.setattr(choosing, "STEP", choosing.BUDGET // choosing.STACKED)
    long = choosing.choose(recurrent, real, {}, 16, 0)
    assert (long.sources["calibration"], long.sources["random"], played) == (1, 0, [])
    seen = measure(recurrent, long.inputs, count_casts(recurrent, long.inputs, True), 256, 0, True)
    assert (seen.tried, len(played)) == (choosing.LEAST, 1)


def test_words_that_are_not_read(recurrent: MaseGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong bit of a table is simulated only if its word is looked up; all others show the same, which is nothing."""
    memories, parts = Memories(recurrent), playbacks(recurrent, random_frames(recurrent, 2, 2), stacks=False)
    monkeypatch.setattr(Memories, "several", lambda *args: False)
    bits = [b for b in memories.sample(memories.bits, "") if b.parameter.endswith("_FILE") and b.bit == 4]
    assert {bit.parameter for bit in bits} == {"SIGMOID_FILE", "TANH_FILE", "TABLE_FILE"}
    played = []
    faulty = Memories.faulty
    monkeypatch.setattr(Memories, "faulty", lambda *args: played.append(args) or faulty(*args))
    found = detected(memories, parts, bits)
    assert 10 < len(played) < len(bits) * len(parts) / 2
    monkeypatch.setattr(Memories, "read", lambda *args: None)
    assert torch.equal(detected(memories, parts, bits), found) and bool(found.any())


def test_wrong_casts_done_again(graph: MaseGraph, frames: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong cast is the one that was recorded, done again; the golden with the fault shows the same frames."""
    memories, casts = Memories(graph), cast_faults(count_casts(graph, frames, True))
    parts = playbacks(graph, frames, stacks=True)
    found = detected(memories, parts, casts)
    right = faults._right
    monkeypatch.setattr(faults, "_right", lambda *args: (right(*args)[0], None))
    assert torch.equal(detected(memories, parts, casts), found) and bool(found.any())


def test_results_that_are_known(graph: MaseGraph, frames: dict[str, Tensor]) -> None:
    """Without a wrong cast among the faults a node's result is not computed again: it is what the playback has."""
    (part,) = playbacks(graph, frames, stacks=True)
    for bit in Memories(graph).sample(40, "results"):
        node = graph.node(bit.node)
        taken, none = faults._right(part, node, part.mantissas(node), False)
        computed, _ = faults._right(part, node, part.mantissas(node), True)
        assert none is None and torch.equal(taken, computed)


def test_measuring_with_frames_that_were_simulated(graph: MaseGraph, frames: dict[str, Tensor]) -> None:
    """Frames that were counted one by one are not simulated again, and the measure is the same."""
    known: list[Playback] = []
    uses = count_casts(graph, frames, False, known)
    assert [part.frames for part in known] == [1] * FRAMES
    for index, part in enumerate(known):
        alone = Playback(graph, cut(graph, frames, index, index + 1))
        assert all(torch.equal(a, b) for a, b in zip(part.results, alone.results, strict=True))
    given: dict[str, Any] = {"uses": uses, "most": 64, "seed": 3, "stacks": False}
    with_known = measure(graph, frames, **given, known=known)
    assert dataclasses.asdict(with_known) == dataclasses.asdict(measure(graph, frames, **given))
    together = {**given, "uses": count_casts(graph, frames, True), "stacks": True}
    assert dataclasses.asdict(with_known) == dataclasses.asdict(measure(graph, frames, **together))
