"""Tracing: what is a leaf, and what happens to models that cannot be traced."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.errors import ConfigError, GraphError
from mase_hw.ir import MaseTracer, trace_torch_module
from tests.ir.nets import ConvNet, untouched


def ops_of(graph: torch.fx.Graph) -> list[tuple[str, str]]:
    return [(n.op, str(n.target)) for n in graph.nodes]


class Scaled(nn.Linear):
    """A linear with a forward of its own: must not be taken for a plain linear."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2


class Renamed(nn.Linear):
    """A linear in all but name."""


class Opaque(nn.Module):
    mase_leaf = True

    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


class Holder(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)


def test_leaves() -> None:
    for inner, leaf in ((nn.Linear(2, 2), True), (Renamed(2, 2), True), (Opaque(), True), (Scaled(2, 2), False)):
        graph = trace_torch_module(Holder(inner)).graph
        assert (("call_module", "inner") in ops_of(graph)) is leaf, type(inner)


def test_user_leaves() -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    assert ("call_module", "inner") in ops_of(MaseTracer(custom_leaf_layers=(Odd,)).trace(Holder(Odd())))
    assert ("call_module", "inner") not in ops_of(MaseTracer().trace(Holder(Odd())))


def test_leaf_functions_are_not_traced_into() -> None:
    graph = MaseTracer(custom_leaf_functions=(branching,)).trace(UsesFunction())
    assert [n.target for n in graph.nodes if n.op == "call_function"] == [branching]


def branching(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else -x


class UsesFunction(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return branching(x)


class Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x * 2
        if y.sum() > 0:  # the line
            return y
        return -y


class Loop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = 0
        for row in x:  # the line
            total = total + row
        return total


class Number(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * int(x.shape[0])  # the line


class Broken(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return self.missing(x)  # the line


@pytest.mark.parametrize("model", [Branch, Loop, Number, Broken])
def test_untraceable_names_the_line_and_the_remedy(model: Callable[[], nn.Module]) -> None:
    source, first = inspect.getsourcelines(model)
    line = first + next(i for i, text in enumerate(source) if "the line" in text)
    with pytest.raises(GraphError) as error:
        trace_torch_module(model())
    message = str(error.value)
    assert f"test_tracer.py:{line}:" in message and "the line" in message
    assert "mase_leaf = True" in message


def test_cf_args_fix_an_argument() -> None:
    class Switch(nn.Module):
        def forward(self, x: Tensor, negate: bool, scale: float | None = None) -> Tensor:
            if negate:
                x = -x
            return x if scale is None else x * scale

    traced = trace_torch_module(Switch(), {"negate": True, "scale": None})
    assert [n.target for n in traced.graph.nodes if n.op == "placeholder"] == ["x"]
    assert len(traced.graph.nodes) == 3
    assert torch.equal(traced(torch.ones(2)), -torch.ones(2))
    with pytest.raises(ConfigError, match="'negate'"):
        trace_torch_module(Switch(), {"negat": True})


def test_model_is_copied_and_not_touched() -> None:
    model = ConvNet()
    model.head.eval()
    with untouched(model):
        traced = trace_torch_module(model)
    assert traced.training and traced.get_submodule("stem.0").training
    assert not traced.get_submodule("head").training
    traced.get_parameter("head.weight").data.zero_()
    assert model.head.weight.abs().sum() > 0


def test_shared_weights_are_shared_and_modules_are_not() -> None:
    model = ConvNet()
    traced = trace_torch_module(model, share_weights=True)
    assert traced.get_parameter("head.weight") is model.head.weight
    assert traced.get_submodule("head") is not model.head


def test_dropout_is_off_in_the_graph() -> None:
    class Drops(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.dropout(x, 0.5, self.training)

    dropout = next(n for n in trace_torch_module(Drops().train()).graph.nodes if n.op == "call_function")
    assert dropout.kwargs["training"] is False


def test_input_names_are_for_hugging_face_only() -> None:
    with pytest.raises(ConfigError, match="hf_input_names is for models of Hugging Face"):
        trace_torch_module(nn.ReLU(), hf_input_names=["input_ids"])


def test_uncopyable_model_is_refused() -> None:
    model = nn.ReLU()
    model.handle = (i for i in range(3))
    with pytest.raises(GraphError, match="cannot be copied"):
        trace_torch_module(model)


def test_wrong_custom_ops_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'modules'"):
        trace_torch_module(nn.ReLU(), custom_ops={"module": {}})
