"""Casts measured one by one: which look-up tables rounding and saturating takes, with and without a skid buffer.

    python regress/cost/casts.py --work build/casts             # what the cost model is off
    python regress/cost/casts.py --work build/casts --update    # map them all again, some minutes for each family

Each is a module of one lane. The tables of ``mase_hw/cost/casts.py`` were read off these counts, so they say nothing
of how far off the model is elsewhere; the rows of draws do.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from collect import read
from measure import COLUMNS, Item, measure
from sources import files_of

from mase_hw.cost import cost_of
from mase_hw.emit.netlist import Instance
from mase_hw.numerics import FixedFormat
from mase_hw.streams import Direction, Stream

ROWS = Path(__file__).with_suffix(".json")
FAMILIES = ("ecp5", "xc7")
BATCH = 150
SATURATE, WRAP = 0, 1
ADD, MULTIPLY = 0, 3
PLAIN = {f"DATA_IN_{i}_{name}": value for i in range(2) for name, value in (("ZERO_POINT", 0), ("MULTIPLIER", 1))}
Chosen = tuple[str, dict[str, int]]


def _cast(width: int, drop: int, signed: int, out: int, out_signed: int, way: tuple[int, int]) -> Chosen:
    names = ("DATA_IN_0_PRECISION_0", "DATA_IN_0_PRECISION_1", "DATA_IN_0_SIGNED", "DATA_OUT_0_PRECISION_0")
    of = dict(zip(names, (width, drop, signed, out), strict=True))
    more = {"DATA_OUT_0_PRECISION_1": 0, "DATA_OUT_0_SIGNED": out_signed, "ROUNDING": way[0], "OVERFLOW": way[1]}
    return "fixed_cast", of | more


def _binary(operation: int, taken: tuple[tuple[int, int], tuple[int, int]], out: int, frac: int, way: int) -> Chosen:
    of = {"OPERATION": operation, "ROUNDING": way % 10, "OVERFLOW": way // 10}
    for port, (width, bits) in (("DATA_IN_0", taken[0]), ("DATA_IN_1", taken[1]), ("DATA_OUT_0", (out, frac))):
        of |= {f"{port}_PRECISION_0": width, f"{port}_PRECISION_1": bits, f"{port}_SIGNED": 1}
    return "fixed_binary", of


def chosen() -> Iterator[Chosen]:
    """What is measured: one thing varied at a time."""
    for rounding in range(3):
        for drop in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12):
            yield _cast(8 + drop + (rounding == 2), drop, 1, 8, 1, (rounding, SATURATE))
        for above in (1, 2, 3, 4, 5, 6, 8):
            yield _cast(11 + above - (rounding != 2), 4, 1, 8, 1, (rounding, SATURATE))
    for out in (2, 3, 4, 5, 6, 10, 14):
        yield _cast(out + 4, 4, 1, out, 1, (0, SATURATE))
    for above in (0, 1, 2, 3, 4, 6):
        for signed, out_signed, drop in ((1, 1, 0), (0, 1, 0), (1, 0, 0), (0, 0, 0), (0, 0, 3), (1, 0, 3), (0, 1, 3)):
            yield _cast(8 + drop + above, drop, signed, 8, out_signed, (0, SATURATE))
    for out in (3, 4, 5, 6, 8, 12):
        for rounding in (0, 1):
            yield _cast(out + 6, 3, 1, out, 1, (rounding, WRAP))
    for width in (3, 4, 5, 6, 8, 12):
        for out in (width + 1, width):
            yield _binary(ADD, ((width, 0), (width, 0)), out, 0, 0)
    for out in (7, 6, 5, 4, 3):
        yield _binary(ADD, ((8, 0), (8, 0)), out, 0, 0)
    for rounding in range(3):
        for drop in (1, 2, 3, 4, 6):
            yield _binary(ADD, ((8 + drop, drop), (8 + drop, drop)), 8, 0, rounding)
        for drop in (1, 3):
            yield _binary(ADD, ((8 + drop, drop), (8 + drop, drop)), 8, 0, rounding + 10)
        for out in range(11, 2, -1):
            yield _binary(MULTIPLY, ((8, 0), (8, 4)), out, 0, rounding)
    for shift, out in ((2, 8), (2, 11), (5, 13)):
        yield _binary(ADD, ((8, 0), (8, shift)), out, shift, 0)


def item_of(module: str, of: Mapping[str, int], base: Mapping[str, Any]) -> Item:
    """One lane of a module, whose other parameters are those of any row of it."""
    parameters = {k: 1 if "PARALLELISM" in k else v for k, v in base.items()} | PLAIN | of
    parameters = {k: v for k, v in parameters.items() if k in base}
    ports = []
    for name in ("data_in_0", "data_in_1", "data_out_0"):
        if f"{name.upper()}_PRECISION_0" in parameters:
            width, frac, signed = (parameters[f"{name.upper()}_{k}"] for k in ("PRECISION_0", "PRECISION_1", "SIGNED"))
            direction: Direction = "in" if "in" in name else "out"
            ports.append(Stream(name, direction, (1,), FixedFormat(width, frac, bool(signed))))
    instance = Instance("u", module, parameters, tuple(ports), "u", module)
    return Item(instance, files_of(module), {})


def items(family: str) -> list[Item]:
    """All of them."""
    tables = read(ROWS.with_name(f"{family}.json"))
    found = []
    for module, of in chosen():
        table = tables[module]
        base = {k: v for k, v in zip(table["parameters"], table["rows"][0][3], strict=True) if v is not None}
        found.append(item_of(module, of, base))
    return found


def measured(family: str, work: Path) -> list[list[int]]:
    """Their counts, in the order of :func:`chosen`."""
    every = items(family)
    batches = [every[first : first + BATCH] for first in range(0, len(every), BATCH)]
    counts = [found for batch in batches for found in measure(batch, family, work / family)]
    return [[found[column] for column in COLUMNS] for found in counts]


def errors(family: str) -> list[float]:
    """How far off the model is of the look-up tables of each, as a share of them or of 20."""
    rows = json.loads(ROWS.read_text(encoding="utf-8"))[family]
    return [
        (cost_of(item.instance.module, item.parameters, family).lut - counts[0]) / max(counts[0], 20)
        for item, counts in zip(items(family), rows, strict=True)
    ]


def main() -> int:
    """Measure, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="where Yosys works")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    if arguments.update:
        rows = {family: measured(family, arguments.work) for family in FAMILIES}
        ROWS.write_text(json.dumps(rows, separators=(",", ":")) + "\n", encoding="utf-8")
    for family in FAMILIES:
        found = sorted(abs(error) for error in errors(family))
        most = f"nine of ten within {found[len(found) * 9 // 10]:.1%}, worst {found[-1]:.0%}"
        print(f"{family}: {len(found)} casts, median {found[len(found) // 2]:.1%}, {most}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
