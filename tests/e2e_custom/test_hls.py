"""Ops in C++ for an HLS tool: the C++ against the golden, and RTL with the ports of the tool in a design."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw import cli
from mase_hw.catalogue import Arithmetic, Latency
from mase_hw.design.design import Design
from mase_hw.errors import ConfigError, SimulationError, ToolError, UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.ir.custom.hls import HlsOp, refuse
from mase_hw.numerics import cast
from mase_hw.steps import Steps
from mase_hw.streams import Stream
from mase_hw.synth import hls

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "hls_op"
sys.path.insert(0, str(EXAMPLE))
import leaky_shift_hls  # noqa: E402

INPUTS = torch.arange(-64, 64).reshape(16, 8) / 32
TOOLS_RTL = """
// With the ports that the tool gives to AXI4-Stream arguments; two registers, each taken when the next one is free.
`timescale 1 ns / 1 ps
module {top} (ap_clk, ap_rst_n, data_in_0_TDATA, data_in_0_TVALID, data_in_0_TREADY,
              data_out_0_TDATA, data_out_0_TVALID, data_out_0_TREADY);
input ap_clk; input ap_rst_n;
input [15:0] data_in_0_TDATA; input data_in_0_TVALID; output data_in_0_TREADY;
output [15:0] data_out_0_TDATA; output data_out_0_TVALID; input data_out_0_TREADY;
reg [15:0] first, second; reg first_valid, second_valid; wire [15:0] result;
// x / 4 of what is negative, ties to the even neighbour.
genvar i;
generate for (i = 0; i < 2; i = i + 1) begin : lane
  wire [7:0] x = first[8*i+:8];
  wire up = x[1] & (x[0] | x[2]);
  assign result[8*i+:8] = x[7] ? {{2'b11, x[7:2]}} + {{7'd0, up}} : x;
end endgenerate
assign data_in_0_TREADY = ~first_valid | ~second_valid | data_out_0_TREADY;
assign data_out_0_TDATA = second; assign data_out_0_TVALID = second_valid;
always @ (posedge ap_clk) begin
  if (~ap_rst_n) begin first_valid <= 0; second_valid <= 0; end
  else begin
    if (data_in_0_TREADY) begin first <= data_in_0_TDATA; first_valid <= data_in_0_TVALID; end
    if (~second_valid | data_out_0_TREADY) begin second <= result; second_valid <= first_valid; end
  end
end
endmodule
"""


def entry(root: Path, **keys: Any) -> dict[str, Any]:
    (given,) = leaky_shift_hls.CUSTOM_OPS["modules"].values()
    return {**given, "root": root, **keys}


def compiled(out: Path, said: Mapping[str, Any]) -> Design:
    config = {
        "quantize": {"default": {"config": {"name": "fixed", "data_in_width": 8, "data_out_width": 8}}},
        "hardware": {"parallelism": {"0": {"data_in_0": 2}}},
    }
    config["quantize"]["default"]["config"] |= {"data_in_frac_width": 5, "data_out_frac_width": 5}
    ops = {"modules": {leaky_shift_hls.LeakyShift: said}}
    model = nn.Sequential(leaky_shift_hls.LeakyShift(2))
    return mase_hw.compile(model, INPUTS[:1], config, out=out, custom_ops=ops)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(EXAMPLE / "src", tmp_path_factory.mktemp("hls") / "src"))


@pytest.fixture(scope="module")
def design(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Design:
    return compiled(tmp_path_factory.mktemp("design") / "made", entry(source))


def test_the_bundle_has_what_the_tool_takes(design: Design) -> None:
    (node,) = design.record.hls
    assert node.rtl == "stand-in" and node.module == "hls__0"
    folder = f"hls/{node.top}"
    names = ["data_in_0.dat", "data_out_0.dat", "leaky_shift_hls.h", "testbench.cpp", "tool.tcl", "top.cpp"]
    assert sorted(n.rpartition("/")[2] for n in design.record.files if n.startswith(folder)) == names
    top = (design.path / folder / "top.cpp").read_text(encoding="utf-8")
    for pragma in ("axis port = data_in_0", "axis port = data_out_0", "ap_ctrl_none port = return", "style = flp"):
        assert pragma in top
    assert f"set_top {node.top}\n" in (design.path / folder / "tool.tcl").read_text(encoding="utf-8")
    # Every code, two in a beat, lane 0 in the low bits; -128 / 4 is -32, -127 / 4 is -31.75 and rounds to -32.
    words = [(design.path / folder / f"data_{way}_0.dat").read_text().split() for way in ("in", "out")]
    assert [len(w) for w in words] == [128, 128] and [w[0] for w in words] == ["8180", "e0e0"]


def test_the_stand_in_is_in_the_design(design: Design) -> None:
    assert "rtl/external/leaky_shift_stand_in.sv" in design.record.rtl
    assert design.simulate(INPUTS, engine="batch", stalls=0.3).passed


def test_the_cpp_is_compared(design: Design, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["hls", str(design.path)]) == cli.OK
    said = capsys.readouterr().out
    assert "128 beats equal" in said and "untried" in said


def test_another_rounding_is_found(design: Design) -> None:
    """Half up instead of half even: of the codes in order, -126 / 4 = -31.5 is the first one that differs."""
    (node,) = design.record.hls
    files = {path.name: path.read_bytes() for path in (design.path / "hls" / node.top).iterdir()}
    assert files["top.cpp"].count(b"AP_RND_CONV") == 1
    files["top.cpp"] = files["top.cpp"].replace(b"AP_RND_CONV", b"AP_RND")
    passed, said = hls.run_testbench(files, hls.headers(), node.node)
    assert not passed and said.startswith("beat 1: ") and said.endswith("instead of 0xe1e0")


def op(source: Path) -> HlsOp:
    return HlsOp("leaky_shift_hls", source, "leaky_shift_hls.h", "hls_rtl", "", (), leaky_shift_hls.golden)


def ports(lanes: int = 3, shape: tuple[int, ...] = (4, 16), out: FixedFormat | None = None) -> tuple[Stream, ...]:
    into = Stream("data_in_0", "in", shape, FixedFormat(6, 4), (lanes,))
    return (into, Stream("data_out_0", "out", shape, out or FixedFormat(5, 2), (lanes,)))


@pytest.mark.slow
@pytest.mark.parametrize("rounding", list(Rounding))
@pytest.mark.parametrize("overflow", list(Overflow))
def test_every_mode(source: Path, rounding: Rounding, overflow: Overflow) -> None:
    """Every code, in lanes that do not divide; the numbers beyond the result's range are those above 3.875."""
    streams = ports(out=FixedFormat(4, 2))
    a = Arithmetic({s.name: s.fmt for s in streams}, rounding, overflow, {"shift": 1})  # type: ignore[arg-type]
    params = dataclasses.make_dataclass("P", [("DATA_IN_0_PRECISION_0", int), ("DATA_IN_0_PRECISION_1", int)])
    with_shift = dataclasses.make_dataclass("Q", [("SHIFT", int)], bases=(params,), frozen=False)
    made = op(source).generated("node", with_shift(6, 4, 1), a, streams)
    assert made.beside is not None
    files = {path.rpartition("/")[2]: text.encode() for path, text in made.beside().items()}
    passed, said = hls.run_testbench(files, hls.headers(), "node")
    assert passed and said == "24 beats equal"


def test_the_rtl_of_the_tool(source: Path, tmp_path: Path) -> None:
    """RTL under the name of the top function takes the place of the stand-in, with the cycles that are given for it."""

    def latency(p: Any) -> Latency:
        return Latency.from_steps(Steps.registered(p.data_in_0.beats, pipe=2))

    root = Path(shutil.copytree(source, tmp_path / "src"))
    said = entry(root, latency=latency)
    top = compiled(tmp_path / "before", said).record.hls[0].top
    folder = root / "hls_rtl" / top
    folder.mkdir(parents=True)
    (folder / f"{top}.v").write_text(TOOLS_RTL.format(top=top), encoding="utf-8")
    made = compiled(tmp_path / "made", said)
    assert made.record.hls[0].rtl == "tool" and f"rtl/external/{top}/{top}.v" in made.record.rtl
    assert not any("stand_in" in path for path in made.record.rtl)
    assert made.simulate(INPUTS, engine="batch", stalls=0.3).passed
    # Ties to the upper neighbour: another number.
    (folder / f"{top}.v").write_text(TOOLS_RTL.format(top=top).replace("(x[0] | x[2])", "1'b1"), encoding="utf-8")
    wrong = compiled(tmp_path / "wrong", said)
    assert not wrong.simulate(INPUTS, engine="batch", check=False).passed


def test_other_cpp_is_another_top(source: Path, design: Design, tmp_path: Path) -> None:
    root = Path(shutil.copytree(source, tmp_path / "src"))
    with (root / "leaky_shift_hls.h").open("a", encoding="utf-8") as file:
        file.write("// another\n")
    assert compiled(tmp_path / "made", entry(root)).record.hls[0].top != design.record.hls[0].top


def test_without_rtl_nothing_is_simulated(source: Path, tmp_path: Path) -> None:
    made = compiled(tmp_path / "made", entry(source, stand_in=None))
    (node,) = made.record.hls
    assert node.rtl == "missing"
    with pytest.raises(SimulationError, match="there is no RTL of the HLS tool"):
        made.simulate(INPUTS, engine="batch")


def test_no_headers(design: Design, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no headers of ap_types"):
        hls.check_hls(design, include=tmp_path)
    monkeypatch.setattr(hls, "PLACES", (("no_such_package", "include"),))
    with pytest.raises(ToolError, match=r"pip install 'mase-hw\[hls\]'"):
        hls.check_hls(design)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no file": ({"file": "other.h"}, r"the C\+\+ of an HLS op is missing"),
    "no function": ({"module": "other", "file": "leaky_shift_hls.h"}, "does not define a function 'other'"),
    "no stand-in": ({"stand_in": "other.sv"}, "a file of a custom op is missing"),
    "no module": ({"stand_in": "leaky_shift_hls.h"}, "does not define module 'leaky_shift_hls'"),
    "static": ({"static": ("weight",)}, "takes no parameters from a memory"),
    "no folder": ({"root": None}, "needs the folder"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused(source: Path, case: str, tmp_path: Path) -> None:
    keys, message = WRONG[case]
    with pytest.raises(ConfigError, match=message):
        compiled(tmp_path / "made", {**entry(source), **keys})
    assert not (tmp_path / "made").exists()


def test_streams_that_are_refused() -> None:
    one, two = ports()
    refuse("node", (one, two))
    for streams, message in (
        ((one, two, two), "2 results"),
        ((one, ports(2)[1]), "beats of 3"),
        (ports(700, (1, 700)), "at most 4096"),
    ):
        with pytest.raises(UnsupportedError) as error:
            refuse("node", streams)
        assert message in str(error.value)


def test_two_inputs_and_a_wide_beat(source: Path) -> None:
    """The golden of a sum: extreme numbers first, then random ones, in words of 1,200 bits."""
    fmt = FixedFormat(12, 4)
    wide = [Stream(name, "in", (2, 100), fmt, (100,)) for name in ("data_in_0", "data_in_1")]
    streams = (*wide, Stream("data_out_0", "out", (2, 100), fmt, (100,)))

    def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {"data_out_0": cast(t["data_in_0"] + t["data_in_1"], 4, a.formats["data_out_0"])}

    made = dataclasses.replace(op(source), golden=golden).generated(
        "node",
        dataclasses.make_dataclass("P", [("SHIFT", int)])(1),
        Arithmetic({s.name: fmt for s in streams}),
        streams,
    )
    assert made.beside is not None
    files = {path.rpartition("/")[2]: text for path, text in made.beside().items()}
    assert "#define AP_INT_MAX_W 1200" in files["top.cpp"] and "data_in_1_lanes, data_out_0_lanes" in files["top.cpp"]
    first = [int(files[f"{name}.dat"].split()[0][-3:], 16) for name in ("data_in_0", "data_in_1", "data_out_0")]
    assert first == [0x800, 0x800, 0x800]
