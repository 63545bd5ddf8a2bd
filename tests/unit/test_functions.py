"""Functions of one value against mpmath: tables over every code, piecewise ones to 1 LSB."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from mpmath import mp, mpf

from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledFormat
from mase_hw.nn import Quantized
from mase_hw.numerics import dequantize, quantize
from mase_hw.ops._functions import FUNCTIONS, codes, key_of, values
from mase_hw.ops._piecewise import BUDGET, GUARD, MAX_SEGMENTS, _Octave, evaluate, fit

mp.prec = 200
INFINITY = mpf("inf")


SCALE, ALPHA = mpf("1.0507009873554804934193349852946"), mpf("1.6732632423543772848170429916717")


def phi(x: mpf) -> mpf:
    """The normal distribution, to full relative precision also far below zero."""
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def softplus(x: mpf, beta: float = 1.0, threshold: float = 20.0) -> mpf:
    return x if x * beta > threshold else mpmath.log1p(mpmath.exp(x * beta)) / beta


# By the definitions in PyTorch's documentation; nothing here is shared with the package.
ORACLE: dict[str, Callable[..., mpf]] = {
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "tanh": mpmath.tanh,
    "elu": lambda x, alpha=1.0: x if x > 0 else alpha * mpmath.expm1(x),
    "selu": lambda x: SCALE * (x if x > 0 else ALPHA * mpmath.expm1(x)),
    "celu": lambda x, alpha=1.0: max(x, 0) + min(mpf(0), alpha * mpmath.expm1(x / alpha)),
    "gelu": lambda x, approximate="none": (
        x * phi(x)
        if approximate == "none"
        # (1 + tanh u) / 2 would cancel to nothing far below zero.
        else x / (1 + mpmath.exp(-2 * mpmath.sqrt(2 / mp.pi) * (x + mpf("0.044715") * x**3)))
    ),
    "silu": lambda x: x / (1 + mpmath.exp(-x)),
    "mish": lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))),
    "hardswish": lambda x: x * min(max(x + 3, mpf(0)), mpf(6)) / 6,
    "softplus": softplus,
    "softsign": lambda x: x / (1 + abs(x)),
    "logsigmoid": lambda x: -mpmath.log1p(mpmath.exp(-x)),
    "tanhshrink": lambda x: x - mpmath.tanh(x),
    "exp": mpmath.exp,
    "reciprocal": lambda x: 1 / x if x else INFINITY,
    "sqrt": lambda x: mpmath.sqrt(max(x, mpf(0))),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x) if x > 0 else INFINITY,
    "log": lambda x: mpmath.log(x) if x > 0 else -INFINITY,
    "erf": mpmath.erf,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "exp2": lambda x: mpmath.power(2, x),
    "log2": lambda x: mpmath.log(x, 2) if x > 0 else -INFINITY,
    "pow": lambda x, exponent: x**exponent,
    # Of numbers of 0 and more; below it stays what it is at 0.
    "inverse_power": lambda x, scale=1.0, offset=1.0, exponent=0.75: mpmath.power(
        offset + scale * max(x, mpf(0)), -exponent
    ),
}
every_function = pytest.mark.parametrize("name", ORACLE)
ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "elu": [{}, {"alpha": 0.3}],
    "celu": [{}, {"alpha": 1.7}],
    "gelu": [{}, {"approximate": "tanh"}],
    "softplus": [{}, {"beta": 3.0}],
    "pow": [{"exponent": 3}],
}
PERIODIC, REACH = ("sin", "cos"), 2048.0
"""Functions that piecewise arithmetic takes within this magnitude, and refuses for formats that reach much further."""


def refused(name: str, a: Arithmetic) -> bool:
    """Whether a function has too many periods; then the golden says so."""
    source = a.formats["data_in_0"]
    if name not in PERIODIC or source.width <= 12 or source.max_value < REACH:
        return False
    with pytest.raises(FormatError):
        computed(name, a, torch.zeros(1))
    return True


def first(name: str) -> dict[str, Any]:
    return ATTRIBUTES.get(name, [{}])[0]


def rounded(value: Fraction, mode: Rounding) -> int:
    """A number to an integer, by the rule's name."""
    below = value.numerator // value.denominator
    rest = value - below
    if mode is Rounding.HALF_EVEN:
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1)
    elif mode is Rounding.HALF_UP:
        up = rest >= Fraction(1, 2)
    elif mode is Rounding.HALF_AWAY:
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and value > 0)
    else:
        up = mode is Rounding.TRUNC and value < 0 and rest > 0
    return below + int(up)


