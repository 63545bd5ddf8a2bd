"""Enlargement with weights: linear by whole factors as a transposed convolution, all else as products with a matrix.

Transposed convolutions as ordinary ones, without a product with the zeros that their stride inserts.

With stride ``s`` and padding ``p`` the outputs ``o`` with ``o + p = s q + c`` of one phase ``c`` read the kernel
elements ``k`` with ``k d = c (mod s)`` at the inputs ``q + (c - k d) / s``: a convolution of stride 1 (Shi et al.,
"Is the deconvolution layer the same as a convolutional layer?", arXiv:1609.07009). The phases become channels, and a
permutation puts them beside each other, as ``pixel_shuffle`` does.

Where every phase has the same elements one convolution computes all of them, in ``s`` times the output channels.
Where they do not, each phase has a convolution with exactly its own elements.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.passes.lower.layers.call import Call, Formula, Line, joined, parameter
from mase_hw.passes.lower.layers.volumes import edge_pad

Conv = nn.Conv1d | nn.Conv2d | nn.Conv3d


@dataclass(frozen=True)
class Taps:
    """The kernel elements of one phase along one dimension, and where they read.

    Args:
        elements: Of the kernel, in the order in which they meet the input; empty if the phase is the bias alone.
        first: Input position that the first one reads at output position 0 of the phase.
        gap: Positions from one to the next.
    """

    elements: tuple[int, ...]
    first: int
    gap: int

    def around(self, size: int, out: int) -> tuple[int, int]:
        """Zeros before and behind an input of ``size`` for ``out`` positions; negative if inputs stay unread."""
        last = self.first + (max(len(self.elements), 1) - 1) * self.gap + out - 1
        return -self.first, last - (size - 1)


@dataclass(frozen=True)
class Axis:
    """One dimension of a transposed convolution: sizes of the input, the kernel and the result, and attributes."""

    size: int
    out: int
    kernel: int
    stride: int
    padding: int
    dilation: int

    def taps(self, phase: int) -> Taps:
        """The elements for the outputs ``stride * q + phase - padding``."""
        found = [k for k in range(self.kernel) if (k * self.dilation - phase) % self.stride == 0]
        gap = self.dilation // math.gcd(self.dilation, self.stride)
        at = [(phase - k * self.dilation) // self.stride for k in found]
        return Taps(tuple(reversed(found)), at[-1] if at else 0, gap)

    @property
    def together(self) -> list[Taps] | None:
        """The phases 0 to ``stride - 1``, if all of them read the same inputs; positions start in the padding."""
        phases = [self.taps(c) for c in range(self.stride)]
        same = all((len(t.elements), t.first) == (len(phases[0].elements), phases[0].first) for t in phases)
        if not same:
            return None
        moved = self.padding // self.stride
        return [Taps(t.elements, t.first + moved, t.gap) for t in phases]

    @property
    def apart(self) -> list[Taps]:
        """The phases of the outputs ``stride * q + r``."""
        return [self.taps(r + self.padding) for r in range(self.stride)]

    def positions(self, together: bool) -> int:
        """Output positions of every phase."""
        cut = self.padding % self.stride if together else 0
        return -(-(self.out + cut) // self.stride)


class Transposed(nn.Module):
    """The body of a transposed convolution.

    Args:
        call: Input ``(N, C, *size)``, ``weight (C, O / groups, *kernel)``, an optional ``bias (O,)``.
    """

    def __init__(self, call: Call) -> None:
        super().__init__()
        weight, bias = call.parameters["weight"], call.parameters.get("bias")
        dims = weight.dim() - 2
        self.groups = int(call.attributes.get("groups", 1))
        stride, padding, dilation = (call.each(n, dims, d) for n, d in (("stride", 1), ("padding", 0), ("dilation", 1)))
        self.shape = call.shape
        self.strides = stride
        self.axes = [
            Axis(*sizes)
            for sizes in zip(
                call.shapes[0][2:], call.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True
            )
        ]
        together = [axis.together for axis in self.axes]
        self.whole = all(phases is not None for phases in together)
        self.cut = [axis.padding % axis.stride if self.whole else 0 for axis in self.axes]
        self.out = [axis.positions(self.whole) for axis in self.axes]
        phases = [p for p in together if p is not None] if self.whole else [axis.apart for axis in self.axes]
        if self.whole:
            every = list(itertools.product(*phases))
            self.add_module("conv", self._conv(every, weight, bias))
        else:
            for index, one in enumerate(itertools.product(*phases)):
                self.add_module(f"phase{index}", self._conv([one], weight, bias))

    def _conv(self, phases: Sequence[tuple[Taps, ...]], weight: Tensor, bias: Tensor | None) -> Conv | Padded:
        """A convolution of several phases with equal places; channels are groups, phases, channels of a group."""
        kernels = [self._kernel(phase, weight) for phase in phases]
        inputs, outputs = weight.shape[0], weight.shape[1] * self.groups
        # (phases, O, C / groups, *K) -> (groups, phases, O / groups, ...)
        stacked = torch.stack(kernels)
        cut = stacked.reshape(len(phases), self.groups, -1, *stacked.shape[2:]).transpose(0, 1).flatten(0, 2)
        gaps = [taps.gap for taps in phases[0]]
        around = [t.around(axis.size, out) for t, axis, out in zip(phases[0], self.axes, self.out, strict=True)]
        made = padded(inputs, len(phases) * outputs, cut.shape[2:], around, gaps, self.groups, bias is not None)
        conv = made.conv if isinstance(made, Padded) else made
        conv.weight = parameter(cut, weight)
        if bias is not None:
            spread = bias.detach().reshape(self.groups, 1, -1).expand(-1, len(phases), -1)
            conv.bias = parameter(spread.reshape(-1), bias)
        return made

    def _kernel(self, phase: tuple[Taps, ...], weight: Tensor) -> Tensor:
        """The elements of a phase as a weight ``(O, C / groups, *kernel)`` of an ordinary convolution."""
        part = weight.detach()
        for dim, taps in enumerate(phase, start=2):
            if taps.elements:
                part = part.index_select(dim, torch.tensor(taps.elements, device=part.device))
            else:
                part = torch.zeros_like(part.narrow(dim, 0, 1))
        # (C, O / groups, *K) -> (O, C / groups, *K)
        return part.reshape(self.groups, -1, *part.shape[1:]).transpose(1, 2).flatten(0, 1)

    def forward(self, x: Tensor) -> Tensor:
        """``(N, C, *size)`` -> ``(N, O, *out)``."""
        dims, y = len(self.axes), x
        sizes = [n * s for n, s in zip(self.out, self.strides, strict=True)]
        if self.whole:
            y, phases = self.get_submodule("conv")(x), [self.groups, *self.strides, self.shape[1] // self.groups]
            order = [0, 1, 2 + dims]
        else:
            parts = [self.get_submodule(f"phase{i}")(x) for i in range(math.prod(self.strides))]
            y, phases = joined(parts, 1), [*self.strides, self.shape[1]]
            order = [0, 1 + dims]
        if math.prod(self.strides) > 1:
            first, space = 1 + len(order) - 2, 1 + len(phases)
            mixed = [d for i in range(dims) for d in (space + i, first + i)]
            y = y.reshape(-1, *phases, *self.out).permute(*order, *mixed)
            y = y.reshape(-1, self.shape[1], *sizes)
        for dim, (have, size, cut) in enumerate(zip(sizes, self.shape[2:], self.cut, strict=True), start=2):
            if have != size:
                y = y.narrow(dim, cut, size)
        return y


def padded(
    inputs: int,
    outputs: int,
    kernel: Sequence[int],
    around: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
    bias: bool,
) -> Conv | Padded:
    """A convolution of stride 1 with any zeros at either end of every dimension, or with inputs cut away there."""
    kind: type[Any] = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[len(kernel) - 1]
    kernel, dilation = tuple(kernel), tuple(dilation)
    even = [divmod(d * (k - 1), 2) for d, k in zip(dilation, kernel, strict=True)]
    if all(a == b >= 0 for a, b in around):
        found: Conv = kind(inputs, outputs, kernel, 1, tuple(a for a, _ in around), dilation, groups, bias)
        return found
    if list(around) == [(half, half + odd) for half, odd in even]:
        found = kind(inputs, outputs, kernel, 1, "same", dilation, groups, bias)
        return found
    return Padded(kind(inputs, outputs, kernel, 1, 0, dilation, groups, bias), around)


class Padded(nn.Module):
    """A convolution of an input that is padded, or cut, before."""

    def __init__(self, conv: Conv, around: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self.conv = conv
        self.around = list(around)

    def forward(self, x: Tensor) -> Tensor:
        """``(N, C, *size)`` -> ``(N, O, *out)``."""
        for dim, (before, after) in enumerate(self.around, start=2):
            if before < 0 or after < 0:
                end = min(after, 0)
                x = x[(*[slice(None)] * dim, slice(max(-before, 0), end or None))]
        zeros = [max(n, 0) for pair in reversed(self.around) for n in pair]
        y: Tensor = self.conv(F.pad(x, zeros) if any(zeros) else x)
        return y


def transposed(call: Call) -> nn.Module | None:
    """A transposed convolution of a batch, with stored weights."""
    weight = call.parameters.get("weight")
    known = weight is not None and weight.dim() in (3, 4, 5) and len(call.inputs) == 1
    return Transposed(call) if known and weight is not None and len(call.shapes[0]) == weight.dim() else None


WEIGHTED = ("linear", "bilinear", "bicubic")


def linear(call: Call, factors: Sequence[int]) -> nn.Module:
    """Linear enlargement by whole factors, corners not aligned.

    With ``p`` half of the factor ``f``, output ``o`` with ``o + p = f q + c`` lies ``(c + 1/2) / f`` behind input
    ``q - 1`` (``(c + 1) / f`` for odd factors): two inputs a dimension for every phase, which is a depthwise transposed
    convolution. Beyond the edge there is the edge again. For factors that are powers of two the weights are exact.

    Args:
        call: Input ``(N, C, *size)``.
        factors: Of every dimension of space.
    """
    channels, sizes = call.shapes[0][1], call.shapes[0][2:]
    around = [int(f > 1) for f in factors]
    pad = edge_pad("replicate", [n for a in reversed(around) for n in (a, a)], sizes)
    cuts = [f // 2 if f % 2 == 0 else (f - 1) // 2 for f in factors]
    weight = torch.ones(1)
    for f in factors:
        weight = torch.outer(weight, taps(f)).flatten()
    kernel = [2 * f if f > 1 else 1 for f in factors]
    grown = [s + 2 * a for s, a in zip(sizes, around, strict=True)]
    padding = [cut + f if f > 1 else 0 for cut, f in zip(cuts, factors, strict=True)]
    out = [(g - 1) * f - 2 * p + k for g, f, p, k in zip(grown, factors, padding, kernel, strict=True)]
    weights = weight.reshape(1, 1, *kernel).expand(channels, -1, *[-1] * len(kernel)).contiguous()
    up = Transposed(
        Call(
            call.name, "conv_transpose", call.inputs, [(call.shapes[0][0], channels, *grown)],
            (call.shape[0], channels, *out),
            {"stride": tuple(factors), "padding": tuple(padding), "groups": channels}, {"weight": weights},
        )
    )  # fmt: skip

    def run(x: Tensor) -> Tensor:
        y: Tensor = up(pad(x))
        for dim, (have, want) in enumerate(zip(out, call.shape[2:], strict=True), start=2):
            if have != want:
                y = y.narrow(dim, 0, want)
        return y

    return Line(run, up=up)


def taps(factor: int) -> Tensor:
    """The kernel of one dimension: weight of an input for every output it reaches."""
    if factor == 1:
        return torch.ones(1)
    half = 0.5 if factor % 2 == 0 else 1.0
    first = (torch.arange(factor, dtype=torch.float64) + half) / factor
    return torch.cat((first, 1 - first)).float()


def resample(call: Call, options: dict[str, Any]) -> nn.Module:
    """Any resampling whose weights depend on the position alone: a matrix for columns, and one for rows.

    Args:
        call: Input ``(N, C, *size)``.
        options: Of :func:`torch.nn.functional.interpolate`; the mode ``adaptive`` is that of averages.
    """
    layers: dict[int, nn.Linear] = {}
    for dim, (size, out) in enumerate(zip(call.shapes[0][2:], call.shape[2:], strict=True), start=2):
        if size == out:
            continue
        given = torch.eye(size, dtype=torch.float64)
        if options["mode"] == "adaptive":
            matrix = F.adaptive_avg_pool1d(given.unsqueeze(0), out)[0]
        elif options["mode"] == "bicubic":
            matrix = F.interpolate(given.reshape(1, size, size, 1), (out, 1), **options)[0, :, :, 0]
        else:
            matrix = F.interpolate(given.unsqueeze(0), out, **{**options, "mode": "linear"})[0]
        layers[dim] = nn.Linear(size, out, bias=False)
        layers[dim].weight = nn.Parameter(matrix.t().float().contiguous(), requires_grad=False)

    def run(x: Tensor) -> Tensor:
        for dim, layer in layers.items():
            x = layer(x.transpose(dim, -1)).transpose(dim, -1)
        return x

    return Line(run, **{f"dim{dim}": layer for dim, layer in layers.items()})


def chosen(places: Mapping[int, Sequence[Tensor]]) -> nn.Module:
    """Elements of every dimension of space by stored places, the largest of several at each.

    Args:
        places: Of every dimension that changes: a tensor of places for each that is compared.
    """

    def run(s: Formula, x: Tensor) -> Tensor:
        for dim, each in places.items():
            parts = [torch.index_select(x, dim, s.get_buffer(f"places_{dim}_{i}")) for i in range(len(each))]
            x = functools.reduce(torch.maximum, parts)
        return x

    numbered = {f"places_{dim}_{i}": place for dim, each in places.items() for i, place in enumerate(each)}
    return Formula(run, **{name: place.to(torch.int64) for name, place in numbered.items()})


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
    return chosen({dim: each for dim, each in places.items() if each[0].tolist() != list(range(pairs[dim - 2][0]))})


def adaptive(call: Call) -> nn.Module | None:
    """An adaptive pooling that enlarges: windows of one or two elements."""
    pairs = list(zip(call.shapes[0][2:], call.shape[2:], strict=True))
    if all(out <= size for size, out in pairs) or len(call.shape) != len(call.shapes[0]):
        return None
    if "avg" in call.op:
        return resample(call, {"mode": "adaptive"})
    places = {}
    for dim, (size, out) in enumerate(pairs, start=2):
        first = torch.arange(out) * size // out
        last = -(-(torch.arange(out) + 1) * size // out) - 1
        most = int((last - first).max()) + 1
        places[dim] = [torch.minimum(first + i, last) for i in range(most)]
    return chosen(places)


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
        return linear(call, [int(r) for r in ratios])
    return resample(call, {"mode": mode, "align_corners": corners})
