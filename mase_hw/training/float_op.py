"""The float op of a node of a network in training, called with parameters that are on grids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from mase_hw.compiler.float_nodes import FloatNode, Named, filled
from mase_hw.errors import UnsupportedError
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize


@dataclass(frozen=True)
class Trained:
    """A node that is to be trained.

    Args:
        module: The quantised module.
        node: The float node it was made of; None of a cast.
        origins: For every input the float node whose value it is.
        stored: Parameters that are nodes of their own in the float graph: node -> name of the parameter.
        parameters: Parameters to be trained, by name.
    """

    module: Quantized
    node: FloatNode | None
    origins: list[str]
    stored: Mapping[str, str]
    parameters: Mapping[str, nn.Parameter]


class FloatOp(nn.Module):
    """What the nodes of both families share while they are trained."""

    def __init__(self, of: Trained) -> None:
        super().__init__()
        module, node = of.module, of.node
        self.label = module.label
        self.call: Callable[..., Any] | None = None if node is None or node.module is not None else node.call
        # Both in lists, so that they are no part of this module: their own parameters are not trained.
        self.layer: list[nn.Module] = [] if node is None or node.module is None else [node.module]
        self.args: Any = () if node is None else node.args
        self.kwargs: Any = {} if node is None else dict(node.kwargs)
        self.is_cast = node is None
        self.origins, self.stored = list(of.origins), dict(of.stored)
        self.quantised = [module]
        self.trained = nn.ParameterDict(dict(of.parameters))
        self.constant: Any = None
        op = module.op
        if op.constant and op.constant in module.parameter_names:
            self.constant = dequantize(module.mantissa(op.constant), module.arithmetic.formats[op.constant])

    def parameter(self, name: str) -> Tensor:
        """A parameter on its grid."""
        raise NotImplementedError

    def computed(self, inputs: tuple[Tensor, ...], parameters: Mapping[str, Tensor] | None = None) -> Tensor:
        """What the op gives, before anything is done to its result.

        Args:
            inputs: Its data.
            parameters: In place of those on their grids.
        """
        if self.is_cast:
            return inputs[0]
        given: dict[str, object] = dict(zip(self.origins, inputs, strict=True))
        made = parameters or {name: self.parameter(name) for name in self.trained}
        given |= {node: made[name] for node, name in self.stored.items() if name in made}
        args, kwargs = filled((self.args, self.kwargs), lambda name: given.get(name, self.constant))
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

    def refused(self, field: str, got: str, expected: str, remedy: str) -> UnsupportedError:
        """The error for a node that cannot be trained."""
        return UnsupportedError(
            "a node cannot be trained in low precision",
            node=self.label,
            field=field,
            got=got,
            expected=expected,
            remedy=remedy,
        )
