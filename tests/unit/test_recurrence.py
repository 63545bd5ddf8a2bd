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
from mase_hw.numerics import carrier, magnitude
from mase_hw.opdef import Arithmetic, Case
from mase_hw.ops.recurrent._cells import Cell

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
@pytest.mark.parametrize("kind", [*GATES, "lstm with cells", "gru beyond int64"])
def test_against_integers(kind: str, begins: bool, rounding: Rounding, wraps: bool) -> None:
    kind, cells, wide = kind.split()[0], kind.endswith("cells"), kind.endswith("int64")
    generator = torch.Generator().manual_seed(11)
    units, times, gates = 3, 5, GATES[kind]
    f = {
        "data_in_0": FixedFormat(62, 60) if wide else FixedFormat(14, 10),
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
        return torch.randint(low, high + 1, shape, generator=generator).to(carrier(magnitude(fmt)))

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


GRU = Arithmetic.read("s14.10 s8.6 s8.7 bias=s9.15 gate=s6.3", ("data_in_0", "weight", "data_out_0"), {"kind": "gru"})


def test_stored_tables() -> None:
    """Each word is the function at the number whose bits are its address."""
    hardware, unsigned, signed = default_catalogue()["recurrence"].hardware, FixedFormat(8, 8, False), FixedFormat(8, 7)
    assert hardware is not None
    a = Arithmetic.read(
        "s14.10 s8.6 s8.7 gate=s6.3 cell=s13.11", ("data_in_0", "weight", "data_out_0"), {"kind": "lstm"}
    )
    stored = hardware.memories(a)
    for name, function, source, target in (
        ("SIGMOID_FILE", sigmoid, FixedFormat(6, 3), unsigned),
        ("TANH_FILE", math.tanh, FixedFormat(6, 3), signed),
        ("CELL_TANH_FILE", math.tanh, FixedFormat(12, 10), signed),
    ):
        codes = [code - (code >> (source.width - 1) << source.width) for code in range(1 << source.width)]
        values = [function(Fraction(code) / 2**source.frac_width) for code in codes]
        wanted = [rounded(value, target, Rounding.HALF_EVEN) * 2**target.frac_width % 256 for value in values]
        assert list(stored.pop(name).words) == wanted
    assert not stored


def test_layers_at_once() -> None:
    """Weights, biases and tables of their own for every index of the first dimension give what each gives alone."""
    torch.manual_seed(4)
    shapes = {"data_in_0": (3, 2, 4, 6), "weight": (3, 6, 2), "bias": (3, 2)}
    t = {name: torch.randint(-60, 60, shape).float() for name, shape in shapes.items()}
    entries = torch.randint(-128, 128, (3, 64)).float()
    found, _ = Cell(GRU, t, {"TANH_FILE": entries.flatten()}).run(t)
    for index, wanted in enumerate(found):
        alone = {name: value[index] for name, value in t.items()}
        assert torch.equal(Cell(GRU, alone, {"TANH_FILE": entries[index]}).run(alone)[0], wanted)


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
