"""What a quantised graph costs in hardware: one number, so that plans can be compared.

A cost model is any function from a quantised graph to a number; :data:`COSTS` names those of the package. A model of
lookup tables, fitted to synthesis results, is used in the same way: ``cost=my_luts``.
"""

from __future__ import annotations

from collections.abc import Callable

from mase_hw.errors import ConfigError, refuse_unknown
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.passes.analysis.count import count_analysis_pass

CostModel = Callable[[MaseGraph], float]


def bit_operations(graph: MaseGraph) -> float:
    """Multiply-accumulates times the widths of both operands, summed over the network: bits x MACs.

    For one run on the shapes in the metadata, so proportional to the frames of ``dummy_in``.

    Raises:
        ConfigError: If a node's multiply-accumulates are not known.
    """
    return float(_counts(graph)["bit_operations"])


def memory_bits(graph: MaseGraph) -> float:
    """Bits of all parameters in their formats."""
    return float(_counts(graph)["memory_bits"])


COSTS: dict[str, CostModel] = {"bit_operations": bit_operations, "memory_bits": memory_bits}
"""Cost models by name."""


def cost_model(cost: str | CostModel) -> tuple[str, CostModel]:
    """A cost model and its name.

    Raises:
        ConfigError: If there is none of that name.
    """
    if callable(cost):
        return getattr(cost, "__name__", type(cost).__name__), cost
    refuse_unknown(cost, COSTS, "there is no such cost model", field="cost")
    return cost, COSTS[cost]


def _counts(graph: MaseGraph) -> Json:
    _, info = count_analysis_pass(graph, {"show": False})
    if info["not_counted"]:
        names = ", ".join(f"{name} ({op})" for name, op in info["not_counted"].items())
        raise ConfigError(
            "the multiply-accumulates of a node are not known",
            field="cost",
            got=names,
            remedy="pass a cost model of your own, a function from a graph to a number",
        )
    totals: Json = info["totals"]
    return totals
