"""What a model of arguments accepts, as data: tables of the documentation and commented files are made from it.

Every option says what it does in its ``Field(description=...)``. There is no second place for names, defaults, bounds
and meanings, so a table cannot differ from the code that checks the arguments.
"""

from __future__ import annotations

import enum
import json
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

REQUIRED = "required"
UNSET = "none"
"""How a default is shown that stands for nothing: None, or an empty table or list."""

_BOUNDS = {"ge": "at least {}", "gt": "above {}", "le": "at most {}", "lt": "below {}"}


@dataclass(frozen=True)
class Option:
    """One key of a model.

    Args:
        name: The key.
        also: Other names of the key.
        accepts: The values, in words.
        default: The default as TOML writes it, :data:`REQUIRED`, :data:`UNSET`, or nothing for a table of options.
        description: What the option does; a phrase without a period.
        example: A value for an option that has no default, or None.
        value: The default itself; None as well for an option that is required.
    """

    name: str
    also: tuple[str, ...]
    accepts: str
    default: str
    description: str
    example: Any = None
    value: Any = None


def options_of(model: type[BaseModel]) -> list[Option]:
    """Every option of a model, in the order of its definition."""
    return [_option(name, info) for name, info in model.model_fields.items()]


def models_below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model and every model inside it, each once; outer ones first."""
    seen: list[type[BaseModel]] = []
    waiting = [model]
    while waiting:
        here = waiting.pop(0)
        if here not in seen:
            seen.append(here)
            extra = typing.get_type_hints(here).get("__pydantic_extra__")
            for annotation in [*(info.annotation for info in here.model_fields.values()), extra]:
                waiting += models_in(annotation)
    yield from seen


def accepted(annotation: Any, constraints: Iterable[Any] = ()) -> str:
    """The values of a type, in words.

    Args:
        annotation: A type as it stands in a model.
        constraints: What pydantic keeps as ``metadata`` of the field, the bounds of numbers among it.
    """
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return accepted(inner[0], [*constraints, *inner[1:]])
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(accepted(a, constraints) for a in inner if a is not type(None)))
    if origin is Literal:
        return ", ".join(toml_value(value) for value in inner if value is not None)
    if origin is dict:
        return f"a table of {_plural(accepted(inner[1]))}"
    if origin in (list, tuple):
        return f"a list of {_plural(accepted(inner[0]))}"
    if origin is type:
        return "a class"
    if origin is Callable:
        return "a function"
    return _plain(annotation, constraints)


def _plural(words: str) -> str:
    """``an integer, at least 0`` as ``integers, at least 0``; values that are listed stay as they are."""
    kind, comma, rest = words.partition(", ")
    found = " or ".join(re.sub(r"^an? (\w+)", r"\1s", part) for part in kind.split(" or "))
    return f"{found}{comma}{rest}"


def _plain(annotation: Any, constraints: Iterable[Any]) -> str:
    if annotation is Any:
        return "an object"
    if annotation is bool:
        return "true, false"
    if annotation in (int, float):
        words = ["an integer" if annotation is int else "a number"]
        for constraint in constraints:
            words += [
                text.format(f"{getattr(constraint, key):g}")
                for key, text in _BOUNDS.items()
                if hasattr(constraint, key)
            ]
        return ", ".join(words)
    if issubclass(annotation, enum.Enum):
        return ", ".join(toml_value(member) for member in annotation)
    known = {BaseModel: "a table", Path: "a path", str: "a string"}
    return next((words for kind, words in known.items() if issubclass(annotation, kind)), f"a {annotation.__name__}")


def _option(name: str, info: FieldInfo) -> Option:
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    if info.is_required():
        shown = REQUIRED
    elif isinstance(default, BaseModel):
        shown = ""
    elif default is None or default in ((), [], {}):
        shown = UNSET
    else:
        shown = toml_value(default)
    also = getattr(info.validation_alias, "choices", None) or []
    return Option(
        name=name,
        also=tuple(str(other) for other in also if other != name),
        accepts=accepted(info.annotation, info.metadata),
        default=shown,
        description=info.description or "",
        example=info.examples[0] if info.examples else None,
        value=default,
    )


def toml_value(value: Any) -> str:
    """A plain value as TOML writes it; members of an enumeration by their name, paths as text."""
    if isinstance(value, enum.Enum):
        return json.dumps(value.name.lower())
    if isinstance(value, Path):
        return json.dumps(str(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_key(k)} = {toml_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return json.dumps(value)


def toml_key(key: str) -> str:
    """A key as TOML writes it, in quotes where it must be."""
    bare = key.isascii() and key.replace("_", "").replace("-", "").isalnum()
    return key if bare else json.dumps(key)


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that a type is, or that are parts of it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]
