"""One node of a network in training: the float op between grids that are learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from mase_hw.compiler.float_nodes import FloatNode, Named
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, Overflow
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize
from mase_hw.training.learned_step import LearnedStep


class Learned(nn.Module):
    """A quantised node while it is trained.

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
        super().__init__()
        arithmetic, op = module.arithmetic, module.op
        self.label = module.label
        if arithmetic.overflow is not Overflow.SATURATE:
            raise self._refused("overflow", "wrap", "saturate", "let the cast of the node saturate")
        if op.derive is not None and module.parameter_names:
            raise self._refused(
                "op", op.name, "parameters of the layer itself", "fold batch normalisations, or replace the layer"
            )
        self.call: Callable[..., Any] | None = None if node is None or node.module is not None else node.call
        # Both in lists, so that they are no part of this module: their own parameters are not trained.
        self.layer: list[nn.Module] = [] if node is None or node.module is None else [node.module]
        self.args: Any = () if node is None else node.args
        self.kwargs: Any = {} if node is None else dict(node.kwargs)
        self.is_cast = node is None
        self.origins, self.stored = list(origins), dict(stored)
        self.quantised = [module]
        fmt, entered = arithmetic.formats["data_out_0"], arithmetic.formats["data_in_0"]
        follows = op.default_out is not None and fmt.frac_width == entered.frac_width
        self.entered = [before]
        self.follows = [before] if follows else []
        self.fmt = fmt
        self.out: LearnedStep | None = None if follows else LearnedStep(fmt, arithmetic.rounding)
        self.trained = nn.ParameterDict(dict(parameters))
        self.steps = nn.ModuleDict(
            {name: LearnedStep(arithmetic.formats[name], per_frame=False) for name in parameters}
        )
        shift = module.get_buffer("weight_shift") if "weight_shift" in module.parameter_names else None
        self.register_buffer("factor", None if shift is None else torch.exp2(shift.float()))
        self.constant: Any = None
        if op.constant and op.constant in module.parameter_names:
            self.constant = dequantize(module.mantissa(op.constant), arithmetic.formats[op.constant])

    def forward(self, *inputs: Tensor) -> Tensor:
        """What the op gives on the grids of the moment."""
        result = inputs[0] if self.is_cast else self._computed(inputs)
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

    def _computed(self, inputs: tuple[Tensor, ...]) -> Tensor:
        given: dict[str, Any] = dict(zip(self.origins, inputs, strict=True))
        made = {name: self.parameter(name) for name in self.trained}
        given |= {node: made[name] for node, name in self.stored.items() if name in made}

        def fill(item: Any) -> Any:
            if isinstance(item, Named):
                return given.get(item.name, self.constant)
            if isinstance(item, list | tuple):
                return type(item)([fill(part) for part in item])
            if isinstance(item, dict):
                return {key: fill(part) for key, part in item.items()}
            return item

        args, kwargs = fill(self.args), fill(self.kwargs)
        if self.constant is not None and not self._reads_constant():
            number = next(i for i, arg in enumerate(args) if isinstance(arg, int | float))
            args = (*args[:number], float(self.constant), *args[number + 1 :])
        if self.layer:
            own = {name: value for name, value in made.items() if name not in self.stored.values()}
            result: Tensor = functional_call(self.layer[0], own, args, kwargs)
            return result
        assert self.call is not None  # neither a cast nor a module
        result = self.call(*args, **kwargs)
        return result

    def _reads_constant(self) -> bool:
        known = {*self.origins, *self.stored}
        return any(isinstance(arg, Named) and arg.name not in known for arg in self.args)

    def _refused(self, field: str, got: str, expected: str, remedy: str) -> UnsupportedError:
        return UnsupportedError(
            "a node cannot be trained in low precision",
            node=self.label,
            field=field,
            got=got,
            expected=expected,
            remedy=remedy,
        )
