"""One node of a network in training with scaled integers: the float op, and the grid of its result if it has one.

Sums and products are exact in hardware, so nothing is rounded there; a requantisation is where a grid stands. What
chooses among numbers or moves them keeps the grid of its input.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mase_hw.formats import ScaledFormat
from mase_hw.formats.attributes import Attributes
from mase_hw.formats.taken import Ends
from mase_hw.opdef import OpDef
from mase_hw.training.float_op import FloatOp, Trained
from mase_hw.training.learned_step import LearnedScale, LearnedStep

Grid = LearnedScale | LearnedStep
Function = tuple[OpDef, Attributes]
"""A float op with its attributes."""


class LearnedIntegers(FloatOp):
    """A node of scaled integers while it is trained.

    Args:
        of: The node.
        before: The grid of the first input; None behind exact sums.
        enters: Whether the input is float and becomes of that grid here.
        out: The grid of the result if it shares one with others.
        function: The float op and its attributes if another one stands in its place.
        learn_zero: Learn the zero point of the result as well.
    """

    def __init__(
        self,
        of: Trained,
        *,
        before: Grid | None,
        enters: bool = False,
        out: Grid | None = None,
        function: Function | None = None,
        learn_zero: bool = False,
    ) -> None:
        use, arithmetic, node = of.module.op.scaled, of.module.arithmetic, of.node
        assert use is not None  # it has scaled integers
        if node is not None and node.module is not None and getattr(node.module, "bias", None) is None:
            # One that only takes off what the zero point adds is made anew in the end.
            of = replace(of, parameters={name: value for name, value in of.parameters.items() if name != "bias"})
        super().__init__(of)
        if use.kind == "slopes":
            raise self.refused("config.name", "integer", "fixed", 'give the node name = "fixed" in an override')
        self.kind, self.function = use.kind, function
        self.ends: Ends | None = None
        if function is not None and function[0].scaled is not None and function[0].scaled.ends is not None:
            self.ends = function[0].scaled.ends(function[1])
        self.exact = use.exact(arithmetic.attributes)
        fmt, entered = arithmetic.formats["data_out_0"], arithmetic.formats["data_in_0"]
        self.centres = self.is_cast and entered.zero_point != 0 and fmt == getattr(entered, "centred", None)
        # In lists what belongs to another node.
        self.entered: list[Grid] = [] if before is None else [before]
        self.own_entry = before if enters else None
        keeps = self.exact or self.kind == "selection" or self.centres
        if use.kind == "shares" and isinstance(fmt, ScaledFormat):
            out = LearnedScale(fmt, arithmetic.rounding, fixed=True)
        self.out: Grid | None = None if keeps else out or grid_of(fmt, arithmetic, learn_zero=learn_zero)
        self.weight_grid = None
        if "weight" in self.trained:
            weight = arithmetic.formats["weight"]
            assert isinstance(weight, ScaledFormat)  # as all of its tensors
            self.weight_grid = LearnedScale(weight, per_frame=False)

    def forward(self, *inputs: Tensor) -> Tensor:
        """What the op gives on the grids of the moment."""
        if self.own_entry is not None:
            inputs = (self.own_entry(inputs[0]), *inputs[1:])
        result = self.computed(inputs)
        if self.out is not None:
            value: Tensor = self.out(result)
            return value
        if self.kind == "selection" and not self.exact and isinstance(self.entered[0], LearnedScale):
            nearest: Tensor = self.entered[0].nearest(result)
            return nearest
        return result

    def parameter(self, name: str) -> Tensor:
        """A weight on its grid, a bias rounded to the scale of the products."""
        value = self.trained[name]
        assert self.weight_grid is not None  # only layers are trained
        if name == "weight":
            found: Tensor = self.weight_grid(value)
            return found
        before: Tensor = self.entered[0].step.detach().double()
        unit = (before * self.weight_grid.step.detach().double()).reshape(-1)
        steps = value.double() / unit
        whole: Tensor = steps + (torch.round(steps) - steps).detach()
        return (whole * unit).to(value.dtype)

    def grid(self) -> Grid | None:
        """The grid of its result; None of exact sums, which are requantised."""
        if self.exact:
            return None
        return self.out if self.out is not None else self.entered[0]


def grid_of(fmt: Any, arithmetic: Any = None, *, learn_zero: bool = False) -> Grid:
    """A grid to begin with a format of either family."""
    kind: Any = LearnedScale if isinstance(fmt, ScaledFormat) else LearnedStep
    more = {"learn_zero": learn_zero} if kind is LearnedScale else {}
    found: Grid = kind(fmt, **({} if arithmetic is None else {"rounding": arithmetic.rounding}), **more)
    return found
