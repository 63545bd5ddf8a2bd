"""Constants that the model computes at every call, computed once.

Simplifications that quantisation needs: fewer nodes, and parameters that are stored rather than computed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.ir import MaseGraph, MaseMetadata
from mase_hw.ir.annotate import describe
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.ir.module_paths import vanished
from mase_hw.ir.paths import attribute_at, called
from mase_hw.ir.trace.inplace import written
from mase_hw.ops.reshape import DROPOUTS
from mase_hw.passes.base import Info, NoArgs, graph_pass
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.lower.movement._calls import drop
from mase_hw.passes.lower.movement._stored_results import constant_results

MADE = frozenset({"arange", "full", "ones", "zeros", "eye", "tensor"})
"""Ops that make a tensor of numbers."""
LIKE = frozenset({torch.zeros_like, torch.ones_like, torch.full_like, *(f"new_{n}" for n in ("zeros", "ones", "full"))})
"""Functions and methods that take nothing of data but the shape and the type."""
AS = frozenset({"to", "type_as", "expand_as", "view_as", "reshape_as"})
"""Methods that take nothing else of any tensor but the first one."""
BROADCAST = frozenset(
    {"where", "masked_fill", "add", "sub", "mul", "div", "max", "min", "maximum", "minimum", "pow", "and", "or", "xor"}
    | {"eq", "ne", "lt", "le", "gt", "ge"}
)
"""Ops to which one number, or one frame, is as good as a tensor of them."""
ROWS = frozenset({"cat", "slice_scatter", "select_scatter", "index_copy", "rnn_cell", "gru_cell", "lstm_cell"})
"""Ops to which one frame is as good as many of them, as a tensor with the dimension of the frames."""
PLAIN = int | float | str | torch.dtype | torch.device | torch.Size
"""What a question about a tensor is answered by."""


@graph_pass("fold_constants_transform_pass", args=NoArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED[-1:])
def fold_constants_transform_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Compute once what depends on no data: ``self.table[1]``, ``self.weight * self.mask``, ``arange(x.shape[1])``.

    That is what depends on parameters, buffers and numbers alone, and on the shape and the type of data; layers of such
    tensors as well, where they are not in training. What is the same for every frame, and has as many as there are
    frames (``zeros_like(x)``, ``positions.expand(x.shape[0], -1)``), is one of them, or one number, where that is
    broadcast.

    The result is stored as ``<node>_folded``: a parameter if one of its parts is trained, else a buffer. Training then
    changes the result and no longer its parts. Random operations are never computed here, and no tensor that an
    operation in place writes is touched. Every result is the same, bit for bit.

    Args:
        graph: A float graph with common metadata.
        args: None.

    Returns:
        The graph, ``modified``, ``constants``: node -> new parameter or buffer, and ``results``: nodes that give a
        stored tensor as a result of the model, one frame of it for each frame of another stream.

    Raises:
        GraphError: If the graph is quantised already.
    """
    edit.refuse_quantised(graph, "folding constants")
    constants = fold_constants(graph)
    results = constant_results(graph)
    if constants or results:
        edit.finish(graph)
    return graph, {"modified": bool(constants or results), "constants": constants, "results": results}


def fold_constants(graph: MaseGraph) -> dict[str, str]:
    """Compute nodes whose inputs are all constant, and store what remains of them; node -> parameter or buffer."""
    found = _Constants(graph)
    known, values = [*found.once], found.values
    stays: set[fx.Node] = set()
    made: dict[str, str] = {}
    for node in reversed(known):
        # Inner steps disappear with the last one; what is no tensor, or several, is only ever inner.
        if node.op == "get_attr" or not any(user not in found.once or user in stays for user in node.users):
            continue
        if isinstance(values.get(node), Tensor):
            made[node.name] = _store(graph, node, values[node], found.trained[node])
        else:
            stays.add(node)
    for node in reversed([n for n in known if n.op != "get_attr"]):
        if not node.users:
            stored = f"and stored as {made[node.name]} " if node.name in made else ""
            vanished(graph, node, f"was computed once {stored}by fold_constants_transform_pass: it is a constant")
            sources = node.all_input_nodes
            graph.fx_graph.erase_node(node)
            drop(graph, [n for n in sources if n in found.data])
    return dict(reversed(made.items()))


