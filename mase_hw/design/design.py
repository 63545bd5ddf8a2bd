"""A compiled design: its bundle, its reference, and how to simulate one against the other."""

from __future__ import annotations

import html
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from mase_hw.design.attempts import Attempts, Progress, explained
from mase_hw.design.promises import kept, timings
from mase_hw.design.simulation import Simulation, with_casts
from mase_hw.design.vectors import Played, Sides, bundle_vectors
from mase_hw.emit.bundle import PICTURE
from mase_hw.emit.port_entry import port_stream
from mase_hw.emit.read_bundle import changed_files, read_manifest
from mase_hw.errors import ConfigError, EmitError
from mase_hw.hardware.external import design_number
from mase_hw.hardware.manifest import Generation, typed
from mase_hw.hardware.parameter_ports import parameter_ports
from mase_hw.hardware.prefix import renamed
from mase_hw.host.documents import Json
from mase_hw.report.proof import keep_evaluation
from mase_hw.simulate.arguments import Asked
from mase_hw.simulate.arguments import check as check_arguments
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.plan import Limits
from mase_hw.simulate.record import record
from mase_hw.simulate.waves import shown_streams
from mase_hw.streams import Stream

if TYPE_CHECKING:
    # Torch, and all that needs it, takes seconds to load; a bundle that plays its own vectors does without.
    import torch

    from mase_hw.design.decode import Choose, Generated
    from mase_hw.design.evaluate import Evaluated
    from mase_hw.emit.reference import Inputs
    from mase_hw.ir import MaseGraph
    from mase_hw.passes.evaluation import CriterionLike
    from mase_hw.passes.quantize.quantisation_summary import Summary


__all__ = ["HARDWARE", "Design", "Progress", "load_design"]

