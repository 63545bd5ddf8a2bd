"""Learned step sizes: LSQ (Esser et al., arXiv:1902.08153), rounded to powers of two in the end.

A value ``x`` becomes ``round(clip(x / s, -Qn, Qp)) * s``. With ``v = x / s`` the gradients are those of the publication
(formulas 3 and 5): ``dx = 1`` inside ``(-Qn, Qp)`` and 0 beyond; ``ds = round(v) - v`` inside, ``-Qn`` or ``Qp``
beyond, times ``1 / sqrt(N * Qp)``, ``N`` the number of weights of the layer or of values in a frame (section 2.2). So
what is clipped still moves the step, and is not lost for good.

Binary and ternary numbers ``q(v) * s`` have ``dx = 1`` everywhere and ``ds = q(v)``: that is the gradient of the scale
in trained ternary quantisation (Zhu et al., arXiv:1612.01064, formula 7).

A tensor may have bits of its own for every element: the element drops its ``k`` lowest bits, so it is a whole multiple
``q`` of ``2**k`` steps, and 0 where ``k`` is the width. ``k`` is learned as HGQ does (Sun et al., arXiv:2405.00645,
section III-B, where ``f`` is ``-k``): the error of rounding has the size of ``2**k``, so ``dk = ln(2) (q - v) s``; what
an element costs has the gradient of its number of bits.

Learned scales of scaled integers: LSQ (Esser et al., arXiv:1902.08153), zero points as LSQ+ (arXiv:2004.09576).

With ``v = x / s`` a value becomes ``clip(round(v) + z, low, high) - z`` times ``s``. The gradients are those of the
publications, ``Qn = z - low`` and ``Qp = high - z``: ``dx = 1`` inside ``(-Qn, Qp)`` and 0 beyond; inside,
``ds = round(v) - v``, and ``-Qn`` or ``Qp`` beyond, summed over all that has the scale; ``dz = 0`` inside and ``-s``
beyond (the offset of LSQ+ is ``-s z``). Those of scale and zero point are multiplied by ``1 / sqrt(N * Qp)``, ``N``
being the numbers in a frame, or the weights that share the scale (section 2.2 of LSQ).

A scale starts where calibration put it and stays a real number: nothing is rounded to a power of two in the end.

"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mase_hw.errors import FormatError
from mase_hw.formats import BlockFormat, FixedFormat, GroupFormat, Rounding, ScaledFormat, SignFormat
from mase_hw.numerics import along, signs
from mase_hw.numerics.grid import rounded, to_grid
from mase_hw.passes.quantize.integers.formats import of_range
from mase_hw.passes.quantize.sign_weights import means

Limits = tuple[Tensor, Tensor]
LEARNED = 8
"""Tensors of at most so many bits learn their step; the step of wider ones follows the range that is observed."""


class _Lsq(torch.autograd.Function):
    """Quantise and give back values; ``low`` and ``high`` are the ends in steps."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, step: Tensor, drop: Tensor | None, fmt: FixedFormat, scale: float, rounding: Rounding
    ) -> Tensor:
        v = x / step
        found = dropped(v, drop, fmt, rounding)
        ctx.save_for_backward(v, step, found, drop)
        ctx.given = (fmt, scale)
        return found * step

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None, None, None, None]:
        v, step, found, drop = ctx.saved_tensors
        fmt, scale = ctx.given
        grad, low, high = grads[0], fmt.min_mantissa, fmt.max_mantissa
        below, above = v <= low, v >= high
        inside = ~(below | above)
        by_step = by_drop = None
        if ctx.needs_input_grad[1]:
            share = torch.where(inside, found - v, torch.where(below, float(low), float(high)))
            by_step = (grad * share * scale).sum_to_size(step.shape)
        if ctx.needs_input_grad[2]:
            by_drop = (grad * inside * (found - v) * step * math.log(2)).sum_to_size(drop.shape)
        return grad * inside, by_step, by_drop, None, None, None


