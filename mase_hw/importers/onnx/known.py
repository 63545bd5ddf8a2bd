"""Operations of ONNX on what is known: sizes, places and masks, which exporters compute in the file."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw.importers.graph import MOST_ELEMENTS, Ref, Refused
from mase_hw.importers.onnx.elements import DTYPES
from mase_hw.importers.onnx.step import Step


def _folded(function: Callable[..., Tensor]) -> Any:
    """A function of tensors that are all known."""

    def rule(s: Step) -> Tensor:
        return function(*(s.known(i, "an operand") for i in range(len(s.inputs))))

    return rule


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
    table = nn.Embedding(depth[0], depth[0], device="meta")
    table.register_parameter("weight", nn.Parameter(rows))
    return s.writer.layer(table, ids)


def cast_like(s: Step) -> Ref:
    """``CastLike``."""
    s.node.get("saturate", 1)
    dtype = s.writer.like(s.any(1)).dtype
    x = s.any(0)
    return x if s.writer.like(x).dtype == dtype else s.writer.method("to", x, dtype)


def gather_elements(s: Step) -> Tensor:
    """``GatherElements`` of what is known."""
    x, places = s.known(0, "what is chosen from"), s.known(1, "places")
    axis = s.axis(s.node.get("axis", 0), x.dim())
    size = x.shape[axis]
    if not bool(((places >= -size) & (places < size)).all()):
        raise Refused(f"places that are not among the {size} of the axis {axis}")
    return torch.gather(x, axis, places.long() % size)


def scatter_nd(s: Step) -> Tensor:
    """``ScatterND`` of what is known."""
    s.node.fixed("reduction", "none")
    x, places, values = (s.known(i, "an operand") for i in range(3))
    size = torch.tensor(x.shape[: places.shape[-1]])
    if not bool(((places >= -size) & (places < size)).all()):
        raise Refused(f"places that are not in {list(x.shape)}")
    made = x.clone()
    made[tuple((places.long() % size).reshape(-1, places.shape[-1]).T)] = values.reshape(-1, *x.shape[len(size) :])
    return made


RULES: dict[str, Any] = {
    "Mod": mod,
    "Trilu": triangle,
    "EyeLike": eye,
    "Tile": tile,
    "OneHot": one_hot,
    "CastLike": cast_like,
    "GatherElements": gather_elements,
    "ScatterND": scatter_nd,
    "NonZero": _folded(lambda x: x.nonzero().T.contiguous()),
    "BitwiseAnd": _folded(torch.bitwise_and),
    "BitwiseOr": _folded(torch.bitwise_or),
    "BitwiseXor": _folded(torch.bitwise_xor),
    "BitwiseNot": _folded(torch.bitwise_not),
    "IsNaN": _folded(torch.isnan),
}
"""Operation -> what writes it."""
