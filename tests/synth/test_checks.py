"""What is refused, what is warned about, and how cells are counted; no tool runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from mase_hw.cost.devices import DEVICES
from mase_hw.errors import ConfigError, ResourceError, ToolError
from mase_hw.hardware.manifest import Instance
from mase_hw.synth.checks import check_capacity, check_elaborated, check_outputs, check_rows
from mase_hw.synth.place import read_timing
from mase_hw.synth.replay import cell_models
from mase_hw.synth.report import MappedMemory, Row, read_statistics
from mase_hw.synth.synthesise import _placeable
from mase_hw.synth.targets import COLUMNS, TARGETS, Elaborated, Memory, find_device, find_target

from .conftest import manifest

XC7 = TARGETS["xc7"]
MANIFEST = manifest("top", Instance(name="u_fc", node="fc", module="fixed_linear", parameters={}, multipliers=4))


def use(**figures: int) -> dict[str, int]:
    return dict.fromkeys(("lut", "ff", "dsp", "bram"), 0) | figures


def test_a_device_that_is_too_small_is_refused_with_every_resource() -> None:
    with pytest.raises(ResourceError, match=r"lut 20,801 of 20,800; dsp 91 of 90"):
        check_capacity(use(lut=20_801, dsp=91), DEVICES["xc7a35t"], "counted")


def test_a_nearly_full_device_is_a_warning() -> None:
    assert check_capacity(use(dsp=72), DEVICES["xc7a35t"], "counted") == []
    (warning,) = check_capacity(use(dsp=73), DEVICES["xc7a35t"], "counted")
    assert "81% full: 73 of 90 dsp" in warning


def test_an_estimate_refuses_only_what_is_far_too_large() -> None:
    assert check_capacity(use(lut=25_000), DEVICES["xc7a35t"], "estimated", margin=1.5)
    with pytest.raises(ResourceError):
        check_capacity(use(lut=31_201), DEVICES["xc7a35t"], "estimated", margin=1.5)
    with pytest.raises(ResourceError):  # multipliers are counted, not estimated
        check_capacity(use(dsp=91), DEVICES["xc7a35t"], "estimated", margin=1.5)


def test_every_device_belongs_to_a_target() -> None:
    for name, device in DEVICES.items():
        assert name == device.name == name.lower() and device.target in TARGETS and device.source


def test_wrong_names() -> None:
    with pytest.raises(ConfigError, match="did you mean 'ecp5'"):
        find_target("ecp")
    with pytest.raises(ConfigError, match="expected: target ecp5"):
        find_device("LFE5U-85F", XC7)
    with pytest.raises(ConfigError, match="unknown device"):
        find_device("xc7a", XC7)


def test_memories_that_cannot_be_block_ram_are_named() -> None:
    memories = [
        Memory("u_fc", "results", 1024, 32, True, False),
        Memory("u_fc", "good", 1024, 32, True, True),
        Memory("u_fc", "small", 64, 8, True, False),
    ]
    found = check_elaborated(Elaborated(multipliers={"u_fc": [(8, 8)] * 4}, memories=memories), MANIFEST, XC7)
    assert found == ["u_fc.results (1024 x 32 bits) cannot be block RAM: it is read without a clock"]


def test_multipliers_that_are_missing_or_too_wide() -> None:
    found = check_elaborated(Elaborated(multipliers={"u_fc": [(8, 8), (30, 8)]}), MANIFEST, XC7)
    assert "asks for 4 multipliers and has 2" in found[0]
    assert "1 multipliers of u_fc are wider" in found[1]


def test_latches_are_refused() -> None:
    with pytest.raises(ResourceError, match="latches"):
        check_elaborated(Elaborated(latches=["u_fc.x"]), MANIFEST, XC7)


def row(**counts: int) -> Row:
    return Row("u_fc", "fixed_linear", dict.fromkeys(COLUMNS, 0) | counts, {}, 4, 4)


def test_mapped_designs() -> None:
    assert check_rows([row(dsp=4, lut=10)], [], XC7) == []
    assert "has 3 DSP blocks for 4 multipliers" in check_rows([row(dsp=3)], [], XC7)[0]
    assert "nothing is left of u_fc" in check_rows([row()], [], XC7)[0]
    large = MappedMemory("u_fc_weight", "mem", 1024, 32, "logic")
    assert "u_fc_weight.mem (1024 x 32 bits) is in logic, not in block RAM" in check_rows([], [large], XC7)[0]
    assert check_rows([], [MappedMemory("u_fc_weight", "mem", 1024, 32, "block RAM")], XC7) == []


@pytest.mark.parametrize(
    ("bits", "message"),
    [({"data_out_0": [7, "x"]}, "bits 1"), ({"data_out_0_valid": ["0"]}, "data_out_0_valid")],
)
def test_outputs_that_never_move(bits: dict[str, list[Any]], message: str, tmp_path: Path) -> None:
    ports = {"data_in_0_ready": [5], "data_out_0": [6, 7], "data_out_0_valid": [8]} | bits
    netlist = {"modules": {"top": {"ports": {name: {"bits": value} for name, value in ports.items()}}}}
    (tmp_path / "netlist.json").write_text(json.dumps(netlist))
    with pytest.raises(ResourceError, match=message):
        check_outputs(tmp_path / "netlist.json", MANIFEST)


def statistics(path: Path, cells: dict[str, int]) -> Path:
    modules = {"\\fixed_linear$top.u_fc": cells, "\\top": {"fixed_linear$top.u_fc": 1}}
    entries = {name: {"num_cells_by_type": kinds} for name, kinds in modules.items()}
    (path / "statistics.json").write_text(json.dumps({"modules": entries}))
    return path / "statistics.json"


def test_cells_are_counted_by_instance(tmp_path: Path) -> None:
    cells = {"LUT6": 3, "RAM32M": 2, "FDRE": 7, "DSP48E1": 4, "RAMB36E1": 1, "$scopeinfo": 9, "ODD": 1}
    (found,) = read_statistics(statistics(tmp_path, cells), MANIFEST, XC7, Elaborated())
    assert found.counts == {"lut": 11, "ff": 7, "carry": 0, "dsp": 4, "bram": 2, "lutram": 8}
    assert (found.instance, found.multipliers, found.others) == ("u_fc", 4, {"ODD": 1})
    assert "no column counts: 1 ODD" in check_rows([found], [], XC7)[-1]


def test_a_latch_in_the_netlist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="u_fc: LDCE"):
        read_statistics(statistics(tmp_path, {"LDCE": 1}), MANIFEST, XC7, Elaborated())


def test_statistics_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "statistics.json").write_text("{}")
    with pytest.raises(ToolError, match="cannot be read"):
        read_statistics(tmp_path / "statistics.json", MANIFEST, XC7, Elaborated())


def test_a_cell_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "cells.v").write_text("module A(output Y);\n B b(Y);\nendmodule\nmodule B(output Y);\nendmodule\n")
    assert cell_models([tmp_path / "cells.v"], {"A"}).count("endmodule") == 2
    with pytest.raises(ToolError, match="RAMB18E1"):
        cell_models([tmp_path / "cells.v"], {"RAMB18E1"})


def test_the_limiting_path_is_told_by_instance(tmp_path: Path) -> None:
    def step(kind: str, delay: float, start: str, end: str) -> dict[str, Any]:
        return {"type": kind, "delay": delay, "from": {"cell": start}, "to": {"cell": end}}

    inside = [
        step("clk-to-q", 0.5, "u_fc.a", "u_fc.a"),
        step("routing", 2.0, "u_fc.a", "u_fc.m"),
        step("setup", 0.25, "u_fc.m", "u_fc.m"),
    ]
    paths = [
        {"from": "<async>", "to": "posedge clk", "path": [step("routing", 99.0, "pin", "u_fc.a")]},
        {"from": "posedge clk", "to": "posedge clk", "path": inside},
    ]
    report = {"fmax": {"clk": {"achieved": 363.6, "constraint": 100}}, "critical_paths": paths}
    (tmp_path / "timing.json").write_text(json.dumps(report))
    found = read_timing(tmp_path / "timing.json", MANIFEST)
    assert (found["mhz"], found["logic"], found["routing"]) == (363.6, 0.75, 2.0)
    assert found["limited_by"] == "u_fc (fixed_linear)"
    (tmp_path / "timing.json").write_text(json.dumps({"fmax": {}, "critical_paths": paths}))
    with pytest.raises(ToolError, match="nextpnr"):
        read_timing(tmp_path / "timing.json", MANIFEST)


def test_a_device_that_no_router_knows_is_refused() -> None:
    """It may be one of a plug-in."""
    other = dataclasses.replace(DEVICES["lfe5u-85f"], name="lfe5u-86f")
    with pytest.raises(ConfigError, match="cannot be placed and routed"):
        _placeable(TARGETS["ecp5"], other)
    assert _placeable(TARGETS["ecp5"], None) is DEVICES["lfe5u-85f"]
