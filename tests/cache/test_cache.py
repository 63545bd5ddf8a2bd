"""The build cache: what is taken from it, what never is, and that it holds nothing half."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import itertools
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mase_hw.errors import EmitError, ToolError
from mase_hw.host.disk import emptied
from mase_hw.simulate.build import cache as caching
from mase_hw.simulate.build import runtime_cache as running
from mase_hw.simulate.build import simulator as building
from mase_hw.simulate.build import tools as tooling
from mase_hw.simulate.build.cache import Cache, file_hash
from mase_hw.simulate.build.simulator import build
from mase_hw.simulate.build.snapshot import take
from mase_hw.simulate.build.tools import BuildTools, find_build_tools
from tests.cache.conftest import Builder
from tests.sim.conftest import slice_dut
from tests.sim.test_engine import play

ROOT = Path(__file__).resolve().parents[2]


def _simulators(folder: Path) -> list[Path]:
    return sorted(folder.glob("simulators/*")) + sorted(folder.glob("simulators/.*"))


def test_any_folder_takes_it(make: Builder, folder: Path, tmp_path: Path) -> None:
    first, second = make("a"), make("b")
    assert (first.reused, first.cached) == (False, False)
    assert (second.reused, second.cached) == (False, True)
    assert make("b").reused and second.identity == first.identity
    assert (tmp_path / "b" / "build.log").read_bytes() == (tmp_path / "a" / "build.log").read_bytes()
    shutil.rmtree(tmp_path / "a")
    assert play(second, tmp_path / "run").passed, "it does not depend on the folder it was built in"


def test_what_is_part_of_the_key(make: Builder, folder: Path, tools: BuildTools, tmp_path: Path) -> None:
    base = slice_dut()
    seen = {make("a").identity}
    source = tmp_path / base.sources[0].name
    source.write_text(base.sources[0].read_text() + "// changed\n")
    seen.add(make("a", dataclasses.replace(base, sources=(source,))).identity)
    seen.add(make("a", dataclasses.replace(base, parameters={**base.parameters, "AT": 6})).identity)
    other = dataclasses.replace(tools, versions={**tools.versions, "verilator": "0"})
    slower = dataclasses.replace(building.COCOTB, optimise="-O0")
    given = take(base.sources, building.COCOTB.main(tools), (), {})
    for changed in (
        building.identity_of(base, other, False, building.COCOTB, given),
        building.identity_of(base, tools, True, building.COCOTB, given),
        building.identity_of(base, tools, False, slower, given),
        building.identity_of(base, tools, False, dataclasses.replace(slower, name="other"), given),
    ):
        seen.add(changed)
    assert len(seen) == 7
    assert len(_simulators(folder)) == 3


@pytest.mark.parametrize("damage", ["truncated", "flipped", "gone", "no entry", "entry of another", "no log"])
def test_damaged_entry_is_built_again(make: Builder, filled: Path, tmp_path: Path, damage: str) -> None:
    first = make("a")
    (place,) = _simulators(filled)
    program, entry = place / "simulator", place / "entry.json"
    content = program.read_bytes()
    if damage == "truncated":
        program.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        program.write_bytes(content[:-100] + bytes([content[-100] ^ 1]) + content[-99:])
    elif damage == "entry of another":
        entry.write_text(entry.read_text().replace(first.identity, "0" * 64))
    else:
        {"gone": program, "no entry": entry, "no log": place / "build.log"}[damage].unlink()
    again = make("b")
    assert not again.cached and play(again, tmp_path / "run").passed
    assert make("c").cached


def test_damaged_runtime_is_compiled_again(make: Builder, folder: Path, tmp_path: Path) -> None:
    (thing,) = folder.glob("runtime-*/verilated_dpi.o")
    content = thing.read_bytes()
    thing.unlink()
    thing.write_bytes(content[:5000])
    built = make("a")
    assert play(built, tmp_path / "run").passed
    assert len(thing.read_bytes()) == len(content)


def test_what_was_whole_is_looked_at_again_if_it_changed(tmp_path: Path) -> None:
    """A process takes the hash of a file once; not of one that has become another since."""
    thing = tmp_path / "runtime.h.gch"
    thing.write_bytes(b"whole")
    thing.with_name("runtime.h.gch.sha256").write_text(file_hash(thing))
    assert running._is_whole(thing) and running._is_whole(thing)
    thing.write_bytes(b"whale")
    os.utime(thing, ns=(0, 0))
    assert not running._is_whole(thing)


def test_full_disk_leaves_nothing(make: Builder, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every call that writes an entry."""
    for call in ("mkdir", "write_text", "rename"):
        real = getattr(Path, call)

        def full(self: Path, *args: Any, real: Any = real, **kwargs: Any) -> Any:
            partial = self.name.startswith(".partial-") or self.parent.name.startswith(".partial-")
            if partial or self.name == "simulators":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(self, *args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(Path, call, full)
            with pytest.raises(EmitError, match=r"(?s)cache cannot be written.*No space left"):
                make("a")
        assert _simulators(folder) == []
    assert not make("a").reused and not make("b").reused and make("c").cached


def test_full_disk_while_compiling(make: Builder, folder: Path, tmp_path: Path, tools: BuildTools) -> None:
    """The compiler is told that the device is full; neither cache nor build folder takes what it left."""
    script = tmp_path / "full"
    script.write_text(
        '#!/bin/sh\nfor a; do last=$a; done\ncase "$*" in *unit_0*) echo half > "$last"\n'
        'echo "error: No space left on device"; exit 1;; esac\nexec g++ "$@"\n'
    )
    script.chmod(0o755)
    broken = dataclasses.replace(tools, compiler=(str(script),))
    for runtime in list(folder.glob("runtime-*")):
        # The same runtime under the name that this compiler gives it.
        library = building.runtime(broken, folder, waves=False, optimise=building.COCOTB.optimise)
        shutil.rmtree(library.folder)
        shutil.copytree(runtime, library.folder)
    with pytest.raises(ToolError, match=r"(?s)does not compile.*No space left.*what to do: the disk is full: free"):
        build(slice_dut(), tmp_path / "a", cache_dir=folder, tools=broken)
    assert _simulators(folder) == [] and not (tmp_path / "a" / "stamp.json").exists()
    assert not make("a").reused


def _child(tmp_path: Path, folder: Path, name: str) -> subprocess.Popen[str]:
    script = textwrap.dedent(
        f"""
        from pathlib import Path
        from tests.sim.conftest import slice_dut
        from mase_hw.simulate.engines.cocotb import build
        built = build(slice_dut(), Path({str(tmp_path / name)!r}), cache_dir=Path({str(folder)!r}))
        print("cached" if built.cached else "built")
        """
    )
    return subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_parallel_builders_of_different_folders(folder: Path, tmp_path: Path) -> None:
    children = [_child(tmp_path, folder, f"b{index}") for index in range(3)]
    assert sorted(child.communicate()[0].strip() for child in children) == ["built", "cached", "cached"]


def test_killed_builder_leaves_nothing(make: Builder, folder: Path, tmp_path: Path) -> None:
    child = _child(tmp_path, folder, "a")
    until = time.monotonic() + 60
    while not (tmp_path / "a" / "model").exists() and time.monotonic() < until:
        time.sleep(0.01)
    child.kill()
    child.communicate()
    assert _simulators(folder) == []
    assert not make("a").reused and play(make("a"), tmp_path / "run").passed


def test_prune(make: Builder, filled: Path) -> None:
    folder = filled
    old = make("a")
    new = make("b", dataclasses.replace(slice_dut(), parameters={"WIDTH": 8, "AT": 6}))
    cache = Cache(folder)
    past = time.time() - 7200
    os.utime(folder / "simulators" / old.identity / "entry.json", (past, past))
    (folder / "simulators" / ".partial-left").mkdir()
    assert cache.entries()[0].name == old.identity
    assert [entry.name for entry in cache.prune(older_than=3600)] == [old.identity]
    assert _simulators(folder) == [folder / "simulators" / new.identity], "and what an interruption left is gone"
    assert make("a").reused, "a build folder keeps its own"
    assert cache.prune(larger_than=1 << 40) == []
    least = cache.entries()[0]
    total = sum(entry.size for entry in cache.entries())
    assert cache.prune(larger_than=total - 1) == [least]
    assert {entry.kind for entry in cache.prune(everything=True)} <= {"simulator", "runtime"}
    assert cache.entries() == [] and Cache(folder / "absent").prune(everything=True) == []


def test_use_is_remembered(make: Builder, filled: Path) -> None:
    built = make("a")
    entry = filled / "simulators" / built.identity / "entry.json"
    os.utime(entry, (1, 1))
    make("b")
    assert time.time() - Cache(filled).entries()[0].used < 3600


def test_link_falls_back_to_a_copy(make: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(caching.os, "link", refuse)
    make("a")
    built = make("b")
    assert built.cached and play(built, tmp_path / "run").passed


def test_tools_are_asked_again_when_they_change(tmp_path: Path) -> None:
    begin = time.perf_counter()
    first = find_build_tools()
    find_build_tools()
    again = time.perf_counter()
    assert find_build_tools() == first and time.perf_counter() - again < 0.1, time.perf_counter() - begin
    wrapper = tmp_path / "g++"
    wrapper.write_text('#!/bin/sh\nexec /usr/bin/env -i PATH=/usr/bin:/bin g++ "$@"\n')
    wrapper.chmod(0o755)
    env = {**os.environ, "CXX": str(wrapper), "MARK": "kept"}
    assert find_build_tools(env).env["MARK"] == "kept"
    wrapper.write_text("#!/bin/sh\necho broken; exit 1\n")
    with pytest.raises(ToolError, match=r"c\+\+"):
        find_build_tools(env)


def test_what_the_tools_said_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For other processes, as long as nothing changed; a damaged memory, or another tool, is asked again."""
    asked: list[int] = []
    same: list[BuildTools] = []
    probe = tooling._probe

    def counted(env: Mapping[str, str]) -> BuildTools:
        asked.append(1)
        if "wrapped" in env:
            return probe(env)
        same.extend([] if same else [probe(env)])  # of the tools themselves, which no memory changes, only once
        return same[0]

    monkeypatch.setattr(tooling, "_probe", counted)

    def ask(env: dict[str, str] | None = None) -> BuildTools:
        monkeypatch.setattr(tooling, "_KNOWN", {})  # a process of its own
        return find_build_tools(env, memory=tmp_path)

    first = ask()
    assert ask() == first and len(asked) == 1
    path = tmp_path / "tools.json"
    text = path.read_text()
    other = text.replace('"make": "', '"make": "1')
    assert other != text
    for damaged in ("", text[:100], text.replace("compiler", "compilex"), other):
        path.write_text(damaged)
        assert ask() == first
    assert len(asked) == 5 and ask() == first and len(asked) == 5
    wrapper = tmp_path / "g++"
    wrapper.write_text('#!/bin/sh\nexec g++ "$@"\n')
    wrapper.chmod(0o755)
    env = {**os.environ, "CXX": str(wrapper), "wrapped": "yes"}
    assert ask(env).compiler == (str(wrapper),) and len(asked) == 6
    wrapper.write_text("#!/bin/sh\necho broken; exit 1\n")
    with pytest.raises(ToolError, match=r"c\+\+"):
        ask(env)


def test_the_runtime_of_the_environment(
    compiled: Path, tmp_path: Path, tools: BuildTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken from there, a damaged object is compiled again there, and the design's own cache has none."""
    place = tmp_path / "environment"
    for runtime in compiled.glob("runtime-*"):
        shutil.copytree(runtime, place / runtime.name)
    monkeypatch.setenv("MASE_HW_RUNTIME", str(place))
    (thing,) = place.glob("runtime-*/verilated_dpi.o")
    content = thing.read_bytes()
    thing.write_bytes(content[:-1] + b"?")
    calls: list[str] = []
    real = running.run_tool

    def watched(command: Any, *rest: Any) -> Any:
        calls.append(Path(command[-3]).name)
        return real(command, *rest)

    monkeypatch.setattr(running, "run_tool", watched)
    built = build(slice_dut(), tmp_path / "a", cache_dir=tmp_path / "cache", tools=tools)
    assert play(built, tmp_path / "run").passed and not list((tmp_path / "cache").glob("runtime-*"))
    assert calls == ["verilated_dpi.cpp"] and thing.read_bytes() == content
    monkeypatch.delenv("MASE_HW_RUNTIME")
    prefix = tmp_path / "prefix"
    prefix.mkdir()
    monkeypatch.setattr(running.sys, "prefix", str(prefix))
    assert running.prepared_place() == prefix / "cache" / "mase_hw"
    assert running._home(tmp_path) == running.prepared_place(), "a virtual environment of one's own"
    monkeypatch.setattr(running.os, "access", lambda *_: False)
    assert running._home(tmp_path) == tmp_path, "one that cannot be written, and nothing was prepared"
    monkeypatch.undo()
    monkeypatch.delenv("MASE_HW_RUNTIME")
    monkeypatch.setattr(running.sys, "prefix", str(prefix))
    monkeypatch.setattr(running.sys, "base_prefix", str(prefix))
    assert running._home(tmp_path) == tmp_path, "the system's Python, and nothing was prepared"
    running.prepared_place().mkdir(parents=True)
    (running.prepared_place() / running.PREPARED).touch()
    assert running._home(tmp_path) == running.prepared_place()


def test_compilers_end_with_an_interrupted_build(folder: Path, tmp_path: Path, tools: BuildTools) -> None:
    """All their processes, at once, although only Python was told: nothing of them waits or goes on."""
    compiler = tmp_path / "compiler"
    compiler.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/ids\nsleep 300 &\necho $! >> {tmp_path}/ids\nwait\n")
    compiler.chmod(0o755)
    slow = dataclasses.replace(tools, compiler=(str(compiler),), jobs=2)

    def ids() -> list[int]:
        return [int(word) for word in (tmp_path / "ids").read_text().split()] if (tmp_path / "ids").exists() else []

    def interrupt() -> None:
        deadline = time.monotonic() + 60
        while len(ids()) < 4 and time.monotonic() < deadline:  # a compiler and its child, twice
            time.sleep(0.02)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    waiting = threading.Thread(target=interrupt)
    begin = time.monotonic()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what runs behind it ignore this
    try:
        waiting.start()
        with pytest.raises(KeyboardInterrupt):
            build(slice_dut(), tmp_path / "build", cache_dir=folder, tools=slow)
    finally:
        signal.signal(signal.SIGINT, before)
    waiting.join()
    assert time.monotonic() - begin < 60 and len(ids()) == 4, "no further compiler began"
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(_lives(each) for each in ids()):
        time.sleep(0.02)
    assert not [each for each in ids() if _lives(each)]


def _lives(number: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_a_folder_that_is_written_to_is_emptied(tmp_path: Path) -> None:
    """As by a tool whose host was killed: files that come while it is emptied do not fail the next build."""
    folder, stop = tmp_path / "model", threading.Event()
    folder.mkdir()

    def write() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            with contextlib.suppress(OSError):
                (folder / str(number % 50)).write_text("")

    writer = threading.Thread(target=write)
    writer.start()
    threading.Timer(0.3, stop.set).start()
    emptied(folder)
    writer.join()
    assert folder.is_dir()
    emptied(folder)
    assert not list(folder.iterdir())
