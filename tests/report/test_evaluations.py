"""What a report says of accuracy, of names that look alike, and of what limits the rate between the layers."""

from __future__ import annotations

import dataclasses
import html
import shutil
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest
import torch
from torch import Tensor, nn

from mase_hw.compiler.quantised_graph import traced
from mase_hw.compiler.stages import compile_pipeline
from mase_hw.design.design import Design
from mase_hw.ir import MaseGraph
from mase_hw.passes.pipeline import Pipeline
from mase_hw.report.charts import MOST_NAME, shortened, timeline
from mase_hw.report.limits import HARDWARE_ARGS, limits, rebuilt_with
from mase_hw.report.page import advice, bundle_facts, compare, write_report
from mase_hw.report.proof import keep_evaluation
from tests.report.test_report import text_of

FOUND = {
    "criterion": "accuracy", "higher_is_better": True, "frames": 360, "data": "d" * 64, "float": 0.98125,
    "quantised": 0.9625, "rtl": 0.9625, "engine": "batch", "passed": True, "failure": None,
}  # fmt: skip


@pytest.fixture
def judged(design: Design, tmp_path: Path) -> Path:
    """A copy of the bundle with what an evaluation showed."""
    folder = tmp_path / "judged"
    shutil.copytree(design.path, folder)
    keep_evaluation(folder, design.manifest["digest"], FOUND)
    return folder


@pytest.mark.usefixtures("without_pictures")
def test_accuracies_are_shown(design: Design, judged: Path, tmp_path: Path) -> None:
    said = text_of(write_report(judged, tmp_path / "a.html"))
    assert "accuracy 360 0.9812 0.9625 0.9625 every bit is that of the quantised model" in said
    assert "0.9625 accuracy of the hardware" in said and "mase-hw evaluate" not in said
    plain = text_of(write_report(design.path, tmp_path / "b.html"))
    assert "On labelled data" not in plain and "mase-hw evaluate MODEL --bundle BUNDLE" in plain


@pytest.mark.usefixtures("without_pictures")
def test_an_evaluation_that_failed_says_so(design: Design, judged: Path, tmp_path: Path) -> None:
    keep_evaluation(judged, design.manifest["digest"], {**FOUND, "rtl": 0.5, "passed": False, "failure": "a bit"})
    said = text_of(write_report(judged, tmp_path / "a.html"))
    assert "0.9625 0.5000 FAILED" in said and said.count("0.9812") == 1, "the same data replaces what was there"


def test_comparison_of_accuracies(design: Design, judged: Path) -> None:
    ours, theirs = bundle_facts(judged), bundle_facts(design.path)
    assert ("accuracy, hardware, data dddddd", 0.9625, None) in compare(ours, theirs)["totals"]
    assert ("accuracy, quantised, data dddddd", None, 0.9625) in compare(theirs, ours)["totals"]
    same = compare(ours, ours)["totals"]
    assert ("accuracy, hardware, data dddddd", 0.9625, 0.9625) in same


def test_an_instance_of_one_bundle_alone_is_one_difference(design: Design) -> None:
    ours = bundle_facts(design.path)
    first, *rest = ours["instances"]
    found = compare(ours, {**ours, "instances": rest})
    wanted = {"instance": first["name"], "what": "is in one of them only", "ours": first["module"], "theirs": None}
    assert found["instances"] == [wanted] and found["same"] == len(rest)


def test_names_that_differ_at_their_ends() -> None:
    names = [f"u_encoder_layer_{i}_attention_self_{part}" for i in (0, 11) for part in ("query", "key", "value")]
    short = shortened(names)
    assert len(set(short)) == len(names) and all(len(name) <= MOST_NAME + 5 for name in short)
    assert all(s.startswith("u_encod") and s.endswith(n[-8:]) for s, n in zip(short, names, strict=True))
    alike = [f"{'a' * 40}{i}{'b' * 60}" for i in range(3)]
    assert len(set(shortened(alike))) == 3, "as long as it must be"
    assert shortened(["short", "short"]) == ["short", "short"] and shortened([]) == []


def test_the_whole_name_is_a_tooltip() -> None:
    name = "u_encoder_layer_11_attention_self_<query>&more"
    row = {"instance": name, "first": [(0, 0, 4)], "steady": None}
    svg = timeline([row], "first", "first")
    assert svg is not None and f"<title>{html.escape(name, quote=False)}</title>" in svg


class Turned(nn.Module):
    """Between two fast layers a tensor is transposed, one element after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x).transpose(1, 2))


def mapped(model: nn.Module, x: Tensor, lanes: dict[str, dict[str, int]]) -> MaseGraph:
    graph, example = traced(model.eval(), x, None, lambda _: None)
    steps = compile_pipeline(example, {"hardware": {"parallelism": lanes}}, out=Path("nowhere"))
    return Pipeline(steps.steps[: steps.names.index("top") + 1], "mapped").run(graph).graph


def test_a_connector_that_limits_is_named() -> None:
    """And no larger lanes of the layers beside it help, which is said, and true."""
    lanes = {"a": {"data_in_0": 16, "data_out_0": 4}, "b": {"data_in_0": 4, "data_out_0": 8}}
    graph = mapped(Turned(), torch.randn(1, 8, 16), lanes)
    netlist, schedule = graph.meta["netlist"], graph.meta["schedule"]
    found = limits(graph, netlist, schedule)
    assert not found.slowest and "u_b_reorder" in found.between and found.tried and found.change is None
    said = advice(asdict(found))
    assert "u_b_reorder" in said[0] and "of it or beside it, makes the design faster" in said[1]
    args = graph.meta[HARDWARE_ARGS]
    for node in ("a", "b"):
        for tensor in ("data_in_0", "data_out_0"):
            wide = {**lanes, node: {**lanes[node], tensor: 16 if node == "a" else 8}}
            _, _, other = rebuilt_with(graph, args.model_copy(update={"parallelism": wide}), "top")
            assert other.interval >= schedule.interval


def test_a_port_that_limits_gets_the_change_that_pays() -> None:
    graph = mapped(nn.Sequential(nn.Linear(64, 4)), torch.randn(1, 64), {"_0": {"data_in_0": 8, "data_out_0": 4}})
    netlist, schedule = graph.meta["netlist"], graph.meta["schedule"]
    # As if the layer needed fewer cycles than its input has beats.
    fast = {n: msgspec.structs.replace(t, interval=1) for n, t in schedule.instances.items()}
    found = limits(graph, netlist, dataclasses.replace(schedule, instances=fast))
    assert found.slowest == () and found.between == ("data_in_0",) and found.change is not None
    assert found.change.interval == 4 and found.change.lanes["_0"]["data_in_0"] == 16
    said = " ".join(advice(asdict(found)))
    assert "at the ports: data_in_0" in said and "4 cycles per frame instead of 8" in said
