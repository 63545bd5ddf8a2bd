"""Operations that write their argument: the graph's edges say what PyTorch does."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from mase_hw.errors import GraphError
from mase_hw.ir.trace.inplace import follow_writes, setitem
from tests.ir.nets import annotated
from tests.ir.real_run import assert_real


class Statements(nn.Module):
    """What is written is read again under its old name."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        a = x * 2
        a.add_(1)
        b = a - 1
        self.relu(a)
        F.relu6(b, True)
        F.hardtanh(b, inplace=True)
        return a + b


def test_later_readers_follow_the_write() -> None:
    model, inputs = Statements(), {"x": torch.linspace(-3, 7, 8)}
    graph = annotated(model, inputs)
    assert_real(graph, model, inputs, values=True)
    sources = {n.name: [p.name for p, _ in graph.sources(n).values()] for n in graph.nodes}
    assert sources["sub"] == ["add_"] and sources["relu"] == ["add_"] and sources["hardtanh"] == ["relu6"]
    assert sources["add"] == ["relu", "hardtanh"]
    assert_real(annotated(model, inputs, force_device_meta=True), model, inputs, values=False)


def test_an_assignment_becomes_an_edge() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    doubled = graph.call_function(operator.mul, (x, 2))
    write = graph.call_function(operator.setitem, (doubled, (slice(None), 0), 9.0))
    graph.output(graph.call_function(operator.add, (doubled, 1)))
    model = fx.GraphModule(nn.Module(), graph)
    annotations = annotated(model, {"x": torch.ones(2, 2)})
    written, result = (annotations.tensor(annotations.node(n), "data_out_0").value for n in ("setitem", "add"))
    assert torch.equal(written, torch.tensor([[9.0, 2.0], [9.0, 2.0]]))
    assert torch.equal(result, torch.tensor([[10.0, 3.0], [10.0, 3.0]]))
    follow_writes(graph, model)
    assert write.target is setitem and [n.name for n in write.users] == ["add"]
    assert torch.equal(annotations.model(torch.ones(2, 2)), result)


@pytest.mark.parametrize("symbolic", [False, True])
def test_a_write_through_a_view_is_refused(symbolic: bool) -> None:
    class Hidden(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            a = x * 2
            a.view(-1).add_(1)
            return a + 1

    with pytest.raises(GraphError, match="overwritten through a view before 'add' reads it") as error:
        annotated(Hidden(), {"x": torch.ones(2, 2)}, force_device_meta=symbolic)
    assert "inplace=False" in str(error.value)


def test_inference_mode() -> None:
    """Its tensors do not count how often they were written."""
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True))
    with torch.inference_mode():
        graph = annotated(model, {"input": torch.ones(1, 3)})
    assert graph.tensor(graph.node("_1"), "data_out_0").shape == [1, 3]
