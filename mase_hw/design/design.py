"""A compiled design: its bundle, its reference, and how to simulate one against the other."""

from __future__ import annotations

import dataclasses
import fcntl
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mase_hw.beats import from_words
from mase_hw.design.simulation import Simulation
from mase_hw.emit.bundle import read_manifest
from mase_hw.emit.port_entry import port_stream
from mase_hw.errors import ConfigError, ResultsError, ToolError
from mase_hw.host.disk import not_written
from mase_hw.simulate.arguments import When
from mase_hw.simulate.arguments import check as check_arguments
from mase_hw.simulate.diagnose.failure import can_explain, replay, with_end
from mase_hw.simulate.engines.cocotb import engine as bench
from mase_hw.simulate.engines.cocotb.engine import Dut, SimResult, Stalls
from mase_hw.simulate.engines.registry import DEFAULT
from mase_hw.simulate.engines.registry import engine as engine_of
from mase_hw.streams import IntArray, Stream

if TYPE_CHECKING:
    # Torch, and all that needs it, takes seconds to load; a bundle that plays its own vectors does without.
    import torch

    from mase_hw.emit.reference import Inputs
    from mase_hw.ir import MaseGraph

Progress = Callable[[str], None]
"""Told what is being done, a line at a time."""
PROGRESS_SECONDS = 2.0
"""Least time between two progress lines of a running simulation."""


