"""A model that computes something else than it seems to is refused: by looking at it, and by what it computes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm

import mase_hw
from mase_hw.compiler.config import load_config
from mase_hw.compiler.quantised_graph import quantised_graph
from mase_hw.errors import GraphError, MaseHwError, UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ir import graph as graph_module
from mase_hw.ir.faithful.replaced import CALL, untouched
from tests.faithful.tampering import DATA, HIDDEN, MODELS, SEEN, Net, OtherWeights, Tampering, X, bits, layer, net


def compiled(model: nn.Module, out: Path, width: int = 8, data: Any = None) -> mase_hw.Design:
    return mase_hw.compile(model, X, bits(width), out=out, calibration=[DATA] if data is None else data)


def passes(model: nn.Module, width: int = 8, data: Any = None) -> MaseGraph:
    """The quantised graph; the rest of compile is the same for everybody."""
    return quantised_graph(model, X, load_config(bits(width)), [DATA] if data is None else data, None, lambda _: None)


def refused(model: nn.Module, tampering: Tampering, out: Path, width: int) -> MaseHwError:
    with tampering(model) or contextlib.nullcontext(), pytest.raises(MaseHwError) as caught:
        compiled(model, out, width)
    assert not out.exists()
    return caught.value


@pytest.mark.parametrize("width", [1, 2, 3, 8, 16])
def test_the_same_network_untouched_passes(width: int) -> None:
    passes(net(), width)


@pytest.mark.parametrize("name", SEEN)
def test_what_is_seen(name: str, tmp_path: Path) -> None:
    tampering, where = SEEN[name]
    error = refused(net(), tampering, tmp_path / "b", 8)
    assert where in (error.node or ""), str(error)
    # Not only by what it computes.
    kind = GraphError if name == "weight" else UnsupportedError
    assert type(error) is kind and error.remedy and "no number of bits" not in error.message, str(error)


FOLLOWED = ("whole", "call operator")
"""What torch.export sees, though the tracer does not: the graph computes it as well."""


@pytest.mark.parametrize("width", [2, 8])
@pytest.mark.parametrize("name", [*HIDDEN, *SEEN])
def test_what_it_computes(name: str, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without looking: an error of two percent is found in a network of two bits."""
    monkeypatch.setattr(graph_module, "refuse_hooks", lambda model: None)
    monkeypatch.setattr(graph_module, "refuse_replaced", lambda model, graph: None)
    tampering, where = {**HIDDEN, **SEEN}[name]
    if name in FOLLOWED:
        model = net()
        with tampering(model) or contextlib.nullcontext(), torch.no_grad():
            torch.testing.assert_close(MaseGraph(model, example=[X]).model.eval()(DATA), model.eval()(DATA))
        return
    error = refused(net(), tampering, tmp_path / "b", width)
    assert isinstance(error, GraphError), str(error)
    if name in HIDDEN:
        assert where in (error.node or ""), str(error)


