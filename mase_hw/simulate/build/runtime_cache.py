"""Verilator's runtime library, compiled once per tool version.

Two thirds of the time of a small build go into ``verilated.cpp`` and ``verilated_vpi.cpp``, which never change, and
most of the rest into parsing their headers. So objects and a precompiled header are kept in a cache folder, each
written beside its name and renamed, under a lock: parallel builds wait for each other rather than compile the same
twice, and never see half of an object. The hash of each lies beside it, and what does not fit it is compiled again.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mase_hw.errors import ToolError
from mase_hw.host.disk import full_disk, writing
from mase_hw.host.locks import locked
from mase_hw.host.resources import sim_root
from mase_hw.simulate.build.cache import file_hash
from mase_hw.simulate.build.tools import BuildTools, first_errors, run_tool

_HEADER_FIRST = ("verilated_vpi.cpp", "verilated_dpi.cpp", "verilated_threads.cpp")
"""Sources that are mostly headers: these wait for the precompiled one. ``verilated.cpp`` needs its own macros first."""
VARIABLE = "MASE_HW_RUNTIME"
"""Names a folder with the runtime for all designs; set to nothing, every cache has its own."""
PREPARED = "prepared"
"""Marks a folder that was made for it."""
_FUNCTIONS = "functions.h"
"""Verilator's functions without those of dynamic arrays, beside the header that includes it."""
WHOLE = "".join(f'#include "verilated{name}.h"\n' for name in ("", "_vpi", "_dpi", "_config"))
"""The header of all units with everything."""
HEADER = f"""\
// Verilator's functions come last, without those of dynamic arrays.
#define VERILATOR_VERILATED_FUNCS_H_
#include "verilated.h"
#undef VERILATOR_VERILATED_FUNCS_H_
#define VERILATOR_VERILATED_H_INTERNAL_
#include "{_FUNCTIONS}"
#undef VERILATOR_VERILATED_H_INTERNAL_
{WHOLE}"""
"""The header of all units. The functions that it lacks are those that the compiler would make anew for every unit, a
fifth of the time of a small one."""
# No template, with a dynamic array among its parameters; its body ends at the first brace in column 0.
_OF_ARRAYS = re.compile(r"(?<!>\n)^static inline [^;{}]*?\bVlQueue<[^{;]*\{\n(?:[ #].*\n|\n)*?\}\n", re.MULTILINE)
STANDARD = "-std=gnu++14"
"""What Verilator's headers ask for; those of later standards are larger, and every unit pays for them."""
_MODE = 0o644
"""Temporary files are private to the user; a cache may be shared."""


@dataclass(frozen=True)
class Runtime:
    """The compiled runtime for one flag set.

    Args:
        folder: Where the objects lie.
        tools: The tools that compile.
        flags: Compiler flags shared with the model's own files.
        wave_flags: More flags for the FST writer.
        libraries: Linker flags.
        whole: What this build has already found whole; the precompiled header is large, and asked for several times.
    """

    folder: Path
    tools: BuildTools
    flags: tuple[str, ...]
    wave_flags: tuple[str, ...]
    libraries: tuple[str, ...]
    whole: set[Path] = field(default_factory=set, compare=False)

    def object(self, source: Path) -> Path:
        """Return the object of a runtime source, compiling it if the cache has none.

        Raises:
            ToolError: If the compiler fails.
        """
        extra = self.wave_flags if "fst" in source.name else ()
        if source.name in _HEADER_FIRST:
            extra = (*extra, "-include", str(self.header()))
        return self._make(f"{source.stem}.o", [*extra, "-c", str(source)])

    def driver(self, bench: Sequence[Path], macros: str) -> Path:
        """Return the object of C++ that is the same for every design, compiling it if the cache has none.

        Args:
            bench: What is compiled, and the headers that it includes; private copies in one folder.
            macros: First lines of the unit.

        Raises:
            ToolError: If the compiler fails.
        """
        digest = hashlib.sha256(macros.encode())
        for path in bench:
            content = path.read_bytes()
            digest.update(f"{path.name}\0{len(content)}\0".encode() + content)
        name = f"driver-{digest.hexdigest()[:20]}"
        unit = bench[0].with_name(f"{name}.cpp")
        _write_atomic(unit, f'{macros}#include "{bench[0].name}"\n'.encode())
        return self._make(f"{name}.o", ["-include", str(self.header()), "-c", str(unit)])

    def header(self) -> Path:
        """Return a header whose precompiled form lies beside it; to be given to ``-include``.

        Raises:
            ToolError: If the compiler fails.
        """
        header = self.folder / "runtime.h"
        make = functools.partial(self._make, "runtime.h.gch", ["-x", "c++-header", str(header)])
        if not header.is_file():
            functions = (self.tools.include / "verilated_funcs.h").read_text(encoding="utf-8")
            _write_atomic(self.folder / _FUNCTIONS, without_dynamic_arrays(functions).encode())
            _write_atomic(header, HEADER.encode())
        try:
            make()
        except ToolError:
            # Another Verilator may need what was left out; if not that, the compiler says again what is wrong.
            _write_atomic(header, WHOLE.encode())
            make()
        return header

    def _make(self, name: str, arguments: Sequence[str]) -> Path:
        target = self.folder / name
        if target in self.whole:
            return target
        if _is_whole(target):
            self.whole.add(target)
            return target  # without a lock: an environment may be read-only, and a file is replaced whole
        lock = self.folder / f".{name}.lock"
        with writing("the build cache", target, ToolError), locked(lock, "the build cache", ToolError):
            if not _is_whole(target):
                self._compile(target, arguments)
        self.whole.add(target)
        return target

    def _compile(self, target: Path, arguments: Sequence[str]) -> None:
        handle, partial = tempfile.mkstemp(prefix=f".{target.name}.", dir=self.folder)
        os.close(handle)
        try:
            command = [*self.tools.compiler, *self.flags, *arguments, "-o", partial]
            done = run_tool(command, self.tools.env, self.folder)
            if done.returncode:
                raise ToolError(
                    "Verilator's runtime library does not compile",
                    node=target.name,
                    got=f"exit code {done.returncode}\n    {first_errors(done.stdout)}",
                    remedy=full_disk(self.folder, done.stdout) or "check the C++ compiler with `mase-hw doctor`",
                )
            os.chmod(partial, _MODE)
            digest = file_hash(Path(partial))
            os.replace(partial, target)
            _write_atomic(_digest(target), digest.encode())
        finally:
            Path(partial).unlink(missing_ok=True)


