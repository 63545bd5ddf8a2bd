"""Several designs in one project: a prefix before the names of all modules, packages and memory files."""

from __future__ import annotations

import re
from pathlib import Path

import pyslang
import pytest

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.hardware.prefix import modules, prefixed, with_prefix
from mase_hw.host.lint import lint
from mase_hw.simulate.build.tools import find_build_tools, run_tool
from tests.handoff.designs import emit

NAMED = """
module @a import @p::*; #(parameter int X = @p::Y) (input clk, @my_if bus, @my_if.mp other);
  logic skid; // skid, café
  assign skid = "skid";
  @skid #(.A(1)) u (.skid(clk));
  `ifdef FOO
  @skid v (.clk);
  `else
  @skid w (.clk);
  `endif
  @p::t z;
  virtual @my_if i;
  initial $readmemh({MEM_DIR, "/@x.mem"}, m);
  bind @skid @a q (.*);
endmodule : @a
package @p; endpackage : @p
interface @my_if; endinterface
"""
"""Every place in which a name may stand, marked, and a signal with the name of a module."""


@pytest.fixture(scope="module")
def designs(pair: mase_hw.Design, tmp_path_factory: pytest.TempPathFactory) -> list[mase_hw.Design]:
    """A design without a prefix, the same with one, and with another and other boundaries."""
    folder = tmp_path_factory.mktemp("prefix")
    return [pair, emit(folder / "x", prefix="x_"), emit(folder / "y", prefix="y_", registered=False)]


def rtl(design: mase_hw.Design) -> list[Path]:
    """The files of the wrapper."""
    return [design.path / line for line in (design.path / "rtl/files_axis.f").read_text().split()]


def test_every_place_of_a_name() -> None:
    """Declarations and uses, in both branches of a condition; neither signals nor comments nor other strings."""
    text, expected = (NAMED.replace("@", prefix).encode() for prefix in ("", "q_"))
    names = {"a", "p", "my_if"}
    assert modules(text, "a.sv") == names
    assert with_prefix(text, "a.sv", names | {"skid"}, "q_", {"mem/x.mem"}) == expected
    latin = text.decode().encode("latin-1")
    assert with_prefix(latin, "a.sv", names, "", set()) == latin


def test_what_cannot_get_a_prefix() -> None:
    """A name that a macro makes, and one that is taken."""
    with pytest.raises(ConfigError, match="inside a macro"):
        with_prefix(b"`define I(n) n u_``n ();\nmodule b; `I(skid) endmodule", "b.sv", {"skid"}, "q_")
    manifest = {"top": "b", "rtl": ["b.sv", "c.sv"], "memories": [], "instances": []}
    files = {"b.sv": b"module b; endmodule", "c.sv": b"module q_b; endmodule"}
    with pytest.raises(ConfigError, match="a name that is taken"):
        prefixed(manifest, files, "q_")


def test_designs_elaborate_together(designs: list[mase_hw.Design]) -> None:
    """By Verilator, which warns of several tops alone, and by slang; both refuse the same design twice as it is."""
    tools = find_build_tools()
    files = [file for design in designs for file in rtl(design)]
    assert len({file.name for file in files}) == len(files)
    tops = [f"{prefix}pair_axis" for prefix in ("", "x_", "y_")]
    assert [design.manifest["handoff"]["tops"][-1]["name"] for design in designs] == tops
    lint = [str(tools.verilator), "--lint-only", "-Wall", "+1364-2001ext+v"]
    done = run_tool([*lint, *map(str, files)], tools.env)
    assert set(re.findall(r"^%(\S+):", done.stdout, re.MULTILINE)) == {"Warning-MULTITOP", "Error"}, done.stdout
    assert "MODDUP" in run_tool([*lint, *map(str, files), str(rtl(designs[0])[-1])], tools.env).stdout

    def elaborated(files: list[Path]) -> list[str]:
        options = pyslang.ast.CompilationOptions()
        options.topModules = set(tops)
        compilation = pyslang.ast.Compilation(pyslang.Bag([options]))
        for file in files:
            compilation.addSyntaxTree(pyslang.syntax.SyntaxTree.fromFile(str(file)))
        codes = [(str(found.code), found.isError()) for found in compilation.getAllDiagnostics()]
        return [code for code, is_error in codes if is_error or "Duplicate" in code]

    assert elaborated(files) == []
    assert "DuplicateDefinition" in "".join(elaborated([*files, rtl(designs[0])[-1]]))


def test_every_file_has_it(designs: list[mase_hw.Design]) -> None:
    """Paths of RTL, memories and testbenches, what scripts read of them, and the style of the files."""
    plain, x, _ = designs
    assert {p.relative_to(x.path).as_posix() for p in (x.path / "mem").iterdir()} == {
        f"mem/x_{Path(file).name}" for file in plain.manifest["files"] if file.startswith("mem/")
    }
    for folder in ("rtl", "sim"):
        named = [p for p in (x.path / folder).rglob("*") if p.suffix in (".sv", ".v")]
        assert named and all(p.name.startswith("x_") for p in named)
        assert [said for said in lint(named) if "not formatted" not in said] == []
    read = (x.path / "synth/files.tcl").read_text() + (x.path / "x_pair.core").read_text()
    assert "stream_fifo.sv" not in read.replace("x_stream_fifo.sv", "") and "tb_sink.sv" in read


def test_it_is_the_same_design(designs: list[mase_hw.Design]) -> None:
    """Simulated with its monitors, every bit; timing and instances are those of the design without a prefix."""
    plain, x, _ = designs
    assert x.manifest["timing"] == plain.manifest["timing"]
    assert [i["module"] for i in x.manifest["instances"]] == [i["module"] for i in plain.manifest["instances"]]
    found = x.simulate()
    assert found.passed and found.result.exercise is not None and found.result.exercise.buffers


def test_the_testbench_runs(designs: list[mase_hw.Design], tiny: str) -> None:
    """That of the bundle, by Verilator alone."""
    tools, x = find_build_tools(), designs[1]
    env = {**tools.env, "MAKEFLAGS": tools.env.get("MAKEFLAGS", "") + tiny}
    done = run_tool([str(tools.verilator), "--binary", "-f", "sim/x_pair_axis_tb.f"], env, x.path)
    assert done.returncode == 0, done.stdout
    done = run_tool(["obj_dir/Vx_pair_axis_tb"], env, x.path)
    assert done.returncode == 0 and "PASS" in done.stdout


@pytest.mark.parametrize("prefix", ["1x", "a-b", "a" * 33])
def test_no_prefix(prefix: str, tmp_path: Path) -> None:
    """What is no beginning of an identifier, or too long, is refused before anything is made."""
    with pytest.raises(ConfigError, match="prefix"):
        emit(tmp_path / "b", prefix=prefix)
    assert not (tmp_path / "b").exists()
