"""All mutants of the goldens on the tests that prove them: against fractions and integers of Python, no simulator."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from mase_hw.host.resources import PACKAGE

from .golden_edits import edits
from .golden_reach import NUMBERS, decide_bits
from .ledger import Ledger, Outcome, digest
from .mutant import Mutant, named

ROOT = PACKAGE.parent
TESTS = (
    "tests/unit",
    "tests/importers/test_tflite_states.py::test_an_lstm",
    "tests/e2e/test_decode_sample.py::test_the_generator_is_marsaglias",
    "tests/e2e/test_decode_sample.py::test_weights_are_probabilities",
)
"""Where the goldens are proven: of an op whose oracle stands elsewhere, the tests that are it."""
WHOLE = ("numerics/__init__.py", "formats/fixed.py", "formats/multipliers.py", "formats/scaled.py")
"""Files of which every function counts; of the others, those that a golden calls."""


@functools.cache
def _decisive() -> frozenset[tuple[str, str]]:
    return frozenset(decide_bits())


_OF_NUMBERS = "numerics exact_linear formats golden requantize scaled_formats scaled_lite softmax conv_golden"
ORACLES = {f"mase_hw/{file}": tuple(f"test_{name}" for name in _OF_NUMBERS.split()) for file in NUMBERS}
"""By file, how the names of the tests begin that must notice: everything calls these, and most of it for other ends."""


def mutants_of(path: Path) -> list[Mutant]:
    """Every mutant of a file: of the functions that decide about bits."""
    import ast

    from .golden_edits import functions

    file, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    names = {name for where, name in _decisive() if where == file}
    if file.removeprefix("mase_hw/") in WHOLE:
        names = set(functions(ast.parse(text)))
    return named(file, text, edits(text, names))


def key_of_everything(tests: Sequence[str] = TESTS) -> str:
    """A hash of what decides about goldens: the package, the tests and this runner."""
    paths = [test.split("::")[0] for test in tests]
    globs = ("mase_hw/**/*.py", *(f"{path}/**/*.py" if (ROOT / path).is_dir() else path for path in paths))
    files = [path for glob in (*globs, "tests/mutation/golden_*.py") for path in sorted(ROOT.glob(glob))]
    return digest(files)


def run(
    mutants: Sequence[Mutant],
    folder: Path,
    jobs: int,
    say: Callable[[str], None],
    tests: Sequence[str] = TESTS,
) -> dict[str, Outcome]:
    """Decide about mutants.

    Args:
        mutants: Of any golden files.
        folder: Where decisions are kept, and what each test calls.
        jobs: Processes; each collects the tests.
        say: Told what is done.
        tests: Files and folders of tests.

    Raises:
        RuntimeError: If the tests fail on the original.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = key_of_everything(tests)
    coverage = folder / f"coverage-{key[:16]}.jsonl"
    ledger_path = folder / "golden.jsonl"
    known = Ledger(ledger_path, key)
    missing = [m for m in mutants if not known.tried(m.id, "tests")]
    say(f"{len(missing)} of {len(mutants)} mutants of goldens are to be judged")
    if missing:
        common = {"key": key, "coverage": str(coverage), "ledger": str(ledger_path), "oracles": ORACLES}
        if jobs > 1 and not coverage.is_file():
            # Which test calls what is found out once.
            _judge([common | {"mutants": []}], folder, tests)
        shares = [[asdict(m) for m in missing[i::jobs]] for i in range(jobs)]
        _judge([common | {"mutants": share} for share in shares if share], folder, tests)
    final = Ledger(ledger_path, key).final(["tests"])
    return {m.id: final[m.id] for m in mutants}


def _judge(requests: Sequence[dict[str, object]], folder: Path, tests: Sequence[str]) -> None:
    """Have every request done by a pytest of its own, all at the same time."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:xdist", "-p", "tests.mutation.golden_plugin"]
    children = []
    for number, request in enumerate(requests):
        path = folder / f"request-{number}.json"
        path.write_text(json.dumps(request), encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        children.append(subprocess.Popen([*command, "--mutants", str(path), *tests], cwd=ROOT, env=environment))
    if any([child.wait() for child in children]):
        raise RuntimeError("the tests of the goldens could not be run on mutants")
