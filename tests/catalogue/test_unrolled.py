"""Modules that are made for their constants, proven as the files are: bits, stalls, cycles, lint, synthesis."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pyslang import syntax

from mase_hw.catalogue import verilog_params
from mase_hw.host.lint import lint
from mase_hw.simulate.build.tools import BuildTools
from tests.rtl import LIBRARY

from .checks import CHECKS
from .conftest import Yosys
from .elaborate import elaborate
from .groups import Place, group_dut
from .harness import MADE, Item, expected, stimulus
from .test_lint import CUT, NO_LATCH, verilate
from .test_simulation import run

GENERATED = {
    "unrolled_linear",
    "unrolled_conv",
    "tabled_linear",
    "tabled_conv",
    "table_windows",
    "frame",
    "frame_channels_last",
    "frame_of_several",
}
LINEAR = [it for it in MADE if it.op.name in GENERATED]
"""The cases; a convolution of one element has the module of a linear layer."""
every_case = pytest.mark.parametrize("it", LINEAR, ids=lambda it: it.id)


@pytest.mark.parametrize("check", CHECKS)
@every_case
def test_simulation(it: Item, check: str, place: Callable[[Item], Place], tmp_path: Path) -> None:
    """The same checks as of every other op: bits and cycles, at full rate and under stalls."""
    run(CHECKS[check], it, place(it), tmp_path)


@every_case
def test_the_case_is_not_vacuous(it: Item) -> None:
    outputs = expected(it, stimulus(it))[it.sink.name][: it.case.frames]
    assert np.unique(outputs).size > 1


def test_verilator(request: pytest.FixtureRequest, tools: BuildTools, tmp_path: Path) -> None:
    """All cases as one design, as synthesised, without a word."""
    dut = group_dut(LINEAR, tmp_path)
    assert verilate(tools, LIBRARY, dut.top, [str(path) for path in dut.sources], {}, "-DSYNTHESIS") == (0, "")


def test_verible() -> None:
    complaints = lint([it.dut().sources[-1] for it in LINEAR])
    assert not complaints, "\n".join(complaints)


def test_slang_and_as_many_multipliers(yosys: Yosys) -> None:
    """Yosys reads every case through slang; no latch, no way past the registers, no multiplication but of data."""
    base = LIBRARY.parent
    lines = []
    for it in LINEAR:
        dut = it.dut()
        files = " ".join(str(path.relative_to(base)) for path in dut.sources)
        lines.append(f"design -reset; read_slang -j 1 --ignore-assertions --top {dut.top} {files}; hierarchy; proc")
        count = it.hardware.multipliers(it.case.params)
        lines.append(f"flatten; {NO_LATCH}; select -assert-count {count} t:$mul; select -assert-none t:$macc; {CUT}")
    code, log = yosys("; ".join(lines))
    assert code == 0, log[-2000:]


def test_other_parameters_are_refused(tools: BuildTools) -> None:
    """The module is made for its parameters, and stops elaboration with any other; Verilator's as well."""
    dut = LINEAR[0].dut()
    files, params = list(dut.sources), verilog_params(LINEAR[0].case.params)
    assert elaborate(files, dut.top, {}, reached=False).accepted
    for name, value in params.items():
        assert not elaborate(files, dut.top, {name: int(value) + 1}, reached=False).accepted, name
    other = {"STAGES": int(params["STAGES"]) + 1}
    code, log = verilate(tools, LIBRARY, dut.top, [str(path) for path in files], other)
    assert code != 0 and "made for other parameters" in log


def test_parameters_are_those_of_the_module() -> None:
    it = LINEAR[0]
    text = it.dut().sources[-1].read_text(encoding="utf-8")
    named = re.findall(r"^    parameter int (\w+) += (-?\d+)", text, re.MULTILINE)
    assert {name: int(value) for name, value in named} == verilog_params(it.case.params)
    assert len(syntax.SyntaxTree.fromText(text).diagnostics) == 0
