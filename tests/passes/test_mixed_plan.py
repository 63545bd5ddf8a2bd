"""Plans: the shortest configuration with the same meaning, as a file that ``compile`` takes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

import mase_hw
from mase_hw.compiler.config import load_config
from mase_hw.errors import ConfigError, EmitError
from mase_hw.ir import MaseGraph
from mase_hw.passes import quantize_transform_pass
from mase_hw.passes.mixed_precision import Plan, noise_based_mixed_precision_quantization, uniform
from mase_hw.passes.mixed_precision.plan import complete, compose, settings_of
from tests.passes.digits import digits
from tests.unit.pipeline import MLP, RANGES, WIDTHS, Functional, calibrated, formats, inputs, rule, seeded

BASE = rule(**dict.fromkeys(WIDTHS, 6))
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "default alone": {"default": BASE},
    "by type": {"by": "type", "default": BASE, "linear": rule(weight_width=4), "relu": rule(data_in_width=7)},
    "an output of its own": {"default": BASE, "relu": rule(data_out_width=6)},
    "another output": {"default": BASE, "relu": rule(data_out_width=5, data_out_frac_width=2, data_out_signed=False)},
    "modes": {"default": BASE, "linear": rule(rounding="floor", overflow="wrap")},
    "fraction widths": {"default": rule(**dict.fromkeys(WIDTHS, 6), weight_frac_width=4), "linear": rule(bias_width=9)},
    "integers": {"default": {"config": {**BASE["config"], "name": "integer"}}, "relu": rule(data_in_width=6)},
    "overrides": {"by": "regex_name", "default": BASE, ".*": rule(data_in_width=5), "overrides": {"relu": rule()}},
}


def graph(kind: type[Any] = MLP) -> MaseGraph:
    return calibrated(seeded(kind), *((inputs(9, 6),) if kind is not Functional else (inputs(9, 3, 4),)))


@pytest.mark.parametrize("kind", [MLP, Functional])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_composed_again_it_means_the_same(name: str, kind: type[Any]) -> None:
    """Settings of every node, written as another configuration, give the same formats and modes."""
    config, first = CONFIGURATIONS[name], graph(kind)
    if "relu" not in [n.name for n in first.nodes]:
        config = {k: v for k, v in config.items() if k != "overrides"}
    again = compose(first, settings_of(first, complete("config", config)))
    want, _ = quantize_transform_pass(first, config)
    found, _ = quantize_transform_pass(graph(kind), again)
    assert [n.name for n in found.nodes] == [n.name for n in want.nodes]
    for node in want.nodes:
        assert formats(found, node.name) == formats(want, node.name)
        a, b = (getattr(g.meta_of(g.node(node.name)).module, "arithmetic", None) for g in (found, want))
        assert a == b


def test_an_op_that_follows_its_input_still_does() -> None:
    """A raised ReLU after a layer that is mostly negative has no output width of its own."""
    model, x = seeded(MLP), inputs(40, 6)
    with torch.no_grad():
        model.fc1.bias -= 3.0
    net = calibrated(model, x)
    low, high = (settings_of(net, complete("c", uniform(width))) for width in (5, 9))
    made = compose(net, {"fc1": high["fc1"], "relu": high["relu"], "fc2": low["fc2"]})
    raised = {"fc1": {"config": dict.fromkeys(WIDTHS, 9)}, "relu": {"config": {"data_in_width": 9}}}
    want, _ = quantize_transform_pass(calibrated(model, x), {**uniform(5), "overrides": raised})
    found, _ = quantize_transform_pass(net, made)
    assert formats(found, "relu") == formats(want, "relu")
    assert "data_out_width" not in made.get("overrides", {}).get("relu", {"config": {}})["config"]


def test_the_commonest_values_are_the_default() -> None:
    """Also when that is not the default it came from: two of three nodes have a weight, one of them 3 bits of it."""
    net = graph()
    given = {"default": BASE, "linear": rule(bias_width=9), "overrides": {"fc2": {"config": {"weight_width": 3}}}}
    assert compose(net, settings_of(net, complete("c", given))) == {
        "by": "type",
        "output_width": 1,
        "default": {"config": {**BASE["config"], "bias_width": 9}},
        "overrides": {"fc2": {"config": {"weight_width": 3}}},
    }
    assert compose(net, settings_of(net, complete("c", uniform(6)))) == {
        "by": "type",
        "output_width": 1,
        "default": BASE,
    }


def test_the_file_is_a_configuration(tmp_path: Path) -> None:
    quantize = {
        "by": "type",
        "output_width": 1,
        "default": rule(**dict.fromkeys(WIDTHS, 8), rounding="half_up"),
        "overrides": {"fc1": rule(weight_width=3, data_in_signed=False), 'odd "name"': rule(data_in_frac_width=-2)},
    }
    plan = Plan(quantize, {"score": 0.1 + 0.2, "note": "two\nlines", "raised": 3})
    file = plan.save(tmp_path / "new" / "plan.toml")
    text = file.read_text(encoding="utf-8")
    assert tomllib.loads(text) == {"quantize": quantize}
    assert load_config(file).quantize == plan.args == load_config({"quantize": plan.quantize}).quantize
    assert "# score: 0.3\n" in text and "# note: two lines\n" in text and "# raised: 3\n" in text
    assert plan.save(tmp_path / "again.toml").read_bytes() == file.read_bytes()
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["again.toml", "new", "plan.toml"]


def test_files_that_cannot_be(tmp_path: Path) -> None:
    plan = Plan(uniform(8))
    with pytest.raises(ConfigError, match="TOML"):
        plan.save(tmp_path / "plan.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(EmitError):
        plan.save(tmp_path / "file" / "plan.toml")


def test_a_plan_fills_in_nothing() -> None:
    """What ``compile`` would fill in with 8 bits is always said."""
    for given in ({}, {"default": rule(data_in_width=8)}, {"default": BASE, "relu": rule(data_in_width=None)}, True):
        with pytest.raises(ConfigError):
            complete("low", given)


def test_a_plan_is_hardware(tmp_path: Path) -> None:
    """The digits MLP: a plan with fewer bits than 8 everywhere, compiled from its file, bit-exact in Verilator."""
    d = digits()
    found = noise_based_mixed_precision_quantization(
        d.graph(), {"low": 4, "high": 8}, "accuracy", d.between(4, 8), data=d.data, fast_mode=True
    )
    assert 0 < len(found.raised) < 5 and found.cost["mixed"] < found.cost["high"]
    assert "overrides" in found.plan.quantize
    file = found.plan.save(tmp_path / "plan.toml")
    images = d.test[0][:24]
    config = {**tomllib.loads(file.read_text(encoding="utf-8")), "calibrate": RANGES}
    design = mase_hw.compile(d.net, images[:1], config, out=tmp_path / "bundle", calibration=d.train[0].split(512))
    for name in (n.name for n in found.graph.nodes if n.op == "call_module"):
        assert formats(design.graph, name) == formats(found.graph, name)  # type: ignore[arg-type]
    simulation = design.simulate(images, engine="batch")
    assert simulation.passed and simulation.result.mismatches == 0 and simulation.frames == 24
    assert (simulation.output.float() == found.graph.model(images)).all()
