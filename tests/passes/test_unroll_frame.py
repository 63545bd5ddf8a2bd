"""Networks with a whole frame per beat: bits and cycles of whole designs, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError, MaseHwError, UnsupportedError
from mase_hw.nn import Quantized
from mase_hw.ops.unrolled._delays import DELAYS, delay_of
from mase_hw.ops.unrolled._network import Program
from mase_hw.ops.unrolled._placed import stages_of

QUANTIZE = {"default": {"config": {"data_in_width": 4, "weight_width": 4, "bias_width": 6, "data_out_width": 6}}}


class Residual(nn.Module):
    """Convolutions with a window, a stride, groups and a border, one of them around a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1, groups=3)
        self.c, self.fc = nn.Conv2d(3, 2, 2, stride=2), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.a(x))
        x = nn.functional.max_pool2d(torch.relu(x + self.b(x)), 2, 1)
        result: Tensor = self.fc(self.c(x).flatten(1))
        return result


class Interactions(nn.Module):
    """What every pair of particles says, summed at the receivers."""

    def __init__(self, count: int = 4) -> None:
        super().__init__()
        pairs = [(i, j) for i in range(count) for j in range(count) if i != j]
        self.to, self.since = [i for i, _ in pairs], [j for _, j in pairs]
        self.count = count
        self.pair, self.own = nn.Linear(4, 3), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        said = torch.sigmoid(self.pair(torch.cat([x[:, self.to], x[:, self.since]], -1)))
        heard = said.reshape(-1, self.count, self.count - 1, 3).sum(2)
        return torch.relu(self.own(torch.cat([x, heard], -1))).mean(1)


def compiled(out: Path, net: nn.Module, shape: tuple[int, ...], **hardware: Any) -> mase_hw.Design:
    """A network with random weights and twelve frames of random data."""
    data = torch.rand(12, *shape, generator=torch.Generator().manual_seed(1)) * 2 - 1
    config = {"hardware": hardware, "quantize": QUANTIZE}
    return mase_hw.compile(net.eval(), data[:1], config, out=out, calibration=[data], vectors=data)


