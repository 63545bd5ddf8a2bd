"""What is emitted is a design: RTL that an elaboration refuses is refused before anything is written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from mase_hw.compiler.stages import compile_pipeline
from mase_hw.emit.checks.elaborate import check_elaboration
from mase_hw.emit.passes import bundle_of
from mase_hw.errors import EmitError
from mase_hw.ir import MaseGraph
from mase_hw.passes.pipeline import Step


def emitted(out: Path, node: str, changes: dict[str, int]) -> MaseGraph:
    """A convolution and a ReLU, with other parameters of one of them than the mapping chose."""
    torch.manual_seed(0)
    graph = MaseGraph(nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU()).eval())

    def change(step: Step) -> None:
        if step.name == "top":
            found = graph.meta_of(graph.node(node)).hardware
            found.fill({**found, "verilog_param": {**found.verilog_param, **changes}})

    settings = {"vectors": {"frames": 1, "faults": 1}}
    compile_pipeline({"input_1": torch.randn(1, 2, 4, 4)}, settings, out=out).run(graph, on_step=change)
    return graph


@pytest.mark.parametrize(
    ("node", "changes", "problem"),
    [
        ("_0", {"PACKED": 2}, "fixed_dot_products: PACKED 2 needs CHAIN"),
        ("_0", {"WEIGHT_TENSOR_SIZE_DIM_0": 3}, "fixed_conv2d: WEIGHT_TENSOR_SIZE must be 2, 3, 3, 3, got 3, 3, 3, 3"),
        ("_1", {"DATA_OUT_0_PARALLELISM_DIM_0": 1}, "ports [4] in, [12] out; its schedule [4] in, [4] out"),
    ],
    ids=["checks", "weights", "beats"],
)
def test_parameters_that_contradict_each_other(
    node: str, changes: dict[str, int], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(EmitError) as caught:
        emitted(tmp_path / "bundle", node, changes)
    assert caught.value.node == node and problem in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_port_of_another_width_and_text_that_is_none(tmp_path: Path) -> None:
    """The node of a port is that of its instance; of what belongs to none, the file is named."""
    graph = emitted(tmp_path / "bundle", "_0", {})
    bundle, netlist = bundle_of(graph), graph.meta["netlist"]
    sources = {path: bundle.read(path).decode() for path in bundle.manifest["rtl"]}
    check_elaboration(netlist, sources, graph.catalogue)
    relu = re.sub(r"(input +logic) .* data_in_0,", r"\1 [6:0] data_in_0,", sources["rtl/ops/fixed_relu.sv"])
    with pytest.raises(EmitError, match=r"rtl/top\.sv") as caught:
        check_elaboration(netlist, sources | {"rtl/ops/fixed_relu.sv": relu}, graph.catalogue)
    assert caught.value.node == "_1"
    with pytest.raises(EmitError, match="does not elaborate") as caught:
        check_elaboration(netlist, sources | {"rtl/ops/fixed_relu.sv": "module fixed_relu ("}, graph.catalogue)
    assert caught.value.node == "rtl/ops/fixed_relu.sv"
