"""What tests draw without a seed is the same in every order of the tests and in every process."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest
import torch

GENERATOR = np.random.default_rng(1)


@pytest.fixture(scope="module", params=["a", "b"])
def drawn(request: pytest.FixtureRequest) -> tuple[str, float, float]:
    return str(request.param), float(torch.rand(())), random.random()


def test_a_fixture(drawn: tuple[str, float, float]) -> None:
    """The first test that needs it is another one in another order."""
    name, a, b = drawn
    number = zlib.crc32(f"tests/hygiene/test_seeds.py:drawn[{'ab'.index(name)}]".encode())
    assert a == float(torch.rand((), generator=torch.Generator().manual_seed(number)))
    assert b == random.Random(number).random()


@pytest.mark.parametrize("before", [1, 2])
def test_a_test(before: int) -> None:
    number = zlib.crc32(f"tests/hygiene/test_seeds.py::test_a_test[{before}]".encode())
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(number)))
    assert np.array_equal(np.random.rand(3), np.random.RandomState(number).rand(3))
    assert np.array_equal(GENERATOR.random(3), np.random.default_rng(number).random(3))
    assert random.random() == random.Random(number).random()
