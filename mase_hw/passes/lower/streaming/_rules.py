"""What every op does to the dimension of time: a rule an op, or a reason why it cannot go from hop to hop.

Where time is in a tensor, and where an op that only moves elements takes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from mase_hw.formats.attributes import Attributes
from mase_hw.ir import MaseGraph
from mase_hw.ir.paths import called
from mase_hw.nn.streaming import remembered
from mase_hw.passes.lower.layers.call import Call, call_of
from mase_hw.passes.lower.movement._calls import sequence_of
from mase_hw.passes.quantize.operands import stored
from mase_hw.streams import IntArray


@dataclass(frozen=True)
class Flow:
    """Columns of a stream in a tensor of one hop.

    Args:
        dim: The dimension of time.
        left: Columns of zeros before those of the hop.
        right: Columns behind those of the hop, which a slice must cut off.
        source: Where the columns of the hop alone are, if there are zeros before them.
    """

    dim: int
    left: int = 0
    right: int = 0
    source: fx.Node | None = None

    @property
    def plain(self) -> bool:
        """Whether these are the columns of the hop and no others."""
        return not self.left and not self.right


class NotCausal(Exception):
    """Why a node cannot go from hop to hop.

    Args:
        problem: The reason.
        remedy: What to do.
        elsewhere: Time is probably another dimension than the one that was tried.
    """

    def __init__(self, problem: str, remedy: str = "", elsewhere: bool = False) -> None:
        super().__init__(problem)
        self.remedy, self.elsewhere = remedy, elsewhere


def moved(shape: Sequence[int], dim: int, places: IntArray) -> int:
    """The dimension of time behind an op that only moves elements.

    Args:
        shape: Of what it takes.
        dim: The dimension of time in it.
        places: Number of the element that every element of the result is, negative for a zero.

    Every column of the result must take from one column of the input, the same elements for each, and columns must
    stay in order; one may become several. A single column says nothing, so then it must stay where it was, or the last
    dimension with as many elements before it.

    Raises:
        NotCausal: If there is no such dimension.
    """
    length = shape[dim]
    inner = math.prod(shape[dim + 1 :])
    columns = (places // inner) % length
    rest = np.where(places < 0, places, places // (inner * length) * inner + places % inner)
    fits = []
    for at in range(1, places.ndim):
        size = places.shape[at]
        if size % length:
            continue
        wanted = np.arange(size) // (size // length)
        wanted = wanted.reshape([-1 if d == at else 1 for d in range(places.ndim)])
        same = bool((rest == np.take(rest, [0], at)).all())
        # Zeros that an op puts in belong to every column alike.
        if same and bool(((columns == wanted) | (places < 0)).all()):
            fits.append(at)
    if length == 1:
        before = math.prod(shape[:dim])
        fits = [at for at in fits if places.shape[at] == 1 and (at == dim or math.prod(places.shape[:at]) == before)]
        fits = [at for at in fits if at == dim and math.prod(places.shape[:at]) == before] or fits
    if not fits:
        raise NotCausal("it moves columns in time, or mixes time with another dimension", "keep time as a dimension")
    return fits[-1]


AHEAD = "pad on the left alone, by (kernel - 1) * dilation, or cut what a symmetric padding adds at the end"
REDUCED = "give the result for every column, and reduce behind the hardware"


@dataclass
class Plan:
    """What becomes of a graph.

    Args:
        flows: Where time is, of every node that carries data.
        windows: Nodes that need columns of hops before: kernel, dilation, stride, phase, and where the hop comes from.
        dropped: Nodes that only add or cut columns: what stands for them.
        remembering: Recurrences whose state goes on.
        span: Columns before a hop that its results depend on; without recurrences.
    """

    flows: dict[fx.Node, Flow] = field(default_factory=dict)
    windows: dict[fx.Node, tuple[tuple[int, int, int, int], fx.Node]] = field(default_factory=dict)
    dropped: dict[fx.Node, fx.Node] = field(default_factory=dict)
    remembering: list[fx.Node] = field(default_factory=list)
    span: int = 0

    @property
    def temporal(self) -> int:
        """Nodes that remember."""
        return len(self.windows) + len(self.remembering)

    @property
    def changes(self) -> bool:
        """Whether the graph becomes another one."""
        return bool(self.temporal or self.dropped)


@dataclass
class At:
    """A node under a rule."""

    graph: MaseGraph
    node: fx.Node
    plan: Plan
    sources: list[fx.Node]
    call: Call | None

    @property
    def flow(self) -> Flow:
        """Time in its first operand."""
        return self.plan.flows[self.sources[0]]

    def shape(self, node: fx.Node | None = None) -> tuple[int, ...]:
        """Shape of a result; of the node's first operand if None."""
        return tuple(self.graph.tensor(node or self.sources[0], "data_out_0").shape)

    @property
    def attributes(self) -> Attributes:
        """Arguments that are no tensors."""
        return self.graph.meta_of(self.node).common.args.attributes

    def plain(self) -> int:
        """The dimension of time, if no columns are too many."""
        if not self.flow.plain:
            raise NotCausal("columns that were added are read here before they are cut off", AHEAD)
        return self.flow.dim


