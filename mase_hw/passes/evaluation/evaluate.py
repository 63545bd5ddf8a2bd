"""Running a model over a data set and taking a statistic of what it gives."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from mase_hw.errors import ConfigError, GraphError
from mase_hw.ir import MaseGraph
from mase_hw.ir.inputs import as_tensor
from mase_hw.nn import Quantized
from mase_hw.nn.streaming import continuing
from mase_hw.passes.evaluation.criteria import Criterion, CriterionLike, OfAll, joined, make_criterion

Progress = Callable[[int, int | None], Any]
"""Called after every batch with the number done and the total, if known."""


@dataclass(frozen=True)
class Evaluation:
    """A criterion and how to run it; call it with a graph or a model and the data.

    Args:
        criterion: A name, a mapping with options, a criterion, what makes one, or a function of outputs and targets.
        fast_mode: See :func:`evaluate_statistic`.
        device: Where to run; where the model is if None.
        progress: Called after every batch.
    """

    criterion: CriterionLike
    fast_mode: bool = False
    device: torch.device | str | None = None
    progress: Progress | None = None

    def __call__(self, graph_or_model: MaseGraph | nn.Module, data: Iterable[Any]) -> Any:
        """The statistic of a model over data; as :func:`evaluate_statistic`."""
        return evaluate_statistic(
            graph_or_model,
            data,
            self.criterion,
            device=self.device,
            fast_mode=self.fast_mode,
            progress=self.progress,
        )


def evaluation(
    criterion: CriterionLike,
    fast_mode: bool = False,
    *,
    device: torch.device | str | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """An evaluation to be called with a graph or model and data; a wrong criterion is refused here already.

    Raises:
        ConfigError: If the criterion is none.
    """
    make_criterion(criterion)
    return Evaluation(criterion, fast_mode, device, progress)


def evaluate_statistic(
    graph_or_model: MaseGraph | nn.Module,
    data: Iterable[Any],
    criterion: CriterionLike,
    *,
    device: torch.device | str | None = None,
    fast_mode: bool = False,
    progress: Progress | None = None,
) -> Any:
    """Run a model over a data set, in evaluation mode and without gradients, and return a statistic.

    There is one arithmetic. ``fast_mode`` only says how many frames go through the model at once: without it one frame
    at a time, exactly as the hardware takes them (a frame has the first dimension of ``dummy_in``, or 1 of a model
    without metadata); with it, whole batches as the data has them. A quantised graph gives the same bits in both, and
    that is checked, not assumed: in fast mode the first frame of every batch is also run alone, and a difference is
    an error. Of a streaming graph the frames of a batch are the hops of one stream, which begins with the batch. A
    float model, or a layer that was left in float, may differ in the LSB of a float, as it does between any two batch
    sizes, and is not checked.

    Args:
        graph_or_model: A graph, float or quantised, or a module. Its training flags and weights stay as they are.
        data: Iterable of ``(inputs, targets)``; inputs are a tensor, a tuple in order, or a dict by name, and
            a numpy array does for a tensor. All tensors of the inputs have their frames along the first dimension.
        criterion: A name of :data:`~mase_hw.passes.evaluation.criteria.CRITERIA`, ``{"name": ..., option: ...}``, a
            :class:`~mase_hw.passes.evaluation.criteria.Criterion` (which is copied), what makes one, or a function of
            outputs and targets, see :class:`~mase_hw.passes.evaluation.criteria.OfAll`.
        device: Where to run a copy of the model; None runs the model where it is. Inputs and targets are moved there.
        fast_mode: Whole batches at once.
        progress: Called after every batch with the number done and the total, if known.

    Returns:
        The criterion's result, as it gives it: a number from those of the package, whatever it likes from others (a
        confusion matrix, a dict of rates).

    Raises:
        ConfigError: If there is no data, or a batch or the criterion does not fit.
        GraphError: If a quantised graph in fast mode gives other bits than frame by frame.
    """
    statistic = make_criterion(criterion)
    frame = _frame_size(graph_or_model)
    model = graph_or_model.called if isinstance(graph_or_model, MaseGraph) else graph_or_model
    if not isinstance(model, nn.Module):
        raise ConfigError("only a graph or a module can be evaluated", field="model", got=type(model).__name__)
    model, place = _on_device(model, device)
    exact = _is_exact(model)
    total = len(data) if isinstance(data, Sized) else None
    with evaluating(model):
        for index, batch in enumerate(pairs_of(data)):
            if isinstance(statistic, OfAll):
                statistic.arrays = any(isinstance(leaf, np.ndarray) for leaf in pytree.tree_leaves(batch[1]))
            inputs, targets = _moved(_tensors(batch, model, index), place)
            if not fast_mode:
                with continuing(model):
                    outputs = joined([run_batch(model, part) for part in _frames(inputs, frame, index)])
            else:
                outputs = run_batch(model, inputs)
                if exact:
                    _check_first(model, inputs, outputs, frame, index)
            _update(statistic, outputs, targets, index)
            if progress is not None:
                progress(index + 1, total)
    return statistic.result()


def _is_exact(model: nn.Module) -> bool:
    """Whether it is quantised, and no weights are left to a float layer, which sums as suits the size of a batch."""
    quantised = tuple(f"{name}." for name, module in model.named_modules() if isinstance(module, Quantized))
    read = {n.target for n in model.graph.nodes if n.op == "get_attr"} if isinstance(model, fx.GraphModule) else set()
    weights = [name for name, _ in model.named_parameters() if "." in name or name in read]
    return bool(quantised) and all(name.startswith(quantised) for name in weights)


def _update(statistic: Criterion, outputs: Any, targets: Any, index: int) -> None:
    try:
        statistic.update(outputs, targets)
    except ConfigError as error:
        error.field = f"data[{index}].{error.field}"
        raise


def _frame_size(graph: MaseGraph | nn.Module) -> int:
    """First dimension of one frame, from the first input's metadata."""
    for node in graph.nodes if isinstance(graph, MaseGraph) else ():
        if node.op == "placeholder" and "mase" in node.meta:
            tensors = list(node.meta["mase"].common.results.tensors.values())
            if tensors and tensors[0].shape:
                return max(1, int(tensors[0].shape[0]))
    return 1


