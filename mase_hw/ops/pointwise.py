"""Pointwise: a linear layer whose beats have several neighbouring rows, as the convolution of one pixel that it is.

A row is a pixel, its elements are the channels. The arithmetic is that of :mod:`mase_hw.ops.conv`; no model contains
it: a linear layer has these hardware facets where its input comes so.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from mase_hw.layouts import Layout
from mase_hw.opdef import Case, OpDef, Request
from mase_hw.ops import _conv, conv
from mase_hw.ops._conv import ConvParams
from mase_hw.ops.rows._rows import abreast


def _build(r: Request) -> ConvParams:
    """The parameters of the convolution: an image of one row of pixels, if it is not one already."""
    rows, weight = math.prod(r.shapes["data_in_0"][:-1]), r.shapes["weight"]
    if len(weight) == 4:
        return _conv.build(r)
    ends = {"data_in_0": weight[1], "data_out_0": weight[0]}
    images = {name: (1, channels, 1, rows) for name, channels in ends.items()}
    return _conv.build(
        dataclasses.replace(
            r,
            shapes={**r.shapes, **images, "weight": (*weight, 1, 1)},
            layouts={name: Layout.tiled(shape, abreast(r)) for name, shape in images.items()},
        )
    )


def _cases() -> Sequence[Case]:
    """Rows of several elements in a beat, in both orders."""
    shift = "s8.4 s8.7 s8.5 s8.1 weight_shift=u1.0"
    first: dict[str, Any] = {"order": "inputs_first", "positions": (4, 4)}
    return [
        conv.case("two_rows", (1, 5, 1, 6), (7, 5, 1, 1), (3, 2), shift, positions=(2, 2)),
        conv.case("four_rows", (1, 4, 1, 8), (6, 4, 1, 1), (2, 3), **first),
    ]


_CONV2D = next(op.hardware for op in conv.OPS if op.name == "conv2d")
assert _CONV2D is not None  # a convolution is in hardware
OPS = (
    OpDef(
        name="pointwise",
        mase_type="module_related_func",
        parameters=("weight", "bias", "weight_shift"),
        golden=conv.golden,
        hardware=dataclasses.replace(_CONV2D, build=_build, cases=_cases, delegates={}, unrolls=False),
    ),
)
