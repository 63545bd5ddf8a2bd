"""What ``torch.export`` gives, as one kind of thing: a program of static shapes that writes nothing in place."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeGuard

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from mase_hw.errors import GraphError, UnsupportedError
from mase_hw.user_code import first_line, place


def is_program(model: object) -> TypeGuard[ExportedProgram | fx.GraphModule]:
    """Whether something is an ``ExportedProgram``, or the module that its ``module()`` gives."""
    if isinstance(model, ExportedProgram):
        return True
    return isinstance(model, fx.GraphModule) and any(isinstance(n.target, OpOverload) for n in model.graph.nodes)


def program_of(model: ExportedProgram | fx.GraphModule) -> ExportedProgram:
    """The program of either kind, in functional form: no operation writes in place.

    Raises:
        UnsupportedError: If a size is left open.
        GraphError: If it is the module of a program and cannot be exported again.
    """
    if isinstance(model, fx.GraphModule):
        _refuse_symbols(model.graph, {})
        model = _again(model)
    _refuse_symbols(model.graph, model.range_constraints)
    with _quiet():
        made: ExportedProgram = model.run_decompositions({})
    return made


def export_model(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> ExportedProgram:
    """Export a model for the shapes of an example.

    Raises:
        GraphError: If torch cannot; says why.
    """
    try:
        with _quiet(), torch.no_grad():
            return torch.export.export(model, tuple(args), dict(kwargs), strict=False)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # the model's own code runs here, so anything may come out of it
        reason = first_line(error) or type(error).__name__
        if "data-dependent" in str(error) or "DataDependent" in type(error).__name__ or "Could not guard" in reason:
            reason = "the value of a tensor decides which way to go"
        raise GraphError(
            f"the model cannot be exported: {reason}",
            node=place(error) or type(model).__name__,
            got=type(error).__name__,
            expected="a forward that does the same tensor operations for every input",
            remedy="a tensor's value cannot steer Python code, only its shape can: use tensor operations "
            "(torch.where), or leave the argument out of the example that steers it",
        ) from error


def _again(model: fx.GraphModule) -> ExportedProgram:
    """The program of its module, for zeros of the shapes that it was made for."""
    places = [n for n in model.graph.nodes if n.op == "placeholder"]
    found = [n.meta.get("val") for n in places]
    lacking = [n.name for n, value in zip(places, found, strict=True) if not isinstance(value, Tensor)]
    if lacking:
        raise GraphError(
            "a graph of aten operations does not say the shapes of its inputs",
            node=", ".join(lacking),
            expected='a node.meta["val"] for every input, as torch.export gives',
            remedy="pass the ExportedProgram itself, or the model that it was made of",
        )
    zeros = [torch.zeros(tuple(v.shape), dtype=v.dtype) for v in found if isinstance(v, Tensor)]
    spec = getattr(model, "_in_spec", None)
    args, kwargs = (zeros, {}) if spec is None else pytree.tree_unflatten(zeros, spec)
    return export_model(model, args, kwargs)


def _refuse_symbols(graph: fx.Graph, ranges: Mapping[Any, Any]) -> None:
    """Refuse sizes that are left open.

    Raises:
        UnsupportedError: Names every input that has one, and the symbol.
    """
    problems = []
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, Tensor):
            sizes: list[Any] = list(value.shape)
            symbols = {i: s for i, s in enumerate(sizes) if isinstance(s, torch.SymInt)}
            problems += [f"{node.name}: dimension {i} is {s}{_range(ranges, s)}" for i, s in symbols.items()]
        elif node.op == "placeholder" and isinstance(value, torch.SymInt):
            problems.append(f"{node.name}: a number that is left open, {value}")
    if problems:
        raise UnsupportedError(
            "the exported program leaves sizes open; hardware has those of one example:\n  " + "\n  ".join(problems),
            node=", ".join(p.split(":")[0] for p in problems),
            got="dynamic_shapes",
            expected="static shapes",
            remedy="export without dynamic_shapes, for the longest sequence; shorter ones are padded and masked",
        )


def _range(ranges: Mapping[Any, Any], symbol: torch.SymInt) -> str:
    found = ranges.get(symbol.node.expr)
    return "" if found is None else f", from {found.lower} to {found.upper}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings that torch gives about its own future."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
