"""Layers of exact sums of products of scaled integers: formats and parameters, wherever the integers come from.

The sums have the scale of their products. The bias is one of integers at that scale, as wide as these are and as what
the zero point of the data adds to them (:class:`mase_hw.nn.Quantized` takes that off), and the result is as wide as the
largest sum that the formats allow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, ScaledFormat, steps_of
from mase_hw.numerics import quantize
from mase_hw.opdef import OpDef
from mase_hw.passes.transforms.integers.formats import of_bias

_SAME = 2.0**-20
"""A bias is one of integers if every number is one so nearly: files have its scale, a product, rounded to float32."""
_FINER = 16
"""A bias of real numbers is kept to within ``2**-(_FINER + 1)`` steps of the result."""
MOST_BITS = 50
"""Bits of a bias whose values float64 holds."""


@dataclass(frozen=True)
class Stored:
    """A parameter as a source has it.

    Args:
        values: What the numbers stand for, in float64 where float32 would not give the integers back.
        fmt: Their format, without a zero point; channels along the first dimension. None for real numbers.
        exact: Of a bias of real numbers, that every sum must be requantised right.
    """

    values: Tensor
    fmt: ScaledFormat | None = None
    exact: bool = False


@dataclass(frozen=True)
class Sums:
    """A layer of exact sums.

    Args:
        formats: Of the data, the parameters and the result.
        parameters: Of the quantised module.
    """

    formats: dict[str, FixedFormat]
    parameters: dict[str, Tensor]


def products_of(data: FixedFormat, weight: FixedFormat) -> list[float]:
    """The scales of the products, one or one for every channel of the weights."""
    return [float(steps_of(data)[0] * each) for each in steps_of(weight)]


def sums_of(
    op: OpDef,
    data: ScaledFormat,
    weight: Stored,
    bias: Tensor | None,
    shape: tuple[int, ...],
    *,
    limit: int = MOST_BITS,
    shift: Tensor | None = None,
) -> Sums:
    """A layer of exact sums.

    Args:
        op: ``linear`` or a convolution.
        data: Format of the data.
        weight: With a format; values of shape ``(out, ...)``.
        bias: Numbers of shape ``(out,)``, which are rounded to the scale of the products; None for none.
        shape: Of the data.
        limit: Most bits of the bias; what is beyond saturates.
        shift: Bits by which the sums of every output are finer than its weights, int64 of shape ``(out,)``.

    Raises:
        FormatError: If a bias is not finite.
    """
    assert op.scaled is not None and op.scaled.sums is not None and weight.fmt is not None  # the caller looked
    values = weight.values
    formats: dict[str, FixedFormat] = {"data_in_0": data, "weight": weight.fmt}
    parameters = {"weight": values}
    if shift is not None:
        parameters["weight_shift"] = shift
        formats["weight_shift"] = FixedFormat(int(shift.max()).bit_length(), 0, signed=False)
    if bias is None and data.zero_point:
        # Only to take off what the zero point adds.
        bias = torch.zeros(values.shape[0], dtype=values.dtype, device=values.device)
    if bias is not None:
        factor = torch.ones((), dtype=torch.float64) if shift is None else 2.0 ** shift.double()
        rows = values.detach().double().cpu() / factor.reshape(-1, *[1] * (values.dim() - 1))
        folded = data.zero_point * quantize(rows, weight.fmt).flatten(1).double().sum(1) * factor
        formats["bias"] = of_bias(bias, folded, products_of(data, weight.fmt), limit)
        parameters["bias"] = bias
    shapes = {name: tuple(value.shape) for name, value in parameters.items()} | {"data_in_0": tuple(shape)}
    formats["data_out_0"] = op.scaled.sums(formats, shapes)
    return Sums(formats, parameters)


def at_products(bias: Stored, data: ScaledFormat, weight: ScaledFormat) -> Stored:
    """A bias whose scale is that of the products up to rounding: its integers at exactly that scale.

    Args:
        bias: Of a layer.
        data: Format of the data.
        weight: Format of the weights.
    """
    products = torch.tensor(products_of(data, weight), dtype=torch.float64)
    if bias.fmt is None:
        return bias
    own = torch.tensor(bias.fmt.scales, dtype=torch.float64)
    if not bool(((own / products - 1).abs() <= _SAME).all()):
        return bias
    return Stored((bias.values.detach().double().cpu() / own).round() * products)


def finer(
    node: str,
    op: OpDef,
    bias: Stored,
    data: FixedFormat,
    weight: ScaledFormat,
    step: Fraction | None,
) -> list[int]:
    """Bits by which sums are finer than products, so that a bias of real numbers is one of integers.

    Args:
        node: The layer, for the error.
        op: Its op.
        bias: Of the layer.
        data: Format of the data.
        weight: Format of the weights.
        step: Of the result; None if nothing rounds the sums.

    Returns:
        One number for every scale of the weights.

    Raises:
        UnsupportedError: The op has no finer sums.
    """
    products = [each * steps_of(data)[0] for each in steps_of(weight)]
    exact = bias.values.detach().double().cpu() / torch.tensor([float(p) for p in products], dtype=torch.float64)
    near = 0.0 if bias.exact else _SAME
    if bool(((exact - exact.round()).abs() <= near * exact.abs().clamp(min=1.0)).all()):
        return [0] * len(products)
    if "weight_shift" not in op.parameters:
        raise UnsupportedError(
            f"{op.name} has a bias that is no multiple of its products",
            node=node,
            remedy="quantise the bias with the scale of the data times that of the weights",
        )
    if step is None:
        return [_FINER] * len(products)
    return [min(max(math.ceil(math.log2(each / step)) + _FINER, 0), _FINER) for each in products]
