"""Hooks and workflow run what a developer runs: the same targets of make, on every promised version of Python."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from scripts import versions


def targets(root: Path) -> set[str]:
    """The targets of make that ``make help`` lists."""
    return set(re.findall(r"^([\w-]+):.*## ", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def document(root: Path, name: str) -> Any:
    """A YAML file."""
    return yaml.safe_load((root / name).read_text(encoding="utf-8"))


def made(commands: list[str]) -> list[str]:
    """The targets that commands call."""
    return [target for command in commands for target in re.findall(r"^make ([\w-]+)$", command)]


def hooks(root: Path) -> list[dict[str, Any]]:
    """Every hook of pre-commit."""
    return [hook for repo in document(root, ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]


def steps(root: Path) -> list[dict[str, Any]]:
    """Every step of every job of the workflow."""
    return [s for job in document(root, ".github/workflows/checks.yml")["jobs"].values() for s in job["steps"]]


def test_hooks_and_workflow_call_the_same_targets(root: Path) -> None:
    assert made([hook["entry"] for hook in hooks(root)]) == ["lint", "test"]
    called = made([step.get("run", "") for step in steps(root)])
    assert called == ["lint", "test", "test-ci"] and set(called) <= targets(root)


def test_hooks_are_local_and_look_at_everything(root: Path) -> None:
    """A hook of another repository would have versions of its own, one that gets file names another scope."""
    assert all(repo["repo"] == "local" for repo in document(root, ".pre-commit-config.yaml")["repos"])
    for hook in hooks(root):
        assert hook["language"] == "system" and hook["pass_filenames"] is False and hook["always_run"] is True


def test_nothing_else_is_checked_in_the_workflow(root: Path) -> None:
    others = [s["run"] for s in steps(root) if "run" in s and not made([s["run"]])]
    packages, bounds = others
    assert "apt-get install" in packages and bounds.startswith("make versions ") and "matrix.python" in bounds


def test_ci_runs_a_target_of_make(root: Path) -> None:
    assert made((root / ".ci" / "run").read_text(encoding="utf-8").replace("exec ", "").splitlines()) == [
        "test",
        "test-ci",
    ]


def test_versions_of_python_are_the_promised_ones(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = [m[1] for c in project["classifiers"] if (m := re.fullmatch(r".*:: Python :: (3\.\d+)", c))]
    (job,) = document(root, ".github/workflows/checks.yml")["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == promised == list(versions.PYTHONS)
    assert project["requires-python"] == f">={promised[0]}"


def test_every_dependency_has_a_lower_bound() -> None:
    """``lowest`` refuses one without."""
    low = versions.requirements("lowest")
    assert "torch>=2.13,==2.13.*" in low and any(one.startswith("pytest>=") for one in low)
    assert len(low) == len(versions.requirements("newest"))


def test_the_tests_of_the_versions_exist(root: Path) -> None:
    assert all((root / file).is_file() for file in versions.TESTS)


def test_trials_cover_both_bounds() -> None:
    names = [trial.name for trial in versions.TRIALS]
    assert names == ["py3.11-lowest", "py3.11-newest", "py3.12-newest", "py3.13-newest"]


def test_a_missing_interpreter_is_not_success(capsys: Any, tmp_path: Path) -> None:
    assert versions.interpreter("2.2") is None
    assert versions.main(["--only", "py2.2", "--out", str(tmp_path)]) == 1
    assert "nothing was tried" in capsys.readouterr().err
