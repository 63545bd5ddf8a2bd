"""An op case of a regression is the case of the catalogue, attributes included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from mase_hw.catalogue import Case, OpDef, default_catalogue
from mase_hw.ops.unrolled._network import Program, Step
from mase_hw.regress.job import OpCase

WITH_ATTRIBUTES = [
    (op, case)
    for op in default_catalogue()
    if op.hardware is not None
    for case in op.hardware.cases()
    if case.attributes
]


def equal(one: Any, other: Any) -> bool:
    """Whether two attributes are equal; catalogues made at different times have equal tensors, not the same ones."""
    if isinstance(other, torch.Tensor):
        return isinstance(one, torch.Tensor) and torch.equal(one, other)
    if isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in other)
    if isinstance(other, (Program, Step)):
        return type(one) is type(other) and equal(vars(one), vars(other))
    if isinstance(other, tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


@pytest.mark.parametrize(("op", "case"), WITH_ATTRIBUTES, ids=[f"{o.name}-{c.name}" for o, c in WITH_ATTRIBUTES])
def test_attributes_are_those_of_the_case(op: OpDef, case: Case) -> None:
    found = OpCase(op.name, case.name).arithmetic.attributes
    for name, wanted in case.attributes.items():
        assert equal(found[name], wanted), name


def test_what_is_expected_follows_the_attributes() -> None:
    """The case of hardtanh limits to [-2.3, 4.5], not to [-1, 1]: in sixteenths, to the nearest."""
    case = OpCase("hardtanh", "eight_bits")
    assert case.case.attributes == {"min_val": -2.3, "max_val": 4.5}
    tensors = case.stimulus(0)
    (wanted,) = case.expected(tensors).values()
    assert np.array_equal(wanted, np.clip(tensors["data_in_0"], round(-2.3 * 16), round(4.5 * 16)))
