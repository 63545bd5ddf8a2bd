"""Every calibration method against numpy on the whole data; chunks and interruptions change nothing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mase_hw.errors import ConfigError
from mase_hw.formats import FixedFormat
from mase_hw.passes import calibrate_analysis_pass
from mase_hw.passes.quantize.calibration import BINS, CalibrationState, Histogram, Points, choose_format
from mase_hw.passes.quantize.calibration.choose import mean_squared_error
from tests.ir.nets import annotated

METHODS = ("min_max", "moving_average", "percentile", "entropy", "mse")


def samples(kind: str, count: int = 6000) -> np.ndarray:
    rng = np.random.default_rng(5)
    values = {
        "normal": rng.normal(0.3, 2.0, count),
        "outlier": np.append(rng.normal(0, 0.01, count - 1), -97.0),
        "rectified": np.maximum(rng.normal(0, 1e-3, count), 0),
        "large": rng.standard_t(2, count) * 1e9,
        "zeros": np.zeros(count),
    }[kind]
    return values.astype(np.float32)


KINDS = ("normal", "outlier", "rectified", "large", "zeros")


def observed(chunks: list[np.ndarray], **args: Any) -> dict[str, Any]:
    graph = annotated(nn.Sequential(nn.ReLU()), {"input": torch.ones(1, 2)})
    calibrate_analysis_pass(graph, {"data": [torch.from_numpy(c).reshape(-1, 2) for c in chunks], **args})
    found: dict[str, Any] = graph.node("_0").meta["mase"]["software"]["args"]["data_in_0"]["calibrated"]
    return dict(found)


def bins(values: np.ndarray) -> tuple[float, np.ndarray]:
    """The bins as documented, found by trying exponents, and numpy's own counting."""
    numbers = values[values != 0].astype(np.float64)
    exponent = next(
        e
        for e in range(-200, 200)
        if np.floor(numbers.min() / 2.0**e) >= -BINS and np.floor(numbers.max() / 2.0**e) < BINS
    )
    return 2.0**exponent, np.histogram(numbers, bins=np.arange(-BINS, BINS + 1) * 2.0**exponent)[0]


@pytest.mark.parametrize("kind", KINDS[:4])
def test_histograms_are_numpys(kind: str) -> None:
    values = samples(kind)
    width, counts = bins(values)
    for chunks in (1, 7, 100):
        histogram = Histogram()
        for part in np.array_split(values, chunks):
            histogram.update(torch.from_numpy(part))
        assert 2.0**histogram.exponent == width and np.array_equal(histogram.counts, counts)
        assert histogram.zeros == int((values == 0).sum())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["min_max", "percentile", "entropy", "mse"])
def test_chunks_do_not_matter(method: str, kind: str) -> None:
    values = samples(kind)
    results = [observed(np.split(values, n), method=method) for n in (1, 3, 50)]
    assert results[0] == results[1] == results[2]
    assert (results[0]["min"], results[0]["max"]) == (values.min(), values.max())


@pytest.mark.parametrize("kind", KINDS[:4])
@pytest.mark.parametrize("percentile", [90.0, 99.9, 100.0])
def test_percentile(kind: str, percentile: float) -> None:
    values = samples(kind)
    found = observed(np.split(values, 3), method="percentile", options={"percentile": percentile})
    width, _ = bins(values)
    shares = [1 - percentile / 100, percentile / 100]
    low, high = np.quantile(values.astype(np.float64), shares, method="inverted_cdf")
    low = 0.0 if low == 0 else math.floor(low / width) * width
    high = 0.0 if high == 0 else (math.floor(high / width) + 1) * width
    assert found["low"] == max(low, values.min()) and found["high"] == min(high, values.max())


def test_moving_average() -> None:
    parts = np.split(samples("normal"), 5)
    low, high = float(parts[0].min()), float(parts[0].max())
    for part in parts[1:]:
        low, high = 0.75 * low + 0.25 * float(part.min()), 0.75 * high + 0.25 * float(part.max())
    found = observed(parts, method="moving_average", options={"momentum": 0.75})
    assert found["low"] == pytest.approx(low, rel=1e-12) and found["high"] == pytest.approx(high, rel=1e-12)


