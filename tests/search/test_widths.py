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
from mase_hw.passes.mixed_precision import COSTS
from mase_hw.search.front import Found, Point, pareto_front
from mase_hw.search.history import POPULATION
from mase_hw.search.search import search
from tests.passes.digits import accuracy, digits
from tests.unit.pipeline import MLP, WIDTHS, calibrated, inputs, rule, seeded

pytest.importorskip("optuna")


BITS = "bit_operations"


def objectives(point: Point, sign: int) -> tuple[float, ...]:
    return (-sign * point.score, *point.measures.values())


def beaten(point: Point, points: list[Point], sign: int) -> bool:
    mine = objectives(point, sign)
    others = (objectives(q, sign) for q in points)
    return any(all(a <= b for a, b in zip(q, mine, strict=True)) and q != mine for q in others)


@pytest.mark.parametrize("measures", [1, 2, 3])
@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_the_front_is_what_nothing_beats(seed: int, higher: bool, measures: int) -> None:
    """Against comparing every pair; small numbers, so that ties are frequent."""
    draw, sign, names = random.Random(seed), 1 if higher else -1, [f"m{i}" for i in range(measures)]
    points = [
        Point({"n": i}, float(draw.randrange(6)), {name: float(draw.randrange(6)) for name in names})
        for i in range(draw.randrange(1, 25))
    ]
    front = pareto_front([*points, Point({}, float("nan"), dict.fromkeys(names, -1.0))], names, higher)
    expected = {objectives(p, sign) for p in points if not beaten(p, points, sign)}
    assert {objectives(p, sign) for p in front} == expected and len(front) == len(expected)
    assert all(p == next(q for q in points if objectives(q, sign) == objectives(p, sign)) for p in front)
    assert [p.measures["m0"] for p in front] == sorted(p.measures["m0"] for p in front)


MODEL, X = seeded(MLP), inputs(40, 6)


def small(**more: Any) -> Found:
    given = {"data": against(MODEL, [X]), "widths": (2, 4, 8), "trials": 12, "seed": 5, "vary": ["widths"]}
    options: dict[str, Any] = {**given, "against": [BITS], "sampler": "tpe", "window": 3, **more}
    graph = options.pop("graph", None) or calibrated(MODEL, X)
    return search(graph, options.pop("criterion", "sqnr"), **options)


def test_points_are_what_they_say() -> None:
    """Score and cost of every point, from a configuration written by hand and arithmetic on paper."""
    found = small()
    assert [set(p.chosen.values()) for p in found.points[:3]] == [{8}, {4}, {2}], "uniform widths first"
    names = ["x.data_in", "fc1.weight", "fc1.data_out", "fc2.weight", "fc2.data_out"]
    with torch.no_grad():
        want = MODEL(X).double()
    for point in found.points[:8]:
        w = {name: int(width) for name, width in point.chosen.items()}
        assert list(w) == names and set(w.values()) <= {2, 4, 8}
        macs = {"fc1": 40 * MODEL.fc1.weight.numel(), "fc2": 40 * MODEL.fc2.weight.numel()}
        inner = macs["fc2"] * w["fc1.data_out"] * w["fc2.weight"]
        assert point.measures[BITS] == macs["fc1"] * w["x.data_in"] * w["fc1.weight"] + inner
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
    trials = 2 * POPULATION + 5 if sampler == "nsga2" else 24
    whole = small(sampler=sampler, trials=trials)
    assert small(sampler=sampler, trials=trials) == whole
    assert small(sampler=sampler, trials=trials, seed=6).points != whole.points
    file = tmp_path / "new" / "search"
    small(sampler=sampler, trials=5, storage=file)
    calls = itertools.count()

    def dying(graph: MaseGraph) -> float:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return COSTS[BITS](graph)

    dying.__name__ = BITS
    with pytest.raises(KeyboardInterrupt):
        small(sampler=sampler, trials=trials, storage=file, against=[dying])
    said: list[str] = []
    assert small(sampler=sampler, trials=trials, storage=file, progress=said.append) == whole
    assert 0 < len(said) < trials - 5
    assert small(sampler=sampler, trials=trials, storage=file, against=[lambda_named()]) == whole, (
        "nothing is tried again"
    )


