"""What is refused because PyTorch would run it and a graph would not show it: hooks and replaced computations.

A graph records that a layer is called, and hardware computes what a layer of that class computes. So nothing may stand
between the call and the class: no hook, no ``forward`` of the instance's own, no class that was changed in place. What
hides from this list is found by comparing results (:mod:`mase_hw.compiler.faithful`).
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

from torch import fx, nn
from torch.nn.modules import module as torch_modules

from mase_hw.errors import UnsupportedError
from mase_hw.ir.paths import module_at
from mase_hw.ir.trace.root import is_opaque

CALL = ("_call_impl", "_wrapped_call_impl", "_slow_forward")
"""What PyTorch runs between the call of a module and its ``forward``."""
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_HOME = str(Path(nn.__file__).parents[1])
"""Where PyTorch lies."""
_ALIASES = {"__call__": "_wrapped_call_impl"}
"""Methods of ``nn.Module`` that are another one by their code."""


def refuse_hooks(model: nn.Module) -> None:
    """Refuse a model with forward hooks: they change what it computes, and no graph would show it.

    Raises:
        UnsupportedError: Names every module that has one; or says that there are hooks on all modules.
    """
    hooked = [name or "the model itself" for name, m in model.named_modules() if any(getattr(m, h) for h in _HOOKS)]
    if hooked:
        raise UnsupportedError(
            "the model has forward hooks, which no graph can follow",
            node=", ".join(hooked),
            remedy="remove the hooks, or write what they do into forward; remove_weight_norm and prune.remove of "
            "torch.nn.utils remove theirs",
        )
    everywhere = [name for name in _global_hooks() if getattr(torch_modules, name)]
    if everywhere:
        raise UnsupportedError(
            "there are hooks on every module, which no graph can follow",
            node=", ".join(f"torch.nn.modules.module.{name}" for name in everywhere),
            remedy="remove them (what registered them returned a handle with remove()), or write what they do into the "
            "model",
        )


def _global_hooks() -> list[str]:
    """Tables of hooks that change what modules compute, or what is registered when a module is made."""
    return [
        name
        for name, value in vars(torch_modules).items()
        if name.startswith("_global_")
        and ("forward" in name or "registration" in name)
        and name.endswith("_hooks")
        and isinstance(value, dict)
    ]


def refuse_replaced(model: nn.Module, graph: fx.Graph) -> None:
    """Refuse a model of which a layer, or the whole, computes something else than its class says.

    Layers are the modules that the graph calls. Between them the graph shows what was run, whatever it was.

    Args:
        model: The model as it was given.
        graph: Its graph; a model that is a graph itself has its own.

    Raises:
        UnsupportedError: Names the module and what was replaced.
    """
    if not isinstance(model, fx.GraphModule):
        _refuse(model, type(model).__name__, instance=("forward", *CALL), classes=("__call__", *CALL))
    if is_opaque(model):
        layers = dict(list(model.named_modules())[1:])  # the graph calls the model itself
    else:
        called = dict.fromkeys(str(n.target) for n in graph.nodes if n.op == "call_module")
        layers = {n: m for path in called for n, m in module_at(model, path).named_modules(prefix=path)}
    for path, module in layers.items():
        _refuse(
            module,
            path,
            instance=("forward", *CALL),
            classes=("__call__", "__getattribute__", *CALL),
            pristine=("forward", "__getattr__"),
        )


def _refuse(
    module: nn.Module,
    where: str,
    instance: tuple[str, ...],
    classes: tuple[str, ...],
    pristine: tuple[str, ...] = (),
) -> None:
    """Refuse methods that an instance has of its own, ``classes`` that are not PyTorch's, and what was patched."""
    for name, value in vars(module).items():
        shadows = pristine and callable(value) and isinstance(getattr(type(module), name, None), types.FunctionType)
        if name in instance or shadows:
            raise _replaced(where, name, f"{_shown(value)} on the instance")
    compiled = vars(module).get("_compiled_call_impl")
    if compiled is not None and not type(compiled).__module__.startswith("torch."):
        compiled = getattr(compiled, "_torchdynamo_orig_callable", None)
        original = getattr(compiled, "__func__", None)
        if original is not nn.Module._call_impl or getattr(compiled, "__self__", None) is not module:
            raise _replaced(where, "_compiled_call_impl", f"{_shown(compiled)} on the instance")
    for name in (*classes, *pristine):
        for cls in type(module).__mro__:
            if name not in vars(cls) or cls is object:
                continue
            theirs = cls.__module__.split(".")[0] == "torch"
            if not theirs and name in classes and cls.__module__.split(".")[0] != "mase_hw":
                raise _replaced(where, name, f"{_shown(vars(cls)[name])} of class {cls.__qualname__}")
            if theirs and not untouched(cls, name):
                raise _replaced(where, name, f"{_shown(vars(cls)[name])} in place of that of {_full(cls)}")
            break


def untouched(cls: type, name: str) -> bool:
    """Whether a method of a class of PyTorch is the one that PyTorch wrote there.

    A function remembers in its code where it was written: the name of its class and itself, and the file.
    """
    function = vars(cls)[name]
    code = getattr(function, "__code__", None)
    if not isinstance(function, types.FunctionType) or code is None:
        return False
    written = {f"{cls.__qualname__}.{_ALIASES.get(name, name)}"}
    if cls is nn.Module and name == "forward":
        written = {"_forward_unimplemented"}
    return code.co_qualname in written and code.co_filename.startswith(_HOME)


def _full(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _shown(value: Any) -> str:
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    module = getattr(value, "__module__", None)
    return f"{module}.{name}" if module else str(name)


def _replaced(where: str, name: str, got: str) -> UnsupportedError:
    return UnsupportedError(
        f"{name} of a layer was replaced, so that it computes something else than its class",
        node=where,
        field=name,
        got=got,
        expected="the computation of the class, which is what hardware has",
        remedy="write what it does into the forward of a module around the layer, or into a subclass with a forward of "
        "its own",
    )
