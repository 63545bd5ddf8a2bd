"""The statistics profiler on graphs: which tensors it observes, over which data, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.errors import ConfigError, FormatError, PassOrderError
from mase_hw.ir import MaseGraph
from mase_hw.passes import (
    add_software_metadata_analysis_pass,
    calibrate_analysis_pass,
    profile_statistics_analysis_pass,
)
from tests.ir.nets import MLP, ConvNet, annotated, assert_json, catalogue, snapshot, untouched
from tests.passes.test_common_metadata import Functional

ALL: dict[str, Any] = {
    "record": {},
    "variance_online": {},
    "variance_precise": {},
    "range_n_sigma": {},
    "range_quantile": {},
    "range_min_max": {},
}


def stat(graph: MaseGraph, node: str, branch: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = graph.node(node).meta["mase"]["software"][branch][name]["stat"].to_dict()
    return found


def conv_net() -> tuple[ConvNet, MaseGraph]:
    torch.manual_seed(0)
    model = ConvNet().eval()
    return model, annotated(model, {"x": torch.randn(2, 3, 8, 8)})


def batches(*sizes: int) -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(n, 3, 8, 8) for n in sizes]


def test_activations_and_weights_against_numpy() -> None:
    """MASE's own arguments; every statistic against numpy on the values of an independent forward run."""
    model, graph = conv_net()
    data = batches(4, 1, 3)
    graph, _ = add_software_metadata_analysis_pass(graph)
    graph, info = profile_statistics_analysis_pass(
        graph,
        {
            "by": "type",
            "target_weight_nodes": ["conv2d", "linear"],
            "target_activation_nodes": ["relu"],
            "weight_statistics": {"variance_precise": {"device": "cpu", "dims": "all"}, "range_min_max": {}},
            "activation_statistics": ALL,
            "input_generator": data,
            "num_samples": 8,
        },
    )
    assert_json(info)
    assert (info["batches"], info["samples"]) == (3, 8)
    with torch.no_grad():
        entering = model.stem[1](model.stem[0](torch.cat(data))).numpy()
    found = stat(graph, "stem_2", "args", "data_in_0")
    wide = entering.astype(np.float64)
    size = entering.size
    np.testing.assert_allclose(found["record"].pop("data").numpy(), entering, rtol=1e-5, atol=1e-6)
    assert found["record"] == {"count": 8}
    for name in ("variance_online", "variance_precise"):
        assert found[name] == {
            "variance": pytest.approx(wide.var(), rel=1e-6),
            "mean": pytest.approx(wide.mean(), rel=1e-5),
            "count": size,
        }
    low, high = wide.mean() - 3 * wide.std(), wide.mean() + 3 * wide.std()
    near = {"abs": 1e-5}
    assert found["range_n_sigma"] == {
        "min": pytest.approx(low, **near),
        "max": pytest.approx(high, **near),
        "count": size,
    }
    low, high = np.quantile(wide, [0.025, 0.975])
    assert found["range_quantile"] == {
        "min": pytest.approx(low, **near),
        "max": pytest.approx(high, **near),
        "count": size,
    }
    bounds = {"min": pytest.approx(wide.min(), **near), "max": pytest.approx(wide.max(), **near), "count": size}
    assert found["range_min_max"] == bounds
    weight = model.body.weight.detach().numpy()
    assert stat(graph, "body", "args", "weight") == {
        "variance_precise": {
            "variance": pytest.approx(weight.astype(np.float64).var(), rel=1e-12),
            "mean": pytest.approx(weight.astype(np.float64).mean(), rel=1e-12),
            "count": weight.size,
        },
        "range_min_max": {"min": float(weight.min()), "max": float(weight.max()), "count": weight.size},
    }
    assert stat(graph, "body", "args", "data_in_0") == {} == stat(graph, "stem_2", "results", "data_out_0")
    assert stat(graph, "relu", "args", "data_in_0")["record"]["count"] == 8
    shown = info["nodes"]["stem_2"]["args"]["data_in_0"]
    assert shown["record"] == {"data": {"shape": [8, 8, 8, 8]}, "count": 8}
    assert shown["range_min_max"] == found["range_min_max"]


def test_results_are_observed_on_demand() -> None:
    _, graph = conv_net()
    args = {"target_activation_nodes": "relu", "activation_statistics": {"range_min_max": {}}, "data": batches(2)}
    profile_statistics_analysis_pass(graph, args)
    assert graph.node("relu").meta["mase"]["software"]["results"] == {}
    profile_statistics_analysis_pass(graph, {**args, "profile_output_activation": True})
    before, after = (
        stat(graph, "relu", b, n)["range_min_max"] for b, n in (("args", "data_in_0"), ("results", "data_out_0"))
    )
    assert before["min"] < 0 == after["min"] and before["max"] == after["max"]


