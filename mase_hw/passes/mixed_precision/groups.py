"""Nodes that change their width together."""

from __future__ import annotations

from collections.abc import Iterable

from torch import fx

from mase_hw.errors import refuse_unknown
from mase_hw.ir import MaseGraph
from mase_hw.passes.mixed_precision.plan import Settings, has_tensor
from mase_hw.passes.quantize.config import NodeConfig


def groups_of(graph: MaseGraph, settings: dict[str, Settings], fixed: Iterable[str] = ()) -> dict[str, list[str]]:
    """Groups of nodes by the name of their first node, in order of execution.

    An op that takes its output format from its input (ReLU, pooling) belongs to the node that produces the input:
    raising one without the other would only put a cast between them.

    Args:
        graph: The float graph.
        settings: Settings of every quantised node; see :func:`~mase_hw.passes.mixed_precision.plan.settings_of`.
        fixed: Nodes that are in no group.
    """
    left_out = set(fixed)
    head: dict[str, str] = {}
    groups: dict[str, list[str]] = {}
    for name, each in settings.items():
        if each.values.get("name") == "NA":
            continue
        producer = _producer(graph, graph.node(name)) if _follows(graph, name, each) else None
        owner = head.get(producer, name) if producer is not None else name
        head[name] = owner
        if name not in left_out:
            groups.setdefault(owner, []).append(name)
    # A group whose first node is fixed is called by the first that is not.
    return {members[0]: members for members in groups.values()}


def _follows(graph: MaseGraph, name: str, settings: Settings) -> bool:
    op = graph.op_of(graph.node(name))
    own = any(key.startswith("data_out_") for key in settings.specific)
    return op is not None and op.default_out is not None and not own


def _producer(graph: MaseGraph, node: fx.Node) -> str | None:
    """The node whose result a node of one input reads, implicit nodes looked through."""
    inputs = [source for name, (source, _) in graph.sources(node).items() if name.startswith("data_in_")]
    if len(inputs) != 1:
        return None
    if graph.is_implicit(inputs[0]):
        return _producer(graph, inputs[0])
    return inputs[0].name


def check_keys(graph: MaseGraph, node: str, keys: Iterable[str], where: str) -> None:
    """Refuse settings that would be ignored.

    Raises:
        ConfigError: If the graph has no such node, it is not one that is quantised, or it has no tensor of that kind.
    """
    names = [n.name for n in graph.nodes if graph.op_of(n) is not None and not graph.is_implicit(n)]
    refuse_unknown(node, names, "a configuration for a node that is not quantised", field=f"{where}.{node}")
    known = [key for key in NodeConfig.model_fields if has_tensor(graph, node, key)]
    for key in keys:
        refuse_unknown(key, known, "a setting that would be ignored", field=f"{where}.{node}.{key}")
