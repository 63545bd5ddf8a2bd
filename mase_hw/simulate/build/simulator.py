"""Builds a simulator from a design: Verilator, the C++ compiler, cocotb's main program.

cocotb's own runner makes every signal of the design public, which slows the build and the simulation, and rebuilds
everything each time. Here only the ports are public, the runtime library comes from a cache, small designs compile as
one unit, and a simulator is built once for every content: a build folder takes it from the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

from mase_hw.errors import SimulationError, ToolError
from mase_hw.host.disk import emptied, full_disk, write_whole, writing
from mase_hw.host.locks import locked
from mase_hw.host.resources import sim_root
from mase_hw.simulate.build.cache import LOG, PROGRAM, Cache, file_hash
from mase_hw.simulate.build.runtime_cache import Runtime, runtime
from mase_hw.simulate.build.snapshot import Copies, Snapshot, take
from mase_hw.simulate.build.tools import BuildTools, compilers, end_tools, find_build_tools, first_errors, run_tool
from mase_hw.simulate.dut import Dut, port_widths

FLAGS = (
    "--cc",
    "--assert",
    "-Wall",
    "--x-assign",
    "unique",
    "--x-initial",
    "unique",
    "--output-split",
    "20000",
    "--make",
    "json",
)
"""Verilator's flags in every build. No warning is switched off; the split bounds what the compiler sees at a time."""

_MOST_UNIT_BYTES = 4_000_000
"""C++ that is compiled at a time without optimisation: what a compiler takes a few seconds and 1 GB for."""
_KINDS = ("classes_fast", "support_fast", "classes_slow", "support_slow")


@dataclass(frozen=True)
class Flavour:
    """A way to build a simulator.

    Args:
        name: For people, and part of the identity.
        optimise: Level of the C++ compiler, for model and runtime.
        main: The C++ files that are compiled with the model.
        flags: More flags of Verilator.
        link: More flags of the linker.
        rules: Lines of a configuration file for Verilator; the same for the same design wherever it lies.
        generated: C++ files that are written beside the model and compiled before ``main``, by name.
        bench: C++ that is the same for every design, compiled once and kept with the runtime: the driver, then the
            headers that it and ``generated`` include.
        unit_bytes: C++ that is compiled as one unit: headers are parsed once a unit, but units compile in parallel.
        coverage: Whether the simulator counts lines, branches and toggles.
        trace: What a simulator with waves writes: ``fst``, or ``saif``, which are the counts of changes alone.
    """

    name: str
    optimise: str
    main: Callable[[BuildTools], tuple[Path, ...]]
    flags: tuple[str, ...] = ()
    link: Callable[[BuildTools], tuple[str, ...]] = lambda tools: ()
    rules: Callable[[Dut], str] = lambda dut: ""
    generated: tuple[tuple[str, str], ...] = ()
    bench: tuple[Path, ...] = ()
    unit_bytes: int = 400_000
    coverage: bool = False
    trace: str = "fst"


def public_ports(dut: Dut) -> str:
    """Rules by which the ports of the top level, and nothing else, can be reached by name (VPI)."""
    return "".join(f'public_flat_rw -module "{dut.top}" -var "{port}"\n' for port in (*dut.ports, *dut.idle))


COCOTB = Flavour(
    "cocotb",
    # ``-O2`` costs more in the compiler than any short simulation returns.
    "-Og",
    main=lambda tools: (sim_root() / "window.h", sim_root() / "end_with_parent.h", tools.cocotb_main),
    flags=("--vpi",),
    link=lambda tools: (f"-L{tools.cocotb_libs}", f"-Wl,-rpath,{tools.cocotb_libs}", "-lcocotbvpi_verilator"),
    rules=public_ports,
)
"""A simulator that cocotb drives through VPI."""


@dataclass(frozen=True)
class Built:
    """A simulator that can be run.

    Args:
        dut: What was built.
        executable: The program.
        folder: The build folder; ``build.log`` lies in it.
        waves: Whether it can write FST.
        identity: Hash of everything that went into it.
        reused: Whether the build folder was found to be current.
        seconds: Time taken.
        cached: Whether it was not built but came from the cache.
        coverage: Whether it counts lines and toggles.
    """

    dut: Dut
    executable: Path
    folder: Path
    waves: bool
    identity: str
    reused: bool
    seconds: float
    cached: bool = False
    coverage: bool = False


class Place(TypedDict, total=False):
    """Where and with what a simulator is built; see :func:`build`."""

    cache_dir: Path | None
    tools: BuildTools | None
    cycles: int | None


