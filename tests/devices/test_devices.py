"""A network on several devices: every bit of all of them in one simulation, in the cycles that were predicted."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.cli.main import main
from mase_hw.devices import DevicesDesign, compile_devices, load_devices
from mase_hw.errors import CatalogueError, ConfigError, EmitError, MismatchError, UnsupportedError
from mase_hw.ir.annotated import SOLVED
from tests.ir.nets import With

EXAMPLES = Path(__file__).parents[2] / "examples"


class Residual(nn.Module):
    """A result that is read where it is made, and on the device behind."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.b = nn.Conv2d(8, 8, 3, padding=1)
        self.c = nn.Conv2d(8, 8, 3, padding=1)
        self.d = nn.Conv2d(8, 8, 3, padding=1)
        self.fc = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.a(x))
        x = torch.relu(x + self.c(torch.relu(self.b(x))))
        return self.fc(self.d(x).mean((2, 3)))


def residual() -> nn.Module:
    torch.manual_seed(0)
    return Residual().eval()


def made(out: Path, device: dict[str, int], links: dict[str, Any] | None = None, **hardware: Any) -> DevicesDesign:
    config = {"hardware": {"device": device, **hardware}, "links": links or {}, "vectors": {"frames": 4}}
    return compile_devices(residual(), torch.rand(1, 3, 8, 8), config, out=out)


def exact(design: DevicesDesign, inputs: Tensor | None = None) -> None:
    """Every bit, in the cycles that were predicted; and every bit with stalls."""
    found = design.simulate(inputs, engine="batch")
    timing = design.whole.record.timing
    assert found.passed and timing.exact
    assert (found.fill, found.interval) == (timing.fill, timing.interval)
    assert design.simulate(inputs, engine="batch", stalls=0.3, seed=5).passed


@pytest.mark.parametrize(
    ("device", "links", "limit"),
    [
        ({"c": 1, "d": 2}, {"bits": 8, "latency": 3}, "device 0, device 1, device 2"),
        ({"c": 1, "d": 2}, {"bits": 3, "latency": 50, "clock_ratio": 2}, "link_0, link_1, link_2"),
        ({"add": 3}, {"bits": 64, "latency": 0, "between": {"0-3": {"bits": 1}}}, "link_0, link_1"),
    ],
    ids=["wide", "narrow", "one_bit"],
)
def test_a_residual_block_across_links(
    tmp_path: Path, device: dict[str, int], links: dict[str, Any], limit: str
) -> None:
    """Two ways between devices: the shorter one waits in the FIFO of its link; a narrow link is only slow."""
    design = made(tmp_path / "made", device, links)
    graphs = [each.graph for each in design.designs.values()]
    assert len({id(graph.meta[SOLVED]) for graph in graphs if graph is not None}) == 1 < len(graphs)
    exact(design, torch.rand(6, 3, 8, 8))
    assert design.report().endswith(f"what limits it: {limit}")
    slowest = max(each.interval for each in (*design.record.devices, *design.record.links))
    assert design.timing["interval"] == slowest
    if device.get("c") == 1:
        short = next(link for link in design.record.links if link.tensor == "relu")
        other = next(link for link in design.record.links if link.tensor == "relu_1")
        assert short.credits > other.credits


def test_the_links_need_their_credits(tmp_path: Path) -> None:
    """With room for what is on its way alone the shorter of two ways would stop the design."""
    from mase_hw.devices.joined import On, join
    from mase_hw.emit.schedule import predict

    design = made(tmp_path / "made", {"c": 1, "d": 2}, {"bits": 8, "latency": 3})
    outer = {(p.tensor, p.direction): p.name for p in design.whole.record.ports}
    parts = []
    for number, each in design.designs.items():
        assert each.graph is not None
        ends = {p.name: outer[key] for p in each.record.ports if (key := (p.tensor, p.direction)) in outer}
        parts.append(On(number, each.graph.meta["netlist"], ends))
    assert design.whole.graph is not None
    catalogue = design.whole.graph.catalogue
    assert predict(join("top", parts, design.record.links), catalogue).interval == design.timing["interval"]
    few = [msgspec.structs.replace(link, credits=10) for link in design.record.links]
    with pytest.raises(CatalogueError):
        predict(join("top", parts, few), catalogue)


def test_devices_by_themselves(tmp_path: Path) -> None:
    """Each bundle is whole: its vectors, its cycles, its report; the file names it, and is read back."""
    design = made(tmp_path / "made", {"d": 1})
    for number, each in design.designs.items():
        found = each.simulate(engine="batch")
        assert found.passed and found.interval == each.timing["interval"] and each.record.device_id == number
        assert each.record.handoff is not None and "sim/simulate.py" in each.record.files
    again = load_devices(tmp_path / "made")
    assert again.record == design.record and again.report() == design.report()
    exact(again)
    assert [device.folder for device in again.record.devices] == ["device_0", "device_1"]
    assert again.record.devices[1].nodes[-1] == "fc"
    image = torch.rand(2, 3, 8, 8)
    assert torch.equal(design(image), design.designs[1].model(design.designs[0].model(image)))


