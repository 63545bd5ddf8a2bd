"""Inference on values gives the bits of the golden, whatever the formats, and knows when it cannot."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.nn import Quantized, QuantizeInput
from mase_hw.nn.values import Cast, cast_to, operands
from mase_hw.numerics import dequantize, quantize

CATALOGUE = default_catalogue()
CONV: dict[str, Any] = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "padding_mode": "zeros"}
OPS: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None, list[dict[str, Any]]]] = {
    "linear": ((5, 12), (7, 12), [{}]),
    "relu": ((4, 3, 9), None, [{}]),
    "cast": ((40,), None, [{}]),
    "conv1d": ((2, 4, 9), (6, 2, 3), [{**CONV, "groups": 2, "padding": 1}, {**CONV, "groups": 2, "stride": 2}]),
    "conv2d": (
        (2, 4, 7, 6),
        (6, 2, 3, 3),
        [{**CONV, "groups": 2, "padding": (1, 2)}, {**CONV, "groups": 2, "dilation": 2, "padding": "same"}],
    ),
    "relu6": ((4, 3, 9), None, [{}]),
    "hardtanh": ((4, 3, 9), None, [{"min_val": -2.0, "max_val": 4.5}, {"min_val": -0.3, "max_val": 0.7}, {}]),
    "max_pool1d": ((2, 3, 9), None, [{"kernel_size": 3, "stride": 2, "padding": 1}]),
    "adaptive_max_pool1d": ((2, 3, 9), None, [{"output_size": 4}]),
    "adaptive_max_pool2d": ((2, 3, 7, 8), None, [{"output_size": (3, 2)}]),
    "max_pool2d": ((2, 3, 7, 8), None, [{"kernel_size": 2}, {"kernel_size": 3, "stride": 1, "padding": 1}]),
}


BINARY = ("add", "sub", "mul", "minimum", "maximum", "sum_of_products")
OF_STREAMS = ("sum_of_products",)
"""Both operands are always computed."""
MODES = (Rounding.HALF_EVEN, Overflow.SATURATE)


def golden(module: Quantized, *inputs: Tensor) -> Tensor:
    """The definition, step by step: mantissas, the op's golden, values."""
    formats = module.arithmetic.formats
    t = {f"data_in_{i}": quantize(x, formats[f"data_in_{i}"]) for i, x in enumerate(inputs)}
    t |= {name: module.mantissa(name) for name in module.parameter_names}
    assert module.op.golden is not None
    return dequantize(module.op.golden(module.arithmetic, t)["data_out_0"], formats["data_out_0"])


def same(a: Tensor, b: Tensor) -> bool:
    """The same bits; zeros have no sign."""
    return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


