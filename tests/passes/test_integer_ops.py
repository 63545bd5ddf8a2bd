"""Scaled integers that the quantisation chooses: every kind of op takes them, in PyTorch and in hardware.

The reference is the float model: a result is off by the steps of its own format and of what it is computed from, which
the same model in fixed point shows, as no scale of integers is coarser than the power of two that covers its range.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from mase_hw.compiler.stages import quantise_pipeline
from mase_hw.formats import FixedFormat, ScaledFormat
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from tests.passes.test_quantize_integers import integers, modules
from tests.unit.pipeline import EIGHT, OWN_FRAMES, quantised

SIZE = 6


class Layers(nn.Module):
    """A function of the results of linear layers, one for each of its arguments but the given modules."""

    def __init__(self, function: Callable[..., Tensor], *given: nn.Module, count: int = 1) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.layers = nn.ModuleList(nn.Linear(SIZE, SIZE) for _ in range(count))
        self.given, self.function = nn.ModuleList(given), function

    def forward(self, x: Tensor) -> Tensor:
        """``(N, ..., SIZE)`` to what the function gives."""
        return self.function(*self.given, *(layer(x) for layer in self.layers))


def one(function: Callable[[Tensor], Tensor]) -> Callable[[], nn.Module]:
    return lambda: Layers(function)


def two(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], nn.Module]:
    return lambda: Layers(function, count=2)


def through(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: Layers(lambda module, x: module(x), make())


def attention(**given: Any) -> Callable[[], nn.Module]:
    return lambda: Layers(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **given), count=3)


def seeded(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    def made() -> nn.Module:
        torch.manual_seed(5)
        return make()

    return made


ROWS, TOKENS, IMAGES = (64, SIZE), (16, 5, SIZE), (12, 2, 6, 6)
ALLOWED = torch.tensor([[1, 0, 1, 1, 0], [1, 1, 0, 0, 0], [0, 1, 1, 1, 1], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1]]).bool()
NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "layer_norm": (through(lambda: nn.LayerNorm(SIZE)), ROWS),
    "layer_norm_without_weights": (through(lambda: nn.LayerNorm(SIZE, elementwise_affine=False)), ROWS),
    "rms_norm": (through(lambda: nn.RMSNorm(SIZE)), ROWS),
    "group_norm": (seeded(lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4))), IMAGES),
    "instance_norm": (seeded(lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4))), IMAGES),
    "log_softmax": (one(lambda x: torch.log_softmax(x, -1)), ROWS),
    "gelu": (one(F.gelu), ROWS),
    "absolute": (one(torch.abs), ROWS),
    "negative": (one(torch.neg), ROWS),
    "quotient": (two(lambda x, y: x / (y.abs() + 1)), ROWS),
    "divided": (one(lambda x: x / 3.7), ROWS),
    "running_sum": (one(lambda x: torch.cumsum(x, 1)), ROWS),
    "variance": (one(lambda x: x.var(1)), ROWS),
    "length": (one(lambda x: x.norm(dim=1)), ROWS),
    "choice": (one(lambda x: torch.where(x > -9, x, -0.3)), ROWS),
    "largest": (one(lambda x: x.topk(2, 1)[0]), ROWS),
    "steps_differ": (two(lambda x, y: torch.cat((x, 3 * y), 1)), ROWS),
    "bilinear": (seeded(lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.UpsamplingBilinear2d(scale_factor=2))), IMAGES),
    "transposed": (seeded(lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.ConvTranspose2d(3, 2, 3, stride=2))), IMAGES),
    "lstm": (seeded(lambda: Layers(lambda layer, x: layer(x)[0], nn.LSTM(SIZE, 5, batch_first=True))), TOKENS),
    "gru": (seeded(lambda: Layers(lambda layer, x: layer(x)[0], nn.GRU(SIZE, 5, batch_first=True))), TOKENS),
    "attention": (attention(), TOKENS),
    "causal": (attention(is_causal=True), TOKENS),
    "masked": (attention(attn_mask=ALLOWED), TOKENS),
    "gated": (two(lambda x, y: F.silu(x) * y), ROWS),
    "products": (two(lambda x, y: x @ y.transpose(1, 2)), TOKENS),
}  # fmt: skip


def of(name: str) -> tuple[nn.Module, Tensor]:
    make, shape = NETS[name]
    return make().eval(), torch.randn(shape, generator=torch.Generator().manual_seed(7))


def error(net: nn.Module, x: Tensor, config: dict[str, Any]) -> float:
    """Root mean square error as a share of the results' deviation."""
    example = {"input" if isinstance(net, nn.Sequential) else "x": x[:1]}
    graph = quantise_pipeline(example, {"quantize": config}, calibration=[x]).run(MaseGraph(net)).graph
    with torch.no_grad():
        wanted, found = net(x), graph.model(x)
    assert wanted.shape == found.shape
    return float((wanted - found).square().mean().sqrt() / wanted.std())


