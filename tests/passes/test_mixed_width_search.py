"""The width search: its front, its costs, and that it can be repeated and continued."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from mase_hw.errors import ConfigError, MaseHwError, SearchError
from mase_hw.ir import MaseGraph
from mase_hw.passes import quantize_transform_pass
from mase_hw.passes.evaluation import against
from mase_hw.passes.mixed_precision import COSTS, Point, WidthSearch, pareto_front, search_widths
from tests.passes.digits import accuracy, digits
from tests.unit.pipeline import MLP, WIDTHS, calibrated, inputs, rule, seeded

pytest.importorskip("optuna")


def beaten(point: Point, points: list[Point], sign: int) -> bool:
    return any(
        q.cost <= point.cost and sign * q.score >= sign * point.score and (q.cost, q.score) != (point.cost, point.score)
        for q in points
    )


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_the_front_is_what_nothing_beats(seed: int, higher: bool) -> None:
    """Against comparing every pair; small numbers, so that ties are frequent."""
    draw = random.Random(seed)
    points = [Point({"n": i}, float(draw.randrange(6)), float(draw.randrange(6))) for i in range(draw.randrange(1, 25))]
    front = pareto_front([*points, Point({}, float("nan"), -1.0)], higher)
    expected = {(p.cost, p.score) for p in points if not beaten(p, points, 1 if higher else -1)}
    assert [(p.cost, p.score) for p in front] == sorted(expected)
    assert all(p == next(q for q in points if (q.cost, q.score) == (p.cost, p.score)) for p in front)


MODEL, X = seeded(MLP), inputs(40, 6)


def small(**more: Any) -> WidthSearch:
    options: dict[str, Any] = {"data": against(MODEL, [X]), "widths": (2, 4, 8), "trials": 12, "seed": 5, **more}
    graph = options.pop("graph", None) or calibrated(MODEL, X)
    return search_widths(graph, options.pop("criterion", "sqnr"), **options)


def test_points_are_what_they_say() -> None:
    """Score and cost of every point, from a configuration written by hand and arithmetic on paper."""
    found = small()
    assert [set(p.widths.values()) for p in found.points[:3]] == [{8}, {4}, {2}], "uniform widths first"
    names = ["x.data_in", "fc1.weight", "fc1.data_out", "fc2.weight", "fc2.data_out"]
    with torch.no_grad():
        want = MODEL(X).double()
    for point in found.points[:8]:
        w = point.widths
        assert list(w) == names and set(w.values()) <= {2, 4, 8}
        macs = {"fc1": 40 * MODEL.fc1.weight.numel(), "fc2": 40 * MODEL.fc2.weight.numel()}
        inner = macs["fc2"] * w["fc1.data_out"] * w["fc2.weight"]
        assert point.cost == macs["fc1"] * w["x.data_in"] * w["fc1.weight"] + inner
        overrides = {
            "fc1": rule(data_in_width=w["x.data_in"], weight_width=w["fc1.weight"], data_out_width=w["fc1.data_out"]),
            "relu": rule(data_in_width=w["fc1.data_out"]),
            "fc2": rule(
                data_in_width=w["fc1.data_out"], weight_width=w["fc2.weight"], data_out_width=w["fc2.data_out"]
            ),
        }
        for each in overrides.values():
            del each["config"]["name"]
        config = {"default": rule(**dict.fromkeys(WIDTHS, 8)), "overrides": overrides}
        made, info = quantize_transform_pass(calibrated(MODEL, X), config)
        assert info["casts"] == []
        with torch.no_grad():
            error = want - made.model(X).double()
        assert point.score == pytest.approx(float(10 * torch.log10(want.square().sum() / error.square().sum())))


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "random"])
def test_the_same_seed_the_same_points(sampler: str, tmp_path: Path) -> None:
    """In one go, twice; and in three pieces from a file, the second of which dies in the middle of a trial."""
    trials = 22 if sampler == "nsga2" else 12  # more than one generation of NSGA-II
    whole = small(sampler=sampler, trials=trials)
    assert small(sampler=sampler, trials=trials) == whole
    assert sampler == "nsga2" or small(sampler=sampler, trials=trials, seed=6).points != whole.points
    file = tmp_path / "new" / "search.journal"
    small(sampler=sampler, trials=5, storage=file)
    calls = itertools.count()

    def dying(graph: MaseGraph) -> float:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return COSTS["bit_operations"](graph)

    dying.__name__ = "bit_operations"
    with pytest.raises(KeyboardInterrupt):
        small(sampler=sampler, trials=trials, storage=file, cost=dying)
    said: list[str] = []
    assert small(sampler=sampler, trials=trials, storage=file, progress=said.append) == whole
    assert 0 < len(said) < trials - 5
    assert small(sampler=sampler, trials=trials, storage=file, cost=lambda_named()) == whole, "nothing is tried again"


def lambda_named() -> Any:
    def never(graph: MaseGraph) -> float:
        raise AssertionError("a finished search was run again")

    never.__name__ = "bit_operations"
    return never


def test_every_configuration_of_a_small_space() -> None:
    """With enough trials the front is that of the whole space."""
    widths = {"default": (8,), "fc1.weight": (3, 5), "fc2.weight": (2, 4, 6)}
    found = small(widths=widths, trials=60)
    assert len(found.points) == 6 and found.trials == 60
    front = {(p.cost, p.score) for p in found.points if not beaten(p, list(found.points), 1)}
    assert {(p.cost, p.score) for p in found.front} == front


def test_choosing() -> None:
    found = small(trials=20)
    best, cheapest = found.front[-1], found.front[0]
    for target in (best.score, cheapest.score, (best.score + cheapest.score) / 2):
        plan = found.choose(target)
        wanted = min((p for p in found.points if p.score >= target), key=lambda p: p.cost)
        assert plan.facts["sqnr"] == wanted.score and plan.facts["bit_operations"] == wanted.cost
        made, _ = quantize_transform_pass(calibrated(MODEL, X), plan.quantize)
        assert COSTS["bit_operations"](made) == wanted.cost
    assert found.choose(max_cost=cheapest.cost).facts["sqnr"] == cheapest.score
    for impossible in ({"target": best.score + 1}, {"max_cost": cheapest.cost - 1}):
        with pytest.raises(SearchError, match="good enough"):
            found.choose(**impossible)
    assert len(found.table().rows) == len(found.front) and '"front"' in found.to_json()


def test_digits_with_fewer_bits_than_uniform_8() -> None:
    """Half a point below float on the training set, and on the held-out images no worse than uniform 8 bit by more."""
    d = digits()
    target = accuracy(d.net, *d.train) - 0.005
    found = search_widths(d.graph(), "accuracy", data=d.data, widths=(3, 5, 6, 8), trials=24, seed=1, fast_mode=True)
    plan = found.choose(target)
    uniform = next(p for p in found.points if set(p.widths.values()) == {8})
    assert uniform.cost == 64 * (64 * 64 + 64 * 32 + 32 * 10)
    assert float(plan.facts["bit_operations"] or 0) < 0.9 * uniform.cost
    made, _ = quantize_transform_pass(d.graph(), plan.quantize)
    assert accuracy(made.model, *d.train) == plan.facts["accuracy"] >= target  # type: ignore[operator]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"widths": (8,)}, "widths"),
        ({"widths": ()}, "widths.x.data_in"),
        ({"widths": (0, 8)}, "widths.x.data_in"),
        ({"widths": {"fc1.weight": (4, 8)}}, "widths.x.data_in"),
        ({"widths": {"default": (4, 8), "fc3.weight": (4,)}}, "widths.fc3.weight"),
        ({"base": {"default": rule(**dict.fromkeys(WIDTHS, 8), weight_frac_width=3)}}, "weight_frac_width"),
        ({"base": {"default": rule(data_in_width=8)}}, "default.config"),
        ({"trials": 0}, "trials"),
        ({"seed": -1}, "seed"),
        ({"sampler": "cmaes"}, "sampler"),
        ({"cost": "luts"}, "cost"),
        ({"data": iter([])}, "data"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(MaseHwError) as caught:
        small(**changes)
    assert caught.value.field == field, caught.value


@pytest.mark.parametrize(
    "changes",
    [{"seed": 6}, {"widths": (2, 8)}, {"criterion": "mse"}, {"cost": "memory_bits"}, {"base": 7}, {"graph": 0}],
)
def test_a_storage_of_another_search_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "search.journal"
    small(trials=3, storage=file)
    if "graph" in changes:
        other = seeded(MLP)
        with torch.no_grad():  # other weights of the same ranges
            other.fc2.weight.copy_(other.fc2.weight.flip(0))
            other.fc2.bias.copy_(other.fc2.bias.flip(0))
        changes = {"graph": calibrated(other, X)}
    before = file.read_bytes()
    with pytest.raises(ConfigError, match="another network"):
        small(trials=3, storage=file, **changes)
    assert small(trials=3, storage=file).trials == 3 and file.read_bytes()[: len(before)] == before
