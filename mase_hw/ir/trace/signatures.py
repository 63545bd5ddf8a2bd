"""Parameter names of whatever an fx node calls, also of functions that Python itself knows no signature of.

Python functions have a signature; PyTorch's builtins have overloads in their schemas; operators and
``getattr`` are in the table below.
"""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.fx.operator_schemas import get_signature_for_torch_op

Bound = list[tuple[str, Any]]
"""Parameter name and value (fx nodes not resolved), in order of the signature; None defaults are left out."""

_NO_SIGNATURE: dict[Any, tuple[str, ...]] = {
    getattr: ("object", "name"),
    iter: ("object",),
    len: ("object",),
    max: ("a", "b"),
    min: ("a", "b"),
    torch.finfo: ("dtype",),
    torch.iinfo: ("dtype",),
    torch.tensor: ("data",),
    "type": ("self", "dtype"),
}
"""Names for what has no signature, or only one with other names than the documentation."""

_SCHEMA_KINDS: dict[str, object] = {
    "TensorType": torch.Tensor,
    "ListType": list,
    "StringType": str,
    "DeviceObjType": torch.device,
    "IntType": int,
    "BoolType": bool,
}
_PRIVATE = ("implicit",)
"""Parameters in schemas that nobody is meant to use; so are those that start with an underscore."""

_KNOWN: weakref.WeakKeyDictionary[Any, dict[bool, list[inspect.Signature]]] = weakref.WeakKeyDictionary()
"""Signatures of functions, apart for those that are bound: inspecting one costs more than binding a call to it."""
_BUILTINS: dict[int, tuple[Any, list[inspect.Signature]]] = {}
"""The same of builtins, by identity, with the builtin itself: torch's with one body are equal to each other, whatever
their schemas say."""


def bind(target: Any, args: Sequence[Any], kwargs: dict[str, object], is_tensor: Callable[[Any], bool]) -> Bound:
    """Name the arguments of a call.

    Args:
        target: A function, the bound ``forward`` of a module, or the name of a tensor method.
        args: Positional arguments; fx nodes stand for tensors. A method's first one is the tensor.
        kwargs: Keyword arguments.
        is_tensor: Whether an argument stands for a tensor; decides between overloads.

    Returns:
        Supplied arguments and defaults, without those that are None and private ones (``_stacklevel``).
        Arguments of a call that no known signature fits are called ``arg_0``, ``arg_1``, ...
    """
    if isinstance(target, str):
        args = _fold(target, list(args))
    candidates = signatures_of(target)
    fallback: inspect.BoundArguments | None = None
    for signature in candidates:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            continue
        fit = (fits(signature.parameters[n], v, is_tensor) for n, v in bound.arguments.items())
        if len(candidates) == 1 or all(fit):
            return _listed(bound)
        fallback = fallback or bound
    if fallback is not None:
        return _listed(fallback)
    table = _NO_SIGNATURE.get(target, ("self",) if isinstance(target, str) else ())
    names = [table[i] if i < len(table) else f"arg_{i}" for i in range(len(args))]
    return [*zip(names, args, strict=True), *kwargs.items()]


def signatures_of(target: Callable[..., Any] | str) -> list[inspect.Signature]:
    """The signatures of a function, or of the tensor method of that name; none if they are not known.

    They are found once; those of a bound ``forward`` once for all modules of its class.
    """
    if isinstance(target, str):
        return _method_signatures(target)
    function = getattr(target, "__func__", target)
    of_module = isinstance(getattr(function, "__self__", None), types.ModuleType)  # as those of operator and math
    if not isinstance(function, types.FunctionType) and not of_module:
        if not isinstance(target, types.BuiltinFunctionType):
            return _found(target)
        if id(target) not in _BUILTINS:
            _BUILTINS[id(target)] = target, _found(target)
        return _BUILTINS[id(target)][1]
    known, bound = _KNOWN.setdefault(function, {}), function is not target
    if bound not in known:
        known[bound] = _found(target)
    return known[bound]


def _found(target: Callable[..., Any]) -> list[inspect.Signature]:
    if target in _NO_SIGNATURE:
        return []
    dispatched = torch._jit_internal.boolean_dispatched.get(target)
    if dispatched is not None:  # F.max_pool2d and its like choose one of two functions by a flag
        return [inspect.signature(dispatched["if_false"])]
    try:
        return [inspect.signature(target)]
    except (ValueError, TypeError):
        found = get_signature_for_torch_op(target)
        return list(found) if found else []


