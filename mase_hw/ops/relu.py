"""ReLU: ``cast(max(x, 0))``; exact when the output format holds the input's non-negative values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import torch
from torch import Tensor, nn

from mase_hw.nn.values import selection
from mase_hw.numerics import cast
from mase_hw.opdef import Arithmetic, Hardware, OpDef
from mase_hw.ops import _elementwise as elementwise
from mase_hw.ops._scaled import clamp


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0`` of any shape -> ``data_out_0`` of the same shape."""
    positive = torch.clamp(t["data_in_0"], min=0)
    frac = a.formats["data_in_0"].frac_width
    return {"data_out_0": cast(positive, frac, a.formats["data_out_0"], a.rounding, a.overflow)}


OPS = (
    OpDef(
        name="relu",
        mase_type="module_related_func",
        modules=(nn.ReLU,),
        functions=(nn.functional.relu, torch.relu, torch.relu_),
        methods=("relu", "relu_"),
        attributes=("inplace",),
        golden=golden,
        oracle=lambda x: max(x, Fraction(0)),
        on_values=lambda a, t: selection(a, 0, torch.relu, clamp=(0.0, math.inf)),
        default_out=lambda formats: formats["data_in_0"],
        non_negative=True,
        scaled=clamp(lambda _: (0.0, None)),
        hardware=Hardware(
            module="fixed_relu",
            params=elementwise.ElementwiseParams,
            build=elementwise.build,
            latency=elementwise.registered,
            cases=lambda: [
                elementwise.case("same_format", (4, 64), 8, "s8.4 s8.4"),
                elementwise.case("to_unsigned", (2, 3, 5), 2, "s8.4 u7.4"),
                elementwise.case("requantise", (4, 64), 3, "s8.4 u4.1 half_up"),
                elementwise.case("wide", (1, 7), 7, "s16.9 s12.4 trunc wrap"),
                elementwise.case("unsigned_in", (1, 64), 5, "u6.3 u4.1"),
                elementwise.case("serial", (1, 3), 1, "s2.0 s2.0"),
            ],
            follows_input=True,
        ),
    ),
)