HARDWARE = ("rtl/", "mem/")
"""Where the files lie that make the hardware."""


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
        self.manifest: Json = read_manifest(self.path, verify=verify)
        self.record = typed(self.manifest, str(self.path))
        self._digest = self.record.digest
        emitted = None if graph is None else graph.meta.get("bundle")
        if verify and emitted is not None and emitted.digest != self._digest:
            raise _another(self.path, self._digest, emitted.digest)
        self.streams: dict[str, Stream] = {port.name: port_stream(port) for port in self.record.ports}

    def __repr__(self) -> str:
        ports = ", ".join(f"{s.name} {'x'.join(map(str, s.tensor_shape))} {s.fmt}" for s in self.streams.values())
        return f"Design({self.record.top} at {self.path}: {ports})"

    def _repr_html_(self) -> str:
        """What it is, its modules with what they cost, and its drawing."""
        rows = "".join(
            f"<tr><td>{entry.name}</td><td>{entry.module}</td><td>{entry.multipliers}</td></tr>"
            for entry in self.record.instances
        )
        table = f"<table><tr><th>instance</th><th>module</th><th>multipliers</th></tr>{rows}</table>"
        picture = self.path / PICTURE
        drawing = picture.read_text(encoding="utf-8") if picture.is_file() else ""
        return f"<pre>{html.escape(repr(self))}</pre>{table}{drawing}"

    @property
    def model(self) -> torch.nn.Module:
        """The quantised model: floats in and out, bit-true inside.

        Raises:
            ConfigError: If the design was loaded from disk; a bundle holds hardware, not the model.
        """
        return self._with_graph().called

    @property
    def quantisation(self) -> Summary | None:
        """What the quantisation cost: noise, clipped values and zeros; None if the design was loaded from disk."""
        if self.graph is None:
            return None
        from mase_hw.passes.quantize.quantisation_summary import SUMMARY, Summary

        return self.graph.note(SUMMARY, Summary)

    @property
    def timing(self) -> Json:
        """Predicted timing: ``fill``, ``last``, ``interval`` in cycles, and ``bottleneck``."""
        timing: Json = self.manifest["timing"]
        return timing

    def dut(self, loop: Generation | None = None) -> Dut:
        """The top level, for the simulation engine, which takes no other content than that of the manifest.

        Args:
            loop: What is around it, if that is to be simulated. The design comes last all the same, so that edges
                inside it may be stalled.
        """
        hashes = self.record.files if self.verify else {}
        around = () if loop is None else loop.rtl
        return Dut(
            top=self.record.top if loop is None else loop.top,
            sources=tuple(self.path / file for file in (*around, *self.record.rtl)),
            parameters={"MEMORY_MODEL": 1} if self.record.outside or self.record.caches else {},
            tied={port.name: port.idle or port.range.strip() for port in parameter_ports(self.record)},
            streams=tuple(self.streams.values()) if loop is None else tuple(map(port_stream, loop.ports)),
            memory=self.path / "mem" if self.record.memories else None,
            digests={self.path / file: digest for file, digest in hashes.items() if file.startswith(HARDWARE)},
            edges=self.record.edges,
            prefix=self.record.prefix,
        )

    def simulate(
        self,
        inputs: Inputs | None = None,
        *,
        check: bool = True,
        progress: Progress | None = None,
        diagnose: bool = True,
        **asked: Unpack[Asked],
    ) -> Simulation:
        """Run the RTL in Verilator under cocotb against the quantised model, every bit of every beat.

        Args:
            inputs: Inputs of the model, frames stacked along the first dimension; the bundle's own vectors if None.
            check: Raise unless everything is equal; else look at ``passed``.
            progress: Told what is being done.
            diagnose: After a mismatch or a hang, run again with probes on every edge and attach what they show to
                the failure and to the result; needs the model, so not for a design that was loaded from disk.
            asked: Any of :class:`mase_hw.simulate.arguments.Asked`: ``engine``, ``seed``, ``stalls``, ``waves``,
                ``work_dir``, ``jobs``, ``threads``, ``reset_at``, ``coverage``, ``intervene``, ``inner_stalls``.

        Raises:
            ConfigError: If an argument does not fit the model or the engine; then nothing was built.
            MismatchError: At least one bit differs; the first difference is named.
            HangError: The design stopped moving.
            ResultsError: The simulator gave no complete verdict.
            EmitError: A file of the bundle was changed or is missing.
            ToolError: A compiler or simulator is missing.
        """
        tell = progress or (lambda _: None)
        options = check_arguments(self.path, int(self.timing["interval"]), **asked)
        self.reopen()
        if options.jobs > 1 and self.record.streaming:
            raise ConfigError(
                "the frames of a stream cannot be shared out: each one depends on those before it",
                field="jobs",
                got=options.jobs,
                expected="1",
                remedy="give jobs=1; simulate independent streams by a call each",
            )
        self._complete()
        played = self._prepared(inputs, tell)
        limits = Limits.of(self.timing, played.frames, options.stalls, options.inner)
        cycles, shown = options.cycles(self.timing, played.frames), shown_streams(self.record)
        attempts = Attempts(self.dut(), options, limits, cycles, played.frames, tell, shown)
        result = with_casts(attempts.run(played), self.record, self.graph, inputs)
        if result.failure is None:
            result = kept(result, self.record, played.frames, options.jobs) if options.at_full_rate else result
        else:
            changed = [] if self.verify else changed_files(self.path, self.record.files)
            result = explained(self, attempts, played, result, inputs, changed=changed, diagnose=diagnose)
        timed, drained = timings(result, self.record)
        paths = {port.name: port.path for port in self.record.ports}
        found = Simulation(result, played.frames, self.timing, timed, self.streams, paths, drained)
        measured = {"fill": found.fill, "interval": found.interval}
        record(self._digest, options, result, played.frames, inputs is None, measured)
        if check:
            result.raise_on_failure()
        return found

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        tokens: int | None = None,
        *,
        choose: Choose | None = None,
        simulate: bool = True,
        abort: int = 0,
        check: bool = True,
        progress: Progress | None = None,
        **asked: Unpack[Asked],
    ) -> Generated:
        """Continue prompts with a language model that was compiled with ``decode``, token by token, in the RTL as well.

        The quantised model chooses every token from its scores. In the batch engine each token enters the design when
        the results of those before it have left, and every bit of them is compared. A sequence that does not fill the
        context is ended by a reset. With ``decode.slots`` as many sequences are in the design at once: tokens of the
        others enter while one waits for its results, and a sequence ends when the next one begins in its slot.

        Without ``tokens``, a design that generates by itself is given the prompts alone. What leaves it is compared
        token by token, and so is where each sequence ends.

        Args:
            prompts: Token ids, from one to the context; of a design by itself what follows the context is discarded.
            tokens: How many to choose for each prompt; None of a design that generates by itself.
            choose: From scores ``(ids,)`` to the next token; the highest, the first one of equals, if None. Of a model
                that gives the next ids it is not asked.
            simulate: Whether to simulate the RTL as well.
            abort: Before each sequence it is played once more up to its last token, which a reset gives up so many
                cycles after it entered, before its first result; 0: not. Not with slots.
            check: Raise unless everything is equal; else look at the result.
            progress: Told what is being done.
            asked: Of the simulation: ``stalls``, ``seed``, ``inner_stalls``, ``work_dir`` and ``waves``, as of
                :meth:`simulate`; without ``tokens`` also ``reset_at``.

        Raises:
            ConfigError: If the model was not compiled so, or a sequence would be longer than the context.
            MaseHwError: As of :meth:`simulate`.
        """
        from mase_hw.design import decode
        from mase_hw.emit.causality import Tokens

        graph, found = self._with_graph(), self.manifest.get("decode")
        if found is None:
            raise ConfigError(
                "the design was not compiled for tokens that come one at a time", field="decode",
                expected='{"decode": {"context": tokens}} in the configuration', remedy="compile the model again",
            )  # fmt: skip
        loop = None if self.record.decode is None or tokens is not None else self.record.decode.generate
        if tokens is None and (loop is None or abort or choose):
            raise ConfigError(
                "nothing says how many tokens to choose", field="tokens",
                got="no number" if loop is None else "abort, or a choice, of a design that generates by itself",
                expected="a number of tokens, or a design with decode.stop or decode.length and nothing besides",
                remedy="give tokens; a reset is asked for with reset_at",
            )  # fmt: skip
        chosen = choose or decode.greedy
        written = decode.generate(graph, found["context"], prompts, tokens or 0, chosen, loop)
        if not simulate:
            return decode.Generated(written)
        asked["engine"] = asked.get("engine", "batch")
        options = check_arguments(self.path, int(self.timing["interval"]), **asked)
        self.reopen()
        self._complete()
        self._check_parameters()
        at_a_time = Tokens(graph.meta["netlist"], graph.catalogue, found["context"])
        watchdog = Limits.of(self.timing, 1, options.stalls, options.inner).watchdog
        tell = progress or (lambda _: None)
        bench = decode.Bench(self.dut(loop), graph, self.streams, at_a_time, options, watchdog, tell)
        generated = bench.play(written, abort) if loop is None else bench.by_itself(loop, prompts, written)
        if check and generated.result is not None:
            generated.result.raise_on_failure()
        return generated

    def report(
        self, out: Path | str | None = None, *, against: Path | str | None = None, work_dir: Path | str | None = None
    ) -> Path:
        """Write one HTML page that shows the design: time, area, what quantisation cost, what was proven.

        Args:
            out: The file; ``<bundle>.report.html`` beside the bundle by default.
            against: Another bundle to compare with.
            work_dir: Where it was simulated and synthesised; ``<bundle>.work`` by default.

        Returns:
            The file.

        Raises:
            ConfigError: If matplotlib is not installed, or the file would lie in the bundle.
            EmitError: If a folder is not a whole, unchanged bundle, or the file cannot be written.
        """
        from mase_hw.report.page import write_report

        return write_report(self.path, out, graph=self.graph, against=against, work=work_dir)

    def evaluate(
        self,
        data: Iterable[Any],
        criterion: CriterionLike = "accuracy",
        *,
        float_model: torch.nn.Module | None = None,
        keep: bool = True,
        **simulation: Any,
    ) -> Evaluated:
        """How good it is on labelled data: the float model, the quantised one, and the hardware in simulation.

        Args:
            data: Batches of ``(inputs, targets)``, as for
                :func:`~mase_hw.passes.evaluation.evaluate_statistic`; all inputs are played one after the other.
            criterion: As for :func:`~mase_hw.passes.evaluation.evaluate_statistic`.
            float_model: The float model, to compare with.
            keep: Whether to keep the result in the bundle, for reports.
            simulation: Arguments of :meth:`simulate`; the engine is ``batch`` if none is named.

        Raises:
            ConfigError: If the data or the criterion does not fit, or the design was loaded from disk.
            EmitError: If the result cannot be kept.
            MaseHwError: As of :meth:`simulate`; a wrong bit is no error, it is in the result.
        """
        from mase_hw.design.evaluate import evaluate_design

        options = {"engine": "batch", **simulation}
        found = evaluate_design(self._with_graph(), self.simulate, data, criterion, float_model, options)
        if keep:
            keep_evaluation(self.path, self._digest, found.to_json())
        return found

    def reopen(self) -> None:
        """Check that the folder still holds the bundle that this design is.

        Raises:
            EmitError: If it holds another bundle by now, or a file was changed or is missing.
        """
        manifest = read_manifest(self.path, verify=self.verify)
        if self.verify and manifest["digest"] != self._digest:
            raise _another(self.path, manifest["digest"], self._digest)
        self.manifest, self.record = manifest, typed(manifest, str(self.path))

    def _complete(self) -> None:
        """Build the netlist anew for a graph that was loaded: a checkpoint keeps what decides it, not the netlist."""
        if self.graph is not None and "netlist" not in self.graph.meta:
            from mase_hw.emit.build import build_netlist

            self.graph.meta["netlist"] = build_netlist(self.graph, self.record.top)

    def vectors(self) -> Sides:
        """The bundle's own vectors: mantissas of shape ``(frames, *tensor_shape)``, of the inputs and the outputs.

        Raises:
            ConfigError: If the bundle has none.
            EmitError: If a file was changed or is missing.
            ResultsError: If the files do not hold the frames that the manifest says.
        """
        return bundle_vectors(self.path, self.record, self.streams, verify=self.verify)

    def _prepared(self, inputs: Inputs | None, tell: Progress) -> Played:
        """What is played and expected: the bundle's vectors, or what the quantised model makes of the inputs."""
        if inputs is None:
            return Played.of(*self.vectors(), self.streams)
        from mase_hw.emit.reference import Reference

        self._check_parameters()
        tell("running the quantised PyTorch model for the reference")
        return Played.of(*Reference(self._with_graph()).run(inputs), self.streams)

    def _check_parameters(self) -> None:
        """Refuse a model whose parameters changed after emission, for example in training."""
        netlist = self._with_graph().meta.get("netlist")
        if netlist is None or not self.verify:
            return
        from mase_hw.emit.passes import memory_files

        for file, text in memory_files(self._with_graph(), netlist, design_number(self.record)).items():
            if (self.path / renamed(file, self.record.prefix)).read_text() != text:
                raise ConfigError(
                    "the model's parameters are not those of the bundle any more",
                    node=file,
                    remedy="compile the model again; the bundle holds the parameters it had then",
                )

    def _with_graph(self) -> MaseGraph:
        if self.graph is None:
            raise ConfigError(
                "this design was loaded from disk and has no model",
                node=str(self.path),
                remedy="simulate the bundle's own vectors (no inputs), or compile the model again",
            )
        return self.graph