def build(
    dut: Dut,
    build_dir: Path,
    *,
    waves: bool = False,
    cache_dir: Path | None = None,
    tools: BuildTools | None = None,
    flavour: Flavour = COCOTB,
    cycles: int | None = None,
) -> Built:
    """Make sure that ``build_dir`` has the simulator of a design: it is current, or in the cache, or is built.

    Args:
        dut: The design.
        build_dir: Where the simulator is kept; one design per folder. Safe to share between processes.
        waves: Make a simulator that can write FST.
        cache_dir: The build cache; ``runtime-cache`` beside ``build_dir`` by default.
        tools: From :func:`find_build_tools`; looked up if missing.
        flavour: What kind of simulator; its level of optimisation is the highest.
        cycles: About how many will be simulated. A short run is over sooner with a simulator that is not optimised; one
            that is there already is taken, a slower one unless the run is long. None: optimise.

    Raises:
        ToolError: If a tool is missing or the C++ compiler fails.
        SimulationError: If Verilator refuses the design; a warning is a refusal.
        EmitError: If a folder cannot be written, or a source cannot be read or is not what the design says it is.
    """
    begin = time.perf_counter()
    cache_dir = cache_folder(build_dir, cache_dir)
    tools = tools or find_build_tools(memory=cache_dir)
    # From here on nothing is read again: whatever happens to the sources, program and identity belong together.
    given = take(dut.sources, flavour.main(tools), flavour.bench, dut.digests)
    wanted = [(identity_of(dut, tools, waves, each, given), each) for each in _levels(flavour, cycles)]
    build_dir, cache = build_dir.resolve(), Cache(cache_dir)
    cached = False
    with locked(build_dir / ".lock", "the build folder"):
        identity = next((each for each, _ in wanted if _is_current(build_dir, each)), None)
        reused = identity is not None
        if identity is None:
            identity, chosen = next((each for each in wanted if cache.has(each[0])), wanted[0])
            # Always in this order, build folder before cache, so that builders cannot wait for each other.
            with cache.using(identity), writing("the build folder", build_dir):
                (build_dir / "stamp.json").unlink(missing_ok=True)
                cached = cache.take(identity, build_dir)
                if not cached:
                    library = runtime(tools, cache_dir, waves=waves, optimise=chosen.optimise)
                    _build(dut, build_dir, library, chosen, waves, given)
                    about = {"top": dut.top, "parameters": dict(dut.parameters), "waves": waves}
                    cache.put(identity, build_dir, about | {"flavour": chosen.name, "optimise": chosen.optimise})
                _stamp(build_dir, identity)
    seconds = time.perf_counter() - begin
    return Built(dut, build_dir / PROGRAM, build_dir, waves, identity, reused, seconds, cached, flavour.coverage)


SHORT_RUN, PATIENT_RUN, LONG_RUN = 20_000, 100_000, 10_000_000
"""Cycles up to which a simulator that was not optimised is built, up to which one that is there is taken (its run is
over before a faster one would be built), and from which the highest level is worth it.
Processor seconds of build and run without, with -Og, -O1 and -O2: digits MLP 1.4, 1.6, 2.1 and 3.1; digits CNN 2.0,
2.4, 3.0 and 4.6; MobileNet with 16 lanes 34, 35, 54 and 105, of which 18,000 cycles are 5.9, 0.3, 0.3 and 0.2;
a cycle of ResNet-8 with 4 lanes takes 1.7 us with -Og, 1.5 with -O1 (``benchmarks/time_to_verdict.py``)."""


def _levels(flavour: Flavour, cycles: int | None) -> list[Flavour]:
    """The flavour at the level that a run of so many cycles deserves, then at all others that will do."""
    levels = ["-O0", "-Og", "-O2"]
    levels = levels[: levels.index(flavour.optimise) + 1]
    if cycles is None or cycles > LONG_RUN:
        return [flavour]
    begin = min(0 if cycles <= SHORT_RUN else 1, len(levels) - 1)
    lower = levels[:begin] if cycles <= PATIENT_RUN else []
    return [replace(flavour, optimise=level) for level in (*levels[begin:], *lower)]


def cache_folder(build_dir: Path, cache_dir: Path | None) -> Path:
    """The cache that a build in ``build_dir`` uses if the caller named ``cache_dir``."""
    return (cache_dir or build_dir.resolve().parent / "runtime-cache").resolve()


