"""Nothing honest is refused: every op at every width, designs of a few bits, element types, numbers that cancel."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.compiler.config import load_config
from mase_hw.compiler.exact import Exact
from mase_hw.compiler.quantised_graph import quantised_graph
from mase_hw.errors import GraphError
from mase_hw.ir import MaseGraph
from mase_hw.passes.quantize.quantize import quantize_transform_pass
from tests.e2e.designs import DESIGNS
from tests.e2e_cnn.nets import MobileNetV2, ResNet, ready
from tests.e2e_cnn.random_nets import random_case
from tests.ir.nets import Of
from tests.unit.pipeline import WIDTHS, calibrated, inputs, rule

VECTOR, VECTORS = inputs(1, 6), [inputs(20, 6, seed=2), inputs(3, 6, seed=3, scale=3.0)]
IMAGE, IMAGES = inputs(1, 3, 6, 6), [inputs(7, 3, 6, 6, seed=2)]


def quantised(model: nn.Module, example: Any, data: Any, config: Any = None) -> MaseGraph:
    return quantised_graph(model, example, load_config(config), data, None, lambda _: None)


def bits(width: int, **more: Any) -> dict[str, Any]:
    return {"quantize": {"default": rule(**{**dict.fromkeys(WIDTHS, width), "weight_width": max(2, width), **more})}}


def norm() -> nn.Module:
    made = nn.BatchNorm2d(3)
    made.running_mean, made.running_var = torch.tensor([0.5, -1.0, 0.1]), torch.tensor([0.3, 2.0, 1e-4])
    return made


FUNCTIONS: list[Callable[[], nn.Module]] = [
    nn.Sigmoid, nn.Tanh, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish, nn.Softplus, nn.Softsign,
    nn.LogSigmoid, nn.Tanhshrink, nn.ReLU6, nn.LeakyReLU, nn.Hardshrink, nn.Softshrink, nn.Hardsigmoid, nn.PReLU,
    nn.ReLU, lambda: nn.Hardtanh(-2, 1.5), lambda: nn.Threshold(0.3, -2.0), lambda: nn.ReLU(inplace=True),
    lambda: nn.Linear(6, 4), lambda: Of(torch.erf), lambda: Of(torch.neg), lambda: Of(torch.abs),
    lambda: Of(lambda x: x.clamp(-0.5, 1)), lambda: Of(lambda x: x * 0.7 + 0.3), lambda: Of(lambda x: 1 - x),
    lambda: Of(lambda x: torch.maximum(x, -x) * torch.minimum(x, x * 0.5)), lambda: Of(lambda x: x + x),
    lambda: Of(lambda x: torch.cat([x, x * 0.5], 1)), lambda: Of(lambda x: x.chunk(2, 1)[1].relu()),
]  # fmt: skip
POSITIVE = [torch.sqrt, torch.rsqrt, torch.log, torch.reciprocal, torch.exp]
IMAGE_OPS: list[Callable[[], nn.Module]] = [
    lambda: nn.Conv2d(3, 4, 3, padding=1), lambda: nn.Conv2d(3, 6, 3, groups=3, stride=2), norm,
    lambda: nn.MaxPool2d(2), lambda: nn.AvgPool2d(3, 1, 1), lambda: nn.AdaptiveAvgPool2d(2), lambda: nn.ZeroPad2d(1),
    lambda: nn.AdaptiveMaxPool2d(3), lambda: nn.Upsample(scale_factor=2), lambda: nn.PReLU(3),
    lambda: Of(lambda x: x.mean((2, 3))),
]  # fmt: skip


@pytest.mark.parametrize("width", [1, 3, 16])
def test_every_op(width: int) -> None:
    torch.manual_seed(width)
    for make in FUNCTIONS:
        quantised(nn.Sequential(make()).eval(), VECTOR, VECTORS, bits(width))
    for function in POSITIVE:
        quantised(Of(function), VECTOR.abs() + 0.01, [v.abs() + 0.01 for v in VECTORS], bits(width))
    for make in IMAGE_OPS:
        quantised(nn.Sequential(make()).eval(), IMAGE, IMAGES, bits(width))
        folded = nn.Sequential(nn.Conv2d(3, 3, 1), norm(), nn.ReLU(), make())
        quantised(folded.eval(), IMAGE, IMAGES, bits(width))
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 1)).eval()
    quantised(model, IMAGE, IMAGES, bits(width, weight_granularity="channel"))
    wraps = {"rounding": "floor", "overflow": "wrap", "weight_frac_width": width, "data_out_frac_width": width}
    quantised(model, IMAGE, IMAGES, bits(width, **wraps))


@pytest.mark.parametrize("name", DESIGNS)
def test_designs(name: str) -> None:
    """As they are, and with two or three bits everywhere."""
    case = DESIGNS[name]
    for config in (case.config, bits(3), bits(2)):
        quantised(case.model, case.example, [case.frames(8)], config)
        quantised(case.model, case.example, None, config)


@pytest.mark.parametrize("seed", range(30))
def test_random_networks(seed: int) -> None:
    case = random_case(seed)
    quantised(case.net, [x[: case.batch] for x in case.inputs], [tuple(case.inputs)], case.config)


@pytest.mark.parametrize("model", [MobileNetV2, ResNet])
def test_deep_networks(model: type[nn.Module]) -> None:
    x = inputs(9, 3, 32, 32)
    quantised(ready(model()), x[:1], [x[:4], x[4:]], bits(4))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_types(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    layers = [nn.Conv2d(3, 8, 3), norm_of(8), nn.ReLU(), nn.Sigmoid(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(32, 4)]
    quantised(nn.Sequential(*layers).eval().to(dtype), IMAGE.to(dtype), [IMAGES[0].to(dtype)])


def norm_of(channels: int) -> nn.BatchNorm2d:
    torch.nn.init.uniform_((made := nn.BatchNorm2d(channels)).running_var, 0.5, 2.0)  # type: ignore[arg-type]
    return made


def test_sums_that_cancel() -> None:
    """Every product comes twice with nearly opposite weights: much of the float result is rounding."""
    torch.manual_seed(1)
    model = nn.Linear(128, 3, bias=False)
    half, order = torch.randn(3, 64), torch.randperm(128)
    model.weight.data = torch.cat([half, 1e-5 - half], 1)[:, order]
    data = (torch.randn(5, 64) * 1000).repeat(1, 2)[:, order]
    with torch.no_grad():
        error = (model(data).double() - data.double() @ model.weight.double().T).abs().max()
        assert error > 1e-3 * model(data).abs().max(), "floats are exact enough here"
    quantised(nn.Sequential(model).eval(), data[:1], [data], bits(12))
    # With inputs as wide as these, weights have 16 bits for the comparison, and no more.
    quantised(nn.Sequential(model).eval(), data[:1], [data], bits(12, data_in_width=40))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_very_small_and_very_large_numbers(scale: float) -> None:
    torch.manual_seed(1)
    quantised(nn.Sequential(nn.Linear(6, 5, bias=False), nn.ReLU()).eval(), VECTOR * scale, [VECTORS[0] * scale])


def test_float_nodes_in_between() -> None:
    """A node left in float gives its reader numbers that are on no grid; the reader's own are compared."""
    model = nn.Sequential(nn.Linear(6, 5), nn.Sigmoid(), nn.Linear(5, 3)).eval()
    config = bits(3)
    config["quantize"]["overrides"] = {"_0": {"config": {"name": None}}}
    quantised(model, VECTOR, VECTORS, config)


