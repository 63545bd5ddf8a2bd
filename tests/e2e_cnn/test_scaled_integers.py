"""Designs of scaled integers: hardware equal to the quantised model, which Python's integers recompute."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import mase_hw
from mase_hw.cost import cost_of
from mase_hw.formats import ScaledFormat
from mase_hw.nn import Quantized


class Small(nn.Module):
    """Padded and strided convolutions, a pooling, a layer; odd sizes, so that lanes are left over."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Conv2d(2, 5, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.second = nn.Conv2d(5, 3, 2, bias=False)
        self.last = nn.Linear(3 * 2, 4)

    def forward(self, x: Tensor) -> Tensor:
        """``(N, 2, 6, 5)`` -> ``(N, 4)``."""
        x = self.pool(torch.relu(self.first(x)))
        x = self.second(x)
        return self.last(x.reshape(x.shape[0], 6))


def configuration(**keys: Any) -> dict[str, Any]:
    widths = {"data_in_width": 8, "weight_width": 8, "data_out_width": 8}
    quantize = {"default": {"config": {"name": "integer", "multiplier_width": 31, **widths, **keys}}}
    lanes = {
        "first": {"data_in_0": 1, "data_out_0": 2},
        "second": {"data_in_0": 2, "data_out_0": 2},
        "last": {"data_out_0": 3},
    }
    return {"quantize": quantize, "hardware": {"parallelism": lanes}}


def requantised(sums: list[int], ratios: list[Fraction], zero: int, low: int, high: int) -> list[int]:
    """Rounded half-even by the exact ratio of the scales; a 31-bit multiplier decides none of these otherwise."""
    return [max(low, min(high, round(s * r) + zero)) for s, r in zip(sums, ratios, strict=True)]