def identity_of(dut: Dut, tools: BuildTools, waves: bool, flavour: Flavour, given: Snapshot) -> str:
    """Hash of everything that goes into a simulator."""
    digest = hashlib.sha256()
    facts = [tools.fingerprint, flavour.name, *FLAGS, *flavour.flags, *flavour.link(tools), flavour.optimise]
    facts += [f"{waves=}", f"{flavour.coverage=}", f"{dut.foreign=}", flavour.rules(dut), dut.top, *dut.ports]
    facts += [f"{name}={value!r}" for name, value in sorted(dut.parameters.items())]
    facts += [port_widths(dut), *(text for file in flavour.generated for text in file)]
    for fact in facts:
        digest.update(fact.encode() + b"\0")
    given.feed(digest)
    return digest.hexdigest()


def _is_current(build_dir: Path, identity: str) -> bool:
    try:
        stamp = json.loads((build_dir / "stamp.json").read_text(encoding="utf-8"))
        if stamp["identity"] != identity:
            return False
        # The program itself is checked too: a damaged one is rebuilt, not run.
        return bool(stamp["executable"] == file_hash(build_dir / PROGRAM))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _stamp(build_dir: Path, identity: str) -> None:
    stamp = {"identity": identity, "executable": file_hash(build_dir / PROGRAM)}
    write_whole(build_dir / "stamp.json", json.dumps(stamp, indent=1) + "\n")


def _build(dut: Dut, build_dir: Path, library: Runtime, flavour: Flavour, waves: bool, given: Snapshot) -> None:
    tools, model = library.tools, build_dir / "model"
    emptied(model)
    log: list[str] = []
    try:
        copies = given.write(model)
        listing = _verilate(dut, model, tools, flavour, waves, log, copies)
        workers = tools.jobs or compilers()
        units = _units(model, listing, flavour, copies.main, waves, workers)
        flags = [*library.flags, f"-I{model}", *(f"-I{path.parent}" for path in copies.bench[:1]), "-Winvalid-pch"]
        with ThreadPoolExecutor(max_workers=workers) as pool, _ended_with_us(pool) as submit:
            # The longest first: the runtime, if it is not cached, and among it the header that all units wait for.
            header = submit(library.header)
            fixed = [submit(library.object, Path(source)) for source in listing["global"]]
            if copies.bench:
                fixed.append(submit(library.driver, copies.bench, _macros(waves, flavour)))
            command, shared = [*tools.compiler, *flags], header.result()
            compiled = [submit(_compile, command, shared, unit, tools) for unit in units]
            objects = []
            for unit in compiled:
                path, output = unit.result()
                objects.append(str(path))
                log.append(output)
            objects += [str(item.result()) for item in fixed]
        link = [*tools.compiler, *tools.linker, *objects, "-pthread", *flavour.link(tools), *library.libraries]
        _checked([*link, "-o", str(model / PROGRAM)], tools, "the simulator does not link", log, model)
        os.replace(model / PROGRAM, build_dir / PROGRAM)
    finally:
        # The old log may be linked into the cache, so it is replaced, not written over.
        (build_dir / LOG).unlink(missing_ok=True)
        (build_dir / LOG).write_text("\n".join(log), encoding="utf-8")


@contextmanager
def _ended_with_us(pool: ThreadPoolExecutor) -> Iterator[Callable[..., Future[Any]]]:
    """Gives what submits compilers to a pool; interrupted, it ends those that run, and no other begins."""
    submitted: list[Future[Any]] = []

    def submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        submitted.append(pool.submit(function, *arguments))
        return submitted[-1]

    try:
        yield submit
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        end_tools(submitted)
        raise


def _verilate(
    dut: Dut, model: Path, tools: BuildTools, flavour: Flavour, waves: bool, log: list[str], copies: Copies
) -> dict[str, list[str]]:
    rules = model / "rules.vlt"
    rules.write_text(f"`verilator_config\n{flavour.rules(dut)}", encoding="utf-8")
    command = [*tools.verilate, *(flag for flag in FLAGS if not dut.foreign or flag != "-Wall"), *flavour.flags]
    command += ["--top-module", dut.top, "--prefix", "Vtop", "-Mdir", "."]
    command += [f"--trace-{flavour.trace}"] if waves else []
    command += [f"-G{name}={literal(value)}" for name, value in dut.parameters.items()]
    widths = model / "port_widths.sv"
    widths.write_text(port_widths(dut), encoding="utf-8")
    # Relative: Verilator and C++ take quotes, and Verilator $NAME, in the name of a file for something else.
    command += [str(path.relative_to(model)) for path in (rules, *copies.sources, widths)]
    done = run_tool(command, tools.env, model)
    said = copies.named(done.stdout)
    log.append(f"$ {shlex.join(command)}\n{said}")
    if done.returncode and (full := full_disk(model, said)):
        raise ToolError("Verilator cannot finish", node=dut.design, got=first_errors(said), remedy=full)
    if done.returncode < 0 or (done.returncode and not said.strip()):  # by a limit, or by what kills processes
        raise ToolError(
            "Verilator ended without a word",
            node=dut.design,
            got=f"exit code {done.returncode}",
            remedy="check the limits of the shell (`ulimit -a`), memory and free space, then `mase-hw doctor`",
        )
    if done.returncode:
        raise SimulationError(
            f"Verilator refuses {dut.design}",
            node=dut.design,
            got=first_errors(said),
            remedy=f"the full log is {model.parent / 'build.log'}",
        )
    sources = from_verilator((model / "Vtop.json").read_bytes())["sources"]
    return {kind: [str(model / file) for file in files] for kind, files in sources.items()}


