"""Constants that a model computes are computed once, whatever it takes to compute them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import UnsupportedError
from mase_hw.nn import Quantized
from mase_hw.passes import calibrate_analysis_pass, fold_constants_transform_pass, quantize_transform_pass
from tests.unit.pipeline import WIDTHS, annotated, inputs, rule

EIGHT = {"default": rule(**dict.fromkeys(WIDTHS, 8))}
Use = Callable[["Table", Tensor], Tensor]


class Table(nn.Module):
    """A stored table of which a row, or something made of it, is used."""

    def __init__(self, use: Use) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.use = use
        self.k = nn.Parameter(torch.randn(3, 6))
        self.row = nn.Parameter(torch.randn(6))
        self.register_buffer("b", torch.randn(2, 8))
        self.fc = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.use(self, x)


USES: dict[str, Use] = {
    "row": lambda m, x: m.fc(x * m.k[1]),
    "rows of a buffer": lambda m, x: m.fc(x) + m.b[0, 2:6],
    "slice and squeeze": lambda m, x: m.fc(x - m.k[1:2].squeeze(0)),
    "narrow": lambda m, x: m.fc(x * m.k.narrow(0, 1, 1)),
    "chunk": lambda m, x: m.fc(x * m.k.chunk(3)[2]),
    "index": lambda m, x: m.fc(x * m.k[[2]]),
    "arithmetic": lambda m, x: m.fc(x * (m.k[0] + torch.exp(m.k[2]))),
    "as large as data": lambda m, x: m.fc(x * torch.full_like(x, 0.25)),
    "mask as large as data": lambda m, x: m.fc(x + torch.zeros_like(x).masked_fill(m.k[0] > 0, 2.0)),
    "weight": lambda m, x: nn.functional.linear(x, m.k[:2], m.b[1, :2]),
    "layers of a row": lambda m, x: m.fc(x) + torch.sigmoid(m.fc(m.k[1] * 0.5)),
    "layers in place": lambda m, x: m.fc(x) + nn.functional.relu(m.fc(m.k[1]), inplace=True) * 2,
    "layers of positions": lambda m, x: m.fc(x) * m.fc(torch.arange(x.shape[1]).float() / x.shape[1] ** 2),
}


class Tokens(nn.Module):
    """Ids, and positions that are made beside them."""

    def __init__(self, use: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.use, self.tokens, self.places = use, nn.Embedding(50, 8), nn.Embedding(40, 8)

    def forward(self, ids: Tensor) -> Tensor:
        return self.tokens(ids) + self.places(self.use(ids))


PLACES: dict[str, Any] = {
    "type_as": lambda i: torch.arange(i.shape[1]).type_as(i),
    "to another": lambda i: torch.arange(i.shape[1]).to(i),
    "to a type": lambda i: torch.arange(i.shape[1], dtype=torch.int32).to(i.dtype),
    "type": lambda i: torch.arange(i.shape[1]).type(i.type()),
    "device and type": lambda i: torch.arange(i.shape[1], dtype=i.dtype, device=i.device),
    "expand": lambda i: torch.arange(i.shape[1])[None].expand(i.shape[0], -1),
    "expand_as": lambda i: torch.arange(i.shape[1]).unsqueeze(0).expand_as(i),
    "repeat": lambda i: torch.arange(i.shape[1])[None].repeat(i.shape[0], 1),
    "cumsum": lambda i: torch.ones_like(i).cumsum(1) - 1,
    "new_ones": lambda i: i.new_ones(i.shape).cumsum(-1) - 1,
    "zeros": lambda i: torch.zeros(i.size(), dtype=torch.long, device=i.device),
    "several sizes": lambda i: torch.ones(1, i.shape[1]).long().cumsum(1),
}


@pytest.mark.parametrize("use", PLACES)
def test_positions_beside_ids(use: str) -> None:
    """What depends on the shape and the type of ids alone is stored, for any number of frames."""
    model = Tokens(PLACES[use]).eval()
    graph, info = fold_constants_transform_pass(annotated(model, torch.randint(0, 50, (2, 6))), {})
    left = {op.name for n in graph.nodes if (op := graph.op_of(n)) is not None}
    assert info["constants"] and left == {"embedding", "add"}
    for frames in (1, 2, 5):
        ids = torch.randint(0, 50, (frames, 6))
        assert torch.equal(graph.model(ids), model(ids))


def test_what_differs_between_frames_stays() -> None:
    model = Tokens(lambda i: torch.arange(i.shape[0])[:, None].expand_as(i)).eval()
    graph, _ = fold_constants_transform_pass(annotated(model, torch.randint(0, 50, (2, 6))), {})
    for frames in (1, 2, 5):
        ids = torch.randint(0, 50, (frames, 6))
        assert torch.equal(graph.model(ids), model(ids))


def test_positions_counted_from_ids() -> None:
    """As RoBERTa counts them: a sum over a mask of the ids becomes hardware."""
    model = Tokens(lambda i: (torch.cumsum(i.ne(1).int(), 1).type_as(i) * i.ne(1).int()).long() + 1).eval()
    assert mase_hw.check(model, torch.randint(2, 30, (1, 6))).passed


def test_a_power_of_data_by_data() -> None:
    """Refused with its reason, and what the message says to write is taken."""

    class Power(nn.Module):
        def __init__(self, use: Any) -> None:
            super().__init__()
            self.use = use

        def forward(self, x: Tensor) -> Tensor:
            return self.use(x)

    x = torch.rand(1, 4) + 0.5
    for use in (lambda x: torch.float_power(x, x), lambda x: x.pow(x)):
        (problem,) = mase_hw.check(Power(use), x).problems
        assert (
            problem.field == "exponent"
            and problem.remedy is not None
            and "torch.exp(b * torch.log(a))" in problem.remedy
        )
    for use in (lambda x: torch.exp(x * torch.log(x)), lambda x: torch.exp(x * math.log(2))):
        assert mase_hw.check(Power(use), x).passed


@pytest.mark.parametrize("use", USES)
def test_what_is_made_of_stored_tensors(use: str) -> None:
    """The float function stays, bit for bit; the constant is a parameter of the node that reads it."""
    model, x = Table(USES[use]).eval(), inputs(16, 6)
    with torch.no_grad():
        want = model(x)
    graph, info = fold_constants_transform_pass(annotated(model, x), {})
    assert info["constants"] or use == "rows of a buffer"  # which tracing has computed
    with torch.no_grad():
        assert torch.equal(graph.model(x), want)
    graph, _ = calibrate_analysis_pass(graph, {"data": [x]})
    graph, _ = quantize_transform_pass(graph, EIGHT)
    assert not [n for n in graph.nodes if n.op == "get_attr"]
    holders = [m for m in graph.model.modules() if isinstance(m, Quantized) and m.parameter_names]
    assert len(holders) == (1 if use == "weight" else 2)
    with torch.no_grad():
        assert float((graph.model(x) - want).abs().max()) < 0.2


def test_compile_does_it(tmp_path: Path) -> None:
    model, x = Table(USES["row"]).eval(), inputs(16, 6)
    design = mase_hw.compile(model, x[:1], out=tmp_path / "bundle", calibration=[x])
    module = next(m for m in design.graph.model.modules() if isinstance(m, Quantized) and m.mase_op == "mul")
    assert torch.equal(module.get_parameter(module.op.constant), model.k[1])


def test_without_it_the_remedy_is_named() -> None:
    graph = annotated(Table(lambda m, x: m.fc(x * torch.exp(m.row))).eval(), inputs(16, 6))
    graph, _ = calibrate_analysis_pass(graph, {"data": [inputs(16, 6)]})
    with pytest.raises(UnsupportedError, match="fold_constants_transform_pass"):
        quantize_transform_pass(graph, EIGHT)
