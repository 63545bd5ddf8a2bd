"""Control flow on shapes: while a model is traced, what depends on shapes alone has the value of the example.

Sizes stay nodes of the graph, so that a reshape works for any number of frames; only where Python needs a value (an
``if``, a ``range``, a loop over parts) it gets that of the example. A model that goes another way for other shapes is
found when its graph is compared with it on the calibration data.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.proxy import Attribute, Proxy, TraceError

_ATTRIBUTES = frozenset({"shape", "ndim", "dtype", "device"})
_METHODS = frozenset({"size", "dim", "ndimension", "numel", "nelement", "is_floating_point"})
_FUNCTIONS = (torch.numel, torch.is_floating_point)


_CALL, _GETATTR = nn.Module.__call__, nn.Module.__getattr__


@contextmanager
def _untraced() -> Iterator[None]:
    """Modules compute in this block, although a tracer follows what they are asked."""
    traced = nn.Module.__call__, nn.Module.__getattr__
    try:
        nn.Module.__call__, nn.Module.__getattr__ = _CALL, _GETATTR  # type: ignore[method-assign]
        yield
    finally:
        nn.Module.__call__, nn.Module.__getattr__ = traced  # type: ignore[method-assign]


class ShapeAware(fx.Tracer):
    """A tracer that knows an example; to be mixed into another one."""

    _example: Mapping[str, Any] = {}

    def use(self, example: Mapping[str, Any]) -> None:
        """Take an example: tensors by name of the argument of ``forward``."""
        self._example = {k: v.detach().clone() if isinstance(v, Tensor) else v for k, v in example.items()}
        self._values: dict[fx.Node, Any] = {}

    def proxy(self, node: fx.Node) -> Proxy:
        """A proxy that Python may ask for what it knows."""
        return _ShapeProxy(node, self)

    def to_bool(self, obj: Proxy) -> bool:
        """The truth of what depends on shapes alone.

        Raises:
            TraceError: If it depends on values.
        """
        return bool(self.known(obj)) if _of_shapes(obj.node) else super().to_bool(obj)

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The parts of a tuple or list, of as many as the example has.

        Raises:
            TraceError: If it is none.
        """
        return iter([operator.getitem(obj, index) for index in range(self.length(obj))])

    def length(self, obj: Proxy) -> int:
        """Parts of a tuple or list.

        Raises:
            TraceError: If it is none.
        """
        value = self.known(obj)
        if not isinstance(value, tuple | list):
            raise TraceError("a tensor cannot be gone through element by element: its first dimension is the frames")
        return len(value)

    def integer(self, obj: Proxy) -> int:
        """A number that depends on shapes alone.

        Raises:
            TraceError: If it depends on values.
        """
        if not _of_shapes(obj.node):
            raise TraceError("the value of a tensor is used as a Python number")
        return operator.index(self.known(obj))

    def known(self, obj: Proxy) -> Any:
        """The value of a proxy for the example.

        Raises:
            TraceError: If an input is missing in the example.
        """
        with torch.no_grad(), _untraced():
            return self._value(obj.node)

    def _value(self, node: fx.Node) -> Any:
        for each in self.graph.nodes:  # in order of execution, so that nothing is recursive
            if each not in self._values:
                self._values[each] = self._computed(each)
            if each is node:
                break
        return self._values[node]

    def _computed(self, node: fx.Node) -> Any:
        if node.op == "placeholder":
            name = str(node.target)
            if name not in self._example:
                raise TraceError(f"the example has no {name}, so that its shape is not known")
            return self._example[name]
        if node.op == "get_attr":
            value: Any = self.root
            for part in str(node.target).split("."):
                value = getattr(value, part)
            return value
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: self._values[n])
        if node.op == "call_module":
            return self.root.get_submodule(str(node.target))(*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]


class _Asked(Proxy):
    """What Python may ask of a proxy."""

    tracer: ShapeAware

    def __len__(self) -> int:
        return self.tracer.length(self)

    def __index__(self) -> int:
        return self.tracer.integer(self)

    def __int__(self) -> int:
        return self.tracer.integer(self)

    def __getattr__(self, name: str) -> Attribute:
        return _ShapeAttribute(self, name)


class _ShapeProxy(_Asked):
    """A result of a node."""


class _ShapeAttribute(_Asked, Attribute):
    """An attribute of a result, such as its shape; a node once somebody reads it."""

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
