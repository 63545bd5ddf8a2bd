"""What a failing step leaves fails in the same way in an empty folder, in a process that knows nothing else."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from mase_hw.compiler.stages import compile_pipeline
from mase_hw.errors import ConfigError, FormatError, MaseHwError
from mase_hw.ir import MaseGraph
from mase_hw.passes.pipeline import Pipeline, Step
from tests.unit.pipeline import MLP, inputs, seeded

X = inputs(6, 6)


def fail(pipeline: Pipeline, folder: Path, **more: Any) -> BaseException:
    with pytest.raises(Exception) as caught:
        pipeline.run(MaseGraph(seeded(MLP)), reproduce=folder, **more)
    return caught.value


def repeat(folder: Path, elsewhere: Path, env: dict[str, str], root: Path) -> subprocess.CompletedProcess[str]:
    """Run the script with the folder moved to another place, from an empty folder."""
    moved, empty = elsewhere / "moved", elsewhere / "empty"
    folder.rename(moved)
    empty.mkdir()
    done = subprocess.run(
        [sys.executable, str(moved / "run.py")],
        cwd=empty,
        env={**env, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert not list(empty.iterdir())
    return done


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


def test_a_failing_pass(
    tmp_path: Path, elsewhere: Path, clean_env: dict[str, str], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The data of the calibration is an iterator: read by the pass, and kept nevertheless."""
    bad = X.clone()
    bad[2, 1] = float("nan")

    def batches() -> Iterator[torch.Tensor]:
        yield X
        yield bad

    folder = tmp_path / "failure"
    pipeline = compile_pipeline({"x": X[:1]}, out=tmp_path / "out", calibration=batches())
    error = fail(pipeline, folder)
    assert isinstance(error, FormatError) and f"`python {folder / 'run.py'}` repeats it" in error.__notes__
    assert sorted(p.name for p in folder.iterdir()) == ["arguments.pt", "graph.mz", "graph.pt", "run.py"]
    assert str(tmp_path) not in (folder / "run.py").read_text()
    done = repeat(folder, elsewhere, clean_env, root)
    assert done.returncode == 1 and str(error) in done.stderr, done.stderr
    # Only the failing step is in it, and with what it needs it does not fail.
    text = (elsewhere / "moved" / "run.py").read_text()
    assert "calibrate_analysis_pass(graph" in text and "quantize_transform" not in text and "add_common" not in text
    arguments = torch.load(elsewhere / "moved" / "arguments.pt", weights_only=True)
    assert torch.equal(arguments["calibrate"]["data"][0], X)
    arguments["calibrate"]["data"] = [X]
    torch.save(arguments, elsewhere / "moved" / "arguments.pt")
    capsys.readouterr()
    runpy.run_path(str(elsewhere / "moved" / "run.py"), run_name="__main__")
    assert capsys.readouterr().out == "it did not fail\n"


def test_a_failing_emission_is_repeated_from_its_beginning(
    tmp_path: Path, elsewhere: Path, clean_env: dict[str, str], root: Path
) -> None:
    """A checkpoint holds no netlist, so the steps that made it are repeated."""
    pipeline = compile_pipeline({"x": X[:1]}, out=tmp_path / "out", calibration=[X])
    error = fail(pipeline.replaced("vectors", {"inputs": {"y": X}}), tmp_path / "failure")
    assert isinstance(error, MaseHwError)
    done = repeat(tmp_path / "failure", elsewhere, clean_env, root)
    assert done.returncode == 1 and str(error) in done.stderr, done.stderr
    assert "emit_verilog_top_transform_pass(graph" in (elsewhere / "moved" / "run.py").read_text()


def test_what_cannot_be_repeated_says_why(tmp_path: Path) -> None:
    def mine(graph: MaseGraph, args: Mapping[str, Any]) -> tuple[MaseGraph, dict[str, Any]]:
        raise ZeroDivisionError("x")

    error = fail(Pipeline([Step("mine", mine)]), tmp_path / "failure")
    assert isinstance(error, ZeroDivisionError) and not (tmp_path / "failure").exists()
    assert "cannot be repeated from a folder: 'mine' is no name of a module" in error.__notes__[1]
    # The error of the pass comes first, whatever the folder is.
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("x")
    bad = compile_pipeline({"x": X[:1]}, out=tmp_path / "out", calibration=[X * float("nan")])
    error = fail(bad, tmp_path / "taken")
    assert isinstance(error, FormatError) and "holds something else" in error.__notes__[1]
    assert [p.name for p in (tmp_path / "taken").iterdir()] == ["thesis.txt"]
    assert not list(tmp_path.glob(".*partial"))


def test_nothing_is_left_where_nothing_fails(tmp_path: Path) -> None:
    pipeline = compile_pipeline({"x": X[:1]}, out=tmp_path / "out", calibration=iter([X]))
    pipeline.run(MaseGraph(seeded(MLP)), reproduce=tmp_path / "failure")
    assert not (tmp_path / "failure").exists() and (tmp_path / "out" / "manifest.json").is_file()


def test_an_older_reproducer_is_replaced(tmp_path: Path) -> None:
    for scale in (float("nan"), float("inf")):
        fail(compile_pipeline({"x": X[:1]}, out=tmp_path / "out", calibration=[X * scale]), tmp_path / "failure")
    arguments = torch.load(tmp_path / "failure" / "arguments.pt", weights_only=True)
    assert not arguments["calibrate"]["data"][0].isnan().all()
    with pytest.raises(ConfigError, match="holds something else"):
        from mase_hw.host.reproducible import reproducible

        with reproducible(tmp_path):
            pass
