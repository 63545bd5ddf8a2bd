"""From a model and a target to lanes: what is promised is what the design does, and bad targets are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from torch import Tensor, nn

import mase_hw
from mase_hw import cli
from mase_hw.cost.devices import RESOURCES, device_of
from mase_hw.cost.model import cost_of
from mase_hw.emit.estimate import estimate
from mase_hw.errors import ConfigError, MaseHwError
from mase_hw.fit.candidates import Options, Tried
from mase_hw.fit.frame import Frame
from mase_hw.fit.problem import SHARE
from mase_hw.fit.result import Fit, picture
from mase_hw.passes.mapping.add_hardware_metadata import wanted
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.preflight.fit import fit
from mase_hw.preflight.mapped import mapped_graph

EVERYTHING = {"lut": 10**6, "dsp": 10**4}


class Branches(nn.Module):
    """A residual block between a convolution and a linear layer, of sizes that few numbers divide."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.last = nn.Linear(6 * 5 * 5, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        return self.last((torch.relu(self.second(x)) + x).flatten(1))


def branches() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(1)
    return Branches().eval(), torch.randn(1, 2, 5, 5)


def chosen(target: dict[str, Any], hardware: dict[str, Any] | None = None, front: bool = False) -> Fit:
    model, example = branches()
    return fit(model, example, {"hardware": hardware or {}}, target={"whole_frames": 0, **target}, front=front)


@pytest.fixture(scope="module")
def at_700() -> Fit:
    return chosen({"interval": 700, "device": "xc7a35t"}, front=True)


