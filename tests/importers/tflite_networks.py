"""Small networks of int8: odd sizes, strides, paddings, dilation, groups, scales for each channel, zero points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.importers.tflite_files import File, Value, schema


def strides() -> File:
    f = File(1)
    x = f.input(1, 9, 8, 3, scale=0.03, zero=-7)
    x = f.conv(x, 4, (3, 2), (2, 1), activation="relu6")
    x = f.conv(x, 5, (2, 3), (1, 2), same=False)
    f.output(f.dense(x, 5))
    return f


def depthwise() -> File:
    f = File(2)
    x = f.input(1, 7, 6, 3, scale=0.02, zero=11)
    x = f.depthwise(x, 2, (3, 3), (2, 2), activation="relu")
    x = f.conv(x, 5, (1, 1))
    f.output(f.depthwise(x, 1, (2, 3), same=False, channels=False))
    return f


def dilated() -> File:
    f = File(3)
    x = f.input(1, 8, 9, 2, scale=0.05, zero=127)
    x = f.conv(x, 3, (3, 3), dilation=(2, 1))
    x = f.depthwise(x, 1, (2, 2), dilation=(1, 3))
    f.output(f.conv(x, 4, (3, 3), same=False, dilation=(2, 3)))
    return f


def dense() -> File:
    f = File(4)
    x = f.input(1, 19, scale=0.004, zero=-128)
    x = f.dense(x, 13, "relu")
    x = f.dense(x, 7, channels=True, bias=False)
    f.output(f.dense(x, 3, "relu6"))
    return f


def rows() -> File:
    """A layer on every row of a matrix."""
    f = File(5)
    x = f.input(1, 4, 6, scale=0.04, zero=3)
    x = f.dense(x, 5, keep=True)
    f.output(f.dense(f.reshape(x, 1, 20), 3, channels=True))
    return f


def pools() -> File:
    f = File(6)
    x = f.input(1, 7, 10, 3, scale=0.03, zero=5)
    x = f.pool(x, kernel=(3, 3), stride=(2, 2), same=True)
    x = f.conv(x, 4)
    x = f.pool(x, kernel=(2, 1), stride=(2, 2), same=True, activation="relu")
    f.output(f.reshape(x, 1, 2, 3 * 4))
    return f


def scales() -> File:
    """One number at other scales: functions that clamp, and QUANTIZE."""
    f = File(7)
    x = f.input(1, 5, 4, 3, scale=0.07, zero=-20)
    a = f.function("RELU", x, 0.05, -128)
    b = f.function("RELU6", x, 0.03, -100)
    c = f.function("QUANTIZE", a, 0.21, 14)
    d = f.function("RELU_N1_TO_1", x, 0.011, 7)
    f.output(b, f.conv(c, 5), d)
    return f


def tensor_scales() -> File:
    f = File(8)
    x = f.input(1, 6, 5, 4, scale=0.02, zero=1)
    x = f.conv(x, 6, channels=False, activation="relu_n1_to_1")
    x = f.depthwise(x, 1, stride=(1, 2), channels=False, bias=False, activation="relu6")
    f.output(f.conv(x, 3, (4, 4), (3, 3)))
    return f


def residual() -> File:
    f = File(9)
    x = f.input(1, 6, 5, 3, scale=0.03, zero=-9)
    a = f.conv(x, 4, activation="relu")
    b = f.conv(f.conv(a, 4, activation="relu"), 4)
    y = f.binary("ADD", a, b, 1.4, activation="relu")
    z = f.binary("SUB", y, f.conv(x, 4, (1, 1)), 1.1)
    f.output(f.binary("ADD", z, z, 2.3))
    return f


def products() -> File:
    """Operands that are stored, broadcast, and come first; a gate."""
    f = File(10)
    x = f.input(1, 3, 4, 5, scale=0.02, zero=30)
    a = f.binary("MUL", x, f.stored(np.arange(-2, 3) * 40, 0.013, 5), 0.021)
    b = f.binary("SUB", f.stored(np.arange(-10, 10).reshape(4, 5) * 9, 0.011, -30), a, 0.03)
    c = f.binary("MUL", f.conv(x, 5, zero=12), b, 0.5, activation="relu6")
    f.output(f.binary("ADD", c, f.stored([[100]], 0.2), 0.7), b)
    return f


def side_by_side() -> File:
    f = File(11)
    x = f.input(1, 5, 4, 3, scale=0.03, zero=-2)
    parts = [f.pool(x, kernel=(3, 3), stride=(1, 1), same=True), x, f.function("QUANTIZE", f.conv(x, 2), 0.03, -2)]
    a = f.concatenation(3, *parts, f.pool(parts[2], kernel=(1, 1), stride=(1, 1)), x)
    b = f.concatenation(1, a, a)
    f.output(f.conv(f.concatenation(2, b, b), 3))
    return f


def averages() -> File:
    f = File(12)
    x = f.input(1, 7, 8, 3, scale=0.03, zero=-33)
    x = f.pool(x, "AVERAGE", (3, 3), (2, 2), same=True)
    x = f.conv(f.pad(x, 0, 1, 2, 0), 4, (3, 3), same=False)
    a = f.mean(x, 1, 2, scale=0.6)
    b = f.mean(x, 1, 2, scale=0.3, keep=True)
    c = f.pool(f.pool(x, "AVERAGE", (2, 3), (1, 2), activation="relu"), "AVERAGE", (2, 1), (1, 1))
    f.output(f.dense(a, 3), f.conv(b, 5, (1, 1)), c)
    return f


def means() -> File:
    """Along other dimensions, and so large a scale that the product is shifted to the left."""
    f = File(13)
    x = f.input(1, 3, 5, 4, scale=0.5, zero=21)
    f.output(f.mean(x, 3, scale=0.4), f.mean(x, 1, scale=0.03, keep=True), f.mean(x, -3, -1, scale=0.2))
    return f


def orders() -> File:
    """What converters put around images with their channels first, and orders that are neither."""
    f = File(14)
    x = f.input(1, 3, 7, 6, scale=0.03, zero=4)
    a = f.conv(f.transpose(x, 0, 2, 3, 1), 5, (3, 3), stride=(2, 1))
    b = f.dense(f.reshape(f.transpose(a, 0, 3, 1, 2), 1, math.prod(a.shape)), 6)
    c = f.conv(f.transpose(f.transpose(a, 0, 3, 1, 2), 0, 2, 3, 1), 4)
    f.output(b, c, f.conv(f.transpose(a, 0, 2, 1, 3), 3), f.transpose(a, 0, 3, 1, 2))
    return f


def functions() -> File:
    """Tables, one of them behind an activation; a gate and squeeze-and-excite by hand."""
    f = File(15)
    x = f.input(1, 4, 5, 3, scale=0.04, zero=17)
    x = f.function("QUANTIZE", x, 0.004, 17)
    a = f.function("HARD_SWISH", f.conv(x, 4, activation="relu6"), 0.025, -100)
    b = f.function("LOGISTIC", f.function("QUANTIZE", f.conv(a, 4), 0.05, 1), 1 / 256, -128)
    c = f.function("TANH", f.binary("MUL", a, b, 0.02, zero=-20), 1 / 128, 0)
    f.output(f.dense(f.mean(c, 1, 2, scale=0.004), 5), f.function("LOGISTIC", x, 1 / 256, -128))
    return f


def excited() -> File:
    """Squeeze-and-excite: one number for every channel, and rows and columns of a picture."""
    f = File(16)
    x = f.conv(f.input(1, 5, 6, 3, scale=0.03, zero=-9), 4)
    y = f.function("LOGISTIC", f.conv(f.mean(x, 1, 2, scale=0.3, keep=True), 4, (1, 1)), 1 / 256, -128)
    a = f.binary("MUL", x, y, 0.7 * x.scale)
    b = f.binary("ADD", f.mean(x, 1, scale=0.4, keep=True), a, 1.1, activation="relu")
    f.output(f.conv(f.binary("SUB", b, f.mean(a, 2, scale=0.2, keep=True), 1.3), 3))
    return f


def joined() -> File:
    """Branches of one scale whose functions leave other ranges of integers: a ReLU, none, a ReLU6, a tanh."""
    f = File(17)
    x = f.input(1, 11, scale=0.05, zero=3)
    parts = [f.dense(x, 4, "relu"), f.dense(x, 3), f.dense(x, 5, "relu6")]
    for part in parts:
        found = f.graph.tensors[part.index].quantization
        found.scale, found.zeroPoint = np.float32([1 / 16]), np.int64([-9])
    one = [Value(part.index, part.shape, 1 / 16, -9) for part in parts]
    start = f.concatenation(1, *one)
    curved = f.function("TANH", f.dense(start, 6), 1 / 128, 0)
    plain = f.dense(start, 3, "relu")
    found = f.graph.tensors[plain.index].quantization
    found.scale, found.zeroPoint = np.float32([1 / 128]), np.int64([0])
    f.output(f.concatenation(1, curved, Value(plain.index, plain.shape, 1 / 128, 0)))
    return f


def _given(
    f: File, name: str, x: Value, stored: list[Any], shape: tuple[int, ...], options: str = "", **more: int
) -> Value:
    """An operation of one scale with stored integers behind its data."""
    made = getattr(schema, f"{options}OptionsT")() if options else None
    for key, value in more.items():
        setattr(made, key, value)
    y = f.result(shape, x.scale, x.zero)
    f.operation(name, [x.index, *map(f.numbers, stored)], [y.index], made, 2 if name == "BROADCAST_TO" else 1)
    return y


def parts() -> File:
    """What chooses, repeats or orders numbers."""
    f = File(18)
    x = f.input(1, 6, 4, 8, scale=0.03, zero=-9)
    a = _given(f, "SLICE", x, [[0, 1, 0, 2], [1, 4, -1, 3]], (1, 4, 4, 3))
    starts = [[0, 5, 1, 0], [0, 0, 4, 8], [1, -2, 2, 3]]
    b = _given(f, "STRIDED_SLICE", x, starts, (1, 3, 2, 3), "StridedSlice", beginMask=1, endMask=3)
    c = _given(
        f, "STRIDED_SLICE", a, [[0, 2, 0, 0], [1, 3, 4, 3], [1, 1, 1, 1]], (1, 4, 3), "StridedSlice", shrinkAxisMask=2
    )
    d = _given(f, "RESIZE_NEAREST_NEIGHBOR", b, [[5, 7]], (1, 5, 7, 3), "ResizeNearestNeighbor", halfPixelCenters=1)
    e = _given(f, "RESIZE_NEAREST_NEIGHBOR", b, [[7, 4]], (1, 7, 4, 3), "ResizeNearestNeighbor", alignCorners=1)
    g = _given(f, "RESIZE_NEAREST_NEIGHBOR", b, [[6, 5]], (1, 6, 5, 3), "ResizeNearestNeighbor")
    h = _given(f, "SPACE_TO_DEPTH", x, [], (1, 3, 2, 32), "SpaceToDepth", blockSize=2)
    i = _given(f, "DEPTH_TO_SPACE", x, [], (1, 12, 8, 2), "DepthToSpace", blockSize=2)
    k = _given(f, "MIRROR_PAD", a, [[[0, 0], [2, 1], [0, 3], [0, 0]]], (1, 7, 7, 3), "MirrorPad", mode=0)
    m = _given(f, "MIRROR_PAD", a, [[[0, 0], [2, 1], [0, 3], [0, 0]]], (1, 7, 7, 3), "MirrorPad", mode=1)
    n = _given(f, "GATHER", c, [[2, 0, 2]], (1, 3, 3), "Gather", axis=1)
    o = _given(f, "TILE", c, [[1, 2, 1]], (1, 8, 3))
    p = _given(f, "REVERSE_V2", c, [[1]], (1, 4, 3), "ReverseV2")
    row = _given(f, "SLICE", c, [[0, 1, 0], [1, 1, 3]], (1, 1, 3))
    q = _given(f, "BROADCAST_TO", row, [[1, 5, 3]], (1, 5, 3))
    f.output(f.conv(d, 4), e, g, f.conv(h, 3), i, k, m, n, f.dense(o, 3), p, q)
    return f


def split() -> File:
    """Results of one operation; shapes that are computed, as Keras writes them for a Flatten."""
    f = File(19)
    x = f.input(1, 4, 6, 5, scale=0.03, zero=12)
    left, right = (f.result((1, 4, 3, 5), x.scale, x.zero) for _ in range(2))
    options = schema.SplitOptionsT()
    options.numSplits = 2
    f.operation("SPLIT", [f.numbers([2]), x.index], [left.index, right.index], options, 2)
    rows = [f.result((1, 3, n), x.scale, x.zero) for n in (2, 3)]
    options = schema.SplitVOptionsT()
    options.numSplits = 2
    flat = _given(f, "SLICE", left, [[0, 0, 0, 0], [1, 1, 3, 5]], (1, 1, 3, 5))
    single = f.reshape(flat, 1, 3, 5)
    f.operation("SPLIT_V", [single.index, f.numbers([2, -1]), f.numbers([2])], [v.index for v in rows], options)
    lines = [f.result((1, 5), x.scale, x.zero) for _ in range(3)]
    options = schema.UnpackOptionsT()
    options.num, options.axis = 3, 1
    f.operation("UNPACK", [single.index], [v.index for v in lines], options, 2)
    y = f.conv(right, 2)
    sizes, first, both = (f.tensor(n, dtype=np.int32) for n in ((4,), (), (2,)))
    options = schema.ShapeOptionsT()
    options.outType = schema.TensorType.INT32
    f.operation("SHAPE", [y.index], [sizes], options)
    options = schema.StridedSliceOptionsT()
    options.shrinkAxisMask = 1
    f.operation("STRIDED_SLICE", [sizes, f.numbers([0]), f.numbers([1]), f.numbers([1])], [first], options)
    options = schema.PackOptionsT()
    options.valuesCount = 2
    f.operation("PACK", [first, f.numbers(24)], [both], options)
    z = f.result((1, 24), y.scale, y.zero)
    f.operation("RESHAPE", [y.index, both], [z.index], schema.ReshapeOptionsT())
    f.output(f.dense(z, 4), *rows, *lines)
    return f


def curves() -> File:
    """Functions whose kernels fill tables."""
    f = File(20)
    x = f.input(1, 256, scale=0.021, zero=-13)
    exact, by_tanh = schema.GeluOptionsT(), schema.GeluOptionsT()
    by_tanh.approximate = True
    wide = f.function("QUANTIZE", x, 0.07, 3)
    positive = f.function("LOGISTIC", x, 1 / 256, -128)
    f.output(
        f.function("RSQRT", positive, 0.013, -100),
        f.function("RSQRT", f.function("QUANTIZE", positive, 0.0071, -128), 0.06, 3),
        f.function("EXP", x, 0.03, -120),
        f.function("EXP", wide, 0.004, 3),
        f.function("GELU", x, 0.016, -90, options=exact),
        f.function("GELU", x, 0.016, -90, options=by_tanh),
        f.function("ABS", x, 0.021, -13),
        f.function("ABS", x, 0.013, -100),
    )
    return f


def slopes() -> File:
    """A PReLU with a slope for every channel, and squared differences."""
    f = File(21)
    x = f.input(1, 5, 4, 6, scale=0.03, zero=-9)
    y = f.conv(x, 7)
    weight = f.stored(f.random.integers(-90, 128, (1, 1, 7)), 0.011, -20)
    z = f.result(y.shape, 0.8 * y.scale)
    f.operation("PRELU", [y.index, weight.index], [z.index])
    s = f.result(y.shape, 30 * y.scale * y.scale)
    f.operation("SQUARED_DIFFERENCE", [z.index, y.index], [s.index], schema.SquaredDifferenceOptionsT(), 2)
    t = f.result(x.shape, 0.02)
    stored = f.stored(f.random.integers(-128, 128, (6,)), 0.02, 14)
    f.operation("SQUARED_DIFFERENCE", [stored.index, x.index], [t.index], schema.SquaredDifferenceOptionsT(), 2)
    options = schema.LeakyReluOptionsT()
    options.alpha = 0.37
    leaky, one = f.function("LEAKY_RELU", x, 0.021, -40, options), f.result(x.shape, 0.023)
    f.operation("PRELU", [x.index, f.stored([[[-77]]], 0.009, 31).index], [one.index])
    f.output(s, t, leaky, one)
    return f


def matrices() -> File:
    """Products of two tensors that are data, with and without heads."""
    f = File(22)
    x, y = (f.input(1, *shape, scale=scale, zero=zero) for shape, scale, zero in (
        ((3, 5, 4), 0.03, -9), ((3, 4, 6), 0.02, 33)))  # fmt: skip
    f.graph.tensors[y.index].name = "second"

    def product(a: Value, b: Value, shape: tuple[int, ...], scale: float, **turned: bool) -> Value:
        options = schema.BatchMatMulOptionsT()
        options.adjX, options.adjY = turned.get("x", False), turned.get("y", False)
        z = f.result(shape, scale)
        f.operation("BATCH_MATMUL", [a.index, b.index], [z.index], options, 2)
        return z

    z = product(x, y, (1, 3, 5, 6), 0.06)
    a = product(z, y, (1, 3, 5, 4), 0.4, y=True)
    b = product(x, z, (1, 3, 4, 6), 0.5, x=True)
    flat = f.reshape(b, 1, 12, 6)
    f.output(a, product(flat, flat, (1, 12, 12), 4.0, y=True))
    return f


def dead() -> File:
    """Channels of which the kernel makes the zero point, since their scale is so small."""
    f = File(23)
    x = f.input(1, 5, 6, 3, scale=0.03, zero=-9)
    y = f.conv(x, 6)
    f.depthwise(y, 1)
    for operator in f.graph.operators:
        for index in operator.inputs[1:]:
            scale = f.graph.tensors[index].quantization.scale
            scale[1], scale[4] = 1e-12, 3e-20
    f.output(Value(f.graph.operators[-1].outputs[0], (1, 5, 6, 6)))
    return f


def transposed() -> File:
    """Kernels larger, smaller and of the size of the stride, that divide by it and do not."""
    f = File(24)
    x = f.input(1, 3, 4, 3, scale=0.03, zero=-9)
    x = f.transposed(x, 4, (3, 3), (2, 2))
    a = f.transposed(x, 3, (3, 5), (2, 3), same=False, activation="relu", channels=False)
    b = f.transposed(x, 3, (4, 3), (2, 1), bias=False)
    f.output(a, b, f.transposed(x, 5, (1, 1), (1, 2)), f.transposed(x, 2, (2, 2), (2, 2), same=False))
    return f


def resized() -> File:
    """Pictures made larger and smaller, by whole factors and others, of which many results are ties."""
    f = File(25)
    x = f.input(1, 5, 4, 3, scale=0.03, zero=-9)
    f.output(*(
        _given(f, "RESIZE_BILINEAR", x, [size], (1, *size, 3), "ResizeBilinear", **more)
        for size, more in (
            ([10, 8], {}), ([10, 8], {"halfPixelCenters": True}), ([9, 7], {"alignCorners": True}),
            ([13, 1], {"alignCorners": True}), ([2, 9], {"halfPixelCenters": True}), ([4, 2], {}),
        )
    ))  # fmt: skip
    return f


def stored_matrices() -> File:
    """Products with stored matrices, on either side, turned or not, for all heads or one for each."""
    f = File(26)
    x = f.input(1, 3, 5, 4, scale=0.03, zero=-9)
    results = []
    for shape, first, turned in (
        ((4, 6), False, ""), ((6, 4), False, "Y"), ((5, 2), False, "X"), ((2, 5), True, ""), ((5, 7), True, "X"),
        ((7, 4), True, "Y"), ((1, 3, 4, 6), False, ""), ((3, 6, 4), False, "Y"), ((1, 3, 2, 5), True, ""),
    ):  # fmt: skip
        stored = f.stored(f.random.integers(-128, 128, shape), 0.011, 21)
        sides = (stored, x) if first else (x, stored)
        one, other = (v.shape[-2:][:: -1 if name in turned else 1] for v, name in zip(sides, "XY", strict=True))
        options = schema.BatchMatMulOptionsT()
        options.adjX, options.adjY = "X" in turned, "Y" in turned
        results.append(f.result((1, 3, one[0], other[1]), 0.1))
        f.operation("BATCH_MATMUL", [v.index for v in sides], [results[-1].index], options, 2)
    f.output(*results)
    return f


def in_blocks() -> File:
    """Dilated convolutions as a convolution of every part of a picture: padded, cut off, and neither."""
    f = File(27)
    x = f.input(1, 9, 8, 3, scale=0.03, zero=-9)
    results = []
    for blocks, pads, crops, kernel, outputs, depthwise in (
        ((2, 3), ((2, 3), (3, 4)), ((0, 1), (0, 0)), (3, 3), 4, False),
        ((3, 2), ((0, 0), (0, 0)), ((0, 0), (0, 0)), (2, 2), 5, False),
        ((2, 2), ((2, 3), (2, 2)), ((0, 1), (1, 0)), (3, 2), 3, True),
    ):
        parts = blocks[0] * blocks[1]
        sides = [(n + sum(p)) // b for n, p, b in zip(x.shape[1:3], pads, blocks, strict=True)]
        y = f.result((parts, *sides, 3), x.scale, x.zero)
        f.operation("SPACE_TO_BATCH_ND", [x.index, f.numbers(blocks), f.numbers(pads)], [y.index])
        z = f.depthwise(y, kernel=kernel, same=False) if depthwise else f.conv(y, outputs, kernel, same=False)
        size = [n * b - sum(c) for n, b, c in zip(z.shape[1:3], blocks, crops, strict=True)]
        results.append(f.result((1, *size, outputs), z.scale, z.zero))
        f.operation("BATCH_TO_SPACE_ND", [z.index, f.numbers(blocks), f.numbers(crops)], [results[-1].index])
    f.output(*results)
    return f


def around() -> File:
    """Borders of other dimensions than rows and columns, and data that is repeated to a stored operand."""
    f = File(28)
    x, y = f.input(1, 6, 5, scale=0.03, zero=-9), f.input(1, 4, 1, scale=0.02, zero=7)
    f.graph.tensors[y.index].name = "second"
    results = []
    for amounts in ([[0, 0], [3, 1], [0, 0]], [[0, 0], [0, 0], [2, 0]], [[0, 0], [1, 2], [0, 3]]):
        size = tuple(n + sum(a) for n, a in zip(x.shape, amounts, strict=True))
        results.append(f.result(size, x.scale, x.zero))
        f.operation("PAD", [x.index, f.numbers(amounts)], [results[-1].index], schema.PadOptionsT(), 2)
    stored = f.stored([9, -120, 44], 0.013, 5)
    results += [f.binary("MUL", y, stored, 0.02), f.binary("SUB", stored, y, 0.03)]
    results.append(f.binary("ADD", y, f.stored(f.random.integers(-128, 128, (1, 4, 6)), 0.017), 0.03))
    f.output(*results)
    return f


def through_float() -> File:
    """Functions of one value between a dequantisation and a quantisation."""
    f = File(29)
    x = f.input(1, 7, 5, scale=0.031, zero=-128)
    results = []
    for names in (["NEG"], ["SQUARE"], ["SQRT"], ["FLOOR", "NEG"], []):
        index = f.tensor(x.shape, dtype=np.float32)
        f.operation("DEQUANTIZE", [x.index], [index])
        for name in names:
            after = f.tensor(x.shape, dtype=np.float32)
            f.operation(name, [index], [after])
            index = after
        results.append(f.result(x.shape, 0.0613))
        f.operation("QUANTIZE", [index], [results[-1].index])
    f.output(*results)
    return f


NETWORKS: dict[str, Callable[[], File]] = {
    make.__name__: make
    for make in (
        strides,
        depthwise,
        dilated,
        dense,
        rows,
        pools,
        scales,
        tensor_scales,
        residual,
        products,
        side_by_side,
        averages,
        means,
        orders,
        functions,
        excited,
        joined,
        parts,
        split,
        curves,
        slopes,
        matrices,
        dead,
        transposed,
        resized,
        stored_matrices,
        in_blocks,
        around,
        through_float,
    )
}
"""Networks by name."""
