"""Weights with a format per output channel: what is chosen, what it computes, and that hardware computes the same."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.nn import Quantized
from mase_hw.passes.quantize.formats import MAX_SHIFT
from tests.unit.pipeline import EIGHT, MLP, formats, inputs, quantised, rule, seeded

CHANNEL = {"default": {"config": {**EIGHT["default"]["config"], "weight_granularity": "channel"}}}


def uneven() -> nn.Module:
    """Channels of very different ranges, one of them all zero."""
    model = seeded(MLP)
    with torch.no_grad():
        rows = model.fc1.weight.shape[0]
        model.fc1.weight *= torch.logspace(-2, 1, rows)[:, None]
        model.fc1.weight[1] = 0
    return model


def finest(row: np.ndarray, width: int) -> int:
    low, high = -(2 ** (width - 1)), 2 ** (width - 1) - 1
    return max(f for f in range(-40, 40) if low <= np.rint(row * 2.0**f).min() and np.rint(row * 2.0**f).max() <= high)


def test_every_channel_has_its_finest_fraction_width() -> None:
    model = uneven()
    graph, info = quantised(model, inputs(8, 6), config=CHANNEL)
    layer = graph.modules["fc1"]
    assert isinstance(layer, Quantized)
    rows = model.fc1.weight.detach().double().numpy()
    fracs = [finest(row, 8) if row.any() else None for row in rows]
    best = max(f for f in fracs if f is not None)
    assert formats(graph, "fc1")["weight"] == f"s8.{best}"
    shifts = layer.weight_shift.tolist()
    assert shifts == [0 if f is None else best - f for f in fracs] and max(shifts) > 0
    assert formats(graph, "fc1")["weight_shift"] == f"u{max(shifts).bit_length()}.0"
    assert "per output channel" in info["nodes"]["fc1"]["reasons"]["weight"]
    # Straight from the definition: mantissa * 2**(shift - frac) is the weight, rounded in its own format.
    for row, shift, mantissas in zip(rows, shifts, layer.mantissa("weight").tolist(), strict=True):
        assert mantissas == np.clip(np.rint(row * 2.0 ** (best - shift)), -128, 127).tolist()


def test_golden_against_fractions() -> None:
    """Exact rational arithmetic, rounded half-even once at the end."""
    rng = np.random.default_rng(0)
    x, w = rng.integers(-128, 128, (5, 7)), rng.integers(-128, 128, (4, 7))
    b, s = rng.integers(-128, 128, 4), np.array([0, 3, 7, 1])
    fmt = {"data_in_0": FixedFormat(8, 4), "weight": FixedFormat(8, 9), "bias": FixedFormat(8, 3)}
    arithmetic = Arithmetic({**fmt, "weight_shift": FixedFormat(3, 0, False), "data_out_0": FixedFormat(10, 3)})
    golden = default_catalogue()["linear"].golden
    assert golden is not None
    names = {"data_in_0": x, "weight": w, "bias": b, "weight_shift": s}
    found = golden(arithmetic, {k: torch.from_numpy(v) for k, v in names.items()})["data_out_0"]
    for i in range(5):
        for o in range(4):
            exact = sum(Fraction(int(x[i, k]), 2**4) * Fraction(int(w[o, k]) * 2 ** int(s[o]), 2**9) for k in range(7))
            value = round((exact + Fraction(int(b[o]), 2**3)) * 2**3)
            assert int(found[i, o]) == min(max(value, -512), 511)


def test_it_is_nearer_to_float_than_one_format() -> None:
    model, x = uneven(), inputs(64, 6)
    errors = []
    for config in (EIGHT, CHANNEL):
        graph, _ = quantised(model, x, config={**config, "overrides": {"fc1": rule(data_out_width=16)}})
        # Only what the layer computes, channel by channel.
        layer, want = graph.modules["fc1"], model.fc1(x)
        errors.append(((layer(x) - want).abs() / want.abs().amax(0).clamp(min=1e-9)).amax(0)[0])
    assert errors[1] < errors[0] / 4


def test_gradients_are_those_of_the_float_layer() -> None:
    module, _ = quantised(uneven(), inputs(8, 6), config=CHANNEL)
    layer = module.modules["fc1"]
    assert isinstance(layer, Quantized)
    x = torch.tensor([[0.5, -0.25, 0.125, 0.0, 0.25, -0.5]])
    layer(x).sum().backward()
    assert torch.allclose(layer.weight.grad[0], layer_input(layer, x)[0])


def layer_input(layer: Quantized, x: Tensor) -> Tensor:
    fmt = layer.arithmetic.formats["data_in_0"]
    return torch.round(x * 2**fmt.frac_width) / 2**fmt.frac_width


def test_even_channels_need_no_shift() -> None:
    model = seeded(MLP)
    with torch.no_grad():
        model.fc1.weight.copy_(torch.linspace(-0.9, 0.9, 6).expand_as(model.fc1.weight))
    graph, _ = quantised(model, inputs(4, 6), config=CHANNEL)
    assert "weight_shift" not in formats(graph, "fc1") and not hasattr(graph.modules["fc1"], "weight_shift")


def test_channels_far_apart_are_limited() -> None:
    model = seeded(MLP)
    with torch.no_grad():
        model.fc1.weight[0] *= 2.0**-30
    graph, _ = quantised(model, inputs(4, 6), config=CHANNEL)
    assert int(graph.modules["fc1"].weight_shift.max()) == MAX_SHIFT
    with pytest.raises(ConfigError, match="too fine for a channel"):
        quantised(model, inputs(4, 6), config={**CHANNEL, "overrides": {"fc1": rule(weight_frac_width=40)}})


def test_by_default_it_is_for_the_layers_that_have_it() -> None:
    """A normalisation has weights as well, of which each is a channel; it takes one format for all of them."""
    model = nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.PReLU(4))
    with torch.no_grad():
        model[0].weight[1] *= 8
    graph, _ = quantised(model, inputs(4, 6), config=CHANNEL)
    named = {node.target: formats(graph, node.name) for node in graph.fx_graph.nodes if node.op == "call_module"}
    assert [name for name, found in named.items() if "weight_shift" in found] == ["0"]
    with pytest.raises(UnsupportedError, match="layer_norm has no weights with a format per output channel"):
        quantised(model, inputs(4, 6), config={**EIGHT, "layer_norm": rule(weight_granularity="channel")})


def test_where_it_means_nothing_it_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="relu has no weights with a format per output channel"):
        quantised(seeded(MLP), inputs(4, 6), config={**EIGHT, "relu": rule(weight_granularity="channel")})
    with pytest.raises(ConfigError, match="weight_granularity"):
        quantised(seeded(MLP), inputs(4, 6), config={**EIGHT, "linear": rule(weight_granularity="row")})


@pytest.mark.parametrize("config", [CHANNEL])
def test_hardware_computes_the_same(config: dict[str, Any], tmp_path: Path) -> None:
    model, x = uneven(), inputs(6, 6)
    design = mase_hw.compile(
        model, x[:1], {"quantize": config, "hardware": {"max_parallelism": 2}}, out=tmp_path / "out", calibration=[x]
    )
    assert (design.path / "mem" / "fc1_weight_shift.mem").is_file()
    simulation = design.simulate(x, engine="batch")
    assert simulation.result.passed and simulation.result.mismatches == 0
    assert simulation.interval == design.timing["interval"] and simulation.fill == design.timing["fill"]
    assert torch.equal(simulation.output, design.model(x))