def _another(path: Path, got: str, expected: str) -> EmitError:
    return EmitError(
        "the folder holds another bundle than the one of this design",
        node=str(path),
        got=f"digest {got[:16]}...",
        expected=f"digest {expected[:16]}...",
        remedy="compile every design into a folder of its own; mase_hw.load_design opens the bundle that is there now",
    )


def load_design(path: Path | str) -> Design:
    """Open a bundle that was written earlier; it can be simulated against its own vectors."""
    return Design(Path(path))


def attach_model(design: Design, compile_into: Callable[[Path], Design]) -> None:
    """Compile the model again, for its graph only, if it gives the very hardware of the bundle.

    Args:
        design: As loaded; it has its graph afterwards.
        compile_into: Compiles the model into a folder that does not exist yet.

    Raises:
        ConfigError: If a file of the hardware differs, so that the model is not the one behind the bundle.
    """
    with tempfile.TemporaryDirectory() as folder:
        again = compile_into(Path(folder) / "bundle")
        ours, theirs = _hashes(design), _hashes(again)
        different = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
        if different:
            raise ConfigError(
                "the model does not give the hardware of the bundle",
                node=str(design.path),
                field="--model",
                got=f"{len(different)} other files: {', '.join(different[:3])}",
                remedy="give the model and the configuration it was compiled with; a function that draws or trains "
                "gives the same each time if it seeds its own generators, or loads saved weights",
            )
        design.graph = again.graph


def _hashes(design: Design) -> dict[str, str]:
    files = design.record.files
    return {name: digest for name, digest in files.items() if name.startswith(HARDWARE)}
