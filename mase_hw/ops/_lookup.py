"""A table over every input code: ``out = cast(f(x))``, exact by construction."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.numerics import as_carrier, carrier, magnitude, quantize
from mase_hw.numerics.observing import note_look_up
from mase_hw.opdef import Arithmetic, Memory
from mase_hw.ops._functions import BY_NAME

TABLE_BITS = 12
"""Inputs of up to so many bits are looked up; wider ones are computed piecewise."""

CODES = "codes"
"""Attribute: the result for every code of the input, by the bits of the code, where a source defines a function so."""
Key = tuple[str, tuple[tuple[str, Any], ...], FixedFormat, FixedFormat, Rounding, Overflow]
"""Function, its attributes, formats of input and output, cast modes: all that fixes a table."""


def key_of(name: str, a: Arithmetic) -> Key:
    """What a table of this function depends on; the attribute ``codes`` is a table, in place of the function."""
    given = tuple(sorted(BY_NAME[name].given(a.attributes).items()))
    if CODES in a.attributes:
        given = ((CODES, tuple(a.attributes[CODES])),)
    return (name, given, a.formats["data_in_0"], a.formats["data_out_0"], a.rounding, a.overflow)


def codes(fmt: FixedFormat) -> Tensor:
    """The mantissas of all codes of a format in order of address: the bits of a code, read as unsigned."""
    addresses = torch.arange(1 << fmt.width, dtype=torch.int64)
    return torch.where(addresses > fmt.mantissas.max_mantissa, addresses - (1 << fmt.width), addresses)


def values(name: str, attributes: Mapping[str, Any], mantissas: Tensor, fmt: FixedFormat) -> Tensor:
    """The function in float64 at the values that mantissas of a format stand for; on the CPU."""
    with torch.no_grad():
        return BY_NAME[name](fmt.values(mantissas.to(torch.float64)), attributes)


@functools.lru_cache(maxsize=256)
def table(key: Key) -> Tensor:
    """Output mantissas by address, in their carrier.

    Raises:
        FormatError: If the function is infinite at a code and overflow wraps; a table of codes that does not fit.
    """
    name, given, source, target, rounding, overflow = key
    if given and given[0][0] == CODES:
        words = torch.tensor(given[0][1], dtype=torch.int64)
        low, high = target.min_mantissa, target.max_mantissa
        if len(words) != 1 << source.width or int(words.min()) < low or int(words.max()) > high:
            raise FormatError(
                "a table does not fit its formats",
                field=CODES,
                got=f"{len(words)} codes from {int(words.min())} to {int(words.max())}",
                expected=f"{1 << source.width} codes from {low} to {high}",
            )
        return as_carrier(words, carrier(magnitude(target)))
    exact = values(name, dict(given), codes(source), source)
    return quantize(exact, target, rounding, overflow, name=name)


def look_up(key: Key, mantissas: Tensor, given: Tensor | None = None) -> Tensor:
    """The table's entries for mantissas of any shape, on their device; those of another table if one is given."""
    place = address(key[2], mantissas)
    if given is not None:
        note_look_up(place)
    return entry(table(key) if given is None else given, place)


def address(fmt: FixedFormat, mantissas: Tensor) -> Tensor:
    """The bits of codes of a format for a table, read as unsigned."""
    return mantissas.to(torch.int32) & ((1 << fmt.width) - 1)


def entry(values: Tensor, at: Tensor) -> Tensor:
    """The entries of a table of one dimension at places of any shape, on their device."""
    return values.to(at.device).index_select(0, at.reshape(-1)).reshape(at.shape)


def memory(key: Key) -> Memory:
    """The table as the hardware reads it."""
    width = key[3].width
    return Memory(tuple(int(v) & ((1 << width) - 1) for v in table(key).to(torch.int64).tolist()), width)


def entries(key: Key, stored: Memory) -> Tensor:
    """Output mantissas by address, in their carrier, of a memory as the hardware reads it."""
    target = key[3]
    words = torch.tensor(stored.words, dtype=torch.int64)
    mantissas = torch.where(words > target.mantissas.max_mantissa, words - (1 << target.width), words)
    return mantissas.to(table(key).dtype)
