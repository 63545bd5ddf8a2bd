"""The area of an op of a user's own: what it declares is counted, what it takes of logic is unknown and never 0."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.catalogue import default_catalogue
from mase_hw.cost import Resources, cost_of
from mase_hw.emit.estimate import counted, estimate
from mase_hw.errors import ConfigError
from mase_hw.fit.result import Fit
from mase_hw.preflight.check import check
from mase_hw.preflight.fit import fit
from mase_hw.report.page import bundle_facts

ROOT = Path(__file__).resolve().parents[2]
DEVICES = {"xc7": "xc7a35t", "ecp5": "lfe5u-45f", "xcup": "xczu3eg"}
EACH = 3
"""Multipliers of a lane, by declaration."""


class Own(nn.Module):
    """As a relu, in the file of the worked example, of which only the name counts here."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x)


RELU = default_catalogue()["relu"]
CUSTOM = {
    "modules": {
        Own: {
            "args": {"x": "data_in"},
            "root": ROOT / "examples" / "custom_op" / "rtl",
            "module": "leaky_shift",
            "dependence_files": ["lib/fixed_cast_unit.sv", "lib/register_slice.sv"],
            "golden": RELU.golden,
            "like": "relu",
            "multipliers": lambda p: EACH * p.DATA_OUT_0_PARALLELISM_DIM_0,
        }
    }
}


def network() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), Own(), nn.Linear(8, 4)).eval(), torch.randn(1, 8)


def fitted(family: str, target: dict[str, Any]) -> Fit:
    model, example = network()
    return fit(model, example, {"hardware": {"family": family}}, target=target, custom_ops=CUSTOM, front=False)


@pytest.mark.parametrize("family", DEVICES)
def test_check_counts_what_is_declared_and_proves_no_budget(family: str) -> None:
    model, example = network()
    config = {"hardware": {"max_parallelism": 4}}
    found = check(model, example, config, custom_ops=CUSTOM, device=DEVICES[family])
    own = next(layer for layer in found.layers if layer.what == "Own")
    assert (own.lut, own.ff, own.dsp, own.multipliers) == (None, None, 4 * EACH, 4 * EACH)
    others = [layer for layer in found.layers if layer is not own and layer.status == "hardware"]
    assert all(layer.lut and layer.ff and not layer.not_estimated for layer in others)
    assert found.estimate["dsp"] == own.dsp + sum(layer.dsp for layer in others)
    assert found.estimate["not_estimated"] == own.not_estimated == {"leaky_shift": 1}
    assert found.accepted and not found.fits and not found.passed
    text = found.text()
    assert f"estimate: at least {found.estimate['lut']} LUT" in text and "1 module is not estimated" in text
    assert "NOT KNOWN: no estimate of leaky_shift" in text and "is not known before" in text
    document = json.loads(json.dumps(found.to_json()))
    assert document["estimate"]["family"] == family and document["fits"] is False
    assert next(each for each in document["layers"] if each["what"] == "Own")["lut"] is None
    few = check(model, example, config, custom_ops=CUSTOM, device=DEVICES[family], limits={"dsp": own.dsp})
    assert "DOES NOT FIT" in few.text()  # the linear layers have some as well


@pytest.mark.parametrize("family", ["xc7", "ecp5"])
def test_fit_counts_declared_multipliers_and_says_what_is_not_proven(family: str) -> None:
    """The fastest design has all lanes; with half of its blocks there are fewer lanes of the op as well."""
    free = fitted(family, {"dsp": 10_000})
    assert (own := free.choice.chosen["_1"]).multipliers == 8 * EACH
    assert {layer["node"]: layer["dsp"] for layer in free.layers()}["_1"] == 8 * EACH == int(own.use[2])
    budget = free.choice.use["dsp"] // 2
    found = fitted(family, {"dsp": budget, "lut": 20_000})
    products = sum(each.multipliers for each in found.choice.chosen.values() if each.implementation != "unrolled")
    assert found.choice.use["dsp"] == sum(int(each.use[2]) for each in found.choice.chosen.values()) <= budget
    if family == "ecp5":  # those of Xilinx may be packed
        assert found.choice.use["dsp"] >= products
    document = found.to_json()
    assert document["not_estimated"] == {"leaky_shift": 1} and document["proven"] is False
    layer = next(each for each in document["layers"] if each["node"] == "_1")
    assert (layer["lut"], layer["ff"]) == (None, None)
    text = found.text()
    assert f"LUT: at least {found.choice.use['lut']} of 20000" in text
    assert "not proven to fit: no estimate of leaky_shift" in text
    assert "not proven to be the best, as there is no estimate of leaky_shift" in text
    with pytest.raises(ConfigError, match="budgets"):
        fitted(family, {"dsp": EACH - 1})  # not even one lane


def test_the_bundle_its_report_and_compile_say_so(tmp_path: Path) -> None:
    model, example = network()
    said: list[str] = []
    target = {"dsp": 40, "interval": 64}
    design = mase_hw.compile(
        model, example, out=tmp_path / "net", target=target, custom_ops=CUSTOM, progress=lambda s: said.append(str(s))
    )
    assert any("whether it is within the budgets" in line and "leaky_shift" in line for line in said)
    readme = next((tmp_path / "net").rglob("README.md")).read_text()
    assert "| at least " in readme and "memories that they declare: leaky_shift." in readme
    facts = bundle_facts(tmp_path / "net")
    assert facts["area"]["estimate"]["not_estimated"] == {"leaky_shift": 1}
    (own,) = (each for each in facts["instances"] if each["module"] == "leaky_shift")
    assert own["estimate"]["lut"] is None and counted(own["estimate"], "lut") == "unknown"
    assert own["estimate"]["dsp"] == own["multipliers"] > 0
    assert estimate(design.record)["dsp"] == sum(each["estimate"]["dsp"] for each in facts["instances"])


@pytest.mark.parametrize(("family", "blocks"), [("xc7", 4), ("ecp5", 4)])
def test_memories_that_an_op_declares_are_counted(family: str, blocks: int) -> None:
    """4,096 words of 16 bits are 64 Kbit: four blocks of 18 Kbit, 1,024 words each; 16 words of 4 bits are none."""
    found = cost_of("my_own", {}, family, multipliers=5, memories=[(4096, 16), (16, 4)])
    assert found == Resources(dsp=5, bram=blocks, not_estimated=("my_own",))
    assert not found.fits({"lut": 10**9}) and dataclasses.replace(found, not_estimated=()).fits({"lut": 0})
