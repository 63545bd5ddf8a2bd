"""What a system is made with."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mase_hw.errors import ConfigError
from mase_hw.hardware.prefix import PATTERN


class SystemOptions(BaseModel):
    """Options of ``mase-hw system``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: Literal["memory", "stream"] = Field(
        default="memory",
        description="where frames come from: memory, over an AXI4 master, or AXI4-Stream for a DMA that is there",
    )
    bus: Literal[32, 64, 128] = Field(default=64, description="bits of a beat of the AXI4 master, or of the streams")
    elements: Literal["aligned", "packed"] = Field(
        default="aligned",
        description="elements of a frame: aligned to 8, 16, 32 or 64 bits, or packed without gaps",
    )
    address_bits: int = Field(default=32, ge=13, le=64, description="address bits of the AXI4 master")
    burst: int = Field(default=64, ge=1, le=256, description="beats of a burst at most")
    outstanding: int = Field(default=4, ge=1, le=16, description="bursts that wait for an answer at most, a direction")
    core_clock: bool = Field(default=False, description="a clock of its own for the core, `core_clk`")
    letters: str = Field(
        default="",
        description="of a language model that decodes, a character for each id: the self-test writes text instead of "
        "numbers",
    )
    prefix: str = Field(
        default="",
        pattern=PATTERN,
        description="what the names of modules, files and symbols of the software begin with, those of the core among "
        "them; that of the bundle where it has one",
    )


def system_options(**given: Any) -> SystemOptions:
    """Options, checked.

    Raises:
        ConfigError: If one has a value that it cannot have, with its name on the command line.
    """
    try:
        return SystemOptions(**given)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(
            "this option of the system is out of range",
            field="--" + str(first["loc"][0]).replace("_", "-"),
            got=first["input"],
            expected=first["msg"],
        ) from error
