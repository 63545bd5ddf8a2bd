"""Which part a dimension of the stream plays in a reduction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from mase_hw.layouts import Layout


@dataclass(frozen=True)
class Roles:
    """The dimensions of a stream, joined by the part they play, innermost first.

    Args:
        inner: The innermost dimension is reduced; its beats become one lane.
        innermost: Size of the innermost dimension.
        reduced_1: Size of the reduced dimensions beside it, or of itself if it is reduced.
        kept_1: Size of the kept dimensions further out.
        reduced_2: Size of the reduced ones further out.
        rounds: Size of the kept ones that are outermost.
    """

    inner: bool
    innermost: int
    reduced_1: int
    kept_1: int
    reduced_2: int
    rounds: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Five sizes, the slowest first."""
        if self.inner:
            return (1, self.rounds, self.reduced_2, self.kept_1, self.reduced_1)
        return (self.rounds, self.reduced_2, self.kept_1, self.reduced_1, self.innermost)

    @property
    def left(self) -> tuple[int, ...]:
        """The same of the result."""
        if self.inner:
            return (1, self.rounds, 1, self.kept_1, 1)
        return (self.rounds, 1, self.kept_1, 1, self.innermost)

    @classmethod
    def of(cls, layout: Layout, dims: Sequence[int]) -> Roles | None:
        """The roles of a layout's factors; None if they change too often.

        Args:
            layout: Order in which the tensor travels.
            dims: Dimensions that are reduced, not negative.
        """
        reduced = {factor for dim in dims for factor in layout.factors_of(dim)}
        flags = [(factor in reduced, layout.factors[factor]) for factor in reversed(layout.order)] or [(False, 1)]
        inner, innermost = flags[0]
        groups = [(flag, math.prod(size for _, size in run)) for flag, run in groupby(flags[1:], lambda f: f[0])]
        # The roles that follow the innermost dimension, in order; one without dimensions has size 1.
        sizes = []
        for role in (False, True, False) if inner else (True, False, True, False):
            sizes.append(groups.pop(0)[1] if groups and groups[0][0] == role else 1)
        if groups:
            return None
        if inner:
            return cls(True, innermost, innermost, *sizes)
        return cls(False, innermost, *sizes)


def kept_layout(layout: Layout, shape: Sequence[int], dims: Sequence[int]) -> Layout:
    """The order of what a reduction leaves: that of the kept factors.

    Args:
        layout: Order of the input.
        shape: Shape of the result; reduced dimensions are gone or have size 1.
        dims: Dimensions that are reduced, not negative.
    """
    reduced = {factor for dim in dims for factor in layout.factors_of(dim)}
    kept = [factor for factor in range(len(layout.factors)) if factor not in reduced]
    order = [kept.index(factor) for factor in layout.order if factor not in reduced]
    return Layout(tuple(shape), tuple(layout.factors[factor] for factor in kept), tuple(order))