def test_windows_become_additions_where_multipliers_are_few(tmp_path: Path) -> None:
    """With multipliers of its own, the convolution of a pixel per cycle is beyond six blocks."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5))
    x, target = torch.rand(4, 1, 8, 8), {"device": "xc7z020", "interval": 64, "dsp": 6, "whole_frames": 0}
    with pytest.raises(ConfigError, match="no design within the budgets"):
        mase_hw.compile(net, x[:1], out=tmp_path / "b", calibration=[x], target={**target, "unrolled": 0})
    design = mase_hw.compile(net, x[:1], out=tmp_path / "b", calibration=[x], vectors=x, target=target)
    assert "fixed_unrolled__0" in {entry["module"] for entry in design.manifest["instances"]}
    found = design.simulate(engine="batch")
    assert found.passed and found.interval == design.timing["interval"] <= 64


def test_interval_and_area_are_those_of_the_design(at_700: Fit, tmp_path: Path) -> None:
    model, example = branches()
    target = {"interval": 700, "device": "xc7a35t", "whole_frames": 0}
    design = mase_hw.compile(model, example, target=target, out=tmp_path / "made")
    simulation = design.simulate(torch.randn(4, 2, 5, 5), engine="batch")
    assert simulation.passed and simulation.interval == at_700.interval <= 700
    # A choice does not look for the first steady frame.
    assert replace(design.record.timing, steady=None) == at_700.choice.manifest.timing
    instances = {i["name"]: i for i in design.manifest["instances"]}
    used = [cost_of(i["module"], i["parameters"], "xc7").as_dict() for i in instances.values()]
    assert {name: sum(each[name] for each in used) for name in used[0]} == dict(at_700.choice.use)
    for node, each in at_700.choice.chosen.items():  # with the memories of its parameters, without what connects it
        own = [i for i in instances.values() if i["node"] == node and not i["module"].startswith("stream_")]
        parts = [list(cost_of(i["module"], i["parameters"], "xc7").as_dict().values()) for i in own]
        assert [*map(sum, zip(*parts, strict=True)), 0] == each.use.tolist(), node  # no words from outside
    by_file = tmp_path / "net.toml"
    by_file.write_text('[target]\nwhole_frames = 0\ninterval = 700\ndevice = "xc7a35t"\n')
    again = mase_hw.compile(model, example, by_file, out=tmp_path / "again")
    assert again.manifest["digest"] == design.manifest["digest"]
    hardware = at_700.choice.args.model_dump(exclude_unset=True)
    by_hand = mase_hw.compile(model, example, {"hardware": hardware}, out=tmp_path / "hand")
    assert by_hand.manifest["instances"] == design.manifest["instances"]


def test_a_bad_target_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    model, example = branches()
    for target in ({}, {"mhz": 50}, {"device": "none"}, {"lut": 100, "fps": 10}, {"interval": 3, "whole_frames": 0}):
        with pytest.raises(ConfigError):
            mase_hw.compile(model, example, target=target, out=tmp_path / "made")
    assert not list(tmp_path.iterdir())


def test_no_large_expression_is_tried_where_no_rate_is_within_the_budgets() -> None:
    with pytest.raises(ConfigError, match="no design within the budgets") as error:
        chosen({"lut": 100, "fps": 10, "whole_frames": 1})
    assert "even the slowest design takes more" in str(error.value.remedy)
    assert "expression" not in str(error.value.remedy)


def test_no_folding_by_divisors_is_cheaper(at_700: Fit) -> None:
    """Layer by layer the divisors with the fewest multipliers that are fast enough: the usual greedy choice."""
    lanes = {}
    for node, (inside, outside, cycles) in {"first": (2, 6, 225), "second": (6, 6, 225), "last": (150, 7, 1)}.items():
        found = [
            (i * o, i, o)
            for i in range(1, inside + 1)
            for o in range(1, outside + 1)
            if inside % i == 0 and outside % o == 0 and cycles * (inside // i) * (outside // o) <= 700
        ]
        _, i, o = min(found)
        lanes[node] = {"data_in_0": i, "data_out_0": o}
    by_hand = chosen({"interval": 700, "device": "xc7a35t"}, {"parallelism": lanes})
    assert at_700.choice.solution.value <= by_hand.choice.solution.value
    assert at_700.choice.solution.proven


def test_the_front_has_less_area_for_lower_rates(at_700: Fit) -> None:
    assert len(at_700.front) > 4
    weighed = [sum(at_700.goal.share(name, n) for name, n in point.use.items()) for point in at_700.front]
    assert [point.interval for point in at_700.front] == sorted(point.interval for point in at_700.front)
    assert weighed == sorted(weighed, reverse=True)
    assert picture(at_700).count("<circle") == len(at_700.front) + 1


def test_a_budget_binds() -> None:
    free, tight = chosen(EVERYTHING), chosen({"dsp": 30, "lut": 50_000})
    assert tight.choice.use["dsp"] <= 30 < free.choice.use["dsp"]
    assert free.interval < tight.interval and tight.limit == "dsp"
    with pytest.raises(ConfigError, match="no design within the budgets") as error:
        chosen({"dsp": 30, "lut": 50_000, "interval": tight.interval - 1})
    assert f"{tight.interval} cycles per frame" in str(error.value.remedy)


def test_the_first_frame_is_followed_beat_by_beat(at_700: Fit) -> None:
    """Without FIFOs and with room everywhere, so no later than in the design; alone, exactly as the facet says."""
    links = [(("first", "data_out_0"), ("relu", "data_in_0"))]
    chosen = at_700.choice.chosen
    last, path = Frame(["first", "relu"], links).last(chosen)
    entered = np.arange(chosen["first"].ports["data_in_0"].beats)
    gone = chosen["first"].latency.departures(entered)
    have, want = chosen["first"].ports["data_out_0"], chosen["relu"].ports["data_in_0"]
    if have.same_beats(want):
        assert last == int(chosen["relu"].latency.departures(gone)[-1])
    assert [visit.node for visit in path] == ["relu", "first"]
    for name, each in chosen.items():
        ports = [p for p in each.ports if p.startswith("data_in_")]
        alone, _ = Frame([name], []).last({name: each})
        assert alone == int(each.latency.departures(*(np.arange(each.ports[p].beats) for p in ports))[-1]), name


def test_the_latency_is_no_longer_than_at_the_shortest_interval() -> None:
    target = {"dsp": 30, "lut": 50_000}
    short, low = chosen(target), chosen({**target, "minimise": "latency", "unrolled": 0})
    assert low.choice.manifest.timing.last <= short.choice.manifest.timing.last
    assert low.choice.use["dsp"] <= 30
    assert low.choice.solution.bound <= low.choice.solution.value <= low.choice.manifest.timing.last


def test_look_up_tables_buy_products(tmp_path: Path) -> None:
    """With few blocks and many look-up tables a design is faster, as fast as it is predicted, and within both."""
    target = {"dsp": 3, "lut": 6_000, "unrolled": 0, "whole_frames": 0}
    blocks, both = chosen(target), chosen({**target, "logic": True})
    assert all(each.implementation != "logic" for each in blocks.choice.chosen.values())
    made = [each for each in both.choice.chosen.values() if each.implementation == "logic"]
    assert made and both.interval <= blocks.interval / 2
    assert both.choice.use["dsp"] <= 3 and both.choice.use["lut"] <= 6_000
    model, example = branches()
    design = mase_hw.compile(model, example, target={**target, "logic": True}, out=tmp_path / "made")
    simulation = design.simulate(torch.randn(3, 2, 5, 5), engine="batch")
    assert simulation.passed and simulation.interval == design.timing["interval"] == both.interval
    assert simulation.fill == design.timing["fill"]


def test_the_least_area_without_a_rate_is_that_of_the_slowest_design(at_700: Fit) -> None:
    slow = chosen({"device": "xc7a35t", "minimise": "area"})
    assert slow.choice.proven and slow.interval > at_700.interval
    assert slow.choice.solution.value < at_700.choice.solution.value


def test_what_is_given_by_hand_stays() -> None:
    found = chosen({"interval": 4000}, {"parallelism": {"second": {"data_in_0": 3, "kernel": [3, 3]}}})
    assert found.choice.chosen["second"].lanes["data_in_0"] == 3 and found.choice.chosen["second"].kernel == (3, 3)
    bounded = chosen({"interval": 4000}, {"max_parallelism": 2})
    assert all(n <= 2 for each in bounded.choice.chosen.values() for n in each.lanes.values())


@pytest.mark.parametrize(
    ("target", "hardware", "says"),
    [
        ({"device": "xc7z0200"}, {}, ("unknown device", "xc7z020")),
        ({"device": "xc7a35t"}, {"family": "ecp5"}, ("another family", "ecp5")),
        ({"fps": 1 / 3601}, {}, ("no rate of frames", "one frame an hour")),
        ({"fps": float("nan")}, {}, ("no rate of frames",)),
        ({"fps": 2e8}, {}, ("more frames than cycles", "100000000")),
        ({"fps": 10, "interval": 5}, {}, ("a rate is given twice",)),
        ({"fps": 10, "mhz": 0}, {}, ("no frequency of a clock",)),
        ({"dsp": 0}, {}, ("a budget of nothing", "1 or more")),
        ({"lut": -3}, {}, ("a budget of nothing",)),
        ({"interval": 0}, {}, ("no number of cycles",)),
        ({}, {}, ("neither how fast",)),
        ({"speed": 3}, {}, ("speed",)),
        ({"interval": 20}, {}, ("no design is as fast", "25 or more", "4e+06")),
        ({"lut": 100}, {}, ("no design within the budgets", "any rate, which takes", "lut")),
        ({"fps": -5}, {}, ("no rate of frames", "one frame an hour")),
        ({"fps": 10, "mhz": float("nan")}, {}, ("no frequency of a clock",)),
        (
            {"interval": 700},
            {"parallelism": {"second": {"data_in_0": 1, "data_out_0": 1, "kernel": [1, 1]}}},
            ("chosen by hand contradicts the target", "second", "8100"),
        ),
    ],
)
def test_what_cannot_be_met_is_refused(target: dict[str, Any], hardware: dict[str, Any], says: tuple[str, ...]) -> None:
    with pytest.raises(MaseHwError) as error:
        chosen(target, hardware)
    for text in says:
        assert text in str(error.value), error.value


def test_cycles_of_candidates_are_those_of_their_modules() -> None:
    """Nothing that is fast enough is left out, and tails are those of the latency facet."""
    model, example = branches()
    settings = mase_hw.CompileConfig(hardware=HardwareArgs(family="xc7"))
    graph = mapped_graph(model, example, settings, None, lambda _: None)
    args = HardwareArgs(family="xc7")
    found = wanted(graph, args)["second"]
    made = Options(graph, graph.node("second"), found, args, Tried()).within(700)
    lanes = {(c.lanes["data_in_0"], c.lanes["data_out_0"], c.kernel) for c in made}
    sizes = (1, 2, 3, 6)
    steps = {(1, 1): 9, (3, 3): 1}
    expected = {(i, o, k) for i in sizes for o in sizes for k in steps if 25 * steps[k] * (6 // i) * (6 // o) <= 700}
    assert lanes == expected
    for each in made:
        came = torch.arange(25 * (6 // each.lanes["data_in_0"])) * 700 // (25 * (6 // each.lanes["data_in_0"]))
        assert each.tail(700) == int(each.latency.departures(came.numpy())[-1]) - int(came[-1])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "net.py"
    place.write_text(
        "from torch import nn\nimport torch\ndef build():\n    torch.manual_seed(0)\n"
        "    return nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 5)).eval(), torch.randn(1, 12)\n"
    )
    words = ["fit", f"{place}:build", "--device", "xc7a35t", "--fps", "1e6", "--plot", str(tmp_path / "rates.svg")]
    assert cli.main(words) == cli.OK
    text = capsys.readouterr().out
    assert "what limits it is DSP" in text and "proven" in text and "least area by rate" in text
    assert cli.main([*words, "--json"]) == cli.OK
    found = json.loads(capsys.readouterr().out)
    assert found["interval"] <= 100 == found["asked_interval"] and (tmp_path / "rates.svg").read_text().endswith(
        "</svg>\n"
    )
    assert {name: sum(layer[name] for layer in found["layers"]) for name in found["use"]} == found["use"]
    assert cli.main([*words[:-1], str(tmp_path / "rates.png")]) == cli.UNUSABLE


def images() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    layers = [nn.Conv2d(8, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 1), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(128, 64)).eval(), torch.rand(1, 8, 2, 2)


def test_weights_move_outside_where_block_ram_is_short(tmp_path: Path) -> None:
    """The last layer alone has 65,536 bits of weights, more than is left of four blocks; outside it is 1,024 words."""
    (model, example), config = images(), {"hardware": {"family": "ecp5"}}
    target = {"dsp": 12, "bram": 4, "unrolled": 0}
    with pytest.raises(ConfigError, match="no design within the budgets meets the target"):
        fit(model, example, config, target=target, front=False)
    target |= {"external": True}
    found = fit(model, example, config, target=target, front=False)
    outside = {name for name, each in found.choice.chosen.items() if each.outside}
    # The pointwise convolution reads its 1,024 weights again at each of four positions.
    words = {"_5": 128 * 64 // 8, "_2": 4 * 32 * 32 // 8}
    assert "_5" in outside <= {*words, "_0"} and found.proven
    design = mase_hw.compile(model, example, config, target=target, out=tmp_path / "made")
    read = design.manifest["external"]["words_per_frame"]
    assert read >= sum(words[name] for name in outside & set(words))
    simulation = design.simulate(torch.rand(4, 8, 2, 2), engine="batch")
    assert simulation.passed and simulation.interval == design.timing["interval"] == found.interval >= read
    # With whole tiles 12 blocks take 2,048 cycles at least for 9,216, 4,096 and 8,192 products.
    assert found.interval == max(2048, read) and found.choice.use["bram"] <= 4


@pytest.mark.slow
def test_weights_are_read_once_where_frames_have_room(tmp_path: Path) -> None:
    """A layer of 8,192 weights at nine positions: read for each they are 9,216 words, and of a tile at a time 1,024."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(8, 64, 1), nn.ReLU(), nn.Conv2d(64, 128, 1), nn.ReLU(), nn.Conv2d(128, 16, 1)]
    model, example = nn.Sequential(*layers).eval(), torch.rand(1, 8, 3, 3)
    target = {"dsp": 64, "bram": 8, "minimise": "interval", "external": True, "unrolled": 0}
    intervals = {}
    for order in ({}, {"_2": "outputs_first"}):
        config = {"hardware": {"family": "ecp5", "order": order}, "vectors": {"frames": 1, "faults": 1}}
        found = fit(model, example, config, target=target, front=False)
        chosen = found.choice.chosen["_2"]
        assert found.proven and chosen.outside == ("weight",)
        intervals[chosen.order] = found.interval
        if not order:
            design = mase_hw.compile(model, example, config, target=target, out=tmp_path / "made")
            words = design.manifest["external"]["words_per_frame"]
            assert 1024 <= words == chosen.use[-1] < 1.1 * 1024, "tiles are padded"
            modules = [entry["module"] for entry in design.manifest["instances"]]
            assert "replay_buffer" in modules and "stream_reorder" in modules
            simulation = design.simulate(torch.rand(4, 8, 3, 3), engine="batch", waves=False)
            assert simulation.passed and simulation.interval == design.timing["interval"] == found.interval
            # What buffers of frames and tiles take is in the price.
            used = estimate(design.record, "ecp5")
            assert used["bram"] == found.choice.use["bram"] <= 8 and used["dsp"] == found.choice.use["dsp"] <= 64
            assert used["bram"] == sum(int(each.use[3]) for each in found.choice.chosen.values())
    assert intervals["outputs_first"] >= 9 * 64 * 128 // 8 > 5 * intervals["weights_first"]