@pytest.mark.parametrize("affine", [False, True], ids=["symmetric", "affine"])
@pytest.mark.parametrize("name", list(NETS))
def test_as_accurate_as_fixed_point(name: str, affine: bool) -> None:
    """With the same bits."""
    net, x = of(name)
    fixed = error(net, x, EIGHT)
    config = integers(data_affine=affine, weight_granularity="channel")
    assert error(net, x, config) < fixed < 0.1


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_recurrences_of_any_weights(kind: Any) -> None:
    """The part of the input reaches the gates with the bits of its exact sums, as in fixed point."""
    for seed in range(3):
        torch.manual_seed(seed)
        net = Layers(lambda layer, x: layer(x)[0], kind(SIZE, 5, batch_first=True)).eval()
        x = torch.randn(64, 5, SIZE, generator=torch.Generator().manual_seed(seed))
        # A hundredth or so is what CPUs that sum in another order may make of a ratio.
        assert error(net, x, integers(weight_granularity="channel")) < 1.02 * error(net, x, EIGHT)


@pytest.mark.slow
@pytest.mark.parametrize("affine", [False, True], ids=["symmetric", "affine"])
@pytest.mark.parametrize("name", list(NETS))
def test_hardware_has_every_bit(name: str, affine: bool, tmp_path: Path) -> None:
    net, x = of(name)
    simulated(net, x, tmp_path, data_affine=affine, weight_granularity="channel")


def test_a_function_of_wide_data() -> None:
    """More bits than a table takes are segments, as in fixed point."""
    net, x = of("gelu")
    wide = {"data_in_width": 16, "weight_width": 12, "data_out_width": 16}
    fixed = {"default": {"config": {**EIGHT["default"]["config"], **wide, "bias_width": 16}}}
    assert error(net, x, integers(**wide)) < error(net, x, fixed) < 1e-3


def test_a_block_in_hardware(tmp_path: Path) -> None:
    """A norm, an attention with a mask, a GELU and a sum, with 5 bits, zero points and scales by channel."""
    torch.manual_seed(4)
    block = nn.TransformerEncoderLayer(SIZE, 2, 8, activation="gelu", batch_first=True, norm_first=True).eval()
    keys = {"data_in_width": 5, "weight_width": 5, "data_out_width": 5}
    simulated(block, torch.randn(40, 4, SIZE), tmp_path, data_affine=True, weight_granularity="channel", **keys)


def simulated(net: nn.Module, x: Tensor, folder: Path, **keys: Any) -> None:
    config = {"quantize": integers(**keys), **OWN_FRAMES}
    design = mase_hw.compile(net, x[:1], config, out=folder / "design", calibration=[x])
    simulation = design.simulate(x[:5], work_dir=folder / "work", engine="batch", stalls=0.3, seed=3)
    assert simulation.passed and simulation.result.mismatches == 0 and simulation.frames == 5


@pytest.mark.parametrize("seed", range(6))
def test_a_norm_counts_steps_of_its_result(seed: int) -> None:
    """Results are the real function of the integers that are stored, in float64, rounded once to its scale."""
    r = np.random.default_rng(seed)
    width, affine, centred = int(r.integers(3, 11)), bool(seed % 2), seed % 3 != 0
    kind = nn.LayerNorm if centred else nn.RMSNorm
    norm = kind(SIZE, eps=float(r.uniform(1e-6, 1e-2)))
    with torch.no_grad():
        for value in norm.parameters():
            value.copy_(torch.from_numpy(r.uniform(-3, 3, SIZE)))
    net = nn.Sequential(nn.Linear(SIZE, SIZE), norm).eval()
    x = torch.from_numpy(r.standard_normal((400, SIZE))).float()
    graph, _ = quantised(net, x, config=integers(data_affine=affine, data_out_width=width, weight_width=9))
    found = modules(graph)
    module, source = found["_1"], found["_0_requantize"]
    seen: dict[str, Tensor] = {}
    for name, each in (("x", source), ("y", module)):
        each.register_forward_hook(lambda _m, _i, out, name=name: seen.update({name: out.double()}))
    with torch.no_grad():
        graph.model(x)
    formats = module.arithmetic.formats
    assert type(formats["data_out_0"]) is ScaledFormat and formats["data_out_0"].zero_point == 0
    rows = real(source, seen["x"])
    rows = rows - rows.mean(-1, keepdims=True) if centred else rows
    wanted = rows / np.sqrt((rows**2).mean(-1, keepdims=True) + norm.eps) * stored(module, "weight")
    wanted = (wanted + stored(module, "bias") if centred else wanted) / formats["data_out_0"].scale
    codes = np.rint(seen["y"].numpy() / formats["data_out_0"].scale)
    inside = (codes > formats["data_out_0"].min_mantissa) & (codes < formats["data_out_0"].max_mantissa)
    assert inside.mean() > 0.9 and np.abs(codes - wanted)[inside].max() < 0.6
    assert (codes == np.rint(wanted))[inside].mean() > 0.98


def real(module: Quantized, values: Tensor) -> np.ndarray[Any, Any]:
    """Numbers of a module's result, from their integers."""
    fmt = module.arithmetic.formats["data_out_0"]
    return np.rint(values.numpy() / fmt.scale) * fmt.scale


def stored(module: Quantized, name: str) -> np.ndarray[Any, Any]:
    fmt: FixedFormat = module.arithmetic.formats[name]
    return module.kept_mantissa(name).double().numpy() * fmt.scale
