"""Gradients of learned scales and zero points: the publications' formulas by element, and torch's own operators."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from mase_hw.errors import FormatError
from mase_hw.formats import ScaledFormat
from mase_hw.training import LearnedScale
from mase_hw.training.learned_step import scaled_lsq


def published(x: float, scale: float, zero: int, low: int, high: int) -> tuple[float, float, float, float]:
    """Value, ``dx``, ``ds`` and ``dz``: formulas 3 and 5 of LSQ, 5 and 6 of LSQ+ with the offset ``-s z``."""
    v, first, last = x / scale, low - zero, high - zero
    value = min(max(round(v), first), last) * scale  # Python rounds half to even
    if v <= first:
        return value, 0.0, float(first), -scale
    if v >= last:
        return value, 0.0, float(last), -scale
    return value, 1.0, round(v) - v, 0.0


FORMATS = {
    "symmetric, narrow": ScaledFormat.make(3, 0.37, narrow=True),
    "unsigned": ScaledFormat.make(4, 0.11, signed=False),
    "affine": ScaledFormat.make(4, 0.23, 3),
    "affine, unsigned": ScaledFormat.make(2, 0.9, 1, signed=False),
    "channels": ScaledFormat.make(3, [0.5, 0.07, 0.3], narrow=True),
    "channels with limits": ScaledFormat.make(4, [0.5, 0.07, 0.3], low=[-7, -2, 0], high=[0, 5, 7]),
}


def run(fmt: ScaledFormat, x: Tensor, weigh: Tensor, factor: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The value and the gradients by data, scales and zero point."""
    shape = (-1, *[1] * (x.dim() - 1)) if fmt.channels > 1 else ()
    x = x.clone().requires_grad_()
    scale = torch.tensor(fmt.scales, dtype=x.dtype).reshape(shape).requires_grad_()
    zero = torch.tensor(float(fmt.zero_point), dtype=x.dtype, requires_grad=True)
    ends = [torch.tensor(e, dtype=torch.float64) for e in zip(*fmt.limits, strict=True)]
    low, high = (each.reshape(shape) if len(fmt.limits) > 1 else each.reshape(()) for each in ends)
    value = scaled_lsq(x, scale, zero, (low, high), factor)
    (value * weigh).sum().backward()
    assert x.grad is not None and scale.grad is not None and zero.grad is not None
    return value.detach(), x.grad, scale.grad.flatten(), zero.grad


@pytest.mark.parametrize("name", FORMATS)
def test_value_and_gradients(name: str) -> None:
    fmt, generator = FORMATS[name], torch.Generator().manual_seed(1)
    x = torch.randn(3, 70, generator=generator, dtype=torch.float64) * 2
    weigh = torch.randn(3, 70, generator=generator, dtype=torch.float64)
    value, by_x, by_scale, by_zero = run(fmt, x, weigh, 0.25)
    totals, zero_total = [0.0] * 3, 0.0
    for row in range(3):
        scale = fmt.scales[row % fmt.channels]
        low, high = fmt.limits[row % len(fmt.limits)]
        for each, w, got, dx in zip(*(t[row].tolist() for t in (x, weigh, value, by_x)), strict=True):
            want, inside, ds, dz = published(each, scale, fmt.zero_point, low, high)
            assert got == pytest.approx(want, abs=1e-15) and dx == inside * w
            totals[row % fmt.channels] += 0.25 * w * ds
            zero_total += 0.25 * w * dz
    assert by_scale.tolist() == pytest.approx(totals[: fmt.channels], rel=1e-12)
    assert float(by_zero) == pytest.approx(zero_total, rel=1e-12)


