"""Builds: what is reused, what is rebuilt, what is refused."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mase_hw.errors import ConfigError, EmitError, SimulationError, ToolError
from mase_hw.simulate.build.simulator import COCOTB, LONG_RUN, PATIENT_RUN, SHORT_RUN, Built, _units, build
from mase_hw.simulate.build.tools import BuildTools, compilers, find_build_tools
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines.batch import build as build_batch
from tests.sim.conftest import RTL, slice_dut
from tests.sim.test_engine import play


def _copy(folder: Path, text: str = "") -> Dut:
    """The good design with its source in ``folder``, so that it can be changed."""
    source = folder / "faulty_slice.sv"
    source.write_text((RTL / "faulty_slice.sv").read_text() + text)
    base = slice_dut()
    return Dut(base.top, (source,), base.parameters, base.streams)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("clang++") is None, reason="clang is not installed")
def test_clang(tmp_path: Path) -> None:
    """It links, which needs a library that g++ does not."""
    tools = find_build_tools({**os.environ, "CXX": "clang++"})
    assert any("-latomic" in flag for flag in tools.linker)
    assert not any("-latomic" in flag for flag in find_build_tools({**os.environ, "CXX": "g++"}).linker)
    built = build(_copy(tmp_path), tmp_path / "build", cache_dir=tmp_path / "cache", tools=tools)
    assert play(built, tmp_path / "run").passed


def test_reuse_and_rebuild(tools: BuildTools, work: Path, tmp_path: Path) -> None:
    def make(dut: Dut, waves: bool = False) -> Built:
        return build(dut, tmp_path / "a folder", waves=waves, cache_dir=work / "cache", tools=tools)

    dut = _copy(tmp_path)
    first = make(dut)
    assert not first.reused and make(dut).reused
    assert play(first, tmp_path / "a run").passed, "blanks in paths are fine"

    assert not make(_copy(tmp_path, "// changed\n")).reused
    assert not make(Dut(dut.top, dut.sources, {**dut.parameters, "AT": 6}, dut.streams)).reused
    damaged = tmp_path / "a folder" / "simulator"
    damaged.write_bytes(damaged.read_bytes()[:1000])
    again = make(Dut(dut.top, dut.sources, {**dut.parameters, "AT": 6}, dut.streams))
    assert not again.reused and play(again, tmp_path / "run").passed
    (tmp_path / "a folder" / "stamp.json").write_text("{")
    assert not make(dut).reused
    assert json.loads((tmp_path / "a folder" / "stamp.json").read_text())["identity"] == make(dut).identity


def test_verilator_refuses(tools: BuildTools, work: Path, tmp_path: Path) -> None:
    dut = _copy(tmp_path, "module stray (input logic a);\nendmodule\n")
    with pytest.raises(SimulationError, match=r"(?s)Verilator refuses faulty_slice.*stray.*build\.log") as caught:
        build(dut, tmp_path / "b", cache_dir=work / "cache", tools=tools)
    assert "DECLFILENAME" in str(caught.value) or "UNUSED" in str(caught.value)
    assert (tmp_path / "b" / "build.log").read_text()
    assert not (tmp_path / "b" / "stamp.json").exists()
    _copy(tmp_path)
    assert not build(dut, tmp_path / "b", cache_dir=work / "cache", tools=tools).reused


def test_missing_tools_and_files(tools: BuildTools, work: Path, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"(?s)c\+\+.*not found"):
        find_build_tools({"PATH": str(tmp_path)})
    dut = slice_dut()
    with pytest.raises(EmitError, match="cannot be read"):
        build(Dut(dut.top, (tmp_path / "absent.sv",), {}, dut.streams), tmp_path / "b", tools=tools)
    (tmp_path / "file").write_text("")
    with pytest.raises(
        EmitError, match=r"(?s)build folder cannot be written.*what to do: check the path.*choose another folder"
    ):
        build(dut, tmp_path / "file" / "b", cache_dir=work / "cache", tools=tools)
    with pytest.raises(ConfigError, match="no output stream"):
        Dut("top", (), {}, dut.inputs)
    with pytest.raises(ConfigError, match="not an identifier"):
        Dut("top level", (), {}, dut.streams)


def test_compiler_fails(tools: BuildTools, tmp_path: Path) -> None:
    broken = BuildTools(
        env=tools.env,
        compiler=("false",),
        verilator=tools.verilator,
        include=tools.include,
        cocotb_main=tools.cocotb_main,
        cocotb_libs=tools.cocotb_libs,
        versions=tools.versions,
    )
    with pytest.raises(ToolError, match="does not compile"):
        build(slice_dut(), tmp_path / "b", cache_dir=tmp_path / "cache", tools=broken)
    assert not (tmp_path / "b" / "stamp.json").exists()


def test_parallel_builders(work: Path, tmp_path: Path) -> None:
    """Processes that build into the same folder: one builds, the others find it done."""
    script = textwrap.dedent(
        f"""
        import sys
        from pathlib import Path
        from tests.sim.conftest import slice_dut
        from mase_hw.simulate.engines.cocotb import build
        built = build(slice_dut(), Path({str(tmp_path / "b")!r}), cache_dir=Path({str(work / "cache")!r}))
        sys.exit(10 if built.reused else 20)
        """
    )
    root = Path(__file__).resolve().parents[2]
    children = [subprocess.Popen([sys.executable, "-c", script], cwd=root) for _ in range(3)]
    assert sorted(child.wait() for child in children) == [10, 10, 20]


def test_short_runs_are_not_optimised_for(tools: BuildTools, work: Path, tmp_path: Path) -> None:
    """The level is that of the cycles to come; another one that is there already is taken, unless it is too slow."""

    def make(folder: str, cycles: int | None) -> Built:
        return build_batch(slice_dut(), tmp_path / folder, cache_dir=work / "levels", tools=tools, cycles=cycles)

    def level(built: Built) -> str:
        compiler = next(line for line in (built.folder / "build.log").read_text().splitlines() if "unit_0.cpp" in line)
        return next(word for word in compiler.split() if word.startswith("-O"))

    short = make("a", SHORT_RUN)
    assert level(short) == "-O0" and not short.cached
    assert make("a", SHORT_RUN).reused
    assert make("a", PATIENT_RUN).identity == short.identity, "the slower one is there"
    assert make("e", PATIENT_RUN).identity == short.identity, "and is taken from the cache"
    middle = make("a", PATIENT_RUN + 1)
    assert level(middle) == "-Og" and not middle.reused and not middle.cached
    assert make("a", SHORT_RUN).reused, "the faster one is there"
    assert level(make("b", SHORT_RUN)) == "-O0" and make("b", SHORT_RUN + 1).reused
    assert level(make("b", None)) == level(make("c", LONG_RUN + 1)) == "-O2"
    identities = {make(name, None).identity for name in "abc"}
    assert len(identities) == 1 and make("d", SHORT_RUN).identity == short.identity
    assert len({short.identity, middle.identity, *identities}) == 3
    alone = tmp_path / "f"
    fresh = build_batch(slice_dut(), alone / "w", cache_dir=alone / "cache", tools=tools, cycles=SHORT_RUN + 1)
    assert fresh.identity == middle.identity, "built as the run deserves where there is none"


def test_as_many_compilers_as_the_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASE_HW_COMPILERS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 5, 6}, raising=False)
    assert compilers() == 3, "a core that the process may run on each"
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1})
    assert compilers() == 1
    monkeypatch.setenv("MASE_HW_COMPILERS", "3")
    assert compilers() == 3
    for wrong in ("0", "-1", "many", "1.5"):
        monkeypatch.setenv("MASE_HW_COMPILERS", wrong)
        with pytest.raises(ConfigError, match="no number of compilers") as caught:
            compilers()
        assert caught.value.field == "MASE_HW_COMPILERS" and wrong in str(caught.value)


def test_one_compiler_makes_one_unit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.cpp").write_text(" " * 500_000)
    listing = {"classes_fast": [str(tmp_path / f"{name}.cpp") for name in "abc"]}
    flavour = dataclasses.replace(COCOTB, optimise="-O0")
    assert [len(_units(tmp_path, listing, flavour, (), False, workers)) for workers in (1, 3)] == [1, 3]
