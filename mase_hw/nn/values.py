"""Arithmetic on values instead of mantissas: the same numbers in fewer passes over memory.

A value is its mantissa times a power of two, so sums of products that are exact in mantissas are exact in values. In
float32, a format's step is made by adding ``1.5 * 2**23`` steps, where neighbouring floats are one step apart: the
addition rounds to the nearest step, ties to even, and subtracting the same is exact. (Fast rounding by a large
constant: Dekker, Numer. Math. 18, 1971.)

Ops offer this as ``OpDef.on_values``; the definition stays ``golden``, and tests compare all bits.
"""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor

from mase_hw.catalogue import Arithmetic
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.numerics import magnitude

T = TypeVar("T")
OnValues = Callable[[Tensor], Tensor | None]
"""An op from values to values; None where it must be computed in mantissas after all."""
MAX_EXPONENT = 40
"""Fraction widths up to this keep products, sums and the constant far from both ends of float32."""
_EXACT = 1 << 24
_WIDEST = 1 << 22
"""Largest mantissas that can be rounded by the constant."""


def in_float32(*formats: FixedFormat) -> bool:
    """Whether values of these formats, and the products of two of them, have ordinary float32 exponents."""
    return all(abs(f.frac_width) <= MAX_EXPONENT and magnitude(f) <= _EXACT for f in formats)


@functools.cache
def _constant(frac_width: int) -> Tensor:
    """What rounds to a step; a tensor, because a number would be made one in every call."""
    with torch.inference_mode(False):
        return torch.tensor(math.ldexp(1.5, 23 - frac_width), dtype=torch.float32, device="cpu")


def snapper(a: Arithmetic) -> Callable[[Tensor], Tensor] | None:
    """The cast to ``data_out_0`` of exact values, in place; None if it needs the general one."""
    fmt = a.formats["data_out_0"]
    if (a.rounding, a.overflow) != (Rounding.HALF_EVEN, Overflow.SATURATE):
        return None
    if not in_float32(fmt) or magnitude(fmt) > _WIDEST:
        return None
    low, high = fmt.min_value, fmt.max_value
    constant = _constant(fmt.frac_width)

    def snap(x: Tensor) -> Tensor:
        # Both ends are on the grid, so it does not matter that saturation comes first. Gives no negative zero.
        return x.clamp_(low, high).add_(constant).sub_(constant)

    return snap


def selection(a: Arithmetic, low: int) -> Callable[[Tensor], Tensor] | None:
    """The cast of an op that gives numbers of its input, or 0; nothing if the output format holds them all.

    Args:
        a: Formats and modes.
        low: Smallest mantissa that is given.
    """
    fx, fy = a.formats["data_in_0"], a.formats["data_out_0"]
    if not in_float32(fx, fy):
        return None
    finer = fy.frac_width - fx.frac_width
    if finer >= 0 and low << finer >= fy.min_mantissa and fx.max_mantissa << finer <= fy.max_mantissa:
        return lambda x: x
    return snapper(a)


def operands(a: Arithmetic, t: Mapping[str, Tensor]) -> tuple[Tensor, Tensor | None] | None:
    """Weight and bias as float32 values, if all sums of products with ``data_in_0`` are exact in float32.

    The bound is that of these weights, not of any weights of their format: the largest sum of magnitudes of one output,
    in units of the finest bit.

    Args:
        a: Formats.
        t: Mantissas of ``weight`` (outputs first), optional ``bias`` and ``weight_shift``.
    """
    names = [name for name in ("weight", "bias") if name in t]
    if any(v.device.type != "cpu" for v in t.values()) or not in_float32(
        a.formats["data_in_0"], *(a.formats[n] for n in names)
    ):
        return None
    fx, fw = a.formats["data_in_0"], a.formats["weight"]
    weight, bias = t["weight"].double(), t.get("bias")
    if "weight_shift" in t:
        factor = torch.ones_like(t["weight_shift"], dtype=torch.int64) << t["weight_shift"].to(torch.int64)
        weight = weight * factor.double().reshape(-1, *[1] * (weight.dim() - 1))
    frac = product_frac = fx.frac_width + fw.frac_width
    # In float64: what is beyond its 53 bits is beyond float32 anyway.
    bound = weight.abs().flatten(1).sum(1) * magnitude(fx)
    if bias is not None:
        fb = a.formats["bias"]
        frac = max(frac, fb.frac_width)
        bound = bound * math.ldexp(1.0, frac - product_frac)
        bound = bound + bias.double().abs() * math.ldexp(1.0, frac - fb.frac_width)
        bias = (bias.double() * fb.scale).float()
    if bound.numel() and float(bound.max()) > _EXACT:
        return None
    return (weight * fw.scale).float(), bias


class OnGrid:
    """Which tensors are known to hold values of a format, because a quantised module made them and nobody has written.

    Kept outside the tensors, so that copies and files of them know nothing. A write is seen by the version counter; one
    that goes around it (through ``.data`` or an array that shares the memory) is not, as everywhere in torch.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Tensor], FixedFormat, int]] = {}

    def note(self, y: Tensor, fmt: FixedFormat) -> None:
        """``y``, made outside inference mode, holds values of a format."""
        key, known = id(y), self._known
        known[key] = (weakref.ref(y, lambda _: known.pop(key, None)), fmt, y._version)

    def knows(self, x: Tensor, fmt: FixedFormat) -> bool:
        """Whether a tensor, or the one it is a view of, holds values of a format."""
        found = self._known.get(id(x))
        if found is None:
            if x._base is None or x.dtype != x._base.dtype or x.is_neg():
                return False  # other numbers than the base's: its bytes read as another dtype, or negated
            x = x._base
            found = self._known.get(id(x))
        # The reference guards against another tensor at the same address.
        if found is None or found[0]() is not x or found[2] != x._version:
            return False
        return found[1] is fmt or found[1] == fmt


on_grid = OnGrid()


def counting_writes(function: Callable[[T], Tensor], argument: T) -> Tensor:
    """Call a function without gradients so that its result counts writes, which a tensor of inference mode does not."""
    if not torch.is_inference_mode_enabled():
        return function(argument)
    with torch.inference_mode(False):
        torch.set_grad_enabled(False)  # until inference mode is back
        return function(argument)


def enter(x: Tensor, fmt: FixedFormat) -> Tensor | None:
    """Values of a format nearest to a float32 tensor, as a new tensor; None if that needs the general way.

    None for NaN too, which the general way refuses.
    """
    if x.dtype != torch.float32 or not in_float32(fmt) or magnitude(fmt) > _WIDEST:
        return None
    constant = _constant(fmt.frac_width)
    y = x.clamp(fmt.min_value, fmt.max_value).add_(constant).sub_(constant)
    # Clamped numbers are finite, so their sum is NaN only if one of them is.
    return None if math.isnan(y.sum().item()) else y
