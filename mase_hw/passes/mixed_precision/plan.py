"""Plans: which node has which width, as a file that ``compile`` takes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from mase_hw.errors import ConfigError
from mase_hw.host.disk import write_whole, writing
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.passes.base import validate
from mase_hw.passes.quantize.config import NodeConfig, QuantizeArgs

WIDTHS = ("data_in_width", "weight_width", "bias_width", "data_out_width")
"""What a plan always says, so that no default of ``compile`` can change it."""

Fact = str | int | float | bool | None

QuantizeLike = int | Mapping[str, object] | QuantizeArgs
"""A width for everything, or arguments of ``quantize_transform_pass``."""


@dataclass(frozen=True)
class Settings:
    """Every key that one node has.

    Args:
        values: Values by key of :class:`NodeConfig`; a key that is not there is chosen from the observed range.
        specific: Keys that were set for this node by more than the default; they keep an op from taking its output
            format from its input.
    """

    values: Json
    specific: frozenset[str] = frozenset()

    def replaced(self, **values: Any) -> Settings:
        """With other values; of keys that were there they keep whether they are specific."""
        return Settings({**self.values, **values}, self.specific)


@dataclass(frozen=True)
class Plan:
    """A mixed-precision configuration.

    Args:
        quantize: Arguments of ``quantize_transform_pass`` as plain dicts: ``{"quantize": plan.quantize}`` is a
            configuration of :func:`mase_hw.compile`.
        facts: What is known about it (score, cost, target); written as comments.
        more: Other tables of the configuration, such as ``hardware``, where they were found as well.
    """

    quantize: Json
    facts: dict[str, Fact] = field(default_factory=dict)
    more: Json = field(default_factory=dict)

    @property
    def config(self) -> Json:
        """The whole configuration."""
        return {**self.more, "quantize": self.quantize}

    @property
    def args(self) -> QuantizeArgs:
        """The validated arguments of ``quantize_transform_pass``."""
        return validate("the plan", QuantizeArgs, self.quantize)

    def text(self) -> str:
        """The plan as TOML: facts as comments, then the configuration."""
        lines = ["# A mixed-precision plan: a configuration of mase_hw.compile and `mase-hw compile --config`."]
        lines += [f"# {key}: {_fact(value)}" for key, value in self.facts.items()]
        plain = {key: value for key, value in self.more.items() if not isinstance(value, Mapping)}
        lines += [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
        for key, table in self.config.items():
            lines += ["", *_toml(key, table)] if key not in plain else []
        return "\n".join(lines).rstrip() + "\n"

    def save(self, path: str | Path) -> Path:
        """Write the plan; the same plan gives the same bytes.

        Raises:
            ConfigError: If the name does not end in ``.toml``.
            EmitError: If the file cannot be written.
        """
        file = Path(path)
        if file.suffix != ".toml":
            raise ConfigError(
                "a plan is a TOML file", field="path", got=str(file), expected="a name that ends in .toml"
            )
        with writing("the plan", file):
            write_whole(file, self.text())
        return file


def settings_of(graph: MaseGraph, args: QuantizeArgs) -> dict[str, Settings]:
    """The settings of every node that a configuration quantises, by node name, in order of execution."""
    found: dict[str, Settings] = {}
    for node in graph.nodes:
        op = graph.op_of(node)
        if op is None or graph.is_implicit(node) or not graph.meta_of(node).common.results.tensors:
            continue
        config, specific = args.config_for(node.name, op.name)
        found[node.name] = Settings(_values(config), frozenset(specific))
    return found


def compose(graph: MaseGraph, settings: Mapping[str, Settings]) -> Json:
    """The shortest configuration that gives every node its settings: the commonest values are the default.

    Args:
        graph: The float graph.
        settings: Settings by node.

    Returns:
        Arguments of ``quantize_transform_pass``.
    """
    wanted = {name: _needed(graph, name, each) for name, each in settings.items()}
    default: Json = {}
    for key in NodeConfig.model_fields:
        # A default cannot be taken back, so every node must have a value of its own or be free of the key.
        if wanted and all(key in values or key in free for values, _, free in wanted.values()):
            votes = Counter(values[key] for values, _, _ in wanted.values() if key in values)
            if votes:
                default[key] = votes.most_common(1)[0][0]
    overrides = {}
    for name, (values, pinned, _) in wanted.items():
        own = {k: v for k, v in values.items() if k in pinned or default.get(k) != v}
        if own:
            overrides[name] = {"config": own}
    # A plan says all widths itself; without this, compile would widen what leaves the model.
    result: Json = {"by": "type", "output_width": 1, "default": {"config": default}}
    return {**result, "overrides": overrides} if overrides else result


def _needed(graph: MaseGraph, name: str, settings: Settings) -> tuple[Json, set[str], set[str]]:
    """Values of a node, keys that only an override may set, and keys whose value does not matter."""
    op = graph.op_of(graph.node(name))
    without = {key for key in NodeConfig.model_fields if not has_tensor(graph, name, key)}
    values = {k: v for k, v in settings.values.items() if k not in without}
    # Of scaled integers, what clamps is a requantisation, with a width of its own.
    clamps = op is not None and op.scaled is not None and op.scaled.kind == "clamp" and values["name"] == "integer"
    if op is None or op.default_out is None or clamps:
        return values, set(), without
    out = {key for key in NodeConfig.model_fields if key.startswith("data_out_")}
    if settings.specific & out:
        return values, set(settings.specific & out & set(values)), without
    return {k: v for k, v in values.items() if k not in out}, set(), without | out


def has_tensor(graph: MaseGraph, node: str, key: str) -> bool:
    """Whether a node has the tensor that a key of :class:`NodeConfig` is about; keys about none are the node's own."""
    common = graph.meta_of(graph.node(node)).common
    kinds = {n.rstrip("0123456789").rstrip("_") for n in (*common.args.tensors, *common.results.tensors)}
    op = graph.op_of(graph.node(node))
    if getattr(op, "constant", None):
        kinds.add("weight")  # a constant operand has the keys of a weight
    group = next((k for k in ("data_in", "weight", "bias", "data_out") if key.startswith(f"{k}_")), None)
    return group is None or group in kinds


