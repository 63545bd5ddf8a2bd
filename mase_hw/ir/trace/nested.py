"""Inputs in lists, tuples and dicts: hardware has ports, so a model is taken as one of tensors with names.

Containers are those of ``torch.utils._pytree``. What is none and no tensor (a number, a flag, None) is a constant of
the model: it has the value of the example.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from mase_hw.errors import CheckpointError, ConfigError
from mase_hw.host.documents import Json
from mase_hw.ir.evaluate import Values
from mase_hw.ir.trace import huggingface

NAMES = "_mase_names"
"""Attribute of a flat model's class: the names of its inputs, for the tracer."""
_CONSTANTS = bool | int | float | str | None
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Nested:
    """What a model's inputs are held in.

    Args:
        model: The model as it was given.
        example: One frame, in the containers that ``forward`` takes.

    Attributes:
        names: Of all tensors in order: the keys and positions on the way to each, joined by ``_``.
        paths: The same, joined by dots.
    """

    def __init__(self, model: nn.Module, example: Any) -> None:
        self.signature = inspect.signature(model.forward)
        found, self.spec = pytree.tree_flatten_with_path(self._bound(example, "example_inputs"))
        self.names: list[str] = []
        self.paths: list[str] = []
        self.constants: list[Any] = []
        """Of every leaf: its value, or the name of the tensor that it is."""
        self._tensors: list[bool] = []
        for keys, leaf in found:
            parts = self._parts(keys)
            self._tensors.append(isinstance(leaf, Tensor | np.ndarray))
            if not self._tensors[-1]:
                self.constants.append(_constant(leaf, ".".join(parts)))
                continue
            self.paths.append(".".join(parts))
            self.names.append(_free("_".join(parts), self.names))
            self.constants.append(self.names[-1])

    @classmethod
    def of(cls, model: nn.Module, example: Any) -> Nested | None:
        """What a model's inputs are held in; None if every argument of ``forward`` is a tensor, or may be none."""
        if isinstance(model, fx.GraphModule) or huggingface.is_model(model):
            return None
        values = list(example.values()) if isinstance(example, Mapping) else example
        kinds = [p.kind for p in inspect.signature(model.forward).parameters.values()]
        if isinstance(example, Tensor | np.ndarray) and kinds[:1] == [inspect.Parameter.VAR_POSITIONAL]:
            example = values = (example,)
        if isinstance(example, Tensor | np.ndarray | str | bytes) or not isinstance(values, Sequence):
            return None
        collected = any(kind in _VARIABLE for kind in kinds)
        held = any(not _plain(value) for value in values)
        tensors = any(isinstance(leaf, Tensor | np.ndarray) for leaf in pytree.tree_leaves(values))
        return cls(model, example) if tensors and (held or collected or _is_argument(model, example)) else None

    def to_document(self) -> Json:
        """All of it as lists, tuples, dicts and the defaults of the signature.

        Raises:
            CheckpointError: If a container is of another class.
        """
        parameters = self.signature.parameters.values()
        arguments = pytree.tree_unflatten(self.constants, self.spec)
        if not _of_plain_classes(arguments):
            raise CheckpointError("inputs are held in a class of their own", got=_shown(self.spec))
        return {
            "signature": [(p.name, int(p.kind), p.default is p.empty or (p.default,)) for p in parameters],
            "arguments": arguments,
            "tensors": list(self._tensors),
            "paths": list(self.paths),
        }

    @classmethod
    def from_document(cls, document: Json) -> Nested:
        """What :meth:`to_document` wrote."""
        made = cls.__new__(cls)
        parameters = []
        for name, kind, given in document["signature"]:
            default = inspect.Parameter.empty if given is True else given[0]
            parameters.append(inspect.Parameter(name, inspect._ParameterKind(kind), default=default))
        made.signature = inspect.Signature(parameters)
        made.constants, made.spec = pytree.tree_flatten(dict(document["arguments"]))
        made._tensors, made.paths = list(document["tensors"]), list(document["paths"])
        made.names = [str(c) for c, tensor in zip(made.constants, made._tensors, strict=True) if tensor]
        return made

    def flat(self, inputs: Any, what: str = "inputs") -> dict[str, Tensor]:
        """Tensors by name.

        Args:
            inputs: In the containers of the example, or by name already.
            what: What they are, for errors.

        Raises:
            ConfigError: If they are in other containers, or hold another constant than the example.
        """
        if isinstance(inputs, Mapping) and set(inputs) == set(self.names) and all(map(_plain, inputs.values())):
            return dict(inputs)
        bound = self._bound(inputs, what)
        try:
            leaves = self.spec.flatten_up_to(bound)
        except ValueError:
            leaves = []
        kinds = [isinstance(leaf, Tensor | np.ndarray) for leaf in leaves]
        if not leaves or any(tensor and not kind for tensor, kind in zip(self._tensors, kinds, strict=True)):
            raise ConfigError(
                "inputs are not held in the containers of the example",
                field=what,
                got=_shown(pytree.tree_structure(bound)),
                expected=_shown(self.spec),
                remedy=f"give tensors in the lists, tuples and dicts of the example, or by name: {self._all()}",
            )
        for constant, leaf, tensor in zip(self.constants, leaves, self._tensors, strict=True):
            if not tensor and (type(leaf) is not type(constant) or leaf != constant):
                raise ConfigError(
                    "an input that is no tensor differs from the example, with which it became part of the hardware",
                    field=what,
                    got=f"{leaf!r:.100}",
                    expected=f"{constant!r:.100}",
                )
        given = [leaf for leaf, tensor in zip(leaves, self._tensors, strict=True) if tensor]
        return dict(zip(self.names, given, strict=True))

    def rebuilt(self, tensors: Values) -> inspect.BoundArguments:
        """The arguments of ``forward`` from tensors by name."""
        leaves = [
            tensors[constant] if tensor else constant
            for constant, tensor in zip(self.constants, self._tensors, strict=True)
        ]
        bound = self.signature.bind_partial()
        bound.arguments.update(pytree.tree_unflatten(leaves, self.spec))
        return bound

    def batches(self, data: Any) -> Any:
        """An iterable of batches with tensors by name; what is no iterable as it is."""
        if isinstance(data, Tensor | np.ndarray | Mapping | str) or not hasattr(data, "__iter__"):
            return data
        return (self.flat(b, f"data[{i}]") for i, b in enumerate(data)) if isinstance(data, Iterator) else _Flat(
            self, data
        )  # fmt: skip

    def _bound(self, inputs: Any, what: str) -> dict[str, object]:
        """Arguments by name of the parameter."""
        args, kwargs = self._arguments(inputs)
        try:
            return dict(self.signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise ConfigError(
                "the inputs do not fit the arguments of forward",
                field=what,
                got=str(error),
                expected=str(self.signature),
            ) from error

    def _arguments(self, inputs: Any) -> tuple[Sequence[Any], Values]:
        if isinstance(inputs, Mapping):
            return ((inputs,), {}) if _is_one(self.signature, inputs) else ((), inputs)
        if isinstance(inputs, list | tuple) and not _is_one(self.signature, inputs):
            return inputs, {}
        return (inputs,), {}

    def _parts(self, keys: Sequence[Any]) -> list[str]:
        """The keys on the way to a leaf; not that of ``**kwargs``, whose own ones are arguments."""
        parts = _keys(keys)
        keywords = [p.name for p in self.signature.parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD]
        return parts[1:] if parts[0] in keywords else parts

    def _all(self) -> str:
        return ", ".join(self.names)


class _Flat(Iterable[dict[str, Tensor]]):
    """Batches with tensors by name, as often as they are asked for."""

    def __init__(self, nested: Nested, data: Iterable[Any]) -> None:
        self.nested, self.data = nested, data

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        return (self.nested.flat(batch, f"data[{index}]") for index, batch in enumerate(self.data))


def flat_model(model: nn.Module, nested: Nested) -> nn.Module:
    """The same model, sharing everything with it, whose ``forward`` takes the tensors by name."""
    kind = type(model)

    def forward(self: nn.Module, *tensors: Any, **named: Any) -> Any:
        bound = nested.rebuilt({**dict(zip(nested.names, tensors, strict=False)), **named})
        return kind.forward(self, *bound.args, **bound.kwargs)

    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, plain) for name in ("self", *nested.names)]
    forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    twin = copy.copy(model)
    body = {"forward": forward, "__module__": kind.__module__, NAMES: tuple(nested.names)}
    twin.__class__ = type(kind.__name__, (kind,), body)
    return twin


