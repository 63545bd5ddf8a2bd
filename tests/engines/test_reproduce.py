"""What a failing simulation leaves fails in the same way in an empty folder, in a process that knows nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw import cli
from mase_hw.design.reproduce import reproduce_simulation
from mase_hw.errors import ConfigError, MismatchError


def damaged(work: Path, folder: Path) -> mase_hw.Design:
    """A design in whose bundle one weight has another sign."""
    torch.manual_seed(0)
    x = torch.rand(6, 4) * 2 - 1
    good = mase_hw.compile(nn.Sequential(nn.Linear(4, 2)).eval(), x[:1], out=work / "repro", calibration=[x], vectors=x)
    shutil.copytree(good.path, folder)
    (memory,) = folder.glob("mem/*weight*")
    words = memory.read_text().split("\n")
    words[0] = f"{int(words[0], 16) ^ 0x80:0{len(words[0])}x}"
    memory.write_text("\n".join(words))
    return mase_hw.Design(folder, good.graph, verify=False)


def test_a_failing_simulation(work: Path, tmp_path: Path, clean_env: dict[str, str], root: Path) -> None:
    """With inputs of its own, so that the model goes along; moved, and run from an empty folder."""
    design = damaged(work, tmp_path / "bundle")
    inputs, arguments = torch.rand(3, 4), {"engine": "batch", "seed": 5, "stalls": 0.3}
    with pytest.raises(MismatchError) as caught:
        design.simulate(inputs, waves=False, diagnose=False, **arguments)  # type: ignore[arg-type]
    script = reproduce_simulation(design, tmp_path / "failure", inputs, waves=False, diagnose=False, **arguments)
    assert str(tmp_path) not in script.read_text()
    (tmp_path / "failure").rename(tmp_path / "moved")
    shutil.rmtree(design.path)
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        [sys.executable, str(tmp_path / "moved" / "run.py")], cwd=tmp_path / "empty",
        env={**clean_env, "PYTHONPATH": str(root)}, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1 and not list((tmp_path / "empty").iterdir())
    # The bundle lies elsewhere, and so does its log; node, frame, beat, lane and both values are the same.
    said = [line for line in str(caught.value).splitlines() if "remedy" not in line and str(design.path) not in line]
    assert "mase_hw.errors.MismatchError" in done.stderr and len(said) > 2
    assert [line for line in said if line not in done.stderr] == []


def test_from_the_command_line(
    work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundle's own vectors; nothing is left by a simulation that passes."""
    design = damaged(work, tmp_path / "bundle")
    folder = tmp_path / "failure"
    command = ["sim", str(work / "repro"), "--engine", "batch", "--reproduce", str(folder)]
    assert cli.main(command) == cli.OK and not folder.exists()
    # A damaged bundle is refused at once, so its design comes by another way here.
    monkeypatch.setattr(mase_hw, "load_design", lambda _: design)
    assert cli.main([*command, "--no-diagnose"]) == cli.FAILED and (folder / "run.py").is_file()
    assert f"`python {folder / 'run.py'}` repeats it" in capsys.readouterr().out
    assert "engine='batch', seed=0" in (folder / "run.py").read_text()


def test_what_cannot_be_kept_is_refused(work: Path, tmp_path: Path) -> None:
    design = damaged(work, tmp_path / "bundle")
    with pytest.raises(ConfigError, match="intervene"):
        reproduce_simulation(design, tmp_path / "failure", intervene="test.py")
    with pytest.raises(ConfigError, match="need the model"):
        reproduce_simulation(mase_hw.Design(design.path, verify=False), tmp_path / "failure", torch.rand(1, 4))
    assert not (tmp_path / "failure").exists()