Rule = Callable[[At], Flow]


def _each(at: At) -> Flow:
    """Every column by itself, all operands alike."""
    shape = at.shape(at.node)
    flows = {(f.dim - len(at.shape(s)), f.left, f.right) for s in at.sources for f in [at.plan.flows[s]]}
    if len(flows) != 1:
        raise NotCausal("its operands do not have the same columns", "add tensors that are as long, at the same time")
    ((dim, left, right),) = flows
    if left:
        raise NotCausal("zeros before the stream go through a function before a layer takes them", AHEAD)
    length = at.shape()[dim]
    others = [stored(at.graph, n, []) for n in at.node.all_input_nodes if n not in at.plan.flows]
    if length > 1 and any(v is not None and v.dim() >= -dim and v.shape[dim] != 1 for v in others):
        raise NotCausal("a stored tensor differs from column to column", "let it be the same for all of them")
    return Flow(len(shape) + dim, 0, right)


def _channels(at: At) -> Flow:
    """Every column by itself, parameters along dimension 1."""
    if at.flow.left or at.flow.dim == 1:
        at.plain()
        raise NotCausal("its channels are the dimension of time", elsewhere=True)
    return at.flow


def _features(at: At) -> Flow:
    """Along the last dimension, which is that of features."""
    if at.plain() == len(at.shape()) - 1:
        raise NotCausal("its features are the dimension of time", "transpose before and behind it", elsewhere=True)
    return at.flow


def _rows(at: At) -> Flow:
    """Along the last dimension."""
    if at.plain() == len(at.shape()) - 1:
        raise NotCausal("it goes along time", "let it go along another dimension")
    return at.flow


def _whole(at: At) -> Flow:
    raise NotCausal("it takes all columns of a frame together", REDUCED)


def _moved(at: At) -> Flow:
    dim = at.plain()
    if at.shape()[dim] == 1 and (found := _longer(at, dim)) is not None:
        return Flow(found)
    places = sequence_of(at.graph, at.node, at.sources[0])
    if places is None:
        raise NotCausal("it mixes data with other data, or is not known to move elements")
    return Flow(moved(at.shape(), dim, places.reshape(at.shape(at.node))))


def _longer(at: At, dim: int) -> int | None:
    """Where two columns go: a single one says nothing. None if sizes are written into the node."""
    shape = [2 if d == dim else size for d, size in enumerate(at.shape())]
    probe = torch.arange(1, math.prod(shape) + 1, dtype=torch.float64).reshape(shape)
    node, source = at.node, at.sources[0]

    def known(n: fx.Node) -> Any:
        found = at.graph.meta_of(n).common.results.get("data_out_0")
        return probe if n is source else found and found.value

    try:
        made = called(at.graph.model, node, known)
        return moved(shape, dim, made.numpy().astype("int64") - 1)
    except (RuntimeError, TypeError, AttributeError, IndexError, ValueError, NotCausal):
        return None


def _renamed(at: At) -> Flow:
    """A change of shape; the same shape is nothing at all."""
    if at.shape() == at.shape(at.node) and at.graph.meta_of(at.node).common.mase_op not in ("permute", "transpose"):
        return at.flow
    return _moved(at)


def _reduced(at: At) -> Flow:
    dim, rank = at.plain(), len(at.shape())
    given = at.attributes.get("dim")
    chosen = range(rank) if given is None else [given] if isinstance(given, int) else given
    dims = {int(d) % rank for d in chosen}
    if dim in dims:
        raise NotCausal("it goes over time", REDUCED)
    kept = len(at.shape(at.node)) == rank
    return Flow(dim if kept else dim - sum(d < dim for d in dims))


