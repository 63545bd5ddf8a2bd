"""Mixed precision by noise: the set it finds, the bits it gives, and what it refuses."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw.errors import ConfigError, SearchError
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.passes import calibrate_analysis_pass, quantize_transform_pass
from mase_hw.passes.evaluation import against
from mase_hw.passes.mixed_precision import MixedPrecision, noise_based_mixed_precision_quantization
from tests.passes.digits import accuracy, digits
from tests.unit.pipeline import MLP, WIDTHS, annotated, calibrated, formats, inputs, rule, seeded

EIGHT = {"default": rule(**dict.fromkeys(WIDTHS, 8))}
DEPTH = 6


def deep() -> nn.Module:
    """Six layers, the weights of each on a scale of its own, so that they are not equally noisy."""
    torch.manual_seed(3)
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for i in range(DEPTH):
        layers[f"fc{i}"] = nn.Linear(12, 12)
        if i % 2:
            layers[f"relu{i}"] = nn.ReLU()
    net = nn.Sequential(layers)
    with torch.no_grad():
        for i in range(DEPTH):
            layers[f"fc{i}"].weight[0] *= 3.0 ** ((i * 7) % DEPTH)  # type: ignore[operator,union-attr]
    return net.eval()


@pytest.fixture(scope="module")
def net() -> nn.Module:
    return deep()


@pytest.fixture
def graph(net: nn.Module) -> MaseGraph:
    return calibrated(net, inputs(128, 12))


def search(graph: MaseGraph, net: nn.Module, target: float, **more: Any) -> MixedPrecision:
    more = {"quantization_config": {"low": 5, "high": 10}, "fast_mode": True, **more}
    config = more.pop("quantization_config")
    criterion = more.pop("criterion", "sqnr")
    return noise_based_mixed_precision_quantization(
        graph, config, criterion, target, data=against(net, [inputs(128, 12)]), **more
    )


def by_hand(graph: MaseGraph, raised: tuple[str, ...], low: int = 5, high: int = 10) -> nn.Module:
    """The network with some nodes raised, configured without the code under test."""
    overrides = {}
    for name in raised:
        keys = dict.fromkeys(WIDTHS, high) if name.startswith("fc") else {"data_in_width": high}
        overrides[name] = rule(**keys)
    config = {"default": rule(**dict.fromkeys(WIDTHS, low)), "overrides": overrides}
    made, _ = quantize_transform_pass(graph, config)
    return made.model


def sqnr(net: nn.Module, model: nn.Module, x: Tensor) -> float:
    with torch.no_grad():
        want, got = net(x).double(), model(x).double()
    return float(10 * torch.log10(want.square().sum() / (want - got).square().sum()))


def test_the_shortest_prefix_of_the_ranking(graph: MaseGraph, net: nn.Module) -> None:
    """Every prefix is evaluated by hand; for every target the search finds the shortest one that meets it."""
    x = inputs(128, 12)
    ranking = search(graph, net, -100.0).ranking
    pairs = {1, 3, 5}
    assert {g.nodes for g in ranking} == {(f"fc{i}", f"relu{i}") if i in pairs else (f"fc{i}",) for i in range(DEPTH)}
    worth = [g.saved / g.price for g in ranking]
    assert worth == sorted(worth, reverse=True) and worth[0] > 2 * worth[-1]
    prefixes = [tuple(n for g in ranking[:k] for n in g.nodes) for k in range(len(ranking) + 1)]
    scores = [sqnr(net, by_hand(calibrated(net, x), raised), x) for raised in prefixes]
    counts = []
    for target in [s - 1e-6 for s in scores[::2]]:
        if scores[-1] < target:
            continue
        found = search(graph, net, target, prune=False)
        count = len({g for g in found.ranking if set(g.nodes) <= set(found.raised)})
        assert set(found.raised) == set(prefixes[count]) and found.proven
        assert found.score >= target and found.score == pytest.approx(scores[count], abs=1e-9)
        assert all(found.scores[k] == pytest.approx(scores[k], abs=1e-9) for k in found.scores)
        assert count == 0 or scores[count - 1] < target, "one group less would have done"
        counts.append((target, count))
    assert len({count for _, count in counts}) > 2, "targets that all need the same set show nothing"
    for (a, few), (b, many) in ((p, q) for p in counts for q in counts):
        assert a > b or few <= many, "a smaller target never needs more nodes"


def test_the_ranking_is_loss_for_its_price() -> None:
    """Layers of very different sizes: the one by which most is lost is not the one to raise first."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 2)).eval()
    with torch.no_grad():
        net[2].weight[0] *= 20
    x = inputs(128, 12)
    ranking = search(calibrated(net, x), net, -100.0).ranking
    macs = {"_0": 12 * 96, "_2": 96 * 96, "_4": 96 * 2}
    assert [group.price for group in ranking] == [128 * macs[g.nodes[0]] * (100 - 25) for g in ranking]
    worth = [group.saved / group.price for group in ranking]
    assert worth == sorted(worth, reverse=True)
    assert min(ranking, key=lambda group: group.noise).nodes[0] == "_2" != ranking[0].nodes[0]


