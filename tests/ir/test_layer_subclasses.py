"""Classes derived from layers: a graph computes what the class does, or is refused; it never has the base's value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

from mase_hw.catalogue import default_catalogue
from mase_hw.errors import GraphError
from mase_hw.ir import MaseGraph
from mase_hw.ir.trace.derived import computes_as

CUBE, IMAGE, SEQUENCE, ROW = (2, 4, 4, 4, 4), (2, 4, 6, 6), (2, 4, 8), (2, 8)
IDS = "ids"
MADE: dict[type[nn.Module], tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    nn.Embedding: ((10, 8), (IDS,)),
    nn.EmbeddingBag: ((10, 8), (IDS,)),
    nn.Linear: ((8, 4), (ROW,)),
    nn.Bilinear: ((8, 8, 4), (ROW, ROW)),
    **{k: ((8, 4), (SEQUENCE,)) for k in (nn.RNN, nn.GRU, nn.LSTM)},
    **{k: ((8, 4), (ROW,)) for k in (nn.RNNCell, nn.GRUCell, nn.LSTMCell)},
    nn.MultiheadAttention: ((8, 2), (SEQUENCE, SEQUENCE, SEQUENCE)),
    nn.TransformerEncoderLayer: ((8, 2, 16), (SEQUENCE,)),
    nn.TransformerDecoderLayer: ((8, 2, 16), (SEQUENCE, SEQUENCE)),
    nn.TransformerEncoder: ((nn.TransformerEncoderLayer(8, 2, 16), 1), (SEQUENCE,)),
    nn.TransformerDecoder: ((nn.TransformerDecoderLayer(8, 2, 16), 1), (SEQUENCE, SEQUENCE)),
    nn.Transformer: ((8, 2, 1, 1, 16), (SEQUENCE, SEQUENCE)),
    nn.CosineSimilarity: ((), (ROW, ROW)),
    nn.PairwiseDistance: ((), (ROW, ROW)),
    nn.Fold: (((4, 4), 2), ((2, 8, 9),)),
    nn.Unfold: ((2,), (IMAGE,)),
    nn.Threshold: ((0.1, 2.0), (ROW,)),
    nn.Unflatten: ((1, (2, 4)), (ROW,)),
    nn.LocalResponseNorm: ((2,), (IMAGE,)),
    nn.CrossMapLRN2d: ((2,), (IMAGE,)),
    nn.GroupNorm: ((2, 4), (IMAGE,)),
    nn.LayerNorm: ((8,), (ROW,)),
    nn.RMSNorm: ((8,), (ROW,)),
    nn.ChannelShuffle: ((2,), (IMAGE,)),
    nn.PixelShuffle: ((2,), (IMAGE,)),
    nn.PixelUnshuffle: ((2,), (IMAGE,)),
    nn.Softmax2d: ((), (IMAGE,)),
    nn.SyncBatchNorm: ((4,), (IMAGE,)),
    nn.Upsample: ((None, 2), (IMAGE,)),
    nn.UpsamplingBilinear2d: ((None, 2), (IMAGE,)),
    **{k: ((1,), (ROW,)) for k in (nn.Softmax, nn.Softmin, nn.LogSoftmax)},
}
"""By class: arguments of the constructor, and shapes of the inputs; of all others by the beginning of the name."""
BY_NAME: list[tuple[str, tuple[Any, ...]]] = [
    ("BatchNorm", (4,)),
    ("InstanceNorm", (4,)),
    ("ConvTranspose", (4, 4, 2)),
    ("Conv", (4, 4, 3)),
    ("ConstantPad", (1, 0.5)),
    ("Adaptive", (2,)),
    ("LPPool", (2, 2)),
]
LOOKS_AT_VALUES = frozenset(
    {
        *(nn.RNN, nn.GRU, nn.LSTM, nn.RNNCell, nn.GRUCell, nn.LSTMCell, nn.MultiheadAttention, nn.EmbeddingBag),
        *(nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.TransformerEncoder, nn.TransformerDecoder),
        nn.Transformer,
    }
)
"""Layers whose own code cannot be traced, so that a class derived from one with another forward is refused."""
DATA = {"1d": SEQUENCE, "2d": IMAGE, "3d": CUBE}


def layers() -> list[type[nn.Module]]:
    return [kind for op in default_catalogue() for kind in op.modules if kind.__module__.startswith("torch.")]


def made(kind: type[nn.Module]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    if kind in MADE:
        return MADE[kind]
    data = DATA.get(kind.__name__[-2:], ROW)
    arguments = next((given for start, given in BY_NAME if kind.__name__.startswith(start)), None)
    if arguments is None:
        arguments = (1,) if "Pad" in kind.__name__ else (2,) if "Pool" in kind.__name__ else ()
    return arguments, (data,)


def inputs(shapes: tuple[Any, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.randint(0, 10, (2, 3)) if shape == IDS else torch.rand(shape) + 0.25 for shape in shapes)


def scaled(result: Any, factor: Any) -> Any:
    if isinstance(result, tuple | list):  # the first of several
        return (scaled(result[0], factor), *result[1:])
    return result * factor


def derived(base: type[nn.Module], how: str) -> type[nn.Module]:
    def init(self: nn.Module, *args: Any) -> None:
        base.__init__(self, *args)
        if how == "attribute":
            self.note = 3.0  # type: ignore[assignment]
        elif how == "buffer":
            self.register_buffer("factor", torch.tensor(3.0), persistent=False)

    body: dict[str, Any] = {"__init__": init, "__module__": __name__}
    if how == "scaled":
        body["forward"] = lambda self, *args: scaled(base.forward(self, *args), 3.0)
    elif how == "buffer":
        body["forward"] = lambda self, *args: scaled(base.forward(self, *args), self.factor)
    return type(f"My{base.__name__}", (base,), body)


class Held(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer


class OfOne(Held):
    def forward(self, x: Tensor) -> Any:
        return self.layer(x)


class OfTwo(Held):
    def forward(self, x: Tensor, y: Tensor) -> Any:
        return self.layer(x, y)


class OfThree(Held):
    def forward(self, x: Tensor, y: Tensor, z: Tensor) -> Any:
        return self.layer(x, y, z)


def flat(result: Any) -> list[Tensor]:
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, tuple | list):
        return [part for item in result for part in flat(item)]
    return [] if result is None else [result]


def agree(model: nn.Module, graph: MaseGraph, given: tuple[Tensor, ...]) -> bool:
    with torch.no_grad():
        pairs = zip(flat(model(*given)), flat(graph.model(*given)), strict=True)
        return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("how", ["plain", "attribute", "scaled", "buffer"])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_derived_classes(how: str) -> None:
    """With a forward of its own one is traced, or refused; without, it is the layer, and has its op."""
    for base in layers():
        check(base, how)


def check(base: type[nn.Module], how: str) -> None:
    torch.manual_seed(0)
    arguments, shapes = made(base)
    layer, given = derived(base, how)(*arguments), inputs(shapes)
    model = (OfOne, OfTwo, OfThree)[len(given) - 1](layer).eval()
    try:
        graph = MaseGraph(model, example=given)
    except GraphError as error:
        assert how in ("scaled", "buffer") and base in LOOKS_AT_VALUES, (base, error)
        return
    assert agree(model, graph, given), base
    ops = {op.name for node in graph.nodes if node.op == "call_module" and (op := graph.op_of(node)) is not None}
    own = default_catalogue().of_target(base)
    assert own is not None
    whole = how in ("plain", "attribute")
    # Of what the tracer cannot follow, torch.export may find the layer inside.
    assert (own.name in ops) is whole or (base in LOOKS_AT_VALUES and not whole), base


class Halved(nn.Conv2d):
    """The forward of its base, which calls what is overridden here."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return super()._conv_forward(input, weight / 2, bias)


