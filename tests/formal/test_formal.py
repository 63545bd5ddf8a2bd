"""Proofs of library modules, without bound on time; every property is shown to be able to fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mase_hw.hardware.library import source
from tests.rtl import LIBRARY

from .mutants import MUTANTS, OFTEN
from .proofs import OFTEN as PROVEN_OFTEN
from .proofs import PROOFS, WIDE
from .runner import FOLDERS, HARNESSES, LOWER, READ, SOURCES, Harness, Proof, base, failure, labels, run_yosys, step

ProofFile = Callable[[Proof], Path]
SEARCHED = 12
"""Cycles in which a counterexample is looked for when an induction fails."""


def check(smt2: Path, proof: Proof) -> None:
    """Prove it.

    Raises:
        AssertionError: With smtbmc's log, and where the waves are.
    """
    if (found := failure(smt2, proof)) is None:
        return
    part, verdict = found
    otherwise = {"base": "the base fails", "step": "the step fails", "cover": "a cover statement is not reached"}[part]
    if part == "step" and proof.k:
        # Whether it is a fault of the module or a missing invariant is the first that anybody wants to know.
        if (search := base(smt2, SEARCHED)).passed:
            otherwise += f", power-up leads to nothing in {SEARCHED} cycles"
        else:
            otherwise, verdict = "power-up leads to a failure", search
    raise AssertionError(f"{proof.id}: {otherwise}; waves in {smt2.with_suffix('.vcd')}\n{verdict.log}")


@pytest.mark.parametrize(
    "proof", [pytest.param(p, marks=[pytest.mark.slow] * (p.id not in PROVEN_OFTEN), id=p.id) for p in PROOFS]
)
def test_proof(proof: Proof, proof_file: ProofFile) -> None:
    """Base, step, and what must be reachable lest the assumptions exclude it."""
    check(proof_file(proof), proof)


@pytest.mark.slow
@pytest.mark.parametrize("proof", WIDE, ids=lambda p: p.id)
def test_wide_proof(proof: Proof, proof_file: ProofFile) -> None:
    """The same at many more sizes."""
    check(proof_file(proof), proof)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in OFTEN)) for n in MUTANTS])
def test_mutant(name: str, mutant_file: Callable[[str], Path]) -> None:
    """A fault that violates the property has a counterexample from the initial state, not only a step that fails."""
    mutant, smt2 = MUTANTS[name], mutant_file(name)
    assert {label.split(".")[-1] for label in labels(smt2)} == {mutant.property}
    verdict = base(smt2, mutant.cycles)
    assert not verdict.passed, verdict.log
    assert {label.split(".")[-1] for label in verdict.failed} == {mutant.property}, verdict.log


def test_every_fault_is_one_of_the_modules_as_they_are() -> None:
    """Also those that only `make test-long` puts into them."""
    for name, mutant in MUTANTS.items():
        (path,) = (path for folder in FOLDERS if (path := LIBRARY / folder / f"{mutant.file}.sv").is_file())
        assert path.read_text(encoding="utf-8").count(mutant.old) == 1, name


def written(pattern: str, *names: str) -> set[str]:
    """Labels of that kind in files of the harnesses."""
    return {label for name in names for label in re.findall(pattern, source(SOURCES / f"{name}.sv"))}


@pytest.mark.slow
@pytest.mark.parametrize("harness", dict.fromkeys(p.harness for p in PROOFS), ids=lambda h: h.module)
def test_every_property_is_proven_and_can_fail(harness: Harness, proof_file: ProofFile) -> None:
    """What a harness asserts arrives in the solver, and every property has a mutant."""
    proofs = [p for p in PROOFS if p.harness == harness]
    files = (proofs[0].harness.top, *proofs[0].harness.parts)
    stated = written(r"\b((?:p|inv)_\w+)\s*:", *files)
    compiled = {label.split(".")[-1] for proof in proofs for label in labels(proof_file(proof))}
    assert compiled == stated
    broken = {mutant.property for mutant in MUTANTS.values() if mutant.proof.harness == harness}
    assert broken == {label for label in stated if label.startswith("p_")}


@pytest.mark.slow
@pytest.mark.parametrize("harness", dict.fromkeys(p.harness for p in PROOFS), ids=lambda h: h.module)
def test_every_assumption_is_reached(harness: Harness, proof_file: ProofFile) -> None:
    """A harness that assumes something covers something under it, and is asked to."""
    for proof in (p for p in PROOFS if p.harness == harness):
        smt2 = proof_file(proof)
        if labels(smt2, "assume"):
            assert labels(smt2, "cover") and proof.cover, proof.id


def test_registers_are_not_merged(tmp_path: Path) -> None:
    """Two that are equal from the second cycle on differ in the first."""
    registers = "logic a, b; always_ff @(posedge clk) a <= d; always_ff @(posedge clk) b <= d;"
    text = f"module twins(input logic clk, d); {registers} always_comb p: assert (a == b); endmodule\n"
    (tmp_path / "twins.sv").write_text(text, encoding="utf-8")
    run_yosys([f"{READ} --top twins twins.sv", LOWER, "write_smt2 twins.smt2"], tmp_path)
    assert base(tmp_path / "twins.smt2", 1).failed == ("p",)
    assert step(tmp_path / "twins.smt2", 1).passed


def test_harnesses_are_all_used() -> None:
    used = {name for p in PROOFS for name in (p.harness.top, *p.harness.parts)}
    assert used == {Path(file).stem for file in HARNESSES}


def test_the_page_says_what_is_proven(root: Path) -> None:
    """Every harness, property and invariant is explained in the documentation, and nothing else is."""
    text = (root / "docs" / "formal.md").read_text(encoding="utf-8")
    names = [Path(file).stem for file in HARNESSES]
    stated = written(r"\b((?:p|inv)_\w+)\s*:", *names)
    assert set(re.findall(r"`((?:p|inv)_\w+)`", text)) == stated
    rows = re.findall(r"^\| (`.+`) \|.*\| (\d+)(?: to (\d+))? \|$", text, re.MULTILINE)
    depths = {name: (int(k), int(top or k)) for names, k, top in rows for name in re.findall(r"`(\w+)`", names)}
    for harness in {p.harness for p in PROOFS}:
        used = [p.k for p in PROOFS if p.harness == harness]
        assert depths[harness.module] == (min(used), max(used))
