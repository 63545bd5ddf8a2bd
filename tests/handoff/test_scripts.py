"""The scripts for Vivado and Quartus, executed by a Tcl interpreter against commands that know their options."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import mase_hw
from tests.handoff.designs import emit
from tests.handoff.tcl import Command, TclError, run
from tests.handoff.vendors import ASSIGNMENTS, CONSTRAINTS, QUARTUS, VIVADO, VIVADO_IP

SCRIPTS: dict[str, dict[str, Command]] = {"vivado": VIVADO, "vivado_ip": VIVADO_IP, "quartus": QUARTUS}
SLACK = "set ::slack 0.25"


def files(design: mase_hw.Design, suffix: str) -> list[str]:
    """Absolute paths of the top's sources of a kind, in order."""
    listed = (design.path / design.manifest["handoff"]["tops"][-1]["list"]).read_text().split()
    return [str(design.path / file) for file in listed if file.endswith(suffix)]


def memories(design: mase_hw.Design) -> list[str]:
    return sorted(str(design.path / entry["file"]) for entry in design.manifest["memories"])


def named(calls: list[list[str]], *names: str) -> list[list[str]]:
    return [call for call in calls if call[0] in names]


def test_vivado(pair: mase_hw.Design, tmp_path: Path) -> None:
    calls = run(pair.path / "synth/vivado.tcl", VIVADO, tmp_path, ("xc7z020clg400-1", "out put"), SLACK)
    read = [call[-1] for call in named(calls, "read_verilog", "read_mem")]
    assert read == files(pair, ".sv") + files(pair, ".v") + memories(pair)
    assert ["read_xdc", "-mode", "out_of_context", str(pair.path / "synth/clock.xdc")] in calls
    synth = ["synth_design", "-top", "pair_axis", "-part", "xc7z020clg400-1", "-mode", "out_of_context"]
    order = [c[0] for c in calls]
    assert synth in calls and order.index("read_xdc") < order.index("synth_design") < order.index("opt_design")
    steps = ["opt_design", "place_design", "phys_opt_design", "route_design", "report_timing_summary"]
    assert [name for name in order if name in steps] == steps
    assert ["report_timing_summary", "-file", str(tmp_path / "out put/timing.rpt")] in calls
    assert calls[0] == ["set_msg_config", "-id", "Synth 8-4445", "-new_severity", "ERROR"]


def test_vivado_reports_a_clock_that_is_missed(pair: mase_hw.Design, tmp_path: Path) -> None:
    with pytest.raises(TclError, match=r"pair_axis does not reach 100 MHz on xc7a100tcsg324-1"):
        run(pair.path / "synth/vivado.tcl", VIVADO, tmp_path, prelude="set ::slack -0.01")


def test_vivado_ip(pair: mase_hw.Design, tmp_path: Path) -> None:
    calls = run(pair.path / "synth/vivado_ip.tcl", VIVADO_IP, tmp_path)
    out = tmp_path / "ip_pair_axis"
    assert [c[-1] for c in named(calls, "add_files")] == files(pair, ".sv") + files(pair, ".v")
    package = named(calls, "ipx::package_project")[0]
    assert package[1:7] == ["-root_dir", str(out), "-vendor", "user", "-library", "mase_hw"]
    assert ["set_property", "value", str(out / "mem"), "user_parameter"] in calls
    for memory in memories(pair):
        assert (out / "mem" / Path(memory).name).read_bytes() == Path(memory).read_bytes()
    assert [c[0] for c in calls][-2:] == ["ipx::save_core", "close_project"]


def test_quartus(pair: mase_hw.Design, tmp_path: Path) -> None:
    calls = run(pair.path / "synth/quartus.tcl", QUARTUS, tmp_path)
    assignments = named(calls, "set_global_assignment", "set_instance_assignment")
    assert {c[2] for c in assignments} <= ASSIGNMENTS
    values = {name: [c[3] for c in assignments if c[2] == name] for name in ASSIGNMENTS}
    assert values["SYSTEMVERILOG_FILE"] == files(pair, ".sv") and values["VERILOG_FILE"] == files(pair, ".v")
    assert values["TOP_LEVEL_ENTITY"] == ["pair_axis"] and values["FAMILY"] == ["Cyclone V"]
    assert values["SDC_FILE"] == [str(pair.path / "synth/clock.sdc")] and values["VERILOG_MACRO"] == ["SYNTHESIS=1"]
    assert ["set_parameter", "-name", "MEM_DIR", str(pair.path / "mem")] in calls
    assert calls[-2:] == [["execute_flow", "-compile"], ["project_close"]]


