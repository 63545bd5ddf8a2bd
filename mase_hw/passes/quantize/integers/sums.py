"""Layers of exact sums of products of scaled integers: formats and parameters, wherever the integers come from.

The sums have the scale of their products. The bias is one of integers at that scale, as wide as these are and as what
the zero point of the data adds to them (:class:`mase_hw.nn.Quantized` takes that off), and the result is as wide as the
largest sum that the formats allow.

Averages of scaled integers as exact sums: the requantisation behind them divides and rounds, once.

The bits of a quantised layer's bias and sums, found again after its weights or its bias were changed.

The bias is at the scale of the products and as wide as its integers are. No scale changes by that, and so no multiplier
behind the layer.

Softmax on scaled integers: the format of its shares. They are divided to the step of the result and rounded once; a
requantisation behind them adds a zero point.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, fx

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, ScaledFormat, steps_of
from mase_hw.formats.attributes import Attributes, attributes_of
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.numerics import quantize
from mase_hw.opdef import OpDef
from mase_hw.ops.reductions.reduce import dims_of
from mase_hw.passes.quantize.integers.formats import of_bias

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


SLIDING = ("avg_pool1d", "avg_pool2d")
ADAPTIVE = {"adaptive_avg_pool1d": "avg_pool1d", "adaptive_avg_pool2d": "avg_pool2d"}
MEANS = (*SLIDING, *ADAPTIVE, "mean", "mean_over")
"""Ops that average."""


def sum_in_place_of(
    name: str, attributes: Attributes, shape: Sequence[int], out: Sequence[int], node: str
) -> tuple[str, Attributes, int, bool]:
    """The op that gives the sums of an average.

    Args:
        name: The op, one of :data:`MEANS`.
        attributes: Its attributes.
        shape: Of the data.
        out: Of the result.
        node: The node, for errors.

    Returns:
        The op, its attributes, how many numbers each sum has, and whether zeros of a border are among them.

    Raises:
        UnsupportedError: If the sums have not equally many.
    """
    if name not in SLIDING and name not in ADAPTIVE:
        kept = attributes_of({key: value for key, value in attributes.items() if key in ("dim", "keepdim")})
        return "sum", kept, math.prod(shape[d] for d in dims_of(kept, len(shape))), False
    dims = 1 if name.endswith("1d") else 2
    if name in ADAPTIVE:
        sizes = list(zip(shape[-dims:], out[-dims:], strict=True))
        if any(size % wanted for size, wanted in sizes):
            raise _uneven(node, "an adaptive pool whose windows differ in size")
        kernel = tuple(size // wanted for size, wanted in sizes)
        return (
            ADAPTIVE[name],
            {"kernel_size": kernel, "stride": kernel, "divisor_override": 1},
            math.prod(kernel),
            False,
        )
    padding, kernel = (_each(attributes.get(key) or 0, dims) for key in ("padding", "kernel_size"))
    bordered = any(padding)
    if attributes.get("ceil_mode") or (bordered and not attributes.get("count_include_pad", True)):
        raise _uneven(node, "a pool whose windows at the border count fewer elements")
    count = attributes.get("divisor_override") or math.prod(kernel)
    return name, {**attributes, "divisor_override": 1}, int(count), bordered


def _each(value: Any, dims: int) -> tuple[int, ...]:
    given = tuple(value) if isinstance(value, Sequence) else (value,)
    return given * dims if len(given) == 1 else given


def _uneven(node: str, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what} has no one divisor, which scaled integers need",
        node=node,
        remedy="use windows of one size, or a border that counts as zeros",
    )


def refit(graph: MaseGraph, node: fx.Node, limit: int) -> None:
    """Give the bias and the sums of a quantised layer the bits that its parameters need now.

    Args:
        graph: The quantised graph; its record of results follows with ``refresh``.
        node: The layer; nothing happens to one in fixed point.
        limit: Most bits of the bias.
    """
    module = graph.meta_of(node).module
    if not isinstance(module, Quantized):
        return
    have = dict(module.arithmetic.formats)
    data, weight = have["data_in_0"], have["weight"]
    if not isinstance(data, ScaledFormat) or not isinstance(weight, ScaledFormat):
        return
    names = module.parameter_names
    shift = module.get_buffer("weight_shift") if "weight_shift" in names else None
    bias = module.get_parameter("bias") if "bias" in names else None
    shape = tuple(graph.tensor(node, "data_in_0").shape)
    stored = Stored(module.get_parameter("weight"), weight)
    found = sums_of(module.op, data, stored, bias, shape, limit=limit, shift=shift).formats
    if found == have:
        return
    module.arithmetic = dataclasses.replace(module.arithmetic, formats=found)
    for name in names:
        graph.meta_of(node).common.args.tensors[name].fmt = found[name]
    for user in node.users:  # requantisations
        reader = graph.meta_of(user).module
        if isinstance(reader, Quantized):
            formats = {**reader.arithmetic.formats, "data_in_0": found["data_out_0"]}
            reader.arithmetic = dataclasses.replace(reader.arithmetic, formats=formats)


def shares_of(width: int, signed: bool) -> ScaledFormat:
    """The format of shares of 1 with all their bits behind the binary point; 1 itself saturates.

    Args:
        width: Bits.
        signed: Whether there is a sign, which is never set.
    """
    return ScaledFormat.make(width, 2.0 ** -(width - signed), signed=signed)


def shares_for(result: ScaledFormat) -> ScaledFormat:
    """The format in which a softmax divides for a result: its own, without its zero point and limits.

    Args:
        result: With one scale.
    """
    if not (result.zero_point or result.lows or result.highs):
        return result
    return ScaledFormat.make(max(2 - math.frexp(result.scale)[1], 1), result.scale, signed=False)
