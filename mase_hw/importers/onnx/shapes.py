"""Operations of ONNX that move, join, choose or make elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from mase_hw.importers.graph import MOST_ELEMENTS, Codes, Ref, Refused
from mase_hw.importers.onnx.step import Step
from mase_hw.ir.export import frames


def constant(s: Step) -> Tensor:
    """``Constant``."""
    types = {
        "value_float": torch.float32,
        "value_floats": torch.float32,
        "value_int": torch.int64,
        "value_ints": torch.int64,
    }
    for name, dtype in types.items():
        if name in s.node.attributes:
            return torch.tensor(s.node.get(name), dtype=dtype)
    value = s.node.get("value")
    if not isinstance(value, Tensor):
        raise Refused("its value is no tensor")
    return value


def constant_of_shape(s: Step) -> Tensor:
    """``ConstantOfShape``."""
    sizes = s.numbers(0, "the shape")
    value = s.node.get("value", None)
    if any(n < 0 for n in sizes) or math.prod(sizes) > MOST_ELEMENTS:
        raise Refused(f"a tensor of the shape {sizes}")
    if value is None:
        return torch.zeros(sizes)
    return torch.full(sizes, value.reshape(-1)[0].item(), dtype=value.dtype)


def shape_of(s: Step) -> Tensor:
    """``Shape``: known, since sizes are."""
    sizes = list(s.shape())
    start, end = s.node.get("start", 0), s.node.get("end", None)
    return torch.tensor(sizes[start:end], dtype=torch.int64)


def size_of(s: Step) -> Tensor:
    """``Size``."""
    return torch.tensor(math.prod(s.shape()), dtype=torch.int64)


def range_of(s: Step) -> Tensor:
    """``Range`` of known ends."""
    start, limit, step = (s.known(i, "an end").item() for i in range(3))
    if step == 0 or not abs((limit - start) / step) < MOST_ELEMENTS:
        raise Refused(f"a range from {start} to {limit} by {step}")
    return torch.arange(start, limit, step, dtype=s.known(0, "an end").dtype)


def reshape(s: Step) -> Ref:
    """``Reshape``."""
    return s.sized(s.writer.reshape(s.data(), _reshaped(s)), _reshaped)


def _reshaped(s: Step) -> list[int]:
    given, wanted = s.shape(), s.numbers(1, "the shape")
    if s.node.get("allowzero", 0) and 0 in wanted:
        raise Refused("a tensor without elements")
    if len(wanted) > 16 or wanted.count(-1) > 1 or any(n < -1 for n in wanted):
        raise Refused(f"the shape {wanted}")
    sizes = [given[i] if n == 0 and i < len(given) else n for i, n in enumerate(wanted)]
    known = math.prod(n for n in sizes if n != -1)
    if -1 in sizes:
        if not known or math.prod(given) % known:
            raise Refused(f"{list(given)} does not become {wanted}")
        sizes[sizes.index(-1)] = math.prod(given) // known
    if math.prod(sizes) != math.prod(given):
        raise Refused(f"{list(given)} does not become {wanted}")
    return sizes


def flatten(s: Step) -> Ref:
    """``Flatten`` to two dimensions."""
    return s.sized(s.writer.reshape(s.data(), _flat(s)), _flat)


def _flat(s: Step) -> tuple[int, int]:
    given = s.shape()
    axis = s.node.get("axis", 1)
    axis = axis + len(given) if axis < 0 else axis
    if not 0 <= axis <= len(given):
        raise Refused(f"the axis {axis}")
    return math.prod(given[:axis]), math.prod(given[axis:])


def squeeze(s: Step) -> Ref:
    """``Squeeze``; of a file for one frame also the dimension of the frames."""
    given = s.shape()
    if not s.has(1) and not s.writer.is_data(s.any(0)):
        return torch.squeeze(s.any(0))
    frames = s.writer.frames_dim(s.any(0))
    axes = s.axes(1, len(given)) or [i for i, n in enumerate(given) if n == 1 and (s.alone or i != frames)]
    if any(given[a] != 1 for a in axes):
        raise Refused(f"the axes {axes} of {list(given)}, of which one is not 1")
    if not s.alone:
        for axis in axes:
            s.frame_axis(axis)
    return s.writer.reshape(s.data(), [n for i, n in enumerate(given) if i not in axes])


def unsqueeze(s: Step) -> Ref:
    """``Unsqueeze``; where the frames have lost their dimension, it comes back."""
    made, given = s.any(0), s.shape()
    axes = s.numbers(1, "a list of axes")
    frames = s.writer.frames_dim(made)
    lost = isinstance(made, fx.Node) and (frames is None or given[frames] != 1)
    for axis in sorted(s.axis(a, len(given) + len(axes)) for a in axes):
        given = (*given[:axis], 1, *given[axis:])
        made = s.writer.reshape(made, given) if lost else s.call(torch.unsqueeze, made, axis)
    return made


def transpose(s: Step) -> Ref:
    """``Transpose``."""
    dims = len(s.shape())
    order = s.node.ints("perm", list(reversed(range(dims))))
    if sorted(order) != list(range(dims)):
        raise Refused(f"the order {order} of {dims} dimensions")
    return s.any(0) if order == list(range(dims)) else s.call(torch.permute, s.any(0), tuple(order))


def concat(s: Step) -> Ref:
    """``Concat``; what is stored is put into every frame."""
    parts = [s.any(i) for i in range(len(s.inputs))]
    axis = s.axis(s.node.get("axis"), len(s.shape()))
    for index in range(len(parts)):
        s.frame_axis(axis, index)
    frames = next((s.writer.frames_dim(p) for p in parts if isinstance(p, fx.Node)), None)
    if frames is None or s.shape()[frames] == 1 or all(isinstance(p, fx.Node) for p in parts):
        return s.call(torch.cat, s.writer.in_every_frame(parts), axis)
    # Heads share the dimension of the frames, which stored ones are repeated along.
    apart = [s.writer.reshape(p, (*(n := s.writer.shape(p))[:frames], 1, *n[frames:])) for p in parts]
    made = s.call(torch.cat, s.writer.in_every_frame(apart), axis + int(axis > frames))
    shape = s.writer.shape(made)
    return s.writer.reshape(made, (*shape[:frames], *shape[frames + 1 :]))


def split(s: Step) -> list[Ref]:
    """``Split``."""
    given, count = s.shape(), len(s.node.outputs)
    axis = s.axis(s.node.get("axis", 0), len(given))
    s.frame_axis(axis)
    s.node.get("num_outputs", count)
    if s.has(1):
        sizes = s.numbers(1, "the sizes")
    else:
        each = -(-given[axis] // count)
        sizes = [each] * (count - 1) + [given[axis] - each * (count - 1)]
    if sum(sizes) != given[axis] or any(n < 1 for n in sizes) or len(sizes) != count:
        raise Refused(f"the parts {sizes} of {given[axis]} elements")
    whole = s.call(torch.split, s.any(0), tuple(sizes), axis)
    return [s.call(operator.getitem, whole, i) for i in range(count)]


def _cut(s: Step) -> list[tuple[int, int, int, int]]:
    """Starts, ends, axes and steps."""
    starts, ends = s.numbers(1, "the starts"), s.numbers(2, "the ends")
    axes = s.numbers(3, "a list of axes") if s.has(3) else list(range(len(starts)))
    steps = s.numbers(4, "the steps") if s.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Refused("starts, ends, axes and steps of different lengths")
    axes = [s.axis(axis, len(s.shape())) for axis in axes]
    return list(zip(starts, ends, axes, steps, strict=True))


def _left(s: Step) -> list[int]:
    """The sizes of what a slice leaves."""
    sizes = list(s.shape())
    for start, end, axis, step in _cut(s):
        sizes[axis] = len(range(*slice(start, end, step).indices(sizes[axis])))
    return sizes


def slices(s: Step) -> Ref:
    """``Slice``."""
    given = s.shape()
    parts, turned, behind = [slice(None)] * len(given), list[int](), dict[int, Tensor]()
    for start, end, axis, step in _cut(s):
        if step == -1 and start in (-1, given[axis] - 1) and end < -given[axis]:
            turned.append(axis)
            continue
        if step < 1:
            behind[axis] = torch.tensor(range(*slice(start, end, step).indices(given[axis])), dtype=torch.long)
            continue
        low, high, _ = slice(start, end).indices(given[axis])
        if (low, high, step) != (0, given[axis], 1):
            s.frame_axis(axis)
            parts[axis] = slice(low, high, None if step == 1 else step)
    made = s.any(0)
    if any(p != slice(None) for p in parts):
        while parts[-1] == slice(None):
            parts.pop()
        made = s.call(operator.getitem, made, tuple(parts))
    for axis in (*turned, *behind):
        s.frame_axis(axis)
    for axis, places in behind.items():
        made = s.call(torch.index_select, made, axis, places)
    return s.sized(s.call(torch.flip, made, turned) if turned else made, _left)


def gather(s: Step) -> Ref:
    """``Gather``: known places of data, or rows of a table at places that are data."""
    source, places = s.any(0), s.any(1)
    given = s.shape()
    axis = s.axis(s.node.get("axis", 0), len(given))
    if isinstance(places, fx.Node):
        if s.alone and axis == 0 == s.writer.frames_dim(source):
            return rows_of_frame(s, source, s.shape(), places, s.shape(1))
        if not isinstance(source, Tensor) or axis or len(given) != 2:
            raise Refused("places that are data, in what is no table of rows")
        made = s.table(source, _counted(s, places, given[0]))
        if source.dtype in (torch.int8, torch.uint8):
            s.writer.codes(made, Codes(torch.zeros(()), 0, f"{made.target}.weight", source))
        return made
    if isinstance(source, fx.Node):
        s.frame_axis(axis)
    if places.dtype.is_floating_point or not bool(((places >= -given[axis]) & (places < given[axis])).all()):
        raise Refused(f"places that are not among the {given[axis]} of the axis {axis}")
    places = torch.where(places < 0, places + given[axis], places).long()
    if places.dim() == 0:
        return s.call(operator.getitem, source, (*[slice(None)] * axis, int(places)))
    row = s.call(torch.index_select, source, axis, places.reshape(-1))
    return s.writer.reshape(row, (*given[:axis], *places.shape, *given[axis + 1 :]))


_MOVED = frozenset({operator.getitem, torch.reshape, torch.permute, "expand", "to"})
_FOUND = frozenset({torch.argmax, torch.argmin, torch.topk})


def _counted(s: Step, places: fx.Node, rows: int) -> Ref:
    """Places of a table without negative ones, which count from the end; those that are inputs are ids."""
    origin: Any = places
    while origin.target in _MOVED:
        origin = origin.args[0]
    if origin.op == "placeholder" or origin.target in _FOUND:
        return places
    return s.call(torch.add, places, s.call(torch.mul, s.call(torch.lt, places, 0), rows))


def rows_of_frame(s: Step, source: Ref, given: Sequence[int], places: Ref, shape: Sequence[int]) -> Ref:
    """``x[arange(frames), places]`` as PyTorch's exporters write it: rows of all frames, those of one counted.

    Args:
        s: The step.
        source: The rows.
        given: How many of them a frame has, and what each of them has.
        places: Numbers of rows.
        shape: Of the places, which the result has in front of what a row has.
    """
    rows, *inner = given
    count, width = math.prod(shape), math.prod(inner)
    at = s.writer.method("expand", s.writer.reshape(places, (1, count, 1)), -1, -1, width)
    found = s.call(torch.take_along_dim, s.writer.reshape(source, (1, rows, width)), at, 1)
    return s.writer.reshape(found, (*shape, *inner))


def _joined(given: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """The sizes of both, of which one may be 1 where they differ."""
    dims = max(len(given), len(wanted))
    pairs = zip([1] * (dims - len(given)) + [*given], [1] * (dims - len(wanted)) + [*wanted], strict=True)
    return [a if b == 1 else b for a, b in pairs]


def expand(s: Step) -> Ref:
    """``Expand``."""
    given, sizes = s.shape(), _expanded(s)
    if math.prod(sizes) > MOST_ELEMENTS:
        raise Refused(f"a tensor of the shape {list(sizes)}")
    x = s.any(0)
    if sizes != given:
        x = s.writer.method("expand", x, *(frames.expanded(given, sizes) if isinstance(x, fx.Node) else sizes))
    return s.sized(x, _expanded)


def _expanded(s: Step) -> tuple[int, ...]:
    given, wanted = s.shape(), s.numbers(1, "the shape")
    if len(wanted) > 16 or any(n < 1 for n in wanted):
        raise Refused(f"the shape {wanted}")
    return tuple(torch.empty(given, device="meta").broadcast_to(_joined(given, wanted)).shape)


def depth_to_space(s: Step) -> Ref:
    """``DepthToSpace``."""
    block, mode = s.node.get("blocksize"), s.node.get("mode", "DCR")
    n, c, h, w = s.shape()
    if not 0 < block < 1 << 8 or c % block**2:
        raise Refused(f"blocks of {block} from {c} channels")
    if mode == "CRD":
        return s.call(F.pixel_shuffle, s.data(), block)
    parts = s.writer.reshape(s.data(), (n, block, block, c // block**2, h, w))
    return s.writer.reshape(s.call(torch.permute, parts, (0, 3, 4, 1, 5, 2)), (n, c // block**2, h * block, w * block))


def space_to_depth(s: Step) -> Ref:
    """``SpaceToDepth``."""
    block = s.node.get("blocksize")
    n, c, h, w = s.shape()
    if not 0 < block < 1 << 8 or h % block or w % block:
        raise Refused(f"blocks of {block} in {h} x {w}")
    parts = s.writer.reshape(s.data(), (n, c, h // block, block, w // block, block))
    return s.writer.reshape(s.call(torch.permute, parts, (0, 3, 5, 1, 2, 4)), (n, c * block**2, h // block, w // block))


RULES = {
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Shape": shape_of,
    "Size": size_of,
    "Range": range_of,
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "Concat": concat,
    "Split": split,
    "Slice": slices,
    "Gather": gather,
    "Expand": expand,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
}
"""Operation -> what writes it."""
