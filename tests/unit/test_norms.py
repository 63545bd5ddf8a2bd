"""Norms of rows against float64: at most 1 LSB; the reciprocal square root at every code."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledFormat
from mase_hw.numerics import as_carrier, carrier, magnitude
from mase_hw.numerics.wide import WIDE
from mase_hw.opdef import Arithmetic
from mase_hw.ops._piecewise import evaluate, fit, octave_bits
from mase_hw.ops.rows._normalize import check_fits, key_of, normalise, plan_of, precision
from mase_hw.ops.rows.norms import GROUP, LAYER, RMS, _op, golden
from tests.unit.oracle import by_fraction

S8, S16, LONG, LONGER = FixedFormat(8, 4), FixedFormat(16, 11), FixedFormat(32, 20), FixedFormat(46, 30)
AFFINE = [(None, None), (FixedFormat(8, 6), FixedFormat(8, 5)), (FixedFormat(8, 7), None)]


def rows(source: FixedFormat, size: int) -> Tensor:
    """Rows of everything that is awkward: noise, small numbers, all equal, one that differs."""
    torch.manual_seed(size)
    low, high = source.min_mantissa, source.max_mantissa
    outlier, one = torch.full((1, size), low), torch.zeros((1, size), dtype=torch.int64)
    outlier[0, -1], one[0, 0] = high, 1
    noise = [torch.randint(low, high + 1, (9, size)), torch.randint(0, 3, (9, size))]
    return torch.cat([*noise, torch.full((1, size), high), outlier, one])


def reference(kind: str, values: dict[str, Tensor], eps: float, groups: int = 1) -> Tensor:
    x = values["data_in_0"]
    if kind == GROUP:
        return F.group_norm(x, groups, values.get("weight"), values.get("bias"), eps)
    if kind == LAYER:
        return F.layer_norm(x, x.shape[-1:], values.get("weight"), values.get("bias"), eps)
    return F.rms_norm(x, x.shape[-1:], values.get("weight"), eps)


def worst(
    kind: str, source: FixedFormat, target: FixedFormat, x: Tensor, affine: tuple, eps: float, groups: int = 1
) -> float:  # type: ignore[type-arg]
    formats = {"data_in_0": source, "data_out_0": target}
    mantissas, channels = {"data_in_0": x}, x.shape[1 if kind == GROUP else -1]
    for name, fmt in zip(("weight", "bias"), affine, strict=True):
        if fmt is not None and (name == "weight" or kind != RMS):
            formats[name] = fmt
            mantissas[name] = torch.randint(fmt.min_mantissa, fmt.max_mantissa + 1, (channels,))
    a = Arithmetic(formats, attributes={"normalized_shape": x.shape[-1:], "num_groups": groups, "eps": eps})
    out = golden(kind, a, mantissas)["data_out_0"].double()
    values = {name: value.double() * formats[name].scale for name, value in mantissas.items()}
    exact = reference(kind, values, eps, groups) * 2.0**target.frac_width
    return float((out - exact.clamp(target.min_mantissa, target.max_mantissa)).abs().max())


@pytest.mark.parametrize("size", [1, 2, 64, 197])
@pytest.mark.parametrize("kind", [LAYER, RMS])
def test_within_one_lsb(kind: str, size: int) -> None:
    sources = [S8, FixedFormat(8, 4, signed=False), S16, FixedFormat(4, 1)]
    for source, target, affine, eps in itertools.product(
        sources, (S8, FixedFormat(8, 6), S16), AFFINE, (1e-5, 1e-12, 1.0)
    ):
        assert worst(kind, source, target, rows(source, size), affine, eps) <= 1, (source, target, affine, eps)


def test_a_bias_may_be_finer_than_all_else() -> None:
    for weight in (None, FixedFormat(8, 6)):
        assert worst(LAYER, S8, FixedFormat(8, 5), rows(S8, 16), (weight, FixedFormat(30, 60)), 1e-5) <= 1


@pytest.mark.parametrize("kind", [LAYER, RMS])
def test_scaled_integers_within_one_lsb(kind: str) -> None:
    """Weights and biases of steps that are that of the result times powers of two, above and below it."""
    step = 0.037
    formats = {
        "data_in_0": ScaledFormat.make(8, 0.3, 5 if kind == LAYER else 0),
        "weight": ScaledFormat.make(8, step / 32),
        "bias": ScaledFormat.make(4, step * 4),
        "data_out_0": ScaledFormat.make(10, step),
    }
    mantissas = {"data_in_0": rows(S8, 16), "weight": torch.arange(-64, 64, 8), "bias": torch.arange(-8, 8)}
    if kind == RMS:
        del mantissas["bias"], formats["bias"]
    out = golden(kind, Arithmetic(formats, attributes={"normalized_shape": (16,), "eps": 1e-5}), mantissas)
    values = {name: (m.double() - formats[name].zero_point) * formats[name].scale for name, m in mantissas.items()}
    exact = reference(kind, values, 1e-5) / step
    assert float((out["data_out_0"].double() - exact).abs().max()) <= 1


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_groups_within_one_lsb(groups: int) -> None:
    x = torch.randint(-128, 128, (3, 6, 4, 5))
    for affine in AFFINE:
        assert worst(GROUP, S8, FixedFormat(8, 5), x, affine, 1e-5, groups) <= 1


@pytest.mark.parametrize(
    ("out", "bias"), [(S8, None), (S8, FixedFormat(8, 3)), (S16, FixedFormat(16, 12)), (FixedFormat(3, 1), None)]
)
def test_every_root(out: FixedFormat, bias: FixedFormat | None) -> None:
    """All numbers from 1/4 to 1: off by at most three quarters of an LSB, as the bound of the error assumes."""
    a = Arithmetic({"data_in_0": S8, "data_out_0": out} | ({"bias": bias} if bias else {}))
    p = precision(a)
    codes = torch.arange(1 << p, 1 << (p + 2))
    exact = (codes.double() * 2.0 ** -(p + 2)).rsqrt() * 2.0**p
    assert float((evaluate(key_of(a), codes).double() - exact).abs().max()) <= 0.75


@pytest.mark.parametrize("kind", [LAYER, RMS, GROUP])
def test_moments_and_products_beyond_63_bits(kind: str) -> None:
    """Rows of 24 bits and 4,096 elements, with weights and a bias as wide."""
    wide, target = FixedFormat(24, 12), FixedFormat(24, 19)
    x = rows(wide, 4096)
    x = x[:, :, None] if kind == GROUP else x
    for source, affine in itertools.product((wide, LONG), ((None, None), (FixedFormat(24, 20), FixedFormat(22, 18)))):
        a = Arithmetic({"data_in_0": source, "data_out_0": target} | ({"weight": affine[0]} if affine[0] else {}))
        plan = plan_of(a, 4096, kind != RMS, 1e-5)
        assert plan.radicand > 63
        assert (check_fits(a, plan)[1] == WIDE) == (affine[0] is not None)
        assert worst(kind, source, target, x, affine, 1e-5) <= 1


def test_too_long_a_row_is_refused() -> None:
    assert plan_of(Arithmetic({"data_in_0": FixedFormat(48, 12), "data_out_0": S8}), 4096, True, 1e-5).size == 4096
    a = Arithmetic({"data_in_0": FixedFormat(49, 12), "data_out_0": S8})
    with pytest.raises(FormatError, match="the sum of a row does not fit 64 bits"):
        plan_of(a, 4096, True, 1e-5)


def test_the_gradient_is_that_of_the_float_function() -> None:
    torch.manual_seed(2)
    x = torch.randint(-40, 40, (5, 12)).float().requires_grad_()
    w = torch.randint(20, 60, (12,)).float().requires_grad_()
    a = Arithmetic({"data_in_0": S8, "weight": FixedFormat(8, 6), "data_out_0": S8}, attributes={"eps": 1e-5})
    sums = torch.randn(5, 12)
    (golden(LAYER, a, {"data_in_0": x, "weight": w})["data_out_0"] * sums).sum().backward()
    real, scale = ((v.detach().double() / n).requires_grad_() for v, n in ((x, 16), (w, 64)))
    (F.layer_norm(real, (12,), scale) * 16 * sums).sum().backward()
    for got, wanted, n in ((x.grad, real.grad, 16), (w.grad, scale.grad, 64)):
        assert got is not None and wanted is not None
        torch.testing.assert_close(got.double(), wanted / n, rtol=1e-4, atol=1e-4)


BIASES = [None, FixedFormat(8, 3), FixedFormat(8, 7), FixedFormat(4, -3)]


@pytest.mark.parametrize("out", [S8, S16, FixedFormat(3, 1)], ids=str)
@pytest.mark.parametrize("bias", BIASES, ids=str)
def test_a_root_is_as_fine_as_the_bound_asks(out: FixedFormat, bias: FixedFormat | None) -> None:
    """``2**p`` is at least four times the largest number of the output and the bias, and with one bit less is not."""
    most = 1 << (out.width - 1)
    if bias is not None:
        most += math.ceil(Fraction(2) ** (bias.width - 1 + out.frac_width - bias.frac_width))
    p = precision(Arithmetic({"data_in_0": S8, "data_out_0": out} | ({"bias": bias} if bias else {})))
    assert 2**p >= 4 * most > 2 ** (p - 1)


@pytest.mark.parametrize("eps", [1e-12, 1.0])
@pytest.mark.parametrize("size", [2, 3, 5, 64, 197])
@pytest.mark.parametrize("centre", [True, False])
def test_a_plan_is_as_wide_as_its_bounds_ask(centre: bool, size: int, eps: float) -> None:
    """Its numbers by the inequalities that they are chosen by, and not by one bit more."""
    for source, out, weight in itertools.product((S8, S16), (S8, FixedFormat(8, 6)), (None, FixedFormat(8, 6))):
        a = Arithmetic({"data_in_0": source, "data_out_0": out} | ({"weight": weight} if weight else {}))
        plan = plan_of(a, size, centre, eps)
        least = max(size - centre, math.floor(size**2 * Fraction(eps) * 4**source.frac_width))
        assert least << plan.radicand_frac >= 4 << plan.scale, "rounding E is more than 1/64"
        assert plan.radicand_frac == 0 or least << (plan.radicand_frac - 2) < 4 << plan.scale
        root = (plan.radicand - plan.radicand_frac) // 2
        largest_weight = Fraction(2) if weight else Fraction(1)
        floor = [2 * largest_weight * Fraction(2) ** (out.frac_width + d - root) for d in (plan.drop, plan.drop + 1)]
        assert floor[1] > Fraction(1, 16) and (plan.drop == 0 or floor[0] <= Fraction(1, 16))
        shift = max(
            n for n in range(plan.radicand // 2) if max(least, 1) << plan.radicand_frac << 2 * n < 1 << plan.radicand
        )
        bound = min(size * 4**root, (size << source.width + shift) ** 2)
        assert 4 ** (plan.centred_width - 1) >= bound > 4 ** (plan.centred_width - 3)
        found = int(math.prod(normalise(plan, key_of(a), rows(source, size))).abs().max())
        assert found <= plan.largest, "a normalised number is above the bound that the carrier is chosen by"


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("source", [S8, S16, FixedFormat(16, 8, signed=False), FixedFormat(20, 12), LONG, LONGER])
def test_floats_and_integers_are_the_same(source: FixedFormat, centre: bool) -> None:
    """Every step of a row in Python integers, where float64 just holds them, in int64, and in two limbs of it."""
    for size, target in itertools.product((1, 2, 3, 64, 150), (S8, S16)):
        a = Arithmetic({"data_in_0": source, "data_out_0": target})
        plan, key, x = plan_of(a, size, centre, 1e-5), key_of(a), rows(source, size)
        wide = check_fits(a, plan)[1]
        found = [math.prod(normalise(plan, key, x))]
        if wide == torch.float64:
            narrow = as_carrier(x, carrier(size * magnitude(source) ** 2))
            found.append(math.prod(normalise(plan, key, narrow, wide)))
        for row, *each in zip(x.tolist(), *(f.tolist() for f in found), strict=True):
            total = sum(row) if centre else 0
            radicand = (size * sum(v * v for v in row) - total**2) * 2**plan.radicand_frac
            radicand += plan.epsilon << plan.epsilon_shift
            pairs = plan.radicand // 2
            shift = min(pairs - (radicand.bit_length() + 1) // 2, pairs - 1)
            m = radicand << 2 * shift >> plan.radicand - plan.scale - 2
            root = int(evaluate(key, torch.tensor([m])))
            wanted = [((size * v - total) << shift >> plan.drop) * root for v in row]
            assert all(one == wanted for one in each), (size, row)


def test_both_carriers_are_used() -> None:
    """Which of them holds a row is decided by its bounds."""
    found = {check_fits(a, plan_of(a, 64, True, 1e-5))[1] for a in (
        Arithmetic({"data_in_0": FixedFormat(width, 8), "data_out_0": S8}) for width in (8, 16, 20, 24)
    )}  # fmt: skip
    assert found == {torch.float64, torch.int64}


def test_a_drop_is_not_always_nothing() -> None:
    """The inequality of the floor has something to say."""
    assert plan_of(Arithmetic({"data_in_0": S16, "data_out_0": S8}), 197, True, 1e-5).drop > 0


@pytest.mark.parametrize("kind", [LAYER, RMS])
@pytest.mark.parametrize(
    ("width", "frac", "eps"), [(8, 40, 1e-5), (8, 80, 1e-5), (8, 4, 2.0**62), (8, 16, 0.25), (20, 20, 2.0**20)]
)
def test_an_epsilon_above_all_moments(kind: str, width: int, frac: int, eps: float) -> None:
    """Data so small, as in a network that was not trained, or an epsilon so large, that all scales are nearly one."""
    source = FixedFormat(width, frac)
    target = FixedFormat(width, frac + math.floor(math.log2(eps) / 2))
    for weight in (None, FixedFormat(8, 6)):
        x = rows(source, 16)
        assert worst(kind, source, target, x, (weight, None), eps) <= 1
        plan = plan_of(Arithmetic({"data_in_0": source, "data_out_0": target}), 16, kind != RMS, eps)
        assert plan.radicand_frac <= 0 and plan.radicand <= 62


@pytest.mark.parametrize(("kind", "layout"), [(LAYER, "rows"), (RMS, "rows"), (GROUP, "channels_last")])
def test_what_a_norm_says_of_its_streams(kind: str, layout: str) -> None:
    """As many lanes leave as come; the channels of a group are together only if they come last."""
    hardware = _op(kind, "eps", functions=(F.layer_norm,)).hardware
    assert hardware is not None and hardware.layout == layout
    for case in hardware.cases():
        lanes = {s.name: s.lanes for s in hardware.ports(case.params)}
        assert hardware.follows_input and lanes["data_out_0"] == lanes["data_in_0"]


@pytest.mark.parametrize(
    "source", [S16, FixedFormat(16, 12, signed=False), FixedFormat(17, 12), FixedFormat(20, 15, signed=False)]
)
def test_segments_in_python_integers(source: FixedFormat) -> None:
    """Functions of up to 16 bits are looked up among all codes, wider ones computed; both are the same integers."""
    key = ("tanh", (), source, S8, Rounding.HALF_EVEN, Overflow.SATURATE)
    plan, low, high = fit(key), source.min_mantissa, source.max_mantissa
    edges = {s * (1 << k) + d for k in range(source.width) for s in (1, -1) for d in (-1, 0, 1)} | {low, high}
    given = sorted(m for m in edges | set(range(low, high, 997)) if low <= m <= high)
    wanted = []
    for m in given:
        magnitude, octave = (~m, 1 << octave_bits(source)) if m < 0 else (m, 0)
        octave += magnitude.bit_length()
        place = magnitude << int(plan.left[octave])
        segment, t = (
            (int(plan.base[octave]) + (place >> plan.step)) & ((1 << plan.address) - 1),
            place % (1 << plan.step),
        )
        c0, c1, c2 = (int(row[segment]) for row in plan.coefficients)
        exact = (c0 << plan.step) + ((c2 * t >> plan.step) + c1) * t
        value = Fraction(exact, 1 << (plan.frac + plan.step))
        wanted.append(by_fraction(value, (8, 4, True), "HALF_EVEN", "SATURATE"))
    assert evaluate(key, torch.tensor(given)).tolist() == wanted
    assert evaluate(key, torch.tensor(given, dtype=torch.float32)).tolist() == wanted
