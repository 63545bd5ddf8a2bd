"""Operations of ONNX on what is known: sizes, places and masks, which exporters compute in the file."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from mase_hw.importers.graph import MANY, MOST_ELEMENTS, Ref, Refused
from mase_hw.importers.onnx.elements import DTYPES
from mase_hw.importers.onnx.shapes import rows_of_frame
from mase_hw.importers.onnx.step import Step
from mase_hw.ir.export.frames import dimension


def _folded(function: Callable[..., Tensor], s: Step) -> Tensor:
    """A function of tensors that are all known."""
    return function(*(s.known(i, "an operand") for i in range(len(s.inputs))))


def mod(s: Step) -> Ref:
    """``Mod``."""
    function = torch.fmod if s.node.get("fmod", 0) else torch.remainder
    divisor = s.any(1)
    if isinstance(divisor, Tensor) and not divisor.dtype.is_floating_point and bool((divisor == 0).any()):
        raise Refused("a division of integers by zero")
    return s.call(function, s.any(0), divisor)


def triangle(s: Step) -> Ref:
    """``Trilu``: of data, a product with ones and zeros."""
    upper, shift = s.node.get("upper", 1), s.numbers(1, "the diagonal")[0] if s.has(1) else 0
    function = torch.triu if upper else torch.tril
    x = s.any(0)
    if abs(shift) > 1 << 16 or len(s.shape()) < 2:
        raise Refused(f"the diagonal {shift} of {list(s.shape())}")
    if isinstance(x, Tensor):
        return function(x, shift)
    rows = s.shape()[-2:]
    if s.writer.frames_dim(x) in (len(s.shape()) - 1, len(s.shape()) - 2):
        raise Refused("it works along the batch", "frames are computed one by one")
    return s.call(torch.mul, x, function(torch.ones(rows), shift))


def eye(s: Step) -> Tensor:
    """``EyeLike``."""
    rows, columns = s.shape()
    dtype = DTYPES.get(s.node.get("dtype", 1), torch.float32)
    row = torch.arange(rows).reshape(-1, 1) + s.node.get("k", 0)
    return torch.eq(row, torch.arange(columns)).to(dtype)


def tile(s: Step) -> Ref:
    """``Tile``."""
    times, given = s.numbers(1, "the repetitions"), s.shape()
    if len(times) != len(given) or any(n < 1 for n in times) or math.prod(times) * math.prod(given) > MOST_ELEMENTS:
        raise Refused(f"{times} repetitions of {list(given)}")
    for axis, count in enumerate(times):
        if count > 1:
            s.frame_axis(axis)
    return s.any(0) if set(times) <= {1} else s.writer.method("repeat", s.any(0), *times)


def one_hot(s: Step) -> Ref:
    """``OneHot``: rows of a table, which ids choose; the classes come last."""
    depth, ends = s.numbers(1, "the number of classes"), s.known(2, "the values").reshape(-1)
    axis, ids = s.axis(s.node.get("axis", -1), len(s.shape()) + 1), s.any(0)
    if len(depth) != 1 or not 0 < depth[0] < 1 << 16 or ends.numel() != 2 or axis != len(s.shape()):
        raise Refused(f"{depth} classes with {ends.tolist()!r:.60} along the axis {axis}", "use the last axis")
    off, on = ends.float().tolist()
    rows = torch.eye(depth[0]) * (on - off) + off
    if isinstance(ids, Tensor):
        return rows[ids.long() % depth[0]]
    return s.table(rows, ids)


def cast_like(s: Step) -> Ref:
    """``CastLike``."""
    s.node.get("saturate", 1)
    dtype = s.writer.like(s.any(1)).dtype
    x = s.any(0)
    return x if s.writer.like(x).dtype == dtype else s.writer.method("to", x, dtype)


def chosen(s: Step, take: Callable[[Tensor], Tensor]) -> Ref:
    """Elements of the first input at known places.

    Args:
        s: The node.
        take: Gives the result for a tensor in the place of the input.
    """
    x, given = s.any(0), s.shape()
    if isinstance(x, Tensor):
        return take(x)
    frames, places = s.writer.frames_dim(x), torch.arange(math.prod(given)).reshape(given)
    found = take(places)
    if frames is None or given[frames] != 1:
        raise Refused("its places are not within a frame")
    try:
        twice = dimension(tuple(found.shape), take(torch.cat([places, places], frames)))
    except (RuntimeError, IndexError):
        twice = None
    where = next((i for i in (twice, frames) if i is not None and i < found.dim() and found.shape[i] == 1), None)
    front = s.call(torch.permute, x, (frames, *(i for i in range(len(given)) if i != frames))) if frames else x
    flat = s.writer.reshape(front, (1, places.numel()))
    if not torch.equal(found.reshape(-1), places.reshape(-1)):
        flat = s.call(torch.index_select, flat, 1, found.reshape(-1))
    if not where:
        return s.writer.reshape(flat, tuple(found.shape))
    others = [n for i, n in enumerate(found.shape) if i != where]
    made = s.writer.reshape(flat, (1, *others))
    order = list(range(1, len(others) + 1))
    return s.call(torch.permute, made, (*order[:where], 0, *order[where:]))


def gather_elements(s: Step) -> Ref:
    """``GatherElements``."""
    places, shape = s.any(1), s.shape()
    axis = s.axis(s.node.get("axis", 0), len(shape))
    s.frame_axis(axis)
    if not isinstance(places, Tensor):
        return s.call(torch.take_along_dim, *s.writer.in_every_frame([s.any(0), places])[:1], places, axis)
    size = shape[axis]
    if not bool(((places >= -size) & (places < size)).all()):
        raise Refused(f"places that are not among the {size} of the axis {axis}")
    return chosen(s, lambda x: torch.gather(x, axis, places.long() % size))


def gather_nd(s: Step) -> Ref:
    """``GatherND`` at known places, or of the rows of each frame that data names."""
    shape = s.shape()
    if isinstance(s.any(1), fx.Node):
        return _rows_named(s, s.shape(1))
    places = s.known(1, "places")
    batch, count = s.node.get("batch_dims", 0), places.shape[-1] if places.dim() else 0
    if not 0 <= batch < places.dim() or not 0 < count <= len(shape) - batch:
        raise Refused(f"places of the shape {list(places.shape)} in {list(shape)}")
    size = torch.tensor(shape[batch : batch + count])
    if places.dtype.is_floating_point or not bool(((places >= -size) & (places < size)).all()):
        raise Refused(f"places that are not in {list(shape)}")
    if batch and tuple(places.shape[:batch]) != tuple(shape[:batch]):
        raise Refused(f"places for {list(places.shape[:batch])} of {list(shape[:batch])}")
    index = (places.long() % size).unbind(-1)
    rows = [torch.arange(n).reshape(-1, *[1] * (places.dim() - 2 - i)) for i, n in enumerate(shape[:batch])]
    return chosen(s, lambda x: x[(*rows, *index)])


def _rows_named(s: Step, sizes: Sequence[int]) -> Ref:
    """Rows at places that are data; the number of the frame stands before that of the row, or is that of its batch."""
    shape, batch = s.shape(), s.node.get("batch_dims", 0)
    if shape[0] != 1 or s.writer.frames_dim(s.any(0)) != 0 or (batch, sizes[-1]) not in ((0, 2), (1, 1)):
        raise Refused("places that are data", "take rows of a frame by their number")
    column = (*[slice(None)] * (len(sizes) - 1), slice(sizes[-1] - 1, None))
    last = s.any(1) if batch else s.call(operator.getitem, s.any(1), column)
    return rows_of_frame(s, s.any(0), shape[1:], last, sizes[:-1])


def scatter_nd(s: Step) -> Ref:
    """``ScatterND`` at known places: elements, or rows, in the place of others."""
    places, shape = s.known(1, "places"), s.shape()
    size = torch.tensor(shape[: places.shape[-1]])
    if not bool(((places >= -size) & (places < size)).all()):
        raise Refused(f"places that are not in {list(shape)}")
    index = tuple((places.long() % size).reshape(-1, places.shape[-1]).T)
    return _scattered(s, torch.arange(math.prod(shape)).reshape(shape)[index])


def scatter_elements(s: Step) -> Ref:
    """``ScatterElements`` at known places."""
    places, shape = s.known(1, "places"), s.shape()
    axis = s.axis(s.node.get("axis", 0), len(shape))
    s.frame_axis(axis)
    size = shape[axis]
    if not bool(((places >= -size) & (places < size)).all()):
        raise Refused(f"places that are not among the {size} of the axis {axis}")
    numbers = torch.arange(math.prod(shape)).reshape(shape)
    return _scattered(s, numbers.gather(axis, places.long() % size))


REDUCTIONS = {"add": torch.add, "mul": torch.mul, "max": torch.maximum, "min": torch.minimum}
"""What a scatter does with an element and that which is written there."""


def _scattered(s: Step, places: Tensor) -> Ref:
    """Values at known places of the first input, which are numbers of its elements."""
    x, values, shape, kind = s.any(0), s.any(2), s.shape(), s.node.get("reduction", "none")
    if kind != "none" and kind not in REDUCTIONS:
        raise Refused(f"the reduction {kind}")
    written = places.reshape(-1)
    if isinstance(x, Tensor) and isinstance(values, Tensor) and kind == "none":
        made = x.reshape(-1).clone()
        made[written] = values.reshape(-1)
        return made.reshape(shape)
    if s.of_many is not None and math.prod(s.for_many().shape(1)) % MANY:
        raise Refused("it writes some frames of a batch, or fixes their number")
    x, values = s.writer.in_every_frame([x, values])
    numbers = torch.arange(math.prod(shape)).reshape(shape)
    for dim in range(1, len(shape) if kind == "none" else 0):
        found = set((written // math.prod(shape[dim + 1 :]) % shape[dim]).tolist())
        rows = torch.tensor(sorted(found))
        if torch.equal(numbers.index_select(dim, rows).reshape(-1), written):
            part = s.writer.reshape(values, (*shape[:dim], len(rows), *shape[dim + 1 :]))
            return s.call(torch.index_copy, x, dim, rows, part)
    made, part = s.writer.reshape(x, (1, numbers.numel())), s.writer.reshape(values, (1, len(written)))
    left = np.arange(len(written))
    while len(left):  # what is written several times to one place is reduced one after the other
        first = np.sort(np.unique(written.numpy()[left], return_index=True)[1])
        now = torch.from_numpy(left[first])
        new = part if len(now) == len(written) else s.call(torch.index_select, part, 1, now)
        if kind != "none":
            new = s.call(REDUCTIONS[kind], s.call(torch.index_select, made, 1, written[now]), new)
        made, left = s.call(torch.index_copy, made, 1, written[now], new), np.delete(left, first)
    return s.writer.reshape(made, shape)


RULES: dict[str, Any] = {
    "Mod": mod,
    "Trilu": triangle,
    "EyeLike": eye,
    "Tile": tile,
    "OneHot": one_hot,
    "CastLike": cast_like,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterND": scatter_nd,
    "ScatterElements": scatter_elements,
    "Scatter": scatter_elements,
    "NonZero": functools.partial(_folded, lambda x: x.nonzero().T.contiguous()),
    "BitwiseAnd": functools.partial(_folded, torch.bitwise_and),
    "BitwiseOr": functools.partial(_folded, torch.bitwise_or),
    "BitwiseXor": functools.partial(_folded, torch.bitwise_xor),
    "BitwiseNot": functools.partial(_folded, torch.bitwise_not),
}
"""Operation -> what writes it."""