@pytest.mark.parametrize(("mhz", "period"), [(100, 10.0), (333, 3.003), (62.5, 16.0), (640, 1.562)])
def test_constraints(tmp_path: Path, mhz: float, period: float) -> None:
    """The period in ns, cut (not rounded up) to the picosecond, on the clock of the top."""
    for axis in (True, False):
        design = emit(tmp_path / f"axis{axis}", clock_mhz=mhz, axis=axis)
        clock = "aclk" if axis else "clk"
        for file in ("clock.xdc", "clock.sdc"):
            calls = run(design.path / "synth" / file, CONSTRAINTS, tmp_path / "work")
            assert calls[0] == ["get_ports", clock]
            made = calls[1]
            assert made[:4] == ["create_clock", "-name", clock, "-period"] and made[5] == f"port:{clock}"
            assert float(made[4]) == period and float(made[4]) <= 1000 / mhz


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_missing_file_stops_every_script(pair: mase_hw.Design, tmp_path: Path, script: str) -> None:
    moved = tmp_path / "moved bundle"
    shutil.copytree(pair.path, moved)
    run(moved / f"synth/{script}.tcl", SCRIPTS[script], tmp_path / "work", prelude=SLACK)
    for file in ("mem/fc_weight.mem", "rtl/lib/rom_source.sv"):
        (moved / file).rename(moved / "aside")
        with pytest.raises(TclError, match=re.escape(f"lacks {file}")):
            run(moved / f"synth/{script}.tcl", SCRIPTS[script], tmp_path / "work", prelude=SLACK)
        (moved / "aside").rename(moved / file)


def sound(file: Path, script: str, work: Path) -> bool:
    """Whether a script does what it should, also where it has something to complain about."""
    try:
        run(file, SCRIPTS[script], work, ("part", "out"), SLACK)
        if script == "vivado":
            with pytest.raises(TclError, match=r"pair_axis does not reach 100 MHz on part: see .*out/timing.rpt"):
                run(file, SCRIPTS[script], work, ("part", "out"), "set ::slack -0.01")
    except (TclError, AssertionError, pytest.fail.Exception):
        return False
    return True


@pytest.mark.parametrize("script", SCRIPTS)
def test_typing_errors_are_seen(pair: mase_hw.Design, tmp_path: Path, script: str) -> None:
    """Every command, option and variable of a script, misspelt one at a time, makes it fail."""
    moved = tmp_path / "b"
    shutil.copytree(pair.path, moved)
    file = moved / f"synth/{script}.tcl"
    text = file.read_text()
    body = re.sub(r"^#.*$", lambda m: " " * len(m.group()), text, flags=re.M)
    names = "|".join(map(re.escape, SCRIPTS[script]))
    # Options of Tcl's own `file` are Tcl's business; branches for arguments are taken.
    words = [m for m in re.finditer(rf"(?<![\w.\-])({names})\b|(?<=\s)-[a-z_]+|\$[a-z_]+", body) if m.group()]
    assert len(words) > 15 and sound(file, script, tmp_path / "work")
    for match in words:
        at = match.end() - 1
        file.write_text(text[:at] + "q" + text[at:])
        line = text[: match.start()].count("\n") + 1
        if not sound(file, script, tmp_path / "work"):
            continue
        pytest.fail(f"{script}.tcl, line {line}: {match.group()} misspelt is not seen")


def test_names_that_would_break_a_script(tmp_path: Path) -> None:
    from mase_hw.errors import ConfigError

    for options in (
        {"vivado_part": "xc7; exec rm"},
        {"quartus_family": 'a"b'},
        {"vendor": "my vendor"},
        {"version": "1"},
        {"clock_mhz": 0},
        {"clock_mhz": float("nan")},
    ):
        with pytest.raises(ConfigError, match=f"handoff.{next(iter(options))}"):
            emit(tmp_path / "refused", **options)
    assert not (tmp_path / "refused").exists()
