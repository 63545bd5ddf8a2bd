"""The exact product, in every carrier, against Python integers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat
from mase_hw.numerics import quantize
from mase_hw.numerics.exact_sums import exact_linear, exact_matmul, ranges_within, reduced_matmul

Matrix = list[list[int]]


def product(x: Matrix, w: Matrix) -> Matrix:
    return [[sum(a * b for a, b in zip(row, column, strict=True)) for column in w] for row in x]


@st.composite
def matrices(draw: st.DrawFn) -> tuple[Matrix, Matrix, int]:
    """Matrices of up to 31-bit numbers whose sums fit 63 bits, and a bound on every partial sum."""
    inner, rows, columns = draw(st.integers(1, 9)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    bits_x = draw(st.sampled_from([1, 4, 8, 11, 24, 30, 40, 50]))
    bits_w = draw(st.integers(1, 59 - bits_x))

    def matrix(height: int, bits: int) -> Matrix:
        number = st.one_of(st.sampled_from([-(2**bits), 2**bits - 1, 0, -1]), st.integers(-(2**bits), 2**bits))
        return draw(st.lists(st.lists(number, min_size=inner, max_size=inner), min_size=height, max_size=height))

    return matrix(rows, bits_x), matrix(columns, bits_w), inner * 2**bits_x * 2**bits_w


@settings(max_examples=150)
@given(case=matrices())
def test_product(case: tuple[Matrix, Matrix, int]) -> None:
    x, w, bound = case
    found = exact_linear(torch.tensor(x), torch.tensor(w), bound)
    assert [[int(v) for v in row] for row in found.tolist()] == product(x, w)
    transposed = torch.tensor(w).T
    assert [[int(v) for v in row] for row in exact_matmul(torch.tensor(x), transposed, bound).tolist()] == product(x, w)
    for dtype, limit in ((torch.float32, 2**24), (torch.float64, 2**53)):
        if bound <= limit:
            assert torch.equal(exact_linear(torch.tensor(x).to(dtype), torch.tensor(w).to(dtype), bound), found)


def test_long_sums_at_the_edge_of_int64() -> None:
    """A thousand products of 26 bits by 26 bits, all of one sign, and one that cancels them."""
    x = [[2**26 - 1] * 1024, [-(2**26)] * 1023 + [2**26]]
    w = [[2**26] * 1024, [2**26 - 1, -(2**26)] * 512]
    assert exact_linear(torch.tensor(x), torch.tensor(w), 1024 * 2**52).tolist() == product(x, w)


def test_leading_dimensions() -> None:
    x = torch.randint(-(2**30), 2**30, (2, 3, 4, 5))
    w = torch.randint(-(2**30), 2**30, (7, 5))
    found = exact_linear(x, w, 5 * 2**60)
    assert found.shape == (2, 3, 4, 7) and found.dtype == torch.int64
    assert found.reshape(24, 7).tolist() == product(x.reshape(24, 5).tolist(), w.tolist())


def test_leading_dimensions_of_both() -> None:
    """Beyond float64 too, and where one of them is broadcast to the other."""
    x = torch.randint(-(2**30), 2**30, (2, 3, 4, 5))
    y = torch.randint(-(2**30), 2**30, (2, 1, 5, 6))
    found = exact_matmul(x, y, 5 * 2**60)
    assert found.shape == (2, 3, 4, 6)
    for batch in range(2):
        for head in range(3):
            assert found[batch, head].tolist() == product(x[batch, head].tolist(), y[batch, 0].T.tolist())


def test_too_wide_is_refused_by_name() -> None:
    with pytest.raises(FormatError, match=r"(?s)widest carrier.*fc1"):
        exact_linear(torch.ones(1, 2), torch.ones(1, 2), 2**126, name="fc1")


@pytest.fixture(params=["highest", "high", "medium"])
def precision(request: pytest.FixtureRequest) -> Iterator[str]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(request.param)
    yield request.param
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_neither_autocast_nor_reduced_precision_changes_a_bit(precision: str, half: torch.dtype) -> None:
    torch.manual_seed(1)
    x, w = torch.randint(-(2**10), 2**10, (9, 15)).float(), torch.randint(-(2**10), 2**10, (5, 15)).float()
    expected = product(x.long().tolist(), w.long().tolist())
    bound = 15 * 2**20
    assert exact_linear(x, w, bound).tolist() == exact_matmul(x, w.T, bound).tolist() == expected
    with torch.autocast("cpu", dtype=half):
        assert exact_linear(x, w, bound).tolist() == expected
        assert exact_linear(x.long(), w.long(), 2**60).tolist() == expected
        assert exact_matmul(x, w.T, bound).tolist() == expected


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_the_golden_of_linear_too(precision: str, half: torch.dtype) -> None:
    golden = default_catalogue()["linear"].golden
    assert golden is not None
    formats = {"data_in_0": FixedFormat(9, 4), "weight": FixedFormat(9, 8), "bias": FixedFormat(12, 15)}
    a = Arithmetic({**formats, "data_out_0": FixedFormat(20, 12)})
    torch.manual_seed(2)
    t = {
        name: quantize(torch.randn(shape), formats[name])
        for name, shape in (("data_in_0", (6, 33)), ("weight", (7, 33)), ("bias", (7,)))
    }
    x, w, b = (t[name].long().tolist() for name in ("data_in_0", "weight", "bias"))
    # Products have 12 fraction bits, the bias 15: aligned to 15, then down to 12, half to even.
    sums = [[(v << 3) + b[i] for i, v in enumerate(row)] for row in product(x, w)]
    expected = [[(s + 3 + (s >> 3 & 1)) >> 3 for s in row] for row in sums]
    with torch.autocast("cpu", dtype=half):
        assert golden(a, t)["data_out_0"].tolist() == expected


def test_a_library_that_does_not_answer_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch refuses to be asked by its older API what was set by its newer one; then float64 is used."""

    def refuse() -> str:
        raise RuntimeError("mix of the legacy and new APIs")

    assert not reduced_matmul()
    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    assert reduced_matmul()
    found = exact_linear(torch.tensor([[3.0]]), torch.tensor([[5.0]]), 15)
    assert found.dtype == torch.float64 and found.tolist() == [[15.0]]


@pytest.mark.parametrize("used", [None, [3, 0]])
def test_ranges_are_as_long_as_the_limit_allows(used: list[int] | None) -> None:
    """Against a loop that adds channel by channel and begins anew where one more is too much."""
    draw = random.Random(7)
    for channels in (1, 2, 5, 9):
        reach = [[draw.randint(0, 6) for _ in range(channels)] for _ in range(2)]
        begins, sums = [0], used or [0, 0]
        for at in range(channels):
            more = [total + row[at] for total, row in zip(sums, reach, strict=True)]
            if max(more) > 9:
                begins, more = [*begins, at], [row[at] for row in reach]
            sums = more
        before = None if used is None else torch.tensor(used, dtype=torch.float64)
        found = ranges_within(torch.tensor(reach, dtype=torch.float64), 9, before)
        assert found == [slice(a, b) for a, b in itertools.pairwise([*begins, channels])]
