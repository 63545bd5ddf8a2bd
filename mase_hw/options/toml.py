"""A commented TOML file from a model of arguments: every option with its meaning, its values and its default.

What has a default is written with it. What has none (a width that is chosen, a table that is empty) is written as an
example behind ``#`` without a space, so that removing one character sets it; comments have a space there.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from mase_hw.options.describe import options_of, toml_key, toml_value

WIDTH = 100
"""Longest line of a comment."""


def commented_toml(config: BaseModel, introduction: str) -> str:
    """The options of a model with the values of one instance, as a file.

    Args:
        config: The values; options that are None or empty become examples.
        introduction: Stands at the top, as a comment.
    """
    lines = [*_comment(introduction), "", *_body(config, ())]
    return "\n".join(lines).rstrip() + "\n"


def _body(config: BaseModel, path: tuple[str, ...]) -> Iterator[str]:
    """Plain options first, as TOML wants it, then the tables."""
    tables: list[str] = []
    for option in options_of(type(config)):
        value = getattr(config, option.name)
        here = (*path, option.name)
        if isinstance(value, BaseModel):
            tables += [*_comment(f"{option.description}."), *_table(value, here)]
        elif value is None or value == {}:
            if isinstance(option.example, Mapping):
                tables += [*_comment(f"{option.description}."), *_example_tables(option.example, here), ""]
            else:
                yield from _comment(f"{option.description}. Values: {option.accepts}.")
                yield f"#{option.name} = {toml_value(option.example)}"
                yield ""
        else:
            yield from _comment(f"{option.description}. Values: {option.accepts}.")
            yield f"{option.name} = {toml_value(value)}"
            yield ""
    yield from tables
    yield from _keys_of_the_user(type(config), path)


def _table(config: BaseModel, path: tuple[str, ...]) -> list[str]:
    body = list(_body(config, path))
    has_plain = any(not isinstance(getattr(config, name), BaseModel) for name in type(config).model_fields)
    return [*([_header(path)] if has_plain else []), *body]


def _keys_of_the_user(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[str]:
    """An example of the keys that a model takes beside its own; its documentation says what they mean."""
    for example in model.model_json_schema().get("examples", ()):
        yield from _comment(inspect.cleandoc(model.__doc__ or "").split("\n\n")[1])
        yield from _example_tables(example, path)
        yield ""


def _example_tables(table: Mapping[str, object], path: tuple[str, ...]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    if plain:
        yield f"#{_header(path)}"
        yield from (f"#{toml_key(key)} = {toml_value(value)}" for key, value in plain.items())
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _example_tables(value, (*path, key))


def _header(path: tuple[str, ...]) -> str:
    return f"[{'.'.join(map(toml_key, path))}]"


def _comment(text: str) -> list[str]:
    text = " ".join(text.replace("``", "").split())
    return [f"# {line}" for line in textwrap.wrap(text[:1].upper() + text[1:], WIDTH - 2)]
