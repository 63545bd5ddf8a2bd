"""Reports: what they return as JSON, what they draw, and what they write."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from mase_hw.errors import ConfigError, PassOrderError
from mase_hw.ir import MaseGraph
from mase_hw.passes import (
    GraphPass,
    add_hardware_metadata_analysis_pass,
    calibrate_analysis_pass,
    count_analysis_pass,
    quantize_transform_pass,
    report_graph_analysis_pass,
    report_node_hardware_type_analysis_pass,
    report_node_meta_param_analysis_pass,
    report_node_shape_analysis_pass,
    report_node_type_analysis_pass,
)
from mase_hw.passes.analysis.report_tables import Table, jsonable
from tests.ir.nets import MLP, ConvNet, annotated, assert_json, catalogue, snapshot

REPORTS: list[GraphPass[Any]] = [
    report_graph_analysis_pass,
    report_node_type_analysis_pass,
    report_node_shape_analysis_pass,
    report_node_hardware_type_analysis_pass,
    report_node_meta_param_analysis_pass,
    count_analysis_pass,
]


def mapped() -> MaseGraph:
    torch.manual_seed(0)
    x = torch.randn(1, 28, 28)
    graph = annotated(MLP(6), {"x": x})
    calibrate_analysis_pass(graph, {"data": [x]})
    widths = {f"{t}_width": 8 for t in ("data_in", "weight", "bias", "data_out")}
    quantize_transform_pass(graph, {"default": {"config": {"name": "fixed", **widths}}})
    return add_hardware_metadata_analysis_pass(graph)[0]


@pytest.fixture
def conv() -> MaseGraph:
    return annotated(ConvNet(), {"x": torch.randn(1, 3, 8, 8)})


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def test_graph(conv: MaseGraph, capsys: pytest.CaptureFixture[str]) -> None:
    _, info = report_graph_analysis_pass(conv)
    assert_json(info)
    assert [n["name"] for n in info["nodes"]] == [n.name for n in conv.nodes]
    assert info["counts"] == {
        "placeholder": 1,
        "get_attr": 0,
        "call_function": 3,
        "call_method": 2,
        "call_module": 9,
        "output": 1,
    }
    assert info["layers"] == {
        "AdaptiveAvgPool2d": 1,
        "BatchNorm2d": 2,
        "Conv2d": 2,
        "Dropout": 1,
        "Linear": 1,
        "MaxPool2d": 1,
        "ReLU": 1,
    }
    assert info["nodes"][1] == {
        "opcode": "call_module",
        "name": "stem_0",
        "target": "stem.0",
        "args": ["x"],
        "kwargs": {},
    }
    shown = capsys.readouterr().out
    assert ["call_module", "stem_0", "stem.0", "(x,)", "{}"] in rows(shown)
    assert "%head : [num_users=1] = call_module" in shown and conv.model.code.strip() in shown
    assert ["call_module", "9"] in rows(shown) and "Linear(in_features=8, out_features=5, bias=True)" in shown


def test_a_graph_needs_no_metadata() -> None:
    _, info = report_graph_analysis_pass(MaseGraph(MLP(4), catalogue=catalogue()), {"show": False})
    assert info["counts"]["call_module"] == 2


def test_node_types(conv: MaseGraph, capsys: pytest.CaptureFixture[str]) -> None:
    _, info = report_node_type_analysis_pass(conv)
    assert_json(info)
    assert {n["name"]: n["mase_op"] for n in info["nodes"]} == {
        n.name: conv.meta_of(n).common.mase_op for n in conv.nodes
    }
    assert info["nodes"][1] == {
        "name": "stem_0",
        "fx_op": "call_module",
        "mase_type": "module_related_func",
        "mase_op": "conv2d",
        "value_type": "float",
        "precision": [32],
    }
    assert info["mase_ops"]["conv2d"] == 2 and sum(info["mase_types"].values()) == len(conv.nodes)
    assert ["stem_0", "call_module", "module_related_func", "conv2d", "float", "[32]"] in rows(capsys.readouterr().out)


def test_node_shapes(conv: MaseGraph, capsys: pytest.CaptureFixture[str]) -> None:
    _, info = report_node_shape_analysis_pass(conv)
    assert_json(info)
    assert info["nodes"]["pool"]["in"] == {"data_in_0": [1, 8, 8, 8]}
    assert info["nodes"]["pool"]["out"] == {"data_out_0": [1, 8, 4, 4]}
    assert info["nodes"]["head"] == {
        "in": {"data_in_0": [1, 8], "weight": [5, 8], "bias": [5]},
        "out": {"data_out_0": [1, 5]},
        "attributes": {},
    }
    assert info["nodes"]["size"] == {"in": {"data_in_0": [1, 8, 1, 1]}, "out": {}, "attributes": {"dim": 0}}
    shown = capsys.readouterr().out
    assert "data_in_0 = [1, 8, 4, 4]   data_out_0 = [1, 8, 1, 1]" in shown


def test_hardware_types(capsys: pytest.CaptureFixture[str]) -> None:
    graph = mapped()
    _, info = report_node_hardware_type_analysis_pass(graph)
    assert_json(info)
    assert [n["name"] for n in info["nodes"]] == ["fc1", "relu", "fc2"]
    assert info["implicit"] == ["x", "x_quantize", "flatten", "output"]
    first = info["nodes"][0]
    assert first == {
        "name": "fc1",
        "fx_op": "call_module",
        "type": "fixed",
        "precision": list(graph.tensor(graph.node("fc1"), "data_out_0").precision),
        "toolchain": "INTERNAL",
        "device_id": -1,
        "module": "fixed_linear",
        "parallelism": {"data_in_0": [4, 1, 1], "weight": [4, 4], "bias": [4], "data_out_0": [4, 1, 1]},
        "latency": graph.meta_of(graph.node("fc1")).hardware.latency,
    }
    shown = capsys.readouterr().out
    assert any(row[:3] == ["fc1", "call_module", "fixed"] and "fixed_linear" in row for row in rows(shown))
    assert "implicit: x, x_quantize, flatten, output" in shown


@pytest.mark.parametrize(
    ("which", "branches"),
    [
        (("all",), ["common", "hardware", "software"]),
        (("software",), ["software"]),
        ("hardware", ["hardware"]),
        (["software", "common"], ["common", "software"]),
    ],
)
def test_meta_parameters(which: Any, branches: list[str]) -> None:
    graph = mapped()
    _, info = report_node_meta_param_analysis_pass(graph, {"which": which, "show": False})
    assert_json(info)
    for node in graph.nodes:
        entry = info["nodes"][node.name]
        assert list(entry) == ["fx_op", "mase_type", "mase_op", *branches]
        for branch in branches:
            assert entry[branch] == jsonable(node.meta["mase"][branch])
    if "software" in branches:
        bounds = info["nodes"]["relu"]["software"]["results"]["data_out_0"]["stat"]["range_min_max"]
        assert bounds["min"] == 0.0 and bounds["count"] == 6
    if "common" in branches:
        assert info["nodes"]["x"]["common"]["results"]["data_out_0"]["value"] == {
            "shape": [1, 28, 28],
            "dtype": "torch.float32",
        }


def test_meta_parameters_as_text(tmp_path: Path) -> None:
    """MASE's argument, a folder that does not exist yet, nothing on the terminal."""
    path = tmp_path / "deep" / "meta.txt"
    report_node_meta_param_analysis_pass(mapped(), {"which": ("hardware",), "save_path": str(path)})
    text = path.read_text()
    assert "Hardware Param" in text and "Common Param" not in text
    assert "'DATA_IN_0_TENSOR_SIZE_DIM_0': 784," in text and "\x1b" not in text
    assert not any(line.endswith(" ") for line in text.splitlines())


