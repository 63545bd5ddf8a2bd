"""One node of a network in training: the float op between grids that are learned."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from mase_hw.compiler.float_nodes import FloatNode
from mase_hw.formats import FixedFormat, Overflow
from mase_hw.nn import Quantized
from mase_hw.training.float_op import FloatOp
from mase_hw.training.learned_step import LearnedStep


class Learned(FloatOp):
    """A node of fixed point while it is trained.

    Args:
        module: The quantised module.
        node: The float node it was made of; None of a cast.
        origins: For every input the float node whose value it is.
        stored: Parameters that are nodes of their own in the float graph: node -> name of the parameter.
        parameters: Parameters to be trained, by name.
        before: The grid of the first input.

    Raises:
        UnsupportedError: If its cast wraps, or its parameters are computed from others.
    """

    def __init__(
        self,
        module: Quantized,
        node: FloatNode | None,
        origins: list[str],
        stored: Mapping[str, str],
        parameters: Mapping[str, nn.Parameter],
        before: LearnedStep,
    ) -> None:
        super().__init__(module, node, origins, stored, parameters)
        arithmetic, op = module.arithmetic, module.op
        if arithmetic.overflow is not Overflow.SATURATE:
            raise self.refused("overflow", "wrap", "saturate", "let the cast of the node saturate")
        if op.derive is not None and module.parameter_names:
            raise self.refused(
                "op", op.name, "parameters of the layer itself", "fold batch normalisations, or replace the layer"
            )
        fmt, entered = arithmetic.formats["data_out_0"], arithmetic.formats["data_in_0"]
        follows = op.default_out is not None and fmt.frac_width == entered.frac_width
        self.entered = [before]
        self.follows = [before] if follows else []
        self.fmt = fmt
        self.out: LearnedStep | None = None if follows else LearnedStep(fmt, arithmetic.rounding)
        self.steps = nn.ModuleDict(
            {name: LearnedStep(arithmetic.formats[name], per_frame=False) for name in parameters}
        )
        shift = module.get_buffer("weight_shift") if "weight_shift" in module.parameter_names else None
        self.register_buffer("factor", None if shift is None else torch.exp2(shift.float()))

    def forward(self, *inputs: Tensor) -> Tensor:
        """What the op gives on the grids of the moment."""
        result = self.computed(inputs)
        if self.out is not None:
            value: Tensor = self.out(result)
            return value
        return self._as_input(result)

    def parameter(self, name: str) -> Tensor:
        """A parameter on its grid."""
        value = self.trained[name]
        if name == "weight" and isinstance(self.factor, Tensor):
            factor = self.factor.reshape(-1, *[1] * (value.dim() - 1)).to(value.dtype)
            found: Tensor = self.steps[name](value / factor) * factor
            return found
        found = self.steps[name](value)
        return found

    def step_of(self, name: str) -> LearnedStep:
        """The grid of a parameter."""
        found = self.steps[name]
        assert isinstance(found, LearnedStep)  # the constructor makes no others
        return found

    def grid(self) -> LearnedStep:
        """The grid of its result."""
        return self.out if self.out is not None else self.follows[0]

    def out_format(self) -> FixedFormat:
        """Format of its result."""
        base = self.grid().format()
        return FixedFormat(self.fmt.width, base.frac_width, self.fmt.signed)

    def _as_input(self, result: Tensor) -> Tensor:
        """Values on the grid of the input, in the range of a format of its own."""
        step = torch.tensor(self.follows[0].format().scale)
        if self.follows[0].learned:
            step = self.follows[0].step.detach()
        step = step.to(result)
        v = result / step
        whole = v + (torch.round(v) - v).detach()  # a mean may lie between
        return whole.clamp(self.fmt.min_mantissa, self.fmt.max_mantissa) * step
