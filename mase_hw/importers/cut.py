"""A part of a model: what is computed up to some of its values, which become its results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TypeVar

from mase_hw.errors import ConfigError, suggest

Node = TypeVar("Node")
Key = TypeVar("Key", bound=Hashable)


def needed(
    nodes: Sequence[Node],
    results: Sequence[Key],
    reads: Callable[[Node], Collection[Key]],
    gives: Callable[[Node], Collection[Key]],
) -> list[Node]:
    """The nodes that results depend on, in their order.

    Args:
        nodes: In the order in which they are computed.
        results: Values.
        reads: The values that a node reads.
        gives: The values that it gives.
    """
    wanted, kept = set(results), []
    for node in reversed(nodes):
        if not wanted.isdisjoint(gives(node)):
            wanted.update(reads(node))
            kept.append(node)
    return kept[::-1]


def refuse_unknown(outputs: Sequence[str], known: Collection[str]) -> None:
    """Refuse names of values that a model does not have.

    Raises:
        ConfigError: Naming all of them.
    """
    missing = [name for name in outputs if name not in known]
    if missing or not outputs:
        raise ConfigError(
            "values that the model does not compute",
            field="outputs",
            got=", ".join(f"{name:.120}" for name in missing) or "none",
            expected="names of values between its nodes, as the file has them",
            remedy=suggest(missing[0], known) if missing else "leave it out to keep the results of the file",
        )
