"""The ports of a design besides its streams: through them it loads its parameters, and reads and writes memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from mase_hw.hardware.manifest import External, Image, Manifest


@dataclass(frozen=True)
class LoadSignal:
    """A port for parameters, or for keys and values.

    Args:
        name: Of the native top.
        axis: Of the wrapper.
        direction: As Verilog has it.
        bits: Of it.
    """

    name: str
    axis: str
    direction: str
    bits: int = 1

    @property
    def range(self) -> str:
        """Before its name."""
        return f"[{self.bits - 1}:0] " if self.bits > 1 else ""

    @property
    def idle(self) -> str:
        """What it is connected to where nothing is loaded."""
        return f"{self.bits}'d0" if self.direction == "input" else ""


LOADING = (
    LoadSignal("parameters_in", "s_axis_parameters_tdata", "input", 32),
    LoadSignal("parameters_in_last", "s_axis_parameters_tlast", "input"),
    LoadSignal("parameters_in_valid", "s_axis_parameters_tvalid", "input"),
    LoadSignal("parameters_in_ready", "s_axis_parameters_tready", "output"),
    LoadSignal("parameters_out", "m_axis_parameters_tdata", "output", 32),
    LoadSignal("parameters_out_last", "m_axis_parameters_tlast", "output"),
    LoadSignal("parameters_out_valid", "m_axis_parameters_tvalid", "output"),
    LoadSignal("parameters_out_ready", "m_axis_parameters_tready", "input"),
    LoadSignal("parameters_state", "parameters_state", "output", 4),
    LoadSignal("parameters_digest", "parameters_digest", "output", 32),
)


def parameter_ports(manifest: Manifest) -> list[LoadSignal]:
    """The ports that a design has for its parameters, and for keys and values in external memory."""
    found = list(_loading(manifest.image, manifest.external))
    for device in manifest.devices.values():
        found += [
            dataclasses.replace(port, name=device.port + port.name, axis=device.port + port.axis)
            for port in _loading(device.image, device.external)
        ]
    return found + ([] if manifest.caches is None else caching(manifest.caches.bits))


def _loading(image: Image | None, external: External | None) -> Iterator[LoadSignal]:
    """Those for parameters."""
    yield from () if image is None else LOADING
    yield from () if external is None else reading(external.bits)


def _requests(bits: int) -> tuple[tuple[str, str, int], ...]:
    """What asks a memory for words, and what it answers."""
    return (
        ("read_valid", "output", 1),
        ("read_ready", "input", 1),
        ("read_address", "output", 32),
        ("read_words", "output", 16),
        ("data_valid", "input", 1),
        ("data", "input", bits),
    )


def reading(bits: int) -> list[LoadSignal]:
    """Those of a design that reads external memory in words of so many bits."""
    ports = (
        ("image", "input", 32),
        ("image_valid", "input", 1),
        ("image_ready", "output", 1),
        ("image_state", "output", 4),
        ("image_digest", "output", 32),
        *_requests(bits),
    )
    return [LoadSignal(f"parameters_{n}", f"parameters_{n}", direction, size) for n, direction, size in ports]


def caching(bits: int) -> list[LoadSignal]:
    """Those of a design that keeps keys and values in external memory, in words of so many bits."""
    ports = (
        *_requests(bits),
        ("write_valid", "output", 1),
        ("write_ready", "input", 1),
        ("write_address", "output", 32),
        ("write_data", "output", bits),
        ("write_done", "input", 1),
    )
    return [LoadSignal(f"cache_{n}", f"cache_{n}", direction, size) for n, direction, size in ports]