def some_format(rng: random.Random) -> FixedFormat:
    width = rng.choice([1, 2, 4, 8, 8, 8, 12, 16, 22, 24, 30])
    return FixedFormat(width, rng.choice([width - 1, width // 2, rng.randint(-6, 30)]), rng.random() < 0.6)


def module_of(name: str, rng: random.Random, modes: tuple[Rounding, Overflow]) -> tuple[Quantized, Tensor]:
    shape, weight, attributes = OPS[name]
    names = ["data_in_0", "data_out_0", *(["weight", "bias"] if weight else [])]
    formats = {each: some_format(rng) for each in names}
    parameters: dict[str, Tensor] = {}
    if weight is not None:
        generator = torch.Generator().manual_seed(rng.randrange(1 << 30))
        peak = formats["weight"].max_value * 1.2 + formats["weight"].scale
        parameters["weight"] = (torch.rand(weight, generator=generator) * 2 - 1) * peak
        if rng.random() < 0.7:
            parameters["bias"] = torch.randn(weight[0], generator=generator) * formats["bias"].max_value
        if rng.random() < 0.3:
            parameters["weight_shift"] = torch.randint(0, 4, weight[:1], generator=generator)
            formats["weight_shift"] = FixedFormat(2, 0, signed=False)
    formats = {k: v for k, v in formats.items() if k in parameters or k.startswith("data")}
    fmt = formats["data_in_0"]
    ends = [-fmt.max_value * 1.3, -fmt.scale / 2, -0.0, fmt.scale * 1.5, fmt.max_value, float("inf"), -float("inf")]
    x = torch.randn(shape) * fmt.max_value
    x.view(-1)[: len(ends)] = torch.tensor(ends)
    arithmetic = Arithmetic(formats, *modes, rng.choice(attributes))
    return Quantized(CATALOGUE[name], arithmetic, parameters), x.float()


def test_every_op_that_offers_it_is_here() -> None:
    assert {op.name for op in CATALOGUE if op.on_values is not None} == {*OPS, *BINARY}


def draws(name: str) -> Iterator[tuple[random.Random, int, tuple[Rounding, Overflow]]]:
    """Turns with what draws in them, and modes, those of values in three of four."""
    rng = random.Random(name)
    torch.manual_seed(0)
    for turn in range(150):
        yield rng, turn, MODES if turn % 4 else (rng.choice(list(Rounding)), rng.choice(list(Overflow)))


@pytest.mark.parametrize("name", OPS)
def test_the_bits_of_the_golden(name: str) -> None:
    """Random formats; most of them are computed on values, and those with many bits or other modes are not."""
    used = 0
    for rng, _, modes in draws(name):
        module, x = module_of(name, rng, modes)
        try:
            want = golden(module, x)
        except FormatError:  # more than 64 bits, or an infinity that cannot be pooled
            continue
        enter = QuantizeInput(module.arithmetic.formats["data_in_0"], "x")
        for context in (torch.no_grad, torch.inference_mode):
            with context():
                used += module.on_values() is not None
                assert same(module(x), want), module  # brought onto the grid here
                assert same(module(enter(x)), want), module  # there already
        assert same(module(x).detach(), want), module  # with gradients
    assert used >= 40


@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str) -> None:
    """Two streams, or a stream and a stored tensor, in random formats."""
    used = 0
    for rng, turn, modes in draws(name):
        second = "data_in_1" if name in OF_STREAMS else rng.choice(["data_in_1", "constant"])
        formats = {each: some_format(rng) for each in ("data_in_0", second, "data_out_0")}
        x, y = (torch.randn(4, 5) * formats[each].max_value * 1.2 for each in ("data_in_0", second))
        x[0, :2], y[0, 1:3] = float("inf"), formats[second].max_value
        attributes = {"reversed": True} if name == "sub" and second == "constant" and turn % 2 else {}
        stored = {"constant": y} if second == "constant" else {}
        module = Quantized(CATALOGUE[name], Arithmetic(formats, *modes, attributes), stored)
        given = (x,) if stored else (x, y)
        try:
            want = golden(module, *given)
        except FormatError:
            continue
        with torch.no_grad():
            used += module.on_values() is not None
            assert same(module(*given), want), module
        assert same(module(*given).detach(), want), module
    assert used >= 40


def wide_layer(name: str, seed: int) -> tuple[Quantized, Tensor]:
    """A layer whose sums pass 2**24, with inputs that reach them: all signs alike, and signs that cancel."""
    generator = torch.Generator().manual_seed(seed)
    # Products of 8 x 8 bits: up to 1.9 times 2**24 for the largest output, or up to 3.8 times.
    count = 1000 * (1 + seed % 2)
    weight = torch.randint(-127, 128, (6, count), generator=generator).float()
    weight[0] = 127
    weight[1, ::2] = -127
    x = torch.randint(0, 256, (5, count), generator=generator).float()
    x[0], x[1, ::2], x[1, 1::2] = 255, 255, 0
    x[2] = torch.where(weight[2] > 0, 255.0, 0.0)
    # Far beyond 2**24 after the first half, and back again.
    weight[3, : count // 2], weight[3, count // 2 :], x[3] = 127, -127, 255
    formats = {"data_in_0": FixedFormat(8, 0, False), "weight": FixedFormat(8, 0), "bias": FixedFormat(16, 0)}
    formats["data_out_0"] = FixedFormat(*((8, -12), (22, 2), (10, -6), (24, 0), (12, 0))[seed % 5])
    parameters = {"bias": torch.randint(-30000, 30000, (6,), generator=generator).float()}
    if name == "conv2d":
        parameters["weight"] = weight.reshape(6, -1, 5, 5)
        return Quantized(CATALOGUE[name], Arithmetic(formats, attributes=CONV), parameters), x.reshape(5, -1, 5, 5)
    parameters["weight"] = weight
    return Quantized(CATALOGUE[name], Arithmetic(formats), parameters), x


@pytest.mark.parametrize("name", ["linear", "conv2d"])
def test_sums_beyond_float32_are_cut(name: str) -> None:
    """Where each half is exact and the cast saturates before their sum is not; else the general way is taken."""
    split = []
    for seed in range(20):
        module, x = wide_layer(name, seed)
        t = {each: module.mantissa(each) for each in module.parameter_names}
        found = operands(module.arithmetic, t, cast_to(module.arithmetic))
        split.append(0 if found is None else len(found[0]))
        with torch.no_grad():
            assert (found is not None) == (module.on_values() is not None)
            assert same(module(x), golden(module, x)), seed
    assert min(split.count(2), split.count(4)) >= 4 and 0 in split
    # Half a bit more of range before saturation, and two sums would not do.
    module, _ = wide_layer(name, 1)
    t = {each: module.mantissa(each) for each in module.parameter_names}
    wide = Cast(-float(2**24), float(2**24 + 2), torch.tensor(1.5 * 2**23))
    assert operands(module.arithmetic, t, wide) is None


@pytest.mark.parametrize("name", ["linear", "conv2d"])
def test_a_bias_that_leaves_no_room_for_the_first_channel(name: str) -> None:
    """Every channel and the bias are exact alone, and no two of them together: there is no first part to begin with."""
    formats = {"data_in_0": FixedFormat(12, 0, False), "weight": FixedFormat(13, 0), "data_out_0": FixedFormat(22, 2)}
    shape = (3, 2, 1, 1) if name == "conv2d" else (3, 2)
    parameters = {"weight": torch.full(shape, 4000.0), "bias": torch.tensor([2.0**20, -7.0, 5.0])}
    a = Arithmetic({**formats, "bias": FixedFormat(22, 0)}, attributes=CONV if name == "conv2d" else {})
    module = Quantized(CATALOGUE[name], a, parameters)
    x = torch.randint(0, 4096, (4, 2, 3, 3) if name == "conv2d" else (4, 2)).float()
    with torch.no_grad():
        assert same(module(x), golden(module, x))


def linear(**formats: FixedFormat) -> Quantized:
    torch.manual_seed(3)
    base = {"data_in_0": FixedFormat(8, 5), "weight": FixedFormat(8, 7), "data_out_0": FixedFormat(8, 4)}
    return Quantized(CATALOGUE["linear"], Arithmetic({**base, **formats}), {"weight": torch.randn(6, 5)})


def test_sums_are_exact_up_to_the_last_bit() -> None:
    """The bound is that of the weights there are: at 2**24 it is float32, one more and it is not."""
    x, w = FixedFormat(12, 0, signed=False), FixedFormat(13, 0)
    a = Arithmetic({"data_in_0": x, "weight": w, "bias": FixedFormat(20, 0), "data_out_0": FixedFormat(22, 2)})
    weight = torch.tensor([[4095.0, -1.0]])  # 4096 * 4095 = 2**24 - 4096
    for bias, fits in ((4096.0, True), (4097.0, False), (-4096.0, True), (-4097.0, False)):
        t = {"weight": weight, "bias": torch.tensor([bias])}
        assert (operands(a, t, cast_to(a), split=False) is not None) is fits
        module = Quantized(CATALOGUE["linear"], a, t)
        ends = torch.tensor([[4095.0, 4095.0], [0.0, 4095.0], [4095.0, 0.0]])
        with torch.no_grad():
            assert same(module(ends), golden(module, ends))


def test_a_clamp_is_merged_only_where_it_is_one() -> None:
    """After any layer, into any format: in one step or not, the bits are those of both goldens."""
    rng, merged = random.Random(0), 0
    for turn in range(600):
        layer, x = module_of(rng.choice(["linear", "conv2d", "cast", "max_pool2d"]), rng, MODES)
        mine = layer.arithmetic.formats["data_out_0"]
        width = rng.choice([2, 4, 8, 12])
        fmt = FixedFormat(width, mine.frac_width + rng.choice([0, 0, 0, -1, 2]), rng.random() < 0.5)
        ends = {"min_val": rng.choice([-2.0, 0.0, 0.3]), "max_val": rng.choice([0.5, 6.0])}
        kind, attributes = rng.choice([("relu", {}), ("relu6", {}), ("hardtanh", ends)])
        relu = Quantized(CATALOGUE[kind], Arithmetic({"data_in_0": mine, "data_out_0": fmt}, attributes=attributes))
        first, second = layer.on_values(), relu.on_values()
        if first is None or second is None:
            continue
        both, enter = first.then(second), QuantizeInput(layer.arithmetic.formats["data_in_0"], "x")
        if both is not None:
            merged += 1
            with torch.no_grad():
                found = both(enter(x))
                assert found is not None and same(found, golden(relu, golden(layer, x))), (turn, layer, relu)
        assert second.then(first) is None and first.then(first) is None
    assert merged >= 60


@pytest.mark.parametrize(
    "formats, clamp",
    [
        ((FixedFormat(8, 4), FixedFormat(8, 5, False)), (0.0, 6.0)),
        ((FixedFormat(8, 14), FixedFormat(8, 15, False)), (0.0, math.inf)),
        ((FixedFormat(8, 5, False), FixedFormat(6, 3, False)), (-math.inf, 6.0)),
        ((FixedFormat(8, 6, False), FixedFormat(8, 6)), (-math.inf, math.inf)),
    ],
)
def test_limits_that_no_input_reaches(formats: tuple[FixedFormat, FixedFormat], clamp: tuple[float, float]) -> None:
    """A clamp at a limit that is beyond every code of the input is none, and the rest is computed on values."""
    a = Arithmetic({"data_in_0": formats[0], "data_out_0": formats[1]})
    module = Quantized(CATALOGUE["relu6"], a)
    run = module.on_values()
    assert run is not None and run.clamp == clamp
    every = dequantize(torch.arange(formats[0].min_mantissa, formats[0].max_mantissa + 1).float(), formats[0])
    with torch.no_grad():
        assert same(module(every), golden(module, every))


@pytest.mark.parametrize("change", [lambda w: w.data.mul_(0.5), lambda w: w.mul_(0.5), lambda w: w.numpy().fill(0.3)])
def test_new_weights_are_used(change: Any) -> None:
    module, x = linear(), torch.randn(9, 5)
    with torch.no_grad():
        before = module(x)
        change(module.weight)
        after = module(x)
        assert same(after, golden(module, x)) and not torch.equal(before, after)
        module.arithmetic = Arithmetic({**module.arithmetic.formats, "data_out_0": FixedFormat(6, 2)})
        assert same(module(x), golden(module, x))
        module.weight[0, 0] = float("nan")
        with pytest.raises(FormatError, match=r"linear\.weight"):
            module(x)


def test_nan_in_an_input_is_refused_by_name() -> None:
    module, x = linear(), torch.full((2, 5), float("nan"))
    with torch.no_grad(), pytest.raises(FormatError, match=r"linear\.data_in_0"):
        module(x)


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_reduced_precision_and_autocast(precision: str) -> None:
    module, x = linear(), torch.randn(200, 5)
    want, before = golden(module, x), torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        with torch.no_grad():
            assert same(module(x), want)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                assert same(module(x), want)
    finally:
        torch.set_float32_matmul_precision(before)


def test_what_is_kept_can_train_later() -> None:
    """Mantissas made in inference mode are kept; a gradient of the input must pass them all the same."""
    module, x = linear(), torch.randn(9, 5, dtype=torch.float64)
    with torch.inference_mode():
        want = module(x.clone())  # float64: in mantissas
        module(x.float())
    x.requires_grad_()
    y = module(x)
    y.sum().backward()
    assert same(y.detach(), want) and x.grad is not None


def test_copies_start_anew() -> None:
    module, x = linear(), torch.randn(9, 5)
    with torch.no_grad():
        want = module(x)
        again = copy.deepcopy(module)
        assert not {"_prepared", "_kept"} & set(again.__dict__) and same(again(x), want)
        again.weight.mul_(0.5)
        assert same(again(x), golden(again, x)) and same(module(x), want)
