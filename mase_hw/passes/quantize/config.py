"""The arguments of the quantisation pass, and which rule applies to which node."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, field_validator, model_validator

from mase_hw.catalogue import Catalogue
from mase_hw.errors import ConfigError, FormatError, suggest
from mase_hw.formats import MAX_FRAC, MAX_WIDTH, MINIFLOATS, Overflow, Rounding
from mase_hw.host.documents import Json
from mase_hw.passes.quantize.concept_keys import NAMES, ConceptKeys, Name

ELEMENT = f"^({'|'.join(MINIFLOATS)})$"
"""A minifloat by its name."""
INNER = ("weight", "bias", "gate", "cell", "state")
"""Tensors inside an op: not every op has them."""


def _width(tensors: str) -> Any:
    return Field(default=None, ge=1, le=MAX_WIDTH, examples=[8], description=f"bits of {tensors}, sign included")


def _frac(tensors: str) -> Any:
    return Field(
        default=None,
        ge=-MAX_FRAC,
        le=MAX_FRAC,
        examples=[4],
        description=f"fraction bits of {tensors}; if left out, chosen from the observed range",
    )


def _by_name(modes: type[IntEnum]) -> WithJsonSchema:
    """The schema of a mode: names and codes."""
    return WithJsonSchema({"enum": [*(m.name.lower() for m in modes), *(int(m) for m in modes)]})


def _sign(tensors: str) -> Any:
    return Field(
        default=None,
        examples=[True],
        description=f"whether {tensors} have a sign; if this and the fraction width are left out, values that are "
        "never negative get none where that makes the error smaller",
    )


def group_of(tensor: str) -> str:
    """The keys that configure a tensor: ``data_in_1`` has those of ``data_in``, a constant operand those of weights."""
    group = re.sub(r"_\d+$", "", tensor)
    return {"constant": "weight"}.get(group, group)


def known_tensors(catalogue: Catalogue) -> dict[str, Collection[str]]:
    """Of every op that a model can contain: the tensors with a format, by the op's name."""
    return {o.name: o.formats for o in catalogue if o.modules or o.functions or o.methods}


