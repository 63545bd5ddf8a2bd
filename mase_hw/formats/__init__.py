"""Number formats, in two families, and the codes of the two ways in which a cast may lose bits.

A format says which numbers exist; how a value is brought into it (rounding, overflow) belongs to the cast. Mantissas
are integers in both families, and every op computes with mantissas: a *fixed-point* format places the binary point, a
format of *scaled integers* has a real scale and a zero point, which only matter where tensors of different scales
meet, and there as an integer multiplier and a shift (:mod:`mase_hw.formats.multipliers`). Weights of fixed point may
also be *binary* or *ternary* (:mod:`mase_hw.formats.signs`), or have an exponent by block
(:mod:`mase_hw.formats.blocks`) or a factor by group (:mod:`mase_hw.formats.groups`).
"""

from mase_hw.formats.blocks import SPAN, BlockFormat
from mase_hw.formats.fixed import (
    MAX_FRAC,
    MAX_WIDTH,
    FixedFormat,
    Overflow,
    Rounding,
    format_of_places,
)
from mase_hw.formats.groups import FACTOR_BITS, GroupFormat
from mase_hw.formats.minifloats import DENORM, IEEE, LOG, MINIFLOATS, Minifloat, integers, minifloat
from mase_hw.formats.multipliers import MULTIPLIER_BITS, Multipliers, enough_bits, multipliers, quantize_multiplier
from mase_hw.formats.scaled import ScaledFormat, as_scaled, steps_of, sum_format
from mase_hw.formats.signs import SignFormat, of_code, read_format
from mase_hw.formats.taken import ScaledUse, any_scaled, refuse_others, refuse_scaled

__all__ = [
    "DENORM",
    "FACTOR_BITS",
    "IEEE",
    "LOG",
    "MAX_FRAC",
    "MAX_WIDTH",
    "MINIFLOATS",
    "MULTIPLIER_BITS",
    "SPAN",
    "BlockFormat",
    "FixedFormat",
    "GroupFormat",
    "Minifloat",
    "Multipliers",
    "Overflow",
    "Rounding",
    "ScaledFormat",
    "ScaledUse",
    "SignFormat",
    "any_scaled",
    "as_scaled",
    "enough_bits",
    "format_of_places",
    "integers",
    "minifloat",
    "multipliers",
    "of_code",
    "quantize_multiplier",
    "read_format",
    "refuse_others",
    "refuse_scaled",
    "steps_of",
    "sum_format",
]
