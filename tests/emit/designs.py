"""Models that make every kind of connector: fork, width converter, cast, memories, several ports."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.unit.pipeline import FIXED, inputs, rule, seeded


class Tiny(nn.Module):
    """One layer, then two heads, one of them without bias and in another format."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.relu = nn.Linear(4, 6), nn.ReLU()
        self.left, self.right = nn.Linear(6, 2), nn.Linear(6, 3, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.relu(self.fc(x))
        return self.left(x), self.right(x)


class Small(nn.Module):
    """One of every connector around one layer: short enough to read its hardware."""

    def __init__(self) -> None:
        super().__init__()
        self.relu, self.fc = nn.ReLU(), nn.Linear(4, 2, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.relu(x)
        return self.fc(x), x


class TwoInputs(nn.Module):
    """Two inputs, a view in front of one, and an input that is also an output."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(6, 2)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.a(x), self.b(y.view(2, 6))


class Clash(nn.Module):
    """Names that look like those of the nets, memories and connectors of other nodes, or like keywords."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.fc_valid, self.fc_weight = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.fc_0, self.fc_repack, self.fc_fork = nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 4)
        self.fc_repacked, self.always, self.data_in_0, self.fc_cast = nn.ReLU(), nn.ReLU(), nn.ReLU(), nn.ReLU()

    def forward(self, clk: Tensor) -> tuple[Tensor, Tensor]:
        fc = self.fc(clk)
        left = self.fc_weight(self.fc_valid(self.fc_0(fc)))
        right = self.fc_repacked(self.fc_fork(self.fc_repack(fc)))
        return self.fc_cast(self.always(left)), self.data_in_0(right)


TINY: dict[str, Any] = {
    "top": "tiny",
    "quantize": {**FIXED, "overrides": {"right": rule(data_in_width=6, data_in_frac_width=2, rounding="floor")}},
    "hardware": {
        "parallelism": {
            "fc": {"data_in_0": 2, "data_out_0": 3},
            "left": {"data_in_0": 3, "data_out_0": 1},
            "right": {"data_in_0": 4, "data_out_0": 2},
        }
    },
}

SMALL: dict[str, Any] = {
    "quantize": {**FIXED, "overrides": {"fc": rule(data_in_width=6, data_in_frac_width=2)}},
    "hardware": {"parallelism": {"relu": {"data_in_0": 4}, "fc": {"data_in_0": 3, "data_out_0": 2}}},
}

DESIGNS: dict[str, tuple[nn.Module, tuple[Tensor, ...], dict[str, Any]]] = {
    "small": (seeded(Small), (inputs(1, 4),), SMALL),
    "tiny": (seeded(Tiny), (inputs(1, 4),), TINY),
    "two_inputs": (seeded(TwoInputs), (inputs(3, 4), inputs(2, 2, 3)), {"hardware": {"max_parallelism": 4}}),
    "no_memory": (nn.Sequential(nn.ReLU()), (inputs(2, 5),), {"hardware": {"max_parallelism": 2}}),
    "clash": (
        seeded(Clash),
        (inputs(2, 4),),
        {
            "quantize": {**FIXED, "overrides": {"fc_repack": rule(data_in_width=6)}},
            "hardware": {
                "max_parallelism": 2,
                "parallelism": {"fc_repack": {"data_in_0": 3}, "fc_valid": {"data_in_0": 1}},
            },
        },
    ),
    "serial": (seeded(Tiny), (inputs(1, 4),), {"hardware": {"max_parallelism": 1}}),
    "scalar": (nn.Sequential(nn.Linear(1, 1)).eval(), (torch.ones(1, 1),), {}),
}
"""Model, example inputs and configuration by name."""