NUMBERS = list[int] | int
"""Annotation of a list of a fixed length in a schema: a number is taken for all of it, ``x.var(1)``."""


def _schemas(method: str) -> list[Any]:
    """The schemas of a method of tensors; lists and texts have some of the same names."""
    found = torch._C._jit_get_schemas_for_operator(f"aten::{method}")
    return [s for s in found if any(a.name == "self" and a.type.kind() == "TensorType" for a in s.arguments)]


@functools.cache
def _method_signatures(method: str) -> list[inspect.Signature]:
    kinds = inspect.Parameter
    signatures = []
    for schema in _schemas(method):
        parameters = [
            kinds(
                a.name,
                kinds.KEYWORD_ONLY if a.kwarg_only else kinds.POSITIONAL_OR_KEYWORD,
                default=_default(a),
                annotation=NUMBERS if getattr(a, "N", None) and _kind(a.type) is list else _kind(a.type),
            )
            for a in sorted(schema.arguments, key=lambda a: a.name != "self")  # x.where(condition, other)
        ]
        signatures.append(inspect.Signature(parameters))
    return signatures


def _default(argument: Any) -> Any:
    if argument.name == "memory_format":
        return None  # schemas have the number of torch.contiguous_format
    return argument.default_value if argument.has_default_value() else inspect.Parameter.empty


def _kind(schema_type: Any) -> Any:
    if schema_type.kind() == "OptionalType":
        return _kind(schema_type.getElementType())
    return _SCHEMA_KINDS.get(schema_type.kind(), inspect.Parameter.empty)


def _fold(method: str, args: list[Any]) -> list[Any]:
    """``x.view(2, -1)`` is ``x.view([2, -1])``: gather numbers where a method ends in a list."""
    for index in _ends_in_list(method):
        if len(args) <= index:
            continue
        numbers = args[index:]
        if all(isinstance(n, int | fx.Node) and not isinstance(n, bool) for n in numbers):
            if len(numbers) == 1 and isinstance(numbers[0], fx.Node):
                return args  # one node may be the whole list: x.view(y.size())
            return [*args[:index], numbers]
    return args


@functools.cache
def _ends_in_list(method: str) -> list[int]:
    """Of every schema of a method that ends in a list: the place of that list among the arguments."""
    positional = [[a for a in schema.arguments if not a.kwarg_only] for schema in _schemas(method)]
    return [len(of) - 1 for of in positional if len(of) > 1 and of[-1].type.kind() == "ListType"]


def fits(parameter: inspect.Parameter, value: Any, is_tensor: Callable[[Any], bool]) -> bool:
    """Whether a value may be given for a parameter, as far as its annotation says; decides between overloads."""
    wants = parameter.annotation
    if wants is torch.Tensor:
        return is_tensor(value)
    if wants is NUMBERS:
        return isinstance(value, list | tuple | fx.Node | int) and not isinstance(value, bool)
    if wants is list:
        return isinstance(value, list | tuple | fx.Node)
    if wants is str:
        return isinstance(value, str)
    if wants is bool and isinstance(value, int | float | list | tuple):
        return isinstance(value, bool)  # else var(x, 1), or var(x, [1]), would be one with unbiased=1
    if value is None or wants is inspect.Parameter.empty:
        return True
    if isinstance(value, torch.device):
        return wants is torch.device or "device" in str(wants)
    if wants is torch.device:
        return isinstance(value, str)
    if isinstance(value, str):
        return wants in (inspect.Parameter.empty, str) or "str" in str(wants)
    return not is_tensor(value) or wants is inspect.Parameter.empty or "Tensor" in str(wants)


def _listed(bound: inspect.BoundArguments) -> Bound:
    bound.apply_defaults()
    named: Bound = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            named += value.items()
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            named += [(name, value)] if value else []
        elif value is not None and not name.startswith("_") and name not in _PRIVATE:
            named.append((name, value))
    return named


def forward_of(module: nn.Module) -> Callable[..., Any]:
    """The bound ``forward`` of a module, whose signature names the arguments of its call."""
    forward: Callable[..., Any] = module.forward
    return forward
