"""Why the tensors of a node have the formats they have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import fx

from mase_hw.errors import GraphError, suggest
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ir.module_paths import nodes_at
from mase_hw.nn import Quantized, QuantizeInput
from mase_hw.passes.quantize.config import group_of
from mase_hw.passes.quantize.formats import Decision
from mase_hw.passes.quantize.quantize import DECISIONS, Decisions

_PRODUCT, _SOFTMAX = "grouped_matmul", frozenset({"softmax", "masked_softmax", "softmax_where"})


@dataclass(frozen=True)
class TensorExplanation:
    """Why one tensor has its format.

    Args:
        decision: What was decided, and from what.
        settings: For every key of the configuration that speaks about the tensor: who set it to what, the weakest
            first; the last one counts.
    """

    decision: Decision
    settings: dict[str, list[tuple[str, Any]]]

    def to_dict(self) -> Json:
        """Plain values, for JSON."""
        choice = self.decision.choice
        found: Json = {
            "format": str(self.decision.fmt),
            "reason": self.decision.reason,
            "method": self.decision.method,
            "settings": {key: [list(each) for each in given] for key, given in self.settings.items()},
        }
        if choice is not None:
            found["chosen"] = str(choice.fmt)
            found["criterion"] = choice.criterion
            found["range"] = [choice.low, choice.high]
            found["candidates"] = [
                {
                    "format": str(c.fmt),
                    "error": None if math.isinf(c.error) else c.error,
                    "mse": None if math.isnan(c.mse) else c.mse,
                    "clipped": None if math.isnan(c.clipped) else c.clipped,
                }
                for c in choice.candidates
            ]
        if self.decision.channels:
            found["channel_frac_widths"] = list(self.decision.channels)
        return found


@dataclass(frozen=True)
class Explanation:
    """Why the tensors of a node have their formats; ``str`` gives it as text.

    Args:
        node: Name of the node.
        tensors: By name.
        role: What it is in an attention: scores, probabilities or a sum of values; empty for every other node.
    """

    node: str
    tensors: dict[str, TensorExplanation]
    role: str = ""

    def to_dict(self) -> Json:
        """Plain values, for JSON."""
        role = {"role": self.role} if self.role else {}
        return {"node": self.node, **role, "tensors": {name: each.to_dict() for name, each in self.tensors.items()}}

    def __str__(self) -> str:
        lines = [f"{self.node} ({self.role})" if self.role else self.node]
        for name, each in self.tensors.items():
            lines.append(f"  {name}: {each.decision.fmt}, {each.decision.reason}")
            for key, given in each.settings.items():
                said = [f"{origin} says {value!r}" for origin, value in given]
                lines.append(f"    {key}: {', overridden: '.join(said)}")
            choice = each.decision.choice
            if choice is not None:
                lines.append(f"    candidates by {choice.criterion} in [{choice.low:.6g}, {choice.high:.6g}]:")
                lines += [
                    f"      {'->' if c.fmt == choice.fmt else '  '} {c.fmt!s:>8} {_error(c.error)}{_clipped(c.clipped)}"
                    for c in choice.candidates
                ]
            if each.decision.channels:
                lines.append(f"    fraction widths of the channels: {list(each.decision.channels)}")
        return "\n".join(lines)


def _error(error: float) -> str:
    return "clips the range" if math.isinf(error) else f"error {error:.4g}"


def _clipped(share: float) -> str:
    return "" if math.isnan(share) else f", clips {share:.3%}"


def explained(graph: MaseGraph) -> list[str]:
    """The nodes for whose formats something was decided, in order of execution.

    Raises:
        GraphError: If the graph does not know, because it is not quantised.
    """
    known = _known(graph, None)
    return [node.name for node in graph.nodes if node.name in known]


def explain(graph: MaseGraph, node: str) -> Explanation:
    """Say why the tensors of a node have their formats: ranges, method, candidates and who configured what.

    Of an input, a cast and a node that only renames a shape it is said whose format they have.

    Args:
        graph: A graph on which ``quantize_transform_pass`` has run.
        node: Name of a node, or the path of a layer.

    Raises:
        GraphError: If the graph is not quantised, or has no such node, or the node was left in float.
    """
    known = _known(graph, node)
    (node, *_) = nodes_at(graph, node) or [node]
    if node not in known:
        return _carried(graph, node, known)
    decisions, layers = known[node]
    tensors: dict[str, TensorExplanation] = {}
    for name, decision in decisions.items():
        group = group_of(name)
        settings: dict[str, list[tuple[str, Any]]] = {}
        for origin, given in layers:
            for key, value in given.items():
                if key.startswith(f"{group}_"):
                    settings.setdefault(key, []).append((origin, value))
        tensors[name] = TensorExplanation(decision, settings)
    return Explanation(node, tensors, _role(graph, graph.node(node)))


def _role(graph: MaseGraph, node: fx.Node) -> str:
    """What a node is in an attention; nothing if it is in none.

    Scores are a product that a softmax reads, probabilities the softmax, and what weighs values by them a product of
    probabilities.
    """
    name = graph.meta_of(node).common.mase_op
    if name == _PRODUCT:
        if any(_op_near(graph, user, True) in _SOFTMAX for user in node.users):
            return "scores of an attention: queries by keys"
        if any(_op_near(graph, source, False) in _SOFTMAX for source, _ in graph.sources(node).values()):
            return "result of an attention: values weighed by probabilities"
    elif name in _SOFTMAX and any(
        _op_near(graph, source, False) == _PRODUCT for source, _ in graph.sources(node).values()
    ):
        return "probabilities of an attention"
    return ""


def _op_near(graph: MaseGraph, node: fx.Node, ahead: bool) -> str:
    """Op of the first node from here, ahead or back, that does more than give its data another shape."""
    while graph.is_implicit(node) and node.op != "output":
        near = list(node.users) if ahead else [source for source, _ in graph.sources(node).values()]
        if len(near) != 1:
            break
        (node,) = near
    return graph.meta_of(node).common.mase_op


def _known(graph: MaseGraph, node: str | None) -> Decisions:
    known = graph.note(DECISIONS, Decisions)
    if known is None:
        raise GraphError(
            "the graph does not know why its formats are what they are",
            node=node,
            remedy="run quantize_transform_pass on it",
        )
    return known


def _carried(graph: MaseGraph, name: str, known: Json) -> Explanation:
    """Of a node about which nothing was decided: where its format comes from."""
    nodes = {n.name: n for n in graph.nodes if n.op not in ("output", "get_attr")}
    if name not in nodes:
        raise GraphError("the graph has no such node", node=name, remedy=suggest(name, {*known, *nodes}))
    node = nodes[name]
    before = [source.name for source, _ in graph.sources(node).values()]
    readers = ", ".join(user.name for user in node.users) or "nobody"
    module = graph.meta_of(node).module
    enters = [u for u in node.users if isinstance(graph.meta_of(u).module, QuantizeInput)]
    if node.op == "placeholder" and enters:
        reasons, node = {"data_out_0": f"an input of the model, which {readers} brings into this format"}, enters[0]
    elif isinstance(module, QuantizeInput):
        reasons = {"data_out_0": f"as {readers} takes it; of several readers, a format that holds all of theirs"}
    elif isinstance(module, Quantized):
        reasons = {"data_in_0": f"as {before[0]} gives it", "data_out_0": f"as {readers} takes it"}
    elif graph.is_implicit(node) and before:
        reasons = {"data_out_0": f"as {before[0]} gives it: only the shape is another"}
    else:
        reasons = {}
    tensors = {}
    for tensor, reason in reasons.items():
        fmt = graph.tensor(node, tensor).fmt
        if fmt is not None:
            tensors[tensor] = TensorExplanation(Decision(fmt, reason), {})
    if not tensors:
        raise GraphError(
            "this node was not quantised", node=name, remedy="it is left in float, or about a shape and not about data"
        )
    return Explanation(name, tensors)
