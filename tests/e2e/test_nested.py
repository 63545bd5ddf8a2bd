"""Inputs and outputs in lists, tuples and dicts; results that are stored tensors: from the model to the simulation."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.model_spec import ModelSpec
from mase_hw.passes import evaluate_statistic
from tests.e2e.test_joins import check_every_beat

Pair = namedtuple("Pair", ["left", "right"])  # what users have


class Deep(nn.Module):
    """A dict with a list in it goes in, a dict with a tuple with a list comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 3), nn.Linear(4, 3)

    def forward(self, batch: dict[str, Any], scale: float = 2.0) -> dict[str, Any]:
        h = self.a(batch["x"]) + self.b(batch["more"][0])
        return {"h": h, "pair": (h.relu(), [batch["more"][1] * scale, None])}


def deep(frames: int, seed: int = 0) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    x, y, z = (torch.randn(frames, *shape, generator=generator) for shape in ((2, 5), (2, 4), (3,)))
    return {"x": x, "more": [y, z]}


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    torch.manual_seed(3)
    out = tmp_path_factory.mktemp("nested") / "bundle"
    return mase_hw.compile(Deep(), deep(1), out=out, calibration=[deep(16)], vectors=deep(4, 2))


def test_names_are_the_keys(design: mase_hw.Design) -> None:
    ports = {p["name"]: (p["tensor"], p["path"]) for p in design.manifest["ports"]}
    assert ports["data_in_0"] == ("batch_x", "batch.x")
    assert ports["data_in_1"] == ("batch_more_0", "batch.more.0")
    assert ports["data_in_2"] == ("batch_more_1", "batch.more.1")
    assert [ports[f"data_out_{i}"][1] for i in range(3)] == ["h", "pair.0", "pair.1.0"]


@pytest.mark.parametrize("stalls", [None, 0.3])
def test_simulation(design: mase_hw.Design, stalls: float | None, tmp_path: Path) -> None:
    given = deep(12, 5)
    with torch.no_grad():
        wanted = design.model(given)
    for inputs in (given, (given,), {"batch": given}):
        simulation = design.simulate(inputs, engine="batch", stalls=stalls, seed=2, work_dir=tmp_path / "work")
        assert simulation.passed and list(simulation.results) == ["h", "pair.0", "pair.1.0"]
        for found, value in zip(
            simulation.results.values(), (wanted["h"], wanted["pair"][0], wanted["pair"][1][0]), strict=True
        ):
            assert torch.equal(found, value.double())
    assert design.simulate(engine="batch").passed  # its own vectors
    if stalls is None:
        assert design.timing["exact"]
        check_every_beat(design, simulation.result, 12)


def test_by_name_in_another_order_and_the_bundle_alone(design: mase_hw.Design) -> None:
    given = deep(3, 6)
    named = {"batch_more_1": given["more"][1], "batch_x": given["x"], "batch_more_0": given["more"][0]}
    turned = {"more": given["more"], "x": given["x"]}
    with torch.no_grad():
        wanted = design.model(given)["h"]
        for result in (design.model(turned), design.model(batch=given), design.model(**named)):
            assert torch.equal(result["h"], wanted)
    assert design.simulate(named, engine="batch").passed
    script = design.path / "sim" / "simulate.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_evaluation_and_random_inputs(design: mase_hw.Design) -> None:
    class Error(mase_hw.passes.evaluation.Criterion):
        def __init__(self) -> None:
            self.total = 0.0

        def update(self, outputs: Any, targets: Any) -> None:
            self.total += float((outputs["h"] - targets["h"]).square().mean())

        def result(self) -> float:
            return self.total

    assert design.graph is not None
    torch.manual_seed(3)
    model, given = Deep(), deep(8, 7)
    with torch.no_grad():
        targets = model(given)
    data = [((given,), {"h": targets["h"]})]
    slow, fast = (evaluate_statistic(design.graph, data, Error(), fast_mode=fast) for fast in (False, True))
    assert slow == pytest.approx(fast) and 0 < slow < 0.01 * float(targets["h"].square().mean())
    drawn = ModelSpec(model, deep(1)).vectors(6, 1)
    assert {name: list(v.shape) for name, v in drawn.items()} == {
        "batch_x": [6, 2, 5], "batch_more_0": [6, 2, 4], "batch_more_1": [6, 3]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"x": deep(1)["x"]}, r"containers of the example.*'more': \[\*, \*\]"),
        ({"x": deep(1)["x"], "more": deep(1)["more"][0]}, "containers of the example"),
        ({"x": deep(1)["x"], "more": [*deep(1)["more"], deep(1)["x"]]}, "containers of the example"),
        ({"x": 1.0, "more": deep(1)["more"]}, "containers of the example"),
        ((deep(1), 2.0, 3), "do not fit the arguments of forward"),
        ((deep(1), 3.0), "containers of the example"),
    ],
)
def test_other_containers(design: mase_hw.Design, inputs: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){says}"):
        design.simulate(inputs)


