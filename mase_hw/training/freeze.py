"""What becomes of a trained node of scaled integers: formats from the learned scales, and exact arithmetic."""

from __future__ import annotations

import dataclasses

from torch import Tensor, fx, nn

from mase_hw.catalogue import Arithmetic
from mase_hw.formats import FixedFormat, ScaledFormat, steps_of
from mase_hw.formats.attributes import attributes_of
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.passes.quantize.integers.combine import product_of, sum_of, total_of
from mase_hw.passes.quantize.integers.pieces import in_pieces
from mase_hw.passes.quantize.integers.sums import Stored, sums_of
from mase_hw.passes.quantize.integers.thresholds import Requantizing
from mase_hw.passes.quantize.quantize import configured_for
from mase_hw.training.integers import LearnedIntegers

Parameters = dict[str, Tensor]


def frozen_integers(
    graph: MaseGraph,
    node: fx.Node,
    trained: LearnedIntegers,
    inputs: list[FixedFormat | None],
    behind: FixedFormat | None,
) -> Quantized:
    """The quantised module with what was learned.

    Args:
        graph: The quantised graph.
        node: The node.
        trained: What takes its place in training.
        inputs: Formats of its inputs, as they are now; None of an input that is float.
        behind: Format of the requantisation behind it, unless that is a clamp; None if there is none.

    Raises:
        FormatError: If a scale is not positive any more.
    """
    old = trained.quantised[0]
    entry = trained.own_entry.format() if trained.own_entry is not None else old.arithmetic.formats["data_in_0"]
    given = [entry if fmt is None else fmt for fmt in inputs]
    kept = {name: getattr(old, name).detach().clone() for name in old.parameter_names}
    if trained.kind == "requantisation":
        arithmetic, parameters = _requantised(graph, node, trained, given[0])
    elif trained.kind == "sums":
        arithmetic, parameters = _sums(graph, node, trained, given[0])
    else:
        arithmetic, parameters = _other(graph, node, trained, given, behind), kept
    made = Quantized(old.op, arithmetic, parameters)
    made.label = old.label
    made.check_parameters()
    return made


def _requantised(
    graph: MaseGraph, node: fx.Node, trained: LearnedIntegers, have: FixedFormat
) -> tuple[Arithmetic, Parameters]:
    a, out = trained.quantised[0].arithmetic, trained.out
    want = have.centred if out is None and isinstance(have, ScaledFormat) else out.format() if out is not None else have
    if trained.ends is not None and isinstance(want, ScaledFormat):
        want = want.clamped(*trained.ends)
    source = node.all_input_nodes[0]
    module = graph.meta_of(source).module
    own = trained.ends is not None
    if not own and isinstance(module, Quantized) and module.op.scaled is not None:
        own = module.op.scaled.exact(module.arithmetic.attributes)
        node = source
    how = (
        Requantizing(a.rounding, configured_for(graph, node.name).multiplier_width) if own else Requantizing(a.rounding)
    )
    return how.between(have, want)


def _sums(
    graph: MaseGraph, node: fx.Node, trained: LearnedIntegers, data: FixedFormat
) -> tuple[Arithmetic, Parameters]:
    assert trained.weight_grid is not None and isinstance(data, ScaledFormat)  # of a layer
    a = trained.quantised[0].arithmetic
    values = {name: value.detach().clone() for name, value in trained.trained.items()}
    made = sums_of(
        trained.quantised[0].op,
        data,
        Stored(values["weight"], trained.weight_grid.format()),
        values.get("bias"),
        tuple(graph.tensor(node, "data_in_0").shape),
        limit=configured_for(graph, node.name).bias_limit,
    )
    parameters = {name: nn.Parameter(value.detach()) for name, value in made.parameters.items()}
    return dataclasses.replace(a, formats=made.formats), dict(parameters)


def _other(
    graph: MaseGraph, node: fx.Node, trained: LearnedIntegers, given: list[FixedFormat], behind: FixedFormat | None
) -> Arithmetic:
    a, use = trained.quantised[0].arithmetic, trained.quantised[0].op.scaled
    assert use is not None  # it has scaled integers
    formats = dict(a.formats) | {f"data_in_{i}": fmt for i, fmt in enumerate(given)}
    if trained.kind in ("sum", "product"):
        x, y = (fmt for name, fmt in formats.items() if name != "data_out_0")
        assert isinstance(x, ScaledFormat) and isinstance(y, ScaledFormat)  # as planned
        stored = len(given) == 1
        if trained.kind == "product":
            made = product_of(x, y, constant=stored)
        else:
            step = max(*steps_of(x), *steps_of(y)) if behind is None else steps_of(behind)[0]
            bits, turned = configured_for(graph, node.name).multiplier_width, bool(a.attributes.get("reversed"))
            width = max(x.width, y.width) if behind is None else behind.width
            made = sum_of(x, y, step, bits=bits, width=width, constant=stored, reversed=turned)
        rest = {name: value for name, value in a.attributes.items() if name not in ("multipliers", "reversed")}
        return dataclasses.replace(a, formats=dict(made.formats), attributes=attributes_of({**rest, **made.attributes}))
    data = given[0]
    assert isinstance(data, ScaledFormat)  # as planned
    result = behind if trained.out is None else trained.out.format()
    if trained.function is not None and isinstance(result, ScaledFormat):  # linear pieces, or their table
        op, attributes = trained.function
        return in_pieces(graph.catalogue, op, attributes, data, result, a.rounding)[1]
    if trained.kind == "total":
        assert use.count is not None  # the op adds
        formats["data_out_0"] = total_of(data, use.count(tuple(graph.tensor(node, "data_in_0").shape), a.attributes))
    elif trained.exact:  # an average with another divisor, at the scale of its data
        width = formats["data_out_0"].width
        formats["data_out_0"] = ScaledFormat.make(width, data.scales, signed=data.signed)
    elif trained.out is not None:
        formats["data_out_0"] = trained.out.format()
    else:
        formats["data_out_0"] = data
    return dataclasses.replace(a, formats=formats)
