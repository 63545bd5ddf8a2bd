"""Sorted rows: values and places are those that Python's stable sort gives, whatever the order of equal elements."""

from __future__ import annotations

import pytest
import torch

from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.opdef import Arithmetic
from mase_hw.ops.rows.top import OPS, top_places, top_values


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("count", [1, 4, 9])
def test_order_of_equal_elements(largest: bool, count: int) -> None:
    """Of three values among nine elements; the lower place first."""
    codes = torch.randint(-1, 2, (40, 9), generator=torch.Generator().manual_seed(0)).float()
    wanted = [sorted(range(9), key=lambda i, row=row: -row[i] if largest else row[i])[:count] for row in codes.tolist()]
    fmt, place = FixedFormat(4, 1), FixedFormat(4, 0, signed=False)
    attributes = {"size": 9, "count": count, "largest": largest}
    for op, out in zip(OPS, (FixedFormat(6, 2), place), strict=True):
        a = Arithmetic({"data_in_0": fmt, "data_out_0": out}, Rounding.HALF_EVEN, Overflow.SATURATE, attributes)
        found = op.golden(a, {"data_in_0": codes})["data_out_0"]  # type: ignore[misc]
        places = torch.tensor(wanted)
        assert torch.equal(
            found.double(), (places if op.name == "top_places" else 2 * codes.gather(1, places)).double()
        )
    assert top_places(codes, 9, count, largest).tolist() == wanted
    assert torch.equal(top_values(codes, 9, count, largest), codes.gather(1, torch.tensor(wanted)))
