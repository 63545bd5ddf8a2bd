"""What stands between the scores of an attention and their softmax: a factor, and masks of several notations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor, fx

from mase_hw.ir import MaseGraph
from mase_hw.ir.trace.inplace import written
from mase_hw.ops.arithmetic.where import FAR
from mase_hw.passes.lower.attention.places import unmoved
from mase_hw.passes.lower.layers.call import Expression, expression_of, number_of

_CASTS = frozenset({"to", "float", "double", "half", "bfloat16", "type", "type_as", "as_number"})
_SAME = frozenset({"contiguous", "clone", "identity", "dropout", "detach"})
_SHAPES = frozenset({"view", "reshape", "unsqueeze", "squeeze", "unflatten", "flatten"})


@dataclass(frozen=True)
class DataMask:
    """A mask that is data.

    Args:
        node: Its producer.
        masked: What is true, or not 0, is left out, rather than what is not.
        shape: The shape in which its elements broadcast to the scores; None for its own.
    """

    node: fx.Node
    masked: bool
    shape: tuple[int, ...] | None = None


@dataclass
class Scores:
    """What a softmax is of.

    Args:
        node: The scores, ``(*, queries, keys)``.
        scale: What they are multiplied with, above 0.
        keep: Which keys take part, as far as it is known; None for all. In the shape of the scores.
        data: Masks that are data; they broadcast to the scores.
    """

    node: fx.Node
    scale: float = 1.0
    keep: Tensor | None = None
    data: list[DataMask] = field(default_factory=list)

    @property
    def masked(self) -> bool:
        """Whether there is a mask at all."""
        return self.keep is not None or bool(self.data)


def scores_of(graph: MaseGraph, node: fx.Node) -> Scores:
    """Go back from the input of a softmax over what scales and masks it.

    Args:
        graph: A float graph with common metadata.
        node: Producer of the input.
    """
    found = Scores(node)
    while _step(graph, found):
        pass
    return found


def _step(graph: MaseGraph, found: Scores) -> bool:
    node = found.node
    op = graph.op_of(node)
    if op is None or written(node, graph.model) is not None:
        return False
    if op.name in _SAME | _CASTS | _SHAPES:
        return _renamed(graph, found, op.name)
    e = expression_of(graph, node)
    rule = _RULES.get(op.name)
    return e is not None and rule is not None and rule(graph, e, found)


def _renamed(graph: MaseGraph, found: Scores, name: str) -> bool:
    inputs = [n for n in found.node.all_input_nodes if graph.meta_of(n).common.results.tensors]
    if not inputs or (name == "dropout" and graph.meta_of(found.node).common.args.get("training")):
        return False
    source = inputs[0]
    before = graph.tensor(source, "data_out_0")
    after = graph.tensor(found.node, "data_out_0").shape
    if before.torch_dtype is None or not before.torch_dtype.is_floating_point:
        return False
    if list(before.shape) != list(after):
        if found.data or list(before.shape[-2:]) != list(after[-2:]):
            return False
        found.keep = None if found.keep is None else found.keep.reshape(before.shape)
    found.node = source
    return True


def _add(graph: MaseGraph, found: Scores, mask: Tensor | DataMask, source: fx.Node) -> bool:
    """Take a mask, what is kept of the scores or data that says it, where the scores before it have their shape."""
    shape = graph.tensor(found.node, "data_out_0").shape
    if list(graph.tensor(source, "data_out_0").shape) != list(shape):
        return False
    if isinstance(mask, DataMask):
        found.data.append(_without_not(graph, mask))
    else:
        keep = mask.detach().to("cpu").expand(tuple(shape))
        found.keep = keep if found.keep is None else found.keep & keep
    found.node = source
    return True


def _without_not(graph: MaseGraph, mask: DataMask) -> DataMask:
    """The same without inversions, and comparisons with 0."""
    while True:
        op, e = graph.op_of(mask.node), expression_of(graph, mask.node)
        if op is None or e is None or op.name not in ("not", "eq", "ne"):
            return mask
        data = [v for v in e.operands if isinstance(v, fx.Node)]
        rest = [number_of(v) for v in e.operands if not isinstance(v, fx.Node)]
        if len(data) != 1 or rest != ([] if op.name == "not" else [0.0]) or (op.name == "not" and not e.truth):
            return mask
        mask = DataMask(data[0], mask.masked != (op.name != "ne"), mask.shape)


def _multiplied(graph: MaseGraph, e: Expression, found: Scores) -> bool:
    values = e.operands
    if len(values) != 2:
        return False
    for data, other in (values, reversed(values)):
        factor = number_of(other)
        if isinstance(data, fx.Node) and factor is not None and factor > 0:
            found.node, found.scale = data, found.scale * factor
            return True
    return False


def _divided(graph: MaseGraph, e: Expression, found: Scores) -> bool:
    if len(e.operands) != 2 or e.args.get("rounding_mode") is not None:
        return False
    data, other = e.operands
    divisor = number_of(other)
    if not isinstance(data, fx.Node) or divisor is None or divisor <= 0:
        return False
    found.node, found.scale = data, found.scale / divisor
    return True


def _added(graph: MaseGraph, e: Expression, found: Scores) -> bool:
    """A stored tensor of 0 and numbers far below, or ``(1 - mask) * far``."""
    if len(e.operands) != 2 or e.args.get("alpha", 1) != 1:
        return False
    for data, other in (tuple(e.operands), tuple(reversed(e.operands))):
        if not isinstance(data, fx.Node):
            continue
        if isinstance(other, Tensor) and bool(((other == 0) | (other <= FAR)).all()):
            return _add(graph, found, other == 0, data)
        if isinstance(other, fx.Node):
            mask = far_where_not(graph, other)
            if mask is not None and _add(graph, found, mask, data):
                return True
    return False


def far_where_not(graph: MaseGraph, node: fx.Node, whole: bool = True) -> DataMask | None:
    """The mask of ``(1 - mask) * far`` or ``(mask - 1) * -far``, with any views, of truth values or any numbers."""
    shape, node = tuple(graph.tensor(node, "data_out_0").shape), unmoved(graph, node)
    e = expression_of(graph, node)
    op = graph.op_of(node)
    if e is None or op is None or op.name != "mul" or len(e.operands) != 2:
        return None
    for inner, other in (tuple(e.operands), tuple(reversed(e.operands))):
        factor = number_of(other)
        if not isinstance(inner, fx.Node) or factor is None or abs(factor) < -FAR:
            continue
        inner = unmoved(graph, inner)
        below, below_op = expression_of(graph, inner), graph.op_of(inner)
        if below is None or below_op is None or below_op.name not in ("sub", "rsub"):
            continue
        values = list(below.operands)
        first, second = values if (below_op.name == "sub") == (factor < 0) else reversed(values)
        if isinstance(second, fx.Node) and number_of(first) == 1 and (not whole or is_whole(graph, second)):
            return DataMask(second, False, shape)
    return None


def is_whole(graph: MaseGraph, node: fx.Node) -> bool:
    """Whether what a node only moves or converts are truth values or whole numbers."""
    while True:
        dtype = graph.tensor(node, "data_out_0").torch_dtype
        if dtype is not None and not dtype.is_floating_point:
            return True
        op = graph.op_of(node)
        inputs = [n for n in node.all_input_nodes if graph.meta_of(n).common.results.tensors]
        moves = op is not None and (graph.is_implicit(node) or op.name in _CASTS | {"getitem", "expand"})
        if not moves or not inputs:
            return False
        node = inputs[0]


def _filled(graph: MaseGraph, e: Expression, found: Scores) -> bool:
    return _chosen(graph, found, e.args.get("mask"), e.args.get("value"), e.args.get("input"))


def _where(graph: MaseGraph, e: Expression, found: Scores) -> bool:
    first = e.args.get("input")
    return _chosen(graph, found, e.args.get("condition"), first, e.args.get("other"))


def _chosen(graph: MaseGraph, found: Scores, condition: object, yes: object, no: object) -> bool:
    """One of them is data, the other is far below."""
    masked = isinstance(no, fx.Node) and is_far(yes)
    data = no if masked else yes
    if not isinstance(data, fx.Node) or not (masked or is_far(no)):
        return False
    if isinstance(condition, Tensor):
        keep = condition.bool()
        return _add(graph, found, ~keep if masked else keep, data)
    return isinstance(condition, fx.Node) and _add(graph, found, DataMask(condition, masked), data)


def is_far(value: object) -> bool:
    """Whether a number, or every element of a tensor, leaves a score out."""
    if isinstance(value, Tensor):
        return bool((value <= FAR).all())
    return isinstance(value, int | float) and value <= FAR


_RULES: Mapping[str, Callable[[MaseGraph, Expression, Scores], bool]] = {
    "mul": _multiplied,
    "div": _divided,
    "add": _added,
    "masked_fill": _filled,
    "where": _where,
}