class _Constants:
    """What of a graph can be computed without data.

    Args:
        graph: A float graph with common metadata.

    Attributes:
        once: By node in order: its value for as many frames as the example has.
        twice: Its value for twice as many.
        values: Those that are constant: the same for any number of frames, or for every frame where that is broadcast.
        trained: Whether a part of it is trained.
    """

    def __init__(self, graph: MaseGraph) -> None:
        self.graph = graph
        self.once: dict[fx.Node, Any] = {}
        self.twice: dict[fx.Node, Any] = {}
        self.trained: dict[fx.Node, bool] = {}
        self.data = _of_data(graph)
        writes = {target for n in graph.nodes if (target := written(n, graph.model)) and not self._fresh(target)}
        for node in graph.nodes:
            if node not in writes and node not in self.data:
                self._look_at(node)
        self.values = {node: value for node, value in self.once.items() if _equal(value, self.twice[node])}
        for node in self.once.keys() - self.values.keys():
            frame = _frame(self.once[node], self.twice[node])
            if frame is not None and self._broadcast(node):
                self.values[node] = frame if self._broadcast(node, BROADCAST) else self.once[node][:1].clone()

    def _look_at(self, node: fx.Node) -> None:
        if node.op == "get_attr":
            value = attribute_at(self.graph.model, str(node.target))
            if isinstance(value, Tensor) and not value.is_meta:
                self.once[node] = self.twice[node] = value
                self.trained[node] = value.requires_grad
        if not node.op.startswith("call_") or not self._computable(node):
            return
        shapes = {n: s for n in node.all_input_nodes if n in self.data and (s := self._shaped(n)) is not None}
        if any(n not in self.once and n not in shapes for n in node.all_input_nodes):
            return
        once = compute(self.graph, node, {**self.once, **{n: pair[0] for n, pair in shapes.items()}})
        more = bool(shapes) or any(self.once[n] is not self.twice[n] for n in node.all_input_nodes)
        twice = compute(self.graph, node, {**self.twice, **{n: p[1] for n, p in shapes.items()}}) if more else once
        if once is not None and twice is not None:
            self.once[node], self.twice[node] = once, twice
            module = self.graph.meta_of(node).module
            own = [] if module is None else [p.requires_grad for p in module.parameters()]
            self.trained[node] = any(own) or any(self.trained.get(n, False) for n in node.all_input_nodes)

    def _computable(self, node: fx.Node) -> bool:
        op = self.graph.op_of(node)
        if op is None or (not node.all_input_nodes and op.name not in MADE):
            return False
        module = self.graph.meta_of(node).module
        if module is not None and module.training and not isinstance(module, nn.Embedding):
            return False
        random = node.op == "call_function" and node.target in DROPOUTS
        target = written(node, self.graph.model)
        return not random and (target is None or self._fresh(target))

    def _fresh(self, node: fx.Node) -> bool:
        """Whether a result is a tensor of its own, which may be written in place: no stored one, and no view."""
        op = self.graph.op_of(node)
        return op is not None and op.golden is not None and not op.implicit

    def _shaped(self, node: fx.Node) -> tuple[Tensor, Tensor] | None:
        """A tensor of the shape of data, and one for twice as many frames; of their numbers nothing is asked."""
        tensors = self.graph.meta_of(node).common.results.tensors
        if list(tensors) != ["data_out_0"]:
            return None
        shape, dtype = tensors["data_out_0"].shape, tensors["data_out_0"].torch_dtype
        if not shape or dtype is None:
            return None
        number = torch.zeros((), dtype=dtype)
        return number.expand(shape), number.expand((2 * shape[0], *shape[1:]))

    def _broadcast(self, node: fx.Node, readers: Collection[str] = BROADCAST | ROWS) -> bool:
        """Whether what reads a node has the same shape if the node is one frame or number, or is read by such."""
        graph = self.graph
        for user in node.users:
            if user in self.once:
                continue
            op = graph.op_of(user)
            if op is None or op.name not in readers or written(user, graph.model) is not None:
                return False
            shape = graph.tensor(user, "data_out_0").shape
            if op.name in ROWS:
                continue
            whole = (graph.tensor(n, "data_out_0").shape == shape for n in user.all_input_nodes if n in self.data)
            if not any(whole) and not self._broadcast(user):
                return False
        return bool(node.users)


def _equal(once: Any, twice: Any) -> bool:
    """Whether a value is the same for twice as many frames."""
    if isinstance(once, Tensor):
        return once is twice or (once.shape == twice.shape and bool(torch.equal(once, twice)))
    if isinstance(once, list):
        return len(once) == len(twice) and all(map(_equal, once, twice))
    return bool(once == twice)


def _frame(once: Any, twice: Any) -> Tensor | None:
    """One frame of a tensor that has the same for each, as one number if it is one all over; else None."""
    if not isinstance(once, Tensor) or not once.dim() or twice.shape != (2 * len(once), *once.shape[1:]):
        return None
    if not len(once) or not torch.equal(twice, once[:1].expand(twice.shape)):
        return None
    same = bool((once == once.reshape(-1)[0]).all()) if once.numel() else False
    return once.reshape(-1)[0].clone() if same else once[0].clone()


def _of_data(graph: MaseGraph) -> set[fx.Node]:
    """Tensors whose numbers depend on data, not only their shape and type."""
    found: set[fx.Node] = set()
    for node in graph.nodes:
        sources = [] if node.target in LIKE else node.all_input_nodes
        if node.op == "call_method" and node.target in AS:
            sources = [n for n in node.args[:1] if isinstance(n, fx.Node)]
        read = any(source in found for source in sources)
        if (node.op == "placeholder" or read) and graph.meta_of(node).common.results.tensors:
            found.add(node)
    return found


