"""``check`` says before compiling what compiling says: the same costs, and all refusals at once."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw import cli
from mase_hw.cost.devices import DEVICES, Device
from mase_hw.cost.fabrics import FABRICS
from mase_hw.emit.estimate import estimate
from mase_hw.errors import ConfigError
from mase_hw.host.process import SELDOM
from mase_hw.ir.evaluate import values_of
from mase_hw.preflight.cut import without
from mase_hw.preflight.result import Check

MODEL = """
import torch
from torch import nn

def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
    return model.eval(), torch.randn(1, 2, 6, 6)

def refused():
    model, example = build()
    model.append(nn.Module())
    return model, example
"""


class Refused(nn.Module):
    """Two functions of no op, one of an op without hardware, one layer with an argument that is not in hardware."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 4)
        self.steps = nn.LSTM(8, 8, proj_size=4, batch_first=True)
        self.begin = (torch.ones(1, 1, 4), torch.zeros(1, 1, 8))
        self.last = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cummax(self.first(x), -1)[0]
        x = torch.angle(x)
        x = torch.remainder(x, 3)
        x, _ = self.steps(x, self.begin)
        return self.last(torch.relu(x))


def sequential() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
    return model.eval(), torch.randn(1, 2, 6, 6)


def test_garbage_and_threads_cost_no_more_than_in_compile() -> None:
    """Networks of beats are a million objects: looking at all of them again and again took a quarter of the time."""
    given = gc.get_threshold(), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        during: list[tuple[int, int]] = []
        mase_hw.check(*sequential(), progress=lambda _: during.append((gc.get_threshold()[2], torch.get_num_threads())))
        after = gc.get_threshold(), torch.get_num_threads()
    finally:
        torch.set_num_threads(given[1])
    assert set(during) == {(SELDOM, 1)}
    assert after == (given[0], 2)


@pytest.fixture(scope="module")
def refused() -> Check:
    torch.manual_seed(0)
    return mase_hw.check(Refused().eval(), torch.randn(1, 5, 6))


def test_costs_are_those_of_compile(tmp_path: Path) -> None:
    model, example = sequential()
    found = mase_hw.check(model, example)
    design = mase_hw.compile(model, example, out=tmp_path / "design")
    assert found.passed and found.complete
    assert found.timing == {name: value for name, value in design.timing.items() if name != "steady"}
    assert found.estimate == estimate(design.record)
    by_node: dict[str, list[dict[str, Any]]] = {}
    for instance in design.manifest["instances"]:
        by_node.setdefault(instance["node"], []).append(instance)
    layers = {layer.name: layer for layer in found.layers if layer.status == "hardware"}
    assert layers.keys() == by_node.keys()
    for name, instances in by_node.items():
        assert layers[name].multipliers == sum(i.get("multipliers") or 0 for i in instances)
        assert layers[name].cycles == max(i["timing"]["interval"] for i in instances if "timing" in i)
    bits = sum(m["words"] * m["bits"] for m in design.manifest["memories"])
    assert sum(layer.memory_bits for layer in found.layers) == bits > 0
    for resource in ("lut", "ff", "dsp", "bram"):
        rounding = len(layers)
        assert abs(sum(getattr(layer, resource) for layer in found.layers) - found.estimate[resource]) <= rounding


@pytest.mark.parametrize(
    ("model", "shape", "asked"),
    [
        (
            nn.Linear(6, 3),
            (32, 6),
            "one frame is input 32x6: was a batch meant? the model takes a frame of 1x6 as well",
        ),
        (nn.Conv2d(2, 3, 3), (4, 2, 5, 5), "one frame is input 4x2x5x5"),
        (nn.Linear(6, 3), (1, 6), None),
        (nn.Softmax(0), (4, 6), None),  # rows depend on each other
        (nn.Sequential(nn.Flatten(0), nn.Linear(12, 3)), (2, 6), None),  # the model takes no other number
        (nn.Conv1d(2, 3, 3), (2, 8), None),  # channels
    ],
)
def test_a_batch_is_not_taken_for_a_frame_in_silence(
    model: nn.Module, shape: tuple[int, ...], asked: str | None
) -> None:
    said: list[str] = []
    mase_hw.check(model.eval(), torch.randn(*shape), progress=said.append)
    (question,) = [line for line in said if "was a batch meant" in line] or [None]
    assert (question or "").startswith(asked or "") and (question is None) == (asked is None)


