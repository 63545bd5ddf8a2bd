"""``new`` writes what runs, ``draw`` draws what is mapped, and the fixture for tests of users can fail."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import nn

import mase_hw
from mase_hw import cli
from mase_hw.cli.main import COMMANDS
from mase_hw.design.design import Design
from mase_hw.testing import assert_bit_exact

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = {"toy.py", "toy.toml", "test_toy.py", "Makefile"}


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["new", "toy"]) == cli.OK
    assert {path.name for path in tmp_path.iterdir()} == FILES
    yield tmp_path


def test_the_model_is_taken(toy: Path) -> None:
    assert cli.main(["check", "toy.py:build", "--config", "toy.toml"]) == cli.OK


def test_the_test_passes_and_can_fail(toy: Path) -> None:
    """As it is written, and without a simulation; in one process, which loads torch once."""
    test = (toy / "test_toy.py").read_text()
    without = test.replace("calibration=calibration)", "calibration=calibration, stalls=())")
    assert without != test
    (toy / "test_without.py").write_text(without)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "test_toy.py", "test_without.py"],
        cwd=toy,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    told = re.findall(r"^(test_\w+\.py)::\w+ (\w+)", done.stdout, re.MULTILINE)
    assert told == [("test_toy.py", "PASSED"), ("test_without.py", "FAILED")], done.stdout + done.stderr
    assert done.returncode == 1 and "nothing was simulated" in done.stdout


def test_the_makefile_names_commands_and_files_that_exist(toy: Path) -> None:
    text = (toy / "Makefile").read_text()
    assert set(re.findall(r"mase-hw (\w+)", text)) <= set(COMMANDS)
    assert set(re.findall(r"\b[\w/]+\.(?:py|toml)\b", text)) <= FILES


@pytest.mark.parametrize("name", ["1st", "a-b", "class", "", "naïve"])
def test_names_that_no_module_has(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["new", name]) == cli.UNUSABLE
    assert "none of a Python module" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_what_is_there_stays(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "toy.py").write_text("mine")
    assert cli.main(["new", "toy"]) == cli.UNUSABLE
    assert "exist" in capsys.readouterr().err and (toy / "toy.py").read_text() == "mine"
    assert cli.main(["new", "other"]) == cli.UNUSABLE, "there is a Makefile"
    assert {path.name for path in toy.iterdir()} == FILES


def test_either_a_model_or_the_examples(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ((), ("other", "--example")):
        assert cli.main(["new", *words]) == cli.UNUSABLE
        assert "either a name or --example" in capsys.readouterr().err
    assert cli.main(["new", "--example"]) == cli.OK
    assert (toy / "examples" / "digits_mlp.py").read_text() == (ROOT / "examples" / "digits_mlp.py").read_text()
    assert cli.main(["new", "--example"]) == cli.UNUSABLE


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert cli.main(["new", "toy", "--out", str(tmp_path / "file")]) == cli.UNUSABLE


def test_draw(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["draw", "toy.py:build", "--out", "mapped.svg", "--config", "toy.toml"]) == cli.OK
    mapped = (toy / "mapped.svg").read_text(encoding="utf-8")
    assert "lanes" in mapped and "s8." in mapped and 'id="node-hidden"' in mapped
    assert cli.main(["draw", "toy.py:build", "--out", "traced.svg", "--traced"]) == cli.OK
    traced = (toy / "traced.svg").read_text(encoding="utf-8")
    assert "lanes" not in traced and "float32" in traced
    assert cli.main(["draw", "toy.py:build", "--out", "picture.png"]) == cli.UNUSABLE
    assert "ends in .svg" in capsys.readouterr().err


def test_noise(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["noise", "toy.py:build", "--config", "toy.toml", "--json"]) == cli.OK
    found = json.loads(capsys.readouterr().out)
    sys.path.insert(0, str(toy))
    try:
        model, example, data = importlib.import_module("toy").build()
    finally:
        sys.path.remove(str(toy))
        sys.modules.pop("toy", None)
    design = mase_hw.compile(model, example, "toy.toml", out=toy / "made", calibration=data)
    assert design.quantisation is not None
    wanted = design.quantisation.to_dict()
    assert found["outputs"] == list(wanted["outputs"])
    assert [n["node"] for n in found["nodes"]] == ["hidden", "relu", "scores"]
    assert [n["snr"] for n in found["nodes"]] == [n.snr for n in design.quantisation.nodes]
    assert cli.main(["noise", "toy.py:build"]) == cli.OK
    assert "signal-to-noise ratio at the output" in capsys.readouterr().out


def test_a_wrong_weight_fails_the_assertion(tmp_path: Path) -> None:
    torch.manual_seed(0)
    design = mase_hw.compile(nn.Linear(4, 3), torch.rand(1, 4), out=tmp_path / "design", vectors=torch.rand(8, 4))
    assert_bit_exact(design, stalls=(0,))
    memory = design.path / next(m["file"] for m in design.manifest["memories"] if "weight" in m["file"])
    lines = memory.read_text().splitlines()
    memory.write_text("\n".join([f"{int(lines[0], 16) ^ 0x7F:0{len(lines[0])}x}", *lines[1:]]) + "\n")
    with pytest.raises(AssertionError, match=r"(?s)not the quantised model.*data_out_0: frame"):
        assert_bit_exact(Design(design.path, verify=False), stalls=(0,))


def test_the_workflow_of_the_documentation() -> None:
    """It is one that GitHub reads, and runs commands that exist."""
    page = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
    found = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert len(found) == 1
    workflow: dict[Any, Any] = yaml.safe_load(found[0])
    assert workflow["jobs"] and all(job["runs-on"] for job in workflow["jobs"].values())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = "\n".join(step.get("run", "") for step in steps)
    assert set(re.findall(r"mase-hw (\w+)", commands)) <= set(COMMANDS) and "pytest" in commands
