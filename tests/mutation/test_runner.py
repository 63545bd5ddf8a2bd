"""The runner itself can fail: what is known to be equivalent lives, what is known to be wrong does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mase_hw.host.resources import PACKAGE
from mase_hw.simulate.build.tools import find_build_tools
from tests.rtl import LIBRARY

from . import campaign, golden_campaign
from .ledger import Ledger, Outcome
from .mutant import Edit, Mutant, named
from .rtl_campaign import Reach
from .rtl_guards import judge_guard
from .rtl_other_trials import by_design, judge_otherwise, order, other_trials
from .rtl_run import try_all
from .rtl_trials import trials, trials_of

CAST, SLICE = LIBRARY / "lib/fixed_cast_unit.sv", LIBRARY / "lib/register_slice.sv"


def made(path: Path, old: str, new: str, *, guard: bool = False) -> Mutant:
    """A mutant of our own; the text must stand in the file once."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    start = len(text[: text.index(old)].encode())
    edit = Edit(start, start + len(old.encode()), new, "made", guard)
    return named(campaign.name(path), text, [edit])[0]


HANDSHAKE = """\
  assign in_ready = !out_valid || out_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      out_valid <= 1'b0;
    end else if (in_ready) begin
      out_valid <= in_valid;
"""
# Right bits, but a beat waits until the one before it has left.
HALF_RATE = HANDSHAKE.replace("!out_valid || out_ready", "!out_valid").replace("(in_ready)", "(in_ready || out_ready)")
HALF_RATE = HALF_RATE.replace("<= in_valid", "<= in_ready && in_valid")
# What is changed, and what must become of it, with a word of what decides.
RTL = {
    "equivalent": (CAST, "if (Shift <= 0) begin", "if (Shift < 1) begin", "survived", ""),
    "wrong bits": (
        CAST,
        "{OUT_WIDTH{!value[VW-1]}}",
        "{OUT_WIDTH{value[VW-1]}}",
        "killed",
        "full_rate_1: hardware and",
    ),
    "no design": (CAST, "((IN_SIGNED != 0) ? 0 : 1);", "((IN_SIGNED != 0) ? 1 : 1);", "refused", "%Warning-WIDTH"),
    "lost beats": (SLICE, "if (in_ready) begin", "if (in_ready && !in_valid) begin", "killed", "full_rate_1: "),
    "late": (SLICE, HANDSHAKE, HALF_RATE, "killed", "full_rate_1: output intervals"),
    "no reset": (SLICE, "if (rst) begin", "if (rst && in_valid) begin", "killed", ""),
    "without end": (
        CAST,
        "assign value = VW'(rounded);",
        "always_comb begin value = VW'(rounded); while (^value === 1'b0 || ^value === 1'b1) value = ~value; end",
        "killed",
        "",
    ),
}


@pytest.fixture(scope="module")
def cast() -> object:
    return next(trial for trial in trials_of("cast") if trial.id == "cast-to_unsigned")


def test_mutants_of_a_module(cast: object, tmp_path: Path) -> None:
    """All in one model, and each gets its own verdict."""
    mutants = {name: made(path, old, new) for name, (path, old, new, _, _) in RTL.items() if name != "without end"}
    reach = Reach([cast])
    assert all(reach.trials(mutant) == ["cast-to_unsigned"] for mutant in mutants.values())
    outcomes = try_all(cast, list(mutants.values()), tmp_path, find_build_tools())
    for name, mutant in mutants.items():
        _, _, _, verdict, by = RTL[name]
        assert outcomes[mutant.id].verdict == verdict and outcomes[mutant.id].by.startswith(by), (name, outcomes)


@pytest.mark.slow
def test_a_mutant_that_hangs_the_simulator(cast: object, tmp_path: Path) -> None:
    """It is found among the others, though it hangs before the first cycle, and does them no harm."""
    mutants = [made(*RTL[name][:3]) for name in ("equivalent", "without end", "wrong bits")]
    outcomes = try_all(cast, mutants, tmp_path, find_build_tools())
    assert [outcomes[m.id].verdict for m in mutants] == ["survived", "killed", "killed"]


def test_mutants_in_other_branches_are_not_tried(cast: object) -> None:
    """A place that a case does not elaborate proves nothing there."""
    assert not Reach([cast]).trials(made(CAST, "&& (fraction != '0);", "|| (fraction != '0);"))


def test_mutants_of_a_guard() -> None:
    """Neither too lax nor too strict, at the smallest legal value and just below it."""
    path = LIBRARY / "lib/elementwise_check.sv"
    old = "IN_LANES_0 < 1 "
    verdicts = {
        new: judge_guard(made(path, old, new, guard=True), trials())
        for new in (f"({old})", old.replace("1", "0"), old.replace("1", "2"), old.replace("<", "<="))
    }
    assert [v.verdict for v in verdicts.values()] == ["survived", "killed", "killed", "killed"]
    assert [v.by.split()[0] for v in verdicts.values() if v.by] == ["takes", "refuses", "refuses"]


# What is changed in a module by itself, the trial that decides, and what becomes of it.
ALONE = {
    "equivalent": ("!out_valid || out_ready;", "out_ready || !out_valid;", "proof-register_slice", "survived", ""),
    "no reset": (
        "if (rst) begin",
        "if (rst && in_valid) begin",
        "proof-register_slice",
        "killed",
        "register_slice, step",
    ),
    "no design": ("out_valid <= 1'b0;", "out_valid <= 2'b0;", "lint", "refused", "%Warning-WIDTH"),
}


