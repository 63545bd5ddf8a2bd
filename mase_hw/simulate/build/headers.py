"""What every unit of a simulator includes, without what every unit would pay for and no design uses.

A compiler keeps what a header declares in precompiled form, but not what its functions make of templates: that is done
again for every unit. Half of the time that an empty unit takes goes into the functions by which Verilator packs dynamic
arrays, so these are left out of the header; a model that has dynamic arrays is compiled with Verilator's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

FUNCTIONS = "functions.h"
"""Verilator's functions without those of dynamic arrays, beside the header that includes it."""
WHOLE = "".join(f'#include "verilated{name}.h"\n' for name in ("", "_vpi", "_dpi", "_config"))
"""The header of all units with everything."""
TEXT = f"""\
// Verilator's functions come last, without those of dynamic arrays.
#define VERILATOR_VERILATED_FUNCS_H_
#include "verilated.h"
#undef VERILATOR_VERILATED_FUNCS_H_
#define VERILATOR_VERILATED_H_INTERNAL_
#include "{FUNCTIONS}"
#undef VERILATOR_VERILATED_H_INTERNAL_
{WHOLE}"""
"""The header of all units."""

# No template, with a dynamic array among its parameters; its body ends at the first brace in column 0.
_OF_ARRAYS = re.compile(r"(?<!>\n)^static inline [^;{}]*?\bVlQueue<[^{;]*\{\n(?:[ #].*\n|\n)*?\}\n", re.MULTILINE)


def without_dynamic_arrays(functions: str) -> str:
    """The text of ``verilated_funcs.h`` without the functions that take dynamic arrays."""
    return _OF_ARRAYS.sub("", functions)


def has_dynamic_arrays(sources: Iterable[Path]) -> bool:
    """Whether generated C++ may call what :func:`without_dynamic_arrays` leaves out."""
    return any(b"VlQueue" in path.read_bytes() for path in sources)