class Lenient(nn.BatchNorm2d):
    """Only a check of the input is another one."""

    def _check_input_dim(self, input: Tensor) -> None:
        pass


def test_what_a_forward_calls() -> None:
    given = (torch.randn(IMAGE),)
    for layer, same in ((Halved(4, 4, 3), False), (Lenient(4), True)):
        model = OfOne(layer).eval()
        graph = MaseGraph(model)
        assert agree(model, graph, given)
        assert computes_as(type(layer), type(layer).__bases__[0]) is same
        assert any(node.op == "call_module" for node in graph.nodes) is same
        traced = MaseGraph(Leaves(model).traced())
        assert (traced.op_of(traced.node("layer")) is not None) is same


class Leaves(fx.Tracer):
    """A tracer that stops at every module, as a user's own may."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True

    def traced(self) -> fx.GraphModule:
        return fx.GraphModule(self.model, self.trace(self.model))


@pytest.mark.parametrize("base", [nn.Embedding, nn.Linear, nn.Conv2d, nn.BatchNorm2d, nn.LayerNorm, nn.PReLU])
def test_exported_with_more_state_than_its_layer(base: type[nn.Module], tmp_path: Path) -> None:
    """A program has the layer and, beside it, what the class keeps there: the scale of an embedding, as Gemma 3 has."""
    torch.manual_seed(0)
    arguments, shapes = made(base)
    layer, given = derived(base, "buffer")(*arguments), inputs(shapes)
    model = OfOne(layer).eval()
    graph = MaseGraph(torch.export.export(model, given, strict=False))
    assert isinstance(graph.modules["layer"], base) and agree(model, graph, given)
    graph.export(tmp_path / "net")
    assert agree(model, MaseGraph.from_checkpoint(tmp_path / "net"), given)
