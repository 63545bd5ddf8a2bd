"""The top level of the fast engine: the design between sources and sinks in SystemVerilog.

Everything that depends on the design is here, everything that depends on the run is in files that ``fast_plan`` writes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from mase_hw.resources import sim_root
from mase_hw.simulate.dut import Dut
from mase_hw.streams import Stream

TOP = "fast_harness"
MODULES = ("stream_stalls", "stream_source", "stream_sink", "stream_control")
_OUT = {
    "done": "logic",
    "tick": "logic",
    "wake": "logic",
    "resets": "int",
    "requested": "int",
    "cycle": "longint",
    "beats": "longint",
}
_IN = {"reset_request": "logic", "reset_length": "int", "wake_cycle": "longint"}


@dataclass(frozen=True)
class HarnessDut(Dut):
    """A design in its harness: the streams are the design's, the ports are the harness's.

    Args:
        wrapped: Name of the design's top module.
    """

    wrapped: str = ""

    @property
    def design(self) -> str:
        """The module in the harness."""
        return self.wrapped

    @property
    def inside(self) -> str:
        """The path of the design in the harness."""
        return f"{self.top}.u_dut."

    @property
    def ports(self) -> tuple[str, ...]:
        """What cocotb can reach."""
        return (*_OUT, *_IN, *(name for i, s in enumerate(self.streams) for name in (*_outs(i, s), *_ins(i, s))))


def _outs(index: int, stream: Stream) -> dict[str, str]:
    """What a test may read of a stream."""
    bits = f"logic [{stream.bits - 1}:0]"
    return {f"data_{index}": bits, f"valid_{index}": "logic", f"ready_{index}": "logic", f"count_{index}": "longint"}


def _ins(index: int, stream: Stream) -> dict[str, str]:
    """How a test may intervene in a stream."""
    found = {f"hold_{index}": "logic", f"reload_{index}": "logic", f"wake_at_{index}": "longint"}
    if stream.direction == "in":
        found |= {f"flip_at_{index}": "longint", f"flip_{index}": f"logic [{stream.bits - 1}:0]"}
    return found


def harness(dut: Dut, file: Path) -> HarnessDut:
    """Describe the design in its harness, whose source will be ``file``."""
    library = [sim_root() / "hdl" / f"{name}.sv" for name in MODULES]
    sources = (*dut.sources, *library, file)
    digests = {**dut.digests, file: hashlib.sha256(harness_text(dut).encode()).hexdigest()}
    return HarnessDut(TOP, sources, {}, dut.streams, dut.memory, digests=digests, edges=dut.edges, wrapped=dut.top)


def harness_text(dut: Dut) -> str:
    """The SystemVerilog of the harness."""
    count, outputs = len(dut.streams), dut.outputs
    ports = {f"output {kind} {name}": None for name, kind in _OUT.items()}
    ports |= {f"input {kind} {name}": None for name, kind in _IN.items()}
    for index, stream in enumerate(dut.streams):
        ports |= {f"output {kind} {name}": None for name, kind in _outs(index, stream).items()}
        ports |= {f"input {kind} {name}": None for name, kind in _ins(index, stream).items()}
    lines = [f"module {TOP} (", "    input logic clk,", ",\n".join(f"    {port}" for port in ports), ");"]
    lines += [
        "  logic rst, release_rst, restart, started, calm, stop;",
        f"  logic [{count - 1}:0] moved, woken, finished;",
        f"  logic [{len(outputs) - 1}:0] broken;",
    ]
    for index, stream in enumerate(dut.streams):
        source = stream.direction == "in"
        pins = [
            ".clk", ".restart", ".calm", ".stop", ".cycle", ".halt(|broken)", f".moved(moved[{index}])",
            f".woken(woken[{index}])", f".all_done(finished[{index}])", f".accepted(count_{index})",
        ]  # fmt: skip
        pins += [f".{name}({name}_{index})" for name in ("data", "valid", "ready", "hold", "reload", "wake_at")]
        if source:
            pins += [".started", f".flip_at(flip_at_{index})", f".flip(flip_{index})"]
        else:
            pins += [".rst", ".release_rst", f".violation(broken[{outputs.index(stream)}])"]
        kind = "stream_source" if source else "stream_sink"
        lines.append(f'  {kind} #(.NAME("{stream.name}"), .BITS({stream.bits})) u_side_{index} ({", ".join(pins)});')
    sums = {}
    for direction in ("in", "out"):
        places = [index for index, stream in enumerate(dut.streams) if stream.direction == direction]
        sums[direction] = " + ".join(f"count_{i} + longint'(moved[{i}])" for i in places) or "0"
        if direction == "out":
            lines.append(f"  assign beats = {' + '.join(f'count_{i}' for i in places)};")
    control = [f".{name}" for name in (*_OUT, *_IN) if name != "beats"]
    control += [".clk", ".rst", ".release_rst", ".restart", ".started", ".calm", ".stop", ".moved(|moved)"]
    control += [".woken(|woken)", ".all_done(&finished)", ".violation(|broken)"]
    control += [f".in_beats({sums['in']})", f".out_beats({sums['out']})"]
    lines.append(f"  stream_control u_control ({', '.join(control)});")
    parameters = ", ".join(f".{name}({_literal(value)})" for name, value in dut.parameters.items())
    pins = [".clk", ".rst"]
    for index, stream in enumerate(dut.streams):
        names = ((stream.name, "data"), (stream.valid, "valid"), (stream.ready, "ready"))
        pins += [f".{name}({wire}_{index})" for name, wire in names]
    for name, value in dut.tied.items():
        if not value:
            lines.append(f"  logic unused_{name};")
        pins.append(f".{name}({value or f'unused_{name}'})")
    lines.append(f"  {dut.top}{f' #({parameters})' if parameters else ''} u_dut ({', '.join(pins)});")
    return "\n".join([*lines, "endmodule", ""])


def _literal(value: int | str) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    # A bare negative number is not a literal; 32 bits is what `parameter int` holds.
    return str(int(value)) if value >= 0 else f"32'sh{int(value) & 0xFFFFFFFF:08x}"