def check_repeatable(data: Any, field: str = "data") -> None:
    """Refuse data that can be gone through only once.

    Raises:
        ConfigError: If it is such an iterator.
    """
    if isinstance(data, Iterator):
        raise ConfigError(
            "the data is used several times, but can be iterated only once",
            field=field,
            got=type(data).__name__,
            remedy="pass a list or a data loader",
        )


def pairs_of(data: Any) -> Iterator[tuple[Any, Any]]:
    """Inputs and targets, entry by entry.

    Raises:
        ConfigError: If the data is no iterable, or an entry no pair.
    """
    if isinstance(data, Tensor | np.ndarray | Mapping | str) or not hasattr(data, "__iter__"):
        raise ConfigError(
            "the data is not an iterable of (inputs, targets)",
            field="data",
            got=type(data).__name__,
            remedy="pass a list of pairs or a data loader; wrap a single pair as [(inputs, targets)]",
        )
    for index, pair in enumerate(data):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise ConfigError(
                "an entry of the data is no pair of inputs and targets",
                field=f"data[{index}]",
                got=type(pair).__name__ if not isinstance(pair, list | tuple) else f"{len(pair)} entries",
                expected="(inputs, targets)",
                remedy="put several inputs into a tuple or a dict of their own",
            )
        yield pair[0], pair[1]


def _on_device(model: nn.Module, device: torch.device | str | None) -> tuple[nn.Module, torch.device | None]:
    tensors = [*model.parameters(), *model.buffers()]
    here = tensors[0].device if tensors else None
    if device is None:
        return model, here
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError("this device cannot be used", field="device", got=str(device), expected=str(error)) from error
    return (model if here == place else copy.deepcopy(model).to(place)), place


def _tensors(batch: tuple[Any, Any], model: nn.Module, index: int) -> tuple[Any, Any]:
    """Arrays as tensors."""
    inputs, targets = pytree.tree_map(lambda v: as_tensor(v, model, None, f"data[{index}]"), batch)
    return inputs, targets


def _moved(batch: tuple[Any, Any], place: torch.device | None) -> tuple[Any, Any]:
    if place is None:
        return batch
    inputs, targets = pytree.tree_map(lambda v: v.to(place) if isinstance(v, Tensor) else v, batch)
    return inputs, targets


def run_batch(model: nn.Module, inputs: Any) -> Any:
    """Call a model with a tensor, a tuple in order, or a dict by name."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, list | tuple) else model(inputs)


def _frames(inputs: Any, size: int, index: int) -> Iterator[Any]:
    """The inputs cut along the first dimension; what is no tensor goes with every frame."""
    leaves, shape = pytree.tree_flatten(inputs)
    counts = {leaf.shape[0] if leaf.dim() else 0 for leaf in leaves if isinstance(leaf, Tensor)}
    if len(counts) != 1 or 0 in counts:
        raise ConfigError(
            "the inputs of a batch cannot be cut into frames",
            field=f"data[{index}]",
            got=[list(leaf.shape) for leaf in leaves if isinstance(leaf, Tensor)],
            expected="tensors with the same number of frames along their first dimension",
            remedy="set fast_mode to run whole batches",
        )
    for start in range(0, counts.pop(), size):
        cut = [leaf[start : start + size] if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        yield pytree.tree_unflatten(cut, shape)


def _check_first(model: nn.Module, inputs: Any, outputs: Any, size: int, index: int) -> None:
    first = next(iter(_frames(inputs, size, index)))
    alone, together = pytree.tree_leaves(run_batch(model, first)), pytree.tree_leaves(outputs)
    for a, b in zip(alone, together, strict=True):
        if isinstance(a, Tensor) and not (b.shape[1:] == a.shape[1:] and torch.equal(a, b[: len(a)])):
            raise GraphError(
                "a frame gives other bits in a batch than alone",
                node=f"data[{index}]",
                expected="a model in which frames do not meet each other",
                remedy="evaluate without fast_mode, which runs frame by frame as the hardware does",
            )


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; training flags are restored."""
    training = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, flag in training:
            module.training = flag
