"""Biases and multipliers by which every sum is requantised right, against rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from mase_hw.formats import Rounding, ScaledFormat
from mase_hw.passes.quantize.integers.sums import Stored
from mase_hw.passes.quantize.integers.thresholds import Requantizing, exact_requantization

CHANNELS, INPUTS = 4, 16
ZERO = {1: 0, 4: 3, 12: -3, 13: 0}


def layer(width: int, seed: int = 1) -> tuple[ScaledFormat, Stored, Stored, ScaledFormat, np.ndarray]:
    """Data of 12 bits, weights of 8, and results of ``width`` bits; and the integers of the weights."""
    r = np.random.default_rng(seed)
    scales = r.uniform(1e-3, 5e-3, CHANNELS)
    weights = r.integers(-127, 128, (CHANNELS, INPUTS))
    bias = torch.from_numpy(r.standard_normal(CHANNELS) * 50)
    weight = Stored(torch.from_numpy(weights * scales[:, None]), ScaledFormat.make(8, scales.tolist()))
    return (
        ScaledFormat.make(12, 0.013),
        weight,
        Stored(bias),
        ScaledFormat.make(width, 200 / 2**width, ZERO[width]),
        weights,
    )


@pytest.mark.parametrize("width", [1, 4, 12])
def test_sums_next_to_every_border(width: int) -> None:
    data, weight, bias, result, integers = layer(width)
    made = exact_requantization(data, weight, bias, [2] * CHANNELS, result, Requantizing())
    assert made is not None
    assert width < 12 or made.multipliers.width > 31 or max(made.extra) > 2
    seen = 0
    for c, each in enumerate(bias.values.tolist()):
        assert weight.fmt is not None
        product, step = Fraction(data.scale) * Fraction(weight.fmt.scales[c]), Fraction(result.scale)
        most = 2048 * int(np.abs(integers[c]).sum())
        borders = [(Fraction(2 * q + 1, 2) * step - Fraction(each)) / product for q in range(-(2**width), 2**width)]
        near = {t + d for t in map(round, borders) for d in (-1, 0, 1) if -most <= t + d < most}
        for total in near:
            right = round((total * product + Fraction(each)) / step) + ZERO[width]
            scaled = Fraction(((total << made.extra[c]) + made.bias[c]) * made.multipliers.values[c])
            found = round(scaled / 2**made.multipliers.shift) + ZERO[width]
            assert min(max(found, result.min_mantissa), result.max_mantissa) == min(
                max(right, result.min_mantissa), result.max_mantissa
            )
            seen += 1
    assert seen > 2**width


def test_what_no_multiplier_gives() -> None:
    """Ties at a sixth of a step, which go to both sides in turn."""
    data, result = ScaledFormat.make(4, 0.5), ScaledFormat.make(4, 1.5)
    weight = Stored(torch.full((1, 4), 0.5), ScaledFormat.make(4, 0.5))
    bias = Stored(torch.tensor([0.0], dtype=torch.float64), exact=True)
    assert exact_requantization(data, weight, bias, [0], result, Requantizing()) is None
    floor = exact_requantization(data, weight, bias, [0], result, Requantizing(Rounding.FLOOR))
    assert floor is not None
    for total in range(-128, 113):
        scaled = ((total << floor.extra[0]) + floor.bias[0]) * floor.multipliers.values[0]
        assert min(max(scaled >> floor.multipliers.shift, -8), 7) == min(max(total // 6, -8), 7)


def test_wide_results_are_left() -> None:
    data, weight, bias, result, _ = layer(13)
    assert exact_requantization(data, weight, bias, [2] * CHANNELS, result, Requantizing()) is None
