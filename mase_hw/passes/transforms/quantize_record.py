"""Configurations of the quantisation that are put together step by step, and recorded on the nodes of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from mase_hw.ir import MaseGraph
from mase_hw.passes.base import validate
from mase_hw.passes.transforms.quantize_config import NodeConfig, QuantizeArgs, Rule, given_keys, known_tensors
from mase_hw.passes.transforms.quantize_paths import with_node_names

RECORDED = "quantization_configs"
"""Where a graph has the arguments that were recorded: ``graph.meta[RECORDED]``."""


def update_quantization_configs(
    configs: QuantizeArgs | Mapping[str, Any],
    global_config: NodeConfig | Mapping[str, Any] | None = None,
    custom_configs: Mapping[str, NodeConfig | Mapping[str, Any]] | None = None,
    graph: MaseGraph | None = None,
) -> QuantizeArgs:
    """Add to a configuration: values for all nodes that override nothing, and values for single nodes that win.

    Args:
        configs: Arguments of ``quantize_transform_pass``; not changed.
        global_config: Keys for every node. What was set before, for all nodes, a kind of node or one node, stays.
        custom_configs: Keys by node name. They replace what was set for these nodes, key by key.
        graph: A graph with common metadata, on whose nodes the result is recorded: every node has its keys at
            ``meta["mase"]["software"]["quantization"]``, and ``quantize_transform_pass`` without arguments uses them.

    Returns:
        The new arguments.

    Raises:
        ConfigError: If a key or value is wrong, or, with ``graph``, a rule or a node name applies to nothing; lists all
            problems. Nothing is recorded then.
    """
    args = validate("the quantisation configuration", QuantizeArgs, configs)
    base = given_keys(validate("global_config", NodeConfig, global_config))
    before = {} if args.default is None else given_keys(args.default.config)
    changes: dict[str, Any] = {}
    if base or args.default is not None:
        changes["default"] = Rule(config=NodeConfig(**{**base, **before}))
    overrides = dict(args.overrides)
    for node, custom in (custom_configs or {}).items():
        own = given_keys(overrides[node].config) if node in overrides else {}
        new = given_keys(validate(f"custom_configs.{node}", NodeConfig, custom))
        overrides[node] = Rule(config=NodeConfig(**{**own, **new}))
    made = args.model_copy(update={**changes, "overrides": overrides})
    if graph is not None:
        _record(graph, made)
    return made


def recorded_quantization(graph: MaseGraph) -> QuantizeArgs | None:
    """The configuration that was recorded last; None if none was."""
    return graph.note(RECORDED, QuantizeArgs)


def _record(graph: MaseGraph, args: QuantizeArgs) -> None:
    nodes = {n.name: each.name for n in graph.nodes if (each := graph.op_of(n)) is not None}
    args, _ = with_node_names(graph, args)
    args.check(nodes, known_tensors(graph.catalogue))
    for name, op in nodes.items():
        config, _ = args.config_for(name, op)
        graph.meta_of(graph.node(name)).software.quantization = {
            key: value.name.lower() if isinstance(value, IntEnum) else value
            for key, value in given_keys(config).items()
        }
    graph.meta[RECORDED] = args
