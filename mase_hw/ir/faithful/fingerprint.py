"""Everything that Python can reach from a model, as text by path, to see what has changed between two runs."""

from __future__ import annotations

import functools
import random
import sys
import types
import zlib
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mase_hw.host.user_code import is_users

_MOST = 100_000
"""Objects that are looked at; a model has some thousands."""
_PLAIN = (type(None), bool, int, float, complex, str, bytes, Enum, torch.dtype, torch.device, np.generic)
_FEW = 4
"""Elements of a tensor that are shown."""
_NOISY = ("abc", "asyncio", "concurrent", "functools", "importlib", "inspect", "logging", "mase_hw", "multiprocessing",
          "numpy", "re", "threading", "torch", "typing", "warnings", "weakref")  # fmt: skip
"""Packages whose objects remember what nobody's result depends on."""
_TABLES = ("_parameters", "_buffers", "_modules")
_LISTS = (list, tuple)


def fingerprint(model: nn.Module) -> dict[str, str]:
    """What a model holds: a short text for every value, by its path.

    Looked at are attributes of modules and of other objects, lists, tables and sets, tensors and arrays by content;
    attributes of the user's classes; closures, defaults and global variables of the user's functions.
    """
    found: dict[str, str] = {}
    seen: dict[int, Any] = {}
    stack: list[tuple[str, Any]] = [("model", model)]
    while stack and len(seen) < _MOST:
        path, value = stack.pop()
        text = _text(value)
        if text is not None:
            found[path] = text
        elif id(value) not in seen:
            seen[id(value)] = value  # kept, so that its number stays its own
            parts = list(_parts(path, value))
            found[path] = f"{type(value).__name__} of {len(parts)}"
            stack.extend(reversed(parts))
    return found


def _text(value: Any) -> str | None:
    """A value that has no parts, as text; None for one that has."""
    if isinstance(value, Tensor):
        return _tensor(value)
    if isinstance(value, np.ndarray):
        return f"array {list(value.shape)} with check sum {zlib.crc32(value.tobytes()):08x}"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if value.bit_length() < 64 else hex(value)
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, random.Random):
        return f"random numbers {hash(value.getstate()):x}"
    if isinstance(value, torch.Generator):
        return f"random numbers {_tensor(value.get_state())}"
    return None


def _tensor(value: Tensor) -> str:
    """Shape, type and content; of a tensor that NumPy cannot look at, only the first two."""
    about = f"tensor {list(value.shape)}"
    if value.is_meta or value.layout is not torch.strided or value.is_quantized or not value.numel():
        return f"{about} {value.dtype}"
    plain = value.detach().as_subclass(Tensor)
    if value.numel() <= _FEW:
        return f"{about} {plain.tolist()}"
    raw = plain.cpu().contiguous().flatten().view(torch.uint8)
    return f"{about} with check sum {zlib.crc32(raw.numpy().data):08x}"


def _parts(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What a value holds, with the paths of all of it."""
    if isinstance(value, types.ModuleType):
        return  # only what a function uses of it counts
    if isinstance(value, nn.Module):
        yield from _module(path, value)
    elif isinstance(value, Mapping):
        # Of a class derived from dict what it holds, not what its own code says: that may import a whole library.
        items = dict.items(value) if isinstance(value, dict) else value.items()
        for index, (key, item) in enumerate(list(items)):
            yield f"{path}[{key!r:.60}]" if isinstance(key, _PLAIN) else f"{path}[key {index}]", item
        yield from _attributes(path, value)
    elif isinstance(value, _LISTS) or type(value).__name__ == "deque":
        for index, item in enumerate(value):
            yield f"{path}[{index}]", item
    elif isinstance(value, set | frozenset):
        yield f"{path} (elements)", ", ".join(sorted(_text(item) or type(item).__name__ for item in value))
    elif isinstance(value, types.FunctionType | types.MethodType):
        function = value.__func__ if isinstance(value, types.MethodType) else value
        yield from _function(function) if isinstance(function, types.FunctionType) else ()
    elif isinstance(value, staticmethod | classmethod | property):
        yield path, value.fget if isinstance(value, property) else value.__func__
    elif isinstance(value, type):
        yield from _class(value)
    elif isinstance(value, functools.partial):
        yield from ((f"{path}.{name}", getattr(value, name)) for name in ("func", "args", "keywords"))
    elif isinstance(value, types.GeneratorType) and value.gi_frame is not None:
        yield f"{path} (line)", value.gi_frame.f_lasti
        yield from ((f"{path}: {name}", item) for name, item in value.gi_frame.f_locals.items())
    elif isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools"):
        yield f"{path} (state)", repr(value.__reduce__())[:400]
    elif type(value).__module__.split(".")[0] not in _NOISY:
        yield from _attributes(path, value)
        for cls in type(value).__mro__:
            yield from ((f"{path}.{name}", getattr(value, name, None)) for name in _slots(cls))
        yield f"class {type(value).__qualname__}", type(value)


def _attributes(path: str, value: Any) -> list[tuple[str, Any]]:
    attributes = getattr(value, "__dict__", None)
    return [(f"{path}.{name}", item) for name, item in attributes.items()] if isinstance(attributes, dict) else []


def _module(path: str, module: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if name in _TABLES:
            yield from ((f"{path}.{inner}", item) for inner, item in value.items())
        elif name != "training":
            yield f"{path}.{name}", value
    for cls in type(module).__mro__:
        yield f"class {cls.__qualname__}", cls


def _slots(cls: type) -> list[str]:
    names = vars(cls).get("__slots__", ())
    return [name for name in ((names,) if isinstance(names, str) else names) if not name.startswith("__")]


def _class(cls: type) -> Iterator[tuple[str, Any]]:
    if cls.__module__ in sys.stdlib_module_names:
        return
    if is_users(getattr(sys.modules.get(cls.__module__), "__file__", None)):
        for name, value in list(vars(cls).items()):
            if not (name.startswith("__") and name.endswith("__") and not callable(value)):
                yield f"class {cls.__qualname__}: {name}", value


def _function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    if not is_users(function.__code__.co_filename):
        return
    name, names = function.__qualname__, _names(function.__code__)
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield from _variable(f"{name}: {variable}", cell.cell_contents, names)
        except ValueError:  # not assigned yet
            continue
    yield f"{name}.__defaults__", function.__defaults__
    yield f"{name}.__kwdefaults__", function.__kwdefaults__
    yield from ((f"{name}.{key}", value) for key, value in vars(function).items())
    for variable in names:
        if variable in function.__globals__:
            yield from _variable(f"{function.__module__}.{variable}", function.__globals__[variable], names)


def _variable(path: str, value: Any, names: list[str]) -> Iterator[tuple[str, Any]]:
    """A variable of a function; of a module of the user's, what the function may use of it."""
    if not isinstance(value, types.ModuleType):
        yield path, value
    elif is_users(getattr(value, "__file__", None)) and value.__name__ not in sys.stdlib_module_names:
        yield from ((f"{path}.{name}", vars(value)[name]) for name in names if name in vars(value))


def _names(code: types.CodeType) -> list[str]:
    """Names of global variables and attributes that a function uses, functions inside it included."""
    inner = [name for const in code.co_consts if isinstance(const, types.CodeType) for name in _names(const)]
    return list(dict.fromkeys([*code.co_names, *inner]))
