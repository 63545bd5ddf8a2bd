"""Compiled proofs, shared by all processes of a session: Yosys is started once for all proofs of a harness."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mase_hw.host.locks import locked

from .mutants import MUTANTS, OFTEN
from .proofs import OFTEN as PROVEN_OFTEN
from .proofs import PROOFS, WIDE
from .runner import Mutant, Proof, compile_all


def _once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Let the first process that comes fill the folder; another one waits for it."""
    done = folder / "done"
    with locked(folder / "lock", "what is compiled"):
        if not done.exists():
            make(folder)
            done.touch()
    return folder


def _batch(proof: Proof, name: str = "") -> tuple[str, list[Proof], dict[str, Mutant]]:
    """What is compiled together with a proof, or with the mutant of that name, and what that is called.

    All of a harness that the same run wants. Formats are generated in one harness by the hundred, and reading one takes
    longer than the start of Yosys: such a proof is compiled by itself, and the mutants of such a harness are.
    """
    often = name in OFTEN if name else proof.id in PROVEN_OFTEN
    table = [p for p in (*PROOFS, *WIDE) if (p.id in PROVEN_OFTEN) == often] if proof.k else []
    proofs = [p for p in table if p.harness == proof.harness]
    mutants = {n: m for n, m in MUTANTS.items() if m.proof.harness == proof.harness and (n in OFTEN) == often}
    return f"{proof.harness.module}-{'often' if often else 'long'}", proofs, mutants


@pytest.fixture(scope="session")
def proof_file(shared: Path) -> Callable[[Proof], Path]:
    """The SMT-LIB file of a proof."""

    def find(proof: Proof) -> Path:
        name, proofs, mutants = _batch(proof) if proof.k else (proof.id, [proof], {})
        folder = _once(shared / "formal" / name, lambda folder: compile_all(proofs, mutants, folder))
        return folder / f"{proof.id}.smt2"

    return find


@pytest.fixture(scope="session")
def mutant_file(shared: Path) -> Callable[[str], Path]:
    """The SMT-LIB file of a mutant."""

    def find(name: str) -> Path:
        batch, proofs, mutants = _batch(MUTANTS[name].proof, name)
        folder = _once(shared / "formal" / batch, lambda folder: compile_all(proofs, mutants, folder))
        return folder / f"{name}.smt2"

    return find
