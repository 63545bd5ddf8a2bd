"""The constants of the cost model are what its rows give, and its errors are as promised on rows held out."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
MEDIAN, WORST = 5.0, 15.0
"""Percent, of look-up tables and of flip-flops."""
KEPT = ("fixed_relu", "stream_fork", "fixed_linear", "fixed_conv2d")
"""Modules whose median is promised; what each reaches is told by ``regress/fit_cost.py --errors``."""

UNSEEN = 200
"""Layers and connectors at least, of draws that were made once the structures were written."""

BLOCKS_OFF = 1
"""Of these, modules of a kind with other block RAMs than expected: a line buffer of 1,308 words of 48 bits, of whose
last bits Yosys makes LUT RAM."""


@cache
def script(name: str = "fit_cost") -> ModuleType:
    """A script in ``regress``."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "regress" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("family", ["ecp5", "xc7"])
def test_constants_are_what_the_rows_give(family: str) -> None:
    fit = script()
    assert (fit.CONSTANTS / f"{family}.json").read_text(encoding="utf-8") == fit.text_of(fit.fit_family(family))


@pytest.mark.parametrize("family", ["ecp5", "xc7"])
def test_errors_on_what_was_held_out(family: str) -> None:
    found = {module: (errors, number) for module, errors, number in script().errors(family)}
    for module in KEPT:
        errors, number = found[module]
        assert number >= 2
        assert not any(errors["dsp"]) and not any(errors["bram"]), module
        for resource in ("lut", "ff"):
            assert 100 * np.median(errors[resource]) <= MEDIAN, (module, resource)


@pytest.mark.parametrize("family", ["ecp5", "xc7"])
def test_errors_on_draws_that_were_made_last(family: str) -> None:
    """None of them is among the draws that constants are fitted to, and layers of products keep what is promised."""
    fit = script()
    fitted = {row.draw for rows in fit.read_rows(family).values() for row in rows}
    unseen = [row for rows in fit.read_rows(family, fit.UNSEEN).values() for row in rows]
    assert len(unseen) >= UNSEEN and not fitted & {row.draw for row in unseen}
    found = {module: errors for module, errors, _ in fit.errors(family, fit.unseen)}
    for module in ("fixed_linear", "fixed_conv2d"):
        assert not any(found[module]["dsp"]) and sum(map(bool, found[module]["bram"])) <= BLOCKS_OFF, module
        for resource in ("lut", "ff"):
            assert 100 * np.median(found[module][resource]) <= MEDIAN, (module, resource)


def test_a_count_that_is_off_is_seen() -> None:
    fit = script()
    row = fit.read_rows("xc7")["fixed_relu"][0]
    pairs = [(row, fit.structure_of("fixed_relu", row.parameters, "xc7"))]
    right = fit.fit(pairs, "lut")
    row.counts["lut"] += 40
    assert fit.fit(pairs, "lut") != right


def test_the_area_of_whole_networks(capsys: pytest.CaptureFixture[str]) -> None:
    """Of eight networks that nothing was fitted to, in both directions; their counts are those of Yosys."""
    assert script("synthesis").predictions() == 0, capsys.readouterr().out
    assert len(capsys.readouterr().out.splitlines()) == len(script("synthesis").NETWORKS) >= 8


@pytest.mark.slow
def test_no_row_is_of_other_sources() -> None:
    assert script().stale() == [], "python regress/cost/collect.py --work build/cost --stale"
