"""One quantised node beside its float node, with so many bits that no rounding is left.

A golden is exact but for its formats. Given the same inputs, weights with 24 bits and a result with as many bits as it
needs, it must compute what the float node computes, however few bits the design has: so there is no threshold to be
chosen between honest noise of two bits and a layer that computes something else.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor

from mase_hw.catalogue import default_catalogue
from mase_hw.errors import GraphError, MaseHwError
from mase_hw.formats import BlockFormat, FixedFormat, Overflow, ScaledFormat
from mase_hw.nn import Quantized
from mase_hw.numerics import without_wide
from mase_hw.ops._functions import CODES
from mase_hw.ops.arithmetic.where import beyond, some_beyond
from mase_hw.ops.rows.norms import GROUP, LAYER, epsilon, rows_of
from mase_hw.passes.evaluation.criteria import decibels
from mase_hw.passes.quantize.integers.sums import Stored, sums_of

WEIGHT_BITS = (24, 16)
"""Bits of every parameter; fewer where the exact sums would not fit otherwise."""
AMPLE = (*((bits, 32) for bits in WEIGHT_BITS), (16, 24), (16, 20))
"""The same with the bits of the result, which are fewer where the table of a norm would be too large."""
STATE_BITS, INNER_BITS = 20, 24
"""Bits of a result that the op multiplies again, and of what has a format inside it."""
STEPS = 8
"""Steps of a sequence that are compared where an op computes with its own results: differences grow."""
FINE = 12
"""Functions of more bits than this are made for their formats alone."""
SHARE = 1e-3
"""Largest difference, as a share of the largest result."""
NOISE = 1e-5
"""Share of the largest possible sum that the rounding of float32, or of weights to 16 bits, may leave."""
TINY = torch.finfo(torch.float32).tiny
"""Differences that floats may leave anywhere, since numbers below it have fewer bits or become 0."""
ROUGH = 0.3
"""The same in root mean squares where weights cannot have more bits, and for a user's own op, which may approximate."""


Kept = dict[tuple[FixedFormat, ...], dict[str, Any]]
"""Mantissas of a node's parameters, by name, with certain formats of all of them."""


def known(module: Quantized) -> bool:
    """Whether the op is one of the package, whose golden is exact; a user's own may be an approximation."""
    return module.op.name in default_catalogue()


def compare(name: str, module: Quantized, wanted: Tensor, inputs: list[Tensor], kept: Kept | None = None) -> None:
    """Refuse a node whose golden is not its float node.

    Args:
        name: The node.
        module: Its quantised module.
        wanted: What the float node gives.
        inputs: What both were given, values of the module's input formats.
        kept: What earlier comparisons of the node have made of its parameters; filled here.

    Raises:
        GraphError: If they differ by more than floats do.
    """
    layer = module.op.inner is not None and bool(module.parameter_names)
    if layer:
        wanted = wanted[..., :STEPS, :]
        if not module.arithmetic.attributes.get("streaming"):  # what comes later changes nothing before
            inputs = [inputs[0][..., :STEPS, :], *inputs[1:]]
    kept = {} if kept is None else kept
    exact = _with_bits(module, wanted, inputs, kept) if known(module) else None
    if exact is None:
        with torch.no_grad():
            found = module(*inputs)
    else:
        found = exact
    if layer:
        found = found[..., :STEPS, :]
    if wanted.shape != found.shape:
        raise _parted(name, module, f"results of shape {list(wanted.shape)}", f"{list(found.shape)}")
    # Where a function has a pole, or a mask leaves elements out, hardware saturates.
    finite = ~beyond(wanted) if some_beyond(wanted) else None
    a, b = (value.double() if finite is None else value.double()[finite] for value in (wanted, found))
    step = 0.0
    if exact is None:
        fmt = module.arithmetic.formats["data_out_0"]
        step = fmt.scale
        inside = (a >= fmt.min_value) & (a <= fmt.max_value)
        a, b = (a.clamp(fmt.min_value, fmt.max_value), b) if _saturates(module) else (a[inside], b[inside])
    if not a.numel():
        return
    error = (a - b).abs()
    if exact is None and (module.parameter_names or not known(module)):
        worst, allowed = float(error.square().mean().sqrt()), TINY + ROUGH * float(a.square().mean().sqrt()) + 2 * step
    else:
        eps = torch.finfo(wanted.dtype).eps if wanted.dtype.is_floating_point else 0.0
        share = max(SHARE, 4 * eps) * float(a.abs().max())
        noise = max(NOISE, eps)
        worst, allowed = float(error.max()), share + noise * _reach(module, inputs) + step + TINY
        allowed += _multiplied(module, inputs) + _cancelled(module, inputs, noise)
    if not worst <= allowed:
        snr = decibels(float(a.square().sum()), float(error.square().sum()))
        limit = SHARE if exact is not None else ROUGH
        raise _parted(name, module, f"a signal-to-noise ratio of {snr:.1f} dB", f"{-20 * math.log10(limit):.0f} dB")


def _multiplied(module: Quantized, inputs: list[Tensor]) -> float:
    """What the multipliers of a sum of two scales may change: half of their last bit each."""
    factors = module.arithmetic.attributes.get("multipliers", ())
    return sum((max(map(abs, _range(x))) / (2 * int(m)) for x, m in zip(inputs, factors, strict=False)), 0.0)


def _cancelled(module: Quantized, inputs: list[Tensor], noise: float) -> float:
    """What floats may leave of a row whose mean is taken off, as large as the row is divided by little."""
    kind, attributes = module.op.name, module.arithmetic.attributes
    if kind not in (LAYER, GROUP):
        return 0.0
    rows = rows_of(kind, module.arithmetic, inputs[0].double())
    least = float(rows.var(-1, correction=0).min()) + epsilon(attributes)
    weight = module.get_parameter("weight").detach() if "weight" in module.parameter_names else torch.ones(1)
    return noise * float(rows.abs().max()) * float(weight.abs().max()) / math.sqrt(least)


