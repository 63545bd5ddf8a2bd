"""Configurations of the quantisation in which modules are named by their paths."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from mase_hw.errors import UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ir.module_paths import became, passed_through, translations
from mase_hw.ir.paths import attribute_at
from mase_hw.passes.quantize.config import NodeConfig, QuantizeArgs, Rule, given_keys, group_of, known_tensors


def with_node_names(graph: MaseGraph, args: QuantizeArgs) -> tuple[QuantizeArgs, dict[str, list[str]]]:
    """A configuration with names of nodes in place of paths, and what every path stands for.

    The path of a module that holds others may have keys of tensors that some of its nodes lack. Of several keys about
    one node the longer path wins over the shorter, and the name of the node over all, key by key.
    """
    paths = translations(graph, args.overrides)
    overrides = _merged(graph, {name: rule.config for name, rule in args.overrides.items()}, paths)
    changes: dict[str, object] = {"overrides": {name: Rule(config=config) for name, config in overrides.items()}}
    if args.by == "name":
        more = translations(graph, args.rules())
        paths = {**paths, **more}
        rules = _merged(graph, args.rules(), more)
        made = {name: Rule(config=config) for name, config in rules.items()}
        return _replaced(args, made, changes), paths
    return (args.model_copy(update=changes) if paths else args), paths


def gone(graph: MaseGraph, name: str) -> str | None:
    """What became of a node without a rule of its own: gone, a constant that its reader holds, or passed through."""
    stored = next((node for node in graph.nodes if node.name == name and node.op == "get_attr"), None)
    if stored is None:
        return became(graph, name) or passed_through(graph, name)
    readers = ", ".join(user.name for user in stored.users)
    return f"is a constant: its format is that of the weight, or of the constant, of {readers}"


def _replaced(args: QuantizeArgs, rules: Mapping[str, Rule], changes: Mapping[str, object]) -> QuantizeArgs:
    base = {name: getattr(args, name) for name in args.model_fields_set if name in type(args).model_fields}
    return QuantizeArgs(**{**base, **changes, **rules})


def _merged(
    graph: MaseGraph, configs: Mapping[str, NodeConfig], paths: Mapping[str, list[str]]
) -> dict[str, NodeConfig]:
    found: dict[str, NodeConfig] = {}
    for name in sorted(paths, key=lambda path: (path.count("."), path)):
        for node in paths[name]:
            if len(paths[name]) > 1 and graph.is_implicit(graph.node(node)):
                continue  # a dropout in a block has no format of its own
            config = configs[name] if len(paths[name]) == 1 else _suiting(graph, node, configs[name])
            found[node] = _over(found.get(node), config)
    for name, config in configs.items():
        if name not in paths:
            found[name] = _over(found.get(name), config)
    return found


def _suiting(graph: MaseGraph, node: str, config: NodeConfig) -> NodeConfig:
    """What of a configuration for many nodes is about tensors that this one has: a relu has no weight."""
    op = graph.op_of(graph.node(node))
    tensors = () if op is None else known_tensors(graph.catalogue).get(op.name, ())
    lacking = tuple(f"{group}_" for group in {"weight", "bias"} - {group_of(tensor) for tensor in tensors})
    return NodeConfig(**{key: value for key, value in given_keys(config).items() if not key.startswith(lacking)})


def _over(below: NodeConfig | None, above: NodeConfig) -> NodeConfig:
    return above if below is None else NodeConfig(**{**given_keys(below), **given_keys(above)})


def attribute(model: nn.Module, path: str) -> Tensor:
    """A tensor that the model stores, by its path.

    Raises:
        UnsupportedError: If it is none.
    """
    value = attribute_at(model, path)
    if not isinstance(value, Tensor):
        raise UnsupportedError("a parameter of the model is not a tensor", node=path, got=type(value).__name__)
    return value
