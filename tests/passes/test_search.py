"""Bisection against trying every value."""

from __future__ import annotations

import itertools
import math

import pytest

from mase_hw.errors import ConfigError, SearchError
from mase_hw.passes.mixed_precision import binary_search


@pytest.mark.parametrize("low", [-3, 0, 5])
@pytest.mark.parametrize("size", [1, 2, 3, 8, 13])
def test_the_smallest_value_for_every_threshold(low: int, size: int) -> None:
    high = low + size - 1
    for threshold in range(low, high + 2):
        tried: list[int] = []

        def procedure(value: int, threshold: int = threshold, tried: list[int] = tried) -> bool:
            tried.append(value)
            return value >= threshold

        expected = next((v for v in range(low, high + 1) if v >= threshold), None)
        assert binary_search(procedure, low, high) == expected
        assert len(tried) == len(set(tried)) <= 1 + math.ceil(math.log2(size)) and set(tried) <= {*range(low, high + 1)}


def every_predicate(size: int) -> list[tuple[bool, ...]]:
    return list(itertools.product([False, True], repeat=size))


@pytest.mark.parametrize("iterations", [None, 1, 2])
def test_no_monotonicity_still_satisfies_and_more_never_yields_more(iterations: int | None) -> None:
    """Over all predicates of six values: what is found satisfies, and a weaker predicate finds no larger value."""
    found = {p: binary_search(p.__getitem__, 0, 5, max_iterations=iterations) for p in every_predicate(6)}
    for predicate, value in found.items():
        assert (value is None) == (not predicate[5])
        assert value is None or predicate[value]
    for strict, weak in itertools.product(found, repeat=2):
        if all(w or not s for s, w in zip(strict, weak, strict=True)) and found[strict] is not None:
            assert found[weak] <= found[strict]  # type: ignore[operator]


def test_iterations_are_bounded() -> None:
    tried: list[int] = []
    assert binary_search(lambda v: tried.append(v) or v >= 3, 0, 100, max_iterations=2) == 25
    assert tried == [100, 50, 25]


def test_monotonicity_is_checked_on_request() -> None:
    for predicate in every_predicate(5):
        monotonic = list(predicate) == sorted(predicate)
        if monotonic:
            expected = next((i for i, p in enumerate(predicate) if p), None)
            tried: list[int] = []
            found = binary_search(lambda v, p=predicate, t=tried: t.append(v) or p[v], 0, 4, check_monotonic=True)
            assert found == expected and sorted(tried) == [0, 1, 2, 3, 4], "every value once"
        else:
            with pytest.raises(SearchError, match="my search: the procedure is not monotonic"):
                binary_search(predicate.__getitem__, 0, 4, check_monotonic=True, procedure_name="my search")


def test_progress_names_the_procedure() -> None:
    said: list[str] = []
    binary_search(lambda v: v >= 1, 0, 3, procedure_name="raised nodes", progress=said.append)
    assert said == [
        "raised nodes: 3 satisfied (searching 0 to 3)",
        "raised nodes: 1 satisfied (searching 0 to 3)",
        "raised nodes: 0 not satisfied (searching 0 to 1)",
    ]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"low": 2, "high": 1}, "low, high"),
        ({"low": 0.5, "high": 1}, "low"),
        ({"low": 0, "high": True}, "high"),
        ({"low": 0, "high": 1, "max_iterations": 0}, "max_iterations"),
    ],
)
def test_wrong_limits_are_refused_before_anything_is_tried(arguments: dict[str, int], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        binary_search(lambda v: pytest.fail("called"), **arguments)
    assert caught.value.field == field
