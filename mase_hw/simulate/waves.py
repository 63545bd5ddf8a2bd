"""Waves for people: the lanes of every stream as fixed-point numbers, and save files of the viewers.

The bits of a lane are numbered so that the binary point is right of bit 0: with 8 bits, 5 of them behind the point, a
lane is ``[2:-5]``. Viewers that know fixed point take the format from that.

GTKWave: the lines of its ``savefile.c``; a line of flags holds for the signals behind it. Surfer: its commands, one a
line (https://docs.surfer-project.org/book/); items are added first and formatted by their number afterwards, which is
written in hexadecimal with the letters a to p.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mase_hw.errors import EmitError
from mase_hw.hardware.manifest import Fixed, Instance, Manifest
from mase_hw.host.disk import write_whole, writing
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.plan import Limits
from mase_hw.simulate.result import SimResult

PORTS = "ports"
"""The group of the streams of the design itself."""
_FIELD = "_PRECISION_0"
_ABSENT = {"BIAS": "HAS_BIAS", "WEIGHT_SHIFT": "HAS_WEIGHT_SHIFT"}
"""Streams that a module does not read if a parameter of it is 0."""


@dataclass(frozen=True)
class Shown:
    """A stream in waves.

    Args:
        group: The node, or :data:`PORTS`.
        name: Of the stream in its group.
        source: Where its data is, seen from the top level; ``valid`` and ``ready`` beside it.
        lanes: Numbers of a beat.
        width: Bits of a number.
        frac_width: Bits behind the binary point; may be negative, or more than ``width``.
        signed: Whether numbers have a sign.
        output: Name of the port of the design, if it is an output.
    """

    group: str
    name: str
    source: str
    lanes: int
    width: int
    frac_width: int
    signed: bool
    output: str | None = None

    @property
    def scope(self) -> str:
        """Where it is below the top level, its parts separated by dots."""
        return f"{LANES}.{scope_of(self.group)}.{self.name}"

    @property
    def range(self) -> str:
        """The bits of a lane as they are declared, the binary point right of bit 0; nothing for a single bit."""
        if self.width == 1:
            return ""
        return f"[{self.width - 1 - self.frac_width}:{-self.frac_width}]"


LANES = "waves"
"""Instance that shows them, in the top level."""


def scope_of(group: str) -> str:
    """The scope of a group: Verilator leaves out names that begin with an underscore, as some of nodes do."""
    return group if group == PORTS else f"node_{group}".replace(".", "_")


def shown_streams(manifest: Manifest) -> list[Shown]:
    """Every stream of fixed-point numbers: the ports of the design first, then those of the modules by node.

    Args:
        manifest: Of a bundle.
    """
    found = []
    for port in manifest.ports:
        fmt = port.format
        frac = fmt.frac_width if isinstance(fmt, Fixed) else 0
        output = port.name if port.direction == "out" else None
        found.append(Shown(PORTS, port.name, port.name, port.lanes, fmt.width, frac, fmt.signed, output))
    taken: set[str] = set()
    for instance in manifest.instances:
        group, parameters = _group(instance, taken), instance.parameters
        for key in (k.removesuffix(_FIELD) for k in parameters if k.endswith(_FIELD)):
            lanes = [int(v) for k, v in parameters.items() if k.startswith(f"{key}_PARALLELISM_DIM_")]
            below = parameters.get(f"{key}_PRECISION_1")
            if not lanes or below is None or not parameters.get(_ABSENT.get(key, ""), 1):
                continue
            name = key.lower()
            numbers = (math.prod(lanes), int(parameters[key + _FIELD]), int(below))
            signed = bool(parameters.get(f"{key}_SIGNED", 1))
            found.append(Shown(group, name, f"{_place(manifest, instance.name)}.{name}", *numbers, signed))
    return found


def _place(manifest: Manifest, instance: str) -> str:
    """Where an instance is, seen from the top level: of several devices, in the core of its own."""
    for device in manifest.devices.values():
        if instance.startswith(device.begins):
            return f"{device.core}.{instance.removeprefix(device.begins)}"
    return instance


def _group(instance: Instance, taken: set[str]) -> str:
    """The node; the instance, if another instance of the node was there before."""
    name = instance.node
    has_streams = any(key.endswith(_FIELD) for key in instance.parameters)
    if name in taken:
        name = instance.name
    if has_streams:
        taken.add(name)
    return name


def groups(streams: Sequence[Shown]) -> dict[str, list[Shown]]:
    """Streams by group."""
    found: dict[str, list[Shown]] = {}
    for stream in streams:
        found.setdefault(stream.group, []).append(stream)
    return found


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
    with writing("the module that shows lanes", folder, EmitError):
        write_whole(file, lanes_module(dut.top, streams))
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


GTKWAVE, SURFER = ".gtkw", ".sucl"
MOST_LANES = 8
"""Lanes of a stream that are listed; all are in the waves."""
MARKER = "first_wrong_beat"
_DECIMAL, _BINARY, _RIGHT, _BLANK, _SIGNED = 1 << 2, 1 << 3, 1 << 5, 1 << 9, 1 << 10
_BEGIN, _END, _SHIFT = 1 << 23, 1 << 24, 1 << 30
_MARKERS = 26
"""Named markers of GTKWave."""


@dataclass(frozen=True)
class Mark:
    """Where a run goes wrong.

    Args:
        time: In the unit of the waves.
        output: The port.
        lane: The first lane that is wrong.
    """

    time: int
    output: str
    lane: int


def write_save_files(waves: Path, top: str, streams: Sequence[Shown], mark: Mark | None) -> tuple[Path, Path]:
    """Write both beside the waves.

    Args:
        waves: The FST.
        top: Path of the top level in it.
        streams: What is shown.
        mark: The first wrong beat; None if there is none.

    Returns:
        The save file of GTKWave, and the command file of Surfer.

    Raises:
        OSError: If they cannot be written.
    """
    made = []
    for suffix, text in ((GTKWAVE, gtkwave(waves.name, top, streams, mark)), (SURFER, surfer(top, streams, mark))):
        file = waves.with_suffix(suffix)
        write_whole(file, text)
        made.append(file)
    return made[0], made[1]


def gtkwave(waves: str, top: str, streams: Sequence[Shown], mark: Mark | None) -> str:
    """The save file of GTKWave.

    Args:
        waves: Name of the FST beside it.
        top: Path of the top level in it.
        streams: What is shown.
        mark: Where the marker is.
    """
    time = -1 if mark is None else mark.time
    lines = [
        "[*] Written by mase_hw: streams by node, lanes as fixed-point numbers",
        f'[dumpfile] "{waves}"',
        f"*0.0 {time} {time}" + " -1" * (_MARKERS - 1),
        *([] if mark is None else [f"[markername] A{MARKER}"]),
        f"@{_BINARY | _RIGHT:x}",
        f"{top}.clk",
        f"{top}.rst",
    ]
    for group, members in groups(streams).items():
        lines += [f"@{_BEGIN | _BLANK:x}", f"-{group}"]
        for stream in members:
            lines += [f"@{_BEGIN | _BLANK:x}", f"-{stream.name}", f"@{_BINARY | _RIGHT:x}"]
            lines += [f"{top}.{stream.scope}.{part}" for part in ("valid", "ready")]
            shifted = stream.frac_width > 0 and stream.width > 1  # GTKWave shifts to the right only
            flags = _RIGHT | (_SIGNED if stream.signed else _DECIMAL) | (_SHIFT if shifted else 0)
            lines.append(f"@{flags:x}")
            for lane in listed(stream, mark):
                lines += [f"[fpshift_count] {stream.frac_width}"] if shifted else []
                lines.append(f"{top}.{stream.scope}.lane_{lane}{stream.range}")
            lines += [f"@{_END | _BLANK:x}", f"-{stream.name}"]
        lines += [f"@{_END | _BLANK:x}", f"-{group}"]
    return "\n".join([*lines, ""])


def surfer(top: str, streams: Sequence[Shown], mark: Mark | None) -> str:
    """The command file of Surfer.

    Args:
        top: Path of the top level in the waves.
        streams: What is shown.
        mark: Where the cursor and the marker are.
    """
    commands = ["# Written by mase_hw: streams by node, lanes as fixed-point numbers"]
    items = [f"variable_add {top}.clk", f"variable_add {top}.rst"]
    formats: dict[int, str] = {}
    for group, members in groups(streams).items():
        items.append(f"divider_add {group}")
        for stream in members:
            items.append(f"divider_add {stream.name}")
            items += [f"variable_add {top}.{stream.scope}.{part}" for part in ("valid", "ready")]
            for lane in listed(stream, mark):
                formats[len(items)] = f"{'Signed' if stream.signed else 'Unsigned'} fixed point"
                items.append(f"variable_add {top}.{stream.scope}.lane_{lane}")
    commands += items
    for number, name in formats.items():
        commands += [f"item_focus {letters(number)}_", f"item_set_format {name}"]
    commands.append("item_unfocus")
    if mark is not None:
        commands += [f"cursor_set {mark.time}", f"marker_set {MARKER} {mark.time}"]
    return "\n".join([*commands, ""])


def listed(stream: Shown, mark: Mark | None) -> list[int]:
    """The lanes of a stream that are listed: the first ones, and the one that is wrong."""
    found = list(range(min(stream.lanes, MOST_LANES)))
    if mark is not None and stream.output == mark.output and mark.lane not in found:
        found.append(mark.lane)
    return found


def letters(number: int) -> str:
    """A number of an item as Surfer takes it: hexadecimal, digits as the letters a to p."""
    return "".join("abcdefghijklmnop"[int(digit, 16)] for digit in f"{number:x}")


def first_wrong(result: SimResult) -> Mark | None:
    """The rising edge at which the first wrong beat is valid for the first time; None if no beat is wrong.

    Args:
        result: Of a run that was reset only once, at its start.
    """
    wrong = result.first_mismatch
    if wrong is None or not result.period:
        return None
    cycle = int(result.ports[wrong.stream].cycles.presented[wrong.beat_index])
    time = (cycle + Limits.reset_cycles) * result.period + result.period // 2
    return Mark(time, wrong.stream, wrong.lane)
