"""Hugging Face models through ``torch.export``: for the shapes of an example, with any version of transformers."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, fx, nn

from mase_hw.catalogue import Catalogue
from mase_hw.errors import ConfigError
from mase_hw.ir.export.convert import import_program
from mase_hw.ir.export.program import export_model
from mase_hw.ir.trace.huggingface import broadcast, plan, replaced
from mase_hw.ir.trace.tracer import private_copy


def traced_by_export(
    model: nn.Module,
    fixed: Mapping[str, Any],
    names: Sequence[str] | None,
    known: Catalogue,
    example: Mapping[str, Any] | Sequence[Any],
    share_weights: bool = False,
) -> fx.GraphModule:
    """The graph of a model for the shapes of an example, and any number of frames.

    Args:
        model: A model of transformers; it is not changed.
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
    free = [name for name in inspect.signature(model.forward).parameters if name not in fixed]
    given = dict(example) if isinstance(example, Mapping) else dict(zip(free, example, strict=False))
    call = plan(model, list(given) if names is None else names, fixed)
    lacking = [name for name in call.inputs if not isinstance(given.get(name), Tensor)]
    if lacking:
        raise ConfigError("the example lacks inputs of the model", field="example", expected=", ".join(lacking))
    values = {**call.fixed, **{name: given[name] for name in call.inputs}}
    if values.get("use_cache", True) is None:
        values["use_cache"] = False
    root = private_copy(model, share_weights)
    root.eval()
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError):
            masks = importlib.import_module("transformers.masking_utils")
            plain = {"_vmap_for_bhqkv": broadcast, "TransformGetItemToIndex": contextlib.nullcontext}
            stack.enter_context(replaced(masks, {k: v for k, v in plain.items() if k in vars(masks)}))
        program = export_model(root, (), values)
    made = import_program(program, known)
    made.training = model.training
    return made
