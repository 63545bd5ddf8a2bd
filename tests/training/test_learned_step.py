"""Gradients of learned steps beside the formulas of the publication, element by element."""

from __future__ import annotations

import math

import pytest
import torch

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Rounding
from mase_hw.training import LearnedStep
from mase_hw.training.learned_step import lsq


def published(x: float, step: float, low: int, high: int) -> tuple[float, float, float]:
    """Value, ``dx`` and ``ds`` by formulas 1 to 3 and 5 of Esser et al., before the gradient is scaled."""
    v = x / step
    value = round(min(max(v, low), high)) * step  # Python rounds half to even
    if v <= low:
        return value, 0.0, float(low)
    if v >= high:
        return value, 0.0, float(high)
    return value, 1.0, round(v) - v


@pytest.mark.parametrize(("width", "signed"), [(2, True), (2, False), (3, True), (4, False), (8, True)])
def test_value_and_gradients(width: int, signed: bool) -> None:
    fmt = FixedFormat(width, 0, signed)
    low, high = fmt.min_mantissa, fmt.max_mantissa
    step = 0.37
    x = torch.linspace(-1.5 * (1 << width) * step, 1.5 * (1 << width) * step, 203, dtype=torch.float64)
    x.requires_grad_()
    s = torch.tensor(step, dtype=torch.float64, requires_grad=True)
    weigh = torch.sin(torch.arange(203, dtype=torch.float64))
    result = lsq(x, s, fmt, 1 / math.sqrt(203 * high))
    (result * weigh).sum().backward()
    wanted = [published(float(each), step, low, high) for each in x.tolist()]
    assert result.tolist() == pytest.approx([value for value, _, _ in wanted], abs=1e-12)
    assert x.grad is not None and s.grad is not None
    assert x.grad.tolist() == pytest.approx([float(w) * dx for w, (_, dx, _) in zip(weigh, wanted, strict=True)])
    total = sum(float(w) * ds for w, (_, _, ds) in zip(weigh, wanted, strict=True))
    assert float(s.grad) == pytest.approx(total / math.sqrt(203 * high))


def test_the_gradient_is_scaled_by_what_the_publication_counts() -> None:
    """The weights of a layer, or the values in a frame, however many frames there are."""
    fmt = FixedFormat(3, 1)
    for per_frame, count in ((True, 12), (False, 60)):
        grid = LearnedStep(fmt, per_frame=per_frame)
        x = torch.full((5, 3, 4), 100.0)  # every value is clipped: each counts Qp
        grid(x).sum().backward()
        assert grid.step.grad is not None
        assert float(grid.step.grad) == pytest.approx(60 * 3 / math.sqrt(count * 3))


def test_what_is_clipped_is_not_lost_for_good() -> None:
    """A step that is far too small grows until the range holds the data."""
    torch.manual_seed(0)
    grid, x = LearnedStep(FixedFormat(4, 8)), torch.randn(256, 8)
    optimiser = torch.optim.Adam([grid.step], lr=1e-2)
    first = float((grid(x) - x).square().mean().detach())
    for _ in range(300):
        optimiser.zero_grad()
        (grid(x) - x).square().mean().backward()
        optimiser.step()
    assert first > 0.9 and float((grid(x) - x).square().mean().detach()) < 0.03


def test_it_begins_as_the_publication_does() -> None:
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    grid = LearnedStep(FixedFormat(4, 3))
    grid.begin(x)
    assert grid.step.item() == pytest.approx(2 * float(x.abs().mean()) / math.sqrt(7), rel=1e-6)


@pytest.mark.parametrize(("step", "frac"), [(0.26, 2), (0.35, 2), (0.36, 1), (1.0, 0), (3.0, -2), (2.7, -1)])
def test_rounded_in_the_logarithm(step: float, frac: int) -> None:
    grid = LearnedStep(FixedFormat(3, 0))
    with torch.no_grad():
        grid.step.fill_(step)
    assert grid.format() == FixedFormat(3, frac)
    grid.round_step()
    assert float(grid.step) == 2.0**-frac and not grid.step.requires_grad


def test_wide_tensors_follow_their_range() -> None:
    grid = LearnedStep(FixedFormat(16, 0))
    assert not grid.learned and not grid.step.requires_grad
    grid.train()(torch.tensor([[-3.0], [1.0]]))
    assert grid.format() == FixedFormat(16, 13)
    grid(torch.tensor([[0.5], [9.0]]))
    assert grid.format() == FixedFormat(16, 11)
    grid.eval()(torch.tensor([[100.0]]))
    assert grid.format() == FixedFormat(16, 11), "evaluation observes nothing"


def test_other_roundings_are_those_of_the_cast() -> None:
    x, one, fmt = torch.tensor([0.5, 1.5, -0.5, 1.2]), torch.tensor(1.0), FixedFormat(3, 0)
    assert lsq(x, one, fmt, 1.0, Rounding.FLOOR).tolist() == [0.0, 1.0, -1.0, 1.0]
    assert lsq(x, one, fmt, 1.0, Rounding.HALF_UP).tolist() == [1.0, 2.0, 0.0, 1.0]


def test_a_step_that_training_drove_away() -> None:
    grid = LearnedStep(FixedFormat(3, 0))
    with torch.no_grad():
        grid.step.fill_(-0.1)
    with pytest.raises(FormatError, match="not positive"):
        grid.format()
