"""What a simulator is to do: stalls, resets and limits, and the plan with its beat files in a cleaned run folder."""

from __future__ import annotations

import hashlib
import json
import operator
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mase_hw.errors import ConfigError, refuse_unknown
from mase_hw.hardware.beats import encode
from mase_hw.host.disk import writing
from mase_hw.host.documents import Json
from mase_hw.simulate.build.snapshot import checked, read_source
from mase_hw.simulate.dut import Dut
from mase_hw.streams import Beats, IntArray, Stream

FAILURE = "failure.txt"
"""Beside waves that were written because of a failure: what it was."""
SAVE_FILES = ("dump.gtkw", "dump.sucl")
"""What shows the waves in GTKWave and in Surfer; see :mod:`mase_hw.simulate.waves`."""
RESULT_FILES = (
    "results.xml",
    "outcome.json",
    "outcome.json.partial",
    "progress",
    "sim.log",
    "dump.fst",
    "coverage.dat",
    "activity.saif",
    "initial.saif",
    "diagnosis.json",
    FAILURE,
    *SAVE_FILES,
)
COPIES = "memory"
"""Copies of the memory files that were checked."""
RESULT_FOLDERS = ("beats", "found", "cycles", COPIES)
MEMORY = "mem"
"""Where the simulator finds the memory files, in its run folder."""

MOST_STALLS = 0.99
"""The highest probability of a stall."""

Burst = tuple[int, int]
"""``(go, stop)``: cycles of work, then cycles of stall, over and over; ``(0, 0)`` for none."""


@dataclass(frozen=True)
class Stalls:
    """How unwilling the surroundings of the design are.

    Args:
        valid_low: Probability, in each cycle in which an input could offer a beat, that it does not.
        ready_low: Probability, in each cycle, that an output does not accept.
        valid_burst: Long gaps on the inputs, ``(go, stop)``.
        ready_burst: Long stalls on the outputs, ``(go, stop)``.

    Raises:
        ConfigError: If a probability is outside ``[0, 0.99]`` or a burst could never let a beat pass.
    """

    valid_low: float = 0.0
    ready_low: float = 0.0
    valid_burst: Burst = (0, 0)
    ready_burst: Burst = (0, 0)

    def __post_init__(self) -> None:
        for field in ("valid_low", "ready_low"):
            if not 0.0 <= getattr(self, field) <= MOST_STALLS:
                raise ConfigError(
                    "stall probability out of range",
                    field=field,
                    got=getattr(self, field),
                    expected=f"0 to {MOST_STALLS}",
                )
        for field in ("valid_burst", "ready_burst"):
            go, stop = getattr(self, field)
            if go < 0 or stop < 0 or (stop and not go):
                raise ConfigError(
                    "a burst of stalls needs cycles of work between them",
                    field=field,
                    got=(go, stop),
                    expected="(go, stop) with go of 1 or more",
                )

    @classmethod
    def none(cls) -> Stalls:
        """Full rate on every port."""
        return cls()

    @classmethod
    def random(cls, p_in: float = 0.4, p_out: float = 0.4) -> Stalls:
        """Independent stalls in every cycle, on inputs and on outputs."""
        return cls(valid_low=p_in, ready_low=p_out)

    @classmethod
    def named(cls, name: str) -> Stalls:
        """A pattern of :data:`PATTERNS`.

        Raises:
            ConfigError: If there is none of that name.
        """
        refuse_unknown(name, PATTERNS, "unknown stall pattern", field="stalls")
        return PATTERNS[name]

    @property
    def slowdown(self) -> float:
        """How many times as long a run takes about, the worse of inputs and outputs throughout."""
        bursts = [(go + stop) / go for go, stop in (self.valid_burst, self.ready_burst) if go]
        return max([1.0, *bursts]) / (1 - max(self.valid_low, self.ready_low))

    def entry(self, direction: str) -> Json:
        """The plan's entry for a stream of this direction."""
        if direction == "in":
            return {"probability": self.valid_low, "burst": list(self.valid_burst)}
        return {"probability": self.ready_low, "burst": list(self.ready_burst)}


