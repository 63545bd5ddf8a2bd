"""Self-tests of the verdict: files that are missing, empty, cut short or damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

import mase_hw
from mase_hw.errors import ConfigError, MismatchError, ResultsError, SimulationError
from tests.e2e.conftest import Workshop
from tests.e2e.designs import DESIGNS
from tests.e2e.test_verdict import edit


@pytest.fixture(scope="module")
def x() -> Tensor:
    return DESIGNS["golden"].frames(6)[0]


def test_zero_frames(copy: mase_hw.Design, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"(?s)holds no frames.*got: shape \[0, 7\].*one frame or several"):
        copy.simulate(torch.zeros(0, 7), work_dir=tmp_path / "work")
    for name in ("data_in_0", "data_out_0"):
        file = copy.path / f"vectors/{name}.mem"
        text = file.read_text()
        file.write_text("")
        with pytest.raises(ResultsError, match=r"(?s)does not hold whole frames.*got: 0 beats.*at least one frame"):
            copy.simulate(work_dir=tmp_path / "work")
        file.write_text(text)
    assert not (tmp_path / "work").exists()


def test_wrong_vectors(copy: mase_hw.Design, workshop: Workshop, tmp_path: Path) -> None:
    """The reference is what the file says, not what the hardware just computed."""
    edit(copy.path / "vectors/data_out_0.mem", lambda text: f"{int(text[:4], 16) ^ 1:04x}{text[4:]}")
    with pytest.raises(MismatchError, match="differ in 1 of 6 beats") as caught:
        copy.simulate(work_dir=workshop.work(copy, tmp_path, "golden"), waves=False, diagnose=False)
    assert "data_out_0: frame 0, beat 0, lane 0" in str(caught.value)
    edit(copy.path / "vectors/data_out_0.mem", lambda text: "zz" + text)
    with pytest.raises(ResultsError, match="vector file cannot be read"):
        copy.simulate(work_dir=tmp_path / "work")


def forget(bundle: Path, name: str) -> None:
    """Remove a file, and every trace of it from the manifest."""
    (bundle / name).unlink()
    manifest = json.loads((bundle / "manifest.json").read_text())
    del manifest["files"][name]
    (bundle / "manifest.json").write_text(json.dumps(manifest))


def test_missing_memory(copy: mase_hw.Design, workshop: Workshop, tmp_path: Path, x: Tensor) -> None:
    work = workshop.work(copy, tmp_path, "golden")
    forget(copy.path, "mem/fc1_weight.mem")
    with pytest.raises(SimulationError, match="stopped the simulation with an error of its own") as caught:
        copy.simulate(x, work_dir=work, waves=False)
    assert (
        caught.value.node == "u_fc1_weight.load"
        and "at its start" in str(caught.value.got)
        and "cannot open the memory file 'mem/fc1_weight.mem'" in str(caught.value)
    )


def test_short_memory(copy: mase_hw.Design, workshop: Workshop, tmp_path: Path, x: Tensor) -> None:
    edit(copy.path / "mem/fc1_bias.mem", lambda text: "".join(text.splitlines(keepends=True)[:-1]))
    with pytest.raises(SimulationError, match=r"(?s)memory file was not read as a whole.*ended before") as caught:
        copy.simulate(x, work_dir=workshop.work(copy, tmp_path, "golden"), waves=False)
    assert caught.value.node == str(copy.path / "mem/fc1_bias.mem")


def test_broken_rtl(copy: mase_hw.Design, tmp_path: Path, x: Tensor) -> None:
    edit(copy.path / "rtl/ops/fixed_relu.sv", lambda text: text.replace("endmodule", "oops\nendmodule"))
    with pytest.raises(SimulationError, match=r"(?s)Verilator refuses top.*fixed_relu\.sv.*the full log is"):
        copy.simulate(x, work_dir=tmp_path / "work")
