"""Which element of a tensor stands at each place of another one, as nested loops around a short table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mase_hw.errors import GraphError

NOTHING = -1
"""Place of no element: a zero stands there."""
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Places:
    """Blocks of ``block`` elements, one after the other; each gives, ``passes`` times over, the same places of it.

    A pass goes through ``starts``; each stands for ``run`` elements from there on (zeros, for :data:`NOTHING`), each of
    them ``hold`` times.

    Args:
        block: Elements of a block of the input.
        passes: How often a block is gone through.
        starts: Where runs begin.
        run: Elements of a run.
        hold: Repetitions of an element.
    """

    block: int
    passes: int
    starts: tuple[int, ...]
    run: int
    hold: int

    @property
    def per_block(self) -> int:
        """Elements that a block gives."""
        return self.passes * len(self.starts) * self.run * self.hold

    def sequence(self, elements: int) -> IntArray:
        """The place in the input of every element of the result.

        Args:
            elements: Elements of the input, a whole number of blocks.

        Raises:
            GraphError: If the input is no whole number of blocks, or a run leaves its block.
        """
        starts = np.asarray(self.starts, dtype=np.int64)
        within = starts.size and starts.min() >= NOTHING and starts.max() + self.run <= self.block
        if elements % self.block or not within:
            raise GraphError("these places are not in the tensor", got=self.to_dict(), expected=f"{elements} elements")
        runs = np.where(starts[:, None] == NOTHING, NOTHING, starts[:, None] + np.arange(self.run, dtype=np.int64))
        once = np.tile(np.repeat(runs.reshape(-1), self.hold), self.passes)
        blocks = np.arange(elements // self.block, dtype=np.int64)[:, None] * self.block
        return np.where(once == NOTHING, NOTHING, blocks + once).reshape(-1)

    @classmethod
    def of(cls, sequence: IntArray, elements: int) -> Places:
        """The description of a sequence with the smallest block, and the shortest table for that.

        Args:
            sequence: The place in the input of every element of the result, or :data:`NOTHING`.
            elements: Elements of the input.
        """
        once, block = _one_block(sequence, elements)
        hold = next(n for n in _divisors(once.size) if (once.reshape(-1, n) == once.reshape(-1, n)[:, :1]).all())
        once = once[::hold]
        passes = next(n for n in _divisors(once.size) if (once.reshape(n, -1) == once.reshape(n, -1)[:1]).all())
        once = once[: once.size // passes]
        run = next(n for n in _divisors(once.size) if _are_runs(once.reshape(-1, n)))
        return cls(block, passes, tuple(int(start) for start in once[::run]), run, hold)

    @classmethod
    def from_attributes(cls, attributes: Mapping[str, Any]) -> Places:
        """As :meth:`to_dict` gives it, among other attributes."""
        block, passes, run, hold = (int(attributes[name]) for name in ("block", "passes", "run", "hold"))
        return cls(block, passes, tuple(int(start) for start in attributes["starts"]), run, hold)

    def to_dict(self) -> dict[str, Any]:
        """As attributes of an op."""
        return {
            "block": self.block,
            "passes": self.passes,
            "starts": self.starts,
            "run": self.run,
            "hold": self.hold,
        }


def _one_block(sequence: IntArray, elements: int) -> tuple[IntArray, int]:
    """What one of the most blocks gives, and its size: all do the same to their own elements."""
    for blocks in _divisors(math.gcd(sequence.size, elements)):
        block = elements // blocks
        each = sequence.reshape(blocks, -1)
        place = np.where(each == NOTHING, NOTHING, each - np.arange(blocks, dtype=np.int64)[:, None] * block)
        if (place == place[:1]).all() and place.max() < block and place.min() >= NOTHING:
            return place[0], block
    return sequence, elements


def _divisors(n: int) -> Iterator[int]:
    """Divisors of a number, the largest first."""
    return (k for k in range(n, 0, -1) if n % k == 0)


def _are_runs(groups: IntArray) -> bool:
    firsts = groups[:, :1]
    wanted = np.where(firsts == NOTHING, NOTHING, firsts + np.arange(groups.shape[1], dtype=np.int64))
    return bool((groups == wanted).all())
