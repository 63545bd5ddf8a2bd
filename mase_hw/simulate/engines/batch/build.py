"""Builds the simulator of the batch engine: the model, a generated glue file, and the C++ driver of ``sim/batch``.

Nothing is public and there is no VPI, so Verilator may optimise everything but the ports. A build with probes exposes
nets of the top level to the driver, which then records their handshakes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mase_hw.errors import ConfigError
from mase_hw.resources import sim_root
from mase_hw.simulate.build import simulator as simulators
from mase_hw.simulate.build.simulator import Built, Flavour
from mase_hw.simulate.build.tools import OPTIMISED, BuildTools
from mase_hw.simulate.coverage import FLAGS as COVERAGE_FLAGS
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.exercise.watch import ADDED
from mase_hw.streams import Stream


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
    cycles: int | None = None,
    threads: int = 1,
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
        levels: Signals of the top level that hold the fill level of a FIFO, of at most 32 bits, by its name.
        coverage: Make a simulator that counts lines, branches and toggles.
        foreign: Warnings that the sources may give; if there are any, none about style is a refusal either. For sources
            that all were written by another tool, such as a netlist.
        cycles: About how many will be simulated; see :func:`mase_hw.simulate.build.simulator.build`.
        threads: Make a simulator that evaluates the design with so many threads.

    Raises:
        ConfigError: If there is less than one thread.
        ToolError: If a tool is missing or the C++ compiler fails.
        SimulationError: If Verilator refuses the design; a warning is a refusal.
        EmitError: If a folder cannot be written, or a source cannot be read.
    """
    if threads < 1:
        raise ConfigError("a simulator needs at least one thread", field="threads", got=threads, expected="1 or more")
    levels = levels or {}
    public = [*(name for s in probes for name in (s.name, s.valid, s.ready)), *levels.values()]

    def rules(dut: Dut) -> str:
        lines = [f'public_flat_rd -module "{dut.top}" -var "{name}"' for name in public]
        lines += [f'lint_off -rule {rule} -file "*/{file.name}"' for rule in foreign for file in dut.sources]
        # Said of no line of a source: a design with too little to do for all threads, which computes the same.
        lines += ['lint_off -rule UNOPTTHREADS -file "*"'] if threads > 1 else []
        # The monitors and connectors of a simulation are no part of the design.
        lines += [f'coverage_off -file "*/{name}.sv"' for name in ADDED] if coverage else []
        return "".join(f"{line}\n" for line in lines)

    flavour = Flavour(
        "batch",
        OPTIMISED,  # this engine is for long runs
        main=lambda tools: (),
        driver=(sim_root() / "end_with_parent.h", sim_root() / "batch" / "testbench.cpp"),
        flags=(*(COVERAGE_FLAGS if coverage else ()), *(("--threads", str(threads)) if threads > 1 else ())),
        rules=rules,
        folders=(sim_root() / "batch",),
        generated=(("glue.cpp", _glue(dut, probes, levels, threads)),),
        prologue='#include "extend.h"\n',
        unit_bytes=800_000,
        coverage=coverage,
        strict=not foreign,
    )
    return simulators.build(
        dut, build_dir, waves=waves, cache_dir=cache_dir, tools=tools, jobs=jobs, flavour=flavour, cycles=cycles
    )


def _glue(dut: Dut, probes: Sequence[Stream], levels: Mapping[str, str], threads: int) -> str:
    """The only C++ that depends on the design: where its ports, and the probed nets, lie."""

    def entry(place: str, stream: Stream) -> str:
        signals = ", ".join(f"&top->{place}{_mangled(name)}" for name in (stream.name, stream.valid, stream.ready))
        return f'    {{"{stream.name}", {signals}, {stream.bits}}},\n'

    inner = f"rootp->{_mangled(dut.top)}__DOT__"
    reads = {name: f"static_cast<unsigned long long>(top->{inner}{_mangled(s)})" for name, s in levels.items()}
    fifos = "".join(f'    {{"{name}", [] {{ return {read}; }}}},\n' for name, read in reads.items())
    return f"""\
#include "Vtop.h"
#include "Vtop___024root.h"
#include "model.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif

namespace batch {{
namespace {{
Vtop *top;
#if VM_TRACE
VerilatedFstC *waves;
#endif
}}  // namespace

Model open_model(VerilatedContext *context) {{
#if VM_TRACE
  context->traceEverOn(true);
#endif
  // Else there are as many as cores, used or not. The system places them, since other processes have threads as well.
  context->threads({threads});
  context->useNumaAssign(false);
  top = new Vtop{{context, ""}};
  return {{&top->clk, &top->rst, {{
{"".join(entry("", stream) for stream in dut.streams)}  }}, {{
{"".join(entry(inner, stream) for stream in probes)}  }}, {{
{fifos}  }}}};
}}
void eval_model() {{ top->eval(); }}
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
