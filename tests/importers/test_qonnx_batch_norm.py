"""Batch normalisation between the quantisers of a file: whole in hardware, and right for every value of every sum."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mase_hw
from mase_hw.errors import UnsupportedError
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
    "ties": {"weight": 0.5, "scale": 0.25, "norm": {"scale": [1, -2, 0], "bias": [0.125, 0.25, 0.5], "mean": [0, 0.5, 3],
                                                  "var": [1, 4, 1], "epsilon": 0.0}},
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
