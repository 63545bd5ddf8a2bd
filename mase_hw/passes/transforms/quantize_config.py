"""The arguments of the quantisation pass, and which rule applies to which node."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from mase_hw.errors import ConfigError, FormatError, suggest
from mase_hw.formats import MAX_FRAC, MAX_WIDTH, Overflow, Rounding

Width = Field(default=None, ge=1, le=MAX_WIDTH)
Frac = Field(default=None, ge=-MAX_FRAC, le=MAX_FRAC)


class NodeConfig(BaseModel):
    """How one node is quantised, in MASE's keys.

    A fraction width that is not given is chosen from the observed range (run ``calibrate_analysis_pass`` first).
    ``name`` is ``"fixed"`` (or MASE's ``"integer"``), or null to leave the node in float.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Literal["fixed", "integer", "NA"] | None = None
    data_in_width: int | None = Width
    data_in_frac_width: int | None = Frac
    data_in_signed: bool = True
    weight_width: int | None = Width
    weight_frac_width: int | None = Frac
    weight_signed: bool = True
    bias_width: int | None = Width
    bias_frac_width: int | None = Frac
    bias_signed: bool = True
    data_out_width: int | None = Width
    data_out_frac_width: int | None = Frac
    data_out_signed: bool = True
    rounding: Rounding = Rounding.HALF_EVEN
    overflow: Overflow = Overflow.SATURATE

    @field_validator("rounding", "overflow", mode="before")
    @classmethod
    def _mode(cls, value: Any, info: Any) -> Any:
        kind = Rounding if info.field_name == "rounding" else Overflow
        try:
            return kind.parse(value)
        except FormatError as error:
            raise ValueError(f"{error.message}: got {error.got}, expected {error.expected}") from error

    @property
    def quantised(self) -> bool:
        """Whether the node becomes fixed point."""
        return self.name in ("fixed", "integer")

    def of(self, tensor: str) -> tuple[int | None, int | None, bool]:
        """Width, fraction width and sign for a tensor; ``data_in_1`` reads the ``data_in`` keys."""
        group = re.sub(r"_\d+$", "", tensor)
        return (
            getattr(self, f"{group}_width"),
            getattr(self, f"{group}_frac_width"),
            getattr(self, f"{group}_signed"),
        )

    def sets(self, tensor: str) -> bool:
        """Whether any key of a tensor was given."""
        group = re.sub(r"_\d+$", "", tensor)
        return any(key.startswith(f"{group}_") for key in self.model_fields_set)


class Rule(BaseModel):
    """MASE's wrapping of a node configuration: ``{"config": {...}}``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    config: NodeConfig


class QuantizeArgs(BaseModel):
    """Arguments of ``quantize_transform_pass``.

    Every other key is a rule, named by what ``by`` says: a ``mase_op``, a node name, or a regular expression that
    must match a whole node name. Rules refine ``default`` key by key; ``overrides``, by node name, refine both.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Rule]

    by: Literal["type", "name", "regex_name"] = "type"
    default: Rule | None = None
    overrides: dict[str, Rule] = Field(default_factory=dict)

    def rules(self) -> dict[str, NodeConfig]:
        """The rules by key."""
        return {key: rule.config for key, rule in (self.__pydantic_extra__ or {}).items()}

    def check(self, nodes: dict[str, str], ops: set[str]) -> None:
        """Refuse rules that can apply to nothing.

        Args:
            nodes: Op of every node by name.
            ops: Names of all known ops.

        Raises:
            ConfigError: Naming every rule that matches nothing.
        """
        problems = []
        for key in self.rules():
            if self.by == "type" and key not in ops:
                problems.append(f"{key}: no such op ({suggest(key, ops)})")
            elif self.by == "name" and key not in nodes:
                problems.append(f"{key}: no such node ({suggest(key, nodes)})")
            elif self.by == "regex_name" and (fault := _regex_fault(key)) is not None:
                problems.append(f"{key}: not a regular expression ({fault})")
            elif self.by == "regex_name" and not any(re.fullmatch(key, n) for n in nodes):
                problems.append(f"{key}: matches no node ({suggest(key, nodes)})")
        for key in self.overrides:
            if key not in nodes:
                problems.append(f"overrides.{key}: no such node ({suggest(key, nodes)})")
        if problems:
            raise ConfigError(
                "quantisation rules that apply to nothing",
                field="quantize",
                got="; ".join(problems),
                expected=f"keys by {self.by}",
                remedy="correct or remove them",
            )

    def config_for(self, node: str, op: str) -> tuple[NodeConfig, set[str]]:
        """The configuration of a node, and the keys that were set for it by more than the default.

        Returns:
            The merged configuration and the names of the keys a rule or an override gave.
        """
        merged: dict[str, Any] = {}
        specific: set[str] = set()
        if self.default is not None:
            merged |= _given(self.default.config)
        for key, config in self.rules().items():
            wanted = {"type": key == op, "name": key == node}.get(self.by)
            if wanted is None:
                wanted = re.fullmatch(key, node) is not None
            if wanted:
                merged |= _given(config)
                specific |= config.model_fields_set
        if node in self.overrides:
            merged |= _given(self.overrides[node].config)
            specific |= self.overrides[node].config.model_fields_set
        return NodeConfig(**merged), specific


def _regex_fault(pattern: str) -> str | None:
    try:
        re.compile(pattern)
    except re.error as error:
        return str(error)
    return None


def _given(config: NodeConfig) -> dict[str, Any]:
    return {key: getattr(config, key) for key in config.model_fields_set}