def dropped(v: Tensor, drop: Tensor | None, fmt: FixedFormat, rounding: Rounding) -> Tensor:
    """Mantissas in the range of a format, each a multiple of a power of two of its own.

    Args:
        v: Values in steps.
        drop: Bits that every element drops, rounded to whole ones; a shape that broadcasts to ``v``. None for none.
        fmt: The format.
        rounding: Rounding of the cast; to floor come only whole numbers.
    """
    if drop is None:
        return to_grid(v, fmt, rounding).clamp(fmt.min_mantissa, fmt.max_mantissa)
    v = torch.round(v) if rounding is Rounding.FLOOR else v  # m * s / s need not be m
    unit = torch.exp2(drop.round())
    low, high = (torch.trunc(end / unit) for end in (fmt.min_mantissa, fmt.max_mantissa))
    return rounded(v / unit, rounding).clamp(low, high) * unit


def whole_bits(drop: Tensor | None) -> Tensor:
    """The bits that are dropped, rounded to whole numbers, which passes gradients; 0 of None."""
    return torch.zeros(()) if drop is None else drop + (drop.round() - drop).detach()


@torch.no_grad()
def bounded(drop: Tensor, fmt: FixedFormat) -> None:
    """Keep dropped bits between none and all of a format."""
    drop.clamp_(0, fmt.width)


def lsq(
    x: Tensor,
    step: Tensor,
    fmt: FixedFormat,
    scale: float,
    rounding: Rounding = Rounding.HALF_EVEN,
    drop: Tensor | None = None,
) -> Tensor:
    """Values of the grid, with the gradients of the publication.

    Args:
        x: Any shape.
        step: Positive; a scalar, or a shape that broadcasts to ``x``.
        fmt: The format, whose smallest and largest mantissas are ``-Qn`` and ``Qp``.
        scale: What the gradient of the step is multiplied by.
        rounding: Rounding of the cast.
        drop: Bits that every element drops.
    """
    result: Tensor = _Lsq.apply(x, step, drop, fmt, scale, rounding)  # type: ignore[no-untyped-call]
    return result


