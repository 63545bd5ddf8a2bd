"""What ``torch.export`` gives, as one kind of thing: a program of static shapes that writes nothing in place."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any, TypeGuard

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from mase_hw.errors import GraphError, UnsupportedError
from mase_hw.host.user_code import first_line, place
from mase_hw.ir.evaluate import Values


def is_program(model: object) -> TypeGuard[ExportedProgram | fx.GraphModule]:
    """Whether something is an ``ExportedProgram``, or the module that its ``module()`` gives."""
    if isinstance(model, ExportedProgram):
        return True
    return isinstance(model, fx.GraphModule) and any(isinstance(n.target, OpOverload) for n in model.graph.nodes)


def program_of(model: ExportedProgram | fx.GraphModule) -> ExportedProgram:
    """The program of either kind, in functional form: no operation writes in place, and sizes are those of one frame.

    Raises:
        UnsupportedError: If a size is left open that is not the number of frames.
        GraphError: If it has to be exported again and cannot, or PyTorch cannot write it in this form.
    """
    if isinstance(model, fx.GraphModule):
        _refuse_symbols(model.graph, {})
        model = _again(model, model.graph, None)
    elif _refuse_symbols(model.graph, model.range_constraints):
        guards = {"check_guards": False} if "check_guards" in signature(model.module).parameters else {}
        model = _again(model.module(**guards), model.graph, model.example_inputs)
    # PyTorch cannot assign a parameter that was registered as a buffer, as FalconMamba has it.
    held = {name: each.data for name, each in model.constants.items() if isinstance(each, nn.Parameter)}
    model.constants.update(held)
    try:
        with _quiet():
            made: ExportedProgram = model.run_decompositions({})
    except Exception as error:  # of PyTorch, for what it cannot follow on tensors without data
        raise GraphError(
            f"PyTorch cannot write the program without operations in place: {first_line(error)}",
            node=place(error),
            got=type(error).__name__,
            remedy="write the operation that the lines of PyTorch name in another way",
        ) from error
    return made


def export_model(model: nn.Module, args: Sequence[Any], kwargs: Values) -> ExportedProgram:
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


def _again(module: nn.Module, graph: fx.Graph, example: Any) -> ExportedProgram:
    """The program of a module for one frame.

    Args:
        module: What runs the program.
        graph: Its graph, which says the shapes of its inputs.
        example: Arguments and keywords, of which the first frame is taken; None for zeros.
    """
    places = [n for n in graph.nodes if n.op == "placeholder"]
    kept = getattr(module, "_in_spec", None)
    leaves = None if example is None else pytree.tree_leaves(example)
    places = places if leaves is None else places[len(places) - len(leaves) :]  # parameters stand in front of inputs
    found = [n.meta.get("val") for n in places]
    lacking = [n.name for n, value in zip(places, found, strict=True) if not isinstance(value, Tensor)]
    if lacking:
        raise GraphError(
            "a graph of aten operations does not say the shapes of its inputs",
            node=", ".join(lacking),
            expected='a node.meta["val"] for every input, as torch.export gives',
            remedy="pass the ExportedProgram itself, or the model that it was made of",
        )
    zeros = [torch.zeros(_one_frame(v), dtype=v.dtype) for v in found if isinstance(v, Tensor)]
    given = zeros if leaves is None else [v[: z.shape[0]] if z.dim() else v for v, z in zip(leaves, zeros, strict=True)]
    if example is not None:
        kept = pytree.tree_structure(example)
    args, kwargs = (given, {}) if kept is None else pytree.tree_unflatten(given, kept)
    return export_model(module, args, kwargs)


def _one_frame(value: Tensor) -> tuple[int, ...]:
    """The sizes of an input for one frame."""
    sizes: list[Any] = list(value.shape)
    return tuple(1 if isinstance(n, torch.SymInt) else n for n in sizes)


def _refuse_symbols(graph: fx.Graph, ranges: Mapping[Any, Any]) -> bool:
    """Refuse sizes that are left open, but for one number of frames; whether that is open.

    Raises:
        UnsupportedError: Names every input that has one, and the symbol.
    """
    problems, batches = list[str](), set[str]()
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, Tensor):
            sizes: list[Any] = list(value.shape)
            symbols = {i: s for i, s in enumerate(sizes) if isinstance(s, torch.SymInt)}
            batches |= {str(s) for i, s in symbols.items() if not i and s.node.expr.is_symbol}
            problems += [
                f"{node.name}: dimension {i} is {s}{_range(ranges, s)}"
                for i, s in symbols.items()
                if i or not s.node.expr.is_symbol
            ]
        elif node.op == "placeholder" and isinstance(value, torch.SymInt):
            problems.append(f"{node.name}: a number that is left open, {value}")
    if len(batches) > 1:
        problems.append(f"inputs: their numbers of frames are {', '.join(sorted(batches))}, which differ")
    if problems:
        raise UnsupportedError(
            "the exported program leaves sizes open; hardware has those of one example:\n  " + "\n  ".join(problems),
            node=", ".join(p.split(":")[0] for p in problems),
            got="dynamic_shapes",
            expected="static shapes, but for the first size of every input, the number of frames",
            remedy="export with no other dynamic_shapes, for the longest sequence; shorter ones are padded and masked",
        )
    return bool(batches)


def _range(ranges: Mapping[Any, Any], symbol: torch.SymInt) -> str:
    found = ranges.get(symbol.node.expr)
    return "" if found is None else f", from {found.lower} to {found.upper}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings that torch gives about its own future."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