def from_verilator(text: bytes) -> dict[str, dict[str, list[str]]]:
    r"""What Verilator wrote as JSON, in which a byte that is not printable is three octal digits: ü is \303\274."""

    def byte(escape: re.Match[bytes]) -> bytes:
        return escape[0] if escape[1] is None else bytes([int(escape[1], 8)])

    written = os.fsdecode(re.sub(rb"\\(?:([0-3][0-7]{2})|.)", byte, text))
    found: dict[str, dict[str, list[str]]] = json.loads(written, strict=False)
    return found


def literal(value: int | str) -> str:
    """A parameter as SystemVerilog writes it."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    value = int(value)
    # A bare negative number is not a literal; 32 bits is what `parameter int` holds.
    return str(value) if value >= 0 else f"32'sh{value & 0xFFFFFFFF:08x}"


def _units(
    model: Path, listing: dict[str, list[str]], flavour: Flavour, main: tuple[Path, ...], waves: bool, workers: int
) -> list[Path]:
    """Gather the generated files, and the main program, into units of about equal size, one a worker if that is enough.

    An optimising compiler takes longer for large units than for small ones, another one only for each more.
    """
    for name, text in flavour.generated:
        (model / name).write_text(text, encoding="utf-8")
    program = (*(model / name for name, _ in flavour.generated), *main)
    groups: list[list[Path]] = [[*program]]
    files = [Path(name) for kind in _KINDS for name in listing.get(kind, [])]
    limit = flavour.unit_bytes
    if flavour.optimise == "-O0":
        # A little more than its part: files are not divided, and what is left over would be a unit of its own.
        share = sum(file.stat().st_size for file in files) * 21 // (20 * workers) + 1
        limit = max(limit, min(share, _MOST_UNIT_BYTES))
    size = 0
    for file in files:
        size += file.stat().st_size
        if size > limit:
            groups.append([])
            size = file.stat().st_size
        groups[-1].append(file)
    macros = _macros(waves, flavour)
    units = []
    for index, group in enumerate(group for group in groups if group):
        unit = model / f"unit_{index}.cpp"
        # The model first: the main program includes its header itself.
        ordered = sorted(group, key=lambda file: file in program)
        include = (f'#include "{file.relative_to(model)}"\n' for file in ordered)
        unit.write_text(macros + "".join(include), encoding="utf-8")
        units.append(unit)
    return units


def _macros(waves: bool, flavour: Flavour) -> str:
    """What Verilator's own makefile would say of a model, as lines of C++."""
    said = {"TRACE": waves, "TRACE_FST": 0, "TRACE_VCD": 0, "TRACE_SAIF": 0, "SC": 0, "TIMING": 0}
    said |= {f"TRACE_{flavour.trace.upper()}": waves, "COVERAGE": flavour.coverage}
    return "".join(f"#define VM_{name} {int(value)}\n" for name, value in said.items())


def _compile(command: Sequence[str], header: Path, unit: Path, tools: BuildTools) -> tuple[Path, str]:
    """With the shared header; if something is missing in it, with Verilator's own, which the unit includes."""
    log: list[str] = []
    target = unit.with_suffix(".o")
    end, message = ["-c", str(unit), "-o", str(target)], "the model does not compile"
    try:
        _checked([*command, "-include", str(header), *end], tools, message, log, unit.parent)
    except ToolError:
        _checked([*command, *end], tools, message, log, unit.parent)
    return target, "\n".join(log)


def _checked(command: Sequence[str], tools: BuildTools, message: str, log: list[str], folder: Path) -> None:
    done = run_tool(command, tools.env)
    log.append(f"$ {' '.join(command)}\n{done.stdout}")
    if done.returncode:
        raise ToolError(
            message,
            node=command[0],
            got=f"exit code {done.returncode}\n    {first_errors(done.stdout)}",
            remedy=full_disk(folder, done.stdout) or "check the C++ compiler with `mase-hw doctor`",
        )
