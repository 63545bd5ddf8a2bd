"""A graph that is made for one frame computes several at once: calibration and simulation give it batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from mase_hw.ir import MaseGraph
from mase_hw.passes import add_common_metadata_analysis_pass, init_metadata_analysis_pass, lower_patterns_transform_pass
from tests.ir.nets import Of

from .test_lower_attention import LOWERINGS

PASSES = (LOWERINGS[0], lower_patterns_transform_pass, *LOWERINGS[1:])
"""All that is done to a float graph before it sees a batch."""


QUERY, BIAS = torch.randn(4, 2, 8), torch.randn(4, 1, 6)


def folded(x: Tensor) -> Tensor:
    """Four heads of each frame in dimension 0, as ``bmm`` wants them."""
    return x.reshape(-1, 6, 4, 4).transpose(1, 2).flatten(0, 1)


CASES: dict[str, Callable[[Tensor], Tensor]] = {
    "mean of a stack": lambda x: torch.stack([x, x * 2]).mean(0),
    "mean of a stack of one": lambda x: torch.stack([x * 2]).mean(0),
    "largest of a stack of seven": lambda x: torch.stack([x * n for n in range(-3, 4)], dim=-5).amax(dim=0),
    "stored queries": lambda x: torch.bmm(QUERY[..., :4].repeat(len(x), 1, 1), folded(x).transpose(1, 2)),
    "of the heads of each frame": lambda x: torch.baddbmm(
        BIAS.repeat(len(x), 1, 1), folded(x), folded(x).transpose(1, 2), beta=0.5
    ),
}


class Attention(nn.Module):
    """Attention of PyTorch, which computes with the tokens in front of the frames, by data or by a learned query."""

    def __init__(self, learned: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.query = nn.Parameter(torch.randn(1, 1, 16)) if learned else None

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(2)
        found: Tensor = self.attention(x if self.query is None else self.query.repeat(len(x), 1, 1), x, x)[0]
        return found


def check(model: nn.Module, exported: bool) -> None:
    example = torch.randn(1, 6, 4, 4)
    graph = MaseGraph(torch.export.export(model, (example,))) if exported else MaseGraph(model, example=[example])
    graph, _ = init_metadata_analysis_pass(graph)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": example}})
    for step in PASSES:
        graph, _ = step(graph)
    x = torch.randn(3, 6, 4, 4)
    torch.testing.assert_close(graph.model(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_batch_is_computed_frame_by_frame(name: str) -> None:
    check(Of(CASES[name]), exported=False)


@pytest.mark.parametrize("learned", [False, True])
def test_attention_of_an_exported_program(learned: bool) -> None:
    check(Attention(learned).eval(), exported=True)
