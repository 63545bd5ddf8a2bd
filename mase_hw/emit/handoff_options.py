"""What an integrator may choose about the files of the handoff."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""Names that go into scripts of other tools unquoted."""


class HandoffOptions(BaseModel):
    """The table ``handoff`` of the configuration.

    Args:
        clock_mhz: Clock that the constraints ask for, in MHz.
        axis: Whether to write the wrapper with AXI4-Stream ports; it is then the top of every synthesis script.
        registered: Whether every stream of the wrapper passes a register in both directions (a skid buffer): one
            cycle more at every input and at every output, no path through the wrapper's ports.
        vivado_part: Part for Vivado; any can be given when the script is called.
        quartus_family: Device family for Quartus.
        quartus_device: Device for Quartus.
        vendor: Vendor in the names that IP packagers want (``vendor:library:name:version``).
        library: Library in such names.
        version: Version in such names: ``major.minor``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    clock_mhz: float = Field(default=100.0, gt=0, le=2000, allow_inf_nan=False)
    axis: bool = True
    registered: bool = True
    vivado_part: str = Field(default="xc7a100tcsg324-1", pattern=NAME)
    quartus_family: str = Field(default="Cyclone V", pattern=r"^[A-Za-z0-9][A-Za-z0-9 ]*$")
    quartus_device: str = Field(default="5CGXFC7C7F23C8", pattern=NAME)
    vendor: str = Field(default="user", pattern=NAME)
    library: str = Field(default="mase_hw", pattern=NAME)
    version: str = Field(default="1.0", pattern=r"^\d+\.\d+$")

    @property
    def period_ns(self) -> str:
        """The clock period in ns, to the picosecond, never longer than asked for."""
        return f"{int(1e6 / self.clock_mhz + 1e-6) / 1000:.3f}"
