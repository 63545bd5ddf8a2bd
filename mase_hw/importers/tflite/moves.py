"""Operations of one tensor: reshapes, borders, means, and other scales."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import torch

from mase_hw.catalogue import Arithmetic
from mase_hw.formats import Rounding, ScaledFormat
from mase_hw.importers.graph import Refused
from mase_hw.importers.tflite.kernels import ACTIVATIONS, averaging, clamped, twice
from mase_hw.importers.tflite.step import TO_FIRST, TO_LAST, Step, Value, format_of
from mase_hw.importers.tflite.windows import MOST_SIDE
from mase_hw.nn import Quantized
from mase_hw.numerics import magnitude
from mase_hw.passes.quantize.integers.combine import total_of


def reshape(s: Step) -> Value:
    """``RESHAPE``, ``SQUEEZE`` and ``EXPAND_DIMS``: the file says the sizes of the result."""
    x = s.data()
    _same_format(s, x)
    return s.result(s.writer.reshape(s.as_in_file(x), s.out.shape), x.fmt, first=False)


def _same_format(s: Step, x: Value) -> None:
    want = format_of(s.out)
    if (want.scale, want.zero_point) != (x.fmt.scale, x.fmt.zero_point):
        raise Refused("a scale or a zero point of its result that its data has not")


def transpose(s: Step) -> Value:
    """``TRANSPOSE``: between the orders of images nothing moves, it only says which order the data has."""
    x, order = s.data(), s.known(1, "the permutation", "int32").reshape(-1).tolist()
    _same_format(s, x)
    if sorted(order) != list(range(len(x.shape))) or order[0] != 0:
        raise Refused(f"the permutation {order} of data {list(x.shape)}", "the batch stays where it is")
    moved = [TO_FIRST.index(axis) for axis in order] if x.first else order
    if moved == list(TO_LAST):  # channels last of what has them first: the image as PyTorch has it
        return s.result(x.node, x.fmt, first=True)
    same = moved == list(range(len(moved)))
    return s.result(x.node if same else s.writer.call(torch.permute, x.node, tuple(moved)), x.fmt, first=False)


def quantize(s: Step) -> Value:
    """``QUANTIZE`` of integers to another scale; of floats it is the input of the hardware."""
    want = format_of(s.out)
    return _requantised(s, want, s.data().fmt.scale / want.scale)


def relu(number: int, s: Step) -> Value:
    """A ReLU that is an operation of its own; its kernel divides the scales in float32."""
    want = clamped(format_of(s.out), *ACTIVATIONS[number])
    return _requantised(s, want, float(np.float32(s.data().fmt.scale) / np.float32(want.scale)))


def _requantised(s: Step, want: ScaledFormat, ratio: float) -> Value:
    x = s.data()
    found, first = twice([ratio], magnitude(x.fmt.centred))
    return s.result(s.requantised(x.node, x.fmt, want, found, Rounding.HALF_AWAY, first), want, first=x.first)


def pad(s: Step) -> Value:
    """``PAD``: what stands for 0 around the rows and columns of an image, or before and after other dimensions."""
    x, amounts = s.data(), s.known(1, "the padding", "int32")
    _same_format(s, x)
    dims = len(x.shape)
    if amounts.shape != (dims, 2) or bool((amounts < 0).any() | amounts[0].any()) or int(amounts.sum()) > MOST_SIDE:
        raise Refused(f"a padding of {amounts.tolist()} of data {list(x.shape)}", "the batch stays as it is")
    if dims == 4 and not amounts[3].any():
        (top, bottom), (left, right) = amounts[1:3].tolist()
        _, height, width, channels = x.shape
        shape = (1, channels, height + top + bottom, width + left + right)
        node = s.put(_padding(s, x.fmt, (left, right, top, bottom)), [s.channels_first(x)], shape)
        return s.result(node, x.fmt, first=True)
    node, sizes = s.as_in_file(x), list(x.shape)
    for axis, (before, after) in enumerate(amounts.tolist()):
        if before or after:  # the columns of an image whose rows are what comes before, its channels what comes behind
            rows, channels = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :])
            image = s.writer.reshape(node, (1, rows, sizes[axis], channels))
            sizes[axis] += before + after
            given = s.writer.call(torch.permute, image, TO_FIRST)
            module, shape = _padding(s, x.fmt, (before, after, 0, 0)), (1, channels, rows, sizes[axis])
            padded = s.put(module, [given], shape, f"dimension_{axis}")
            node = s.writer.reshape(s.writer.call(torch.permute, padded, TO_LAST), tuple(sizes))
    return s.result(node, x.fmt, first=False)


def _padding(s: Step, fmt: ScaledFormat, amounts: tuple[int, ...]) -> Quantized:
    return Quantized(s.catalogue["pad"], Arithmetic({"data_in_0": fmt, "data_out_0": fmt}, attributes={"pad": amounts}))


def mean(s: Step) -> Value:
    """``MEAN``: an exact sum, whose requantisation divides as well (``reference_ops::QuantizedMeanOrSum``)."""
    x, want, dims = s.data(), format_of(s.out), len(s.data().shape)
    axes = s.known(1, "the list of axes", "int32").reshape(-1).tolist()
    if any(not -dims <= axis < dims or axis % dims == 0 for axis in axes) or not axes:
        raise Refused(f"the axes {axes} of data of {dims} dimensions, the first of which is the batch")
    axes = sorted({axis % dims for axis in axes})
    keep = bool(s.op.option("KeepDims"))
    first = dims == 4 and axes == [1, 2]  # then what is left has one order
    given = s.channels_first(x) if first else s.as_in_file(x)
    over = tuple(sorted(TO_FIRST.index(axis) for axis in axes)) if first else tuple(axes)
    size = s.writer.shape(given)
    count = math.prod(size[d] for d in over)
    shape = [1 if d in over else n for d, n in enumerate(size) if keep or d not in over]
    have = total_of(x.fmt, count)
    module = Quantized(
        s.catalogue["sum"],
        Arithmetic({"data_in_0": x.fmt, "data_out_0": have}, attributes={"dim": over, "keepdim": keep}),
    )
    made = s.put(module, [given], shape, "sums")
    found, bits = averaging(x.fmt.scale / want.scale, count)
    return s.result(s.requantised(made, have, want, found, Rounding.HALF_AWAY, bits), want, first=first and keep)


RULES: dict[str, Callable[[Step], Value]] = {
    "PAD": pad,
    "MEAN": mean,
    "RESHAPE": reshape,
    "SQUEEZE": reshape,
    "EXPAND_DIMS": reshape,
    "TRANSPOSE": transpose,
    "QUANTIZE": quantize,
    "RELU": functools.partial(relu, 1),
    "RELU_N1_TO_1": functools.partial(relu, 2),
    "RELU6": functools.partial(relu, 3),
}
"""Operation -> what writes it."""