def test_every_layer_is_named() -> None:
    found = mase_hw.check(*sequential())
    assert [(layer.what, layer.status) for layer in found.layers] == [
        ("Conv2d", "hardware"),
        ("BatchNorm2d", "free"),
        ("ReLU", "hardware"),
        ("Flatten", "free"),
        ("Linear", "hardware"),
    ]
    assert "folded into" in found.layers[1].detail and "fixed_conv2d" in found.layers[0].detail


def test_all_problems_at_once(refused: Check) -> None:
    assert not refused.passed and refused.complete
    assert {layer.name for layer in refused.layers if layer.status == "refused"} == {
        "cummax",
        "angle",
        "remainder",
        "steps",
    }
    assert len(refused.problems) == 4
    said = "\n".join(str(problem) for problem in refused.problems)
    for text in ("torch.cummax", "torch.angle", "remainder", "a projected state"):
        assert text in said
    assert all(problem.remedy for problem in refused.problems)


def test_what_is_not_refused_is_looked_at(refused: Check) -> None:
    mapped = {layer.name: layer for layer in refused.layers if layer.status == "hardware"}
    assert mapped.keys() == {"first", "relu", "last"}  # nothing reads the second one
    torch.manual_seed(0)
    alone = mase_hw.check(nn.Linear(6, 8).eval(), torch.randn(1, 5, 6))
    assert mapped["first"].multipliers == alone.layers[0].multipliers > 0
    assert refused.timing is None, "a design that does not exist has no timing"


def test_what_reads_complex_numbers_is_taken_out() -> None:
    class Spectrum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(torch.fft.fft(self.first(x)).real)

    found = mase_hw.check(Spectrum().eval(), torch.randn(1, 4))
    status = [layer.status for layer in found.layers]
    assert status == ["hardware", "refused", "unknown", "hardware"], found.text()


def test_inputs_with_names_of_python() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(4, 4)

        def forward(self, input: Tensor, type: Tensor) -> Tensor:
            return torch.angle(self.first(input)) + torch.relu(type)

    found = mase_hw.check(Named().eval(), (torch.randn(1, 4), torch.randn(1, 4)))
    assert found.complete and len(found.problems) == 1
    assert [layer.status for layer in found.layers] == ["hardware", "refused", "hardware", "hardware"]


def test_model_that_cannot_be_traced() -> None:
    class Steered(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    found = mase_hw.check(Steered(), torch.randn(1, 4))
    assert not found.passed and not found.complete and not found.layers
    assert "control flow" in found.problems[0].message and found.problems[0].remedy


def test_a_configuration_for_what_is_refused_is_no_problem() -> None:
    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.steps, self.last = nn.Linear(4, 4), nn.LSTM(4, 4, proj_size=2), nn.Linear(2, 2)
            self.begin = (torch.ones(1, 3, 2), torch.zeros(1, 3, 4))

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.steps(self.first(x), self.begin)[0])

    config = {"hardware": {"parallelism": {"steps": {"data_in_0": 2}}}}
    found = mase_hw.check(Steps().eval(), torch.randn(1, 3, 4), config)
    assert [problem.node for problem in found.problems] == ["steps"]
    assert not found.complete and "not everything was looked at" in found.text()


def test_impossible_lanes_are_a_problem() -> None:
    model, example = sequential()
    found = mase_hw.check(model, example, {"hardware": {"parallelism": {"no_such": {"data_in_0": 2}}}})
    assert not found.passed and "no_such" in str(found.problems[0].field)


def test_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FABRICS, "gowin")
    monkeypatch.setitem(DEVICES, "unknown", Device("unknown", "gowin", 20, 20, 2, 2, "nowhere"))
    model, example = sequential()
    dsp = mase_hw.check(model, example).estimate["dsp"]
    assert dsp > 1
    assert mase_hw.check(model, example, limits={"dsp": dsp}).passed
    short = mase_hw.check(model, example, limits={"dsp": dsp - 1})
    assert short.accepted and not short.fits and not short.passed
    device = mase_hw.check(model, example, device="ice40up5k")
    assert {need.resource for need in device.needs} == {"lut", "ff", "dsp", "bram"}
    assert not device.fits and "DOES NOT FIT" in device.text()
    other = mase_hw.check(model, example, device="unknown", limits=dict.fromkeys(("lut", "ff", "dsp", "bram"), 10_000))
    assert not other.fits and "NOT KNOWN: no cost model was fitted for gowin" in other.text()
    assert "these are counts for xc7" in other.text()
    assert not any(need.exceeds for need in other.needs) and "DOES NOT FIT" not in other.text()


