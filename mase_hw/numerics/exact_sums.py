"""Exact sums of products on mantissas, whatever torch is allowed to do to its matrix products.

Each is computed in the carrier of its largest partial sum. No device needs a matrix product of int64: what is beyond
float64 is computed in limbs, pieces of few enough bits that float64 holds the sums of their products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from mase_hw.formats import FixedFormat
from mase_hw.numerics import as_carrier, carrier, magnitude, wider
from mase_hw.numerics.wide import WIDE


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Switch autocast off for exact arithmetic; a model may be called under ``torch.autocast``."""
    if not torch.is_autocast_enabled(device.type):
        yield
        return
    with torch.autocast(device_type=device.type, enabled=False):
        yield


def reduced_matmul() -> bool:
    """Whether torch is allowed to compute float32 products with fewer than 24 bits (TF32, bfloat16)."""
    try:
        return torch.get_float32_matmul_precision() != "highest" or bool(torch.backends.cuda.matmul.allow_tf32)
    except RuntimeError:
        # Set through the per-backend API, which the older one refuses to be asked beside; float64 is always exact.
        return True


def exact_linear(x: Tensor, w: Tensor, bound: int, *, name: str | None = None) -> Tensor:
    """``x @ w.T`` on mantissas, exact.

    Args:
        x: Integers of shape ``(..., in)``.
        w: Integers of shape ``(out, in)``.
        bound: Largest magnitude any partial sum can reach.
        name: Node name, for the error.

    Returns:
        Integers of shape ``(..., out)`` in the carrier of ``bound``.
    """
    return _exact(torch.nn.functional.linear, x, w, carrier(bound, name=name, wide=True))


def exact_matmul(x: Tensor, y: Tensor, bound: int, *, name: str | None = None) -> Tensor:
    """``x @ y`` on mantissas, exact.

    Args:
        x: Integers of shape ``(..., rows, inner)``.
        y: Integers of shape ``(..., inner, columns)``.
        bound: Largest magnitude any partial sum can reach.
        name: Node name, for the error.

    Returns:
        Integers of shape ``(..., rows, columns)`` in the carrier of ``bound``.
    """
    return _exact(torch.matmul, x, y, carrier(bound, name=name, wide=True))


def _exact(product: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor, dtype: torch.dtype) -> Tensor:
    """A product in a carrier, or in float64 where torch may compute with fewer bits than float32 has."""
    if dtype == torch.float32 and reduced_matmul():
        dtype = torch.float64
    with full_precision(x.device):
        if dtype.is_floating_point:
            return product(as_carrier(x, dtype), as_carrier(y, dtype))
        return _in_limbs(product, x.to(torch.int64), y.to(torch.int64), dtype)


MOST_PARTS = 8
"""More ranges of channels than that cost as much as double precision."""
EXACT_FLOAT32 = 1 << 24
"""Integers up to this are exact in float32."""


def ranges_within(reach: Tensor, limit: float, used: Tensor | None = None) -> list[slice] | None:
    """Cut input channels into ranges whose sums stay within a limit.

    Args:
        reach: What each channel may add to each output, in float64, of shape ``(outputs, channels)``; not negative.
        limit: The largest sum of a range, for any output.
        used: What the first range has besides, of shape ``(outputs,)``.

    Returns:
        As few ranges as possible, in order; None if they were more than :data:`MOST_PARTS`, or there are none.
    """
    channels = reach.shape[1]
    upto = reach.cumsum(1)
    begins, before = [0], torch.zeros_like(upto[:, 0]) if used is None else -used
    while True:
        worst = (upto - before[:, None]).amax(0) if len(upto) else upto.new_zeros(channels)
        end = int(torch.searchsorted(worst[begins[-1] :].contiguous(), limit, right=True)) + begins[-1]
        if end >= channels:
            return [slice(begin, end) for begin, end in pairwise([*begins, channels])]
        # A part without channels computes nothing.
        if end == begins[-1] or len(begins) == MOST_PARTS:
            return None
        begins.append(end)
        before = upto[:, end - 1]


def shift_left(acc: Tensor, shift: Tensor) -> Tensor:
    """Multiply integers by ``2**shift``, one shift per entry of the last dimension; exact within the carrier.

    Args:
        acc: Integers in a carrier that holds the result.
        shift: Non-negative integers, broadcast against ``acc``.
    """
    # Powers of two made of integers: exp2 of a device need not be exact.
    factor = torch.ones_like(shift, dtype=torch.int64) << shift.to(torch.int64)
    return acc * as_carrier(factor, acc.dtype)


