"""Synthesis end to end on a tiny design: counts, replay, faults in the netlist, caching."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from torch import nn

import mase_hw
from mase_hw.cli import main
from mase_hw.errors import ConfigError, EmitError, MismatchError, ResourceError, ToolError
from mase_hw.host.toolchain import find
from mase_hw.synth.checks import check_family
from mase_hw.synth.place import ROUTERS, Placement
from mase_hw.synth.replay import model_files, replay
from mase_hw.synth.report import Report
from mase_hw.synth.synthesise import synthesise
from mase_hw.synth.targets import PRODUCT_LUTS, TARGETS
from mase_hw.synth.tools import _check_cache, run_nextpnr, run_yosys

from .conftest import compiled, work_of


def netlist_cells(netlist: str) -> set[str]:
    """Types of the cells that a netlist instantiates."""
    return set(re.findall(r"^  ([A-Z][\w$]+) (?:#\(|\\|_)", netlist, re.MULTILINE))


def test_the_netlist_gives_the_same_bits(mapped: Report) -> None:
    assert mapped.replay is not None
    # 16 frames of 4 values in beats of 2, at full rate and with stalls.
    assert (mapped.replay["beats"], mapped.replay["mismatches"]) == (2 * 16 * 2, 0)


def test_dsp_blocks_are_the_multipliers_asked_for(tiny: mase_hw.Design, mapped: Report) -> None:
    assert mapped.total["dsp"] == 4
    (row,) = [row for row in mapped.rows if row.multipliers]
    assert (row.counts["dsp"], row.multipliers, row.fitting) == (4, 4, 4)
    assert mapped.estimate["dsp"] == 4
    assert {row.instance for row in mapped.rows} >= {entry["name"] for entry in tiny.manifest["instances"]}
    assert not [w for w in mapped.warnings if "DSP" in w or "nothing is left" in w or "no column" in w]


def test_the_report_is_written(mapped: Report, written: tuple[str, str]) -> None:
    document, text = written
    assert json.loads(document) == json.loads(json.dumps(mapped.to_json()))
    for row in mapped.rows:
        assert re.search(rf"^{row.instance or '.top.'} .*\b{row.counts['ff']}\b", text, re.MULTILINE)
    assert "0 mismatches" in text


def test_a_flipped_bit_in_the_netlist_is_seen(tiny: mase_hw.Design, mapped: Report, tmp_path: Path) -> None:
    netlist = (work_of(tiny, "xc7") / "netlist.v").read_text()
    linear = netlist.index("module \\fixed_linear")
    # A LUT2 that forms the sum of two bits, and now its complement; of data, since counters have names.
    found = re.compile(r"LUT2 #\(\s*\.INIT\(4'h6\)\s*\) \S+ \(\s*\.I0\(_").search(netlist, linear)
    assert found is not None
    broken = netlist[: found.start()] + found.group().replace("4'h6", "4'h9") + netlist[found.end() :]
    (tmp_path / "netlist.v").write_text(broken)
    files, cache = model_files(TARGETS["xc7"]), tiny.path.parent / "runtime-cache"
    cells = netlist_cells(netlist)
    with pytest.raises(MismatchError):
        replay(tiny, tmp_path / "netlist.v", files, cells, tmp_path / "replay", cache, lambda _: None)


def test_a_design_for_no_family_or_another_one_is_told(
    tiny: mase_hw.Design, mapped: Report, written: tuple[str, str], tmp_path: Path
) -> None:
    """The remedy works: compiled as it says, nothing is said any more, and `check_family` knows all other pairs."""
    (said,) = (line for line in mapped.warnings if "made for" in line)
    assert "was made for no family, as hardware.family is not set, and is mapped to xc7" in said
    assert 'family = "xc7" in [hardware]' in said and "made for no family" in written[1]
    for name in ("xc7", "ecp5"):
        made = compiled(nn.Sequential(nn.Linear(4, 4)), (4,), tmp_path / name, max_parallelism=2, family=name)
        assert made.manifest["family"] == name
        told = {target: check_family(made.record, TARGETS[target]) for target in TARGETS}
        assert not told[name] and not told["generic"]
        others = [told[target] for target in TARGETS if target not in (name, "generic")]
        assert len(others) == len(TARGETS) - 2
        assert all(len(each) == 1 and f"was made for {name}, and is mapped to" in each[0] for each in others)


def test_nothing_is_done_twice(tiny: mase_hw.Design, mapped: Report) -> None:
    said: list[str] = []
    again = synthesise(tiny, "xc7", replay_netlist=False, progress=said.append)
    assert said == [f"{stage}: nothing has changed since the last run" for stage in ("elaborate", "map")]
    assert again.rows == mapped.rows and again.memories == mapped.memories
    work = work_of(tiny, "xc7")
    (work / "design.json").write_text("{}")
    said.clear()
    synthesise(tiny, "xc7", replay_netlist=False, progress=said.append)
    assert said[0] == "elaborating the design", "a damaged result is made again"


def test_a_bundle_that_changes_meanwhile(tiny: mase_hw.Design, tmp_path: Path) -> None:
    """What is mapped is what was elaborated, and what the manifest says; and nothing is written into the bundle."""
    shutil.copytree(tiny.path, tmp_path / "bundle")
    top = tmp_path / "bundle/rtl/top.sv"
    before = top.read_text()

    def exchange(line: str) -> None:
        if line == "elaborating the design":
            top.write_text(before.replace("\n  assign ", "\n  // changed\n  assign ", 1))

    with pytest.raises(EmitError, match="was changed after emission") as caught:
        synthesise(mase_hw.load_design(tmp_path / "bundle"), "xc7", replay_netlist=False, progress=exchange)
    assert caught.value.node == str(top) and top.read_text() != before
    top.write_text(before)
    mase_hw.load_design(tmp_path / "bundle")  # every other file is as it was


def test_a_device_that_cannot_hold_it_is_refused_before_mapping(
    tiny: mase_hw.Design, mapped: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mase_hw.cost import devices

    small = devices.Device("none", "xc7", 100_000, 100_000, 3, 100, "a test")
    monkeypatch.setattr(devices, "DEVICES", {"none": small})
    with pytest.raises(ResourceError, match="dsp 4 of 3"):
        synthesise(tiny, "xc7", device="none", work_dir=tmp_path / "work")
    assert not (tmp_path / "work" / "netlist.v").exists()


def test_wrong_arguments(tiny: mase_hw.Design) -> None:
    with pytest.raises(ConfigError, match="place and route is not available"):
        synthesise(tiny, "xc7", placement=Placement())
    with pytest.raises(ConfigError, match="MHz"):
        synthesise(tiny, "ecp5", placement=Placement(mhz=0.5))
    with pytest.raises(ConfigError, match="unknown synthesis target"):
        synthesise(tiny, "xc8")


def test_the_command(tiny: mase_hw.Design, mapped: Report, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["synth", str(tiny.path), "--target", "xc7", "--no-replay", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"] == mapped.total
    assert main(["synth", str(tiny.path), "--target", "ecp6"]) == 2
    assert "did you mean 'ecp5'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["HOME", "XDG_CACHE_HOME", "YOWASP_CACHE_DIR"])
def test_a_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It is said before the tools work, not by their traceback behind it; the variable that is named helps."""
    for other in ("XDG_CACHE_HOME", "YOWASP_CACHE_DIR"):
        monkeypatch.delenv(other, raising=False)
    (tmp_path / "file").touch()
    monkeypatch.setenv(name, str(tmp_path / "file" / "home"))
    with pytest.raises(ToolError, match=r"(?s)cache .* cannot be made.*file/home.*YOWASP_CACHE_DIR"):
        run_yosys([], tmp_path, "a.log", lambda _: None)
    monkeypatch.setenv("YOWASP_CACHE_DIR", str(tmp_path / "cache"))
    _check_cache()
    assert (tmp_path / "cache").is_dir()


