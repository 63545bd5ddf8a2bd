"""What the documents of MASE and AFE say of pipelines, imports and searches, holds: one test a sentence."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import yaml
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

import mase_hw
from mase_hw import MaseGraph
from mase_hw.emit.passes import emit_verilog_top_transform_pass
from mase_hw.errors import ConfigError, GraphError, PassOrderError, UnsupportedError
from mase_hw.partition import import_and_transform
from mase_hw.passes import (
    BinarySearchState,
    Pipeline,
    Step,
    add_common_metadata_analysis_pass,
    analyse_noise,
    binary_search,
    calibrate_analysis_pass,
    calibration_quantization_transform_pass,
    correct_bias_transform_pass,
    equalization_transform_pass,
    keep_float_analysis_pass,
    noise_analysis_pass,
    noise_based_mixed_precision_quantization,
    quantize_transform_pass,
)
from mase_hw.passes.evaluation import against, evaluate_statistic, evaluation
from mase_hw.passes.mixed_precision import uniform
from mase_hw.passes.pipeline import failure_of

X = torch.rand(64, 6, generator=torch.Generator().manual_seed(3)) * 2 - 1


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4)).eval()


class HalfOnHost(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.logcumsumexp(self.fc(x), 1)


def graph_of(model: nn.Module) -> MaseGraph:
    return MaseGraph(model, add_metadata_args={"dummy_in": {"input": X[:1]}})


def image_file() -> onnx.ModelProto:
    """A convolution of an image and its relu, which is an image as well."""
    weight = numpy_helper.from_array(np.linspace(-1, 1, 2 * 3 * 9, dtype=np.float32).reshape(2, 3, 3, 3), "w")
    nodes = [
        helper.make_node("Conv", ["in/image:0", "w"], ["mid"], name="/conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["mid"], ["out/image:0"], name="/relu"),
    ]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", c, 4, 5])
        for n, c in (("in/image:0", 3), ("out/image:0", 2))
    ]
    made = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])


# 6. Pipelines


def test_a_pipeline_holds_any_step_of_the_flow(tmp_path: Path) -> None:
    """Importing, calibration, quantisation, evaluation, binary search and dumping are steps; a prefix can be run."""
    model, data = mlp(), list(against(mlp(), [X]))

    def score(graph: MaseGraph, bits: int) -> tuple[bool, int]:
        made, _ = calibration_quantization_transform_pass(graph_of(model), {"data": [X], "quantize": uniform(bits)})
        return evaluate_statistic(made, data, "sqnr") >= 30, bits

    pipeline = Pipeline(
        [
            Step("import", lambda source, _: MaseGraph(source)),
            Step("common", add_common_metadata_analysis_pass, {"dummy_in": {"input": X[:1]}}),
            Step("search", lambda graph, ends: binary_search(lambda n: score(graph, n), *ends), (2, 12)),
            Step("calibrate", calibrate_analysis_pass, {"data": [X]}),
            Step("quantize", quantize_transform_pass, uniform(8)),
            Step("evaluate", evaluation("sqnr"), data),
        ],
        "whole",
    ).dump_diagnostic_files_after("quantize", tmp_path, name="net")
    run = pipeline.run(model)
    assert run.infos["evaluate"] == evaluate_statistic(run.graph, data, "sqnr") > 30
    assert 2 < run.infos["search"] <= 8 and run.modified == ["import", "common", "calibrate", "quantize"]
    assert (tmp_path / "net_quantize.graph.json").is_file()

    some = pipeline.until("calibrate").run(model)
    assert (
        list(some.infos) == ["import", "common", "search", "calibrate"]
        and "calibrate_analysis_pass" in some.graph.completed
    )
    with pytest.raises(ConfigError) as caught:
        pipeline.replaced("evaluate", [X]).run(model)
    failure = failure_of(caught.value)
    assert failure is not None and failure.step.name == "evaluate" and "in step 'evaluate'" in str(failure)
    with pytest.raises(GraphError) as other:
        pipeline.run("no model")
    assert "graph: none yet" in str(failure_of(other.value))
    with pytest.raises(GraphError, match="begin with a step that makes one"):
        Pipeline([Step("calibrate", calibrate_analysis_pass, {"data": [X]})]).run()


def test_calibration_quantization_includes_what_it_is_asked_for() -> None:
    """Equalization, bias correction and rounding that its configuration enables are part of it: the same bits."""
    evened, corrected = {"cross_layer": True, "keep": "always"}, {"bias_correction": "empirical", "keep": "always"}
    args = {"data": [X], "quantize": uniform(5), "equalization": evened, "rounding": corrected}
    one, info = calibration_quantization_transform_pass(graph_of(mlp()), args)
    assert info["equalization"]["modified"] and info["rounding"]["layers"]["_0"]["bias"] == "empirical"
    other, _ = equalization_transform_pass(graph_of(mlp()), {"data": [X], "quantize": uniform(5), **evened})
    calibrate_analysis_pass(other, {"data": [X]})
    keep_float_analysis_pass(other)
    quantize_transform_pass(other, uniform(5))
    correct_bias_transform_pass(other, {"data": [X], "keep": "always"})
    plain, _ = calibration_quantization_transform_pass(graph_of(mlp()), {"data": [X], "quantize": uniform(5)})
    assert torch.equal(one.model(X), other.model(X)) and not torch.equal(one.model(X), plain.model(X))


@pytest.mark.parametrize("condition", [True, False, lambda graph: "calibrate_analysis_pass" in graph.completed])
def test_dumping_takes_a_bool_or_a_function_and_a_name(tmp_path: Path, condition: bool | Callable[..., bool]) -> None:
    """``dump_diagnostic_files_after`` writes ``{prefix}{name}{suffix}`` if a bool or function says so, with YAML."""
    steps = Pipeline([Step("calibrate", calibrate_analysis_pass, {"data": [X]})])
    steps = steps.dump_diagnostic_files_after("calibrate", tmp_path, "a_", ".b", condition=condition, name="net")
    steps.run(graph_of(mlp()))
    kinds = ["arrays.npz", "configuration.json", "configuration.yaml", "graph.json", "statistics.json"]
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found == ([] if condition is False else [f"a_net_calibrate.b.{kind}" for kind in kinds])
    if found:
        tree = json.loads((tmp_path / found[1]).read_text())
        assert yaml.safe_load((tmp_path / found[2]).read_text()) == tree and "calibrate" in tree["configuration"]


# 7. Imports


def test_an_import_keeps_the_names_of_the_source(tmp_path: Path) -> None:
    """``import_model`` has ``name`` and keeps the names of inputs and outputs; manifest and README carry them."""
    graph = mase_hw.import_model(image_file(), name="eye")
    assert graph.meta["name"] == "eye" and graph.meta["imported_outputs"] == ["out/image:0"]
    design = mase_hw.compile(graph, graph.example, {"quantize": uniform(8)}, out=tmp_path / "bundle")
    ports = {port["name"]: (port["tensor"], port["source"]) for port in design.manifest["ports"]}
    assert ports == {"data_in_0": ("in_image_0", "in/image:0"), "data_out_0": ("relu", "out/image:0")}
    assert "`out/image:0` in the file" in (tmp_path / "bundle" / "README.md").read_text()


def test_an_import_takes_the_layout_of_the_callers_arrays() -> None:
    """With ``layout="NHWC"`` images go in and come out channels last; the numbers are those of the file."""
    plain, last = (mase_hw.import_model(image_file(), layout=layout) for layout in ("NCHW", "NHWC"))
    image = torch.rand(2, 4, 5, 3)
    assert [list(v.shape) for v in last.example.values()] == [[1, 4, 5, 3]]
    assert torch.equal(last.model(image), plain.model(image.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))
    for wrong in ("NWHC", "NHWC"):
        with pytest.raises(ConfigError) as caught:
            mase_hw.import_model(mlp(), layout=wrong)  # type: ignore[arg-type]
        assert caught.value.field == "layout"


def test_import_and_transform_is_one_call() -> None:
    """``import_and_transform`` imports, divides by ``index_to_backend_dict``, or writes all as hardware has it."""
    x = torch.rand(2, 3, 4, 5)
    float_one = mase_hw.import_model(image_file())
    whole = import_and_transform(image_file(), name="eye")
    assert "lower_rows_transform_pass" in whole.completed and "calibrate_analysis_pass" not in whole.completed
    assert whole.meta["name"] == "eye" and torch.allclose(whole.model(x), float_one.model(x), atol=1e-6)
    parts = import_and_transform(image_file(), index_to_backend_dict={0: "MLA", 1: "arm"})
    assert [part.where for part in parts.meta["partition"]] == ["hardware", "host"]
    assert torch.equal(parts.model(x), float_one.model(x))
    with pytest.raises(ConfigError, match="no such backend"):
        import_and_transform(image_file(), index_to_backend_dict={2: "MLA"})
    with pytest.raises(UnsupportedError, match="wanted in hardware"):
        import_and_transform(HalfOnHost(), example_inputs=X[:1], index_to_backend_dict={0: "MLA", 1: "MLA"})


# 8. Evaluation, search, mixed precision


def test_a_plain_function_is_a_criterion() -> None:
    """``evaluation`` takes a function of all outputs and the ground truth, as numpy arrays where the data has them."""
    model, labels = mlp(), mlp()(X).argmax(1)
    labels[:9] = (labels[:9] + 1) % 4

    def share(outputs: Any, truth: Any) -> Any:
        assert type(outputs) is type(truth)
        return (outputs.argmax(1) == truth).sum() / len(truth)

    tensors = [(X[:40], labels[:40]), (X[40:], labels[40:])]
    arrays = [(x.numpy(), y.numpy()) for x, y in tensors]
    for fast, data in itertools.product((False, True), (tensors, arrays)):
        assert float(evaluation(share, fast)(model, data)) == 55 / 64


def test_a_search_names_itself_and_shows_where_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    """``BinarySearchState`` has ``hi_value`` and ``iteration``; progress is printed under a name, and not with None."""
    state = BinarySearchState(0, 8, "eight").after(True, "four")
    assert (state.hi_value, state.iteration) == ("four", 1)
    assert binary_search(lambda n: (n >= 3, n), 0, 4, procedure_name="widths") == 3
    assert capsys.readouterr().out.splitlines()[0] == "widths: 4 satisfied (searching 0 to 4)"
    assert binary_search(lambda n: (n >= 3, n), 0, 4) == 3 and capsys.readouterr().out == ""


def test_mixed_precision_as_documented(capsys: pytest.CaptureFixture[str]) -> None:
    """Mixed precision defaults to 8 and 16 bits, calibrates by itself, and can rank by the noise at the node."""
    model, data = mlp(), list(against(mlp(), [X]))
    found = noise_based_mixed_precision_quantization(graph_of(model), None, "sqnr", 40.0, data=data, rank_by="node")
    assert found.score >= 40 and capsys.readouterr().out == ""
    assert found.cost["low"] <= found.cost["mixed"] < found.cost["high"]
    low, _ = calibration_quantization_transform_pass(graph_of(model), {"data": [X], "quantize": uniform(8)})
    noise = {name: each.local.sqnr_db for name, each in analyse_noise(model, low, [X]).nodes.items() if each.local}
    worst = [min(noise[name] for name in group.nodes) for group in found.ranking]
    assert worst == sorted(worst)


def test_messages_name_passes_that_exist() -> None:
    """What a pass is told to be run first is a pass."""
    noise = {"float_graph": mlp(), "data": [X]}
    for one, args in ((noise_analysis_pass, noise), (emit_verilog_top_transform_pass, {})):
        with pytest.raises(PassOrderError) as caught:
            one(graph_of(mlp()), args)
        name = str(caught.value.remedy).removeprefix("run ").removesuffix(" first")
        assert callable(getattr(mase_hw.passes, name))