@pytest.mark.parametrize("name", ALONE)
def test_mutants_that_no_case_kills(name: str, tmp_path: Path) -> None:
    """The proof of their module decides, and Verilator whether they are a design."""
    old, new, trial, verdict, by = ALONE[name]
    mutant = made(SLICE, old, new)
    assert list(other_trials(mutant)) == ["checks", "proof-register_slice"]
    *before, found = judge_otherwise(mutant, tmp_path / mutant.id).items()
    assert before == ([] if trial == "lint" else [("checks", Outcome("survived", ""))])
    assert found[0] == trial and found[1].verdict == verdict and found[1].by.startswith(by), found


def test_checks_judge_what_they_read(tmp_path: Path) -> None:
    """A constant of no lanes that is no longer replaced, so that the check beside it takes no lanes."""
    path = LIBRARY / "ops/fixed_max_pool2d.sv"
    old = "(DATA_IN_0_PARALLELISM_DIM_1 > 0) ? DATA_IN_0_PARALLELISM_DIM_1 : 1"
    for new, verdict in ((f"({old})", "survived"), (f"{old[:-1]}0", "killed")):
        found = judge_otherwise(made(path, old, new), tmp_path / verdict)["checks"]
        assert (found.verdict, found.by[:19]) == (verdict, "g_bad_columns takes" * (verdict == "killed"))


def test_every_other_trial_has_its_place() -> None:
    """Also those of modules within another one, and of those that are simulated in a design."""
    mutants = [
        made(LIBRARY / f"lib/{name}.sv", "\nendmodule", "\n\nendmodule")
        for name in ("set_repeat", "ram_load", "external_image")
    ]
    names = [name for mutant in mutants for name in other_trials(mutant)]
    assert {"proof-rom_source", "parameters-two_banks_in_blocks", "parameters-outside"} < set(names) <= set(order())


@pytest.mark.slow
def test_mutants_in_a_design_that_is_loaded(tmp_path: Path) -> None:
    """Frames are compared while its parameters change; its folder is as before afterwards."""
    chunks = "c < CHUNKS; c++) begin : g_write"
    for name, (old, new) in {
        "survived": (chunks, chunks.replace("c < CHUNKS", "CHUNKS > c")),
        "killed": ("load_done <= place == last;", "load_done <= place != last;"),
        "refused": ("word_q[c] <= ", "word_q[c] <= no_such_name && "),
    }.items():
        outcome = by_design("one bank", made(LIBRARY / "lib/ram_load.sv", old, new), tmp_path / "scratch" / name)
        assert outcome.verdict == name, outcome


MAGNITUDE = "tests/unit/test_numerics.py::test_magnitude"
GOLDEN = {
    "equivalent": ("abs(fmt.min_mantissa), fmt.max_mantissa", "fmt.max_mantissa, abs(fmt.min_mantissa)", "survived"),
    "wrong": ("max(abs(fmt.min_mantissa), fmt.max_mantissa)", "max(abs(fmt.min_mantissa) - 1, 0)", "killed"),
    "raises": ("max(abs(fmt.min_mantissa), fmt.max_mantissa)", "fmt.unknown", "killed"),
}


def test_mutants_of_a_golden(tmp_path: Path) -> None:
    """In copies of one process, by one test; what is decided is not decided again."""
    mutants = {name: made(PACKAGE / "numerics" / "__init__.py", old, new) for name, (old, new, _) in GOLDEN.items()}
    said: list[str] = []
    for expected in ("3 of 3", "0 of 3"):
        outcomes = golden_campaign.run(list(mutants.values()), tmp_path, 1, said.append, tests=[MAGNITUDE])
        assert {name: outcomes[m.id].verdict for name, m in mutants.items()} == {
            n: v for n, (_, _, v) in GOLDEN.items()
        }
        assert said[-1].startswith(expected)
    assert outcomes[mutants["wrong"].id].by.startswith(f"tests: {MAGNITUDE}[")


def test_an_interrupted_campaign_goes_on(tmp_path: Path) -> None:
    """Also when the last line is half a line; not when anything changed that decides."""
    path = tmp_path / "some" / "ledger.jsonl"
    Ledger(path, "key").add("first", {"a": Outcome("survived", ""), "b": Outcome("killed", "bits")})
    with path.open("a") as file:
        file.write('["a", "second", "kil')
    again = Ledger(path, "key")
    assert again.tried("a", "first") and not again.tried("a", "second")
    assert again.final(["first", "second"])["b"] == Outcome("killed", "first: bits")
    assert not Ledger(path, "other key", read=True).tried("a", "first") and Ledger(path, "key").tried("a", "first")
    assert not Ledger(path, "other key").tried("a", "first")
    assert json.loads(path.read_text().splitlines()[0]) == {"key": "other key"}


def test_the_first_trial_that_kills_is_named(tmp_path: Path) -> None:
    """Whatever the order in which several processes came to it."""
    ledger = Ledger(tmp_path / "ledger.jsonl", "key")
    ledger.add("late", {"a": Outcome("killed", "x")})
    ledger.add("early", {"a": Outcome("killed", "y")})
    ledger.add("first", {"a": Outcome("survived", "")})
    assert ledger.final(["first", "early", "late"])["a"] == Outcome("killed", "early: y")
