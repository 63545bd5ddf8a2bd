"""Arguments by keyword, ``torch.add(input=a, other=b)``, as arguments in order, which is how passes look for them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from torch import fx

from mase_hw.ir.trace.signatures import fits, signatures_of


def in_order(model: fx.GraphModule) -> None:
    """Give every call of a function or method its arguments in order, as far as the signature has an order for them.

    What can be given by keyword only, and what comes behind an argument that is left out, stays by keyword.

    Args:
        model: A traced model; its graph computes what it did before.
    """
    changed = False
    for node in model.graph.nodes:
        if node.op in ("call_function", "call_method") and node.kwargs:
            before = node.args
            node.args, node.kwargs = _in_order(signatures_of(node.target), node.args, node.kwargs)
            changed |= len(node.args) != len(before)
    if changed:
        model.recompile()


def _in_order(
    signatures: Iterable[inspect.Signature], args: tuple[Any, ...], kwargs: dict[str, object]
) -> tuple[tuple[Any, ...], dict[str, object]]:
    for signature in signatures:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            continue
        # What a node gives is not known yet; of several overloads that it may be, all have these arguments in order.
        values = [(name, value) for name, value in bound.arguments.items() if not isinstance(value, fx.Node)]
        if not all(fits(signature.parameters[name], value, lambda _: False) for name, value in values):
            continue
        given, named = list(args), dict(kwargs)
        for parameter in list(signature.parameters.values())[len(args) :]:
            if parameter.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD or parameter.name not in named:
                break
            given.append(named.pop(parameter.name))
        return tuple(given), named
    return args, kwargs