class NodeConfig(ConceptKeys):
    """How one node is quantised, in MASE's keys.

    What is chosen from observed ranges needs ``calibrate_analysis_pass`` before the quantisation.
    """

    name: Name | None = Field(
        default=None,
        examples=["fixed"],
        description='``"fixed"`` for fixed point, ``"integer"`` for scaled integers (with a fraction width it is fixed '
        'point too, as in MASE), ``"binary"`` and ``"ternary"`` for fixed point with weights of -1 and 1, or -1, 0 and '
        '1, times a power of two, ``"mxint"`` and ``"mxfp"`` for fixed point with weights in block floating point, of '
        'integers or of minifloats, ``"minifloat"`` for fixed point with weights that are minifloats without a shared '
        'exponent, ``"groups"`` for fixed point with integer weights that have a factor by group of '
        'inputs; ``"minifloat_ieee"``, ``"minifloat_denorm"``, ``"log"`` and ``"block_fp"`` for weights as '
        'MASE\'s quantisers make them; ``"NA"`` or left out: float',
    )
    data_in_width: int | None = _width("every data input")
    data_in_frac_width: int | None = _frac("every data input")
    data_in_signed: bool | None = _sign("data inputs")
    weight_width: int | None = _width("the weights, or of a stored operand")
    weight_frac_width: int | None = _frac("the weights")
    weight_signed: bool = Field(default=True, description="whether weights have a sign")
    weight_granularity: Literal["tensor", "channel"] = Field(
        default="tensor", description='``"channel"`` gives the weights of every output channel a fraction width'
    )
    weight_block_size: Annotated[int, Field(ge=1)] | list[int] = Field(
        default=32,
        description='``"mxint"``, ``"mxfp"``, ``"groups"``: weights that share an exponent, or a factor, along '
        'the input dimension; of a kernel along its channels, columns and rows. ``"block_fp"``: the sizes '
        "of a block along outputs and inputs, -1 for all; one number is that of inputs, for all outputs",
    )
    weight_exponent_width: int = Field(
        default=8,
        ge=2,
        le=8,
        description='``"mxint"``, ``"mxfp"`` and ``"block_fp"``: bits of a shared exponent, as those of E8M0; '
        '``"minifloat_ieee"`` and ``"minifloat_denorm"``: bits of the exponent of a weight',
    )
    weight_block_exponent: Literal["largest", "least_error"] = Field(
        default="largest",
        description='``"mxint"`` and ``"mxfp"``: the exponent of a block is that of its largest magnitude, as the '
        'specification has it; or (``"least_error"``) that, one below or one above it, whichever has the least squared '
        "error",
    )
    weight_element: str = Field(
        default="e4m3",
        pattern=ELEMENT,
        description='``"mxfp"`` and ``"minifloat"``: the minifloat that a weight is, of ``"mxfp"`` in units of its '
        "exponent, by exponent and mantissa bits; MXFP8 has e5m2 or e4m3, MXFP6 e3m2 or e2m3, MXFP4 e2m1",
    )
    data_in_block_size: int | None = Field(
        default=None,
        ge=1,
        examples=[32],
        description="numbers of every data input that share an exponent, along the last dimension, of images along "
        "their channels; ``data_in_width`` is that of the fixed point from which they are made",
    )
    data_in_block_width: int = Field(
        default=8, ge=2, le=12, description="bits of a number in such a block, sign included, where it is an integer"
    )
    data_in_element: str | None = Field(
        default=None,
        pattern=ELEMENT,
        examples=["e4m3"],
        description="the minifloat that a number in such a block is; without a block size every data input is that "
        "minifloat by itself",
    )
    weight_affine: bool = Field(
        default=False,
        description="scaled integers: whether weights have a zero point of their own, which the hardware's integers, "
        "of one bit more, no longer have",
    )
    weight_narrow: bool = Field(
        default=True, description="scaled integers: whether weights leave out the most negative code"
    )
    data_affine: bool = Field(
        default=False, description="scaled integers: whether data with negative values has a zero point"
    )
    multiplier_width: int | None = Field(
        default=None,
        ge=2,
        le=40,
        examples=[31],
        description="scaled integers: bits of the multipliers of a requantisation; if left out, 17, or 9 more than the "
        "result has, and more where the scales of channels are far apart",
    )
    bias_width: int | None = Field(
        default=None,
        ge=1,
        le=MAX_WIDTH,
        examples=[8],
        description="bits of the bias, sign included; if left out, as many as its exact sum with the products needs",
    )
    bias_width_limit: int = Field(
        default=32, ge=2, le=MAX_WIDTH, description="most bits of a bias whose width is left out"
    )
    bias_frac_width: int | None = _frac("the bias")
    bias_signed: bool = Field(default=True, description="whether the bias has a sign")
    gate_width: int | None = _width("what goes into the tables of a recurrent layer, 12 at most")
    gate_frac_width: int | None = _frac("what goes into the tables of a recurrent layer")
    gate_signed: Literal[True] = Field(default=True, description="what goes into the tables has a sign")
    cell_width: int | None = _width("the cell state of an LSTM")
    cell_frac_width: int | None = _frac("the cell state of an LSTM")
    cell_signed: Literal[True] = Field(default=True, description="a cell state has a sign")
    state_width: int | None = _width("the state of an LSTM whose cell states are read; else it is the result")
    state_frac_width: int | None = _frac("the state of an LSTM whose cell states are read")
    state_signed: Literal[True] = Field(default=True, description="the state of an LSTM has a sign")
    data_out_width: int | None = _width("the result")
    data_out_frac_width: int | None = _frac("the result")
    data_out_signed: bool | None = _sign("results")
    rounding: Annotated[Rounding, _by_name(Rounding)] = Field(
        default=Rounding.HALF_EVEN,
        description="rounding of the cast at the end of the node; the code of a mode will do as well",
    )
    overflow: Annotated[Overflow, _by_name(Overflow)] = Field(
        default=Overflow.SATURATE, description="overflow of the same cast; the code of a mode will do as well"
    )

    @model_validator(mode="after")
    def _block(self) -> NodeConfig:
        given = self.weight_block_size
        whole = self.name in ("block_fp", None)
        if isinstance(given, list):
            least = -1 if whole else 1
            sizes = len(given) in (1, 2) and all(size >= least and size != 0 for size in given)
            if not sizes or (not whole and (len(given) == 1 or given[0] != 1)):
                wanted = "1 or 2 sizes, each positive or -1" if whole else "a number, or [1, number]"
                raise ValueError(f"weight_block_size: got {given}, expected {wanted}")
        return self

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
        """Whether the node becomes fixed point or scaled integers."""
        return self.name not in (None, "NA")

    @property
    def signs(self) -> str:
        """``"binary"`` or ``"ternary"`` if the weights are to be so, else empty."""
        return self.name if self.name in ("binary", "ternary") else ""

    @property
    def blocks(self) -> bool:
        """Whether the weights are to be in block floating point, or integers in groups."""
        return self.name in ("mxint", "mxfp", "minifloat", "groups", *NAMES)

    @property
    def concept(self) -> bool:
        """Whether these are as MASE's quantiser of that name makes them."""
        return self.name in NAMES

    @property
    def block_shape(self) -> tuple[int, int]:
        """Outputs and inputs of a block; -1 for all of them."""
        given = self.weight_block_size
        if isinstance(given, int):
            return -1 if self.name == "block_fp" else 1, given
        return (-1, *given)[-2], given[-1]

    @property
    def block_size(self) -> int:
        """Inputs of a block of one output."""
        return self.block_shape[1]

    @property
    def scaled(self) -> bool:
        """Whether the node becomes scaled integers: ``integer``, without any fraction width."""
        given = (value for key, value in self if key.endswith("_frac_width"))
        return self.name == "integer" and all(value is None for value in given)

    @property
    def bias_limit(self) -> int:
        """Scaled integers: most bits of a bias."""
        return self.bias_width or self.bias_width_limit

    def of(self, tensor: str) -> tuple[int | None, int | None, bool | None]:
        """Width, fraction width and sign for a tensor (None: open); ``data_in_1`` reads the ``data_in`` keys."""
        group = group_of(tensor)
        return (
            getattr(self, f"{group}_width"),
            getattr(self, f"{group}_frac_width"),
            getattr(self, f"{group}_signed"),
        )

    def width(self, node: str, tensor: str) -> int:
        """The bits of a tensor of a node.

        Raises:
            ConfigError: If they are open.
        """
        width, key = self.of(tensor)[0], group_of(tensor)
        if width is None:
            raise ConfigError(
                f"no width for {tensor}",
                node=node,
                field=f"quantize.*.config.{key}_width",
                expected="a number of bits",
                remedy=f"set {key}_width in the rule for this node, or in quantize.default.config",
            )
        return width

    def entering(self) -> NodeConfig:
        """The keys of data inputs as those of a result: for an input that nothing reads."""
        given = {f"data_out_{key}": getattr(self, f"data_in_{key}") for key in ("width", "frac_width", "signed")}
        return self.model_copy(update=given)

    def sets(self, tensor: str) -> bool:
        """Whether any key of a tensor was given."""
        group = group_of(tensor)
        return any(key.startswith(f"{group}_") for key in self.model_fields_set)


