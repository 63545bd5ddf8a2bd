"""Constants that a model computes are computed once, whatever it takes to compute them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
}


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
