"""The script that makes a Vivado project of a system, on a model of block designs: Vivado cannot run here."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import mase_hw
from mase_hw.host.lint import lint
from mase_hw.simulate.build.tools import find_build_tools, run_tool
from mase_hw.system import make_system, system_options
from tests.handoff.designs import emit
from tests.system.block_design import KNOWN, Refused, TclError, packaged, replay
from tests.unit.pipeline import inputs, seeded

BOARDS = tuple(KNOWN["boards"])
CLOCKS = (("FCLK_CLK0", "FCLK_CLK1"), ("pl_clk0", "pl_clk1"), ("pl_clk0", "pl_clk1"))
NAME = "v_pair_system"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A system with frames in memory, two inputs, two outputs, and a prefix."""
    folder = tmp_path_factory.mktemp("vivado")
    make_system(emit(folder / "bundle").path, folder / "system", system_options(prefix="v_"))
    return folder / "system"


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A system with frames on streams."""
    folder = tmp_path_factory.mktemp("streams")
    design = mase_hw.compile(seeded(lambda: nn.Linear(4, 2)), inputs(1, 4), out=folder / "bundle", vectors=inputs(3, 4))
    make_system(design.path, folder / "system", system_options(data="stream", bus=32))
    return folder / "system"


@pytest.fixture(scope="module")
def clocked(system: Path) -> Path:
    """A system whose core has a clock of its own."""
    folder = system.parent / "clocked"
    make_system(system.parent / "bundle", folder, system_options(core_clock=True))
    return folder


def entries(table: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every entry of the list that says where it is from, or should."""
    for key, value in table.items():
        here = f"{path}.{key}"
        if isinstance(value, dict) and not here.startswith(".sources"):
            if key not in ("options", "properties", "pins", "interfaces", "spaces", "segments") and path:
                yield here, value
            yield from entries(value, here)


@pytest.mark.parametrize("board", BOARDS)
def test_every_board(board: str, system: Path, tmp_path: Path) -> None:
    """Every call is known, everything is connected, clocked and has an address; bitstream and .hwh share a name."""
    design = replay(system / "vivado/build.tcl", tmp_path, board, str(tmp_path / "out"), "80")
    known = KNOWN["boards"][board]
    assert design.board == {"part": known["part"], "board_part": known["board_part"]}
    assert [Path(target).name for target in design.copied] == [f"{NAME}.bit", f"{NAME}.hwh"]
    source = (system / "software/v_mase_driver.py").read_text()
    assert (name := re.search(r'name="(\w+)"', source)) and name[1] in design.cells, "the name the driver looks for"
    assert design.cells[name[1]].properties["CONFIG.MEM_DIR"] == str(system / "mem")
    ps = design.cells["ps"].properties
    assert [value for key, value in ps.items() if key.endswith("FREQMHZ")] == ["80"]


@pytest.mark.parametrize("board", BOARDS)
def test_streams_have_a_dma(board: str, streams: Path, tmp_path: Path) -> None:
    """An AXI DMA between memory and the streams, with an address and interrupts of its own."""
    design = replay(streams / "vivado/build.tcl", tmp_path, board)
    assert design.cells["dma0"].properties["CONFIG.c_m_axis_mm2s_tdata_width"] == "32"
    assert ("dma0/M_AXIS_MM2S", "accelerator/s_axis") in design.interfaces
    assert ("accelerator/m_axis", "dma0/S_AXIS_S2MM") in design.interfaces
    assert len({offset for space, _, offset, _ in design.addresses if space == "ps/Data"}) == 2
    assert [load for _, load in design.nets if load.startswith("interrupts/")] == [
        f"interrupts/In{i}" for i in range(3)
    ]


@pytest.mark.parametrize(("board", "clocks"), list(zip(BOARDS, CLOCKS, strict=True)))
def test_the_core_has_a_clock(board: str, clocks: tuple[str, str], clocked: Path, tmp_path: Path) -> None:
    """Another output of the processor, with the frequency that is asked for, and constraints where both meet."""
    design = replay(clocked / "vivado/build.tcl", tmp_path, board, str(tmp_path / "out"), "80", "150.5")
    for clock, pin in zip(clocks, ("clk", "core_clk"), strict=True):
        assert (f"ps/{clock}", f"accelerator/{pin}") in design.nets
    speeds = [value for key, value in design.cells["ps"].properties.items() if key.endswith("FREQMHZ")]
    assert speeds == ["80", "150.5"]
    assert design.scoped == {str(clocked / "constraints/clocks.xdc"): "accelerator"}


