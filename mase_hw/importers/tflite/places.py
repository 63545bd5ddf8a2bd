"""Operations that only choose, repeat or order numbers: where each number of their results comes from.

A rule gets the places of the data's numbers, in the order of the file, and gives those of every result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mase_hw.catalogue import Arithmetic
from mase_hw.importers.graph import MOST_ELEMENTS, Refused
from mase_hw.importers.tflite.step import Step, Value, format_of
from mase_hw.nn import Quantized
from mase_hw.ops.movement.rearrange import Places

Array = np.ndarray[Any, np.dtype[np.int64]]
_ALL = ("BeginMask", "EndMask", "ShrinkAxisMask")


def chosen(rule: Callable[[Step, Array], Array | Sequence[Array]], at: int = 0) -> Callable[[Step], list[Value]]:
    """An operation by its places.

    Args:
        rule: From the operation and the places of its data to those of its results.
        at: Which input is the data.
    """

    def made(s: Step) -> list[Value]:
        x = s.data(at)
        found = rule(s, np.arange(int(np.prod(x.shape))).reshape(x.shape))
        several = [found] if isinstance(found, np.ndarray) else list(found)
        if len(several) != len(s.op.outputs):
            raise Refused(f"{len(several)} parts, and {len(s.op.outputs)} results")
        return [_taken(s, x, index, places) for index, places in enumerate(several)]

    return made


def _taken(s: Step, x: Value, index: int, places: Array) -> Value:
    info = s.result_info(index)
    want = format_of(info)
    if (want.scale, want.zero_point) != (x.fmt.scale, x.fmt.zero_point):
        raise Refused("a scale or a zero point of its result that its data has not")
    if places.shape != info.shape or info.shape[:1] != (1,) or not places.size:
        raise Refused(f"its result has the shape {list(places.shape)}, and the file says {list(info.shape)}")
    count = int(np.prod(x.shape))
    taken = Places.of(places.reshape(-1), count).to_dict()
    formats = {"data_in_0": x.fmt, "data_out_0": x.fmt}
    module = Quantized(s.catalogue["rearrange"], Arithmetic(formats, attributes={"shape": info.shape, **taken}))
    s.writer.source = info.name
    return Value(s.put(module, [s.as_in_file(x)], info.shape), x.fmt, info.shape)


def _list(s: Step, index: int, what: str) -> list[int]:
    found: list[int] = s.known(index, what, "int32").reshape(-1).tolist()
    return found


def _slice(s: Step, places: Array) -> Array:
    starts, sizes = _list(s, 1, "the start"), _list(s, 2, "the size")
    ends = [None if size < 0 else start + size for start, size in zip(starts, sizes, strict=True)]
    return places[tuple(slice(start, end) for start, end in zip(starts, ends, strict=True))]


def _strided(s: Step, places: Array) -> Array:
    starts, ends, steps = (_list(s, i, what) for i, what in ((1, "the start"), (2, "the end"), (3, "the stride")))
    if s.op.option("EllipsisMask") or s.op.option("NewAxisMask") or s.op.option("Offset"):
        raise Refused("a slice with new dimensions, or ends that count from its start")
    begin, end, single = (s.op.option(name) for name in _ALL)
    parts: list[Any] = []
    for i, (a, b, step) in enumerate(zip(starts, ends, steps, strict=True)):
        if single >> i & 1:
            parts.append(a)
        else:
            parts.append(slice(None if begin >> i & 1 else a, None if end >> i & 1 else b, step))
    found: Array = places[tuple(parts)]
    return found


def _split(s: Step, places: Array) -> list[Array]:
    (axis,) = _list(s, 0, "the axis")
    return list(np.split(places, s.op.option("NumSplits"), axis))


def _split_sizes(s: Step, places: Array) -> list[Array]:
    sizes, (axis,) = _list(s, 1, "the sizes"), _list(s, 2, "the axis")
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = places.shape[axis] - sum(sizes) - 1
    if min(sizes) < 1 or sum(sizes) != places.shape[axis]:
        raise Refused(f"the parts {sizes} of {places.shape[axis]} elements")
    return np.split(places, np.cumsum(sizes)[:-1], axis)


def _gather(s: Step, places: Array) -> Array:
    if s.op.option("BatchDims"):
        raise Refused("places for each frame")
    return np.take(places, s.known(1, "the places", "int32").numpy(), s.op.option("Axis"))


def _tile(s: Step, places: Array) -> Array:
    times = _list(s, 1, "the repetitions")
    if not 0 < np.prod(times, dtype=float) * places.size <= MOST_ELEMENTS:
        raise Refused(f"{times} repetitions")
    return np.tile(places, times)


def _reverse(s: Step, places: Array) -> Array:
    found: Array = np.flip(places, tuple(_list(s, 1, "the axes")))
    return found


def _mirrored(s: Step, places: Array) -> Array:
    amounts = s.known(1, "the padding", "int32").numpy()
    limits = np.asarray(places.shape)[:, None]
    if amounts.shape != (places.ndim, 2) or bool(((amounts < 0) | (amounts > limits)).any()):
        raise Refused(f"a padding of {amounts.tolist()} of data {list(places.shape)}")
    return np.pad(places, amounts, mode="symmetric" if s.op.option("Mode") else "reflect")


def _block(s: Step) -> int:
    found = s.op.option("BlockSize")
    if not 0 < found < 1 << 8:
        raise Refused(f"blocks of {found}")
    return found


def _to_depth(s: Step, places: Array) -> Array:
    (n, h, w, c), b = places.shape, _block(s)
    parts = places.reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5)
    return parts.reshape(n, h // b, w // b, b * b * c)


def _to_space(s: Step, places: Array) -> Array:
    (n, h, w, c), b = places.shape, _block(s)
    parts = places.reshape(n, h, w, b, b, c // (b * b)).transpose(0, 1, 3, 2, 4, 5)
    return parts.reshape(n, h * b, w * b, c // (b * b))


def _nearest(s: Step, places: Array) -> Array:
    """As ``GetNearestNeighbor``, in float32."""
    corners, half = bool(s.op.option("AlignCorners")), bool(s.op.option("HalfPixelCenters"))
    for axis, count in enumerate(_list(s, 1, "the size"), 1):
        size = places.shape[axis]
        if not 0 < count <= MOST_ELEMENTS:
            raise Refused(f"{count} pixels of {size}")
        apart = corners and count > 1
        step = np.float32(size - 1) / np.float32(count - 1) if apart else np.float32(size) / np.float32(count)
        where = (np.arange(count, dtype=np.float32) + np.float32(0.5 if half else 0.0)) * step
        near = np.floor(where + np.float32(0.5)) if corners else np.floor(where)
        places = np.take(places, np.clip(near.astype(np.int64), 0, size - 1), axis)
    return places


RULES = {
    "SLICE": chosen(_slice),
    "STRIDED_SLICE": chosen(_strided),
    "SPLIT": chosen(_split, 1),
    "SPLIT_V": chosen(_split_sizes),
    "UNPACK": chosen(lambda s, places: list(np.moveaxis(places, s.op.option("Axis"), 0))),
    "GATHER": chosen(_gather),
    "TILE": chosen(_tile),
    "BROADCAST_TO": chosen(lambda s, places: np.broadcast_to(places, _list(s, 1, "the shape"))),
    "REVERSE_V2": chosen(_reverse),
    "MIRROR_PAD": chosen(_mirrored),
    "SPACE_TO_DEPTH": chosen(_to_depth),
    "DEPTH_TO_SPACE": chosen(_to_space),
    "RESIZE_NEAREST_NEIGHBOR": chosen(_nearest),
}
"""Operation -> what writes it."""
