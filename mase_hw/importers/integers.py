"""Quantised modules from integers that a file stores: weights, biases, multipliers.

Nothing is chosen here. The formats say what the integers stand for, so that the parameters of the modules, which are
floats, are exactly these integers again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mase_hw.catalogue import Arithmetic, OpDef
from mase_hw.formats import ScaledFormat, steps_of
from mase_hw.importers.graph import Refused
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize

SUM_BITS = 32
"""Bits of the sums of every tool whose files are read."""


def largest_sums(x: ScaledFormat, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The largest size of a sum of every output, whatever the data is; arguments as of :func:`sums`."""
    most = max(x.max_mantissa - x.zero_point, x.zero_point - x.min_mantissa)
    reach = weight.reshape(weight.shape[0], -1).abs().sum(1) * most
    return reach if bias is None else reach + bias.abs()


def sums(
    op: OpDef,
    x: ScaledFormat,
    weight: Tensor,
    scales: Sequence[float],
    bias: Tensor | None,
    attributes: Mapping[str, Any],
    shape: Sequence[int],
) -> Quantized:
    """A layer of exact sums of products, at the scale of its products.

    Args:
        op: ``linear`` or a convolution.
        x: Format of the data.
        weight: Integers of 8 bits, outputs first.
        scales: Of the weights, one for all or one for every output.
        bias: Integers at the scale of the products, one for every output.
        attributes: Of the op.
        shape: Of the data, for one frame.

    Raises:
        Refused: If a sum does not fit 32 bits, which the file's own executor has.
    """
    assert op.scaled is not None and op.scaled.sums is not None  # the op has sums
    folded = x.zero_point * weight.reshape(weight.shape[0], -1).sum(1)
    largest = int(largest_sums(x, weight, bias).max())
    if largest >= 1 << (SUM_BITS - 1):
        raise Refused(f"its sums may reach {largest}, more than {SUM_BITS} bits hold")
    if bias is None and x.zero_point:
        bias = torch.zeros_like(folded)  # only to take off what the zero point adds
    (step,) = steps_of(x)
    narrow = bool((weight > -128).all())  # such weights can be packed
    formats: dict[str, Any] = {"data_in_0": x, "weight": ScaledFormat.make(8, scales, narrow=narrow)}
    parameters = {"weight": dequantize(weight.double(), formats["weight"])}
    if bias is not None:
        most = int(torch.stack([bias.abs(), (bias - folded).abs()]).max())
        formats["bias"] = ScaledFormat.make(
            max(2, most.bit_length() + 1), [step * each for each in steps_of(formats["weight"])]
        )
        parameters["bias"] = dequantize(bias.double(), formats["bias"])
    shapes = {"data_in_0": tuple(shape), **{name: tuple(value.shape) for name, value in parameters.items()}}
    formats["data_out_0"] = op.scaled.sums(formats, shapes)
    return Quantized(op, Arithmetic(formats, attributes=dict(attributes)), parameters)
