"""How LiteRT's reference kernels round, next to the borders where a result changes: what the importer rests on.

A layer of one input, which is zero, gives the requantised bias; so every sum can be tried.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import mase_hw
from tests.importers.tflite_files import File, executed, schema

COUNT = 300
"""Channels, of which each has a bias at a border of its own."""

SENSITIVE = {
    "RELU": (0.0587102510035038, -74, 0.05413001775741577, -52),
    "QUANTIZE": (0.09402862191200256, 124, 0.022975319996476173, -3),
    "LOGISTIC": (0.0016120782820507884, 21, 1 / 256, -128),
}
"""Scale and zero point of data and result, for which float32 and float64 give different numbers."""


def at_borders(kind: str, channels: bool, seed: int) -> tuple[File, Any]:
    """A layer whose sums are within a few steps of where the rounded product changes, and its result's name."""
    r = np.random.default_rng(seed)
    scale = np.float32(r.uniform(0.01, 0.05))
    want = np.float32(r.uniform(0.5, 1)) * np.float32(1 << 14)
    scales = (r.uniform(0.5, 1, COUNT if channels else 1) / 32).astype(np.float32)
    ratios = np.float64(scale) * np.broadcast_to(scales, COUNT).astype(np.float64) / np.float64(want)
    bias = np.rint((r.integers(-120, 120, COUNT) + 0.5) / ratios).astype(np.int64) + r.integers(-3, 4, COUNT)
    bias = np.clip(bias, -(2**31) + 300, 2**31 - 300)
    f = File(seed)
    depthwise = kind == "DEPTHWISE_CONV_2D"
    x = f.input(1, 1, 1, COUNT if depthwise else 1, scale=float(scale), zero=0)
    dense = kind == "FULLY_CONNECTED"
    y = f.result((1, COUNT) if dense else (1, 1, 1, COUNT), float(want), 0)
    shape, axis = ((1, 1, 1, COUNT), 3) if depthwise else ((COUNT, 1) if dense else (COUNT, 1, 1, 1), 0)
    weight = f.tensor(shape, scales, np.zeros(len(scales)), np.ones(shape), axis=axis)
    stored = f.tensor((COUNT,), (scales * scale).astype(np.float32), np.zeros(len(scales)), bias, np.int32)
    options = getattr(schema, {"CONV_2D": "Conv2D", "DEPTHWISE_CONV_2D": "DepthwiseConv2D"}.get(kind, "FullyConnected")
                      + "OptionsT")()  # fmt: skip
    if not dense:
        options.strideH = options.strideW = 1
    if depthwise:
        options.depthMultiplier = 1
    f.operation(kind, [x.index, weight, stored], [y.index], options, 5 if dense else 3)
    f.output(y)
    return f, y


@pytest.mark.parametrize("scales", ["channels", "one", "unsigned"])
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_next_to_every_border(kind: str, scales: str) -> None:
    for seed in range(4):
        file, y = at_borders(kind, scales == "channels", seed)
        unsigned = scales == "unsigned"
        data = (file.unsigned(2) if unsigned else file).data()
        given = np.full((1, *file.graph.tensors[0].shape[1:]), *((128, np.uint8) if unsigned else (0, np.int8)))
        want = executed(data, given)[f"t{y.index}"].reshape(-1)
        with torch.no_grad():
            values = mase_hw.import_model(data).model(torch.zeros(given.shape, dtype=torch.float64))
        found = np.rint(values.double().numpy().reshape(-1) / y.scale) + (128 if unsigned else 0)
        assert (found != want).sum() == 0 and len(np.unique(want)) > 60


def test_ties_of_layers_with_exact_ratios() -> None:
    """A ratio of 1/4 has ties: fully connected layers round them away from zero."""
    f = File(0)
    x = f.input(1, 1, scale=1.0, zero=0)
    y = f.result((1, 201), 1.0, 0)
    bias = np.arange(-100, 101)
    weight = f.tensor((201, 1), [0.25], [0], np.ones((201, 1)))
    f.operation(
        "FULLY_CONNECTED",
        [x.index, weight, f.tensor((201,), [0.25], [0], bias, np.int32)],
        [y.index],
        schema.FullyConnectedOptionsT(),
    )
    f.output(y)
    want = executed(f.data(), np.zeros((1, 1), np.int8))[f"t{y.index}"].reshape(-1)
    assert want[102] == 1 and want[98] == -1  # 2/4 and -2/4
    with torch.no_grad():
        found = mase_hw.import_model(f.data()).model(torch.zeros(1, 1)).numpy().reshape(-1)
    np.testing.assert_array_equal(found, want)