def macs_of(model: nn.Module) -> int:
    """Bits x MACs of linear layers of one size, up to a factor."""
    formats = [m.arithmetic.formats for m in model.modules() if isinstance(m, Quantized) and m.mase_op == "linear"]
    return sum(f["data_in_0"].width * f["weight"].width for f in formats)


@pytest.mark.slow
def test_the_cheapest_of_all_sets(graph: MaseGraph, net: nn.Module) -> None:
    """Every set of groups, configured by hand: what is found costs at most 1.15 times the cheapest that is enough."""
    x = inputs(128, 12)
    groups = [group.nodes for group in search(graph, net, -100.0).ranking]
    table = []
    for count in range(len(groups) + 1):
        for chosen in itertools.combinations(groups, count):
            raised = tuple(name for group in chosen for name in group)
            model = by_hand(calibrated(net, x), raised)
            table.append((sqnr(net, model, x), macs_of(model)))
    assert len(table) == 2**DEPTH
    ratios = []
    best = max(score for score, _ in table)
    for target in (2.0, 6.0, 10.0, 14.0, 20.0, best - 3):
        found = search(graph, net, target)
        assert found.score == pytest.approx(sqnr(net, found.graph.model, x), abs=1e-9) and found.score >= target
        assert found.cost["mixed"] <= found.cost["prefix"]
        cheapest = min(cost for score, cost in table if score >= target)
        ratios.append(macs_of(found.graph.model) / cheapest)
    print(f"times the cheapest: {[round(r, 3) for r in ratios]}")
    assert max(ratios) <= 1.15


def test_pruning_and_exchange_are_counted(graph: MaseGraph, net: nn.Module) -> None:
    target = search(graph, net, -100.0, prune=False).score + 3
    whole = search(graph, net, target, prune=False)
    assert not whole.lowered and whole.cost["mixed"] == whole.cost["prefix"]
    stopped = search(graph, net, target, max_iterations=len(whole.scores) - 2)
    assert not stopped.lowered and stopped.raised == whole.raised, "the halvings were all"
    said: list[str] = []
    found = search(graph, net, 20.0, max_iterations=5, progress=said.append)
    # Without the last one of the ranking it is a set that the search has scored.
    last = f"lowering {', '.join(found.ranking[-1].nodes)}:"
    scored = [line for line in said if not line.startswith(last)]
    assert len(scored) == 5 + 2 and len(said) == len(scored) + 1 and not found.proven, "and the two ends"


def test_all_raised_is_the_uniform_high_configuration() -> None:
    """Every bit of the digits MLP, and every format."""
    d = digits()
    uniform, _ = quantize_transform_pass(d.graph(), EIGHT)
    best = accuracy(uniform.model, *d.train)
    low = {**EIGHT, "default": rule(**dict.fromkeys(WIDTHS, 2))}
    found = noise_based_mixed_precision_quantization(
        d.graph(), {"low": low, "high": EIGHT}, "accuracy", best, data=d.data, fast_mode=True
    )
    assert found.raised == ("fc1", "relu1", "fc2", "relu2", "fc3") and found.score == best
    for name in found.raised:
        assert formats(found.graph, name) == formats(uniform, name)
    with torch.no_grad():
        assert torch.equal(found.graph.model(d.test[0]), uniform.model(d.test[0]))
    assert found.cost["mixed"] == found.cost["high"] == 8 * 8 * (64 * 64 + 64 * 32 + 32 * 10)
    assert found.cost["low"] == 2 * 2 * (64 * 64 + 64 * 32 + 32 * 10)


