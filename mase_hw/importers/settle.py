"""From a graph whose file says where values are rounded to a graph of fixed point with exactly these formats.

The file quantises between its nodes, which compute on exact values. So does the graph: a node computes exactly, and the
quantisation right behind it is its one cast; where others read the exact values as well, the cast is a node of its own.
Nothing is calibrated.

A file that is quantised, with nodes that hardware does not have: the graph is settled around them.

What is refused of a graph is for the host; the segments between are settled each by itself, and what is refused there
is for the host as well, until nothing is. Then all of it is one graph again: quantised nodes, and
:class:`~mase_hw.nn.on_host.HostGraph` for what the host computes in float.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from mase_hw.compiler.stages import CALIBRATE, QUANTIZE, quantise_pipeline
from mase_hw.errors import GraphError, MaseHwError, UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.formats.attributes import attributes_of
from mase_hw.formats.taken import Ends
from mase_hw.importers.entries import marker_of_input
from mase_hw.importers.exact import covering, exact_format, holds
from mase_hw.importers.graph import ON_HOST, Known, Marker, NodesRefused, Refused, Writer, plan_each
from mase_hw.importers.settle_integers import Integers
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import values_of
from mase_hw.ir.inputs import unknown_nodes
from mase_hw.ir.parts import HARDWARE, Part, copied, formats_of, places, split
from mase_hw.nn import Quantized, QuantizeInput
from mase_hw.nn.on_host import HostGraph
from mase_hw.opdef import OpDef
from mase_hw.ops._binary import covering_both
from mase_hw.ops.cast import passed_on
from mase_hw.ops.concat import holding_all
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.quantize.config import NodeConfig, QuantizeArgs, Rule
from mase_hw.passes.quantize.operands import operands_of, parameters_of
from mase_hw.passes.quantize.quantize import quantize_transform_pass

_WINDOWS = (F.avg_pool1d, F.avg_pool2d)
_MEANS = ("avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d")
_EXACT: dict[str, Callable[[Mapping[str, FixedFormat]], FixedFormat]] = {
    "cat": holding_all,
}
"""Ops whose result has, where nothing says another format, one in which it may be rounded, or saturate."""
_BEHIND = f"quantise its result, so that the file says its format, or {ON_HOST}"


def settle(
    graph: MaseGraph,
    example: Mapping[str, Tensor],
    markers: Mapping[str, Marker],
    weights: Mapping[str, Known],
    sources: Mapping[str, str],
    integers: bool = False,
) -> MaseGraph:
    """Quantise a graph as its markers say.

    Args:
        graph: A float graph; nodes that are markers pass their input on.
        example: One frame, by name of the input.
        markers: By name of the node.
        weights: What is known of parameters, by path in the model.
        sources: The file's names of nodes.
        integers: Whether the formats are scaled integers; else fixed point.

    Returns:
        The graph, quantised.

    Raises:
        UnsupportedError: If a format is not known, or values are not exact in fixed point; names every node.
    """
    pipeline = quantise_pipeline(example, {"fold_batch_norm": False}).without(CALIBRATE, QUANTIZE)
    placed = {node.name for node in graph.nodes} & set(markers)
    graph = pipeline.run(graph).graph
    lost = sorted(placed - {node.name for node in graph.nodes})
    if lost:
        raise GraphError(
            "a quantisation of the file got lost while the model was lowered",
            node=", ".join(sources.get(name, name) for name in lost)[:400],
            remedy="please report this, with the file",
        )
    apart = [name for name, marker in markers.items() if marker.elements and name in placed]
    wraps = [name for name, marker in markers.items() if marker.overflow is Overflow.WRAP]
    if integers and (apart or wraps):
        raise UnsupportedError(
            "formats by element, and numbers that wrap, are for fixed point, and there are other scales as well",
            node=", ".join(sources.get(name, name) for name in [*apart, *wraps])[:400],
            got="a scale that is no power of two, or a zero point",
            expected="powers of two, without zero points",
        )
    if integers:
        Integers(graph, markers, weights, sources).run()
        return graph
    made = _Settled(graph, markers, weights, sources)
    try:
        args = made.run()
    except NodesRefused as error:
        if set(error.places) != made.finer or apart or wraps:
            raise
        # Sums of scaled integers can be finer than their products, and means are sums at a scale of their own.
        try:
            Integers(graph, markers, weights, sources).run()
        except MaseHwError:
            raise error from None
        return graph
    quantised, _ = quantize_transform_pass(graph, args)
    for name in apart:
        module = quantised.meta_of(quantised.node(name)).module
        assert isinstance(module, Quantized)  # a marker that was not the cast of the node before it
        a = module.arithmetic
        more = attributes_of({**a.attributes, "elements": markers[name].elements})
        module.arithmetic = dataclasses.replace(a, attributes=more)
    return quantised


class _Settled:
    def __init__(
        self, graph: MaseGraph, markers: Mapping[str, Marker], weights: Mapping[str, Known], sources: Any
    ) -> None:
        self.graph = graph
        self.markers, self.weights, self.sources = markers, weights, sources
        self.formats: dict[str, FixedFormat] = {}
        self.entries: dict[str, FixedFormat] = {}
        self.configs: dict[str, NodeConfig] = {}
        self.finer: set[str] = set()
        """Nodes whose only fault is a bias finer than their products, or a mean of other than 2**n numbers."""

    def run(self) -> QuantizeArgs:
        fused = {node.name: self._cast_of(node) for node in self.graph.nodes}

        def plan(node: fx.Node, op: OpDef) -> None:
            marker = fused[node.name]
            self._node(node, op, None if marker is None else self.markers[marker.name])
            if marker is not None:
                self.formats[marker.name] = self.formats[node.name]

        def cast_of(node: fx.Node) -> list[str]:
            marker = fused[node.name]
            return [] if marker is None else [marker.name]

        plan_each(self.graph, self.sources, plan, cast_of)
        for node in list(self.graph.nodes):
            marker = fused.get(node.name)
            if marker is not None:
                edit.takes_result_of(self.graph, node, marker)
                edit.bypass(self.graph, marker, node)
        edit.finish(self.graph)
        rules = {name: Rule(config=config) for name, config in self.configs.items()}
        return QuantizeArgs(default=Rule(config=NodeConfig(name="fixed")), overrides=rules)

    def _cast_of(self, node: fx.Node) -> fx.Node | None:
        """The marker right behind a node, if that is the cast at the end of it."""
        op = self.graph.op_of(node)
        if op is None or self.graph.is_implicit(node) or node.name in self.markers or len(node.users) != 1:
            return None
        (user,) = node.users
        casts = op.exact_out is None  # the golden of any other casts what is exact
        return user if casts and user.name in self.markers and not self.markers[user.name].elements else None

    def _node(self, node: fx.Node, op: OpDef, cast: Marker | None) -> None:
        if node.name in self.configs or node.name in self.formats:
            return  # a marker that is the cast of the node before it
        cast = self.markers.get(node.name, cast)
        operands = operands_of(self.graph, node, op)
        formats: dict[str, FixedFormat] = {}
        given: dict[str, Any] = {}
        for index, source in enumerate(operands.inputs):
            formats[f"data_in_{index}"] = self._entering(node, source, given)
        if self.graph.is_implicit(node) and cast is None and operands.inputs:
            outside = operands.inputs[0].name not in self.formats
            if op.golden is None and outside:
                return  # it moves an input of the model, which enters where it is computed with
            self.formats[node.name] = formats["data_in_0"]
            if op.golden is None:
                return
        parameters = parameters_of(self.graph, node, op)
        if parameters and op.derive is not None:
            raise Refused("its numbers are no powers of two", "fold it into the layer before, and quantise that")
        if operands.constant is not None:
            parameters[op.constant] = operands.constant
        for name, value in parameters.items():
            fmt = formats[name] = self._parameter(node, name, value)
            limit = op.finest(name, formats) if op.finest is not None else None
            if limit is not None and fmt.frac_width > limit:
                self.finer |= {node.name} if name == "bias" else set()
                raise Refused(
                    f"its {name} has {fmt.frac_width} fraction bits, and its products have {limit}",
                    f"quantise the {name} with the scale of the products",
                )
            given |= _keys("weight" if name == op.constant else name, fmt)

        def exact() -> FixedFormat:
            return self._exact(node, op, formats, operands.constant)

        if cast is not None and cast.given is not None:
            marks = node.name in self.markers
            self._refuse_finer(formats["data_in_0"] if marks else exact(), cast.given)
        result = cast.fmt if cast is not None else exact()
        if cast is not None:
            given |= {"rounding": cast.rounding, "overflow": cast.overflow}
        if cast is not None or op.name in _EXACT or not (op.default_out or op.exact_out):
            given |= _keys("data_out", result)
        self.formats[node.name] = result
        if given:
            self.configs[node.name] = NodeConfig(name="fixed", **given)

    def _entering(self, node: fx.Node, source: fx.Node, given: dict[str, Any]) -> FixedFormat:
        """The format of an input of a node; of an input of the model that of the first marker."""
        if source.name in self.formats:
            return self.formats[source.name]
        start, marker = marker_of_input(self.graph, self.markers, self.sources, node, source)
        if self.entries.setdefault(start.name, marker.fmt) != marker.fmt:
            raise Refused(f"the input {start.name} is quantised in two ways", "quantise it once")
        given |= _keys("data_in", marker.fmt)
        return marker.fmt

    def _refuse_finer(self, exact: FixedFormat, given: FixedFormat) -> None:
        """Refuse to truncate what has more bits than the file says."""
        wide = exact.width - exact.signed > given.width - given.signed + exact.frac_width - given.frac_width
        if exact.frac_width > given.frac_width or wide:
            raise Refused(f"it truncates numbers of the format {exact}", "quantise its input to its scale and width")

    def _parameter(self, node: fx.Node, name: str, value: Tensor) -> FixedFormat:
        exact = exact_format(value)
        known = self.weights.get(f"{node.target}.weight") if node.op == "call_module" and name == "weight" else None
        said = None if known is None else known.fmt
        if said is not None and holds(said, exact):
            return said
        return exact

    def _exact(
        self, node: fx.Node, op: OpDef, formats: Mapping[str, FixedFormat], constant: Tensor | None
    ) -> FixedFormat:
        """The format in which a result is exact."""
        shapes = {name: tuple(t.shape) for name, t in self.graph.meta_of(node).common.args.tensors.items()}
        x = formats.get("data_in_0")
        if op.name == "mul" and constant is not None and x is not None:
            fmt = exact_format(constant)
            if constant.numel() == 1 and fmt.width == 2 and float(constant) > 0:  # a power of two: a shift
                return FixedFormat(x.width, x.frac_width + fmt.frac_width, x.signed)
        exact = op.exact or (op.scaled.sums if op.scaled is not None else None)
        if exact is not None:
            return exact(formats, shapes)
        if op.exact_out is not None:
            args = self.graph.meta_of(node).common.args
            found = op.exact_out(formats, shapes["data_in_0"], args.attributes)
            if found is not None:
                return found
        if op.name in _EXACT:
            return _EXACT[op.name](formats)
        if op.default_out is not None:
            fmt = op.default_out(formats)
            drops = op.non_negative and fmt.signed and fmt.width > 1
            return FixedFormat(fmt.width - 1, fmt.frac_width, signed=False) if drops else fmt
        if op.scaled is not None and op.scaled.ends is not None and x is not None:
            clamped = self._clamped(node, op.scaled.ends, x)
            if clamped is not None:
                return clamped
        if op.name in ("add", "sub"):
            a, b = formats["data_in_0"], formats[op.constant if op.constant in formats else "data_in_1"]
            return covering(a, b, op.name == "sub")
        if op.name in _MEANS:
            count = self._averaged(node)
            if count and count & (count - 1) == 0:
                more, fmt = count.bit_length() - 1, formats["data_in_0"]
                return FixedFormat(fmt.width + more, fmt.frac_width + more, fmt.signed)
            self.finer |= {node.name} if count else set()
        raise Refused("its result is not exact in fixed point, and nothing behind it quantises it", _BEHIND)

    def _clamped(self, node: fx.Node, ends_of: Callable[..., Ends], fmt: FixedFormat) -> FixedFormat | None:
        """The format of what a clamp gives; None if an end of it is no number of its input's step."""
        args = self.graph.meta_of(node).common.args
        low, high = ends_of(args.attributes)
        held = {"data_in_0": fmt}
        for end, outside in ((low, fmt.max_value.__lt__), (high, fmt.min_value.__gt__)):
            if end is None or math.isinf(end):
                continue
            if not math.ldexp(end, fmt.frac_width).is_integer():
                return None
            if outside(end):  # all numbers that are possible are short of it, or beyond it
                held[f"{end}"] = exact_format(torch.tensor(end, dtype=torch.float64))
        return covering_both(held)

    def _averaged(self, node: fx.Node) -> int:
        """How many elements a pool averages; 0 if that is not the same for all."""
        shapes = [self.graph.tensor(node, name).shape for name in ("data_in_0", "data_out_0")]
        if len(node.args) > 4 and any(node.args[3:5]):  # a border, or windows that reach beyond it
            return 0
        kernel: Any = node.args[1] if node.target in _WINDOWS else None
        if kernel is not None:
            return math.prod(kernel) if isinstance(kernel, tuple) else 0
        return math.prod(shapes[0]) // math.prod(shapes[1]) if math.prod(shapes[1][2:]) == 1 else 0


