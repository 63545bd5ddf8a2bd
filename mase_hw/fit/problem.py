"""The choice as numbers: candidates of every node, and what connects lanes of neighbours.

What a module, with the memories and the sources of its parameters, and a connector between two lanes cost.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mase_hw.catalogue import verilog_params
from mase_hw.cost.devices import RESOURCES
from mase_hw.cost.model import cost_of
from mase_hw.emit.contents import stored
from mase_hw.hardware.external import FETCHED, SPARE, ExternalMemory, Tensor, arranged
from mase_hw.ops.structural import RepackParams
from mase_hw.streams import Stream

Numbers = npt.NDArray[np.int64]
SHARE = 1 << 32
"""A whole device. Words of external memory are millions, and what one is priced at must be a whole number as well."""
INFEASIBLE = np.int64(1) << 52
"""A price that nothing pays; sums of many of them stay within 63 bits."""


@dataclass(frozen=True)
class Edge:
    """What two neighbours cost together.

    Args:
        ends: Names of the nodes.
        rows: For every candidate of the first one, its row in ``prices``.
        columns: For every candidate of the second one, its column.
        prices: Of every pair of lanes, measures along the last dimension.
        possible: Whether a pair may be chosen.
    """

    ends: tuple[str, str]
    rows: Numbers
    columns: Numbers
    prices: Numbers
    possible: npt.NDArray[np.bool_]

    def by_lanes(self, weights: Numbers) -> Numbers:
        """Prices of pairs of lanes as one number each."""
        return np.asarray(np.where(self.possible, self.prices @ weights, INFEASIBLE), dtype=np.int64)


@dataclass(frozen=True)
class Problem:
    """Choose a candidate of every node.

    Args:
        prices: Of every node, ``(candidates, measures)``.
        edges: What neighbours cost together.
    """

    prices: Mapping[str, Numbers]
    edges: Sequence[Edge]

    @property
    def measures(self) -> int:
        """Numbers of every candidate."""
        return int(next(iter(self.prices.values())).shape[1])

    def total(self, chosen: Mapping[str, int]) -> Numbers | None:
        """What a choice takes of every measure; None if it is impossible."""
        found = np.zeros(self.measures, dtype=np.int64)
        for name, at in chosen.items():
            found = found + self.prices[name][at]
        for edge in self.edges:
            row, column = edge.rows[chosen[edge.ends[0]]], edge.columns[chosen[edge.ends[1]]]
            if not edge.possible[row, column]:
                return None
            found = found + edge.prices[row, column]
        return found


MEASURES = (*RESOURCES, "words")
"""What a choice takes: resources, and words of external memory per frame."""
WORDS = MEASURES.index("words")
Use = npt.NDArray[np.int64]
"""Numbers of every measure, in the order of :data:`MEASURES`."""


def nothing() -> Use:
    """No use of anything."""
    return np.zeros(len(MEASURES), dtype=np.int64)


def named(use: Use) -> dict[str, int]:
    """Numbers by the name of the resource."""
    return {name: int(number) for name, number in zip(RESOURCES, use, strict=False)}


def module_price(
    module: str,
    parameters: Mapping[str, int | str],
    memories: Mapping[str, tuple[Stream, Mapping[str, int | str]]],
    family: str,
    multipliers: int,
    passes: int = 1,
) -> Use:
    """What a module and the memories of its parameters take.

    Args:
        module: Its name.
        parameters: As they are instantiated.
        memories: Streams of stored parameters, and what the metadata says of where they are kept.
        family: Of FPGAs.
        multipliers: How many the op declares, of which each counts as a block where the module is not estimated.
        passes: Of a frame, each with parameters of its own.
    """
    found = price(module, parameters, family, multipliers)
    for stream, kept in memories.values():
        source, of_memory = stored(stream, kept, passes)
        found = found + _memory(source, tuple(of_memory.items()), family)
    return found


@functools.lru_cache(maxsize=1 << 14)
def _memory(source: str, parameters: tuple[tuple[str, Any], ...], family: str) -> Use:
    """What a memory takes; many candidates have the same ones. Not to be changed by who gets it."""
    return price(source, dict(parameters), family)


def source_price(size: Mapping[str, int], passes: int, memory: ExternalMemory, family: str) -> Use:
    """What a source that reads external memory takes at least, whatever else is read there, and its words per frame.

    Args:
        size: What its parameters say of its tensor.
        passes: Of a frame, each with parameters of its own.
        memory: Where that lies.
        family: Of FPGAs.
    """
    (found,) = arranged([size], [passes], memory)
    parameters = {**size, **found, "ROOM": 1 + SPARE}
    tensor = Tensor.of(parameters)
    use = price(FETCHED, parameters, family)
    use[WORDS] = tensor.blocks * tensor.words
    return use


def connector(have: Stream, want: Stream, family: str) -> tuple[Use, int]:
    """What stands between two streams of the same tensor, and its cycles per frame; nothing if the beats are equal."""
    if have.same_beats(want):
        return nothing(), 0
    params = RepackParams(have.fmt.width, have.lanes, want.lanes, have.sizes[0], want.sizes[0])
    return price("stream_repack", verilog_params(params), family), max(have.beats, want.beats)


def price(module: str, parameters: Mapping[str, int | str], family: str, multipliers: int = 0) -> Use:
    """What one module takes, without words."""
    found = cost_of(module, parameters, family, multipliers=multipliers).as_dict()
    return np.array([found.get(name, 0) for name in MEASURES], dtype=np.int64)
