"""Builds the simulator of the batch engine: the model, a generated glue file, and the C++ driver of ``sim/batch``.

Nothing is public and there is no VPI, so Verilator may optimise everything but the ports. A build with probes exposes
nets of the top level to the driver, which then records their handshakes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mase_hw.errors import EmitError, SimulationError
from mase_hw.flow.build import FLAGS, Built, _checked, _compile, _literal, cache_folder, cached_build
from mase_hw.flow.cache import LOG, PROGRAM
from mase_hw.flow.coverage import FLAGS as COVERAGE_FLAGS
from mase_hw.flow.dut import Dut
from mase_hw.flow.runtime_cache import Runtime, runtime
from mase_hw.flow.tools import BuildTools, find_build_tools, first_errors, run_tool
from mase_hw.resources import sim_root
from mase_hw.streams import Stream

OPTIMISE = "-O2"
"""Level of the model and of the runtime: this engine is for long runs."""

_UNIT_BYTES = 800_000
_KINDS = ("classes_fast", "support_fast", "classes_slow", "support_slow")


def build(
    dut: Dut,
    build_dir: Path,
    *,
    waves: bool = False,
    cache_dir: Path | None = None,
    tools: BuildTools | None = None,
    jobs: int | None = None,
    probes: Sequence[Stream] = (),
    levels: Mapping[str, str] | None = None,
    coverage: bool = False,
    foreign: Sequence[str] = (),
) -> Built:
    """Make sure that ``build_dir`` has the simulator of a design: it is current, or in the cache, or is built.

    Args:
        dut: The design.
        build_dir: Where the simulator is kept; one design per folder. Safe to share between processes.
        waves: Make a simulator that can write FST.
        cache_dir: The build cache; ``runtime-cache`` beside ``build_dir`` by default.
        tools: From :func:`find_build_tools`; looked up if missing.
        jobs: Compilers to run at a time; the number of cores by default.
        probes: Nets of the top level to record, named as the signals are.
        levels: Signals of the top level that hold the fill level of a queue, of at most 32 bits, by its name.
        coverage: Make a simulator that counts lines, branches and toggles.
        foreign: Warnings that the sources may give; if there are any, none about style is a refusal either. For sources
            that all were written by another tool, such as a netlist.

    Raises:
        ToolError: If a tool is missing or the C++ compiler fails.
        SimulationError: If Verilator refuses the design; a warning is a refusal.
        EmitError: If a folder cannot be written, or a source cannot be read.
    """
    begin = time.perf_counter()
    tools = tools or find_build_tools(memory=cache_folder(build_dir, cache_dir))
    levels = levels or {}
    cache_dir, glue = cache_folder(build_dir, cache_dir), _glue(dut, probes, levels)
    public = [*(name for s in probes for name in (s.name, s.valid, s.ready)), *levels.values()]

    def make(folder: Path) -> None:
        library = runtime(tools, cache_dir, waves=waves, optimise=OPTIMISE)
        _build(dut, folder, library, glue, public, waves, jobs, foreign, coverage)

    identity = _identity(dut, tools, waves, glue, (*foreign, *(("coverage",) if coverage else ())))
    built = cached_build(dut, build_dir, cache_dir, identity, make, waves=waves, flavour="batch", begin=begin)
    return dataclasses.replace(built, coverage=coverage)


def _driver() -> tuple[Path, ...]:
    return tuple(sorted(path for path in (sim_root() / "batch").iterdir() if path.suffix in (".cpp", ".h")))


def _identity(dut: Dut, tools: BuildTools, waves: bool, glue: str, foreign: Sequence[str]) -> str:
    digest = hashlib.sha256()
    facts = ["batch", tools.fingerprint, *FLAGS, OPTIMISE, str(waves), dut.top, *dut.ports, glue]
    facts += [f"{name}={value!r}" for name, value in sorted(dut.parameters.items())]
    facts += [f"may warn {rule}" for rule in foreign]
    for fact in facts:
        digest.update(fact.encode() + b"\0")
    for source in (*dut.sources, *_driver()):
        try:
            content = source.read_bytes()
        except OSError as problem:
            raise EmitError("a source file cannot be read", node=str(source), got=str(problem)) from problem
        digest.update(f"{source.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def _glue(dut: Dut, probes: Sequence[Stream], levels: Mapping[str, str]) -> str:
    """The only C++ that depends on the design: where its ports, and the probed nets, lie."""

    def entry(place: str, stream: Stream) -> str:
        signals = ", ".join(f"&top->{place}{_mangled(name)}" for name in (stream.name, stream.valid, stream.ready))
        return f'    {{"{stream.name}", {signals}, {stream.bits}}},\n'

    inner = f"rootp->{_mangled(dut.top)}__DOT__"
    reads = {name: f"static_cast<unsigned long long>(top->{inner}{_mangled(s)})" for name, s in levels.items()}
    queues = "".join(f'    {{"{name}", [] {{ return {read}; }}}},\n' for name, read in reads.items())
    return f"""\
