"""A model of which parts are hardware: what is where, and that the whole computes what it should."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError, EmitError, MaseHwError, UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.partition import compile_partitioned, partition_transform_pass
from tests.ir.nets import With


class Mixed(nn.Module):
    """Two segments around a function that no hardware has, which something passes by."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        a = F.relu(self.first(x))
        b = torch.logcumsumexp(a + 1.5, 1)
        return self.second(b) + self.second(a)


def example() -> Tensor:
    return torch.rand(1, 6, generator=torch.Generator().manual_seed(1)) * 2 - 1


def data(frames: int = 3) -> Tensor:
    return torch.rand(frames, 6, generator=torch.Generator().manual_seed(2)) * 2 - 1


def mixed() -> Mixed:
    torch.manual_seed(4)
    return Mixed().eval()


def test_without_asking_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="logcumsumexp"):
        mase_hw.compile(mixed(), example(), out=tmp_path / "design")
    assert not any(tmp_path.iterdir())


def test_the_pass_divides_and_says_why() -> None:
    model = mixed()
    graph, info = partition_transform_pass(MaseGraph(model), {"example": example()})
    assert [p["where"] for p in info["parts"]] == ["hardware", "host", "hardware"]
    assert list(info["host"]) == ["logcumsumexp"] and "no op of the catalogue" in info["host"]["logcumsumexp"]
    torch.testing.assert_close(graph.model(data()), model(data()), rtol=0, atol=0)


def test_the_whole_in_hardware_and_on_the_host(tmp_path: Path) -> None:
    model, x = mixed(), data()
    design = compile_partitioned(model, example(), out=tmp_path / "design", calibration=[data(64)])
    assert set(design.designs) == {"hardware_0", "hardware_2"}
    assert json.loads((tmp_path / "design" / "partition.json").read_text())["host"] == design.host
    found = design(x)
    simulated = design.simulate(x, engine="batch")
    assert simulated.passed and set(simulated.segments) == set(design.designs)
    assert all(s.result.mismatches == 0 and s.result.beats_compared for s in simulated.segments.values())
    assert torch.equal(simulated.output, found)
    # The segments and the host one after the other, by hand.
    first, _, last = design.parts
    values = dict(zip(first.outputs, design.designs["hardware_0"].model(x), strict=True))
    assert set(values) == {"add", "second_1"} and set(last.inputs) == {"logcumsumexp", "second_1"}
    values["logcumsumexp"] = torch.logcumsumexp(values["add"], 1)
    assert torch.equal(design.designs["hardware_2"].model(*(values[name] for name in last.inputs)), found)
    assert (found - model(x)).abs().max() < 0.1 and not torch.equal(found, model(x))
    assert "logcumsumexp" in design.report() and "no op of the catalogue" in design.report()


def test_names_of_the_user() -> None:
    graph = MaseGraph(mixed())
    _, info = partition_transform_pass(graph, {"example": example(), "host": ["second*"]})
    assert info["host"]["second"] == info["host"]["second_1"] == "wanted on the host"
    _, info = partition_transform_pass(graph, {"example": example(), "hardware": ["first"]})
    assert [p["nodes"] for p in info["parts"] if p["where"] == "hardware"] == [["first"]]
    assert info["host"]["relu"] == "not among those wanted in hardware"


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"host": ["third"]}, ConfigError, "no such node"),
        ({"host": ["first"], "hardware": ["first"]}, ConfigError, "two places"),
        ({"hardware": ["logcumsumexp"]}, UnsupportedError, "logcumsumexp: "),
        ({"host": ["*"]}, UnsupportedError, "nothing of the model is left"),
    ],
)
def test_refused(given: dict[str, list[str]], kind: type[MaseHwError], words: str, tmp_path: Path) -> None:
    with pytest.raises(kind, match=words.replace("*", ".")):
        compile_partitioned(mixed(), example(), out=tmp_path / "design", **given)
    assert not any(tmp_path.iterdir())


def test_another_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(EmitError, match="something else"):
        compile_partitioned(mixed(), example(), out=tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_what_fails_leaves_the_older_design(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "design"
    compile_partitioned(mixed(), example(), out=out, hardware=["first"])
    before = {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    calls: list[str] = []

    def second_fails(*args: Any, **named: Any) -> Any:
        calls.append(named["out"].name)
        if len(calls) > 1:
            raise EmitError("the disk is full")
        return mase_hw.compile(*args, **named)

    monkeypatch.setattr("mase_hw.partition.design.compile", second_fails)
    with pytest.raises(EmitError, match="disk is full"):
        compile_partitioned(mixed(), example(), out=out)
    assert calls == ["hardware_0", "hardware_2"] and [p.name for p in tmp_path.iterdir()] == ["design"]
    assert {p.relative_to(out): p.read_bytes() for p in out.rglob("*") if p.is_file()} == before


def test_what_is_no_float_stays_in_one_place() -> None:
    """A place among others decides on the host."""
    torch.manual_seed(5)
    model = With(nn.Linear(6, 4), lambda fc, x: torch.take(y := fc(x), torch.argsort(y, 1))).eval()
    graph, info = partition_transform_pass(MaseGraph(model), {"example": example()})
    assert [p["where"] for p in info["parts"]] == ["hardware", "host"]
    assert set(info["host"]) == {"argsort", "take"}
    torch.testing.assert_close(graph.model(data()), model(data()), rtol=0, atol=0)
