"""One tiny bundle a session, and a folder for each target that all tests of it share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.port_entry import port_record
from mase_hw.formats import FixedFormat
from mase_hw.hardware.manifest import Instance, Manifest, Reset, Timing
from mase_hw.streams import Stream
from mase_hw.synth.report import Report
from mase_hw.synth.synthesise import synthesise


def compiled(
    net: nn.Module, shape: tuple[int, ...], out: Path, *, vectors: torch.Tensor | None = None, **hardware: object
) -> mase_hw.Design:
    """A bundle of a network with random parameters and some vectors."""
    torch.manual_seed(1)
    for parameter in net.parameters():
        nn.init.uniform_(parameter, -1.0, 1.0)
    data = torch.rand(32, *shape) * 2 - 1
    played = data[:16] if vectors is None else vectors
    return mase_hw.compile(net.eval(), data[:1], {"hardware": hardware}, out=out, calibration=[data], vectors=played)


def manifest(top: str, *instances: Instance) -> Manifest:
    """That of a design with a stream in and a stream out."""
    fmt = FixedFormat(8, 4)
    streams = Stream("data_in_0", "in", (1, 1), fmt), Stream("data_out_0", "out", (1, 1), fmt)
    return Manifest(
        format_version=1,
        generator={},
        top=top,
        clock="clk",
        reset=Reset(name="rst", active="high", synchronous=True),
        family="",
        streaming=False,
        parameters={},
        ports=tuple(port_record(stream, stream.name) for stream in streams),
        timing=Timing(fill=1, last=1, interval=1, bottleneck="", exact=True, steady=None, unit=""),
        instances=instances,
        memories=(),
        fifos=(),
        edges=(),
        rtl=(),
        files={},
        digest="",
    )


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    """Four multipliers, a replay buffer, two ROMs."""
    folder = tmp_path_factory.mktemp("synth")
    return compiled(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), (4,), folder / "tiny", max_parallelism=2)


@pytest.fixture(scope="session")
def mapped(tiny: mase_hw.Design) -> Report:
    """The tiny bundle on Xilinx 7, its netlist simulated."""
    return synthesise(tiny, "xc7")


@pytest.fixture(scope="session")
def written(tiny: mase_hw.Design, mapped: Report) -> tuple[str, str]:
    """The reports as they were written then: another test writes them again, and tests come in any order."""
    kept = work_of(tiny, "xc7")
    if "0 mismatches" not in (kept / "report.txt").read_text():
        synthesise(tiny, "xc7")
    return (kept / "report.json").read_text(), (kept / "report.txt").read_text()


def work_of(design: mase_hw.Design, target: str) -> Path:
    """Where a target of a bundle was worked on."""
    return design.path.with_name(f"{design.path.name}.work") / "synth" / target
