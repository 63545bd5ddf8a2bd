"""``docs/arithmetic.md`` says enough: oracles written from it give every bit of the goldens."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from mase_hw.catalogue import default_catalogue
from mase_hw.formats import FixedFormat, Multipliers, Overflow, Rounding, ScaledFormat, multipliers
from mase_hw.opdef import Arithmetic
from mase_hw.ops.requantize import requantization, requantization_by
from tests.unit.oracle import Format, bounds, by_fraction
from tests.unit.page_oracles import (
    EVEN,
    Exponentials,
    Function,
    Modes,
    Norm,
    Segments,
    log_softmax,
    logarithm_of,
    piece,
    softmax,
    tabled,
)

MODES: list[Modes] = [EVEN, ("FLOOR", "SATURATE"), ("HALF_AWAY", "SATURATE")]


def golden(
    name: str, formats: Mapping[str, Format], modes: Modes, attributes: Mapping[str, Any], **tensors: Tensor
) -> Any:
    """What the quantised op gives, as nested lists."""
    made = {port: FixedFormat(*fmt) for port, fmt in formats.items()}
    a = Arithmetic(made, Rounding[modes[0]], Overflow[modes[1]], attributes)
    op = default_catalogue()[name]
    assert op.golden is not None
    return op.golden(a, tensors)["data_out_0"].to(torch.int64).tolist()


def drawn(fmt: Format, *shape: int, seed: int = 0) -> Tensor:
    low, high = bounds(fmt)
    return torch.randint(low, high + 1, shape, generator=torch.Generator().manual_seed(seed))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def gelu(x: float) -> float:
    return x * math.erfc(-x * math.sqrt(0.5)) / 2


def reciprocal(x: float) -> float:
    return 1 / x if x else math.inf


def log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


FUNCTIONS: list[tuple[str, Function, Format, Format]] = [
    ("sigmoid", sigmoid, (16, 10, True), (16, 15, True)),
    ("tanh", math.tanh, (16, 12, True), (12, 11, True)),
    ("gelu", gelu, (16, 11, True), (12, 7, True)),
    ("exp", math.exp, (14, 10, True), (12, 4, False)),
    ("log", log, (16, 8, False), (12, 7, True)),
    ("reciprocal", reciprocal, (13, 6, True), (12, 6, True)),
]


@pytest.mark.parametrize(("name", "function", "source", "target"), FUNCTIONS, ids=[each[0] for each in FUNCTIONS])
def test_segments(name: str, function: Function, source: Format, target: Format) -> None:
    low, high = bounds(source)
    codes = sorted({low, low + 1, -1, 0, 1, high} & set(range(low, high + 1))) + drawn(source, 400).tolist()
    for modes in MODES:
        formats = {"data_in_0": source, "data_out_0": target}
        found = golden(name, formats, modes, {}, data_in_0=torch.tensor(codes))
        segments = Segments(function, source, target)
        assert found == [segments(code, modes) for code in codes]


@pytest.mark.parametrize("modes", [*MODES, ("TRUNC", "WRAP")], ids="-".join)
def test_tables(modes: Modes) -> None:
    source, target = (12, 8, True), (9, 6, True)
    codes = list(range(*bounds(source)))
    for name, function in (("sigmoid", sigmoid), ("gelu", gelu), ("exp", math.exp)):
        found = golden(name, {"data_in_0": source, "data_out_0": target}, modes, {}, data_in_0=torch.tensor(codes))
        assert found == [tabled(function, code, source, target, modes) for code in codes]


PIECES: list[tuple[str, dict[str, float], tuple[float, float], tuple[tuple[float, float], ...]]] = [
    ("leaky_relu", {"negative_slope": 0.1}, (0.0, math.inf), ((0.1, 0.0), (1.0, 0.0), (1.0, 0.0))),
    ("leaky_relu", {"negative_slope": 0.125}, (0.0, math.inf), ((0.125, 0.0), (1.0, 0.0), (1.0, 0.0))),
    ("hardsigmoid", {}, (-3.0, 3.0), ((0.0, 0.0), (1 / 6, 0.5), (0.0, 1.0))),
    ("softshrink", {"lambd": 0.7}, (-0.7, 0.7), ((1.0, 0.7), (0.0, 0.0), (1.0, -0.7))),
    ("hardtanh", {"min_val": -2.3, "max_val": 4.5}, (-2.3, 4.5), ((0.0, -2.3), (1.0, 0.0), (0.0, 4.5))),
]


@pytest.mark.parametrize(("name", "attributes", "ends", "pairs"), PIECES, ids=lambda v: str(v) if v else "")
def test_pieces(name: str, attributes: dict[str, float], ends: Any, pairs: Any) -> None:
    """Every code of 8 bits, and every fifth of more."""
    for (source, target), modes in itertools.product(
        [((12, 8, True), (12, 8, True)), ((8, 4, True), (10, 9, True)), ((10, 3, False), (8, 1, True))],
        [MODES[0], MODES[1], ("TRUNC", "WRAP")],
    ):
        low, high = bounds(source)
        codes = [*range(low, high + 1, 1 if source[0] == 8 else 5), high]
        found = golden(
            name, {"data_in_0": source, "data_out_0": target}, modes, attributes, data_in_0=torch.tensor(codes)
        )
        assert found == [piece(code, source, target, ends, pairs, modes) for code in codes], (source, target, modes)


def test_what_a_rounded_slope_moves() -> None:
    """The example of the page: a slope of 0.1 from and to s12.8, against the exact product with the float64 number."""
    fmt: Format = (12, 8, True)
    codes = list(range(-2048, 2048))
    other = {}
    for rounding in ("FLOOR", "HALF_EVEN"):
        modes = rounding, "SATURATE"
        found = golden(
            "leaky_relu",
            {"data_in_0": fmt, "data_out_0": fmt},
            modes,
            {"negative_slope": 0.1},
            data_in_0=torch.tensor(codes),
        )
        exact = [by_fraction(Fraction(x, 256) * (Fraction(0.1) if x < 0 else 1), fmt, *modes) for x in codes]
        other[rounding] = [have - want for have, want in zip(found, exact, strict=True) if have != want]
    assert other == {"FLOOR": [1] * 204, "HALF_EVEN": [1] * 205}


SOFT = [
    ((8, 4, True), (8, 8, False), 7, 1.0),
    ((16, 11, True), (16, 16, False), 5, 1.0),  # wide: two factors
    ((16, 12, True), (16, 14, False), 64, 0.125),
    ((18, 14, True), (8, 6, True), 3, 2.5),
    ((12, 5, False), (5, 5, False), 9, 1.0),
]


@pytest.mark.parametrize(("source", "target", "size", "scale"), SOFT)
def test_softmax(source: Format, target: Format, size: int, scale: float) -> None:
    e = Exponentials(source, target[1], size, scale)
    assert bool(e.n) == (source[0] >= 16)
    x = torch.cat([drawn(source, 10, size), bounds(source)[1] - drawn((9, 0, False), 10, size)])
    formats = {"data_in_0": source, "data_out_0": target}
    for modes, least in itertools.product(MODES, (False, True)):
        found = golden("softmin" if least else "softmax", formats, modes, {"scale": scale}, data_in_0=x)
        assert found == [softmax(row, e, target, modes, least=least) for row in x.tolist()]


@pytest.mark.parametrize(
    ("source", "target", "size"),
    [((8, 4, True), (8, 3, True), 5), ((14, 10, True), (12, 6, True), 7), ((16, 11, True), (12, 7, True), 6),
     ((8, 4, True), (6, -1, True), 2), ((8, 4, True), (8, 3, True), 1)],
)  # fmt: skip
def test_log_softmax(source: Format, target: Format, size: int) -> None:
    e = Exponentials(source, target[1], size, log=True)
    ln = logarithm_of(e, size, target)
    x = torch.cat([drawn(source, 12, size), bounds(source)[1] - drawn((6, 0, False), 12, size)])
    for modes in [*MODES, ("TRUNC", "WRAP")]:
        found = golden("log_softmax", {"data_in_0": source, "data_out_0": target}, modes, {}, data_in_0=x)
        assert found == [log_softmax(row, e, ln, source, target, modes) for row in x.tolist()]


@pytest.mark.parametrize(
    ("attributes", "shape"),
    [
        ({"causal": True}, (2, 3, 2, 5)),
        ({"allowed": ("1b", "0", "1f"), "hold": 2, "scale": 0.353}, (1, 3, 2, 5)),
        ({"allowed": ("1b", "6"), "hold": 1, "causal": True}, (2, 4, 3, 5)),
        ({"allowed": ("1d",), "hold": 4}, (2, 2, 4, 5)),
        ({"allowed": ("1e",), "data": True}, (2, 3, 2, 5)),
    ],
    ids=str,
)
def test_masks(attributes: dict[str, Any], shape: tuple[int, ...]) -> None:
    source, target = (8, 4, True), (8, 8, False)
    batch, queries, heads, keys = shape
    x = drawn(source, *shape, seed=3)
    data = drawn((1, 0, False), *shape, seed=4) if attributes.get("data") else None
    formats: dict[str, Format] = {"data_in_0": source, "data_out_0": target}
    tensors = {"data_in_0": x}
    if data is not None:
        formats["data_in_1"], tensors["data_in_1"] = (1, 0, False), data
    given = {k: v for k, v in attributes.items() if k != "data"}
    found = golden("masked_softmax" if data is None else "softmax_where", formats, EVEN, given, **tensors)
    e = Exponentials(source, target[1], keys, given.get("scale", 1.0))
    allowed, hold = given.get("allowed", ()), given.get("hold", 1)
    for b, t, head in itertools.product(range(batch), range(queries), range(heads)):
        r = (b * queries + t) * heads + head
        word = int(allowed[(r // hold) % len(allowed)], 16) if allowed else -1
        keep = [
            (not given.get("causal") or s <= t + keys - queries)
            and bool(word >> s & 1)
            and (data is None or bool(data[b, t, head, s]))
            for s in range(keys)
        ]
        assert found[b][t][head] == softmax(x[b, t, head].tolist(), e, target, EVEN, keep)


NORMS = [
    ("layer_norm", "s8.4", "s8.6", "s8.6", "s8.4", 9, 1e-5),
    ("layer_norm", "s16.11", None, None, "s16.12", 7, 1e-12),
    ("layer_norm", "u8.4", "s8.6", "s22.20", "s6.3", 5, 1e-5),
    ("layer_norm", "s8.4", None, None, "s8.5", 1, 1.0),
    ("rms_norm", "s8.5", "s8.6", None, "s8.4", 10, 1e-6),
    ("rms_norm", "s16.9", None, None, "s16.12", 5, 0.0),
    ("rms_norm", "s8.4", None, None, "s8.5", 6, None),
    ("group_norm", "s8.4", "s8.6", "s8.6", "s8.4", 6, 1e-5),
]


def made(text: str) -> Format:
    width, frac = text[1:].split(".")
    return int(width), int(frac), text[0] == "s"


@pytest.mark.parametrize(("kind", "source", "weight", "bias", "target", "channels", "eps"), NORMS)
def test_norms(
    kind: str, source: str, weight: str | None, bias: str | None, target: str, channels: int, eps: float | None
) -> None:
    names = {"data_in_0": source, "weight": weight, "bias": bias, "data_out_0": target}
    formats = {name: made(text) for name, text in names.items() if text}
    tensors = {n: drawn(formats[n], channels, seed=5) for n in ("weight", "bias") if n in formats}
    groups, places = (3, 4) if kind == "group_norm" else (1, 1)
    shape = (4, channels, 2, 2) if kind == "group_norm" else (20, channels)
    x = drawn(formats["data_in_0"], *shape, seed=6) // torch.tensor([1, 1, 2, 9] * (shape[0] // 4)).reshape(
        -1, *[1] * (len(shape) - 1)
    )
    size = channels * places // groups
    oracle = Norm(size, kind != "rms_norm", 2.0**-23 if eps is None else eps, formats)
    given: dict[str, Any] = {"num_groups": groups} if kind == "group_norm" else {"normalized_shape": (channels,)}
    for modes in MODES:
        found = golden(kind, formats, modes, {**given, "eps": eps}, data_in_0=x, **tensors)
        rows = x.reshape(shape[0] * groups, size).tolist()
        of_channel = {n: v.repeat_interleave(places).reshape(groups, size).tolist() for n, v in tensors.items()}
        wanted = [
            oracle(row, *(of_channel[n][i % groups] if n in tensors else None for n in ("weight", "bias")), modes)
            for i, row in enumerate(rows)
        ]
        assert torch.tensor(found).reshape(len(rows), size).tolist() == wanted


def one_multiplier(ratio: Fraction, b: int) -> tuple[int, int]:
    e = -400
    while Fraction(2) ** e <= ratio:
        e += 1
    m = math.floor(ratio * Fraction(2) ** (b - e) + Fraction(1, 2))
    return (m // 2, b - e - 1) if m == 2**b else (m, b - e)


def shared(ratios: list[Fraction], b: int) -> tuple[list[int], int]:
    """What the package quantises itself."""
    shift = min(one_multiplier(ratio, b)[1] for ratio in ratios)
    while True:
        values = [math.floor(ratio * Fraction(2) ** shift + Fraction(1, 2)) for ratio in ratios]
        if 2**b not in values:
            break
        shift -= 1
    if shift < 0:
        values, shift = [v << -shift for v in values], 0
    while shift and not any(v % 2 for v in values):
        values, shift = [v // 2 for v in values], shift - 1
    return values, shift


@pytest.mark.parametrize("b", [4, 12, 31])
def test_channels_share_a_shift(b: int) -> None:
    draw = random.Random(7)
    for _ in range(60):
        size = draw.choice((1, 2, 5))
        ratios = [Fraction(draw.uniform(0.3, 1.0)) * Fraction(2) ** draw.randint(-9, -7) for _ in range(size)]
        if draw.random() < 0.3:
            ratios = [Fraction(2) ** draw.randint(-3, 3) for _ in range(size)]
        if 0 not in shared(ratios, b)[0]:
            found = multipliers(ratios, b)
            assert (list(found.values), found.shift, found.align) == (*shared(ratios, b), ())
        own = [(m << max(0, -s), max(s, 0)) for m, s in (one_multiplier(ratio, b) for ratio in ratios)]
        common = max(s for _, s in own)
        align = tuple(common - s for _, s in own)
        assert multipliers(ratios, b, exact=True) == Multipliers(
            tuple(m for m, _ in own), common, align if any(align) else ()
        )


@pytest.mark.parametrize("exact", [False, True], ids=["shared", "exact"])
def test_requantisation_by_channel(exact: bool) -> None:
    scales, want = [0.011, 0.0007, 0.0033], ScaledFormat.make(8, 0.05, -3)
    have = ScaledFormat.make(24, scales)
    a, parameters = requantization(have, want, exact=exact)
    x = drawn((14, 0, True), 50, 3, seed=8)
    op = default_catalogue()["requantize"]
    assert op.golden is not None
    found = op.golden(a, {"data_in_0": x, **parameters})["data_out_0"].to(torch.int64)
    ratios = [Fraction(scale) / Fraction(0.05) for scale in scales]
    values, shift = shared(ratios, 31)
    for channel, ratio in enumerate(ratios):
        m, s = one_multiplier(ratio, 31) if exact else (values[channel], shift)
        for code, out in zip(x[:, channel].tolist(), found[:, channel].tolist(), strict=True):
            y = by_fraction(Fraction(code * m) / 2**s, (40, 0, True), "HALF_EVEN", "SATURATE") - 3
            assert out == min(max(y, -128), 127)


def test_two_roundings() -> None:
    """The first drops its bits of the product, ties up, before ``multiplier_shift``; the rest goes away from zero."""
    have, want = ScaledFormat.make(16, [1.0, 1.0]), ScaledFormat.make(12, 1.0)
    found = Multipliers((1_500_000_001, 1_900_000_003), 38, (0, 2))
    a, parameters = requantization_by(have, want, found, Rounding.HALF_AWAY, 31)
    x = drawn((16, 0, True), 300, 2, seed=9)
    op = default_catalogue()["requantize"]
    assert op.golden is not None
    out = op.golden(a, {"data_in_0": x, **parameters})["data_out_0"].to(torch.int64).tolist()
    for row, results in zip(x.tolist(), out, strict=True):
        for code, m, align, result in zip(row, found.values, found.align, results, strict=True):
            first = (code * m + (1 << 30)) >> 31
            assert result == by_fraction(Fraction(first << align, 1 << 7), (12, 0, True), "HALF_AWAY", "SATURATE")


def test_rearrangement() -> None:
    source, target = (8, 4, True), (6, 2, True)
    given = {"shape": (1, 2, 3, 4), "block": 4, "passes": 2, "starts": (2, -1, 0), "run": 2, "hold": 1}
    x = drawn(source, 2, 8, seed=10)
    found = golden("rearrange", {"data_in_0": source, "data_out_0": target}, EVEN, given, data_in_0=x)
    for frame, result in zip(x.tolist(), found, strict=True):
        places = []
        for block in range(0, 8, 4):
            for _ in range(2):
                for start in (2, -1, 0):
                    places += [frame[block + start + i] if start >= 0 else 0 for i in range(2)]
        flat = torch.tensor(result).reshape(-1).tolist()
        assert flat == [by_fraction(Fraction(code, 16), target, *EVEN) for code in places]
