"""The gradient of goldens whose exact sums need 64-bit integers, which carry none: that of the real function.

By the chain rule in Python's fractions: the derivative of the exact value, times the LSBs of input and output;
none where the output saturates.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.formats import FixedFormat, Overflow, Rounding

# Aligned sums of the former, and products of the latter, need more than 53 bits.
SUMMED = {"data_in_0": FixedFormat(52, 38), "data_in_1": FixedFormat(48, 42)}
MULTIPLIED = {"data_in_0": FixedFormat(30, 24), "data_in_1": FixedFormat(32, 28)}
OUT = FixedFormat(24, 13)
CATALOGUE = default_catalogue()

# The exact value of an element and its derivatives.
Derivatives = Callable[[Fraction, Fraction], tuple[Fraction, Fraction, Fraction]]
ONE, NONE = Fraction(1), Fraction(0)
BINARY: dict[str, Derivatives] = {
    "add": lambda x, y: (x + y, ONE, ONE),
    "sub": lambda x, y: (x - y, ONE, -ONE),
    "mul": lambda x, y: (x * y, y, x),
    "div": lambda x, y: (x / y, 1 / y, -x / y**2),
    "minimum": lambda x, y: (x, ONE, NONE) if x < y else (y, NONE, ONE),
    "maximum": lambda x, y: (x, ONE, NONE) if x > y else (y, NONE, ONE),
}


def leaf(fmt: FixedFormat, *shape: int) -> Tensor:
    """Mantissas all over a format, as floats that want a gradient."""
    values = torch.randint(fmt.min_mantissa, fmt.max_mantissa, shape, dtype=torch.int64)
    return values.double().requires_grad_()


def real(mantissas: Tensor, fmt: FixedFormat) -> list[Fraction]:
    """What mantissas stand for."""
    return [Fraction(int(m)) / Fraction(2) ** fmt.frac_width for m in mantissas.reshape(-1).tolist()]


def inside(value: Fraction, overflow: Overflow) -> bool:
    """Whether the gradient passes: everywhere, if the output wraps."""
    places = value * Fraction(2) ** OUT.frac_width
    return overflow is Overflow.WRAP or OUT.min_mantissa <= places <= OUT.max_mantissa


def close(got: Tensor | None, wanted: list[Fraction], fmt: FixedFormat) -> None:
    """Compare with derivatives of the real function, from mantissa to mantissa."""
    assert got is not None
    scale = Fraction(2) ** (OUT.frac_width - fmt.frac_width)
    expected = torch.tensor([float(d * scale) for d in wanted], dtype=torch.float64)
    torch.testing.assert_close(got.reshape(-1), expected, rtol=1e-9, atol=0)
    assert expected.any(), "the gradient would be zero everywhere"


@pytest.mark.parametrize("overflow", Overflow, ids=lambda o: o.name)
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str, overflow: Overflow) -> None:
    torch.manual_seed(1)
    wide = MULTIPLIED if name == "mul" else SUMMED
    a = Arithmetic({**wide, "data_out_0": OUT}, Rounding.HALF_EVEN, overflow)
    x, y = (leaf(fmt, 60) for fmt in wide.values())
    golden = CATALOGUE[name].golden
    assert golden is not None
    golden(a, {"data_in_0": x, "data_in_1": y})["data_out_0"].sum().backward()
    found = [BINARY[name](p, q) for p, q in zip(*map(real, (x, y), wide.values()), strict=True)]
    passed = [inside(value, overflow) for value, _, _ in found]
    assert all(passed) if overflow is Overflow.WRAP else any(passed)
    for leaf_, fmt, place in ((x, wide["data_in_0"], 1), (y, wide["data_in_1"], 2)):
        close(leaf_.grad, [d[place] * keep for d, keep in zip(found, passed, strict=True)], fmt)


@pytest.mark.parametrize("overflow", Overflow, ids=lambda o: o.name)
def test_mean(overflow: Overflow) -> None:
    torch.manual_seed(5)
    source, golden = FixedFormat(52, 40), CATALOGUE["mean_over"].golden
    assert golden is not None
    x = leaf(source, 20, 3)
    a = Arithmetic({"data_in_0": source, "data_out_0": OUT}, Rounding.FLOOR, overflow, {"dim": 1})
    golden(a, {"data_in_0": x})["data_out_0"].sum().backward()
    values = real(x, source)
    means = [sum(values[at : at + 3], NONE) / 3 for at in range(0, 60, 3) for _ in range(3)]
    close(x.grad, [Fraction(int(inside(mean, overflow)), 3) for mean in means], source)


@pytest.mark.parametrize("first", [0, 12], ids=["once", "twice"])
def test_requantisation(first: int) -> None:
    torch.manual_seed(6)
    source, factor, golden = FixedFormat(40, 29), 12345679, CATALOGUE["requantize"].golden
    assert golden is not None
    x = leaf(source, 40)
    formats = {"data_in_0": source, "multiplier": FixedFormat(30, 0, signed=False), "data_out_0": OUT}
    a = Arithmetic(formats, attributes={"shift": 23, "first": first})
    golden(a, {"data_in_0": x, "multiplier": torch.tensor(factor)})["data_out_0"].sum().backward()
    slope = Fraction(factor, 1 << 23)
    close(x.grad, [slope * inside(value * slope, Overflow.SATURATE) for value in real(x, source)], source)


@pytest.mark.parametrize("overflow", Overflow, ids=lambda o: o.name)
@pytest.mark.parametrize("bias_frac", [20, 50])
def test_affine(overflow: Overflow, bias_frac: int) -> None:
    """Product and bias, whichever has the finer fraction."""
    torch.manual_seed(2)
    formats = {"data_in_0": FixedFormat(30, 24), "weight": FixedFormat(26, 24), "bias": FixedFormat(12, bias_frac)}
    a = Arithmetic({**formats, "data_out_0": OUT}, Rounding.FLOOR, overflow)
    t = {name: leaf(fmt, 40) for name, fmt in formats.items()}
    golden = CATALOGUE["batch_norm1d"].golden
    assert golden is not None
    golden(a, t)["data_out_0"].sum().backward()
    x, w, b = (real(t[name], fmt) for name, fmt in formats.items())
    passed = [inside(p * q + r, overflow) for p, q, r in zip(x, w, b, strict=True)]
    close(t["data_in_0"].grad, [q * keep for q, keep in zip(w, passed, strict=True)], formats["data_in_0"])
    close(t["weight"].grad, [p * keep for p, keep in zip(x, passed, strict=True)], formats["weight"])
    close(t["bias"].grad, [ONE * keep for keep in passed], formats["bias"])


@pytest.mark.parametrize("overflow", Overflow, ids=lambda o: o.name)
@pytest.mark.parametrize("bias_frac", [40, 49])
@pytest.mark.parametrize("shifted", [False, True])
def test_linear(overflow: Overflow, bias_frac: int, shifted: bool) -> None:
    """Rows by weights, with a bias and with a power of two for every output."""
    torch.manual_seed(3)
    formats = {"data_in_0": FixedFormat(30, 24), "weight": FixedFormat(26, 24), "bias": FixedFormat(16, bias_frac)}
    t = {"data_in_0": leaf(formats["data_in_0"], 3, 4), "weight": leaf(formats["weight"], 2, 4)}
    t["bias"] = leaf(formats["bias"], 2)
    powers = [1, 1]
    if shifted:
        formats["weight_shift"] = FixedFormat(2, 0, signed=False)
        t["weight_shift"] = torch.tensor([1.0, 3.0], dtype=torch.float64)
        powers = [2, 8]
    a = Arithmetic({**formats, "data_out_0": OUT}, Rounding.HALF_UP, overflow)
    golden = CATALOGUE["linear"].golden
    assert golden is not None
    golden(a, t)["data_out_0"].sum().backward()
    x, w, b = (real(t[name], formats[name]) for name in ("data_in_0", "weight", "bias"))
    dx, dw, db = [NONE] * 12, [NONE] * 8, [NONE] * 2
    for row in range(3):
        for out in range(2):
            value = sum(x[4 * row + i] * w[4 * out + i] for i in range(4)) * powers[out] + b[out]
            if inside(value, overflow):
                db[out] += 1
                for i in range(4):
                    dx[4 * row + i] += w[4 * out + i] * powers[out]
                    dw[4 * out + i] += x[4 * row + i] * powers[out]
    for name, wanted in (("data_in_0", dx), ("weight", dw), ("bias", db)):
        close(t[name].grad, wanted, formats[name])


@pytest.mark.parametrize("overflow", Overflow, ids=lambda o: o.name)
@pytest.mark.parametrize("transposed", [False, True])
def test_two_matrices(overflow: Overflow, transposed: bool) -> None:
    """Two heads that share a matrix: what both want of it is added."""
    torch.manual_seed(4)
    formats = {"data_in_0": FixedFormat(30, 24), "data_in_1": FixedFormat(26, 24)}
    tokens, heads, inner, results = 2, 2, 3, 4
    x = leaf(formats["data_in_0"], 1, tokens, heads, inner)
    y = leaf(formats["data_in_1"], 1, *((results, 1, inner) if transposed else (inner, 1, results)))
    a = Arithmetic({**formats, "data_out_0": OUT}, Rounding.HALF_UP, overflow, {"transposed": transposed})
    golden = CATALOGUE["grouped_matmul"].golden
    assert golden is not None
    golden(a, {"data_in_0": x, "data_in_1": y})["data_out_0"].sum().backward()
    p, q = real(x, formats["data_in_0"]), real(y, formats["data_in_1"])
    dx, dy = [NONE] * len(p), [NONE] * len(q)
    for vector in range(tokens * heads):
        for result in range(results):
            pairs = [
                (vector * inner + i, result * inner + i if transposed else i * results + result) for i in range(inner)
            ]
            if inside(Fraction(sum(p[i] * q[j] for i, j in pairs)), overflow):
                for i, j in pairs:
                    dx[i] += q[j]
                    dy[j] += p[i]
    close(x.grad, dx, formats["data_in_0"])
    close(y.grad, dy, formats["data_in_1"])


@pytest.mark.parametrize("overflow", Overflow, ids=lambda o: o.name)
def test_linear_recurrence(overflow: Overflow) -> None:
    """What an input adds to a state is what its followers keep of it."""
    torch.manual_seed(7)
    formats = {"data_in_0": FixedFormat(30, 20), "data_in_1": FixedFormat(30, 29), "state": FixedFormat(50, 38)}
    golden, times = CATALOGUE["linear_recurrence"].golden, 6
    assert golden is not None
    x, decay = leaf(formats["data_in_0"], 1, times), leaf(formats["data_in_1"], 1, times)
    a = Arithmetic({**formats, "data_out_0": OUT}, Rounding.HALF_EVEN, overflow)
    golden(a, {"data_in_0": x, "data_in_1": decay})["data_out_0"].sum().backward()
    added, kept = real(x, formats["data_in_0"]), real(decay, formats["data_in_1"])
    state, states, dx, dk = NONE, [NONE], [NONE] * times, [NONE] * times
    for at in range(times):
        state = kept[at] * state + added[at]
        states.append(state)
        share = ONE * inside(state, overflow)
        for of in range(at, -1, -1):
            dx[of] += share
            dk[of] += share * states[of]
            share *= kept[of]
    close(x.grad, dx, formats["data_in_0"])
    close(decay.grad, dk, formats["data_in_1"])