def test_a_device_is_compared_with_the_estimate_for_its_family() -> None:
    model, example = sequential()
    found = mase_hw.check(model, example, device="lfe5u-85f")
    alone = mase_hw.check(model, example)
    assert found.passed and (found.family, alone.family) == ("ecp5", "xc7")
    assert found.estimate["lut"] > alone.estimate["lut"], "look-up tables of four inputs hold less than those of six"
    assert "Lattice ECP5" in found.to_json()["estimate"]["basis"]


def test_without_a_device_the_family_of_the_design_counts() -> None:
    model, example = sequential()
    plain = mase_hw.check(model, example)
    gates = mase_hw.check(model, example, {"hardware": {"family": "asic"}}, limits={"dsp": 1})
    assert gates.family == "asic" and gates.fits, "a multiplier is gates"
    assert gates.estimate["dsp"] == 0 and gates.estimate["lut"] > 4 * plain.estimate["lut"]
    assert "gates of standard cells" in gates.to_json()["estimate"]["basis"]
    assert "BRAM of a bit; LUT are gates" in gates.text()


def test_small_block_rams_count_more_often() -> None:
    """By the model of their family, which counts them as they are."""
    wide = nn.Linear(256, 256).eval()
    large = mase_hw.check(wide, torch.randn(1, 256), device="xc7a35t")
    small = mase_hw.check(wide, torch.randn(1, 256), device="ice40up5k")
    of = [next(n.needed for n in each.needs if n.resource == "bram") for each in (large, small)]
    assert of[0] > 0 and of[1] == small.estimate["bram"] > 4 * of[0]
    assert small.family == "ice40" and " BRAM of 4 Kbit" in small.text() and " BRAM of 18 Kbit" in large.text()


@pytest.mark.parametrize(
    ("more", "says"),
    [({"device": "xc7a35"}, "xc7a35t"), ({"limits": {"dps": 3}}, "dsp"), ({"limits": {"dsp": -1}}, ">= 0")],
)
def test_bad_arguments(more: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        mase_hw.check(*sequential(), **more)


def test_the_rest_computes_what_it_did() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3), nn.Tanh()).eval()
    graph, example = torch.fx.symbolic_trace(model), {"input": torch.randn(2, 4)}
    values = values_of(graph, example)
    found = without(graph, example, values, {"_1"})
    assert found is not None
    rest, inputs, besides = found
    assert not besides and inputs.keys() == {"input", "_1"}
    first, last = rest(*inputs.values())
    assert {tuple(first.shape), tuple(last.shape)} == {(2, 6), (2, 3)}
    assert any(torch.equal(values["_0"], each) for each in (first, last))
    assert any(torch.equal(values["_3"], each) for each in (first, last))


def _command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    (tmp_path / "net.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> int:
        before = sorted(tmp_path.rglob("*"))
        code = cli.main(["check", *words])
        assert sorted(tmp_path.rglob("*")) == before, "it wrote something"
        return code

    return run


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run = _command(tmp_path, monkeypatch)
    assert run("net.py:build") == cli.OK
    assert "compile would take it" in capsys.readouterr().out
    assert run("net.py:build", "--dsp", "1") == cli.FAILED
    assert "dsp" in capsys.readouterr().out
    assert run("net.py:build", "--json", "--device", "xc7a35t") == cli.OK
    said = json.loads(capsys.readouterr().out)
    assert said["accepted"] and said["fits"] and said["timing"]["interval"] > 0 and len(said["layers"]) == 5
    assert run("net.py:build", "--device", "nothing") == cli.UNUSABLE


def test_command_of_a_refused_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _command(tmp_path, monkeypatch)
    assert run("net.py:refused") == cli.FAILED
    assert "compile would refuse it" in capsys.readouterr().out


class Held(nn.Module):
    """Its inputs come in a dict that holds a list."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, given: dict[str, Any]) -> Tensor:
        return self.linear(given["a"]) + self.linear(given["b"][0])


class Star(nn.Module):
    def forward(self, *given: Tensor) -> Tensor:
        return given[0] * 2


def test_whatever_compile_takes_is_checked() -> None:
    """Exported programs, inputs by a star and in containers; an operation that no op computes is a problem of it."""
    x = torch.randn(1, 4, generator=torch.Generator().manual_seed(1))
    held = {"given": {"a": x, "b": [x]}}
    assert mase_hw.check(torch.export.export(nn.Linear(4, 3).eval(), (x,)), x).passed
    assert mase_hw.check(Star(), x).passed
    assert mase_hw.check(Held().eval(), held, calibration=[held]).passed
    program = torch.export.export(nn.Sequential(nn.Linear(4, 3), Angle()).eval(), (x,))
    refused = mase_hw.check(program, x)
    assert not refused.passed
    assert "angle" in str(refused.problems[0].message)


class Angle(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.angle(x)
