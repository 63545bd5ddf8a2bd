"""What every pass has in common: validated arguments, a declared place in the order, a record."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError

from mase_hw.errors import ConfigError, GraphError, PassOrderError, suggest
from mase_hw.ir.graph import MaseGraph
from mase_hw.options.describe import models_in
from mase_hw.passes.names import PASS_NAMES

Info = dict[str, Any]
"""What a pass reports; can be written as JSON. A pass that may find nothing to do says so: ``modified`` is false."""


class PassArgs(BaseModel):
    """Base of the arguments of a pass: unknown keys are refused, values are not changed after validation."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class NoArgs(PassArgs):
    """A pass without arguments."""


A = TypeVar("A", bound=BaseModel)
Body = Callable[[MaseGraph, A], tuple[MaseGraph, Info]]


class GraphPass(Generic[A]):
    """A pass: called with a graph and its arguments as a dict, it returns the graph and what it found.

    Args:
        name: The pass's name, in messages and in ``graph.completed``.
        body: The work; gets validated arguments.
        args: Model of the arguments.
        needs: Passes that must have run; of a tuple of them, any one. Those of this package by name, others as they
            are: a name that no pass has would be needed forever.
        gives: Names of further passes whose work this one does as well.
        invalidates: Passes whose results do not hold any more after this one has changed something; ``"*"`` for all
            others.

    Raises:
        ConfigError: If ``needs`` or ``invalidates`` names no pass.
    """

    def __init__(
        self,
        name: str,
        body: Body[A],
        args: type[A],
        needs: tuple[Named | tuple[Named, ...], ...] = (),
        gives: tuple[str, ...] = (),
        invalidates: tuple[Named, ...] = (),
    ) -> None:
        functools.update_wrapper(self, body)
        self.name = name
        self.body = body
        self.args = args
        self.gives = (name, *gives)
        self.needs = tuple(tuple(map(self._name, n)) if isinstance(n, tuple) else self._name(n, "needs") for n in needs)
        self.invalidates = tuple(n if n == "*" else self._name(n, "invalidates") for n in invalidates)

    def __call__(self, graph: MaseGraph, pass_args: Mapping[str, object] | A | None = None) -> tuple[MaseGraph, Info]:
        """Run the pass.

        Raises:
            GraphError: If ``graph`` is not a MaseGraph.
            ConfigError: If the arguments are wrong; lists every problem with its path.
            PassOrderError: If a pass that this one needs has not run; names it.
        """
        if not isinstance(graph, MaseGraph):
            raise GraphError(
                f"{self.name} works on a MaseGraph",
                got=type(graph).__name__,
                remedy="make one with MaseGraph(model); what works on modules is quantize_module_transform_pass",
            )
        args = validate(self.name, self.args, pass_args)
        lacking = self.lacks(graph.completed)
        if lacking:
            raise self.too_early(self.name, lacking, graph.completed)
        graph, info = self.body(graph, args)
        graph.meta["passes"] = self.completed_after(graph.completed, modified=changed(info))
        return graph, info

    def __repr__(self) -> str:
        return f"<pass {self.name}>"

    def lacks(self, completed: Sequence[str]) -> tuple[str, ...]:
        """Passes of which one must still run, because none has; those of the first such need, or none."""
        for need in self.needs:
            options = (need,) if isinstance(need, str) else need
            if not set(options) & set(completed):
                return options
        return ()

    def too_early(self, what: str, lacking: Sequence[str], completed: Sequence[str]) -> PassOrderError:
        """The error of this pass, or a step with it, where one of those that it needs has not run."""
        return PassOrderError(
            f"{what} needs the result of {' or '.join(lacking)}",
            node=self.name,
            got=f"passes run so far: {', '.join(completed) or 'none'}",
            remedy=f"run {lacking[0]} first",
        )

    def completed_after(self, completed: Sequence[str], *, modified: bool = True) -> list[str]:
        """Passes whose results hold after this one has run.

        Args:
            completed: Those whose results held before.
            modified: Whether it changed anything; if not, it invalidates nothing.
        """
        outdated = set(self.invalidates) if modified else set()
        kept = [p for p in completed if p not in self.gives and p not in outdated and "*" not in outdated]
        return [*kept, *self.gives]

    def _name(self, other: Named, field: str = "needs") -> str:
        """The name of another pass."""
        if isinstance(other, GraphPass):
            return other.name
        if other in PASS_NAMES or other in self.gives:
            return other
        raise ConfigError(
            f"{self.name} names a pass that does not exist",
            node=self.name,
            field=field,
            got=other,
            expected="the name of a pass of this package, or a pass",
            remedy=f"{suggest(other, sorted(PASS_NAMES))}; give a pass of your own itself, in place of its name",
        )


Named = str | GraphPass[Any]
"""A pass, by name if it is one of this package."""


