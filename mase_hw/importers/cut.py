"""What is read of a model: its file, and what is computed up to some of its values, which become its results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from pathlib import Path
from typing import TypeVar

from mase_hw.errors import ConfigError, suggest

Node = TypeVar("Node")
Key = TypeVar("Key", bound=Hashable)
MOST_BYTES = 1 << 31
"""Bytes of a file: what a FlatBuffer can hold, and a message of protocol buffers."""


def whole_file(path: Path, remedy: str | None = None) -> bytes:
    """The bytes of a file.

    Args:
        path: The file.
        remedy: What to do about one that is too large.

    Raises:
        ConfigError: If it cannot be read, or is too large.
    """
    try:
        there = path.is_file()
        data = path.read_bytes() if there and path.stat().st_size < MOST_BYTES else None
    except (OSError, ValueError) as error:
        raise ConfigError("the file cannot be read", node=f"{path!s:.300}", got=str(error)) from error
    if data is None:
        raise ConfigError(
            "a file of 2 GB or more" if there else "there is no such file",
            node=f"{path!s:.300}",
            remedy=remedy if there else None,
        )
    return data


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
