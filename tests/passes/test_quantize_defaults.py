"""Widths that nobody gave: a bias has the bits of its exact sum, and what leaves the model has 16."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw.compiler.config import LEAVING, load_config
from mase_hw.compiler.quantised_graph import quantised_graph
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from tests.ir.nets import With
from tests.unit.pipeline import rule


class Net(nn.Module):
    """Two layers; the second one's result leaves in another shape, or is read once more."""

    def __init__(self, twice: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.fc1, self.relu, self.fc2 = nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4)
        self.twice = twice

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc2(self.relu(self.fc1(x)))
        return self.relu(y) if self.twice else y.reshape(-1, 2, 2)


def quantised(net: nn.Module, **quantize: Any) -> MaseGraph:
    config = {"quantize": quantize} if quantize else None
    return quantised_graph(net, torch.randn(1, 6), load_config(config), [torch.randn(64, 6)], None, lambda _: None)


def arithmetic(graph: MaseGraph, name: str) -> dict[str, Any]:
    module = graph.meta_of(graph.node(name)).module
    assert isinstance(module, Quantized)
    return dict(module.arithmetic.formats)


def test_a_bias_loses_nothing() -> None:
    net = Net()
    with torch.no_grad():
        net.fc1.bias.copy_(torch.tensor([3.0, -0.7, 1e-5, 0.1, 2.0]))
    formats = arithmetic(quantised(net), "fc1")
    bias = formats["bias"]
    products = formats["data_in_0"].frac_width + formats["weight"].frac_width
    assert bias.frac_width == products, "its LSB is that of the sum it enters"
    assert bias.min_value <= -0.7 and bias.max_value >= 3.0 > bias.max_value / 2, "and no bit is idle"


def test_a_bias_has_no_more_bits_than_configured() -> None:
    net = Net()
    with torch.no_grad():
        net.fc1.bias.fill_(5.0)
    limited = {"default": rule(data_in_width=8, weight_width=8, data_out_width=8, bias_width_limit=7)}
    bias = arithmetic(quantised(net, **limited), "fc1")["bias"]
    assert (bias.width, bias.frac_width) == (7, 3), "5.0 needs 3 bits and a sign"
    told = {"default": rule(bias_width=6)}
    assert arithmetic(quantised(net, **told), "fc1")["bias"].width == 6
    coarse = {"default": rule(bias_frac_width=2)}
    bias = arithmetic(quantised(net, **coarse), "fc1")["bias"]
    assert (bias.width, bias.frac_width) == (6, 2), "5.0 in quarters"


def test_a_bias_of_zeros() -> None:
    net = Net()
    nn.init.zeros_(net.fc1.bias)
    assert arithmetic(quantised(net), "fc1")["bias"].width == 2


def test_what_leaves_the_model_has_more_bits() -> None:
    assert LEAVING == 16
    graph = quantised(Net())
    assert arithmetic(graph, "fc1")["data_out_0"].width in (8, 9), "one more for a relu"
    assert arithmetic(graph, "fc2")["data_out_0"].width == 16
    four = {"default": rule(data_in_width=4, weight_width=4, data_out_width=4)}
    assert arithmetic(quantised(Net(), **four), "fc2")["data_out_0"].width == 16


@pytest.mark.parametrize(
    "told",
    [
        {"output_width": 8},
        {"overrides": {"fc2": rule(data_out_width=8)}},
        {"linear": rule(data_out_width=8)},
        {"default": rule(data_out_width=8, data_out_frac_width=4)},
    ],
)
def test_unless_told_otherwise(told: dict[str, Any]) -> None:
    assert arithmetic(quantised(Net(), **told), "fc2")["data_out_0"].width == 8


def test_what_is_read_again_has_no_more() -> None:
    assert arithmetic(quantised(Net(twice=True)), "fc2")["data_out_0"].width <= 9


@pytest.mark.parametrize(
    "moves",
    [
        lambda x: x.transpose(1, 2),
        lambda x: x[:, :, 1:3],
        lambda x: torch.cat([x, x], 2),
        lambda x: nn.functional.max_pool1d(x, 2),
        lambda x: nn.functional.interpolate(x, scale_factor=2),
        lambda x: x.amax(1),
    ],
)
def test_what_is_moved_on_its_way_out_keeps_its_bits(moves: Any) -> None:
    moving = With(nn.Linear(6, 4), lambda fc, x: moves(fc(x)))
    example, data = torch.randn(1, 4, 6), [torch.randn(9, 4, 6)]
    graph = quantised_graph(moving, example, load_config(None), data, None, lambda _: None)
    last = [m for n in graph.nodes if isinstance(m := graph.meta_of(n).module, Quantized)][-1].arithmetic
    assert last.formats["data_out_0"].width >= 16 and arithmetic(graph, "fc")["data_out_0"].width >= 16


def test_scores_of_three_bits_are_not_ties() -> None:
    """What it is for: with three bits everywhere, most frames have several classes of the same score."""
    torch.manual_seed(0)
    net, frames = Net(), torch.randn(200, 6)
    with torch.no_grad():
        wanted = net.fc2(net.relu(net.fc1(frames)))
    apart = []
    for width in (3, 16):
        told = {"default": rule(data_in_width=8, weight_width=8, data_out_width=8), "output_width": width,
                "overrides": {} if width == 16 else {"fc2": rule(data_out_width=3)}}  # fmt: skip
        graph = quantised(Net(), **told)
        fmt = arithmetic(graph, "fc2")["data_out_0"]
        scores = torch.round(wanted.double() * math.ldexp(1.0, fmt.frac_width)).clamp(
            fmt.min_mantissa, fmt.max_mantissa
        )
        best = scores.max(1, keepdim=True)[0]
        apart.append(int(((scores == best).sum(1) == 1).sum()))
    assert apart[0] < 150 and apart[1] > 195
