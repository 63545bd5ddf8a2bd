"""Learned step sizes: LSQ (Esser et al., arXiv:1902.08153), rounded to powers of two in the end.

A value ``x`` becomes ``round(clip(x / s, -Qn, Qp)) * s``. With ``v = x / s`` the gradients are those of the publication
(formulas 3 and 5): ``dx = 1`` inside ``(-Qn, Qp)`` and 0 beyond; ``ds = round(v) - v`` inside, ``-Qn`` or ``Qp``
beyond, times ``1 / sqrt(N * Qp)``, ``N`` the number of weights of the layer or of values in a frame (section 2.2). So
what is clipped still moves the step, and is not lost for good.

Binary and ternary numbers ``q(v) * s`` have ``dx = 1`` everywhere and ``ds = q(v)``: that is the gradient of the scale
in trained ternary quantisation (Zhu et al., arXiv:1612.01064, formula 7).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Rounding, SignFormat
from mase_hw.numerics import rounded, signs
from mase_hw.passes.transforms.signs.weights import means

LEARNED = 8
"""Tensors of at most so many bits learn their step; the step of wider ones follows the range that is observed."""


class _Lsq(torch.autograd.Function):
    """Quantise and give back values; ``low`` and ``high`` are the ends in steps."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, step: Tensor, low: int, high: int, scale: float, rounding: Rounding) -> Tensor:
        v = x / step
        ctx.save_for_backward(v, step)
        ctx.given = (low, high, scale, rounding)
        return rounded(v, rounding).clamp(low, high) * step

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None, None, None, None]:
        v, step = ctx.saved_tensors
        low, high, scale, rounding = ctx.given
        grad = grads[0]
        below, above = v <= low, v >= high
        inside = ~(below | above)
        by_step = None
        if ctx.needs_input_grad[1]:
            share = torch.where(inside, rounded(v, rounding) - v, torch.where(below, float(low), float(high)))
            by_step = (grad * share * scale).sum_to_size(step.shape)
        return grad * inside, by_step, None, None, None, None


def lsq(x: Tensor, step: Tensor, low: int, high: int, scale: float, rounding: Rounding = Rounding.HALF_EVEN) -> Tensor:
    """Values of the grid, with the gradients of the publication.

    Args:
        x: Any shape.
        step: Positive; a scalar, or a shape that broadcasts to ``x``.
        low: Smallest mantissa, ``-Qn``.
        high: Largest mantissa, ``Qp``.
        scale: What the gradient of the step is multiplied by.
        rounding: Rounding of the cast.
    """
    result: Tensor = _Lsq.apply(x, step, low, high, scale, rounding)  # type: ignore[no-untyped-call]
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
    that holds all that was observed so far. The threshold of ternary numbers keeps its share of the step.
    """

    ends: Tensor
    threshold: Tensor

    def __init__(self, fmt: FixedFormat, rounding: Rounding = Rounding.HALF_EVEN, *, per_frame: bool = True) -> None:
        super().__init__()
        self.fmt = fmt
        self.rounding = rounding
        self.per_frame = per_frame
        self.learned = fmt.width <= LEARNED
        self.finest: int | None = None
        """Finest fraction width worth having."""
        self.step = nn.Parameter(torch.tensor(fmt.scale), requires_grad=self.learned)
        self.register_buffer("ends", torch.zeros(2, dtype=torch.float64))
        threshold = fmt.threshold if isinstance(fmt, SignFormat) else 0.0
        self.register_buffer("threshold", torch.tensor(threshold, dtype=torch.float64))

    def begin(self, x: Tensor) -> None:
        """Start from data: ``2 * mean|x| / sqrt(Qp)``, as the publication does, or from the range.

        Binary and ternary numbers start where their own rules say.
        """
        if not self.learned:
            self._observe(x)
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
        if not self.learned:
            if self.training or not self.per_frame:
                self._observe(x)
            fmt = self.format()
            return lsq(x, x.new_tensor(fmt.scale), fmt.min_mantissa, fmt.max_mantissa, 0.0, self.rounding)
        count = x[0].numel() if self.per_frame and x.dim() else x.numel()
        scale = 1 / math.sqrt(max(1, count) * max(1, self.fmt.max_mantissa))
        step = self.step if self.step.requires_grad else self.step.detach()
        if isinstance(self.fmt, SignFormat):
            result: Tensor = _Signs.apply(x, step, self._signs(0), scale)  # type: ignore[no-untyped-call]
            return result
        return lsq(x, step, self.fmt.min_mantissa, self.fmt.max_mantissa, scale, self.rounding)

    def format(self) -> FixedFormat:
        """The format with the power of two that is nearest to the step.

        Raises:
            FormatError: If training has driven the step to zero or beyond.
        """
        signed = self.fmt.signed
        if not self.learned:
            low, high = self.ends.tolist()
            found = FixedFormat.covering(low, high, self.fmt.width, signed)
            frac = found.frac_width if self.finest is None else min(found.frac_width, self.finest)
            return FixedFormat(self.fmt.width, frac, signed)
        value = float(self.step.detach())
        if not (math.isfinite(value) and value > 0):
            raise FormatError(
                "a learned step is not positive any more",
                field="step",
                got=value,
                expected="a positive number",
                remedy="train with a smaller learning rate, or from more calibration data",
            )
        frac = -round(math.log2(value))
        return self._signs(frac) if isinstance(self.fmt, SignFormat) else FixedFormat(self.fmt.width, frac, signed)

    def extra_repr(self) -> str:
        """Width, sign, and whether the step is learned."""
        return f"{self.fmt.width} bits, {'signed' if self.fmt.signed else 'unsigned'}, learned={self.learned}"

    def _signs(self, frac: int) -> SignFormat:
        return SignFormat(self.fmt.width, frac, True, float(self.threshold))

    def _observe(self, x: Tensor) -> None:
        if not x.numel():
            return
        low, high = (float(end) for end in torch.aminmax(x.detach().double()))
        if self.per_frame:
            low, high = min(low, float(self.ends[0])), max(high, float(self.ends[1]))
        self.ends.copy_(torch.tensor([low if self.fmt.signed else max(low, 0.0), high], dtype=torch.float64))
