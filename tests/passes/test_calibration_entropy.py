"""``entropy`` against the published algorithm, written anew here and as ONNX Runtime has it; its guard; the sign."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from onnxruntime.quantization.calibrate import HistogramCollector

from mase_hw.formats import FixedFormat
from mase_hw.passes.quantize.calibration import Histogram, choose_format
from mase_hw.passes.quantize.calibration.choose import BINS, Symmetric

COUNT = 20_000


def distributions() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    normal = rng.normal(size=COUNT)
    return {
        "uniform": rng.uniform(0, 1, COUNT),
        "half normal": np.abs(rng.normal(size=COUNT)),
        "normal": normal,
        "laplace": rng.laplace(size=COUNT),
        "bimodal": rng.normal(size=COUNT) * 0.2 + rng.choice([-3.0, 3.0], COUNT),
        "many zeros": np.where(rng.uniform(size=COUNT) < 0.6, 0.0, normal),
        "relu": np.maximum(normal, 0),
        "near outliers": np.append(normal[:-4], [9.0, -8.0, 10.0, 7.5]),
        "far outliers": np.append(normal[:-4], [60.0, -50.0, 40.0, 80.0]),
        "large": rng.normal(size=COUNT) * 1e20,
        "small": rng.normal(size=COUNT) * 1e-20,
    }


TABLE = distributions()


def counted(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """numpy's symmetric histogram with bins a power of two wide, as few as hold everything and at most ``BINS``."""
    peak = np.abs(values).max()
    width = next(2.0**e for e in range(-100, 100) if peak < 2.0**e * (BINS // 2))
    half = max(math.floor(values.max() / width) + 1, -math.floor(values.min() / width))
    edges = np.arange(-half, half + 1) * width
    return np.histogram(values, bins=edges)[0], edges


def kept(values: np.ndarray) -> dict[str, object]:
    histogram = Histogram()
    for part in np.array_split(values, 7):
        histogram.update(torch.from_numpy(part))
    low, high = float(values.min()), float(values.max())
    return {"min": low, "max": high, "criterion": "entropy", "histogram": histogram.state()}


def smoothed(counts: list[float]) -> list[float]:
    zeros = counts.count(0)
    taken = 1e-4 * zeros / (len(counts) - zeros)
    return [1e-4 if c == 0 else c - taken for c in counts]


def published(counts: list[int], levels: int, reach: int) -> float:
    """One step of the walk over thresholds, in plain Python, from its description."""
    centre = len(counts) // 2
    first, last = centre - reach, min(centre + reach + 1, len(counts))
    inside = counts[first:last]
    p = list(inside)
    p[0] += sum(counts[:first])
    p[-1] += sum(counts[last:])
    each = len(inside) // levels
    q = [0] * len(inside)
    for level in range(levels):
        part = range(level * each, level * each + each)
        mass = sum(inside[i] for i in (part if level < levels - 1 else range(part.start, len(inside))))
        occupied = sum(p[i] != 0 for i in part)
        for i in part if occupied else ():
            q[i] = mass // occupied
    if not any(q):
        return math.inf
    p_s, q_s = smoothed(p), smoothed(q)
    p_sum, q_sum = math.fsum(p_s), math.fsum(q_s)
    return math.fsum(a / p_sum * math.log((a / p_sum) / (b / q_sum)) for a, b in zip(p_s, q_s, strict=True))


def histogram_of(values: np.ndarray) -> Symmetric:
    return Symmetric.of(Histogram.from_state(kept(values)["histogram"]).points())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", TABLE)
def test_the_divergence_is_the_published_one(kind: str) -> None:
    counts, edges = counted(TABLE[kind])
    found = histogram_of(TABLE[kind])
    assert found.counts.tolist() == counts.tolist() and found.half * found.width == edges[-1]
    for levels in (4, 32, 256):
        for reach in np.linspace(levels // 2, found.half, 5).astype(int).tolist():
            want = published(counts.tolist(), levels, reach)
            assert found.divergence(reach * found.width, levels) == pytest.approx(want, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", ["uniform", "half normal", "laplace", "near outliers"])
@pytest.mark.parametrize("levels", [16, 256])
def test_the_threshold_is_that_of_onnx_runtime(kind: str, levels: int) -> None:
    counts, edges = counted(TABLE[kind])
    collector = HistogramCollector("entropy", True, counts.size, levels, 99.9, "same")
    beyond = np.array(1e30)
    low, _ = collector.get_entropy_threshold((counts, edges, -beyond, beyond), levels)
    ours = histogram_of(TABLE[kind])
    found = ours.threshold(levels)
    if found != -low:  # it adds in float32, so of two thresholds that are as good it may take the other
        assert ours.divergence(-float(low), levels) == pytest.approx(ours.divergence(found, levels), rel=1e-5)
        assert abs(found + low) < 0.05 * found


def squared_error(values: np.ndarray, fmt: FixedFormat) -> float:
    codes = np.clip(np.rint(np.ldexp(values, fmt.frac_width)), fmt.min_mantissa, fmt.max_mantissa)
    return float(((np.ldexp(codes, -fmt.frac_width) - values) ** 2).mean())


@pytest.mark.parametrize("width", range(3, 13))
@pytest.mark.parametrize("kind", TABLE)
def test_never_twice_the_squared_error_of_the_range(kind: str, width: int) -> None:
    values, record = TABLE[kind], kept(TABLE[kind])
    limit = 2 * squared_error(values, choose_format(record, width, True, "range").fmt)
    chosen = choose_format(record, width, True)
    assert squared_error(values, chosen.fmt) <= limit
    finer = FixedFormat(width, chosen.fmt.frac_width + 1)
    holds = finer.min_value <= chosen.low and chosen.high <= finer.max_value
    assert not holds or chosen.note, "the threshold fits a finer step, and no guard says why it is not taken"
    if values.min() < 0:
        return
    free = choose_format(record, width, None)
    assert squared_error(values, free.fmt) <= 2 * squared_error(values, choose_format(record, width, None, "range").fmt)


def test_the_guard_says_so() -> None:
    """A threshold of a few sigma would cut the outliers off, which costs more than the coarse step that keeps them."""
    chosen = choose_format(kept(TABLE["far outliers"]), 8, True)
    cut = FixedFormat.covering(chosen.low, chosen.high, 8)
    everything = choose_format(kept(TABLE["far outliers"]), 8, True, "range").fmt
    errors = [squared_error(TABLE["far outliers"], fmt) for fmt in (cut, everything, chosen.fmt)]
    assert cut.max_value < 40 and errors[0] > errors[1] >= errors[2]
    assert str(cut) in chosen.note
    assert not choose_format(kept(TABLE["normal"]), 8, True).note


def test_it_clips_what_the_range_keeps() -> None:
    """Otherwise all of the above would hold for the range as well."""
    finer = [
        (kind, width)
        for kind, values in TABLE.items()
        for width in (3, 4, 6)
        if choose_format(kept(values), width, True).fmt.frac_width
        > choose_format(kept(values), width, True, "range").fmt.frac_width
    ]
    assert {"laplace", "near outliers", "normal"} <= {kind for kind, _ in finer}


@pytest.mark.parametrize(
    ("method", "samples"), [("mse", 800), ("entropy", 15), pytest.param("entropy", 60, marks=pytest.mark.slow)]
)
def test_no_sign_where_a_format_without_one_errs_less(method: str, samples: int) -> None:
    """Random samples: with the chosen sign, never more error than the other sign has at the same step."""
    rng = np.random.default_rng(11)
    signs = set()
    for _ in range(samples):
        kind = rng.integers(4)
        values = [
            lambda: np.abs(rng.normal(size=300)),
            lambda: rng.uniform(0, rng.uniform(0.1, 5), 300),
            lambda: rng.exponential(size=300) ** 2,
            lambda: np.maximum(rng.normal(size=300), 0),
        ][kind]() * 2.0 ** rng.uniform(-6, 6)
        width = int(rng.integers(2, 10))
        record = {**kept(values), "criterion": method}
        chosen = choose_format(record, width, None).fmt
        signs.add(chosen.signed)
        both = [squared_error(values, FixedFormat(width, chosen.frac_width, sign)) for sign in (False, True)]
        assert squared_error(values, chosen) == min(both)
        if method == "mse":
            fracs = range(chosen.frac_width - 4, chosen.frac_width + 5)
            best = min(squared_error(values, FixedFormat(width, f, s)) for f in fracs for s in (False, True))
            assert squared_error(values, chosen) <= best * 1.1 + 1e-30  # a histogram does not know places in its bins
    assert signs == {False} or signs == {False, True}
