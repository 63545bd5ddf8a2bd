"""What can be built and simulated: any module whose ports are ``clk``, ``rst`` and valid/ready streams."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mase_hw.errors import ConfigError
from mase_hw.streams import Stream

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class Dut:
    """A design under test.

    Args:
        top: Name of the top module.
        sources: SystemVerilog files, dependencies first; exactly these are compiled.
        parameters: Parameters of the top module; strings are passed as SystemVerilog strings.
        streams: Every port besides ``clk`` and ``rst``.
        memory: Folder that appears as ``mem`` in the run folder, for designs that read ``mem/*.mem``.
        tied: Ports without a stream and what they are tied to, for outputs the range of their bits, empty for one bit;
            a harness in HDL names them all.
        digests: SHA-256 by file, of sources and of files in ``memory``, for files that were checked before: what is
            compiled and what the simulator reads is surely that.
        edges: Edges inside the design whose monitors must say at the end of a run how many frames they carried; None
            if that is not known.
        prefix: What the names of the library's modules begin with in these sources.
        foreign: Warnings of Verilator that the sources may give, which were all written by another tool, such as a
            netlist; if there are any, none about style is a refusal either.

    Raises:
        ConfigError: If a name is not an identifier, two streams share a name, or there is no input or output.
    """

    top: str
    sources: tuple[Path, ...]
    parameters: Mapping[str, int | str] = field(default_factory=dict)
    streams: tuple[Stream, ...] = ()
    memory: Path | None = None
    tied: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[Path, str] = field(default_factory=dict)
    edges: tuple[str, ...] | None = None
    prefix: str = ""
    foreign: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (self.top, *self.ports, *self.parameters):
            if not _IDENTIFIER.match(name):
                raise ConfigError("a name in the design is not an identifier", node=self.top, got=repr(name))
        if len(set(self.ports)) != len(self.ports):
            raise ConfigError("two ports share a name", node=self.top, got=sorted(self.ports))
        for direction, streams in (("input", self.inputs), ("output", self.outputs)):
            if not streams:
                raise ConfigError(f"the design has no {direction} stream", node=self.top, field="streams")

    @property
    def design(self) -> str:
        """Name of the module that is simulated, for people; not that of a harness around it."""
        return self.top

    @property
    def inside(self) -> str:
        """What the path of every instance of the design begins with."""
        return f"{self.top}."

    @property
    def inputs(self) -> tuple[Stream, ...]:
        """Streams into the design."""
        return tuple(s for s in self.streams if s.direction == "in")

    @property
    def outputs(self) -> tuple[Stream, ...]:
        """Streams out of the design."""
        return tuple(s for s in self.streams if s.direction == "out")

    @property
    def idle(self) -> tuple[str, ...]:
        """The inputs without a stream, which are 0."""
        return tuple(name for name, value in self.tied.items() if value and not value.startswith("["))

    @property
    def ports(self) -> tuple[str, ...]:
        """Every port name."""
        return ("clk", "rst", *(p for s in self.streams for p in (s.name, s.valid, s.ready)))


def port_widths(dut: Dut) -> str:
    """A module bound into the design that refuses ports that are not as wide as their streams."""
    ports = {stream.name: stream.bits for stream in dut.streams}
    declared = ", ".join(f"parameter int {name}" for name in ports)
    checks = "".join(
        f"  if ({name} != {bits}) begin : g_{name}\n"
        f'    $fatal(1, "{name} has %0d bits, and its stream {bits}", {name});\n  end\n'
        for name, bits in ports.items()
    )
    connected = ", ".join(f".{name}($bits({name}))" for name in ports)
    return f"""\
module port_widths #({declared}) ();
{checks}endmodule
bind {dut.design} port_widths #({connected}) u_port_widths ();
"""
