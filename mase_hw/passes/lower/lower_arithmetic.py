"""Arithmetic that other ops express: products with stored operands, powers, scaled sums, logic, conversions."""

from __future__ import annotations

from collections.abc import Mapping

from mase_hw.ir import MaseGraph
from mase_hw.passes.lower import _edit as edit
from mase_hw.passes.lower.layers import choices, comparisons, compounds, products
from mase_hw.passes.lower.layers.call import Rule, expand, expression_of
from mase_hw.passes.lower.layers.compounds import COMPOUNDS
from mase_hw.passes.lower.movement._calls import drop

RULES = {**compounds.RULES, **comparisons.RULES, **products.RULES, **choices.RULES}
"""Which op is expressed by which rule, unless it has hardware of its own."""
REFINED = {**compounds.REFINED, **comparisons.REFINED, **choices.REFINED}
"""The same for ops that have hardware, which takes not all that PyTorch does."""


@edit.lowering("lower_arithmetic_transform_pass")
def lower_arithmetic_transform_pass(graph: MaseGraph) -> dict[str, str]:
    """Write arithmetic without hardware of its own as ops that have it.

    - ``x @ W``, ``torch.einsum``, ``addmm`` and ``baddbmm`` with a stored operand become a linear layer, or, with a
      matrix for each index of a batch, a convolution with groups. An ``einsum`` of one operand or of more than two
      becomes sums, diagonals and products of two.
    - ``x ** 2`` and ``square`` become a product, ``x ** 0.5`` and the like the function of that name.
    - ``add`` and ``sub`` with ``alpha`` become a product and a sum, ``clamp`` with tensors a minimum and a maximum.
    - ``where`` and ``masked_fill`` with numbers or stored tensors become a choice with a constant, or products with 0
      and 1 where the condition is stored.
    - ``x[arange(frames), places]``, a row that data names, becomes a row of the unit matrix times the rows.
    - A division by powers of two becomes a product with their reciprocals, which is exact.
    - A formula with a name (``addcmul``, ``lerp``, ``logaddexp``, ``frac``, ``any``) becomes what it stands for, and a
      division with ``rounding_mode`` a whole quotient.
    - Comparisons with a number compare codes with a constant; ``logical_and`` and its relatives become a minimum, a
      maximum or a comparison of single bits; a conversion of a truth value to a number renames it.

    Every result is the same up to the rounding of floats. The node that computes it keeps the name. What no rule covers
    stays as it is.
    """
    # What a formula is written with may have to be written with something else in its turn.
    lowered = _lower(graph, COMPOUNDS, {})
    return {**_lower(graph, RULES, REFINED), **lowered}


def _lower(graph: MaseGraph, rules: Mapping[str, Rule], refined: Mapping[str, Rule]) -> dict[str, str]:
    """Apply rules once to what is there; node -> what it was."""
    lowered: dict[str, str] = {}
    for node in graph.nodes:
        op = graph.op_of(node)
        if op is None:
            continue
        rule = refined.get(op.name) or (rules.get(op.name) if op.golden is None else None)
        if rule is None:
            continue
        expression = expression_of(graph, node)
        body = None if expression is None else rule(expression)
        if body is not None:
            lowered[node.name] = str(graph.meta_of(node).common.mase_op)
            before = node.all_input_nodes
            expand(graph, node, body.module, body.sources)
            drop(graph, [n for n in before if n not in body.sources and n.op != "get_attr"])
    return lowered
