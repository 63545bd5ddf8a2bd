"""Attention in every notation computes the same once it is lowered, and comes without a reorder buffer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import mase_hw
from mase_hw import MaseGraph
from mase_hw.errors import UnsupportedError
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

from .attention_models import MASKED, MODELS, TOKENS, WIDTH, multihead

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


def test_frames_behind_their_tokens_stay_apart() -> None:
    """As an exported layer has them, ``(tokens, frames, width)``."""
    torch.manual_seed(4)
    model = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True).double().eval()
    x = torch.randn(5, TOKENS, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        graph = lowered(torch.export.export(model, (x[:1],)), (x[:1],))  # type: ignore[arg-type]
        torch.testing.assert_close(graph.model(x), model(x), rtol=1e-9, atol=1e-9)
    assert "grouped_matmul" in ops_of(graph)


class Dropping(nn.Module):
    """Attention that drops in evaluation as well, twice."""

    def forward(self, x: Tensor) -> Tensor:
        q = x.reshape(1, TOKENS, 2, 4).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, q, q, dropout_p=0.1)
        return (y + F.scaled_dot_product_attention(y, q, q, dropout_p=0.2)).transpose(1, 2).flatten(2)


class Prefixed(nn.Module):
    """Stored keys and values in front of those of the data, as in prefix tuning."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("k", torch.randn(1, 2, 3, 4))

    def forward(self, x: Tensor) -> Tensor:
        q = x.reshape(1, TOKENS, 2, 4).transpose(1, 2)
        k = torch.cat((self.k, q), 2)
        return F.scaled_dot_product_attention(q, k, k).transpose(1, 2).flatten(2)


def test_dropout_that_is_on_names_every_call() -> None:
    with pytest.raises(UnsupportedError, match="this attention is not in hardware") as caught:
        lowered(Dropping(), (torch.randn(1, TOKENS, WIDTH),))
    assert caught.value.node == "scaled_dot_product_attention, scaled_dot_product_attention_1"
    assert "dropout_p = 0.1" in str(caught.value) and "dropout_p = 0.2" in str(caught.value)


def is_hardware(kind: type[nn.Module], folder: Path) -> None:
    """At 16 bits it computes what it computes in float, and Verilator the same."""
    torch.manual_seed(0)
    model, x = kind().eval(), torch.randn(8, TOKENS, WIDTH)
    formats = {"name": "fixed", "data_in_width": 16, "weight_width": 16, "data_out_width": 16}
    config = {"quantize": {"default": {"config": formats}}, "calibrate": {"method": "min_max"}}
    one = [frame.unsqueeze(0) for frame in x]
    design = mase_hw.compile(model, one[0], config, out=folder / "design", calibration=one)
    with torch.no_grad():
        for frame in one:
            torch.testing.assert_close(design.model(frame), model(frame), atol=2e-3, rtol=1e-5)
    assert design.simulate(x[:2], stalls=0.3).passed


def test_stored_keys_before_those_of_the_data(tmp_path: Path) -> None:
    is_hardware(Prefixed, tmp_path)


class Learned(nn.Module):
    """Queries, and keys and values, that the model stores: beside data, and of a layer with keys that are no tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.few = nn.Parameter(torch.randn(1, 3, WIDTH))
        self.heads = nn.Parameter(torch.randn(1, 2, 5, WIDTH // 2))
        self.layer = multihead(add_bias_kv=True, add_zero_attn=True)
        self.register_buffer("mask", torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        frames = x.shape[0]
        heads = x.reshape(frames, TOKENS, 2, WIDTH // 2).transpose(1, 2)
        return (
            self.layer(x, x, x, need_weights=False, attn_mask=self.mask)[0],
            self.layer(self.few.expand(frames, -1, -1), x, x, key_padding_mask=x[..., 0] > 1)[0],
            F.scaled_dot_product_attention(heads, self.heads, self.heads * 2),
            F.scaled_dot_product_attention(self.heads.expand(frames, -1, -1, -1), heads, heads),
        )


def test_what_is_learned_in_the_place_of_tokens(tmp_path: Path) -> None:
    is_hardware(Learned, tmp_path)


def test_what_is_learned_is_expanded_to_an_example_of_several_frames() -> None:
    """It is one frame for all of them, also as a token in front of those of the data."""

    class Joined(Learned):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            return (*super().forward(x), torch.cat((self.few.expand(x.shape[0], -1, -1), x + 1), 1))

    torch.manual_seed(0)
    model, x = Joined().eval(), torch.randn(2, TOKENS, WIDTH)
    graph = lowered(model, (x,))
    assert not {"expand", "cat"} & set(ops_of(graph))
    with torch.no_grad():
        for found, wanted in zip(graph.model(x), model(x), strict=True):
            torch.testing.assert_close(found, wanted)


def test_what_is_small_is_a_bias_and_no_mask() -> None:
    """-100 is added, as the model says; -10,000 is a mask."""

    class Added(nn.Module):
        def __init__(self, far: float) -> None:
            super().__init__()
            self.register_buffer("far", torch.zeros(TOKENS, TOKENS).masked_fill(torch.eye(TOKENS) == 1, far))

        def forward(self, x: Tensor) -> Tensor:
            return torch.softmax(x @ x.mT + self.far, -1) @ x

    for far, ops in ((-100.0, {"softmax", "add"}), (-1e4, {"masked_softmax"})):
        graph = lowered(Added(far), (torch.randn(1, TOKENS, WIDTH),))
        assert ops <= set(ops_of(graph))


def test_masks_that_differ_are_told_apart() -> None:
    """A mask that hides what another one shows, a causal one that is one key short, another scale: other results."""
    x = frames(False)
    made = {name: lowered(MODELS[name]().double().eval(), x).model(*x) for name in ("sdpa_causal", "sdpa_mask", "sdpa")}
    assert all(not torch.allclose(made[a], made[b]) for a in made for b in made if a < b)
    strict = MODELS["nano_gpt"]().double().eval()
    strict.tril = torch.ones(TOKENS, TOKENS, dtype=torch.float64).tril(1)  # type: ignore[assignment]
    graph = lowered(strict, x)
    torch.testing.assert_close(graph.model(*x), strict(*x))
    (softmax,) = (n for n in graph.nodes if graph.meta_of(n).common.mase_op == "masked_softmax")
    assert "causal" not in softmax.kwargs and len(softmax.kwargs["allowed"]) == TOKENS  # type: ignore[arg-type]
