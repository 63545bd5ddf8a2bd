"""Layers of a quantised graph whose weights and biases are chosen, as products of matrices.

Rounding the weights of one layer as a quadratic problem, and how good a choice of mantissas is.

A layer is a product of its unfolded inputs ``X`` (one row for every frame and output position) with its weights, group
by group. With ``y`` what an output channel ought to give, the squared error of weights ``w`` (without the bias) is

    ``|X w - y|**2 = w H w - 2 w c + |y|**2,   H = X'X,   c = X'y``

so that ``H`` and ``c`` are all that is kept of the data, however much there is.

The float graph that a quantised graph is held against, kept while the graph itself is quantised in place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from mase_hw.errors import PassOrderError
from mase_hw.formats import BlockFormat, FixedFormat, ScaledFormat, SignFormat, steps_of
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotate import describe
from mase_hw.ir.copies import copy_graph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.nn import Quantized
from mase_hw.ops._conv import geometry_of
from mase_hw.passes.base import Info, NoArgs, graph_pass
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.quantize.integers.sums import refit
from mase_hw.passes.quantize.quantize import configured_for


@dataclass(frozen=True)
class Problem:
    """The rounding of one layer's weights.

    Args:
        weight: The float weights, ``(groups, rows, columns)`` in float64: a row for every output channel of the group,
            a column for everything that it reads.
        step: Distance of neighbouring values of every row, ``(groups, rows, 1)``.
        fmt: Format of the mantissas.
        hessian: ``H``, ``(groups, columns, columns)``.
        cross: ``c`` of every row, ``(groups, rows, columns)``.
        power: ``|y|**2`` of every row, ``(groups, rows)``.
        count: Rows of ``X``.
    """

    weight: Tensor
    step: Tensor
    fmt: FixedFormat
    hessian: Tensor
    cross: Tensor
    power: Tensor
    count: int

    def nearest(self) -> Tensor:
        """The mantissas that rounding to nearest gives, half-even and saturating."""
        return self.clipped(torch.round(self.weight / self.step))

    def clipped(self, mantissas: Tensor) -> Tensor:
        """Mantissas within the format, or within the limits that a channel has of its own."""
        limits = self.fmt.limits if isinstance(self.fmt, ScaledFormat) else ()
        if len(limits) < 2:
            return mantissas.clamp(self.fmt.min_mantissa, self.fmt.max_mantissa)
        lows, highs = (mantissas.new_tensor(ends).reshape(self.step.shape) for ends in zip(*limits, strict=True))
        return mantissas.clamp(lows, highs)

    def error(self, mantissas: Tensor) -> Tensor:
        """Mean squared error of every row, ``(groups, rows)``."""
        w = mantissas * self.step
        total = ((w @ self.hessian) * w).sum(-1) - 2 * (w * self.cross).sum(-1) + self.power
        return total.clamp_min(0.0) / max(1, self.count)

    def damped(self, damping: float) -> Tensor:
        """``H`` with a share of its mean diagonal added to the diagonal; 1 where a column was never used."""
        diagonal = self.hessian.diagonal(dim1=-2, dim2=-1)
        extra = damping * diagonal.mean(-1, keepdim=True) + (diagonal == 0).to(diagonal.dtype)
        return self.hessian + torch.diag_embed(extra)

    def ideal(self, damping: float) -> Tensor:
        """The weights without a grid whose error is least: the float weights if ``y`` is what these give."""
        residual = self.cross - self.weight @ self.hessian
        moved: Tensor = torch.linalg.solve(self.damped(damping), residual.mT).mT
        return self.weight + moved

    def better(self, mantissas: Tensor, other: Tensor) -> Tensor:
        """Of two choices, row by row that with the smaller error; the second one if they are equal."""
        keep = self.error(mantissas) < self.error(other)
        return torch.where(keep.unsqueeze(-1), mantissas, other)


FLOAT = "float_graph"
"""Where a graph has the float graph: ``graph.meta[FLOAT]``."""


@graph_pass("keep_float_analysis_pass", args=NoArgs, needs=(COMMON_PASS,))
def keep_float_analysis_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Keep a copy of the float graph, for passes that compare the quantised graph with it.

    Weights are shared. A checkpoint does not hold the copy.

    Raises:
        GraphError: If the graph is quantised already.
    """
    edit.refuse_quantised(graph, "keeping the float graph")
    graph.meta[FLOAT] = copy_graph(graph)
    return graph, {"modified": False}


def reference_of(graph: MaseGraph, given: Any, who: str) -> MaseGraph:
    """The float graph that was given, or else kept.

    Raises:
        PassOrderError: If there is none.
    """
    found = given if given is not None else graph.meta.get(FLOAT)
    if not isinstance(found, MaseGraph):
        raise PassOrderError(
            f"{who} compares with the float graph, and there is none",
            node=who,
            field="reference",
            remedy="run keep_float_analysis_pass before quantize_transform_pass, or give the float graph as reference",
        )
    return found


LAYERS = frozenset({"linear", "conv1d", "conv2d"})
"""Ops that are a product of their input with a stored matrix."""


