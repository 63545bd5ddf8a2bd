"""The flow of MASE's lecture: metadata, quantisation by type, name and regular expression, hardware, simulation.

Run it with ``python examples/mase_flow.py``. Every name is one of MASE's documents.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from torch import nn

from mase_hw.compat import (
    MaseGraph,
    add_common_metadata_analysis_pass,
    add_hardware_metadata_analysis_pass,
    emit_bram_transform_pass,
    emit_cocotb_transform_pass,
    emit_internal_rtl_transform_pass,
    emit_verilog_top_transform_pass,
    get_mase_op,
    init_metadata_analysis_pass,
    quantize_transform_pass,
    report_node_type_analysis_pass,
    simulate,
)


class MLP(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(8, 6), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of three classes."""
        return self.fc2(torch.relu(self.fc1(x)))


FIXED = {
    "name": "integer",  # with fraction widths this is fixed point, as in MASE
    "data_in_width": 8,
    "data_in_frac_width": 5,
    "weight_width": 8,
    "weight_frac_width": 6,
    "bias_width": 8,
    "bias_frac_width": 6,
    "data_out_width": 8,
    "data_out_frac_width": 4,
}
DATA = {key: value for key, value in FIXED.items() if key.startswith(("name", "data_"))}
NARROW = {**FIXED, "weight_width": 4, "weight_frac_width": 3}

FLOAT = {"name": None}

BY_TYPE: dict[str, Any] = {
    "by": "type",
    "default": {"config": FLOAT},
    "linear": {"config": FIXED},
    "relu": {"config": DATA},
}
BY_NAME: dict[str, Any] = {
    "by": "name",
    "default": {"config": FLOAT},
    "fc1": {"config": FIXED},
    "fc2": {"config": NARROW},
}
BY_REGEX: dict[str, Any] = {"by": "regex_name", "default": {"config": FIXED}, r"fc\d": {"config": NARROW}}


def metadata(model: nn.Module, x: torch.Tensor) -> MaseGraph:
    """A graph with common metadata."""
    graph = MaseGraph(model)
    graph, _ = init_metadata_analysis_pass(graph, None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": x}, "add_value": False})
    return graph


def main() -> None:
    """Run the flow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="build/mase_flow")
    out = parser.parse_args().out
    torch.manual_seed(0)
    model, x = MLP().eval(), torch.randn(1, 8)
    for config in (BY_NAME, BY_REGEX, BY_TYPE):
        graph, _ = quantize_transform_pass(metadata(model, x), config)
        formats = {
            node.name: node.meta["mase"]["common"]["args"]["weight"]["precision"]
            for node in graph.fx_graph.nodes
            if get_mase_op(node) == "linear"
        }
        print(f"by {config['by']}: weights {formats}")
    graph, _ = report_node_type_analysis_pass(graph, {"show": True})
    graph, _ = add_hardware_metadata_analysis_pass(graph, {"max_parallelism": 2})
    print(graph.node("fc1").meta["mase"]["hardware"]["verilog_param"]["WEIGHT_PRECISION_0"])
    graph, _ = emit_verilog_top_transform_pass(graph)
    graph, _ = emit_internal_rtl_transform_pass(graph)
    graph, _ = emit_bram_transform_pass(graph)
    graph, _ = emit_cocotb_transform_pass(graph, {"inputs": torch.randn(4, 8), "project_dir": out})
    print(simulate(out))


if __name__ == "__main__":
    main()
