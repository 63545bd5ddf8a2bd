"""What ops of rows share: which stream they take, and when a FIFO of rows moves.

``exp(-scale * d)`` of distances, from memory: one table, or the product of two where the distance has many bits.

The result falls with ``d`` by construction: a table is made so, and in a product the fine factor falls within one
coarse factor, and a coarse factor is at most the one before it times the smallest fine one. So an element that is
larger never gets the smaller exponential.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import ExponentTables, Params
from mase_hw.layouts import Layout
from mase_hw.numerics import as_carrier, carrier
from mase_hw.numerics.exact_sums import shifted_product
from mase_hw.opdef import Memory, Request
from mase_hw.ops._elementwise import ElementwiseParams
from mase_hw.ops._functions import TABLE_BITS, entry
from mase_hw.steps import Steps
from mase_hw.streams import ceil_div


def row_steps(beats: int, length: int, *, note: int, row: int = 0) -> Steps:
    """The schedule of a ``row_fifo``: a beat leaves when its row is there whole and something is known of it.

    Args:
        beats: Beats per frame.
        length: Beats of a row.
        note: Cycles from the last beat of a row to the first one that can leave.
        row: Where rows are parts of longer ones: beats of those, whose last part may be shorter. 0 if they are not.
    """
    each = np.arange(beats, dtype=np.int64)
    within = each % (row or beats)
    return Steps.at(
        beats,
        needed=[each - within % length],
        freed=[each],
        emitted=each,
        delay=[note],
        room=[length + note],
        pipe=0,
        queue=0,
    )


def relayout(layout: Layout, shape: Sequence[int], attributes: Attributes) -> Layout | None:
    """Rows may come in any order of rows, each from its first element to its last: in one piece, or several abreast."""
    last = layout.factors_of(len(layout.shape) - 1) if layout.shape else []
    in_order = not last or (len(last) == 1 and layout.order[-1 if layout.beside == 1 else -2] == last[0])
    return Layout(tuple(shape), layout.factors, layout.order, layout.row) if in_order else None


def abreast(r: Request) -> int:
    """Rows of a beat, of which it has the same elements."""
    return r.layouts["data_in_0"].beside if "data_in_0" in r.layouts else 1


class RowPorts(Params, frozen=True):
    """Base of a module of rows, dimension 0, of which lanes along dimension 1 are neighbours in a beat."""

    def positions(self, name: str) -> int:
        """Rows of a beat."""
        lanes: tuple[int, ...] = getattr(self, name).lanes
        return lanes[1]

    def layout(self, name: str) -> Layout | None:
        """Of several rows in a beat: lane ``element * rows + row``."""
        rows = self.positions(name)
        return Layout.abreast(getattr(self, name).shape, rows) if rows > 1 else None


class RowParams(RowPorts, ElementwiseParams, frozen=True):
    """Parameters of a module of rows that gives as many elements as it takes."""


def row_shape(r: Request, name: str = "data_in_0") -> tuple[int, int]:
    """Rows of a frame, and elements of a row."""
    shape = r.shapes[name] or (1,)
    rows = 1
    for size in shape[:-1]:
        rows *= size
    return rows, shape[-1]


def along(attributes: Attributes, rank: int) -> int:
    """The dimension of the rows, not negative: the last one once lowered; PyTorch's own choice if none is named."""
    if "size" in attributes:
        return max(rank - 1, 0)
    dim = attributes.get("dim")
    if dim is None:
        return 0 if rank in (0, 1, 3) else 1
    return operator.index(dim) % max(rank, 1)


def tiles_of(size: int, lanes: int) -> int:
    """Beats of a row."""
    return ceil_div(size, lanes)


def lowered_size(r: Request) -> int:
    """Elements of a row, as ``lower_rows_transform_pass`` has written them.

    Raises:
        UnsupportedError: If it has not run.
    """
    size = r.arithmetic.attributes.get("size")
    if size is None:
        rank = len(r.shapes["data_in_0"])
        if rank > 1 and along(r.arithmetic.attributes, rank) == 0:
            raise UnsupportedError(
                "rows along dimension 0 would mix frames",
                node=r.node,
                field="dim",
                got=r.arithmetic.attributes.get("dim"),
                expected="another dimension",
                remedy="name the dimension that is meant, for example dim=-1",
            )
        raise UnsupportedError(
            "rows of this op are not along the last dimension yet",
            node=r.node,
            remedy="run lower_rows_transform_pass before the graph is calibrated, as compile does",
        )
    return int(size)


