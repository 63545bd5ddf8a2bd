"""Weights of 8-bit floats: what a code means, by hand; layers in hardware; scales; what is refused."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError, MaseHwError
from mase_hw.importers import load_float8_weights
from mase_hw.importers.float8_weights import Scaled
from tests.ir.nets import With
from tests.passes.test_quantize_blocks import layer, stored
from tests.unit.pipeline import EIGHT, inputs, quantised

TYPES = {torch.float8_e4m3fn: (4, 3, 7), torch.float8_e5m2: (5, 2, 15)}


def number(code: int, kind: torch.dtype) -> Fraction | None:
    """The value of a code; None of NaN and infinity."""
    bits, mantissa_bits, bias = TYPES[kind]
    exponent, mantissa = (code & 127) >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    if exponent == (1 << bits) - 1 and (kind is torch.float8_e5m2 or mantissa == 7):
        return None
    size = (Fraction(mantissa, 1 << mantissa_bits) + (exponent > 0)) * Fraction(2) ** (max(exponent, 1) - bias)
    return -size if code & 128 else size


def drawn(kind: torch.dtype, rows: int, columns: int, most: int) -> tuple[Tensor, list[list[Fraction]]]:
    """Codes as weights, and their values; magnitudes are codes up to ``most``."""
    draw = random.Random(most)
    codes = [[draw.randint(0, most) | draw.randint(0, 1) << 7 for _ in range(columns)] for _ in range(rows)]
    values = [[number(code, kind) for code in row] for row in codes]
    assert all(value is not None for row in values for value in row)
    return torch.tensor(codes, dtype=torch.uint8).view(kind), [[v or Fraction(0) for v in row] for row in values]


@pytest.mark.parametrize(("kind", "most"), [(torch.float8_e4m3fn, 126), (torch.float8_e5m2, 90)])
@pytest.mark.parametrize("scale", [None, 1.0, 2.0**-9, 64.0])
def test_exactly_those_of_the_file(kind: torch.dtype, most: int, scale: float | None) -> None:
    weight, values = drawn(kind, 6, 22, most)
    net = nn.Sequential(nn.Linear(22, 6))
    tensors = {"0.weight": weight, "0.bias": torch.arange(6, dtype=torch.bfloat16), "1.weight": torch.ones(3)}
    tensors |= {} if scale is None else {"0.weight_scale": torch.tensor([scale])}
    rules = load_float8_weights(net, tensors)
    assert net[0].bias.tolist() == list(range(6))
    graph, _ = quantised(net, inputs(8, 22), config={**EIGHT, **rules})
    assert stored(layer(graph, "_0")) == [[v * Fraction(scale or 1) for v in row] for row in values]


def test_weights_of_the_model_itself() -> None:
    weight, values = drawn(torch.float8_e4m3fn, 4, 6, 100)
    net = nn.Sequential(nn.Linear(6, 4))
    net[0].weight = nn.Parameter(weight, requires_grad=False)
    net[0].weight_scale = torch.tensor(0.5)
    rules = load_float8_weights(net)
    graph, _ = quantised(net, inputs(8, 6), config={**EIGHT, **rules})
    assert stored(layer(graph, "_0")) == [[v / 2 for v in row] for row in values]


@pytest.mark.parametrize("each", [False, True])
def test_scales_that_are_no_powers_of_two(each: bool, tmp_path: Path) -> None:
    """The weights stay those of the file; what they give is multiplied. Every bit of the simulation is equal."""
    first, values = drawn(torch.float8_e4m3fn, 6, 12, 70)
    second, others = drawn(torch.float8_e5m2, 3, 6, 64)
    net = nn.Sequential(nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 3, bias=False))
    scale = torch.rand(6, 1) + 0.1 if each else torch.tensor(0.3)
    rules = load_float8_weights(net, {"0.weight": first, "0.weight_scale": scale, "2.weight": second})
    assert isinstance(net[0], Scaled)
    x = inputs(12, 12)
    exact = torch.tensor([[float(v) for v in row] for row in values], dtype=torch.float64)
    wanted = x.double() @ exact.T * scale.double().flatten() + net[0].bias.double()
    assert torch.allclose(net[0](x).double(), wanted, rtol=1e-4, atol=1e-4)  # of float32, before quantisation
    quantize = {**EIGHT, **rules}
    design = mase_hw.compile(net, x[:1], {"quantize": quantize}, out=tmp_path / "net", calibration=[x], vectors=x)
    assert stored(layer(design.graph, "_0_layer")) == values and stored(layer(design.graph, "_2")) == others
    assert design.simulate(engine="batch", stalls=0.3).passed


def test_convolutions(tmp_path: Path) -> None:
    weight, _ = drawn(torch.float8_e4m3fn, 4, 18, 60)
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU())
    given = {"0.weight": weight.reshape(4, 2, 3, 3), "0.scale_weight": torch.full((4,), 0.25)}
    rules = load_float8_weights(net, given)
    x = torch.rand(6, 2, 5, 5) - 0.5
    config = {"quantize": {**EIGHT, **rules}}
    design = mase_hw.compile(net, x[:1], config, out=tmp_path / "net", calibration=[x], vectors=x)
    fmt = layer(design.graph, "_0").arithmetic.formats["weight"]
    held = layer(design.graph, "_0").mantissa("weight").double() * fmt.scale
    assert torch.equal(held, weight.double().reshape(4, 2, 3, 3) / 4)
    assert design.simulate(engine="batch", stalls=0.3).passed


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"0.weight": torch.zeros(4, 5).to(torch.float8_e4m3fn)}, r"a weight of \[4, 5\]"),
        ({"0.weight": torch.full((4, 6), 127, dtype=torch.uint8).view(torch.float8_e4m3fn)}, "not finite"),
        ({"0.weight": torch.zeros(4, 6).to(torch.float8_e4m3fnuz)}, "float8_e4m3fnuz"),
        ({"0.weight": torch.zeros(4, 6)}, "no weights of 8-bit floats"),
        ({"0.weight_scale_inv": torch.ones(2, 3)}, "one scale, or one for each of 4 outputs"),
        ({"0.weight_scale": torch.tensor(0.0)}, "positive numbers"),
        ({"0.weight_scale": torch.tensor(255, dtype=torch.uint8).view(torch.float8_e8m0fnu)}, "positive numbers"),
        ({"9.weight": torch.zeros(4, 6).to(torch.float8_e5m2)}, "no linear layer or convolution"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], what: str) -> None:
    tensors = {"0.weight": torch.zeros(4, 6).to(torch.float8_e4m3fn)} | change
    with pytest.raises(ConfigError, match=what):
        load_float8_weights(nn.Sequential(nn.Linear(6, 4)), tensors)


def test_what_a_model_rounds_itself_is_refused(tmp_path: Path) -> None:
    rounds = With(nn.Linear(6, 4), lambda fc, x: fc(x.to(torch.float8_e4m3fn).to(torch.float32)))
    x = inputs(8, 6)
    with pytest.raises(MaseHwError, match="float8_e4m3fn"):
        mase_hw.compile(rounds, x[:1], {"quantize": EIGHT}, out=tmp_path / "net", calibration=[x])
    assert not (tmp_path / "net").exists()
