"""The order in which the elements of a tensor travel.

A tensor keeps the shape PyTorch gives it; its stream may run in another order: images are streamed channels-last,
and a reshape or a permutation after that only renames elements that travel as before. A :class:`Layout` follows such
renamings exactly, so that they cost no hardware until a reader needs another order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mase_hw.errors import GraphError


@dataclass(frozen=True)
class Layout:
    """Where the elements of a tensor stand in its stream.

    Args:
        shape: The tensor's shape, outermost dimension first.
        factors: Sizes above 1 that cut the row-major sequence of elements, outermost first; every dimension is a
            product of neighbouring ones.
        order: Indices into ``factors``, the one that changes slowest in the stream first.
        row: Elements of a row of the stream, if that is more than its innermost factor; 0 for that factor.

    Layouts that put all elements in the same places are equal: the cut is made as coarse as possible.

    Raises:
        GraphError: If the factors do not make the shape, or the order is no permutation of them.
    """

    shape: tuple[int, ...]
    factors: tuple[int, ...]
    order: tuple[int, ...]
    row: int = 0

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.factors))) or math.prod(self.factors) != math.prod(self.shape):
            raise GraphError(
                "a layout is no permutation of its tensor",
                got=f"factors {list(self.factors)} in the order {list(self.order)}",
                expected=f"factors of {list(self.shape)}",
            )
        factors, order = _coarsest(self.factors, self.order, _cuts(self.shape))
        object.__setattr__(self, "factors", factors)
        object.__setattr__(self, "order", order)
        self._groups()

    @classmethod
    def row_major(cls, shape: Sequence[int]) -> Layout:
        """Innermost dimension first, as the elements lie in memory."""
        return _known(tuple(shape), tuple(shape), tuple(range(len(shape))))

    @classmethod
    def channels_last(cls, shape: Sequence[int]) -> Layout:
        """``(N, C, *spatial)`` streamed as ``(N, *spatial, C)``; below three dimensions row-major."""
        rank = len(shape)
        if rank < 3:
            return cls.row_major(shape)
        return _known(tuple(shape), tuple(shape), (0, *range(2, rank), 1))

    @classmethod
    def tiled(cls, shape: Sequence[int], positions: int) -> Layout:
        """Channels last with tiles of neighbouring positions: of all of a tile one channel, then the next.

        So beats of a tile are cut anywhere among its channels, and a row is all channels of a tile.

        Args:
            shape: ``(N, C, *spatial)``.
            positions: Of a tile, along the last dimension, which they divide; of 1 it is :meth:`channels_last`.
        """
        if positions == 1:
            return cls.channels_last(shape)
        *outer, last = shape
        rank = len(shape)
        order = (0, *range(2, rank), 1, rank)
        return _known(tuple(shape), (*outer, last // positions, positions), order, shape[1] * positions)

    @classmethod
    def abreast(cls, shape: Sequence[int], rows: int) -> Layout | None:
        """Rows of the last dimension, of which tiles of neighbours travel like those of positions.

        Args:
            shape: ``(..., size)``.
            rows: Of a tile; they divide the number of all.

        Returns:
            None if a tile would have rows that lie apart.
        """
        *outer, size = shape
        return cls.tiled((1, size, math.prod(outer)), rows).permuted((0, 2, 1)).reshaped(shape)

    @classmethod
    def tokens(cls, shape: Sequence[int], beside: int) -> Layout:
        """Tokens of several dimensions, of which neighbours travel as rows :meth:`abreast`.

        Row-major where a token is a single element, or where a tile would have tokens of two batches.

        Args:
            shape: ``(..., tokens, heads, size)``.
            beside: Tokens of a tile.
        """
        *outer, tokens, heads, size = shape
        if beside > 1 and heads * size > 1 and tokens % beside == 0:
            found = cls.abreast((*outer, tokens, heads * size), beside)
            if found is not None and (made := found.reshaped(shape)) is not None:
                return made
        return cls.row_major(shape)

    @property
    def positions(self) -> int:
        """Positions of a tile, as :meth:`tiled` takes them; 1 for every other layout."""
        if not self.row or len(self.shape) < 3 or self.row % self.shape[1]:
            return 1
        positions = self.row // self.shape[1]
        return positions if self.shape[-1] % positions == 0 and self == Layout.tiled(self.shape, positions) else 1

    @property
    def beside(self) -> int:
        """Neighbours that a beat has of every element of a row: positions of a tile, however its dimensions are called.

        A transposition of a tile has them too: of channels behind each other, neighbours along another dimension.
        """
        if not self.row or len(self.order) < 2 or self.positions > 1:
            return self.positions
        *_, element, neighbour = self.order
        apart = not any({element, neighbour} <= set(group) for group in self._groups())
        both = self.factors[element] * self.factors[neighbour]
        return self.factors[neighbour] if apart and self.row % both == 0 else 1

    def of_rows(self, size: int) -> Layout | None:
        """The same order of rows of the last dimension with another size; None if they are not several abreast.

        Args:
            size: Of a row, more than 1.
        """
        last = self.factors_of(len(self.shape) - 1) if self.shape else []
        if self.beside == 1 or size == 1 or [self.order[-2]] != last:
            return None
        return self.resized(len(self.shape) - 1, size)

    def resized(self, dim: int, size: int) -> Layout | None:
        """The same order with another size of a dimension; None if it travels in parts that this does not divide.

        Args:
            dim: The dimension, not negative, of more than one element.
            size: Its size; of neighbours of a beat, so many beats.
        """
        own, row = self.factors_of(dim), self.row
        if self.beside > 1 and own[-1:] == [self.order[-1]] and size % self.beside == 0:
            return self._more_tiles(dim, size)
        if len(own) != 1 or (row and (self.beside == 1 or own[0] == self.order[-1])):
            return None
        (i,) = own
        if math.prod(self.factors[j] for j in self.order[self.order.index(i) + 1 :]) < row:
            row = row // self.factors[i] * size
        shape, factors = list(self.shape), list(self.factors)
        shape[dim] = factors[i] = size
        return Layout(tuple(shape), tuple(factors), self.order, row)

    def _more_tiles(self, dim: int, size: int) -> Layout | None:
        """With another number of tiles of the neighbours that a beat has; None if their tiles lie apart."""
        one, beside = self.one_by_one, self.beside
        if len(one.factors_of(dim)) != 1:
            return None
        (own,) = one.factors_of(dim)
        place = one.order.index(own)
        if math.prod(one.factors[i] for i in one.order[place + 1 :]) * beside != self.row:
            return None
        shape = (*self.shape[:dim], size, *self.shape[dim + 1 :])
        factors = (*one.factors[:own], size // beside, beside, *one.factors[own + 1 :])
        outer, inner = ([i + (i > own) for i in part] for part in (one.order[:place], one.order[place + 1 :]))
        return Layout(shape, factors, (*outer, own, *inner, own + 1), self.row)

    @property
    def one_by_one(self) -> Layout:
        """The order with one position a beat; that of every other layout is its own."""
        return self.fewer(1)

    def fewer(self, beside: int) -> Layout:
        """The order with fewer positions in a beat; that of every other layout is its own.

        Args:
            beside: So many, which divide those that there are.
        """
        if self.beside == 1:
            return self
        row, order, inside = self.row // self.beside * beside if beside > 1 else 0, list(self.order), 1
        while order and inside * self.factors[order[-1]] <= self.row:
            inside *= self.factors[order.pop()]
        if inside != self.row:  # of rows of one element, whose neighbours follow each other anyway
            return Layout(self.shape, self.factors, self.order, row)
        *elements, last = self.order[len(order) :]
        factors = (*self.factors[:last], self.factors[last] // beside, beside, *self.factors[last + 1 :])
        outer, inner = ([i + (i > last) for i in part] for part in (order, elements))
        return Layout(self.shape, factors, (*outer, last, *inner, last + 1), row)

    @property
    def is_row_major(self) -> bool:
        """Whether the stream runs as the elements lie in memory."""
        return self.order == tuple(range(len(self.order)))

    @property
    def stream_shape(self) -> tuple[int, ...]:
        """Sizes in stream order, the slowest first; if row-major the shape, but for sizes of 1 at its end."""
        if self.row:
            sizes, inner = [self.factors[i] for i in self.order], self.row
            while sizes and inner % sizes[-1] == 0:
                inner //= sizes.pop()
            return (*sizes[:-1], sizes[-1] // inner, self.row) if inner > 1 else (*sizes, self.row)
        if self.is_row_major:
            kept = len(self.shape)
            while kept > 1 and self.shape[kept - 1] == 1:
                kept -= 1
            return self.shape[:kept]
        return tuple(self.factors[i] for i in self.order)

    def _groups(self) -> list[list[int]]:
        """The factors of every dimension."""
        groups: list[list[int]] = []
        at = 0
        for size in self.shape:
            group: list[int] = []
            while math.prod(self.factors[i] for i in group) < size and at < len(self.factors):
                group.append(at)
                at += 1
            if math.prod(self.factors[i] for i in group) != size:
                raise GraphError(
                    "the factors of a layout do not make its dimensions", got=list(self.factors), expected=self.shape
                )
            groups.append(group)
        return groups

    def factors_of(self, dim: int) -> list[int]:
        """Indices of the factors that make a dimension, outermost first; none for a size of 1."""
        return self._groups()[dim]

    def permuted(self, dims: Sequence[int]) -> Layout:
        """The layout after ``tensor.permute(dims)``; no element moves."""
        groups = self._groups()
        kept = [i for d in dims for i in groups[d]]
        place = {old: new for new, old in enumerate(kept)}
        return Layout(
            tuple(self.shape[d] for d in dims),
            tuple(self.factors[i] for i in kept),
            tuple(place[i] for i in self.order),
            self.row,
        )

    def reshaped(self, shape: Sequence[int]) -> Layout | None:
        """The layout after ``tensor.reshape(shape)``; None if a dimension would straddle parts that lie apart.

        Raises:
            GraphError: If the shape has another number of elements.
        """
        if math.prod(shape) != math.prod(self.shape):
            raise GraphError("a reshape changes the number of elements", got=list(shape), expected=list(self.shape))
        if self.is_row_major:
            return _known(tuple(shape), tuple(shape), tuple(range(len(shape))), self.row)
        parts: dict[int, list[int]] = {i: [] for i in range(len(self.factors))}
        sizes: list[int] = []
        at, left = 0, self.factors[0] if self.factors else 1
        for size in shape:
            while size > 1:
                step = math.gcd(size, left)
                if step != min(size, left):
                    return None
                parts[at].append(len(sizes))
                sizes.append(step)
                size, left = size // step, left // step
                if left == 1 and at + 1 < len(self.factors):
                    at += 1
                    left = self.factors[at]
        return Layout(tuple(shape), tuple(sizes), tuple(j for i in self.order for j in parts[i]), self.row)

    def cut_first(self, parts: int) -> Layout:
        """The layout in which the innermost factor of the stream is cut, and its first part changes slowest.

        Args:
            parts: Into so many; they divide that factor.
        """
        *outer, inner = self.order
        factors = (*self.factors[:inner], parts, self.factors[inner] // parts, *self.factors[inner + 1 :])
        return Layout(self.shape, factors, (inner, *(i + (i > inner) for i in outer), inner + 1))

    def rows_in_order(self) -> bool:
        """Whether only elements of the last dimension change places."""
        last = self._groups()[-1] if self.shape else []
        outer = len(self.factors) - len(last)
        return self.order[:outer] == tuple(range(outer))

    def last_dimension(self) -> Layout:
        """The order of the elements of one row; only where :meth:`rows_in_order`."""
        last = self._groups()[-1] if self.shape else []
        outer = len(self.factors) - len(last)
        size = self.shape[-1] if self.shape else 1
        return Layout((size,), self.factors[outer:], tuple(i - outer for i in self.order[outer:]))

    def to_stream(self, tensor: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """``(frames, *shape)`` -> ``(frames, elements)`` in the order of the stream."""
        frames = tensor.shape[0]
        cut = tensor.reshape(frames, *self.factors)
        return cut.transpose(0, *(i + 1 for i in self.order)).reshape(frames, -1)

    def from_stream(self, elements: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The inverse of :meth:`to_stream`; takes any shape of that many elements behind the frames."""
        frames = elements.shape[0]
        cut = elements.reshape(frames, *(self.factors[i] for i in self.order))
        back = np.argsort(self.order)
        return cut.transpose(0, *(int(i) + 1 for i in back)).reshape(frames, *self.shape)

    def index_of(self, position: int) -> tuple[int, ...]:
        """Index in the tensor of the element at a place of the stream."""
        place = [0] * len(self.factors)
        for factor in reversed(self.order):
            position, place[factor] = divmod(position, self.factors[factor])
        flat = 0
        for size, digit in zip(self.factors, place, strict=True):
            flat = flat * size + digit
        index = []
        for size in reversed(self.shape):
            flat, digit = divmod(flat, size)
            index.append(digit)
        return tuple(reversed(index))

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        found = {"shape": list(self.shape), "factors": list(self.factors), "order": list(self.order)}
        return {**found, "row": self.row} if self.row else found

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Layout:
        """The inverse of :meth:`to_dict`."""
        shape, factors, order = (tuple(document[key]) for key in ("shape", "factors", "order"))
        return _known(shape, factors, order, document.get("row", 0))


@functools.lru_cache(maxsize=4096)
def _known(shape: tuple[int, ...], factors: tuple[int, ...], order: tuple[int, ...], row: int = 0) -> Layout:
    """A layout; a network asks again and again for those of its few shapes."""
    return Layout(shape, factors, order, row)


def _cuts(shape: Sequence[int]) -> set[int]:
    """Numbers of elements behind every border between dimensions."""
    return {math.prod(shape[i:]) for i in range(1, len(shape))}


def _coarsest(factors: Sequence[int], order: Sequence[int], cuts: set[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Drop factors of 1 and join neighbours that stay neighbours, but not across the border of a dimension."""
    runs: list[list[int]] = []
    for i in order:
        if factors[i] == 1:
            continue
        after = runs[-1][-1] + 1 if runs else 0
        follows = bool(runs) and i >= after and all(size == 1 for size in factors[after:i])
        if follows and math.prod(factors[after:]) not in cuts:
            runs[-1].append(i)
        else:
            runs.append([i])
    logical = sorted(runs)
    sizes = tuple(math.prod(factors[i] for i in run) for run in logical)
    return sizes, tuple(logical.index(run) for run in runs)
