"""Shapes while a model is traced: what depends on them alone is a number of Python, as when the model runs.

Only what depends on the number of frames stays a node of the graph, so that a reshape works for any number of them. It
is found by computing the example beside one of twice as many frames. Where Python needs a number of it (an ``if``, a
``range``, ``int(x.size(0))``) it gets that of the example, and the tracer remembers that it had to ask.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeGuard

import torch
from torch import Tensor, fx, nn
from torch.fx.proxy import Attribute, Proxy, TraceError
from torch.utils import _pytree as pytree

from mase_hw.ir.evaluate import Values
from mase_hw.ir.paths import attribute_at, called

_ATTRIBUTES = frozenset({"shape", "ndim", "dtype", "device", "layout", "is_cuda", "requires_grad"})
_METHODS = frozenset({"size", "dim", "ndimension", "numel", "nelement", "is_floating_point", "is_complex", "__len__"})
_FUNCTIONS = (torch.numel, torch.is_floating_point, torch.is_complex)
_PLAIN = bool | int | float | str | torch.Size | torch.dtype | torch.device | torch.layout
"""Answers to questions about shapes."""
_UNKNOWN = object()
"""The value of what cannot be computed for twice as many frames."""
SPECIALISED = "specialised"
"""Where a traced model says that Python was given a number that is another one for more frames."""
_MAKING = ("zeros", "ones", "full", "empty", "arange", "eye")
"""Functions of torch that take a node as their first size only where they are told to."""
_RESHAPING = ("expand", "repeat", "view", "reshape", "tile", "new_zeros", "new_ones", "new_full", "new_empty")
"""Methods of tensors, of which the same is true."""


@contextmanager
def recorded(tracer: fx.Tracer, home: Any, *names: str) -> Iterator[None]:
    """Within the block functions of torch, or methods of its tensors, make a node where anything they take is one."""
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(_recorded(tracer, home, name))
        yield


@contextmanager
def _recorded(tracer: fx.Tracer, home: Any, name: str) -> Iterator[None]:
    own: Callable[..., Any] = getattr(home, name)
    inherited = name not in vars(home)

    def function(*args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(leaf, Proxy) for leaf in pytree.tree_leaves((args, kwargs))):
            return own(*args, **kwargs)
        if home is torch:
            return tracer.create_proxy("call_function", own, args, kwargs)
        return tracer.create_proxy("call_method", name, args, kwargs)

    setattr(home, name, function)
    try:
        yield
    finally:
        if inherited:
            delattr(home, name)
        else:
            setattr(home, name, own)


class ShapeAware(fx.Tracer):
    """A tracer that knows an example; to be mixed into another one."""

    _examples: tuple[Values, Values] = ({}, {})
    _values: tuple[dict[fx.Node, Any], dict[fx.Node, Any]] = ({}, {})
    specialised = False
    """Whether Python was given a number that is another one for more frames."""
    _computing = False
    """Whether modules compute although their calls are followed: a value of the graph is wanted."""

    def use(self, example: Values) -> None:
        """Take an example: tensors by name of the argument of ``forward``."""
        once = {k: v.detach().clone() if isinstance(v, Tensor) else v for k, v in example.items()}
        twice = {k: torch.cat([v, v]) if _is_dense(v) else v for k, v in once.items()}
        self._examples, self._values = (once, twice), ({}, {})

    def trace(self, root: Any, concrete_args: dict[str, object] | None = None) -> fx.Graph:
        """The graph of a model; tensors that it makes by the number of frames are nodes."""
        with recorded(self, torch, *_MAKING), recorded(self, torch.Tensor, *_RESHAPING):
            return super().trace(root, concrete_args)

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What a module gives, or a proxy of it."""
        return forward(*args, **kwargs) if self._computing else super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, fx.Proxy]) -> Any:
        """An attribute of a module, or a proxy of it."""
        return attr_val if self._computing else super().getattr(attr, attr_val, parameter_proxy_cache)

    def proxy(self, node: fx.Node) -> Proxy:
        """A proxy that Python may ask for what it knows."""
        return _ShapeProxy(node, self)

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **more: Any) -> Any:
        """A proxy, or the number itself of what is the same for any number of frames."""
        if target is operator.pos:
            return args[0]
        made = super().create_proxy(kind, target, args, kwargs, *rest, **more)
        if kind not in ("call_function", "call_method") or not _of_shapes(made.node):
            return made
        once, twice = self._both(made.node)
        if not (isinstance(once, _PLAIN) and _same(once, twice)):
            return made
        for values in self._values:
            values.pop(made.node, None)
        self.graph.erase_node(made.node)
        return once

    def attribute(self, obj: Proxy, name: str) -> Any:
        """An attribute of a tensor, as itself if it is the same for any number of frames."""
        if name == "data":
            return obj
        if name in _ATTRIBUTES:
            once, twice = (getattr(value, name, _UNKNOWN) for value in self._both(obj.node))
            if isinstance(once, _PLAIN) and _same(once, twice):
                return once
        return _ShapeAttribute(obj, name)

    def to_bool(self, obj: Proxy) -> bool:
        """The truth of what depends on shapes alone.

        Raises:
            TraceError: If it depends on values.
        """
        return bool(self.number(obj, bool)) if _of_shapes(obj.node) else super().to_bool(obj)

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The parts of a tuple or list, or of a tensor whose first dimension is not the frames.

        Raises:
            TraceError: If it is none.
        """
        return iter([operator.getitem(obj, index) for index in range(self.length(obj))])

    def length(self, obj: Proxy) -> int:
        """Parts of a tuple or list, or the first size of a tensor.

        Raises:
            TraceError: If it is none of these.
        """
        value = self.known(obj)
        if not isinstance(value, tuple | list | Tensor):
            raise TraceError(f"a {type(value).__name__} has no parts")
        return int(self._told(obj, len))

    def number(self, obj: Proxy, kind: Callable[[Any], Any]) -> Any:
        """A number that depends on shapes alone.

        Args:
            obj: Stands for it.
            kind: What is made of it: an integer, a float, or its truth.

        Raises:
            TraceError: If it depends on values.
        """
        if not _of_shapes(obj.node):
            raise TraceError("the value of a tensor is used as a Python number")
        return self._told(obj, kind)

    def _told(self, obj: Proxy, kind: Callable[[Any], Any]) -> Any:
        made = kind(self.known(obj))
        twice = self._both(obj.node)[1]
        self.specialised |= twice is not _UNKNOWN and made != kind(twice)
        return made

    def known(self, obj: Proxy) -> Any:
        """The value of a proxy for the example.

        Raises:
            TraceError: If an input is missing in the example.
        """
        return self._value(obj.node, 0)

    def _both(self, node: fx.Node) -> tuple[Any, Any]:
        """Values for the example and for twice as many frames; unknown if they cannot be computed."""
        found = []
        for which in (0, 1):
            try:
                found.append(self._value(node, which))
            except Exception:  # the model's own operations, with numbers that nobody promised them
                found.append(_UNKNOWN)
        return found[0], found[1]

    def _value(self, node: fx.Node, which: int) -> Any:
        values = self._values[which]
        if node not in values:
            todo = [node]
            while (before := todo[-1].prev) not in values and before.op != "root":
                todo.append(before)
            self._computing = True
            try:
                with torch.no_grad():
                    for each in reversed(todo):  # in order of execution, so that nothing is recursive
                        values[each] = self._computed(each, which)
            finally:
                self._computing = False
        return values[node]

    def _computed(self, node: fx.Node, which: int) -> Any:
        values = self._values[which]
        if node.op == "placeholder":
            name = str(node.target)
            name = name if name in self._examples[which] else stem(name)
            if name not in self._examples[which]:
                raise TraceError(f"the example has no {name}, so that its shape is not known")
            return self._examples[which][name]
        if node.op == "get_attr":
            return attribute_at(self.root, str(node.target))
        return called(self.root, node, lambda n: values[n])


def stem(target: str) -> str:
    """The name of an argument, to which fx adds a number if it is fixed to a value."""
    name, _, number = target.rpartition("_")
    return name if number.isdigit() else target


def _same(once: Any, twice: Any) -> bool:
    return type(once) is type(twice) and bool(once == twice)


class _Asked(Proxy):
    """What Python may ask of a proxy."""

    tracer: ShapeAware

    def __len__(self) -> int:
        return self.tracer.length(self)

    def __index__(self) -> int:
        return int(self.tracer.number(self, operator.index))

    def __int__(self) -> int:
        return int(self.tracer.number(self, int))

    def __float__(self) -> float:
        return float(self.tracer.number(self, float))

    def __getattr__(self, name: str) -> Any:
        return self.tracer.attribute(self, name)


class _ShapeProxy(_Asked):
    """A result of a node."""


class _ShapeAttribute(_Asked, Attribute):
    """An attribute of a result, such as its shape; a node once it is read."""

    def __init__(self, root: Proxy, attr: str) -> None:
        Attribute.__init__(self, root, attr)


def drop_questions(graph: fx.Graph) -> None:
    """Erase questions about shapes that nothing in the graph reads: Python has had the answers."""
    for node in reversed(list(graph.nodes)):
        if not node.users and node.op in ("call_function", "call_method") and _of_shapes(node):
            graph.erase_node(node)


def _of_shapes(node: fx.Node) -> bool:
    """Whether a node depends on shapes and types alone, not on values."""
    todo, seen = [node], set()
    while todo:
        each = todo.pop()
        if each in seen:
            continue
        seen.add(each)
        if each.op == "call_method" and each.target in _METHODS:
            continue
        if each.op == "call_function" and (each.target in _FUNCTIONS or _asks(each)):
            continue
        if each.op not in ("call_function", "call_method") or not each.all_input_nodes:
            return False
        todo += each.all_input_nodes
    return True


def _asks(node: fx.Node) -> bool:
    return node.target is getattr and len(node.args) > 1 and node.args[1] in _ATTRIBUTES


def _is_dense(value: object) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.dim() > 0 and value.layout is torch.strided
