"""Whether a traced graph computes what its model does: tracing follows one path through the Python code."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from mase_hw.errors import GraphError


def fixed_arguments(model: nn.Module, given: int | set[str]) -> dict[str, Any]:
    """Arguments of ``forward`` that keep their default, because the example does not give them.

    Args:
        model: The model.
        given: Names in the example, or how many tensors it has in order.
    """
    if isinstance(model, fx.GraphModule):
        return {}
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [p for p in inspect.signature(model.forward).parameters.values() if p.kind not in kinds]
    names = {p.name for p in named[:given]} if isinstance(given, int) else given
    return {p.name: p.default for p in named if p.default is not inspect.Parameter.empty and p.name not in names}


def check_trace(model: nn.Module, graph: nn.Module, example: Mapping[str, Any]) -> None:
    """Run model and traced graph on the example, in evaluation mode, and compare structure and values.

    Raises:
        GraphError: If they differ: the code branches on something that tracing cannot see.
    """
    wanted, found = _run(model, example), _run(graph, example)
    (a, shape_a), (b, shape_b) = pytree.tree_flatten(wanted), pytree.tree_flatten(found)
    same = shape_a == shape_b and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    if not same:
        raise GraphError(
            "the traced graph computes something else than the model",
            got=f"{len(b)} results: {_describe(b)}",
            expected=f"{len(a)} results: {_describe(a)}",
            remedy="forward probably branches on the type of an argument or on whether it is None; fix that argument "
            "with cf_args, or take the branch out of forward",
        )


def _run(model: nn.Module, example: Mapping[str, Any]) -> Any:
    flags = [(module, module.training) for module in model.modules()]
    copies = {name: value.clone() if isinstance(value, Tensor) else value for name, value in example.items()}
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            return model(**copies)
    except Exception as error:  # the user's code may raise anything
        raise GraphError(
            "the model cannot be run on the example", got=f"{type(error).__name__}: {error}", remedy="check its inputs"
        ) from error
    finally:
        for module, flag in flags:
            module.training = flag


def _equal(x: Any, y: Any) -> bool:
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)):
        return type(x) is type(y) and bool(x == y)
    # The same operations in the same order: anything beyond the noise of a parallel sum is another function.
    return x.shape == y.shape and x.dtype == y.dtype and torch.allclose(x, y, rtol=1e-4, atol=1e-6, equal_nan=True)


def _describe(values: list[Any]) -> str:
    return ", ".join(str(list(v.shape)) if isinstance(v, Tensor) else repr(v) for v in values)