def _pad(at: At) -> Flow:
    flow, call = at.flow, at.call
    given: Sequence[int] | int = at.attributes.get("pad", at.attributes.get("padding", ()))
    rank = len(at.shape())
    amounts = list(given) if isinstance(given, Sequence) else [int(given)] * 2 * (rank - 2)
    behind = 2 * (rank - 1 - flow.dim)
    left, right = (amounts[behind], amounts[behind + 1]) if behind + 1 < len(amounts) else (0, 0)
    others = [v for i, v in enumerate(amounts) if i not in (behind, behind + 1)]
    if not left and not right:
        return Flow(at.plain())
    if any(others) or flow.right or left < 0 or right < 0 or call is None:
        raise NotCausal("it pads time and something else at once", "pad them one after the other")
    return Flow(flow.dim, flow.left + left, right, flow.source or at.sources[0])


def _window(at: At) -> Flow:
    """A layer whose windows go along time, in one dimension."""
    flow, call = at.flow, at.call
    if call is None or flow.dim != len(at.shape()) - 1:
        raise NotCausal("it goes along a dimension that is not time, or its weights are data", elsewhere=True)
    kernel, stride, dilation, padding, mode = _geometry(call)
    if padding and not call.op.startswith("conv"):
        raise NotCausal("a pooling pads with other columns than zeros", "pad with F.pad on the left")
    if mode != "zeros" or call.attributes.get("ceil_mode"):
        raise NotCausal("its padding, or its last window, depends on where a frame ends", AHEAD)
    left, right = flow.left + padding[0] if padding else flow.left, flow.right + (padding[1] if padding else 0)
    phase = (kernel - 1) * dilation - left
    hop = at.shape(flow.source or at.sources[0])[-1]
    if phase < 0:
        raise NotCausal(f"it pads {-phase} columns more than its windows reach back", AHEAD)
    if phase >= stride:
        raise NotCausal(f"it reads {phase - stride + 1} columns of hops to come", AHEAD)
    if hop % stride:
        raise NotCausal(f"its stride {stride} does not divide a hop of {hop} columns", "change the hop")
    extra = at.shape(at.node)[-1] - hop // stride
    if extra < 0 or (extra and not right):
        raise NotCausal("its windows end before the hop does", AHEAD)
    past = remembered(kernel, dilation, phase)
    at.plan.span += past
    if past or left or right:
        at.plan.windows[at.node] = ((kernel, dilation, stride, phase), flow.source or at.sources[0])
    return Flow(flow.dim, 0, extra)


