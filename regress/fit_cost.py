"""Fits the constants of the cost model, and says how far off it is.

    python regress/fit_cost.py             # what is stale; exit code 1 if the rows give other constants
    python regress/fit_cost.py --update    # write them
    python regress/fit_cost.py --errors    # the table of errors on the rows that no constant was fitted to
    python regress/fit_cost.py --unseen    # the same of the draws that were made once all structures were written

The rows are in ``regress/cost``, one a module that Yosys has mapped; ``regress/cost/collect.py`` makes them. Of every
four draws one is held out: no constant is fitted to it. Non-negative least squares of weighted errors, over the terms
of :func:`mase_hw.cost.model.structure_of`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mase_hw.catalogue import default_catalogue, verilog_params
from mase_hw.cost import RESOURCES
from mase_hw.cost.casts import Terms
from mase_hw.cost.fabrics import FABRICS
from mase_hw.cost.model import STRUCTURES, constants, cost_of, structure_of

ROWS = Path(__file__).with_name("cost")
UNSEEN = ROWS / "unseen"
"""Rows of draws that neither a constant was fitted to nor a structure written after."""
CONSTANTS = Path(__file__).parents[1] / "mase_hw" / "cost"
FAMILIES = sorted(FABRICS)
EVERY = 4
"""One draw of so many is held out."""
SMALL = 20
"""Errors of counts below this are told as shares of it: a look-up table more or less is no error of a third."""
TYPICAL = 200
"""What the errors of a count grow with is its root, as of many bits that are mapped a little better or worse by chance;
of this count they are ``NOISE``."""
NOISE = 0.02
"""What is expected of the errors, as a share of the counts: how much rows weigh against what is expected of a unit."""
EXPECTED: tuple[tuple[str, float, float], ...] = (
    (r"\.bits$", 1.2, 2.2),
    (r"\.chain$", 0.0, 0.2),
    (r"\.(level|write|read)\.soft$", 1.0, 1.0),
    (r"\.compare$", 0.3, 0.6),
    (r"any$", 3.0, 4.0),
    (r"\.mux$", 0.35, 0.8),
    (r"\.rows$", 1.0, 2.0),
    (r"\.shift$", 1.0, 1.0),
    (r"\.block$", 0.0, 1.0),
    (r"mac\.first$", 0.0, 1.0),
    (r"^(slots|slots_late|found|aside)$", 1.0, 1.0),
    (r"(tree\.add|chain\.(tree|sum|weights)|soft\.add|mac\.sum|mac\.biased|bias_half)$", 1.0, 1.0),
    (r"(inside|alone|_bias|bias_above)$", 0.0, 0.0),
    (r"soft\.bits$", 1.0, 1.0),
    (r"logic\.(first|row|plain)$", 1.0, 2.7),
    (r"logic\.add$", 1.0, 1.0),
    (r"(saturate|carry)$", 1.0, 1.0),
    (r"\.above$", 0.2, 0.4),
    (r"\.tie$", 0.2, 0.35),
    (r"\.logic$", 0.6, 1.0),
    (r"(rounds|negative|ties|\.lanes)$", 0.5, 1.0),
    (r"", 0.3, 0.4),
)
"""Look-up tables of a unit by kind of term, on Xilinx and on ECP5: where the fit begins. The first pattern decides."""
TOGETHER = (("fixed_linear", "fixed_conv2d"),)
"""Modules with parts in common, whose units are fitted to the rows of all of them."""
LOOSE = 2.0
"""How far a unit may be from what is expected, as a share of it, before it costs as much as an error of ``NOISE``."""
LEAST = 1.0
NEAR, NEAR_LEAST = 0.15, 0.05
"""The same of a unit of a family that is like another one, from the unit of that; chosen with draws 1 and 2 of xcup,
each left out in turn."""
HELD = 2.0
"""Gates in front of a flip-flop, for its enable and reset, where gates are counted."""
FAR = 0.3
"""Both of a family that is less like it, as it has no RAM in look-up tables; chosen with draws 0 and 1 of ice40, each
left out in turn."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """A module that was mapped.

    Args:
        draw: Kind and seed of the draw it belongs to.
        rtl: Digest of its sources.
        counts: Of Yosys, by resource.
        parameters: Of the module.
    """

    draw: str
    rtl: str
    counts: Mapping[str, int]
    parameters: Mapping[str, Any]

    @property
    def held_out(self) -> bool:
        """Whether no constant is fitted to it."""
        return int(self.draw.split()[1]) % EVERY == EVERY - 1


def read_rows(family: str, folder: Path = ROWS) -> dict[str, list[Row]]:
    """All rows of a family, by module; none where the folder has no table of it."""
    path = folder / f"{family}.json"
    found = {}
    for module, table in (json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}).items():
        names = table["parameters"]
        found[module] = [
            Row(draw, rtl, dict(zip(("lut", "ff", "dsp", "bram"), counts, strict=True)), _named(names, values))
            for draw, rtl, counts, values in table["rows"]
        ]
    return found


def _named(names: list[str], values: list[Any]) -> dict[str, Any]:
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def non_negative(matrix: Floats, wanted: Floats) -> Floats:
    """Least squares with no coefficient below zero (Lawson and Hanson, Solving Least Squares Problems, 1974)."""
    columns = matrix.shape[1]
    solution = np.zeros(columns)
    active = np.zeros(columns, dtype=bool)
    gram, moment = matrix.T @ matrix, matrix.T @ wanted
    for _ in range(10 * columns):
        slope = moment - gram @ solution
        slope[active] = -np.inf
        if not columns or slope.max() <= 1e-9:
            break
        active[int(slope.argmax())] = True
        while True:
            trial = np.zeros(columns)
            trial[active] = np.linalg.solve(gram[np.ix_(active, active)], moment[active])
            if trial[active].min() > 0:
                break
            falling = active & (trial <= 0)
            step = min((solution[i] / (solution[i] - trial[i]) for i in np.flatnonzero(falling)), default=0.0)
            solution = solution + step * (trial - solution)
            active &= solution > 1e-12
            solution[~active] = 0
        solution = trial
    return solution


def expected(name: str, resource: str, family: str) -> float:
    """What a unit of a term probably takes."""
    if resource != "lut":
        return 0.0
    found = next((xilinx, other) for pattern, xilinx, other in EXPECTED if re.search(pattern, name))
    return found[FABRICS[family].like == "ecp5"]


@cache
def terms_of_cases(family: str, resource: str, module: str) -> frozenset[str]:
    """What the cases of the catalogue are built of: rows have most of it, and the rest takes what is expected."""
    cases = [
        structure_of(module, verilog_params(case.params), family)
        for op in default_catalogue()
        if op.hardware is not None and op.hardware.module == module and module in STRUCTURES
        for case in op.hardware.cases()
    ]
    return frozenset(name for terms in cases for name, count in getattr(terms, resource).items() if count)


def fit(
    pairs: list[tuple[Row, Terms]],
    resource: str,
    base: Mapping[str, float] | None = None,
    others: Collection[str] = (),
) -> dict[str, float]:
    """The cost of a unit of each term: least squares of weighted errors, drawn to what is expected of the unit.

    Args:
        pairs: Rows and what they are built of.
        resource: What is counted.
        base: Units of the family that this one is like; None for one of its own kind. A term that no row has keeps it.
        others: Terms that no row may have; they take what is expected.
    """
    names = sorted({name for _, terms in pairs for name in getattr(terms, resource)} | set(base or ()) | set(others))
    if not names:
        return {}
    family = pairs[0][1].family
    matrix = np.array([[getattr(terms, resource).get(name, 0.0) for name in names] for _, terms in pairs])
    counts = np.array([float(row.counts[resource]) for row, _ in pairs])
    wanted = counts - np.array([terms.known[resource] for _, terms in pairs])
    weight = 1 / np.sqrt(np.maximum(counts, SMALL) * TYPICAL)
    prior = np.array([(base or {}).get(name, expected(name, resource, family)) for name in names])
    near, least = (NEAR, NEAR_LEAST) if FABRICS[family].lut_ram else (FAR, FAR)
    pull = NOISE / (np.maximum(LOOSE * prior, LEAST) if base is None else np.maximum(near * prior, least))
    stacked = np.vstack([matrix * weight[:, None], np.diag(pull)])
    solved = non_negative(stacked, np.concatenate([wanted * weight, prior * pull]))
    return {name: float(f"{value:.4g}") for name, value in zip(names, solved, strict=True) if value > 1e-6}


@cache
def units_of(family: str, module: str) -> dict[str, float]:
    """Look-up tables of a unit of each term of a module; 0 where none were found for what its rows have."""
    terms = (structure_of(module, row.parameters, family).lut for row in read_rows(family).get(module, []))
    found: dict[str, float] = constants(family).get(module, {}).get("lut", {})
    return {**{name: 0.0 for of in terms for name in of}, **found}


def drawn_to(family: str, units: Mapping[str, float]) -> dict[str, float]:
    """Units that those of a family are drawn towards, from these of the one that it is like.

    Where it counts gates, each look-up table is expected to become as many, one that is counted too; so are enables.
    """
    gates = FABRICS[family].gates
    if not gates:
        return dict(units)
    return {"counted": gates, "held": HELD, **{name: float(f"{gates * unit:.4g}") for name, unit in units.items()}}


def fit_family(family: str) -> dict[str, dict[str, dict[str, float]]]:
    """All constants of a family.

    Modules without rows have none, or those of the family that this one is like: what they take is counted, or taken to
    be the same.
    """
    like = None if FABRICS[family].like == family else constants(FABRICS[family].like)
    pairs = {
        module: [(row, structure_of(module, row.parameters, family)) for row in rows if not row.held_out]
        for module, rows in sorted(read_rows(family).items())
        if module in STRUCTURES
    }
    groups = [group for group in TOGETHER if any(pairs.get(module) for module in group)]
    groups += [(module,) for module, rows in pairs.items() if rows and not any(module in group for group in TOGETHER)]
    found: dict[str, dict[str, dict[str, float]]] = {
        module: {**like[module], "lut": drawn_to(family, like[module]["lut"])}
        if like
        else {resource: {} for resource in RESOURCES}
        for module in STRUCTURES
        if not pairs.get(module)
    }
    for group in groups:
        rows = [pair for module in group for pair in pairs.get(module, [])]
        of_like = [drawn_to(family, units_of(FABRICS[family].like, module)) for module in group]
        base = {name: unit for units in of_like for name, unit in units.items()}
        units = {
            resource: fit(
                rows,
                resource,
                base if like and resource == "lut" else None,
                [] if like else [n for module in group for n in terms_of_cases(family, resource, module)],
            )
            for resource in RESOURCES
        }
        # Each has all of them: a part that only rows of another module have is the same part.
        found |= dict.fromkeys(group, units)
    return found


def text_of(fitted: Mapping[str, Any]) -> str:
    """As the file is written."""
    return json.dumps(fitted, indent=1, sort_keys=True) + "\n"


def held_out(family: str) -> dict[str, list[Row]]:
    """By module: the rows of every fourth draw."""
    return {module: [row for row in rows if row.held_out] for module, rows in read_rows(family).items()}


def unseen(family: str) -> dict[str, list[Row]]:
    """By module: rows of draws made later, without modules that a constant was fitted to by chance."""
    seen = {
        (module, json.dumps(row.parameters, sort_keys=True))
        for module, rows in read_rows(family).items()
        for row in rows
    }
    return {
        module: [row for row in rows if (module, json.dumps(row.parameters, sort_keys=True)) not in seen]
        for module, rows in read_rows(family, UNSEEN).items()
    }


def errors(
    family: str, of: Callable[[str], dict[str, list[Row]]] = held_out
) -> Iterator[tuple[str, dict[str, list[float]], int]]:
    """By module that is estimated: relative errors of every resource, and the number of rows."""
    for module, rows in sorted(of(family).items()):
        if module not in constants(family):
            continue
        found: dict[str, list[float]] = defaultdict(list)
        for row in rows:
            predicted = cost_of(module, row.parameters, family).as_dict()
            for resource, count in row.counts.items():
                found[resource].append(abs(predicted[resource] - count) / max(count, SMALL))
        if rows:
            yield module, found, len(rows)


def stale() -> list[tuple[str, str]]:
    """Families and modules with rows whose RTL has changed since, comments and white space aside."""
    sys.path.insert(0, str(ROWS))
    from sources import digest_of

    return [
        (family, module)
        for family in FAMILIES
        for folder in (ROWS, UNSEEN)
        for module, rows in sorted(read_rows(family, folder).items())
        if any(row.rtl != digest_of(module) for row in rows)
    ]


def table(of: Callable[[str], dict[str, list[Row]]] = held_out) -> str:
    """Errors on what was held out, in percent."""
    lines = ["| module | family | rows | LUT median | LUT worst | FF median | FF worst | DSP, block RAM |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for family in FAMILIES:
        whole: dict[str, list[float]] = defaultdict(list)
        for module, found, number in errors(family, of):
            lines.append(_line(f"`{module}`", family, found, number))
            for resource, values in found.items():
                whole[resource] += values
        if whole:
            lines.append(_line("all", family, whole, len(whole["lut"])))
    return "\n".join(lines)


def _line(name: str, family: str, found: Mapping[str, list[float]], number: int) -> str:
    cells = [f"{100 * f(found[r]):.1f}" for r in ("lut", "ff") for f in (np.median, max)]
    wrong = sum(bool(d or b) for d, b in zip(found["dsp"], found["bram"], strict=True))
    exact = "exact" if not wrong else f"{wrong} not exact"
    return f"| {name} | {family} | {number} | {' | '.join(cells)} | {exact} |"


def main() -> int:
    """Fit and compare, or write, or tell the errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--errors", action="store_true")
    parser.add_argument("--unseen", action="store_true")
    arguments = parser.parse_args()
    if arguments.errors or arguments.unseen:
        print(table(unseen if arguments.unseen else held_out))
        return 0
    other = 0
    for family, module in stale():
        print(f"{family}: rows of {module} are of other sources (regress/cost/collect.py --stale)")
    for family in sorted(FAMILIES, key=lambda name: FABRICS[name].like != name):  # first those that others are like
        text, path = text_of(fit_family(family)), CONSTANTS / f"{family}.json"
        if arguments.update:
            path.write_text(text, encoding="utf-8")
            constants.cache_clear()  # those of a family that is like it begin with these
            units_of.cache_clear()
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path.name}: the rows give other constants")
            other = 1
    return other


if __name__ == "__main__":
    sys.exit(main())
