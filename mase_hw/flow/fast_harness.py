"""The top level of the fast engine: the design between sources and sinks in SystemVerilog.

Everything that depends on the design is here, everything that depends on the run is in files that ``fast_plan`` writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mase_hw.flow.dut import Dut
from mase_hw.resources import sim_root

TOP = "fast_harness"
MODULES = ("stream_stalls", "stream_source", "stream_sink", "stream_control")
_OUT = {"done": "logic", "tick": "logic", "cycle": "longint", "beats": "longint"}


@dataclass(frozen=True)
class HarnessDut(Dut):
    """A design in its harness: the streams are the design's, the ports are the harness's."""

    @property
    def ports(self) -> tuple[str, ...]:
        """What cocotb can reach."""
        return tuple(_OUT)


def harness(dut: Dut, file: Path) -> HarnessDut:
    """Describe the design in its harness, whose source will be ``file``."""
    library = [sim_root() / "hdl" / f"{name}.sv" for name in MODULES]
    return HarnessDut(TOP, (*dut.sources, *library, file), {}, dut.streams, dut.memory)


def harness_text(dut: Dut) -> str:
    """The SystemVerilog of the harness."""
    count, outputs = len(dut.streams), dut.outputs
    lines = [f"module {TOP} (", "    input logic clk,"]
    lines += [",\n".join(f"    output {kind} {name}" for name, kind in _OUT.items()), ");"]
    lines += [
        "  logic rst, release_rst, started, calm, stop;",
        f"  logic [{count - 1}:0] moved, finished;",
        f"  logic [{len(outputs) - 1}:0] broken;",
    ]
    for index, stream in enumerate(dut.streams):
        source = stream.direction == "in"
        counter = "" if source else f" longint count_{outputs.index(stream)};"
        lines.append(f"  logic [{stream.bits - 1}:0] data_{index}; logic valid_{index}, ready_{index};{counter}")
        ports = [
            ".clk", ".calm", ".stop", ".cycle", ".halt(|broken)", f".moved(moved[{index}])",
            f".all_done(finished[{index}])", f".data(data_{index})", f".valid(valid_{index})", f".ready(ready_{index})",
        ]  # fmt: skip
        if source:
            ports.append(".started")
        else:
            place = outputs.index(stream)
            ports += [".rst", ".release_rst", f".violation(broken[{place}])", f".accepted(count_{place})"]
        kind = "stream_source" if source else "stream_sink"
        lines.append(f'  {kind} #(.NAME("{stream.name}"), .BITS({stream.bits})) u_side_{index} ({", ".join(ports)});')
    total = " + ".join(f"count_{place}" for place in range(len(outputs)))
    lines.append(f"  assign beats = {total};")
    control = [
        ".clk", ".rst", ".release_rst", ".started", ".calm", ".stop", ".done", ".tick", ".cycle",
        ".moved(|moved)", ".all_done(&finished)", ".violation(|broken)",
    ]  # fmt: skip
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
