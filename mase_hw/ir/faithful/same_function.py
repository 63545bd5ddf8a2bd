"""Whether a traced graph computes what its model does: tracing follows one path through the Python code."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.errors import GraphError
from mase_hw.host.user_code import user_code
from mase_hw.ir.evaluate import Values
from mase_hw.ir.faithful.models import refuse_own_arithmetic
from mase_hw.ir.trace import huggingface
from mase_hw.ir.trace.containers import contents


def fixed_arguments(model: nn.Module, given: int | set[str]) -> dict[str, object]:
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


def check_trace(model: nn.Module, graph: nn.Module, example: Values) -> None:
    """Run model and traced graph on the example, in evaluation mode, and compare the tensors, whatever they are in.

    Raises:
        GraphError: If they differ: the code branches on something that tracing cannot see.
    """
    wanted, found = run(model, example), run(graph, example)
    if not equal(wanted, found):
        raise GraphError(
            "the traced graph computes something else than the model",
            got=describe(found),
            expected=describe(wanted),
            remedy="forward probably branches on the type of an argument or on whether it is None; fix that argument "
            "with cf_args, or take the branch out of forward",
        )


def run(model: nn.Module, inputs: Values, what: str = "the example") -> Any:
    """As :func:`call`; random numbers are afterwards as before."""
    with torch.random.fork_rng(devices=[]):
        return call(model, inputs, what)


def call(model: nn.Module, inputs: Values, what: str = "the example") -> Any:
    """The result of a model in evaluation mode, for copies of the inputs, without gradients.

    Flags are set one by one: ``eval()`` of a user's own may change more than flags.

    Args:
        model: The model.
        inputs: By name of the arguments of ``forward``.
        what: What the inputs are, for errors.

    Raises:
        GraphError: If it cannot be run; names the user's line. If a result is no ordinary tensor.
    """
    copies = {name: value.detach().clone() if isinstance(value, Tensor) else value for name, value in inputs.items()}
    if huggingface.is_model(model) and "use_cache" in inspect.signature(model.forward).parameters:
        copies.setdefault("use_cache", False)  # a cache is no tensor, and no result of the graph
    problem = f"the model cannot be run on {what}"
    with in_evaluation(model), torch.no_grad(), user_code(problem, remedy="check its inputs"):
        result = model(**copies)
    for value in contents(result):
        if isinstance(value, Tensor):
            refuse_own_arithmetic(value, "a result of the model")
    return result


@contextmanager
def in_evaluation(model: nn.Module) -> Iterator[None]:
    """Run a block with all training flags off; they are then as before."""
    flags = [(module, module.training) for module in model.modules()]
    try:
        for module, flag in flags:
            if flag:  # to set an attribute of a module costs more than to ask for it
                module.training = False
        yield
    finally:
        for module, flag in flags:
            if module.training is not flag:
                module.training = flag


def equal(wanted: Any, found: Any) -> bool:
    """Whether two results hold the same values, but for the noise of parallel sums, in containers of whatever kind."""
    a, b = contents(wanted), contents(found)
    return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))


def _equal(x: Any, y: Any) -> bool:
    if not (isinstance(x, Tensor) and isinstance(y, Tensor)):
        return type(x) is type(y) and bool(x == y)
    # The same operations in the same order: anything beyond the noise of a parallel sum is another function.
    return x.shape == y.shape and x.dtype == y.dtype and torch.allclose(x, y, rtol=1e-4, atol=1e-6, equal_nan=True)


def describe(result: Any) -> str:
    """The tensors of a result in a few words, with their first values."""
    values = contents(result)
    return f"{len(values)} results: {', '.join(map(_described, values))}"


def _described(value: Any) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    first = ", ".join(f"{v:.4g}" for v in value.detach().flatten()[:3].tolist()) if value.numel() else ""
    return f"{list(value.shape)} ({first}{', ...' if value.numel() > 3 else ''})"
