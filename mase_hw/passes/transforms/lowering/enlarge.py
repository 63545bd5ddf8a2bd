"""Enlargement with weights: linear by whole factors as a transposed convolution, all else as products with a matrix."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.passes.transforms.lowering.call import Call
from mase_hw.passes.transforms.lowering.padding import EdgePad
from mase_hw.passes.transforms.lowering.transposed import Transposed

WEIGHTED = ("linear", "bilinear", "bicubic")


class Linear(nn.Module):
    """Linear enlargement by whole factors, corners not aligned.

    With ``p`` half of the factor ``f``, output ``o`` with ``o + p = f q + c`` lies ``(c + 1/2) / f`` behind input
    ``q - 1`` (``(c + 1) / f`` for odd factors): two inputs a dimension for every phase, which is a depthwise transposed
    convolution. Beyond the edge there is the edge again. For factors that are powers of two the weights are exact.

    Args:
        call: Input ``(N, C, *size)``.
        factors: Of every dimension of space.
    """

    def __init__(self, call: Call, factors: Sequence[int]) -> None:
        super().__init__()
        channels, sizes = call.shapes[0][1], call.shapes[0][2:]
        around = [int(f > 1) for f in factors]
        self.pad = EdgePad("replicate", [n for a in reversed(around) for n in (a, a)], sizes)
        self.cuts, self.sizes = [f // 2 if f % 2 == 0 else (f - 1) // 2 for f in factors], list(call.shape[2:])
        weight = torch.ones(1)
        for f in factors:
            weight = torch.outer(weight, taps(f)).flatten()
        kernel = [2 * f if f > 1 else 1 for f in factors]
        grown = [s + 2 * a for s, a in zip(sizes, around, strict=True)]
        padding = [cut + f if f > 1 else 0 for cut, f in zip(self.cuts, factors, strict=True)]
        self.out = [
            (g - 1) * f - 2 * p + k for g, f, p, k in zip(grown, factors, padding, kernel, strict=True)
        ]  # fmt: skip
        weights = weight.reshape(1, 1, *kernel).expand(channels, -1, *[-1] * len(kernel)).contiguous()
        self.up = Transposed(
            Call(
                call.name, "conv_transpose", call.inputs, [(call.shapes[0][0], channels, *grown)],
                (call.shape[0], channels, *self.out),
                {"stride": tuple(factors), "padding": tuple(padding), "groups": channels}, {"weight": weights},
            )
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """``(N, C, *size)`` -> enlarged."""
        y: Tensor = self.up(self.pad(x))
        for dim, (have, want) in enumerate(zip(self.out, self.sizes, strict=True), start=2):
            if have != want:
                y = y.narrow(dim, 0, want)
        return y


def taps(factor: int) -> Tensor:
    """The kernel of one dimension: weight of an input for every output it reaches."""
    if factor == 1:
        return torch.ones(1)
    half = 0.5 if factor % 2 == 0 else 1.0
    first = (torch.arange(factor, dtype=torch.float64) + half) / factor
    return torch.cat((first, 1 - first)).float()


class Resample(nn.Module):
    """Any resampling whose weights depend on the position alone: a matrix for columns, and one for rows.

    Args:
        call: Input ``(N, C, *size)``.
        options: Of :func:`torch.nn.functional.interpolate`; the mode ``adaptive`` is that of averages.
    """

    def __init__(self, call: Call, options: dict[str, Any]) -> None:
        super().__init__()
        pairs = list(zip(call.shapes[0][2:], call.shape[2:], strict=True))
        self.dims = [2 + i for i, (size, out) in enumerate(pairs) if size != out]
        for dim in self.dims:
            size, out = pairs[dim - 2]
            given = torch.eye(size, dtype=torch.float64)
            if options["mode"] == "adaptive":
                matrix = F.adaptive_avg_pool1d(given.unsqueeze(0), out)[0]
            elif options["mode"] == "bicubic":
                matrix = F.interpolate(given.reshape(1, size, size, 1), (out, 1), **options)[0, :, :, 0]
            else:
                matrix = F.interpolate(given.unsqueeze(0), out, **{**options, "mode": "linear"})[0]
            layer = nn.Linear(size, out, bias=False)
            layer.weight = nn.Parameter(matrix.t().float().contiguous(), requires_grad=False)
            self.add_module(f"dim{dim}", layer)

    def forward(self, x: Tensor) -> Tensor:
        """``(N, C, *size)`` -> another size."""
        for dim in self.dims:
            x = self.get_submodule(f"dim{dim}")(x.transpose(dim, -1)).transpose(dim, -1)
        return x


class Chosen(nn.Module):
    """Elements of every dimension of space by stored places, the largest of several at each.

    Args:
        places: Of every dimension that changes: a tensor of places for each that is compared.
    """

    def __init__(self, places: Mapping[int, Sequence[Tensor]]) -> None:
        super().__init__()
        self.dims = {dim: len(each) for dim, each in places.items()}
        for dim, each in places.items():
            for index, place in enumerate(each):
                self.register_buffer(f"places_{dim}_{index}", place.to(torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """``(N, C, *size)`` -> another size."""
        for dim, count in self.dims.items():
            parts = [torch.index_select(x, dim, self.get_buffer(f"places_{dim}_{i}")) for i in range(count)]
            x = functools.reduce(torch.maximum, parts)
        return x


def _nearest(call: Call, mode: str, scales: Sequence[Any]) -> nn.Module | None:
    """Nearest neighbours by any ratio; by whole factors they are an op of their own."""
    pairs = list(zip(call.shapes[0][2:], call.shape[2:], strict=True))
    if len(pairs) < 3 and all(out % size == 0 for size, out in pairs):
        return None
    kept = not call.attributes.get("recompute_scale_factor")
    places = {}
    for dim, ((size, out), scale) in enumerate(zip(pairs, scales, strict=True), start=2):
        how: dict[str, Any] = {"size": out} if scale is None or not kept else {"scale_factor": float(scale)}
        numbers = torch.arange(size, dtype=torch.float64).reshape(1, 1, size)
        places[dim] = [F.interpolate(numbers, mode=mode, **how).flatten()]
    return Chosen({dim: each for dim, each in places.items() if each[0].tolist() != list(range(pairs[dim - 2][0]))})


def adaptive(call: Call) -> nn.Module | None:
    """An adaptive pooling that enlarges: windows of one or two elements."""
    pairs = list(zip(call.shapes[0][2:], call.shape[2:], strict=True))
    if all(out <= size for size, out in pairs) or len(call.shape) != len(call.shapes[0]):
        return None
    if "avg" in call.op:
        return Resample(call, {"mode": "adaptive"})
    places = {}
    for dim, (size, out) in enumerate(pairs, start=2):
        first = torch.arange(out) * size // out
        last = -(-(torch.arange(out) + 1) * size // out) - 1
        most = int((last - first).max()) + 1
        places[dim] = [torch.minimum(first + i, last) for i in range(most)]
    return Chosen(places)


def interpolate(call: Call) -> nn.Module | None:
    """An enlargement with weights, or nearest neighbours by other ratios than whole ones."""
    mode = str(call.attributes.get("mode", "bilinear" if call.op == "upsample_bilinear" else "nearest"))
    corners = bool(call.attributes.get("align_corners") or False)
    spatial = len(call.shape) - 2
    scale = call.attributes.get("scale_factor")
    asked = list(scale) if isinstance(scale, list | tuple) else [scale] * spatial
    if mode.startswith("nearest"):
        return _nearest(call, mode, asked)
    if mode not in WEIGHTED or not 1 <= spatial <= 2 or call.attributes.get("antialias"):
        return None
    ratios = [out / size for size, out in zip(call.shapes[0][2:], call.shape[2:], strict=True)]
    kept = not call.attributes.get("recompute_scale_factor") and scale is not None
    if kept and any(a is None or not math.isclose(a, r) for a, r in zip(asked, ratios, strict=True)):
        return None  # the scale, not the sizes, places the positions
    whole = all(r == int(r) for r in ratios)
    if whole and not corners and mode != "bicubic":
        return Linear(call, [int(r) for r in ratios])
    return Resample(call, {"mode": mode, "align_corners": corners})