#include "Vtop.h"
#include "Vtop___024root.h"
#include "model.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif
#if BATCH_DIRECT
void Vtop___024root___eval(Vtop___024root *root);
#endif

namespace batch {{
namespace {{
Vtop *top;
#if BATCH_DIRECT
bool settled;
#endif
#if VM_TRACE
VerilatedFstC *waves;
#endif
}}  // namespace

Model open_model(VerilatedContext *context) {{
#if VM_TRACE
  context->traceEverOn(true);
#endif
  top = new Vtop{{context, ""}};
  return {{&top->clk, &top->rst, {{
{"".join(entry("", stream) for stream in dut.streams)}  }}, {{
{"".join(entry(inner, stream) for stream in probes)}  }}, {{
{queues}  }}}};
}}
#if BATCH_DIRECT
void eval_model() {{
  if (settled) return Vtop___024root___eval(top->rootp);
  settled = true;
  top->eval();
}}
#else
void eval_model() {{ top->eval(); }}
#endif
#if VM_TRACE
void trace_model(const char *file) {{
  waves = new VerilatedFstC;
  top->trace(waves, 99);
  waves->open(file);
}}
void dump_model(unsigned long long time) {{ waves->dump(static_cast<uint64_t>(time)); }}
#else
void trace_model(const char *) {{}}
#endif
void close_model() {{
  top->final();
#if VM_TRACE
  if (waves) waves->close();
#endif
}}
}}  // namespace batch
"""


def _mangled(name: str) -> str:
    """A SystemVerilog name as Verilator spells it in C++: a double underscore is its own separator."""
    return name.replace("__", "___05F")


def _build(
    dut: Dut,
    build_dir: Path,
    library: Runtime,
    glue: str,
    public: Sequence[str],
    waves: bool,
    jobs: int | None,
    foreign: Sequence[str],
    coverage: bool,
) -> None:
    tools, model = library.tools, build_dir / "model"
    shutil.rmtree(model, ignore_errors=True)
    model.mkdir()
    log: list[str] = []
    try:
        listing = _verilate(dut, model, tools, public, waves, log, foreign, coverage)
        (model / "glue.cpp").write_text(glue, encoding="utf-8")
        direct = has_plain_eval((model / "Vtop.cpp").read_text(encoding="utf-8"))
        units = _units(model, listing, waves, coverage, direct)
        flags = [*library.flags, f"-I{model}", f"-I{sim_root() / 'batch'}", "-Winvalid-pch"]
        with ThreadPoolExecutor(max_workers=jobs or os.cpu_count() or 1) as pool:
            header = pool.submit(library.header)
            fixed = [pool.submit(library.object, Path(source)) for source in listing["global"]]
            include = ["-include", str(header.result())]
            compiled = [pool.submit(_compile, [*tools.compiler, *flags, *include], unit, tools) for unit in units]
            objects = []
            for unit in compiled:
                path, output = unit.result()
                objects.append(str(path))
                log.append(output)
            objects += [str(item.result()) for item in fixed]
        link = [*tools.compiler, *objects, "-pthread", *library.libraries, "-o", str(model / PROGRAM)]
        _checked(link, tools, "the simulator does not link", log)
        os.replace(model / PROGRAM, build_dir / PROGRAM)
    finally:
        # The old log may be linked into the cache, so it is replaced, not written over.
        (build_dir / LOG).unlink(missing_ok=True)
        (build_dir / LOG).write_text("\n".join(log), encoding="utf-8")


def _verilate(
    dut: Dut,
    model: Path,
    tools: BuildTools,
    public: Sequence[str],
    waves: bool,
    log: list[str],
    foreign: Sequence[str],
    coverage: bool,
) -> dict[str, list[str]]:
    rules = "".join(f'public_flat_rd -module "{dut.top}" -var "{name}"\n' for name in public)
    rules += "".join(f'lint_off -rule {rule} -file "{file}"\n' for rule in foreign for file in dut.sources)
    (model / "probes.vlt").write_text(f"`verilator_config\n{rules}", encoding="utf-8")
    flags = [flag for flag in FLAGS if not foreign or flag != "-Wall"]
    command = [str(tools.verilator), *flags, "--top-module", dut.top, "--prefix", "Vtop", "-Mdir", str(model)]
    command += ["--trace-fst"] if waves else []
    command += COVERAGE_FLAGS if coverage else ()
    command += [f"-G{name}={_literal(value)}" for name, value in dut.parameters.items()]
    command += [str(model / "probes.vlt"), *(str(source.resolve()) for source in dut.sources)]
    done = run_tool(command, tools.env, model)
    log.append(f"$ {' '.join(command)}\n{done.stdout}")
    if done.returncode:
        raise SimulationError(
            f"Verilator refuses {dut.top}",
            node=dut.top,
            got=first_errors(done.stdout),
            remedy=f"the full log is {model.parent / 'build.log'}",
        )
    written = json.loads((model / "Vtop.json").read_text(encoding="utf-8"))["sources"]
    return {kind: list(map(str, files)) for kind, files in written.items()}


_PLAIN_EVAL = """
    vlSymsp->__Vm_deleter.deleteAll();
    if (VL_UNLIKELY(!vlSymsp->__Vm_didInit)) {
    Vtop___024root___eval_static(&(vlSymsp->TOP));
    Vtop___024root___eval_initial(&(vlSymsp->TOP));
    Vtop___024root___eval_settle(&(vlSymsp->TOP));
    vlSymsp->__Vm_didInit = true;
    }
    Vtop___024root___eval(&(vlSymsp->TOP));
    Verilated::endOfEval(vlSymsp->__Vm_evalMsgQp);
