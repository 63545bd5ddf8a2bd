"""What a result says was exercised: the same from every engine, added up over processes, and what was not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.simulate.exercise import ADDED, BufferUse, Exercise
from mase_hw.vectors.casts import CastUse

LOG = """
exercise: edge 1, first at 135 on data_in_0 to u_a.data_in_0
exercise: edge 0, first at -1 on u_a.data_out_0 to data_out_0
exercise: buffer 2 of 2, 1 in top.u_a.u_out.exercise
exercise: buffer 3 of 8, 0 in top.u_a.u_replay.exercise.g_memory.exercise
a line of something else: exercise: buffer 9 of 9, 1 in nowhere.exercise
"""


def test_reading_what_the_monitors_print(tmp_path: Path) -> None:
    log = tmp_path / "sim.log"
    log.write_text(LOG)
    found = Exercise.read(log, "top.", 10)
    assert found is not None
    assert found.buffers == {"u_a.u_out": BufferUse(2, 2, True), "u_a.u_replay": BufferUse(3, 8, False)}
    assert found.edges == {"data_in_0 to u_a.data_in_0": True, "u_a.data_out_0 to data_out_0": False}
    assert found.missing == {
        "buffer never full": ["u_a.u_replay (3 of 8)"],
        "edge never stalled": ["u_a.data_out_0 to data_out_0"],
    }
    # Edge 0 of the clock is at 5; an edge on which nothing came has none.
    assert found.begins == {"data_in_0 to u_a.data_in_0": 13}
    log.write_text("nothing of the kind")
    assert Exercise.read(log, "top.", 10) is None and Exercise.read(tmp_path / "absent", "top.", 10) is None


def test_several_processes() -> None:
    parts = [
        Exercise({"a": BufferUse(1, 4, False), "b": BufferUse(2, 2, True)}, {"x": False, "y": False}),
        None,
        Exercise({"a": BufferUse(4, 4, True), "b": BufferUse(0, 2, False)}, {"x": True, "y": False}),
    ]
    found = Exercise.merged(parts)
    assert found is not None
    assert found.buffers == {"a": BufferUse(4, 4, True), "b": BufferUse(2, 2, True)}
    assert found.edges == {"x": True, "y": False} and Exercise.merged([None]) is None


def test_what_casts_did_not_meet() -> None:
    casts = {
        "all": CastUse(9, 4, 1, 0, 1, 1, rounds=True, grows=True),
        "none": CastUse(9, 4, 0, 0, 0, 0, rounds=True, grows=True),
        "positive": CastUse(9, 0, 0, 0, 2, 0, rounds=True),  # nothing below zero, so no tie there either
        "exact": CastUse(9, 4, 0, 0, 0, 0),
    }
    missing = Exercise(casts=casts).missing
    assert missing == {"never saturated": ["none"], "no tie above zero": ["none"], "no tie below zero": ["none"]}
    assert all(CastUse.from_json(json.loads(json.dumps(use.to_json()))) == use for use in casts.values())


@pytest.fixture(scope="module")
def mlp(work: Path) -> mase_hw.Design:
    """Two layers: FIFOs and a replay buffer."""
    torch.manual_seed(1)
    x = torch.rand(12, 8) * 2 - 1
    net = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4)).eval()
    config = {"hardware": {"max_parallelism": 2}, "vectors": {"frames": 8}}
    return mase_hw.compile(net, x[:1], config, out=work / "mlp", calibration=[x])


@pytest.mark.parametrize("inner", [0.0, 0.3])
def test_engines_agree(mlp: mase_hw.Design, inner: float) -> None:
    """Also in every cycle, since the stalls inside follow the seed."""
    before = {path: path.read_bytes() for path in mlp.path.rglob("*") if path.is_file()}
    found = {}
    for engine in ("batch", "cocotb", "fast"):
        result = mlp.simulate(engine=engine, seed=5, inner_stalls=inner, stalls=0.2).result
        assert result.exercise is not None and result.exercise.buffers
        found[engine] = (result.exercise.to_json(), result.cycles, result.accepted["data_out_0"].tolist())
    assert found["batch"] == found["cocotb"] == found["fast"]
    assert {path: path.read_bytes() for path in mlp.path.rglob("*") if path.is_file()} == before
    if inner:
        again = mlp.simulate(engine="batch", seed=5, inner_stalls=inner, stalls=0.2).result
        assert again.accepted["data_out_0"].tolist() == found["batch"][2], "the same seed, the same cycles"
        other = mlp.simulate(engine="batch", seed=6, inner_stalls=inner, stalls=0.2).result
        assert other.cycles != again.cycles, "another seed"
        assert set(again.exercise.edges.values()) == {True}, "every edge was stalled"


def test_what_a_report_says(mlp: mase_hw.Design) -> None:
    """The bundle's own vectors bring what is known of them; other inputs are counted; both are in the JSON."""
    own = mlp.simulate(engine="batch")
    text, exercise = own.report(), own.result.exercise
    assert exercise is not None and exercise.casts is not None
    faults = mlp.manifest["vectors"]["faults"]["memory"]
    sampled = f"({faults['seen']} of {faults['tried']} sampled stuck bits), of {faults['bits']} bits in memories"
    assert f"fault coverage {faults['seen'] * 100 // faults['tried']} % {sampled}" in text
    assert f"{sum(q.full for q in exercise.buffers.values())} of {len(exercise.buffers)} buffers full" in text
    assert "not exercised: edge never stalled: " in text
    document = json.loads(json.dumps(own.result.to_json()))["exercised"]
    assert document["frames"] == own.frames and document["faults"]["memory"] == faults
    assert set(document["casts"]) == {"_0", "_1", "_2"} and document["missing"] == exercise.missing
    loaded = mase_hw.load_design(mlp.path).simulate(engine="batch").result.exercise
    assert loaded is not None and loaded.to_json() == exercise.to_json(), "without the model as well"


