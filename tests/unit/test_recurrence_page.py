"""``docs/arithmetic.md`` on recurrent layers: whole quantised layers against an oracle written from the page.

The oracle has PyTorch's own parameters and the formats of the quantised modules; nothing of the package computes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw.compiler.config import load_config
from mase_hw.nn import Quantized
from mase_hw.preflight.mapped import mapped_graph
from tests.unit.oracle import Format, by_fraction
from tests.unit.page_oracles import EVEN, Modes

Formats = Mapping[str, Format]
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


class Layer(nn.Module):
    """All that a recurrent layer gives but its last states."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """The states of the last layer."""
        return self.layer(x)[0]


def value(mantissa: int, fmt: Format) -> Fraction:
    return mantissa * Fraction(2) ** -fmt[1]


def brought(x: Fraction | float, fmt: Format, modes: Modes = EVEN) -> Fraction:
    """A value in a format."""
    return value(by_fraction(Fraction(x), fmt, *modes), fmt)


class Cell:
    """A recurrence: one time step of all units."""

    def __init__(self, kind: str, formats: Formats, weight: list[list[Fraction]], bias: list[Fraction], m: Modes):
        self.kind, self.formats, self.weight, self.bias, self.modes = kind, formats, weight, bias, m
        width = formats["data_out_0"][0]
        self.unsigned, self.signed = (width, width, False), (width, width - 1, True)

    def cast(self, x: Fraction, fmt: Format | str) -> Fraction:
        return brought(x, self.formats[fmt] if isinstance(fmt, str) else fmt, self.modes)

    def sigmoid(self, x: Fraction) -> Fraction:
        return self.cast(Fraction(1 / (1 + math.exp(-float(self.cast(x, "gate"))))), self.unsigned)

    def tanh(self, x: Fraction, target: Format) -> Fraction:
        return self.cast(Fraction(math.tanh(float(x))), target)

    def step(self, x: list[Fraction], h: list[Fraction], c: list[Fraction]) -> tuple[list[Fraction], list[Fraction]]:
        gates = len(x) // len(h)
        states, cells = [], []
        for u, before in enumerate(h):
            part = x[u * gates : (u + 1) * gates]
            rows = self.weight[u * gates : (u + 1) * gates]
            a = [sum((w * s for w, s in zip(row, h, strict=True)), Fraction(0)) for row in rows]
            state, cell = self.unit(part, a, before, c[u], self.bias[u] if self.bias else Fraction(0))
            states.append(state)
            cells.append(cell)
        return states, cells

    def unit(
        self, x: list[Fraction], a: list[Fraction], h: Fraction, c: Fraction, bias: Fraction
    ) -> tuple[Fraction, Fraction]:
        if self.kind == "RNN_RELU":
            return self.cast(max(Fraction(0), x[0] + a[0]), "data_out_0"), c
        if self.kind == "RNN_TANH":
            return self.tanh(self.cast(x[0] + a[0], "gate"), self.formats["data_out_0"]), c
        if self.kind == "GRU":
            r, z = self.sigmoid(x[0] + a[0]), self.sigmoid(x[1] + a[1])
            n = self.tanh(self.cast(x[2] + r * (a[2] + bias), "gate"), self.signed)
            return self.cast((1 - z) * n + z * h, "data_out_0"), c
        i, f, o = (self.sigmoid(x[k] + a[k]) for k in (0, 1, 3))
        g = self.tanh(self.cast(x[2] + a[2], "gate"), self.signed)
        c = self.cast(f * c + i * g, "cell")
        width, frac, sign = self.formats["cell"]
        bits = min(width, max(12, self.formats["gate"][0]))
        t = self.tanh(self.cast(c, (bits, frac - (width - bits), sign)), self.signed)
        return self.cast(o * t, "data_out_0"), c


def tuples(module: Quantized) -> dict[str, Format]:
    return {name: (f.width, f.frac_width, f.signed) for name, f in module.arithmetic.formats.items()}


def by_unit(tensor: Tensor, gates: int) -> Tensor:
    """PyTorch's rows ``k * units + u`` in the order ``u * gates + k``."""
    units = len(tensor) // gates
    return tensor[[k * units + u for u in range(units) for k in range(gates)]]


