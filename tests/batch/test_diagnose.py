"""Faults put into an emitted design are found where they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.flow.bench import Stalls
from mase_hw.flow.diagnose import Diagnosis, diagnose

INPUTS = torch.rand(6, 3, 8, generator=torch.Generator().manual_seed(2)) - 0.5


class Branches(nn.Module):
    """A fork, re-packers, two results."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 6)
        self.left = nn.Linear(6, 4)
        self.right = nn.Linear(6, 2, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = self.first(x).relu()
        return self.left(h), self.right(h).relu()


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    torch.manual_seed(0)
    config = {"hardware": {"parallelism": {"first": {"data_in_0": 4, "data_out_0": 3}, "left": {"data_in_0": 2}}}}
    out = tmp_path_factory.mktemp("diagnose") / "bundle"
    return mase_hw.compile(Branches().eval(), INPUTS[:1], config, out=out)


def _broken(design: mase_hw.Design, folder: Path, file: str, old: str, new: str) -> mase_hw.Design:
    shutil.copytree(design.path, folder / "bundle")
    path = folder / "bundle" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return mase_hw.Design(folder / "bundle", design.graph, verify=False)


def _run(design: mase_hw.Design, folder: Path, **options: Any) -> Diagnosis:
    found = diagnose(design, INPUTS, watchdog=300, max_cycles=20_000, work_dir=folder / "work", **options)
    json.dumps(found.to_json())
    return found


@pytest.mark.parametrize("stalls", [Stalls.none(), Stalls.random(0.4, 0.4)])
def test_every_edge_equals_the_model(design: mase_hw.Design, tmp_path: Path, stalls: Stalls) -> None:
    found = _run(design, tmp_path.parent / "whole", stalls=stalls, seed=5)
    assert found.result.passed and found.divergence is None and not found.hangs
    tensors = {edge.tensor for edge in found.edges}
    assert {"first", "left", "right", "first.weight", "first.bias"} <= tensors
    assert all(edge.beats == edge.expected for edge in found.edges if edge.expected is not None)
    assert "passed when it ran again" in found.report()


def test_flipped_bit_of_a_memory(design: mase_hw.Design, tmp_path: Path) -> None:
    words = (design.path / "mem" / "left_weight.mem").read_text().split("\n")
    flipped = f"{int(words[2], 16) ^ 1:0{len(words[2])}x}"
    old = "\n".join(words[:3])
    broken = _broken(design, tmp_path, "mem/left_weight.mem", old, "\n".join([*words[:2], flipped]))
    found = _run(broken, tmp_path)
    assert found.divergence is not None and not found.result.passed
    assert (found.divergence.node, found.divergence.parameter) == ("left", "weight")
    first = found.divergence.mismatch
    assert (first.beat, first.lane) == (2, 0) and abs(first.expected - first.found) == 1
    assert len(found.divergence.neighbours) == 5
    assert "parameter weight of node left" in found.report()


def test_wrong_module(design: mase_hw.Design, tmp_path: Path) -> None:
    """The first node of a chain that computes wrongly is named, not the last that shows it."""
    top = next(path for path in (design.path / "rtl").glob("*.sv"))
    row = next(r for r in top.read_text().splitlines() if r.strip() == ".data_in_0(net_first),")
    broken = _broken(design, tmp_path, f"rtl/{top.name}", row, row.replace("(net_first)", "(net_first ^ 1)"))
    found = _run(broken, tmp_path, frames=2)
    assert found.divergence is not None
    assert found.divergence.node == "relu" and found.divergence.source == "u_relu"
    assert found.divergence.mismatch.index is not None


def test_hang(design: mase_hw.Design, tmp_path: Path) -> None:
    top = next(path for path in (design.path / "rtl").glob("*.sv"))
    row = next(r for r in top.read_text().splitlines() if "net_left_ready = " in r)
    broken = _broken(design, tmp_path, f"rtl/{top.name}", row, "  assign net_left_ready = 1'b0 & data_out_0_ready;")
    found = _run(broken, tmp_path)
    assert found.hangs and found.divergence is None
    report = found.report()
    assert "u_left waits for space from data_out_0 (net_left)" in report
    assert "nothing moved after cycle" in report and "everything waits for data_out_0" in report
    assert found.to_json()["culprits"] == ["data_out_0"]


def test_needs_the_model(design: mase_hw.Design) -> None:
    with pytest.raises(ConfigError, match="loaded from disk"):
        diagnose(mase_hw.Design(design.path), INPUTS, watchdog=10, max_cycles=10)
