"""Attention in every notation computes the same once it is lowered, and comes without a reorder buffer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mase_hw import MaseGraph
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    fold_constants_transform_pass,
    init_metadata_analysis_pass,
    lower_arithmetic_transform_pass,
    lower_attention_transform_pass,
    lower_layers_transform_pass,
    lower_movement_transform_pass,
    lower_products_transform_pass,
    lower_rows_transform_pass,
    lower_slices_transform_pass,
    verify_analysis_pass,
)

from .attention_models import MASKED, MODELS, TOKENS, WIDTH

LOWERINGS = (
    fold_constants_transform_pass,
    lower_layers_transform_pass,
    lower_attention_transform_pass,
    lower_arithmetic_transform_pass,
    lower_slices_transform_pass,
    lower_movement_transform_pass,
    lower_products_transform_pass,
    lower_rows_transform_pass,
)


CAUSAL = dict.fromkeys(("nano_gpt", "added_mask", "gpt2", "sdpa_causal", "sdpa_grouped", "rotary"), 2)
CAUSAL |= {
    "sdpa_bias": 1,
    "padding_and_causal": 2,
    "multihead_turned": 2,
    "encoder_layer_first": 2,
    "encoder": 4,
    "decoder_layer": 2,
}
"""Products that leave out what a causal mask hides."""


def frames(masked: bool) -> tuple[Tensor, ...]:
    torch.manual_seed(4)
    x = torch.randn(1, TOKENS, WIDTH, dtype=torch.float64)
    return (x, torch.tensor([[True, True, False, True, False, True]])) if masked else (x,)


def lowered(model: nn.Module, inputs: tuple[Tensor, ...]) -> MaseGraph:
    graph = MaseGraph(model)
    init_metadata_analysis_pass(graph)
    named = dict(zip([n.name for n in graph.nodes if n.op == "placeholder"], inputs, strict=True))
    add_common_metadata_analysis_pass(graph, {"dummy_in": named, "add_value": False})
    for each in LOWERINGS:
        each(graph)
        verify_analysis_pass(graph)
    return graph


def ops_of(graph: MaseGraph) -> list[str]:
    return [str(graph.meta_of(n).common.mase_op) for n in graph.nodes]


@pytest.mark.parametrize("name", [*MODELS, *MASKED])
def test_the_same_in_every_notation(name: str) -> None:
    """In float64, up to its rounding; nothing is left that hardware has not."""
    inputs = frames(name in MASKED)
    model = {**MODELS, **MASKED}[name]().double().eval()
    graph = lowered(model, inputs)
    wanted, found = model(*inputs), graph.model(*inputs)
    for a, b in zip(*([r] if isinstance(r, Tensor) else r for r in (wanted, found)), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-9)
    for node in graph.nodes:
        op = graph.op_of(node)
        assert (
            op is None
            or op.golden is not None
            or graph.is_implicit(node)
            or op.name == "size"
            or not (graph.meta_of(node).common.results.tensors)
        ), node.name
    ops = ops_of(graph)
    assert (
        ops.count("grouped_matmul") >= (1 if name == "multihead_each_head" else 2)
        and "matmul" not in ops
        and "bmm" not in ops
    )
    causal = [n for n in graph.nodes if graph.meta_of(n).common.mase_op == "grouped_matmul" and n.args[3:] == (True,)]
    assert len(causal) == CAUSAL.get(name, 0)
    assert not {"masked_fill", "where", "choose", "expand", "repeat_interleave"} & set(ops)
