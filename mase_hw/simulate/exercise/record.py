"""What a simulation exercised, and what it did not: buffers, edges, casts, and the faults that its vectors show."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mase_hw.vectors.casts import CastUse
from mase_hw.vectors.words import fault_coverage

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
    vectors: Mapping[str, Any] | None = None
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

    def to_json(self) -> dict[str, Any]:
        """The same as JSON types."""
        return {
            "buffers": {name: {**dataclasses.asdict(use), "full": use.full} for name, use in self.buffers.items()},
            "edges": dict(self.edges),
            "casts": None if self.casts is None else {node: use.to_json() for node, use in self.casts.items()},
            "frames": self.frames,
            "faults": None if self.vectors is None else self.vectors.get("faults"),
            "missing": self.missing,
        }
