"""What ops of rows share: which stream they take, and when a FIFO of rows moves."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mase_hw.errors import UnsupportedError
from mase_hw.layouts import Layout
from mase_hw.opdef import Request
from mase_hw.steps import Steps
from mase_hw.streams import ceil_div


def row_steps(beats: int, length: int, *, note: int) -> Steps:
    """The schedule of a ``row_fifo``: a beat leaves when its row is there whole and something is known of it.

    Args:
        beats: Beats per frame.
        length: Beats of a row.
        note: Cycles from the last beat of a row to the first one that can leave.
    """
    each = np.arange(beats, dtype=np.int64)
    return Steps.at(
        beats,
        needed=[each // length * length],
        freed=[each],
        emitted=each,
        delay=[note],
        room=[length + note],
        pipe=0,
        queue=0,
    )


def relayout(layout: Layout, shape: Sequence[int], attributes: Mapping[str, Any]) -> Layout | None:
    """Rows may come in any order of rows, each in one piece and from its first element to its last."""
    last = layout.factors_of(len(layout.shape) - 1) if layout.shape else []
    in_order = not last or (len(last) == 1 and layout.order[-1] == last[0])
    return Layout(tuple(shape), layout.factors, layout.order) if in_order else None


def row_shape(r: Request, name: str = "data_in_0") -> tuple[int, int]:
    """Rows of a frame, and elements of a row."""
    shape = r.shapes[name] or (1,)
    rows = 1
    for size in shape[:-1]:
        rows *= size
    return rows, shape[-1]


def along(attributes: Mapping[str, Any], rank: int) -> int:
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