@pytest.mark.parametrize("name", ["traced", "gradient"])
def test_models_that_are_something_else_for_the_tracer(name: str) -> None:
    """They are followed by torch.export: the graph computes what they compute."""
    model = net(MODELS[name])
    with torch.no_grad():
        torch.testing.assert_close(passes(model, 16).model.eval()(DATA), model.eval()(DATA), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", sorted(MODELS.keys() - {"traced", "gradient"}))
def test_models_that_are_something_else_for_us(name: str, tmp_path: Path) -> None:
    says = {
        "call": "__call__ of a layer was replaced",
        "liar": "a tensor decides itself",
        "autocast": "(?s)cannot be run on the example.*BFloat16",
    }
    with pytest.raises((GraphError, UnsupportedError), match=says.get(name, "something else than the model")):
        compiled(net(MODELS[name]), tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_what_happens_for_some_data_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one batch of four, which is no example: the model is compared on all of them."""

    class Rarely(Net):
        def forward(self, x: Tensor) -> Tensor:
            y = super().forward(x)
            return y if isinstance(y, fx.Proxy) or float(x.max()) < 50 else y * 2

    batches = [DATA, DATA + 0.1, DATA * 0.9, torch.cat([DATA, DATA[:1] * 50])]
    with pytest.raises(GraphError, match="other results than the model") as caught:
        compiled(net(Rarely), tmp_path / "b", data=batches)
    assert "signal-to-noise ratio" in str(caught.value.got)
    passes(net(), data=batches)


def test_what_the_data_does_not_show() -> None:
    """A layer behind a function that happens to give zeros."""
    model = net()
    model.norm.bias.data.fill_(-100.0)  # type: ignore[union-attr]
    with torch.no_grad():
        assert not model.relu(model.norm(model.conv(DATA))).any()
    passes(model)
    layer(OtherWeights)(model)
    with pytest.raises(GraphError, match="computes something else") as caught:
        passes(model)
    assert caught.value.node == "fc1"


def test_data_that_change_the_model(tmp_path: Path) -> None:
    model = net()

    def batches() -> Any:
        for _ in range(3):
            yield DATA
            model.fc1.weight.data.mul_(1.5)

    with pytest.raises(GraphError, match="other results than the model") as caught:
        compiled(model, tmp_path / "b", data=batches())
    assert "fc1" in (caught.value.node or "")


def test_every_layer_of_pytorch_is_as_it_was_written() -> None:
    """So none is refused that nobody touched."""

    def below(cls: type) -> set[type]:
        return {cls}.union(*map(below, cls.__subclasses__()))

    layers = [c for c in below(nn.Module) if c.__module__.startswith("torch.nn.modules.")]
    assert len(layers) > 150
    wrong = [
        (cls, name)
        for cls in [*layers, nn.Module]
        for name in ("forward", "__getattr__", "__call__", *CALL)
        if name in vars(cls) and not untouched(cls, name)
    ]
    # These refuse to be called, in a function of their own.
    assert {cls.__name__ for cls, _ in wrong} <= {"ParameterList", "ParameterDict"}


class Doubles(nn.Module):
    """Another weight in training."""

    def forward(self, weight: Tensor) -> Tensor:
        return weight * 2 if self.training else weight


class Thirds(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight / 3


PARAMETRIZED = {
    "own": lambda model: parametrize.register_parametrization(model.fc1, "weight", Thirds()),
    "in training": lambda model: parametrize.register_parametrization(model.fc1, "weight", Doubles()),
    "buffer": lambda model: parametrize.register_parametrization(model.norm, "running_var", Thirds()),
    "weight_norm": lambda model: parametrizations.weight_norm(model.fc1),
    "spectral_norm": lambda model: parametrizations.spectral_norm(model.fc1),
    "of a convolution": lambda model: parametrizations.weight_norm(model.conv),
    "orthogonal": lambda model: parametrizations.orthogonal(model.fc2),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", PARAMETRIZED)
def test_parametrized_weights_are_computed(name: str, training: bool) -> None:
    """As they are in evaluation, whatever the flags say; and the model keeps its parametrization."""
    model = net()
    PARAMETRIZED[name](model)
    model.train(training)
    layer = next(m for m in model.modules() if parametrize.is_parametrized(m))
    before = {n: t.clone() for n, t in model.state_dict().items()}
    graph = passes(model, 16)
    assert parametrize.is_parametrized(layer) and all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    with torch.no_grad():
        assert torch.allclose(graph.model.eval()(DATA), model.eval()(DATA), atol=1e-3)


OLDER = {
    "weight_norm": lambda model: weight_norm(model.fc1),
    "spectral_norm": lambda model: spectral_norm(model.fc1),
    "pruned twice": lambda model: [prune.l1_unstructured(model.fc1, "weight", share) for share in (0.5, 0.3)],
    "pruned bias": lambda model: prune.random_unstructured(model.fc2, "bias", 0.5),
}


@pytest.mark.parametrize("name", OLDER)
@pytest.mark.filterwarnings("ignore")
def test_hooks_that_make_a_weight(name: str) -> None:
    """The weights are those that they make, and the model keeps its hooks."""
    model = net().eval()
    OLDER[name](model)
    before = {n: t.clone() for n, t in model.state_dict().items()}
    graph = passes(model, 16)
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    assert any(module._forward_pre_hooks for module in model.modules())
    with torch.no_grad():
        assert torch.allclose(graph.model.eval()(DATA), model(DATA), atol=1e-3)


def test_a_model_that_is_a_parametrized_layer() -> None:
    layer = parametrizations.weight_norm(nn.Linear(4, 3)).eval()
    x = torch.randn(8, 4)
    graph = quantised_graph(layer, x[:1], load_config(bits(16)), [x], None, lambda _: None)
    with torch.no_grad():
        assert torch.allclose(graph.model.eval()(x), layer(x), atol=1e-3)


def test_compiled_models() -> None:
    model = net()
    model.compile(backend="eager")
    passes(model)
    with pytest.raises(GraphError, match="_orig_mod"):
        passes(torch.compile(net(), backend="eager"))  # type: ignore[arg-type]
    model = net()
    model.fc1._compiled_call_impl = lambda x: x  # type: ignore[assignment]
    with pytest.raises(UnsupportedError, match="_compiled_call_impl"):
        passes(model)


@pytest.mark.parametrize("how", ["instance", "class", "stale"])
def test_graph_modules(how: str) -> None:
    """A graph is what it says, not what user code made of its forward."""
    graph = fx.symbolic_trace(net())
    passes(graph)
    plain = graph.forward
    if how == "instance":
        graph.forward = lambda x: plain(x) * 2  # type: ignore[method-assign]
    elif how == "class":
        type(graph).forward = lambda self, x: plain(x) * 2  # type: ignore[method-assign]
    else:
        (node,) = [n for n in graph.graph.nodes if n.target == "relu"]
        node.replace_all_uses_with(node.args[0])  # and no recompile()
    with pytest.raises(GraphError, match="something else than the model"):
        passes(graph)


class Same(nn.Module):
    """Gives itself in place of a copy."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def __deepcopy__(self, memo: Any) -> nn.Module:
        return self

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


def test_a_copy_that_is_none() -> None:
    """Passes change the copy, so it would be the caller's model that they change."""
    with pytest.raises(GraphError, match="a copy of the model is no copy"):
        MaseGraph(Same())
    shared = nn.Sequential(Same())
    with pytest.raises(GraphError, match="shares modules"):
        MaseGraph(shared)
