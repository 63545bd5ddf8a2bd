"""Bisection over a whole number, as AFE documents ``binary_search``."""

from __future__ import annotations

from collections.abc import Callable

from mase_hw.errors import ConfigError, SearchError

Tell = Callable[[str], object]


def binary_search(
    procedure: Callable[[int], bool],
    low: int,
    high: int,
    *,
    procedure_name: str = "binary search",
    progress: Tell | None = None,
    max_iterations: int | None = None,
    check_monotonic: bool = False,
) -> int | None:
    """The smallest value within limits that satisfies a procedure.

    The procedure is assumed to be monotonic: if it is satisfied by a value, then by every larger one. If it is not, the
    result still satisfies it, but need not be the smallest. Results are monotonic in the procedure in any case: one
    that is satisfied by more values never yields a larger result (with the same limits).

    ``high`` is tried first, then at most ``ceil(log2(high - low + 1))`` values more; no value is tried twice.

    Args:
        procedure: Whether a value satisfies.
        low: Smallest value to try.
        high: Largest value to try.
        procedure_name: What is being searched, for progress and errors.
        progress: Told after every call of the procedure what was tried and what is left.
        max_iterations: Halvings at most; then the smallest value known to satisfy is the result.
        check_monotonic: Try every value within the limits and refuse a procedure that is not monotonic.

    Returns:
        The value, or None if ``high`` does not satisfy, and thus nothing does.

    Raises:
        ConfigError: If the limits are no whole numbers or in the wrong order, or ``max_iterations`` is not positive.
        SearchError: If ``check_monotonic`` finds a value that satisfies below one that does not.
    """
    _check(low, high, procedure_name, max_iterations)
    tell = progress or (lambda _: None)
    known: dict[int, bool] = {}

    def holds(value: int, first: int, last: int) -> bool:
        if value not in known:
            known[value] = bool(procedure(value))
            said = "satisfied" if known[value] else "not satisfied"
            tell(f"{procedure_name}: {value} {said} (searching {first} to {last})")
        return known[value]

    if check_monotonic:
        satisfied = [value for value in range(low, high + 1) if holds(value, low, high)]
        if satisfied and satisfied != list(range(satisfied[0], high + 1)):
            raise SearchError(
                f"{procedure_name}: the procedure is not monotonic",
                node=procedure_name,
                got="satisfied by " + ", ".join(map(str, satisfied)),
                expected=f"satisfied by every value from {satisfied[0]} to {high}",
                remedy="search all values instead of bisecting, or leave out check_monotonic to accept a value that "
                "satisfies but may not be the smallest",
            )
    if not holds(high, low, high):
        return None
    first, last, halvings = low, high, 0
    while first < last and (max_iterations is None or halvings < max_iterations):
        middle = (first + last) // 2
        if holds(middle, first, last):
            last = middle
        else:
            first = middle + 1
        halvings += 1
    return last


def _check(low: int, high: int, procedure_name: str, max_iterations: int | None) -> None:
    for name, value in (("low", low), ("high", high)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(
                f"{procedure_name}: a limit is no whole number", field=name, got=repr(value), expected="an int"
            )
    if low > high:
        raise ConfigError(
            f"{procedure_name}: the limits are in the wrong order",
            field="low, high",
            got=f"{low}, {high}",
            expected="low <= high",
        )
    if max_iterations is not None and max_iterations < 1:
        raise ConfigError(
            f"{procedure_name}: no iteration is allowed",
            field="max_iterations",
            got=max_iterations,
            expected="1 or more",
        )
