"""What is asked of a simulation: numbers of every kind are taken, all else is refused before anything is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import mase_hw
from mase_hw import cli
from mase_hw.design.attempts import Attempts
from mase_hw.errors import ConfigError, HangError, MismatchError, ResultsError, SimulationError
from mase_hw.simulate.arguments import as_resets, as_stalls
from mase_hw.simulate.plan import PATTERNS, Reset, Stalls
from mase_hw.simulate.result import SimResult

BATCH: dict[str, Any] = {"engine": "batch"}
FRAMES = 6
MODEL = """
import torch


def build():
    return torch.nn.Linear(4, 2).eval(), torch.ones(1, 4)
"""


@pytest.fixture(scope="module")
def design(work: Path) -> mase_hw.Design:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval()
    return mase_hw.compile(model, torch.rand(1, 4), out=work / "arguments", vectors=torch.rand(FRAMES, 4))


@pytest.fixture
def unused(design: mase_hw.Design, tmp_path: Path) -> mase_hw.Design:
    """A bundle alone in its folder."""
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "bundle").symlink_to(design.path)
    bundle = mase_hw.load_design(design.path)
    bundle.path = tmp_path / "place" / "bundle"
    return bundle


REFUSED = [
    ({"stalls": [0.1]}, "stalls", "[0.1] (list)"),
    ({"stalls": "bursty"}, "stalls", "bursty"),
    ({"stalls": np.float32(1.5)}, "stalls", "1.5"),
    ({"stalls": -1}, "stalls", "-1"),
    ({"stalls": 10**400}, "stalls", "1000"),
    ({"stalls": True}, "stalls", "True"),
    ({"stalls": 1j}, "stalls", "1j (complex)"),
    ({"seed": "a"}, "seed", "'a' (str)"),
    ({"seed": 1.5}, "seed", "1.5 (float)"),
    ({"seed": None}, "seed", "None"),
    ({"jobs": "2"} | BATCH, "jobs", "'2' (str)"),
    ({"jobs": 2.5} | BATCH, "jobs", "2.5 (float)"),
    ({"jobs": None} | BATCH, "jobs", "None"),
    ({"jobs": 0} | BATCH, "jobs", "0"),
    ({"jobs": -1}, "jobs", "-1"),
    ({"jobs": 3, "waves": True} | BATCH, "waves", "waves=True and jobs=3"),
    ({"threads": "2"} | BATCH, "threads", "'2' (str)"),
    ({"threads": 2.5} | BATCH, "threads", "2.5 (float)"),
    ({"threads": None} | BATCH, "threads", "None"),
    ({"threads": 0} | BATCH, "threads", "0"),
    ({"threads": -2} | BATCH, "threads", "-2"),
    ({"threads": 1 << 16} | BATCH, "threads", "65536"),
    ({"threads": 2, "jobs": 1 << 16} | BATCH, "threads", "65536 processes of 2 threads"),
    ({"threads": 2}, "threads", "2"),
    ({"threads": 2, "engine": "fast"}, "threads", "2"),
    ({"reset_at": None}, "reset_at", "None"),
    ({"reset_at": [2.5]}, "reset_at", "2.5 (float)"),
    ({"reset_at": [4, "soon"]}, "reset_at", "soon"),
    ({"reset_at": 0}, "reset_at.at", "0"),
    ({"reset_at": "out:0"}, "reset_at.at", "0"),
    ({"reset_at": 1 << 31}, "reset_at.at", "2147483648"),
    ({"reset_at": "in:\N{SUPERSCRIPT TWO}"}, "reset_at", "in:"),
    ({"reset_at": "9" * 5000}, "reset_at", "999"),
    ({"intervene": "absent.py", "engine": "fast"}, "intervene", "absent.py"),
    ({"engine": None}, "engine", "None"),
    ({"engine": ["batch"]}, "engine", "['batch']"),
    ({"work_dir": 3}, "work_dir", "3 (int)"),
]


@pytest.mark.parametrize(("asked", "field", "got"), REFUSED, ids=lambda v: str(v)[:40])
def test_refused(unused: mase_hw.Design, asked: dict[str, Any], field: str, got: str) -> None:
    lines: list[str] = []
    with pytest.raises(ConfigError) as caught:
        unused.simulate(**asked, progress=lines.append)
    assert caught.value.field == field and got in str(caught.value.got), caught.value
    assert caught.value.remedy and (caught.value.expected or "known: " in caught.value.remedy), caught.value
    assert not lines and [p.name for p in unused.path.parent.iterdir()] == ["bundle"]


def test_numbers_of_a_reset() -> None:
    """Those of numpy become those of Python, since the plan is JSON."""
    reset = Reset(np.int64(4), length=np.uint8(2))  # type: ignore[arg-type]
    assert (type(reset.at), type(reset.length)) == (int, int) and reset == Reset(4, length=2)
    for wrong in ({"at": 2.5}, {"at": "4"}, {"at": 4, "length": 1 << 31}):
        with pytest.raises(ConfigError, match=r"field: reset_at.*\n.*\n  expected: an integer from 1"):
            Reset(**wrong)  # type: ignore[arg-type]


def test_forms() -> None:
    five = (Reset(5, "in"),)
    for form in ("in:5", Reset(5, "in"), ["in:5"], five, (Reset(np.int64(5), "in") for _ in range(1))):  # type: ignore[arg-type]
        assert as_resets(form) == five
    assert as_resets([40, np.int32(3), "out:2"]) == (Reset(40), Reset(3), Reset(2, "out"))
    assert as_resets(40) == (Reset(40),) and as_resets(()) == () == as_resets([])
    assert as_stalls(None) == Stalls() == as_stalls(0) == as_stalls(np.float64(0))
    assert as_stalls(np.float32(0.25)) == Stalls(0.25, 0.25) == as_stalls(0.25)
    assert as_stalls("long") is PATTERNS["long"] and as_stalls(PATTERNS["long"]) is PATTERNS["long"]


def test_numbers_of_numpy(design: mase_hw.Design) -> None:
    """They ask for the same run, and waves are in what is written of it."""
    plain = design.simulate(seed=3, stalls=0.25, reset_at=[Reset(5)], **BATCH).result
    numpy = design.simulate(
        seed=np.int64(3),  # type: ignore[arg-type]
        stalls=np.float32(0.25),  # type: ignore[arg-type]
        reset_at=[np.int16(5)],  # type: ignore[list-item]
        jobs=np.uint8(1),  # type: ignore[arg-type]
        **BATCH,
    ).result
    assert plain.identity == numpy.identity and plain.cycles == numpy.cycles
    assert design.simulate(jobs=np.int64(2), **BATCH).passed  # type: ignore[arg-type]
    assert plain.to_json()["waves"] is None


def test_waves_are_told(tmp_path: Path) -> None:
    result = SimResult({}, {}, 0, 0.0, tmp_path, None, waves=tmp_path / "dump.fst")
    assert result.to_json()["waves"] == str(tmp_path / "dump.fst")


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_reset_too_late(design: mase_hw.Design, jobs: int) -> None:
    """It says when the run ended, and a reset at that time is not too late."""
    alone = design.simulate(**BATCH).result
    late = design.simulate(reset_at=[4, 5000], jobs=jobs, check=False, **BATCH)
    failure, frames = late.result.failure, FRAMES // jobs
    assert type(failure) is ResultsError and late.result.cycles <= alone.cycles
    assert f"1 resets; the run ended {late.result.cycles} cycles, {frames} input beats" in str(failure.got)
    assert f"{late.result.cycles} cycles in" in late.report()
    assert str(late) == late.report()
    assert design.simulate(reset_at=[4, late.result.cycles], jobs=jobs, **BATCH).passed
    with pytest.raises(ResultsError, match=f"the run ended {late.result.cycles} cycles"):
        design.simulate(reset_at=[4, late.result.cycles + 1], jobs=jobs, **BATCH)


def test_a_work_folder_in_the_bundle(unused: mase_hw.Design, tmp_path: Path) -> None:
    before = sorted(unused.path.rglob("*"))
    (tmp_path / "elsewhere").symlink_to(unused.path)
    for inside in (unused.path, unused.path / "work", str(unused.path / "sim/../x"), tmp_path / "elsewhere/work"):
        with pytest.raises(ConfigError, match="work folder is in the bundle"):
            unused.simulate(work_dir=inside)
    assert sorted(unused.path.rglob("*")) == before


SIM = [
    (["--jobs", "0"], "field: jobs"),
    (["--threads", "0"], "field: threads"),
    (["--threads", "2"], "engine 'cocotb' has one thread"),
    (["--engine", "fast", "--intervene", "absent.py"], "absent.py"),
    (["--stalls", "1.5"], "field: stalls\n  got: 1.5\n"),
    (["--stalls", "nan"], "field: stalls"),
    (["--reset-at", "0"], "expected: an integer from 1"),
    (["--engine", "batch", "--waves", "--jobs", "2"], "only one process can write waves"),
]


@pytest.mark.parametrize(("words", "text"), SIM)
def test_command_line(
    unused: mase_hw.Design, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    """Of ``sim``, and of ``compile`` before it compiles."""
    (tmp_path / "net.py").write_text(MODEL)
    assert cli.main(["sim", str(unused.path), *words]) == cli.UNUSABLE
    assert text in capsys.readouterr().err
    place = unused.path.parent
    compiling = ["compile", f"{tmp_path / 'net.py'}:build", "--out", str(place / "new"), "--simulate"]
    assert cli.main([*compiling, *words]) == cli.UNUSABLE
    output = capsys.readouterr()
    assert text in output.err and not output.out
    assert cli.main([*compiling, "--work", str(place / "new/work")]) == cli.UNUSABLE
    assert [p.name for p in place.iterdir()] == ["bundle"]


def test_a_configuration_alone(unused: mase_hw.Design, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.toml").touch()
    assert cli.main(["sim", str(unused.path), "--config", str(tmp_path / "net.toml")]) == cli.UNUSABLE
    assert "field: --config" in capsys.readouterr().err
    assert [p.name for p in unused.path.parent.iterdir()] == ["bundle"]


@pytest.mark.parametrize(
    ("failure", "more", "asks"),
    [
        (MismatchError("one bit"), [], True),
        (HangError("stuck"), [], True),
        (HangError("stuck"), ["--no-diagnose"], False),
        (MismatchError("one bit"), ["--engine", "fast", "--intervene", "poke.py"], False),
        (ResultsError("the simulator was killed"), [], False),
        (SimulationError("incomplete frame"), [], False),
        (None, [], False),
    ],
)
def test_a_model_is_asked_for_where_it_helps(
    unused: mase_hw.Design,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failure: SimulationError | None,
    more: list[str],
    asks: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("poke.py").write_text("async def intervene(bench): pass\n")
    result = SimResult({}, {}, 0, 0.0, tmp_path, failure)
    monkeypatch.setattr(Attempts, "run", lambda *_: result)
    monkeypatch.setattr(Attempts, "again_with_waves", lambda *_: result)
    assert cli.main(["sim", str(unused.path), *more]) == (cli.OK if failure is None else cli.FAILED)
    assert ("no diagnosis was possible" in capsys.readouterr().out) == asks
    assert failure is None or ("--model FILE.py:FUNCTION" in str(failure)) == asks