def exact(value: mpf) -> Fraction:
    """The float64 nearest to a number, which is what tables are made from."""
    return Fraction(float(value))


def oracle(name: str, code: int, a: Arithmetic) -> int:
    """The mantissa of the exactly rounded result, in Python integers."""
    source, target = a.formats["data_in_0"], a.formats["data_out_0"]
    value = ORACLE[name](mpf(code) * mpf(2) ** -source.frac_width, **a.attributes)
    if abs(value) > mpf(2) ** 1000:
        return target.max_mantissa if value > 0 else target.min_mantissa
    result = rounded(exact(value) * Fraction(2) ** target.frac_width, a.rounding)
    if a.overflow is Overflow.SATURATE:
        return min(max(result, target.min_mantissa), target.max_mantissa)
    result %= 1 << target.width
    return result - (1 << target.width) if result > target.max_mantissa else result


def arithmetic(
    source: FixedFormat,
    target: FixedFormat,
    rounding: Rounding = Rounding.HALF_EVEN,
    overflow: Overflow = Overflow.SATURATE,
    attributes: Mapping[str, Any] | None = None,
) -> Arithmetic:
    return Arithmetic({"data_in_0": source, "data_out_0": target}, rounding, overflow, attributes or {})


def computed(name: str, a: Arithmetic, mantissas: torch.Tensor) -> list[int]:
    golden = default_catalogue()[name].golden
    assert golden is not None
    return golden(a, {"data_in_0": mantissas})["data_out_0"].to(torch.int64).tolist()


def all_codes(fmt: FixedFormat) -> torch.Tensor:
    return torch.arange(fmt.min_mantissa, fmt.max_mantissa + 1)


U8, S8, S12 = FixedFormat(8, 7, signed=False), FixedFormat(8, 4), FixedFormat(12, 8)


@every_function
@pytest.mark.parametrize(
    ("source", "target", "rounding"),
    [
        (S8, FixedFormat(8, 5), Rounding.HALF_EVEN),
        (S8, U8, Rounding.HALF_UP),
        (FixedFormat(6, 6, signed=False), FixedFormat(16, 12), Rounding.TRUNC),
        (FixedFormat(5, -1), FixedFormat(9, 2), Rounding.FLOOR),
        (S12, FixedFormat(12, 8), Rounding.HALF_EVEN),
    ],
    ids=str,
)
def test_tables(name: str, source: FixedFormat, target: FixedFormat, rounding: Rounding) -> None:
    """Every code, equal to the last bit."""
    for attributes in ATTRIBUTES.get(name, [{}])[: None if source.width <= 8 else 1]:
        a = arithmetic(source, target, rounding, attributes=attributes)
        inputs = all_codes(source)
        assert computed(name, a, inputs) == [oracle(name, code, a) for code in inputs.tolist()]


@pytest.mark.parametrize("name", ["tanh", "exp", "softsign", "gelu"])
def test_tables_wrap(name: str) -> None:
    a = arithmetic(S8, FixedFormat(6, 5), Rounding.FLOOR, Overflow.WRAP)
    assert computed(name, a, all_codes(S8)) == [oracle(name, code, a) for code in all_codes(S8).tolist()]


WIDE = [
    (FixedFormat(16, 8), FixedFormat(16, 8), Rounding.HALF_EVEN),
    (FixedFormat(16, 12), FixedFormat(16, 12), Rounding.HALF_UP),
    (FixedFormat(16, 10), FixedFormat(16, 14), Rounding.FLOOR),
    (FixedFormat(16, 11), FixedFormat(8, 4), Rounding.TRUNC),
    (FixedFormat(16, 16, signed=False), FixedFormat(18, 13), Rounding.HALF_EVEN),
    (FixedFormat(13, 9), FixedFormat(12, 12, signed=False), Rounding.HALF_EVEN),
    (FixedFormat(16, 4), FixedFormat(16, 6), Rounding.HALF_EVEN),
]


