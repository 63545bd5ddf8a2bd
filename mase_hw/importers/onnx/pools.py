"""Operations of ONNX with a window, a border or another size of the picture."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from mase_hw.importers.graph import Ref, Refused
from mase_hw.importers.onnx.step import Step, padded_window, window

_MAX: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_MEAN: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
_ONE_MAX: dict[int, Any] = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}
_ONE_MEAN: dict[int, Any] = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
_POWER: dict[int, Any] = {1: F.lp_pool1d, 2: F.lp_pool2d, 3: F.lp_pool3d}
_LINEAR = {1: "linear", 2: "bilinear"}
_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def _sizes(
    s: Step, kernel: list[int], stride: list[int], dilation: list[int], pads: list[tuple[int, int]]
) -> list[int]:
    """Sizes of the result, as the specification of pools has them."""
    ceil = bool(s.node.get("ceil_mode", 0))
    found = []
    for n, k, a, d, (before, after) in zip(s.shape()[2:], kernel, stride, dilation, pads, strict=True):
        room = n + before + after - d * (k - 1) - 1
        count = (-(-room // a) if ceil else room // a) + 1
        if ceil and (count - 1) * a >= n + before:
            count -= 1  # no window begins in what is padded behind
        found.append(count)
    return found


def max_pool(s: Step) -> Ref:
    """``MaxPool``; what torch computes too much, because it pads both sides alike, is cut off where that is all."""
    dims = len(s.shape()) - 2
    if len(s.node.outputs) > 1 and s.node.outputs[1]:
        raise Refused("the places of the maxima are a result")
    s.node.fixed("storage_order", 0)
    kernel, stride, dilation = window(s.node, dims)
    pads = padded_window(s.shape()[2:], kernel, stride, dilation, s.node)
    wanted = _sizes(s, kernel, stride, dilation, pads)
    if dims not in _MAX:
        raise Refused(f"a window over data {list(s.shape())}")
    before = [a for a, _ in pads]
    for ceil in (False, True):
        whole = (tuple(kernel), tuple(stride), tuple(before), tuple(dilation), ceil)
        if any(2 * b > k for b, k in zip(before, kernel, strict=True)):
            break
        sizes = tuple(_MAX[dims](torch.empty(s.shape(), device="meta"), *whole).shape[2:])
        if all(a >= b for a, b in zip(sizes, wanted, strict=True)):
            made = s.call(_MAX[dims], s.data(), *whole)
            return made if sizes == tuple(wanted) else s.call(operator.getitem, made, _first(wanted))
    # A border of its own, in which nothing is the largest.
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    if any(max(pair) >= r for pair, r in zip(pads, reach, strict=True)):
        raise Refused(f"a padding of {pads} around windows of {kernel}", "pad by less than a window is wide")
    ends = [(m - 1) * a + r for m, a, r in zip(wanted, stride, reach, strict=True)]
    pairs = [(b, max(end - b - n, 0)) for b, end, n in zip(before, ends, s.shape()[2:], strict=True)]
    border = [p for pair in reversed(pairs) for p in pair]
    x = s.call(F.pad, s.data(), border, "constant", -math.inf)
    return s.call(_MAX[dims], x, tuple(kernel), tuple(stride), 0, tuple(dilation))


def _first(sizes: list[int]) -> tuple[slice, ...]:
    return (slice(None), slice(None), *(slice(0, n) for n in sizes))


def average_pool(s: Step) -> Ref:
    """``AveragePool``."""
    dims = len(s.shape()) - 2
    kernel, stride, dilation = window(s.node, dims)
    pads = padded_window(s.shape()[2:], kernel, stride, dilation, s.node)
    counted, ceil = bool(s.node.get("count_include_pad", 0)), bool(s.node.get("ceil_mode", 0))
    if dims not in _MEAN or any(d != 1 for d in dilation):
        raise Refused(f"a window over data {list(s.shape())}, dilated by {dilation}")
    wanted = _sizes(s, kernel, stride, dilation, pads)
    x, padding, shares = s.data(), tuple(a for a, _ in pads), None
    if any(a != b or 2 * a > k for (a, b), k in zip(pads, kernel, strict=True)):
        border = [p for pair in reversed(pads) for p in pair]
        if not counted:
            ones = F.pad(torch.ones(1, 1, *s.shape()[2:]), border)
            shares = 1 / _MEAN[dims](ones, tuple(kernel), tuple(stride), 0, ceil)
        x, padding, counted = s.call(F.pad, x, border), (0,) * dims, True
    made = s.call(_MEAN[dims], x, tuple(kernel), tuple(stride), padding, ceil, counted)
    if tuple(s.writer.shape(made)[2:]) != tuple(wanted):
        raise Refused(f"sizes {wanted} with ceil_mode, which torch rounds otherwise")
    return made if shares is None else s.call(torch.mul, made, shares)


def power_pool(s: Step) -> Ref:
    """``LpPool`` of squares, without a border."""
    dims = len(s.shape()) - 2
    kernel, stride, dilation = window(s.node, dims)
    pads = padded_window(s.shape()[2:], kernel, stride, dilation, s.node)
    s.node.fixed("p", 2)
    s.node.fixed("ceil_mode", 0)
    if dims not in _POWER or any(d != 1 for d in dilation) or any(map(any, pads)):
        raise Refused(f"a window over data {list(s.shape())}, dilated by {dilation} and with a border of {pads}")
    return s.call(_POWER[dims], s.data(), 2.0, tuple(kernel), tuple(stride))


def columns_to_image(s: Step) -> Ref:
    """``Col2Im`` of pictures."""
    size, block = s.numbers(1, "the size"), s.numbers(2, "the size of a block")
    stride, dilation = s.node.ints("strides", [1, 1]), s.node.ints("dilations", [1, 1])
    pads = s.node.ints("pads", [0] * 4)
    if any(len(v) != 2 for v in (size, block, stride, dilation)) or len(pads) != 4 or pads[:2] != pads[2:]:
        raise Refused(f"blocks of {block} in {size} with a border of {pads}", "pad both sides of pictures alike")
    if any(not 0 < n < 1 << 16 for v in (size, block, stride, dilation) for n in v) or min(pads) < 0:
        raise Refused(f"blocks of {block} in {size} by {stride}")
    return s.call(F.fold, s.data(), tuple(size), tuple(block), tuple(dilation), tuple(pads[:2]), tuple(stride))


def global_pool(kinds: dict[int, Any], s: Step) -> Ref:
    """``GlobalAveragePool`` and ``GlobalMaxPool``."""
    dims = len(s.shape()) - 2
    if dims not in kinds:
        raise Refused(f"a window over data {list(s.shape())}")
    return s.call(kinds[dims], s.data(), 1)


def pad(s: Step) -> Ref:
    """``Pad``."""
    shape, mode = s.shape(), s.node.get("mode", "constant")
    given = s.numbers(1, "the padding")
    axes = s.numbers(3, "a list of axes") if s.has(3) else list(range(len(shape)))
    value = s.maybe_known(2, "the value")
    if mode not in _MODES or len(given) != 2 * len(axes):
        raise Refused(f"a padding of {given} in the mode {mode!r:.40}")
    pairs = [(0, 0)] * len(shape)
    for i, axis in enumerate(axes):
        pairs[s.axis(axis, len(shape))] = (given[i], given[i + len(axes)])
    if any(abs(p) > 1 << 16 for pair in pairs for p in pair):
        raise Refused(f"a padding of {given}")
    if not any(map(any, pairs)):
        return s.data()
    while pairs and pairs[0] == (0, 0) and len(pairs) > (len(shape) - 2 if mode != "constant" else 1):
        pairs.pop(0)
    flat = [p for pair in reversed(pairs) for p in pair]
    filled = [] if value is None or mode != "constant" else [value.item()]
    return s.call(F.pad, s.data(), flat, _MODES[mode], *filled)


def resize(s: Step) -> Ref:
    """``Resize`` and ``Upsample``: as torch does it where its places or weights are the same, else by these."""
    shape, old = s.shape(), s.opset < 11
    dims = len(shape) - 2
    if s.node.get("antialias", 0) or dims not in _LINEAR:
        raise Refused("a resize with antialias, or of data that are no picture")
    axes = s.node.maybe_ints("axes")
    axes = list(range(len(shape))) if axes is None else [s.axis(a, len(shape)) for a in axes]
    s.node.get("extrapolation_value", 0.0)
    s.node.fixed("keep_aspect_ratio_policy", "stretch")
    mode = str(s.node.get("mode", "nearest")).replace("bilinear", "linear")
    nearest = s.node.get("nearest_mode", "floor" if old else "round_prefer_floor")
    way = s.node.get("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    cubic, outside = s.node.get("cubic_coeff_a", -0.75), bool(s.node.get("exclude_outside", 0))
    if s.has(3):
        given: list[float] = [float(n) for n in s.numbers(3, "the sizes")]
    else:
        given = [float(v) for v in s.known(1 if old else 2, "the scales").reshape(-1).tolist()]
    if len(given) != len(axes) or any(not 0 < v < 1 << 16 for v in given):
        raise Refused(f"sizes or scales {given}")
    places = dict(zip(axes, given, strict=True))
    if s.has(3):
        s.sized(s.data(), lambda of: _along_frames(of, axes))
        sizes = [int(places.get(i, n)) for i, n in enumerate(shape)]
        scales = [b / a for a, b in zip(shape, sizes, strict=True)]
    else:
        scales = [places.get(i, 1.0) for i in range(len(shape))]
        sizes = [math.floor(n * v) for n, v in zip(shape, scales, strict=True)]
    if sizes[:2] != list(shape[:2]) or any(n < 1 or n > 1 << 16 for n in sizes):
        raise Refused(f"a resize of {list(shape)} to {sizes}")
    found = [
        [_place(i, have, want, scale, way) for i in range(want)]
        for have, want, scale in zip(shape[2:], sizes[2:], scales[2:], strict=True)
    ]
    whole = all(abs(have * scale - want) < 1e-3 for have, want, scale in zip(shape, sizes, scales, strict=True))
    if way == "align_corners" and not whole:
        raise Refused(
            "corners aligned at scales that give no whole size, which evaluators take in two ways", "give sizes"
        )
    if mode == "nearest" and way == "half_pixel_symmetric":
        raise Refused("nearest places in the mode 'half_pixel_symmetric', which evaluators take in two ways")
    if mode == "nearest":
        # Before opset 11 nothing says how; evaluators round up where they leave elements out.
        ways = ["ceil" if old and scale < 1 else nearest for scale in scales[2:]]
        each = zip(found, ways, shape[2:], strict=True)
        return _nearest(s, [[_rounded(x, rounding, n) for x in xs] for xs, rounding, n in each])
    if mode not in ("linear", "cubic"):
        raise Refused(f"a resize in the mode {mode!r:.40}")
    matrices = [
        _weights(xs, n, cubic if mode == "cubic" else None, outside) for xs, n in zip(found, shape[2:], strict=True)
    ]
    return _weighted(s, matrices, _LINEAR[dims] if mode == "linear" else "bicubic")


def _along_frames(s: Step, axes: list[int]) -> list[int]:
    """The sizes of the data, but along the batch what the file resizes it to."""
    wanted = dict(zip(axes, s.numbers(3, "the sizes"), strict=True))
    return [wanted.get(0, n) if i == 0 else n for i, n in enumerate(s.shape())]


def _place(i: int, have: int, want: int, scale: float, way: str) -> float:
    """Where a result lies between the elements of the data; in float32, in which evaluators round it."""
    middle = np.float32(have / 2) * (np.float32(1) - np.float32(want) / (np.float32(scale) * np.float32(have)))
    half = float(np.float32(i + 0.5) / np.float32(scale) - np.float32(0.5))
    places = {
        "half_pixel": half,
        "half_pixel_symmetric": float(middle + np.float32(i + 0.5) / np.float32(scale) - np.float32(0.5)),
        "pytorch_half_pixel": half if want > 1 else 0.0,
        "asymmetric": float(np.float32(i) / np.float32(scale)),
        "align_corners": i * (have - 1) / (want - 1) if want > 1 else 0.0,
    }
    if way not in places:
        raise Refused(f"the places of {way!r:.40}")
    return places[way]


def _rounded(x: float, rounding: str, have: int) -> int:
    rounded = {
        "floor": math.floor(x),
        "ceil": math.ceil(x),
        "round_prefer_floor": math.ceil(x - 0.5),
        "round_prefer_ceil": math.floor(x + 0.5),
    }
    if rounding not in rounded:
        raise Refused(f"the nearest of {rounding!r:.40}")
    return min(max(rounded[rounding], 0), have - 1)


def _nearest(s: Step, places: list[list[int]]) -> Ref:
    """The elements at these places of rows and columns."""
    shape = s.shape()[2:]
    for mode, shift in (("nearest", 0), ("nearest-exact", 1)):
        theirs = [
            [(2 * i + shift) * n // (2 * len(at)) for i in range(len(at))] for at, n in zip(places, shape, strict=True)
        ]
        if places == theirs:
            return s.call(F.interpolate, s.data(), tuple(map(len, places)), None, mode)
    made = s.data()
    for dim, (at, n) in enumerate(zip(places, shape, strict=True), start=2):
        if at != list(range(n)):
            made = s.call(torch.index_select, made, dim, torch.tensor(at))
    return made


def _weights(places: list[float], have: int, cubic: float | None, outside: bool) -> torch.Tensor:
    """The weight of every element of the data, by result; of a cubic with this coefficient, or linear."""
    made = torch.zeros(len(places), have, dtype=torch.float64)
    for i, place in enumerate(places):
        first, part = math.floor(place), place - math.floor(place)
        taps = {first: 1 - part, first + 1: part}
        if cubic is not None:
            near = [(cubic + 2) * d**3 - (cubic + 3) * d**2 + 1 for d in (part, 1 - part)]
            far = [cubic * (d**3 - 5 * d**2 + 8 * d - 4) for d in (1 + part, 2 - part)]
            taps = {first - 1: far[0], first: near[0], first + 1: near[1], first + 2: far[1]}
        if outside:
            taps = {at: weight for at, weight in taps.items() if 0 <= at < have}
        for at, weight in taps.items():
            made[i, min(max(at, 0), have - 1)] += weight / (sum(taps.values()) if outside else 1)
    return made


def _weighted(s: Step, matrices: list[torch.Tensor], mode: str) -> Ref:
    """Rows and columns times these matrices."""
    sizes = tuple(len(m) for m in matrices)
    for corners in (False, True):
        if all(bool(torch.isclose(m, _theirs(m, mode, corners), atol=1e-6).all()) for m in matrices):
            return s.call(F.interpolate, s.data(), sizes, None, mode, align_corners=corners)
    for dim, matrix in enumerate(matrices, start=2):
        if matrix.shape[0] != matrix.shape[1] or not torch.equal(matrix, torch.eye(len(matrix), dtype=matrix.dtype)):
            order = [n for n in range(len(matrices) + 2) if n != dim] + [dim]
            s.inputs[0] = s.call(torch.permute, s.data(), tuple(order))
            layer = nn.Linear(matrix.shape[1], matrix.shape[0], False, device="meta")
            made = s.layer(layer, weight=matrix)
            s.inputs[0] = s.call(torch.permute, made, tuple(order.index(n) for n in range(len(order))))
    return s.data()


def _theirs(matrix: torch.Tensor, mode: str, corners: bool) -> torch.Tensor:
    """The weights that torch has."""
    out, size = matrix.shape
    given = torch.eye(size, dtype=torch.float64)
    if mode == "bicubic":
        made = F.interpolate(given.reshape(1, size, size, 1), (out, 1), mode=mode, align_corners=corners)[0, :, :, 0]
    else:
        made = F.interpolate(given.unsqueeze(0), out, mode="linear", align_corners=corners)[0]
    return made.t()


RULES: dict[str, Callable[[Step], Ref]] = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": functools.partial(global_pool, _ONE_MEAN),
    "GlobalMaxPool": functools.partial(global_pool, _ONE_MAX),
    "LpPool": power_pool,
    "Col2Im": columns_to_image,
    "Pad": pad,
    "Resize": resize,
    "Upsample": resize,
}
"""Operation -> what writes it."""
