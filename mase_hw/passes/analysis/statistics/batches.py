"""Data sets as batches that fit the inputs of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor, fx

from mase_hw.errors import ConfigError
from mase_hw.ir.graph import MaseGraph
from mase_hw.ir.inputs import as_tensor, check_inputs, input_dtype
from mase_hw.user_code import user_code


def batches(
    graph: MaseGraph, data: Any, field: str = "data", subject: str = "calibration data"
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every batch as a dict by input, checked against the shapes the metadata was made with.

    Args:
        graph: A graph with common metadata.
        data: An iterable of batches: a tensor, a tuple in the order of the inputs, or a dict; a numpy array does
            for a tensor.
        field: Name of the argument, for errors.
        subject: What the data is, for errors.

    Raises:
        ConfigError: If it is no such iterable, or a batch does not fit the inputs.
    """
    if isinstance(data, Tensor | np.ndarray | Mapping | str) or not hasattr(data, "__iter__"):
        raise ConfigError(
            f"{subject} is not an iterable of batches",
            field=field,
            got=type(data).__name__,
            remedy="pass a list of batches or a data loader; wrap a single batch as [batch]",
        )
    places = [n for n in graph.nodes if n.op == "placeholder"]
    names = [str(n.target) for n in places if not str(n.target).startswith("*")]
    dtypes = {name: input_dtype(graph, n) for n in places for name in (str(n.target), n.name)}
    for index, batch in _each(data, field, subject):
        what = f"{field}[{index}]"
        if isinstance(batch, Tensor | np.ndarray):
            batch = (batch,)
        if isinstance(batch, list | tuple):
            if len(batch) > len(names):
                raise ConfigError(
                    "a batch has more tensors than the model has inputs",
                    field=what,
                    got=len(batch),
                    expected=", ".join(names),
                    remedy="yield only the inputs, without labels",
                )
            batch = dict(zip(names, batch, strict=False))
        if not isinstance(batch, Mapping):
            raise ConfigError("a batch is neither tensor, tuple nor dict", field=what, got=type(batch).__name__)
        batch = {n: as_tensor(v, graph.model, dtypes.get(n), f"{what}.{n}") for n, v in batch.items()}
        inputs = check_inputs(graph, batch, what)
        for node in places:
            _check_shape(graph, node, inputs[node.name], what)
        yield index, inputs


def _each(data: Any, field: str, subject: str) -> Iterator[tuple[int, Any]]:
    """What the user's iterable gives; what it raises, ``SystemExit`` included, names the user's line."""
    end, index, source = object(), 0, None
    while True:
        with user_code(f"{subject} cannot be read, at batch {index}", ConfigError, field=f"{field}[{index}]"):
            source = iter(data) if source is None else source
            batch = next(source, end)
        if batch is end:
            return
        yield index, batch
        index += 1


def empty(field: str = "data", subject: str = "calibration data") -> ConfigError:
    """The error for data without a batch."""
    return ConfigError(
        f"there is no {subject}",
        field=field,
        got="an empty iterable",
        remedy="pass at least one batch; a generator that was used up once is empty",
    )


def _check_shape(graph: MaseGraph, node: fx.Node, value: Any, what: str) -> None:
    expected = graph.meta_of(node).common.results.tensors.get("data_out_0")
    if not isinstance(value, Tensor) or expected is None:
        return
    if len(value.shape) != len(expected.shape) or list(value.shape[1:]) != expected.shape[1:]:
        raise ConfigError(
            "a batch does not have the shape of dummy_in",
            field=f"{what}.{node.target}",
            got=list(value.shape),
            expected=["any", *expected.shape[1:]] if expected.shape else [],
        )
