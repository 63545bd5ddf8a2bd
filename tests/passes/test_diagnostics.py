"""Diagnostic files: what is in them is what the graph holds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from mase_hw.errors import ConfigError, EmitError
from mase_hw.ir import MaseGraph
from mase_hw.passes import quantize_transform_pass
from mase_hw.passes.diagnostics import dump_diagnostic_files
from mase_hw.passes.pipeline import Pipeline, Step
from tests.passes.test_pipeline import EIGHT, whole
from tests.unit.pipeline import MLP, calibrated, inputs, rule, seeded

KINDS = ["graph.json", "configuration.json", "statistics.json", "configuration.yaml", "arrays.npz"]


def test_what_is_in_the_files(tmp_path: Path) -> None:
    model, x = seeded(MLP), inputs(50, 6)
    config = {**EIGHT, "overrides": {"fc1": rule(weight_frac_width=3, rounding="floor")}}
    graph, _ = quantize_transform_pass(calibrated(model, x), config)
    files = dump_diagnostic_files(graph, tmp_path / "new" / "dump", "net_", ".q", configuration={"note": 1})
    assert [f.name for f in files] == [f"net_MLP.q.{kind}" for kind in KINDS]
    assert sorted(p.name for p in (tmp_path / "new" / "dump").iterdir()) == sorted(f.name for f in files)
    described, configuration, statistics = (json.loads(f.read_text()) for f in files[:3])

    assert [n["name"] for n in described["nodes"]] == ["x", "x_quantize", "fc1", "relu", "fc2", "output"]
    assert described["passes"] == list(graph.completed)
    fc1 = described["nodes"][2]
    assert fc1["inputs"] == ["x_quantize"] and fc1["common"]["args"]["weight"]["precision"] == [8, 3]

    assert configuration["configuration"] == {"note": 1} and list(configuration["nodes"]) == [
        "x_quantize", "fc1", "relu", "fc2",
    ]  # fmt: skip
    assert configuration["nodes"]["fc1"]["formats"]["weight"] == "s8.3"
    assert (
        configuration["nodes"]["fc1"]["rounding"] == "floor"
        and configuration["nodes"]["fc2"]["rounding"] == "half_even"
    )

    seen = statistics["fc1"]["results"]["data_out_0"]["stat"]["range_min_max"]
    with torch.no_grad():
        hidden = model.fc1(x)
    assert (seen["min"], seen["max"], seen["count"]) == (float(hidden.min()), float(hidden.max()), hidden.numel())

    with np.load(files[4]) as arrays:
        assert np.array_equal(arrays["state/fc1.weight"], model.fc1.weight.detach().numpy())
        weight = model.fc1.weight.detach().double().numpy()
        assert np.array_equal(arrays["mantissas/fc1.weight"], np.clip(np.rint(weight * 2**3), -128, 127))
        assert {k.split("/")[0] for k in arrays} >= {"state", "mantissas"}
        assert {k for k in arrays if k.startswith("mantissas/")} == {
            f"mantissas/{node}.{name}" for node in ("fc1", "fc2") for name in ("weight", "bias")
        }


def test_the_same_graph_gives_the_same_bytes(tmp_path: Path) -> None:
    graphs = [calibrated(seeded(MLP), inputs(8, 6)) for _ in range(2)]
    first, second = (
        [f.read_bytes() for f in dump_diagnostic_files(g, tmp_path / str(i))] for i, g in enumerate(graphs)
    )
    assert first == second


def test_graphs_at_any_moment(tmp_path: Path) -> None:
    """Traced only: what is not there yet is not in the files."""
    files = dump_diagnostic_files(MaseGraph(seeded(MLP)), tmp_path)
    assert json.loads(files[2].read_text()) == {} and json.loads(files[1].read_text()) == {"nodes": {}}
    assert [n["name"] for n in json.loads(files[0].read_text())["nodes"]] == ["x", "fc1", "relu", "fc2", "output"]


def test_values_and_odd_numbers(tmp_path: Path) -> None:
    graph = calibrated(seeded(MLP).to(torch.bfloat16), inputs(4, 6).to(torch.bfloat16))
    software = graph.meta_of(graph.node("fc1")).software
    software.results["data_out_0"]["stat"]["mine"] = {"bins": torch.arange(3), "edge": float("inf")}
    files = dump_diagnostic_files(graph, tmp_path)
    stat = json.loads(files[2].read_text())["fc1"]["results"]["data_out_0"]["stat"]["mine"]
    with np.load(files[4]) as arrays:
        assert arrays[stat["bins"]["array"]].tolist() == [0, 1, 2] and stat["edge"] == "inf"
        assert np.array_equal(arrays["state/fc1.weight"], graph.model.fc1.weight.detach().float().numpy())  # type: ignore[operator,union-attr]


def test_after_a_step(tmp_path: Path) -> None:
    pipeline = whole().dump_diagnostic_files_after("calibrate", tmp_path, prefix="a_")
    assert pipeline.names == ["init", "common", "calibrate", "calibrate_dump", "quantize"]
    run = pipeline.run(MaseGraph(seeded(MLP)))
    assert [Path(f).name for f in run.infos["calibrate_dump"]["files"]] == [f"a_MLP_calibrate.{kind}" for kind in KINDS]
    dumped = json.loads((tmp_path / "a_MLP_calibrate.graph.json").read_text())
    assert "x_quantize" not in [n["name"] for n in dumped["nodes"]], "as it was after that step, not at the end"
    configuration = json.loads((tmp_path / "a_MLP_calibrate.configuration.json").read_text())["configuration"]
    assert configuration["quantize"] == {"pass": "quantize_transform_pass", "args": EIGHT}


def test_after_every_step(tmp_path: Path) -> None:
    pipeline = whole().dump_diagnostic_files(tmp_path, "p_", "_s")
    plain = whole().run(MaseGraph(seeded(MLP)))
    run = pipeline.run(MaseGraph(seeded(MLP)))
    assert torch.equal(run.graph.model(inputs(3, 6)), plain.graph.model(inputs(3, 6)))
    places = ["01_init", "02_common", "03_calibrate", "04_quantize"]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        f"p_MLP_{place}_s.{kind}" for kind in KINDS for place in places
    )


def test_after_steps_that_fulfil_a_condition(tmp_path: Path) -> None:
    """Which steps: by what they are. Whether: by what the graph has become, asked when the step is done."""
    asked: list[int] = []

    def quantised(graph: MaseGraph) -> bool:
        asked.append(len(graph.completed))
        return "quantize_transform_pass" in graph.completed

    pipeline = whole().dump_diagnostic_files_after(
        lambda step: step.name in ("calibrate", "quantize"), tmp_path, suffix="_x", condition=quantised
    )
    assert pipeline.names == ["init", "common", "calibrate", "calibrate_dump", "quantize", "quantize_dump"]
    run = pipeline.run(MaseGraph(seeded(MLP)))
    assert len(asked) == 2 and run.infos["calibrate_dump"] == {"files": [], "modified": False}
    assert {p.name for p in tmp_path.iterdir()} == {Path(f).name for f in run.infos["quantize_dump"]["files"]}
    assert (tmp_path / "MLP_quantize_x.graph.json").exists()
    with pytest.raises(ConfigError, match="no step of eight bits fulfils"):
        whole().dump_diagnostic_files_after(lambda step: False, tmp_path)


def test_files_before_a_failure_stay(tmp_path: Path) -> None:
    pipeline = Pipeline([*whole().steps[:3], Step("quantize", quantize_transform_pass, {"default": rule()})])
    with pytest.raises(ConfigError):
        pipeline.dump_diagnostic_files(tmp_path).run(MaseGraph(seeded(MLP)))
    assert len(list(tmp_path.iterdir())) == 15


def test_places_that_cannot_be(tmp_path: Path) -> None:
    graph = MaseGraph(seeded(MLP))
    for parts in ({"prefix": "../x"}, {"suffix": "a b"}):
        with pytest.raises(ConfigError):
            dump_diagnostic_files(graph, tmp_path / "d", **parts)
    assert not (tmp_path / "d").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(EmitError):
        dump_diagnostic_files(graph, tmp_path / "file")
