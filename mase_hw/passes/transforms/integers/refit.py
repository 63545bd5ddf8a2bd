"""The bits of a quantised layer's bias and sums, found again after its weights or its bias were changed.

The bias is at the scale of the products and as wide as its integers are. No scale changes by that, and so no multiplier
behind the layer.
"""

from __future__ import annotations

import dataclasses

from torch import fx

from mase_hw.formats import ScaledFormat
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.passes.transforms.integers.sums import Stored, sums_of


def refit(graph: MaseGraph, node: fx.Node, limit: int) -> None:
    """Give the bias and the sums of a quantised layer the bits that its parameters need now.

    Args:
        graph: The quantised graph; its record of results follows with ``refresh``.
        node: The layer; nothing happens to one in fixed point.
        limit: Most bits of the bias.
    """
    module = graph.meta_of(node).module
    if not isinstance(module, Quantized):
        return
    have = dict(module.arithmetic.formats)
    data, weight = have["data_in_0"], have["weight"]
    if not isinstance(data, ScaledFormat) or not isinstance(weight, ScaledFormat):
        return
    names = module.parameter_names
    shift = module.get_buffer("weight_shift") if "weight_shift" in names else None
    bias = module.get_parameter("bias") if "bias" in names else None
    shape = tuple(graph.tensor(node, "data_in_0").shape)
    stored = Stored(module.get_parameter("weight"), weight)
    found = sums_of(module.op, data, stored, bias, shape, limit=limit, shift=shift).formats
    if found == have:
        return
    module.arithmetic = dataclasses.replace(module.arithmetic, formats=found)
    for name in names:
        graph.meta_of(node).common.args.tensors[name].fmt = found[name]
    for user in node.users:  # requantisations
        reader = graph.meta_of(user).module
        if isinstance(reader, Quantized):
            formats = {**reader.arithmetic.formats, "data_in_0": found["data_out_0"]}
            reader.arithmetic = dataclasses.replace(reader.arithmetic, formats=formats)
