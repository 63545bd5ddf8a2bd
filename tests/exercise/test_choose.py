"""Which frames become test vectors, and what is said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw import cli
from mase_hw.compiler.stages import compile_pipeline
from mase_hw.design.vectors import read_vectors
from mase_hw.errors import ConfigError
from mase_hw.ir import MaseGraph
from mase_hw.passes.analysis.add_common_metadata import add_common_metadata_analysis_pass
from mase_hw.passes.analysis.init_metadata import init_metadata_analysis_pass
from mase_hw.passes.quantize.calibration.observers import MOST, FrameSample
from mase_hw.vectors import choose as choosing
from mase_hw.vectors.choose import cover, extreme_frames, measure, random_frames
from mase_hw.vectors.faults import Memories, detected
from mase_hw.vectors.playback import playbacks
from mase_hw.vectors.watch import count_casts

from .conftest import EIGHT

SIZE = 6


def network() -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(SIZE, 5), nn.ReLU(), nn.Linear(5, 3)).eval()


def data(count: int = 20) -> Tensor:
    return torch.rand(count, SIZE, generator=torch.Generator().manual_seed(3)) * 2 - 1


def compiled(out: Path, **options: Any) -> mase_hw.Design:
    config = {**EIGHT, **options.pop("config", {})}
    return mase_hw.compile(network(), data(1), config, out=out, calibration=[data()], **options)


def stimulus(design: mase_hw.Design) -> list[list[int]]:
    """The frames of the bundle as it lies on disk."""
    found = read_vectors(design.path / "vectors" / "data_in_0.mem", design.streams["data_in_0"])
    return found.reshape(len(found), -1).tolist()


@pytest.fixture(scope="module")
def design(work: Path) -> mase_hw.Design:
    return compiled(work / "chosen")


def test_extremes_come_first(design: mase_hw.Design) -> None:
    frames, fmt = stimulus(design), design.streams["data_in_0"].fmt
    low, high = fmt.min_mantissa, fmt.max_mantissa
    assert frames[:4] == [[high] * SIZE, [low] * SIZE, [high, low] * (SIZE // 2), [0] * SIZE]
    entry = design.manifest["vectors"]
    assert entry["sources"]["extreme"] == 4 and sum(entry["sources"].values()) == len(frames) == entry["frames"] <= 16
    assert len({tuple(frame) for frame in frames}) == len(frames), "no frame twice"


def test_without_a_sign_and_with_two_inputs(tmp_path: Path) -> None:
    """Zero is the smallest number then; the second input alternates the other way round."""

    class Difference(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return a - b

    x = torch.rand(8, 3, generator=torch.Generator().manual_seed(0))
    design = mase_hw.compile(Difference(), (x[:1], x[:1]), out=tmp_path / "b", calibration=[(x, x)])
    graph = design.graph
    assert graph is not None and design.manifest["vectors"]["sources"]["extreme"] == 3
    a, b = extreme_frames(graph).values()
    fmt = design.streams["data_in_0"].fmt
    assert not fmt.signed and a.tolist()[0] == [fmt.max_value] * 3 and a.tolist()[1] == [0.0] * 3
    assert a.tolist()[2] == [fmt.max_value, 0.0, fmt.max_value] and b.tolist()[2] == [0.0, fmt.max_value, 0.0]


def test_what_they_show_is_measured(design: mase_hw.Design) -> None:
    """Every bit of this small network is tried: the share is that of a count that was made anew."""
    graph, entry = design.graph, design.manifest["vectors"]["faults"]
    assert graph is not None
    memories = Memories(graph)
    stored = (SIZE * 5 + 5 + 5 * 3 + 3) * 8
    assert memories.bits == stored == entry["memory"]["bits"] and entry["memory"]["tried"] == 256
    scale = design.streams["data_in_0"].fmt.scale
    frames = {"input_1": torch.tensor(stimulus(design), dtype=torch.float32) * scale}
    (name,) = random_frames(graph, 1, 0)
    frames = {name: frames["input_1"]}
    every = memories.sample(stored, "all")
    shown = detected(memories, playbacks(graph, frames, stacks=True), every).any(1)
    seen = measure(graph, frames, count_casts(graph, frames), stored, 0, True)
    assert (seen.bits, seen.tried, seen.seen) == (stored, stored, int(shown.sum()))
    assert set(seen.unseen) <= {str(b) for b, s in zip(every, shown.tolist(), strict=True) if not s}
    tried = {str(b) for b in memories.sample(256, "measure 0")}
    right = [s for b, s in zip(every, shown.tolist(), strict=True) if str(b) in tried]
    assert entry["memory"]["seen"] == sum(right)


def test_chosen_frames_show_more(design: mase_hw.Design, tmp_path: Path) -> None:
    """Than as many frames of the data."""
    count = design.manifest["vectors"]["frames"]
    given = compiled(tmp_path / "given", vectors=data()[:count])
    a, b = (d.manifest["vectors"]["faults"] for d in (design, given))
    assert a["memory"]["seen"] > b["memory"]["seen"] and a["casts"]["seen"] > b["casts"]["seen"]


def test_what_is_given_stays(tmp_path: Path) -> None:
    design = compiled(tmp_path / "b", vectors=data()[:3])
    fmt = design.streams["data_in_0"].fmt
    wanted = [[int(np.clip(round(float(v) / fmt.scale), -128, 127)) for v in row] for row in data()[:3]]
    assert stimulus(design) == wanted
    entry = design.manifest["vectors"]
    assert entry["sources"] == {"given": 3} and entry["faults"]["memory"]["tried"] == 256


def test_options(tmp_path: Path) -> None:
    few = compiled(tmp_path / "few", config={"vectors": {"frames": 6, "faults": 40}})
    entry = few.manifest["vectors"]
    assert entry["frames"] <= 6 and entry["faults"]["memory"]["tried"] == 40
    one = compiled(tmp_path / "one", config={"vectors": {"frames": 1}})
    assert len(stimulus(one)) == 1
    other = compiled(tmp_path / "other", config={"vectors": {"frames": 6, "faults": 40, "seed": 9}})
    assert stimulus(other) != stimulus(few) and other.manifest["vectors"]["faults"]["memory"]["seed"] == 9
    again = compiled(tmp_path / "again", config={"vectors": {"frames": 6, "faults": 40}})
    assert again.manifest["digest"] == few.manifest["digest"]
    for wrong in ({"frames": 0}, {"faults": 0}, {"frame": 3}):
        with pytest.raises(ConfigError):
            compiled(tmp_path / "wrong", config={"vectors": wrong})
    assert not (tmp_path / "wrong").exists()


def test_nothing_is_tried_without_room_for_a_choice(
    design: mase_hw.Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extreme frames come first; where they are all, no other is looked at."""
    searched: list[int] = []
    search = choosing._search
    monkeypatch.setattr(choosing, "_search", lambda *given: searched.append(1) or search(*given))
    for frames in (5, 4, 1):
        made = compiled(tmp_path / str(frames), config={"vectors": {"frames": frames, "faults": 1}})
        assert stimulus(made)[:4] == stimulus(design)[:frames][:4] and len(stimulus(made)) == frames
        assert made.manifest["vectors"]["sources"]["extreme"] == min(frames, 4)
    assert len(searched) == 1


