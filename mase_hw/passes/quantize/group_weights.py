"""Weights that are integers in groups of inputs: exactly those that they are, or chosen by magnitude."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mase_hw.errors import ConfigError, FormatError
from mase_hw.formats import FACTOR_BITS, GroupFormat
from mase_hw.host.documents import Json
from mase_hw.passes.quantize.config import NodeConfig
from mase_hw.passes.quantize.formats import width_in_blocks

ROUNDED_BITS = 16
"""Bits of the largest factor of a tensor where factors are chosen: one multiplier block takes it."""


def group_weights(node: str, weight: Tensor, config: NodeConfig, given: Json) -> tuple[GroupFormat, Tensor, str]:
    """The format of integers in groups, the factor of every group, ``(outputs, groups)``, and what was done.

    Weights that are integers of that width times a number of their group already, as those of a file of GPTQ or AWQ,
    stay exactly as they are: the number is the greatest one of which all weights of the group are multiples. If one
    group is not so, every group gets the scale at which its largest magnitude is the largest mantissa, and the largest
    factor of the tensor has 16 bits.

    Arguments as of :func:`mase_hw.passes.quantize.formats.block_weights`.

    Raises:
        ConfigError: No width, one that no mantissa has, a key that such weights cannot have, or scales too far apart.
        FormatError: A weight that is not finite.
    """
    width = width_in_blocks(node, config, given)
    rows = weight.detach().double().cpu().movedim(1, -1).flatten(1)
    parts = [part.numpy() for part in torch.split(rows, config.block_size, 1)]
    found = [_steps(part, width) for part in parts]
    exact = all(bool(ok.all()) for _, _, ok in found)
    # A step is `odd * 2**exponent`; that of a group of zeros is 0.
    odd, exponent = (np.stack([each[i] for each in found], 1) for i in range(2))
    if not exact:
        peaks = np.stack([np.abs(part).max(1) for part in parts], 1)
        if not np.isfinite(peaks).all():
            raise FormatError(f"{node}.weight holds a number that is not finite", node=node, field="weight")
        steps = peaks / ((1 << (width - 1)) - 1)
        lowest = math.frexp(float(steps.max()))[1] - ROUNDED_BITS
        factors = np.maximum(np.rint(np.ldexp(steps, -lowest)), 1.0)
        reason = f"factors of groups of {config.block_size}, from their largest magnitudes"
    else:
        lowest = int(exponent[odd > 0].min(initial=0 if not (odd > 0).any() else np.iinfo(np.int64).max))
        factors = np.where(odd > 0, np.ldexp(odd.astype(np.float64), exponent - lowest), 1.0)
        reason = f"the integers that they are, in groups of {config.block_size}"
    if factors.max() >= 2.0**FACTOR_BITS:
        raise ConfigError(
            "the scales of groups are too far apart for one layer",
            node=node,
            field="weight",
            got=f"factors from 1 to 2^{math.log2(factors.max()):.1f}",
            expected=f"less than 2^{FACTOR_BITS}",
            remedy='give this layer name = "fixed"',
        )
    fmt = GroupFormat(width, -lowest, True, config.block_size)
    return fmt, torch.from_numpy(factors.astype(np.int64)), reason


def _steps(part: NDArray[np.float64], width: int) -> tuple[NDArray[np.int64], ...]:
    """Of every row the greatest number of which all its weights are multiples, and whether the integers fit.

    Returns:
        An odd integer and an exponent of two of every row, 0 and 0 of zeros; whether the multiples have ``width`` bits.
    """
    least, most = -(1 << (width - 1)), (1 << (width - 1)) - 1
    fractions, powers = np.frexp(part)
    there = (part != 0) & np.isfinite(part)
    # Magnitudes as integers of 53 bits, then with all zeros at their end cut off.
    whole = np.where(there, np.abs(np.ldexp(np.where(there, fractions, 0.0), 53)), 1.0).astype(np.int64)
    low = whole & -whole
    ends = powers - 53 + np.log2(low.astype(np.float64)).astype(np.int64)
    last = np.where(there, ends, np.iinfo(np.int64).max).min(1)
    last = np.where(there.any(1), last, 0)
    shift = np.where(there, ends - last[:, None], 0)
    fits = ~there | ((shift + np.log2((whole // low).astype(np.float64)) < 62) & (shift < 62))
    row = fits.all(1) & np.isfinite(part).all(1)
    integers = np.where(there & row[:, None], (whole // low) << np.where(row[:, None], shift, 0), 0)
    step = np.gcd.reduce(integers, axis=1)
    quotients = np.sign(part) * (integers // np.maximum(step, 1)[:, None])
    row &= (quotients.min(1) >= least) & (quotients.max(1) <= most)
    return step, last, row