def test_processes_are_added(mlp: mase_hw.Design, work: Path) -> None:
    x = torch.rand(6, 8, generator=torch.Generator().manual_seed(3)) * 2 - 1
    one = mlp.simulate(x, engine="batch", work_dir=work / "shares").result.exercise
    two = mlp.simulate(x, engine="batch", jobs=3, work_dir=work / "shares").result.exercise
    assert (
        one is not None
        and two is not None
        and set(one.buffers) == set(two.buffers)
        and two.edges.keys() == one.edges.keys()
    )
    assert one.casts == two.casts and one.frames == 6 and one.vectors is None


FILL = """
async def intervene(bench):
    bench.hold("data_out_0")
    await bench.cycles(60)
    bench.hold("data_out_0", False)
    await bench.reset()
"""


def test_counting_since_the_last_reset(mlp: mase_hw.Design, tmp_path: Path) -> None:
    """What was full before it counts for nothing."""
    (tmp_path / "fill.py").write_text(FILL)
    plain = mlp.simulate(engine="fast").result.exercise
    filled = mlp.simulate(engine="fast", intervene=tmp_path / "fill.py").result.exercise
    assert plain is not None and filled is not None and filled.to_json() == plain.to_json()
    held = (tmp_path / "fill.py").read_text().replace("    await bench.reset()\n", "")
    (tmp_path / "fill.py").write_text(held)
    stuck = mlp.simulate(engine="fast", intervene=tmp_path / "fill.py").result.exercise
    assert stuck is not None and sum(stuck.edges.values()) > sum(plain.edges.values()), "it does fill them"


def test_monitors_are_no_part_of_the_design(mlp: mase_hw.Design) -> None:
    """Neither of its coverage, nor of the bundle."""
    coverage = mlp.simulate(engine="batch", coverage=True, inner_stalls=0.2).result.coverage
    assert coverage is not None and "stream_fifo" in coverage.modules
    assert not [name for name in coverage.modules if name in ADDED]
    assert not [name for name in mlp.manifest["files"] if Path(name).stem in ADDED]
