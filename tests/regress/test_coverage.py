"""Coverage of the RTL: a small sample has no unexplained gap, and what would be one is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from mase_hw.errors import ConfigError
from mase_hw.regress.coverage import ASSERTION, CONSTANT, cover, cover_network, gaps, idle, read_reasons, table
from mase_hw.simulate.coverage import Coverage, Point
from tests.regress.conftest import out_folder
from tests.rtl import LIBRARY

SAMPLE = ("skid_buffer", "pad")
OWN = ("skid_buffer", "fixed_zero_pad2d", "register_slice")
"""Modules of the sample that need no other op to be reached."""
BROKEN = ("[[gap]]\nmodule = 'a'\n", "gap = 3", "[[gap", '[[gap]]\nmodule="a"\nline="b"\nreason=" "')


def test_a_sample_has_no_unexplained_gap(root: Path, tmp_path: Path, runtime: Path) -> None:
    out = out_folder(tmp_path, runtime)
    coverage = cover(SAMPLE, out)
    reasons = read_reasons(root / "regress" / "coverage.toml")
    assert {"skid_buffer", "fixed_zero_pad2d", "stream_fifo", "register_slice"} <= set(coverage.modules)
    own = [gap for gap in gaps(coverage, reasons) if gap.module in OWN]
    assert [str(gap) for gap in own if not gap.reason] == []
    assert coverage.share("branch", "skid_buffer")[1] > 0 and "| `fixed_zero_pad2d` |" in table(coverage, own)


def place(module: str, text: str) -> int:
    lines = (LIBRARY / "lib" / f"{module}.sv").read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_a_gap_needs_a_reason_and_a_reason_a_gap() -> None:
    stop = place("stream_check", "valid dropped before ready")
    clear = place("skid_buffer", "out_valid <= 1'b0")
    text = "out_valid <= 1'b0;"
    counts = {
        Point("skid_buffer", "line", clear, 7, "if"): 0,
        Point("stream_check", "branch", stop - 1, 5, "if"): 0,
        Point("skid_buffer", "toggle", 1, 1, "clk"): 0,
        Point("bench", "line", 1, 1, "block"): 0,
    }
    found = gaps(Coverage(counts), {})
    assert [(g.line, g.text, g.reason) for g in found] == [
        (clear, text, ""), (stop - 1, found[1].text, ASSERTION),
    ]  # fmt: skip
    assert "NO REASON" in str(found[0]) and found[1].text.startswith("if (")
    why = {("skid_buffer", text): "never reset here"}
    assert gaps(Coverage(counts), why)[0].reason == "never reset here" and idle(Coverage(counts), why) == []
    # Once it is reached, or is a line no more, the reason is idle; of modules that were not covered nothing is known.
    reached = Coverage({point: 1 for point in counts})
    assert gaps(reached, why) == [] and idle(reached, {**why, ("stream_fork", "x"): "y"}) == [("skid_buffer", text)]


def test_what_is_computed_during_elaboration_never_runs() -> None:
    inside = place("window_check", "if (CEIL_MODE != 0 &&")
    after = place("window_check", "if (KERNEL_W < 1")
    data = place("window_reduce", "both[i] = (part[i] > x[i])")  # in a function that makes a beat
    counts = {
        Point("window_check", "branch", inside, 1, "if"): 0,
        Point("window_check", "branch", after, 1, "if"): 0,
        Point("window_reduce", "branch", data, 1, "if"): 0,
    }
    assert [gap.reason for gap in gaps(Coverage(counts), {})] == [CONSTANT, "", ""]


def test_a_module_that_no_design_had_is_a_gap_of_the_whole() -> None:
    reached = Coverage({Point("skid_buffer", "line", 1, 1, "block"): 1})
    assert gaps(reached, {}) == []
    found = {gap.module: gap for gap in gaps(reached, {}, whole=True)}
    designs = [*LIBRARY.glob("lib/*.sv"), *LIBRARY.glob("ops/*.sv")]
    assert set(found) == {path.stem for path in designs} - {"skid_buffer"}
    assert found["stream_fork"].text == "module stream_fork #(" and not found["stream_fork"].reason
    why = {("stream_fork", "module stream_fork #("): "none", ("gone", "module gone #("): "none"}
    assert idle(reached, why) == [] and idle(reached, why, whole=True) == [("gone", "module gone #(")]
    both = Coverage({**reached.counts, Point("stream_fork", "toggle", 1, 1, "clk"): 0})
    assert "stream_fork" not in {gap.module for gap in gaps(both, {}, whole=True)}


@pytest.mark.slow
def test_a_network_has_what_no_op_case_has(root: Path, tmp_path: Path, runtime: Path) -> None:
    reached = cover_network(f"{root / 'regress' / 'networks.py'}:fork", out_folder(tmp_path, runtime))
    reasons = read_reasons(root / "regress" / "coverage.toml")
    own = {"rom_source", "stream_fork", "stream_check"}
    assert own <= set(reached.modules)
    assert [str(gap) for gap in gaps(reached, reasons) if gap.module in own and not gap.reason] == []


def test_the_table_adds_up_the_modules_of_the_library() -> None:
    counts = {
        Point("skid_buffer", "line", 1, 1, "block"): 1,
        Point("skid_buffer", "line", 2, 1, "block"): 0,
        Point("stream_fork", "line", 1, 1, "block"): 3,
        Point("stream_fork", "branch", 1, 1, "if"): 0,
        Point("bench", "line", 1, 1, "block"): 1,
    }
    rows = table(Coverage(counts), []).splitlines()[2:5]
    assert rows == [
        "| `skid_buffer` | 1 of 2 | 0 of 0 |",
        "| `stream_fork` | 1 of 1 | 0 of 1 |",
        "| all | 2 of 3 | 0 of 1 |",
    ]


@pytest.mark.parametrize(
    "text", ["[[gap]]\nmodule = 'a'\n", "gap = 3", "[[gap", '[[gap]]\nmodule="a"\nline="b"\nreason=" "']
)
def test_reasons_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "reasons.toml").write_text(text)
    with pytest.raises(ConfigError, match="reason"):
        read_reasons(tmp_path / "reasons.toml")


def test_an_op_without_hardware_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="in hardware"):
        cover(["gather"], tmp_path)
