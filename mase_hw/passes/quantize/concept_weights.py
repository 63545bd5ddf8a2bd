"""Weights as MASE's quantisers ``minifloat_ieee``, ``minifloat_denorm``, ``log`` and ``block_fp`` make them.

What counts is the definition of ``chop.nn.quantizers``, in exact numbers: without the 1e-9 that it adds in float32 to
keep a logarithm finite, and without the 1e-8 below which it lets a number pass as it is. Hardware multiplies by
integers, so of each format it has the largest exponents that there are among the weights, and those below them as far
as a mantissa of 33 bits goes; weights that need more are refused.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mase_hw.errors import ConfigError
from mase_hw.formats import DENORM, IEEE, LOG, BlockFormat, Minifloat, minifloat
from mase_hw.formats.blocks import WIDEST
from mase_hw.host.documents import Json
from mase_hw.numerics import quantize
from mase_hw.numerics.grid import to_minifloat
from mase_hw.passes.quantize.config import NodeConfig

RULES = {"minifloat_ieee": IEEE, "minifloat_denorm": DENORM, "log": LOG}


def concept_weights(node: str, weight: Tensor, config: NodeConfig, given: Json) -> tuple[BlockFormat, Tensor]:
    """The format of weights, and the shift of every block, ``(outputs, blocks)``.

    Args:
        node: For errors.
        weight: ``(outputs, inputs)`` or ``(outputs, channels, ...)``, finite.
        config: What is configured.
        given: What is configured where the node is said to be so, and by stronger rules.

    Raises:
        ConfigError: A key that such weights need or cannot have, or weights that no mantissa of 33 bits holds.
        FormatError: A weight that is not finite.
    """
    _check_keys(node, config, given)
    if config.name == "block_fp":
        return _shared(node, weight, config, given)
    one, element = _element(node, config, given)
    lowest = one.emax - one.top + _usual_bias(config, given) - _bias(config, given)
    return _narrowest(node, weight, one, element, lowest), torch.zeros(weight.shape[0], 1, dtype=torch.int64)


def _check_keys(node: str, config: NodeConfig, given: Json) -> None:
    wanted = {"weight_frac_width": None, "weight_signed": True, "weight_granularity": "tensor", "weight_affine": False}
    wanted |= {"weight_exponent_width": None} if config.name == "log" else {}
    for key, value in wanted.items():
        if given.get(key) not in (None, value):
            raise _refused(node, key, given[key], str(value), f"leave {key} out", f"{config.name} weights have none")
    needs = ["weight_width"] if config.name == "log" else ["weight_width", "weight_exponent_width"]
    for key in needs:
        if given.get(key) is None:
            raise _refused(node, key, None, "a number of bits", f"set {key}", f"{config.name} weights need {key}")


def _refused(node: str, key: str, got: object, expected: str, remedy: str, problem: str) -> ConfigError:
    field = f"quantize.*.config.{key}"
    return ConfigError(problem, node=node, field=field, got=got, expected=expected, remedy=remedy)


def _exponent_bits(config: NodeConfig, given: Json) -> int:
    return (config.weight_width or 0) - 1 if config.name == "log" else int(given["weight_exponent_width"])


def _usual_bias(config: NodeConfig, given: Json) -> int:
    return (1 << (_exponent_bits(config, given) - 1)) - 1


def _bias(config: NodeConfig, given: Json) -> int:
    found = config.weight_exponent_bias
    return _usual_bias(config, given) if found is None else found


def _element(node: str, config: NodeConfig, given: Json) -> tuple[Minifloat, str]:
    rule, width = RULES[config.name or ""], config.weight_width or 0
    e = _exponent_bits(config, given)
    m = width - 1 - e
    name = f"{rule}_e{e}" if rule == LOG else f"{rule}_e{e}m{m}"
    one = minifloat(name)
    if one is None or one.digits > 24:
        least = "2 to 9 bits" if rule == LOG else f"{e + 1 + (rule == DENORM)} bits or more, mantissas of at most 23"
        raise _refused(
            node, "weight_width", width, least, "give it the bits of a sign, an exponent and a mantissa",
            f"there are no {config.name} weights of this width",
        )  # fmt: skip
    return one, name


def _narrowest(node: str, weight: Tensor, one: Minifloat, element: str, lowest: int) -> BlockFormat:
    """The format with the fewest bits in which all weights are what they are in the whole format.

    Args:
        node: For errors.
        weight: The weights.
        one: What one of them is.
        element: Its name.
        lowest: Exponent of the last bit in the whole format.

    Raises:
        ConfigError: If there is none of at most 33 bits.
    """
    values = weight.detach().double().cpu()
    peak = float(values.abs().max()) if values.numel() else 0.0
    BlockFormat(one.digits + 1, 0, True, 1, 0, element).exponent(peak)  # refuses what is not finite
    most = float(one.largest)
    exact = to_minifloat(torch.ldexp(values, torch.tensor(-lowest)), one.digits, one.rule).clamp(-most, most)
    top = max(math.frexp(float(exact.abs().max()))[1] - 1, one.digits - 1) if values.numel() else one.digits - 1
    below = max(0, top + 2 - WIDEST)
    fmt = BlockFormat(top + 2 - below, -lowest - below, True, 32, 0, element)
    if torch.equal(quantize(values, fmt).double() * 2.0**below, exact):
        return fmt
    least = float(exact[exact != 0].abs().min())
    raise ConfigError(
        "weights lie too far apart for the integers that hardware multiplies by",
        node=f"{node}.weight",
        field="quantize.*.config.weight_exponent_width",
        got=f"{element} from 2^{math.frexp(least)[1] - 1 + lowest} to 2^{top + lowest}",
        expected=f"at most {WIDEST} bits from the last bit of the smallest number to the first of the largest",
        remedy="give weights fewer bits of exponent or a smaller weight_exponent_bias: what is smaller becomes 0, "
        "of log the smallest number",
    )


def _shared(node: str, weight: Tensor, config: NodeConfig, given: Json) -> tuple[BlockFormat, Tensor]:
    """Blocks of outputs and inputs with the exponent ``ceil(log2(largest magnitude))``."""
    if weight.dim() != 2:
        raise _refused(
            node, "name", "block_fp", "weights of linear layers", 'give this layer name = "mxint"',
            "block_fp has no blocks of kernels",
        )  # fmt: skip
    outputs, inputs = (size if n == -1 else n for n, size in zip(config.block_shape, weight.shape, strict=True))
    values = weight.detach().double().cpu().abs()
    width, bias, bits = config.weight_width or 0, _bias(config, given), config.weight_exponent_width
    fmt = BlockFormat(width, 0, True, inputs, bits)
    exponents: list[int | None] = []
    blocks = [part for rows in torch.split(values, outputs) for part in torch.split(rows, inputs, 1)]
    for block in blocks:
        found = fmt.exponent(float(block.max()))  # refuses what is not finite
        if found is not None:
            mantissa, exponent = math.frexp(float(block.max()))
            above = exponent - (mantissa == 0.5)
            found = max(-bias, min(above, (1 << bits) - 1 - bias)) - 1
        exponents.append(found)
    made, shifts = fmt.spaced(exponents)
    each = torch.tensor(shifts, dtype=torch.int64).reshape(-1, len(torch.split(values, inputs, 1)))
    return made, each.repeat_interleave(outputs, 0)[: len(weight)]
