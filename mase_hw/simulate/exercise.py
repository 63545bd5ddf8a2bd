"""What a simulation exercises: buffers, edges, casts, the faults that its vectors show; and what is added to see it.

Monitors, and connectors that close the edges of a design at random, are for the simulator only: what is synthesised
stays as it is. Monitors are bound into the modules of the library from outside. The stalled top level is made from the
text of the very file that is simulated otherwise: every ``stream_check`` in it names a net and its two ends, and at the
end that reads it a connector is put in between.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mase_hw.errors import EmitError
from mase_hw.hardware.prefix import with_prefix
from mase_hw.host.disk import write_whole, writing
from mase_hw.host.documents import Json
from mase_hw.host.resources import sim_root
from mase_hw.simulate.build.snapshot import checked, read_source
from mase_hw.simulate.dut import Dut
from mase_hw.vectors.casts import CastUse, fault_coverage

_EDGE = re.compile(r"^exercise: edge ([01]), first at (-?\d+) on (.+)$", re.MULTILINE)
_BUFFER = re.compile(r"^exercise: buffer (\d+) of (\d+), ([01]) in (\S+?)(?:\.exercise|\.g_memory)+$", re.MULTILINE)
_SHOWN = 4
"""Names that a report gives of each kind; the JSON has all."""


@dataclass(frozen=True)
class BufferUse:
    """How full a buffer was.

    Args:
        peak: Most words in it.
        depth: How many it can hold.
        waited: Whether a word was offered that it could not take in that cycle.
    """

    peak: int
    depth: int
    waited: bool

    @property
    def full(self) -> bool:
        """Whether it was ever full."""
        return self.peak == self.depth


@dataclass(frozen=True)
class Exercise:
    """What the runs of a result exercised, counted since the last reset.

    Args:
        buffers: By instance: FIFOs, skid buffers (two words) and replay buffers.
        edges: By the two ends of an edge inside the design: whether a beat on it ever had to wait.
        casts: By node of the model; None if there is no model and no vectors of which it is known.
        frames: Frames over which casts were counted; fewer than were played in a long run.
        vectors: What the manifest says of the bundle's own vectors, if these were played.
        begins: By edge, the rising edge of the clock at which its first beat was offered, counted from the start; of
            several processes, those of the first.
    """

    buffers: Mapping[str, BufferUse] = field(default_factory=dict)
    edges: Mapping[str, bool] = field(default_factory=dict)
    casts: Mapping[str, CastUse] | None = None
    frames: int = 0
    vectors: Json | None = None
    begins: Mapping[str, int] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, log: Path, inside: str, period: int) -> Exercise | None:
        """What the monitors in the simulator printed; None if there are none, or no log.

        Args:
            log: The log of the simulator.
            inside: What the path of every instance of the design begins with.
            period: Of the clock, in the simulator's unit of time.
        """
        try:
            said = log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        buffers = {
            path.removeprefix(inside): BufferUse(int(peak), int(depth), waited == "1")
            for peak, depth, waited, path in _BUFFER.findall(said)
        }
        reports = [(name.strip(), stalled == "1", int(time)) for stalled, time, name in _EDGE.findall(said)]
        edges = {name: stalled for name, stalled, _ in reports}
        # The first rising edge of the clock is after half a period.
        begins = {name: (time - period // 2) // period for name, _, time in reports if period and time >= 0}
        return cls(dict(sorted(buffers.items())), edges, begins=begins) if buffers or edges else None

    @classmethod
    def merged(cls, parts: Sequence[Exercise | None]) -> Exercise | None:
        """Of several processes that shared the frames, as if one had played them."""
        found = [part for part in parts if part is not None]
        if not found:
            return None
        buffers: dict[str, BufferUse] = {}
        edges: dict[str, bool] = {}
        for part in found:
            for name, use in part.buffers.items():
                before = buffers.get(name, use)
                buffers[name] = BufferUse(max(before.peak, use.peak), use.depth, before.waited or use.waited)
            for name, stalled in part.edges.items():
                edges[name] = edges.get(name, False) or stalled
        return dataclasses.replace(found[0], buffers=buffers, edges=edges)

    @property
    def missing(self) -> dict[str, list[str]]:
        """What was not exercised: names by what did not happen to them."""
        found: dict[str, list[str]] = {
            "buffer never full": [
                f"{name} ({use.peak} of {use.depth})" for name, use in self.buffers.items() if not use.full
            ],
            "edge never stalled": [name for name, stalled in self.edges.items() if not stalled],
        }
        for node, use in (self.casts or {}).items():
            for what in use.missing:
                found.setdefault(f"no {what}" if what.startswith("tie") else f"never {what}", []).append(node)
        if self.vectors is not None and "faults" in self.vectors:
            found["wrong cast that no vector shows"] = list(self.vectors["faults"]["casts"]["unseen"])
            found["stuck bit that no vector shows"] = list(self.vectors["faults"]["memory"]["unseen"])
        return {what: names for what, names in found.items() if names}

    def report(self) -> list[str]:
        """Lines for people."""
        done = []
        if self.buffers:
            done.append(f"{sum(use.full for use in self.buffers.values())} of {len(self.buffers)} buffers full")
        if self.edges:
            done.append(f"{sum(self.edges.values())} of {len(self.edges)} edges stalled")
        if self.casts is not None:
            total = CastUse.total(self.casts.values())
            done.append(f"{total.high + total.low} of {total.values} results saturated or wrapped")
            done.append(f"{total.ties_positive} ties above zero and {total.ties_negative} below")
        lines = [f"exercised: {', '.join(done)}"] if done else []
        if self.vectors is not None and "faults" in self.vectors:
            faults = self.vectors["faults"]
            lines.append(
                f"{fault_coverage(faults)}, of {faults['memory']['bits']} bits in memories; "
                f"{faults['casts']['seen']} of {faults['casts']['tried']} wrong casts"
            )
        for what, names in self.missing.items():
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            lines.append(f"not exercised: {what}: {', '.join(names[:_SHOWN])}{more}")
        return lines

    def to_json(self) -> Json:
        """The same as JSON types."""
        return {
            "buffers": {name: {**dataclasses.asdict(use), "full": use.full} for name, use in self.buffers.items()},
            "edges": dict(self.edges),
            "casts": None if self.casts is None else {node: use.to_json() for node, use in self.casts.items()},
            "frames": self.frames,
            "faults": None if self.vectors is None else self.vectors.get("faults"),
            "missing": self.missing,
        }


MONITORS = ("exercise_edge", "exercise_buffer", "exercise_replay")
CONNECTOR = "exercise_stall"
"""What stands on a stalled edge."""
WATCHED = ("replay_buffer", "skid_buffer", "stream_check", "stream_fifo")
"""Modules of the library that have a monitor."""
ADDED = (*MONITORS, CONNECTOR, *(f"bind_{module}" for module in WATCHED))
"""Every source of the simulator that may be added to a design."""


def watched(dut: Dut, folder: Path) -> Dut:
    """The same design with monitors in the modules that it has, for the simulator only.

    Args:
        dut: A design.
        folder: Where it is written how monitors get into modules whose names have a prefix.

    Raises:
        EmitError: If the folder cannot be written.
    """
    there = {source.stem for source in dut.sources}
    bound = [_bind(module, dut.prefix, folder) for module in WATCHED if dut.prefix + module in there]
    monitors = [file_of(name) for name in MONITORS] if bound else []
    return dataclasses.replace(dut, sources=(*monitors, *bound, *dut.sources))


def _bind(module: str, prefix: str, folder: Path) -> Path:
    source = file_of(f"bind_{module}")
    if not prefix:
        return source
    file = folder.resolve() / source.name
    with writing("the monitors", folder):
        write_whole(file, with_prefix(source.read_bytes(), source.name, {module}, prefix).decode())
    return file


def file_of(name: str) -> Path:
    """A source of the simulator."""
    return sim_root() / "exercise" / f"{name}.sv"


_CHECK = re.compile(
    r"stream_check #\(\s*\.WIDTH\((?P<bits>\d+)\),\s*\.NAME \(\"(?P<source>[^\"]*?) to (?P<sink>[^\"]*)\"\),"
    r"\s*\.FRAME\((?P<frame>\d+)\)\s*\) check_(?P<net>\w+) \("
)
_PARTS = ("", "_valid", "_ready")
INNER = "inner"
"""Where the stalled top level is written, in a work folder."""


def with_inner_stalls(dut: Dut, folder: Path) -> Dut:
    """The same design with a connector on every edge of its top level.

    Args:
        dut: A design as mase_hw writes it.
        folder: Where the stalled top level is written.

    Raises:
        EmitError: If the folder cannot be written, or the top level is not what it was, or not one of mase_hw.
    """
    source = dut.sources[-1]  # the top level comes last
    given = checked(source, read_source(source), dut.digests)
    text = stalled(given.decode(encoding="utf-8", errors="replace"), source)
    file = folder.resolve() / source.name
    with writing("the stalled top level", folder):
        write_whole(file, text)
    sources = tuple(file if path == source else path for path in dut.sources)
    return dataclasses.replace(dut, sources=(file_of(CONNECTOR), *sources))


def stalled(text: str, source: Path) -> str:
    """The text of a top level with a connector on every edge.

    Args:
        text: As :func:`mase_hw.emit.render.render_top` writes it.
        source: Where it is from, for errors.

    Raises:
        EmitError: If it is something else.
    """
    checks = list(_CHECK.finditer(text))
    if len(checks) != text.count("stream_check #("):
        raise _strange(source, f"{len(checks)} of {text.count('stream_check #(')} stream checks can be read")
    names = set(re.findall(r"\w+", text))
    for salt, check in enumerate(checks, 1):
        net, bits = check["net"], int(check["bits"])
        behind = f"{net}_stalled"
        while any(f"{behind}{part}" in names for part in _PARTS):
            behind += "_"
        declared = f"\n  logic {net}_ready;\n"
        if text.count(declared) != 1:
            raise _strange(source, f"{net} is not declared")
        # Declared before it is used, and after what it uses.
        parameters = {"WIDTH": bits, "FRAME": int(check["frame"]), "SALT": salt, "EDGES": len(checks)}
        text = text.replace(declared, declared + _connector(net, behind, bits, parameters))
        text = _moved(text, check["sink"], net, behind, source)
    return text


def _moved(text: str, sink: str, net: str, behind: str, source: Path) -> str:
    """With the reader of a net behind its connector."""
    instance, dot, _ = sink.rpartition(".")
    if dot:
        begin = text.find(f") {instance} (\n")
        end = text.find("\n  );", begin)
        forms = ["({})"] * 3
    else:
        begin, end = text.find("\n  assign "), len(text)
        forms = [f"assign {sink} = {{}};", f"assign {sink}_valid = {{}};", f"assign {{}} = {sink}_ready;"]
    block = text[max(begin, 0) : end]
    for part, form in zip(_PARTS, forms, strict=True):
        before, after = form.format(f"{net}{part}"), form.format(f"{behind}{part}")
        if begin < 0 or block.count(before) != 1:
            raise _strange(source, f"{sink} does not read {net}{part}")
        block = block.replace(before, after)
    return text[:begin] + block + text[end:]


def _connector(net: str, behind: str, bits: int, parameters: Mapping[str, int]) -> str:
    given = ", ".join(f".{name}({value})" for name, value in parameters.items())
    return f"""
  logic [{bits - 1}:0] {behind};
  logic {behind}_valid;
  logic {behind}_ready;
  exercise_stall #({given}) stall_{net} (
      .clk,
      .rst,
      .in_data  ({net}),
      .in_valid ({net}_valid),
      .in_ready ({net}_ready),
      .out_data ({behind}),
      .out_valid({behind}_valid),
      .out_ready({behind}_ready)
  );
"""


def _strange(source: Path, what: str) -> EmitError:
    return EmitError(
        "the top level is not as mase_hw writes it, so its edges cannot be stalled",
        node=str(source),
        got=what,
        remedy="emit the bundle again, or leave out inner_stalls",
    )