def test_a_script_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="No such command: nonsense"):
        run_yosys(["nonsense"], tmp_path, "a.log", lambda _: None)


def test_a_combinational_loop_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.sv").write_text(
        "module a(input x, output y);\n wire z;\n assign z = x ^ z;\n assign y = z;\nendmodule\n"
    )
    script = ["read_slang -j 1 --top a a.sv", "proc", "flatten", "opt_clean", "check -assert"]
    with pytest.raises(ToolError, match="problems in 'check -assert'"):
        run_yosys(script, tmp_path, "a.log", lambda _: None)


@pytest.mark.slow
def test_place_and_route(tiny: mase_hw.Design) -> None:
    report = synthesise(tiny, "ecp5", placement=Placement(mhz=25))
    assert report.total["dsp"] == 4
    assert report.replay is not None and report.replay["mismatches"] == 0, "with the registers in the multipliers"
    assert report.place is not None and report.reached
    assert report.place["mhz"] > 25 and report.place["limited_by"].startswith("u__")
    work = work_of(tiny, "ecp5")
    assert (work / report.place["bitstream"]).stat().st_size > 10_000
    packed = json.loads((work / "packed.json").read_text())
    assert (packed["operands"], packed["products"]) == (8, 4)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["nexus", "gowin"])
def test_products_of_one_activation(tiny: mase_hw.Design, family: str) -> None:
    """`synth_nexus` alone gives its register to one of the multipliers that read it, and 0 to the others.

    Of Gowin the models of the multipliers are ours.
    """
    report = synthesise(tiny, family)
    assert report.total["dsp"] == 4
    assert report.replay is not None and report.replay["mismatches"] == 0


