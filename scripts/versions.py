"""Try the bounds of the dependencies: ``python -m scripts.versions``, which ``make versions`` calls.

For the lowest Python the lowest versions that ``pyproject.toml`` allows are installed, and for every Python the newest.
Each combination gets an environment of its own below ``build/versions`` and runs a part of the tests in it: numbers,
passes, checkpoints, emission, and a simulation. Interpreters that this machine lacks are named and left out. Where the
newest torch would bring CUDA with it, ``--pip torch==VERSION`` asks for a build for CPUs.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
TESTING = ("pytest", "hypothesis", "fixedpoint")
"""Packages of the extra ``dev`` that the chosen tests need."""
TESTS = (
    "tests/unit/test_formats.py",
    "tests/unit/test_numerics.py",
    "tests/unit/test_numerics_fixedpoint.py",
    "tests/unit/test_streams.py",
    "tests/ir/test_graph.py",
    "tests/ir/test_tracer.py",
    "tests/ir/test_checkpoint.py",
    "tests/passes/test_base.py",
    "tests/passes/test_calibrate.py",
    "tests/passes/test_quantize.py",
    "tests/emit/test_netlist.py",
    "tests/emit/test_bundle.py",
    "tests/sim/test_engine.py",
)


@dataclass(frozen=True)
class Trial:
    """One combination.

    Args:
        python: Version of Python, such as ``3.11``.
        bounds: ``lowest`` or ``newest``.
    """

    python: str
    bounds: str

    @property
    def name(self) -> str:
        """What its environment is called."""
        return f"py{self.python}-{self.bounds}"


TRIALS = (Trial(PYTHONS[0], "lowest"), *(Trial(python, "newest") for python in PYTHONS))


def requirements(bounds: str) -> list[str]:
    """What pip is asked for: the dependencies and the packages of the tests.

    Args:
        bounds: ``lowest`` for exactly the lower bounds, ``newest`` for the ranges as they stand.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = list(project["dependencies"])
    asked += [one for one in project["optional-dependencies"]["dev"] if re.match(r"[\w-]+", one)[0] in TESTING]  # type: ignore[index]
    return [lowest(one) for one in asked] if bounds == "lowest" else asked


def lowest(requirement: str) -> str:
    """``name>=1.2,<2`` as ``name~=1.2.0``: the lower bound, with whatever patch of it there is.

    Raises:
        ValueError: If there is no lower bound, so that nobody knows with what the code works.
    """
    bound = re.match(r"(?P<name>[A-Za-z0-9_.\-\[\]]+)\s*>=\s*(?P<version>[\d.]+)", requirement)
    if bound is None:
        raise ValueError(f"{requirement!r} has no lower bound")
    parts = [*bound["version"].split("."), "0", "0"][:3]
    return f"{bound['name']}>={bound['version']},=={'.'.join(parts[:2])}.*"


def interpreter(version: str) -> str | None:
    """A Python of that version: from PATH, or from pyenv; None if this machine has none."""
    candidates = [found] if (found := shutil.which(f"python{version}")) else []
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False).stdout.strip()
        candidates += [str(p) for p in sorted(Path(root, "versions").glob(f"{version}.*/bin/python"))] if root else []
    for candidate in candidates:
        asked = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == version:
            return candidate
    return None


def steps(trial: Trial, python: str, folder: Path, flags: list[str]) -> Iterator[list[str]]:
    """The commands of a trial: environment, packages, tests."""
    inside = str(folder / "bin" / "python")
    if not Path(inside).exists():
        yield [python, "-m", "venv", str(folder)]
    yield [
        inside,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *flags,
        *requirements(trial.bounds),
    ]
    yield [inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]


def run(trial: Trial, out: Path, flags: list[str]) -> str:
    """Try one combination; says what came of it."""
    python = interpreter(trial.python)
    if python is None:
        return "no such Python here"
    folder = out / trial.name
    log = out / f"{trial.name}.log"
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PIP_CONSTRAINT", "VIRTUAL_ENV")}
    with log.open("w", encoding="utf-8") as file:
        for command in steps(trial, python, folder, flags):
            file.write(f"$ {' '.join(command)}\n")
            file.flush()
            done = subprocess.run(command, cwd=ROOT, env=env, stdout=file, stderr=subprocess.STDOUT, check=False)
            if done.returncode:
                return f"failed: {command[2]} ({log})"
    return "passed"


def main(arguments: list[str]) -> int:
    """Run the trials; the exit code is 0 if at least one ran and all that ran passed."""
    parser = argparse.ArgumentParser(prog="python -m scripts.versions", description=(__doc__ or "").split("\n\n")[1])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "versions", help="environments and logs")
    parser.add_argument(
        "--only", default="", metavar="WORD", help="only trials with this in their name (py3.12, lowest)"
    )
    parser.add_argument("--pip", default="", metavar="FLAGS", help="more options for pip install")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    found = {}
    for trial in TRIALS:
        if given.only in trial.name:
            print(f"==> {trial.name}", flush=True)
            found[trial.name] = run(trial, given.out.resolve(), given.pip.split())
            print(f"    {found[trial.name]}", flush=True)
    ran = [result for result in found.values() if not result.startswith("no such")]
    if not ran:
        print("nothing was tried: no trial of that name, or none of these interpreters is here", file=sys.stderr)
    return 0 if ran and all(result == "passed" for result in ran) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