@pytest.mark.parametrize("report", REPORTS, ids=lambda r: r.name)
def test_every_report(report: GraphPass[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Quiet on request; the same in a file; JSON in a file; nothing changed; twice the same."""
    graph = mapped()
    before = snapshot(graph)["nodes"]
    _, info = report(graph)
    shown = capsys.readouterr().out
    assert_json(info)
    assert report(graph, {"show": False})[1] == info and capsys.readouterr().out == ""
    text, data = tmp_path / "report.txt", tmp_path / "report.json"
    report(graph, {"file_name": text})
    report(graph, {"file_name": data})
    assert capsys.readouterr().out == ""
    assert text.read_text().splitlines() == [line.rstrip() for line in shown.splitlines()]
    assert json.loads(data.read_text()) == info
    assert {f.name for f in tmp_path.iterdir()} == {"report.txt", "report.json"}
    assert snapshot(graph)["nodes"] == before
    assert report.name in graph.completed


@pytest.mark.parametrize("report", REPORTS, ids=lambda r: r.name)
def test_a_file_that_cannot_be_written(report: GraphPass[Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    graph = mapped()
    for path in (tmp_path / "file" / "report.txt", tmp_path):
        with pytest.raises(ConfigError, match="the report cannot be written") as error:
            report(graph, {"file_name": path})
        assert str(path) in str(error.value)
    assert [f.name for f in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_text() == "kept"


def test_an_older_report_survives_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.txt"
    path.write_text("older")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(ConfigError, match="No space left"):
        count_analysis_pass(mapped(), {"file_name": path})
    assert path.read_text() == "older" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("report", "args", "texts"),
    [
        (report_graph_analysis_pass, {"filename": "x"}, ["filename: unknown key; did you mean 'file_name'?"]),
        (report_node_meta_param_analysis_pass, {"which": ["softwear"]}, ["which.0", "'software'"]),
        (report_node_meta_param_analysis_pass, {"which": []}, ["which"]),
        (report_node_type_analysis_pass, {"show": "perhaps"}, ["show"]),
    ],
)
def test_bad_arguments(report: GraphPass[Any], args: dict[str, Any], texts: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        report(mapped(), args)
    assert all(text in str(error.value) for text in texts), str(error.value)


def test_order() -> None:
    graph = MaseGraph(MLP(4), catalogue=catalogue(), skip_init_metadata=True)
    with pytest.raises(PassOrderError, match="run init_metadata_analysis_pass first"):
        report_node_meta_param_analysis_pass(graph)
    for report in (report_node_type_analysis_pass, report_node_shape_analysis_pass):
        with pytest.raises(PassOrderError, match="run add_common_metadata_analysis_pass first"):
            report(graph)
    with pytest.raises(PassOrderError, match="run add_hardware_metadata_analysis_pass first"):
        report_node_hardware_type_analysis_pass(annotated(MLP(4), {"x": torch.ones(1, 28, 28)}))


@pytest.mark.parametrize("width", [60, 100])
def test_a_narrow_terminal_folds_and_loses_nothing(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = annotated(nn.Sequential(nn.Linear(2, 2)), {"input": torch.ones(1, 2)})

    def letters() -> Counter[str]:
        shown = re.sub("\x1b[^m]*m", "", capsys.readouterr().out)
        assert all(len(line) <= max(width, wide) for line in shown.splitlines())
        return Counter(c for c in shown if c.isalnum())

    wide = 200
    report_node_type_analysis_pass(graph)
    whole = letters()
    wide = 0
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    report_node_type_analysis_pass(graph)
    assert letters() == whole


def test_brackets_are_no_markup(tmp_path: Path) -> None:
    from mase_hw.passes.analysis.report_tables import ReportArgs, publish

    path = tmp_path / "t.txt"
    publish([Table("[bold]t", ["a[b]"], [["[red]x[/red]"]]), "[i]"], {}, ReportArgs(file_name=path))
    text = path.read_text()
    assert all(part in text for part in ("[bold]t", "a[b]", "[red]x[/red]", "[i]"))


def test_jsonable() -> None:
    value = {
        1: (torch.ones(2, dtype=torch.int8), torch.float16, slice(1, None)),
        "x": [float("inf"), float("nan"), 1.5, True, None],
    }
    assert_json(jsonable(value))
    assert jsonable(value) == {
        "1": [{"shape": [2], "dtype": "torch.int8"}, "torch.float16", "slice(1, None, None)"],
        "x": ["inf", "nan", 1.5, True, None],
    }
