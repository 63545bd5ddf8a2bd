"""Rounding of weights beside the published algorithms, written anew column by column, row by row, choice by choice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from mase_hw.formats import FixedFormat
from mase_hw.passes.quantize.rounding.adaround import adaround, rectified_sigmoid
from mase_hw.passes.quantize.rounding.gptq import gptq
from mase_hw.passes.quantize.rounding.layers import Problem

FMT = FixedFormat(3, 2)


def problem(seed: int, rows: int, columns: int, groups: int = 1, samples: int = 60) -> tuple[Problem, Tensor]:
    """Correlated inputs, and weights of which some lie beyond the format."""
    made = torch.Generator().manual_seed(seed)
    x = torch.randn(groups, samples, columns, generator=made, dtype=torch.float64)
    x = x @ torch.randn(groups, columns, columns, generator=made, dtype=torch.float64) + 0.3
    weight = torch.randn(groups, rows, columns, generator=made, dtype=torch.float64) * 0.4
    step = torch.full((groups, rows, 1), FMT.scale, dtype=torch.float64)
    step[:, 0] *= 2  # as of a row with a shift
    wanted = x @ weight.mT
    cross, power = wanted.mT @ x, wanted.square().sum(1)
    return Problem(weight, step, FMT, x.mT @ x, cross, power, samples), x


def published_gptq(row: np.ndarray, x: np.ndarray, step: float, damping: float, order: bool) -> np.ndarray:
    """A single row: Optimal Brain Quantization in a fixed order, the inverse of what is left made anew each time."""
    hessian = x.T @ x
    hessian = hessian + damping * hessian.diagonal().mean() * np.eye(len(hessian))
    left = list(np.argsort(-hessian.diagonal(), kind="stable")) if order else list(range(len(row)))
    w, found = row.copy(), np.zeros_like(row)
    while left:
        inverse = np.linalg.inv(hessian[np.ix_(left, left)])
        q = left[0]
        found[q] = np.clip(np.rint(w[q] / step), FMT.min_mantissa, FMT.max_mantissa)
        w[left] -= (w[q] - found[q] * step) / inverse[0, 0] * inverse[0]
        left = left[1:]
    return found


def error(row: np.ndarray, mantissas: np.ndarray, x: np.ndarray, step: float) -> float:
    return float(np.mean((x @ (row - mantissas * step)) ** 2))


@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_gptq_is_the_published_algorithm(order: bool, groups: int) -> None:
    for seed in range(20):
        p, x = problem(seed, 3, 9, groups)
        found = gptq(p, 0.01, order)
        better = 0
        for g, r in itertools.product(range(groups), range(3)):
            row, data, step = p.weight[g, r].numpy(), x[g].numpy(), float(p.step[g, r])
            theirs = published_gptq(row, data, step, 0.01, order)
            plain = np.clip(np.rint(row / step), FMT.min_mantissa, FMT.max_mantissa)
            wins = error(row, theirs, data, step) < error(row, plain, data, step)
            better += wins
            assert np.array_equal(found[g, r].numpy(), theirs if wins else plain)
        assert better, "else the comparison would be of rounding to nearest with itself"


def test_errors_are_those_of_the_results() -> None:
    p, x = problem(3, 4, 6)
    given = p.nearest()
    for r in range(4):
        step = float(p.step[0, r])
        wanted = error(p.weight[0, r].numpy(), given[0, r].numpy(), x[0].numpy(), step)
        assert float(p.error(given)[0, r]) == pytest.approx(wanted, rel=1e-9)


def test_unused_inputs_do_no_harm() -> None:
    p, x = problem(0, 2, 5)
    x = x.clone()
    x[..., 2] = 0
    wanted = x @ p.weight.mT
    dead = Problem(p.weight, p.step, FMT, x.mT @ x, wanted.mT @ x, wanted.square().sum(1), p.count)
    for found in (gptq(dead), adaround(dead, 200)):
        assert bool(found.isfinite().all())
        assert torch.equal(found[..., 2], dead.nearest()[..., 2])


def test_learned_rounding_against_all_choices() -> None:
    """Down or up for every weight, all 2**7 tried: the best one in most cases, and nearest never beaten."""
    best = total = 0
    for seed in range(12):
        p, x = problem(seed, 4, 7)
        found, nearest = adaround(p, 400), p.nearest()
        for r in range(4):
            row, data, step = p.weight[0, r].numpy(), x[0].numpy(), float(p.step[0, r])
            floor = np.floor(row / step)
            choices = [
                np.clip(floor + np.array(ups), FMT.min_mantissa, FMT.max_mantissa)
                for ups in itertools.product((0, 1), repeat=7)
            ]
            least = min(error(row, choice, data, step) for choice in choices)
            mine = error(row, found[0, r].numpy(), data, step)
            assert any(np.array_equal(found[0, r].numpy(), choice) for choice in choices)
            assert mine <= error(row, nearest[0, r].numpy(), data, step) * (1 + 1e-9)
            best += mine <= least * (1 + 1e-6) + 1e-15
            total += 1
    assert total == 48 and best >= 0.8 * total


def test_the_rectified_sigmoid() -> None:
    """Formula 23 of the publication: 0 and 1 are reached."""
    v = torch.linspace(-6, 6, 41, dtype=torch.float64)
    wanted = [min(1.0, max(0.0, 1.2 / (1 + np.exp(-float(x))) - 0.1)) for x in v]
    assert rectified_sigmoid(v).tolist() == pytest.approx(wanted)
    assert float(rectified_sigmoid(v[0])) == 0.0 and float(rectified_sigmoid(v[-1])) == 1.0