def test_high_rules_apply_to_raised_nodes_only() -> None:
    """A rule of ``high`` that gives relu an output of its own: raised together with nothing but itself."""
    high = {"by": "type", **EIGHT, "relu": rule(data_out_width=7, data_out_frac_width=5, data_out_signed=False)}
    low = {"by": "type", "default": rule(**dict.fromkeys(WIDTHS, 4)), "linear": rule(rounding="floor")}
    model, x = seeded(MLP), inputs(64, 6)
    best = quantize_transform_pass(calibrated(model, x), high)[0]
    target = sqnr(model, best.model, x)
    found = noise_based_mixed_precision_quantization(
        calibrated(model, x), {"low": low, "high": high}, "sqnr", target - 1e-9, data=against(model, [x])
    )
    assert set(found.raised) == {"fc1", "relu", "fc2"}
    for name in found.raised:
        assert formats(found.graph, name) == formats(best, name)
        assert found.graph.modules[name].arithmetic.rounding is best.modules[name].arithmetic.rounding  # type: ignore[union-attr]
    with torch.no_grad():
        assert torch.equal(found.graph.model(x), best.model(x))


def test_the_digits_target_with_fewer_bits() -> None:
    """A target that 4 bits everywhere miss is met with fewer bit operations than 8 bits everywhere take."""
    d = digits()
    target = d.between(4, 8)
    found = noise_based_mixed_precision_quantization(
        d.graph(), {"low": 4, "high": 8}, "accuracy", target, data=d.data, fast_mode=True
    )
    assert found.score == accuracy(found.graph.model, *d.train) >= target
    assert 0 < len(found.raised) < 5
    assert found.cost["low"] < found.cost["mixed"] < found.cost["high"]


def test_custom_configurations_are_honoured(graph: MaseGraph, net: nn.Module) -> None:
    custom = {"fc2": {"weight_width": 3, "data_out_width": 12, "rounding": "floor"}, "relu1": {"data_out_width": 6}}
    for target in (-100.0, 1.0):
        found = search(graph, net, target, custom_quantization_configs=custom)
        module = found.graph.modules["fc2"]
        assert isinstance(module, Quantized) and module.arithmetic.rounding.name == "FLOOR"
        chosen = {k: f.width for k, f in module.arithmetic.formats.items()}
        # What is not custom comes from low: the node is never raised.
        assert chosen == {"data_in_0": 5, "weight": 3, "bias": 5, "data_out_0": 12}
        relu = found.graph.modules["relu1"]
        assert isinstance(relu, Quantized) and relu.arithmetic.formats["data_out_0"].width == 6
        names = {name for group in found.ranking for name in group.nodes}
        assert names == {"fc0", "fc1", "fc3", "relu3", "fc4", "fc5", "relu5"} and "fc2" not in found.raised


def test_iterations_are_bounded(graph: MaseGraph, net: nn.Module) -> None:
    target = search(graph, net, -100.0).score + 0.01
    one = search(graph, net, target, max_iterations=1)
    assert set(one.scores) <= {6, 0, 3} and one.score >= target
    assert not one.lowered, "the one halving was all"
    full = search(graph, net, target)
    assert len(full.raised) <= len(one.raised) and full.proven
    assert one.proven == (one.raised == ())


def test_a_criterion_of_which_less_is_better(graph: MaseGraph, net: nn.Module) -> None:
    with torch.no_grad():
        power = float(net(inputs(128, 12)).double().square().mean())
    found = search(graph, net, power * 1e-2, criterion="mse")
    assert found.score <= power * 1e-2 and found.raised
    assert sqnr(net, found.graph.model, inputs(128, 12)) >= 20 - 1e-6