class Kinds(nn.Module):
    """Every kind of argument: a named tuple, any number of tensors, only by name, any names; and constants."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, pair: Pair, mode: str, *others: Tensor, gain: Tensor, **named: Any) -> Pair:
        y = self.fc(pair.left) if mode == "fc" else pair.left
        for other in others:
            y = y + other
        return Pair(y * gain, pair.right - named["bias"][0])


def test_every_kind_of_argument(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model = Kinds()

    class Call(nn.Module):
        """The arguments of one call as one tuple: an example is a tuple or a dict."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, pair: Pair, mode: str, others: list[Tensor], **named: Any) -> Any:
            return self.model(pair, mode, *others, **named)

    def frames(n: int) -> dict[str, Any]:
        pair = Pair(torch.randn(n, 3), torch.randn(n, 2))
        others = [torch.randn(n, 3), torch.randn(n, 1)]
        return {"pair": pair, "mode": "fc", "others": others, "gain": torch.rand(n, 3), "bias": (torch.randn(n, 2), 7)}

    given = frames(8)
    design = mase_hw.compile(Call(), frames(1), out=tmp_path / "bundle", calibration=iter([given]))
    names = [p["tensor"] for p in design.manifest["ports"] if p["direction"] == "in"]
    assert names == ["pair_left", "pair_right", "others_0", "others_1", "gain", "bias_0"]
    with torch.no_grad():
        wanted, real = design.model(**given), Call()(**given)
    simulation = design.simulate(given, engine="batch")
    assert simulation.passed
    for found, value, exact in zip(simulation.outputs.values(), wanted, real, strict=True):
        assert torch.equal(found, value.double())
        assert float((found - exact).square().mean()) < 0.01 * float(exact.square().mean())
    with pytest.raises(ConfigError, match=r"(?s)became part of the hardware.*'relu'.*'fc'"):
        design.simulate({**given, "mode": "relu"})


class Star(nn.Module):
    def forward(self, *tensors: Tensor) -> Tensor:
        return tensors[0] + tensors[1] * tensors[2]


def test_any_number_of_tensors(tmp_path: Path) -> None:
    x = tuple(torch.randn(6, 3) for _ in range(3))
    design = mase_hw.compile(Star(), tuple(t[:1] for t in x), out=tmp_path / "bundle", calibration=[x])
    assert [p["tensor"] for p in design.manifest["ports"]][:3] == ["tensors_0", "tensors_1", "tensors_2"]
    assert design.simulate(x, engine="batch").passed


def test_a_class_that_is_no_container(tmp_path: Path) -> None:
    @dataclasses.dataclass
    class Batch:
        x: Tensor

    class Net(nn.Module):
        def forward(self, batches: list[Batch]) -> Tensor:
            return batches[0].x.relu() + batches[1]

    with pytest.raises(ConfigError, match=r"(?s)example_inputs\.batches\.0.*Batch.*register_dataclass"):
        mase_hw.compile(Net(), ([Batch(torch.randn(1, 3)), torch.randn(1, 3)],), out=tmp_path / "bundle")


class Stored(nn.Module):
    """Results that no input decides: a buffer, what is computed of a parameter, a view, whole numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 4)
        self.scale = nn.Parameter(torch.tensor([0.5, -1.25, 3.0]))
        self.register_buffer("anchors", torch.arange(24.0).reshape(2, 3, 4) / 8)
        self.register_buffer("classes", torch.tensor([3, 1, 2]))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = self.fc(x)
        anchors = self.anchors
        return {"anchors": anchors, "y": y, "double": self.scale * 2, "flat": anchors.flatten(1), "n": self.classes}


@pytest.mark.parametrize("lanes", [1, 3])
def test_stored_results(lanes: int, tmp_path: Path) -> None:
    """One frame of each for every frame of the input, at full rate and under stalls."""
    torch.manual_seed(2)
    model, x = Stored(), torch.randn(9, 6)
    config = {"hardware": {"max_parallelism": lanes}}
    design = mase_hw.compile(model, x[:1], config, out=tmp_path / "bundle", calibration=[x])
    assert [i["module"] for i in design.manifest["instances"]].count("fixed_stored") == 4
    with torch.no_grad():
        wanted, real = design.model(x), model(x)
    for stalls in (None, 0.3):
        simulation = design.simulate(x, engine="batch", stalls=stalls, seed=4, work_dir=tmp_path / "work")
        assert simulation.passed
        for name, found in simulation.results.items():
            frames = found.reshape(9, *wanted[name].shape) if name != "y" else found
            assert torch.equal(frames, wanted[name].double().expand_as(frames)), name
            assert torch.allclose(frames, real[name].double().expand_as(frames), atol=0.02), name
        if stalls is None:
            assert design.timing["exact"]
            check_every_beat(design, simulation.result, 9)


def test_nothing_but_stored_results(tmp_path: Path) -> None:
    """The input says when, and is taken whole."""

    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.tensor([[1.0, -2.0], [0.5, 4.0]]))

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.table * 0.5

    x, y = torch.randn(5, 3, 3), torch.randn(5, 7)
    design = mase_hw.compile(Table(), (x[:1], y[:1]), out=tmp_path / "bundle", calibration=[(x, y)])
    for stalls in (None, 0.4):
        simulation = design.simulate((x, y), engine="batch", stalls=stalls, seed=4)
        assert simulation.passed
        assert simulation.output.reshape(5, 2, 2).tolist() == [[[0.5, -1.0], [0.25, 2.0]]] * 5
    assert json.loads((design.path / "manifest.json").read_text())["timing"]["exact"]
