"""Parameters, multiply-accumulates, bit operations and memory of every node.

How many multiply-accumulates an op does, from the shapes of its tensors: one rule per op.

A multiply-accumulate (MAC) is one product of a contraction, whose operands are both tensors: weights and activations,
or activations alone. Bias additions, element-wise ops, activation functions, normalisations, poolings and reductions
have none by this convention, which is that of the figures published for networks (1.81 GMACs for ResNet-18). Padding
counts like data, and a mask of an attention saves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import Field
from torch import Tensor, fx, nn

from mase_hw.errors import ConfigError, suggest
from mase_hw.formats.attributes import Attributes
from mase_hw.ir.graph import COMMON_PASS, MaseGraph
from mase_hw.ir.inputs import STRUCTURAL
from mase_hw.ir.metadata import TensorMetadata
from mase_hw.ir.paths import attribute_at
from mase_hw.ops._functions import FUNCTIONS
from mase_hw.passes.analysis.report_tables import ReportArgs, Table, publish
from mase_hw.passes.base import Info, graph_pass

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operands:
    """What a rule sees of a node.

    Args:
        args: Shapes of its tensor arguments by name, in order of the call.
        results: Shapes of its results by name.
        attributes: Its other arguments by name.
    """

    args: Mapping[str, Shape]
    results: Mapping[str, Shape]
    attributes: Attributes

    @property
    def out(self) -> Shape:
        """Shape of the first result."""
        return self.results["data_out_0"]

    @property
    def names(self) -> list[str]:
        """Names of the tensor arguments."""
        return list(self.args)


@dataclass(frozen=True)
class Products:
    """Products of the elements of two tensors, by their names among arguments and results."""

    macs: int
    left: str
    right: str


Rule = Callable[[Operands], list[Products] | None]
"""The products of a node, or None if they cannot be counted."""


def _convolution(o: Operands) -> list[Products]:
    """Every output sums over the window of its group: ``weight`` is (out, in / groups, *kernel)."""
    return [Products(math.prod(o.out) * math.prod(o.args["weight"][1:]), "data_in_0", "weight")]


def _transposed(o: Operands) -> list[Products]:
    """Every input is spread over a window: ``weight`` is (in, out / groups, *kernel)."""
    return [Products(math.prod(o.args["data_in_0"]) * math.prod(o.args["weight"][1:]), "data_in_0", "weight")]


def _matrices(o: Operands) -> list[Products]:
    """The last two tensors are multiplied; ``addmm`` and its like have the summand in front of them."""
    left, right = o.names[-2:]
    return [Products(math.prod(o.out) * o.args[left][-1], left, right)]


def _grouped(o: Operands) -> list[Products]:
    """Vectors ``(batch, tokens, heads, inner)`` by matrices."""
    return [Products(math.prod(o.out) * o.args["data_in_0"][-1], "data_in_0", "data_in_1")]


def _attention(o: Operands) -> list[Products]:
    """Scores (queries by keys), then scores by values; the scores are taken to be as wide as the result."""
    query, key, value = (o.args[n] for n in o.names[:3])
    scores = math.prod(query[:-1]) * key[-2]
    return [
        Products(scores * query[-1], o.names[0], o.names[1]),
        Products(scores * value[-1], "data_out_0", o.names[2]),
    ]


def _einsum(o: Operands) -> list[Products] | None:
    """All indices of two operands; more operands depend on the order chosen, so they are not counted."""
    texts = [v[0] if isinstance(v, list | tuple) and v else v for v in o.attributes.values()]
    equation = next((t for t in texts if isinstance(t, str) and "," in t), "").replace(" ", "")
    terms = equation.split("->")[0].split(",")
    if len(terms) != 2 or len(o.args) != 2 or "." in equation:
        return None
    sizes = {i: n for term, name in zip(terms, o.names, strict=True) for i, n in zip(term, o.args[name], strict=True)}
    return [Products(math.prod(sizes.values()), *o.names)]


RULES: dict[str, Rule] = {
    "linear": lambda o: [Products(math.prod(o.out) * o.args["weight"][-1], "data_in_0", "weight")],
    "conv1d": _convolution,
    "conv2d": _convolution,
    "conv3d": _convolution,
    "conv_transpose1d": _transposed,
    "conv_transpose2d": _transposed,
    "conv_transpose3d": _transposed,
    "matmul": _matrices,
    "bmm": _matrices,
    "grouped_matmul": _grouped,
    "addmm": _matrices,
    "baddbmm": _matrices,
    "scaled_dot_product_attention": _attention,
    "einsum": _einsum,
}
"""The rule of every op that is counted, by ``mase_op``."""

_ACTIVATIONS = (
    "relu relu6 hardtanh leaky_relu prelu hardsigmoid hardshrink softshrink softmax log_softmax masked_softmax "
    "softmax_where"
)
_NORMALISATIONS = "batch_norm batch_norm1d batch_norm2d instance_norm2d layer_norm group_norm rms_norm"
_POOLS = (
    "max_pool1d max_pool2d avg_pool1d avg_pool2d "
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d"
)
_ELEMENTWISE = (
    "add sub mul div neg floor ceil round sign square abs clamp floor_divide remainder maximum minimum lt le gt ge eq "
    "ne and or xor not triu tril"
)
_REDUCTIONS = "mean mean_over var std sum cumsum prod diff min max amin amax argmin argmax any all"
_MOVEMENT = "embedding rearrange getitem setitem cast quantize requantize"
_CONSTANTS = "arange range full ones zeros zeros_like empty eye tensor"

WITHOUT_MACS = frozenset(
    " ".join((_ACTIVATIONS, _NORMALISATIONS, _POOLS, _ELEMENTWISE, _REDUCTIONS, _MOVEMENT, _CONSTANTS)).split()
) | {function.name for function in FUNCTIONS}
"""Ops that do no contraction. Nodes of other ops, unless they are implicit or have a rule, are not counted."""


COLUMNS = ("parameters", "macs", "bit_operations", "memory_bits", "activation_bits")


class CountArgs(ReportArgs):
    """Arguments of :func:`count_analysis_pass`; the rules are described above."""

    rules: dict[str, Rule] = Field(
        default_factory=dict,
        description="functions that count further ops, by ``mase_op``; they take precedence over the package's own",
    )


@graph_pass("count_analysis_pass", args=CountArgs, needs=(COMMON_PASS,))
def count_analysis_pass(graph: MaseGraph, args: CountArgs) -> tuple[MaseGraph, Info]:
    """Count what every node holds and computes in one run on the shapes in its metadata.

    - ``parameters``: numbers that are trained; buffers such as running statistics are none.
    - ``macs``: multiply-accumulates, by :data:`RULES`.
    - ``bit_operations``: MACs times the widths of both operands, in the formats of the metadata.
    - ``memory_bits``: what parameters, and buffers that the op computes with, take in their formats.
    - ``activation_bits``: what the results take; implicit nodes write none.

    Totals count a tensor that several nodes share once. A node that computes with an op that is neither in the rules
    nor known to have no MACs has None for both, and is listed; totals leave it out.

    Args:
        graph: A graph with common metadata.
        args: ``rules``, ``file_name``, ``show``.

    Returns:
        The graph, ``nodes`` by name with the op and the counts, ``totals``, and ``not_counted`` (node to op).

    Raises:
        ConfigError: If a rule is for an unknown op, or the file cannot be written.
    """
    for name in args.rules:
        if name not in graph.catalogue:
            known = graph.catalogue.names()
            raise ConfigError("a rule for an unknown op", field=f"rules.{name}", remedy=suggest(name, known))
    nodes: dict[str, Info] = {}
    held: dict[int, tuple[int, int]] = {}
    for node in graph.nodes:
        common = graph.meta_of(node).common
        owned = {id(t): (_parameters(t), t.numel() * width) for t, width in _tensors(graph, node)}
        held |= owned
        macs = _macs(graph, node, {**RULES, **args.rules})
        writes = [] if graph.is_implicit(node) or node.op in ("get_attr", "output") else common.results.tensors.values()
        nodes[node.name] = {
            "op": common.mase_op,
            "parameters": sum(p for p, _ in owned.values()),
            "macs": None if macs is None else macs[0],
            "bit_operations": None if macs is None else macs[1],
            "memory_bits": sum(bits for _, bits in owned.values()),
            "activation_bits": sum(math.prod(t.shape) * _width(t) for t in writes),
        }
    totals = {key: sum(entry[key] or 0 for entry in nodes.values()) for key in COLUMNS}
    totals |= {"parameters": sum(p for p, _ in held.values()), "memory_bits": sum(bits for _, bits in held.values())}
    not_counted = {name: entry["op"] for name, entry in nodes.items() if entry["macs"] is None}
    info = {"nodes": nodes, "totals": totals, "not_counted": not_counted}
    publish(_report(info), info, args)
    return graph, info


def _tensors(graph: MaseGraph, node: fx.Node) -> Iterator[tuple[Tensor, int]]:
    """Tensors that a node holds, with their width in bits; buffers only if the op computes with them."""
    common = graph.meta_of(node).common
    if node.op == "get_attr":
        attribute = attribute_at(graph.model, str(node.target))
        if isinstance(attribute, Tensor):
            yield attribute, _width(common.results["data_out_0"])
    module = graph.meta_of(node).module
    parameters = dict(module.named_parameters()) if module is not None else {}
    buffers = dict(module.named_buffers()) if module is not None else {}
    recorded = common.args.tensors
    for name, value in {**parameters, **{k: v for k, v in buffers.items() if k in recorded}}.items():
        yield value, _width(recorded[name]) if name in recorded else value.dtype.itemsize * 8


def _parameters(tensor: Tensor) -> int:
    return tensor.numel() if isinstance(tensor, nn.Parameter) else 0


def _width(tensor: TensorMetadata) -> int:
    """Bits of an element; 0 for what has no width, such as a Python value."""
    return tensor.precision[0] if tensor.precision else 0


def _macs(graph: MaseGraph, node: fx.Node, rules: Mapping[str, Rule]) -> tuple[int, int] | None:
    """MACs and bit operations; None if the op is not known to the rules."""
    common = graph.meta_of(node).common
    tensors = {**common.args.tensors, **common.results.tensors}
    if node.op in STRUCTURAL or graph.is_implicit(node) or not common.results.tensors:
        return 0, 0
    rule = rules.get(common.mase_op)
    if rule is None:
        return (0, 0) if common.mase_op in WITHOUT_MACS or common.mase_type == "implicit_func" else None
    products = rule(
        Operands(
            {name: tuple(t.shape) for name, t in common.args.tensors.items()},
            {name: tuple(t.shape) for name, t in common.results.tensors.items()},
            common.args.attributes,
        )
    )
    if products is None:
        return None
    bits = sum(p.macs * _width(tensors[p.left]) * _width(tensors[p.right]) for p in products)
    return sum(p.macs for p in products), bits


def _report(info: Info) -> list[Table | str]:
    rows = [[name, entry["op"], *(_cell(entry[key]) for key in COLUMNS)] for name, entry in info["nodes"].items()]
    heads = [
        "Node name",
        "Mase op",
        *(">" + key.replace("_", " ").capitalize().replace("Mac", "MAC") for key in COLUMNS),
    ]
    total = ["total", "", *(_cell(info["totals"][key]) for key in COLUMNS)]
    sections: list[Table | str] = [Table("Counts for one run", heads, rows, total)]
    if info["not_counted"]:
        names = ", ".join(f"{name} ({op})" for name, op in info["not_counted"].items())
        sections.append(f"MACs not counted, so not in the total: {names}")
    return sections


def _cell(number: int | None) -> str:
    return "not counted" if number is None else f"{number:,}" if number else "-"
