"""The ops that ``fixed_reduce`` does, and the cases on which it is proven."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledUse
from mase_hw.opdef import Arithmetic, Case, Request
from mase_hw.ops._scaled import SELECTION, total
from mase_hw.ops.reductions import _reduce
from mase_hw.ops.reductions._reduce import ARGMAX, ARGMIN, MAX, MEAN, MIN, RUNNING, SUM, dims_of, reduction

S8, U6, S2, S16 = FixedFormat(8, 4), FixedFormat(6, 3, signed=False), FixedFormat(2, 0), FixedFormat(16, 9)
PLACE = FixedFormat(3, 0, signed=False)
EVEN = (Rounding.HALF_EVEN, Overflow.SATURATE)


def mean_over(input: Tensor, dim: Sequence[int], keepdim: bool = False) -> Tensor:
    """The mean over any dimensions; what ``mean`` comes to where it is not that of an image.

    Args:
        input: Any tensor.
        dim: Dimensions, not that of the frames.
        keepdim: Whether they stay, with size 1.
    """
    return torch.mean(input, tuple(dim), keepdim)


def _case(
    operation: int,
    name: str,
    shape: tuple[int, ...],
    dim: int | tuple[int, ...],
    lanes: int,
    formats: tuple[FixedFormat, FixedFormat],
    modes: tuple[Rounding, Overflow] = EVEN,
) -> Case:
    named = dict(zip(("data_in_0", "data_out_0"), formats, strict=True))
    arithmetic = Arithmetic(named, *modes, {"dim": dim, "keepdim": True})
    request = Request(name, arithmetic, {"data_in_0": shape}, {"data_in_0": (lanes,)})
    return Case(name, _reduce.build(operation)(request), 5)


def _sums() -> list[Case]:
    return [
        _case(SUM, "outermost", (1, 4, 2, 5), 1, 2, (U6, FixedFormat(8, 3, False)), (Rounding.FLOOR, Overflow.WRAP)),
        _case(SUM, "innermost", (3, 2, 7), 2, 3, (S8, FixedFormat(11, 4))),
        _case(SUM, "both", (2, 3, 2, 4), (1, 3), 4, (S16, FixedFormat(14, 4)), (Rounding.HALF_UP, Overflow.SATURATE)),
        _case(SUM, "middle", (2, 3, 2, 2, 3), (1, 3), 2, (S8, FixedFormat(10, 4))),
        _case(SUM, "one_element", (4, 1), 1, 1, (S2, S2)),
    ]


def _means() -> list[Case]:
    return [
        _case(MEAN, "rows", (2, 3, 5), 1, 2, (S8, FixedFormat(8, 6)), (Rounding.HALF_AWAY, Overflow.SATURATE)),
        _case(MEAN, "whole", (1, 3, 7), (1, 2), 4, (U6, FixedFormat(9, 6, False))),
    ]


def _maxima() -> list[Case]:
    return [
        _case(MAX, "outermost", (3, 2, 3), 0, 3, (U6, U6)),
        _case(MAX, "innermost", (2, 3, 5), 2, 2, (S8, FixedFormat(6, 3)), (Rounding.TRUNC, Overflow.SATURATE)),
    ]


def _minima() -> list[Case]:
    return [_case(MIN, "two_bit", (2, 7), 0, 1, (S2, S2)), _case(MIN, "both", (2, 2, 3, 5), (1, 3), 4, (S8, S8))]


def _places_most() -> list[Case]:
    return [
        _case(ARGMAX, "further_out", (2, 5, 3), 1, 2, (S2, PLACE)),
        _case(ARGMAX, "innermost", (5, 7), 1, 4, (FixedFormat(3, 1), PLACE)),
    ]


def _places_least() -> list[Case]:
    return [
        _case(ARGMIN, "outermost", (6, 2, 2), 0, 1, (FixedFormat(3, 1, False), PLACE)),
        _case(ARGMIN, "innermost", (5, 6), 1, 3, (S2, PLACE)),
    ]


def _running() -> list[Case]:
    return [
        _case(RUNNING, "further_out", (2, 4, 2, 3), 1, 2, (U6, FixedFormat(6, 2)), (Rounding.HALF_UP, Overflow.WRAP)),
        _case(RUNNING, "innermost", (2, 2, 5), 2, 3, (S8, FixedFormat(10, 4))),
    ]


def _as_input(formats: Any) -> FixedFormat:
    return formats["data_in_0"]  # type: ignore[no-any-return]


def _count(shape: tuple[int, ...], attributes: Mapping[str, Any]) -> int:
    """Numbers in a sum."""
    return math.prod(shape[d] for d in dims_of(attributes, len(shape)))


_TOTAL = ScaledUse("total", total, count=_count)
OPS = (
    reduction("sum", SUM, _sums, torch.sum, "sum", attributes="dim keepdim dtype", scaled=_TOTAL),
    reduction("mean_over", MEAN, _means, mean_over, scaled=SELECTION),
    reduction("amax", MAX, _maxima, torch.amax, "amax", default_out=_as_input, scaled=SELECTION),
    reduction("amin", MIN, _minima, torch.amin, "amin", default_out=_as_input, scaled=SELECTION),
    reduction("argmax", ARGMAX, _places_most, torch.argmax, "argmax", exact_out=_reduce.place_format),
    reduction("argmin", ARGMIN, _places_least, torch.argmin, "argmin", exact_out=_reduce.place_format),
    reduction("cumsum", RUNNING, _running, torch.cumsum, "cumsum", "cumsum_", attributes="dim dtype"),
)
