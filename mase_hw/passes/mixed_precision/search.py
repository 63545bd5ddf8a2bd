"""Bisection over a whole number, with the contract of AFE's ``binary_search``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import ConfigError, SearchError

T = TypeVar("T")
Tell = Callable[[str], object]

MIXED_PRECISION_SEARCH_LIMIT = 20
"""Halvings that a search may take; enough for a million values."""


@dataclass(frozen=True)
class BinarySearchState(Generic[T]):
    """Where a search stands.

    Args:
        lo: Largest number known to fail, or the lower end while none is.
        hi: Smallest number known to succeed.
        hi_value: What came with ``hi``.
        iteration: Halvings so far.
    """

    lo: int
    hi: int
    hi_value: T
    iteration: int = 0

    @property
    def finished(self) -> bool:
        """Whether nothing is left between what fails and what succeeds."""
        return self.hi - self.lo <= 1

    @property
    def middle(self) -> int:
        """The number to try next."""
        return (self.lo + self.hi) // 2

    def after(self, succeeded: bool, value: T) -> BinarySearchState[T]:
        """The state once the middle was tried."""
        if succeeded:
            return BinarySearchState(self.lo, self.middle, value, self.iteration + 1)
        return BinarySearchState(self.middle, self.hi, self.hi_value, self.iteration + 1)


def binary_search(
    get_result: Callable[[int], tuple[bool, T]],
    lo: int,
    hi: int,
    limit: int = MIXED_PRECISION_SEARCH_LIMIT,
    procedure_name: str | None = None,
    *,
    progress: Tell | None = None,
    check_monotonic: bool = False,
) -> T | None:
    """The value that belongs to the smallest number within limits that succeeds.

    The procedure is assumed to be monotonic: if it succeeds with a number, then with every larger one. If it does not,
    the number found succeeds still, but need not be the smallest; and of two procedures one of which succeeds wherever
    the other does, it finds no larger number (with the same limits).

    Both ends are tried, ``hi`` first; then there are at most ``min(limit, ceil(log2(hi - lo)))`` halvings. No number is
    tried twice.

    Args:
        get_result: Whether a number succeeds, and a value to be returned if it is the one.
        lo: Smallest number to try.
        hi: Largest number to try.
        limit: Halvings at most; then the smallest number known to succeed is the one.
        procedure_name: What is being searched, for progress and errors; with None nothing is printed.
        progress: Told after every call of the procedure what was tried and what is left; if None, that is printed.
        check_monotonic: Try every number within the limits and refuse a procedure that is not monotonic.

    Returns:
        The value, or None if no number that was tried succeeds.

    Raises:
        ConfigError: If the limits are no whole numbers or in the wrong order, or the procedure does not return a pair
            that begins with a bool.
        SearchError: If ``check_monotonic`` finds a number that succeeds below one that does not.
    """
    tell = progress or ((lambda _: None) if procedure_name is None else print)
    procedure_name = procedure_name or "binary search"
    _check(lo, hi, limit, procedure_name)
    known: dict[int, tuple[bool, T]] = {}

    def tried(number: int, first: int, last: int) -> tuple[bool, T]:
        if number not in known:
            known[number] = _pair(get_result(number), procedure_name)
            said = "satisfied" if known[number][0] else "not satisfied"
            tell(f"{procedure_name}: {number} {said} (searching {first} to {last})")
        return known[number]

    if check_monotonic:
        _monotonic([number for number in range(lo, hi + 1) if tried(number, lo, hi)[0]], hi, procedure_name)
    top, bottom = tried(hi, lo, hi), tried(lo, lo, hi)
    if bottom[0]:
        return bottom[1]
    if not top[0]:
        return None
    state = BinarySearchState(lo, hi, top[1])
    while not state.finished and state.iteration < limit:
        state = state.after(*tried(state.middle, state.lo + 1, state.hi))
    return state.hi_value


def _pair(given: Any, procedure_name: str) -> tuple[bool, Any]:
    """What a procedure returned, if it is what it should be: a pair would be true whatever it says."""
    if not (isinstance(given, tuple | list) and len(given) == 2 and _is_bool(given[0])):
        raise ConfigError(
            f"{procedure_name}: the procedure does not say whether a number succeeds",
            field="get_result",
            got=f"{type(given).__name__} {given!r:.60}",
            expected="a pair: whether it succeeds (a bool), and the value to return if it is the one",
            remedy="return (score >= target, score), for example",
        )
    return bool(given[0]), given[1]


def _is_bool(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.dtype is torch.bool and value.numel() == 1
    return isinstance(value, bool | np.bool_)


def _monotonic(satisfied: list[int], hi: int, procedure_name: str) -> None:
    if satisfied and satisfied != list(range(satisfied[0], hi + 1)):
        raise SearchError(
            f"{procedure_name}: the procedure is not monotonic",
            node=procedure_name,
            got="satisfied by " + ", ".join(map(str, satisfied)),
            expected=f"satisfied by every value from {satisfied[0]} to {hi}",
            remedy="search all values instead of bisecting, or leave out check_monotonic to accept a value that "
            "satisfies but may not be the smallest",
        )


def _check(lo: int, hi: int, limit: int, procedure_name: str) -> None:
    for name, value in (("lo", lo), ("hi", hi), ("limit", limit)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(
                f"{procedure_name}: a limit is no whole number", field=name, got=repr(value), expected="an int"
            )
    if lo > hi:
        raise ConfigError(
            f"{procedure_name}: the limits are in the wrong order",
            field="lo, hi",
            got=f"{lo}, {hi}",
            expected="lo <= hi",
        )
    if limit < 0:
        raise ConfigError(
            f"{procedure_name}: the number of halvings is negative",
            field="limit",
            got=limit,
            expected="0 or more",
        )
