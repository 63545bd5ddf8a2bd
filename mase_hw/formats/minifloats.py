"""Minifloats: floating-point numbers of few bits, as integers times the last bit of the smallest ones."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

IEEE, DENORM, LOG = "ieee", "denorm", "log"
"""What MASE's quantisers ``minifloat_ieee``, ``minifloat_denorm`` and ``log`` make; see :class:`Minifloat`."""


@dataclass(frozen=True)
class Minifloat:
    """A floating-point number without infinity, section 5.3 of the OCP Microscaling specification.

    Args:
        bits: Of a number.
        digits: Of a significand, the leading one included.
        top: How many powers of two its largest exponent lies above its last subnormal bit.
        emax: Its largest exponent, with the usual bias.
        largest: The largest magnitude, in units of that bit.
        rule: What a number is rounded to. Empty: the nearest one, half to even. :data:`IEEE`: the same, but what is
            below a power of two stays below it, so the mantissa saturates before the exponent grows. :data:`DENORM`: so
            does a power of two itself, which has the exponent above that of a leading one. :data:`LOG`: a power of two,
            by the nearest logarithm, and never 0.
    """

    bits: int
    digits: int
    top: int
    emax: int
    largest: int
    rule: str = ""


def _minifloat(e: int, m: int) -> Minifloat:
    """``e`` bits of exponent with the bias ``2**(e - 1) - 1``, ``m`` bits of mantissa; all codes are numbers.

    As the specification has them, ``e5m2`` has no number with its largest exponent field, and the last code of
    ``e4m3`` is none.
    """
    above = (1 << e) - 2 - ((e, m) == (5, 2))  # the subnormal numbers have the exponent of the first normal ones
    significand = (2 << m) - 1 - ((e, m) == (4, 3))
    return Minifloat(1 + e + m, m + 1, above + m, above + 2 - (1 << (e - 1)), significand << above)


MINIFLOATS = {f"e{e}m{m}": _minifloat(e, m) for e in range(2, 6) for m in range(1, 8) if e < 5 or m < 3}
"""Minifloats, by exponent and mantissa bits: ``e5m2`` and ``e4m3`` of MXFP8, ``e3m2`` and ``e2m3`` of MXFP6, ``e2m1``
of MXFP4, and what else has magnitudes of at most 32 bits."""


def _of_mase(rule: str, e: int, m: int) -> Minifloat:
    """A number of a quantiser of MASE, in which every code is a number.

    With an implicit leading one the smallest exponent field is that of subnormal numbers, which have the exponent of
    the next one. Without it every exponent field has its own, and a power of two as exponent that of ``2**m``.
    """
    last = (1 << e) - 1  # the largest exponent field
    emax = last - ((1 << (e - 1)) - 1)
    if rule == IEEE:
        return Minifloat(1 + e + m, m + 1, last - 1 + m, emax, ((2 << m) - 1) << (last - 1), rule)
    if rule == DENORM:
        return Minifloat(1 + e + m, m, last + m - 1, emax - 1, ((1 << m) - 1) << last, rule)
    return Minifloat(1 + e, 1, last, emax, 1 << last, rule)


@functools.cache
def minifloat(element: str) -> Minifloat | None:
    """A minifloat by its name, such as ``e4m3``, ``ieee_e4m3``, ``denorm_e4m3`` or ``log_e3``; None of another name."""
    if element in MINIFLOATS:
        return MINIFLOATS[element]
    found = re.fullmatch(rf"(?:({IEEE}|{DENORM})_e([1-8])m(\d\d?)|({LOG})_e([1-8]))", element)
    if found is None or (found[1] == DENORM and found[3] == "0"):
        return None
    return _of_mase(found[1], int(found[2]), int(found[3])) if found[1] else _of_mase(LOG, int(found[5]), 0)


def integers(width: int) -> Minifloat:
    """Symmetric integers of ``width`` bits, as what has a single exponent."""
    return Minifloat(width, 0, width - 2, 0, (1 << (width - 1)) - 1)
