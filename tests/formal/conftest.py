"""Compiled proofs, shared by all processes of a session: Yosys is started once for all proofs of a harness."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

from .mutants import MUTANTS
from .proofs import PROOFS, WIDE
from .runner import Proof, compile_mutants, compile_proofs


def _once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Let the first process that comes fill the folder; another one waits for it."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "done"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            make(folder)
            done.touch()
    return folder


@pytest.fixture(scope="session")
def proof_file(shared: Path) -> Callable[[Proof], Path]:
    """The SMT-LIB file of a proof."""

    def find(proof: Proof) -> Path:
        batch = [p for p in (PROOFS if proof in PROOFS else WIDE) if p.harness == proof.harness]
        # Formats are generated in one harness by the hundred: reading one takes longer than the start of Yosys.
        batch, name = ([proof], proof.id) if proof.k == 0 else (batch, proof.harness.module)
        kind = "proofs" if proof in PROOFS else "wide"
        folder = _once(shared / "formal" / kind / name, lambda folder: compile_proofs(batch, folder))
        return folder / f"{proof.id}.smt2"

    return find


@pytest.fixture(scope="session")
def mutant_file(shared: Path) -> Callable[[str], Path]:
    """The SMT-LIB file of a mutant."""

    def find(name: str) -> Path:
        harness = MUTANTS[name].proof.harness
        batch = {key: mutant for key, mutant in MUTANTS.items() if mutant.proof.harness == harness}
        folder = _once(shared / "formal" / "mutants" / harness.module, lambda folder: compile_mutants(batch, folder))
        return folder / f"{name}.smt2"

    return find