def changed(info: Any) -> bool:
    """Whether a step changed the network, by its report; one that says nothing of it may have, a mere result not."""
    return isinstance(info, Mapping) and bool(info.get("modified", True))


def graph_pass(
    name: str,
    *,
    args: type[A],
    needs: tuple[Named | tuple[Named, ...], ...] = (),
    gives: tuple[str, ...] = (),
    invalidates: tuple[Named, ...] = (),
) -> Callable[[Body[A]], GraphPass[A]]:
    """Make a pass of a function ``(graph, args) -> (graph, info)``; arguments as :class:`GraphPass`."""

    def decorate(body: Body[A]) -> GraphPass[A]:
        return GraphPass(name, body, args, needs, gives, invalidates)

    return decorate


def validate(where: str, model: type[A], given: Mapping[str, object] | A | None) -> A:
    """Check arguments against their model; the caller's dict is never changed.

    Args:
        where: Name of the pass or file, for the message.
        model: The pydantic model; should refuse unknown keys.
        given: A dict, an instance of the model, or None for the defaults.

    Raises:
        ConfigError: Lists every problem with its path, what was given, and what was probably meant.
    """
    if isinstance(given, model):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"the arguments of {where} are not a dict", node=where, got=type(given).__name__)
    try:
        made = model.model_validate(dict(given or {}))
    except ValidationError as error:
        found = error.errors(include_url=False)
        # A sequence whose only item was refused is called empty as well, which it is not.
        refused = [p["loc"] for p in found]
        found = [p for p in found if p["type"] != "too_short" or not any(_inside(p["loc"], loc) for loc in refused)]
        problems = [_problem(model, dict(p)) for p in found]
    except RecursionError:
        problems = [("(all)", "nested too deeply")]
    else:
        problems = list(_converted(dict(given or {}), made, ""))
        if not problems:
            return made
    paths = [path for path, _ in problems]
    raise ConfigError(
        f"{len(problems)} problem(s) in the arguments of {where}:\n  "
        + "\n  ".join(f"{path}: {text}" for path, text in problems),
        node=where,
        field=", ".join(paths),
        remedy="correct the keys above and run again",
    )


def _converted(given: Any, made: Any, path: str) -> Iterator[tuple[str, str]]:
    """Numbers and booleans that pydantic made of something else: ``true`` is no width, and neither is ``"8"``."""
    if isinstance(made, BaseModel) and isinstance(given, Mapping):
        made = {**{name: getattr(made, name) for name in type(made).model_fields}, **(made.__pydantic_extra__ or {})}
    if isinstance(made, Mapping) and isinstance(given, Mapping):
        for key, value in given.items():
            if key in made:
                yield from _converted(value, made[key], f"{path}.{key}" if path else str(key))
    elif isinstance(made, list | tuple) and isinstance(given, list | tuple) and len(made) == len(given):
        for index, value in enumerate(given):
            yield from _converted(value, made[index], f"{path}.{index}")
    elif isinstance(made, int | float) and not isinstance(made, Enum):
        wanted = "a boolean" if isinstance(made, bool) else "a whole number" if isinstance(made, int) else "a number"
        if isinstance(made, int) and made.bit_length() > 64:
            yield path, "has more than 64 bits"
        elif isinstance(given, str) or isinstance(given, bool) != isinstance(made, bool):
            yield path, f"should be {wanted} (got {_shown(given)})"
        elif isinstance(given, float) and isinstance(made, int):
            yield path, f"should be {wanted}, without a point (got {_shown(given)})"


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, or of nested tables
        return f"a {type(value).__name__} beyond reason"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _inside(outer: tuple[Any, ...], inner: tuple[Any, ...]) -> bool:
    return len(inner) > len(outer) and inner[: len(outer)] == outer


def _problem(model: type[BaseModel], problem: dict[str, Any]) -> tuple[str, str]:
    path = ".".join(str(p) for p in problem["loc"]) or "(all)"
    kind, shown = problem["type"], _shown(problem.get("input"))
    if kind == "extra_forbidden":
        known = _fields_at(model, problem["loc"][:-1])
        return path, f"unknown key; {suggest(str(problem['loc'][-1]), known) or 'no keys are known here'}"
    if kind == "missing":
        return path, "missing"
    return path, f"{problem['msg']} (got {shown})"


def _fields_at(model: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    """Keys that exist at a path; dict keys, list indices and union labels on it name no field."""
    here: list[type[BaseModel]] = [model]
    for step in loc:
        fields = [m.model_fields[step].annotation for m in here if step in m.model_fields]
        # A model that takes keys of the user's own says what they hold.
        fields += [
            get_type_hints(m).get("__pydantic_extra__")
            for m in here
            if step not in m.model_fields and m.model_config.get("extra") == "allow"
        ]
        if fields:
            here = [m for annotation in fields for m in models_in(annotation)] or here
    return sorted({name for m in here for name in m.model_fields})
