"""Which layers are alike, so that the candidates of one are those of the other: all but their names and values."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Hashable, Mapping
from typing import Any

from mase_hw.passes.analysis.add_hardware_metadata import Wanted
from mase_hw.passes.analysis.hardware_args import HardwareArgs


class _Unlike(Exception):
    """A value of which it is not known when another one is the same."""


def kind(node: str, wanted: Wanted, args: HardwareArgs) -> Hashable:
    """What decides the candidates of a node; the same for two nodes only if their candidates are the same.

    Args:
        node: Its name.
        wanted: What it asks of the hardware.
        args: What the user asked of the hardware, with names of nodes.
    """
    places = {place.rpartition(".")[2]: kept for place, kept in args.memory.items() if place.startswith(f"{node}.")}
    given = [args.parallelism.get(node), args.implementation.get(node), args.order.get(node), places]
    request = dataclasses.replace(wanted.request, node="")
    try:
        return id(wanted.hardware), _frozen(request), _frozen(wanted.sizes), _frozen(given)
    except _Unlike:
        return node


def _frozen(value: Any) -> Hashable:
    """The same for the same values, of kinds that are known.

    Raises:
        _Unlike: For any other kind.
    """
    if value is None or isinstance(value, bool | int | float | str | enum.Enum):
        return type(value).__name__, value
    if isinstance(value, Mapping):
        return "mapping", tuple((_frozen(k), _frozen(v)) for k, v in value.items())
    if isinstance(value, tuple | list):
        return type(value).__name__, tuple(_frozen(each) for each in value)
    if isinstance(value, frozenset):
        return "set", tuple(sorted((_frozen(each) for each in value), key=repr))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
        return type(value).__qualname__, tuple((name, _frozen(each)) for name, each in fields)
    raise _Unlike
