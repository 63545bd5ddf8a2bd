"""Each invariant of the IR, broken on purpose."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from mase_hw.errors import GraphError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.passes import verify_analysis_pass
from tests.ir.nets import ConvNet, annotated


def damage_shape(graph: MaseGraph) -> None:
    graph.tensor(graph.node("add"), "data_in_1").shape[1] = 9


def damage_format(graph: MaseGraph) -> None:
    graph.tensor(graph.node("head"), "data_in_0").fmt = FixedFormat(8, 4)


def damage_sign(graph: MaseGraph) -> None:
    graph.set_format(graph.node("pool"), "data_out_0", FixedFormat(8, 4))
    graph.tensor(graph.node("average"), "data_in_0").signed = False


def damage_precision(graph: MaseGraph) -> None:
    graph.tensor(graph.node("pool"), "data_out_0").precision = [8, 4]


def damage_op(graph: MaseGraph) -> None:
    graph.meta_of(graph.node("body")).common.mase_op = "linear"


def damage_owner(graph: MaseGraph) -> None:
    graph.node("body").meta["mase"] = graph.node("head").meta["mase"]


def damage_argument(graph: MaseGraph) -> None:
    del graph.node("add").meta["mase"]["common"]["args"]["data_in_1"]


def damage_weight(graph: MaseGraph) -> None:
    graph.model.set_submodule("head", nn.Linear(8, 6))


def damage_result(graph: MaseGraph) -> None:
    del graph.node("pool").meta["mase"]["common"]["results"]["data_out_0"]


def damage_nodes_in(graph: MaseGraph) -> None:
    graph.metadata.common.nodes_in.append(graph.node("head"))


def damage_results(graph: MaseGraph) -> None:
    graph.meta["mase"]["common"]["results"] = {}


@pytest.mark.parametrize(
    ("damage", "texts"),
    [
        (damage_shape, ("add.data_in_1", "stem_2.data_out_0", "[1, 9, 8, 8]", "[1, 8, 8, 8]")),
        (damage_format, ("head.data_in_0", "dropout.data_out_0", "fixed [8, 4]", "float [32]", "cast")),
        (damage_sign, ("average.data_in_0", "pool.data_out_0")),
        (damage_precision, ("pool.data_out_0", "malformed")),
        (damage_op, ("body", "linear", "conv2d")),
        (damage_owner, ("body", "another node")),
        (damage_argument, ("add", "data_in_1")),
        (damage_weight, ("head.weight", "[6, 8]")),
        (damage_result, ("pool",)),
        (damage_nodes_in, ("nodes_in", "stem_0")),
        (damage_results, ("results of the graph",)),
    ],
)
def test_damage_is_found(damage: Callable[[MaseGraph], None], texts: tuple[str, ...]) -> None:
    graph = annotated(ConvNet(), {"x": torch.randn(1, 3, 8, 8)})
    damage(graph)
    with pytest.raises(GraphError) as error:
        verify_analysis_pass(graph)
    for text in texts:
        assert text in str(error.value), str(error.value)


def test_formats_can_be_left_out() -> None:
    graph = annotated(ConvNet(), {"x": torch.randn(1, 3, 8, 8)})
    damage_format(graph)
    verify_analysis_pass(graph, {"formats": False})
