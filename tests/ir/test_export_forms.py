"""What the operations of a program are: recurrent layers, resizes, windows and others, against the model itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from mase_hw.errors import UnsupportedError
from mase_hw.ir import MaseGraph


class Lines(nn.Module):
    """A model of one line, with the layers and tensors that it reads."""

    def __init__(self, line: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.line = line
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> Any:
        return self.line(self, x)


def steps(self: Any, x: Tensor) -> Tensor:
    state = None
    for at in range(3):
        state = self.cell(x[:, at], state)
    result: Tensor = state if isinstance(state, Tensor) else state[0] + state[1]  # type: ignore[index]
    return result


def in_place(self: Any, x: Tensor) -> Tensor:
    x.add_(1)
    return x * 2


def pooled(x: Tensor) -> Tensor:
    return F.adaptive_avg_pool2d(x, 1).squeeze()


def asserted(self: Any, x: Tensor) -> Tensor:
    torch._check((x > 0).sum(1).max().item() <= 12)
    return x * 2


def begun(self: Any, x: Tensor) -> Any:
    return self.layer(x, self.first.expand(-1, x.shape[0], -1))[0]


IMAGE, TOKENS = (4, 8, 8), (5, 8)
RECURRENT: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "gru": (lambda: nn.GRU(8, 5, batch_first=True), TOKENS),
    "lstm of two layers and directions": (lambda: nn.LSTM(8, 5, 2, bidirectional=True, batch_first=True), TOKENS),
    "rnn of relu without biases": (lambda: nn.RNN(8, 5, nonlinearity="relu", bias=False, batch_first=True), TOKENS),
    "projected": (lambda: nn.LSTM(8, 6, proj_size=3, batch_first=True), TOKENS),
    "a layer of the model": (lambda: Lines(lambda self, x: self.rnn(x)[1], rnn=nn.RNN(8, 5, batch_first=True)), TOKENS),
    "last states": (lambda: Lines(lambda self, x: self.lstm(x)[1][1], lstm=nn.LSTM(8, 5, batch_first=True)), TOKENS),
    "stored state": (
        lambda: Lines(begun, layer=nn.GRU(8, 5, batch_first=True), first=nn.Parameter(torch.randn(1, 1, 5))),
        TOKENS,
    ),
    "states of another": (
        lambda: Lines(
            lambda self, x: self.b(x, self.a(x)[1])[0],
            a=nn.GRU(8, 5, batch_first=True),
            b=nn.GRU(8, 5, batch_first=True),
        ),
        TOKENS,
    ),
    "steps first": (lambda: Lines(lambda self, x: self.gru(x.transpose(0, 1))[1][0], gru=nn.GRU(8, 5)), TOKENS),
    "gru cell": (lambda: Lines(steps, cell=nn.GRUCell(8, 5)), TOKENS),
    "lstm cell": (lambda: Lines(steps, cell=nn.LSTMCell(8, 5)), TOKENS),
    "rnn cell": (lambda: Lines(steps, cell=nn.RNNCell(8, 5, nonlinearity="relu")), TOKENS),
}
SQUEEZED: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    f"squeezed {name}": (lambda line=line: Lines(line, fc=nn.Linear(4, 3), norm=nn.LayerNorm(4)), IMAGE)  # type: ignore[misc]
    for name, line in {
        "sum": lambda self, x: pooled(x) + x.amax((2, 3)),
        "layer": lambda self, x: self.fc(pooled(x)),
        "norm": lambda self, x: self.norm(pooled(x)),
        "softmax": lambda self, x: pooled(x).softmax(-1),
        "parts": lambda self, x: torch.cat([pooled(x), x.amax((2, 3)).squeeze()], -1),
        "gate": lambda self, x: x * pooled(x)[..., None, None],
        "row": lambda self, x: pooled(x).view(x.size(0), -1) * 2,
    }.items()
}
ALONE = frozenset({"rows scattered", "elements scattered", "elements of another", "sums of elements", *SQUEEZED})
"""Those that compute the first frame of a batch alone, or all of them as one; the graph computes every frame so."""
FORMS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    **RECURRENT,
    **SQUEEZED,
    "log_sigmoid": (nn.LogSigmoid, (12,)),
    "a stored number": (lambda: Lines(lambda self, x: x * self.b.max().item(), b=torch.tensor([3.0, 5.0])), (12,)),
    "an assertion": (lambda: Lines(asserted), (12,)),
    "empty parts": (lambda: Lines(lambda self, x: torch.cat((torch.empty(0), torch.cat((torch.empty(0), x), 1),
                                                             torch.ones_like(x[:, :3])), 1)), (12,)),
    "xor": (lambda: Lines(lambda self, x: ((x > 0) ^ (x > 1)).float() * x), (12,)),
    "rsub": (lambda: Lines(lambda self, x: torch.rsub(x, self.b, alpha=2), b=torch.randn(12)), (12,)),
    "rsub of a number": (lambda: Lines(lambda self, x: torch.rsub(x, 3.0, alpha=2) + torch.rsub(x, 2)), (12,)),
    "bound": (lambda: Lines(lambda self, x: torch.max(x, torch.tensor(0.2))), (12,)),
    "both bounds": (lambda: Lines(lambda self, x: torch.minimum(torch.tensor(0.5), x).maximum(x * 0.5)), (12,)),
    "masked_fill": (lambda: Lines(lambda self, x: x.masked_fill(x > 0.5, -1.0)), (12,)),
    **{f"resize {mode}": (lambda mode=mode: Lines(lambda self, x: F.interpolate(x, scale_factor=2.0, mode=mode)), IMAGE)
       for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")},
    "resize linear": (lambda: Lines(lambda self, x: F.interpolate(x, size=11, mode="linear")), TOKENS),
    "resize nearest-exact of rows": (lambda: Lines(lambda self, x: F.interpolate(x, 16, mode="nearest-exact")), TOKENS),
    "resize with corners": (lambda: nn.Upsample((5, 6), mode="bilinear", align_corners=True), IMAGE),
    "im2col": (lambda: nn.Unfold(3, dilation=2, padding=1, stride=2), IMAGE),
    "col2im": (lambda: nn.Fold((6, 6), 3, stride=3), (18, 4)),
    "windows": (lambda: Lines(lambda self, x: (x * 2).unfold(2, 4, 2)), TOKENS),
    "adaptive maximum": (lambda: nn.AdaptiveMaxPool2d(3), IMAGE),
    "adaptive maximum of rows": (lambda: nn.AdaptiveMaxPool1d(4), TOKENS),
    "response norm": (lambda: nn.LocalResponseNorm(3, alpha=0.5, k=2.0), IMAGE),
    "batch norm": (lambda: nn.BatchNorm2d(4), IMAGE),
    "zero attention": (
        lambda: Lines(
            lambda self, x: self.a(x, x, x, need_weights=False)[0],
            a=nn.MultiheadAttention(8, 2, batch_first=True, add_zero_attn=True),
        ),
        TOKENS,
    ),
    "attention with learned keys": (
        lambda: Lines(
            lambda self, x: self.a(x, x, x)[0],
            a=nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True, add_zero_attn=True),
        ),
        TOKENS,
    ),
    "pooling by a learned query": (
        lambda: Lines(
            lambda self, x: self.a(self.q.repeat(len(x), 1, 1), x, x)[0][:, 0],
            a=nn.MultiheadAttention(8, 2, batch_first=True),
            q=torch.randn(1, 1, 8),
        ),
        TOKENS,
    ),
    "a bias of each head": (
        lambda: Lines(
            lambda self, x: torch.baddbmm(
                self.b.repeat(len(x), 1, 1),
                *(x.view(-1, 5, 2, 4).transpose(1, 2).reshape(-1, *size) for size in ((5, 4), (4, 5))),
                beta=0.5,
            ).view(len(x), 2, 5, 5),
            b=torch.randn(2, 1, 5),
        ),
        TOKENS,
    ),
    "weight norm": (lambda: parametrizations.weight_norm(nn.Linear(12, 4)), (12,)),
    "input in place": (lambda: Lines(in_place), (12,)),
    "rows added": (
        lambda: Lines(lambda self, x: torch.zeros_like(x).index_add(1, self.at, x[:, self.of]),
                      at=torch.tensor([0, 2, 2, 4]), of=torch.tensor([1, 0, 3, 3])),
        TOKENS,
    ),
    "columns added": (lambda: Lines(lambda self, x: x.index_add(-1, self.at, x[:, :3], alpha=0.5),
                                    at=torch.tensor([0, 2, 2])), (12,)),
    "rows scattered": (
        lambda: Lines(lambda self, x: torch.ones(1, 6, 8).scatter_add(1, self.at.expand(1, 5, 8), x),
                      at=torch.tensor([0, 3, 3, 1, 5]).view(1, 5, 1)),
        TOKENS,
    ),
    "elements scattered": (lambda: Lines(lambda self, x: x.scatter(1, self.at, x[:, 1:3] * 2),
                                         at=torch.tensor([[5, 0]])), (12,)),
    "elements of another": (lambda: Lines(lambda self, x: torch.ones(1, 4).scatter(1, self.at, x),
                                          at=torch.tensor([[0, 2, 3]])), (12,)),
    "sums of elements": (lambda: Lines(lambda self, x: (x * 2).scatter_add(2, self.at, x),
                                       at=torch.randint(0, 8, (1, 5, 4))), TOKENS),
    "outer product": (lambda: Lines(lambda self, x: torch.einsum("bi,bj->bij", x, x).diagonal(dim1=1, dim2=2)), (12,)),
    "product of vectors": (lambda: Lines(lambda self, x: torch.linalg.cross(x, x.flip(1), dim=1)), (3, 4)),
    "on the diagonal": (lambda: Lines(lambda self, x: torch.diag_embed(x)), (12,)),
    "filled columns": (lambda: Lines(lambda self, x: x.index_fill(1, torch.tensor([0, 2]), 0.5)), (12,)),
    "distances": (lambda: Lines(lambda self, x: torch.cdist(x, self.c), c=torch.randn(4, 8)), TOKENS),
    "distances of order 1": (lambda: Lines(lambda self, x: torch.cdist(x, self.c, p=1.0), c=torch.randn(4, 8)), TOKENS),
    "buckets": (
        lambda: Lines(lambda self, x: (torch.bucketize(x, self.b), torch.bucketize(x, self.b, right=True)),
                      b=torch.tensor([-1.0, 0.0, 1.0])),
        (12,),
    ),
    "signs": (
        lambda: Lines(lambda self, x: (torch.copysign(x, x - 1), torch.signbit(x), torch.heaviside(x, self.h)),
                      h=torch.tensor(0.5)),
        (12,),
    ),
    "bounds that are data": (lambda: Lines(lambda self, x: torch.clamp(x, torch.tensor(-0.5), x.abs() * 0.5)), (12,)),
    "deviation over a list": (lambda: Lines(lambda self, x: x.std([-1]) + x.var((1,))), (12,)),
    "weight by itself first": (
        lambda: Lines(lambda self, x: F.linear(x + 1, self.fc.weight) * self.fc(x), fc=nn.Linear(12, 4)), (12,)
    ),
    "weight by itself behind": (
        lambda: Lines(lambda self, x: self.fc(x) * F.linear(x + 1, self.fc.weight), fc=nn.Linear(12, 4)), (12,)
    ),
}  # fmt: skip


def values(result: Any) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else [t for part in result for t in values(part)]


def made(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    torch.manual_seed(5)
    make, shape = FORMS[name]
    return make().eval(), shape


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_what_the_model_gives_for_several_frames(name: str) -> None:
    model, shape = made(name)
    frames = torch.randn(3, *shape)
    with torch.no_grad():
        graph = MaseGraph(torch.export.export(model, (frames[:1].clone(),)))
        each = [model(frame) for frame in frames.split(1)] if name in ALONE else []
        wanted, found = values(torch.cat(each) if each else model(frames.clone())), values(graph.model(frames.clone()))
    assert len(wanted) == len(found)
    for a, b in zip(wanted, found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)


def test_a_recurrent_layer_reads_what_was_exported_for_several_frames() -> None:
    """Attention fixes their number, so that shapes for twice as many are not known behind it."""
    torch.manual_seed(5)
    model = nn.Sequential(
        Lines(lambda self, x: self.a(x, x, x)[0], a=nn.MultiheadAttention(8, 2, batch_first=True)),
        Lines(lambda self, x: self.rnn(x)[0][:, -1], rnn=nn.LSTM(8, 5, batch_first=True)),
    ).eval()
    frames = torch.randn(3, *TOKENS)
    with torch.no_grad():
        graph = MaseGraph(torch.export.export(model, (frames,)))
        torch.testing.assert_close(graph.model(frames), model(frames), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_keep_their_class_and_their_place(name: str) -> None:
    model, shape = made(name)
    graph = MaseGraph(torch.export.export(model, (torch.randn(1, *shape),)))
    kinds = (nn.RNNBase, nn.RNNCellBase)
    own = {path: type(module) for path, module in model.named_modules() if path and isinstance(module, kinds)}
    found = {
        str(n.target): type(graph.model.get_submodule(str(n.target))) for n in graph.nodes if n.op == "call_module"
    }
    assert found == own if own else list(found.values()) == [type(model)]


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(4, 3, 3), nn.Linear(108, 5)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        result: Tensor = self.fc(self.conv(x).relu().reshape(x.shape[0], -1)) + y
        return result


@pytest.mark.parametrize("least", [None, 2])
@pytest.mark.parametrize("as_module", [False, True])
def test_a_batch_that_is_left_open_is_the_number_of_frames(as_module: bool, least: int | None) -> None:
    torch.manual_seed(5)
    model = Pair().eval()
    x, y = torch.randn(4, *IMAGE), torch.randn(4, 5)
    batch = torch.export.Dim("batch", min=least, max=64)
    program = torch.export.export(model, (x, y), dynamic_shapes=({0: batch}, {0: batch}))
    graph = MaseGraph(program.module() if as_module else program)
    with torch.no_grad():
        torch.testing.assert_close(graph.model(x, y), model(x, y), rtol=1e-4, atol=1e-5)


def test_the_bits_of_integers_and_sizes_that_are_data_are_refused() -> None:
    ids = torch.arange(6)[None]
    for line in (lambda self, x: (x & 3).float(), lambda self, x: ~x | x):
        with pytest.raises(UnsupportedError, match="bits of integers"):
            MaseGraph(torch.export.export(Lines(line), (ids,)))
    with pytest.raises(UnsupportedError, match="sym_size"):
        MaseGraph(torch.export.export(Lines(lambda self, x: x[x > 0]), (torch.randn(1, 6),)))


def test_what_works_along_frames_whose_dimension_is_squeezed_away_is_refused() -> None:
    line = Lines(lambda self, x: pooled(x).softmax(0))
    with pytest.raises(UnsupportedError, match=r"squeeze before it has taken away.*name the dimensions"):
        MaseGraph(torch.export.export(line, (torch.randn(1, *IMAGE),)))


def test_batches_that_differ_and_a_dropout_of_a_recurrence_are_refused() -> None:
    one, two = torch.export.Dim("one"), torch.export.Dim("two")
    program = torch.export.export(
        Lines(lambda self, x: x[0].sum(0) + x[1].sum(0)),
        ((torch.randn(4, 3), torch.randn(5, 3)),),
        dynamic_shapes=(({0: one}, {0: two}),),
    )
    with pytest.raises(UnsupportedError, match="their numbers of frames"):
        MaseGraph(program)
    random = torch.export.export(nn.GRU(8, 5, 2, dropout=0.5, batch_first=True), (torch.randn(1, *TOKENS),))
    with pytest.raises(UnsupportedError, match="evaluation mode"):
        MaseGraph(random)
