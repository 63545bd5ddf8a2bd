"""Rounding by second order: GPTQ (Frantar et al., arXiv:2210.17323), which goes back to Optimal Brain Surgeon.

The columns are rounded one after the other; the error of each is made up for, as far as it can be, by the columns that
are still to come. With ``H`` the Hessian of the squared error and ``F`` the columns that are left, rounding column
``q`` by ``e = w_q - round(w_q)`` moves the others by ``-e / (H_F^-1)_qq * (H_F^-1)_q``; all the inverses are in the
rows of one Cholesky factor (section 4, step 3 of the publication).
"""

from __future__ import annotations

import torch
from torch import Tensor

from mase_hw.passes.quantize.rounding.layers import Problem


def gptq(problem: Problem, damping: float = 0.01, order: bool = True) -> Tensor:
    """Mantissas by GPTQ; a row for which rounding to nearest errs less keeps that.

    Args:
        problem: The layer.
        damping: Share of the mean of the Hessian's diagonal that is added to the diagonal.
        order: Round the columns with the largest diagonal first (``act-order``), not from left to right.

    Returns:
        Mantissas, ``(groups, rows, columns)`` in float64.
    """
    weights = problem.ideal(damping)
    groups = []
    for weight, step, hessian in zip(weights, problem.step, problem.damped(damping), strict=True):
        places = torch.argsort(hessian.diagonal(), descending=True, stable=True)
        if not order:
            places = torch.arange(len(hessian), device=hessian.device)
        done = _columns(problem, weight[:, places], step, hessian[places][:, places])
        groups.append(done[:, torch.argsort(places)])
    return problem.better(torch.stack(groups), problem.nearest())


def _columns(problem: Problem, weight: Tensor, step: Tensor, hessian: Tensor) -> Tensor:
    """Round a group's columns from left to right; ``weight`` is written."""
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(hessian))
    factor = torch.linalg.cholesky(inverse, upper=True)
    found = torch.empty_like(weight)
    for q in range(weight.shape[1]):
        column = weight[:, q : q + 1]
        found[:, q : q + 1] = problem.clipped(torch.round(column / step))
        error = (column - found[:, q : q + 1] * step) / factor[q, q]
        weight[:, q + 1 :] -= error * factor[q, q + 1 :]
    return found
