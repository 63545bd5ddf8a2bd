"""A module that shows every lane of every stream as a signal of its own, for the simulator only.

The bits of a lane are numbered so that the binary point is right of bit 0: with 8 bits, 5 of them behind the point, a
lane is ``[2:-5]``. Viewers that know fixed point take the format from that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from mase_hw.errors import EmitError
from mase_hw.host.disk import not_written, write_whole
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.waves.shown import LANES, Shown, groups, scope_of

MODULE = "mase_hw_waves"
FOLDER = "waves"
"""Where the module is written, in a work folder."""


def with_lanes(dut: Dut, streams: Sequence[Shown], folder: Path) -> Dut:
    """The same design with a module that shows the lanes of its streams.

    Args:
        dut: A design.
        streams: What is shown; the design as it is if there are none.
        folder: Where the module is written.

    Raises:
        EmitError: If the folder cannot be written.
    """
    if not streams:
        return dut
    file = folder.resolve() / f"{MODULE}.sv"
    try:
        write_whole(file, lanes_module(dut.top, streams))
    except OSError as problem:
        raise not_written("the module that shows lanes", folder, problem, EmitError) from problem
    return dataclasses.replace(dut, sources=(file, *dut.sources))


def lanes_module(top: str, streams: Sequence[Shown]) -> str:
    """The module, and its binding to a top level.

    Args:
        top: The top level.
        streams: What is shown.
    """
    ports, bound, body = [], [], []
    numbers = {id(stream): index for index, stream in enumerate(streams)}
    for stream in streams:
        net = f"s{numbers[id(stream)]}"
        whole = stream.lanes * stream.width
        ports += [f"  input wire {f'[{whole - 1}:0] ' if whole > 1 else ''}{net}_data,"]
        ports += [f"  input wire {net}_{part}," for part in ("valid", "ready")]
        bound += [f"  .{net}_data({stream.source}),"]
        bound += [f"  .{net}_{part}({stream.source}_{part})," for part in ("valid", "ready")]
    for group, members in groups(streams).items():
        body.append(f"  if (1) begin : {scope_of(group)}")
        for stream in members:
            net = f"s{numbers[id(stream)]}"
            body.append(f"    if (1) begin : {stream.name}")
            body += [f"      wire {part} = {net}_{part};" for part in ("valid", "ready")]
            for lane in range(stream.lanes):
                low = lane * stream.width
                bits = f"{low + stream.width - 1}:{low}" if stream.lanes * stream.width > 1 else ""
                body.append(f"      wire {stream.range} lane_{lane} = {net}_data{f'[{bits}]' if bits else ''};")
            body.append("    end")
        body.append("  end")
    ports[-1], bound[-1] = ports[-1].rstrip(","), bound[-1].rstrip(",")
    return "\n".join(
        [
            "// Written by mase_hw for waves: every lane of every stream, by node. Nothing is synthesised from it.",
            "/* verilator lint_off UNUSEDSIGNAL */  // a signal that is only looked at is read by nothing",
            f"module {MODULE} (",
            *ports,
            ");",
            *body,
            "endmodule",
            "/* verilator lint_on UNUSEDSIGNAL */",
            f"bind {top} {MODULE} {LANES} (",
            *bound,
            ");",
            "",
        ]
    )
