"""A source that changes while its simulator is built: program and identity belong together, whatever happens."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from mase_hw.errors import EmitError, MismatchError
from mase_hw.simulate.build.cache import file_hash
from mase_hw.simulate.build.simulator import build
from mase_hw.simulate.build.snapshot import take
from mase_hw.simulate.build.tools import BuildTools, find_build_tools
from mase_hw.simulate.dut import Dut
from tests.sim.conftest import slice_dut
from tests.sim.test_engine import play

Content = dict[str, str]


@pytest.fixture
def content() -> Content:
    """The same design, right and wrong."""
    text = slice_dut().sources[0].read_text()
    wrong = text.replace("data_out_0 = data;", "data_out_0 = ~data;")
    assert wrong != text
    return {"right": text, "wrong": wrong}


@pytest.fixture
def dut(tmp_path: Path) -> Dut:
    """Its source, in a folder of the test's own."""
    base = slice_dut()
    return dataclasses.replace(base, sources=(tmp_path / base.sources[0].name,))


@pytest.fixture
def swapping(tools: BuildTools, dut: Dut, tmp_path: Path) -> Callable[[str], BuildTools]:
    """Tools whose Verilator finds another source than the one that was there when it was called."""

    def make(text: str) -> BuildTools:
        (tmp_path / "other.sv").write_text(text)
        script = tmp_path / "verilator"
        swap = shlex.join(["cp", str(tmp_path / "other.sv"), str(dut.sources[0])])
        script.write_text(f'#!/bin/sh\n{swap}\nexec {shlex.quote(str(tools.verilator))} "$@"\n')
        script.chmod(0o755)
        return dataclasses.replace(tools, verilator=script)

    return make


@pytest.mark.parametrize("first", ["right", "wrong"])
def test_compiled_again_meanwhile(
    first: str, content: Content, dut: Dut, swapping: Callable[[str], BuildTools], folder: Path, tmp_path: Path
) -> None:
    """What was there when the build began is what is built, and what the cache has under its name."""
    then = {"right": "wrong", "wrong": "right"}[first]
    dut.sources[0].write_text(content[first])
    built = build(dut, tmp_path / "a", cache_dir=folder, tools=swapping(content[then]))
    assert dut.sources[0].read_text() == content[then], "it was exchanged"
    dut.sources[0].write_text(content[first])
    taken = build(dut, tmp_path / "b", cache_dir=folder)
    assert taken.cached and taken.identity == built.identity
    for run in (built, taken):
        result = play(run, tmp_path / f"run-{run.folder.name}")
        assert result.passed == (first == "right")
        assert first == "right" or type(result.failure) is MismatchError


def test_what_must_be_built_is_built_or_nothing(content: Content, dut: Dut, folder: Path, tmp_path: Path) -> None:
    """A design whose files were checked says what they must be."""
    dut.sources[0].write_text(content["right"])
    known = dataclasses.replace(dut, digests={dut.sources[0]: file_hash(dut.sources[0])})
    dut.sources[0].write_text(content["wrong"])
    with pytest.raises(EmitError, match="was changed while it was being used") as caught:
        build(known, tmp_path / "a", cache_dir=folder)
    assert caught.value.node == str(dut.sources[0])
    assert not (tmp_path / "a").exists() and not list(folder.glob("simulators/*"))


def test_messages_name_the_file_that_was_given(content: Content, dut: Dut, folder: Path, tmp_path: Path) -> None:
    """Not the private copy that was compiled."""
    dut.sources[0].write_text(content["right"].replace("endmodule", "oops\nendmodule"))
    with pytest.raises(Exception, match="Verilator refuses") as caught:
        build(dut, tmp_path / "a", cache_dir=folder)
    assert f"{dut.sources[0]}:" in str(caught.value) and "given" not in str(caught.value)
    log = (tmp_path / "a/build.log").read_text().split("\n", 1)[1]  # after the command
    assert str(dut.sources[0]) in log and str(tmp_path / "a/model/given") not in log


def test_flags_of_the_surroundings() -> None:
    """Verilator's launcher takes flags, and the name of its program, from variables; a build does not."""
    plain = find_build_tools()
    foreign = {"VERILATOR_TEST_FLAGS": "-DSYNTHESIS", "VERILATOR_BIN": "/nowhere/verilator_bin", "VERILATOR_ROOT": "/x"}
    tools = find_build_tools({**os.environ, **foreign})
    assert tools.fingerprint == plain.fingerprint
    assert {name for name in tools.env if name.startswith("VERILATOR_")} == {"VERILATOR_ROOT"}
    assert tools.env["VERILATOR_ROOT"] == plain.env["VERILATOR_ROOT"] == str(tools.verilator.parent.parent)


@pytest.mark.parametrize("name", ["CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH"])
def test_headers_of_the_surroundings(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A compiler that finds other headers or libraries is another compiler."""
    monkeypatch.delenv(name, raising=False)
    before = find_build_tools()
    monkeypatch.setenv(name, str(tmp_path))
    assert find_build_tools().fingerprint != before.fingerprint
    monkeypatch.setenv(name, "")
    assert find_build_tools().fingerprint == before.fingerprint


def test_copies_of_the_same_name(tmp_path: Path) -> None:
    """Files from two folders may share a name; a message about each of the copies names its own file."""
    files = [tmp_path / folder / "same.sv" for folder in ("x", "y")]
    for file in files:
        file.parent.mkdir()
        file.write_text(f"// {file.parent.name}\n")
    copies = take(files, (), (), {}).write(tmp_path / "copies")
    assert [copy.read_text() for copy in copies.sources] == ["// x\n", "// y\n"]
    assert copies.named(" ".join(f"{copy}:1" for copy in copies.sources)) == " ".join(f"{file}:1" for file in files)
