"""The files of the handoff as text: clean under the linters, what the README says, and names that clash."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.host.lint import lint
from mase_hw.host.resources import sim_root
from mase_hw.simulate.build.tools import find_build_tools, run_tool
from tests.emit.designs import DESIGNS
from tests.handoff.designs import emit


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[mase_hw.Design]:
    """Several ports; one beat per frame; no memory; a scalar; boundaries with and without registers."""
    folder = tmp_path_factory.mktemp("files")
    found = [emit(folder / "plain", registered=False), emit(folder / "registered"), emit(folder / "native", axis=False)]
    for name in ("small", "no_memory", "scalar"):
        model, example, config = DESIGNS[name]
        found.append(mase_hw.compile(model, example, config, out=folder / name))
    return found


def test_no_warning_and_verilog_2001(bundles: list[mase_hw.Design]) -> None:
    """No warning switched off; the wrapper and the example are read as Verilog-2001."""
    tools = find_build_tools()
    for design in bundles:
        example = f"examples/{design.manifest['top']}_example.v"
        last = design.manifest["handoff"]["tops"][-1]
        runs = [["-f", last["list"], example, "--top-module", Path(example).stem]]
        for top in design.manifest["handoff"]["tops"]:
            runs += [["-f", top["list"], "--top-module", top["name"]], ["--timing", "-f", f"sim/{top['name']}_tb.f"]]
        for arguments in runs:
            command = [*tools.verilate, "--lint-only", "--assert", "-Wall", "+1364-2001ext+v", *arguments]
            done = run_tool(command, tools.env, design.path)
            assert done.returncode == 0 and "%" not in done.stdout, done.stdout


def test_literal_widths(bundles: list[mase_hw.Design]) -> None:
    """No port of a wrapper depends on a parameter or an expression, and the packed ports are those of the core."""
    for design in bundles:
        for port in design.manifest["handoff"]["axis_ports"]:
            text = (design.path / f"rtl/{design.manifest['top']}_axis.v").read_text()
            assert f" wire [{port['tdata'] - 1}:0] {port['bus']}_tdata," in text
            for signal in ("TDATA", "TVALID", "TREADY", "TLAST"):
                assert f'"xilinx.com:interface:axis:1.0 {port["bus"]} {signal}"' in text
            ports = text[text.index(") (") if "MEM_DIR" in text else 0 : text.index(");\n")]
            widths = re.findall(r"wire \[([^\]]*)\]", ports)
            assert widths and all(re.fullmatch(r"\d+:0", width) for width in widths), widths


def test_style_of_the_testbenches(bundles: list[mase_hw.Design]) -> None:
    files = sorted((sim_root() / "testbench").glob("*.sv"))
    generated = [f for d in bundles for f in d.path.glob("sim/*_tb.sv")]
    assert len(files) == 3 and len(generated) == 11
    assert lint(files) == []
    assert [c for c in lint(generated) if "not formatted" not in c] == []


def test_readme(bundles: list[mase_hw.Design]) -> None:
    for design in bundles:
        text = (design.path / "README.md").read_text()
        for port in design.manifest["ports"]:
            fmt = port["format"]
            section = text.partition(f"### `{port['name']}` ")[2].partition("\n#")[0]
            assert f"**value = integer * {fmt['scale']}** (2^{-fmt['frac_width']})" in section
            assert f"{fmt['width']}-bit {'signed' if fmt['signed'] else 'unsigned'} integer" in section
            assert f"{port['beats']} beat" in section and f"{port['lanes']} lane" in section
        timing = design.manifest["timing"]
        assert f"| {timing['interval']} |" in text and f"| {timing['fill']} |" in text
        named = set(re.findall(r"(?:rtl|sim|synth|mem|examples)/[\w.]+\w", text))
        assert named and all((design.path / name).is_file() for name in named), named
        for entry in design.manifest["memories"]:
            assert f"| `{entry['file']}` |" in text


def test_lines_of_the_readme_can_be_read(bundles: list[mase_hw.Design]) -> None:
    """Neither longer than a terminal nor split in the middle; rows of tables and commands are one line each."""
    for design in bundles:
        prose = [s for s in (design.path / "README.md").read_text().splitlines() if not s.startswith(("|", "    "))]
        assert max(map(len, prose)) <= 120, max(prose, key=len)
        assert "Its basis: " in "\n".join(prose)


def test_without_a_wrapper(bundles: list[mase_hw.Design]) -> None:
    native = bundles[2]
    files = json.loads((native.path / "manifest.json").read_text())["files"]
    assert not [name for name in files if "axis" in name or name.endswith("skid_buffer.sv")]
    for script in native.path.glob("synth/*"):
        assert "axis" not in script.read_text()


def test_a_top_with_a_name_of_the_testbench(tmp_path: Path) -> None:
    """The testbench has modules of its own."""
    model, example, _ = DESIGNS["scalar"]
    with pytest.raises(ConfigError, match=r"(?s)name of a module of the handoff.*tb_source"):
        mase_hw.compile(model, example, {"top": "tb_source"}, out=tmp_path / "b")
    assert not (tmp_path / "b").exists()