def test_the_profiler_and_calibration_agree() -> None:
    _, graph = conv_net()
    calibrate_analysis_pass(graph, {"data": batches(3, 2)})
    calibrated = {n.name: graph.meta_of(n).to_dict()["software"] for n in graph.nodes}
    again = conv_net()[1]
    profile_statistics_analysis_pass(
        again,
        {
            "by": "regex_name",
            "target_weight_nodes": ["stem_[01]|body|norm|head"],
            "target_activation_nodes": ["(?!x$|size$).*"],
            "weight_statistics": {"range_min_max": {}},
            "activation_statistics": {"range_min_max": {}},
            "profile_output_activation": True,
            "data": batches(1, 4),
        },
    )
    for node in again.nodes:
        if node.name not in ("x", "size"):
            assert str(calibrated[node.name]) == str(again.meta_of(node).to_dict()["software"]) or all(
                calibrated[node.name][b][t]["stat"]["range_min_max"]["count"] == s["stat"]["range_min_max"]["count"]
                for b in ("args", "results")
                for t, s in again.meta_of(node).to_dict()["software"][b].items()
            )


@pytest.mark.parametrize(
    ("by", "keys", "nodes"),
    [
        ("type", ["relu"], {"stem_2", "relu"}),
        ("name", ["stem_2", "head"], {"stem_2", "head"}),
        ("regex_name", ["stem_.*"], {"stem_0", "stem_1", "stem_2"}),
        ("regex_name", ["stem_[02]", "h.*d"], {"stem_0", "stem_2", "head"}),
        ("regex_name", ["tem"], None),
    ],
)
def test_targets(by: str, keys: list[str], nodes: set[str] | None) -> None:
    _, graph = conv_net()
    args = {"by": by, "target_activation_nodes": keys, "activation_statistics": {"variance_online": {}}}
    if nodes is None:
        with pytest.raises(ConfigError, match="no such node in the graph"):
            profile_statistics_analysis_pass(graph, {**args, "data": batches(1)})
        return
    _, info = profile_statistics_analysis_pass(graph, {**args, "data": batches(1)})
    assert set(info["nodes"]) == nodes


