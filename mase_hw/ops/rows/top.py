"""The largest or the smallest elements of rows, in order, and their places: what ``topk`` and ``sort`` come to.

Of equal elements the one with the lower place comes first. (What PyTorch does with ties is not defined, but for
``sort(stable=True)``, which does the same.) A cell for each result keeps the best so far, so a row is in order as soon
as its last element is there, whatever it holds: the time does not depend on the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_unary

from mase_hw.formats import FixedFormat
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Tensor3, port
from mase_hw.layouts import Layout
from mase_hw.numerics import cast
from mase_hw.opdef import ONE_INPUT, Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._cases import case
from mase_hw.ops._scaled import SELECTION
from mase_hw.ops._tensors import as_they_come, lanes_within
from mase_hw.ops.rows._rows import RowPorts, abreast, row_shape
from mase_hw.ops.rows._rows import relayout as in_rows
from mase_hw.steps import Steps


def top_values(input: Tensor, size: int, count: int, largest: bool = True) -> Tensor:
    """The first elements of every row, sorted.

    Args:
        input: ``(..., size)``.
        size: Of a row.
        count: Elements that stay.
        largest: The largest ones, the largest first, rather than the smallest.
    """
    if has_torch_function_unary(input):  # tracing records one call
        result: Tensor = handle_torch_function(top_values, (input,), input, size, count, largest)
        return result
    return _sorted(input, count, largest)[0]


def top_places(input: Tensor, size: int, count: int, largest: bool = True) -> Tensor:
    """The places of what :func:`top_values` gives."""
    if has_torch_function_unary(input):
        result: Tensor = handle_torch_function(top_places, (input,), input, size, count, largest)
        return result
    return _sorted(input, count, largest)[1]


def _sorted(x: Tensor, count: int, largest: bool) -> tuple[Tensor, Tensor]:
    values, places = torch.sort(x, dim=-1, descending=largest, stable=True)
    return values[..., :count], places[..., :count]


class TopParams(RowPorts, frozen=True):
    """Parameters of ``fixed_top``."""

    data_in_0: Tensor3
    data_out_0: Tensor3
    smallest: bool
    places: bool
    cast: Cast

    def attributes(self) -> Attributes:
        """What is looked for in which row."""
        size, count = self.data_in_0.size[0], self.data_out_0.size[0]
        return {"size": size, "count": count, "largest": not self.smallest}


def _golden(places: bool) -> Callable[[Arithmetic, Mapping[str, Tensor]], dict[str, Tensor]]:
    def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """``data_in_0 (..., size)`` -> ``data_out_0 (..., count)``."""
        source, target = a.formats["data_in_0"], a.formats["data_out_0"]
        found = _sorted(t["data_in_0"], int(a.attributes["count"]), bool(a.attributes.get("largest", True)))
        return {"data_out_0": cast(found[places], 0 if places else source.frac_width, target, a.rounding, a.overflow)}

    return golden


def _relayout(layout: Layout, shape: Sequence[int], attributes: Attributes) -> Layout | None:
    """The rows in the order in which they come, each from its first element to its last."""
    kept = in_rows(layout, layout.shape, attributes)
    last = layout.factors_of(len(layout.shape) - 1) if layout.shape else []
    if kept is None or not last:
        return None if kept is None else Layout(tuple(shape), layout.factors, layout.order)
    if (rows := layout.of_rows(shape[-1])) is not None:
        return rows
    if shape[-1] == 1 and layout.beside > 1:
        (element,) = last
        factors = (*layout.factors[:element], 1, *layout.factors[element + 1 :])
        return Layout(tuple(shape), factors, layout.order)
    if shape[-1] == 1:
        return Layout(tuple(shape), layout.factors[:-1], layout.order[:-1])
    return Layout(tuple(shape), (*layout.factors[:-1], shape[-1]), layout.order)


def _build(places: bool) -> Callable[[Request], TopParams]:
    def build(r: Request) -> TopParams:
        a, (rows, size) = r.arithmetic, row_shape(r)
        count, beside = int(a.attributes["count"]), abreast(r)
        lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], (rows, size * beside))
        given = r.stream_shapes["data_out_0"] if "data_out_0" in r.shapes else (rows, count)
        lanes_within(r.node, "data_out_0", r.parallelism.get("data_out_0", (1,)), given)
        return TopParams(
            data_in_0=port((rows, size), a.formats["data_in_0"], 1, beside),
            data_out_0=port((rows, count), a.formats["data_out_0"], 1, beside),
            smallest=not a.attributes.get("largest", True),
            places=places,
            cast=a.modes,
        )

    return build


def _latency(p: TopParams) -> Latency:
    """A step of the cells takes an element; the last one of a row waits until the results before have left."""
    size, count = p.data_in_0.size[0], p.data_out_0.size[0]
    rows = p.data_in_0.tiles[1] * p.data_in_0.tiles[2]
    every, row, out = (np.arange(n, dtype=np.int64) for n in (rows * size, rows, rows * count))
    cells = Steps.at(
        rows * size, needed=[every], freed=[every], emitted=row * size + size - 1, delay=[0], room=[0], pipe=0, queue=0
    )
    leaving = Steps.at(
        rows * count, needed=[row * count], freed=[row * count + count - 1], emitted=out, delay=[1], room=[1], pipe=0,
        queue=0, room_lag=0,
    )  # fmt: skip
    return Latency.from_steps(Steps.registered(rows * size), cells, leaving, Steps.registered(rows * count))


def _place_format(formats: Mapping[str, FixedFormat], sizes: Sequence[int], attributes: Attributes) -> FixedFormat:
    """The narrowest format that holds every place of a row."""
    return FixedFormat(max(1, (sizes[-1] - 1).bit_length()), 0, signed=False)


def _case(
    places: bool, name: str, shape: tuple[int, ...], count: int, formats: str, largest: bool = True, beside: int = 0
) -> Case:
    size, lanes = shape[-1], dict.fromkeys(ONE_INPUT, 1)
    return case(
        _build(places), name, shape, lanes, formats, frames=5, size=size, count=count, largest=largest, beside=beside
    )


def _values() -> list[Case]:
    return [
        _case(False, "some", (3, 7), 3, "s8.4 s8.4"),
        _case(False, "whole", (2, 2, 5), 5, "u6.3 s5.1 floor wrap", largest=False),
        _case(False, "one", (4, 6), 1, "s3.1 s3.1"),
        _case(False, "two_rows", (6, 5), 3, "s4.1 s4.1", beside=2),
        _case(False, "one_of_rows", (2, 4, 3), 1, "u3.1 u3.1", largest=False, beside=4),
    ]


def _places() -> list[Case]:
    return [
        _case(True, "ties", (3, 7), 4, "u2.0 u3.0"),
        _case(True, "whole", (2, 6), 6, "s8.4 u3.0", largest=False),
        _case(True, "two_elements", (5, 2), 2, "s8.4 u1.0"),
        _case(True, "three_rows", (6, 4), 2, "s3.1 u2.0", beside=3),
    ]


def _op(name: str, function: Any, places: bool, cases: Callable[[], list[Case]], **facets: Any) -> OpDef:
    return OpDef(
        name=name,
        mase_type="builtin_func",
        functions=(function,),
        attributes=("size", "count", "largest"),
        golden=_golden(places),
        relayout=_relayout,
        hardware=Hardware(
            module="fixed_top",
            params=TopParams,
            build=_build(places),
            latency=_latency,
            cases=cases,
            positions=as_they_come,
        ),
        **facets,
    )


OPS = (
    _op("top_values", top_values, False, _values, default_out=lambda formats: formats["data_in_0"], scaled=SELECTION),
    _op("top_places", top_places, True, _places, exact_out=_place_format),
)
