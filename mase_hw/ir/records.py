"""The dicts of the metadata: real ones, whose missing keys say where they are missing and what was probably meant.

A :class:`Branch` has keys of any name. A :class:`Record` has fields as well, which are attributes too and whose values
are checked: typed code writes ``meta.common.args["weight"].shape``, MASE's scripts
``meta["common"]["args"]["weight"]["shape"]``. What is not set is not there.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NoReturn, TypeVar, dataclass_transform

import torch

from mase_hw.errors import MetadataKeyError, suggest
from mase_hw.host.documents import Json

R = TypeVar("R", bound="Record")
TYPO = 0.85
"""From this likeness on, a key is taken for a misspelt field and not for a key of the user's own."""


Entries = dict[str, Any]
"""A part of ``node.meta["mase"]`` under MASE's names, which users and their passes read and write."""


class Branch(dict[str, Any]):
    """A dict in the tree of metadata; dicts that are put in become branches of their own."""

    _at: tuple[str, ...] = ()
    """Owner of the tree, and the keys that lead here; empty as long as it is in no tree."""

    def __init__(self, items: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.update(items or {})

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, self._placed(key, Branch(value) if type(value) is dict else value))

    def _placed(self, key: str, value: Any) -> Any:
        if self._at and isinstance(value, Branch) and not value._at:
            value._place((*self._at, str(key)))
        return value

    def _place(self, at: tuple[str, ...]) -> None:
        object.__setattr__(self, "_at", at)
        for key, value in self.items():
            self._placed(key, value)

    def __missing__(self, key: str) -> Any:
        refuse_key(self, key, map(str, self))

    def __delitem__(self, key: str) -> None:
        if key not in self:
            refuse_key(self, key, map(str, self))
        super().__delitem__(key)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """As of a dict; every value is checked as in an assignment."""
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def setdefault(self, key: str, default: Any = None) -> Any:
        """As of a dict; the value is checked as in an assignment."""
        if key not in self:
            self[key] = default
        return self[key]

    # The stubs of dict give it two signatures.
    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        self.update(other)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and same(plain(self), plain(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def to_dict(self) -> Json:
        """Plain nested dicts without what is empty; tensors and other leaves are shared, not copied."""
        shown: dict[str, Any] = plain(self)
        return shown


class Record(Branch):
    """A branch with fields; made with :func:`record`."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    required: ClassVar[tuple[str, ...]] = ()
    """Fields shown even when they are empty (the shape of a zero-dimensional tensor is ``[]``)."""
    free: ClassVar[bool] = False
    """Whether keys of the user's own may stand beside the fields."""

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__()
        self.update({**dict(zip(self.fields(), values, strict=False)), **named})

    @classmethod
    def fields(cls) -> tuple[str, ...]:
        """Names of all fields, set or not."""
        return tuple(cls.__dataclass_fields__)

    def coerce(self, name: str, value: Any) -> Any:
        """Check or convert a value before it is stored in field ``name``."""
        return value

    def present(self, name: str) -> bool:
        """Whether what is there under a key is more than an empty container."""
        return name in self.required or name not in self.__dataclass_fields__ or not _empty(self[name])

    @property
    def own(self) -> dict[str, Any]:
        """The user's own keys."""
        return {key: value for key, value in self.items() if key not in self.__dataclass_fields__}

    def shown(self) -> list[str]:
        """Keys of what is set: fields in their order, then the user's own."""
        return [key for key in (*(f for f in self.fields() if f in self), *self.own) if self.present(key)]

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in self.__dataclass_fields__:
            if not self.free or difflib.get_close_matches(key, self.fields(), 1, TYPO):
                refuse_key(self, key, self.fields())
        elif value is None or (isinstance(value, str) and not value):
            self.pop(key, None)
            return
        else:
            value = self.coerce(key, value)
        super().__setitem__(key, value)

    def __missing__(self, key: str) -> Any:
        field = self.__dataclass_fields__.get(key)
        if field is None:
            refuse_key(self, key, {*self.fields(), *self})
        if field.default_factory is dataclasses.MISSING:
            raise MetadataKeyError(
                f"metadata key {key!r} is not set yet", node=place(self), remedy="run the pass that fills it first"
            )
        return getattr(self, key)

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):
            refuse_key(self, name, self.fields())
        object.__setattr__(self, name, value)


_UNSET = object()


class _Field:
    """A field as an attribute: its value, or the default of one that is not set."""

    def __init__(self, field: dataclasses.Field[Any]) -> None:
        self.name, self.default, self.factory = field.name, field.default, field.default_factory

    def __get__(self, record: Record | None, owner: type[Record]) -> Any:
        if record is None:
            return self
        found = record.get(self.name, _UNSET)
        if found is not _UNSET:
            return found
        if self.factory is dataclasses.MISSING:
            return self.default
        # It becomes part of the record, so that what is put into it is not lost.
        made = record._placed(self.name, record.coerce(self.name, self.factory()))
        dict.__setitem__(record, self.name, made)
        return made

    def __set__(self, record: Record, value: Any) -> None:
        record[self.name] = value


@dataclass_transform(eq_default=False, field_specifiers=(dataclasses.field,))
def record(cls: type[R]) -> type[R]:
    """Make the annotations of a class, written as of a dataclass, the fields of a :class:`Record`."""
    made = dataclasses.dataclass(init=False, eq=False, repr=False)(cls)
    cls.__dataclass_fields__ = {field.name: field for field in dataclasses.fields(made)}
    for name, field in cls.__dataclass_fields__.items():
        setattr(cls, name, _Field(field))
    return cls


def place(branch: Branch) -> str:
    """Where a branch is, as ``fc1: common.args``."""
    if not branch._at:
        return type(branch).__name__
    owner, *keys = branch._at
    dotted = ".".join(keys) or "metadata"
    return f"{owner}: {dotted}" if owner else dotted


def refuse_key(branch: Branch, key: object, known: Iterable[str]) -> NoReturn:
    """Raise the error of a key that does not exist."""
    raise MetadataKeyError(
        f"metadata has no key {key!r}",
        node=place(branch),
        got=repr(key),
        remedy=suggest(str(key), known) or "nothing is recorded here; run the pass that fills it first",
    )


def _empty(value: Any) -> bool:
    if isinstance(value, Record):
        return not value.shown()
    return isinstance(value, dict | list) and not value


def plain(value: Any) -> Any:
    """Plain nested dicts of a branch or dict; leaves are returned as they are, lists as copies."""
    if isinstance(value, Record):
        return {key: plain(value[key]) for key in value.shown()}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, list) else value


def same(a: Any, b: Any) -> bool:
    """Equality of plain trees that may hold tensors (whose ``==`` is elementwise)."""
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        both = isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)
        return a is b or (both and a.dtype == b.dtype and torch.equal(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return bool(a == b)