def test_frame_by_frame_gives_the_same() -> None:
    model, x = seeded(MLP), inputs(12, 6)
    found = [
        noise_based_mixed_precision_quantization(
            calibrate_analysis_pass(annotated(model, x[:1]), {"data": [x]})[0],
            {"low": 4, "high": 8},
            "sqnr",
            15.0,
            data=against(model, [x]),
            fast_mode=fast,
        )
        for fast in (False, True)
    ]
    assert found[0].plan == found[1].plan and found[0].scores == pytest.approx(found[1].scores)


def test_the_graph_is_left_alone(graph: MaseGraph, net: nn.Module) -> None:
    before = {n: p.clone() for n, p in graph.model.state_dict().items()}
    nodes, passes = [n.name for n in graph.nodes], graph.completed
    search(graph, net, -100.0)
    assert [n.name for n in graph.nodes] == nodes and graph.completed == passes
    assert all(torch.equal(before[n], p) for n, p in graph.model.state_dict().items())
    assert not any(isinstance(m, Quantized) for m in graph.model.modules())
    assert {graph.tensor(graph.node("fc1"), name).type for name in ("data_in_0", "weight", "data_out_0")} == {"float"}


def test_a_target_that_cannot_be_met(graph: MaseGraph, net: nn.Module) -> None:
    with pytest.raises(SearchError) as caught:
        search(graph, net, 200.0)
    best = sqnr(
        net, by_hand(calibrated(net, inputs(128, 12)), tuple(n for n, _ in net.named_children())), inputs(128, 12)
    )
    assert caught.value.got == f"{best:.6g}" and caught.value.expected == "at least 200"


CUSTOM = "custom_quantization_configs"
EVERYTHING = [*(f"fc{i}" for i in range(DEPTH)), "relu1", "relu3", "relu5"]


def config(**high: Any) -> dict[str, Any]:
    """Low is 4 bits, high 8 bits and more."""
    return {"quantization_config": {"low": 4, "high": {**EIGHT, **high}}}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"quantization_config": {"low": 8, "high": 8}}, "quantization_config"),
        ({"quantization_config": {"low": 4, "high": 8, "medium": 6}}, "medium"),
        (config(default=rule(weight_width=8)), "default.config"),
        (config(by="name", softmax=rule(data_in_width=3)), "quantize"),
        (config(overrides={"fc1": {"config": {"name": "NA"}}}), "quantization_config"),
        ({CUSTOM: {"fc9": {"weight_width": 3}}}, f"{CUSTOM}.fc9"),
        ({CUSTOM: {"fc1": {"weight_widht": 3}}}, f"{CUSTOM}.fc1.weight_widht"),
        ({CUSTOM: {"relu1": {"weight_width": 3}}}, f"{CUSTOM}.relu1.weight_width"),
        ({CUSTOM: {"fc1": {"weight_width": 0}}}, "weight_width"),
        ({CUSTOM: {name: {"data_out_width": 3} for name in EVERYTHING}}, CUSTOM),
        ({"max_iterations": -1}, "max_iterations"),
        ({"criterion": "acuracy"}, "criterion"),
        ({"cost": "lut"}, "cost"),
        ({"noise_data": iter([])}, "noise_data"),
    ],
)
def test_settings_without_effect_are_refused(
    graph: MaseGraph, net: nn.Module, changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        search(graph, net, 0.0, **changes)
    assert caught.value.field == field, caught.value


def test_a_target_that_is_no_number(graph: MaseGraph, net: nn.Module) -> None:
    with pytest.raises(ConfigError, match="not a number"):
        search(graph, net, float("nan"))


def test_graphs_that_do_not_fit(net: nn.Module) -> None:
    x = inputs(4, 12)
    done, _ = quantize_transform_pass(calibrated(net, x), EIGHT)
    for graph in (done, MaseGraph(net)):
        with pytest.raises(ConfigError, match="a float graph with metadata"):
            search(graph, net, 0.0)
    with pytest.raises(ConfigError, match="iterated only once"):
        noise_based_mixed_precision_quantization(
            calibrated(net, x), {"low": 4, "high": 8}, "sqnr", 0.0, data=iter(against(net, [x]))
        )
