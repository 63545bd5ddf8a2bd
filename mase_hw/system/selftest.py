"""Runs the self-test of a system: the C driver against the Verilated model of the whole of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mase_hw.emit.bundle import MANIFEST
from mase_hw.errors import ConfigError, ToolError
from mase_hw.host.documents import Json, parse_json
from mase_hw.simulate.build.tools import find_build_tools, first_errors, run_tool


@dataclass(frozen=True)
class SelfTest:
    """What the self-test said.

    Args:
        passed: Whether every bit was equal.
        text: What it printed.
    """

    passed: bool
    text: str


def build_program(system: Path, *, main: Path | None = None, name: str = "selftest", make: str = "") -> Path:
    """Compile a program with the driver and the Verilated model; what is there already is not made again.

    Args:
        system: Folder of the system.
        main: Source of ``main`` in C; that of the self-test by default.
        name: Of the program.
        make: More of ``MAKEFLAGS``.

    Raises:
        ToolError: With the first errors of the compilers.
        ConfigError: If the folder holds no system whose frames lie in memory.
    """
    check_memory(system)
    tools = find_build_tools()
    env = {**tools.env, "MAKEFLAGS": tools.env.get("MAKEFLAGS", "") + make}
    variables = [f"VERILATOR={tools.verilator.with_name('verilator_bin')}", f"CXX={' '.join(tools.compiler)}"]
    if main is not None:
        variables.append(f"MAIN={main}")
    program = Path("build") / name
    done = run_tool(["make", "-s", "-f", "software/Makefile", f"PROGRAM={name}", str(program), *variables], env, system)
    if done.returncode:
        raise ToolError(
            "the self-test does not compile",
            node=str(system),
            got=first_errors(done.stdout),
            remedy="run `mase-hw doctor`",
        )
    return system / program


def run_selftest(system: Path, *, stalls: int = 0, interrupt: bool = False) -> SelfTest:
    """Build and run the self-test.

    Args:
        system: Folder of the system.
        stalls: Cycles of every channel of the memory without a handshake, in percent.
        interrupt: Wait for the interrupt rather than poll.

    Raises:
        ToolError: If it cannot be built.
        ConfigError: If the folder holds no system whose frames lie in memory.
    """
    program = build_program(system)
    words = [str(program.relative_to(system)), str(stalls), *(["interrupt"] if interrupt else [])]
    done = run_tool(words, find_build_tools().env, system)
    return SelfTest(done.returncode == 0 and done.stdout.startswith("PASS"), done.stdout.strip())


def check_memory(system: Path) -> Json:
    """The manifest of a system whose frames lie in memory.

    Raises:
        ConfigError: That says what was found.
    """
    try:
        manifest: Json = parse_json((system / MANIFEST).read_text(encoding="utf-8"))
        data = manifest["options"]["data"] if manifest["kind"] == "system" else None
    except (OSError, ValueError, KeyError, TypeError):
        manifest, data = {}, None
    if data != "memory":
        raise ConfigError(
            "this folder has no self-test that can be run",
            node=str(system),
            got="no system" if data is None else f"a system with data = {data!r}",
            expected="a system made with data = 'memory'",
            remedy="make it with `mase-hw system BUNDLE --out DIR`",
        )
    return manifest