CLOCK_MUTANTS = {
    "one clock": ("set core_clock ps/FCLK_CLK1", "set core_clock $clock", "are the same clock ['ps/FCLK_CLK0']"),
    "no clock": ("connect_bd_net [get_bd_pins $core_clock]", "# ", "accelerator/core_clk is not connected"),
    "a clock that is off": ("CONFIG.PCW_EN_CLK1_PORT {1}", "CONFIG.PCW_EN_CLK1_PORT {0}", "no pin ps/FCLK_CLK1"),
    "no constraints": ("read_xdc -ref", "# ", "has no property PROCESSING_ORDER"),
    "constraints of another module": (
        "CONFIG.Component_Name [get_bd_cells accelerator]",
        "CONFIG.Component_Name [get_bd_cells reset]",
        "reset has not the ports ['clk', 'core_clk']",
    ),
    "no constraints at all": (
        "set crossings [file join $system constraints clocks.xdc]",
        "launch_runs impl_1 -to_step write_bitstream\nset crossings [file join $system constraints clocks.xdc]",
        "0 files of constraints for the crossings of",
    ),
    "constraints before the clocks": ("PROCESSING_ORDER LATE", "PROCESSING_ORDER EARLY", "are read ('EARLY', 'false')"),
    "constraints of a synthesis": ("USED_IN_SYNTHESIS false", "USED_IN_SYNTHESIS true", "are read ('LATE', 'true')"),
}
STREAM_MUTANTS = {
    "a stream": (
        "connect_bd_intf_net [get_bd_intf_pins dma0/M_AXIS_MM2S]",
        "# ",
        "accelerator/s_axis is not connected",
    ),
    "two streams": ("accelerator/s_axis]", "accelerator/m_axis]", "are ['master', 'master']"),
    "a stream for memory": (
        "dma0/M_AXI_MM2S dma0/Data_MM2S",
        "accelerator/m_axis dma0/Data_MM2S",
        "are ['axis', 'aximm']",
    ),
    "a channel that is off": (
        "CONFIG.c_include_s2mm {1}",
        "CONFIG.c_include_s2mm {0}",
        "no interface dma0/S_AXIS_S2MM",
    ),
    "descriptors": ("CONFIG.c_include_sg {0}", "CONFIG.c_include_sg {1}", "CONFIG.c_include_sg is 1"),
    "a length": ("CONFIG.c_sg_length_width {26}", "CONFIG.c_sg_length_width {27}", "length_width is 27"),
    "registers": ("lappend slaves dma0/S_AXI_LITE dma0/S_AXI_LITE/Reg", "", "dma0/S_AXI_LITE is not connected"),
    "an interrupt": ("lappend interrupts dma0/mm2s_introut", "", "dma0/mm2s_introut is not connected"),
    "an address": ("0x10000 * $index", "0x0 * $index", "two slaves"),
    "a space": ("dma0/M_AXI_S2MM dma0/Data_S2MM", "dma0/M_AXI_S2MM dma0/Data_MM2S", "dma0/Data_MM2S has two"),
}
MUTANTS = {
    "a property": (
        "CONFIG.PCW_USE_S_AXI_HP0 ",
        "CONFIG.PCW_USE_S_AXI_HP_0 ",
        "has no property CONFIG.PCW_USE_S_AXI_HP_0",
    ),
    "a value": ("CONFIG.PCW_S_AXI_HP0_DATA_WIDTH {64}", "CONFIG.PCW_S_AXI_HP0_DATA_WIDTH {128}", "DATA_WIDTH is 128"),
    "a port that is off": ("CONFIG.PCW_USE_S_AXI_HP0 {1}", "CONFIG.PCW_USE_S_AXI_HP0 {0}", "no interface ps/S_AXI_HP0"),
    "an IP": ("processing_system7:5.5 ps", "processing_system7:5.6 ps", "no IP xilinx.com:ip:processing_system7:5.6"),
    "an own IP": (":$name:1.0 accelerator", ":$name:1.1 accelerator", "no IP user:mase_hw:"),
    "a repository": (
        "ip_repo_paths [file join $out ip]",
        "ip_repo_paths [file join $out ips]",
        "is not in ip_repo_paths",
    ),
    "a rule": ("bd_rule:processing_system7 ", "bd_rule:processing_system8 ", "no rule"),
    "a preset": ('apply_board_preset "1" Master', 'apply_board_preset "0" Master', "apply_board_preset"),
    "a board": ("pynq-z2:part0:1.0", "pynq-z2:part0:2.0", "is no known board"),
    "a part": ("xc7z020clg400-1;", "xc7z020clg484-1;", "is no known board"),
    "an interrupt": ("connect_bd_net [get_bd_pins $interrupts]", "# ", "ps/IRQ_F2P is not connected"),
    "a clock": (" accelerator/clk\n", "\n", "accelerator/clk is not connected"),
    "a reset": ("set resets {accelerator/rst_n}", "set resets {}", "accelerator/rst_n is not connected"),
    "a clock for a reset": (
        "set reset ps/FCLK_RESET0_N",
        "set reset ps/FCLK_CLK0",
        "is a clock, reset/ext_reset_in a reset_n",
    ),
    "an interface": ("connect_bd_intf_net [get_bd_intf_pins to_memory", "# ", "ps/S_AXI_HP0 is not connected"),
    "two masters": ("get_bd_intf_pins $slave]", "get_bd_intf_pins accelerator/m_axi]", "are ['master', 'master']"),
    "a pin": ("to_memory/M00_AXI", "to_memory/M01_AXI", "no interface to_memory/M01_AXI"),
    "an address": ("assign_bd_address -offset 0x0", "# ", "but masters reach"),
    "a window": ("set registers 0x40000000", "set registers 0x80000000", "outside the window of ps/Data"),
    "a range": ("set size 0x20000000", "set size 0x40000000", "are not what it has"),
    "a small range": ("-range 0x10000 ", "-range 0x40 ", "are not what it has"),
    "no alignment": ("set registers 0x40000000", "set registers 0x40000800", "is no multiple of 0x10000"),
    "a segment": ("HP0_DDR_LOWOCM", "HP0_DDR_LOW", "segments []"),
    "a memory folder": ("set_property CONFIG.MEM_DIR", "# ", "MEM_DIR is not set"),
    "a wrapper": ("set_property top ${name}_wrapper", "# ", "the top is not the wrapper"),
    "a step": ("write_bitstream -jobs", "route_design -jobs", "to route_design"),
    "a wait": ("wait_on_run impl_1", "", "impl_1 has no results"),
    "an option": ("launch_runs impl_1 -to_step", "launch_runs impl_1 -step", "unknown option -step"),
    "a command": ("validate_bd_design", "check_bd_design", "invalid command name"),
    "a file": (
        "add_files -norecurse [file join $system rtl/v_pair.sv]",
        "add_files -norecurse [file join $system x]",
        "there is no",
    ),
    "a language": ("set_property top ${name}_ip", "set_property top $name", "the top of an IP is one file of Verilog"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_what_is_wrong_is_refused(name: str, system: Path, tmp_path: Path) -> None:
    """A wrong name, value or order, or a call that is missing."""
    refused(system, tmp_path, *MUTANTS[name])


@pytest.mark.parametrize("name", STREAM_MUTANTS)
def test_what_is_wrong_with_a_dma_is_refused(name: str, streams: Path, tmp_path: Path) -> None:
    """The same of what systems with streams have besides."""
    refused(streams, tmp_path, *STREAM_MUTANTS[name])


@pytest.mark.parametrize("name", CLOCK_MUTANTS)
def test_what_is_wrong_with_a_clock_is_refused(name: str, clocked: Path, tmp_path: Path) -> None:
    """The same of what systems with a clock for the core have besides."""
    refused(clocked, tmp_path, *CLOCK_MUTANTS[name])


def refused(system: Path, tmp_path: Path, old: str, new: str, message: str) -> None:
    """A script that was changed in one place ends with this message."""
    copy = tmp_path / "system"
    shutil.copytree(system, copy)
    script = copy / "vivado/build.tcl"
    text = script.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    script.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises((Refused, TclError), match=re.escape(message)):
        replay(script, tmp_path / "work", "pynq_z2")


def test_slow_timing_and_unknown_boards(system: Path, tmp_path: Path) -> None:
    """Both end the script with what to do."""
    script = system / "vivado/build.tcl"
    with pytest.raises(TclError, match="which board"):
        replay(script, tmp_path / "none")
    with pytest.raises(TclError, match="board 'zybo' is not known"):
        replay(script, tmp_path / "other", "zybo")
    late = tmp_path / "late.tcl"
    late.write_text(
        f"set slack -0.2\nset argv pynq_z2\nset argc 1\n{script.read_text()}".replace("[info script]", f"{{{script}}}")
    )
    with pytest.raises(TclError, match=r"timing is not met: -0.2 ns at 100 MHz"):
        replay(late, tmp_path / "late")


def test_the_ip_is_clean(system: Path) -> None:
    """By Verilator and Verible; every port belongs to an interface, and one that does not is refused."""
    tools = find_build_tools()
    file = system / f"vivado/{NAME}_ip.v"
    files = [str(system / line) for line in (system / "rtl/files.f").read_text().split()]
    done = run_tool([str(tools.verilator), "--lint-only", "-Wall", "+1364-2001ext+v", *files, str(file)], tools.env)
    assert done.returncode == 0 and "%" not in done.stdout, done.stdout
    assert [said for said in lint([file]) if "not formatted" not in said] == []
    text = file.read_text(encoding="utf-8")
    packaged(text)
    with pytest.raises(Refused, match=r"ports without an interface: .*m_axi_rlast"):
        packaged(text.replace('m_axi RLAST" *)', 'm_axi OTHER" *)'))
    with pytest.raises(Refused, match="m_axi has no clock"):
        packaged(text.replace("s_axil:m_axi", "s_axil"))


def test_the_list_names_its_sources() -> None:
    """Every entry cites a file that uses it, or says that none does, and why it is there."""
    found = list(entries(KNOWN))
    assert len(found) > 80
    for path, entry in found:
        assert (entry.get("cite") in KNOWN["sources"]) != bool(entry.get("untried")), path
    untried = [path for path, entry in found if "untried" in entry]
    assert len(untried) == 7, "what the page says"
    assert KNOWN["sources"].keys() == {entry["cite"] for _, entry in found if "cite" in entry}