def _saturates(module: Quantized) -> bool:
    return module.arithmetic.overflow is Overflow.SATURATE


def _with_bits(module: Quantized, wanted: Tensor, inputs: list[Tensor], kept: Kept) -> Tensor | None:
    """The golden with ample bits in parameters and result; None if it cannot have them."""
    formats = module.arithmetic.formats
    names = [name for name in module.parameter_names if getattr(module, name).dtype.is_floating_point]
    if not names and formats["data_in_0"].width > FINE:
        return None
    op = module.op
    requantises = op.scaled is not None and op.scaled.kind == "requantisation"
    if requantises or CODES in module.arithmetic.attributes:
        return None  # its multiplier, or its table, is that of its formats
    if op.scaled is not None and op.scaled.kind == "sums" and isinstance(formats["data_in_0"], ScaledFormat):
        return _with_fine_weights(module, formats["data_in_0"], inputs)
    inner = () if op.inner is None else op.inner.names(module.arithmetic.attributes)
    # A state begins with what it is given, and has the format of the result.
    ends = [_range(value) for value in (wanted, *(inputs[1:] if op.inner is not None else ()))]
    low, high = min(end for end, _ in ends), max(end for _, end in ends)
    # Tables saturate far below; a cell state grows by one a step at most. Without tables a state is the result.
    most = float(max((64, *wanted.shape))) if names else 2 * max(abs(low), abs(high), TINY)
    for bits, width in AMPLE:
        try:
            ample = {name: _covering(getattr(module, name).detach(), bits, 2 * low, 2 * high) for name in names}
            result = FixedFormat.covering(min(2 * low, 0.0), max(2 * high, 0.0), STATE_BITS if inner else width)
            ample |= {name: FixedFormat.covering(-most, most, INNER_BITS) for name in inner}
            if op.exact_out is not None:  # where it fixes one, another would be another result, not a finer one
                result = op.exact_out({**formats, **ample}, inputs[0].shape, module.arithmetic.attributes) or result
            arithmetic = dataclasses.replace(module.arithmetic, formats={**formats, **ample, "data_out_0": result})
            # Fine weights need no exponents of blocks.
            plain = ("weight_shift",) if isinstance(formats.get("weight"), BlockFormat) else ()
            parameters = {name: getattr(module, name) for name in module.parameter_names if name not in plain}
            finer = Quantized(module.op, arithmetic, parameters)
            vars(finer)["_kept"] = kept.setdefault(tuple(ample.values()), {})
            with torch.no_grad(), without_wide():
                return finer.in_mantissas(inputs)
        except MaseHwError:
            continue
    return None


def _with_fine_weights(module: Quantized, data: ScaledFormat, inputs: list[Tensor]) -> Tensor | None:
    """The same of a layer of scaled integers, whose sums are exact at the scale of its products."""
    if "weight_shift" in module.parameter_names:
        return None
    weight = module.get_parameter("weight").detach()
    bias = module.get_parameter("bias").detach() if "bias" in module.parameter_names else None
    peaks = [float(peak) or 1.0 for peak in weight.float().flatten(1).abs().amax(1)]
    for bits in WEIGHT_BITS:
        try:
            fine = ScaledFormat.make(bits, [math.ldexp(peak, 2 - bits) for peak in peaks])
            made = sums_of(module.op, data, Stored(weight, fine), bias, tuple(inputs[0].shape))
            arithmetic = dataclasses.replace(module.arithmetic, formats=made.formats)
            with torch.no_grad(), without_wide():
                return Quantized(module.op, arithmetic, made.parameters).in_mantissas(inputs)
        except MaseHwError:
            continue
    return None


def _covering(value: Tensor, bits: int, low: float, high: float) -> FixedFormat:
    """A format of a parameter; what leaves elements out is beyond all results, which have these ends."""
    value = value.clamp(low, high) if some_beyond(value) else value
    least, most = (float(end) for end in torch.aminmax(value)) if value.numel() else (0.0, 0.0)
    return FixedFormat.covering(least, most, bits)


def _range(value: Tensor) -> tuple[float, float]:
    """The least and the largest finite number of a tensor."""
    if not value.numel():
        return 0.0, 0.0
    value = value if value.dtype.is_floating_point else value.double()
    low, high = (float(end) for end in torch.aminmax(value))
    if some_beyond(torch.tensor([low, high])):
        value = value[~beyond(value)]
        low, high = (float(value.min()), float(value.max())) if value.numel() else (0.0, 0.0)
    return low, high


def _reach(module: Quantized, inputs: list[Tensor]) -> float:
    """A bound of the magnitudes that are added up in one result."""
    largest = max([max(map(abs, _range(x))) for x in inputs], default=0.0)
    factor = 1.0
    for name in module.parameter_names:
        value = getattr(module, name).detach()
        value = (value.masked_fill(beyond(value), 0) if some_beyond(value) else value).abs()
        sums = value.flatten(1).sum(1, dtype=torch.float64) if value.dim() > 1 else value
        factor += float(sums.max()) if value.numel() else 0.0
    return largest * factor


def _parted(name: str, module: Quantized, got: str, expected: str) -> GraphError:
    return GraphError(
        "a layer of the model computes something else than the hardware for it, which no number of bits explains",
        node=name,
        got=f"{got} between the layer and {module.op.name}, of exact weights and inputs",
        expected=expected,
        remedy="look at what this layer of the model really computes: a forward, a weight or a class may have been "
        "replaced; or at the golden of a custom op",
    )
