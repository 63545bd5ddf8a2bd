"""Weights under the names of MASE's quantisers: its definitions in fractions, hardware, training, what is refused."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mase_hw import compile
from mase_hw.errors import ConfigError
from mase_hw.formats import BlockFormat
from mase_hw.passes import verify_analysis_pass
from mase_hw.training import prepare
from tests.passes.test_quantize_blocks import blocks, layer, learned, spread_weights, stored
from tests.unit.pipeline import inputs, quantised

TWO = Fraction(2)


def floor_log2(value: Fraction) -> int:
    """By comparison with a power of two."""
    at = value.numerator.bit_length() - value.denominator.bit_length()  # or one more than that
    return at - (value < TWO**at)


def ceil_log2(value: Fraction) -> int:
    at = floor_log2(value)
    return at + (value != TWO**at)


def clamped(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


def sign(value: Fraction) -> int:
    return -1 if value < 0 else 1


def ieee(x: Fraction, width: int, bits: int, bias: int) -> Fraction:
    """``_minifloat_ieee_quantize``."""
    m, least = width - bits - 1, -bias
    exponent = clamped(floor_log2(abs(x)), least, 2**bits - 1 - bias) if x else least
    mantissa = abs(x) / TWO**exponent
    if exponent == least:  # subnormal
        code = clamped(round(mantissa * 2**m / 2), 0, 2**m - 1)
        return sign(x) * TWO**exponent * Fraction(code, 2**m) * 2
    code = clamped(round(mantissa * 2**m - 2**m), 0, 2**m - 1)
    return sign(x) * TWO**exponent * (1 + Fraction(code, 2**m))


def denorm(x: Fraction, width: int, bits: int, bias: int) -> Fraction:
    """``_minifloat_denorm_quantize``."""
    m = width - bits - 1
    exponent = clamped(ceil_log2(abs(x)), -bias, 2**bits - 1 - bias) if x else -bias
    code = clamped(round(abs(x) / TWO**exponent * 2**m), 0, 2**m - 1)
    return sign(x) * TWO**exponent * Fraction(code, 2**m)


def log(x: Fraction, width: int, bits: int, bias: int) -> Fraction:
    """``_log_quantize``: the logarithm is rounded, which is a comparison of the square with an odd power of two."""
    least = TWO**-bias
    value = abs(x) + Fraction(0.1) * least
    at = floor_log2(value)
    exponent = clamped(at + (value**2 > TWO ** (2 * at + 1)), -bias, 2**bits - 1 - bias)
    return (1 if x + Fraction(0.1) * least > 0 else -1) * TWO**exponent


def block_fp(block: list[Fraction], width: int, bits: int, bias: int) -> list[Fraction]:
    """``_block_fp_quantize`` of a block."""
    peak = max(map(abs, block))
    if not peak:
        return block
    exponent = clamped(ceil_log2(peak), -bias, 2**bits - 1 - bias)
    step = TWO**exponent / 2 ** (width - 1)
    return [sign(x) * step * clamped(round(abs(x) / step), 0, 2 ** (width - 1) - 1) for x in block]


def hard_numbers(exponents: range, digits: int, seed: int) -> list[float]:
    """Powers of two, numbers beside them and half-way between two, and drawn ones."""
    draw = random.Random(seed)
    found = [0.0]
    for at in exponents:
        found += [2.0**at * v for v in (1.0, 1 - 2.0**-20, 1 + 2.0**-20, 2 - 2.0**-18, 2**0.5, 2**0.5 - 2.0**-20)]
        halves = [1 + (2 * draw.randrange(2**digits) + 1) / 2 ** (digits + 1) for _ in range(3)]
        found += [2.0**at * v for v in halves + [draw.uniform(1, 2) for _ in range(4)]]
    draw.shuffle(found)
    return [v if draw.random() < 0.5 else -v for v in found]


def as_layer(numbers: list[float], columns: int = 12) -> nn.Sequential:
    """A layer with these weights, as float32 has them, and the first one again where a row is not full."""
    rows = -(-len(numbers) // columns)
    net = nn.Sequential(nn.Linear(columns, rows))
    with torch.no_grad():
        filled = numbers + numbers[:1] * (rows * columns - len(numbers))
        net[0].weight.copy_(torch.tensor(filled).reshape(rows, columns))
    return net


ELEMENTS = [
    ("minifloat_ieee", 4, 2, None),
    ("minifloat_ieee", 8, 4, None),
    ("minifloat_ieee", 8, 4, 10),
    ("minifloat_ieee", 6, 5, -2),
    ("minifloat_ieee", 7, 3, 0),
    ("minifloat_denorm", 4, 2, None),
    ("minifloat_denorm", 8, 4, None),
    ("minifloat_denorm", 8, 3, 9),
    ("minifloat_denorm", 6, 4, -1),
    ("log", 4, None, None),
    ("log", 5, None, 12),
    ("log", 3, None, 5),
]
ONE = {"minifloat_ieee": ieee, "minifloat_denorm": denorm, "log": log}


def keys_of(name: str, width: int, bits: int | None, bias: int | None) -> dict[str, Any]:
    keys = {"name": name, "weight_width": width, "weight_exponent_width": bits, "weight_exponent_bias": bias}
    return {key: value for key, value in keys.items() if value is not None}


@pytest.mark.parametrize(("name", "width", "bits", "bias"), ELEMENTS)
def test_numbers_of_one_tensor(name: str, width: int, bits: int | None, bias: int | None) -> None:
    """From below the smallest number to beyond the largest one; hardware has them as they are."""
    exponent_bits = width - 1 if bits is None else bits
    by = 2 ** (exponent_bits - 1) - 1 if bias is None else bias
    digits = max(1, width - 1 - exponent_bits)
    numbers = hard_numbers(range(-by - digits - 2, 2**exponent_bits - by + 2), digits, width)
    net = as_layer(numbers)
    graph, _ = quantised(net, inputs(4, 12), config=blocks(**keys_of(name, width, bits, bias)))
    verify_analysis_pass(graph)
    wanted = [[ONE[name](Fraction(v), width, exponent_bits, by) for v in row] for row in net[0].weight.tolist()]
    module = layer(graph, "_0")
    assert stored(module) == wanted
    fmt = module.arithmetic.formats["weight"]
    assert isinstance(fmt, BlockFormat) and fmt.kind == "minifloat" and fmt.width <= 33
    values = torch.tensor([[float(v) for v in row] for row in wanted])
    assert torch.equal(module.mantissa("weight").double() * fmt.scale, values.double())


@pytest.mark.parametrize(("size", "rows"), [([1, 4], 1), ([4], 6), (4, 6), ([2, 5], 2), ([-1, -1], 6), ([4, 99], 4)])
@pytest.mark.parametrize(("width", "bits", "bias"), [(8, 8, None), (4, 4, None), (5, 3, 5)])
def test_blocks(size: Any, rows: int, width: int, bits: int, bias: int | None) -> None:
    """Blocks of outputs and inputs; the last ones of both may be smaller."""
    net = nn.Sequential(spread_weights(6, 22, 3, 7))
    with torch.no_grad():
        net[0].weight[1, 3] = 2.0  # a power of two as the largest magnitude of its block
    keys = keys_of("block_fp", width, bits, bias) | {"weight_block_size": size}
    graph, _ = quantised(net, inputs(4, 22), config=blocks(**keys))
    verify_analysis_pass(graph)
    columns = [size, *([size] if isinstance(size, int) else size)][-1]
    columns = 22 if columns in (-1, 99) else columns
    given = [[Fraction(v) for v in row] for row in net[0].weight.tolist()]
    wanted = [[Fraction(0)] * 22 for _ in given]
    for top, left in itertools.product(range(0, 6, rows), range(0, 22, columns)):
        at = list(itertools.product(range(top, min(top + rows, 6)), range(left, min(left + columns, 22))))
        found = block_fp([given[o][i] for o, i in at], width, bits, 2 ** (bits - 1) - 1 if bias is None else bias)
        for (o, i), value in zip(at, found, strict=True):
            wanted[o][i] = value
    assert stored(layer(graph, "_0")) == wanted


HARDWARE = [*ELEMENTS, ("block_fp", 6, 8, None)]


@pytest.mark.parametrize(("name", "width", "bits", "bias"), HARDWARE[1::3], ids=lambda v: str(v))
def test_in_hardware(name: str, width: int, bits: int | None, bias: int | None, tmp_path: Path) -> None:
    torch.manual_seed(width)
    net, x = nn.Sequential(nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 3)), inputs(12, 12)
    keys = keys_of(name, width, bits, bias) | ({"weight_block_size": [2, 4]} if name == "block_fp" else {})
    config = {"quantize": blocks(**keys), "hardware": {"parallelism": {"_0": {"data_in_0": 2, "data_out_0": 3}}}}
    design = compile(net, x[:1], config, out=tmp_path / "design", calibration=[x], vectors=x)
    for stalls in (0.0, 0.4):
        assert design.simulate(engine="batch", stalls=stalls).passed


@pytest.mark.parametrize(("name", "width", "bits", "bias"), HARDWARE[::2], ids=lambda v: str(v))
def test_trained(name: str, width: int, bits: int | None, bias: int | None) -> None:
    """The loop of other formats; the bias of a minifloat stays as it was configured."""
    torch.manual_seed(7)
    x = torch.rand(8, 12)
    keys = keys_of(name, width, bits, bias) | ({"weight_block_size": [1, 4]} if name == "block_fp" else {})
    net = nn.Sequential(nn.Linear(12, 6), nn.ReLU())
    model = prepare(net, x[:1], {"quantize": blocks(**keys)}, calibration=[x])
    graph = learned(model, x, torch.optim.Adam(model.weights(), lr=3e-2), 4)
    module = layer(graph, "_0")
    if name == "block_fp":
        return
    exponent_bits = width - 1 if bits is None else bits
    by = 2 ** (exponent_bits - 1) - 1 if bias is None else bias
    for row in stored(module):  # a power of two comes of what is above it
        assert [ONE[name](v + v / 2**20, width, exponent_bits, by) for v in row] == row


def test_signs_without_a_scale() -> None:
    net = nn.Sequential(nn.Linear(5, 2))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[0.375, -0.375, 0.0, 0.376, 9.0], [-9.0, -0.376, 0.1, -0.1, 0.374]]))
    x = inputs(4, 5)
    binary, _ = quantised(net, x, config=blocks(name="binary", weight_width=1, weight_bipolar=True))
    assert layer(binary, "_0").mantissa("weight").tolist() == [[1, -1, 1, 1, 1], [-1, -1, 1, -1, 1]]
    keys = {"name": "ternary", "weight_width": 2, "weight_scaling_factor": False}
    known = [[0, 0, 0, 1, 1], [-1, -1, 0, 0, 0]]  # the threshold itself becomes 0
    for given in ({"weight_mean": 0.5, "weight_max": 1.0}, {"weight_max": 7.502}, {"weight_median": 0.5}):
        ternary, _ = quantised(net, x, config=blocks(**keys, **given))
        module = layer(ternary, "_0")
        assert module.mantissa("weight").tolist() == known
        assert module.arithmetic.formats["weight"].frac_width == 0


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"name": "minifloat_ieee", "weight_width": 8}, "need weight_exponent_width"),
        ({"name": "minifloat_ieee", "weight_width": 4, "weight_exponent_width": 4}, "5 bits or more"),
        ({"name": "minifloat_denorm", "weight_width": 5, "weight_exponent_width": 4}, "6 bits or more"),
        ({"name": "log", "weight_width": 4, "weight_exponent_width": 4}, "leave weight_exponent_width out"),
        ({"name": "log", "weight_width": 10}, "2 to 9 bits"),
        ({"name": "log", "weight_width": 8}, r"2\^-63 to 2\^"),
        ({"name": "minifloat_ieee", "weight_width": 16, "weight_exponent_width": 8}, "at most 33 bits"),
        ({"name": "block_fp", "weight_width": 8, "weight_frac_width": 3}, "leave weight_frac_width out"),
        ({"name": "mxint", "weight_width": 8, "weight_block_size": [4]}, r"\[1, number\]"),
        ({"name": "block_fp", "weight_width": 8, "weight_block_size": [4, 0]}, "positive or -1"),
        ({"name": "binary", "weight_bipolar": False, "weight_width": 1}, "leave weight_bipolar out"),
        ({"name": "binary", "weight_stochastic": True, "weight_width": 1}, "leave weight_stochastic out"),
        ({"name": "ternary", "weight_scaling_factor": True, "weight_width": 2}, "leave weight_scaling_factor out"),
        ({"name": "ternary", "weight_scaling_factor": False, "weight_width": 2}, "weight_mean, weight_max"),
    ],
)
def test_what_is_refused(keys: dict[str, Any], what: str) -> None:
    net = as_layer([0.0, 1.0, -0.7, 2.0**-29 * 1.28, 0.3, 2.0**-30])
    with pytest.raises(ConfigError, match=what):
        quantised(net, inputs(4, 12), config=blocks(**keys))


def test_a_span_that_hardware_has() -> None:
    """Eight bits of exponent, of which weights use eighteen powers of two."""
    net = as_layer([v for v in hard_numbers(range(-17, 1), 3, 5) if v])
    graph, _ = quantised(net, inputs(4, 12), config=blocks(**keys_of("minifloat_ieee", 12, 8, None)))
    wanted = [[ieee(Fraction(v), 12, 8, 127) for v in row] for row in net[0].weight.tolist()]
    module = layer(graph, "_0")
    assert stored(module) == wanted and module.arithmetic.formats["weight"].width == 33
