"""The tools of a simulation build, looked up once and fingerprinted."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mase_hw.errors import ToolError
from mase_hw.flow import probes
from mase_hw.flow.toolchain import require, verilator_env


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
        versions: Version of every tool by name.
    """

    env: Mapping[str, str]
    compiler: tuple[str, ...]
    verilator: Path
    include: Path
    cocotb_main: Path
    cocotb_libs: Path
    versions: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        """Hash of the versions and of the places that end up in a binary."""
        parts = [f"{name}={version}" for name, version in sorted(self.versions.items())]
        parts += [*self.compiler, str(self.cocotb_libs), str(self.include)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def find_build_tools(env: Mapping[str, str] | None = None) -> BuildTools:
    """Look up everything a build needs (about 0.3 s; pass the result to many builds).

    Raises:
        ToolError: Names what is missing and what to install.
    """
    base = dict(os.environ if env is None else env)
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
    return BuildTools(
        env=full,
        compiler=tuple(probes.compiler_command(base)),
        verilator=Path(str(found["verilator"].path)),
        include=Path(full["VERILATOR_ROOT"]) / "include",
        cocotb_main=main,
        cocotb_libs=library.parent,
        versions=versions,
    )


def run_tool(
    command: Sequence[str], env: Mapping[str, str], cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end, both outputs in ``stdout``.

    Raises:
        ToolError: If it cannot be started at all.
    """
    try:
        return subprocess.run(
            list(command),
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as problem:
        raise ToolError(
            f"{Path(command[0]).name} cannot be started",
            node=command[0],
            got=str(problem),
            remedy="run `mase-hw doctor`",
        ) from problem


def first_errors(output: str, count: int = 5) -> str:
    """The lines of a tool's output that say what is wrong: the first errors, else warnings, else the last lines."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    for word in ("error", "warning"):
        hits = [line for line in lines if word in line.lower() and "exiting due to" not in line.lower()]
        if hits:
            return "\n    ".join(hits[:count])
    return "\n    ".join(lines[-count:]) or "(no output)"
