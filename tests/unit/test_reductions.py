"""Reductions against Python integers and fractions, and the roles of dimensions that they go by."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from mase_hw.catalogue import default_catalogue
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.layouts import Layout
from mase_hw.opdef import Arithmetic
from mase_hw.ops.reductions.reduce import Roles, kept_layout

SOURCE, TARGET = FixedFormat(7, 3), FixedFormat(6, 2)
X = np.random.default_rng(5).integers(-64, 64, (2, 3, 4, 5))
SHAPE = (1, 3, 4, 5)


def to_target(value: Fraction) -> int:
    """Half to even, saturating; ``value`` in units of the source."""
    scaled = value / 2
    return max(TARGET.min_mantissa, min(TARGET.max_mantissa, round(scaled)))


def exact(name: str, values: list[int]) -> int:
    """The result for the elements of one group."""
    if name in ("argmax", "argmin"):
        return values.index(max(values) if name == "argmax" else min(values))
    found = {
        "sum": Fraction(sum(values)),
        "mean_over": Fraction(sum(values), len(values)),
        "amax": Fraction(max(values)),
        "amin": Fraction(min(values)),
    }[name]
    return to_target(found)


@pytest.mark.parametrize("dims", [(1,), (3,), (1, 3), (2, 3), (1, 2, 3)])
@pytest.mark.parametrize("name", ["sum", "mean_over", "amax", "amin", "argmax", "argmin"])
def test_golden(name: str, dims: tuple[int, ...]) -> None:
    place = name.startswith("arg")
    if place and len(dims) > 1:
        return
    x = X // 8 if place else X  # equal values, whose first place counts
    fmt = FixedFormat(4, 0, signed=False) if place else TARGET
    a = Arithmetic({"data_in_0": SOURCE, "data_out_0": fmt}, attributes={"dim": dims, "keepdim": False})
    golden = default_catalogue()[name].golden
    assert golden is not None
    found = golden(a, {"data_in_0": torch.tensor(x, dtype=torch.float32)})["data_out_0"]
    groups = np.moveaxis(x, dims, range(-len(dims), 0)).reshape(
        *[s for d, s in enumerate(x.shape) if d not in dims], -1
    )
    wanted = np.apply_along_axis(lambda group: exact(name, [int(v) for v in group]), -1, groups)
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("dim", [None, (), []])
def test_all_dimensions_if_none_is_named(dim: object) -> None:
    a = Arithmetic({"data_in_0": SOURCE, "data_out_0": TARGET}, attributes={"dim": dim})
    golden = default_catalogue()["mean_over"].golden
    assert golden is not None
    found = golden(a, {"data_in_0": torch.tensor(X, dtype=torch.float32)})["data_out_0"]
    assert found.tolist() == exact("mean_over", [int(v) for v in X.reshape(-1)])


@pytest.mark.parametrize("dim", [1, -1])
def test_running_sum(dim: int) -> None:
    a = Arithmetic({"data_in_0": SOURCE, "data_out_0": TARGET}, attributes={"dim": dim})
    golden = default_catalogue()["cumsum"].golden
    assert golden is not None
    found = golden(a, {"data_in_0": torch.tensor(X, dtype=torch.float32)})["data_out_0"]
    wanted = np.vectorize(lambda total: to_target(Fraction(int(total))))(np.cumsum(X, dim))
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("layout", [Layout.row_major(SHAPE), Layout.channels_last(SHAPE)], ids=["rows", "channels"])
@pytest.mark.parametrize("dims", [(1,), (2,), (3,), (1, 3), (1, 2), (2, 3), (1, 2, 3)])
def test_roles_multiply_to_the_tensor(layout: Layout, dims: tuple[int, ...]) -> None:
    roles = Roles.of(layout, dims)
    assert roles is not None
    assert np.prod(roles.shape) == 60
    assert np.prod(roles.left) * np.prod([SHAPE[d] for d in dims]) == 60
    kept = kept_layout(layout, [s for d, s in enumerate(SHAPE) if d not in dims], dims)
    # Whatever the order: the sum over a stream cut by roles is the stream of the sums.
    streamed = layout.to_stream(X[:1]).reshape(roles.shape)
    reduced = streamed.sum((2, 4) if roles.inner else (1, 3))
    assert reduced.reshape(-1).tolist() == kept.to_stream(X[:1].sum(dims)).reshape(-1).tolist()


def test_too_many_alternations_have_no_roles() -> None:
    assert Roles.of(Layout.row_major((2, 3, 2, 3, 2, 3)), (1, 3, 5)) is None


@pytest.mark.parametrize(
    ("attributes", "field"),
    [({"dim": None}, "dim"), ({"dim": (0, 1)}, "dim"), ({"dim": 1, "dtype": torch.float64}, "dtype")],
)
def test_refused(attributes: dict[str, object], field: str) -> None:
    check = default_catalogue()["sum"].check
    assert check is not None
    with pytest.raises(UnsupportedError) as caught:
        check("total", attributes)
    assert caught.value.field == field and caught.value.node == "total"