FULL_RATE = Stalls()
PATTERNS: dict[str, Stalls] = {
    "none": FULL_RATE,
    "random": Stalls(0.4, 0.4),
    "single": Stalls(valid_burst=(3, 1), ready_burst=(2, 1)),
    "long": Stalls(valid_burst=(5, 150), ready_burst=(7, 130)),
    "slow_input": Stalls(valid_low=0.8),
    "slow_output": Stalls(ready_low=0.8),
}
"""Stall patterns by name: back-to-back frames, random stalls, stalls of one cycle, long ones, one slow side."""


RESET_UNITS = ("cycles", "in", "out")
_LATEST = (1 << 31) - 1
"""As far as every engine counts."""


@dataclass(frozen=True)
class Reset:
    """A reset in the middle of a run. Whatever was under way is lost; all frames are played again from the first one.

    Args:
        at: When: after so many ``unit`` since the reset before.
        unit: ``cycles``; ``in`` or ``out``: beats accepted on all inputs, or on all outputs, together.
        length: Cycles of reset. One is enough for a synchronous design.

    Raises:
        ConfigError: If a number is not a positive integer of 31 bits, or the unit is unknown.
    """

    at: int
    unit: str = "cycles"
    length: int = 1

    def __post_init__(self) -> None:
        refuse_unknown(self.unit, RESET_UNITS, "a reset counts something else", field="reset_at")
        for field in ("at", "length"):
            try:
                number = operator.index(getattr(self, field))
            except TypeError:
                number = 0
            if not 0 < number <= _LATEST:
                raise ConfigError(
                    "a reset in the middle of a run needs positive numbers",
                    field=f"reset_at.{field}",
                    got=getattr(self, field),
                    expected=f"an integer from 1 to {_LATEST}",
                    remedy="let the reset come after the first cycle or beat; every run starts with a reset anyway",
                )
            object.__setattr__(self, field, number)

    @classmethod
    def parse(cls, text: str) -> Reset:
        """Read ``40``, ``cycles:40``, ``in:5`` or ``out:3``.

        Raises:
            ConfigError: If it is something else.
        """
        unit, _, number = text.rpartition(":")
        # No more digits than int() converts; what is too large is refused by its value.
        if not (number.isascii() and number.isdigit() and len(number) < 100):
            raise ConfigError(
                "not a time of a reset", field="reset_at", got=text, expected="40, in:5 or out:3",
                remedy="give cycles, or beats of all inputs (in:) or outputs (out:), since the reset before",
            )  # fmt: skip
        return cls(int(number), unit or "cycles")


@dataclass(frozen=True)
class Turn:
    """Beats that are offered when all beats of a turn before, and of those before that, have moved.

    Args:
        beats: How many of every stream, by name; none of a stream that is not named.
        reset: Cycles of a reset before it, which ends whatever is under way; its beats follow those before.
        wait: Cycles that pass behind its last beat.
        after: The number of that turn; the last one before if None, and below 0 none.
    """

    beats: Mapping[str, int]
    reset: int = 0
    wait: int = 0
    after: int | None = None


def refuse_turns(engine: str, turns: Sequence[Turn]) -> None:
    """Refuse turns, in an engine that does not wait for results.

    Raises:
        ConfigError: If there are any.
    """
    if turns:
        raise ConfigError(
            "a source that waits for results is in the batch engine alone", field="turns", got=f"engine {engine!r}",
            expected='engine="batch"', remedy="leave the engine out, or play whole frames",
        )  # fmt: skip


_SLOWER = 4
"""A run may take so many times as long as the share of open cycles alone would make it."""


