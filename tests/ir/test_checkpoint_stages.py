"""A graph may be written and read back at every stage of a pipeline: the bundle is the same, byte for byte."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.compiler.stages import compile_pipeline, quantise_pipeline
from mase_hw.emit.passes import emit_verilog_top_transform_pass
from mase_hw.errors import GraphError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.ir.copies import copy_graph
from mase_hw.passes import calibrate_analysis_pass, update_quantization_configs
from mase_hw.passes.explanation import explain, explained
from mase_hw.passes.mapping.add_hardware_metadata import HARDWARE_ARGS, add_hardware_metadata_analysis_pass
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.passes.pipeline import Pipeline
from mase_hw.passes.quantize.calibration.observers import KEPT
from mase_hw.passes.quantize.quantize import quantize_transform_pass
from mase_hw.passes.quantize.record import recorded_quantization
from mase_hw.passes.quantize.rounding.layers import FLOAT
from tests.ir.checkpoints import EIGHT, batch, files_of, graph, quantised
from tests.passes.digits import example_module

FORMAT = FixedFormat(8, 4)
SLOW = pytest.mark.slow


class Branches(nn.Module):
    """Slow and fast layers in turn, where FIFOs for the rate are worth it, a normalisation, and constants."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.other = nn.Conv2d(4, 4, 3, padding=1)
        self.fc = nn.Linear(64, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.conv(x)))
        x = x + self.other(x) * torch.ones_like(x[:, :1])
        return self.fc(x.flatten(1))


CONFIG: dict[str, Any] = {
    "top": "other",
    "calibrate": {"method": "entropy", "weight_method": "mse"},
    "quantize": {
        "default": {
            "config": {
                "name": "fixed",
                **{"data_in_width": 7, "weight_width": 6, "bias_width": 9, "data_out_width": 7},
                **{"weight_granularity": "channel", "rounding": "half_up"},
            }
        },
        "relu": {"config": {"data_out_width": 6}},
    },
    "rounding": {"method": "gptq", "bias_correction": "analytic", "keep": "always"},
    "equalization": {"cross_layer": True, "keep": "always"},
    "hardware": {
        "max_parallelism": 3,
        "rate_fifos": False,
        "share_requantisers": False,
        "implementation": {"fc": "tree"},
        "memory": {"fc.weight": "lut"},
        "family": "xc7",
        "fast_clock": True,
        "block_cost": 100,
    },
    "vectors": {"frames": 2},
}


