"""Conversions to the types of the Microscaling specification, beside what two other libraries make of the same."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mase_hw.errors import FormatError
from mase_hw.numerics import quantize
from mase_hw.passes.quantize.config import NodeConfig
from mase_hw.passes.quantize.formats import block_weights
from tests.passes.test_quantize_blocks import blocks
from tests.unit.pipeline import inputs, quantised

BLOCK = 32
KINDS = {
    "e5m2": ("float8_e5m2", 15),
    "e4m3": ("float8_e4m3fn", 8),
    "e3m2": ("float6_e3m2fn", 4),
    "e2m3": ("float6_e2m3fn", 2),
    "e2m1": ("float4_e2m1fn", 2),
}
"""What ml_dtypes calls an element, and the exponent of its largest number."""


def converted(weight: Tensor, element: str) -> Tensor:
    """The values that hardware multiplies by."""
    keys = {"name": "mxfp", "weight_element": element} if element else {"name": "mxint", "weight_width": 8}
    fmt, shifts = block_weights("layer", weight, NodeConfig(**keys, weight_block_size=BLOCK), {})
    factor = fmt.spread(fmt.factors(shifts).double(), weight.shape)
    return quantize(weight.double() / factor, fmt).double() * factor * fmt.scale


def drawn(seed: int) -> Tensor:
    """Blocks of several magnitudes, one of zeros, one of powers of two, and what rounds to the next one."""
    draw = torch.Generator().manual_seed(seed)
    weight = torch.randn(16, 4, BLOCK, generator=draw) * 2.0 ** torch.randint(-6, 1, (16, 4, 1), generator=draw)
    weight[0, 0] = 0.0
    weight[1, 1] = 2.0 ** -torch.arange(BLOCK, dtype=torch.float32)
    weight[2, 2, :4] = torch.tensor([1.99, -1.97, 1.9375, 1.875])
    return weight.reshape(16, 4 * BLOCK)


@pytest.mark.parametrize("element", ["", *KINDS])
def test_as_ml_dtypes(element: str) -> None:
    """Section 6.3: the scale is a number of E8M0 and never its NaN, elements are those of the library."""
    weight = drawn(3).numpy().astype(np.float64).reshape(-1, BLOCK)
    kind, most = KINDS.get(element, ("", 0))
    peaks = np.abs(weight).max(1, keepdims=True)
    exponents = np.where(peaks > 0, np.frexp(peaks)[1] - 1 - most, 0)
    scale = np.exp2(exponents.astype(np.float64)).astype(ml_dtypes.float8_e8m0fnu)
    assert not np.isnan(scale.astype(np.float64)).any()
    scaled = weight / scale.astype(np.float64)
    if element:
        dtype = getattr(ml_dtypes, kind)
        largest = float(ml_dtypes.finfo(dtype).max)
        values = np.clip(scaled, -largest, largest).astype(np.float32).astype(dtype).astype(np.float64)
    else:
        values = np.clip(np.rint(scaled * 64), -127, 127) / 64
    wanted = values * scale.astype(np.float64)
    assert converted(drawn(3), element).reshape(-1, BLOCK).tolist() == wanted.tolist()


@pytest.mark.parametrize("element", KINDS)
def test_as_torchao(element: str) -> None:
    """Where it is installed: its rounding of scales downwards is that of the specification."""
    mx = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")
    constants = pytest.importorskip("torchao.prototype.mx_formats.constants")
    kinds = {
        "e5m2": torch.float8_e5m2,
        "e4m3": torch.float8_e4m3fn,
        "e3m2": constants.DTYPE_FP6_E3M2,
        "e2m3": constants.DTYPE_FP6_E2M3,
        "e2m1": torch.float4_e2m1fn_x2,
    }
    for seed in range(3):
        weight = drawn(seed)
        scale, data = mx.to_mx(weight, kinds[element], BLOCK, mx.ScaleCalculationMode.FLOOR)
        back = mx.to_dtype(data, scale, kinds[element], BLOCK, torch.float32)
        assert torch.equal(converted(weight, element), back.double())


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["mxint", "mxfp", "block_fp", "minifloat_ieee"])
def test_what_would_have_the_scale_of_nan_is_refused(name: str, value: float) -> None:
    net = nn.Sequential(nn.Linear(32, 2))
    with torch.no_grad():
        net[0].weight[1, 7] = value
    keys = {"minifloat_ieee": {"weight_exponent_width": 4}}.get(name, {})
    with pytest.raises(FormatError, match="finite"):
        quantised(net, inputs(4, 32), config=blocks(name=name, weight_width=8, **keys))