@dataclass(frozen=True)
class InnerStalls:
    """Stalls inside a design, which must have been built with connectors.

    Args:
        probability: In each cycle, for each edge that is open and holds no offered beat back, to close. Of the cycles
            in which edges are closed for long, there is one at a time on average.
        interval: Cycles per frame; no long stall is longer than about that.

    Raises:
        ConfigError: If an edge would be closed always, or never could.
    """

    probability: float
    interval: int

    def __post_init__(self) -> None:
        if not 0.0 <= self.probability < 1.0 or self.interval < 1:
            raise ConfigError(
                "stalls inside a design need a probability, and an interval",
                field="inner_stalls",
                got=f"{self.probability}, interval {self.interval}",
                expected="a probability from 0 to below 1, and at least one cycle",
            )

    @property
    def slowdown(self) -> float:
        """How many times as long a run may take."""
        return _SLOWER / (1 - self.probability)

    def plusargs(self, seed: int) -> tuple[str, ...]:
        """What the connectors read when the simulator starts; see ``sim/exercise/exercise_stall.sv``."""
        numbers = {
            "seed": seed % (1 << 64),
            "closes": int(self.probability * (1 << 32)),
            "share": int((1 << 32) / self.probability) if self.probability else 0,
            "interval": self.interval,
        }
        return tuple(f"+inner_{name}={number:x}" for name, number in numbers.items())


LEAST_TAIL = 128
"""Cycles that are waited for surplus beats, however fast a design is."""
DEFAULT_ENGINE = "cocotb"


@dataclass(frozen=True)
class Limits:
    """When to start, to stop and to give up; all in clock cycles.

    Args:
        watchdog: Cycles without a handshake on any stream after which all stalls are lifted; as many again without
            one are a hang.
        max_cycles: Cycles after which an unfinished run is given up.
        reset_cycles: Length of reset.
        idle_cycles: Cycles between reset and the first beat, in which memories prefetch.
        tail_cycles: Time to wait for surplus beats after the last expected one; longer if the design was ever silent as
            long, and shorter if it is much longer than the whole run.
    """

    watchdog: int
    max_cycles: int
    reset_cycles: int = 4
    idle_cycles: int = 8
    tail_cycles: int = 64

    def __post_init__(self) -> None:
        for field in ("watchdog", "max_cycles", "reset_cycles"):
            if getattr(self, field) < 1:
                raise ConfigError("a limit of the simulation is too small", field=field, got=getattr(self, field))

    @classmethod
    def of(
        cls, timing: Mapping[str, int], frames: int, stalls: Stalls = FULL_RATE, inner: InnerStalls | None = None
    ) -> Limits:
        """How long to wait for a design.

        Args:
            timing: ``last`` and ``interval`` of the manifest, in cycles.
            frames: Frames to play.
            stalls: How unwilling the surroundings are.
            inner: How unwilling the edges inside are; None if they are as they are.

        A module works at most a whole frame without a beat, hence the watchdog. A surplus beat may follow as long after
        the last one as a whole frame takes through the design, and as one frame follows another, hence the tail. An
        engine waits no longer than twice what the whole run took, whatever was promised.
        """
        last, interval = int(timing["last"]), int(timing["interval"])
        inside = 1.0 if inner is None else inner.slowdown
        watchdog = int(inside * (4 * (last + interval) + 256))
        slow = inside * (1.0 if stalls == Stalls.none() else 4 * stalls.slowdown)
        return cls(
            watchdog,
            # The watchdog lifts all stalls after its time and needs as long again to call it a hang.
            int(slow * (frames + 2) * interval) + 4 * watchdog,
            tail_cycles=max(LEAST_TAIL, int(inside * (last + interval))),
        )


@dataclass(frozen=True)
class Progress:
    """How far a running simulation is.

    Args:
        cycles: Clock cycles simulated.
        beats: Output beats accepted on all streams.
        total: Output beats expected.
    """

    cycles: int
    beats: int
    total: int


