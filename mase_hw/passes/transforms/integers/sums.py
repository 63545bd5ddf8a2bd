"""Layers of exact sums of products of scaled integers: formats and parameters, wherever the integers come from.

The sums have the scale of their products. The bias is one of integers at that scale, as wide as these are and as what
the zero point of the data adds to them (:class:`mase_hw.nn.Quantized` takes that off), and the result is as wide as the
largest sum that the formats allow.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.formats import FixedFormat, ScaledFormat, steps_of
from mase_hw.numerics import quantize
from mase_hw.opdef import OpDef
from mase_hw.passes.transforms.integers.formats import of_bias

MOST_BITS = 50
"""Bits of a bias whose values float64 holds."""


@dataclass(frozen=True)
class Stored:
    """A parameter as a source has it.

    Args:
        values: What the numbers stand for, in float64 where float32 would not give the integers back.
        fmt: Their format, without a zero point; channels along the first dimension. None for real numbers.
    """

    values: Tensor
    fmt: ScaledFormat | None = None


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
