"""When a product of two streams takes its beats and gives its results.

In which order a layer uses its multipliers, where it is free to choose.

``outputs_first`` computes an output tile after the other, for which the inputs are replayed; ``inputs_first`` uses an
input tile after the other, as they come, for all output tiles, and keeps the partial sums.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mase_hw.steps import Counts, Steps
from mase_hw.streams import ceil_div

ORDERS = ("outputs_first", "inputs_first")


def inputs_first(rows: int, tiles: int, passes: int, pipe: int) -> Steps:
    """A step takes an activation beat, row by row, tile by tile, for every output beat of the row.

    Args:
        rows: Vectors per frame.
        tiles: Input beats a vector.
        passes: Output beats a vector.
        pipe: Cycles from a step that completes a result to its being valid.
    """
    first = np.arange(rows * tiles, dtype=np.int64) * passes
    return Steps.at(
        rows * tiles * passes,
        needed=(first,),
        freed=(first + passes - 1,),
        emitted=(first[tiles - 1 :: tiles, None] + np.arange(passes, dtype=np.int64)).reshape(-1),
        # The register of beat_repeat.
        delay=(1,),
        room=(1,),
        room_lag=0,
        pipe=pipe,
        # Results come one a cycle.
        queue=pipe + 2,
    )


@functools.lru_cache(maxsize=4)
def taken(rows: int, tiles: int, passes: int, inputs_first: bool) -> Mapping[str, Counts]:
    """The steps in which the stored parameters of a layer are taken: weights in every one, a bias with a sum's first.

    The last ones are kept, as a search over implementations asks for the same again.

    Args:
        rows: Sums an output channel, such as the vectors of a frame.
        tiles: Steps a sum.
        passes: Output beats per row.
        inputs_first: Whether the sums of a row take turns, which each want their shifts in every step.
    """
    every = np.arange(rows * tiles * passes, dtype=np.int64)
    first = every.reshape(rows, -1)[:, :passes].reshape(-1) if inputs_first else every[::tiles]
    return {"weight": every, "bias": first, "weight_shift": every if inputs_first else first}


@dataclass(frozen=True)
class Schedule:
    """The steps of ``fixed_matmul``; a step is a word of a tile of rows.

    Args:
        transposed: Vectors meet rows, word by word and then tile by tile; else the other way round.
        causal: Every token sees one row more than the one before it, the last one all rows.
        matrices: Matrices a frame.
        tokens: Tokens a matrix serves.
        heads: Vectors a token.
        groups: Parts of a row; heads in succession share one.
        rows: Rows of a matrix.
        banks: Rows of a tile.
        words: Words of a part of a row.
        capacity: Rows that are held; of slots, tokens whose rows are written before they are read.
        slots: Whether the tokens are of several sequences (:mod:`mase_hw.ops._slots`): of one matrix, each gives it a
            row.
        streamed: Whether the words of the steps come one behind the other, and no rows.
        positions: Of slots: the position of every token in its sequence; one sequence if empty.
    """

    transposed: bool
    causal: bool
    matrices: int
    tokens: int
    heads: int
    groups: int
    rows: int
    banks: int
    words: int
    capacity: int
    slots: bool = False
    streamed: bool = False
    positions: tuple[int, ...] = ()

    @property
    def tiles(self) -> int:
        """Tiles of a matrix."""
        return ceil_div(self.rows, self.banks)

    @property
    def limits(self) -> Counts:
        """Rows that every token of a matrix sees."""
        if self.positions:
            return np.array(self.positions) + 1
        if self.causal:
            return np.arange(self.rows - self.tokens + 1, self.rows + 1)
        return np.full(self.tokens, self.rows)

    @property
    def enough(self) -> int:
        """Rows to hold so that a matrix is written while another one is read, and neither waits for places.

        A place is free again three cycles after its last step. Where matrices come as fast as they are read, beats for
        these cycles must find room as well.
        """
        beats = self.groups * self.words
        if self.causal:
            # Nothing waits for the frame: rows are used as they come.
            return min(2 * self.rows, self.rows + max(self.banks, ceil_div(self.rows, 4)) + ceil_div(4, beats))
        spare = self.tokens * self.heads * self.tiles * self.words - self.rows * beats
        return 2 * self.rows + (ceil_div(4, beats) if spare < 4 else 0)

    @property
    def uneven(self) -> bool:
        """Whether early tokens take so few steps for beats that come, or leave, one a cycle that more of them wait."""
        return self.causal and 4 * self.words <= self.tiles

    def stages(self, pipe: int) -> tuple[Steps, ...]:
        """The schedule of a frame, stage by stage.

        Args:
            pipe: Cycles from a step that completes a result to its being valid.
        """
        steps = self.steps(pipe)
        return (steps, self._fill()) if self.causal and self.transposed else (steps,)

    def _fill(self) -> Steps:
        """Beats of zeros behind those that come."""
        tiles = np.repeat(-(-self.limits // self.banks), self.heads)
        come = np.flatnonzero(np.tile((np.arange(self.tiles) < tiles[:, None]).reshape(-1), self.matrices))
        every = np.arange(self.matrices * len(tiles) * self.tiles)
        return Steps.at(
            len(every), needed=(come,), freed=(come,), emitted=every, delay=(0,), room=(0,), pipe=0, queue=0
        )

    def steps(self, pipe: int) -> Steps:
        """The schedule of what is multiplied; arguments as for :meth:`stages`."""
        # Of every vector of a frame: its tiles, and its first step.
        tiles = np.tile(np.repeat(-(-self.limits // self.banks), self.heads), self.matrices)
        ends = np.cumsum(tiles * self.words)
        starts = ends - tiles * self.words
        needed, freed = self._vectors(starts, tiles)
        fewest = 1 if self.slots else int(tiles.min())
        beats, shortest = (self.words, self.words) if self.transposed else (self.tiles, fewest)
        if self.streamed:
            rows = (np.arange(ends[-1]),) * 2
        elif self.slots:
            # A token is done with its own row at its last step.
            last = ends[self.heads - 1 :: self.heads] - 1
            rows = self.own(starts, tiles), np.repeat(last, self.groups * self.words)
        else:
            rows = self._rows_needed(starts, tiles), self._rows_freed(starts, tiles)
        held = min(2 * self.tiles, 32) if self.uneven and self.transposed else 2
        vectors = 4 if self.uneven and not self.transposed and self.tiles <= 16 else 2
        return Steps.at(
            int(ends[-1]),
            # What the last token does not see is needed by nothing.
            needed=(needed[needed < ends[-1]], rows[0]),
            freed=(freed, rows[1]),
            emitted=self._results(starts, tiles),
            delay=(2, 0 if self.streamed else 2),
            room=(max(vectors * beats, 3), 0 if self.streamed else self.capacity * self.groups * self.words),
            pipe=pipe,
            queue=max((pipe + shortest) // shortest + 1, held),
        )

    def _vectors(self, starts: Counts, tiles: Counts) -> tuple[Counts, Counts]:
        """The step that first needs, and the one that frees, every beat of the vectors."""
        start, many = starts[:, None], tiles[:, None]
        if self.transposed:
            word: Counts = np.arange(self.words)
            return (start + word).reshape(-1), (start + (many - 1) * self.words + word).reshape(-1)
        # Beats that meet no row go with the last one that does, or before the next vector, if they come later.
        tile: Counts = np.arange(self.tiles)
        end: Counts = start + self.words * many
        needed = np.where(tile < many, start + tile, end)
        freed = start + (self.words - 1) * many + np.minimum(tile, many - 1)
        return needed.reshape(-1), freed.reshape(-1)

    def _rows_needed(self, starts: Counts, tiles: Counts) -> Counts:
        """The step that first needs every beat of the matrices.

        Causal, the last row that a token sees is its own; others are needed by the first step of the first token that
        sees them.
        """
        if self.causal:
            own = self.own(starts, tiles).reshape(self.matrices, self.tokens, -1)
            before = np.repeat(starts[:: self.tokens * self.heads], self.groups * self.words)
            rows = np.repeat(before.reshape(self.matrices, 1, -1), self.rows - self.tokens, axis=1)
            return np.concatenate((rows, own), axis=1).reshape(-1)
        return np.repeat(starts[:: self.tokens * self.heads], self.rows * self.groups * self.words)

    def own(self, starts: Counts, tiles: Counts) -> Counts:
        """The step that first needs every beat of a token's own row: one of its last tile of rows."""
        share = self.heads // self.groups
        start, many = starts[::share, None], tiles[::share, None]
        word: Counts = np.arange(self.words)
        at = (many - 1) * self.words + word if self.transposed else (word + 1) * many - 1
        return (start + at).reshape(-1)

    def _rows_freed(self, starts: Counts, tiles: Counts) -> Counts:
        """The step that frees every beat of the matrices: the last of the last vector that meets its tile."""
        per_matrix = self.tokens * self.heads
        start = starts[per_matrix - 1 :: per_matrix, None]
        tile = np.arange(self.rows) // self.banks
        at = (tile + 1) * self.words - 1 if self.transposed else (self.words - 1) * int(tiles[-1]) + tile
        return np.repeat((start + at).reshape(-1), self.groups * self.words)

    def _results(self, starts: Counts, tiles: Counts) -> Counts:
        """The steps that complete results."""
        if self.transposed:
            return np.arange(1, int(tiles.sum()) + 1) * self.words - 1
        words: Counts = np.arange(1, self.words + 1)
        after: Counts = words * tiles[:, None] - 1
        return np.add(starts[:, None], after).reshape(-1)