class Functions(Functional):
    """Parameters of functions, one computed by the model, and a constant that is an operand."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        z = F.linear(x, self.weight, self.offset) + self.offset
        return F.linear(z, y)


def test_parameters_of_functions() -> None:
    model = Functions()
    graph = annotated(model, {"x": torch.randn(2, 6), "y": torch.randn(3, 5)})
    y = torch.arange(15.0).reshape(3, 5)
    args = {
        "by": "name",
        "target_weight_nodes": ["linear"],
        "target_activation_nodes": ["linear", "linear_1", "add"],
        "weight_statistics": {"range_min_max": {}},
        "activation_statistics": {"range_min_max": {}},
        "data": [{"x": torch.ones(2, 6), "y": y}],
    }
    _, info = profile_statistics_analysis_pass(graph, args)
    assert list(info["nodes"]["linear"]["args"]) == ["weight", "bias", "data_in_0"]
    assert stat(graph, "linear", "args", "weight")["range_min_max"]["max"] == model.weight.max().item()
    assert stat(graph, "linear_1", "args", "weight")["range_min_max"] == {"min": 0.0, "max": 14.0, "count": 15}
    assert stat(graph, "add", "args", "data_in_1")["range_min_max"] == {"min": 1.0, "max": 1.0, "count": 5}
    with pytest.raises(ConfigError, match="nothing to observe at 'linear_1'"):
        profile_statistics_analysis_pass(graph, {**args, "target_weight_nodes": ["linear_1"]})


def test_weights_alone_need_no_data() -> None:
    graph = annotated(MLP(4), {"x": torch.ones(1, 28, 28)})
    args = {"target_weight_nodes": ["linear"], "weight_statistics": {"variance_precise": {"dims": [1]}}}
    _, info = profile_statistics_analysis_pass(graph, args)
    assert (info["batches"], info["samples"]) == (0, 0)
    assert len(info["nodes"]["fc1"]["args"]["weight"]["variance_precise"]["mean"]) == 4
    weight = graph.modules["fc1"].weight.detach().double().numpy()  # type: ignore[union-attr,operator]
    np.testing.assert_allclose(
        stat(graph, "fc1", "args", "weight")["variance_precise"]["variance"], weight.var(axis=1), rtol=1e-13
    )


def test_num_samples_stops_and_generators_may_be_endless() -> None:
    _, graph = conv_net()
    taken: list[int] = []

    def endless() -> Any:
        while True:
            taken.append(2)
            yield torch.ones(2, 3, 8, 8)

    args = {"target_activation_nodes": ["linear"], "activation_statistics": {"variance_online": {}}, "num_samples": 5}
    seen: list[tuple[int, int | None]] = []
    _, info = profile_statistics_analysis_pass(
        graph, {**args, "input_generator": endless(), "progress": lambda *a: seen.append(a)}
    )
    assert (info["batches"], info["samples"], sum(taken)) == (3, 6, 6)
    assert seen == [(1, None), (2, None), (3, None)]
    with pytest.raises(ConfigError, match="less data than num_samples"):
        profile_statistics_analysis_pass(graph, {**args, "data": batches(3)})


def test_other_statistics_stay() -> None:
    _, graph = conv_net()
    calibrate_analysis_pass(graph, {"data": batches(2)})
    args = {"target_activation_nodes": ["linear"], "activation_statistics": {"variance_online": {}}, "data": batches(2)}
    profile_statistics_analysis_pass(graph, args)
    assert list(stat(graph, "head", "args", "data_in_0")) == ["range_min_max", "variance_online"]
    add_software_metadata_analysis_pass(graph)
    assert list(stat(graph, "head", "args", "data_in_0")) == ["range_min_max", "variance_online"]


def test_model_is_not_disturbed() -> None:
    _, graph = conv_net()
    graph.model.train()
    args = {"target_activation_nodes": ["relu"], "activation_statistics": ALL, "data": batches(2)}
    with untouched(graph.model):
        profile_statistics_analysis_pass(graph, args)


GOOD = {
    "target_activation_nodes": ["relu"],
    "activation_statistics": {"range_min_max": {}},
    "data": [torch.ones(1, 3, 8, 8)],
}


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ({"target_activation_nodes": ["rellu"]}, ["no node of this op", "did you mean 'relu'"]),
        ({"target_activation_nodes": ["relu", "x"], "by": "name"}, ["nothing to observe at 'x'"]),
        ({"target_activation_nodes": ["("], "by": "regex_name"}, ["no regular expression"]),
        ({"target_activation_nodes": []}, ["target_activation_nodes: nothing is chosen"]),
        ({"activation_statistics": {}}, ["activation_statistics: nothing is chosen"]),
        ({"weight_statistics": {"record": {}}}, ["target_weight_nodes: nothing is chosen"]),
        (
            {"target_weight_nodes": ["relu", "linear"], "weight_statistics": {"record": {}}},
            ["target_weight_nodes: nothing to observe at 'relu' (nodes stem_2, relu)"],
        ),
        ({"activation_statistics": {"range_minmax": {}}}, ["range_minmax: unknown key; did you mean 'range_min_max'"]),
        (
            {"activation_statistics": {"range_quantile": {"quantil": 1, "dims": "most"}}},
            ["range_quantile.quantil: unknown key; did you mean 'quantile'", "range_quantile.dims", "2 problem(s)"],
        ),
        ({"by": "kind"}, ["by: "]),
        ({"target_activation_nodes": [], "activation_statistics": {}}, ["both are empty"]),
        (
            {"activation_statistics": {"range_min_max": {"dims": [4, -4]}, "variance_online": {"dims": [-5]}}},
            ["range_min_max.dims: no tensor has 4 (at most 4", "variance_online.dims: no tensor has -5", "2 problem"],
        ),
        ({"num_samples": 0}, ["num_samples"]),
        ({"data": []}, ["there is no data to profile"]),
        ({"data": None}, ["not an iterable of batches"]),
        ({"data": [torch.ones(1, 3, 9, 8)]}, ["input_generator[0].x", "[1, 3, 9, 8]"]),
    ],
)
def test_bad_arguments_change_nothing(changes: dict[str, Any], texts: list[str]) -> None:
    _, graph = conv_net()
    before = snapshot(graph)
    with pytest.raises(ConfigError) as error:
        profile_statistics_analysis_pass(graph, {**GOOD, **changes})
    for text in texts:
        assert text in str(error.value), str(error.value)
    assert snapshot(graph) == before


def test_nan_names_the_tensor() -> None:
    _, graph = conv_net()
    before = snapshot(graph)
    with pytest.raises(FormatError, match=r"stem_1\.data_out_0 has NaN"):
        profile_statistics_analysis_pass(graph, {**GOOD, "data": [*batches(1), torch.full((1, 3, 8, 8), float("nan"))]})
    assert snapshot(graph) == before


def test_order() -> None:
    with pytest.raises(PassOrderError, match="add_common_metadata_analysis_pass"):
        profile_statistics_analysis_pass(MaseGraph(MLP(4), catalogue=catalogue()), GOOD)
