"""Models through ``torch.export``, for the shapes of an example: where the fx tracer cannot follow, or goes astray."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, fx, nn

from mase_hw.catalogue import Catalogue
from mase_hw.errors import ConfigError, MaseHwError
from mase_hw.ir import binding
from mase_hw.ir.evaluate import Values, evaluate
from mase_hw.ir.export.convert import import_program
from mase_hw.ir.export.program import export_model
from mase_hw.ir.faithful.same_function import equal, run
from mase_hw.ir.paths import module_at
from mase_hw.ir.trace.huggingface import broadcast, is_model, plan, replaced, states_at_once
from mase_hw.ir.trace.shapes import SPECIALISED
from mase_hw.ir.trace.tracer import private_copy, trace_torch_module
from mase_hw.ops.software import setitem


def followed(
    model: nn.Module,
    fixed: Values,
    known: Catalogue,
    example: Values | Sequence[Any],
    share_weights: bool = False,
) -> fx.GraphModule:
    """The graph of a model: as the fx tracer follows it, or as ``torch.export`` does where that is at a loss.

    That is where tracing fails, takes a number of frames for a number, meets what the catalogue does not have, or gives
    another result for the example than the model.

    Args:
        model: The model; it is not changed.
        fixed: Arguments of ``forward`` that have this value.
        known: The ops.
        example: Inputs by name or in order.
        share_weights: Share the tensors of parameters and buffers with ``model``.

    Raises:
        MaseHwError: If neither can follow the model; says why.
    """
    try:
        traced = trace_torch_module(model, fixed, None, None, known, share_weights, example)
    except ConfigError:
        raise
    except MaseHwError as error:
        try:
            return traced_by_export(model, fixed, None, known, example, share_weights)
        except MaseHwError as other:
            # At another line: the tracer stopped at what is no problem in itself.
            elsewhere = ":" in (other.node or "") and other.node != error.node
            raise (other if elsewhere else error) from error
    if not _in_doubt(model, traced, known, _named(model, fixed, example)):
        return traced
    try:
        return traced_by_export(model, fixed, None, known, example, share_weights)
    except MaseHwError:  # what is wrong with the graph is said when it is used
        return traced


def _in_doubt(model: nn.Module, traced: fx.GraphModule, known: Catalogue, example: Values) -> bool:
    if traced.meta.pop(SPECIALISED, False):
        return True
    for node in traced.graph.nodes:
        if node.target in (operator.setitem, setitem):
            return True
        own = node.op == "call_module" and not _of_torch(module_at(traced, str(node.target)))
        if node.op.startswith("call_") and not own and binding.op_of(known, traced, node) is None:
            return True
    twin = private_copy(model)  # it may keep something from one call to the next
    places = [n for n in traced.graph.nodes if n.op == "placeholder"]
    found: list[Any] = []

    def keep(node: fx.Node, value: Any) -> None:
        if node.op == "output":
            found.append(value)

    try:
        evaluate(traced, {n.name: example.get(str(n.target), *n.args[:1]) for n in places}, keep)
        return not equal(run(twin, example), found[0])
    except Exception:  # of the user's own code, or of a graph that cannot be run
        return True


def _of_torch(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.nn.")


def _named(model: nn.Module, fixed: Values, example: Values | Sequence[Any]) -> dict[str, object]:
    """The example by name of the arguments that are not fixed, in their order."""
    free = [name for name in inspect.signature(model.forward).parameters if name not in fixed]
    if isinstance(example, Mapping):
        return {**{name: example[name] for name in free if name in example}, **example}
    return dict(zip(free, example, strict=False))


def traced_by_export(
    model: nn.Module,
    fixed: Values,
    names: Sequence[str] | None,
    known: Catalogue,
    example: Values | Sequence[Any],
    share_weights: bool = False,
) -> fx.GraphModule:
    """The graph of a model for the shapes of an example, and any number of frames.

    Args:
        model: Any model; it is not changed.
        fixed: Arguments of ``forward`` that have this value.
        names: Inputs of the graph; those of the example if None.
        known: The ops.
        example: Tensors by name, or in the order of the arguments that are not fixed.
        share_weights: Share the tensors of parameters and buffers with ``model``.

    Raises:
        ConfigError: If the example lacks an input, or a name is no argument of ``forward``.
        UnsupportedError: If an input is a cache of keys and values, or an operation is no op of the catalogue.
        GraphError: If the model cannot be exported.
    """
    given = _named(model, fixed, example)
    inputs: Sequence[str] = list(given)
    if is_model(model):
        call = plan(model, list(given) if names is None else names, fixed)
        inputs, fixed = call.inputs, call.fixed
    lacking = [name for name in inputs if not isinstance(given.get(name), Tensor)]
    if lacking:
        raise ConfigError("the example lacks inputs of the model", field="example", expected=", ".join(lacking))
    values = {**fixed, **{name: given[name] for name in inputs}}
    if values.get("use_cache", True) is None:
        values["use_cache"] = False
    root = private_copy(model, share_weights)
    root.eval()
    with states_at_once(), contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError):
            masks = importlib.import_module("transformers.masking_utils")
            plain = {"_vmap_for_bhqkv": broadcast, "TransformGetItemToIndex": contextlib.nullcontext}
            stack.enter_context(replaced(masks, {k: v for k, v in plain.items() if k in vars(masks)}))
        program = export_model(root, (), values)
    made = import_program(program, known)
    made.training = model.training
    return made