def test_precision_of_functions() -> None:
    """The kernels of RELU and LOGISTIC compute in float32, that of QUANTIZE in float64."""
    codes = np.arange(-128, 128, dtype=np.int8)
    for name, (scale, zero, want, zero_out) in SENSITIVE.items():
        f = File(0)
        y = f.function(name, f.input(1, 256, scale=scale, zero=zero), want, zero_out)
        f.output(y)
        expected = executed(f.data(), codes[None])[f"t{y.index}"].reshape(-1)
        with torch.no_grad():
            values = mase_hw.import_model(f.data()).model(torch.from_numpy((codes - float(zero)) * np.float32(scale)))
        found = np.rint(values.double().numpy().reshape(-1) / y.scale) + zero_out
        np.testing.assert_array_equal(found, expected)


def test_precision_of_a_product() -> None:
    """Scales whose ratio in float64 would give another number for one of all pairs."""
    codes = np.stack(np.meshgrid(np.arange(-128, 128), np.arange(-128, 128))).reshape(2, 1, -1).astype(np.int8)
    f = File(0)
    x = f.input(1, 1 << 16, scale=0.044309210032224655, zero=67)
    y = f.input(1, 1 << 16, scale=0.025831131264567375, zero=-32)
    f.graph.tensors[y.index].name = "second"
    z = f.binary("MUL", x, y, 0.081284299492836, zero=-53)
    f.output(z)
    want = executed(f.data(), list(codes))[f"t{z.index}"].reshape(-1)
    given = [torch.from_numpy((c.astype(np.float64) - v.zero) * v.scale) for c, v in zip(codes, (x, y), strict=True)]
    with torch.no_grad():
        values = mase_hw.import_model(f.data()).model(*given)
    np.testing.assert_array_equal(np.rint(values.double().numpy().reshape(-1) / z.scale) + z.zero, want)


def test_precision_of_a_mean() -> None:
    """A sum next to a border, which a multiplier that is rounded, and not cut off, would put beyond it."""
    f = File(0)
    x = f.input(1, 7, 7, 2, scale=0.047183066606521606, zero=0)
    y = f.mean(x, 1, 2, scale=0.043626029044389725)
    f.output(y)
    codes = np.full((1, 7, 7, 2), 87, np.int8)
    codes[0, 0, 0] += 17  # 49 * 87 + 17 is 4280
    codes[..., 1] *= -1
    want = executed(f.data(), codes)[f"t{y.index}"].reshape(-1)
    with torch.no_grad():
        values = mase_hw.import_model(f.data()).model(torch.from_numpy(codes.astype(np.float64) * x.scale))
    np.testing.assert_array_equal(np.rint(values.double().numpy().reshape(-1) / y.scale) + y.zero, want)
    assert (want - y.zero).tolist() == [94, -94]


@pytest.mark.parametrize("unsigned", [False, True])
def test_quotients(unsigned: bool) -> None:
    """Of every integer, at scales that leave few results clipped."""
    every = np.arange(-128, 128)
    for divisor in (-128, -127, -37, -2, -1, 1, 2, 3, 7, 64, 100, 127):
        f = File(divisor + 128)
        x, other = f.input(1, 256, scale=0.02, zero=11), f.stored([divisor], 0.03)
        y = f.binary("DIV", x, other, 0.02 / 0.03 / abs(divisor) * 1.1, zero=-9)
        f.output(y)
        if unsigned:
            f.unsigned(0)
        given = (every + 128).astype(np.uint8) if unsigned else every.astype(np.int8)
        data = f.data()
        want = executed(data, given[None])[f"t{y.index}"].reshape(-1)
        with torch.no_grad():
            values = mase_hw.import_model(data).model(torch.from_numpy((every - 11) * float(np.float32(0.02))))
        found = np.rint(values.double().numpy().reshape(-1) / y.scale) + y.zero + 128 * unsigned
        assert (found != want).sum() == 0 and len(np.unique(want)) > 200
