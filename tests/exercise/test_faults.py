"""Simulated faults are what the hardware does: bits of memory files are flipped, and the RTL runs on them."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.design.vectors import Played
from mase_hw.emit.netlist import Netlist
from mase_hw.emit.reference import Reference
from mase_hw.simulate.build.simulator import SHORT_RUN
from mase_hw.simulate.engines import batch
from mase_hw.simulate.plan import Limits
from mase_hw.streams import IntArray
from mase_hw.vectors.choose import random_frames
from mase_hw.vectors.faults import Memories, MemoryBit, detected
from mase_hw.vectors.playback import cut, playbacks, stackable

FRAMES = 6


class Everything(nn.Module):
    """Every kind of memory: weights, biases, shifts of channels, constants that repeat themselves, tables."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3)
        self.fc, self.prelu = nn.Linear(12, 4), nn.PReLU(init=0.3)
        self.register_buffer("offset", torch.tensor([[[0.25, -0.5], [0.125, 0.75]]]))
        with torch.no_grad():
            self.conv.weight[0] *= 0.1  # another format for this channel
        self.norm.running_mean.copy_(torch.tensor([0.1, -0.2, 0.3]))
        self.norm.running_var.copy_(torch.tensor([0.5, 1.5, 2.0]))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.conv(x)) + self.offset
        return torch.tanh(self.prelu(self.fc(torch.flatten(torch.sigmoid(y), 1))))


CONFIG = {
    "fold_batch_norm": False,
    "quantize": {
        "overrides": {
            "conv": {"config": {"weight_granularity": "channel", "rounding": "half_up"}},
            "sigmoid": {"config": {"data_in_width": 6}},
            "tanh": {"config": {"data_in_width": 14}},  # too wide for a table: polynomials
        }
    },
    "hardware": {"max_parallelism": 2},
}


@pytest.fixture(scope="module")
def design(work: Path) -> mase_hw.Design:
    torch.manual_seed(4)
    model, x = Everything().eval(), torch.rand(8, 2, 3, 3) * 2 - 1
    return mase_hw.compile(model, x[:1], CONFIG, out=work / "everything", calibration=[x], vectors=x)


@pytest.fixture(scope="module")
def frames(design: mase_hw.Design) -> dict[str, Tensor]:
    assert design.graph is not None
    return random_frames(design.graph, FRAMES, 3)