def test_a_pipeline_gives_the_same(design: mase_hw.Design, tmp_path: Path) -> None:
    graph = MaseGraph(network())
    (name,) = (str(n.target) for n in graph.nodes if n.op == "placeholder")
    run = compile_pipeline({name: data(1)}, EIGHT, out=tmp_path / "b", calibration=iter([data()])).run(graph)
    assert run.infos["choose"]["frames"] == design.manifest["vectors"]["frames"]
    assert mase_hw.load_design(tmp_path / "b").manifest == design.manifest


def test_a_large_network_costs_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Extreme frames and real ones without a choice, and few bits tried, which the manifest says."""
    monkeypatch.setattr(choosing, "BUDGET", 1000)
    entry = compiled(tmp_path / "b").manifest["vectors"]
    assert entry["sources"] == {"extreme": 4, "calibration": 1, "random": 0}
    assert entry["faults"]["memory"]["tried"] == choosing.LEAST and entry["faults"]["frames"] == choosing.FEWEST
    monkeypatch.setattr(choosing, "BUDGET", 40_000)  # enough for a choice among few
    entry = compiled(tmp_path / "c").manifest["vectors"]
    assert 4 < entry["frames"] <= 16 and entry["faults"]["memory"]["tried"] < 256


def test_greedy_cover() -> None:
    table = torch.tensor([[1, 0, 0, 1], [0, 1, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]], dtype=torch.bool)
    assert cover(table, [], 4) == [1, 0, 2] and cover(table, [], 1) == [1]
    assert cover(table, [2], 4) == [2, 1, 0] and cover(table, [3], 2) == [3, 1]
    assert cover(table, [], 4, torch.tensor([1, 1, 1, 5, 1])) == [2, 1, 0]
    assert cover(table[4:], [], 4) == [0], "at least one frame"


def test_frames_of_the_calibration_data_are_kept_evenly() -> None:
    graph, _ = init_metadata_analysis_pass(MaseGraph(nn.Linear(1, 1)))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"input": torch.zeros(1, 1)}, "add_value": False})
    for batches in ([10], [1] * 33, [7] * 100, [500, 1, 250]):
        sample, at = FrameSample(graph), 0
        for size in batches:
            sample.add({"input_1": torch.arange(at, at + size).float()[:, None]})
            at += size
        kept = sample.stacked()["input"][:, 0].tolist()
        step = kept[1] - kept[0]
        assert (kept == list(range(0, at, int(step))) and MOST / 2 <= len(kept) <= MOST) or len(kept) == at < MOST


def test_the_command_line_says_what_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\n"
        "def build():\n    torch.manual_seed(0)\n    return nn.Linear(4, 3), torch.rand(1, 4)\n"
    )
    model, out = f"{tmp_path / 'net.py'}:build", str(tmp_path / "b")
    assert cli.main(["compile", model, "--out", out, "--frames", "5"]) == cli.OK
    entry = mase_hw.load_design(tmp_path / "b").manifest["vectors"]
    memory = entry["faults"]["memory"]
    share = f"({memory['seen']} of {memory['tried']} stuck bits)"  # 4 x 3 weights and the biases: all were tried
    said = f"{entry['frames']} test vectors: fault coverage {int(memory['seen'] / memory['tried'] * 100)} % {share}"
    assert said in capsys.readouterr().out and entry["frames"] <= 5
    assert cli.main(["compile", model, "--out", str(tmp_path / "c"), "--frames", "0"]) == cli.UNUSABLE
    assert "frames" in capsys.readouterr().err and not (tmp_path / "c").exists()
