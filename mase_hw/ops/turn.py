"""Turn: the elements of a beat in another order.

No model contains it: the netlist puts one where beats of several positions (:meth:`mase_hw.layouts.Layout.tiled`)
become beats of another number of them. All channels of the larger tile are brought into one beat, in which only wires
change places; what comes before and after it are plain repacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from mase_hw.formats import FixedFormat
from mase_hw.formats.attributes import Attributes
from mase_hw.layouts import Layout
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef
from mase_hw.ops.structural import BufferParams, not_requested
from mase_hw.steps import Steps
from mase_hw.streams import SIDES, Stream, plain_stream


@dataclass(frozen=True)
class Turn:
    """A matrix of groups of elements in a beat, that is transposed.

    Args:
        rows: Of the beat that comes.
        columns: Likewise.
        inner: Elements of a group.
    """

    rows: int
    columns: int
    inner: int

    @property
    def lanes(self) -> int:
        """Elements of a beat."""
        return self.rows * self.columns * self.inner

    def params(self, width: int) -> TurnParams:
        """Parameters of ``beat_turn`` for elements of so many bits."""
        return TurnParams(width * self.inner, self.rows, self.columns)


def tiles_within(have: Layout, want: Layout) -> Turn | None:
    """What turns beats of one number of positions into beats of another; None for other changes of order.

    Args:
        have: Order in which elements come.
        want: Order in which they leave.
    """
    few, many = sorted((have.beside, want.beside))
    if many == 1 or many % few or have.one_by_one != want.one_by_one or have == want:
        return None
    larger, smaller = (have, want) if have.beside == many else (want, have)
    if few > 1 and larger.fewer(few) != smaller:
        return None
    elements = max(have.row, want.row) // many
    rows, columns = (elements, many // few) if have.beside == many else (many // few, elements)
    return Turn(rows, columns, few)


class TurnParams(BufferParams, frozen=True):
    """Parameters of ``beat_turn``: bits of a group, rows and columns of the matrix of them."""

    rows: int
    columns: int

    def streams(self) -> tuple[Stream, ...]:
        """One in, one out; a beat, which is a frame, is a matrix of groups."""
        fmt, lanes = FixedFormat(self.width, 0, signed=False), self.rows * self.columns
        return tuple(plain_stream(side, (1, lanes), fmt, lanes) for side in SIDES)

    def attributes(self) -> Attributes:
        """The matrix."""
        return {"shape": (self.rows, self.columns)}


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``in_data (beats, rows * columns)`` -> ``out_data`` with the matrix of every beat transposed."""
    given = t["in_data"]
    matrix = given.reshape(*given.shape[:-1], *a.attributes["shape"])
    return {"out_data": matrix.transpose(-1, -2).reshape(given.shape)}


OPS = (
    OpDef(
        name="turn",
        golden=golden,
        formats=(),
        hardware=Hardware(
            module="beat_turn",
            file="lib/beat_turn.sv",
            params=TurnParams,
            build=not_requested,
            latency=lambda _: Latency.from_steps(Steps.registered(1)),
            cases=lambda: [Case(f"{r}x{c}", TurnParams(w, r, c), 20) for w, r, c in ((5, 3, 2), (8, 2, 5), (3, 1, 4))],
        ),
    ),
)