class _Signs(torch.autograd.Function):
    """Binary and ternary values."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, step: Tensor, fmt: SignFormat, scale: float) -> Tensor:
        found = signs(x / step, fmt.threshold, fmt)
        ctx.save_for_backward(found, step)
        ctx.scale = scale
        return found * step

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        found, step = ctx.saved_tensors
        by_step = (grads[0] * found * ctx.scale).sum_to_size(step.shape) if ctx.needs_input_grad[1] else None
        return grads[0], by_step, None, None


class LearnedStep(nn.Module):
    """The grid of one tensor while a network is trained.

    Args:
        fmt: Width and sign of the tensor, and the step to begin with.
        rounding: Rounding of its cast.
        per_frame: The first dimension is that of frames; else the tensor is a parameter.

    The step is a parameter for tensors of up to :data:`LEARNED` bits; of wider ones it is that of the finest format
    that holds all that was observed so far. Integers in groups keep their factors and so their step, and so do
    minifloats whose bias was configured. The threshold of ternary numbers keeps its share of the step.
    """

    ends: Tensor
    threshold: Tensor

    def __init__(self, fmt: FixedFormat, rounding: Rounding = Rounding.HALF_EVEN, *, per_frame: bool = True) -> None:
        super().__init__()
        self.fmt = fmt
        self.rounding = rounding
        self.per_frame = per_frame
        self.given = isinstance(fmt, GroupFormat) or bool(fmt.element_rule)
        """Whether the step stays as it is."""
        self.learned = fmt.width <= LEARNED or bool(fmt.element_rule)
        self.finest: int | None = None
        """Finest fraction width worth having."""
        self.step = nn.Parameter(torch.tensor(fmt.scale), requires_grad=self.learned and not self.given)
        self.register_buffer("ends", torch.zeros(2, dtype=torch.float64))
        threshold = fmt.threshold if isinstance(fmt, SignFormat) else 0.0
        self.register_buffer("threshold", torch.tensor(threshold, dtype=torch.float64))
        self.drop: nn.Parameter | None = None
        """Bits that every element drops, if they are learned; see :meth:`learn_widths`."""

    def learn_widths(self, shape: tuple[int, ...]) -> None:
        """Give every element a number of bits of its own, which is learned from here on.

        A parameter is rounded to them; of data, which have been rounded to the step before, the lowest bits become 0.

        Args:
            shape: Of the tensor; of data that of a frame.
        """
        self.drop = nn.Parameter(torch.zeros(shape))

    def bits(self, x: Tensor) -> Tensor:
        """The bits of the values of a parameter: from the first to the last that may be set, without the sign.

        Only the dropped bits pass a gradient; what is 0 has no bits and passes none.
        """
        found = self.mantissas(x).detach()
        highest = torch.frexp(found).exponent.to(found.dtype)  # a whole number below 2**highest
        return torch.where(found == 0, 0, highest - whole_bits(self.drop))

    def mantissas(self, x: Tensor, scale: float | None = None) -> Tensor:
        """What the values are in steps, or in steps of a format."""
        step = scale if scale is not None else float(self.step.detach()) if self.learned else self.format().scale
        if isinstance(self.fmt, SignFormat):
            return signs(x / step, float(self.threshold), self._signs(0))
        return dropped(x / step, self.drop, self.fmt, self.rounding)

    def begin(self, x: Tensor) -> None:
        """Start from data: ``2 * mean|x| / sqrt(Qp)``, as the publication does, or from the range.

        Binary and ternary numbers start where their own rules say.
        """
        if not self.learned:
            self._observe(x)
            return
        if self.given:
            return
        if isinstance(self.fmt, SignFormat):
            mean, threshold = means(x, self.fmt.kind)
            if mean > 0:
                with torch.no_grad():
                    self.step.fill_(mean)
                    self.threshold.fill_(threshold / mean)
            return
        size = float(x.detach().abs().double().mean())
        if size > 0:
            with torch.no_grad():
                self.step.fill_(2 * size / math.sqrt(max(1, self.fmt.max_mantissa)))

    def round_step(self) -> None:
        """Round the step to the nearest power of two, in the logarithm, and stop learning it.

        Raises:
            FormatError: As :meth:`format`.
        """
        if self.learned:
            with torch.no_grad():
                self.step.fill_(self.format().scale)
            self.step.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Values of the grid; same shape."""
        if self.per_frame:
            return self.without_drops(self._rounded(x, None), self.drop, self.fmt)
        if self.drop is not None and self.training:
            bounded(self.drop, self.fmt)
        return self._rounded(x, self.drop)

    def without_drops(self, x: Tensor, drop: Tensor | None, fmt: FixedFormat) -> Tensor:
        """Numbers of the grid without the lowest bits that each drops.

        Args:
            x: On the grid.
            drop: Bits, in the shape of a frame; None for none.
            fmt: Width and sign.
        """
        if drop is None:
            return x
        if self.training:
            bounded(drop, fmt)
        step = self.step.detach() if self.learned else x.new_tensor(self.format().scale)
        return lsq(x, step, fmt, 0.0, Rounding.FLOOR, drop)

    def _rounded(self, x: Tensor, drop: Tensor | None) -> Tensor:
        if not self.learned:
            if self.training or not self.per_frame:
                self._observe(x)
            fmt = self.format()
            return lsq(x, x.new_tensor(fmt.scale), fmt, 0.0, self.rounding, drop)
        count = x[0].numel() if self.per_frame and x.dim() else x.numel()
        scale = 1 / math.sqrt(max(1, count) * max(1, self.fmt.max_mantissa))
        step = self.step if self.step.requires_grad else self.step.detach()
        if isinstance(self.fmt, SignFormat):
            result: Tensor = _Signs.apply(x, step, self._signs(0), scale)  # type: ignore[no-untyped-call]
            return result
        return lsq(x, step, self.fmt, scale, self.rounding, drop)

    def format(self) -> FixedFormat:
        """The format with the power of two that is nearest to the step.

        Raises:
            FormatError: If training has driven the step to zero or beyond.
        """
        if not self.learned:
            low, high = self.ends.tolist()
            found = FixedFormat.covering(low, high, self.fmt.width, self.fmt.signed).frac_width
            return self._at(found if self.finest is None else min(found, self.finest))
        value = float(self.step.detach())
        if not (math.isfinite(value) and value > 0):
            raise FormatError(
                "a learned step is not positive any more",
                field="step",
                got=value,
                expected="a positive number",
                remedy="train with a smaller learning rate, or from more calibration data",
            )
        return self._at(-round(math.log2(value)))

    def extra_repr(self) -> str:
        """Width, sign, and whether the step is learned."""
        return f"{self.fmt.width} bits, {'signed' if self.fmt.signed else 'unsigned'}, learned={self.learned}"

    def _at(self, frac: int) -> FixedFormat:
        """The format with that fraction width."""
        if isinstance(self.fmt, BlockFormat):
            return dataclasses.replace(self.fmt, frac_width=frac)
        if isinstance(self.fmt, SignFormat):
            return self._signs(frac)
        return FixedFormat(self.fmt.width, frac, self.fmt.signed)

    def _signs(self, frac: int) -> SignFormat:
        return SignFormat(self.fmt.width, frac, True, float(self.threshold))

    def _observe(self, x: Tensor) -> None:
        if not x.numel():
            return
        low, high = (float(end) for end in torch.aminmax(x.detach().double()))
        if self.per_frame:
            low, high = min(low, float(self.ends[0])), max(high, float(self.ends[1]))
        self.ends.copy_(torch.tensor([low if self.fmt.signed else max(low, 0.0), high], dtype=torch.float64))


