"""Learned rounding: AdaRound (Nagel et al., arXiv:2004.10568), every weight down or up by what the layer loses.

With ``V`` the free variables, a weight is ``step * clip(floor(w / step) + h(V))``, where ``h(V)`` is the rectified
sigmoid ``clip(sigmoid(V) * (zeta - gamma) + gamma, 0, 1)``. What is minimised is the squared error of the layer and
``regulariser * sum(1 - |2 h(V) - 1|**beta)``, which draws every ``h`` to 0 or 1 more and more as ``beta`` falls. The
error is that of all data at once (see :mod:`~mase_hw.passes.quantize.rounding.layers`), so nothing is drawn at random.
In the end single weights, and pairs of them, that are better the other way are turned, until there are none.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from mase_hw.passes.quantize.rounding.layers import Problem

ZETA, GAMMA = 1.1, -0.1
"""Ends to which the sigmoid is stretched before it is cut off."""
FIRST, LAST = 20.0, 2.0
"""``beta`` at the start and at the end."""
WARM_UP = 0.2
"""Share of the iterations without the regulariser."""

PAIRS = 512
"""Rows of so many weights, or fewer, are also searched for pairs."""


def rectified_sigmoid(free: Tensor) -> Tensor:
    """``h(V)``, between 0 and 1, both included."""
    return (torch.sigmoid(free) * (ZETA - GAMMA) + GAMMA).clamp(0.0, 1.0)


def adaround(problem: Problem, iterations: int = 2000, rate: float = 0.02, regulariser: float = 0.2) -> Tensor:
    """Mantissas by learned rounding; a row for which rounding to nearest errs less keeps that.

    Args:
        problem: The layer.
        iterations: Steps of Adam.
        rate: Learning rate.
        regulariser: Weight of the term that draws to whole numbers, with the error of a layer that is rounded to
            nearest as the unit of a row.

    Returns:
        Mantissas, ``(groups, rows, columns)`` in float64.
    """
    nearest = problem.nearest()
    scaled = problem.weight / problem.step
    floor = torch.floor(scaled)
    rest = (scaled - floor).clamp(1e-6, 1 - 1e-6)
    free = torch.log((rest - GAMMA) / (ZETA - rest))
    unit = problem.error(nearest).clamp_min(1e-300)
    first, second = torch.zeros_like(free), torch.zeros_like(free)
    for done in range(iterations):
        sigmoid = torch.sigmoid(free)
        stretched = sigmoid * (ZETA - GAMMA) + GAMMA
        h = stretched.clamp(0.0, 1.0)
        inside = (stretched > 0) & (stretched < 1)
        mantissas = problem.clipped(floor + h)
        moves = mantissas == floor + h
        slope = 2 * ((mantissas * problem.step) @ problem.hessian - problem.cross) * problem.step
        gradient = slope * moves / (max(1, problem.count) * unit.unsqueeze(-1))
        share = done / iterations
        if share >= WARM_UP:
            left = (1 - share) / (1 - WARM_UP)
            beta = LAST + (FIRST - LAST) * left
            away = 2 * h - 1
            gradient = gradient - regulariser * beta * 2 * away.sign() * away.abs() ** (beta - 1)
        gradient = gradient * inside * sigmoid * (1 - sigmoid) * (ZETA - GAMMA)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        step = rate / (1 - 0.9 ** (done + 1))
        free = free - step * first / ((second / (1 - 0.999 ** (done + 1))).sqrt() + 1e-8)
    found = problem.clipped(floor + (rectified_sigmoid(free) >= 0.5))
    low, high = problem.clipped(floor), problem.clipped(floor + 1)
    # Rounding to nearest is itself one of these choices, and a second place to begin from.
    other = _turned(problem, nearest, low, high)
    return problem.better(problem.better(_turned(problem, found, low, high), other), nearest)


def _turned(problem: Problem, found: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Turn the weights of every row that gain most by it, one or two at a time, until nothing is gained any more."""
    pairs = found.shape[-1] <= PAIRS
    done = found.clone()
    for g, r in itertools.product(*map(range, found.shape[:2])):
        hessian, cross, step = problem.hessian[g], problem.cross[g, r], problem.step[g, r]
        diagonal, least = hessian.diagonal(), 1e-9 * float(problem.power[g, r]) + 1e-300
        row, down, up = done[g, r], low[g, r], high[g, r]
        for _ in range(4 * len(row)):
            move = (torch.where(row == down, up, down) - row) * step
            gain = -(move.square() * diagonal + 2 * move * (hessian @ (row * step) - cross))
            if pairs:
                both = gain.unsqueeze(0) + gain.unsqueeze(1) - 2 * torch.outer(move, move) * hessian
                both.diagonal().copy_(gain)
                best, place = both.flatten().max(0)
                chosen = sorted({int(place) // len(row), int(place) % len(row)})
            else:
                best, place = gain.max(0)
                chosen = [int(place)]
            if float(best) <= least:
                break
            row[chosen] += torch.round(move[chosen] / step)
    return done
