"""Tables of options and of passes, from the models that check the arguments."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

from pydantic import BaseModel

import mase_hw
from mase_hw.options import REQUIRED, UNSET, Option, options_of
from mase_hw.passes.analysis.statistics import StatisticsConfig
from mase_hw.passes.base import GraphPass


def modules() -> Iterator[object]:
    """Every module of the package."""
    for info in pkgutil.walk_packages(mase_hw.__path__, "mase_hw."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def models() -> dict[str, type[BaseModel]]:
    """Every model of arguments by name; documents of files are none."""
    found = {}
    for module in modules():
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, BaseModel) and value.__module__.startswith("mase_hw."):
                found[value.__name__] = value
    return {name: model for name, model in found.items() if not name.endswith("Document") and name != "Part"}


def all_passes() -> dict[str, GraphPass[BaseModel]]:
    """Every pass of the package by name."""
    found = [v for module in modules() for v in vars(module).values() if isinstance(v, GraphPass)]
    return {p.name: p for p in sorted(found, key=lambda p: p.name)}


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; vertical bars in cells are escaped."""
    lines = [" | ".join(headings)]
    lines.append("|".join("---" for _ in lines[0].split(" | ")))
    lines += [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    return f"| {lines[0]} |\n|{lines[1]}|\n" + "".join(f"| {line} |\n" for line in lines[2:])


def markdown(text: str) -> str:
    """A docstring's markup as Markdown: single quotes for double ones, roles of Sphinx as plain code."""
    return re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text).replace("``", "`")


def options(name: str, without: str = "") -> str:
    """The options of a model: key, meaning, values and default.

    Args:
        name: Class of the model.
        without: Class whose options are described elsewhere.
    """
    rows = rows_of(models()[name])
    elsewhere = rows_of(models()[without]) if without else []
    return table(("option", "meaning", "values", "default"), [row for row in rows if row not in elsewhere])


def rows_of(model: type[BaseModel]) -> list[list[str]]:
    """The rows of a model's table."""
    return [_row(option) for option in options_of(model)]


def _row(option: Option) -> list[str]:
    keys = " or ".join(f"`{key}`" for key in (option.name, *option.also))
    default = option.default if option.default in (REQUIRED, UNSET, "") else f"`{option.default}`"
    return [keys, markdown(option.description), option.accepts, default]


def passes() -> str:
    """Every pass with its first sentence, what must have run before it and what it outdates; the first ones first."""
    known = all_passes()
    rows = []
    for one in sorted(known.values(), key=lambda p: (_depth(p, known), p.name)):
        needs = ", ".join(" or ".join(map(_short, (n,) if isinstance(n, str) else n)) for n in one.needs)
        drops = ", ".join("all others" if name == "*" else _short(name) for name in one.invalidates)
        does = markdown((inspect.getdoc(one.body) or "").split("\n\n")[0].replace("\n", " "))
        rows.append([f"`{one.name}`", does, needs, drops])
    return table(("pass", "what it does", "needs", "outdates"), rows)


def _depth(one: GraphPass[BaseModel], known: Mapping[str, GraphPass[BaseModel]]) -> int:
    """How many passes must run before this one, at least."""
    by_result = {result: other for other in known.values() for result in other.gives}
    needs = [(n,) if isinstance(n, str) else n for n in one.needs]
    return max((1 + min(_depth(by_result[n], known) for n in any_of) for any_of in needs), default=0)


def _short(name: str) -> str:
    return name.removesuffix("_analysis_pass").removesuffix("_transform_pass")


def statistics() -> str:
    """The options of all statistics; an option that several have stands once."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, info in StatisticsConfig.model_fields.items():
        (model,) = (part for part in get_args(info.annotation) if part is not type(None))
        for option in options_of(model):
            found.setdefault(tuple(_row(option)), []).append(f"`{name}`")
    rows = []
    for (key, *rest), names in found.items():
        rows.append([key, "all" if len(names) == len(StatisticsConfig.model_fields) else ", ".join(names), *rest])
    return table(("option", "of", "meaning", "values", "default"), rows)