def test_words_are_no_more_than_the_memory_brings() -> None:
    """With words of four bytes the same weights need twice the cycles, where nothing else decides them."""
    torch.manual_seed(0)
    model, example = nn.Sequential(nn.Linear(128, 64)).eval(), torch.rand(1, 128)
    intervals = []
    for size in (4, 8):
        config = {"hardware": {"family": "ecp5", "external_bytes": size, "parameters_at": {"_0.bias": "rom"}}}
        target = {"dsp": 64, "bram": 3, "unrolled": 0, "external": True}
        intervals.append(fit(model, example, config, target=target, front=False).choice.solution.total[-1])
    assert intervals == [128 * 64 // 4, 128 * 64 // 8]


def test_what_is_least_with_weights_outside_is_the_sum_of_shares() -> None:
    """To one in ten thousand: what a look-up table of a large device counts for is a whole number."""
    torch.manual_seed(0)
    model, example = nn.Sequential(nn.Linear(128, 64)).eval(), torch.rand(1, 128)
    target = {"device": "xc7a200t", "interval": 4096, "unrolled": 0, "whole_frames": 0, "external": True}
    choice = fit(model, example, {}, target=target, front=False).choice
    room = device_of("xc7a200t").capacity()
    shares = sum(int(choice.solution.total[RESOURCES.index(name)]) / most for name, most in room.items())
    assert choice.solution.value / SHARE == pytest.approx(shares, rel=1e-4)


def test_the_latency_is_not_sought_with_weights_outside() -> None:
    with pytest.raises(ConfigError, match="how late weights from external memory come"):
        fit(*images(), target={"dsp": 12, "minimise": "latency", "external": True})
