"""How good a design is on labelled data: the float model, the quantised model, and the hardware."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from mase_hw.design.simulation import Simulation
from mase_hw.errors import ConfigError, SimulationError
from mase_hw.host.documents import Json
from mase_hw.host.progress import counter
from mase_hw.ir import MaseGraph
from mase_hw.nn.streaming import streaming
from mase_hw.passes.evaluation import CriterionLike, evaluate_statistic, make_criterion
from mase_hw.passes.evaluation.evaluate import evaluating, run_batch
from mase_hw.passes.evaluation.labelled import data_digest

Pairs = list[tuple[Any, Any]]


@dataclass(frozen=True)
class Evaluated:
    """A criterion of the same data, three times.

    Args:
        criterion: Its name.
        higher_is_better: Whether a larger result is a better model.
        frames: Rows of the data.
        data: SHA-256 of the data.
        float_model: Of the float model; None if it is not known.
        quantised: Of the quantised model.
        rtl: Of what the hardware gave in simulation; None if it was not simulated, or did not give every frame.
        engine: That simulated it; None if it was not simulated.
        failure: Why the simulation does not count; None if every bit was that of the quantised model.
    """

    criterion: str
    higher_is_better: bool
    frames: int
    data: str
    float_model: Any
    quantised: Any
    rtl: Any = None
    engine: str | None = None
    failure: SimulationError | None = None

    @property
    def passed(self) -> bool:
        """Whether the hardware, if it was simulated, gave every bit of the quantised model."""
        return self.failure is None

    def to_json(self) -> Json:
        """JSON types; a statistic that is no number is a text."""
        return {
            "criterion": self.criterion,
            "higher_is_better": self.higher_is_better,
            "frames": self.frames,
            "data": self.data,
            "float": _plain(self.float_model),
            "quantised": _plain(self.quantised),
            "rtl": _plain(self.rtl),
            "engine": self.engine,
            "passed": self.passed,
            "failure": None if self.failure is None else str(self.failure),
        }

    def text(self) -> str:
        """A line for each."""
        shown = {"float": self.float_model, "quantised": self.quantised, "RTL": self.rtl}
        lines = [f"{self.criterion} on {self.frames} frames"]
        lines += [f"  {name:9}  {_shown(value)}" for name, value in shown.items() if value is not None]
        if self.engine is None:
            lines.append("  the hardware was not simulated")
        elif self.failure is not None:
            lines.append(f"  the hardware is not the quantised model: {self.failure}")
        else:
            lines.append("  every bit of the hardware is that of the quantised model")
        return "\n".join(lines)


def evaluate_models(
    graph: MaseGraph, data: Iterable[Any], criterion: CriterionLike, float_model: nn.Module | None, progress: Any = None
) -> Evaluated:
    """The criterion of a quantised graph, and of the float model.

    Args:
        graph: The quantised graph.
        data: Batches of ``(inputs, targets)``.
        criterion: As :func:`~mase_hw.passes.evaluation.evaluate_statistic` takes it.
        float_model: The float model; None if it is not known.
        progress: Told how far it is.

    Raises:
        ConfigError: If the data or the criterion does not fit.
    """
    pairs, made = _pairs(data), make_criterion(criterion)
    count = counter(progress, "evaluating", "batches")
    models: list[MaseGraph | nn.Module] = [graph, *([] if float_model is None else [float_model])]
    found = []
    for number, model in enumerate(models):

        def tick(done: int, _: int | None, before: int = number * len(pairs)) -> None:
            if count is not None:
                count(before + done, len(models) * len(pairs))

        found.append(evaluate_statistic(model, pairs, criterion, fast_mode=True, progress=tick))
    frames = sum(_rows(inputs) for inputs, _ in pairs)
    return Evaluated(made.name, made.higher_is_better, frames, data_digest(pairs), (*found[1:], None)[0], found[0])


def evaluate_design(
    graph: MaseGraph,
    simulate: Callable[..., Simulation],
    data: Iterable[Any],
    criterion: CriterionLike,
    float_model: nn.Module | None,
    options: Mapping[str, object],
) -> Evaluated:
    """The criterion of the float model, of the quantised model, and of what the hardware gives in simulation.

    Args:
        graph: The quantised graph of a design.
        simulate: ``simulate`` of the design.
        data: Batches of ``(inputs, targets)``; all inputs are played one after the other.
        criterion: As :func:`~mase_hw.passes.evaluation.evaluate_statistic` takes it.
        float_model: The float model; None if it is not known.
        options: Arguments of the simulation, its engine among them.

    Raises:
        ConfigError: If the data or the criterion does not fit; of a design whose frames are hops of a stream, if there
            are several batches, each of which would begin a stream.
        MaseHwError: As of the simulation, but a wrong bit is no error: it is in the result.
    """
    pairs = _pairs(data)
    if len(pairs) > 1 and streaming(graph.called):
        raise ConfigError(
            "the hardware goes on with its state from batch to batch, and a model begins each batch anew",
            field="data",
            got=f"{len(pairs)} batches",
            expected="one batch of consecutive hops",
            remedy="evaluate one stream at a time",
        )
    found = evaluate_models(graph, pairs, criterion, float_model, options.get("progress"))
    played = simulate(_joined([inputs for inputs, _ in pairs]), check=False, **options)
    rtl = None
    if played.outputs and all(port.beats >= port.expected for port in played.result.ports.values()):
        rtl = _statistic(_returned(graph, pairs[0][0], played), pairs, criterion, found.frames)
    return replace(found, rtl=rtl, engine=str(options["engine"]), failure=played.result.failure)


def _returned(graph: MaseGraph, inputs: Any, played: Simulation) -> Any:
    """What the hardware gave, in the lists, tuples and dicts in which the quantised model gives it."""
    with evaluating(graph.called):
        leaves, shape = pytree.tree_flatten(run_batch(graph.called, pytree.tree_map(_tensor, inputs)))
    given = iter(played.outputs.values())
    of_type = torch.get_default_dtype()
    whole = [next(given).to(of_type) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    assert next(given, None) is None  # every output of a design is one tensor of what the model returns
    return pytree.tree_unflatten(whole, shape)


def _statistic(outputs: Any, pairs: Pairs, criterion: CriterionLike, frames: int) -> Any:
    """The criterion of what the hardware gave, cut as the data is."""
    statistic, start = make_criterion(criterion), 0
    for inputs, targets in pairs:
        part = slice(start, start + _rows(inputs))
        cut = pytree.tree_map(lambda value, part=part: _cut(value, part, frames), outputs)
        statistic.update(cut, pytree.tree_map(_tensor, targets))
        start = part.stop
    return statistic.result()


def _cut(value: Any, part: slice, frames: int) -> Any:
    """The rows of some frames."""
    if not isinstance(value, Tensor):
        return value
    rows = len(value) // frames
    return value[part.start * rows : part.stop * rows]


def _tensor(value: Any) -> Any:
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _pairs(data: Iterable[Any]) -> Pairs:
    """The data as a list: it is gone through several times.

    Raises:
        ConfigError: If there is none, or an entry is no pair.
    """
    found = list(data) if not isinstance(data, Tensor | np.ndarray | Mapping | str) else []
    if not found or any(not isinstance(pair, list | tuple) or len(pair) != 2 for pair in found):
        raise ConfigError(
            "the data has no pairs of inputs and targets",
            field="data",
            got=f"{type(data).__name__} of {len(found)} entries",
            expected="an iterable of (inputs, targets), at least one",
        )
    return [(inputs, targets) for inputs, targets in found]


def _rows(inputs: Any) -> int:
    leaf = pytree.tree_leaves(inputs)[0]
    return int(leaf.shape[0]) if getattr(leaf, "ndim", 0) else 1


def _joined(batches: list[Any]) -> Any:
    """The inputs of all batches one after the other."""
    leaves, shapes = zip(*[pytree.tree_flatten(batch) for batch in batches], strict=True)
    whole = [torch.cat([torch.as_tensor(value) for value in column]) for column in zip(*leaves, strict=True)]
    return pytree.tree_unflatten(whole, shapes[0])


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | None) else str(value)


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)
