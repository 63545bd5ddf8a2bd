"""The configuration of :func:`mase_hw.compile`: a dict or a TOML file, one table per stage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt

from mase_hw.emit.handoff.options import HandoffOptions
from mase_hw.errors import ConfigError
from mase_hw.fit.target import Target, TargetLike
from mase_hw.host.documents import Json, parse_toml
from mase_hw.options import commented_toml
from mase_hw.options.decode import DecodeOptions
from mase_hw.options.links import LinksOptions
from mase_hw.passes.base import validate
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.passes.quantize.calibrate import CalibrateOptions
from mase_hw.passes.quantize.config import NodeConfig, QuantizeArgs, Rule
from mase_hw.passes.quantize.equalization import EqualizationOptions
from mase_hw.passes.quantize.rounding import RoundingOptions
from mase_hw.vectors.passes import VectorOptions

LEAVING = 16
"""Bits of results that leave the model, unless told otherwise: scores that are compared lose most by few bits."""


def _eight_bit() -> QuantizeArgs:
    return QuantizeArgs(
        by="type",
        default=Rule(config=NodeConfig(name="fixed", data_in_width=8, weight_width=8, data_out_width=8)),
        output_width=LEAVING,
    )


class PluginStep(BaseModel):
    """A pass of another package inside ``compile``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="of an entry point of the group for passes")
    after: str = Field(description="the step of ``compile`` behind which it runs")
    args: dict[str, object] = Field(default_factory=dict, description="its arguments")


class CompileConfig(BaseModel):
    """How a model becomes hardware."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    top: str = Field(
        default="top",
        description="module name of the top level: an ASCII identifier that is no keyword and no name of a library "
        "module or of a signal of the top level",
    )
    streaming: bool = Field(
        default=False,
        description="a frame is one hop of a stream that never ends: what causal layers remember goes on from frame to "
        "frame, until a reset",
    )
    decode: DecodeOptions = Field(
        default_factory=DecodeOptions,
        description="of a language model that generates: a frame is a sequence, token by token",
    )
    token_tables: NonNegativeInt = Field(
        default=0,
        description="elements of a table, at most, in the place of what depends on the id of a token and its position "
        "alone: an embedding with norms and layers behind it, up to the first attention; 0: no such tables",
    )
    fold_batch_norm: bool = Field(
        default=True, description="fold batch normalisations into their neighbours before anything is observed"
    )
    equalization: EqualizationOptions = Field(
        default_factory=EqualizationOptions, description="what is evened out before anything is observed"
    )
    calibrate: CalibrateOptions = Field(
        default_factory=CalibrateOptions, description="how formats are chosen from the observed values"
    )
    quantize: QuantizeArgs = Field(
        default_factory=_eight_bit,
        description="arguments of ``quantize_transform_pass``; widths that ``default`` does not give are 8 bits, "
        "a bias is as wide as its exact sum needs, and ``output_width`` is 16",
    )
    rounding: RoundingOptions = Field(
        default_factory=RoundingOptions, description="how weights become mantissas, and how biases are corrected"
    )
    hardware: HardwareArgs = Field(
        default_factory=HardwareArgs, description="arguments of ``add_hardware_metadata_analysis_pass``"
    )
    links: LinksOptions = Field(
        default_factory=LinksOptions, description="of a design on several devices: the links between them"
    )
    target: Target = Field(
        default_factory=Target,
        description="what the design is to reach and may take; lanes and implementations that ``hardware`` leaves open "
        "are then chosen for it",
    )
    passes: tuple[PluginStep, ...] = Field(
        default=(), description="passes of plug-ins: what runs behind which step of ``compile``"
    )
    vectors: VectorOptions = Field(
        default_factory=VectorOptions, description="how test vectors are chosen, and how what they show is measured"
    )
    handoff: HandoffOptions = Field(
        default_factory=HandoffOptions,
        description="what an integrator may choose: clock, parts, AXI4-Stream wrapper, registered boundaries",
    )


ConfigLike = CompileConfig | Mapping[str, object] | str | Path | None
"""A configuration, its keys and values, the path of its TOML file, or None for the defaults."""


def load_config(config: ConfigLike) -> CompileConfig:
    """Read and check a configuration.

    Args:
        config: The model, a dict, the path of a TOML file, or None for the defaults.

    Raises:
        ConfigError: If the file cannot be read or parsed, or any key or value is wrong; all problems at once.
    """
    if isinstance(config, CompileConfig):
        return config
    where = "the configuration"
    if isinstance(config, str | Path):
        where = f"{config!s:.200}"
        try:
            text = Path(config).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:  # a NUL in its name, or bytes that are no text
            raise ConfigError(
                "the configuration file cannot be read", node=where, got=str(error), expected="a TOML file"
            ) from error
        try:
            config = parse_toml(text)
        except ValueError as error:
            raise ConfigError("the configuration file is not TOML", node=where, got=str(error)) from error
    return _with_eight_bits(validate(where, CompileConfig, config))


def with_target(config: CompileConfig, target: TargetLike | None) -> CompileConfig:
    """A configuration with another target; the same if there is none.

    Raises:
        ConfigError: If a key or value of the target is wrong.
    """
    if target is None:
        return config
    asked = target if isinstance(target, Target) else validate("target", Target, target)
    return config.model_copy(update={"target": asked})


def default_file() -> str:
    """A configuration file with every option, its meaning, its values and its default."""
    return commented_toml(
        load_config(None),
        "Configuration of mase_hw, for mase_hw.compile and for the commands that take --config. Every value below is "
        "the default. A line that begins with # and no space is an option without a default: remove the # to set it.",
    )


def schema() -> Json:
    """JSON schema of a configuration, for editors and other programs.

    What the schema refuses is refused by :func:`load_config` as well; the reverse does not hold, since names of nodes
    and ops are known only with a model.
    """
    found = CompileConfig.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **found,
        "title": "Configuration of mase_hw",
    }


def _with_eight_bits(config: CompileConfig) -> CompileConfig:
    """Fill what ``quantize.default`` does not say with the 8-bit default; a name of null stays null."""
    standard = _eight_bit().default
    assert standard is not None  # _eight_bit always has one
    given = config.quantize.default
    keys = {} if given is None else {key: getattr(given.config, key) for key in given.config.model_fields_set}
    base = {key: getattr(standard.config, key) for key in standard.config.model_fields_set}
    rule = Rule(config=NodeConfig(**{**base, **keys}))
    update: dict[str, object] = {"default": rule}
    if "output_width" not in config.quantize.model_fields_set:
        update["output_width"] = LEAVING
    return config.model_copy(update={"quantize": config.quantize.model_copy(update=update)})
