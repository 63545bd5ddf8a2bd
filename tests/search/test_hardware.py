"""Searches against hardware: what a trial says of it is what compile makes; budgets prune; all pools agree."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mase_hw.compiler.config import load_config
from mase_hw.compiler.quantised_graph import calibrated_graph
from mase_hw.errors import ConfigError, SearchError
from mase_hw.host.pools import LocalPool
from mase_hw.model_spec import ModelSpec
from mase_hw.passes.evaluation import against
from mase_hw.search.exact import make_front, spread
from mase_hw.search.front import Found
from mase_hw.search.page import write_page
from mase_hw.search.problem import Problem
from mase_hw.search.search import search
from tests.unit.pipeline import MLP, inputs, seeded

pytest.importorskip("optuna")
MODEL, X = seeded(MLP), inputs(40, 6)
DATA = list(against(MODEL, [X]))


def hunt(**more: Any) -> Found:
    given: dict[str, Any] = {"data": DATA, "widths": (2, 4, 8), "trials": 12, "seed": 5}
    graph = calibrated_graph(MODEL, X[:1], calibration=[X])
    return search(graph, "sqnr", **{**given, **more})


@pytest.fixture(scope="module")
def everything() -> Found:
    return hunt(vary=["widths", "formats", "folding", "implementation"], trials=24)


def test_what_is_measured(everything: Found) -> None:
    """Every variable is tried, and what a trial measured is there."""
    tried = {name: {p.chosen[name] for p in everything.points} for name in everything.points[0].chosen}
    assert set(tried) >= {"x.data_in", "fc1.weight", "fc1.format", "fc2.implementation", "interval"}
    assert all(len(options) > 1 for options in tried.values()), tried
    for point in everything.points:
        assert point.measures["interval"] <= point.chosen["interval"]
        assert set(point.measures) == {"interval", "fill", "lut", "ff", "dsp", "bram"}
        assert point.chosen["fc1.format"] == "fixed" or point.chosen["fc1.implementation"] == "solver"
    assert len({p.digest for p in everything.points}) == len(everything.points)


@pytest.mark.slow
def test_the_front_is_real(everything: Found, tmp_path: Path) -> None:
    """Compiled and simulated: estimates, cycles and scores are those of the trials, and every bit is compared."""
    spec = ModelSpec(MODEL, X[:1], calibration=[X], labelled=DATA)
    given: dict[str, Any] = {"criterion": "sqnr", "settings": load_config(None)}

    def points(most: int) -> list[Any]:
        return [(point, everything.plan(point)) for point in spread(everything.front, most)]

    said: list[str] = []
    made = make_front(points(3), spec, tmp_path, tell=said.append, **given)
    assert len(made) == 3 == len(said) and all(each.passed and each.beats for each in made), made
    again = make_front(points(3), spec, tmp_path, **given)
    assert again == made, "what is there is not made again"
    write_page(everything, tmp_path / "front.html", [each.to_json() for each in made], "net")
    text = (tmp_path / "front.html").read_text()
    assert text.count("as its trial said") == 3
    assert not re.search(r"""(src|href)=["'](?!data:)|https?://(?!www\.w3)""", text), "the page needs a network"
    (data,) = re.findall(r'id="data">(.*?)</script>', text, re.DOTALL)
    document = json.loads(data)
    assert sum(p["front"] for p in document["points"]) == len(everything.front)
    wrong = dict(everything.front[0].measures)
    wrong["lut"] += 1
    object.__setattr__(everything.front[0], "measures", wrong)
    (tmp_path / f"{everything.front[0].digest}.json").unlink()
    [other, *_] = make_front(points(1), spec, tmp_path, **given)
    assert not other.passed and "the trial said" in other.differs[0]


def test_a_budget_prunes_before_the_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a budget of multipliers nothing above it is scored; with one that nothing meets, nothing."""
    scored: list[Any] = []
    score = Problem.attempt
    several = {"widths": {"default": (8,), "fc1.weight": (2, 12)}, "vary": ["widths", "folding"], "trials": 30}
    free = hunt(**several, config={"target": {"unrolled": 0}})
    most = int(sorted(p.measures["dsp"] for p in free.points)[len(free.points) // 2])
    assert most > 0

    def counted(self: Problem, chosen: Any) -> Any:
        outcome = score(self, chosen)
        scored.append(outcome.score)
        return outcome

    monkeypatch.setattr(Problem, "attempt", counted)
    found = hunt(**several, config={"target": {"unrolled": 0, "dsp": most}})
    assert found.pruned and all(p.measures["dsp"] <= most for p in found.points)
    assert all("over the budget" in p.reason for p in found.pruned)
    assert sum(each is not None for each in scored) == len(found.points)
    with pytest.raises(SearchError, match="all trials were pruned, the first one: over the budget"):
        hunt(**several, config={"target": {"lut": 1}}).choose()


def test_lanes_as_configured() -> None:
    """Without folding the lanes are those of the configuration."""
    config = {"hardware": {"parallelism": {"fc1": {"data_in_0": 1, "data_out_0": 1}}}}
    found = hunt(vary=["widths"], against=["interval", "memory_bits"], config=config, trials=4)
    assert {p.measures["interval"] for p in found.points} == {30}
    assert all(more["hardware"] == config["hardware"] for _, more in found.plans)


def test_processes_make_the_same_trials(tmp_path: Path) -> None:
    """Two processes, and this one; and what is a function only this one knows."""
    here = hunt(trials=20, window=6)
    assert hunt(trials=20, window=6, pool=LocalPool(2), storage=tmp_path / "trials") == here
    assert hunt(trials=20, window=6, storage=tmp_path / "trials", progress=pytest.fail) == here, "all are there"
    with pytest.raises(ConfigError, match="by name only"):
        hunt(pool=LocalPool(2), against=[lambda graph: 1.0])


def test_two_searches_in_one_folder(tmp_path: Path) -> None:
    from mase_hw.host.locks import locked

    with locked(tmp_path / ".lock", "the folder", wait=False), pytest.raises(ConfigError, match="another search runs"):
        hunt(storage=tmp_path)


def test_a_line_that_was_cut_off(tmp_path: Path) -> None:
    """A journal whose last line is not whole: that trial is made again, and all others stay."""
    whole = hunt(storage=tmp_path)
    journal = tmp_path / "trials.journal"
    content = journal.read_bytes()
    journal.write_bytes(content[:-40])
    said: list[str] = []
    assert hunt(storage=tmp_path, progress=said.append) == whole and len(said) == 1
    assert sum(b'"params"' in line for line in journal.read_bytes().splitlines()) == 12


def test_points_that_are_spread(everything: Found) -> None:
    front = everything.front
    assert spread(front, 1) == [front[0]] and spread(front, len(front) + 3) == list(front)
    assert spread(front, 2) == [front[0], front[-1]]
