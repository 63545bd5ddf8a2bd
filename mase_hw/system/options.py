"""What an integrator may choose about a system."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


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
