"""What ops ask of formats of scaled integers; the words follow "takes"."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from mase_hw.formats import FixedFormat, ScaledFormat, ScaledUse, steps_of, sum_format
from mase_hw.formats.attributes import Attributes
from mase_hw.formats.taken import Ends
from mase_hw.numerics.exact_sums import SumOfProducts
from mase_hw.ops._conv import padded

BLOCK = (25, 18)
"""Bits, signs included, of the operands of a multiplier block (DSP48E1)."""


def blocks(first: int, second: int) -> int:
    """Multiplier blocks of a product, as Yosys counts them for Xilinx 7: a wider operand is cut into unsigned parts.

    Args:
        first: Bits of an operand, sign included.
        second: Bits of the other one.
    """
    operands = zip((max(first, second), min(first, second)), BLOCK, strict=True)
    parts = (1 if bits <= room else -((1 - bits) // (room - 1)) for bits, room in operands)
    return math.prod(parts)


def exact_sums(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    """Of an op of exact sums of products: every tensor in one family, and the result at the scale of the products.

    The zero point of the data is taken off by the bias (:class:`mase_hw.nn.Quantized`); weights have none.
    """
    fx, fw = formats["data_in_0"], formats["weight"]
    if not all(isinstance(fmt, ScaledFormat) for name, fmt in formats.items() if name != "weight_shift"):
        return "scaled integers in all its tensors, or in none"
    if fx.per_channel:
        return "one scale for its data"
    if fw.zero_point:
        return "weights without a zero point; give them a bit more, and limits in place of it"
    if fx.zero_point and "bias" not in formats:
        return "data with a zero point only with a bias, which takes it off"
    sums = sum_format(1, 0, fx, fw, 0)
    for name in {"bias", "data_out_0"} & set(formats):
        fmt = formats[name]
        if not same_step(fmt, sums) or fmt.zero_point:
            return f"a {name} at the scale of the products, without a zero point; requantise its result"
    return ""


def same_step(a: FixedFormat, b: FixedFormat) -> bool:
    """Whether the last bits of two formats have equal weights, in every channel."""
    return (a.scales if isinstance(a, ScaledFormat) else (a.scale,)) == (
        b.scales if isinstance(b, ScaledFormat) else (b.scale,)
    )


def one_scale(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    """Of an op that chooses among numbers of its inputs, or moves them: one scale and one zero point in all tensors."""
    first, *others = formats.values()
    if isinstance(first, ScaledFormat) and first.per_channel:
        return "one scale for the tensor"
    for fmt in others:
        if type(fmt) is not type(first) or not same_step(fmt, first) or fmt.zero_point != first.zero_point:
            return "data and results of one scale and one zero point; requantise what differs"
    return ""


def exact_sum(formats: Mapping[str, FixedFormat], count: int, axis: int) -> FixedFormat:
    """The narrowest format that holds every sum of so many products, shift and bias that these formats allow.

    Args:
        formats: Of ``data_in_0``, ``weight``, and ``bias`` and ``weight_shift`` if there are any.
        count: Products of a sum.
        axis: Dimension of the result that has the channels of the weights.
    """
    fx, fw = formats["data_in_0"], formats["weight"]
    sums = SumOfProducts.of(formats, count)
    return sum_format(sums.bound.bit_length() + 1, sums.frac, fx, fw, axis)


def averages(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    """Of an average: the scale of its data; with a divisor of 1, the sums of :func:`total`."""
    if attributes.get("divisor_override") == 1:
        return total(formats, attributes)
    wrong = one_scale(formats, attributes)
    if wrong or not (formats["data_in_0"].zero_point and zeros_count(attributes)):
        return wrong
    return "a zero point of 0 where a border is averaged as well, or the divisor is not the number of elements"


def zeros_count(attributes: Attributes) -> bool:
    """Whether an average is one of zeros besides, or with another divisor than the number of its elements."""
    bordered = padded(attributes) and bool(attributes.get("count_include_pad", True))
    return bordered or bool(attributes.get("divisor_override"))


def total(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    """Of a sum of numbers of one scale: of any scale, with the zero points of all of them in that of the result."""
    x, out = formats["data_in_0"], formats["data_out_0"]
    if not (isinstance(x, ScaledFormat) and isinstance(out, ScaledFormat)) or x.per_channel or out.per_channel:
        return "scaled integers with one scale for each tensor"
    zero, each = out.zero_point, x.zero_point
    if (zero != 0) != (each != 0) or (each and (zero % each or zero // each < 1)):
        return "a result whose zero point is that of its data, times the numbers that are added"
    return ""


def _operands(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    """Of an op of two operands: both scaled integers, and an exact result, which has no zero point."""
    if not all(isinstance(fmt, ScaledFormat) for fmt in formats.values()):
        return "scaled integers in all its tensors, or in none"
    if any(fmt.per_channel for fmt in formats.values()):
        return "one scale for each tensor"
    out = formats["data_out_0"]
    if out.zero_point or (out.min_mantissa, out.max_mantissa) != (
        out.mantissas.min_mantissa,
        out.mantissas.max_mantissa,
    ):
        return "a result without a zero point and limits; requantise it"
    return ""


def exact_result(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    """Of an op whose exact result is requantised: scaled integers in and out, neither with a zero point."""
    x, out = formats["data_in_0"], formats["data_out_0"]
    if not (isinstance(x, ScaledFormat) and isinstance(out, ScaledFormat)) or x.per_channel or out.per_channel:
        return "scaled integers with one scale for each tensor"
    return "data and results without a zero point; requantise them" if x.zero_point or out.zero_point else ""


def thresholds(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    """Of an op that compares with a number: data with one scale, or, where only its sign counts, any."""
    x, out = formats["data_in_0"], formats["data_out_0"]
    if not (isinstance(x, ScaledFormat) and isinstance(out, ScaledFormat)) or out.per_channel or out.zero_point:
        return "scaled integers, and results with one scale and without a zero point"
    if x.per_channel and attributes.get("number", 0):
        return "data with one scale, unless it is compared with 0; requantise it"
    return ""


def _product(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    """Of a product besides: the result at the product of the scales."""
    wrong = _operands(formats, attributes)
    if wrong:
        return wrong
    x, y = (steps_of(fmt)[0] for name, fmt in formats.items() if name != "data_out_0")
    fits = float(x * y) == formats["data_out_0"].scale
    return "" if fits else "a result at the product of the scales; requantise it"


SUM = ScaledUse("sum", _operands)
PRODUCT = ScaledUse("product", _product)
SELECTION = ScaledUse("selection", one_scale)


def _window(shape: tuple[int, ...], attributes: Attributes) -> int:
    """Elements of a window."""
    kernel = attributes["kernel_size"]
    return math.prod(kernel) if isinstance(kernel, tuple | list) else int(kernel) ** (len(shape) - 2)


AVERAGE = ScaledUse("selection", averages, count=_window, at_zero=zeros_count)
BORDER = ScaledUse("selection", one_scale, border=True)


def clamp(ends: Callable[[Attributes], Ends]) -> ScaledUse:
    """Of an op that clamps: it becomes a requantisation."""
    return ScaledUse("clamp", lambda *_: "scaled integers as a requantisation only", ends=ends)
