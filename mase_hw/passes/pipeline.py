"""Pipelines: steps in a named order that can be looked at before it runs, and that says where it failed."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from mase_hw.errors import ConfigError, GraphError, refuse_unknown
from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.passes.analysis.report_tables import Table
from mase_hw.passes.base import GraphPass, Info, changed, validate
from mase_hw.passes.diagnostics import Place
from mase_hw.passes.reproduce import Reproducer
from mase_hw.passes.verify import verify_analysis_pass

PlainStep = Callable[[Any, Any], Any]
Arguments = Any
"""Of a pass a dict or its model; of a function whatever it takes."""
_FAILURE = "_mase_hw_step_failure"
"""Attribute of an exception that says which step raised it."""


@dataclass(frozen=True)
class Step:
    """One step of a pipeline with its arguments.

    Args:
        name: Unique within the pipeline.
        run: A pass, or any function ``(graph, args)``. It returns ``(graph, info)`` as a pass does, a graph alone, or
            anything else, which is the result of the step: an evaluation its score, a search what it found. A first
            step that is a function may make the graph, such as one that imports a model; it gets None, or what
            the pipeline was run on.
        args: Arguments of the step.
        title: What people are told while it runs, if it takes long enough to be told.
    """

    name: str
    run: GraphPass[Any] | PlainStep
    args: Arguments = None
    title: str = ""

    @property
    def pass_name(self) -> str:
        """Name of the pass or function."""
        return str(getattr(self.run, "name", None) or getattr(self.run, "__name__", type(self.run).__name__))

    @property
    def graph_pass(self) -> GraphPass[Any] | None:
        """The pass that the step runs; None of a function that does not name one as its ``graph_pass``."""
        return self.run if isinstance(self.run, GraphPass) else getattr(self.run, "graph_pass", None)


@dataclass(frozen=True)
class StepFailure:
    """What a failed step was and what it had.

    Args:
        step: The step.
        position: Its place in the pipeline, from 1.
        of: Number of steps.
        graph: The graph as the failed step left it, None if none was made by then; passes of this package leave it as
            they got it.
        completed: Passes that had run on the graph.
        finished: Steps that had finished, with what they reported.
    """

    step: Step
    position: int
    of: int
    graph: MaseGraph | None
    completed: tuple[str, ...]
    finished: Mapping[str, object]

    def __str__(self) -> str:
        lines = [
            f"in step {self.step.name!r} ({self.position} of {self.of}, {self.step.pass_name})",
            f"  arguments: {_short(self.step.args)}",
            "  graph: none yet"
            if self.graph is None
            else f"  graph: {len(self.graph.nodes)} nodes; passes run: {', '.join(self.completed) or 'none'}",
            f"  steps finished: {', '.join(self.finished) or 'none'}",
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class Run:
    """What a pipeline did.

    Args:
        graph: The graph it left.
        infos: What every step reported, or its result, by its name.
        seconds: How long every step took.
    """

    graph: MaseGraph
    infos: Info = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def modified(self) -> list[str]:
        """Steps that changed the network, or do not say that they did not."""
        return [name for name, info in self.infos.items() if changed(info)]


class Pipeline:
    """Steps in order. A pipeline is never changed: what changes it returns another one.

    Args:
        steps: The steps, with unique names.
        name: What it is called in messages.

    Raises:
        ConfigError: If two steps have one name, a step is no pass, or the arguments of a pass are wrong; nothing has
            run then.
    """

    def __init__(self, steps: Iterable[Step], name: str = "pipeline") -> None:
        self.name = name
        self.steps = tuple(steps)
        for position, step in enumerate(self.steps, 1):
            if not isinstance(step, Step) or not callable(step.run):
                raise ConfigError(f"step {position} of {name} is no Step with a pass", field="steps", got=repr(step))
            if step.name in self.names[: position - 1]:
                raise ConfigError(f"two steps of {name} have one name", field="steps", got=step.name)
            if isinstance(step.run, GraphPass):
                validate(f"{step.name} ({step.pass_name})", step.run.args, step.args)

    @property
    def names(self) -> list[str]:
        """Names of the steps, in order."""
        return [step.name for step in self.steps]

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, name: str) -> Step:
        return self.steps[self._index(name)]

    def __repr__(self) -> str:
        return f"Pipeline({self.name}: {' -> '.join(self.names)})"

    def table(self) -> Table:
        """Steps, passes and arguments, to be drawn or printed."""
        rows = [[str(i), s.name, s.pass_name, _short(s.args)] for i, s in enumerate(self.steps, 1)]
        return Table(self.name, [">", "Step", "Pass", "Arguments"], rows)

    def inserted(self, step: Step, *, after: str | None = None, before: str | None = None) -> Pipeline:
        """With one more step, right after or right before another; at the end if neither is given."""
        if after is not None and before is not None:
            raise ConfigError("a step goes after or before another, not both", field="after, before")
        index = len(self.steps)
        if after is not None:
            index = self._index(after) + 1
        elif before is not None:
            index = self._index(before)
        return Pipeline([*self.steps[:index], step, *self.steps[index:]], self.name)

    def without(self, *names: str) -> Pipeline:
        """Without some steps."""
        gone = {self._index(name) for name in names}
        return Pipeline([s for i, s in enumerate(self.steps) if i not in gone], self.name)

    def until(self, name: str) -> Pipeline:
        """The steps up to one, which is the last."""
        return Pipeline(self.steps[: self._index(name) + 1], self.name)

    def replaced(self, name: str, args: Arguments) -> Pipeline:
        """With other arguments for one step."""
        index = self._index(name)
        step = dataclasses.replace(self.steps[index], args=args)
        return Pipeline([*self.steps[:index], step, *self.steps[index + 1 :]], self.name)

    def dump_diagnostic_files_after(
        self,
        step: str | Callable[[Step], bool],
        folder: str | Path,
        prefix: str = "",
        suffix: str = "",
        *,
        condition: bool | Callable[[MaseGraph], bool] = True,
        name: str | None = None,
    ) -> Pipeline:
        """With a step that writes diagnostic files right after another one, or after every one that fulfils something.

        Args:
            step: Name of the step after which they are written, or whether they are to be written after a step.
            folder: Where to; as :func:`~mase_hw.passes.diagnostics.dump_diagnostic_files`.
            prefix: Begins every file's name.
            suffix: Ends it, before the extension; ``_`` and the step's name stand before it.
            condition: Whether to write them; a function is asked with the graph when the step is done.
            name: What the model is called; by its class if None.

        Raises:
            ConfigError: If there is no such step, or none that fulfils the condition, or a name cannot be a file's.
        """
        if callable(step):
            found = [each.name for each in self.steps if step(each)]
            if not found:
                raise ConfigError(f"no step of {self.name} fulfils the condition", field="step", expected=self.names)
            made = self
            for each in found:
                made = made.dump_diagnostic_files_after(each, folder, prefix, suffix, condition=condition, name=name)
            return made
        return self._dumped(step, Place(Path(folder), prefix, f"_{step}{suffix}", name), condition)

    def _dumped(self, step: str, place: Place, condition: bool | Callable[[MaseGraph], bool]) -> Pipeline:
        def dump(graph: MaseGraph, args: Mapping[str, object]) -> tuple[MaseGraph, Info]:
            wanted = condition(graph) if callable(condition) else condition
            files = place.write(graph, self.configuration()) if wanted else []
            return graph, {"files": [str(file) for file in files], "modified": False}

        return self.inserted(Step(f"{step}_dump", dump, {}), after=step)

    def dump_diagnostic_files(self, folder: str | Path, prefix: str = "", suffix: str = "") -> Pipeline:
        """With diagnostic files after every step; the place and name of the step stand before the suffix."""
        made = self
        for position, name in enumerate(self.names, 1):
            made = made._dumped(name, Place(Path(folder), prefix, f"_{position:02d}_{name}{suffix}"), True)
        return made

    def configuration(self) -> Info:
        """Every step with its pass and arguments, as far as JSON can hold them."""
        return {step.name: {"pass": step.pass_name, "args": _plain(step.args)} for step in self.steps}

    def check(self, graph: Any) -> None:
        """Refuse an order in which a pass would lack another one's result, before anything runs.

        Functions that are no :class:`GraphPass` are taken to need nothing and to give nothing. What a graph holds that
        the first step makes is not known before it runs; every pass then looks at it in its turn.

        Raises:
            GraphError: If ``graph`` is no MaseGraph, and the first step is a pass.
            PassOrderError: If a pass needs one that has not run by then.
        """
        if not isinstance(graph, MaseGraph):
            if self.steps and not isinstance(self.steps[0].run, GraphPass):
                return
            raise GraphError(
                f"{self.name} works on a MaseGraph",
                got=type(graph).__name__,
                remedy="run it on one, or begin with a step that makes one",
            )
        done = list(graph.completed)
        for position, step in enumerate(self.steps, 1):
            one = step.graph_pass
            if one is None:
                continue
            lacking = one.lacks(done)
            if lacking:
                raise one.too_early(f"step {step.name!r} ({position} of {len(self)})", lacking, done)
            done = one.completed_after(done)

    def run(
        self,
        graph: Any = None,
        *,
        progress: Callable[[str], object] | None = None,
        on_step: Callable[[Step], object] | None = None,
        verify: bool = False,
        reproduce: str | Path | None = None,
    ) -> Run:
        """Run every step.

        Args:
            graph: The graph, which passes change in place; or what the first step makes one of, a file for example.
            progress: Told the name of every step before it runs.
            on_step: Called with every step before it runs.
            verify: Check the graph after every step, once it has common metadata, so that a pass which leaves a broken
                graph is the one that is named, and not a later one that trips over it.
            reproduce: A folder that a failing step leaves: the graph as it was before the step, the step's arguments,
                and a ``run.py`` that repeats the failure wherever this package is installed. The graph is written down
                before every step, which takes time.

        Returns:
            The graph, and report and time of every step; the time of checking is not in it.

        Raises:
            PassOrderError: Before anything runs, if a pass would lack another one's result.
            GraphError: If no step made a graph.
            VerifyError: If a step left a broken graph.
            Exception: What a step raised, of the same type and with the same message. A note says which step it was and
                what it had, and :func:`failure_of` has the same as data.
        """
        self.check(graph)
        kept = None if reproduce is None else Reproducer(reproduce)
        try:
            return self._run(graph, progress, on_step, verify, kept)
        finally:
            if kept is not None:
                kept.close()

    def _run(
        self,
        graph: Any,
        progress: Callable[[str], object] | None,
        on_step: Callable[[Step], object] | None,
        verify: bool,
        kept: Reproducer | None,
    ) -> Run:
        run = Run(graph)
        for position, step in enumerate(self.steps, 1):
            if progress is not None:
                progress(f"{step.name} ({position} of {len(self)})")
            if on_step is not None:
                on_step(step)
            known = isinstance(graph, MaseGraph)
            args = step.args if kept is None or not known else kept.before(graph, step.name, step.run, step.args)
            started = time.perf_counter()
            try:
                graph, info = _outcome(graph, step.run(graph, args))
                run.seconds[step.name] = time.perf_counter() - started
                if not isinstance(graph, MaseGraph):
                    raise GraphError(f"{step.name} makes no MaseGraph", got=type(info).__name__)
                if verify and COMMON_PASS in graph.completed:
                    graph, _ = verify_analysis_pass(graph)
            except Exception as error:
                at = graph if known else None
                completed = () if at is None else at.completed
                failure = StepFailure(step, position, len(self), at, completed, dict(run.infos))
                setattr(error, _FAILURE, failure)
                error.add_note(str(failure))
                if kept is not None and known:
                    error.add_note(kept.failed())
                raise
            run.infos[step.name] = info
        return dataclasses.replace(run, graph=graph)

    def _index(self, name: str) -> int:
        refuse_unknown(name, self.names, f"{self.name} has no such step", field=name)
        return self.names.index(name)


def failure_of(error: BaseException) -> StepFailure | None:
    """Which step of a pipeline raised an exception, and what it had; None if none did."""
    found = getattr(error, _FAILURE, None)
    return found if isinstance(found, StepFailure) else None


def _outcome(graph: Any, made: Any) -> tuple[Any, Any]:
    """Graph and report of a step, of what it returned."""
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], MaseGraph):
        return made
    return (made, {}) if isinstance(made, MaseGraph) else (graph, made)


def _plain(value: Any) -> Any:
    """Arguments for a JSON file: data as it is, everything else by its kind."""
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in value.model_fields_set}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "shape"):
        return f"{type(value).__name__} {list(value.shape)}"
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return type(value).__name__


def _short(args: Arguments) -> str:
    plain = _plain(args)
    text = ", ".join(f"{k}={v}" for k, v in plain.items()) if isinstance(plain, dict) else str(plain or "")
    return text if len(text) <= 200 else f"{text[:197]}..."