def lambda_named() -> Any:
    def never(graph: MaseGraph) -> float:
        raise AssertionError("a finished search was run again")

    never.__name__ = BITS
    return never


def test_every_configuration_of_a_small_space() -> None:
    """With enough trials the front is that of the whole space."""
    widths = {"default": (8,), "fc1.weight": (3, 5), "fc2.weight": (2, 4, 6)}
    found = small(widths=widths, trials=60)
    assert len(found.points) == 6 and found.trials == 60
    front = {p.digest for p in found.points if not beaten(p, list(found.points), 1)}
    assert {p.digest for p in found.front} == front


def test_choosing() -> None:
    found = small(trials=20)
    best, cheapest = found.front[-1], found.front[0]
    for target in (best.score, cheapest.score, (best.score + cheapest.score) / 2):
        plan = found.choose(target)
        wanted = min((p for p in found.points if p.score >= target), key=lambda p: p.measures[BITS])
        assert plan.facts["sqnr"] == wanted.score and plan.facts[BITS] == wanted.measures[BITS]
        made, _ = quantize_transform_pass(calibrated(MODEL, X), plan.quantize)
        assert COSTS[BITS](made) == wanted.measures[BITS]
    least = cheapest.measures[BITS]
    assert found.choose(limits={BITS: least}).facts["sqnr"] == cheapest.score
    assert found.choose().facts["sqnr"] == best.score
    for impossible in ({"target": best.score + 1}, {"limits": {BITS: least - 1}}):
        with pytest.raises(SearchError, match="good enough"):
            found.choose(**impossible)  # type: ignore[arg-type]
    assert len(found.table().rows) == len(found.front) and '"front"' in found.to_json()


def test_digits_with_fewer_bits_than_uniform_8() -> None:
    """Half a point below float on the training set, and on the held-out images no worse than uniform 8 bit by more."""
    d = digits()
    target = accuracy(d.net, *d.train) - 0.005
    given: dict[str, Any] = {"vary": ["widths"], "against": [BITS], "sampler": "tpe", "window": 1}
    found = search(d.graph(), "accuracy", data=d.data, widths=(3, 5, 6, 8), trials=24, seed=1, **given)
    plan = found.choose(target)
    uniform = next(p for p in found.points if set(p.chosen.values()) == {8})
    assert uniform.measures[BITS] == 64 * (64 * 64 + 64 * 32 + 32 * 10)
    assert float(plan.facts[BITS] or 0) < 0.9 * uniform.measures[BITS]
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
        ({"window": 0}, "window"),
        ({"against": ["luts"]}, "against"),
        ({"against": [BITS, BITS]}, "against"),
        ({"vary": ["width"]}, "vary"),
        ({"vary": []}, "vary"),
        ({"vary": ["formats"], "formats": ["posit"]}, "formats"),
        ({"config": {"rounding": {"method": "gptq"}}, "against": ["lut"]}, "rounding"),
        ({"data": iter([])}, "data"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(MaseHwError) as caught:
        small(**changes)
    assert caught.value.field == field, caught.value


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 6},
        {"widths": (2, 8)},
        {"criterion": "mse"},
        {"against": ["memory_bits"]},
        {"base": 7},
        {"graph": 0},
        {"window": 4},
        {"data": against(MODEL, [X[:20]])},
    ],
)
def test_a_storage_of_another_search_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "search"
    file = folder / "trials.journal"
    small(trials=3, storage=folder)
    if "graph" in changes:
        other = seeded(MLP)
        with torch.no_grad():  # other weights of the same ranges
            other.fc2.weight.copy_(other.fc2.weight.flip(0))
            other.fc2.bias.copy_(other.fc2.bias.flip(0))
        changes = {"graph": calibrated(other, X)}
    before = file.read_bytes()
    with pytest.raises(ConfigError, match="another network"):
        small(trials=3, storage=folder, **changes)
    assert small(trials=3, storage=folder).trials == 3 and file.read_bytes()[: len(before)] == before