def by_hand(design: mase_hw.Design, x: Tensor) -> list[int]:
    """Mantissas of the result for one image, from the weights, the scales and nothing else."""
    modules = {n: m for n, m in design.model.named_modules() if isinstance(m, Quantized)}
    formats = {name: module.arithmetic.formats for name, module in modules.items()}

    def scaled(name: str, tensor: str) -> ScaledFormat:
        fmt = formats[name][tensor]
        assert isinstance(fmt, ScaledFormat)
        return fmt

    def whole(name: str, tensor: str) -> list[Any]:
        """A parameter in steps of its format."""
        fmt, value = scaled(name, tensor), getattr(modules[name], tensor).detach().double()
        steps = [Fraction(s) for s in fmt.scales * (len(value) // fmt.channels)]
        limits = fmt.limits * (len(value) // len(fmt.limits))
        return [
            [max(low, min(high, round(Fraction(v) / step))) for v in row.flatten().tolist()]
            for row, step, (low, high) in zip(value.reshape(len(value), -1), steps, limits, strict=True)
        ]

    def layer(name: str, columns: list[list[int]], behind: str) -> list[list[int]]:
        """Every output at every place, requantised; the columns are less the zero point already."""
        weights, have, want = whole(name, "weight"), scaled(name, "data_in_0"), scaled(behind, "data_out_0")
        steps = scaled(name, "weight").scales
        low, high = want.limits[0]
        result = []
        for o, row in enumerate(weights):
            unit = Fraction(have.scale) * Fraction(steps[o % len(steps)])
            bias = 0
            if hasattr(modules[name], "bias"):
                bias = round(Fraction(float(modules[name].bias[o].detach())) / unit)
            sums = [sum(a * b for a, b in zip(row, column, strict=True)) + bias for column in columns]
            ratio = unit / Fraction(want.scale)
            result.append(requantised(sums, [ratio] * len(sums), want.zero_point, low, high))
        return result

    first = scaled("first", "data_in_0")
    low, high = first.limits[0]
    image = [[[0] * 7 for _ in range(8)] for _ in range(2)]
    for c in range(2):
        for i in range(6):
            for j in range(5):
                q = round(Fraction(float(x[c, i, j])) / Fraction(first.scale)) + first.zero_point
                image[c][i + 1][j + 1] = max(low, min(high, q)) - first.zero_point
    places = [(i, j) for i in range(6) for j in range(5)]
    columns = [[image[c][i + k][j + m] for c in range(2) for k in range(3) for m in range(3)] for i, j in places]
    relu = layer("first", columns, "relu")
    corners = [(2 * i) * 5 + 2 * j for i in range(3) for j in range(2)]
    pooled = [[max(ch[at + step] for step in (0, 1, 5, 6)) for at in corners] for ch in relu]
    zero = scaled("second", "data_in_0").zero_point
    columns = [[ch[(i + k) * 2 + m] - zero for ch in pooled for k in (0, 1) for m in (0, 1)] for i in range(2)]
    second = layer("second", columns, "second_requantize")
    zero = scaled("last", "data_in_0").zero_point
    flat = [value - zero for ch in second for value in ch]
    return [row[0] for row in layer("last", [flat], "last_requantize")]


@pytest.fixture(scope="module")
def images() -> Tensor:
    return torch.randn(40, 2, 6, 5, generator=torch.Generator().manual_seed(9))


@pytest.mark.parametrize(
    "keys",
    [
        {"weight_granularity": "channel", "data_affine": True},
        pytest.param({"weight_granularity": "tensor", "multiplier_width": 12}, marks=pytest.mark.slow),
        pytest.param(
            {"weight_granularity": "channel", "weight_affine": True, "data_affine": True, "weight_width": 3},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["channels", "tensor", "affine_weights"],
)
def test_hardware_model_and_integers_are_equal(keys: dict[str, Any], images: Tensor, tmp_path: Path) -> None:
    """Every bit, in exactly the predicted cycles, also where streams stall."""
    design = mase_hw.compile(Small(), images[:1], configuration(**keys), out=tmp_path / "design", calibration=[images])
    (first,) = (p["format"] for p in design.manifest["ports"] if p["direction"] == "in")
    assert (first["zero_point"] != 0) == bool(keys.get("data_affine"))  # which the border of the image then holds
    given = torch.cat([images[:7], 4 * images[:2]])  # half of the last two saturates
    simulation = design.simulate(given, work_dir=tmp_path / "work", engine="batch")
    assert simulation.passed and simulation.result.mismatches == 0 and simulation.frames == 9
    assert (simulation.fill, simulation.interval) == (design.timing["fill"], design.timing["interval"])
    with torch.no_grad():
        assert torch.equal(simulation.outputs["data_out_0"], design.model(given).double())
    stalled = design.simulate(given, stalls=0.4, seed=2, work_dir=tmp_path / "work", engine="batch")
    assert stalled.passed and stalled.result.mismatches == 0
    (port,) = (p for p in design.manifest["ports"] if p["direction"] == "out")
    fmt = port["format"]
    assert fmt["type"] == "integer" and set(fmt) == {"type", "width", "signed", "scale", "zero_point", "limits"}
    if keys.get("multiplier_width", 31) == 31:
        found = simulation.outputs["data_out_0"] / fmt["scale"] + fmt["zero_point"]
        for frame, values in zip(given, found.round().long().tolist(), strict=True):
            assert values == by_hand(design, frame)
        assert len({tuple(v) for v in found.round().long().tolist()}) > 6


class Residual(nn.Module):
    """A sum that a ReLU reads, a stored factor and offset, a product, a maximum, a difference, a border, averages with
    and without one, sums, means; parts of different scales one after the other."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first = nn.Conv2d(3, 3, 3, padding=1)
        self.register_buffer("factor", torch.tensor([0.3, -1.2, 0.7])[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        """``(N, 3, 4, 3)`` -> ``(N, 18)``."""
        y = torch.relu(self.first(x) + x)
        z = y * self.factor - 0.37
        z = functional.pad(torch.maximum(y * z, x) - y, (1, 0, 0, 1))
        edges, inside = functional.avg_pool2d(z, 2, 1, 1), functional.avg_pool2d(z, 2, 1, 1, count_include_pad=False)
        z = torch.cat((edges, inside), 1)
        return torch.cat((z.sum((2, 3)), z.mean((2, 3)), z.amax((2, 3))), 1)


class Sum(nn.Module):
    """A sum of two scales that a ReLU reads; one is a table's times a number."""

    def forward(self, x: Tensor) -> Tensor:
        """``(N, 3, 4, 3)`` -> the same."""
        return torch.relu(x + functional.hardswish(x) * 0.7)


class Pieces(nn.Module):
    """Linear pieces on wide data and on narrow, slopes of every channel, and shares of 1."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.first = nn.Conv2d(3, 3, 1)
        self.slopes = nn.PReLU(3)
        self.wide = nn.LeakyReLU(0.1)
        self.narrow = nn.Hardsigmoid()

    def forward(self, x: Tensor) -> Tensor:
        """``(N, 3, 4, 3)`` -> the same."""
        x = self.slopes(self.first(x))
        return torch.softmax(self.wide(x) + self.narrow(x), 1)


@pytest.mark.slow
def test_straight_pieces(tmp_path: Path) -> None:
    x = torch.randn(40, 3, 4, 3, generator=torch.Generator().manual_seed(3))
    config = configuration(data_affine=True)
    keys = {"name": "integer", "data_affine": True, "data_out_width": 14}
    wide = {"config": {**keys, "data_in_width": 14}}
    config |= {"hardware": {}}
    config["quantize"]["overrides"] = {
        "slopes": {"config": {**keys, "data_in_width": 8, "weight_width": 8}},
        "wide": wide,
    }
    design = mase_hw.compile(Pieces().eval(), x[:1], config, out=tmp_path / "design", calibration=[x])
    instances = {instance["module"] for instance in design.manifest["instances"]}
    assert instances >= {"fixed_pieces", "fixed_prelu", "fixed_function", "fixed_requantize", "fixed_softmax"}
    for stalls in (0.0, 0.4):
        run = design.simulate(
            torch.cat([x[:5], 3 * x[:2]]), stalls=stalls, seed=2, work_dir=tmp_path / "work", engine="batch"
        )
        assert run.passed and run.result.mismatches == 0 and run.frames == 7
        if not stalls:
            assert (run.fill, run.interval) == (design.timing["fill"], design.timing["interval"])


@pytest.mark.parametrize("net", [Sum(), pytest.param(Residual(), marks=pytest.mark.slow)], ids=["sum", "residual"])
def test_operands_of_several_scales(net: nn.Module, tmp_path: Path) -> None:
    """With zero points, in hardware; near the float model."""
    x = torch.randn(40, 3, 4, 3, generator=torch.Generator().manual_seed(3))
    config = configuration(data_affine=True)
    lanes = {"first": {"data_in_0": 2, "data_out_0": 2}}
    config["hardware"] = {"parallelism": lanes} if isinstance(net, Residual) else {}
    net = net.eval()
    design = mase_hw.compile(net, x[:1], config, out=tmp_path / "design", calibration=[x])
    given = torch.cat([x[:5], 3 * x[:2]])
    for stalls in (0.0, 0.4):
        run = design.simulate(given, stalls=stalls, seed=2, work_dir=tmp_path / "work", engine="batch")
        assert run.passed and run.result.mismatches == 0 and run.frames == 7
        with torch.no_grad():
            assert torch.equal(run.outputs["data_out_0"], design.model(given).double())
        if not stalls:
            assert (run.fill, run.interval) == (design.timing["fill"], design.timing["interval"])
    with torch.no_grad():
        wanted, got = net(x), design.model(x)
    modules = [m for m in design.model.modules() if isinstance(m, Quantized)]
    step = max(
        f.scale for m in modules for n, f in m.arithmetic.formats.items() if n.startswith("data") and f.width < 9
    )
    assert (wanted - got).square().mean().sqrt() < step


class Pooled(nn.Module):
    """A convolution whose beats come every nine cycles, or with fewer lanes oftener, and what reads it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first = nn.Conv2d(4, 8, 3, padding=1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        """``(N, 4, 4, 4)`` -> ``(N, 8, 2, 2)``."""
        return self.pool(self.first(x))


class Summed(nn.Module):
    """Two slow layers, their sum, and what requantises each of the three."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.last = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        """``(N, 4, 4, 4)`` -> ``(N, 8, 2, 2)``."""
        return self.last(torch.relu(self.first(x) + self.second(x)))


def summed(folder: Path, share: bool) -> mase_hw.Design:
    x = torch.randn(20, 4, 4, 4, generator=torch.Generator().manual_seed(1))
    config = configuration(weight_granularity="channel")
    config["hardware"] = {
        "parallelism": {name: {"data_in_0": 4, "data_out_0": 8} for name in ("first", "second")},
        "max_parallelism": 8,
        "share_requantisers": share,
    }
    torch.manual_seed(3)
    return mase_hw.compile(Summed().eval(), x[:1], config, out=folder, calibration=[x])


def test_requantisers_of_a_sum_are_shared(tmp_path: Path) -> None:
    """Before the sum and behind it, where its beats come as slowly: the rate stays."""
    shared, whole = (summed(tmp_path / str(share), share) for share in (True, False))
    lanes = [
        [i["parameters"]["DATA_IN_0_PARALLELISM_DIM_0"] for i in d.manifest["instances"] if "requantize" in i["module"]]
        for d in (shared, whole)
    ]
    assert lanes == [[1, 1, 1], [8, 8, 8]]
    assert shared.timing["interval"] == whole.timing["interval"] == 16 * 9


@pytest.mark.slow
def test_shared_requantisers_of_a_sum_in_hardware(tmp_path: Path) -> None:
    x, outputs = 2 * torch.randn(5, 4, 4, 4, generator=torch.Generator().manual_seed(6)), []
    for share in (True, False):
        design = summed(tmp_path / str(share), share)
        run = design.simulate(x, work_dir=tmp_path / "work", engine="batch")
        assert run.passed and run.result.mismatches == 0 and run.frames == 5
        assert (run.fill, run.interval) == (design.timing["fill"], design.timing["interval"])
        outputs.append(run.outputs["data_out_0"])
    assert torch.equal(*outputs)


class Shortcut(nn.Module):
    """A stage of a residual network: the convolution of its shortcut gives two beats at once, and then none."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.main = nn.Conv2d(4, 4, 3, padding=1), nn.Conv2d(4, 8, 3, 2, padding=1)
        self.short, self.last = nn.Conv2d(4, 8, 1, 2), nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        """``(N, 4, 8, 8)`` -> ``(N, 8, 2, 2)``."""
        x = torch.relu(self.stem(x))
        return self.last(torch.relu(self.main(x) + self.short(x)))


def with_shortcut(folder: Path, share: bool) -> mase_hw.Design:
    x = torch.randn(20, 4, 8, 8, generator=torch.Generator().manual_seed(1))
    config = configuration(weight_granularity="channel")
    config["hardware"] = {"max_parallelism": 4, "share_requantisers": share}
    torch.manual_seed(3)
    return mase_hw.compile(Shortcut().eval(), x[:1], config, out=folder, calibration=[x])


def test_requantisers_of_a_shortcut_are_shared(tmp_path: Path) -> None:
    """Its bursts wait where they are; the rate stays, as hardware shows it."""
    shared, whole = (with_shortcut(tmp_path / str(share), share) for share in (True, False))
    requantisers = [i["parameters"] for i in shared.manifest["instances"] if "requantize" in i["module"]]
    assert len(requantisers) == 4 and {p["DATA_IN_0_PARALLELISM_DIM_0"] for p in requantisers} == {1}
    assert shared.timing["interval"] == whole.timing["interval"] == 64 * 9
    x = 2 * torch.randn(4, 4, 8, 8, generator=torch.Generator().manual_seed(6))
    run = shared.simulate(x, work_dir=tmp_path / "work", engine="batch")
    assert run.passed and run.result.mismatches == 0 and run.frames == 4
    assert (run.fill, run.interval) == (shared.timing["fill"], shared.timing["interval"])


def pooled(folder: Path, lanes: int, share: bool) -> mase_hw.Design:
    x = torch.randn(20, 4, 4, 4, generator=torch.Generator().manual_seed(1))
    config = configuration(weight_granularity="channel")
    config["hardware"] = {
        "parallelism": {"first": {"data_in_0": 4, "data_out_0": lanes}},
        "max_parallelism": 8,
        "share_requantisers": share,
    }
    return mase_hw.compile(Pooled().eval(), x[:1], config, out=folder, calibration=[x])


def lanes_and_multipliers(design: mase_hw.Design) -> tuple[int, int]:
    """Lanes of the one requantiser, and its multiplier blocks by the estimate."""
    (instance,) = (i for i in design.manifest["instances"] if i["module"] == "fixed_requantize")
    parameters = instance["parameters"]
    return parameters["DATA_IN_0_PARALLELISM_DIM_0"], int(cost_of("fixed_requantize", parameters, "xc7").dsp)


def test_a_requantiser_is_shared_where_beats_come_slowly(tmp_path: Path) -> None:
    """Eight lanes every nine cycles take one multiplier; the interval stays, and it can be turned off."""
    shared, whole = (pooled(tmp_path / str(share), 8, share) for share in (True, False))
    (few, blocks), (many, more) = lanes_and_multipliers(shared), lanes_and_multipliers(whole)
    assert (few, many) == (1, 8) and more == 8 * blocks
    assert shared.timing["interval"] == whole.timing["interval"] == 16 * 9
    assert 0 < shared.timing["fill"] - whole.timing["fill"] <= 8 + 2


@pytest.mark.slow
def test_a_shared_requantiser_in_hardware(tmp_path: Path) -> None:
    """The same bits, in exactly the cycles of the model of timing."""
    results = []
    x = 2 * torch.randn(5, 4, 4, 4, generator=torch.Generator().manual_seed(6))
    for share in (True, False):
        design = pooled(tmp_path / str(share), 8, share)
        for stalls in (0.0, 0.4):
            run = design.simulate(x, stalls=stalls, seed=3, work_dir=tmp_path / "work", engine="batch")
            assert run.passed and run.result.mismatches == 0 and run.frames == 5
            if not stalls:
                assert (run.fill, run.interval) == (design.timing["fill"], design.timing["interval"])
        results.append(run.outputs["data_out_0"])
    assert torch.equal(*results)
