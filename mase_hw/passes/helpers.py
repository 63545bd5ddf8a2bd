"""What passes are written with, under the names of MASE; each is the documented helper on our graph.

Beside them a pass has ``graph.op_of(node)``, ``graph.meta_of(node)`` and ``graph.set_format(node, tensor, format)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn

from mase_hw.errors import ConfigError
from mase_hw.formats import FixedFormat
from mase_hw.passes.base import validate
from mase_hw.passes.quantize.config import NodeConfig, QuantizeArgs, Rule
from mase_hw.passes.quantize.modules import LAYER, quantised_layer


def get_mase_op(node: fx.Node) -> str:
    """The op of a node with common metadata, ``"linear"`` for example."""
    return str(node.meta["mase"].common.mase_op)


def get_mase_type(node: fx.Node) -> str:
    """The kind of op of a node with common metadata, ``"module_related_func"`` for example."""
    return str(node.meta["mase"].common.mase_type)


def get_node_actual_target(node: fx.Node) -> Any:
    """The module that a node calls; of any other node its target: a function, or a name."""
    return node.meta["mase"].module if node.op == "call_module" else node.target


def get_parent_name(target: str) -> tuple[str, str]:
    """A path as that of its parent and its own name: ``"a.b.c"`` is ``("a.b", "c")``, and ``"a"`` is ``("", "a")``."""
    parent, _, name = target.rpartition(".")
    return parent, name


def create_new_module(
    mase_op: str, original_module: nn.Module, config: Mapping[str, Any], node_meta: Mapping[str, Any]
) -> nn.Module:
    """The bit-true module of a layer, by the configuration of a node with all fraction widths, and ``node.meta``.

    Raises:
        MaseHwError: As ``quantize_transform_pass``; a ConfigError also if the node is another op.
    """
    common = node_meta["mase"].common
    if common.mase_op != mase_op:
        raise ConfigError("the layer is another op", field="mase_op", got=mase_op, expected=common.mase_op)
    example = tuple(torch.zeros(t.shape) for name, t in common.args.tensors.items() if name.startswith("data_in_"))
    args = QuantizeArgs(default=Rule(config=validate("config", NodeConfig, config)))
    return quantised_layer(original_module, args, example)[0].modules[LAYER]


def update_quant_meta_param(node: fx.Node, config: Mapping[str, Any], mase_op: str) -> None:
    """Write the formats of a configuration into the common metadata of a node; what has no fraction width stays.

    What reads the result has a record of its own: ``graph.set_format`` writes both.
    """
    keys, common = validate(f"the configuration of {mase_op}", NodeConfig, config), node.meta["mase"].common
    for name, tensor in {**common.args.tensors, **common.results.tensors}.items():
        width, frac, signed = keys.of(name)
        if width is not None and frac is not None:
            tensor.fmt = FixedFormat(width, frac, signed is not False)
