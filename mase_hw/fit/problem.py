"""The choice as numbers: candidates of every node, and what connects lanes of neighbours.

What a module, with the memories and the sources of its parameters, and a connector between two lanes cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mase_hw.catalogue import verilog_params
from mase_hw.cost.devices import RESOURCES, Kind, Resources
from mase_hw.cost.model import cost_of, kind_of
from mase_hw.emit.contents import stored
from mase_hw.hardware.external import FETCHED, SPARE, ExternalMemory, Tensor, arranged
from mase_hw.hardware.manifest import Instance
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


@dataclass(frozen=True)
class Prices:
    """What modules take on a family: as it was measured, or else is estimated.

    Args:
        family: Of FPGAs.
        measured: What was measured, by kind; of several contents the most.
    """

    family: str
    measured: Mapping[Kind, Resources] = field(default_factory=dict)
    _memories: dict[tuple[str, tuple[tuple[str, Any], ...]], Use] = field(default_factory=dict, init=False, repr=False)
    """Of memories, as many candidates have the same ones; not to be changed by who gets them."""

    def of(self, module: str, parameters: Mapping[str, int | str], multipliers: int = 0) -> Use:
        """What one module takes, without words.

        Args:
            module: Its name.
            parameters: As they are instantiated.
            multipliers: How many the op declares, of which each counts as a block where the module is not estimated.
        """
        found = self.measured.get(kind_of(module, parameters)) if self.measured else None
        if found is None:
            found = cost_of(module, parameters, self.family, multipliers=multipliers)
        return np.array([found.as_dict().get(name, 0) for name in MEASURES], dtype=np.int64)

    def layer(
        self,
        module: str,
        parameters: Mapping[str, int | str],
        memories: Mapping[str, tuple[Stream, Mapping[str, int | str]]],
        multipliers: int,
        passes: int = 1,
    ) -> Use:
        """What a module and the memories of its parameters take.

        Args:
            module: As for :meth:`of`, as are the next one and the multipliers.
            parameters: As they are instantiated.
            memories: Streams of stored parameters, and what the metadata says of where they are kept.
            multipliers: How many the op declares.
            passes: Of a frame, each with parameters of its own.
        """
        found = self.of(module, parameters, multipliers)
        for stream, kept in memories.values():
            source, of_memory = stored(stream, kept, passes)
            key = source, tuple(of_memory.items())
            if key not in self._memories:
                self._memories[key] = self.of(source, of_memory)
            found = found + self._memories[key]
        return found

    def source(self, size: Mapping[str, int], passes: int, memory: ExternalMemory) -> Use:
        """What a source that reads external memory takes at least, and its words per frame.

        Args:
            size: What its parameters say of its tensor.
            passes: Of a frame, each with parameters of its own.
            memory: Where that lies.
        """
        (found,) = arranged([size], [passes], memory)
        parameters = {**size, **found, "ROOM": 1 + SPARE}
        tensor = Tensor.of(parameters)
        use = self.of(FETCHED, parameters)
        use[WORDS] = tensor.blocks * tensor.words
        return use

    def connector(self, have: Stream, want: Stream) -> tuple[Use, int]:
        """What stands between two streams of the same tensor, and its cycles per frame; nothing if beats are equal."""
        if have.same_beats(want):
            return nothing(), 0
        params = RepackParams(have.fmt.width, have.lanes, want.lanes, have.sizes[0], want.sizes[0])
        return self.of("stream_repack", verilog_params(params)), max(have.beats, want.beats)

    def known(self, instances: Iterable[Instance]) -> dict[str, Resources]:
        """What was measured of instances of the same kinds, by name."""
        found = {each.name: self.measured.get(kind_of(each.module, each.parameters)) for each in instances}
        return {name: counts for name, counts in found.items() if counts is not None}