class Elementwise(nn.Module):
    """Functions of every element, with parameters of every channel; finer stored operands; means."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.bn, self.up = nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Upsample(scale_factor=2)
        self.slopes, self.leave = nn.PReLU(3), nn.Conv2d(3, 2, 1)
        self.factor = nn.Parameter(torch.tensor([0.3, -0.8, 1.1]).reshape(3, 1, 1))
        self.offset = nn.Parameter(torch.tensor([0.4, -0.3, 0.02]).reshape(3, 1, 1))
        with torch.no_grad():
            self.slopes.weight.copy_(torch.tensor([0.7, -0.4, 0.1]))
            self.bn.running_mean.copy_(torch.tensor([0.2, -0.3, 0.1]))
            self.bn.running_var.copy_(torch.tensor([0.5, 2.0, 1.0]))

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn(nn.functional.hardtanh(self.enter(x))) * self.factor
        x = self.slopes(self.up(nn.functional.leaky_relu(x, 0.25))) + self.offset
        return nn.functional.adaptive_avg_pool2d(self.offset[:2] - self.leave(x), 2)


class Coarse(nn.Module):
    """Weights and biases that are multiples of two LSBs, so that the lowest bits of every sum are 0."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(24, 4), nn.Linear(4, 3)
        with torch.no_grad():
            for each in self.parameters():
                each.copy_(torch.randint(-3, 4, each.shape) / 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.other(torch.relu(self.one(x)))


CLOCK = {"unroll_mhz": 60.0, "family": "ecp5"}


@pytest.mark.parametrize(
    ("kind", "shape", "how"),
    [
        (Residual, (1, 5, 5), {"unroll_levels": 4}),
        (Interactions, (4, 2), {"unroll_levels": 2}),
        (Interactions, (4, 2), CLOCK),
        (Residual, (1, 5, 5), CLOCK | {"unroll_mhz": 100.0, "unroll_carry_save": True}),
        (Coarse, (24,), CLOCK | {"unroll_mhz": 100.0, "unroll_carry_save": True}),
        (Elementwise, (1, 4, 4), {"unroll_levels": 2}),
    ],
    ids=["residual", "interactions", "clock", "carry_save", "multiples", "elementwise"],
)
def test_a_frame_in_every_cycle(
    kind: type[nn.Module], shape: tuple[int, ...], how: dict[str, Any], tmp_path: Path
) -> None:
    """Bits, stalls and cycles; the same numbers as the folded design, which another arithmetic of hardware gives."""
    torch.manual_seed(0)
    net = kind()
    design = compiled(tmp_path / "b", net, shape, unroll="frame", **how)
    manifest = design.manifest
    assert [entry["module"] for entry in manifest["instances"]] == ["fixed_frame_frame"]
    assert manifest["timing"]["interval"] == 1 and not manifest["memories"] and not manifest["fifos"]
    assert manifest["timing"]["fill"] == manifest["instances"][0]["parameters"]["STAGES"]
    assert [port["beats"] for port in manifest["ports"]] == [1, 1]
    assert manifest["ports"][0]["shape"] == [1, *shape]
    for result in (design.simulate(engine="batch"), design.simulate(stalls=0.4, engine="batch")):
        assert result.passed, result
    folded = compiled(tmp_path / "folded", net, shape)
    frames = torch.rand(40, *shape, generator=torch.Generator().manual_seed(2)) * 4 - 2
    assert torch.equal(design.graph.model(frames), folded.graph.model(frames))


def program_of(design: mase_hw.Design) -> Program:
    """The program that the one node of a design is of."""
    assert design.graph is not None  # it was compiled here
    (module,) = (module for module in design.graph.model.modules() if isinstance(module, Quantized))
    program: Program = module.arithmetic.attributes["program"]
    return program


@pytest.mark.parametrize(
    ("net", "shape", "beats"), [(Residual(), (1, 5, 5), 1), (nn.Conv1d(2, 3, 5, padding=2), (2, 8), 4)]
)
def test_every_stage_fits_in_a_cycle(net: nn.Module, shape: tuple[int, ...], beats: int, tmp_path: Path) -> None:
    """Along every path of a stage the delays add up to less than a cycle; a slower clock takes fewer stages."""
    torch.manual_seed(0)
    design = compiled(tmp_path / "b", net, shape, unroll="frame", unroll_beats=beats, **CLOCK)
    counts = []
    for mhz in (20.0, 60.0, 100.0):
        stages = stages_of(dataclasses.replace(program_of(design), mhz=mhz))
        delays, there = DELAYS["ecp5"], dict[int, int]()
        for number in stages.numbers:
            stage = stages.of(number)
            before = [o for o in stages.operands(number) if stages.graph.moves(o)]
            assert all(stages.of(operand) <= stages.needed(number, operand) for operand in before)
            inside = [there[o] for o in before if stages.of(o) == stages.needed(number, o)]
            there[number] = max(inside, default=0) + delay_of(stages.network, delays, number)
            if not stages.network.behind(number):
                assert there[number] <= 1e6 / mhz - delays.register, (mhz, number, stage)
        counts.append(stages.count)
        assert 1 <= stages.levels <= 40
    assert counts == sorted(counts) and counts[0] < counts[-1]


def test_clocks_that_are_refused(tmp_path: Path) -> None:
    """One step that takes longer than a cycle, and a family of which no delays are known."""
    for how, said in (({**CLOCK, "unroll_mhz": 900.0}, "longer than a cycle"), ({"unroll_mhz": 50.0}, "not known")):
        with pytest.raises(UnsupportedError, match=said) as caught:
            compiled(tmp_path / "b", Residual(), (1, 5, 5), unroll="frame", **how)
        assert caught.value.field == "hardware.unroll_mhz"
    assert not (tmp_path / "b").exists()


class Mean(nn.Module):
    """A layer on the mean of all positions."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.fc(x.mean(1))
        return result


@pytest.mark.parametrize(("shape", "beats"), [((6, 4), 1), ((25, 2), 1), ((12, 3), 4)])
def test_a_mean_over_any_number(shape: tuple[int, ...], beats: int, tmp_path: Path) -> None:
    """Sums of 6, 25 and 12 numbers: as a table, as a product, and of several beats; bits, stalls and cycles."""
    torch.manual_seed(0)
    design = compiled(tmp_path / "b", Mean(shape[1]), shape, unroll="frame", unroll_beats=beats)
    result = design.simulate(engine="batch")
    assert result.passed and design.simulate(stalls=0.4, engine="batch").passed
    assert (result.fill, result.interval) == (design.timing["fill"], beats)


def test_refused(tmp_path: Path) -> None:
    """What leaves something to choose, or is no expression of constants; nothing is written."""
    x = torch.rand(1, 4)
    with pytest.raises(ConfigError, match="nothing to choose"):
        mase_hw.compile(
            nn.Linear(4, 2), x, {"hardware": {"unroll": "frame"}}, out=tmp_path / "b", target={"device": "xc7z020"}
        )
    with pytest.raises(ConfigError, match="no token to come alone"):
        mase_hw.compile(
            nn.Linear(4, 2), x, {"hardware": {"unroll": "frame"}, "decode": {"context": 4}}, out=tmp_path / "b"
        )
    with pytest.raises(MaseHwError, match="cannot take a whole frame") as logarithm:
        mase_hw.compile(nn.LogSoftmax(1), x, {"hardware": {"unroll": "frame"}}, out=tmp_path / "b")
    assert logarithm.value.node is not None
    wide = {"data_in_width": 10, "data_in_frac_width": 4, "data_out_width": 5, "data_out_frac_width": 0}
    config = {"hardware": {"unroll": "frame"}, "quantize": {"default": {"config": wide}}}
    with pytest.raises(UnsupportedError, match="cannot take a whole frame") as ties:
        mase_hw.compile(Mean(1), torch.rand(1, 6, 1), config, out=tmp_path / "b")
    assert "half_even" in str(ties.value.got) and "half_up" in str(ties.value.expected)
    assert not (tmp_path / "b").exists()


class Radio(nn.Module):
    """A classifier of complex samples: two convolutions, a mean over all positions, and a layer on that."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv1d(2, 4, 5, padding=2), nn.Conv1d(4, 4, 3, padding=1)
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.b(torch.relu(self.a(x))))
        result: Tensor = self.fc(x.mean(-1))
        return result


