"""The passes in order, the graph verified after each; and the small networks the tests of passes share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.catalogue import Catalogue, OpDef, default_catalogue
from mase_hw.ir import MaseGraph
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    calibrate_analysis_pass,
    init_metadata_analysis_pass,
    verify_analysis_pass,
)
from mase_hw.passes.mapping.add_hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.quantize.quantize import quantize_transform_pass
from tests.ir.nets import assert_json

WIDTHS = {"data_in_width": 8, "weight_width": 8, "bias_width": 8, "data_out_width": 8}
FRACS = {"data_in_frac_width": 4, "weight_frac_width": 6, "bias_frac_width": 6, "data_out_frac_width": 4}


def rule(**keys: Any) -> dict[str, Any]:
    """MASE's wrapping of a configuration."""
    return {"config": {"name": "fixed", **keys}}


OWN_FRAMES: dict[str, Any] = {"vectors": {"frames": 1, "faults": 1}}
"""For a design that a test simulates with its own frames: choosing some takes longer than all the rest of compiling."""
EIGHT = {"default": rule(**WIDTHS)}
"""8 bits everywhere, fraction widths from observed ranges."""
RANGES = {"method": "min_max", "weight_method": "min_max"}
"""A calibration after which formats hold all that was seen."""
FIXED = {"default": rule(**WIDTHS, **FRACS)}
"""8 bits everywhere, fraction widths given."""


class MLP(nn.Module):
    """Two layers and a ReLU; odd sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.relu, self.fc2 = nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.relu(self.fc1(x)))


class Functional(nn.Module):
    """Every form an op can have in a graph but a module: functions with get_attr weights, a method, implicit ops."""

    def __init__(self) -> None:
        super().__init__()
        self.w1, self.b1 = nn.Parameter(torch.randn(5, 12)), nn.Parameter(torch.randn(5))
        self.register_buffer("w2", torch.randn(4, 5))
        self.inner = nn.Module()
        self.inner.w3 = nn.Parameter(torch.randn(3, 4))
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.linear(x.view(x.size(0), -1), self.w1, self.b1)
        x = F.linear(F.relu(self.drop(x)), self.w2)
        return F.linear(x.relu().reshape(x.shape[0], 4), self.inner.w3)


class Heads(nn.Module):
    """One input, two layers that want it in different formats."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 4), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.a(x), self.b(x)


class Twice(nn.Module):
    """One module at two places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.shared = nn.Linear(6, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.shared(self.shared(self.first(x)))


def halve(x: Tensor) -> Tensor:
    """A function of nobody's catalogue."""
    return x / 2


class Halves(nn.Module):
    """A layer, and an op that only :func:`catalogue_with_halve` knows."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return halve(self.fc(x))


def catalogue_with_halve() -> Catalogue:
    """The catalogue with an op that has neither golden nor hardware."""
    return default_catalogue().extended([OpDef(name="halve", mase_type="builtin_func", functions=(halve,))])


def seeded(kind: type[nn.Module], seed: int = 0) -> Any:
    """A network with fixed weights, in evaluation mode."""
    torch.manual_seed(seed)
    return kind().eval()


def inputs(*shape: int, seed: int = 1, scale: float = 1.0) -> Tensor:
    """Fixed normal numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale


def steps(values: Tensor) -> Tensor:
    """Rounded to 16ths: floats add products of such numbers exactly, in whatever order a CPU takes them."""
    return torch.round(values * 16) / 16


def coarse(model: Any) -> Any:
    """The same network with parameters in 16ths."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(steps(parameter))
    return model


def annotated(model: nn.Module, *tensors: Tensor, catalogue: Catalogue | None = None) -> MaseGraph:
    """Initialised and common metadata."""
    graph, _ = init_metadata_analysis_pass(MaseGraph(model, catalogue=catalogue))
    names = [str(n.target) for n in graph.nodes if n.op == "placeholder"]
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": dict(zip(names, tensors, strict=True))})
    verify_analysis_pass(graph)
    return graph


def calibrated(model: nn.Module, *tensors: Tensor) -> MaseGraph:
    """The same, and ranges observed on the same tensors."""
    graph, _ = calibrate_analysis_pass(annotated(model, *tensors), {"data": [tensors], **RANGES})
    verify_analysis_pass(graph)
    return graph


def quantised(
    model: nn.Module, *tensors: Tensor, config: Mapping[str, Any] = EIGHT
) -> tuple[MaseGraph, dict[str, Any]]:
    """The same, quantised."""
    graph, info = quantize_transform_pass(calibrated(model, *tensors), config)
    assert_json(info)
    verify_analysis_pass(graph)
    return graph, info


def mapped(
    model: nn.Module, *tensors: Tensor, config: Mapping[str, Any] = EIGHT, hardware: Mapping[str, Any] | None = None
) -> tuple[MaseGraph, dict[str, Any]]:
    """The same, with hardware metadata."""
    graph, _ = quantised(model, *tensors, config=config)
    graph, info = add_hardware_metadata_analysis_pass(graph, hardware)
    assert_json(info)
    verify_analysis_pass(graph)
    return graph, info


def formats(graph: MaseGraph, node: str) -> dict[str, str]:
    """Formats of a node by tensor name, as the metadata has them after a pass."""
    common = graph.meta_of(graph.node(node)).common
    tensors = {**common.args.tensors, **common.results.tensors}
    return {name: str(tensor.fmt) for name, tensor in tensors.items() if tensor.fmt is not None}


def sequence(*layers: nn.Module) -> Callable[[], nn.Module]:
    """What makes such a net, with new weights each time: those of the layers are of no known seed."""

    def make() -> nn.Module:
        model = nn.Sequential(*copy.deepcopy(layers))
        for layer in model:
            if isinstance(getattr(layer, "weight", None), Tensor):
                layer.reset_parameters()  # type: ignore[operator]
        return model

    return make
