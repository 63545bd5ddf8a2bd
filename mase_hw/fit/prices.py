"""What a module, with the memories of its parameters, and a connector between two lanes cost."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mase_hw.cost.resources import RESOURCES
from mase_hw.emit.estimate import estimate
from mase_hw.ops.structural import RepackParams
from mase_hw.streams import Stream

Use = npt.NDArray[np.int64]
"""Numbers of every resource, in the order of :data:`mase_hw.cost.resources.RESOURCES`."""


def nothing() -> Use:
    """No use of anything."""
    return np.zeros(len(RESOURCES), dtype=np.int64)


def named(use: Use) -> dict[str, int]:
    """Numbers by the name of the resource."""
    return {name: int(number) for name, number in zip(RESOURCES, use, strict=True)}


def module_price(
    parameters: Mapping[str, Any], multipliers: int, memories: Mapping[str, tuple[Stream, Mapping[str, Any]]]
) -> Use:
    """What a module and the memories of its parameters take.

    Args:
        parameters: Of the module.
        multipliers: That it instantiates.
        memories: Streams of stored parameters, and what the metadata says of where they are kept.
    """
    entries = [_memory(stream, kept) for stream, kept in memories.values()]
    instance = {"parameters": parameters, "multipliers": multipliers}
    found = estimate({"instances": [instance], "memories": entries, "fifos": []})
    return np.array([found[name] for name in RESOURCES], dtype=np.int64)


def _memory(stream: Stream, kept: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a memory, as in a manifest."""
    entry: dict[str, Any] = {"words": stream.beats, "bits": stream.bits}
    if "registers" in kept:
        entry |= {"place": "block" if kept["storage"] == "BRAM" else "lut", "registers": kept["registers"]}
    return entry


def connector(have: Stream, want: Stream) -> tuple[Use, int]:
    """What stands between two streams of the same tensor, and its cycles per frame; nothing if the beats are equal."""
    if have.same_beats(want):
        return nothing(), 0
    return _repack(RepackParams(have.fmt.width, have.lanes, want.lanes, have.sizes[0], want.sizes[0])), max(
        have.beats, want.beats
    )


@functools.lru_cache(maxsize=4096)
def _repack(p: RepackParams) -> Use:
    """A connector has a register for every element that may wait, and a multiplexer before each."""
    bits = p.WIDTH * (2 * p.OUT_LANES - 1 + p.IN_LANES)
    use = nothing()
    use[RESOURCES.index("lut")] = bits
    use[RESOURCES.index("ff")] = bits
    return use
