"""Which streams of a design are shown in waves, by node, and in which formats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PORTS = "ports"
"""The group of the streams of the design itself."""
_FIELD = "_PRECISION_0"
_ABSENT = {"BIAS": "HAS_BIAS", "WEIGHT_SHIFT": "HAS_WEIGHT_SHIFT"}
"""Streams that a module does not read if a parameter of it is 0."""


@dataclass(frozen=True)
class Shown:
    """A stream in waves.

    Args:
        group: The node, or :data:`PORTS`.
        name: Of the stream in its group.
        source: Where its data is, seen from the top level; ``valid`` and ``ready`` beside it.
        lanes: Numbers of a beat.
        width: Bits of a number.
        frac_width: Bits behind the binary point; may be negative, or more than ``width``.
        signed: Whether numbers have a sign.
        output: Name of the port of the design, if it is an output.
    """

    group: str
    name: str
    source: str
    lanes: int
    width: int
    frac_width: int
    signed: bool
    output: str | None = None

    @property
    def scope(self) -> str:
        """Where it is below the top level, its parts separated by dots."""
        return f"{LANES}.{scope_of(self.group)}.{self.name}"

    @property
    def range(self) -> str:
        """The bits of a lane as they are declared, the binary point right of bit 0; nothing for a single bit."""
        if self.width == 1:
            return ""
        return f"[{self.width - 1 - self.frac_width}:{-self.frac_width}]"


LANES = "waves"
"""Instance that shows them, in the top level."""


def scope_of(group: str) -> str:
    """The scope of a group: Verilator leaves out names that begin with an underscore, as some of nodes do."""
    return group if group == PORTS else f"node_{group}"


def shown_streams(manifest: Mapping[str, Any]) -> list[Shown]:
    """Every stream of fixed-point numbers: the ports of the design first, then those of the modules by node.

    Args:
        manifest: Of a bundle.
    """
    found = []
    for port in manifest["ports"]:
        fmt = port["format"]
        if fmt.get("type") in ("fixed", "integer"):
            output = port["name"] if port["direction"] == "out" else None
            values = (port["lanes"], fmt["width"], fmt.get("frac_width", 0), fmt["signed"], output)
            found.append(Shown(PORTS, port["name"], port["name"], *values))
    taken: set[str] = set()
    for instance in manifest["instances"]:
        group, parameters = _group(instance, taken), instance["parameters"]
        for key in (k.removesuffix(_FIELD) for k in parameters if k.endswith(_FIELD)):
            lanes = [int(v) for k, v in parameters.items() if k.startswith(f"{key}_PARALLELISM_DIM_")]
            frac = parameters.get(f"{key}_PRECISION_1")
            if not lanes or frac is None or not parameters.get(_ABSENT.get(key, ""), 1):
                continue
            name = key.lower()
            numbers = (math.prod(lanes), int(parameters[key + _FIELD]), int(frac))
            signed = bool(parameters.get(f"{key}_SIGNED", 1))
            found.append(Shown(group, name, f"{instance['name']}.{name}", *numbers, signed))
    return found


def _group(instance: Mapping[str, Any], taken: set[str]) -> str:
    """The node; the instance, if another instance of the node was there before."""
    name = str(instance["node"])
    has_streams = any(key.endswith(_FIELD) for key in instance["parameters"])
    if name in taken:
        name = str(instance["name"])
    if has_streams:
        taken.add(name)
    return name


def groups(streams: Sequence[Shown]) -> dict[str, list[Shown]]:
    """Streams by group."""
    found: dict[str, list[Shown]] = {}
    for stream in streams:
        found.setdefault(stream.group, []).append(stream)
    return found
