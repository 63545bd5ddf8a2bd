"""What takes parts of a tensor becomes slices: the same values, true metadata, nothing else touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from mase_hw.errors import GraphError, UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.layouts import Layout
from mase_hw.ops.slice import cut_of, relayout, slice_dim
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    lower_slices_transform_pass,
    quantize_transform_pass,
)
from mase_hw.passes.lower.lower_slices import steps_of
from tests.ir.nets import Of

CONFIG = {
    "name": "fixed",
    **{f"{part}_{key}": value for part in ("data_in", "data_out") for key, value in (("width", 8), ("frac_width", 4))},
    "weight_width": 8,
}


def halves(x: Tensor) -> Tensor:
    left, right = x.chunk(2, 1)
    return left - right


X = torch.randn(1, 4, 6, 5, generator=torch.Generator().manual_seed(1))

FORMS: dict[str, tuple[Callable[[Tensor], Any], list[str]]] = {
    "chunk": (halves, ["slice", "slice", "sub"]),
    "chunk to cat": (lambda x: torch.cat(x.chunk(2, 1), 2) + 0, ["slice", "slice", "cat", "add"]),
    "parts to cat": (lambda x: torch.cat(x.chunk(4, 1)[2:], 2) + 0, ["slice", "slice", "cat", "add"]),
    "split": (lambda x: x.split([1, 3], 1)[1], ["slice"]),
    "split by size": (lambda x: torch.split(x, 4, dim=2)[-1], ["slice"]),
    "unbind": (lambda x: x.unbind(1)[2] + x.unbind(1)[-1], ["slice", "squeeze", "slice", "squeeze", "add"]),
    "unbind before the frames": (
        lambda x: x.permute(1, 0, 2, 3).unbind(0)[2] * 2,
        ["permute", "slice", "squeeze", "mul"],
    ),
    "narrow": (lambda x: torch.narrow(x, 2, 1, 3), ["slice"]),
    "select": (lambda x: x.select(-1, 3), ["slice", "squeeze"]),
    "index": (lambda x: x[:, 1, ..., ::2, None], ["slice", "slice", "squeeze", "unsqueeze"]),
    "ends": (lambda x: x[..., 1:-1], ["slice"]),
    "from the shape": (lambda x: x[:, : x.size(1) // 2], ["slice"]),
    "of a slice": (lambda x: x[:, 1:][:, :, 1:3], ["slice", "slice"]),
    "nothing left out": (lambda x: x[:] + x[:, :], ["add"]),
    "new dimension": (lambda x: x[:, None] * 2, ["unsqueeze", "mul"]),
    "results": (lambda x: x.chunk(2, 1), ["slice", "slice"]),
    "a list is no slice": (lambda x: x[:, [0, 2]], ["getitem"]),
    "overlapping": (lambda x: x.expand(3, -1, -1, -1), ["expand"]),
}


def common(function: Callable[[Tensor], Any], x: Tensor = X) -> MaseGraph:
    graph = MaseGraph(Of(function))
    graph, _ = init_metadata_analysis_pass(graph)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": x}})
    return graph


def facts(graph: MaseGraph) -> list[Any]:
    """All common metadata of a graph, tensors as lists."""
    found = []
    for node in graph.nodes:
        meta = graph.meta_of(node).common
        tensors = [*meta.args.items(), *meta.results.items()]
        shown = [
            (name, t.shape, t.type, t.value.tolist() if isinstance(t.value, Tensor) else t.value)
            if hasattr(t, "shape")
            else (name, t)
            for name, t in tensors
        ]
        found.append((node.op, meta.mase_type, meta.mase_op, shown))
    return found


@pytest.mark.parametrize("name", FORMS)
def test_the_same_values_and_true_metadata(name: str) -> None:
    """Values as the model gives them; metadata as a graph traced from the result has them."""
    function, ops = FORMS[name]
    graph, info = lower_slices_transform_pass(common(function))
    assert [op.name for n in graph.nodes if (op := graph.op_of(n)) is not None] == ops
    assert bool(info["lowered"]) == (not {"getitem", "expand"} & set(ops))
    got, wanted = graph.model(X), function(X)
    pairs = zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]
    assert all(torch.equal(a, b) for a, b in pairs)
    fresh = MaseGraph(graph.model)
    fresh, _ = init_metadata_analysis_pass(fresh)
    fresh, _ = add_common_metadata_analysis_pass(fresh, {"dummy_in": {"x": X}})
    assert facts(graph) == facts(fresh)


def test_a_slice_has_the_name_of_what_it_was() -> None:
    """So that configurations by name find it."""
    graph, info = lower_slices_transform_pass(common(lambda x: x.narrow(2, 1, 3).select(1, 0)))
    assert info["lowered"] == {"narrow": "narrow", "select": "select"}
    assert [n.name for n in graph.nodes if n.target is slice_dim] == ["narrow", "select"]


def test_bits() -> None:
    """A slice casts: every element half-even to the format of the result, against Python."""
    graph, _ = lower_slices_transform_pass(common(lambda x: x[:, 1:3, ::2]))
    narrow = {"data_out_width": 4, "data_out_frac_width": 1}
    overrides = {
        "getitem": {"config": {"name": "fixed", **{k: v for k, v in CONFIG.items() if "data_in" in k}, **narrow}}
    }
    graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": CONFIG}, "overrides": overrides})
    got = graph.model(X)
    for c, h, w in ((c, h, w) for c in range(2) for h in range(3) for w in range(5)):
        code = max(-128, min(127, round(float(X[0, 1 + c, 2 * h, w]) * 16)))
        assert float(got[0, c, h, w]) == max(-8, min(7, round(code / 8))) / 2


def test_only_float_graphs() -> None:
    graph, _ = lower_slices_transform_pass(common(halves))
    graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": CONFIG}})
    with pytest.raises(GraphError, match="slicing works on a float graph"):
        lower_slices_transform_pass(graph)


def test_what_is_no_slice_is_refused_by_quantisation() -> None:
    graph, _ = lower_slices_transform_pass(common(lambda x: x[:, [0, 2]]))
    with pytest.raises(UnsupportedError, match="'getitem' cannot be quantised"):
        quantize_transform_pass(graph, {"by": "type", "default": {"config": CONFIG}})


IMAGE = (1, 12, 4, 5)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize(
    "layout",
    [
        Layout.row_major(IMAGE),
        Layout.channels_last(IMAGE),
        Layout(IMAGE, (3, 4, 4, 5), (2, 3, 1, 0)),  # channels shuffled in three groups
        Layout(IMAGE, (12, 2, 2, 5), (0, 2, 3, 1)),
    ],
)
def test_layouts(layout: Layout, dim: int) -> None:
    """What is left travels in the order in which it travelled before; a range that straddles has no order."""
    size, straddling = IMAGE[dim], 0
    elements = torch.arange(240).reshape(IMAGE)
    before = layout.to_stream(elements[None].numpy())[0]
    for begin in range(size):
        for length in range(1, size - begin + 1):
            for step in range(1, 4 if length > 1 else 2):
                if begin + (length - 1) * step >= size:
                    continue
                given = {"dim": dim, "begin": begin, "length": length, "step": step}
                left = slice_dim(elements, **given)
                made = relayout(layout, tuple(left.shape), given)
                if made is None:
                    straddling += 1
                    assert len(layout.factors_of(dim)) > 1 and cut_of(layout, given) is None
                    continue
                kept = [e for e in before.tolist() if e in set(left.reshape(-1).tolist())]
                assert made.to_stream(left[None].numpy())[0].tolist() == kept
    assert bool(straddling) == (len(layout.factors_of(dim)) > 1)


def test_merged_dimensions_are_no_slice() -> None:
    """A view whose one dimension runs over the ends of rows has a stride that a slice might have too."""
    base = torch.arange(24).reshape(4, 6).clone()
    for view in (base.view(24), base[1:3].view(12), base.as_strided((9,), (2,), 1)):
        assert steps_of(base, view) is None
    for view in (base[1:2].view(6), base[:, 1:6:2], base[2]):
        result = base
        for function, args in steps_of(base, view) or pytest.fail("a slice"):
            result = function(result, *args)
        assert torch.equal(result, view)
