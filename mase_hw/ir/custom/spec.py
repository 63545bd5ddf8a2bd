"""What an entry of ``custom_ops`` may say, and what is told when it is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mase_hw.errors import ConfigError, suggest
from mase_hw.host.user_code import user_code
from mase_hw.opdef import OpDef

Facet = Callable[..., Any] | None
CustomOps = Mapping[str, Mapping[Any, "OpDef | Mapping[str, object]"]]
"""``{"modules": {class: entry}, "functions": {function: entry}}``; see :class:`CustomOp` for an entry."""


class CustomOp(BaseModel):
    """One entry; keys beyond these are refused. Hardware facets that are not given come from the op of ``like``."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    module: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="name of the SystemVerilog module")
    golden: Callable[..., Any] = Field(description="the arithmetic on mantissas")
    name: str | None = Field(
        default=None,
        pattern=r"^[a-z_][a-z0-9_]*$",
        description="``mase_op``: the op in metadata and configuration; None for the class or function in snake case",
    )
    args: dict[str, Literal["data_in", "parameter", "config"] | None] | None = Field(
        default=None,
        description="kind of every argument, see below; None: the arguments of ``forward`` without default are "
        "``data_in``",
    )
    toolchain: Literal["EXTERNAL", "INTERNAL", "HLS"] = Field(
        default="EXTERNAL",
        description="``EXTERNAL`` for files of your own, ``INTERNAL`` for files of the package only, ``HLS`` for C++",
    )
    root: Path | None = Field(default=None, description="folder of your files; ``EXTERNAL`` and ``HLS`` need it")
    file: str | None = Field(
        default=None,
        description="file of the module below ``root``; None for ``<module>.sv``, of ``HLS`` for ``<module>.h``",
    )
    dependence_files: list[str] = Field(
        default_factory=list,
        description="more files of yours that the module needs, dependencies first, below ``root``",
    )
    rtl: str = Field(
        default="hls_rtl", description="of ``HLS``: folder below ``root`` with the RTL of the tool, one for each node"
    )
    stand_in: str | None = Field(
        default=None,
        description="of ``HLS``: file of a module below ``root`` that stands for the RTL of the tool where that is not "
        "there",
    )
    like: str | None = Field(
        default=None, description="op of the catalogue that gives every facet of the hardware which is not given here"
    )
    default_out: Facet = Field(
        default=None,
        description="output format if the configuration gives none, from those of the inputs; None for one from what "
        "was observed, which suits every op whose results may leave the range of its inputs",
    )
    check: Facet = Field(default=None, description="refuses attributes that the arithmetic does not cover")
    params: type[Any] | None = Field(
        default=None, description="record of the SystemVerilog parameters, or a frozen dataclass of them"
    )
    build: Facet = Field(default=None, description="makes the parameters for a node, or refuses it")
    ports: Facet = Field(default=None, description="the streams of the module")
    arithmetic: Facet = Field(default=None, description="reads formats and cast modes back from the parameters")
    latency: Facet = Field(default=None, description="the timing of the module")
    cases: Facet = Field(default=None, description="parameter sets for the tests of the catalogue; no cases if None")
    work: Facet = Field(default=None, description="multiply-accumulates per frame")
    multipliers: Facet = Field(default=None, description="multipliers the module instantiates")
    follows_input: bool | None = Field(default=None, description="the output has as many lanes as the input")
    static: tuple[str, ...] | None = Field(default=None, description="input streams that come from a memory")
    tied: Facet = Field(default=None, description="ports without a stream, and what an instance ties them to")


@dataclass(frozen=True)
class _Users:
    """A user's function; what it raises names the user's line.

    Args:
        function: The function.
        field: Which facet it is.
    """

    function: Callable[..., Any]
    field: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with user_code("a function of a custom op failed", ConfigError, field=self.field):
            return self.function(*args, **kwargs)


def _is_users(facet: Any) -> bool:
    own = str(getattr(facet, "__module__", None)).split(".")[0] == "mase_hw"
    return callable(facet) and not isinstance(facet, type) and not own


def read_entry(entry: Mapping[str, object], where: str) -> CustomOp:
    """Check an entry.

    Raises:
        ConfigError: Lists every key that is missing, unknown or wrong.
    """
    try:
        made = CustomOp.model_validate(dict(entry))
        facets = {name: getattr(made, name) for name in CustomOp.model_fields}
        return made.model_copy(update={n: _Users(f, f"{where}.{n}") for n, f in facets.items() if _is_users(f)})
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