def test_a_graph_that_is_wired_otherwise() -> None:
    """The comparison follows the float graph's edges: a reader that is connected to something else is found."""
    torch.manual_seed(1)

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.c(self.a(x)) + self.c(self.b(x))

    graph = calibrated(Two().eval(), VECTORS[0])
    exact = Exact(graph)
    graph, _ = quantize_transform_pass(graph, bits(8)["quantize"])
    exact.check(graph, [{"x": VECTORS[0]}])
    graph.node("c_1").replace_input_with(graph.node("b"), graph.node("a"))
    graph.model.recompile()
    with pytest.raises(GraphError, match="computes something else"):
        exact.check(graph, [{"x": VECTORS[0]}])


@pytest.mark.parametrize("rows", [1, 3])
def test_a_model_with_the_size_of_its_example(rows: int) -> None:
    """Written into it: batches of another size do not go through, and the first frames of several are no batch."""
    model = nn.Sequential(Of(lambda x: x.reshape(rows, 12)), nn.Linear(12, 3))
    data = [inputs(rows, 3, 4, seed=seed) for seed in range(6)]
    quantised(model.eval(), data[0], data)


def test_custom_ops() -> None:
    """A user's golden may be an approximation, but not of something else."""
    leaky = load("examples/custom_op/leaky_shift.py")
    entry = next(iter(leaky.CUSTOM_OPS["modules"].values()))
    data = inputs(40, 12)

    def times(factor: int, of: int) -> Any:
        def golden(a: Any, t: Any) -> Any:
            return {name: (value * factor / of).round() for name, value in leaky.golden(a, t).items()}

        ops = {"modules": {leaky.LeakyShift: {**entry, "golden": golden}}}
        return quantised_graph(leaky.network(), data[:1], load_config(None), [data], ops, lambda _: None)

    for factor, of in ((1, 1), (7, 8), (9, 8)):
        times(factor, of)
    for factor, of in ((-1, 1), (1, 2), (3, 2)):
        with pytest.raises(GraphError, match="golden of a custom op") as caught:
            times(factor, of)
        assert caught.value.expected == "10 dB" and caught.value.node == "_1"


def load(file: str) -> ModuleType:
    """A file of the repository as a module."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, Path(__file__).resolve().parents[2] / file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_functional_models() -> None:
    """Stored weights, constants that are reshaped on their way, and in-place operations."""

    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.scale = nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.rand(2, 2) + 0.5)
            self.register_buffer("offset", torch.randn(4))

        def forward(self, x: Tensor) -> Tensor:
            y = F.linear(x, self.weight) + self.offset
            y += 0.25
            return F.relu_(y) * self.scale.reshape(1, 4)

    torch.manual_seed(1)
    for width in (2, 8):
        quantised(Functional().eval(), VECTOR, VECTORS, bits(width))
