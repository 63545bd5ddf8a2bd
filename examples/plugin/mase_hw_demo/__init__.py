"""A package that adds one of each to mase_hw: an op, a pass, an importer, a device and an engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mase_hw import MaseGraph
from mase_hw.catalogue import Arithmetic
from mase_hw.cost.devices import Device
from mase_hw.errors import SimulationError
from mase_hw.numerics import cast
from mase_hw.passes import PassArgs, graph_pass
from mase_hw.simulate.engines.registry import engine


class HalfRelu(nn.Module):
    """``max(x, 0) / 2``."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape in, the same shape out."""
        return torch.clamp(x, min=0) / 2


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The half of a mantissa is the same integer with one more fraction bit; then one cast."""
    fraction = a.formats["data_in_0"].frac_width + 1
    return {"data_out_0": cast(torch.clamp(t["data_in_0"], min=0), fraction, a.formats["data_out_0"], a.rounding)}


CUSTOM_OPS = {
    "modules": {
        HalfRelu: {
            "args": {"x": "data_in"},
            "toolchain": "EXTERNAL",
            "root": Path(__file__).resolve().parent / "rtl",
            "module": "half_relu",
            "golden": golden,
            "like": "relu",
        }
    }
}


class PruneArgs(PassArgs):
    """Arguments of :func:`prune_weights`."""

    below: float = 0.0


@graph_pass("prune_weights", args=PruneArgs, needs=("add_common_metadata_analysis_pass",))
def prune_weights(graph: MaseGraph, args: PruneArgs) -> tuple[MaseGraph, dict[str, Any]]:
    """Set the weights of linear layers to zero whose magnitude is below a limit."""
    pruned = 0
    for node in graph.nodes:
        module = graph.meta_of(node).module
        if isinstance(module, nn.Linear):
            small = module.weight.detach().abs() < args.below
            module.weight.data[small] = 0
            pruned += int(small.sum())
    return graph, {"pruned": pruned}


def read_npz(path: Path) -> MaseGraph:
    """A network of linear layers with ReLU between them, from arrays ``w0``, ``b0``, ``w1``, ..."""
    layers: list[nn.Module] = []
    with np.load(path) as arrays:
        for index in range(len(arrays.files) // 2):
            weight, bias = (torch.from_numpy(arrays[f"{name}{index}"]).float() for name in "wb")
            linear = nn.Linear(weight.shape[1], weight.shape[0])
            linear.load_state_dict({"weight": weight, "bias": bias})
            layers += [nn.ReLU(), linear]
    network = nn.Sequential(*layers[1:]).eval()
    graph = MaseGraph(network)
    graph.example = {"input": torch.zeros(1, network[0].in_features)}
    return graph


XC7A12T = Device("xc7a12t", "xc7", 8_000, 16_000, 40, 40, "AMD DS180")


class Twice:
    """The batch engine, which must give the same cycles when it plays the same frames again."""

    build = staticmethod(engine("batch").build)

    @staticmethod
    def simulate(built: Any, run_dir: Path, *frames: Any) -> Any:
        """The result of the first run."""
        first, second = (engine("batch").simulate(built, run_dir / name, *frames) for name in ("first", "second"))
        if first.cycles != second.cycles:
            raise SimulationError("two runs differ", got=second.cycles, expected=first.cycles)
        return first
