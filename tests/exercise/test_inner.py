"""The stalled copy of a top level: a connector on every edge, and nothing else than a top level of ours is changed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mase_hw
from mase_hw import cli
from mase_hw.emit.netlist import Netlist
from mase_hw.errors import ConfigError, EmitError
from mase_hw.simulate.exercise import stalled
from mase_hw.simulate.plan import InnerStalls

CONNECTOR = re.compile(
    r"\n  logic \[\d+:0\] \w+;\n  logic \w+;\n  logic \w+;\n  exercise_stall #\(.*?\n  \);\n", re.DOTALL
)


def top(design: mase_hw.Design) -> tuple[str, Path]:
    path = design.path / "rtl" / "top.sv"
    return path.read_text(), path


def test_every_edge_has_one(cnn: mase_hw.Design) -> None:
    """And taking them away again gives the top level that is synthesised."""
    assert cnn.graph is not None
    netlist: Netlist = cnn.graph.meta["netlist"]
    text = stalled(*top(cnn))
    for net in netlist.nets:
        assert text.count(f") stall_{net.name} (\n") == 1, net.name
        for suffix in ("", "_valid", "_ready"):
            # Declared once, at the connector once, and at its reader once.
            assert len(re.findall(rf"\b{net.name}_stalled{suffix}\b", text)) == 3, net.name
    salts = re.findall(r"\.SALT\((\d+)\)", text)
    assert len(set(salts)) == len(salts) == len(netlist.nets)
    bare = CONNECTOR.sub("", text).replace("_stalled", "")
    assert bare == top(cnn)[0]


@pytest.mark.parametrize(
    ("find", "replace", "said"),
    [
        (r"\.NAME \(", ".NAME(", "stream checks can be read"),
        (r"\.data_in_0_valid\(net_c1_valid\)", ".data_in_0_valid(1'b1)", "does not read net_c1_valid"),
        (r"\) u_relu \(\n", ") u_other (\n", "does not read net_c1"),
        (r"assign data_out_0_valid = \w+;", "assign data_out_0_valid = 1'b0;", "does not read net_fc_valid"),
        (r"  logic net_fc_ready;\n", "  wire net_fc_ready;\n", "net_fc is not declared"),
    ],
)
def test_another_top_level_is_refused(cnn: mase_hw.Design, find: str, replace: str, said: str) -> None:
    text, path = top(cnn)
    changed, count = re.subn(find, replace, text, count=1)
    assert count == 1
    with pytest.raises(EmitError, match="its edges cannot be stalled") as caught:
        stalled(changed, path)
    assert said in str(caught.value.got) and caught.value.remedy


def test_names_that_are_taken() -> None:
    """A node may be called like the net behind a connector."""
    text = """
  logic [3:0] net_a;
  logic net_a_valid;
  logic net_a_ready;
  logic [3:0] net_a_stalled;

  assign data_out_0 = net_a;
  assign data_out_0_valid = net_a_valid;
  assign net_a_ready = data_out_0_ready;

  stream_check #(
      .WIDTH(4),
      .NAME ("u_a.data_out_0 to data_out_0"),
      .FRAME(2)
  ) check_net_a (
"""
    made = stalled(text, Path("top.sv"))
    assert "assign data_out_0 = net_a_stalled_;" in made and ".FRAME(2), .SALT(1), .EDGES(1)" in made


def test_plusargs() -> None:
    said = ("+inner_seed=a", "+inner_closes=40000000", "+inner_share=400000000", "+inner_interval=1f")
    assert InnerStalls(0.25, 31).plusargs(10) == said
    assert InnerStalls(0.0, 1).plusargs(-1)[0] == "+inner_seed=ffffffffffffffff"
    for wrong in ((1.0, 4), (-0.1, 4), (0.5, 0)):
        with pytest.raises(ConfigError):
            InnerStalls(*wrong)


@pytest.mark.parametrize("value", [-0.1, 1.0, "0.2", None, float("nan"), (0.1,)])
def test_bad_probabilities(cnn: mase_hw.Design, value: object, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="inner_stalls") as caught:
        cnn.simulate(inner_stalls=value, work_dir=tmp_path / "work")  # type: ignore[arg-type]
    assert caught.value.remedy and not (tmp_path / "work").exists()
    assert cli.main(["sim", str(cnn.path), "--inner-stalls", "1.5"]) == cli.UNUSABLE
