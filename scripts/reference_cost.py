"""What the cost model knows of devices, and how far off it is."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from mase_hw.catalogue import default_catalogue
from mase_hw.cost.devices import DEVICES, DSP_KINDS
from mase_hw.cost.model import STRUCTURES

MADE = ("fixed_unrolled", "fixed_unrolled_conv", "fixed_tabled", "fixed_tabled_conv", "fixed_frame")
"""Modules that name their additions and bits, or the look-up tables of their words, which are what they cost."""


@functools.cache
def _script() -> ModuleType:
    """``regress/fit_cost.py``."""
    path = Path(__file__).parents[1] / "regress" / "fit_cost.py"
    spec = importlib.util.spec_from_file_location("fit_cost", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def not_estimated() -> str:
    """The RTL modules of the package's ops whose structure no cost model repeats."""
    modules = {op.hardware.module for op in default_catalogue() if op.hardware is not None} - set(STRUCTURES)
    named = sorted(name for name in modules if name.startswith("fixed_") and name not in MADE)
    return "\n".join(f"- `{name}`" for name in named)


def errors() -> str:
    """Errors by module and family on the rows held out, in percent."""
    return str(_script().table())


def unseen() -> str:
    """The same of the draws that were made once all structures were written."""
    return str(_script().table(_script().unseen))


def devices() -> str:
    """Every device and the source of its figures."""
    rows = ["| device | family | LUT | FF | DSP | block RAM | source |", "|---|---|---|---|---|---|---|"]
    for d in DEVICES.values():
        blocks = f"{d.bram:,} of {d.block_bits // 1024} Kbit"
        logic = f"{d.lut:,} | {d.ff:,} | {d.dsp:,} {DSP_KINDS[d.target]}"
        rows.append(f"| {d.name} | {d.target} | {logic} | {blocks} | {d.source} |")
    return "\n".join(rows)