@every_function
@pytest.mark.parametrize(("source", "target", "rounding"), WIDE, ids=str)
def test_piecewise(name: str, source: FixedFormat, target: FixedFormat, rounding: Rounding) -> None:
    """Every code within 1 LSB of the exactly rounded result; half modes within 3/4 of the function itself."""
    for attributes in ATTRIBUTES.get(name, [{}]):
        a = arithmetic(source, target, rounding, attributes=attributes)
        if refused(name, a):
            continue
        key, inputs = key_of(name, a), all_codes(source)
        result = torch.tensor(computed(name, a, inputs), dtype=torch.float64)
        real = values(name, attributes, inputs, source) * 2.0**target.frac_width
        limited = real.clamp(target.min_mantissa, target.max_mantissa)
        steps = {Rounding.FLOOR: torch.floor, Rounding.TRUNC: torch.trunc}.get(rounding, torch.round)
        nearest = steps(limited)
        assert (result - nearest).abs().max() <= 1
        plan = fit(key)
        assert plan.exhaustive and plan.worst <= BUDGET and plan.segments <= MAX_SEGMENTS
        if rounding in (Rounding.HALF_EVEN, Rounding.HALF_UP):
            assert (result - limited).abs().max() <= 0.5 + plan.worst
        # The float64 that all this is measured against, at random codes.
        for code in random.Random(name).sample(inputs.tolist(), 40):
            assert abs(computed(name, a, torch.tensor([code]))[0] - oracle(name, code, a)) <= 1


@every_function
def test_wider_still(name: str) -> None:
    """24 bits, sampled: no code is more than 1 LSB off."""
    a = arithmetic(FixedFormat(24, 14), FixedFormat(24, 14), attributes=first(name))
    if refused(name, a):
        return
    picks = random.Random(name)
    inputs = [picks.randrange(-(1 << bits), 1 << bits) for bits in range(1, 24) for _ in range(12)]
    results = computed(name, a, torch.tensor(inputs))
    assert max(abs(got - oracle(name, code, a)) for got, code in zip(results, inputs, strict=True)) <= 1


@every_function
def test_the_memory_of_a_table_is_the_table(name: str) -> None:
    """Words as wide as an output, at the bits of every input code; both widths differ."""
    source, target = FixedFormat(6, 2), FixedFormat(9, 3)
    a = arithmetic(source, target, attributes=first(name))
    hardware = default_catalogue()[name].hardware
    assert hardware is not None
    (stored,) = hardware.memories(a).values()
    inputs = all_codes(source)
    assert stored.bits == 9 and len(stored.words) == 64 and all(0 <= word < 512 for word in stored.words)
    read = [stored.words[code % 64] for code in inputs.tolist()]
    assert [word - 512 if word > 255 else word for word in read] == computed(name, a, inputs)


@every_function
def test_the_memories_are_the_arithmetic(name: str) -> None:
    """What the hardware does with the words of its memories, in Python integers, is what the golden computes."""
    for source, target, rounding in WIDE:
        a = arithmetic(source, target, rounding, attributes=first(name))
        if refused(name, a):
            continue
        hardware = default_catalogue()[name].hardware
        assert hardware is not None
        words = {key: memory.words for key, memory in hardware.memories(a).items()}
        plan = fit(key_of(name, a))
        inputs = random.Random(name).sample(all_codes(source).tolist(), 60)
        expected = computed(name, a, torch.tensor(inputs))
        assert [piece(code, a, words, plan.widths, plan.step, plan.frac, plan.segments) for code in inputs] == expected


