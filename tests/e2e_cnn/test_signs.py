"""Designs with binary and ternary weights: hardware equal to the quantised model, without a multiplier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.emit.estimate import estimate
from mase_hw.emit.passes import memory_files
from mase_hw.errors import UnsupportedError
from mase_hw.nn import Quantized
from tests.unit.pipeline import EIGHT, OWN_FRAMES


class Small(nn.Module):
    """A padded convolution, a depthwise one, a function whose 0 is not 0, and layers; most lanes do not divide."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Conv2d(3, 5, 3, padding=1)
        self.depth = nn.Conv2d(5, 5, (2, 3), groups=5, bias=False)
        self.middle = nn.Linear(5 * 3 * 2, 8)
        self.last = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        """``(N, 3, 4, 4)`` -> ``(N, 4)``."""
        x = torch.sigmoid(self.depth(torch.relu(self.first(x))))
        return self.last(torch.relu(self.middle(x.flatten(1))))


def configuration(kinds: dict[str, str], **hardware: Any) -> dict[str, Any]:
    overrides = {node: {"config": {"name": kind}} for node, kind in kinds.items()}
    lanes = {
        "first": {"data_in_0": 2, "data_out_0": 2},
        "depth": {"data_in_0": 5, "data_out_0": 5},
        "middle": {"data_in_0": 4, "data_out_0": 4},
        "last": {"data_in_0": 4, "data_out_0": 2},
    }
    for node in hardware.get("implementation", {}):
        del lanes[node]
    return {"quantize": {**EIGHT, "overrides": overrides}, "hardware": {"parallelism": lanes, **hardware}} | OWN_FRAMES


ALL = ("first", "depth", "middle", "last")


def compiled(out: Path, kinds: dict[str, str], **hardware: Any) -> mase_hw.Design:
    x = torch.rand(6, 3, 4, 4, generator=torch.Generator().manual_seed(1)) * 2 - 1
    return mase_hw.compile(Small(), x[:1], configuration(kinds, **hardware), out=out, calibration=[x], vectors=x)


def stored_bits(design: mase_hw.Design, node: str) -> list[str]:
    """The words of the weights of a layer, in bits, the first lane last."""
    (entry,) = [m for m in design.manifest["memories"] if m["file"] == f"mem/{node}_weight.mem"]
    words = (design.path / entry["file"]).read_text().split()
    return [f"{int(word, 16):0{entry['bits']}b}" for word in words]


def test_binary(tmp_path: Path) -> None:
    design = compiled(tmp_path / "b", dict.fromkeys(ALL, "binary"))
    assert design.simulate(stalls=0.3, engine="batch").passed and design.simulate(engine="batch").passed
    instances = {i["node"]: i for i in design.manifest["instances"] if i.get("node") in ALL and "multipliers" in i}
    assert {node: i["parameters"]["WEIGHT_PRECISION_0"] for node, i in instances.items()} == {
        "first": 2,  # 3 channels on 2 lanes: what fills the last beat is 0
        "depth": 1,
        "middle": 2,
        "last": 1,
    }
    assert not any(i["multipliers"] or i["work"] for i in instances.values())
    assert estimate(design.record)["dsp"] == 0
    # One bit each, 1 for what is negative: tiles of the inputs fastest, then of the outputs.
    last = design.graph.meta_of(design.graph.node("last")).module
    assert isinstance(last, Quantized)
    weight = last.get_parameter("weight")
    wanted = []
    for o in (0, 2):
        for i in (0, 4):
            lanes = [weight[o + lane // 4, i + lane % 4].item() for lane in range(8)]
            wanted.append("".join("1" if value < 0 else "0" for value in reversed(lanes)))
    assert stored_bits(design, "last") == wanted


def test_ternary_and_others_beside(tmp_path: Path) -> None:
    kinds = {"first": "ternary", "depth": "ternary", "last": "ternary"}
    design = compiled(tmp_path / "b", kinds, family="xc7")
    assert design.simulate(stalls=0.3, engine="batch").passed
    used = {i["node"]: i["multipliers"] for i in design.manifest["instances"] if i.get("multipliers")}
    assert list(used) == ["middle"]
    report = design.report().read_text()
    assert "ternary 2^" in report


def test_unrolled(tmp_path: Path) -> None:
    """As shifts and additions, which are then additions only, beside the folded ones."""
    kinds = {"first": "binary", "depth": "binary", "middle": "ternary", "last": "binary"}
    design = compiled(tmp_path / "b", kinds, implementation={"middle": "unrolled", "last": "unrolled"})
    assert design.simulate(stalls=0.3, engine="batch").passed
    modules = {i["node"]: i["module"] for i in design.manifest["instances"] if i.get("node")}
    assert modules["middle"].startswith("fixed_unrolled") and modules["last"].startswith("fixed_unrolled")


@pytest.mark.parametrize("asked", ["packed", "chain"])
def test_nothing_to_share(tmp_path: Path, asked: str) -> None:
    with pytest.raises(UnsupportedError, match="binary weights need no multiplier") as caught:
        compiled(tmp_path / "b", {"last": "binary"}, implementation={"last": asked})
    assert caught.value.field == "hardware.implementation.last" and not (tmp_path / "b").exists()


def test_weights_of_the_other_sign_are_the_other_bits(tmp_path: Path) -> None:
    design = compiled(tmp_path / "b", {"last": "binary"})
    before = stored_bits(design, "last")
    module = design.graph.meta_of(design.graph.node("last")).module
    assert isinstance(module, Quantized)
    with torch.no_grad():
        module.get_parameter("weight").mul_(-1)
    changed = memory_files(design.graph, design.graph.meta["netlist"])["mem/last_weight.mem"]
    assert [f"{int(word, 16) ^ 0xFF:08b}" for word in changed.split()] == before
