"""Values as JSON and back: a closed list of kinds, so that reading a document can only ever make data.

Numbers, texts, lists and dicts are themselves. Anything else is an object with one key that starts with ``$``:
``{"$tuple": [1, 2]}``, ``{"$format": [8, 4, true]}``, ``{"$node": "fc1"}``. Names of types and nodes are looked up
in tables; nothing is imported, called by name or evaluated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from mase_hw.errors import CheckpointError
from mase_hw.formats import BlockFormat, FixedFormat, GroupFormat, Overflow, Rounding, ScaledFormat, SignFormat

JsonValue = Any
"""What ``json`` can write: None, bool, int, float, str, list, dict with text keys."""

_NAMED: dict[str, dict[str, Any]] = {
    kind: {name: value for name, value in sorted(vars(torch).items()) if isinstance(value, of)}
    for kind, of in (("$dtype", torch.dtype), ("$layout", torch.layout), ("$memory_format", torch.memory_format))
}
_NAMES = {id(value): (kind, str(value).removeprefix("torch.")) for kind, t in _NAMED.items() for value in t.values()}
DTYPES: Mapping[str, torch.dtype] = _NAMED["$dtype"]
"""Element types by name."""
_TYPES = {t.__name__: t for t in (bool, int, float, complex, str)}


class ValueWriter:
    """Writes values.

    Args:
        tensor: Stores a tensor and returns its key.
    """

    def __init__(self, tensor: Callable[[Tensor], str]) -> None:
        self._tensor = tensor

    def __call__(self, value: Any, where: str) -> JsonValue:
        """The JSON of a value.

        Args:
            value: The value.
            where: What it belongs to, for errors.

        Raises:
            CheckpointError: If it is of a kind that a checkpoint does not hold.
        """
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$float": str(value)}
        if isinstance(value, Mapping):
            return self._mapping(value, where)
        if isinstance(value, list | tuple):
            return self._sequence(value, where)
        single = self._single(value)
        if single is None:
            raise CheckpointError(
                "a checkpoint cannot hold this value",
                node=where,
                got=type(value).__name__,
                expected="numbers, texts, tensors, arrays, formats, and lists, tuples and dicts of them",
                remedy="remove it from the graph or the metadata, or store plain values in its place",
            )
        return single

    def _mapping(self, value: Mapping[Any, Any], where: str) -> JsonValue:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: self(item, f"{where}.{key}") for key, item in value.items()}
        return {"$dict": [[self(k, where), self(v, f"{where}.{k}")] for k, v in value.items()]}

    def _sequence(self, value: list[Any] | tuple[Any, ...], where: str) -> JsonValue:
        items = [self(item, f"{where}[{i}]") for i, item in enumerate(value)]
        if isinstance(value, list):
            return items
        return {"$size" if isinstance(value, torch.Size) else "$tuple": items}

    def _single(self, value: Any) -> dict[str, JsonValue] | None:
        if id(value) in _NAMES:
            kind, name = _NAMES[id(value)]
            return {kind: name}
        match value:
            case Tensor():
                return {"$tensor": self._tensor(value)}
            case fx.Node():
                return {"$node": value.name}
            case ScaledFormat():
                items = dataclasses.astuple(value)
                # Last and left out where it is not so: checkpoints of before are read, and written, as they are.
                return {"$scaled": [self(v, "format") for v in (items if value.odd_ties else items[:-1])]}
            case SignFormat():
                return {"$signs": [value.width, value.frac_width, value.signed, value.threshold]}
            case GroupFormat():
                return {"$groups": [value.width, value.frac_width, value.signed, value.block]}
            case BlockFormat():
                return {"$blocks": list(dataclasses.astuple(value))}
            case FixedFormat():
                return {"$format": [value.width, value.frac_width, value.signed]}
            case Rounding():
                return {"$rounding": value.name.lower()}
            case Overflow():
                return {"$overflow": value.name.lower()}
            case torch.finfo() | torch.iinfo():
                return {f"${type(value).__name__}": value.dtype}
            case torch.device():
                return {"$device": str(value)}
            case slice():
                return {"$slice": [self(v, "slice") for v in (value.start, value.stop, value.step)]}
            case range():
                return {"$range": [value.start, value.stop, value.step]}
            case np.generic() if value.dtype.kind in "biufc":
                return {"$scalar": self._tensor(torch.from_numpy(np.array(value)))}
            case np.ndarray() if value.dtype.kind in "biufc":
                return {"$array": self._tensor(torch.from_numpy(np.array(value, order="C")))}
            case complex():
                return {"$complex": [self(value.real, "real"), self(value.imag, "imag")]}
        if value is Ellipsis:
            return {"$ellipsis": True}
        return {"$type": value.__name__} if value in _TYPES.values() else None


class ValueReader:
    """Reads what :class:`ValueWriter` wrote.

    Args:
        tensors: Tensors by key.
        nodes: Nodes by name; may grow while reading.
    """

    def __init__(self, tensors: Mapping[str, Tensor], nodes: Mapping[str, fx.Node]) -> None:
        self._kinds: dict[str, Callable[[Any], Any]] = {
            **{kind: table.__getitem__ for kind, table in _NAMED.items()},
            "$tensor": tensors.__getitem__,
            "$scalar": lambda key: tensors[key].numpy()[()],
            "$array": lambda key: tensors[key].numpy(),
            "$node": nodes.__getitem__,
            "$format": lambda v: FixedFormat(*v),
            "$scaled": lambda v: ScaledFormat(*self._items(v)),
            "$blocks": lambda v: BlockFormat(*v),
            "$groups": lambda v: GroupFormat(*v),
            "$signs": lambda v: SignFormat(*v),
            "$rounding": lambda v: Rounding.parse(str(v)),
            "$overflow": lambda v: Overflow.parse(str(v)),
            "$finfo": lambda v: torch.finfo(DTYPES[v]),
            "$iinfo": lambda v: torch.iinfo(DTYPES[v]),
            "$device": lambda v: torch.device(str(v)),
            "$slice": lambda v: slice(*self._items(v, 3)),
            "$range": lambda v: range(*v),
            "$complex": lambda v: complex(*self._items(v, 2)),
            "$float": lambda v: {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[v],
            "$ellipsis": lambda _: Ellipsis,
            "$type": _TYPES.__getitem__,
            "$tuple": lambda v: tuple(self._items(v)),
            "$size": lambda v: torch.Size(self._items(v)),
            "$dict": lambda v: {self(k): self(item) for k, item in v},
        }

    def __call__(self, document: JsonValue) -> Any:
        """The value of a document.

        Raises:
            CheckpointError: If it is of no known kind, or names a tensor or node that does not exist.
        """
        if isinstance(document, list):
            return self._items(document)
        if not isinstance(document, dict):
            return document
        kind = next(iter(document), "")
        if not kind.startswith("$"):
            return {key: self(value) for key, value in document.items()}
        if len(document) != 1 or kind not in self._kinds:
            raise CheckpointError("a value is of no kind that a checkpoint has", got=repr(document)[:120])
        try:
            return self._kinds[kind](document[kind])
        except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
            if isinstance(error, CheckpointError):
                raise
            raise CheckpointError(
                "a value cannot be read", got=f"{repr(document)[:120]}: {type(error).__name__}: {error}"
            ) from error

    def _items(self, values: JsonValue, count: int | None = None) -> list[Any]:
        if not isinstance(values, list) or count not in (None, len(values)):
            raise CheckpointError("a value is not a list of the right length", got=repr(values)[:120])
        return [self(v) for v in values]