def piece(
    code: int,
    a: Arithmetic,
    words: Mapping[str, tuple[int, ...]],
    widths: tuple[int, ...],
    step: int,
    frac: int,
    n: int,
) -> int:
    """One value as in ``fixed_piecewise.sv``."""
    source, target = a.formats["data_in_0"], a.formats["data_out_0"]
    bits = (source.width - int(source.signed)).bit_length()
    magnitude = ~code if code < 0 else code
    octave = words["OCTAVE_FILE"][(int(code < 0) << bits) | magnitude.bit_length()]
    left_width, address = step.bit_length(), max(1, (n - 1).bit_length())
    base, left = octave >> left_width, octave & ((1 << left_width) - 1)
    place = magnitude << left
    word = words["TABLE_FILE"][((place >> step) + base) % (1 << address)]
    t, c = place % (1 << step), []
    for width in widths:
        c.append(word % (1 << width) - (word % (1 << width) >> (width - 1) << width))
        word >>= width
    total = (c[0] << step) + (c[1] + (c[2] * t >> step)) * t
    result = rounded(Fraction(total) * Fraction(2) ** (target.frac_width - frac - step), a.rounding)
    return min(max(result, target.min_mantissa), target.max_mantissa)


def test_addresses_are_the_bits_of_the_code() -> None:
    assert codes(FixedFormat(3, 1)).tolist() == [0, 1, 2, 3, -4, -3, -2, -1]
    assert codes(FixedFormat(2, 0, signed=False)).tolist() == [0, 1, 2, 3]


@every_function
@pytest.mark.parametrize("source", [S8, FixedFormat(16, 10)], ids=str)
def test_gradient(name: str, source: FixedFormat) -> None:
    """That of the float function where the output is inside its range, none where it saturates, never NaN."""
    op, target = default_catalogue()[name], FixedFormat(8, 4)
    if refused(name, arithmetic(source, target)):
        return
    module = Quantized(op, arithmetic(source, target, attributes=first(name)))
    grid = torch.arange(-40, 41) / 16
    x = grid.clone().requires_grad_()
    module(x).sum().backward()
    assert x.grad is not None and torch.isfinite(x.grad).all()
    y = grid.double().requires_grad_()
    function = next(f for f in FUNCTIONS if f.name == name)
    result = function(y, first(name))
    (wanted,) = torch.autograd.grad(result.sum(), y)
    smooth = torch.isfinite(wanted) & (grid != 0) & (grid > function.domain(first(name))[0])
    inside = smooth & (result >= target.min_mantissa / 16) & (result <= target.max_mantissa / 16)
    assert inside.sum() > 20
    assert torch.allclose(x.grad[inside].double(), wanted[inside], rtol=1e-5, atol=1e-6)
    assert (x.grad[smooth & ~inside] == 0).all()


def test_domains() -> None:
    """Where a function has no value: poles saturate, negative values count as 0."""
    target = FixedFormat(8, 4)
    for width in (8, 16):
        a = arithmetic(FixedFormat(width, 4), target)
        some = torch.tensor([-100, -1, 0])
        assert computed("log", a, some) == [-128, -128, -128]
        assert computed("rsqrt", a, some) == [127, 127, 127]
        assert computed("sqrt", a, some) == [0, 0, 0]
        assert computed("reciprocal", a, some) == [-3, -128, 127]


