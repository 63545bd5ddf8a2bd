"""Pipelines: what they show, what they refuse before they run, and what they say when a step fails."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import mase_hw
from mase_hw.compiler.config import load_config
from mase_hw.compiler.quantised_graph import quantised_graph
from mase_hw.compiler.stages import compile_pipeline, quantise_pipeline
from mase_hw.emit.passes import emit_verilog_top_transform_pass
from mase_hw.errors import ConfigError, FormatError, GraphError, PassOrderError
from mase_hw.ir import MaseGraph
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    add_hardware_metadata_analysis_pass,
    calibrate_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
    verify_analysis_pass,
)
from mase_hw.passes.pipeline import Pipeline, Step, failure_of
from tests.unit.pipeline import MLP, WIDTHS, inputs, rule, seeded

X = inputs(6, 6)
EIGHT = {"default": rule(**dict.fromkeys(WIDTHS, 8))}


def front(data: Any = None) -> list[Step]:
    return [
        Step("init", init_metadata_analysis_pass),
        Step("common", add_common_metadata_analysis_pass, {"dummy_in": {"x": X}}),
        Step("calibrate", calibrate_analysis_pass, {"data": [X] if data is None else data}),
    ]


def whole() -> Pipeline:
    return Pipeline([*front(), Step("quantize", quantize_transform_pass, EIGHT)], "eight bits")


def test_it_does_what_the_passes_do() -> None:
    said: list[str] = []
    run = whole().run(MaseGraph(seeded(MLP)), progress=said.append)
    graph = MaseGraph(seeded(MLP))
    for step in whole():
        graph, info = step.run(graph, step.args)  # type: ignore[arg-type]
        assert run.infos[step.name] == info
    assert torch.equal(run.graph.model(X), graph.model(X)) and run.graph.completed == graph.completed
    assert said == ["init (1 of 4)", "common (2 of 4)", "calibrate (3 of 4)", "quantize (4 of 4)"]
    assert list(run.seconds) == whole().names and all(s > 0 for s in run.seconds.values())


def test_it_can_be_looked_at() -> None:
    pipeline = whole()
    assert pipeline.names == ["init", "common", "calibrate", "quantize"] and len(pipeline) == 4
    assert repr(pipeline) == "Pipeline(eight bits: init -> common -> calibrate -> quantize)"
    assert pipeline["quantize"].args == EIGHT and pipeline["calibrate"].pass_name == "calibrate_analysis_pass"
    rows = pipeline.table().rows
    assert [row[1] for row in rows] == pipeline.names and rows[1][3] == "dummy_in={'x': 'Tensor [6, 6]'}"
    assert pipeline.configuration()["quantize"] == {"pass": "quantize_transform_pass", "args": EIGHT}


def test_changes_make_another_pipeline() -> None:
    pipeline = whole()
    verify = Step("verify", verify_analysis_pass)
    assert pipeline.inserted(verify).names == ["init", "common", "calibrate", "quantize", "verify"]
    assert pipeline.inserted(verify, after="common").names == ["init", "common", "verify", "calibrate", "quantize"]
    assert pipeline.inserted(verify, before="init").names == ["verify", "init", "common", "calibrate", "quantize"]
    assert pipeline.without("init", "quantize").names == ["common", "calibrate"]
    four = pipeline.replaced("quantize", {"default": rule(**dict.fromkeys(WIDTHS, 4))})
    assert four.run(MaseGraph(seeded(MLP))).infos["quantize"]["nodes"]["fc1"]["formats"]["weight"].startswith("s4.")
    assert pipeline.names == whole().names and pipeline["quantize"].args == EIGHT


def test_a_function_is_a_step_too() -> None:
    def count(graph: MaseGraph, args: Mapping[str, Any]) -> tuple[MaseGraph, dict[str, Any]]:
        return graph, {"nodes": len(graph.nodes) * args["times"]}

    run = whole().inserted(Step("count", count, {"times": 10}), after="init").run(MaseGraph(seeded(MLP)))
    assert run.infos["count"] == {"nodes": 50}


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Pipeline([*front(), Step("init", verify_analysis_pass)]), "steps"),
        (lambda: Pipeline([init_metadata_analysis_pass]), "steps"),  # type: ignore[list-item]
        (lambda: Pipeline([Step("verify", None)]), "steps"),  # type: ignore[arg-type]
        (lambda: Pipeline([Step("quantize", quantize_transform_pass, {"bye": "type"})]), "bye"),
        (lambda: whole().replaced("quantize", {"by": "kind"}), "by"),
        (lambda: whole()["quantise"], "quantise"),
        (lambda: whole().inserted(Step("v", verify_analysis_pass), after="init", before="common"), "after, before"),
        (lambda: whole().dump_diagnostic_files_after("quantize", "folder", prefix="a/b"), "prefix"),
    ],
)  # fmt: skip
def test_wrong_pipelines_are_refused_when_they_are_made(make: Any, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.field == field


def test_a_wrong_order_is_refused_before_anything_runs() -> None:
    graph = MaseGraph(seeded(MLP), skip_init_metadata=True)
    before = [n.name for n in graph.nodes]
    with pytest.raises(PassOrderError, match=r"step 'calibrate' \(2 of 3\)") as caught:
        whole().without("common").run(graph)
    assert graph.completed == () and [n.name for n in graph.nodes] == before
    assert caught.value.remedy == "run add_common_metadata_analysis_pass first"
    # What has run on the graph before counts, and what a step undoes does not.
    done = Pipeline(front()).run(graph).graph
    Pipeline([Step("quantize", quantize_transform_pass, EIGHT)]).run(done)
    with pytest.raises(PassOrderError, match="step 'quantize'"):
        Pipeline([Step("init", init_metadata_analysis_pass), Step("quantize", quantize_transform_pass, EIGHT)]).run(
            done
        )
    with pytest.raises(GraphError):
        whole().run(seeded(MLP))
    hardware = Step("hardware", add_hardware_metadata_analysis_pass)
    again, top = Step("again", quantize_transform_pass, EIGHT), Step("top", emit_verilog_top_transform_pass)
    whole().inserted(hardware).inserted(top).check(MaseGraph(seeded(MLP)))
    with pytest.raises(PassOrderError, match="step 'top'"):
        whole().inserted(hardware).inserted(again).inserted(top).check(MaseGraph(seeded(MLP)))


def test_a_failed_step_says_which_and_what_it_had() -> None:
    """The error is the pass's own; the step is in its notes, so a traceback shows it, and at failure_of."""
    bad = X.clone()
    bad[2, 1] = float("nan")
    graph = MaseGraph(seeded(MLP))
    pipeline = Pipeline([*front([X, bad]), Step("quantize", quantize_transform_pass, EIGHT)])
    with pytest.raises(FormatError) as caught:
        pipeline.run(graph)
    same = Pipeline(front()[:2]).run(MaseGraph(seeded(MLP))).graph
    with pytest.raises(FormatError) as alone:
        calibrate_analysis_pass(same, {"data": [X, bad]})
    assert str(caught.value) == str(alone.value)
    failure = failure_of(caught.value)
    assert failure is not None and failure.step.name == "calibrate" and (failure.position, failure.of) == (3, 4)
    assert failure.graph is graph and list(failure.finished) == ["init", "common"]
    assert failure.completed == ("init_metadata_analysis_pass", "add_common_metadata_analysis_pass")
    shown = "".join(traceback.format_exception(caught.value))
    assert "in step 'calibrate' (3 of 4, calibrate_analysis_pass)" in shown
    assert "arguments: data=['Tensor [6, 6]', 'Tensor [6, 6]']" in shown and "steps finished: init, common" in shown
    assert failure_of(ValueError()) is None
    # What was done so far is still there, and the rest can be run on it.
    rest = pipeline.replaced("calibrate", {"data": [X]}).without("init", "common")
    assert torch.equal(rest.run(graph).graph.model(X), whole().run(MaseGraph(seeded(MLP))).graph.model(X))