@dataclass(frozen=True)
class SimulationOptions:
    """How a design is simulated: made once from what is asked for, and read by whatever takes part.

    Args:
        engine: Name of the engine.
        seed: Of stalls, garbage on idle data ports and initial values of registers.
        stalls: How often the surroundings stall.
        inner: Stalls inside the design, which must have been built with them.
        reset_at: Resets in the middle of the run (of each process), one after the other; each plays all frames again,
            and only what comes after the last one is recorded and judged.
        turns: When beats are offered, of a source that waits for results; all at once if there are none. Their beats
            are those of the run. Only with the batch engine, in one process.
        waves: Write ``dump.fst``, which needs a build with waves and one process; None: only when something is wrong.
        window: First and last cycle to write waves of; all if None.
        coverage: Count lines, branches and toggles.
        intervene: A test that intervenes, ``FILE.py`` or ``FILE.py:FUNCTION``; see ``sim/intervention.py``.
        jobs: Processes. Each resets the design and plays a share of the frames, with ``seed`` plus its number; cycle
            numbers of a share go on where those of the one before end.
        threads: Threads that evaluate the design in each process.
        work: The work folder of a design.
        timeout: Seconds of wall time after which a simulator is killed.
        progress: Called now and then with the state of the run.
    """

    engine: str = DEFAULT_ENGINE
    seed: int = 0
    stalls: Stalls = FULL_RATE
    inner: InnerStalls | None = None
    reset_at: tuple[Reset, ...] = ()
    turns: tuple[Turn, ...] = ()
    waves: bool | None = False
    window: tuple[int, int] | None = None
    coverage: bool = False
    intervene: Path | str | None = None
    jobs: int = 1
    threads: int = 1
    work: Path = Path()
    timeout: float | None = None
    progress: Callable[[Progress], None] | None = None

    @property
    def at_full_rate(self) -> bool:
        """Whether inputs always offer and outputs always accept, from one reset to the end."""
        undisturbed = self.inner is None and not self.reset_at and self.intervene is None
        return undisturbed and self.stalls == Stalls.none()

    def cycles(self, timing: Mapping[str, int], frames: int) -> int:
        """About how many clock cycles a run of a design takes, which decides how far its simulator is optimised.

        Args:
            timing: ``last`` and ``interval`` of the manifest, in cycles.
            frames: Frames to play.
        """
        slow = self.stalls.slowdown * (1.0 if self.inner is None else self.inner.slowdown)
        last, interval = int(timing["last"]), int(timing["interval"])
        # What follows the last beat is waited for as long as a frame takes.
        once = frames * interval + last + max(LEAST_TAIL, interval + last)
        return int(slow * once) * (1 + len(self.reset_at))


DEFAULTS = SimulationOptions()
"""At full rate, without waves."""


@dataclass(frozen=True)
class Plan:
    """A plan on disk.

    Args:
        path: ``plan.json``; every other file of the run lies beside it.
        content: What is in that file.
        raw: The encoded beats by stream: stimulus of inputs, reference of outputs.
        plusargs: What the simulator is told besides.
    """

    path: Path
    content: Json
    raw: Mapping[str, bytes]
    plusargs: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The run folder."""
        return self.path.parent

    @property
    def identity(self) -> str:
        """Hash of the plan and all beats; the outcome must repeat it."""
        return str(self.content["id"])

    @property
    def resets(self) -> int:
        """Resets in the middle of the run; the outcome must report as many."""
        return len(self.content["reset_at"])

    def times_of_resets(self) -> list[tuple[int, int, int]]:
        """Unit (its place in :data:`RESET_UNITS`), time and length of every reset, for drivers without Python."""
        return [(RESET_UNITS.index(each["unit"]), each["at"], each["length"]) for each in self.content["reset_at"]]

    def stalls(self, port: Json) -> tuple[int, int, int, int]:
        """Threshold, cycles of work and period of bursts, and first state of ``sim/stall_pattern.py`` for a port."""
        go, stop = port["stalls"]["burst"]
        threshold = int(float(port["stalls"]["probability"]) * (1 << 32))
        return threshold, go, go + stop, stream_seed(self.content["seed"], port["name"])

    def garbage(self, port: Json) -> list[int]:
        """The words of an idle input, one after the other, as ``sim/stream_driver.py`` draws them."""
        noise = random.Random(stream_seed(self.content["seed"], f"{port['name']}/garbage"))
        return [noise.getrandbits(port["bits"]) for _ in range(_GARBAGE_WORDS)]


_GARBAGE_WORDS = 61
_MASK64 = (1 << 64) - 1


def stream_seed(seed: int, name: str) -> int:
    """Mix the run's seed and a name into 64 bits (FNV-1a), as ``sim/stall_pattern.py``."""
    state = 0xCBF29CE484222325
    for byte in f"{seed}:{name}".encode():
        state = ((state ^ byte) * 0x100000001B3) & _MASK64
    return state


