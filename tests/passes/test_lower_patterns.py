"""What models write by hand is recognised by what it computes, and nothing else is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.ir import MaseGraph
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    fold_constants_transform_pass,
    init_metadata_analysis_pass,
    lower_patterns_transform_pass,
    verify_analysis_pass,
)


class Written(nn.Module):
    """A formula with a vector of weights and one of numbers to add."""

    def __init__(self, function: Callable[..., Tensor], **buffers: Tensor) -> None:
        super().__init__()
        self.function = function
        self.weight, self.bias = nn.Parameter(torch.randn(8) + 2), nn.Parameter(torch.randn(8))
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


class Masked(Written):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        return self.function(self, x, mask)


def lowered(model: nn.Module, **inputs: Tensor) -> tuple[MaseGraph, dict[str, str], list[str]]:
    """The graph, what was found in it, and its ops; results for one frame and three are those of the model."""
    torch.manual_seed(1)
    graph = MaseGraph(model.eval(), example=inputs)
    init_metadata_analysis_pass(graph)
    add_common_metadata_analysis_pass(graph, {"dummy_in": inputs, "add_value": False})
    fold_constants_transform_pass(graph)
    _, info = lower_patterns_transform_pass(graph)
    verify_analysis_pass(graph)
    # A key that every query takes part with stays: rows without any are not defined by every notation.
    many = {
        name: torch.cat([v, v.flip(-1), 2 * v] if v.is_floating_point() else [v, torch.ones_like(v), v.cummin(-1)[0]])
        for name, v in inputs.items()
    }
    for given in (inputs, many):
        with torch.no_grad():
            torch.testing.assert_close(graph.model(**given), model(**given), rtol=2e-5, atol=2e-6)
    ops = [str(graph.meta_of(n).common.mase_op) for n in graph.nodes if n.op.startswith("call")]
    return graph, dict(info["lowered"]), ops


def centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


NORMS: dict[str, tuple[Any, list[str]]] = {
    "llama": (lambda s, x: s.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)), ["rms_norm"]),
    "division": (lambda s, x: x / torch.sqrt((x * x).mean(-1, True) + 1e-3) * s.weight, ["rms_norm"]),
    "power": (lambda s, x: x * ((x**2).mean(-1, keepdim=True) + 1e-5) ** -0.5, ["rms_norm"]),
    "layer": (
        lambda s, x: centred(x) / torch.sqrt(centred(x).pow(2).mean(-1, keepdim=True) + 1e-5) * s.weight + s.bias,
        None,  # two subtractions: the model computes it twice
    ),
    "layer once": (lambda s, x: layer_norm(s, x), ["layer_norm"]),
    "variance": (lambda s, x: by_variance(s, x), ["layer_norm"]),
}  # type: ignore[dict-item]


def layer_norm(s: Any, x: Tensor) -> Tensor:
    d = centred(x)
    return s.bias + s.weight * (d * torch.rsqrt((d * d).mean(-1, keepdim=True) + 1e-5))  # type: ignore[no-any-return]


def by_variance(s: Any, x: Tensor) -> Tensor:
    d = x - x.mean(-1, keepdim=True)
    return d / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5) * s.weight  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", [n for n, (_, ops) in NORMS.items() if ops])
def test_norms(name: str) -> None:
    function, wanted = NORMS[name]
    _, _, ops = lowered(Written(function), x=torch.randn(1, 5, 8))
    assert ops == wanted


@pytest.mark.parametrize(
    "function",
    [
        lambda s, x: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6),  # over tokens
        lambda s, x: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6),  # no mean
        lambda s, x: x * torch.rsqrt(x.pow(4).mean(-1, keepdim=True) + 1e-6),
        lambda s, x: (x + 1) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6),  # of something else
        lambda s, x: x * torch.sigmoid(1.7 * x),
        lambda s, x: 0.5 * x * (1 + torch.tanh(0.79 * (x + 0.0447 * x**3))),
        lambda s, x: x * torch.sigmoid(s.weight * x),
    ],
)
def test_what_is_nearly_a_pattern_is_none(function: Any) -> None:
    _, found, _ = lowered(Written(function), x=torch.randn(1, 5, 8))
    assert not found


ACTIVATIONS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "new gelu": (lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), "gelu"),
    "gelu": (lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))), "gelu"),
    "silu": (lambda x: x * torch.sigmoid(x), "silu"),
    "mish": (lambda x: x * torch.tanh(F.softplus(x)), "mish"),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    function, wanted = ACTIVATIONS[name]
    _, _, ops = lowered(Written(lambda s, x: function(x)), x=3 * torch.randn(1, 5, 8))
    assert ops == [wanted]


LOW = torch.finfo(torch.float32).min
MASKS: dict[str, Any] = {
    "added": lambda s, x, m: x + ((1.0 - m[:, None, None, :].float()) * LOW),
    "where": lambda s, x, m: torch.where(m[:, None, None, :].bool(), x, torch.tensor(LOW)),
    "filled": lambda s, x, m: x.masked_fill(m[:, None, None, :] == 0, float("-inf")),
    "causal": lambda s, x, m: x + torch.where(m[:, None, None, :].bool() & s.causal, 0.0, LOW),
    "inverted": lambda s, x, m: (
        x + (1 - m)[:, None, None, :].bool().float().masked_fill((1 - m)[:, None, None].bool(), LOW)
    ),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_of_bits(name: str) -> None:
    """A choice by one bit a key; what is causal is stored. Behind the softmax numbers far below do not count."""
    model = Masked(lambda s, x, m: torch.softmax(MASKS[name](s, x, m), -1), causal=torch.ones(6, 6).tril().bool())
    mask = torch.tensor([[1, 1, 1, 1, 0, 0]])
    _, found, ops = lowered(model, x=torch.randn(1, 2, 6, 6), mask=mask)
    assert list(found.values()) == ["a mask of bits"]
    assert "as_number" in ops and "where" in ops and ("masked_fill" in ops) == (name == "causal")
    assert not {"add", "sub", "rsub", "mul", "eq", "and", "to", "float"} & set(ops)


def test_a_mask_that_is_more_than_bits_of_keys_stays() -> None:
    """Bits of queries, numbers that are added in part, masks of data."""
    for function in (
        lambda s, x, m: x + (1.0 - m[:, None, :, None].float()) * LOW,
        lambda s, x, m: x + (1.0 - m[:, None, None, :].float()) * -3.0,
        lambda s, x, m: x + (1.0 - m.flip(1)[:, None, None, :].float()) * LOW,
    ):
        model = Masked(lambda s, x, m, function=function: torch.softmax(function(s, x, m), -1))
        _, found, _ = lowered(model, x=torch.randn(1, 2, 6, 6), mask=torch.tensor([[1, 1, 1, 1, 0, 1]]))
        assert "a mask of bits" not in found.values()


@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_a_mask_of_bits(causal: bool) -> None:
    class Attention(nn.Module):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            keep = mask[:, None, None, :].bool().expand(-1, 1, 6, 6)
            keep = keep & torch.ones(6, 6).tril().bool() if causal else keep
            return F.scaled_dot_product_attention(x, x + 1, x * 2, attn_mask=keep)

    _, found, ops = lowered(Attention(), x=torch.randn(1, 2, 6, 4), mask=torch.tensor([[1, 1, 1, 1, 1, 0]]))
    assert list(found.values()) == ["attention with a mask of bits"]
    assert ops.count("matmul") == 2 and "softmax" in ops and "scaled_dot_product_attention" not in ops