class NestedModel(nn.Module):
    """A traced model that takes its inputs as the model it was made of does.

    Args:
        model: Takes tensors by name.
        nested: What the inputs are held in.
    """

    def __init__(self, model: nn.Module, nested: Nested) -> None:
        super().__init__()
        self.model = model
        self._nested = nested

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result for inputs in the containers of the example, or by name."""
        given = kwargs if kwargs else args[0] if len(args) == 1 else args
        if args and kwargs:
            given = dict(self._nested.signature.bind(*args, **kwargs).arguments)
        return self.model(**self._nested.flat(given))


def result_paths(result: Any) -> list[str]:
    """Keys and positions on the way to every tensor in what a graph returns, joined by dots; in order.

    Args:
        result: The argument of an fx graph's output.
    """
    found, _ = pytree.tree_flatten_with_path(result)
    return [".".join(_keys(keys)) for keys, leaf in found if isinstance(leaf, fx.Node)]


def _keys(keys: Sequence[Any]) -> list[str]:
    return [str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in keys]


def _plain(value: Any) -> bool:
    """Whether a value is a tensor, or nothing that could hold one."""
    return isinstance(value, Tensor | np.ndarray) or pytree.tree_structure(value).is_leaf()


def _is_argument(model: nn.Module, example: Any) -> bool:
    return isinstance(example, Mapping | list | tuple) and _is_one(inspect.signature(model.forward), example)


def _is_one(signature: inspect.Signature, inputs: Mapping[Any, Any] | Sequence[Any]) -> bool:
    """Whether a container is the one argument of ``forward`` rather than all of them.

    A dict is, if none of its keys is a parameter and only one parameter has no default; a list or named tuple, if
    ``forward`` takes one positional argument and this is not one tensor.
    """
    parameters = list(signature.parameters.values())
    if any(p.kind in _VARIABLE for p in parameters):
        return False
    if isinstance(inputs, Mapping):
        needed = [p for p in parameters if p.default is inspect.Parameter.empty]
        return len(needed) <= 1 and bool(parameters) and not set(inputs) & {p.name for p in parameters}
    positional = [p for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    one = isinstance(inputs, list) or hasattr(inputs, "_fields")
    return one and len(positional) == 1 and len(inputs) != 1


def _constant(leaf: Any, path: str) -> Any:
    if isinstance(leaf, _CONSTANTS):
        return leaf
    raise ConfigError(
        "an input is neither a tensor nor a container of tensors",
        field=f"example_inputs.{path}",
        got=type(leaf).__name__,
        expected="tensors in lists, tuples, named tuples and dicts; numbers, strings and None are constants",
        remedy="register the class with torch.utils._pytree.register_dataclass, or give its tensors one by one",
    )


def _of_plain_classes(value: Any) -> bool:
    if type(value) is dict:
        return all(map(_of_plain_classes, value.values()))
    return all(map(_of_plain_classes, value)) if type(value) in (list, tuple) else isinstance(value, _CONSTANTS)


def _free(name: str, taken: Sequence[str]) -> str:
    """An identifier that is not taken."""
    made = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    made = made if made[:1].isalpha() or made[:1] == "_" else f"input_{made}"
    while made in taken:
        made += "_"
    return made


def _shown(spec: pytree.TreeSpec) -> str:
    """Containers with ``*`` for every leaf."""
    return f"{pytree.tree_unflatten([_Star()] * spec.num_leaves, spec)!r:.300}"


class _Star:
    def __repr__(self) -> str:
        return "*"
