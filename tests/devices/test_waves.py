"""Waves of a design on several devices: every stream is shown, below the names of its device."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from mase_hw.devices import DevicesDesign, compile_devices
from mase_hw.host.toolchain import require, verilator_env
from mase_hw.simulate.waves import MODULE, lanes_module, shown_streams


class Twice(nn.Module):
    """One node of each device has two instances with streams."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


def made(out: Path) -> DevicesDesign:
    torch.manual_seed(0)
    config = {"hardware": {"device": {"second": 1}}, "links": {"bits": 8, "latency": 4}}
    return compile_devices(Twice().eval(), torch.rand(1, 8), config, out=out)


def test_the_streams_of_all_devices_have_names(tmp_path: Path) -> None:
    """Verilator finds every stream that is shown where it is said to be, and has names for all of them."""
    whole = made(tmp_path / "made").whole
    streams = shown_streams(whole.record)
    assert {s.source.rpartition(".")[0] for s in streams} >= {"u_device_0.u_core.u_first", "u_device_1.u_core.u_second"}
    (tmp_path / f"{MODULE}.sv").write_text(lanes_module(whole.record.top, streams))
    command = [str(require("verilator")["verilator"].path), "--lint-only", "-Wall", "--assert", "--top-module", "top"]
    done = subprocess.run(
        [*command, "-f", "rtl/files.f", str(tmp_path / f"{MODULE}.sv")],
        cwd=whole.path,
        env=verilator_env(),
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_waves_are_written(tmp_path: Path) -> None:
    """The viewers are told of lanes that are in the waves."""
    design = made(tmp_path / "made")
    found = design.simulate(torch.rand(2, 8), engine="batch", waves=True)
    assert found.passed and found.result.waves is not None
    listed = re.findall(r"waves\.node_first\.data_in_0\.lane_0", found.result.waves.with_suffix(".gtkw").read_text())
    assert len(listed) == 1
