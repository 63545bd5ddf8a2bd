"""``devices.json``: which bundle is for which device, and the links between them, as records."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from mase_hw.errors import EmitError, UnsupportedError

Whole = Annotated[int, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=1)]
FILE = "devices.json"
WHOLE = "whole"
"""The folder of the bundle of all devices together."""


def not_divided(message: str, *, node: str, got: str, expected: str, remedy: str) -> UnsupportedError:
    """The refusal of devices that cannot be connected."""
    return UnsupportedError(message, node=node, field="hardware.device", got=got, expected=expected, remedy=remedy)


class Device(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device and its bundle.

    Args:
        number: As the configuration has it.
        folder: Its bundle, seen from the file.
        top: The module of that: streams only.
        module: The module around it, with the ends of its links: what is put on the device. It is a file of the bundle
            of the whole, as is all that it needs.
        digest: Of the bundle.
        nodes: That it computes.
        interval: Cycles per frame, by itself.
        bottleneck: The instance or port that decides them.
    """

    number: Whole
    folder: str
    top: str
    module: str
    digest: str
    nodes: tuple[str, ...]
    interval: Count
    bottleneck: str


class Link(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stream from one device to another one.

    Args:
        name: Of it in the bundle of the whole.
        tensor: The node whose result it carries.
        source: The device that sends.
        source_port: The port of its bundle.
        sink: The device that receives.
        sink_port: The port of its bundle.
        bits: Of a word.
        latency: Cycles from one to the other.
        clock_ratio: Cycles per word.
        beats: Of a frame.
        width: Bits of a beat.
        credits: Words that the far side holds.
    """

    name: str
    tensor: str
    source: Whole
    source_port: str
    sink: Whole
    sink_port: str
    bits: Count
    latency: Whole
    clock_ratio: Count
    beats: Count
    width: Count
    credits: Count

    @property
    def words(self) -> int:
        """Of a frame."""
        return self.beats * -(-self.width // self.bits)

    @property
    def interval(self) -> int:
        """Cycles per frame that it needs by itself."""
        return self.words * self.clock_ratio


class Devices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All devices in order, and the links between them.

    Args:
        format_version: Of this document.
        whole: The folder of the bundle of all together, whose manifest has the ports and the timing of the network.
        devices: In the order in which frames pass through them.
        links: In the same order.
    """

    format_version: int
    whole: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...]

    def write(self, folder: Path) -> None:
        """Write the file."""
        text = msgspec.json.format(msgspec.json.encode(self), indent=2)
        (folder / FILE).write_bytes(text + b"\n")


def read_devices(folder: Path) -> Devices:
    """Read the file.

    Raises:
        EmitError: If there is none, or it is damaged.
    """
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Devices)
    except OSError as error:
        raise EmitError(
            "the folder holds no design on several devices",
            node=str(folder),
            got=error.strerror,
            expected=f"a folder with {FILE}, as compile_devices writes it",
        ) from error
    except msgspec.DecodeError as error:
        raise EmitError(
            f"{FILE} is damaged", node=str(folder / FILE), got=str(error), remedy="compile the model again"
        ) from error
