"""The bundle: the same bytes every time, written whole or not at all, and every later change is noticed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mase_hw
from mase_hw import CompileConfig
from mase_hw.emit.handoff import emit_handoff_transform_pass
from mase_hw.emit.passes import (
    emit_bram_transform_pass,
    emit_cocotb_transform_pass,
    emit_internal_rtl_transform_pass,
    emit_verilog_top_transform_pass,
)
from mase_hw.emit.read_bundle import read_manifest
from mase_hw.errors import EmitError, PassOrderError
from mase_hw.vectors.passes import choose_vectors_analysis_pass
from tests.emit.bundles import CONFIG, content, emit, rewrite
from tests.unit.pipeline import MLP, Functional, inputs, mapped, seeded


def test_what_is_in_it(emitted: Path) -> None:
    files = content(emitted)
    manifest = json.loads(files["manifest.json"])
    assert {"rtl/top.sv", "rtl/files.f", "rtl/ops/fixed_linear.sv", "sim/simulate.py"} <= set(files)
    assert {"mem/fc1_weight.mem", "mem/fc1_bias.mem", "mem/fc2_weight.mem", "mem/fc2_bias.mem"} <= set(files)
    assert {"vectors/data_in_0.mem", "vectors/data_out_0.mem"} <= set(files)
    assert manifest["files"] == {n: hashlib.sha256(b).hexdigest() for n, b in files.items() if n != "manifest.json"}
    assert manifest["rtl"] == files["rtl/files.f"].decode().split()
    added = {"rtl/top_axis.v", "rtl/lib/skid_buffer.sv"}
    assert set(manifest["rtl"]) | added == {n for n in files if n.startswith("rtl/") and n.endswith((".sv", ".v"))}
    assert {"README.md", "top.core", "rtl/files_axis.f", "examples/top_example.v"} <= set(files)
    assert {
        "sim/top_tb.sv",
        "sim/top_tb.f",
        "sim/top_axis_tb.sv",
        "sim/tb_file.sv",
        "sim/tb_source.sv",
        "sim/tb_sink.sv",
    } <= set(files)
    assert {"synth/vivado.tcl", "synth/quartus.tcl", "synth/clock.xdc", "synth/yosys_ecp5.ys"} <= set(files)


def test_rtl_is_copied_unchanged(emitted: Path, root: Path) -> None:
    for name in json.loads((emitted / "manifest.json").read_text())["rtl"]:
        if name != "rtl/top.sv":
            assert (emitted / name).read_bytes() == (root / "rtl_templates" / name.removeprefix("rtl/")).read_bytes()


SCRIPT = """
import sys
from pathlib import Path
import mase_hw
from tests.unit.pipeline import MLP, Functional, inputs, seeded
from tests.emit.bundles import CONFIG
mase_hw.compile(seeded(MLP), inputs(1, 6), CONFIG, out=Path(sys.argv[1]) / "mlp")
mase_hw.compile(seeded(Functional), inputs(2, 3, 4), out=Path(sys.argv[1]) / "functional")
"""


def test_same_bytes_in_every_process(emitted: Path, tmp_path: Path, root: Path) -> None:
    """Another process, another hash seed, other folders and working directories, another time zone."""
    emit(tmp_path / "0" / "again")
    assert content(tmp_path / "0" / "again") == content(emitted)
    assert content(emit(tmp_path / "0" / "again").path) == content(emitted), "on top of an older bundle"
    out = tmp_path / "other"
    out.mkdir()
    env = {**os.environ, "PYTHONHASHSEED": "4242", "PYTHONPATH": str(root), "TZ": "UTC4"}
    subprocess.run([sys.executable, "-c", SCRIPT, str(out)], cwd=out, env=env, check=True)
    assert content(out / "mlp") == content(emitted)
    mase_hw.compile(seeded(Functional), inputs(2, 3, 4), out=tmp_path / "functional")
    assert content(out / "functional") == content(tmp_path / "functional")


def test_compile_is_the_passes_in_order(emitted: Path, tmp_path: Path) -> None:
    """MASE's way of working: one pass after the other, the last one told where to write."""
    graph, _ = mapped(seeded(MLP), inputs(1, 6), config=CompileConfig().quantize, hardware=CONFIG["hardware"])
    graph, info = emit_verilog_top_transform_pass(graph, {"top_name": "top"})
    assert info["files"] == ["rtl/top.sv"] and info["project_dir"] is None and info["timing"]["interval"] == 4
    graph, info = emit_internal_rtl_transform_pass(graph)
    assert {"rtl/ops/fixed_linear.sv", "report/network.svg"} <= set(info["files"])
    graph, info = emit_bram_transform_pass(graph)
    assert info["words"]["mem/fc1_weight.mem"] == 4
    with pytest.raises(PassOrderError, match="no test vectors") as caught:
        emit_cocotb_transform_pass(graph)
    assert "choose_vectors_analysis_pass" in str(caught.value.remedy)
    graph, chosen = choose_vectors_analysis_pass(graph, {"example": {"x": inputs(1, 6)}})
    graph, info = emit_cocotb_transform_pass(graph)
    assert info["frames"] == chosen["frames"] <= 16
    graph, info = emit_handoff_transform_pass(graph, {"project_dir": tmp_path / "b"})
    assert info["handoff"]["options"]["clock_mhz"] == 100 and info["project_dir"] == str(tmp_path / "b")
    assert content(tmp_path / "b") == content(emitted)


