"""Softmax in expressions: every share as Python's fractions have it, of the exponentials that the op has."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from mase_hw.errors import UnsupportedError
from mase_hw.formats.signs import read_format
from mase_hw.numerics import cast
from mase_hw.ops.rows.softmax import SOFTMAX, exponentials
from mase_hw.ops.unrolled._lowering import network_of
from mase_hw.ops.unrolled._network import Program, Step
from tests.unit.test_unrolled_products import step


def shares(row: list[int], layer: Step) -> list[int]:
    """The exact quotients of the exponentials by their sum, cut far below the result with a bit for what is left."""
    a = layer.arithmetic
    plan = exponentials(a, len(row), SOFTMAX)
    table = plan.coarse_table.tolist()
    terms = [table[d] if (d := max(row) - x) < len(table) else 0 for x in row]
    found = []
    for term in terms:
        exact = Fraction(term, sum(terms)) * 2**40
        below = int(exact) * 2 + int(exact.denominator > 1)
        found.append(int(cast(torch.tensor([below]), 41, a.formats["data_out_0"], a.rounding, a.overflow)[0]))
    return found


@pytest.mark.parametrize("result", ["u8.8", "u6.5", "s5.4", "u9.7", "u3.1", "s4.-1"])
@pytest.mark.parametrize("source", ["s5.2", "u6.3", "s7.1"])
def test_shares_are_rounded_once(result: str, source: str) -> None:
    fmt = read_format(source)
    draw = torch.Generator().manual_seed(5)
    layer = step("softmax", f"{source} {result}", (1, 4), dim=1)
    network = network_of(Program((1, 4), fmt, (layer,), 3))
    frames = torch.randint(fmt.min_mantissa, fmt.max_mantissa + 1, (12, 4), generator=draw).tolist()
    frames += [[fmt.min_mantissa] * 4, [fmt.max_mantissa] * 4, [fmt.max_mantissa, *[fmt.min_mantissa] * 3]]
    for frame in frames:
        assert network.evaluate(frame) == shares(frame, layer)


@pytest.mark.parametrize("mode", ["half_even", "half_up", "floor", "trunc", "half_away"])
@pytest.mark.parametrize("overflow", ["saturate", "wrap"])
def test_every_row_of_two(mode: str, overflow: str) -> None:
    """Ties at a half, and shares of 1, which a result without a bit for it cannot be."""
    layer = step("softmax", f"s4.1 u2.2 {mode} {overflow}", (1, 2), dim=1)
    network = network_of(Program((1, 2), read_format("s4.1"), (layer,), 2))
    for row in ([a, b] for a in range(-8, 8) for b in range(-8, 8)):
        assert network.evaluate(row) == shares(row, layer)


@pytest.mark.parametrize("dim", [1, 2])
def test_rows_along_a_dimension(dim: int) -> None:
    """And of one element; as the op's own module has it."""
    for shape in ((1, 3, 4), (1, 1, 3), (1, 3, 1)):
        layer = step("softmax", "s5.2 u7.7", shape, dim=dim)
        given = Program(shape, read_format("s5.2"), (layer,), 3)
        frames = torch.randint(-16, 16, (6, *shape[1:]), generator=torch.Generator().manual_seed(2)).float()
        wanted = given.run(frames).to(torch.int64).reshape(6, -1).tolist()
        assert [network_of(given).evaluate(frame.reshape(-1).int().tolist()) for frame in frames] == wanted


def test_behind_what_is_constant() -> None:
    """A layer whose results are constants, or far above the others, leaves shares that are constants."""
    weight, bias = torch.tensor([[1, 0], [0, 0], [0, 0]]), torch.tensor([0, 3, -70])
    layers = (
        step("linear", "s4.1 s4.0 s8.1 s8.1", (1, 3), weight=weight, bias=bias),
        step("softmax", "s8.1 u6.6", (1, 3), 1, dim=1),
    )
    given = Program((1, 2), read_format("s4.1"), layers, 3)
    frames = torch.tensor([[a, 0] for a in range(-8, 8)]).float()
    wanted = given.run(frames).to(torch.int64).tolist()
    assert [network_of(given).evaluate(frame.int().tolist()) for frame in frames] == wanted


def test_numbers_too_far_apart_are_refused() -> None:
    layer = step("softmax", "s12.4 u8.8", (1, 3), dim=1)
    with pytest.raises(UnsupportedError, match="so far apart") as caught:
        network_of(Program((1, 3), read_format("s12.4"), (layer,), 3))
    assert caught.value.got == "distances of 4096 numbers" and caught.value.node == "softmax"
