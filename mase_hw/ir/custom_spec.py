"""What an entry of ``custom_ops`` may say, and what is told when it is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mase_hw.errors import ConfigError, suggest

Facet = Callable[..., Any] | None


class CustomOp(BaseModel):
    """One entry; keys beyond these are refused.

    Args:
        name: ``mase_op``; the target's name in snake case if not given.
        args: What every argument is: ``"data_in"`` a stream, ``"parameter"`` a stored tensor, ``"config"`` a whole
            number known when compiling (an attribute of the module, an argument of the function), None nothing for
            hardware. The arguments of ``forward`` without default are ``data_in`` if not given.
        toolchain: ``EXTERNAL``: the files lie in ``root``; ``INTERNAL``: all of them are the package's own.
        module: The SystemVerilog module.
        root: Folder of the files.
        file: File of the module below ``root``; ``<module>.sv`` if not given.
        dependence_files: What it needs, dependencies first: files below ``root`` or of the package (``lib/...``).
        golden: The arithmetic on mantissas; see :class:`mase_hw.catalogue.OpDef`.
        like: Op of the catalogue that gives all facets that are not given.
        default_out: Output format when the configuration gives none.
        check: Refuses attributes the arithmetic does not cover.
        params, build, ports, arithmetic, latency, cases, work, multipliers, follows_input, static, tied: Facets of
            :class:`mase_hw.catalogue.Hardware`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    module: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    golden: Callable[..., Any]
    name: str | None = Field(default=None, pattern=r"^[a-z_][a-z0-9_]*$")
    args: dict[str, Literal["data_in", "parameter", "config"] | None] | None = None
    toolchain: Literal["EXTERNAL", "INTERNAL"] = "EXTERNAL"
    root: Path | None = None
    file: str | None = None
    dependence_files: list[str] = Field(default_factory=list)
    like: str | None = None
    default_out: Facet = None
    check: Facet = None
    params: type[Any] | None = None
    build: Facet = None
    ports: Facet = None
    arithmetic: Facet = None
    latency: Facet = None
    cases: Facet = None
    work: Facet = None
    multipliers: Facet = None
    follows_input: bool | None = None
    static: tuple[str, ...] | None = None
    tied: Facet = None


def read_entry(entry: Mapping[str, Any], where: str) -> CustomOp:
    """Check an entry.

    Raises:
        ConfigError: Lists every key that is missing, unknown or wrong.
    """
    try:
        return CustomOp.model_validate(dict(entry))
    except (ValidationError, TypeError, ValueError) as error:
        if not isinstance(error, ValidationError):
            raise ConfigError("an entry of custom_ops is not a dict", field=where, got=type(entry).__name__) from error
        problems = []
        for problem in error.errors(include_url=False):
            key = str(problem["loc"][0])
            text = {"missing": "missing", "extra_forbidden": f"unknown key; {suggest(key, CustomOp.model_fields)}"}
            shown = f"{problem['msg']} (got {problem.get('input')!r})"[:160]
            problems.append((f"{where}.{'.'.join(map(str, problem['loc']))}", text.get(problem["type"], shown)))
    raise ConfigError(
        "an entry of custom_ops is not complete or not right:\n  " + "\n  ".join(f"{p}: {t}" for p, t in problems),
        field=", ".join(path for path, _ in problems),
        remedy="see docs/custom_ops.md",
    )