def test_a_fault_on_a_link_is_seen(tmp_path: Path) -> None:
    """Words that come out in another order, and a bundle that was exchanged."""
    design = made(tmp_path / "made", {"d": 1}, {"bits": 4})
    file = design.whole.path / "rtl/lib/link_receive.sv"
    text = file.read_text()
    assert text.count("beat = {head, kept_q}") == 1
    file.write_text(text.replace("beat = {head, kept_q}", "beat = {kept_q, head}"))
    with pytest.raises(EmitError, match="changed after emission"):
        design.simulate(engine="batch")
    design.whole.verify = False
    with pytest.raises(MismatchError):
        design.simulate(engine="batch")
    made(tmp_path / "other", {"c": 1})
    (tmp_path / "made/device_1").rename(tmp_path / "aside")
    (tmp_path / "other/device_1").rename(tmp_path / "made/device_1")
    with pytest.raises(EmitError, match=r"is not the one that devices\.json names"):
        load_devices(tmp_path / "made")
    with pytest.raises(EmitError, match="holds no design on several devices"):
        load_devices(tmp_path / "aside")


@pytest.mark.parametrize(
    ("config", "error", "said"),
    [
        ({"hardware": {"device": {"e": 1}}}, ConfigError, "a node that is not in hardware"),
        ({"hardware": {"device": {"c": 2, "d": 1}}}, ConfigError, "a cut goes backwards"),
        ({"hardware": {"device": {"c": 1, "add": 2}}}, UnsupportedError, ""),
        ({"hardware": {"device": {"d": 1}}, "links": {"between": {"1-2": {}}}}, ConfigError, "there is no such link"),
        ({"hardware": {"device": {"d": 1}, "unroll": "frame"}}, UnsupportedError, "several devices cannot have this"),
    ],
    ids=["unknown", "backwards", "two_places", "no_link", "frames"],
)
def test_what_cannot_be(tmp_path: Path, config: dict[str, Any], error: type[Exception], said: str) -> None:
    """A clear error, and nothing is written."""
    if not said:  # relu would go to device 1 and to device 2, from device 0
        config, said = {"hardware": {"device": {"b": 1, "add": 2}}}, "leaves its device for several places"
    with pytest.raises(error, match=said):
        compile_devices(residual(), torch.rand(1, 3, 8, 8), config, out=tmp_path / "made")
    assert not list(tmp_path.iterdir())


def test_one_bundle_is_for_one_device(tmp_path: Path) -> None:
    config = {"hardware": {"device": {"c": 1, "d": 2}}}
    with pytest.raises(UnsupportedError, match="a design is for one device"):
        mase_hw.compile(residual(), torch.rand(1, 3, 8, 8), config, out=tmp_path / "made")


def test_a_device_is_given_by_any_module(tmp_path: Path) -> None:
    """The functions that a module calls are where it is, those in front of its first layer as well."""

    def block() -> nn.Module:
        return With(nn.Linear(8, 8), lambda fc, x: torch.tanh(fc(y := torch.relu(x))) + y)

    torch.manual_seed(0)
    config = {"hardware": {"device": {"1": 1}}}
    design = compile_devices(nn.Sequential(block(), block()), torch.rand(1, 8), config, out=tmp_path / "made")
    assert [device.nodes for device in design.record.devices] == [
        ("relu", "_0_fc", "tanh", "add"),
        ("relu_1", "_1_fc", "tanh_1", "add_1"),
    ]


def test_an_input_of_two_devices(tmp_path: Path) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(x) + self.a(x)

    with pytest.raises(UnsupportedError, match="an input of the model is read on several devices"):
        compile_devices(Twice().eval(), torch.rand(1, 4), {"hardware": {"device": {"b": 1}}}, out=tmp_path / "made")


def test_the_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The example of the page, on the command line."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    config = tmp_path / "two.toml"
    text = (EXAMPLES / "digits_cnn.toml").read_text()
    config.write_text(f"{text}\n[hardware.device]\nconv2 = 1\n\n[links]\nbits = 16\nlatency = 5\n")
    model = f"{EXAMPLES / 'digits_cnn.py'}:model"
    out = tmp_path / "made"
    arguments = ["compile", model, "--config", str(config), "--out", str(out), "--simulate", "--engine", "batch"]
    assert main(arguments) == 0
    said = capsys.readouterr()
    assert "what limits it: device 0, device 1" in said.out + said.err
    assert main([*arguments[:6], "--partition"]) == 2
    assert "there is a design for each device" in capsys.readouterr().err


def spec_of(name: str) -> Any:
    sys.path.insert(0, str(EXAMPLES))
    try:
        return getattr(importlib.import_module("mlperf_tiny"), name)()
    finally:
        sys.path.remove(str(EXAMPLES))


@pytest.mark.slow
def test_resnet8_over_three(tmp_path: Path) -> None:
    """One cut behind a block, and one within: two streams between the same devices."""
    model, example = spec_of("resnet8")
    config = {
        "hardware": {"device": {"2.first.0": 1, "2.beside": 1, "3.second.0": 2}, "max_parallelism": 8},
        "links": {"bits": 16, "latency": 20},
    }
    design = compile_devices(model, example, config, out=tmp_path / "made")
    assert [(link.source, link.sink) for link in design.record.links] == [(0, 1), (1, 2), (1, 2)]
    exact(design, torch.rand(4, 3, 32, 32))