def clean_run_folder(run_dir: Path) -> None:
    """Remove what an earlier run left, so that stale results cannot be taken for new ones.

    Only names that this engine writes are removed.

    Raises:
        EmitError: If the folder cannot be written.
    """
    with writing("the run folder", run_dir):
        run_dir.mkdir(parents=True, exist_ok=True)
        for name in ("plan.json", *RESULT_FILES):
            (run_dir / name).unlink(missing_ok=True)
        for name in RESULT_FOLDERS:
            if (run_dir / name).exists():
                shutil.rmtree(run_dir / name)
            (run_dir / name).mkdir()
        if (run_dir / MEMORY).is_symlink():
            (run_dir / MEMORY).unlink()


def write_plan(
    dut: Dut, run_dir: Path, stimulus: Beats, expected: Beats, limits: Limits, options: SimulationOptions
) -> Plan:
    """Clean the run folder and write the plan.

    Args:
        dut: What is simulated.
        run_dir: Folder for plan, log, results and waves.
        stimulus: Mantissas ``(beats, lanes)`` for every input stream, as :meth:`Stream.pack` makes them.
        expected: The same for every output stream.
        limits: When to start, to stop and to give up.
        options: Seed, stalls and resets.

    Raises:
        ConfigError: If the beats do not match the design's streams.
        EmitError: If the folder cannot be written, or a memory file is not what the design says it is.
    """
    clean_run_folder(run_dir)
    raw: dict[str, bytes] = {}
    ports: dict[str, list[Json]] = {"in": [], "out": []}
    _same_names("stimulus", stimulus, dut.inputs)
    _same_names("expected", expected, dut.outputs)
    for stream in (*dut.inputs, *dut.outputs):
        beats = (stimulus if stream.direction == "in" else expected)[stream.name]
        raw[stream.name] = encode(stream, beats)
        ports[stream.direction].append(
            {
                "name": stream.name,
                "valid": stream.valid,
                "ready": stream.ready,
                "bits": stream.bits,
                "beats": int(beats.shape[0]),
                "file": f"beats/{stream.name}.bin",
                "stalls": options.stalls.entry(stream.direction),
            }
        )
    plan: Json = {
        "version": 1,
        "top": dut.top,
        "seed": options.seed,
        **{name: int(getattr(limits, name)) for name in Limits.__dataclass_fields__},
        "reset_at": [asdict(reset) for reset in options.reset_at],
        "inner_stalls": None if options.inner is None else asdict(options.inner),
        "turns": [
            [turn.reset, turn.wait, number - 1 if turn.after is None else turn.after]
            + [turn.beats.get(name, 0) for name in raw]
            for number, turn in enumerate(options.turns)
        ],
        "intervenes": options.intervene is not None,
        "inputs": ports["in"],
        "outputs": ports["out"],
        "idle": dut.idle,
    }
    digest = hashlib.sha256(json.dumps(plan, sort_keys=True).encode())
    for name in sorted(raw):
        digest.update(raw[name])
    plan["id"] = digest.hexdigest()
    with writing("the plan", run_dir):
        for name, data in raw.items():
            (run_dir / "beats" / f"{name}.bin").write_bytes(data)
        _place_memory(dut, run_dir / MEMORY)
        path = run_dir / "plan.json"
        path.write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")
    plusargs = () if options.inner is None else options.inner.plusargs(options.seed)
    return Plan(path, plan, raw, plusargs)


def _place_memory(dut: Dut, folder: Path) -> None:
    """Let the simulator find its memory files: copies of those that were checked before, so that it reads these."""
    if dut.memory is None:
        return
    kept = [path for path in dut.digests if path.parent == dut.memory]
    if not kept:
        folder.symlink_to(dut.memory.resolve(), target_is_directory=True)
        return
    for path in kept:
        (folder.with_name(COPIES) / path.name).write_bytes(checked(path, read_source(path), dut.digests))
    folder.symlink_to(COPIES, target_is_directory=True)


def _same_names(what: str, given: Mapping[str, IntArray], streams: tuple[Stream, ...]) -> None:
    wanted = {s.name for s in streams}
    if set(given) != wanted:
        raise ConfigError(
            f"{what} does not name the streams of the design",
            field=what,
            got=sorted(given),
            expected=sorted(wanted),
        )
