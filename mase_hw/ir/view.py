"""A dict view over dataclasses: typed records that read and write like MASE's nested dicts.

A :class:`Record` is a dataclass whose unset fields are left out of the view. A :class:`View` walks records
and dicts alike and knows its path, so that a wrong key is reported with the place where it was asked for.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, ClassVar

import torch

from mase_hw.errors import MetadataKeyError, suggest


class Record:
    """Base of the dataclasses that a :class:`View` shows; its fields are the only keys."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    required: ClassVar[tuple[str, ...]] = ()
    """Fields shown even when they are empty (the shape of a zero-dimensional tensor is ``[]``)."""

    @classmethod
    @functools.cache
    def keys_known(cls) -> tuple[str, ...]:
        """Names of all fields, set or not."""
        return tuple(f.name for f in dataclasses.fields(cls))

    @classmethod
    def coerce(cls, name: str, value: Any) -> Any:
        """Check or convert a value before it is stored in field ``name``."""
        return value

    def present(self, name: str) -> bool:
        """Whether a field is set, so that the view lists it."""
        value = getattr(self, name)
        if value is None or (isinstance(value, str) and not value):
            return False
        return name in self.required or not (isinstance(value, dict | list | Record) and _empty(value))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.keys_known():
            value = self.coerce(name, value)
        elif not isinstance(getattr(type(self), name, None), property):
            raise _unknown(type(self).__name__, name, self.keys_known())
        object.__setattr__(self, name, value)


def _empty(value: Any) -> bool:
    if isinstance(value, Record):
        return not any(value.present(name) for name in value.keys_known())
    return not value


def _unknown(where: str, key: object, known: Iterable[str]) -> MetadataKeyError:
    return MetadataKeyError(
        f"metadata has no key {key!r}",
        node=where,
        got=repr(key),
        remedy=suggest(str(key), known) or "nothing is recorded here; run the pass that fills it first",
    )


class View(MutableMapping[str, Any]):
    """A record or dict as a tree of keys.

    Args:
        target: What is shown; changes through the view change it.
        path: Keys that lead here from the root.
        owner: Node or graph the tree belongs to, for errors.
    """

    def __init__(self, target: Any, path: tuple[str, ...] = (), owner: str = "") -> None:
        self._target = target
        self._path = path
        self._owner = owner

    @property
    def path(self) -> str:
        """Where this view is, as ``node: common.args``."""
        dotted = ".".join(self._path) or "metadata"
        return f"{self._owner}: {dotted}" if self._owner else dotted

    def __getitem__(self, key: str) -> Any:
        if isinstance(self._target, Record):
            if key not in self._target.keys_known():
                raise _unknown(self.path, key, self._target.keys_known())
            value = getattr(self._target, key)
            if value is None or (isinstance(value, str) and not value):
                raise MetadataKeyError(
                    f"metadata key {key!r} is not set yet",
                    node=self.path,
                    remedy="run the pass that fills it first",
                )
        elif key in self._target:
            value = self._target[key]
        else:
            raise _unknown(self.path, key, [str(k) for k in self._target])
        if isinstance(value, dict | Record):
            return View(value, (*self._path, str(key)), self._owner)
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        if isinstance(value, View):
            value = value._target
        if not isinstance(self._target, Record):
            self._target[key] = value
        elif key in self._target.keys_known():
            setattr(self._target, key, value)
        else:
            raise _unknown(self.path, key, self._target.keys_known())

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise _unknown(self.path, key, list(self))
        if isinstance(self._target, Record):
            fresh = {f.name: f for f in dataclasses.fields(self._target)}[key]
            default = fresh.default_factory() if callable(fresh.default_factory) else fresh.default
            setattr(self._target, key, None if default is dataclasses.MISSING else default)
        else:
            del self._target[key]

    def __iter__(self) -> Iterator[str]:
        if isinstance(self._target, Record):
            return (name for name in self._target.keys_known() if self._target.present(name))
        return iter(self._target)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        return any(key == name for name in self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and same(self.to_dict(), plain(other))

    def __repr__(self) -> str:
        return repr(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The tree as plain nested dicts; tensors and other leaves are shared, not copied."""
        shown: dict[str, Any] = plain(self)
        return shown


def plain(value: Any) -> Any:
    """Plain nested dicts of a view, record or dict; leaves are returned as they are, lists as copies."""
    if isinstance(value, View):
        value = value._target
    if isinstance(value, Record):
        return {n: plain(getattr(value, n)) for n in value.keys_known() if value.present(n)}
    if isinstance(value, Mapping):
        return {k: plain(v) for k, v in value.items()}
    return list(value) if isinstance(value, list) else value


def same(a: Any, b: Any) -> bool:
    """Equality of plain trees that may hold tensors (whose ``==`` is elementwise)."""
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        both = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
        return a is b or (both and a.dtype == b.dtype and torch.equal(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return bool(a == b)