def bundle(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def again(made: MaseGraph, folder: Path) -> MaseGraph:
    """Written, read, and written again with the same bytes; nothing is warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.export(folder / "first")
        found = MaseGraph.from_checkpoint(folder / "first")
        found.export(folder / "second")
    assert files_of(folder / "first") == files_of(folder / "second")
    return found


def reloaded(steps: Pipeline, made: MaseGraph, folder: Path) -> MaseGraph:
    """Every step on what was read back after the one before; as emission cannot be, once more in the middle of it."""
    top = steps.names.index("top")
    for step in steps.steps[:top]:
        made = again(step.run(made, step.args)[0], folder)  # type: ignore[arg-type]
    begun = Pipeline(steps.steps[top : steps.names.index("choose") + 1]).run(made).graph
    return Pipeline(steps.steps[top:]).run(again(begun, folder)).graph


def test_every_stage_with_arguments_that_are_no_defaults(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, data = Branches().eval(), [torch.randn(8, 2, 4, 4) for _ in range(2)]
    net.norm.running_mean.normal_()  # type: ignore[union-attr]

    def steps(name: str) -> Pipeline:
        return compile_pipeline({"x": data[0][:1]}, CONFIG, out=tmp_path / name, calibration=data)

    left = steps("whole").run(MaseGraph(net)).graph
    found = reloaded(steps("stages"), MaseGraph(net), tmp_path)
    assert bundle(tmp_path / "stages") == bundle(tmp_path / "whole")
    assert found.notes.keys() == left.notes.keys() >= {HARDWARE_ARGS, KEPT, FLOAT}
    assert found.note(HARDWARE_ARGS, HardwareArgs) == left.note(HARDWARE_ARGS, HardwareArgs)
    again(found, tmp_path)
    assert explained(found) == explained(left)
    assert [str(explain(found, name)) for name in explained(found)] == [str(explain(left, n)) for n in explained(left)]


@pytest.mark.parametrize("name", ["mlp", pytest.param("cnn", marks=SLOW), pytest.param("vit", marks=SLOW)])
def test_the_digits_networks(name: str, tmp_path: Path) -> None:
    """Emission from the reloaded graph gives the same bytes at every stage of the pipeline."""
    torch.manual_seed(0)
    mlp = example_module("digits_mlp")
    kind = {"mlp": "DigitsMLP", "cnn": "DigitsCNN", "vit": "DigitsViT"}[name]
    net, data = getattr(example_module(f"digits_{name}"), kind)().eval(), mlp.load().train_images[:32]

    def steps(folder: str) -> Pipeline:
        config = {"vectors": {"frames": 1, "faults": 1}}
        return compile_pipeline({"image": data[:1]}, config, out=tmp_path / folder, calibration=[data])

    whole = steps("whole").run(MaseGraph(net)).graph
    found = reloaded(steps("stages"), MaseGraph(net), tmp_path)
    assert bundle(tmp_path / "stages") == bundle(tmp_path / "whole")
    for node in whole.nodes:
        assert found.node(node.name).meta["mase"] == node.meta["mase"], node.name


def test_what_was_set_by_hand(tmp_path: Path) -> None:
    """A checkpoint returns what was set at nodes, and keys of the user; emission reads them as before."""
    made = quantised()
    made.node("linear").meta["mase"]["hardware"]["parallelism"]["data_out_0"] = 1
    made.node("linear").meta["mase"]["software"]["mine"] = {"a": torch.ones(2)}
    made.meta["mase"]["common"]["mine"] = [1, 2]
    made, _ = add_hardware_metadata_analysis_pass(again(made, tmp_path))
    made.node("relu").meta["mase"]["hardware"]["device_id"] = 3
    made.node("linear").meta["mase"]["hardware"]["parallelism"]["data_out_0"] = 2
    found = again(made, tmp_path)
    assert found.meta["mase"]["common"]["mine"] == [1, 2]
    assert torch.equal(found.node("linear").meta["mase"]["software"]["mine"]["a"], torch.ones(2))
    assert top_of(found) == top_of(made) and found.meta["bundle"].manifest["device_id"] == 3
    assert found.node("linear").meta["mase"]["hardware"]["parallelism"]["data_out_0"][0] == 2


def top_of(made: MaseGraph) -> bytes:
    made, _ = emit_verilog_top_transform_pass(made, {})
    found: bytes = made.meta["bundle"].read("rtl/top.sv")
    return found


def test_arguments_that_emission_reads(tmp_path: Path) -> None:
    """Without FIFOs for the rate the RTL is another one; a max pool gives its rows in bursts."""
    pair = nn.Conv2d(1, 1, 3, padding=1), nn.Conv2d(1, 1, 3, padding=1), nn.MaxPool2d(2)
    net, x = nn.Sequential(*pair, nn.Conv2d(1, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1)), torch.rand(1, 1, 8, 64)
    steps = quantise_pipeline({"input": x})
    made = steps.run(MaseGraph(net.eval())).graph
    found = {}
    for rate in (True, False):
        made, _ = add_hardware_metadata_analysis_pass(made, {"max_parallelism": 1, "rate_fifos": rate})
        kept = again(made, tmp_path)
        found[rate] = top_of(made)
        assert top_of(kept) == found[rate]
    assert found[True] != found[False]


def test_recorded_configurations(tmp_path: Path) -> None:
    """The configuration that was recorded on a graph is used after it was loaded, with what was given and no more."""
    made = graph()
    made, _ = calibrate_analysis_pass(made, {"data": [batch(1), batch(2)]})
    given = {"by": "name", "inner_0": {"config": {"weight_width": 5, "rounding": "floor"}}}
    common = {"name": "fixed", **EIGHT}
    made, recorded = update_quantization_configs(
        made, {"configs": given, "global_config": common, "custom_configs": {"linear": {"bias_width": 12}}}
    )
    found = again(made, tmp_path)
    wanted = recorded_quantization(made)
    assert wanted is not None and recorded_quantization(found) == wanted
    assert found.node("linear").meta["mase"]["software"]["quantization"] == recorded["nodes"]["linear"]
    made, info = quantize_transform_pass(made, {})
    found, same = quantize_transform_pass(found, {})
    assert same == info and same["nodes"]["inner_0"]["formats"]["weight"].startswith("s5.")
    assert torch.equal(found.model(batch(3)), made.model(batch(3)))


class Nested(nn.Module):
    """Inputs in containers, and a number that is none of them."""

    def forward(self, pair: dict[str, Tensor], more: tuple[Tensor, float] = (torch.zeros(1), 0.0)) -> Tensor:
        return pair["a"] * more[1] + torch.relu(pair["b"] + more[0])


def test_inputs_in_containers(tmp_path: Path) -> None:
    example = {"pair": {"a": torch.randn(1, 4), "b": torch.randn(1, 4)}, "more": (torch.randn(1, 4), 0.5)}
    design = mase_hw.compile(Nested().eval(), example, out=tmp_path / "bundle")
    assert design.graph is not None and design.graph.nested is not None
    found = again(design.graph, tmp_path)
    assert found.nested is not None and found.nested.names == design.graph.nested.names
    assert found.nested.paths == design.graph.nested.paths
    assert torch.equal(found.called(**example), design.model(**example))


def test_what_was_left_at_graph_and_nodes(tmp_path: Path) -> None:
    """What passes of one's own leave there comes back; what cannot is named."""
    made = graph()
    made.example = {"x": batch()}
    made.meta["mine"] = {"count": 3, "weights": torch.arange(3)}
    made.node("relu").meta["mine"] = ("a", FORMAT)
    found = again(made, tmp_path)
    assert found.meta["mine"]["count"] == 3 and torch.equal(found.meta["mine"]["weights"], torch.arange(3))
    assert found.node("relu").meta["mine"] == ("a", FORMAT) and torch.equal(found.example["x"], batch())
    made.meta["other"], made.node("relu").meta["odd"] = object(), print
    with pytest.warns(
        UserWarning, match=r"graph\.meta\['other'\].*object.*graph\.node\('relu'\)\.meta\['odd'\]"
    ) as told:
        made.export(tmp_path / "net")
    assert len(told) == 1 and told[0].filename == __file__
    assert MaseGraph.from_checkpoint(tmp_path / "net").meta["mine"]["count"] == 3


def test_a_note_of_another_kind(tmp_path: Path) -> None:
    made = quantised()
    made.meta[HARDWARE_ARGS] = {"max_parallelism": "many"}
    made.export(tmp_path / "net")
    with pytest.raises(GraphError, match="something else"):
        MaseGraph.from_checkpoint(tmp_path / "net").note(HARDWARE_ARGS, HardwareArgs)


def test_copies_have_what_stands_at_a_graph() -> None:
    made = quantised()
    update = {"max_parallelism": 2, "rate_fifos": False}
    made, _ = add_hardware_metadata_analysis_pass(made, update)
    found = copy_graph(made)
    assert found.notes.keys() == made.notes.keys() and found.meta[HARDWARE_ARGS] == HardwareArgs(**update)
    assert explained(found) == explained(made)