def _values(config: NodeConfig) -> Json:
    found: Json = {}
    for key in NodeConfig.model_fields:
        if key not in config.model_fields_set:
            continue
        value = getattr(config, key)
        if key == "name":
            value = config.name if config.quantised else "NA"
        if value is not None:
            found[key] = value.name.lower() if isinstance(value, IntEnum) else value
    return found


def uniform(width: int, **others: Any) -> Json:
    """Arguments of ``quantize_transform_pass`` with one width for everything; ``others`` are further keys.

    With ``name="integer"``, for all but biases, which have the bits that their sums need.
    """
    widths = [key for key in WIDTHS if others.get("name") != "integer" or key != "bias_width"]
    config = {"name": "fixed", **dict.fromkeys(widths, width), **others}
    return {"by": "type", "default": {"config": config}}


def complete(where: str, given: QuantizeLike) -> QuantizeArgs:
    """A configuration that leaves no width to a default of ``compile``.

    Args:
        where: What it is, for errors.
        given: A width for everything, or arguments of ``quantize_transform_pass``.

    Raises:
        ConfigError: If it is wrong, or ``default`` lacks a width or says that nothing is quantised.
    """
    args = validate(where, QuantizeArgs, uniform(given) if type(given) is int else given)  # type: ignore[arg-type]
    config = args.default.config if args.default is not None else NodeConfig()
    rules = [*args.rules().values(), *(rule.config for rule in args.overrides.values())]
    missing = [
        k
        for k in WIDTHS
        if (k != "bias_width" or not config.scaled)
        and any(getattr(c, k) is None for c in (config, *(r for r in rules if k in r.model_fields_set)))
    ]
    if missing or not config.quantised:
        raise ConfigError(
            f"the default of {where} is not complete",
            field="default.config",
            got=f"no {', '.join(missing)}" if missing else f"name = {config.name}",
            expected="name = 'fixed' or 'integer', and all widths (of 'integer' all but bias_width)",
            remedy=f"give them, or a number of bits instead of a configuration ({where} = 8)",
        )
    return args


def _fact(value: Fact) -> str:
    return f"{value:.9g}" if isinstance(value, float) else " ".join(str(value).split())


def _toml(path: str, table: Mapping[str, object]) -> list[str]:
    """A table of plain values and tables, in the order of the mapping."""
    lines, below = [f"[{path}]"], []
    for key, value in table.items():
        name = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)
        if isinstance(value, Mapping):
            below += _toml(f"{path}.{name}", value)
        else:
            lines.append(f"{name} = {json.dumps(value)}")
    return [*(lines if len(lines) > 1 else []), *([""] if len(lines) > 1 else []), *below]