class Layer:
    """One quantised linear layer or convolution.

    Args:
        graph: The quantised graph.
        node: Its node; see :func:`of`.
        module: Its module.
    """

    def __init__(self, graph: MaseGraph, node: fx.Node, module: Quantized) -> None:
        self.graph = graph
        self.node = node
        self.module = module
        self.is_linear = module.mase_op == "linear"
        self.weight_shape = module.get_parameter("weight").shape
        self.geometry = None if self.is_linear else geometry_of(module.arithmetic.attributes, self.weight_shape[2:])
        self.groups = 1 if self.geometry is None else self.geometry.groups

    @classmethod
    def of(cls, graph: MaseGraph, node: fx.Node) -> Layer | None:
        """The layer of a node; None if it is none, or its weights do not stand by themselves."""
        module = graph.meta_of(node).module
        if not isinstance(module, Quantized) or module.mase_op not in LAYERS:
            return None
        if "weight" not in module.parameter_names or isinstance(
            module.arithmetic.formats["weight"], SignFormat | BlockFormat
        ):
            return None  # signs have no neighbour to round to
        return cls(graph, node, module)

    @property
    def name(self) -> str:
        """Name of the node."""
        return self.node.name

    @property
    def has_bias(self) -> bool:
        """Whether there is a bias to be corrected."""
        return "bias" in self.module.parameter_names

    def weight(self) -> Tensor:
        """The weights, ``(groups, rows, columns)`` in float64."""
        value = self.module.get_parameter("weight").detach().double()
        return value.reshape(self.groups, value.shape[0] // self.groups, -1)

    def steps(self) -> Tensor:
        """Distance of neighbouring values of every row, ``(groups, rows, 1)``."""
        outputs = self.weight_shape[0]
        device = self.module.get_parameter("weight").device
        steps = [float(step) for step in steps_of(self.module.arithmetic.formats["weight"])]
        step = torch.tensor(steps, dtype=torch.float64).to(device).expand(outputs)
        if "weight_shift" in self.module.parameter_names:
            step = step * torch.exp2(self.module.get_buffer("weight_shift").double())
        return step.reshape(self.groups, outputs // self.groups, 1)

    def bias(self) -> Tensor:
        """The bias, ``(outputs,)`` in float64; zeros if there is none."""
        if not self.has_bias:
            return self.module.get_parameter("weight").new_zeros(self.weight_shape[0], dtype=torch.float64)
        return self.module.get_parameter("bias").detach().double()

    def inputs(self, x: Tensor) -> Tensor:
        """The values that are multiplied, ``(groups, samples, columns)`` in float64; zeros of the padding included."""
        x = x.detach().double()
        if self.geometry is None:
            return x.reshape(1, -1, self.weight_shape[1])
        kernel = (1, *self.weight_shape[2:]) if len(self.weight_shape) == 3 else self.weight_shape[2:]
        images = x if x.dim() == len(self.weight_shape) else x.unsqueeze(0)
        images = images.unsqueeze(2) if len(self.weight_shape) == 3 else images
        g = self.geometry
        images = F.pad(images, (g.before[1], g.after[1], g.before[0], g.after[0]))
        columns = F.unfold(images, (int(kernel[0]), int(kernel[1])), dilation=g.dilation, stride=g.stride)
        parts = columns.reshape(len(columns), g.groups, -1, columns.shape[-1])
        return parts.permute(1, 0, 3, 2).reshape(g.groups, -1, parts.shape[2])

    def outputs(self, y: Tensor) -> Tensor:
        """Results as :meth:`inputs` orders them, ``(groups, samples, rows)`` in float64."""
        y = y.detach().double()
        outputs = self.weight_shape[0]
        if self.geometry is None:
            flat = y.reshape(-1, outputs)
        else:
            y = y if y.dim() == len(self.weight_shape) else y.unsqueeze(0)
            flat = y.movedim(1, -1).reshape(-1, outputs)
        return flat.reshape(-1, self.groups, outputs // self.groups).permute(1, 0, 2)

    def set_weight(self, mantissas: Tensor) -> None:
        """Replace the weights by values of their grid, given by their mantissas ``(groups, rows, columns)``."""
        self._set("weight", (mantissas * self.steps()).reshape(self.weight_shape))
        self.refit()

    def set_bias(self, value: Tensor) -> bool:
        """Replace the bias by the nearest values of its format; whether any had to be clipped.

        Scaled integers: the format gets the bits that it needs, up to those that are configured.
        """
        fmt = self.module.arithmetic.formats["bias"]
        if isinstance(fmt, ScaledFormat):
            return self._set_scaled_bias(value, fmt)
        rounded = torch.round(value * math.ldexp(1.0, fmt.frac_width))
        kept = rounded.clamp(fmt.min_mantissa, fmt.max_mantissa)
        self._set("bias", kept * fmt.scale)
        return bool((kept != rounded).any())

    def _set_scaled_bias(self, value: Tensor, fmt: ScaledFormat) -> bool:
        steps = value.new_tensor(fmt.scales)
        self._set("bias", torch.round(value / steps) * steps)
        self.refit()
        zero = self.module.arithmetic.formats["data_in_0"].zero_point
        weights = self.module.mantissa("weight").double().flatten(1).sum(1)
        wanted = torch.round(self.bias() / steps) - zero * weights
        return bool((self.module.mantissa("bias").double() != wanted).any())

    def refit(self) -> None:
        """Of scaled integers, give the bias and the sums the bits that the parameters of now need."""
        refit(self.graph, self.node, configured_for(self.graph, self.node.name).bias_limit)

    def formats(self) -> dict[str, FixedFormat]:
        """Formats by name of the tensor."""
        return dict(self.module.arithmetic.formats)

    def _set(self, name: str, value: Tensor) -> None:
        # A new parameter: the float model that was quantised shares the old one.
        old = self.module.get_parameter(name)
        made = nn.Parameter(value.to(old.dtype), requires_grad=old.requires_grad)
        self.module.register_parameter(name, made)
        args = self.graph.meta_of(self.node).common.args
        before = args.tensors.get(name)
        if before is not None:
            kept = made.detach() if before.value is not None else None
            described = describe(made, kept).as_parameter()
            described.fmt = self.module.arithmetic.formats[name]
            args[name] = described