@pytest.mark.parametrize("name", [name for name, fmt in FORMATS.items() if len(fmt.limits) == 1])
def test_beside_the_operators_of_torch(name: str) -> None:
    """``torch._fake_quantize_learnable_*``, which also has gradients of LSQ and LSQ+.

    They differ by half a step: torch counts what rounds to the last number as inside, the publication only what is less
    than it. Numbers there are left out. Negative zero points are as well: torch's backward pass truncates ``z + 0.5``.
    """
    fmt, generator = FORMATS[name], torch.Generator().manual_seed(2)
    low, high = fmt.limits[0]
    x, weigh = (torch.randn(3, 200, generator=generator) * 2 for _ in range(2))
    scales = torch.tensor(fmt.scales).reshape(-1, 1)
    v = x / scales
    border = [((v - (end - fmt.zero_point)).abs() <= 0.51) for end in (low, high)]
    x = torch.where(border[0] | border[1], scales.expand_as(x), x)
    value, by_x, by_scale, by_zero = run(fmt, x, weigh, 0.5)
    theirs, scale = x.clone().requires_grad_(), torch.tensor(fmt.scales, requires_grad=True)
    zero = torch.full((fmt.channels,), float(fmt.zero_point), requires_grad=True)
    if fmt.channels > 1:
        made = torch._fake_quantize_learnable_per_channel_affine(theirs, scale, zero, 0, low, high, 0.5)
    else:
        made = torch._fake_quantize_learnable_per_tensor_affine(theirs, scale, zero, low, high, 0.5)
    (made * weigh).sum().backward()
    assert theirs.grad is not None and scale.grad is not None and zero.grad is not None
    assert torch.allclose(value, made.detach(), rtol=1e-6, atol=0) and torch.equal(by_x, theirs.grad)
    # float32 sums there, float64 here
    assert torch.allclose(by_scale, scale.grad, rtol=1e-4, atol=1e-4)
    assert torch.allclose(by_zero, zero.grad.sum(), rtol=1e-4, atol=1e-4)


def test_the_factor_counts_what_has_the_scale() -> None:
    """Values in a frame, weights of a channel; with a zero point the steps above it."""
    big = torch.full((5, 3, 4), 100.0)
    for fmt, per_frame, count, most in (
        (ScaledFormat.make(3, 0.5), True, 12, 3),
        (ScaledFormat.make(3, 0.5), False, 60, 3),
        (ScaledFormat.make(3, [0.5] * 5), False, 12, 3),
        (ScaledFormat.make(4, 0.5, 3), True, 12, 4),
    ):
        grid = LearnedScale(fmt, per_frame=per_frame)
        grid(big).sum().backward()
        assert grid.step.grad is not None
        each = 60 / fmt.channels * most / math.sqrt(count * most)
        assert grid.step.grad.tolist() == pytest.approx([each] * fmt.channels, rel=1e-6)


def test_a_zero_point_is_learned_if_asked() -> None:
    """Data above what the range holds moves it; the format has a whole one, which 0 stands for exactly."""
    fmt = ScaledFormat.make(4, 0.25, 4)
    assert not LearnedScale(fmt).zero.requires_grad
    assert not LearnedScale(ScaledFormat.make(4, 0.25), learn_zero=True).zero.requires_grad, "there is none"
    generator = torch.Generator().manual_seed(0)
    grid, x = LearnedScale(fmt, learn_zero=True), torch.rand(64, 8, generator=generator) * 3 - 0.2
    optimiser = torch.optim.SGD([grid.zero], lr=5.0)
    first = float((grid(x) - x).square().mean().detach())
    for _ in range(60):
        optimiser.zero_grad()
        (grid(x) - x).square().mean().backward()
        optimiser.step()
    made = grid.format()
    assert made.zero_point < 0 and float((grid(x) - x).square().mean().detach()) < 0.1 * first
    assert not bool(grid(torch.zeros(3, 2)).any())
    grid.settle()
    assert not grid.parameters_learned() and grid.format() == made


def test_it_begins_where_calibration_did_and_wide_ones_follow() -> None:
    fmt = ScaledFormat.make(4, [0.25, 0.5], narrow=True)
    assert LearnedScale(fmt, per_frame=False).format() == fmt
    wide = LearnedScale(ScaledFormat.make(16, 0.001))
    assert not wide.learned and not wide.parameters_learned()
    wide.eval()(torch.full((1, 2), 100.0))
    assert wide.format().scale == pytest.approx(0.001)
    wide.train()(torch.tensor([[-10.0], [65.534]]))
    assert wide.format().scale == pytest.approx(65.534 / 32767, rel=1e-6)
    weights = LearnedScale(ScaledFormat.make(12, [1.0, 1.0], narrow=True), per_frame=False)
    weights(torch.tensor([[1.0, -2.0], [0.5, 0.25]]))
    assert weights.format().scales == pytest.approx([2 / 2047, 0.5 / 2047], rel=1e-6)


def test_a_scale_that_training_drove_away() -> None:
    grid = LearnedScale(ScaledFormat.make(3, [0.1, 0.1]))
    with torch.no_grad():
        grid.step[1] = -0.1
    with pytest.raises(FormatError, match="not positive"):
        grid.format()
