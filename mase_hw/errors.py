"""Every error a user can cause, each carrying where, what was found, what was expected and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, Self

SHOWN = 12
"""Most names that an error lists beside the one that was probably meant."""


class MaseHwError(Exception):
    """Base of all errors raised for a user's input or environment.

    Args:
        message: One sentence that says what is wrong.
        node: Name of the graph node, tensor, file or tool concerned.
        field: Path of the configuration key, attribute or argument concerned.
        got: What was found.
        expected: What would have been accepted.
        remedy: What the user can do about it.
    """

    def __init__(
        self,
        message: str,
        *,
        node: str | None = None,
        field: str | None = None,
        got: Any = None,
        expected: Any = None,
        remedy: str | None = None,
    ) -> None:
        self.message = message
        self.node = node
        self.field = field
        self.got = got
        self.expected = expected
        self.remedy = remedy
        super().__init__(self._render())

    def _render(self) -> str:
        lines = [self.message]
        for label, value in (
            ("where", self.node),
            ("field", self.field),
            ("got", self.got),
            ("expected", self.expected),
            ("what to do", self.remedy),
        ):
            if value is not None:
                lines.append(f"  {label}: {value}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self._render()

    def __copy__(self) -> Self:
        """An error of its own: where ``distributed`` is loaded, ``copy`` would let both share what they carry."""
        other = type(self).__new__(type(self), *self.args)
        other.__dict__.update(self.__dict__)
        return other


class FormatError(MaseHwError, ValueError):
    """A number format that cannot exist, or a value that no fixed-point format can hold (NaN)."""


class ConfigError(MaseHwError, ValueError):
    """A configuration or pass argument that is unknown, missing or of the wrong kind."""


class GraphError(MaseHwError, ValueError):
    """A model that cannot be traced, or a graph that breaks an invariant."""


class MetadataKeyError(MaseHwError, KeyError):
    """A metadata key that does not exist."""


class PassOrderError(MaseHwError):
    """A pass that needs the result of another pass which has not run."""


class UnsupportedError(MaseHwError):
    """An op, an attribute or a shape that is known not to exist in hardware."""


class CatalogueError(MaseHwError):
    """An op definition that is incomplete or contradicts another one. Raised at import."""


class CheckpointError(MaseHwError, ValueError):
    """A graph that a checkpoint cannot hold, or a checkpoint that is not whole or not ours."""


class SearchError(MaseHwError):
    """A search whose target nothing reaches, or whose assumption does not hold."""


class EmitError(MaseHwError):
    """A design that cannot be written: a broken netlist, or a folder that cannot be used."""


class ToolError(MaseHwError):
    """An external tool that is missing, too old or failed."""


class ResourceError(MaseHwError):
    """A design that a device cannot hold, or that synthesis would turn into something else."""


class OutputError(MaseHwError):
    """Something that was to be printed and could not be: a closed pipe, a full device."""


class SimulationError(MaseHwError):
    """A simulation that did not end with a complete and correct comparison."""

    diagnosis: Any = None
    """What a run with probes on every edge showed (``report()``, ``to_json()``), if there was one."""


class MismatchError(SimulationError):
    """Hardware and reference differ in at least one bit."""


class HangError(SimulationError):
    """The design stopped moving before all beats were seen."""


class ResultsError(SimulationError):
    """The simulator's verdict is missing, empty or incomplete, so nothing was proven."""


def suggest(word: str, candidates: Iterable[str]) -> str | None:
    """Return ``did you mean ...?`` for the closest candidate, or the list of all when none is close."""
    known = sorted(set(candidates))
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(known)}" if known else None


def refuse_unknown(
    name: object,
    known: Iterable[str],
    message: str,
    *,
    node: str | None = None,
    field: str | None = None,
    error: type[MaseHwError] = ConfigError,
) -> None:
    """Refuse a name that is not among those that are known, and say which one was probably meant.

    Args:
        name: What was named.
        known: What can be.
        message: What is wrong with any other.
        node: Where it was named.
        field: The key or argument that names it.
        error: The kind of error.

    Raises:
        MaseHwError: If it is none of them.
    """
    known = list(known)
    if name not in known:
        expected = " | ".join(known) if 0 < len(known) <= SHOWN else None
        remedy = suggest(str(name), known)
        raise error(message, node=node, field=field, got=f"{name!s:.80}", expected=expected, remedy=remedy)