def test_errors_of_any_kind_are_noted() -> None:
    def fail(graph: MaseGraph, args: Mapping[str, Any]) -> tuple[MaseGraph, dict[str, Any]]:
        raise ZeroDivisionError("x")

    with pytest.raises(ZeroDivisionError) as caught:
        Pipeline([Step("mine", fail)]).run(MaseGraph(seeded(MLP)))
    assert caught.value.__notes__[0].startswith("in step 'mine' (1 of 1, fail)")


def test_the_stages_of_compile(tmp_path: Path) -> None:
    """The same bundle, byte for byte."""
    net, config = seeded(MLP), {"quantize": {"by": "name", "fc2": rule(weight_width=5)}, "top": "mine"}
    mase_hw.compile(net, X[:1], config, out=tmp_path / "a", calibration=[X], vectors=X)
    pipeline = compile_pipeline({"x": X[:1]}, config, out=tmp_path / "b", calibration=[X], vectors=X)
    run = pipeline.run(MaseGraph(net))
    files = {p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*") if p.is_file()}
    assert files and files == {p.relative_to(tmp_path / "b") for p in (tmp_path / "b").rglob("*") if p.is_file()}
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file
    assert mase_hw.load_design(tmp_path / "b").manifest["top"] == "mine" and run.infos["vectors"]["frames"] == 6


def test_what_explain_looks_at_is_a_prefix_of_compile(tmp_path: Path) -> None:
    """The same steps with the same arguments, so the same formats and weights."""
    arguments = {"config": {"quantize": {"by": "name", "fc2": rule(weight_width=5)}}, "calibration": [X]}
    front = quantise_pipeline({"x": X[:1]}, **arguments)
    whole = compile_pipeline({"x": X[:1]}, out=tmp_path, **arguments)
    assert 0 < len(front) < len(whole) and whole.names[: len(front)] == front.names
    for one, other in zip(front, whole, strict=False):
        assert one.run is other.run and str(one.args) == str(other.args)
    said: list[str] = []
    graph = quantised_graph(seeded(MLP), X[:1], load_config(arguments["config"]), [X], None, said.append)
    assert said == ["tracing the model", "observing value ranges", "quantising"]
    assert torch.equal(graph.model(X), front.run(MaseGraph(seeded(MLP))).graph.model(X))


def test_compile_says_what_takes_time(tmp_path: Path) -> None:
    said: list[str] = []
    design = mase_hw.compile(seeded(MLP), X[:1], out=tmp_path / "a", progress=said.append)
    assert design.quantisation is not None
    assert said[: -2 - len(design.quantisation.lines())] == [
        "tracing the model", "observing value ranges", "quantising", "mapping to hardware", "making the top level",
        "choosing test vectors",
    ]  # fmt: skip


def test_verify_names_the_step_that_broke_the_graph() -> None:
    def break_it(graph: MaseGraph, args: Mapping[str, Any]) -> tuple[MaseGraph, dict[str, Any]]:
        graph.tensor(graph.node("relu"), "data_out_0").shape = [6, 99]
        return graph, {}

    broken = whole().inserted(Step("mine", break_it), after="common")
    broken.without("calibrate", "quantize").run(MaseGraph(seeded(MLP)))  # nobody looks
    with pytest.raises(GraphError, match="relu") as caught:
        broken.run(MaseGraph(seeded(MLP)), verify=True)
    failure = failure_of(caught.value)
    assert failure is not None and failure.step.name == "mine" and list(failure.finished) == ["init", "common"]


def test_verify_after_every_step_of_compile(tmp_path: Path) -> None:
    """No pass leaves a broken graph, and looking changes nothing but the record that it was done."""
    arguments: Any = {"out": tmp_path / "b", "calibration": [X]}
    run = compile_pipeline({"x": X[:1]}, **arguments).run(MaseGraph(seeded(MLP)), verify=True)
    assert "verify_analysis_pass" in run.graph.completed and len(run.infos) == len(run.seconds)
