"""Calibration: what formats are chosen from, observed on every tensor over a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from pydantic import Field
from rich.progress import Progress
from torch import Tensor, fx

from mase_hw.errors import ConfigError, GraphError
from mase_hw.formats.attributes import attributes_of
from mase_hw.host.user_code import user_code
from mase_hw.ir.annotate import named_results
from mase_hw.ir.evaluate import Values, evaluate
from mase_hw.ir.graph import COMMON_PASS, MaseGraph
from mase_hw.ir.inputs import frame_tensor
from mase_hw.ir.records import Entries
from mase_hw.passes.analysis.statistics import RangeMinMax
from mase_hw.passes.analysis.statistics.base import batches, check_finite
from mase_hw.passes.base import Info, PassArgs, graph_pass
from mase_hw.passes.quantize.calibration import OBSERVERS, CalibrationState, Method, MethodOptions, Observer
from mase_hw.passes.quantize.calibration.choose import Masked
from mase_hw.passes.quantize.calibration.observers import KEPT, FrameSample
from mase_hw.passes.quantize.calibration.state import weights_digest

CALIBRATE_PASS = "calibrate_analysis_pass"
CALIBRATED = "calibrated"
"""Key beside ``stat`` of what a format is chosen from."""
UNITED = "united"
"""Key in it that says that it is of several tensors, which are to have one format."""


class CalibrateOptions(PassArgs):
    """How formats will be chosen; also the table ``calibrate`` of a configuration of ``compile``."""

    method: Method = Field(default="mse", description="how formats of activations are chosen")
    weight_method: Literal["min_max", "percentile", "entropy", "mse"] = Field(
        default="mse", description="how formats of parameters are chosen"
    )
    options: MethodOptions = Field(default=MethodOptions(), description="options of the methods")


class CalibrateArgs(CalibrateOptions):
    """Arguments of :func:`calibrate_analysis_pass`."""

    data: Any = Field(description="iterable of batches: a tensor, a tuple in the order of the inputs, or a dict")
    state: CalibrationState | None = Field(
        default=None, description="a calibration to go on with; updated when the pass is done"
    )
    progress: Callable[[int, int | None], Any] | bool | None = Field(
        default=None,
        description="True for a progress bar, or a function called after every batch with the number done and the "
        "total, if known",
    )
    watch: Callable[[Values, Any], Any] | None = Field(
        default=None, description="called after every batch with the inputs by node and the result of the model"
    )


@graph_pass(CALIBRATE_PASS, args=CalibrateArgs, needs=(COMMON_PASS,))
def calibrate_analysis_pass(graph: MaseGraph, args: CalibrateArgs) -> tuple[MaseGraph, Info]:
    """Run the model over data and record what formats are chosen from, for every tensor, parameters included.

    The ranges are at ``meta["software"]["args"][name]["stat"]["range_min_max"]`` (and ``results``) as
    ``min``, ``max`` (Python floats) and ``count`` (numbers seen); ``[name]["calibrated"]`` has them as well, with the
    method and what it keeps, and is what the quantisation chooses formats from. One batch is in memory at a time;
    its first dimension may differ from that of ``dummy_in``, all others are the same.

    With ``state``, a calibration goes on where it was: all methods then conclude what they would from all batches in
    one run. A state that has batches may be all there is: without further data it concludes what it would have then.

    After an error the metadata and the state are as they were before.

    Raises:
        ConfigError: If there is no data, a batch does not fit the inputs, or the state is of another method.
        FormatError: If data, a weight or an activation is NaN or infinite; names it.
    """
    _refuse_meta(graph)
    parameters = _parameters(graph, args)
    given = args.state or CalibrationState()
    state = given.begin(args.method, args.options)
    _check_state(graph, state)
    before = state.batches
    if args.state is not None:  # else nobody can go on with it
        state.weights = weights_digest(graph.model)
    with user_code("calibration data cannot be counted", ConfigError, field="data"):
        total = len(args.data) if hasattr(args.data, "__len__") else None
    sample, masked = _sample(graph, state), Masked(graph)
    with _progress(args, total) as report:
        for index, inputs in batches(graph, args.data, needed=not before):
            for name, value in inputs.items():
                if isinstance(value, Tensor):
                    frame_tensor(value, f"data[{index}].{name}")
                    check_finite(value, f"input {name} of batch {index}")
            last = _observed(graph, inputs, state, masked)
            sample.add(inputs)
            if args.watch is not None:
                args.watch(inputs, last)
            state.batches += 1
            report(state.batches - before, total)
    if args.watch is not None and state.batches == before:
        _show_kept(graph, sample, args.watch)
    state.frames = sample.state()
    seen = {(n, r): o for n in graph.nodes for r, o in _results(graph, state, n).items()}
    seen |= {(n, "data_out_0"): seen[user, "data_out_0"] for n, user in masked.constants.items()}
    own: dict[fx.Node, dict[str, Observer]] = {}
    for (node, name), observer in parameters.items():
        own.setdefault(node, {})[name] = observer
    for node in graph.nodes:
        software = graph.meta_of(node).software
        found = dict(own.get(node, {}))
        found |= {name: state.observers[f"{node.name}.{name}"] for name in _inner(graph, node)}
        found |= {arg: seen[source] for arg, source in graph.sources(node).items() if source in seen}
        for arg, observed in found.items():
            _record(software.args, arg, observed)
        for name in graph.meta_of(node).common.results.tensors:
            if (node, name) in seen:
                _record(software.results, name, seen[node, name])
    given.take(state)
    graph.meta[KEPT] = sample.stacked()
    info = {"batches": state.batches, "tensors": len(seen) + len(parameters), "method": args.method}
    return graph, info


def _sample(graph: MaseGraph, state: CalibrationState) -> FrameSample:
    try:
        return FrameSample(graph, state.frames)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ConfigError(
            "the frames in the state of a calibration are damaged",
            field="state",
            got=f"{type(error).__name__}: {error}",
            remedy="calibrate again",
        ) from error


def _show_kept(graph: MaseGraph, sample: FrameSample, watch: Callable[[Values, Any], Any]) -> None:
    """Show an observer the frames that were kept: of a state without further data they are all there is."""
    kept, found = sample.stacked(), list[Any]()
    for _, inputs in batches(graph, [kept] if kept else [], "state", needed=False):
        evaluate(graph.model, inputs, lambda node, value: found.append(value) if node.op == "output" else None)
        watch(inputs, found[0])


@contextmanager
def _progress(args: CalibrateArgs, total: int | None) -> Iterator[Callable[[int, int | None], Any]]:
    """What to call after every batch."""
    if callable(args.progress):
        yield args.progress
    elif args.progress:
        with Progress(transient=True) as bar:
            task = bar.add_task("calibrating", total=total)
            yield lambda done, _: bar.update(task, completed=done)
    else:
        yield lambda done, _: None


def _inner(graph: MaseGraph, node: fx.Node) -> tuple[str, ...]:
    """What has a format inside a node."""
    op, module = graph.op_of(node), graph.meta_of(node).module
    if op is None or op.inner is None:
        return ()
    named = () if module is None else op.attributes
    return op.inner.names(attributes_of({name: getattr(module, name) for name in named}))


def _check_state(graph: MaseGraph, state: CalibrationState) -> None:
    names = {f"{n.name}.{r}" for n in graph.nodes for r in (*graph.meta_of(n).common.results, *_inner(graph, n))}
    strange = sorted(set(state.observers) - names)
    if strange:
        raise ConfigError(
            "this calibration was begun with another model",
            field="state",
            got=f"{strange[0]}, which the model does not have",
            remedy="begin with a new CalibrationState",
        )
    if state.weights is not None and state.weights != weights_digest(graph.model):
        raise ConfigError(
            "this calibration was begun with other weights",
            field="state",
            got=f"weights {weights_digest(graph.model)[:16]}...",
            expected=f"weights {state.weights[:16]}...",
            remedy="calibrate again with these weights",
        )


def _results(graph: MaseGraph, state: CalibrationState, node: fx.Node) -> dict[str, Observer]:
    names = graph.meta_of(node).common.results
    return {r: state.observers[f"{node.name}.{r}"] for r in names if f"{node.name}.{r}" in state.observers}


def _refuse_meta(graph: MaseGraph) -> None:
    """Tensors on the ``meta`` device have no values to observe."""
    empty_ones = [name for name, tensor in graph.model.state_dict().items() if tensor.is_meta]
    if empty_ones:
        raise GraphError(
            "the model has tensors without values (on the meta device), so nothing can be observed",
            node=empty_ones[0],
            got=f"{len(empty_ones)} such tensors",
            remedy="load the weights first",
        )


def _parameters(graph: MaseGraph, args: CalibrateArgs) -> dict[tuple[fx.Node, str], Observer]:
    """Observers of the parameters of every module; they are constant, so once is enough."""
    found: dict[tuple[fx.Node, str], Observer] = {}
    for node in graph.nodes:
        op, module = graph.op_of(node), graph.meta_of(node).module
        for name in op.parameters if op is not None and module is not None else ():
            parameter = getattr(module, name, None)
            if isinstance(parameter, Tensor):
                found[node, name] = OBSERVERS[args.weight_method](args.options)
                found[node, name].update(parameter, f"{node.name}.{name}")
    return found


def _observed(graph: MaseGraph, inputs: Values, state: CalibrationState, masked: Masked) -> Any:
    """Observe a batch; the result of the model."""
    result: list[Any] = []
    laid_out = {node for node in graph.nodes if _inner(graph, node)}
    kept = {source: Tensor() for node in laid_out for source in node.all_input_nodes}

    def look(node: fx.Node, value: Any) -> None:
        _observe(state, node, value, masked)
        if node in kept:
            kept[node] = value
        if node in laid_out:
            op, module = graph.op_of(node), graph.meta_of(node).module
            assert op is not None and op.inner is not None  # as `_inner` says
            given = (each for each in (*node.args, *node.kwargs.values()) if each is not None)
            inputs = [kept[each] if isinstance(each, fx.Node) else torch.as_tensor(each) for each in given]
            for name, seen in op.inner.observe(module, inputs).items():
                state.observer(f"{node.name}.{name}").update(seen, f"{node.name}.{name}")
        if node.op == "output":
            result.append(value)

    evaluate(graph.model, inputs, look)
    return result[0]


def _observe(state: CalibrationState, node: fx.Node, value: Any, masked: Masked) -> None:
    for name, result in named_results(value):
        if isinstance(result, Tensor):
            where = f"{node.name}.{name}"
            state.observer(where).update(masked.others(node, result, where), where)


def _record(branch: Entries, name: str, observed: Observer) -> None:
    if observed.count:
        entry = branch.setdefault(name, {})
        entry.setdefault("stat", {})[RangeMinMax.name] = observed.range()
        # Formats are chosen from this: a statistic may be taken again, with other options.
        entry[CALIBRATED] = observed.result()
