"""The table of ops without hardware: MASE's names, nothing implicit that computes, all refused by name in hardware."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw.catalogue import OpDef, default_catalogue
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.layouts import Layout
from mase_hw.ops import software
from mase_hw.passes.mapping.add_hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.quantize.quantize import quantize_transform_pass
from tests.ir.nets import annotated, snapshot

OF_MASE = {
    # Without gemm, cast, shape, slice and call, its helpers for ONNX; a method that writes (masked_fill_) is its op.
    "implicit_func": """size view
        to bool flatten squeeze unsqueeze transpose permute reshape contiguous dropout eq ne ge
        where _assert getattr long type_as clamp abs stack gather cat split tile expand full ones dim finfo masked_fill
        float type detach sum unbind zeros_like t""",
    "builtin_func": """mul baddbmm addmm sub add matmul bmm mean pow sqrt div max cumsum erf sin cos tan sinh cosh gt le
        lt min neg log arange range scaled_dot_product_attention embedding getitem exp not""",
    "module_related_func": """adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool1d adaptive_max_pool2d avg_pool1d
        avg_pool2d batch_norm conv1d conv2d layer_norm linear max_pool1d max_pool2d relu hardshrink silu elu sigmoid
        softshrink logsigmoid softmax selu tanh gelu softsign softplus""",
    "module": "batch_norm1d batch_norm2d",
}


@pytest.mark.parametrize("kind", OF_MASE)
def test_the_ops_of_mase_have_its_types(kind: str) -> None:
    names = OF_MASE[kind].split()
    found = {name: op.mase_type if (op := default_catalogue().get(name)) is not None else None for name in names}
    assert found == dict.fromkeys(names, kind)


def test_methods_that_write_are_their_op() -> None:
    catalogue = default_catalogue()
    for method, name in (("masked_fill_", "masked_fill"), ("add_", "add"), ("relu_", "relu"), ("clamp_", "clamp")):
        op = catalogue.of_target(method)
        assert op is not None and op.name == name


@pytest.mark.parametrize("op", software.OPS, ids=lambda op: op.name)
def test_an_entry_of_the_table(op: OpDef) -> None:
    assert op.modules or op.functions or op.methods
    assert not op.implicit and op.hardware is None and op.golden is None
    assert all(callable(getattr(torch.Tensor, method)) for method in op.methods)


def test_what_is_implicit_keeps_every_element_in_its_place() -> None:
    """The hardware lets data pass through these unchanged, so nothing else may be among them."""
    plain = {op.name for op in default_catalogue() if op.implicit and op.relayout is None}
    assert plain <= {
        *("flatten", "unflatten", "view", "reshape", "squeeze", "unsqueeze", "contiguous", "clone", "detach"),
        *("identity", "dropout", "size", "quantize", "as_number"),
    }


ORDERS: dict[str, Any] = {
    "permute": lambda x: x.permute(0, 3, 1, 2),
    "transpose": lambda x: torch.transpose(x, 1, -1),
    "swapaxes": lambda x: x.swapaxes(-2, 1),
    "movedim": lambda x: x.movedim((1, 2), (-1, 0)),
    "t": lambda x: x.flatten(1).t(),
    "pixel_shuffle": nn.PixelShuffle(2),
    "pixel_unshuffle": nn.PixelUnshuffle(2),
    "channel_shuffle": nn.ChannelShuffle(4),
}


def test_every_renaming_of_dimensions_is_tested() -> None:
    assert set(ORDERS) == {op.name for op in default_catalogue() if op.implicit and op.relayout is not None}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("kind", ["row_major", "channels_last"])
def test_renamed_dimensions_move_no_element(name: str, kind: str) -> None:
    """The layout an op makes puts PyTorch's result into the very stream that came in."""

    class Renames(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.operation = ORDERS[name]

        def forward(self, x: Tensor) -> Tensor:
            return self.operation(x)

    x = torch.arange(2 * 8 * 4 * 6).reshape(2, 8, 4, 6).float()
    graph = annotated(Renames().eval(), {"x": x})
    layout, value = getattr(Layout, kind)(x.shape), x
    stream = layout.to_stream(x[None].numpy())
    for node in graph.nodes:
        op, common = graph.op_of(node), graph.meta_of(node).common
        if op is None:
            continue
        value = common.results["data_out_0"].value
        attributes = {k: v for k, v in common.args.items() if k not in common.args.tensors}
        if op.relayout is not None:
            layout = op.relayout(layout, tuple(value.shape), attributes)
        else:
            layout = layout.reshaped(tuple(value.shape))
    assert layout.shape == tuple(value.shape)
    assert (layout.to_stream(value[None].numpy()) == stream).all()


class Between(nn.Module):
    """Linear, an operation, linear."""

    def __init__(self, operation: Any) -> None:
        super().__init__()
        self.fc1, self.operation, self.fc2 = nn.Linear(4, 4), operation, nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.operation(self.fc1(x)))


MOVES = {
    "stack": lambda x: torch.stack([x, x], 0),
    "flip": lambda x: torch.flip(x, [1]),
    "expand": lambda x: x.unsqueeze(1).expand(-1, 2, -1),
    "getattr": lambda x: x.T,
    "roll": lambda x: x.roll(1, 1),
    "to": lambda x: x.to(torch.float64).float(),
    "masked_fill": lambda x: x.masked_fill(torch.eye(4).bool(), 0.0),
    "remainder": lambda x: x.remainder(3),
}
FORMAT = {"name": "fixed", "data_in_width": 8, "data_in_frac_width": 4, "weight_width": 8, "weight_frac_width": 6}
RULE = {"config": {**FORMAT, "bias_width": 8, "bias_frac_width": 4, "data_out_width": 8, "data_out_frac_width": 4}}


def between(name: str) -> MaseGraph:
    return annotated(Between(MOVES[name]).eval(), {"x": torch.randn(4, 4)})


@pytest.mark.parametrize("name", MOVES)
def test_quantisation_refuses_by_name(name: str) -> None:
    graph = between(name)
    before = snapshot(graph)
    with pytest.raises(UnsupportedError, match="cannot be quantised") as error:
        quantize_transform_pass(graph, {"default": RULE})
    assert f"'{name}'" in error.value.message and "overrides" in str(error.value)
    assert snapshot(graph) == before


@pytest.mark.parametrize("name", MOVES)
def test_hardware_refuses_by_name(name: str) -> None:
    """Also when all that has no hardware is left in float."""
    graph = between(name)
    quantize_transform_pass(graph, {"by": "type", "linear": RULE})
    for node in graph.nodes:
        for tensor in graph.meta_of(node).common.results.tensors:
            graph.set_format(node, tensor, FixedFormat(8, 4))
    with pytest.raises(UnsupportedError, match=f"op '{name}' is known but not in hardware"):
        add_hardware_metadata_analysis_pass(graph, {})