"""


def has_plain_eval(model: str) -> bool:
    """Whether ``Vtop::eval_step``, as Verilator wrote it, does nothing after the first time but evaluate.

    It also frees dynamic objects, of which these designs have none, and flushes the messages of threads, which they do
    not have either; the locks of the latter cost as much as hundreds of instructions, twice a cycle. Where it does
    anything else, such as marking signals for waves, the driver must not go past it.

    Args:
        model: Text of ``Vtop.cpp``.
    """
    _, _, rest = model.partition("void Vtop::eval_step() {\n")
    body = re.sub(r"#ifdef VL_DEBUG\n.*?#endif[^\n]*\n", "", rest.partition("\n}\n")[0] + "\n", flags=re.DOTALL)
    lines = (line.strip() for line in body.splitlines())
    kept = [line for line in lines if line and not line.startswith(("//", "VL_DEBUG_IF("))]
    return kept == _PLAIN_EVAL.replace("    ", "").split("\n")[1:-1]


def _units(model: Path, listing: dict[str, list[str]], waves: bool, coverage: bool, direct: bool) -> list[Path]:
    """The driver and the glue as the first unit, the generated files gathered into units of about equal size."""
    groups: list[list[Path]] = [[model / "glue.cpp", sim_root() / "batch" / "bench.cpp"], []]
    size = 0
    for file in (Path(name) for kind in _KINDS for name in listing.get(kind, [])):
        size += file.stat().st_size
        if size > _UNIT_BYTES and groups[-1]:
            groups.append([])
            size = file.stat().st_size
        groups[-1].append(file)
    macros = {"TRACE": waves, "TRACE_FST": waves, "TRACE_VCD": 0, "TRACE_SAIF": 0, "SC": 0, "TIMING": 0}
    macros["COVERAGE"] = coverage
    prologue = "".join(f"#define VM_{name} {int(value)}\n" for name, value in macros.items())
    prologue += f"#define BATCH_DIRECT {int(direct)}\n"
    prologue += '#include "extend.h"\n'
    units = []
    for index, group in enumerate(groups):
        unit = model / f"unit_{index}.cpp"
        unit.write_text(prologue + "".join(f'#include "{file}"\n' for file in group), encoding="utf-8")
        units.append(unit)
    return units
