"""Energy of a frame: the mapped netlist plays the bundle's vectors, and every change of every net is counted.

::

    <work>/activity.json, activity.v   the mapped design, every net with a plain name
    <work>/activity/                   its simulator, and the runs
    <work>/activity.saif               changes of every net over whole frames in steady state
    <work>/power.json, power.txt       what they cost, by instance of the top level

The cells have no delays, so that glitches are not counted; wires have no lengths. :mod:`mase_hw.synth.activity` has the
model and its sources. Figures are relative: they compare two designs of a family, or the stages of a design.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from mase_hw.design.design import Design
from mase_hw.design.vectors import Played
from mase_hw.errors import ConfigError, ToolError
from mase_hw.host.disk import writing
from mase_hw.host.documents import Json
from mase_hw.host.shown import Shown, paper
from mase_hw.regress.job import write_json
from mase_hw.simulate.engines import batch
from mase_hw.simulate.plan import FULL_RATE, Limits, SimulationOptions, Stalls
from mase_hw.simulate.result import SimResult
from mase_hw.streams import IntArray
from mase_hw.synth.activity import PART_KINDS, energies, read_saif, windowed
from mase_hw.synth.replay import model_files, netlist_dut, vectors_of, without_model
from mase_hw.synth.synthesise import Run, begin, cell_types
from mase_hw.synth.targets import find_target
from mase_hw.synth.tools import Tell, run_yosys

BASIS = (
    "relative units: a pin whose net changes costs 1, blocks by published ratios; no glitches, no lengths of wires, "
    "no static power; to compare designs of a family, not for watts"
)

MODELS = "models"
"""Field of the error of a netlist that cannot be simulated."""


@dataclass(frozen=True)
class Row:
    """What a frame costs in one instance of the top level, in units of a pin.

    Args:
        instance: Its name; empty for what lies in the top level itself.
        module: RTL module.
        nets: Pins on nets that change, but for the clock.
        clock: Pins of the clock.
        products: Inside of multiplier blocks.
        memory: Inside of block RAMs.
        changes: Of nets that it drives; no energy.
        busy: Share of the time that its node works: its own interval by the cycles of a frame.
    """

    instance: str
    module: str
    nets: float
    clock: float
    products: float
    memory: float
    changes: float
    busy: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.nets + self.clock + self.products + self.memory


@dataclass(frozen=True, repr=False)
class Power(Shown):
    """Energy of a frame in steady state.

    Args:
        top: The design.
        target: Name of the target.
        tools: Versions.
        digest: Of the bundle's manifest.
        frames: Over how many it was counted.
        cycles: Of these frames.
        rows: By instance, in the order of the manifest.
    """

    top: str
    target: str
    tools: str
    digest: str
    frames: int
    cycles: int
    rows: list[Row]

    @property
    def total(self) -> float:
        """Units of a frame."""
        return math.fsum(row.total for row in self.rows)

    @property
    def idle_cycle(self) -> float:
        """Units of a cycle in which nothing changes but the clock."""
        return math.fsum(row.clock for row in self.rows) * self.frames / self.cycles

    @property
    def idle_clock(self) -> float:
        """Share of all energy that goes into clock pins of stages while they wait: what gating their clocks saves."""
        waiting = math.fsum(row.clock * (1.0 - row.busy) for row in self.rows)
        return waiting / self.total if self.total else 0.0

    def to_json(self) -> Json:
        """JSON types; the same run gives the same."""
        derived = {"total": self.total, "idle_cycle": self.idle_cycle, "idle_clock": self.idle_clock}
        return {**asdict(self), **derived, "basis": BASIS}

    def headline(self) -> str:
        """What a frame costs."""
        return f"{self.top} on {self.target}: {self.total:,.0f} units a frame, over {self.frames} frames"

    def text(self) -> str:
        """A table for people."""
        console, buffer = paper(110)
        table = Table(title=self.headline(), title_justify="left", box=None, pad_edge=False)
        table.add_column("instance")
        table.add_column("module")
        for column in (*PART_KINDS, "total", "share", "changes", "busy"):
            table.add_column(column, justify="right")
        sums = [math.fsum(getattr(row, kind) for row in self.rows) for kind in (*PART_KINDS, "total")]
        for row in self.rows:
            units = [f"{getattr(row, kind):,.0f}" for kind in (*PART_KINDS, "total")]
            share = row.total / self.total if self.total else 0.0
            table.add_row(
                row.instance or "(top)", row.module, *units, f"{share:.1%}", f"{row.changes:,.0f}", f"{row.busy:.0%}"
            )
        changes = math.fsum(row.changes for row in self.rows)
        table.add_row("total", "", *(f"{units:,.0f}" for units in sums), "", f"{changes:,.0f}")
        console.print(table)
        console.print(
            f"a cycle with nothing to do: {self.idle_cycle:,.0f} units; clock pins of stages that wait: "
            f"{self.idle_clock:.1%} of all",
            highlight=False,
        )
        console.print(f"{self.cycles} cycles; {BASIS}", highlight=False)
        return buffer.getvalue().rstrip()


def measure(
    design: Design,
    target: str,
    *,
    frames: int | None = None,
    stalls: Stalls = FULL_RATE,
    work_dir: Path | None = None,
    progress: Tell | None = None,
) -> Power:
    """Energy of a frame of a bundle, by instance.

    Args:
        design: The bundle; its vectors are what is played, over and over where it needs more.
        target: A key of :data:`mase_hw.synth.targets.TARGETS`.
        frames: Over how many; as many as there are vectors if None.
        stalls: Of what is around it; at full rate if nothing is said.
        work_dir: Where to work, as for :func:`mase_hw.synth.synthesise.synthesise`, whose netlist is taken.
        progress: Told what is being done.

    Returns:
        What was found; it is also written to ``power.json`` and ``power.txt``.

    Raises:
        ConfigError: If the target is unknown, there are no vectors, or less than one frame is asked for.
        SimulationError: If the netlist does not compute what the RTL does.
        ToolError: If a tool is missing or fails, or a cell of the netlist has no model.
        EmitError: If the work folder cannot be written.
    """
    if frames is not None and frames < 1:
        raise ConfigError("energy is counted over whole frames", field="frames", got=frames, expected="1 or more")
    kind = find_target(target)
    run = begin(design, kind, work_dir, progress or (lambda _: None))
    with writing("the synthesis folder", run.work):
        run.work.mkdir(parents=True, exist_ok=True)
        run.map()
        found = _Measurement(run, stalls).power(frames)
        write_json(run.work / "power.json", found.to_json())
        (run.work / "power.txt").write_text(found.text() + "\n", encoding="utf-8")
    return found


class _Measurement:
    """One netlist that is simulated."""

    def __init__(self, run: Run, stalls: Stalls) -> None:
        self.run, self.design, self.stalls = run, run.design, stalls
        self.netlist, self.folder = run.work / "activity.v", run.work / "activity"

    def power(self, frames: int | None) -> Power:
        self.name()
        (begin, end), count = self.count(frames)
        run, manifest = self.run, self.run.manifest
        changes = read_saif((run.work / "activity.saif").read_text(encoding="utf-8"))
        named = self.netlist.with_suffix(".json")
        spent = energies(named, run.top, manifest.clock, changes, end - begin, run.target.block_bits)
        entries = {entry.name: entry for entry in manifest.instances}
        names = [*(name for name in entries if name in spent), *(name for name in spent if name not in entries)]
        interval = (end - begin) / count
        # The ROMs of a layer work when it does.
        own = {name: entry.timing.interval for name, entry in entries.items() if entry.timing}
        node = {entry.node: own[name] for name, entry in entries.items() if name in own and entry.work}
        rows = []
        for name in names:
            entry = entries.get(name)
            module = entry.module if entry else "" if name else run.top
            works = own.get(name, node.get(entry.node, interval)) if entry else interval
            parts = {part: units / count for part, units in asdict(spent[name]).items()}
            rows.append(Row(name, module, **parts, busy=min(1.0, works / interval)))
        return Power(run.top, run.target.name, run.tools, manifest.digest, count, end - begin, rows)

    def name(self) -> None:
        """Write the netlist with a name for every net that Verilog and SAIF have in common."""
        commands = ["read_json netlist.json", "rename -hide w:*", "opt_clean -purge", "rename -enumerate -pattern n%"]
        commands += [f"write_json {self.folder.name}.json", f"write_verilog -noattr {self.netlist.name}"]
        made = (f"{self.folder.name}.json", self.netlist.name)
        inputs = {"netlist.json": self.run.work / "netlist.json"}

        def make() -> None:
            self.run.tell("naming the nets")
            run_yosys(commands, self.run.work, "activity.log", self.run.tell)

        self.run.stage("activity", commands, inputs, made, make)

    def count(self, frames: int | None) -> tuple[tuple[int, int], int]:
        """Write ``activity.saif``; the cycles and the frames that it is of."""
        run, timing = self.run, self.run.manifest.timing
        files, cells = model_files(run.target), cell_types(run.work / "statistics.json")
        if missing := without_model(files, cells):
            raise ToolError(
                "there are no simulation models of cells of the netlist",
                node=run.target.name,
                field=MODELS,
                got=", ".join(missing),
                remedy="use another target: xc7, ecp5, ice40 or generic",
            )
        dut = netlist_dut(self.design, self.netlist, files, cells, self.folder)
        stimulus, expected = vectors_of(self.design)
        count = frames or len(next(iter(stimulus.values())))
        # The window begins when a frame has left in steady state, and all stages work on frames until it ends.
        first = max(1, timing.steady or 0) + 1
        total = first + count + -(-timing.last // timing.interval) + 2
        played = Played.of(_repeated(stimulus, total), _repeated(expected, total), self.design.streams)
        limits = Limits.of(self.design.timing, total, self.stalls)
        run.tell("building the simulator of the netlist")
        cycles = total * timing.interval
        built = batch.build(dut, self.folder / "build", models=dut.sources[0], cycles=cycles, cache_dir=run.cache)

        def simulate(name: str, options: SimulationOptions) -> SimResult:
            result = batch.simulate(built, self.folder / name, played.beats_in, played.beats_out, limits, options)
            result.raise_on_failure()
            return result

        run.tell(f"simulating {total} frames to see when each ends")
        stream = dut.outputs[0]
        ends = simulate("frames", SimulationOptions("batch", 1, self.stalls)).ports[stream.name].cycles.accepted
        ends = ends[stream.frame_beats - 1 :: stream.frame_beats]
        window = int(ends[first]), int(ends[first + count])
        run.tell(f"counting changes over {count} frames, cycles {window[0]} to {window[1]}")
        simulate("window", SimulationOptions("batch", 1, self.stalls, waves=True, window=window))
        after, before = (
            (self.folder / "window" / name).read_text(encoding="utf-8") for name in (batch.ACTIVITY, batch.INITIAL)
        )
        (run.work / "activity.saif").write_text(windowed(after, before), encoding="utf-8")
        return window, count


def _repeated(frames: Mapping[str, IntArray], total: int) -> dict[str, IntArray]:
    return {name: values[np.arange(total) % len(values)] for name, values in frames.items()}
