"""Configurations of the quantisation that are recorded on the nodes of a graph, step by step."""

from __future__ import annotations

from enum import IntEnum

from pydantic import Field

from mase_hw.errors import ConfigError
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.passes.base import Info, PassArgs, graph_pass, validate
from mase_hw.passes.quantize.config import INNER, NodeConfig, QuantizeArgs, Rule, given_keys, group_of, known_tensors
from mase_hw.passes.quantize.paths import with_node_names

RECORDED = "quantization_configs"
"""Where a graph has the arguments that were recorded: ``graph.meta[RECORDED]``."""


class UpdateArgs(PassArgs):
    """Arguments of :func:`update_quantization_configs`."""

    configs: QuantizeArgs | None = Field(
        default=None,
        description="arguments of ``quantize_transform_pass`` to begin with; those that were recorded before if left "
        "out",
    )
    global_config: NodeConfig = Field(
        default_factory=NodeConfig, description="keys for every node, which override nothing"
    )
    custom_configs: dict[str, NodeConfig] = Field(
        default_factory=dict,
        examples=[{"fc2": {"weight_width": 4}}],
        description="keys by node name, which replace what was recorded for these nodes, key by key",
    )


@graph_pass("update_quantization_configs", args=UpdateArgs, needs=(COMMON_PASS,))
def update_quantization_configs(graph: MaseGraph, args: UpdateArgs) -> tuple[MaseGraph, Info]:
    """Record how nodes are to be quantised: values for all that override nothing, and values for single nodes that win.

    What was recorded at a node before stays, but for keys of ``custom_configs`` and ``overrides``. Every node has its
    keys at ``meta["mase"]["software"]["quantization"]``, where they may be edited: ``quantize_transform_pass`` reads
    them there.

    Returns:
        The same graph, and the keys of every node.

    Raises:
        ConfigError: If a rule or a node name applies to nothing; lists all problems. Nothing is recorded then.
    """
    before = graph.note(RECORDED, QuantizeArgs) or QuantizeArgs()
    begin = args.configs or before.model_copy(update={"overrides": {}})  # those of before stand at their nodes
    single = dict(begin.overrides)
    for name, config in args.custom_configs.items():
        own = given_keys(single[name].config) if name in single else {}
        single[name] = Rule(config=NodeConfig(**{**own, **given_keys(config)}))
    default = {**given_keys(args.global_config), **(given_keys(begin.default.config) if begin.default else {})}
    rule = Rule(config=NodeConfig(**default)) if default or begin.default else None
    made, _ = with_node_names(graph, begin.model_copy(update={"default": rule, "overrides": single}))
    nodes = _ops(graph)
    made.check(nodes, known_tensors(graph.catalogue))
    for name, op in nodes.items():
        software = graph.meta_of(graph.node(name)).software
        found, _ = made.config_for(name, op)
        wins = given_keys(made.overrides[name].config) if name in made.overrides else {}
        software.quantization = {**_keys(given_keys(found)), **software.quantization, **_keys(wins)}
    graph.meta[RECORDED] = made
    return graph, {"nodes": {name: dict(graph.meta_of(graph.node(name)).software.quantization) for name in nodes}}


def recorded_quantization(graph: MaseGraph) -> QuantizeArgs | None:
    """The configuration that is recorded at the graph and its nodes; None if none is.

    Raises:
        ConfigError: If a node has a key or value that is none.
    """
    begin = graph.note(RECORDED, QuantizeArgs)
    made = _with_records(graph, begin or QuantizeArgs(), alone=True)
    return made if begin is not None or made.overrides else None


def configured_quantization(graph: MaseGraph, args: QuantizeArgs) -> QuantizeArgs:
    """Arguments with what is recorded at nodes, which wins over all but ``overrides``; without any, only that.

    Raises:
        ConfigError: If nothing says how to quantise, or a node has a key or value that is none.
    """
    given = args.model_fields_set or args.rules()
    found = _with_records(graph, args, alone=False) if given else recorded_quantization(graph)
    if found is None or not (found.default or found.rules() or found.overrides):
        raise ConfigError(
            "nothing says how to quantise",
            field="quantize.default",
            expected="a default, rules or overrides, or a configuration that is recorded at the nodes",
            remedy="give {'default': {'config': {...}}}, or run update_quantization_configs first",
        )
    return found


def _with_records(graph: MaseGraph, args: QuantizeArgs, alone: bool) -> QuantizeArgs:
    """Arguments with overrides for all in which records of nodes differ from them."""
    if not any(graph.meta_of(node).software.get("quantization") for node in graph.nodes):
        return args
    named, _ = with_node_names(graph, args)
    overrides, known = dict(args.overrides), known_tensors(graph.catalogue)
    for name, op in _ops(graph).items():
        record = graph.meta_of(graph.node(name)).software.get("quantization")
        if not record:
            continue
        wanted = validate(f"{name}: software.quantization", NodeConfig, record)
        there, _ = named.config_for(name, op)
        lacks = set(INNER) - {group_of(tensor) for tensor in known.get(op, INNER)}
        wanted_keys = {k: v for k, v in given_keys(wanted).items() if k.partition("_")[0] not in lacks}
        differs = {key: value for key, value in wanted_keys.items() if getattr(there, key) != value}
        own = given_keys(named.overrides[name].config) if name in named.overrides else {}
        if alone:
            gone = there.model_fields_set - wanted.model_fields_set
            differs |= {key: NodeConfig.model_fields[key].default for key in gone}
        if differs:
            overrides[name] = Rule(config=NodeConfig(**({**own, **differs} if alone else {**differs, **own})))
    return args.model_copy(update={"overrides": overrides})


def _ops(graph: MaseGraph) -> dict[str, str]:
    return {node.name: op.name for node in graph.nodes if (op := graph.op_of(node)) is not None}


def _keys(given: Json) -> Json:
    """Keys as they are recorded: modes by name."""
    return {key: value.name.lower() if isinstance(value, IntEnum) else value for key, value in given.items()}
