"""The same choice by CP-SAT (extra ``fit``), for what elimination and branch and bound leave open.

L. Perron and V. Furnon, "OR-Tools", https://developers.google.com/optimization. One worker and a limit in its own
deterministic time: the same problem gives the same answer on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from mase_hw.fit.problem import Edge, Numbers, Problem

MOST_TIME = 20.0
"""Of CP-SAT's deterministic time, about seconds."""


def installed() -> bool:
    """Whether ortools can be imported."""
    return find_spec("ortools") is not None


def solve(
    problem: Problem, weights: Numbers, budgets: Mapping[int, int], hint: Mapping[str, int] | None
) -> tuple[dict[str, int] | None, int | None]:
    """The choice within budgets whose weighed sum is least.

    Args:
        problem: The choice.
        weights: Of every measure.
        budgets: Most of a measure, by its number.
        hint: A choice to begin with.

    Returns:
        The best choice found, None if there is none; and a bound for all of them, None if no choice is possible.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    taken = {
        name: [model.new_bool_var(f"{name}.{i}") for i in range(len(prices))] for name, prices in problem.prices.items()
    }
    sums: list[tuple[Any, Numbers]] = []
    for name, variables in taken.items():
        model.add_exactly_one(variables)
        sums += zip(variables, problem.prices[name], strict=True)
    for number, edge in enumerate(problem.edges):
        sums += _pairs(model, edge, number, taken)
    for measure, most in budgets.items():
        model.add(sum(int(prices[measure]) * variable for variable, prices in sums) <= most)
    model.minimize(sum(int(prices @ weights) * variable for variable, prices in sums))
    for name, at in (hint or {}).items():
        for i, variable in enumerate(taken[name]):
            model.add_hint(variable, i == at)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = MOST_TIME
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None, None
    bound = int(np.ceil(solver.best_objective_bound - 1e-6))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, bound
    return {name: next(i for i, v in enumerate(of) if solver.boolean_value(v)) for name, of in taken.items()}, bound


def _pairs(model: Any, edge: Edge, number: int, taken: Mapping[str, list[Any]]) -> list[tuple[Any, Numbers]]:
    """A variable for every possible pair of lanes, which sum to the lanes that are taken on both sides."""
    ends = [
        {int(lane): [v for v, at in zip(taken[name], lanes, strict=True) if at == lane] for lane in np.unique(lanes)}
        for name, lanes in zip(edge.ends, (edge.rows, edge.columns), strict=True)
    ]
    pairs = {
        (r, c): model.new_bool_var(f"pair{number}.{r}.{c}") for r in ends[0] for c in ends[1] if edge.possible[r, c]
    }
    for r, variables in ends[0].items():
        model.add(sum(v for (row, _), v in pairs.items() if row == r) == sum(variables))
    for c, variables in ends[1].items():
        model.add(sum(v for (_, column), v in pairs.items() if column == c) == sum(variables))
    return [(variable, edge.prices[r, c]) for (r, c), variable in pairs.items()]