def some(memories: Memories) -> list[MemoryBit]:
    """Of every memory the first and the last bit, and a few others."""
    every = memories.sample(memories.bits, "all of them")
    assert len(every) == memories.bits == len(set(every))
    found: list[MemoryBit] = []
    for key in dict.fromkeys((b.node, b.parameter) for b in every):
        of = [b for b in every if (b.node, b.parameter) == key]
        found += dict.fromkeys([of[0], of[-1], *of[:: max(1, len(of) // 5)]])
    return found


def place(design: mase_hw.Design, bit: MemoryBit) -> tuple[str, int, int]:
    """File, line and bit of the line, from the streams of the netlist alone."""
    assert design.graph is not None
    netlist: Netlist = design.graph.meta["netlist"]
    for net in netlist.nets:
        reader = netlist.instance(net.sink.instance) if net.sink.instance else None
        if reader is None or net.source.instance not in netlist.memories:
            continue
        if (reader.node, net.sink.port) == (bit.node, bit.parameter):
            port = dataclasses.replace(next(p for p in reader.ports if p.name == net.sink.port), repeat=1)
            count = int(np.prod(port.tensor_shape))
            # Numbers wider than the elements, so that every one tells which it is.
            numbered = dataclasses.replace(port, fmt=mase_hw.FixedFormat(32, 0))
            beats = numbered.pack(1 + np.arange(count).reshape(1, *port.tensor_shape))
            ((beat, lane),) = np.argwhere(beats == bit.index + 1)
            return f"mem/{netlist.memories[net.source.instance]}", int(beat), int(lane) * port.fmt.width + bit.bit
    instance = next(i for i in netlist.instances if i.node == bit.node and bit.parameter in i.memories)
    return f"mem/{instance.memories[bit.parameter][0]}", bit.index, bit.bit


def test_bits_of_memories(design: mase_hw.Design, frames: dict[str, Tensor], tmp_path: Path) -> None:
    """Frame by frame, for every kind of memory."""
    graph = design.graph
    assert graph is not None and stackable(graph, frames)
    memories = Memories(graph)
    assert memories.left_out == ["mem/tanh_octave.mem"]
    bits = some(memories)
    assert {b.parameter for b in bits} == {"weight", "bias", "weight_shift", "constant", "TABLE_FILE"}
    assert {b.node for b in bits} >= {"conv", "norm", "add", "sigmoid", "fc", "prelu", "tanh"}
    table = detected(memories, playbacks(graph, frames, stacks=True), bits)
    assert bool(table.any()) and not bool(table.all())
    shutil.copytree(design.path, tmp_path / "copy")
    copy = mase_hw.Design(tmp_path / "copy", graph, verify=False)
    # One simulator, which reads the memories when it starts; what is played, and what is expected, is made once.
    played = Played.of(*Reference(graph).run(frames), design.streams)
    built = batch.build(copy.dut(), tmp_path / "build", cycles=SHORT_RUN)

    def outputs() -> IntArray:
        limits = Limits(watchdog=4000, max_cycles=100_000)
        result = batch.simulate(built, tmp_path / "run", played.beats_in, played.beats_out, limits)
        return result.outputs["data_out_0"]

    right = outputs()
    assert np.array_equal(right, played.beats_out["data_out_0"])
    for bit, row in zip(bits, table.tolist(), strict=True):
        file, line, number = place(design, bit)
        path = copy.path / file
        before = path.read_text()
        words = before.split("\n")
        words[line] = f"{int(words[line], 16) ^ 1 << number:0{len(words[line])}x}"
        path.write_text("\n".join(words))
        found = outputs()
        path.write_text(before)
        differs = (found != right).reshape(FRAMES, -1).any(axis=1).tolist()
        assert differs == row, f"{bit}: {file} line {line} bit {number}"


def test_one_frame_at_a_time(design: mase_hw.Design, frames: dict[str, Tensor]) -> None:
    """For graphs that cannot take several frames at once."""
    graph = design.graph
    assert graph is not None
    memories = Memories(graph)
    bits = some(memories)[::3]
    together = detected(memories, playbacks(graph, frames, stacks=True), bits)
    assert torch.equal(detected(memories, playbacks(graph, frames, stacks=False), bits), together)
    for number in range(FRAMES):
        alone = playbacks(graph, cut(graph, frames, number, number + 1), stacks=True)
        assert torch.equal(detected(memories, alone, bits)[:, 0], together[:, number])


class Fixed(nn.Module):
    """A shape that is written down, so that two frames at a time are not what they are alone."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x.reshape(1, 4))


class Halves(nn.Module):
    """A frame of two rows, and a question about its shape."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x.view(x.size(0), -1))


class Inside(nn.Module):
    """A value that has its frames in another dimension than the first."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x).transpose(0, 1).relu().transpose(0, 1)


@pytest.mark.parametrize(
    ("net", "shape", "stacks"),
    [(Fixed, (1, 2, 2), False), (Halves, (2, 3, 2), True), (Inside, (1, 3, 4), False)],
)
def test_which_graphs_take_several_frames(
    net: type[nn.Module], shape: tuple[int, ...], stacks: bool, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    x = torch.rand(shape[0] * 8, *shape[1:]) * 2 - 1
    design = mase_hw.compile(net().eval(), x[: shape[0]], out=tmp_path / "b", calibration=[x[: shape[0]]])
    graph = design.graph
    assert graph is not None
    given = random_frames(graph, 4, 0)
    assert stackable(graph, given) == stacks and stackable(graph, cut(graph, given, 0, 1)) == stacks
    memories = Memories(graph)
    bits = memories.sample(40, "a few")
    table = detected(memories, playbacks(graph, given, stacks=stacks), bits)
    singly = detected(memories, playbacks(graph, given, stacks=False), bits)
    assert torch.equal(table, singly) and bool(table.any())
    frames = design.manifest["vectors"]["frames"]
    assert frames <= 16 and design.manifest["vectors"]["faults"]["memory"]["tried"] == memories.bits
