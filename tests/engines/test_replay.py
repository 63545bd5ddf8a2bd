"""A failure of one process of several is explained from its own frames alone, with its own seed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import HangError, MismatchError
from mase_hw.simulate.result import SimResult

QUIET, LOUD = 5, 7
"""The first frame that is not zero, and the number of the last."""


@pytest.fixture(scope="module")
def design(work: Path) -> mase_hw.Design:
    torch.manual_seed(0)
    x = torch.rand(LOUD + 1, 4) * 2 - 1
    x[:QUIET] = 0.0
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).eval()
    return mase_hw.compile(model, x[-1:], out=work / "replay", calibration=[x], vectors=x)


@pytest.fixture
def broken(design: mase_hw.Design, tmp_path: Path) -> Callable[..., mase_hw.Design]:
    """A copy of the bundle with one file changed."""

    def make(file: str, change: Callable[[str], str]) -> mase_hw.Design:
        shutil.copytree(design.path, tmp_path / "bundle")
        path = tmp_path / "bundle" / file
        before = path.read_text()
        path.write_text(change(before))
        assert path.read_text() != before
        return mase_hw.Design(tmp_path / "bundle", design.graph, verify=False)

    return make


def _fail(design: mase_hw.Design, **more: Any) -> SimResult:
    options: dict[str, Any] = {"engine": "batch", "jobs": 2, "stalls": 0.4, "seed": 9, "check": False, "waves": False}
    # Beside the undamaged bundle: what was built for one test serves the next.
    return design.simulate(**{**options, **more}).result


def _signs(text: str) -> str:
    """The signs of a word of weights: unseen as long as the layer's inputs are zero."""
    words = text.split("\n")
    words[0] = f"{int(words[0], 16) ^ int('80' * (len(words[0]) // 2), 16):0{len(words[0])}x}"
    return "\n".join(words)


def test_mismatch(design: mase_hw.Design, broken: Callable[..., mase_hw.Design]) -> None:
    memory = next(m["file"] for m in design.manifest["memories"] if "weight" in m["file"])
    damaged = broken(memory, _signs)
    result = _fail(damaged, work_dir=design.path.parent / "replay.work")
    assert type(result.failure) is MismatchError and result.first_mismatch is not None
    assert result.first_mismatch.frame >= QUIET
    part, found = result.part, result.diagnosis
    assert part is not None and (part.number, part.first, part.frames, part.own) == (1, 4, 4, False)
    # Only up to the frame that failed, and only of this share.
    again = found.result.ports["data_in_0"]
    per_frame = again.stream.frame_beats
    assert again.expected == (result.first_mismatch.frame - part.first + 1) * per_frame
    # To the cycle what the process did: the same seed, the same stalls.
    at, first = result.first_mismatch.beat_index, found.result.first_mismatch
    assert first.frame == result.first_mismatch.frame - part.first
    shown = int(found.result.presented["data_out_0"][first.beat_index])
    assert shown == int(result.presented["data_out_0"][at]) - part.cycle
    assert found.divergence is not None and found.divergence.parameter == "weight"
    assert "frames are counted from frame 4 of the run" in found.report()
    assert json.loads((result.run_dir / "diagnosis.json").read_text())["first_frame"] == 4


def test_hang(design: mase_hw.Design, broken: Callable[..., mase_hw.Design]) -> None:
    """The result is then that of the share itself."""
    top = f"rtl/{design.manifest['top']}.sv"
    words = (design.path / design.manifest["vectors"]["files"]["data_in_0"]).read_text().split()
    per_frame = design.streams["data_in_0"].frame_beats
    word, bits = words[LOUD * per_frame - 1], design.streams["data_in_0"].bits
    assert words.count(word) == 1
    poison = f" && data_in_0 != {bits}'h{word};"

    def swallow_nothing(text: str) -> str:
        for wire in ("data_in_0_valid", "net_data_in_0_ready"):
            assert text.count(f"= {wire};") == 1
            text = text.replace(f"= {wire};", f"= {wire}{poison}")
        return text

    damaged = broken(top, swallow_nothing)
    result = _fail(damaged, work_dir=design.path.parent / "replay-hang.work")
    assert type(result.failure) is HangError and "frames 4 to 7 of the run" in str(result.failure)
    part, found = result.part, result.diagnosis
    assert part is not None and (part.number, part.first, part.own) == (1, 4, True)
    assert found is not None and found.hangs and found.first_frame == 4
    accepted = result.ports["data_in_0"].cycles.accepted
    assert found.result.ports["data_in_0"].cycles.accepted.tolist() == accepted.tolist(), "to the cycle"