class Image(nn.Module):
    """Two convolutions of an image, pooling, and a layer over all positions or none."""

    def __init__(self, whole: bool) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1)
        self.fc = nn.Linear(32, 3) if whole else None

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.b(torch.relu(self.a(x))))
        if self.fc is None:
            return x
        result: Tensor = self.fc(nn.functional.max_pool2d(x, 2).flatten(1))
        return result


@pytest.mark.parametrize(
    ("net", "shape", "beats", "results"),
    [
        (Radio(), (2, 64), 8, 1),
        (Radio(), (2, 64), 32, 1),
        (Image(False), (1, 8, 8), 8, 8),
        (Image(True), (1, 8, 8), 4, 1),
    ],
    ids=["radio_8", "radio_32", "rows", "rows_pooled"],
)
def test_a_frame_in_some_beats(
    net: nn.Module, shape: tuple[int, ...], beats: int, results: int, tmp_path: Path
) -> None:
    """A beat in every cycle, frames back to back; the interval, the first result and every bit as predicted."""
    torch.manual_seed(0)
    for module in net.modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Linear):
            module.reset_parameters()
    design = compiled(tmp_path / "b", net, shape, unroll="frame", unroll_levels=3, unroll_beats=beats)
    manifest = design.manifest
    assert [entry["module"] for entry in manifest["instances"]] == ["fixed_frame_frame"]
    assert manifest["timing"]["interval"] == beats and not manifest["memories"] and not manifest["fifos"]
    assert [port["beats"] for port in manifest["ports"]] == [beats, results]
    full = design.simulate(engine="batch")
    assert full.passed and design.simulate(stalls=0.4, engine="batch").passed
    assert (full.interval, full.fill) == (beats, manifest["timing"]["fill"])
    folded = compiled(tmp_path / "folded", net, shape)
    frames = torch.rand(20, *shape, generator=torch.Generator().manual_seed(2)) * 4 - 2
    assert torch.equal(design.graph.model(frames), folded.graph.model(frames))


def test_beats_that_are_refused(tmp_path: Path) -> None:
    """Positions that no beat has as many of as every other one, and windows with no register to wait in."""
    for net, shape, beats, levels, field in (
        (Radio(), (2, 64), 7, 3, "unroll_beats"),
        (nn.Linear(4, 2), (4,), 2, 3, "unroll_beats"),
        (Radio(), (2, 64), 8, 0, "unroll_levels"),
    ):
        with pytest.raises(UnsupportedError) as caught:
            compiled(tmp_path / "b", net, shape, unroll="frame", unroll_levels=levels, unroll_beats=beats)
        assert caught.value.field == f"hardware.{field}"
    assert not (tmp_path / "b").exists()


def test_beats_of_what_is_not_one_expression(tmp_path: Path) -> None:
    config = {"hardware": {"unroll_beats": 2}}
    with pytest.raises(ConfigError, match="not one expression") as caught:
        mase_hw.compile(nn.Sequential(nn.Linear(4, 2)), torch.rand(1, 4), config, out=tmp_path / "d")
    assert caught.value.field == "hardware.unroll_beats" and not (tmp_path / "d").exists()
