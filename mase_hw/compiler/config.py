"""The configuration of :func:`mase_hw.compile`: a dict or a TOML file, one table a stage."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from mase_hw.emit.handoff_options import HandoffOptions
from mase_hw.errors import ConfigError
from mase_hw.passes.analysis.add_hardware_metadata import HardwareArgs
from mase_hw.passes.analysis.calibrate import CalibrateOptions
from mase_hw.passes.base import validate
from mase_hw.passes.transforms.quantize_config import NodeConfig, QuantizeArgs, Rule


def _eight_bit() -> QuantizeArgs:
    return QuantizeArgs(
        by="type",
        default=Rule(config=NodeConfig(name="fixed", data_in_width=8, weight_width=8, bias_width=8, data_out_width=8)),
    )


class CompileConfig(BaseModel):
    """How a model becomes hardware.

    Args:
        top: Module name of the top level.
        fold_batch_norm: Fold batch normalisations into their neighbours before anything is observed.
        calibrate: How formats are chosen: ``method`` (of activations), ``weight_method`` and their ``options``.
        quantize: Arguments of ``quantize_transform_pass``; what ``default`` does not say is 8 bits everywhere, formats
            from observed ranges.
        hardware: Arguments of ``add_hardware_metadata_analysis_pass``.
        handoff: What an integrator may choose: clock, parts, AXI4-Stream wrapper, registered boundaries.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    top: str = "top"
    fold_batch_norm: bool = True
    calibrate: CalibrateOptions = Field(default_factory=CalibrateOptions)
    quantize: QuantizeArgs = Field(default_factory=_eight_bit)
    hardware: HardwareArgs = Field(default_factory=HardwareArgs)
    handoff: HandoffOptions = Field(default_factory=HandoffOptions)


def load_config(config: CompileConfig | Mapping[str, Any] | str | Path | None) -> CompileConfig:
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
        where = str(config)
        try:
            config = tomllib.loads(Path(config).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                "the configuration file cannot be read", node=where, got=str(error), expected="a TOML file"
            ) from error
        except tomllib.TOMLDecodeError as error:
            raise ConfigError("the configuration file is not TOML", node=where, got=str(error)) from error
    return _with_eight_bits(validate(where, CompileConfig, config))


def _with_eight_bits(config: CompileConfig) -> CompileConfig:
    """Fill what ``quantize.default`` does not say with the 8-bit default; a name of null stays null."""
    standard = _eight_bit().default
    assert standard is not None  # _eight_bit always has one
    given = config.quantize.default
    keys = {} if given is None else {key: getattr(given.config, key) for key in given.config.model_fields_set}
    base = {key: getattr(standard.config, key) for key in standard.config.model_fields_set}
    rule = Rule(config=NodeConfig(**{**base, **keys}))
    return config.model_copy(update={"quantize": config.quantize.model_copy(update={"default": rule})})