def brute_mse(values: np.ndarray, fmt: FixedFormat) -> float:
    mantissas = np.clip(np.rint(values * 2.0**fmt.frac_width), fmt.min_mantissa, fmt.max_mantissa)
    return float(((mantissas * 2.0**-fmt.frac_width - values) ** 2).mean())


@pytest.mark.parametrize("kind", KINDS[:4])
@pytest.mark.parametrize("width", [2, 4, 8])
def test_mse_format_minimises_the_error_of_the_data(kind: str, width: int) -> None:
    """On exact values the optimum of all fraction widths; on the histogram one whose true error is hardly above it."""
    values = samples(kind).astype(np.float64)
    errors = {f: brute_mse(values, FixedFormat(width, f)) for f in range(-40, 41)}
    exact = choose_format(Points.exact(values), width, criterion="mse")
    assert errors[exact.fmt.frac_width] == pytest.approx(min(errors.values()), rel=1e-9)
    binned = choose_format(observed([samples(kind)], method="mse"), width)
    assert errors[binned.fmt.frac_width] <= 1.02 * min(errors.values())
    assert binned.criterion == "mse" and binned.fmt in [c.fmt for c in binned.candidates]


@pytest.mark.parametrize("kind", KINDS[:4])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("width", [3, 8])
def test_range_format_is_the_finest_that_clips_nothing(kind: str, signed: bool, width: int) -> None:
    values = samples(kind) if signed else np.abs(samples(kind))
    fits = [
        f
        for f in range(-60, 60)
        if FixedFormat(width, f, signed).min_mantissa <= np.rint(values.astype(float) * 2.0**f).min()
        and np.rint(values.astype(float) * 2.0**f).max() <= FixedFormat(width, f, signed).max_mantissa
    ]
    chosen = choose_format(observed([values], method="min_max"), width, signed).fmt
    assert chosen == FixedFormat(width, max(fits), signed)


def test_steps_below_the_bins() -> None:
    """Where a histogram cannot show rounding errors they are step**2 / 12, which is what uniform values have."""
    values = np.random.default_rng(0).uniform(-1, 1, 50_000)
    histogram = Histogram()
    histogram.update(torch.from_numpy(values))
    fmt = FixedFormat(20, 16)
    assert mean_squared_error(histogram.points(), fmt)[0] == pytest.approx(brute_mse(values, fmt), rel=0.02)


def test_sign_is_automatic() -> None:
    positive, mixed = np.abs(samples("normal")), samples("normal")
    assert not choose_format(observed([positive]), 8, None).fmt.signed
    assert choose_format(observed([mixed]), 8, None).fmt.signed
    assert choose_format(observed([positive]), 8, True).fmt.signed
    signed, unsigned = (choose_format(observed([positive]), 8, s).fmt for s in (True, None))
    assert unsigned.frac_width == signed.frac_width + 1


@pytest.mark.parametrize("method", METHODS)
def test_going_on_is_one_run(method: str, tmp_path: Path) -> None:
    parts = np.split(samples("normal"), 6)
    whole = CalibrationState()
    expected = observed(parts, method=method, state=whole)
    state = CalibrationState()
    observed(parts[:2], method=method, state=state)
    state.save(tmp_path / "state.json")
    again = CalibrationState.load(tmp_path / "state.json")
    assert observed(parts[2:], method=method, state=again) == expected
    assert again.to_document() == whole.to_document() and again.batches == 6


def test_a_failure_leaves_the_state(tmp_path: Path) -> None:
    state = CalibrationState()
    observed([samples("normal")], state=state)
    before = json.dumps(state.to_document())
    with pytest.raises(Exception, match="NaN"):
        observed([samples("normal"), np.array([1, np.nan], dtype=np.float32)], state=state)
    with pytest.raises(ConfigError, match="another method"):
        observed([samples("normal")], method="min_max", state=state)
    assert json.dumps(state.to_document()) == before
    (tmp_path / "x.json").write_text('{"version": 9}')
    with pytest.raises(ConfigError, match="no state of a calibration"):
        CalibrationState.load(tmp_path / "x.json")


def test_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    observed([samples("normal")], progress=True)
    assert "Traceback" not in capsys.readouterr().out
