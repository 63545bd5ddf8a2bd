"""``mase-hw compile FILE.onnx --partition``: what is where, and why, and what is refused."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from mase_hw import cli
from tests.importers.graphs import model, node

R = np.random.default_rng(12)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A layer, a function that no hardware has, and a clip."""
    nodes = [
        node("Gemm", "x w b", "a", "/first/Gemm", transB=1),
        node("Mod", "a three", "t", "/odd/Mod", fmod=1),
        node("Clip", "t low high", "y", "/last/Clip"),
    ]
    stored = {
        "w": R.standard_normal((3, 4)).astype(np.float32),
        "b": R.standard_normal(3).astype(np.float32),
        "low": np.float32(-1),
        "high": np.float32(0.5),
        "three": np.float32(3),
    }
    path = tmp_path / "net.onnx"
    onnx.save(model(nodes, {"x": ("N", 4)}, stored), path)
    return path


def test_a_file_in_hardware_and_on_the_host(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    given = ["compile", str(file), "--out", str(out), "--partition", "--host", "last*", "--simulate", "--frames", "3"]
    assert cli.main([*given, "--json"]) == cli.OK
    found = json.loads(capsys.readouterr().out)
    assert [(p["name"], p["nodes"]) for p in found["parts"]] == [
        ("hardware_0", ["first_gemm"]),
        ("host_1", ["odd_Mod", "last_Clip"]),
    ]
    assert found["host"]["last_Clip"] == "wanted on the host" and "fmod" in found["host"]["odd_Mod"]
    verdict = found["simulation"]["hardware_0"]
    assert verdict["passed"] and verdict["mismatches"] == 0 and verdict["frames"] == 3
    assert json.loads((out / "partition.json").read_text())["host"] == found["host"]
    assert (out / "hardware_0" / "manifest.json").is_file()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], ["op 'fmod' cannot be quantised", "odd_Mod"]),
        (["--host", "odd_Mod"], ["nodes are placed by a partition only", "--partition"]),
        (["--partition", "--host", "od_Mod"], ["no such node", "od_Mod"]),
        (["--partition", "--hardware", "odd*"], ["odd_Mod", "wanted in hardware cannot be"]),
        (["--partition", "--report"], ["a partition has a design for each segment", "--report"]),
    ],
)
def test_refused(
    options: list[str], words: list[str], file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert cli.main(["compile", str(file), "--out", str(out), *options]) == cli.UNUSABLE
    message = capsys.readouterr().err
    assert all(word in message for word in words), message
    assert not out.exists()