WORST = 0.625
"""Largest error of an exponential, in its LSBs, the rounding included."""
_GUARDS = (4, 6, 8, 10)
_WIDEST = 42

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Exponent:
    """All that fixes the bits of ``exp(-scale * d * 2**-source)``.

    Args:
        frac: Fraction bits of the result; 1 has the mantissa ``2**frac``.
        index: Bits of a distance that count; from ``2**index`` on the result is 0.
        fine: Low bits of them that have a factor of their own; 0 for one table.
        factor: Fraction bits of the factors; 0 for one table.
        coarse_table: Results, or factors, by the bits above.
        fine_table: Factors by the low bits; empty for one table.
    """

    frac: int
    index: int
    fine: int
    factor: int
    coarse_table: Ints
    fine_table: Ints

    @property
    def dropped(self) -> int:
        """Bits of a product of two factors that the result does not have."""
        return 2 * self.factor - self.frac

    @functools.cached_property
    def tables(self) -> tuple[Tensor, Tensor]:
        """Both, the first with the 0 of all greater distances behind it, in the carrier of what is made of them."""
        bound = (1 << 2 * self.factor) + (1 << self.dropped - 1) if self.fine else 1 << self.frac
        dtype = carrier(min(bound, 1 << 62))  # of products beyond that there is none
        coarse, fine = np.append(self.coarse_table, 0), self.fine_table
        return torch.from_numpy(coarse).to(dtype), torch.from_numpy(fine).to(dtype)

    def parameters(self, fast: bool) -> ExponentTables:
        """Those of the hardware, with the registers of a fast clock or without."""
        stages = (5 if fast else 3) if self.fine else 2
        return ExponentTables(self.frac, self.index, self.fine, self.factor, stages)

    def memories(self) -> dict[str, Memory]:
        """The tables as the hardware reads them."""
        bits = (self.factor if self.fine else self.frac) + 1
        found = {"COARSE_FILE": Memory(tuple(self.coarse_table.tolist()), bits)}
        if self.fine:
            found["FINE_FILE"] = Memory(tuple(self.fine_table.tolist()), bits)
        return found


@functools.lru_cache(maxsize=64)
def exponent(width: int, source: int, frac: int, scale: float = 1.0) -> Exponent:
    """The tables for distances of ``width`` bits with ``source`` fraction bits.

    Args:
        width: Bits of a distance, which is not negative.
        source: Its fraction bits.
        frac: Fraction bits of the result.
        scale: What distances are multiplied with, above 0: it is in the tables, so it costs nothing and is exact.

    Raises:
        FormatError: If the tables or their product would be too wide.
    """
    # From here on every result rounds to 0.
    limit = math.log(2.0) * (frac + 1)
    last = int(min(math.ceil(math.ldexp(limit / scale, source)), 1 << width)) if source < 64 else 1 << width
    index = max(1, min(width, last.bit_length()))
    if frac > _WIDEST:
        raise _too_wide(frac)
    if index <= TABLE_BITS:
        return Exponent(frac, index, 0, 0, _falling(index, 0, source, frac, scale), np.zeros(0, np.int64))
    if index > 2 * TABLE_BITS:
        raise FormatError(
            "the exponential of a distance of so many bits needs too large a memory",
            got=f"{index} bits",
            expected=f"at most {2 * TABLE_BITS}",
            remedy="use fewer fraction bits for the input",
        )
    fine = index // 2
    for guard in _GUARDS:
        factor = frac + guard
        low, high = _falling(fine, 0, source, factor, scale), _falling(index - fine, fine, source, factor, scale)
        most = int(low[-1])
        for at in range(1, len(high)):
            high[at] = min(high[at], int(high[at - 1]) * most >> factor)
        off = sum(np.abs(t - _exact(t, s, source, factor, scale)).max() for t, s in ((low, 0), (high, fine)))
        if 0.5 + float(off) * 2.0**-guard <= WORST:
            return Exponent(frac, index, fine, factor, high, low)
    raise _too_wide(frac)


def _too_wide(frac: int) -> FormatError:
    return FormatError(
        "the exponentials of these formats are too wide",
        got=f"{frac} fraction bits",
        expected=f"at most {_WIDEST}",
        remedy="use fewer fraction bits for the output, or shorter rows",
    )


def _exact(table: Ints, shift: int, source: int, frac: int, scale: float) -> npt.NDArray[np.float64]:
    """The exponentials in LSBs, in float64."""
    steps = torch.arange(len(table), dtype=torch.float64) * math.ldexp(scale, shift - source)
    return np.asarray((torch.exp(-steps) * math.ldexp(1.0, frac)).numpy(), dtype=np.float64)


def _falling(bits: int, shift: int, source: int, frac: int, scale: float) -> Ints:
    """Rounded exponentials of ``k * 2**(shift - source)``, none above the one before it."""
    exact = _exact(np.zeros(1 << bits, np.int64), shift, source, frac, scale)
    return np.minimum.accumulate(np.rint(exact).astype(np.int64))


def evaluate(plan: Exponent, distance: Tensor) -> Tensor:
    """Exponentials of distances of any shape, which are written, on their device, in the carrier of the largest."""
    d = distance.clamp_(max=1 << plan.index).to(torch.int32)
    coarse, fine = plan.tables
    if not plan.fine:
        return entry(coarse, d)
    high, low, drop = entry(coarse, d >> plan.fine), entry(fine, d & ((1 << plan.fine) - 1)), plan.dropped
    if high.dtype == torch.int64:
        return as_carrier(shifted_product(high, low, drop), carrier(1 << plan.frac))
    return as_carrier((high * low).mul_(2.0**-drop).add_(0.5).floor_(), carrier(1 << plan.frac))
