"""What an integrator may choose about the files of the handoff."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from mase_hw.hardware.prefix import PATTERN

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""Names that go into scripts of other tools unquoted."""


class HandoffOptions(BaseModel):
    """The table ``handoff`` of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prefix: str = Field(
        default="",
        pattern=PATTERN,
        description="what the name of every module, package and memory file begins with, so that several designs, or "
        "one with different settings, can be in one project",
    )
    clock_mhz: float = Field(
        default=100.0,
        gt=0,
        le=2000,
        allow_inf_nan=False,
        description="clock that the constraints ask for, in MHz; the period is rounded down to the picosecond",
    )
    axis: bool = Field(
        default=True,
        description="write the wrapper with AXI4-Stream ports; it is then the top of every synthesis script",
    )
    registered: bool = Field(
        default=True,
        description="a skid buffer at every stream of the wrapper: one cycle more at every input and every output, "
        "and no combinational path through the wrapper's ports",
    )
    vivado_part: str = Field(
        default="xc7a100tcsg324-1",
        pattern=NAME,
        description="part for Vivado; another one can be given when the script is called",
    )
    quartus_family: str = Field(
        default="Cyclone V", pattern=r"^[A-Za-z0-9][A-Za-z0-9 ]*$", description="device family for Quartus"
    )
    quartus_device: str = Field(default="5CGXFC7C7F23C8", pattern=NAME, description="device for Quartus")
    vendor: str = Field(
        default="user",
        pattern=NAME,
        description="vendor in the names of FuseSoC and Vivado (``vendor:library:name:version``)",
    )
    library: str = Field(default="mase_hw", pattern=NAME, description="library in such names")
    version: str = Field(default="1.0", pattern=r"^\d+\.\d+$", description="version in such names: ``major.minor``")

    @property
    def period_ns(self) -> str:
        """The clock period in ns, to the picosecond, never longer than asked for."""
        return f"{int(1e6 / self.clock_mhz + 1e-6) / 1000:.3f}"