def stored(tensor: Tensor, fmt: Format) -> Any:
    """A parameter in its format, as fractions."""
    if tensor.ndim > 1:
        return [stored(row, fmt) for row in tensor]
    return [brought(float(each), fmt) for each in tensor]


def oracle(layer: nn.RNNBase, modules: Mapping[str, Any], x: list[list[Fraction]], modes: Modes) -> Any:
    """The states of one sequence, from its values."""
    directions, units = 1 + layer.bidirectional, layer.hidden_size
    gates = GATES[layer.mode.split("_")[0]]
    for at in range(layer.num_layers):
        sides = []
        for d in range(directions):
            n, suffix = at * directions + d, f"l{at}" + ("_reverse" if d else "")
            linear, recurrence = (tuples(modules[f"layer.{part}.{n}"]) for part in ("inputs", "cells"))
            w_ih, w_hh, b_ih, b_hh = (
                getattr(layer, f"{name}_{suffix}").detach() for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            both, late = b_ih + b_hh, []
            if gates == 3:
                both = torch.cat([both[: 2 * units], b_ih[2 * units :]])
                late = stored(b_hh[2 * units :], recurrence["bias"])
            weight = stored(by_unit(w_ih, gates), linear["weight"])
            bias = stored(by_unit(both, gates), linear["bias"])
            cell = Cell(layer.mode, recurrence, stored(by_unit(w_hh, gates), recurrence["weight"]), late, modes)
            h, c = [Fraction(0)] * units, [Fraction(0)] * units
            states = []
            for step in reversed(x) if d else x:
                taken = [brought(each, linear["data_in_0"]) for each in step]
                products = [sum(w * v for w, v in zip(row, taken, strict=True)) for row in weight]
                sums = [product + b for product, b in zip(products, bias, strict=True)]
                assert sums == [brought(each, linear["data_out_0"]) for each in sums], "the linear layer is exact"
                h, c = cell.step(sums, h, c)
                states.append(h)
            sides.append(states[::-1] if d else states)
        x = [[each for side in steps for each in side] for steps in zip(*sides, strict=True)]
    return x


LAYERS = [
    (nn.RNN, {}),
    (nn.RNN, {"nonlinearity": "relu", "num_layers": 2}),
    (nn.GRU, {"num_layers": 2, "bidirectional": True}),
    (nn.LSTM, {"num_layers": 2, "bidirectional": True}),
    (nn.LSTM, {"rounding": "floor", "width": 6}),
    (nn.GRU, {"rounding": "half_away", "width": 10}),
]


@pytest.mark.parametrize(("kind", "more"), LAYERS, ids=str)
def test_layers(kind: type[nn.RNNBase], more: dict[str, Any]) -> None:
    torch.manual_seed(3)
    given = {name: v for name, v in more.items() if name not in ("rounding", "width")}
    layer = kind(3, 3, batch_first=True, **given)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -1.2, 1.2)
    width, rounding = more.get("width", 8), more.get("rounding", "half_even")
    names = ("data_in_width", "weight_width", "bias_width", "data_out_width")
    config = {
        "quantize": {"default": {"config": {"name": "fixed", "rounding": rounding, **dict.fromkeys(names, width)}}}
    }
    x = torch.randn(4, 6, 3)
    graph = mapped_graph(Layer(layer).eval(), x[:1], load_config(config), [x], lambda _: None)
    modules = dict(graph.model.named_modules())
    fmt = tuples(modules["layer.inputs.0"])["data_in_0"]
    codes = (x * 2.0 ** fmt[1]).round().clamp(-(2 ** (fmt[0] - 1)), 2 ** (fmt[0] - 1) - 1)
    with torch.no_grad():
        found = graph.model(codes * 2.0 ** -fmt[1])
    modes = (rounding.upper(), "SATURATE")
    for sequence, states in zip(codes.tolist(), found.tolist(), strict=True):
        values = [[value(int(code), fmt) for code in step] for step in sequence]
        assert [[Fraction(each) for each in step] for step in states] == oracle(layer, modules, values, modes)
    assert found.unique().numel() > 20