def _digest(target: Path) -> Path:
    return target.with_name(f"{target.name}.sha256")


@functools.lru_cache(maxsize=256)
def _hash_in(target: Path, state: tuple[int, ...]) -> str:
    """SHA-256 of a file in a state; kept, since the precompiled header has 75 MB and every build of a process asks."""
    return file_hash(target)


def _is_whole(target: Path) -> bool:
    try:
        found = target.stat()
        state = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        return _digest(target).read_text(encoding="ascii") == _hash_in(target, state)
    except (OSError, ValueError):
        return False


def prepared_place() -> Path:
    """Where an environment keeps the runtime for all its designs."""
    named = os.environ.get(VARIABLE)
    return Path(named).resolve() if named else Path(sys.prefix) / "cache" / "mase_hw"


def _home(cache_dir: Path) -> Path:
    """Where the runtime of a build is kept.

    That is the prepared place, or without one a virtual environment that can be written, since its Verilator is the
    same for all designs. The variable, set to nothing, says that neither shall be used.
    """
    place = prepared_place()
    if VARIABLE in os.environ:
        return place if os.environ[VARIABLE] else cache_dir
    own = sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK)
    return place if own or (place / PREPARED).exists() else cache_dir


def runtime(tools: BuildTools, cache_dir: Path, *, waves: bool, optimise: str) -> Runtime:
    """Open the runtime cache for a flag set, that of the environment or else the design's; nothing is compiled yet.

    Raises:
        ToolError: If the cache folder cannot be written.
    """
    # Verilator's ``VM_*`` macros are not given: the runtime ignores them, and a precompiled header is only valid
    # for the macros it was made with. The model's units define them, so that all builds share one runtime.
    flags = (optimise, STANDARD, "-DVERILATOR=1", f"-I{tools.include}", f"-I{tools.include / 'vltstd'}")
    key = hashlib.sha256("\0".join([tools.fingerprint, *flags, HEADER]).encode()).hexdigest()[:20]
    folder = _home(cache_dir) / f"runtime-{key}"
    with writing("the build cache", folder, ToolError):
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(PermissionError):
            os.utime(folder)  # the time of last use, for pruning
    wave_flags, libraries = _wave_support(tools, folder) if waves else ((), ())
    return Runtime(folder, tools, flags, wave_flags, libraries)


def _wave_support(tools: BuildTools, folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Flags for the FST writer: the system's compression libraries, or headers that store without compressing."""
    probe = folder / "compression.cpp"
    choice = folder / "compression"
    if not choice.is_file():
        _write_atomic(
            probe,
            b"#include <lz4.h>\n#include <zlib.h>\n"
            b"int main() { return LZ4_compressBound(1) + (int)compressBound(1) == 0; }\n",
        )
        command = [*tools.compiler, str(probe), "-o", os.devnull, "-llz4", "-lz"]
        found = run_tool(command, tools.env).returncode == 0
        _write_atomic(choice, b"system" if found else b"stored")
    if choice.read_bytes() == b"system":
        return (), ("-llz4", "-lz")
    return (f"-I{sim_root() / 'fst_stored'}",), ()


def _write_atomic(path: Path, content: bytes) -> None:
    handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.chmod(partial, _MODE)
    os.replace(partial, path)


def without_dynamic_arrays(functions: str) -> str:
    """The text of ``verilated_funcs.h`` without the functions that take dynamic arrays."""
    return _OF_ARRAYS.sub("", functions)
