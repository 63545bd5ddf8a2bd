"""One node of a network in training: the float op between grids that are learned.

Which nodes have one grid: those whose results an op chooses among, or puts beside each other.
"""

from __future__ import annotations

import torch
from torch import Tensor, fx, nn

from mase_hw.formats import FixedFormat, Overflow, any_scaled
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.training.float_op import FloatOp, Trained
from mase_hw.training.learned_step import LearnedStep


class Learned(FloatOp):
    """A node of fixed point while it is trained.

    Args:
        of: The node.
        before: The grid of the first input.

    Raises:
        UnsupportedError: If its cast wraps, or its parameters are computed from others.
    """

    def __init__(self, of: Trained, before: LearnedStep) -> None:
        super().__init__(of)
        module, arithmetic, op = of.module, of.module.arithmetic, of.module.op
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
            {name: LearnedStep(arithmetic.formats[name], per_frame=False) for name in of.parameters}
        )
        shift = module.get_buffer("weight_shift") if "weight_shift" in module.parameter_names else None
        if shift is not None:
            shape = module.get_parameter("weight").shape
            fmt_of_weight = arithmetic.formats["weight"]
            shift = fmt_of_weight.spread(fmt_of_weight.factors(shift).float(), shape)
        self.register_buffer("factor", shift)
        self.drop: nn.Parameter | None = None
        """Bits that every element of the result drops, in the shape of a frame, if they are learned."""

    def forward(self, *inputs: Tensor) -> Tensor:
        """What the op gives on the grids of the moment."""
        result = self.computed(inputs)
        result = self._as_input(result) if self.out is None else self.out(result)
        return self.grid().without_drops(result, self.drop, self.fmt)

    def learn_widths(self, shape: tuple[int, ...]) -> None:
        """Let every element of the result drop bits of its own, which is learned from here on.

        Args:
            shape: Of a frame.
        """
        self.drop = nn.Parameter(torch.zeros(shape))

    def parameter(self, name: str) -> Tensor:
        """A parameter on its grid."""
        factor = self.factor_of(name)
        found: Tensor = self.steps[name](self.trained[name] / factor) * factor
        return found

    def factor_of(self, name: str) -> Tensor | float:
        """What the grid of a parameter is multiplied by: that of its channel, block or group."""
        if name != "weight" or not isinstance(self.factor, Tensor):
            return 1.0
        factor: Tensor = self.factor.to(self.trained[name].dtype)
        return factor

    def settled(self, name: str) -> Tensor:
        """What a parameter is frozen as: itself, or with the bits dropped that it drops."""
        value: Tensor = self.trained[name].detach().clone()
        grid = self.step_of(name)
        if grid.drop is None:
            return value
        factor, scale = self.factor_of(name), grid.format().scale
        return grid.mantissas(value / factor, scale) * scale * factor

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


def leaders(graph: MaseGraph) -> dict[fx.Node, fx.Node]:
    """For every node of a quantised graph one that stands for all that have its grid.

    Args:
        graph: The graph; scaled integers of a concatenation or a maximum have one scale, so they learn one.
    """
    parent = {node: node for node in graph.nodes}

    def find(node: fx.Node) -> fx.Node:
        while parent[node] is not node:
            node = parent[node]
        return node

    for node in graph.nodes:
        sources = node.all_input_nodes
        if len(sources) > 1 and _selects(graph, node):
            first, *others = [_source(graph, source) for source in sources]
            for other in others:
                parent[find(other)] = find(first)
    return {node: find(node) for node in graph.nodes}


def _selects(graph: MaseGraph, node: fx.Node) -> bool:
    """Whether a node gives numbers of its inputs, at their scale."""
    module = graph.meta_of(node).module
    if not isinstance(module, Quantized) or module.op.scaled is None or not any_scaled(module.arithmetic.formats):
        return False
    return module.op.scaled.kind == "selection" and not module.op.scaled.exact(module.arithmetic.attributes)


def _source(graph: MaseGraph, node: fx.Node) -> fx.Node:
    """The node that makes the numbers."""
    while (graph.is_implicit(node) or _selects(graph, node)) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node