class _ScaledLsq(torch.autograd.Function):
    """Values of a grid, in float64 inside, as :func:`mase_hw.numerics.quantize` computes them."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor, zero: Tensor, limits: Limits, factor: float, rounding: Rounding
    ) -> Tensor:
        (low, high), v, s = limits, x.double() / scale.double(), scale.double()
        whole = rounded(v, rounding)
        ctx.save_for_backward(v, whole, s, low - zero, high - zero)
        ctx.shapes, ctx.dtypes, ctx.factor = (scale.shape, zero.shape), (scale.dtype, zero.dtype), factor
        return (whole.clamp(low - zero, high - zero) * s).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None, None, None, None]:
        v, whole, scale, low, high = ctx.saved_tensors
        grad = grads[0]
        below, above = v <= low, v >= high
        inside = ~(below | above)
        by_scale = by_zero = None
        if ctx.needs_input_grad[1]:
            share = torch.where(inside, whole - v, torch.where(below, low, high))
            by_scale = (grad * share * ctx.factor).sum_to_size(ctx.shapes[0]).to(ctx.dtypes[0])
        if ctx.needs_input_grad[2]:
            by_zero = -(grad * ~inside * scale * ctx.factor).sum_to_size(ctx.shapes[1]).to(ctx.dtypes[1])
        return grad * inside, by_scale, by_zero, None, None, None


def scaled_lsq(
    x: Tensor,
    scale: Tensor,
    zero: Tensor,
    limits: Limits,
    factor: float,
    rounding: Rounding = Rounding.HALF_EVEN,
) -> Tensor:
    """Values of the grid, with the gradients of the publications.

    Args:
        x: Any shape.
        scale: Positive; a scalar, or a shape that broadcasts to ``x``.
        zero: The zero point, a whole number, which passes its gradient on; a scalar.
        limits: Smallest and largest mantissa, scalars or of the shape of ``scale``.
        factor: What the gradients of scale and zero point are multiplied by.
        rounding: Rounding of the cast.
    """
    result: Tensor = _ScaledLsq.apply(x, scale, zero, limits, factor, rounding)  # type: ignore[no-untyped-call]
    return result


class LearnedScale(nn.Module):
    """The grid of a tensor of scaled integers while a network is trained.

    Args:
        fmt: The format to begin with.
        rounding: Rounding of its cast.
        per_frame: The first dimension is that of frames; else the tensor is a parameter.
        learn_zero: Learn the zero point as well, if there is one.
        fixed: The format is what it is, as that of shares of 1.

    The scales are parameters for tensors of up to :data:`LEARNED` bits. That of a wider
    one follows what it has to hold: all that was observed so far, or the weights of the moment.
    """

    ends: Tensor

    def __init__(
        self,
        fmt: ScaledFormat,
        rounding: Rounding = Rounding.HALF_EVEN,
        *,
        per_frame: bool = True,
        learn_zero: bool = False,
        fixed: bool = False,
    ) -> None:
        super().__init__()
        self.fmt = fmt
        self.rounding = rounding
        self.per_frame = per_frame
        self.learned, self.fixed = fmt.width <= LEARNED and not fixed, fixed
        learn_zero = learn_zero and self.learned and bool(fmt.zero_point)
        self.step = nn.Parameter(torch.tensor(fmt.scales, dtype=torch.float32), requires_grad=self.learned)
        self.zero = nn.Parameter(torch.tensor(float(fmt.zero_point)), requires_grad=learn_zero)
        self.register_buffer("ends", torch.tensor([fmt.min_value, fmt.max_value], dtype=torch.float64))

    def parameters_learned(self) -> list[nn.Parameter]:
        """Scale and zero point, as far as they are learned."""
        return [each for each in (self.step, self.zero) if each.requires_grad]

    def settle(self) -> None:
        """Stop learning scale and zero point, which stay as they are."""
        self.format()
        self.step.requires_grad_(False)
        self.zero.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """Values of the grid; same shape."""
        if not (self.learned or self.fixed) and (self.training or not self.per_frame):
            self._follow(x)
        scale = self._shaped(self.step, x)
        lows, highs = (self._limits(x, each) for each in zip(*self.fmt.limits, strict=True))
        first, last = super_limits(self.fmt)
        nearest = self.zero + (self.zero.round().clamp(first, last) - self.zero).detach()
        count = x[0].numel() if self.per_frame and x.dim() else x.numel() // self.fmt.channels
        most = max(1, self.fmt.max_mantissa - round(float(self.zero.detach())))
        return scaled_lsq(x, scale, nearest, (lows, highs), 1 / math.sqrt(max(1, count) * most), self.rounding)

    def nearest(self, x: Tensor) -> Tensor:
        """The nearest values of the grid, which only passes gradients on; for results at the scale of an input."""
        scale = self._shaped(self.step, x).detach().double()
        v = x.double() / scale
        zero = float(self.zero.detach().round())
        low, high = self.fmt.min_mantissa - zero, self.fmt.max_mantissa - zero
        return ((v + (torch.round(v) - v).detach()).clamp(low, high) * scale).to(x.dtype)

    def format(self) -> ScaledFormat:
        """The format of the moment.

        Raises:
            FormatError: If training has driven a scale to zero or beyond.
        """
        scales = [float(each) for each in self.step.detach().float().reshape(-1).tolist()]
        worst = min(scales)
        if not (all(map(math.isfinite, scales)) and worst > 0):
            raise FormatError(
                "a learned scale is not positive any more",
                field="scale",
                got=worst,
                expected="a positive number",
                remedy="give the scales a smaller learning rate (steps()), or train from more calibration data",
            )
        first, last = super_limits(self.fmt)
        zero = min(max(round(float(self.zero.detach())), first), last)
        return dataclasses.replace(self.fmt, scales=tuple(scales), zero_point=zero)

    def extra_repr(self) -> str:
        """The format to begin with, and what is learned."""
        return f"{self.fmt}, learned={self.learned}, learned zero point={self.zero.requires_grad}"

    def _shaped(self, values: Tensor, x: Tensor) -> Tensor:
        """A number for each channel, in a shape that broadcasts."""
        if self.fmt.channels == 1:
            return values.reshape(())
        return values.reshape(-1, *[1] * (x.dim() - 1 - self.fmt.axis % x.dim()))

    def _limits(self, x: Tensor, ends: tuple[int, ...]) -> Tensor:
        return along([float(end) for end in ends], x, self.fmt.axis, torch.float64)

    def _follow(self, x: Tensor) -> None:
        if not x.numel():
            return
        rows = x.detach().double().reshape(1 if self.fmt.channels == 1 else self.fmt.channels, -1)
        if self.per_frame:
            low, high = (float(end) for end in torch.aminmax(rows))
            low = low if self.fmt.signed or self.fmt.zero_point else max(low, 0.0)  # as its reader takes it
            ends = [min(low, float(self.ends[0])), max(high, float(self.ends[1]))]
            self.ends.copy_(torch.tensor(ends, dtype=torch.float64))
            found = of_range(ends[0], ends[1], self.fmt.width, self.fmt.signed, bool(self.fmt.zero_point))
            scales, zero = found.scales, found.zero_point
        else:
            most = torch.tensor([float(max(high, -low, 1)) for low, high in self.fmt.limits], dtype=torch.float64)
            scales = tuple((rows.abs().amax(1) / most.to(rows.device)).tolist())
            zero = self.fmt.zero_point
        made = torch.tensor([float(np.float32(scale)) or 1.0 for scale in scales])
        with torch.no_grad():
            self.step.copy_(made.expand_as(self.step))
            self.zero.fill_(float(zero))


def super_limits(fmt: ScaledFormat) -> tuple[int, int]:
    """The smallest and the largest mantissa of so many bits."""
    whole = fmt.mantissas
    return whole.min_mantissa, whole.max_mantissa
