"""``mase-hw explain``: text, JSON, and what it says of a node that is not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mase_hw import cli

MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))

def build():
    torch.manual_seed(0)
    return Net(), torch.randn(1, 6), [torch.tensor([[0.0, 1.0, 2.0, 3.0, -3.5, 0.5]])]
"""
CONFIG = """
[quantize.overrides.fc2.config]
weight_width = 5
"""


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The command for a model with a configuration."""
    (tmp_path / "net.py").write_text(MODEL, encoding="utf-8")
    (tmp_path / "net.toml").write_text(CONFIG, encoding="utf-8")
    return ["explain", f"{tmp_path / 'net.py'}:build", "--config", str(tmp_path / "net.toml")]


def test_text(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == cli.OK
    text = capsys.readouterr().out
    assert [line for line in text.splitlines() if not line.startswith(" ")] == ["fc1", "relu", "fc2"]
    assert "observed [-3.5, 3]" in text  # the calibration batch, not the example
    assert "weight_width: default says 8, overridden: overrides.fc2 says 5" in text
    assert cli.main([*words, "relu"]) == cli.main([*words[:2], "relu", *words[2:]]) == cli.OK
    assert capsys.readouterr().out.startswith("relu\n  data_in_0: ")


def test_json(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "why.json"
    assert cli.main([*words, "fc2", "fc1", "--out", str(file)]) == cli.OK
    assert not capsys.readouterr().out
    assert cli.main([*words, "fc2", "fc1", "--json"]) == cli.OK
    assert capsys.readouterr().out == file.read_text(encoding="utf-8")
    fc2, fc1 = json.loads(file.read_text(encoding="utf-8"))["nodes"]
    assert (fc2["node"], fc1["node"]) == ("fc2", "fc1")
    weight = fc2["tensors"]["weight"]
    assert weight["settings"] == {"weight_width": [["default", 8], ["overrides.fc2", 5]]}
    assert weight["format"].startswith("s5.") and weight["format"] in {c["format"] for c in weight["candidates"]}
    assert fc1["tensors"]["data_in_0"]["range"] == [-3.5, 3.0]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["fc3"], "did you mean 'fc2'"),
        (["elsewhere"], "known: fc1, fc2"),
        (["--out", "absent/why.json"], "the explanation cannot be written"),
        (["--unknown", "fc1"], "unrecognized arguments: --unknown fc1"),
    ],
)
def test_what_cannot_be_explained(
    words: list[str],
    more: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = cli.main([*words, *more])
    except SystemExit as wrong:  # of argparse
        code = int(str(wrong.code))
    assert code == cli.UNUSABLE and said in capsys.readouterr().err
    assert not (tmp_path / "absent").exists()
