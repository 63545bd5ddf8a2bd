"""What the manifest promises to those who take the hardware over, and the reference that fills the vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import mase_hw
from mase_hw.emit.port_entry import port_record, port_stream
from mase_hw.emit.reference import Reference
from mase_hw.errors import ConfigError
from mase_hw.formats import FixedFormat
from mase_hw.streams import Stream
from tests.emit.designs import DESIGNS
from tests.unit.pipeline import OWN_FRAMES, inputs


@pytest.fixture(scope="module")
def designs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, mase_hw.Design]:
    folder = tmp_path_factory.mktemp("manifest")
    return {name: mase_hw.compile(m, x, {**c, **OWN_FRAMES}, out=folder / name) for name, (m, x, c) in DESIGNS.items()}


def test_ports(designs: dict[str, mase_hw.Design]) -> None:
    manifest = designs["tiny"].manifest
    assert (manifest["top"], manifest["clock"]) == ("tiny", "clk")
    assert manifest["reset"] == {"name": "rst", "active": "high", "synchronous": True}
    ports = {p["name"]: p for p in manifest["ports"]}
    assert [(n, p["direction"], p["tensor"]) for n, p in ports.items()] == [
        ("data_in_0", "in", "x"), ("data_out_0", "out", "left"), ("data_out_1", "out", "right"),
    ]  # fmt: skip
    assert ports["data_in_0"] | {"beat_order": None} == {
        "name": "data_in_0",
        "direction": "in",
        "valid": "data_in_0_valid",
        "ready": "data_in_0_ready",
        "tensor": "x",
        "path": "x",
        "shape": [1, 4],
        "streamed": [1, 4],
        "layout": None,
        "format": {"type": "fixed", "width": 8, "frac_width": 4, "signed": True, "scale": 1 / 16},
        "lanes": 2,
        "parallelism": [2, 1],
        "beats": 2,
        "bits": 16,
        "beat_order": None,
    }
    assert "the last one fastest" in ports["data_in_0"]["beat_order"]
    assert [ports[f"data_out_{i}"]["lanes"] for i in range(2)] == [1, 2]


def test_instances_and_work(designs: dict[str, mase_hw.Design]) -> None:
    instances = {i["name"]: i for i in designs["tiny"].manifest["instances"]}
    assert instances["u_fc"]["work"] == 24 and instances["u_fc"]["multipliers"] == 6
    assert instances["u_right"]["work"] == 18 and instances["u_right"]["multipliers"] == 8
    assert {i["module"] for i in instances.values()} == {
        "rom_source", "fixed_linear", "fixed_relu", "fixed_cast", "stream_fork", "stream_repack",
    }  # fmt: skip
    slowest = max(instances.values(), key=lambda i: i.get("timing", {}).get("interval", 0))
    timing = designs["tiny"].manifest["timing"]
    assert timing["bottleneck"] == slowest["name"] and timing["interval"] == slowest["timing"]["interval"] == 4
    assert "clock cycles" in timing["unit"]


@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple),
    fmt=st.builds(FixedFormat, st.integers(1, 70), st.integers(-9, 80), st.booleans()),
    lanes=st.integers(1, 9),
    direction=st.sampled_from(["in", "out"]),
)
def test_a_port_read_back(shape: tuple[int, ...], fmt: FixedFormat, lanes: int, direction: Any) -> None:
    stream = Stream("data_x", direction, shape, fmt, (lanes, *[1] * (len(shape) - 1)))
    assert port_stream(port_record(stream, "x")) == stream


def test_a_design_read_back(designs: dict[str, mase_hw.Design]) -> None:
    for design in designs.values():
        loaded = mase_hw.load_design(design.path)
        assert loaded.streams == design.streams and loaded.timing == design.timing and loaded.graph is None
        assert repr(loaded) == repr(design) and str(design.path) in repr(design)
        with pytest.raises(ConfigError, match="loaded from disk and has no model"):
            _ = loaded.model


def test_frames_by_shape(designs: dict[str, mase_hw.Design]) -> None:
    """An example of three rows makes frames of three rows; both inputs must hold as many frames."""
    reference = Reference(designs["two_inputs"].graph)  # type: ignore[arg-type]
    stimulus, results = reference.run((inputs(6, 4), inputs(4, 2, 3)))
    assert {n: v.shape for n, v in {**stimulus, **results}.items()} == {
        "data_in_0": (2, 3, 4), "data_in_1": (2, 2, 2, 3), "data_out_0": (2, 3, 4), "data_out_1": (2, 2, 2),
    }  # fmt: skip
    by_name = reference.run({"y": inputs(4, 2, 3), "x": inputs(6, 4)})
    assert all((by_name[1][n] == results[n]).all() for n in results)


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        (inputs(3, 4), ["wrong number of inputs", "['x', 'y']"]),
        ((inputs(3, 4),) * 3, ["wrong number of inputs", "got: 3"]),
        ({"x": inputs(3, 4), "z": inputs(2, 2, 3)}, ["wrong names of inputs", "['x', 'z']"]),
        ((inputs(4, 4), inputs(2, 2, 3)), ["shape of the example", "where: x", "[4, 4]", "multiple of 3"]),
        ((inputs(3, 5), inputs(2, 2, 3)), ["shape of the example", "where: x", "[3, 5]"]),
        ((inputs(3, 4), inputs(2, 6)), ["shape of the example", "where: y", "[2, 6]"]),
        ((inputs(6, 4), inputs(2, 2, 3)), ["different numbers of frames", "'x': 2", "'y': 1"]),
        ((torch.zeros(0, 4), torch.zeros(0, 2, 3)), ["holds no frames", "where: x", "[0, 4]", "one frame or several"]),
    ],
)
def test_inputs_that_do_not_fit(
    designs: dict[str, mase_hw.Design], given: Any, texts: list[str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        designs["two_inputs"].simulate(given, work_dir=tmp_path / "work")
    for text in texts:
        assert text in str(caught.value), str(caught.value)
    assert not (tmp_path / "work").exists()