class Design:
    """A bundle on disk and, if it was compiled in this process, the graph behind it.

    Args:
        path: The bundle's folder.
        graph: The quantised graph; None for a design loaded from disk.
        verify: Check the hash of every file on every use; switched off only to test what a fault does.

    Raises:
        EmitError: If the folder is not a whole, unchanged bundle.
    """

    def __init__(self, path: Path, graph: MaseGraph | None = None, *, verify: bool = True) -> None:
        self.path = Path(path).resolve()
        self.graph = graph
        self.verify = verify
        self.manifest: dict[str, Any] = read_manifest(self.path, verify=verify)
        self.streams: dict[str, Stream] = {e["name"]: port_stream(e) for e in self.manifest["ports"]}

    def __repr__(self) -> str:
        ports = ", ".join(f"{s.name} {'x'.join(map(str, s.tensor_shape))} {s.fmt}" for s in self.streams.values())
        return f"Design({self.manifest['top']} at {self.path}: {ports})"

    @property
    def model(self) -> torch.nn.Module:
        """The quantised model: floats in and out, bit-true inside.

        Raises:
            ConfigError: If the design was loaded from disk; a bundle holds hardware, not the model.
        """
        return self._with_graph().model

    @property
    def timing(self) -> dict[str, Any]:
        """Predicted timing: ``fill``, ``last``, ``interval`` in cycles, and ``bottleneck``."""
        timing: dict[str, Any] = self.manifest["timing"]
        return timing

    def dut(self) -> Dut:
        """The top level, for the simulation engine."""
        return Dut(
            top=self.manifest["top"],
            sources=tuple(self.path / file for file in self.manifest["rtl"]),
            streams=tuple(self.streams.values()),
            memory=self.path / "mem" if self.manifest["memories"] else None,
        )

    def simulate(
        self,
        inputs: Inputs | None = None,
        *,
        engine: str = DEFAULT,
        seed: int = 0,
        stalls: Stalls | float | str | None = None,
        waves: bool | None = None,
        work_dir: Path | str | None = None,
        check: bool = True,
        progress: Progress | None = None,
        jobs: int = 1,
        diagnose: bool = True,
        reset_at: When | Sequence[When] = (),
        coverage: bool = False,
        intervene: Path | str | None = None,
    ) -> Simulation:
        """Run the RTL in Verilator under cocotb against the quantised model, every bit of every beat.

        Args:
            inputs: Inputs of the model, frames stacked along the first dimension; the bundle's own vectors if None.
            engine: Name of the simulation engine; see :mod:`mase_hw.simulate.engines.registry`.
            seed: Of stalls, garbage on idle ports and initial register values.
            stalls: Probability of a stall on every input and output in every cycle, or :class:`Stalls`, or the name of
                a pattern of :data:`mase_hw.simulate.plan.PATTERNS`.
            waves: Write an FST, which only one process can; None: only when something is wrong, by running again.
            work_dir: Where the simulator is built and run, not in the bundle; ``<bundle>.work`` beside it by default.
            check: Raise unless everything is equal; else look at ``passed``.
            progress: Told what is being done.
            jobs: Processes that share the frames; only the batch engine has more than one.
            diagnose: After a mismatch or a hang, run again with probes on every edge and attach what they show to
                the failure and to the result; needs the model, so not for a design that was loaded from disk.
            reset_at: Resets in the middle of the run; all frames are played again after each. One or several, as
                :class:`mase_hw.simulate.plan.Reset`, cycles (``40``) or words (``"in:5"``).
            coverage: Count lines, branches and toggles; only with the batch engine.
            intervene: ``FILE.py`` or ``FILE.py:FUNCTION``, a test that intervenes in the run; only with the fast
                engine. Its failures are not diagnosed, since the run with probes does not intervene.

        Raises:
            ConfigError: If an argument does not fit the model or the engine; then nothing was built.
            MismatchError: At least one bit differs; the first difference is named.
            HangError: The design stopped moving.
            ResultsError: The simulator gave no complete verdict.
            EmitError: A file of the bundle was changed or is missing.
            ToolError: A compiler or simulator is missing.
        """
        tell = progress or (lambda _: None)
        chosen = engine_of(engine)
        asked = check_arguments(
            self.path, engine=engine, seed=seed, stalls=stalls, waves=waves, work_dir=work_dir, jobs=jobs,
            reset_at=reset_at, coverage=coverage, intervene=intervene,
        )  # fmt: skip
        more, work, pattern = asked.options, asked.work, asked.stalls
        self.manifest = read_manifest(self.path, verify=self.verify)
        if inputs is None:
            stimulus, expected = self._vectors()
        else:
            from mase_hw.emit.reference import Reference

            self._check_parameters()
            tell("running the quantised PyTorch model for the reference")
            stimulus, expected = Reference(self._with_graph()).run(inputs)
        beats_in = {name: self.streams[name].pack(values) for name, values in stimulus.items()}
        beats_out = {name: self.streams[name].pack(values) for name, values in expected.items()}
        frames = len(next(iter(stimulus.values())))

        def attempt(with_waves: bool, counted: dict[str, bool], played: Any, **more: Any) -> SimResult:
            kind = "with waves" if with_waves else "without waves"
            suffix = ("" if engine == DEFAULT else f"-{engine}") + ("-waves" if with_waves else "")
            suffix += "-coverage" if counted else ""
            tell(f"building the simulator ({kind}) with Verilator")
            built = chosen.build(
                self.dut(),
                work / f"build{suffix}",
                waves=with_waves,
                cache_dir=work.parent / "runtime-cache",
                **counted,
            )
            how = "reused" if built.reused or built.cached else "built"
            tell(f"{how} in {built.seconds:.1f} s; simulating {frames} frames")
            return chosen.simulate(
                built,
                work / f"run{suffix}",
                *played,
                stalls=pattern,
                waves=with_waves,
                watchdog=self._watchdog(),
                max_cycles=self._max_cycles(frames, pattern),
                progress=_ticker(tell),
                reset_at=asked.reset_at,
                **more,
            )

        with _alone(work):
            result = attempt(
                bool(waves), {"coverage": True} if coverage else {}, (beats_in, beats_out), seed=asked.seed, **more
            )
        result = with_end(result)
        reach = int(self.timing["last"]) + int(self.timing["interval"])
        again = replay(result, self.streams, stimulus, beats_in, beats_out, seed=asked.seed, reach=reach, jobs=jobs)
        if waves is None and result.failure is not None and not isinstance(result.failure, ResultsError):
            tell(f"{type(result.failure).__name__}: running again with waves")
            with _alone(work):
                # The waves of what led to the failure, not of all before it.
                played = (again.beats_in, again.beats_out)
                traced = attempt(True, {}, played, seed=again.seed, **{**more, "window": again.window})
            result = dataclasses.replace(result, waves=traced.waves)
        if diagnose and intervene is None and can_explain(self, result):
            from mase_hw.simulate.diagnose.explain import explain

            tell(f"{type(result.failure).__name__}: running again with probes on every edge")
            limits = {
                "watchdog": self._watchdog(),
                "max_cycles": self._max_cycles(frames, pattern),
                "reset_at": asked.reset_at,
                "frames": again.frames,
                "first": again.first,
            }
            with _alone(work):
                # A share is played from its mantissas, which is what its inputs became.
                given = None if again.part else inputs
                result = explain(
                    self, result, given, again.stimulus, seed=again.seed, stalls=pattern, work_dir=work, **limits
                )
        if check:
            result.raise_on_failure()
        timings = {name: t for name in result.outputs if (t := result.timing(sink=name)) is not None}
        return Simulation(result, frames, self.timing, timings, self.streams)

    def _check_parameters(self) -> None:
        """Refuse a model whose parameters changed after emission, for example in training."""
        netlist = self._with_graph().meta.get("netlist")
        if netlist is None or not self.verify:
            return
        from mase_hw.emit.passes import memory_files

        for file, text in memory_files(self._with_graph(), netlist).items():
            if (self.path / file).read_text() != text:
                raise ConfigError(
                    "the model's parameters are not those of the bundle any more",
                    node=file,
                    remedy="compile the model again; the bundle holds the parameters it had then",
                )

    def _watchdog(self) -> int:
        """Cycles in which something must move: no module works longer than a whole frame without a beat."""
        return 4 * (int(self.timing["last"]) + int(self.timing["interval"])) + 256

    def _max_cycles(self, frames: int, stalls: Stalls | None) -> int:
        slow = 1.0 if stalls is None else 4 * stalls.slowdown
        # The watchdog lifts all stalls after its time and needs as long again to call it a hang.
        return int(slow * (frames + 2) * int(self.timing["interval"])) + 4 * self._watchdog()

    def _vectors(self) -> tuple[dict[str, IntArray], dict[str, IntArray]]:
        if "vectors" not in self.manifest:
            raise ConfigError(
                "the bundle has no vectors", node=str(self.path), remedy="pass inputs, or emit it with vectors"
            )
        sides: dict[str, dict[str, IntArray]] = {"in": {}, "out": {}}
        for name, file in self.manifest["vectors"]["files"].items():
            stream = self.streams[name]
            sides[stream.direction][name] = read_vectors(self.path / file, stream)
        return sides["in"], sides["out"]

    def _with_graph(self) -> MaseGraph:
        if self.graph is None:
            raise ConfigError(
                "this design was loaded from disk and has no model",
                node=str(self.path),
                remedy="simulate the bundle's own vectors (no inputs), or compile the model again",
            )
        return self.graph


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """One simulation at a time in a work folder, also between processes; the lock goes with its holder."""
    try:
        work.mkdir(parents=True, exist_ok=True)
        handle = (work / ".lock").open("w")
    except OSError as error:
        raise not_written("the work folder", work, error) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        except ToolError:
            # Nothing was built: leave nothing behind.
            if [p.name for p in work.iterdir()] == [".lock"]:
                shutil.rmtree(work, ignore_errors=True)
            raise


def _ticker(tell: Progress) -> Callable[[bench.Progress], None]:
    """Passes on how far a simulation is, a line every few seconds."""
    last = time.monotonic()

    def tick(state: bench.Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            share = state.beats / max(1, state.total)
            tell(f"simulated {state.cycles:,} cycles, {state.beats:,} of {state.total:,} beats ({share:.0%})")

    return tick


def read_vectors(path: Path, stream: Stream) -> IntArray:
    """Read a vector file back into tensors of shape ``(frames, *tensor_shape)``.

    Raises:
        ResultsError: If the file is empty or holds something else than whole frames of hexadecimal words.
    """
    try:
        beats = from_words(stream, path.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise ResultsError("a vector file cannot be read", node=str(path), got=str(error)) from error
    if not len(beats) or len(beats) % stream.beats:
        raise ResultsError(
            "a vector file does not hold whole frames",
            node=str(path),
            got=f"{len(beats)} beats",
            expected=f"a multiple of {stream.beats}, at least one frame",
        )
    return stream.unpack(beats)


def load_design(path: Path | str) -> Design:
    """Open a bundle that was written earlier; it can be simulated against its own vectors."""
    return Design(Path(path))