def _keys(group: str, fmt: FixedFormat) -> dict[str, Any]:
    return {f"{group}_width": fmt.width, f"{group}_frac_width": fmt.frac_width, f"{group}_signed": fmt.signed}


def settle_around(graph: MaseGraph, example: Mapping[str, Tensor], writer: Writer) -> MaseGraph:
    """Quantise a graph as its markers say, and leave to the host what cannot be.

    Args:
        graph: A float graph; nodes that are markers pass their input on.
        example: One frame, by name of the input.
        writer: What wrote it, with the markers.

    Returns:
        A graph of quantised nodes and of nodes for the host, which say why they are there.

    Raises:
        UnsupportedError: If nothing is left for the hardware, or a result of the host is rounded as it does not round.
    """
    return _Around(graph, example, writer).run()


class _Around:
    def __init__(self, graph: MaseGraph, example: Mapping[str, Tensor], writer: Writer) -> None:
        self.model, self.writer = graph.model, writer
        self.values = values_of(graph.model, example)
        computing = [n for n in graph.nodes if n.op.startswith("call_")]
        self.free = frozenset(n.name for n in computing if n.name in writer.markers or graph.is_implicit(n))
        self.reasons = {n.name: "it is no op of the catalogue" for n in unknown_nodes(graph)}

    def run(self) -> MaseGraph:
        while True:
            host = places(self.model, self.values, self.reasons)
            parts, moved = split(self.model, host, self.free)
            if not any(part.where == HARDWARE for part in parts):
                lines = [f"{self.writer.sources.get(n, n):.120}: {why}" for n, why in self.reasons.items()]
                raise UnsupportedError(
                    "nothing of the model is left for the hardware:\n  " + "\n  ".join(lines[:40]),
                    node=", ".join(self.reasons)[:400],
                    remedy="run the model where it was made",
                )
            refused, settled = self._settled(parts)
            if refused is None:
                return self._whole(parts, settled, {**host, **moved})
            new = {name: why for name, why in _places(refused, self.model).items() if name not in host}
            for name in [n for n, why in new.items() if why.endswith("before that is quantised")]:
                new[name] = "it reads what the host gives, or the model is given, and nothing quantises that"
            if not new:
                raise refused
            self.reasons |= new

    def _settled(self, parts: list[Part]) -> tuple[MaseHwError | None, dict[str, MaseGraph]]:
        """The segments, as far as one after the other can be settled, and the first error."""
        found: dict[str, MaseGraph] = {}
        formats: dict[str, FixedFormat] = {}
        for part in parts:
            if part.where != HARDWARE:
                continue
            markers = dict(self.writer.markers)
            module = copied(part.module, "Segment")
            for node in [n for n in module.graph.nodes if n.op == "placeholder" and n.name in formats]:
                with module.graph.inserting_after(node):
                    again = module.graph.create_node("call_function", passed_on, (node,), name=f"{node.name}_again")
                node.replace_all_uses_with(again, lambda user, own=again: user is not own)
                markers[again.name] = Marker(formats[node.name], Rounding.HALF_EVEN)
            module.recompile()
            example = {name: cast(Tensor, self.values[name]) for name in part.inputs}
            try:
                graph = MaseGraph(module, share_weights=True)
                made = settle(graph, example, markers, self.writer.weights, self.writer.sources, self.writer.integers)
            except MaseHwError as error:
                return error, found
            found[part.name] = made
            known = formats_of(made.model)
            for name, node in zip(part.outputs, _results(made.fx_graph), strict=True):
                fmt = known[node.name]
                if fmt is not None:
                    formats[name] = fmt
        return None, found

    def _whole(self, parts: list[Part], settled: Mapping[str, MaseGraph], host: Mapping[str, str]) -> MaseGraph:
        """One graph of segments and of what the host computes."""
        root, graph = nn.Module(), fx.Graph()
        made: dict[str, fx.Node] = {
            node.name: graph.node_copy(node) for node in self.model.graph.nodes if node.op == "placeholder"
        }

        def added(name: str, module: nn.Module, inputs: tuple[Any, ...]) -> fx.Node:
            while hasattr(root, name):
                name += "_"
            root.add_module(name, module)
            return graph.create_node("call_module", name, inputs, name=name)

        for part in parts:
            if part.where == HARDWARE:
                inner = settled[part.name]
                value: dict[fx.Node, fx.Node] = {}
                for node in inner.fx_graph.nodes:
                    if node.op == "placeholder":
                        value[node] = made[str(node.target)]
                    elif node.op == "call_module":
                        module = inner.model.get_submodule(str(node.target))
                        value[node] = added(node.name, module, tuple(value[n] for n in node.all_input_nodes))
                    elif node.op != "output":
                        value[node] = graph.node_copy(node, value.__getitem__)
                made |= {n: value[out] for n, out in zip(part.outputs, _results(inner.fx_graph), strict=True)}
                continue
            for node in [n for n in part.module.graph.nodes if n.name in part.nodes]:
                module = self._on_host(part.module, node, host[node.name])
                inputs = tuple(made[n.name] for n in node.all_input_nodes if n.op != "get_attr")
                made[node.name] = added(node.name, module, inputs)
        (last,) = (n for n in self.model.graph.nodes if n.op == "output")
        graph.output(fx.node.map_arg(last.args[0], lambda n: made[n.name]))
        return MaseGraph(fx.GraphModule(root, graph, "Imported").eval(), share_weights=True)

    def _on_host(self, module: fx.GraphModule, node: fx.Node, reason: str) -> nn.Module:
        """A node as the host computes it."""
        marker = self.writer.markers.get(node.name)
        if marker is None:
            return HostGraph(_alone(module, node), f"{reason}; PyTorch computes it on the host, in float32")
        if marker.requantizing.rounding is not Rounding.HALF_EVEN or not marker.tied or marker.elements:
            raise UnsupportedError(
                "what the host computes is rounded otherwise than half to even, or by element",
                node=self.writer.sources.get(node.name, node.name),
                remedy="use the rounding mode ROUND and an even zero point",
            )
        return QuantizeInput(marker.fmt, node.name)


def _places(error: MaseHwError, model: fx.GraphModule) -> dict[str, str]:
    """The nodes that an error names, and why."""
    if isinstance(error, NodesRefused):
        return error.places
    named = set(re.split(r"[^\w]+", error.node or ""))
    return {n.name: error.message.splitlines()[0] for n in model.graph.nodes if n.name in named}


def _results(graph: fx.Graph) -> list[fx.Node]:
    """What a graph gives, in order."""
    (last,) = (n for n in graph.nodes if n.op == "output")
    given = last.args[0]
    return [given] if isinstance(given, fx.Node) else list(given)


def _alone(module: fx.GraphModule, node: fx.Node) -> fx.GraphModule:
    """A node as a model of its own."""
    graph, made = fx.Graph(), dict[fx.Node, fx.Node]()
    for source in sorted(node.all_input_nodes, key=lambda n: n.op == "get_attr"):
        made[source] = (
            graph.node_copy(source)
            if source.op == "get_attr"
            else graph.create_node("placeholder", source.name, name=source.name)
        )
    graph.output(graph.node_copy(node, lambda n: made[n]))
    found = fx.GraphModule(module, graph, "OnHost")
    found.delete_all_unused_submodules()
    return found.eval()