@pytest.mark.slow
def test_products_of_look_up_tables(tiny: mase_hw.Design) -> None:
    """A multiplier of GateMate counts as the CPEs that nextpnr says it makes of it, two look-up tables each."""
    report = synthesise(tiny, "gatemate")
    assert report.replay is not None and report.replay["mismatches"] == 0
    assert report.total["dsp"] == 0 and not any(row.others for row in report.rows)
    work = work_of(tiny, "gatemate")
    cells = [m["num_cells_by_type"] for m in json.loads((work / "statistics.json").read_text())["modules"].values()]
    assert sum(kinds.get("CC_MULT", 0) for kinds in cells) == 4
    router = ROUTERS["gatemate"]
    if find(router.program).problem:
        pytest.skip(f"{router.program} is not installed: mase-hw[families]")
    netlist = json.loads((work / "netlist.json").read_text())
    assert router.pads is not None
    router.pads.add(netlist, tiny.record.top)
    (work / "padded.json").write_text(json.dumps(netlist))
    arguments = [*router.parts["ccgm1a1"].options, *router.options, "--json", "padded.json", "--pack-only"]
    log = run_nextpnr(router.program, arguments, work, "pack.log", lambda _: None)
    made = sum(int(number) for number in re.findall(r"Created (\d+) CPEs", log or ""))
    assert 2 * made == sum(kinds.get(PRODUCT_LUTS, 0) for kinds in cells)


@pytest.mark.slow
def test_gates_of_an_asic(tiny: mase_hw.Design) -> None:
    """A gate counts as many quarters of a NAND as Yosys says that it has transistors, a flip-flop has 16 of them."""
    report = synthesise(tiny, "asic")
    assert report.replay is not None and report.replay["mismatches"] == 0
    assert report.total["lut"] > 1000 and report.total["dsp"] == 0 and not any(row.others for row in report.rows)
    said = run_yosys(["read_json netlist.json", "stat -tech cmos"], work_of(tiny, "asic"), "cmos.log", lambda _: None)
    transistors = int(re.findall(r"Estimated number of transistors: +(\d+)", said)[-1])
    rounded = 4 * len(report.rows)
    assert 0 <= 4 * report.total["lut"] + 16 * report.total["ff"] - transistors < rounded


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "device"),
    [("nexus", "lifcl-40"), ("ice40", "ice40up5k"), ("gowin", "gw2a-18"), ("gatemate", "ccgm1a1")],
)
def test_place_and_route_of_further_families(tiny: mase_hw.Design, family: str, device: str) -> None:
    """Where nextpnr wants it, every bit of a port has a pad and a pin; the bitstream is of what was routed."""
    router = ROUTERS[family]
    if find(router.program).problem:
        pytest.skip(f"{router.program} is not installed: mase-hw[families]")
    report = synthesise(tiny, family, replay_netlist=False, placement=Placement(mhz=20))
    assert report.place is not None and report.place["mhz"] > 20 and report.place["device"] == device
    # Of Gowin nextpnr has no delays of multipliers, so that nobody knows.
    untimed = ["MULT9X9"] if family == "gowin" else []
    assert report.place["untimed"] == untimed and report.reached == (not untimed)
    assert ("at most, as nextpnr has no delays of MULT9X9" in report.place["text"]) == bool(untimed)
    work = work_of(tiny, family)
    assert (work / report.place["bitstream"]).stat().st_size > 10_000
    if router.pads is not None and router.pads.line:
        bits = 2 + sum(entry.bits + 2 for entry in tiny.record.ports)
        assert len((work / f"netlist.{router.pads.suffix}").read_text().splitlines()) == bits
