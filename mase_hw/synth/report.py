"""What a synthesis run found: read from the tools' files, kept as JSON types, shown as tables."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.table import Table

from mase_hw.hardware.manifest import Manifest
from mase_hw.host.documents import Json
from mase_hw.host.shown import Shown, paper
from mase_hw.synth.mapping import read_cells
from mase_hw.synth.targets import COLUMNS, TARGETS, Counts, Elaborated, Target

_MAPPED = re.compile(r"^mapping memory (\S+) via (\S+)", re.MULTILINE)
_LOGIC = re.compile(r"^using FF mapping for memory (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """What one instance of the top level uses.

    Args:
        instance: Its name; empty for what lies in the top level itself.
        module: RTL module.
        counts: By column of :data:`mase_hw.synth.targets.COLUMNS`.
        others: Cells by type that no column counts.
        multipliers: What the design asked for; None where it asks for none.
        fitting: How many of them one DSP block each can do on this target.
    """

    instance: str
    module: str
    counts: Counts
    others: Counts
    multipliers: int | None
    fitting: int


@dataclass(frozen=True)
class MappedMemory:
    """Where a memory went.

    Args:
        instance: Instance of the top level.
        name: Path inside it.
        words: Depth.
        width: Bits of a word.
        place: ``block RAM``, ``LUT RAM`` or ``logic``.
    """

    instance: str
    name: str
    words: int
    width: int
    place: str


@dataclass(frozen=True, repr=False)
class Report(Shown):
    """A synthesis run.

    Args:
        top: The design.
        target: Name of the target.
        tools: Versions.
        rows: Use by instance, in the order of the manifest.
        total: Sums over the rows.
        estimate: What was expected before mapping.
        memories: Where each memory went.
        warnings: What a person should look at.
        replay: What the simulated netlist showed; None if there was none.
        place: What place and route found; None if there was none.
    """

    top: str
    target: str
    tools: str
    rows: list[Row]
    total: Counts
    estimate: Counts
    memories: list[MappedMemory]
    warnings: list[str] = field(default_factory=list)
    replay: Json | None = None
    place: Json | None = None

    @property
    def reached(self) -> bool:
        """Whether place and route, if it ran, met its frequency; with cells that have no delays nobody knows."""
        return self.place is None or bool(self.place["mhz"] >= self.place["target_mhz"] and not self.place["untimed"])

    @property
    def filled(self) -> float | None:
        """The share of the block RAMs' bits that memories use; None without any."""
        there = self.total["bram"] * TARGETS[self.target].block_bits
        return sum(m.words * m.width for m in self.memories if m.place == "block RAM") / there if there else None

    def to_json(self) -> Json:
        """JSON types; the same run gives the same."""
        return {**asdict(self), "filled": self.filled}

    def headline(self) -> str:
        """What it uses."""
        used = ", ".join(f"{self.total[column]} {column.upper()}" for column in COLUMNS)
        return f"{self.top} on {self.target}: {used}"

    def text(self) -> str:
        """Tables for people."""
        console, buffer = paper(110)
        console.print(self._use())
        if self.memories:
            console.print(self._memories())
        if self.filled is not None:
            console.print(f"memories fill {self.filled:.1%} of {self.total['bram']} block RAMs", highlight=False)
        for warning in self.warnings:
            console.print(f"warning: {warning}", highlight=False, markup=False)
        if self.replay:
            console.print(self.replay["text"], highlight=False, markup=False)
        if self.place:
            console.print(self.place["text"], highlight=False, markup=False)
        return buffer.getvalue().rstrip()

    def _use(self) -> Table:
        table = Table(title=f"{self.top} on {self.target}", title_justify="left", box=None, pad_edge=False)
        table.add_column("instance")
        table.add_column("module")
        for column in (*COLUMNS, "multipliers"):
            table.add_column(column, justify="right")
        for row in self.rows:
            asked = "" if row.multipliers is None else str(row.multipliers)
            table.add_row(row.instance or "(top)", row.module, *(str(row.counts[c]) for c in COLUMNS), asked)
        asked_all = sum(row.multipliers or 0 for row in self.rows)
        table.add_row("total", "", *(str(self.total[column]) for column in COLUMNS), str(asked_all))
        expected = (str(self.estimate[c]) if c in self.estimate else "" for c in COLUMNS)
        table.add_row("estimated before", "", *expected, "")
        return table

    def _memories(self) -> Table:
        table = Table(title="memories", title_justify="left", box=None, pad_edge=False)
        for column in ("instance", "memory", "words", "bits", "in"):
            table.add_column(column, justify="right" if column in ("words", "bits") else "left")
        for memory in self.memories:
            table.add_row(memory.instance, memory.name, str(memory.words), str(memory.width), memory.place)
        return table


def read_statistics(path: Path, manifest: Manifest, target: Target, asked: Elaborated) -> list[Row]:
    """Read what ``stat -json`` wrote.

    Args:
        path: The file.
        manifest: Of the bundle.
        target: What was mapped to.
        asked: The design before mapping.

    Returns:
        One row an instance; that of the top level last, if it holds any cell.

    Raises:
        ToolError: If the file is not what Yosys writes, or a latch was made.
    """
    cells = read_cells(path, manifest.top)
    rows = []
    for entry in manifest.instances:
        name = entry.name
        counts, others = target.count(cells.pop(name, {}))
        rows.append(Row(name, entry.module, counts, others, entry.multipliers or None, asked.fitting(name, target)))
    for name, rest in cells.items():
        counts, others = target.count(rest)
        if any(counts.values()) or others:
            rows.append(Row(name, manifest.top if not name else "", counts, others, None, 0))
    return rows


def read_memories(log: str, top: str, asked: Elaborated, whole: int = 0) -> list[MappedMemory]:
    """Where every memory went, from the log of the mapping; those of more words than ``whole`` are as they were."""
    places = {path: _place(cell) for path, cell in _MAPPED.findall(log)} | dict.fromkeys(_LOGIC.findall(log), "logic")
    found = {}
    for path, place in places.items():
        # fixed_linear$top.u_fc1.u_mac.u_fifo.mem: module, instance of the top level, path inside.
        for memory in asked.memories:
            if path.partition("$")[2] == f"{top}.{memory.instance}.{memory.name}":
                found[memory.instance, memory.name] = place
    return [
        MappedMemory(
            m.instance,
            m.name,
            m.words,
            m.width,
            "memory" if 0 < whole < m.words else found.get((m.instance, m.name), "logic"),
        )
        for m in asked.memories
    ]


def _place(cell: str) -> str:
    lut = "LUTRAM" in cell or "DPR16X4" in cell
    return "LUT RAM" if lut else "block RAM"


def total(rows: list[Row]) -> Counts:
    """Sums by column."""
    return {column: sum(row.counts[column] for row in rows) for column in COLUMNS}