def test_refused() -> None:
    catalogue = default_catalogue()
    wide = FixedFormat(16, 8)
    with pytest.raises(FormatError, match=r"(?s)saturates.*got: wrap"):
        evaluate(key_of("tanh", arithmetic(wide, wide, overflow=Overflow.WRAP)), torch.tensor([1]))
    with pytest.raises(FormatError, match="infinity cannot wrap"):
        computed("reciprocal", arithmetic(S8, S8, overflow=Overflow.WRAP), torch.tensor([1]))
    with pytest.raises(FormatError, match="too large a memory"):
        fit(key_of("exp", arithmetic(FixedFormat(32, 20), FixedFormat(40, 24))))
    # It is found out once; what one caller adds to the error is not in that of the next.
    for _ in range(2):
        with pytest.raises(FormatError, match="too large a memory") as caught:
            fit(key_of("exp", arithmetic(FixedFormat(32, 20), FixedFormat(40, 24))))
        assert caught.value.node is None
        caught.value.node = "here"
    # A jump that lies between two segments' ends: softplus becomes x where beta * x is above the threshold.
    jump = arithmetic(FixedFormat(18, 18, signed=False), wide, attributes={"beta": 3.0, "threshold": 1.0})
    with pytest.raises(FormatError, match="too large a memory"):
        fit(key_of("softplus", jump))
    for op, attributes, wrong in (
        ("elu", {"alpha": float("nan")}, "finite"),
        ("gelu", {"approximate": "no such"}, "cannot be computed"),
        ("celu", {"alpha": 0.0}, "celu"),
    ):
        check = catalogue[op].check
        assert check is not None
        with pytest.raises(UnsupportedError, match=wrong) as caught:
            check("n", attributes)
        assert caught.value.node == "n"


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "gelu", "silu", "hardswish", "exp", "log"])
def test_scaled_integers_are_looked_up(name: str) -> None:
    """Every code of 8 bits with a real scale and a zero point gives the nearest code, in either family."""
    x = ScaledFormat.make(8, 0.0379, -19)
    for want in (ScaledFormat.make(8, 0.0213, 77, low=-100), FixedFormat(8, 5)):
        a = Arithmetic({"data_in_0": x, "data_out_0": want})
        module = Quantized(default_catalogue()[name], a)
        got = quantize(module(dequantize(codes(x), x)), want).tolist()
        for code, found in zip(codes(x).tolist(), got, strict=True):
            value = mpf(x.scale) * (code + 19)
            exact = -INFINITY if name == "log" and value <= 0 else ORACLE[name](value)
            step = exact / mpf(want.scale)
            nearest = int(mpmath.nint(step)) if mpmath.isfinite(step) else -(10**9)
            assert found == max(want.min_mantissa, min(want.max_mantissa, nearest + want.zero_point))


def test_scaled_integers_wider_than_a_table_are_refused() -> None:
    wide = ScaledFormat.make(13, 0.01)
    with pytest.raises(UnsupportedError, match="at most 12 bits"):
        Quantized(default_catalogue()["tanh"], Arithmetic({"data_in_0": wide, "data_out_0": wide}))


def test_scaled_gradients_are_those_of_the_function() -> None:
    x, y = ScaledFormat.make(8, 0.0379, -19), ScaledFormat.make(8, 0.0213, 77)
    module = Quantized(default_catalogue()["silu"], Arithmetic({"data_in_0": x, "data_out_0": y}))
    at = torch.tensor([-1.0, 0.2, 1.0], requires_grad=True)
    module(at).sum().backward()
    exact = at.detach().clone().requires_grad_()
    torch.nn.functional.silu(exact).sum().backward()
    assert at.grad is not None and exact.grad is not None and torch.allclose(at.grad, exact.grad, atol=0.02)


def test_addresses_are_those_of_all_bits() -> None:
    """Whatever numbers the format leaves out."""
    for fmt in (FixedFormat(3, 0), ScaledFormat.make(3, 0.5, high=1), ScaledFormat.make(3, 0.5, narrow=True)):
        assert codes(fmt).tolist() == [0, 1, 2, 3, -4, -3, -2, -1]


def test_an_octave_that_saturates_is_one_segment() -> None:
    """From 4 to 8 the power of two is above all that the format holds; the octave in front of it leaves no room."""
    target = FixedFormat(10, 5)
    part = _Octave(("exp2", (), FixedFormat(14, 8), target, Rounding.HALF_EVEN, Overflow.SATURATE), 0, 11).split()
    assert part.coefficients.tolist() == [[target.max_mantissa << GUARD], [0], [0]]


def test_the_error_at_the_first_place_of_a_segment_counts() -> None:
    """Of an octave that is sampled, from 1 to 2, with a line added that is largest at the first place of a segment."""
    source, target = FixedFormat(24, 20), FixedFormat(24, 14)
    octave = _Octave(("sigmoid", (), source, target, Rounding.HALF_EVEN, Overflow.SATURATE), 0, 21)
    part = octave.split()
    added = np.array([[1 << (GUARD - 3)], [-1 << (GUARD - 3)], [0]])  # an eighth of an LSB
    begins = 1.0 + np.arange(part.count) * 2.0 ** (part.shift - source.frac_width)
    first = np.abs((part.coefficients + added)[0] / 2.0**GUARD - 2.0**target.frac_width / (1 + np.exp(-begins)))
    assert not octave.exhaustive and part.worst + 0.125 < BUDGET
    assert octave._error(part.shift, part.count, part.coefficients + added, None) >= first.max() - 1e-9
