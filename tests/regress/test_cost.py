"""The constants of the cost model are what its rows give, and its errors are as promised on rows held out."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from mase_hw.cost.fabrics import FABRICS

ROOT = Path(__file__).parents[2]
MEDIAN, WORST = 5.0, 15.0
"""Percent, of look-up tables and of flip-flops."""
MEDIANS = {"asic": 8.0}
"""The same where they are further off: gates are more than one for what a look-up table holds."""
KEPT = (
    "fixed_relu",
    "stream_fork",
    "fixed_linear",
    "fixed_conv2d",
    "fixed_binary",
    "fixed_cast",
    "rom_source",
    "stream_fifo",
)
"""Modules whose median is promised; what each reaches is told by ``regress/fit_cost.py --errors``."""
MOST = {"lut": 0.87, "ff": 0.98}
"""The share of unseen modules that is within ``WORST``."""
LIKE = [family for family, fabric in FABRICS.items() if fabric.like != family]
ROWS, HELD_OUT = 60, 20
"""Modules at least of such a family, and how many of them no constant is fitted to."""
LEAST_NEAR = {
    "xcup": {"lut": 0.8, "ff": 0.94},
    "nexus": {"lut": 0.79, "ff": 0.95},
    "ice40": {"lut": 0.74, "ff": 0.95},
    "gowin": {"lut": 0.76, "ff": 0.92},
    "gatemate": {"lut": 0.83, "ff": 0.97},
    "asic": {"lut": 0.72, "ff": 0.95},
}
"""The share of those that is within a tenth."""
UNSEEN = 200
"""Modules at least, of draws that nobody looked at before the structures were settled."""


@cache
def script(name: str = "fit_cost") -> ModuleType:
    """A script in ``regress``."""
    sys.path.insert(0, str(ROOT / "regress" / "cost"))
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), ROOT / "regress" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("family", FABRICS)
def test_constants_are_what_the_rows_give(family: str) -> None:
    fit = script()
    assert (fit.CONSTANTS / f"{family}.json").read_text(encoding="utf-8") == fit.text_of(fit.fit_family(family))


@pytest.mark.parametrize("family", ["ecp5", "xc7"])
def test_errors_on_what_was_held_out(family: str) -> None:
    found = {module: (errors, number) for module, errors, number in script().errors(family)}
    for module in KEPT:
        errors, number = found[module]
        assert number >= 2
        for resource in ("lut", "ff"):
            assert 100 * np.median(errors[resource]) <= MEDIAN, (module, resource)


@pytest.mark.parametrize("family", LIKE)
def test_errors_of_a_family_that_is_like_another_one(family: str) -> None:
    """It has fewer rows; that its cells differ in more than the look-up tables would be seen in its flip-flops."""
    fit = script()
    rows = [row for of in fit.read_rows(family).values() for row in of]
    assert len(rows) >= ROWS and len({row.draw.split()[0] for row in rows}) == len(script("cost/draws").KINDS)
    found: dict[str, list[float]] = {resource: [] for resource in ("lut", "ff", "dsp", "bram")}
    for _, errors, _ in fit.errors(family):
        for resource, values in errors.items():
            found[resource] += values
    assert len(found["lut"]) >= HELD_OUT
    for resource, most in LEAST_NEAR[family].items():
        assert 100 * np.median(found[resource]) <= MEDIANS.get(family, MEDIAN), resource
        assert (np.array(found[resource]) <= 0.1).mean() >= most, resource
    assert not any(found["dsp"])


@pytest.mark.parametrize("family", ["ecp5", "xc7"])
def test_errors_on_draws_that_were_made_last(family: str) -> None:
    """None of them is among the draws that constants are fitted to."""
    fit = script()
    fitted = {row.draw for rows in fit.read_rows(family).values() for row in rows}
    unseen = [row for rows in fit.read_rows(family, fit.UNSEEN).values() for row in rows]
    assert not fitted & {row.draw for row in unseen}
    found = {module: errors for module, errors, _ in fit.errors(family, fit.unseen)}
    assert sum(len(errors["lut"]) for errors in found.values()) >= UNSEEN
    for resource, most in MOST.items():
        assert 100 * np.median([e for errors in found.values() for e in errors[resource]]) <= MEDIAN
        known = np.array([e for errors in found.values() for e in errors[resource]])
        assert (100 * known <= WORST).mean() >= most, resource
    for resource in ("dsp", "bram"):
        assert not any(e for errors in found.values() for e in errors[resource]), resource


@pytest.mark.parametrize("family", ["ecp5", "xc7"])
def test_casts_are_those_that_were_mapped_one_by_one(family: str) -> None:
    """Half of them to a look-up table or two, nine of ten within a tenth."""
    found = np.abs(script("cost/casts").errors(family))
    assert len(found) == 180
    assert 100 * np.median(found) <= MEDIAN
    assert np.quantile(found, 0.9) <= 0.1


def test_a_count_that_is_off_is_seen() -> None:
    fit = script()
    row = fit.read_rows("xc7")["fixed_relu"][0]
    pairs = [(row, fit.structure_of("fixed_relu", row.parameters, "xc7"))]
    right = fit.fit(pairs, "lut")
    row.counts["lut"] += 40
    assert fit.fit(pairs, "lut") != right


@pytest.mark.parametrize("large", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["most", "large"])
def test_the_area_of_whole_networks(large: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Of eight networks that nothing was fitted to, in both directions, and of layers without multipliers,
    of which two constants of the model were read off.

    Their counts are those of Yosys. Finding the additions of the two large ones takes longer than all the others.
    """
    networks = script("synthesis").NETWORKS
    names = [name for name in networks if (name in ("unrolled_32x32", "unrolled_64_32_32_10")) == large]
    assert script("synthesis").predictions(names) == 0, capsys.readouterr().out
    assert len(capsys.readouterr().out.splitlines()) == len(names) == (2 if large else len(networks) - 2)


@pytest.mark.slow
def test_no_row_is_of_other_sources() -> None:
    assert script().stale() == [], "python regress/cost/collect.py --work build/cost --stale"
