"""Transposed convolutions as ordinary ones, without a product with the zeros that their stride inserts.

With stride ``s`` and padding ``p`` the outputs ``o`` with ``o + p = s q + c`` of one phase ``c`` read the kernel
elements ``k`` with ``k d = c (mod s)`` at the inputs ``q + (c - k d) / s``: a convolution of stride 1 (Shi et al.,
"Is the deconvolution layer the same as a convolutional layer?", arXiv:1609.07009). The phases become channels, and a
permutation puts them beside each other, as ``pixel_shuffle`` does.

Where every phase has the same elements one convolution computes all of them, in ``s`` times the output channels.
Where they do not, each phase has a convolution with exactly its own elements.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.passes.transforms.lowering.call import Call, parameter
from mase_hw.passes.transforms.lowering.parts import joined

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