def shifted_product(x: Tensor, y: Tensor, drop: int) -> Tensor:
    """``x * y * 2**-drop`` element by element, rounded half up, however many bits the product has.

    Args:
        x: Integers from 0 to below 2**61.
        y: The same, broadcast against ``x``.
        drop: At least 1; the result is within int64.
    """
    x, y, mask = x.to(torch.int64), y.to(torch.int64), (1 << 31) - 1
    low = (x & mask) * (y & mask)
    middle = (x >> 31) * (y & mask) + (x & mask) * (y >> 31) + (low >> 31)
    # The product is high * 2**62 + rest.
    high, rest = (x >> 31) * (y >> 31) + (middle >> 31), (middle & mask) << 31 | (low & mask)
    if drop > 62:
        return (high + (1 << (drop - 63))) >> (drop - 62)
    return (high << (62 - drop)) + ((rest + (1 << (drop - 1))) >> drop)


def _in_limbs(product: Callable[[Tensor, Tensor], Tensor], x: Tensor, w: Tensor, dtype: torch.dtype) -> Tensor:
    """Integer product beyond 53 bits from float64 products of limbs; no device needs an int64 matrix product."""
    inner = max(1, x.shape[-1])
    limb = (53 - (inner - 1).bit_length()) // 2
    total: Tensor | None = None
    for i, xi in enumerate(_limbs(x, limb)):
        for j, wj in enumerate(_limbs(w, limb)):
            at = limb * (i + j)
            if at < 64 or dtype is WIDE:
                part = as_carrier(product(xi, wj).to(torch.int64), dtype) << at
                total = part if total is None else total + part
    assert total is not None  # there is always limb 0
    return total


def _limbs(value: Tensor, bits: int) -> list[Tensor]:
    """Split integers into unsigned limbs of ``bits`` bits, the last one signed, as float64."""
    parts: list[Tensor] = []
    while True:
        if bool((value.abs() < (1 << bits)).all()):
            return [*parts, value.to(torch.float64)]
        parts.append((value & ((1 << bits) - 1)).to(torch.float64))
        value = value >> bits


@dataclass(frozen=True)
class SumOfProducts:
    """Sums of products, shifted channel by channel, and a bias: how they are aligned, and what they reach.

    Args:
        product_frac: Fraction width of a product.
        bias_frac: That of the bias.
        products: Largest magnitude of a sum of products.
        bound: Largest magnitude of everything together, at the fraction width :attr:`frac`.
    """

    product_frac: int
    bias_frac: int
    products: int
    bound: int

    @classmethod
    def of(cls, formats: Mapping[str, FixedFormat], terms: int) -> SumOfProducts:
        """What these formats allow.

        Args:
            formats: Of ``data_in_0``, ``weight``, and ``bias`` and ``weight_shift`` if there are any.
            terms: Products of a sum.
        """
        fx, fw, fb = formats["data_in_0"], formats["weight"], formats.get("bias")
        frac, products = fx.frac_width + fw.frac_width, terms * magnitude(fx) * magnitude(fw)
        bound = products * fw.factors(formats["weight_shift"].max_mantissa) if "weight_shift" in formats else products
        if fb is None:
            return cls(frac, frac, products, bound)
        finest = max(frac, fb.frac_width)
        bound = (bound << (finest - frac)) + (magnitude(fb) << (finest - fb.frac_width))
        return cls(frac, fb.frac_width, products, bound)

    @property
    def frac(self) -> int:
        """Fraction width of the result."""
        return max(self.product_frac, self.bias_frac)

    def finish(
        self, acc: Tensor, bias: Tensor | None, shift: Tensor | None, dtype: torch.dtype | None = None
    ) -> Tensor:
        """Shift sums of products and add the bias, which broadcast to them; in a carrier as wide as ``dtype``."""
        acc = acc if dtype is None else as_carrier(acc, wider(acc.dtype, dtype))
        acc = acc if shift is None else shift_left(acc, shift)
        if bias is None:
            return acc
        bias = as_carrier(bias, acc.dtype)
        # Passes over memory that would multiply by 1 are left out.
        up, bias_up = self.frac - self.product_frac, self.frac - self.bias_frac
        acc = acc * (1 << up) if up else acc
        return acc + (bias * (1 << bias_up) if bias_up else bias)
