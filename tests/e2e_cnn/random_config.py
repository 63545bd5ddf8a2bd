"""Random formats and lanes for a network."""

from __future__ import annotations

import random
from typing import Any

from torch import nn

from mase_hw.ir import MaseGraph

from .random_steps import RandomNet


def _widths(rng: random.Random, weights: bool) -> dict[str, Any]:
    """Bits of one node, two to sixteen."""

    def bits() -> int:
        return rng.choice([2, 3, 4, 5, 6, 7, 8, 8, 9, 10, 12, 16])

    found: dict[str, Any] = {"data_out_width": bits()}
    if rng.random() < 0.3:
        found["data_in_width"] = bits()
    if weights:
        found |= {"weight_width": bits(), "bias_width": bits()}
        if rng.random() < 0.35:
            found["weight_granularity"] = "channel"
    if rng.random() < 0.15:
        found["data_out_frac_width"] = found["data_out_width"] - rng.randint(1, 3)
    if rng.random() < 0.3:
        found["rounding"] = rng.choice(["half_even", "half_up", "floor", "trunc", "half_away"])
    if rng.random() < 0.2:
        found["overflow"] = "wrap"
    return found


def _lanes(rng: random.Random, layer: nn.Module) -> dict[str, int]:
    """Lanes of one layer, whether or not they divide its sizes; fewer are possible where channels have groups."""
    if isinstance(layer, nn.Linear):
        return {"data_in_0": rng.randint(1, layer.in_features), "data_out_0": rng.randint(1, layer.out_features)}
    assert isinstance(layer, nn.Conv1d | nn.Conv2d)
    inside, outside = layer.in_channels // layer.groups, layer.out_channels // layer.groups
    if layer.groups == layer.in_channels == layer.out_channels:
        lanes = rng.randint(1, layer.groups)
        return {"data_in_0": lanes, "data_out_0": lanes}
    if layer.groups == 1:
        return {"data_in_0": rng.randint(1, inside), "data_out_0": rng.randint(1, outside)}
    return {
        "data_in_0": rng.choice([d for d in range(1, inside + 1) if inside % d == 0]),
        "data_out_0": rng.choice([d for d in range(1, outside + 1) if outside % d == 0]),
    }


def configuration(net: RandomNet, seed: int) -> dict[str, Any]:
    """Formats and lanes for a network: some for all nodes, others for single ones."""
    rng = random.Random(f"configuration {seed}")
    default = {"name": "fixed", "data_in_width": 8, "weight_width": rng.randint(4, 8), "bias_width": 8}
    default["data_out_width"] = rng.choice([6, 8, 8, 10])
    overrides: dict[str, Any] = {}
    parallelism: dict[str, Any] = {}
    for node in MaseGraph(net).nodes:
        layer = net.get_submodule(str(node.target)) if node.op == "call_module" else None
        if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Linear):
            if rng.random() < 0.6:
                overrides[node.name] = {"config": _widths(rng, weights=True)}
            if rng.random() < 0.5 or (isinstance(layer, nn.Conv1d | nn.Conv2d) and layer.groups > 1):
                parallelism[node.name] = _lanes(rng, layer)
        elif node.name.split("_")[0] in ("add", "sub", "mul", "cat") and rng.random() < 0.4:
            overrides[node.name] = {"config": _widths(rng, weights=False)}
    return {
        "fold_batch_norm": rng.random() < 0.8,
        "quantize": {"default": {"config": default}, "overrides": overrides},
        "hardware": {"max_parallelism": rng.randint(1, 5), "parallelism": parallelism},
    }
