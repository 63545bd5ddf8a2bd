"""What a model accepts, in words, and as a commented file that is read back as the same model."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, NonNegativeInt, StrictInt

from mase_hw.options import REQUIRED, UNSET, accepted, commented_toml, models_below, options_of, toml_key, toml_value


class Mode(IntEnum):
    """An enumeration."""

    HALF_EVEN = 0
    FLOOR = 1


class Inner(BaseModel):
    """A table."""

    width: int | None = Field(default=None, ge=1, le=256, examples=[8], description="bits")
    text: str = Field(default='a "b" \\ c', description="a string with everything that needs care")


class Outer(BaseModel):
    """A model with an option of every kind.

    Other keys are tables of the user.
    """

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [{"mine": {"width": 3}}]})
    __pydantic_extra__: dict[str, Inner]

    needed: float = Field(gt=0, lt=2, description="a number that has no default")
    mode: Mode = Field(default=Mode.FLOOR, description="a mode")
    path: Path | None = Field(
        default=None, validation_alias=AliasChoices("path", "folder"), examples=["x.txt"], description="a file"
    )
    sizes: tuple[int, ...] = Field(default=(1, 2), description="numbers")
    none: dict[str, NonNegativeInt] = Field(default_factory=dict, examples=[{"a.b": 3}], description="a table")
    inner: Inner = Field(default_factory=Inner, description="another model")


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int, "an integer"),
        (bool, "true, false"),
        (float | None, "a number"),
        (str, "a string"),
        (Path, "a path"),
        (Mode, '"half_even", "floor"'),
        (Literal["a", "b"] | None, '"a", "b"'),
        (StrictInt | list[StrictInt], "an integer or a list of integers"),
        (dict[str, NonNegativeInt], "a table of integers, at least 0"),
        (dict[str, dict[str, float]], "a table of tables of numbers"),
        (tuple[str, ...], "a list of strings"),
        (Inner, "a table"),
        (Callable[[int], int] | None, "a function"),
        (type[Any], "a class"),
        (Any, "an object"),
        (set, "a set"),
    ],
)
def test_types_in_words(annotation: Any, words: str) -> None:
    assert accepted(annotation) == words


def test_options() -> None:
    found = {option.name: option for option in options_of(Outer)}
    assert list(found) == ["needed", "mode", "path", "sizes", "none", "inner"]
    assert (found["needed"].default, found["needed"].accepts) == (REQUIRED, "a number, above 0, below 2")
    assert (found["mode"].default, found["path"].default, found["none"].default) == ('"floor"', UNSET, UNSET)
    assert found["path"].also == ("folder",) and found["sizes"].default == "[1, 2]" and found["inner"].default == ""
    assert options_of(Inner)[0].accepts == "an integer, at least 1, at most 256"
    assert list(models_below(Outer)) == [Outer, Inner]


@pytest.mark.parametrize("value", [True, 3, -1.5, 'a "b" \\ ü', [1, 2], {"a.b": {"c": [True]}}, ["x", "y"]])
def test_values_are_read_back(value: Any) -> None:
    assert tomllib.loads(f"key = {toml_value(value)}") == {"key": value}


@pytest.mark.parametrize("key", ["plain", "with-dash_1", "a.b", "ü", "", "two words"])
def test_keys_are_read_back(key: str) -> None:
    assert tomllib.loads(f"{toml_key(key)} = 1") == {key: 1}


def test_the_file_is_the_model() -> None:
    model = Outer(needed=1.5)
    text = commented_toml(model, "What this is.")
    assert text.startswith("# What this is.\n\n") and all(len(line) <= 100 for line in text.splitlines())
    read = Outer.model_validate(tomllib.loads(text) | {"mode": Mode.FLOOR})
    assert read.model_dump() == model.model_dump()
    assert tomllib.loads(text)["mode"] == "floor" and "width" not in tomllib.loads(text)["inner"]


def test_what_has_no_default_is_an_example() -> None:
    lines = commented_toml(Outer(needed=1), "Top.").splitlines()
    for line in ('#path = "x.txt"', "#[none]", '#"a.b" = 3', "#width = 8", "#[mine]", "#width = 3"):
        assert line in lines, line
    assert "# Other keys are tables of the user." in lines and "# A file. Values: a path." in lines
    bare = "\n".join(line[1:] if line.startswith("#") and line[1:2].strip() else line for line in lines)
    assert tomllib.loads(bare)["mine"] == {"width": 3} and tomllib.loads(bare)["none"] == {"a.b": 3}