def compute(graph: MaseGraph, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    """The value of a node, or None if it cannot be known, or depends on chance.

    Tensors, several of them as a list, and answers to questions about tensors can.
    """
    target = written(node, graph.model)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        before = torch.random.get_rng_state()
        result = called(graph.model, node, lambda n: values[n].clone() if n is target else values[n])
        drawn = not torch.equal(before, torch.random.get_rng_state())
    if isinstance(result, PLAIN) and not isinstance(result, bool):
        return result
    parts = result if isinstance(result, tuple | list) else (result,)
    if drawn or not all(isinstance(part, Tensor) for part in parts):
        return None
    return result.clone() if isinstance(result, Tensor) else [part.clone() for part in parts]


def _store(graph: MaseGraph, node: fx.Node, value: Tensor, trained: bool) -> str:
    """Put a tensor of the model in the place of a computed constant."""
    name = f"{node.name}_folded"
    while hasattr(graph.model, name):
        name += "_"
    if trained:
        graph.model.register_parameter(name, nn.Parameter(value))
    else:
        graph.model.register_buffer(name, value)
    with graph.fx_graph.inserting_before(node):
        constant = graph.fx_graph.create_node("get_attr", name, name=name)
    meta = constant.meta["mase"] = MaseMetadata(constant, graph.model)
    kept = graph.meta_of(node).common.results.tensors
    stored = attribute_at(graph.model, name)
    keep = any(tensor.value is not None for tensor in kept.values())
    meta.common.mase_type, meta.common.mase_op = "get_attr", "constant"
    meta.common.results["data_out_0"] = describe(stored, stored.detach() if keep else None)
    node.replace_all_uses_with(constant)
    for user, argument in graph.consumers(constant, "data_out_0"):
        args = graph.meta_of(user).common.args
        if args.tensors[argument].shape != meta.common.results["data_out_0"].shape:  # one number for a whole tensor
            args[argument] = describe(stored, stored.detach() if keep else None)
    return name


IDENTITIES = (
    nn.Identity,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
)
"""Modules that give what they get in evaluation mode."""
NOT_NEGATIVE = {"relu", "relu6", "sigmoid", "hardsigmoid", "softmax"}
"""Ops whose results a relu leaves as they are."""


@graph_pass("simplify_graph_transform_pass", args=NoArgs, needs=(COMMON_PASS,), invalidates=edit.OUTDATED[-1:])
def simplify_graph_transform_pass(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
    """Take out what computes nothing in evaluation mode, and compute once what depends on parameters alone.

    - ``nn.Identity`` and dropout (modules, and functions with ``training=False``) are removed. A model that is to be
      trained further with dropout must not be simplified.
    - A relu of something that is never negative (relu, relu6, sigmoid, hardsigmoid, softmax) is removed.
    - Operations on parameters and buffers alone are computed now, as by
      :func:`fold_constants_transform_pass`.

    Every result is the same, bit for bit. A node whose removal could let an operation in place write what another
    one still reads stays.

    Args:
        graph: A float graph with common metadata.
        args: None.

    Returns:
        The graph, and ``removed`` (node -> what it was) and ``constants`` (node -> new parameter or buffer).

    Raises:
        GraphError: If the graph is quantised already.
    """
    edit.refuse_quantised(graph, "simplification")
    info: Info = {"removed": {}, "constants": fold_constants(graph)}
    for rule in (_identity, _relu_of_positive):
        for node in graph.nodes:
            source = rule(graph, node)
            if source is None or edit.may_alias(graph, node, source) or written(node, graph.model) is not None:
                continue
            info["removed"][node.name] = graph.meta_of(node).common.mase_op
            edit.bypass(graph, node, source)
    info["modified"] = bool(info["removed"] or info["constants"])
    if info["modified"]:
        edit.finish(graph)
    return graph, info


Rule = Callable[[MaseGraph, fx.Node], fx.Node | None]
"""What can stand for a node, or None."""


def _identity(graph: MaseGraph, node: fx.Node) -> fx.Node | None:
    module = graph.meta_of(node).module
    if module is not None:
        still = isinstance(module, IDENTITIES) and graph.op_of(node) is not None
    else:
        still = node.op == "call_function" and node.target in DROPOUTS and _not_training(node)
    return node.all_input_nodes[0] if still and len(node.all_input_nodes) == 1 else None


def _not_training(node: fx.Node) -> bool:
    """Whether a dropout is called with ``training=False``; its default is true."""
    given = node.kwargs.get("training", node.args[2] if len(node.args) > 2 else True)
    return given is False


def _relu_of_positive(graph: MaseGraph, node: fx.Node) -> fx.Node | None:
    op = graph.op_of(node)
    if op is None or op.name != "relu" or len(node.all_input_nodes) != 1:
        return None
    source = node.all_input_nodes[0]
    before = graph.op_of(source)
    return source if before is not None and before.name in NOT_NEGATIVE else None