def test_other_weights_other_bytes(emitted: Path, tmp_path: Path) -> None:
    other = mase_hw.compile(seeded(MLP, 7), inputs(1, 6), CONFIG, out=tmp_path / "other").path
    assert content(other).keys() == content(emitted).keys()
    assert content(other)["mem/fc1_weight.mem"] != content(emitted)["mem/fc1_weight.mem"]


def test_nothing_of_this_machine_or_day(emitted: Path, root: Path) -> None:
    forbidden = [str(emitted), str(emitted.parent), str(root), str(Path.home()), sys.prefix, os.uname().nodename]
    days, months = "Mon|Tue|Wed|Thu|Fri|Sat|Sun", "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
    date = re.compile(rf"\b(19|20)\d\d-\d\d-\d\d|\b\d\d:\d\d:\d\d\b|(?:{days}) (?:{months})")
    for name, data in content(emitted).items():
        text = data.decode("utf-8" if name.endswith(".svg") else "ascii")
        assert not [f for f in forbidden if len(f) > 3 and f in text], name
        assert not date.search(text), name
        assert not re.search(r"(?<![\w./*:])/(?:usr|home|var|opt|mnt)/", text), name


@pytest.mark.parametrize(
    "name", ["mem/fc1_weight.mem", "rtl/top.sv", "rtl/lib/stream_fifo.sv", "vectors/data_out_0.mem"]
)
def test_tampering(older: Path, name: str) -> None:
    file = older / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(EmitError, match=r"(?s)was changed after emission.*sha256 [0-9a-f]{16}.*do not edit") as caught:
        mase_hw.load_design(older)
    assert caught.value.node == str(file)
    file.unlink()
    with pytest.raises(EmitError, match="a file of the bundle is missing") as caught:
        mase_hw.load_design(older)
    assert caught.value.node == str(file)
    with pytest.raises(EmitError, match="missing"):
        mase_hw.Design(older, verify=False)


def test_a_change_after_loading(older: Path) -> None:
    design = mase_hw.load_design(older)
    (older / "rtl/top.sv").write_text("module top; endmodule\n")
    with pytest.raises(EmitError, match=r"was changed after emission"):
        design.simulate()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '"text"', '{"format_version": 1}', '{"format_version": 99, "files": {}}']
)
def test_broken_manifest(older: Path, text: str) -> None:
    (older / "manifest.json").write_text(text)
    with pytest.raises(EmitError) as caught:
        mase_hw.load_design(older)
    if "99" in text:
        assert "another format version" in str(caught.value) and "emit it again" in str(caught.value)


NOT_SAID = [
    ("no hash of 1 files: rtl/top.sv", lambda m: m["files"].pop("rtl/top.sv")),
    ("no hash of 1 files: mem/fc1_weight.mem", lambda m: m["files"].pop("mem/fc1_weight.mem")),
    ("no hash of 1 files: vectors/data_out_0.mem", lambda m: m["files"].pop("vectors/data_out_0.mem")),
    ("no hash of 1 files: sim/top_tb.sv", lambda m: m["files"].pop("sim/top_tb.sv")),
    ("no hash of 1 files: rtl/files.f", lambda m: m["files"].pop("rtl/files.f")),
    (r"no hash of \d\d files: mem/fc1_bias.mem, mem/fc1_weight.mem", lambda m: m["files"].clear()),
    (r"damaged.*`int` >= 1 - at `\$\.timing\.interval", lambda m: m["timing"].update(interval=0)),
    (r"damaged.*got `float` - at `\$\.timing\.interval", lambda m: m["timing"].update(interval=2.5)),
    (r"damaged.*got `bool` - at `\$\.timing\.interval", lambda m: m["timing"].update(interval=True)),
    ("timing that no design can have.*last -1", lambda m: m["timing"].update(last=-1, fill=-2)),
    ("timing that no design can have.*fill 900", lambda m: m["timing"].update(fill=900)),
    ("manifest is damaged.*missing required field `interval`", lambda m: m["timing"].pop("interval")),
    ("manifest is damaged", lambda m: m.update(rtl=None)),
    ("manifest is damaged", lambda m: m.update(vectors=[])),
]


@pytest.mark.parametrize(("message", "change"), NOT_SAID)
def test_edited_manifest(older: Path, message: str, change: Callable[[dict[str, Any]], object]) -> None:
    """A stray edit is seen by the manifest's own hash; with that computed anew, by what it does not say."""
    before = (older / "manifest.json").read_text()
    rewrite(older, lambda m: None, honest=False)
    assert mase_hw.load_design(older).timing["interval"] > 0, "the forged hash is the right one"
    (older / "manifest.json").write_text(before)
    for honest, text in ((True, "manifest was changed after emission"), (False, message)):
        rewrite(older, change, honest=honest)
        with pytest.raises(EmitError, match=f"(?s){text}.*what to do: emit the bundle again") as caught:
            mase_hw.load_design(older)
        assert caught.value.node == str(older / "manifest.json")
        (older / "manifest.json").write_text(before)


def test_bundle_without_a_hash_of_its_manifest(older: Path) -> None:
    rewrite(older, lambda m: m.pop("digest"), honest=True)
    with pytest.raises(EmitError, match=r"(?s)incomplete.*no digest.*emit the bundle again"):
        mase_hw.load_design(older)


def test_not_a_bundle(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(EmitError, match=r"(?s)not a bundle.*manifest\.json"):
            read_manifest(folder)
