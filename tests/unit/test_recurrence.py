"""The arithmetic of recurrent layers, against Python integers and fractions, one number after the other."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch

from mase_hw.catalogue import default_catalogue
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.nn.recurrence import GATES, linear_recurrence
from mase_hw.opdef import Arithmetic, Case

HALF = Fraction(1, 2)
ROUND = {
    Rounding.HALF_EVEN: round,
    Rounding.HALF_UP: lambda v: math.floor(v + HALF),
    Rounding.HALF_AWAY: lambda v: math.floor(v + HALF) if v >= 0 else math.ceil(v - HALF),
    Rounding.FLOOR: math.floor,
    Rounding.TRUNC: math.trunc,
}


def rounded(value: Fraction | float, fmt: FixedFormat, rounding: Rounding, *, wraps: bool = False) -> Fraction:
    """The number of a format that a value becomes."""
    mantissa = ROUND[rounding](Fraction(value) * Fraction(2) ** fmt.frac_width)
    if wraps:
        held = (mantissa - fmt.min_mantissa) % 2**fmt.width + fmt.min_mantissa
    else:
        held = max(fmt.min_mantissa, min(fmt.max_mantissa, mantissa))
    return Fraction(held) * Fraction(2) ** -fmt.frac_width


def sigmoid(x: Fraction) -> float:
    return 1 / (1 + math.exp(-float(x)))


def step(
    kind: str,
    f: dict[str, FixedFormat],
    modes: tuple[Rounding, bool],
    x: list[Fraction],
    sums: list[Fraction],
    bias: Fraction,
    h: Fraction,
    c: Fraction,
) -> tuple[Fraction, Fraction]:
    """State and cell state of one unit, as PyTorch's manual writes the cells, rounded where a format begins.

    Wraps where the state gets its format and nowhere else.
    """
    rounding, wraps = modes
    out = f["data_out_0"]
    w = out.width
    unsigned, signed = FixedFormat(w, w, signed=False), FixedFormat(w, w - 1)

    def inside(value: Fraction | float, fmt: FixedFormat) -> Fraction:
        return rounded(value, fmt, rounding)

    def state(value: Fraction | float) -> Fraction:
        return rounded(value, out, rounding, wraps=wraps)

    if kind == "rnn_relu":
        return state(max(Fraction(0), x[0] + sums[0])), c
    if kind == "rnn_tanh":
        return state(math.tanh(inside(x[0] + sums[0], f["gate"]))), c

    def gate(k: int) -> Fraction:
        return inside(sigmoid(inside(x[k] + sums[k], f["gate"])), unsigned)

    if kind == "gru":
        r, z = gate(0), gate(1)
        n = inside(math.tanh(inside(x[2] + r * (sums[2] + bias), f["gate"])), signed)
        return state((1 - z) * n + z * h), c
    g = inside(math.tanh(inside(x[2] + sums[2], f["gate"])), signed)
    c = inside(gate(1) * c + gate(0) * g, f["cell"])
    cell = f["cell"]
    bits = min(12, cell.width)
    short = inside(c, FixedFormat(bits, cell.frac_width - cell.width + bits))
    return state(gate(3) * inside(math.tanh(short), signed)), c


@pytest.mark.parametrize(
    ("rounding", "wraps"),
    [
        (mode, wraps)
        for mode in Rounding
        for wraps in (False, True)
        if wraps or mode in (Rounding.HALF_EVEN, Rounding.FLOOR)
    ],
    ids=lambda each: each.name.lower() if isinstance(each, Rounding) else ("wrap" if each else "saturate"),
)
@pytest.mark.parametrize("begins", [False, True], ids=["zeros", "begins"])
@pytest.mark.parametrize("kind", [*GATES, "lstm with cells"])
def test_against_integers(kind: str, begins: bool, rounding: Rounding, wraps: bool) -> None:
    kind, cells = kind.removesuffix(" with cells"), kind.endswith("cells")
    generator = torch.Generator().manual_seed(11)
    units, times, gates = 3, 5, GATES[kind]
    f = {
        "data_in_0": FixedFormat(14, 10),
        "weight": FixedFormat(8, 6),
        "data_out_0": FixedFormat(8, 5, signed=False) if kind == "rnn_relu" else FixedFormat(8, 7),
        "gate": FixedFormat(9, 6),
        "cell": FixedFormat(13, 11),
        "bias": FixedFormat(9, 15),
        "data_in_1": FixedFormat(10, 8),
        "data_in_2": FixedFormat(14, 12, signed=False),
    }
    if cells:
        f |= {"state": f["data_out_0"], "data_out_0": FixedFormat(16, 11)}

    def drawn(fmt: FixedFormat, *shape: int, share: int = 1) -> torch.Tensor:
        low, high = fmt.min_mantissa // share, fmt.max_mantissa // share
        return torch.randint(low, high + 1, shape, generator=generator).to(torch.float32)

    x, weight = (
        drawn(f["data_in_0"], 2, times, units * gates, share=3),
        drawn(f["weight"], units * gates, units, share=2),
    )
    t = {"data_in_0": x, "weight": weight}
    bias = drawn(f["bias"], units)
    if kind == "gru":
        t["bias"] = bias
    first = {"data_in_1": drawn(f["data_in_1"], 2, 1, units)}
    if kind == "lstm":
        first["data_in_2"] = drawn(f["data_in_2"], 2, 1, units).abs()
    t |= first if begins else {}
    op = default_catalogue()["recurrence"]
    assert op.golden is not None
    found = op.golden(Arithmetic(f, rounding, Overflow(wraps), {"kind": kind, "cells": cells}), t)["data_out_0"]
    assert found.shape == (2, times, units * (1 + cells)) and found.unique().numel() > 10
    state = {**f, "data_out_0": f["state"]} if cells else f

    def number(value: torch.Tensor, name: str) -> Fraction:
        return Fraction(int(value)) * Fraction(2) ** -f[name].frac_width

    for sequence in range(2):
        h, c = [Fraction(0)] * units, [Fraction(0)] * units
        if begins:
            given = [number(each, "data_in_1") for each in first["data_in_1"][sequence, 0]]
            h = [rounded(each, state["data_out_0"], rounding, wraps=wraps) for each in given]
        if begins and kind == "lstm":
            given = [number(each, "data_in_2") for each in first["data_in_2"][sequence, 0]]
            c = [rounded(each, f["cell"], rounding) for each in given]
        for at in range(times):
            new = []
            for u in range(units):
                rows = range(u * gates, (u + 1) * gates)
                parts = [number(x[sequence, at, row], "data_in_0") for row in rows]
                sums = [
                    sum((number(weight[row, j], "weight") * h[j] for j in range(units)), Fraction(0)) for row in rows
                ]
                made, c[u] = step(kind, state, (rounding, wraps), parts, sums, number(bias[u], "bias"), h[u], c[u])
                results = found[sequence, at].reshape(units, -1)[u]
                assert [made, c[u]][: 1 + cells] == [number(each, "data_out_0") for each in results], (sequence, at, u)
                new.append(made)
            h = new


@pytest.mark.parametrize("case", default_catalogue()["linear_recurrence"].hardware.cases(), ids=lambda c: c.name)
def test_a_linear_recurrence(case: Case) -> None:
    """State by state, in fractions; the float function by its formula as well."""
    a = Arithmetic.of(case.params)
    wraps = a.overflow is Overflow.WRAP
    generator = torch.Generator().manual_seed(1)
    second = "constant" if case.params.has_constant else "data_in_1"

    def drawn(name: str) -> torch.Tensor:
        fmt, shape = a.formats[name], (4, 1) if name == "constant" else (2, 4, 3)
        return torch.randint(fmt.min_mantissa, fmt.max_mantissa + 1, shape, generator=generator)

    given = {name: drawn(name) for name in ("data_in_0", second)}
    op = default_catalogue()["linear_recurrence"]
    assert op.golden is not None
    carried = {name: value.double() for name, value in given.items()}
    found = op.golden(a, carried)["data_out_0"]
    x, decay = (carried[name] * a.formats[name].scale for name in given)
    floats = linear_recurrence(x, decay)
    given, decay = {name: value.expand(2, 4, 3) for name, value in given.items()}, decay.expand(2, 4, 3)
    for sequence, feature in itertools.product(range(2), range(3)):
        state, exact = Fraction(0), 0.0
        for at in range(4):
            numbers = {
                name: Fraction(int(value[sequence, at, feature])) * Fraction(2) ** -a.formats[name].frac_width
                for name, value in given.items()
            }
            kept = numbers[second] * state + numbers["data_in_0"]
            state = rounded(kept, a.formats["state"], a.rounding, wraps=wraps)
            result = rounded(state, a.formats["data_out_0"], a.rounding, wraps=wraps)
            mantissa = Fraction(int(found[sequence, at, feature]))
            assert mantissa * Fraction(2) ** -a.formats["data_out_0"].frac_width == result
            exact = float(decay[sequence, at, feature]) * exact + float(x[sequence, at, feature])
            assert float(floats[sequence, at, feature]) == pytest.approx(exact)
