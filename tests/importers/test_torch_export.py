"""Quantised programs of torch.export: the operations of pt2e, as torch registers them.

What makes such programs is torchao, which the tests do without: the networks call the operations themselves.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers the operations
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import UnsupportedError
from tests.ir.nets import Of

OPS: Any = torch.ops.quantized_decomposed
Numbers = tuple[float, int]


class Net(nn.Module):
    """Depthwise and strided convolutions with a scale for each channel, a sum, a pool, a layer with a bias of floats.

    Args:
        coarse: Scales are powers of two, so that float32 is exact.
        wide: Computes in float64, with a division in the place of the operations' product with 1 / scale.
    """

    def __init__(self, coarse: bool = False, wide: bool = False) -> None:
        super().__init__()
        r = torch.Generator().manual_seed(3)
        self.wide = wide
        for name, shape in (("first", (4, 3, 3, 2)), ("second", (4, 1, 3, 3)), ("last", (3, 24))):
            scales = torch.rand(shape[0], generator=r) * 0.01 + 0.004
            scales = 2.0 ** scales.log2().round() if coarse else scales
            self.register_buffer(f"{name}_codes", torch.randint(-127, 128, shape, generator=r, dtype=torch.int8))
            self.register_buffer(f"{name}_scales", scales)
            self.register_buffer(f"{name}_zeros", torch.zeros(shape[0], dtype=torch.int64))
        bias = torch.randn(3, generator=r)
        self.bias = nn.Parameter((bias * 256).round() / 256 if coarse else bias)
        steps = [0.021, 0.05, 0.2, 0.15, 0.8]
        self.steps = [2.0 ** round(torch.tensor(s).log2().item()) if coarse else s for s in steps]

    def through(self, x: Tensor, at: int, zero: int, low: int = 0, high: int = 255) -> Tensor:
        step, dtype = self.steps[at], torch.uint8 if low >= 0 else torch.int8
        if self.wide:
            return ((x / step).round() + zero).clamp(low, high).sub(zero) * step
        codes = OPS.quantize_per_tensor(x, step, zero, low, high, dtype)
        return OPS.dequantize_per_tensor(codes, step, zero, low, high, dtype)  # type: ignore[no-any-return]

    def weight(self, name: str) -> Tensor:
        codes, scales, zeros = (getattr(self, f"{name}_{part}") for part in ("codes", "scales", "zeros"))
        if self.wide:
            return codes.double() * scales.double().reshape(-1, *[1] * (codes.dim() - 1))
        return OPS.dequantize_per_channel(codes, scales, zeros, 0, -127, 127, torch.int8)  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        """``(1, 3, 7, 6)`` -> ``(1, 3)``."""
        bias = self.bias.double() if self.wide else self.bias
        x = self.through(x, 0, 118)
        x = self.through(F.relu(F.conv2d(x, self.weight("first"), None, (1, 2), (1, 1))), 1, 0)
        y = self.through(F.conv2d(x, self.weight("second"), None, 1, 1, 1, 4), 2, -7, -128, 127)
        x = F.max_pool2d(F.relu(x + y), (2, 2))
        x = self.through(x.flatten(1), 3, 0)
        return self.through(F.linear(x, self.weight("last"), bias), 4, 3, -30, 40)


def program(net: nn.Module, dynamic: bool = False) -> Any:
    open_batch = ({0: torch.export.Dim("n", min=1)},) if dynamic else None
    with torch.no_grad():
        return torch.export.export(net.eval(), (torch.zeros(1 + dynamic, 3, 7, 6),), dynamic_shapes=open_batch)


def frames(count: int, step: float) -> Tensor:
    """Half steps of the first scale: many are ties."""
    drawn = torch.randint(-250, 250, (count, 3, 7, 6), generator=torch.Generator().manual_seed(8))
    return drawn * step / 2


def run(net: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cat([net(frame[None]) for frame in x])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("module", [False, True])
def test_every_number_ties_included(dynamic: bool, module: bool) -> None:
    """Of a program, or its module, for one frame or any number of them."""
    net = Net(coarse=True)
    x = frames(24, net.steps[0])
    want, made = run(net, x), program(net, dynamic)
    graph = mase_hw.import_model(made.module() if module else made)
    assert torch.equal(graph.model(x), want) and graph.example["x"].shape[0] == 1
    assert len(want.unique()) > 20


def test_any_scale() -> None:
    """As float64 computes it; the operations multiply with 1 / scale in float32, which may move a number by one."""
    net, wide = Net(), Net(wide=True)
    x = torch.randn(40, 3, 7, 6, generator=torch.Generator().manual_seed(2)) * 2
    found = mase_hw.import_model(program(net)).model(x).double()
    want = run(wide, x.double())
    assert torch.equal((found / net.steps[4]).round(), (want / net.steps[4]).round())
    assert len(want.unique()) > 30
    off = ((found - run(net, x)) / net.steps[4]).round().abs()
    assert off.max() <= 1 and (off > 0).double().mean() <= 1e-2


@pytest.mark.slow
def test_in_hardware(tmp_path: Path) -> None:
    graph = mase_hw.import_model(program(Net()))
    x = torch.randn(2, 3, 7, 6, generator=torch.Generator().manual_seed(2))
    result = mase_hw.compile(graph, graph.example, out=tmp_path / "design").simulate(x, engine="batch")
    assert result.passed and result.result.mismatches == 0 and result.result.beats_compared > 0
    with torch.no_grad():
        assert torch.equal(result.outputs["data_out_0"], graph.model(x).double())


def quantised(x: Tensor, step: float = 0.1, low: int = -128) -> Tensor:
    return OPS.quantize_per_tensor(x, step, 0, low, 127, torch.int8)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: quantised(x), "a result of the program is quantised integers"),
        (lambda x: OPS.dequantize_per_tensor(quantised(x), 0.2, 0, -128, 127, torch.int8), "quantised with other"),
        (lambda x: quantised(x).float(), "it computes with quantised integers"),
        (lambda x: OPS.dequantize_per_tensor(quantised(x, -0.1), -0.1, 0, -128, 127, torch.int8), "a scale of -0.1"),
    ],
)
def test_refused(function: Callable[[Tensor], Tensor], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        mase_hw.import_model(program(Of(function)))


class FakeQuantised(nn.Module):
    """A layer trained with rounding, which its program has as operations that give floats."""

    def __init__(self, data: bool) -> None:
        super().__init__()
        self.layer, self.data = nn.Linear(6, 3), data
        self.register_buffer("scales", torch.tensor([0.1, 0.2, 0.3]))
        self.register_buffer("zeros", torch.zeros(3, dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        if self.data:
            return F.linear(torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127), self.layer.weight)
        weight = torch.fake_quantize_per_channel_affine(self.layer.weight, self.scales, self.zeros, 0, -127, 127)
        return F.linear(x, weight)


@pytest.mark.parametrize("data", [True, False])
@pytest.mark.parametrize("as_program", [True, False])
def test_fake_quantisation_is_never_left_out(data: bool, as_program: bool, tmp_path: Path) -> None:
    model, x = FakeQuantised(data).eval(), torch.randn(4, 6)
    with pytest.raises(UnsupportedError, match=f"fake_quantize_per_{'tensor' if data else 'channel'}_affine"):
        if as_program:
            mase_hw.import_model(torch.export.export(model, (x[:1],)))
        else:
            mase_hw.compile(model, x[:1], out=tmp_path / "design", calibration=[x])


def test_dynamic_scales_are_refused() -> None:
    def dynamic(x: Tensor) -> Tensor:
        step, zero = OPS.choose_qparams.tensor(x, -128, 127, 1e-6, torch.int8)
        codes = OPS.quantize_per_tensor.tensor(x, step, zero, -128, 127, torch.int8)
        return OPS.dequantize_per_tensor.tensor(codes, step, zero, -128, 127, torch.int8)  # type: ignore[no-any-return]

    with pytest.raises(UnsupportedError, match="computed from each input"):
        mase_hw.import_model(program(Of(dynamic)))


def test_compile_says_who_takes_it(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="import_model"):
        mase_hw.compile(program(Net()), torch.zeros(1, 3, 7, 6), out=tmp_path / "design")
