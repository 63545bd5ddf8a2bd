"""Bisection against trying every value, and against the contract it has from AFE."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

from mase_hw.errors import ConfigError, SearchError
from mase_hw.passes.mixed_precision import MIXED_PRECISION_SEARCH_LIMIT, BinarySearchState, binary_search


@pytest.mark.parametrize("low", [-3, 0, 5])
@pytest.mark.parametrize("size", [1, 2, 3, 8, 13])
def test_the_smallest_value_for_every_threshold(low: int, size: int) -> None:
    high = low + size - 1
    for threshold in range(low, high + 2):
        tried: list[int] = []

        def get_result(value: int, threshold: int = threshold, tried: list[int] = tried) -> tuple[bool, str]:
            tried.append(value)
            return value >= threshold, f"value of {value}"

        expected = next((f"value of {v}" for v in range(low, high + 1) if v >= threshold), None)
        assert binary_search(get_result, low, high) == expected
        assert {low, high} <= set(tried) <= {*range(low, high + 1)}
        assert len(tried) == len(set(tried)) <= 2 + math.ceil(math.log2(max(1, high - low)))


def every_predicate(size: int) -> list[tuple[bool, ...]]:
    return list(itertools.product([False, True], repeat=size))


@pytest.mark.parametrize("limit", [20, 1, 2])
def test_no_monotonicity_still_satisfies_and_more_never_yields_more(limit: int) -> None:
    """Over all predicates of six values: what is found satisfies, and a weaker predicate finds no larger value."""
    found = {p: binary_search(lambda n, p=p: (p[n], n), 0, 5, limit) for p in every_predicate(6)}
    for predicate, value in found.items():
        assert (value is None) == (not predicate[5] and not predicate[0])
        assert value is None or predicate[value]
    for strict, weak in itertools.product(found, repeat=2):
        if all(w or not s for s, w in zip(strict, weak, strict=True)) and found[strict] is not None:
            assert found[weak] <= found[strict]  # type: ignore[operator]


def test_steps_are_bounded_and_the_ends_are_always_tried() -> None:
    for limit, expected, numbers in ((0, 100, [100, 0]), (2, 25, [100, 0, 50, 25]), (3, 12, [100, 0, 50, 25, 12])):
        tried: list[int] = []
        assert binary_search(lambda v, t=tried: (t.append(v) or v >= 3, v), 0, 100, limit) == expected
        assert tried == numbers
    tried = []
    assert binary_search(lambda v: (tried.append(v) or False, v), 0, 100) is None
    assert tried == [100, 0]
    count = []
    binary_search(lambda v: (count.append(v) or v > 2**29, v), 0, 2**30)
    assert len(count) == 2 + MIXED_PRECISION_SEARCH_LIMIT == 22


def test_a_value_that_is_false_is_a_value() -> None:
    assert binary_search(lambda v: (v >= 2, 0.0), 0, 5) == 0.0
    assert binary_search(lambda v: (torch.tensor(v) >= 2, v), 0, 5) == 2


@pytest.mark.parametrize("wrong", [True, 3, None, (1, 2), (True,), (True, 1, 2), "ab", (torch.ones(2) > 0, 1)])
def test_a_procedure_that_does_not_say_whether_it_succeeds(wrong: Any) -> None:
    """A pair is true whatever it says, so nothing but a pair that begins with a bool is taken."""
    with pytest.raises(ConfigError) as caught:
        binary_search(lambda _: wrong, 0, 5)
    assert caught.value.field == "get_result"


def test_monotonicity_is_checked_on_request() -> None:
    for predicate in every_predicate(5):
        monotonic = list(predicate) == sorted(predicate)
        tried: list[int] = []

        def get_result(value: int, p: Any = predicate, tried: list[int] = tried) -> tuple[bool, int]:
            tried.append(value)
            return p[value], value

        if monotonic:
            expected = next((i for i, p in enumerate(predicate) if p), None)
            assert binary_search(get_result, 0, 4, check_monotonic=True) == expected
            assert sorted(tried) == [0, 1, 2, 3, 4], "every value once"
        else:
            with pytest.raises(SearchError, match="my search: the procedure is not monotonic"):
                binary_search(get_result, 0, 4, check_monotonic=True, procedure_name="my search")


def test_progress_names_the_procedure() -> None:
    said: list[str] = []
    binary_search(lambda v: (v >= 1, v), 0, 3, procedure_name="raised nodes", progress=said.append)
    assert said == [
        "raised nodes: 3 satisfied (searching 0 to 3)",
        "raised nodes: 0 not satisfied (searching 0 to 3)",
        "raised nodes: 1 satisfied (searching 1 to 3)",
    ]


def test_a_state_says_what_is_left() -> None:
    state = BinarySearchState(0, 8, "eight")
    assert (state.middle, state.finished) == (4, False)
    assert state.after(True, "four") == BinarySearchState(0, 4, "four", 1)
    assert state.after(False, "four") == BinarySearchState(4, 8, "eight", 1)
    assert BinarySearchState(4, 5, "five").finished


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"lo": 2, "hi": 1}, "lo, hi"),
        ({"lo": 0.5, "hi": 1}, "lo"),
        ({"lo": 0, "hi": True}, "hi"),
        ({"lo": 0, "hi": 1, "limit": -1}, "limit"),
    ],
)
def test_wrong_limits_are_refused_before_anything_is_tried(arguments: dict[str, int], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        binary_search(lambda v: pytest.fail("called"), **arguments)
    assert caught.value.field == field
