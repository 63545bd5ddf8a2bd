"""Results in dicts, dataclasses and named tuples; models in training mode; a model of Hugging Face."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.compiler.quantised_graph import traced
from mase_hw.errors import GraphError
from mase_hw.ir import MaseGraph
from mase_hw.ir.faithful.same_function import check_trace
from mase_hw.ir.trace.containers import contents


@dataclass
class Made:
    logits: Any
    hidden: Any = None
    more: Any = None


class Pair(NamedTuple):
    logits: Any
    hidden: Any


class Net(nn.Module):
    """Two results, in whatever ``kind`` makes of them."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind
        self.a, self.drop, self.b = nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Any:
        y = self.a(x)
        return self.kind(self.b(self.drop(torch.relu(y))), y)


KINDS = {
    "dict": lambda logits, hidden: {"logits": logits, "hidden": hidden},
    "nested": lambda logits, hidden: ({"logits": logits}, [hidden, None]),
    "dataclass": Made,
    "dataclass by name": lambda logits, hidden: Made(hidden=hidden, logits=logits),
    "named tuple": Pair,
}


@pytest.mark.parametrize("kind", KINDS)
def test_models_compare_by_their_tensors(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Net(KINDS[kind]).eval(), torch.randn(8, 4)
    graph = MaseGraph(model)
    check_trace(model, graph.model, {"x": x})
    want, got = contents(model(x)), contents(graph.model(x))
    assert len(want) == 2 and all(torch.equal(a, b) for a, b in zip(want, got, strict=True))
    if kind == "dataclass":  # the whole way, once
        design = mase_hw.compile(model, x[:1], out=tmp_path / "bundle", calibration=[x])
        assert [s for s in design.streams if "out" in s] == ["data_out_0", "data_out_1"]
        errors = [(a - b).abs().max() for a, b in zip(want, contents(design.model(x)), strict=True)]
        assert max(errors) < 0.1


def test_another_order_is_another_function() -> None:
    model = Net(KINDS["dict"]).eval()
    other = MaseGraph(Net(lambda logits, hidden: {"hidden": hidden, "logits": logits}).eval())
    with pytest.raises(GraphError, match="computes something else"):
        check_trace(model, other.model, {"x": torch.randn(2, 4)})


def test_what_is_inside() -> None:
    assert contents(Made(1, (2, [3, None]), {"a": 4, "b": Pair(5, 6)})) == [1, 2, 3, 4, 5, 6]
    assert contents(None) == [] and contents(Made) == [Made]


def test_a_model_in_training_mode_is_compiled_in_evaluation_mode() -> None:
    torch.manual_seed(0)
    model, x, said = Net(Pair).train(), torch.randn(8, 4), list[str]()
    graph, _ = traced(model, x[:1], None, said.append)
    assert any("training mode" in line for line in said) and model.training and model.drop.training
    assert not any(module.training for module in graph.model.modules())
    with torch.no_grad():
        assert torch.equal(graph.model(x)[0], graph.model(x)[0])
    assert not torch.equal(graph.model.train()(x)[0], graph.model(x)[0]), "and it trains after train()"
    said.clear()
    traced(model.eval(), x[:1], None, said.append)
    assert not any("training mode" in line for line in said)


def test_a_model_of_hugging_face_is_its_graph() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=20
    )
    model = transformers.BertForSequenceClassification(config).eval()
    example = {"input_ids": torch.arange(6).reshape(1, 6)}
    assert type(model(**example)) is not dict and type(MaseGraph(model).model(**example)) is dict
    check_trace(model, MaseGraph(model).model, example)
