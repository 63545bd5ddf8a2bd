"""Tensors that are written slice by slice, and elements that are taken at places of data, are what PyTorch gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import mase_hw
from mase_hw.errors import MaseHwError
from mase_hw.ir import MaseGraph
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    fold_constants_transform_pass,
    init_metadata_analysis_pass,
    lower_arithmetic_transform_pass,
    lower_attention_transform_pass,
    lower_movement_transform_pass,
    lower_patterns_transform_pass,
    lower_products_transform_pass,
    lower_slices_transform_pass,
    verify_analysis_pass,
)
from tests.e2e.test_small_models_arithmetic import bits
from tests.unit.pipeline import OWN_FRAMES

PASSES = (
    fold_constants_transform_pass,
    lower_patterns_transform_pass,
    lower_attention_transform_pass,
    lower_arithmetic_transform_pass,
    lower_slices_transform_pass,
    lower_movement_transform_pass,
    lower_products_transform_pass,
)


class Lines(nn.Module):
    """A few lines, with a stored table."""

    def __init__(self, lines: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.lines = lines
        generator = torch.Generator().manual_seed(2)
        self.register_buffer("row", torch.randn(8, generator=generator))
        self.register_buffer("grid", torch.arange(12).reshape(6, 2) / 4)
        self.table = nn.Parameter(torch.randn(1, 6, 8, generator=generator))

    def forward(self, x: Tensor) -> Any:
        return self.lines(self, x)


def shifted(self: Any, x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[:, 1:] = x[:, :-1]
    return y


def filled(self: Any, x: Tensor) -> Tensor:
    y = torch.zeros(x.shape[0], 6, 8)
    y[:, :2] = x[:, 2:4]
    y[:, 2:] = x[:, :4] * 2
    return y


def step_by_step(self: Any, x: Tensor) -> Tensor:
    y = torch.zeros(x.shape[0], 6, 8)
    for step in range(6):
        y[:, step] = x[:, 5 - step] * (step + 1)
    return y


def cleared(self: Any, x: Tensor) -> Tensor:
    y = x * 2
    y[:, 0] = 0
    y[..., 3:5] = 0.5
    return y


def every_second(self: Any, x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    y[..., 0::2] = x[..., 1::2]
    y[..., 1::2] = -x[..., 0::2]
    return y


def stuffed(self: Any, x: Tensor) -> Tensor:
    y = torch.zeros(x.shape[0], 6, 16)
    y[..., ::2] = x
    return y


def moved_in_time(self: Any, x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y[:, :-1, :2] = x[:, 1:, :2]
    y[:, 1:, 2:4] = x[:, :-1, 2:4]
    y[:, :, 4:] = x[:, :, 4:]
    return y


def framed(self: Any, x: Tensor) -> Tensor:
    y = torch.full((x.shape[0], 8, 10), 0.25)
    y[:, 1:-1, 1:-1] = x
    return y


def negative(self: Any, x: Tensor) -> Tensor:
    y = x.clone()
    y[x < 0] = 0
    y[:, [0, 3]] = x[:, [2, 5]]
    return y


def stored(self: Any, x: Tensor) -> Tensor:
    y = self.table.repeat(x.shape[0], 1, 1)
    y[:, 2] = x[:, 0]
    y[:, 4] = self.row
    return y


def added(self: Any, x: Tensor) -> Tensor:
    y = x.clone()
    y[:, -1] += x[:, 0]
    y[:, :3].mul_(2)
    return y


def apart(self: Any, x: Tensor) -> Tensor:
    y = x.new_zeros(x.shape[0], 9, 8)
    y[:, 1] = x[:, 0]
    y[:, 4:6] = x[:, 2:4]
    return y


WRITES = (shifted, filled, step_by_step, cleared, every_second, stuffed, moved_in_time, framed, negative, stored, added,
          apart)  # fmt: skip


def largest(self: Any, x: Tensor) -> Tensor:
    return torch.gather(x * 2, 2, x.argmax(-1, keepdim=True))


def several(self: Any, x: Tensor) -> Tensor:
    return torch.gather(x * 2, -1, x.topk(3, dim=-1)[1])


def in_order(self: Any, x: Tensor) -> Tensor:
    return torch.take_along_dim(x * 2, x.argsort(-1), -1)


def of_columns(self: Any, x: Tensor) -> Tensor:
    return torch.gather(x, 1, x.argmin(1, keepdim=True))


def of_fewer_columns(self: Any, x: Tensor) -> Tensor:
    return torch.gather(x, 1, x[:, :, 2:7].argsort(1)[:, :4])


def of_one_column(self: Any, x: Tensor) -> Tensor:
    return x.gather(1, x[..., :1].argmax(1, keepdim=True))


def tokens(self: Any, x: Tensor) -> Tensor:
    best = x.mean(-1).topk(3, dim=1).indices
    return torch.gather(x, 1, best.unsqueeze(-1).expand(-1, -1, 8))


def by_frame(self: Any, x: Tensor) -> Tensor:
    best = x.mean(-1).topk(3, dim=1).indices
    return x[torch.arange(x.shape[0])[:, None], best]


def of_a_table(self: Any, x: Tensor) -> Tensor:
    return self.table[0][x.mean(-1).argmax(1)]


def of_a_stored_row(self: Any, x: Tensor) -> Tensor:
    return torch.gather(torch.arange(8.0).sin().expand(x.shape[0], 6, 8), 2, x.argmax(-1, keepdim=True))


def selected(self: Any, x: Tensor) -> Tensor:
    return torch.index_select(self.table[0], 0, x.mean(-1).argmax(1))


def rows_from_the_end(self: Any, x: Tensor) -> Tensor:
    return x[torch.arange(x.shape[0]), x.mean(-1).argmax(1) - 4]


def of_a_table_from_the_end(self: Any, x: Tensor) -> Tensor:
    return self.table[0][x.mean(-1).argmax(1) - 4]


def in_order_from_the_end(self: Any, x: Tensor) -> Tensor:
    return torch.take_along_dim(x * 2, x.argsort(-1) - 8, -1)


PLACES = (
    largest,
    several,
    in_order,
    of_columns,
    of_fewer_columns,
    of_one_column,
    tokens,
    by_frame,
    of_a_table,
    of_a_stored_row,
    selected,
    rows_from_the_end,
    of_a_table_from_the_end,
    in_order_from_the_end,
)


@pytest.mark.parametrize("lines", [*WRITES, *PLACES])
def test_as_pytorch(lines: Callable[..., Tensor]) -> None:
    model = Lines(lines).eval()
    x = torch.randn(3, 6, 8, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        graph = MaseGraph(torch.export.export(model, (x[:1],)))
        init_metadata_analysis_pass(graph)
        add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": x[:1]}, "add_value": False})
        for transform in PASSES:
            transform(graph)
        verify_analysis_pass(graph)
        torch.testing.assert_close(graph.model(x), model(x), rtol=0, atol=1e-6)
    for node in graph.nodes:
        op = graph.op_of(node)
        assert op is None or op.implicit or op.hardware is not None or not graph.meta_of(node).common.results.tensors


def test_every_bit(tmp_path: Path) -> None:
    """Tables of places and beats of zeros in hardware, and integers of data; what is only moved is as it was."""

    def lines(self: Any, x: Tensor) -> tuple[Tensor, ...]:
        whole = (x * 4).int(), x - x.long(), F.embedding((x[:, :, 0].abs() * 3).long().clamp(0, 5), self.grid)
        return *whole, *(f(self, x) for f in (shifted, filled, every_second, cleared, tokens, of_columns))

    x = torch.round(torch.randn(6, 6, 8, generator=torch.Generator().manual_seed(3)) * 16) / 16
    model = Lines(lines).eval()
    config = {**bits(12), **OWN_FRAMES}
    design = mase_hw.compile(
        model, x[:1], config, out=tmp_path / "bundle", calibration=[x[k : k + 1] for k in range(6)]
    )
    with torch.no_grad():
        for frame in x.split(1):
            for found, wanted in zip(design.model(frame), model(frame), strict=True):
                assert torch.equal(found, wanted)
    simulation = design.simulate(x, work_dir=tmp_path / "work", stalls=0.3)
    assert simulation.passed and design.timing["exact"]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (
            lambda self, x: x.index_put((torch.arange(2)[None],), x[:, :2].sum(), accumulate=True),
            "its places are along the frames",
        ),
        (lambda self, x: x.index_put((x > 0,), x[x > 0]), "has one for each"),
    ],
    ids=["sums", "as many as are true"],
)
def test_refused(lines: Callable[..., Tensor], says: str, tmp_path: Path) -> None:
    with pytest.raises(MaseHwError, match=says):
        mase_hw.compile(torch.export.export(Lines(lines), (torch.randn(1, 6, 8),)), torch.randn(1, 6, 8),
                        out=tmp_path / "bundle")  # fmt: skip


class Positions(nn.Module):
    """The type of each token is that of its position, which is counted from ids that a table reads as well."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("types", torch.arange(12)[None] % 3)
        self.words, self.kinds = nn.Embedding(20, 4), nn.Embedding(3, 4)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.cumsum((ids != 1).int(), 1) + 1
        types = torch.gather(self.types.expand(ids.shape[0], -1), 1, places)
        result: Tensor = self.words(ids) + self.kinds(types)
        return result


def test_integers_of_a_stored_row_are_ids(tmp_path: Path) -> None:
    """Vectors give no id that is no row, though the comparison could read any."""
    torch.manual_seed(0)
    model, ids = Positions().eval(), torch.randint(0, 20, (6, 5))
    design = mase_hw.compile(model, ids[:1], out=tmp_path / "types", calibration=list(ids.split(1)))
    with torch.no_grad():
        torch.testing.assert_close(torch.cat([design.model(i) for i in ids.split(1)]), model(ids), rtol=0, atol=0.05)
    assert design.simulate(ids[:3]).passed
