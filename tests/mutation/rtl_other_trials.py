"""What judges a mutant that no case kills: parameter checks, proofs, and designs whose parameters are loaded."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from mase_hw import Design
from mase_hw.compiler.weights import Weights
from mase_hw.hardware.library import with_dependences
from mase_hw.simulate.build.tools import BuildTools, find_build_tools
from tests.catalogue.test_lint import verilate
from tests.formal.proofs import PROOFS
from tests.formal.runner import Harness, compile_changed, failure
from tests.handoff.conftest import of_tiny
from tests.parameters.designs import build_bench
from tests.parameters.test_swaps import WAYS, changed, pair, wide
from tests.rtl import LIBRARY

from .ledger import Outcome
from .mutant import Mutant
from .rtl_guards import judge_checks
from .rtl_run import complaint_of, mutated, source_of

LINT = "lint"
"""The trial of a module by itself, which only refuses."""
OUTSIDE = {"parameters": "external", "external_bytes": 8}
CHECKS = "checks"
"""The trial of the parameter checks of a module, which may read what a mutant changed."""
DESIGNS: dict[str, Callable[[Path], tuple[Design, list[Weights]]]] = {
    "wide beats": wide,
    **{name: functools.partial(pair, way) for name, way in WAYS.items()},
    "outside": functools.partial(pair, OUTSIDE),
}
WIDE = ("ram_source", "ram_load")
FETCHING = ("external_source", "external_reader", "external_image", "frame_gate")
LOADING = ("ram_source", "ram_load", "frame_gate", "parameter_load")
"""Modules that stand around an op, and are part of no case of the catalogue."""
LONG_PROOFS = ("external_image",)
"""Modules whose designs are simulated first, as Z3 needs longer for a CRC that is another one."""
Judge = Callable[[Mutant, Path], Outcome]


def other_trials(mutant: Mutant) -> dict[str, Judge]:
    """By name: its checks, the proofs of the module, or else those that have it within; and designs that have such."""
    module = source_of(mutant).stem
    harnesses = list(dict.fromkeys(proof.harness for proof in PROOFS))
    own = [h for h in harnesses if h.module == module] or [h for h in harnesses if module in h.needs]
    fits = {"wide beats": module in WIDE, **dict.fromkeys(WAYS, module in LOADING), "outside": module in FETCHING}
    proofs: dict[str, Judge] = {f"proof-{h.module}": functools.partial(by_proofs, h) for h in own}
    designs = {called(name): functools.partial(by_design, name) for name in DESIGNS if fits[name]}
    checks: dict[str, Judge] = {CHECKS: lambda mutant, _: judge_checks(mutant)}
    return checks | (designs | proofs if module in LONG_PROOFS else proofs | designs)


def order() -> list[str]:
    """Every name of a trial."""
    proofs = dict.fromkeys(f"proof-{proof.harness.module}" for proof in PROOFS)
    return [LINT, CHECKS, *proofs, *map(called, DESIGNS)]


def called(name: str) -> str:
    """The trial of a design."""
    return f"parameters-{name.replace(' ', '_')}"


def judge_otherwise(mutant: Mutant, folder: Path) -> dict[str, Outcome]:
    """Judge a mutant until one trial decides, in a folder that is made for it.

    Returns:
        By trial, as far as it came.
    """
    outcomes: dict[str, Outcome] = {}
    try:
        if complaint := refused_alone(mutant, folder / LINT, find_build_tools()):
            return {LINT: Outcome("refused", complaint)}
        for name, judge in other_trials(mutant).items():
            outcomes[name] = judge(mutant, folder / name)
            if outcomes[name].verdict != "survived":
                break
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return outcomes


def refused_alone(mutant: Mutant, folder: Path, tools: BuildTools) -> str:
    """What Verilator says against the module with all its warnings, at its default parameters."""
    folder.mkdir(parents=True, exist_ok=True)
    source = source_of(mutant)
    faulty = folder / source.name
    faulty.write_text(mutated(mutant)[source], encoding="utf-8")
    files = [LIBRARY / file for file in with_dependences([source.relative_to(LIBRARY).as_posix()])]
    given = [faulty if file == source else file for file in files]
    code, output = verilate(tools, LIBRARY, source.stem, given, {})
    complaint = complaint_of(code, output, folder)
    return complaint if complaint and verilate(tools, LIBRARY, source.stem, files, {}) != (code, output) else ""


def by_proofs(harness: Harness, mutant: Mutant, folder: Path) -> Outcome:
    """A proof that fails kills; one that Yosys cannot read refuses; one without an end decides nothing."""
    proofs = [proof for proof in PROOFS if proof.harness == harness]
    path = source_of(mutant)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        compile_changed(proofs, path.stem, mutated(mutant)[path], folder)
    except AssertionError as problem:
        errors = [line for line in str(problem).splitlines() if "error:" in line.lower()]
        return Outcome("refused", (errors or str(problem).splitlines() or ["Yosys ends"])[0][:160])
    for proof in proofs:
        try:
            found = failure(folder / f"{proof.id}.smt2", proof)
        except subprocess.TimeoutExpired:
            continue
        if found:
            part, verdict = found
            return Outcome("killed", f"{proof.id}, {part}: {', '.join(verdict.failed)}"[:160])
    return Outcome("survived", "")


@functools.cache
def _design(name: str, folder: Path) -> tuple[Design, list[Weights]]:
    """Of this process alone, as it is changed."""
    return DESIGNS[name](Path(tempfile.mkdtemp(dir=folder)) / "bundle")


def by_design(name: str, mutant: Mutant, folder: Path) -> Outcome:
    """A design whose parameters change while frames go through it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    design, sets = _design(name, folder.parents[1])
    path = source_of(mutant)
    (place,) = (design.path / file for file in design.manifest["rtl"] if Path(file).name == path.name)
    original = path.read_text(encoding="utf-8")
    assert place.read_text(encoding="utf-8") == original, place
    place.write_text(mutant.apply(original), encoding="utf-8")
    try:
        try:
            bench = build_bench(design, sets, folder, of_tiny())
        except AssertionError as problem:
            lines = [line for line in str(problem).splitlines() if line.startswith("%")]
            return Outcome("refused", (lines or ["the model cannot be built"])[0][:160])
        try:
            changed(bench, design)
        except AssertionError as problem:
            return Outcome("killed", (str(problem).splitlines() or ["assertion"])[0][:160])
    finally:
        place.write_text(original, encoding="utf-8")
    return Outcome("survived", "")