class Rule(BaseModel):
    """MASE's wrapping of a node configuration: ``{"config": {...}}``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    config: NodeConfig = Field(description="keys of the nodes to which the rule applies")


class QuantizeArgs(BaseModel):
    """Arguments of ``quantize_transform_pass``.

    Every other key is a rule, named by what ``by`` says: a ``mase_op``, a node name, or a regular expression that
    must match a whole node name. Rules refine ``default`` key by key; ``overrides``, by node name, refine both.
    """

    model_config = ConfigDict(
        extra="allow",
        frozen=True,
        json_schema_extra={"examples": [{"relu": {"config": {"data_out_width": 7, "data_out_signed": False}}}]},
    )
    __pydantic_extra__: dict[str, Rule]

    by: Literal["type", "name", "regex_name"] = Field(
        default="type",
        description="what the keys of rules are: a ``mase_op``, a node name, or a regular expression that must match a "
        "whole node name",
    )
    default: Rule | None = Field(default=None, description="the rule for every node")
    output_width: int | None = Field(
        default=None,
        ge=1,
        le=MAX_WIDTH,
        examples=[16],
        description="least bits of results that leave the model, unless a rule for the node, other than the default, "
        "says ``data_out_width``; 1 for no more than others",
    )
    overrides: dict[str, Rule] = Field(
        default_factory=dict,
        examples=[{"fc2": {"config": {"weight_width": 4, "rounding": "floor"}}}],
        description="rules by node name, which win whatever ``by`` says",
    )

    def rules(self) -> dict[str, NodeConfig]:
        """The rules by key."""
        return {key: rule.config for key, rule in (self.__pydantic_extra__ or {}).items()}

    def check(
        self,
        nodes: dict[str, str],
        ops: Mapping[str, Collection[str]],
        gone: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """Refuse rules, and keys in them, that can apply to nothing.

        Args:
            nodes: Op of every node by name.
            ops: :func:`known_tensors`.
            gone: What became of a node of that name that is no longer there.

        Raises:
            ConfigError: Naming every rule that matches nothing, and every key of a tensor that the op has not.
        """
        problems = []
        named = {} if self.by == "regex_name" else self.rules()  # an expression is for many nodes, with and without
        named |= {f"overrides.{node}": rule.config for node, rule in self.overrides.items()}
        for key, config in named.items():
            op = key if self.by == "type" and key in ops else nodes.get(key.removeprefix("overrides."), "")
            has = {group_of(tensor) for tensor in ops.get(op, INNER)}
            for group in set(INNER) - has:
                idle = [k for k in given_keys(config) if k.startswith(f"{group}_") and k != "weight_granularity"]
                problems += [f"{key}.config.{k}: {op} has no {group}" for k in sorted(idle)]
        for key in self.rules():
            if self.by == "type" and key not in ops:
                problems.append(f"{key}: no such op ({suggest(key, ops)})")
            elif self.by == "name" and key not in nodes:
                problems.append(f"{key}: {gone(key) or f'no such node ({suggest(key, nodes)})'}")
            elif self.by == "regex_name" and (fault := _regex_fault(key)) is not None:
                problems.append(f"{key}: not a regular expression ({fault})")
            elif self.by == "regex_name" and not any(re.fullmatch(key, n) for n in nodes):
                problems.append(f"{key}: matches no node ({suggest(key, nodes)})")
        for key in self.overrides:
            if key not in nodes:
                problems.append(f"overrides.{key}: {gone(key) or f'no such node ({suggest(key, nodes)})'}")
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
        merged: Json = {}
        specific: set[str] = set()
        for origin, given in self.layers(node, op):
            merged |= given
            specific |= set(given) if origin != "default" else set()
        return NodeConfig(**merged), specific

    def layers(self, node: str, op: str) -> list[tuple[str, Json]]:
        """What is configured for a node, the weakest first: where it stands, and the keys given there."""
        found: list[tuple[str, Json]] = []
        if self.default is not None:
            found.append(("default", given_keys(self.default.config)))
        for key, config in self.rules().items():
            wanted = {"type": key == op, "name": key == node}.get(self.by)
            if wanted is None:
                wanted = re.fullmatch(key, node) is not None
            if wanted:
                found.append((key, given_keys(config)))
        if node in self.overrides:
            found.append((f"overrides.{node}", given_keys(self.overrides[node].config)))
        return found


def _regex_fault(pattern: str) -> str | None:
    try:
        re.compile(pattern)
    except re.error as error:
        return str(error)
    return None


def given_keys(config: NodeConfig) -> Json:
    """The keys that were given, with their values."""
    return {key: getattr(config, key) for key in config.model_fields_set}