def _geometry(call: Call) -> tuple[int, int, int, tuple[int, int] | None, str]:
    """Kernel, stride, dilation, padding and its mode."""
    weight = call.parameters.get("weight")
    kernel = int(weight.shape[-1]) if weight is not None else call.each("kernel_size", 1)[0]
    stride = call.each("stride", 1, kernel if weight is None else 1)[0]
    dilation = call.each("dilation", 1, 1)[0]
    given = call.attributes.get("padding", 0)
    if given == "same":
        total = (kernel - 1) * dilation
        amounts = (total // 2, total - total // 2)
    elif given == "valid":
        amounts = (0, 0)
    else:
        amounts = (call.each("padding", 1, 0)[0],) * 2
    mode = str(call.attributes.get("padding_mode", "zeros"))
    return kernel, stride, dilation, amounts if any(amounts) else None, mode


def _image(at: At) -> Flow:
    """A layer on images: along time it may only look at single columns."""
    dim, call = at.plain(), at.call
    if call is None or dim not in (2, 3):
        raise NotCausal("its channels are the dimension of time, or its weights are data", elsewhere=True)
    weight = call.parameters.get("weight")
    kernel = tuple(weight.shape[2:]) if weight is not None else call.each("kernel_size", 2, 1)
    stride = call.each("stride", 2, kernel if weight is None else 1)
    padding = call.attributes.get("padding", 0)
    amounts = (0, 0) if isinstance(padding, str) else call.each("padding", 2, 0)
    if (kernel[dim - 2], stride[dim - 2], amounts[dim - 2]) != (1, 1, 0):
        raise NotCausal("its windows go along time in two dimensions", "convolve along time with nn.Conv1d")
    return at.flow


def _slice(at: At) -> Flow:
    flow, wanted = at.flow, at.attributes
    if int(wanted["dim"]) != flow.dim:
        return _moved(at)
    begin, length, step = (int(wanted[name]) for name in ("begin", "length", "step"))
    have = at.shape()[flow.dim]
    hop = have - flow.left - flow.right
    if flow.plain or step != 1 or begin != flow.left or length != hop:
        raise NotCausal("it takes some columns of a hop", "cut off exactly what a padding added")
    at.plan.dropped[at.node] = flow.source or at.sources[0]
    return Flow(flow.dim)


def _recurrence(at: At) -> Flow:
    dim, shape = at.plain(), at.shape()
    if dim != len(shape) - 2:
        hint = "let the dimension of steps be that of time"
        raise NotCausal("its steps are not those of the stream", hint, elsewhere=True)
    if any(size != 1 for size in shape[:-2]):
        raise NotCausal("several sequences beside each other do not go on from hop to hop")
    at.plan.remembering.append(at.node)
    return at.flow


def _concat(at: At) -> Flow:
    dims = {at.plan.flows[s] for s in at.sources}
    if len(dims) != 1 or at.plain() == int(at.attributes.get("dim", 0)) % len(at.shape()):
        raise NotCausal("it joins tensors along time, or such that differ in time")
    return at.flow


def _along(at: At) -> Flow:
    if at.plain() == int(at.attributes.get("dim", 0)) % len(at.shape()):
        raise NotCausal("it goes along time", REDUCED)
    return at.flow


_OF: dict[str, Rule] = {
    **dict.fromkeys(("conv1d", "max_pool1d", "avg_pool1d"), _window),
    **dict.fromkeys(("conv2d", "max_pool2d", "avg_pool2d"), _image),
    **dict.fromkeys(("layer_norm", "rms_norm", "softmax", "softmin", "log_softmax"), _rows),
    **dict.fromkeys(("var", "std", "norm"), _rows),
    **dict.fromkeys(("sum", "mean", "mean_over", "amax", "amin", "argmax", "argmin"), _reduced),
    **dict.fromkeys(("batch_norm1d", "batch_norm2d", "batch_norm", "prelu"), _channels),
    **dict.fromkeys(("cat", "cat_part"), _concat),
    **dict.fromkeys(("group_norm", "adaptive_avg_pool1d", "adaptive_avg_pool2d"), _whole),
    **dict.fromkeys(("adaptive_max_pool1d", "adaptive_max_pool2d"), _whole),
    "linear": _features,
    "pad": _pad,
    "slice": _slice,
    "recurrence": _recurrence,
    "cumsum": _along,
    "rearrange": _moved,
    "interpolate": _moved,
}


def rule_of(graph: MaseGraph, node: fx.Node) -> Rule | None:
    """The rule of a node; None for an op of which nothing is known."""
    op = graph.op_of(node)
    if op is None:
        return None
    if op.name in _OF:
        return _OF[op.name]
    if op.implicit:
        return _renamed
    same = op.hardware is not None and op.hardware.layout == "any"
    return _each if same else None


def at_node(graph: MaseGraph, node: fx.Node, plan: Plan) -> At:
    """A node with the operands that carry data of the stream."""
    sources = [n for n in node.all_input_nodes if n in plan.flows]
    return At(graph, node, plan, sources, call_of(graph, node))


def layer_of(call: Call) -> nn.Module:
    """A layer of the call's kernel whose windows stand side by side."""
    kernel = _geometry(call)[0]
    if call.op != "conv1d":
        made: Any = nn.MaxPool1d if call.op == "max_pool1d" else nn.AvgPool1d
        return made(kernel, kernel)  # type: ignore[no-any-return]
    weight, bias = call.parameters["weight"], call.parameters.get("bias")
    groups = int(call.attributes.get("groups", 1))
    conv = nn.Conv1d(weight.shape[1] * groups, weight.shape[0], kernel, kernel, groups=groups, bias=bias is not None)
    conv.weight = _parameter(weight)
    if bias is not None:
        conv.bias = _parameter(bias)
    return conv


def _parameter(value: Tensor) -> nn.Parameter:
    if isinstance(value, nn.Parameter):
        return value
    return nn.Parameter(value.detach(), requires_grad=torch.is_grad_enabled() and value.requires_grad)
