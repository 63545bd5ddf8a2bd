"""Small models that a user writes: products of two streams, in every notation, and self-attention without a softmax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from mase_hw.ops.products.matmul import grouped_matmul
from tests.e2e.designs import SmallModel


class Attention(nn.Module):
    """Heads of queries, keys and values, the residual beside them; the scores are used as they are.

    Args:
        width: Channels.
        heads: Heads.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = (
            layer(x).view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        found = (q @ k.transpose(-2, -1)) @ v
        return x + self.o(found.transpose(1, 2).reshape(batch, tokens, width))


class Causal(Attention):
    """Every token sees itself and those before it; what it does not see is not computed."""

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = (layer(x).view(batch, tokens, self.heads, width // self.heads) for layer in (self.q, self.k, self.v))
        scores = grouped_matmul(q, k, True, True)
        return x + self.o(grouped_matmul(scores, v, False, True).reshape(batch, tokens, width))


class Fused(nn.Module):
    """The same with one layer for all three, as vision transformers write it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.o = nn.Linear(6, 18), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, tokens, 3, 2, 3).permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.matmul(q, k.transpose(2, 3))
        return self.o((scores @ v).transpose(1, 2).reshape(batch, tokens, width))


class Grouped(nn.Module):
    """Heads of queries that share keys and values, which the model repeats, as LLaMA does."""

    def __init__(self, kept: int) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(6, 8), nn.Linear(6, 2 * kept), nn.Linear(6, 2 * kept)
        self.kept = kept

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        q = self.q(x).view(batch, tokens, 4, 2).transpose(1, 2)
        k, v = (
            layer(x)
            .view(batch, tokens, self.kept, 2)
            .transpose(1, 2)[:, :, None]
            .expand(batch, self.kept, 4 // self.kept, tokens, 2)
            .reshape(batch, 4, tokens, 2)
            for layer in (self.k, self.v)
        )
        return (q @ k.transpose(2, 3) @ v).transpose(1, 2).flatten(2)


class Sums(nn.Module):
    """Something added to a product."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.start = nn.Linear(4, 4), nn.Parameter(torch.linspace(-1, 1, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        a = self.a(x)
        return (
            torch.baddbmm(x, a, x.transpose(1, 2) @ a),
            torch.baddbmm(a, x, x.transpose(1, 2) @ a, beta=0.5, alpha=2.0),
            torch.addmm(self.start, a[0], a[0].t() @ x[0]),
        )


class Notations(nn.Module):
    """Every notation of products of two tensors, and every way to transpose or broadcast them."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 4), nn.Linear(5, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        a, b = self.a(x), self.b(x)  # (1, 3, 4), (1, 3, 6)
        return (
            a.transpose(1, 2) @ b,
            torch.bmm(a.transpose(2, 1), b),
            torch.einsum("ntk,ntj->nkj", a, b),
            torch.einsum("btk,bsk->bts", a, a),
            torch.matmul(b, b.transpose(-1, -2)),
            torch.matmul(a[0], a[0].t()),
            torch.mm(a[0].t(), b[0]),
            torch.mv(b[0].t(), a[0, :, 1]),
            a[:, 1] @ a[0].t(),
            torch.einsum("nij,njk", a.transpose(1, 2), b),
        )


class Broadcast(nn.Module):
    """Batches that only one of the operands has, and sums over several dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        a, b = self.a(x), self.b(x[:, 0])  # (1, 2, 3, 4), (1, 3, 6)
        return (
            a.transpose(2, 3) @ b,
            b.transpose(1, 2) @ a,
            a @ x.transpose(2, 3),
            a @ x[:, :1].transpose(2, 3),
            torch.einsum("nhtk,nhsk->nts", a, x),
            torch.einsum("nhtk,ntj->nhkj", a, b),
            torch.einsum("nhtk,nhtk->nh", a, x),
        )


class Places(nn.Module):
    """Places along rows and along columns of a square picture: both read the queries, one of them transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Conv2d(3, 8, 1)
        self.rows, self.columns = (nn.Parameter(torch.randn(4, 5)) for _ in range(2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q = self.q(x).reshape(x.shape[0], 2, 4, 16).transpose(2, 3).reshape(x.shape[0], 2, 4, 4, 4)
        return q @ self.rows, q.transpose(2, 3) @ self.columns


QUANTIZE = {
    "default": {
        "config": {"name": "fixed", "data_in_width": 12, "weight_width": 10, "bias_width": 12, "data_out_width": 12}
    }
}


def model(
    make: Callable[[], nn.Module], shape: tuple[int, ...], modules: Mapping[str, int], lanes: int = 3
) -> SmallModel:
    """At 25 dB of its width."""
    return SmallModel(make, shape, modules, {"hardware": {"max_parallelism": lanes}, "quantize": QUANTIZE}, 25.0)


ATTENTION = {"fixed_linear": 4, "fixed_matmul": 2, "stream_reorder": 0, "fixed_rearrange": 0}
SHARED = {"fixed_linear": 3, "fixed_matmul": 2, "stream_reorder": 0, "fixed_rearrange": 0}
MODELS = {
    "attention": model(lambda: Attention(8, 2), (1, 6, 8), ATTENTION),
    "attention_one_head": model(lambda: Attention(5, 1), (1, 7, 5), ATTENTION, 2),
    "attention_serial": model(lambda: Attention(6, 3), (1, 4, 6), ATTENTION, 1),
    "causal": model(lambda: Causal(8, 2), (1, 9, 8), ATTENTION),
    "causal_serial": model(lambda: Causal(4, 1), (1, 6, 4), ATTENTION, 1),
    "fused": model(Fused, (1, 5, 6), {"fixed_linear": 2, "fixed_matmul": 2, "stream_reorder": 0}),
    "grouped": model(lambda: Grouped(2), (1, 5, 6), SHARED),
    "one_group": model(lambda: Grouped(1), (1, 5, 6), SHARED, 2),
    "sums": model(Sums, (1, 3, 4), {"fixed_matmul": 6, "fixed_linear": 1}),
    "notations": model(Notations, (1, 3, 5), {"fixed_linear": 2, "fixed_matmul": 10}),
    "places": model(Places, (1, 3, 4, 4), {"fixed_conv2d": 1, "fixed_linear": 2}),
    "broadcast": model(Broadcast, (1, 2, 3, 4), {"fixed_linear": 2, "fixed_matmul": 7}),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_bit(name: str, tmp_path: Path) -> None:
    """Overlapping frames at full rate and with stalls: as the quantised model says, at the predicted speed."""
    torch.manual_seed(5)
    x = torch.rand(8, *MODELS[name].shape[1:]) * 2 - 1
    MODELS[name].check(x, tmp_path / name, x.split(1))
