"""Batch normalisation between the quantisers of a file: whole in hardware, and right for every value of every sum."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mase_hw
from mase_hw.errors import UnsupportedError
from mase_hw.nn import Quantized
from tests.importers.qonnx_networks import Net

EPSILON = 1e-5
BITS = 4


def norm(n: Net, channels: int, scale: Any = None, **given: Any) -> tuple[list[Fraction], list[Fraction]]:
    """A normalisation, and its factors and shifts: those of the definition, rounded to float64."""
    r = n.r
    numbers = {
        "scale": r.uniform(0.5, 2, channels) * np.where(np.arange(channels) % 3 == 1, -1, 1)
        if scale is None
        else scale,
        "bias": r.standard_normal(channels),
        "mean": r.standard_normal(channels),
        "var": r.uniform(0.2, 2, channels),
    } | given
    stored = {name: np.asarray(v, np.float32) for name, v in numbers.items()}
    epsilon = given.get("epsilon", EPSILON)
    stored.pop("epsilon", None)
    n.add("BatchNormalization", *(n.store(v) for v in stored.values()), epsilon=epsilon)
    g, b, m, v = (value.astype(np.float64) for value in stored.values())
    factor = g / np.sqrt(v + np.float64(np.float32(epsilon)))
    return [Fraction(f) for f in factor], [Fraction(x) for x in b - m * factor]


def half_even(value: Fraction, low: int, high: int) -> int:
    return min(max(round(value), low), high)


def step(value: float) -> Fraction:
    return Fraction(float(np.float32(value)))


SCALES: dict[str, dict[str, Any]] = {
    "powers_of_two": {"weight": 0.5, "scale": 0.25},
    "real": {"weight": 0.3, "scale": 0.21},
    "bias": {"weight": 0.3, "scale": 0.21, "bias": True},
    "channels": {"weight": [[0.3], [0.2], [0.11]], "scale": 0.25},
    "ties": {"weight": 0.5, "scale": 0.25, "norm": {"scale": [1, -2, 0], "bias": [0.125, 0.25, 0.5],
                                                  "mean": [0, 0.5, 3], "var": [1, 4, 1], "epsilon": 0.0}},
}  # fmt: skip


def linear(name: str) -> tuple[Net, Any]:
    """Quant, Gemm, BatchNormalization, Relu, Quant; and the integer of the result for a sum of a channel."""
    made, n = SCALES[name], Net(3, 1, 4)
    n.quant(0, BITS, scale=made["scale"])
    weight = n.weight(0, BITS, 3, 4, scale=made["weight"])
    bias = n.weights(3)
    n.add("Gemm", weight, *([n.store(bias)] if "bias" in made else []), transB=1)
    factors, shifts = norm(n, 3, **made.get("norm", {}))
    n.add("Relu")
    n.quant(0, BITS, scale=made["scale"], signed=0)
    products = [step(made["scale"]) * step(w) for w in np.broadcast_to(np.reshape(made["weight"], -1), 3)]
    added = [Fraction(float(b)) if "bias" in made else Fraction(0) for b in bias]

    def result(channel: int, total: int) -> int:
        value = factors[channel] * (total * products[channel] + added[channel]) + shifts[channel]
        return half_even(max(value, Fraction(0)) / step(made["scale"]), 0, 15)

    return n, result


@pytest.mark.parametrize("name", SCALES)
def test_every_sum(name: str) -> None:
    """All frames there are."""
    n, result = linear(name)
    made = SCALES[name]
    codes = np.stack(np.meshgrid(*[np.arange(-8, 8)] * 4), -1).reshape(-1, 4)
    stored = next(v for v in n.stored.values() if v.shape == (3, 4)).astype(np.float64)
    weight = np.rint(stored / np.float32(made["weight"]).astype(np.float64)).clip(-7, 7).astype(np.int64)
    totals = codes @ weight.T
    want = np.empty_like(totals)
    for channel in range(3):
        table = {int(t): result(channel, int(t)) for t in np.unique(totals[:, channel])}
        want[:, channel] = np.vectorize(table.get)(totals[:, channel])
    scale = float(np.float32(made["scale"]))
    graph = mase_hw.import_model(n.model())
    found = graph.model(torch.from_numpy(codes * scale).float()).detach().double().numpy() / scale
    np.testing.assert_array_equal(np.rint(found), want)
    assert len(np.unique(want)) == 16


def test_ties_that_no_multiplier_gives() -> None:
    """A sixth of a step: of its ties every other one is rounded up."""

    def made(scale: float) -> Any:
        n = Net(3, 1, 4)
        n.quant(0, BITS, scale=0.5)
        n.add("Gemm", n.weight(0, BITS, 3, 4, scale=0.5), transB=1)
        norm(n, 3, **{"scale": [1] * 3, "bias": [0] * 3, "mean": [0] * 3, "var": [1] * 3, "epsilon": 0.0})
        n.quant(0, 8, scale=scale)
        return n.model()

    with pytest.raises(UnsupportedError, match=r"(?s)every result right.*gemm.*powers of two"):
        mase_hw.import_model(made(1.5))
    mase_hw.import_model(made(1.0))


def rounded(number: int, by: int, mode: str) -> int:
    """A quotient, rounded."""
    floor, rest = divmod(number, by)
    if mode == "FLOOR":
        return floor
    if mode == "DOWN":
        return floor + (floor < 0 and rest > 0)
    if 2 * rest == by:
        return floor + (floor & 1 if mode == "ROUND" else floor >= 0)
    return floor + (2 * rest > by)


@pytest.mark.parametrize(("seed", "mode"), [(4, "ROUND"), (5, "ROUND"), (8, "ROUND"), (4, "HALF_UP"), (0, "FLOOR"),
                                            (0, "DOWN")])  # fmt: skip
def test_all_sums_of_many_channels(seed: int, mode: str) -> None:
    """Random numbers, which are close to a border between two results somewhere among so many."""
    channels, bits = 256, 8
    n, signed = Net(seed, 1, 1), 1 - seed % 2
    scale = float(np.exp(n.r.uniform(-4, 0)))
    n.quant(0, 11, scale=scale)
    scales = np.exp(n.r.uniform(-3, 0, (channels, 1))).astype(np.float32)
    weight = n.weight(0, BITS, channels, 1, scale=scales)
    bias = n.weights(channels)
    n.add("Gemm", weight, *([n.store(bias)] if seed else []), transB=1)
    factors, shifts = norm(n, channels)
    if not signed:
        n.add("Relu")
    wanted = scale * 1.6
    n.quant(0, bits, scale=wanted, signed=signed, mode=mode)
    given = next(v for v in n.stored.values() if v.shape == (channels, 1)).astype(np.float64)
    weights = np.rint(given / scales.astype(np.float64)).clip(-7, 7)[:, 0].astype(int)
    codes = np.arange(-1024, 1024)
    x = torch.from_numpy(codes * float(step(scale))).float()[:, None]
    found = mase_hw.import_model(n.model()).model(x).detach().double().numpy() / float(step(wanted))
    low, high = (-128, 127) if signed else (0, 255)
    differ = 0
    for c, factor in enumerate(factors):
        ratio = factor * Fraction(float(scales[c, 0])) * step(scale) / step(wanted)
        added = ((factor * Fraction(float(bias[c])) if seed else 0) + shifts[c]) / step(wanted)
        by = ratio.denominator * added.denominator
        a, b = ratio.numerator * added.denominator, added.numerator * ratio.denominator
        want = [min(max(rounded(a * int(total) + b, by, mode), low), high) for total in codes * weights[c]]
        differ += int((np.rint(found[:, c]) != want).sum())
    assert differ == 0


@pytest.mark.parametrize("seed", range(3))
def test_signs_of_all_sums(seed: int) -> None:
    """The sign that a binary layer ends in, for shifts that are whole numbers of products, and next to them."""
    channels = 96
    n = Net(seed, 1, 1)
    n.quant(0, 7, scale=1.0)
    weight = n.weight(0, BITS, channels, 1, scale=0.5 if seed else 0.3)
    n.add("Gemm", weight, transB=1)
    power = 2.0 ** n.r.integers(-3, 4, channels) * n.r.choice([-1, 1], channels)
    near = n.r.integers(-200, 200, channels) * 0.5 + n.r.choice([0, 0, 2.0**-18, -(2.0**-18)], channels)
    given = {"scale": power, "mean": near, "bias": [0] * channels, "var": [1] * channels, "epsilon": 0.0}
    factors, shifts = norm(n, channels, **(given if seed else {}))
    n.add("BipolarQuant", n.store(np.float32(1)), domain="qonnx.custom_op.general")
    stored = next(v for v in n.stored.values() if v.shape == (channels, 1)).astype(np.float64)
    unit = step(0.5 if seed else 0.3)
    weights = np.rint(stored / float(unit)).clip(-7, 7)[:, 0].astype(int)
    codes = np.arange(-64, 64)
    graph = mase_hw.import_model(n.model())
    found = graph.model(torch.from_numpy(codes).float()[:, None]).detach().numpy()
    want = [[1 if f * (int(w * c) * unit) + t >= 0 else -1 for w, f, t in zip(weights, factors, shifts, strict=True)]
            for c in codes]  # fmt: skip
    np.testing.assert_array_equal(found, want)
    layer = next(m for m in graph.model.modules() if isinstance(m, Quantized) and m.op.name == "linear")
    assert layer.arithmetic.formats["data_out_0"].width <= 16  # no finer than its products


def grid(value: Any, scale: float, bits: int = 8) -> Any:
    """``Quant`` in float64."""
    each = float(np.float32(scale))
    return np.clip(np.rint(value / each), -(1 << bits - 1), (1 << bits - 1) - 1) * each


def images(alone: bool) -> tuple[Net, Any]:
    """A convolution with a scale for each channel and a normalisation of its sums, or of what is quantised again."""
    n = Net(7, 1, 2, 5, 4)
    n.quant(0, 6, scale=0.07)
    scales = np.float32([0.3, 0.2, 0.11, 0.05]).reshape(4, 1, 1, 1)
    n.add("Conv", n.weight(0, BITS, 4, 2, 3, 3, scale=scales), pads=[1, 1, 1, 1])
    if alone:
        n.quant(0, 6, scale=0.21)
    factors, shifts = (np.array([float(v) for v in each]).reshape(4, 1, 1) for each in norm(n, 4))
    n.quant(0, 8, scale=0.043)
    stored = next(v for v in n.stored.values() if v.shape == (4, 2, 3, 3)).astype(np.float64)
    exact = np.rint(stored / scales.astype(np.float64)).clip(-7, 7) * scales.astype(np.float64)

    def result(x: torch.Tensor) -> Any:
        sums = torch.nn.functional.conv2d(
            torch.from_numpy(grid(x.numpy(), 0.07, 6)), torch.from_numpy(exact), padding=1
        )
        return grid(factors * (grid(sums.numpy(), 0.21, 6) if alone else sums.numpy()) + shifts, 0.043)

    return n, result


@pytest.mark.parametrize("alone", [False, True])
def test_in_hardware(alone: bool, tmp_path: Path) -> None:
    n, result = images(alone)
    x = torch.randn(4, 2, 5, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    graph = mase_hw.import_model(n.model())
    design = mase_hw.compile(graph, graph.example, out=tmp_path / "design").simulate(x.float(), engine="batch")
    assert design.passed and design.result.mismatches == 0
    found = design.outputs["data_out_0"].numpy()
    np.testing.assert_allclose(found, result(x.float().double()), rtol=0, atol=1e-6)
    assert len(np.unique(found)) > 30


def test_rows_alone() -> None:
    """A normalisation of features that something else reads as well."""
    n = Net(5, 1, 4)
    start = n.quant(0, 6, scale=0.07)
    factors, shifts = (np.array([float(v) for v in each]) for each in norm(n, 4))
    n.quant(0, 8, scale=0.03)
    n.add("Add", start)
    n.quant(0, 8, scale=0.021)
    x = np.random.default_rng(0).standard_normal((200, 4))
    a = grid(x.astype(np.float32).astype(np.float64), 0.07, 6)
    found = mase_hw.import_model(n.model()).model(torch.from_numpy(x).float()).detach().numpy()
    np.testing.assert_allclose(found, grid(grid(factors * a + shifts, 0.03) + a, 0.021), rtol=0, atol=1e-6)


def test_statistics_that_cannot_be() -> None:
    n = Net(5, 1, 4)
    n.quant(0, 6, scale=0.07)
    n.add("BatchNormalization", *(n.store(np.float32([v] * 4)) for v in (1, 0, 0, -1)))
    n.quant(0, 8, scale=0.021)
    with pytest.raises(UnsupportedError, match="statistics that are not finite"):
        mase_hw.import_model(n.model())


@pytest.mark.parametrize("images_too", [False, True])
def test_sums_of_channels_leave_the_hardware(images_too: bool, tmp_path: Path) -> None:
    """Nothing quantises the last layer, whose weights have a scale for each output."""
    n = Net(2, 1, 2, 3, 3) if images_too else Net(2, 1, 4)
    n.quant(0, BITS, scale=0.1)
    shape = (3, 2, 2, 2) if images_too else (3, 4)
    scales = np.float32([0.3, 0.2, 0.11]).reshape(3, *[1] * (len(shape) - 1))
    weight = n.weight(0, BITS, *shape, scale=scales)
    n.add(*(("Conv", weight) if images_too else ("Gemm", weight)), **({} if images_too else {"transB": 1}))
    x = np.random.default_rng(1).standard_normal((6, *n.shape[1:])).astype(np.float32)
    stored = next(v for v in n.stored.values() if v.shape == shape).astype(np.float64)
    exact = torch.from_numpy(np.rint(stored / scales.astype(np.float64)).clip(-7, 7) * scales.astype(np.float64))
    run = torch.nn.functional.conv2d if images_too else torch.nn.functional.linear
    graph = mase_hw.import_model(n.model())
    result = mase_hw.compile(graph, graph.example, out=tmp_path / "b").simulate(torch.from_numpy(x), engine="batch")
    assert result.passed and result.result.mismatches == 0
    want = run(torch.from_numpy(grid(x.astype(np.float64), 0.1, BITS)), exact)
    torch.testing.assert_close(result.outputs["data_out_0"].double(), want, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("weight_scale", [0.3, np.float32([[0.3], [0.2], [0.11]])])
def test_the_host_reads_sums(weight_scale: Any, tmp_path: Path) -> None:
    """Wide ones, and such that have a scale for each channel: what the host computes of them is in float32."""
    n = Net(4, 1, 4)
    n.quant(0, BITS, scale=0.1)
    weight = n.weight(0, BITS, 3, 4, scale=weight_scale)
    bias = n.weights(3)
    n.add("Gemm", weight, n.store(bias), transB=1)
    n.add("LpNormalization")
    x = np.random.default_rng(1).standard_normal((6, 4)).astype(np.float32)
    graph = mase_hw.import_model(n.model(), host=True)
    result = mase_hw.compile_partitioned(graph, graph.example, out=tmp_path / "b").simulate(
        torch.from_numpy(x), engine="batch"
    )
    assert result.passed
    stored = next(v for v in n.stored.values() if v.shape == (3, 4)).astype(np.float64)
    scales = np.asarray(weight_scale, np.float32).astype(np.float64)
    sums = grid(x.astype(np.float64), 0.1, BITS) @ (np.rint(stored / scales).clip(-7, 7) * scales).T + bias
    want = sums / np.sqrt((sums**2).sum(1, keepdims=True))
    np.testing.assert_allclose(graph.model(torch.from_numpy(x)).detach().numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bias", [False, True], ids=["products", "bias"])
def test_an_affine_end(bias: bool, tmp_path: Path) -> None:
    """Sums with and products by numbers that end a model: within 2**-17 of a step of the real numbers, in hardware."""
    n = Net(3, 1, 4)
    n.quant(0, BITS, scale=0.21)
    weight, offsets = n.weight(0, BITS, 3, 4, scale=0.3), n.weights(3)
    n.add("Gemm", weight, *([n.store(offsets)] if bias else []), transB=1)
    numbers = {"Sub": 0.45, "Div": 17.8, "Mul": 0.73, "Add": -1.14}
    for kind, number in numbers.items():
        n.add(kind, n.store(np.float32([number])))
    graph = mase_hw.import_model(n.model())
    codes = np.stack(np.meshgrid(*[np.arange(-8, 8, 3)] * 4), -1).reshape(-1, 4)
    found = graph.model(torch.from_numpy(codes * 0.21).float()).detach().double().numpy()
    stored = next(v for v in n.stored.values() if v.shape == (3, 4)).astype(np.float64)
    sums = codes @ np.rint(stored / np.float64(np.float32(0.3))).clip(-7, 7).T
    sub, div, mul, add = (np.float64(np.float32(number)) for number in numbers.values())
    products = float(step(0.21) * step(0.3))
    real = (sums * products + (offsets if bias else 0.0) - sub) / div * mul + add
    error = np.abs(found - real).max() / (products * mul / div)
    assert 0 < error <= 2.0**-17
    assert [m.op.name for m in graph.model.modules() if isinstance(m, Quantized)] == ["linear"]
    design = mase_hw.compile(graph, graph.example, out=tmp_path / "design")
    assert (
        design.simulate(torch.from_numpy(codes[:40] * 0.21).float(), work_dir=tmp_path / "work").result.mismatches == 0
    )
