"""Casts that are watched: the same bits, ties and ranges counted as exact fractions say, and faults as described."""

from __future__ import annotations

import random
from fractions import Fraction
from math import floor

import pytest
import torch

from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.hardware.params import Cast
from mase_hw.numerics import cast
from mase_hw.numerics.observing import cast_observer, observing
from mase_hw.ops._division import divide_cast
from mase_hw.vectors.casts import CastUse
from mase_hw.vectors.watch import RANGE, TIES_NEGATIVE, TIES_POSITIVE, CastCounter, CastRecorder, FaultyCast
from tests.unit.oracle import round_fraction

HALVES = (Rounding.HALF_EVEN, Rounding.HALF_UP, Rounding.HALF_AWAY)
MODES = [(rounding, overflow) for rounding in Rounding for overflow in Overflow]
FORMATS = [FixedFormat(8, 3), FixedFormat(4, 6, False), FixedFormat(1, 0), FixedFormat(30, -2), FixedFormat(52, 40)]


def numbers(dtype: torch.dtype, seed: int) -> list[int]:
    rng = random.Random(seed)
    limit = {torch.float32: 1 << 24, torch.float64: 1 << 53, torch.int64: (1 << 63) - 1}[dtype]
    found = [0, 1, -1, 3, -3, 8, -8, limit, -limit]
    found += [rng.randrange(-limit, limit + 1) >> rng.randrange(60) for _ in range(200)]
    return [n for n in found if abs(n) <= limit]


def expected(exact: list[Fraction], fmt: FixedFormat, rounding: Rounding, dropped: bool) -> CastUse:
    whole = [round_fraction(e, rounding.name) for e in exact]
    ties = [e for e in exact if dropped and rounding in HALVES and e - floor(e) == Fraction(1, 2)]
    return CastUse(
        len(exact),
        sum(w < 0 for w in whole) if fmt.signed else 0,
        sum(w > fmt.max_mantissa for w in whole),
        sum(w < fmt.min_mantissa for w in whole),
        sum(t > 0 for t in ties),
        sum(t < 0 for t in ties) if fmt.signed else 0,
        rounds=dropped and rounding in HALVES,
    )


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
def test_counted_and_unchanged(dtype: torch.dtype, fmt: FixedFormat) -> None:
    values = numbers(dtype, fmt.width)
    given = torch.tensor(values, dtype=torch.int64).to(dtype)
    for frac in (fmt.frac_width - 7, fmt.frac_width, fmt.frac_width + 1, fmt.frac_width + 9, fmt.frac_width + 62,
                 fmt.frac_width + 63, fmt.frac_width + 70):  # fmt: skip
        exact = [Fraction(v) * Fraction(2) ** (fmt.frac_width - frac) for v in values]
        for rounding, overflow in MODES:
            counter = CastCounter(grows=False)
            with observing(counter):
                seen = cast(given, frac, fmt, rounding, overflow)
            plain = cast(given, frac, fmt, rounding, overflow)
            assert torch.equal(seen, plain) and seen.dtype == plain.dtype, (frac, rounding, overflow)
            assert counter.use() == expected(exact, fmt, rounding, frac > fmt.frac_width), (frac, rounding)
    assert cast_observer() is None


@pytest.mark.parametrize("rounding", Rounding)
def test_divisions(rounding: Rounding) -> None:
    fmt, frac = FixedFormat(6, 2), 3
    values, divisors = [v for v in range(-90, 91)], [1, 2, 3, 4, 6, 9]
    given, by = torch.tensor(values)[:, None].double(), torch.tensor(divisors)[None, :]
    counter = CastCounter(grows=True)
    with observing(counter):
        seen = divide_cast(given.expand(-1, len(divisors)), by, (90, 9), frac, fmt, Cast(rounding))
    assert torch.equal(seen, divide_cast(given.expand(-1, len(divisors)), by, (90, 9), frac, fmt, Cast(rounding)))
    exact = [Fraction(v, d) * Fraction(2) ** (fmt.frac_width - frac) for v in values for d in divisors]
    wanted = expected(exact, fmt, rounding, dropped=True)
    assert counter.use() == CastUse(**{**wanted.to_json(), "grows": True})


def faulty(exact: Fraction, fmt: FixedFormat, kind: str, rounding: Rounding = Rounding.HALF_EVEN) -> int:
    """Rounded and saturating, with one fault."""
    whole, low = round_fraction(exact, rounding.name), floor(exact)
    half = exact - low == Fraction(1, 2) and rounding in HALVES
    if half and kind == (TIES_POSITIVE if exact > 0 else TIES_NEGATIVE):
        whole = low + 1 if whole == low else low
    if kind == RANGE and fmt.width <= 62:
        return (whole - fmt.min_mantissa) % (1 << fmt.width) + fmt.min_mantissa
    return min(fmt.max_mantissa, max(fmt.min_mantissa, whole))


@pytest.mark.parametrize("kind", [TIES_POSITIVE, TIES_NEGATIVE, RANGE])
@pytest.mark.parametrize("fmt", [FixedFormat(5, 2), FixedFormat(5, 2, False)], ids=str)
def test_wrong_casts(fmt: FixedFormat, kind: str) -> None:
    values = list(range(-200, 201))
    given = torch.tensor(values, dtype=torch.float32)
    with observing(FaultyCast(kind)):
        found = cast(given, 4, fmt)
    wanted = [faulty(Fraction(v, 4), fmt, kind) for v in values]
    assert found.tolist() == wanted
    # Below zero an unsigned format has nothing but 0, however it is rounded.
    assert (wanted == cast(given, 4, fmt).tolist()) == (kind == TIES_NEGATIVE and not fmt.signed)


@pytest.mark.parametrize("kind", [TIES_POSITIVE, TIES_NEGATIVE, RANGE])
@pytest.mark.parametrize("fmt", [*FORMATS, FixedFormat(63, 20)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
def test_wrong_casts_of_what_was_seen(dtype: torch.dtype, fmt: FixedFormat, kind: str) -> None:
    """A cast that was recorded and is done again with a fault, in floats and in integers."""
    values = numbers(dtype, fmt.width)
    given = torch.tensor(values, dtype=torch.int64).to(dtype)
    differs = 0
    for frac in (fmt.frac_width - 3, fmt.frac_width, fmt.frac_width + 1, fmt.frac_width + 9, fmt.frac_width + 62):
        for rounding in Rounding:
            recorder = CastRecorder()
            with observing(recorder):
                right = cast(given, frac, fmt, rounding)
            last = recorder.only(right)
            assert last is not None
            found = last.again(kind)
            assert found.dtype == right.dtype
            exact = [Fraction(v) * Fraction(2) ** (fmt.frac_width - frac) for v in values]
            assert found.long().tolist() == [faulty(e, fmt, kind, rounding) for e in exact], (frac, rounding)
            differs += not torch.equal(found, right)
    if fmt in FORMATS[:2]:
        assert bool(differs) == (kind != TIES_NEGATIVE or fmt.signed)


def test_watchers_of_threads_are_their_own() -> None:
    import threading

    found: list[object] = []
    with observing(CastCounter(grows=False)):
        thread = threading.Thread(target=lambda: found.append(cast_observer()))
        thread.start()
        thread.join()
    assert found == [None]


def test_an_error_leaves_no_watcher() -> None:
    with pytest.raises(ZeroDivisionError), observing(CastCounter(grows=False)):
        _ = 1 // 0
    assert cast_observer() is None
