"""Which rule applies to which node."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from mase_hw.formats import Overflow, Rounding
from mase_hw.passes.quantize.quantize import quantize_transform_pass
from tests.unit.pipeline import FIXED, FRACS, MLP, WIDTHS, calibrated, formats, inputs, quantised, rule, seeded


def weights(**config: Any) -> dict[str, str]:
    """Format of the weights by node, under a configuration."""
    graph, _ = quantised(seeded(MLP), inputs(4, 6), config=config)
    return {n: formats(graph, n)["weight"] for n in ("fc1", "fc2")}


def test_by_type() -> None:
    assert weights(by="type", linear=rule(**WIDTHS, **FRACS), relu=rule()) == {"fc1": "s8.6", "fc2": "s8.6"}
    assert weights(linear=rule(**WIDTHS, **FRACS), relu=rule()) == {"fc1": "s8.6", "fc2": "s8.6"}, "the default"


def test_by_name() -> None:
    config = {"by": "name", **FIXED, "fc2": rule(weight_width=5, weight_frac_width=3)}
    assert weights(**config) == {"fc1": "s8.6", "fc2": "s5.3"}


def test_by_regular_expression() -> None:
    """It must match the whole name: `fc` alone would match nothing."""
    config = {"by": "regex_name", **FIXED, "fc[2-9]": rule(weight_frac_width=3), "f.*1": rule(weight_width=5)}
    assert weights(**config) == {"fc1": "s5.6", "fc2": "s8.3"}


def test_rules_refine_the_default_and_overrides_refine_both() -> None:
    config = {
        "by": "type",
        "default": rule(**WIDTHS, **FRACS, rounding="floor"),
        "linear": rule(weight_width=7, overflow="wrap"),
        "overrides": {"fc2": rule(weight_frac_width=1, rounding="half_up")},
    }
    graph, _ = quantised(seeded(MLP), inputs(4, 6), config=config)
    assert formats(graph, "fc1")["weight"] == "s7.6" and formats(graph, "fc2")["weight"] == "s7.1"
    modes = {
        n: (graph.modules[n].arithmetic.rounding, graph.modules[n].arithmetic.overflow) for n in ("fc1", "relu", "fc2")
    }
    assert modes == {
        "fc1": (Rounding.FLOOR, Overflow.WRAP),
        "relu": (Rounding.FLOOR, Overflow.SATURATE),
        "fc2": (Rounding.HALF_UP, Overflow.WRAP),
    }


def test_later_rules_win() -> None:
    config = {"by": "regex_name", **FIXED, "fc.": rule(weight_width=4), "fc2": rule(weight_width=9)}
    assert weights(**config) == {"fc1": "s4.6", "fc2": "s9.6"}


def test_mases_spelling() -> None:
    """The configuration of MASE's tutorials, as it is."""
    config = {
        "by": "type",
        "default": {"config": {"name": None}},
        "linear": {
            "config": {
                "name": "integer",
                "data_in_width": 8,
                "data_in_frac_width": 4,
                "weight_width": 8,
                "weight_frac_width": 4,
                "bias_width": 8,
                "bias_frac_width": 4,
            }
        },
    }
    model = nn.Sequential(nn.Linear(6, 3)).eval()
    _, info = quantised(
        model,
        inputs(4, 6),
        config={
            **config,
            "linear": {"config": {**config["linear"]["config"], "data_out_width": 8, "data_out_frac_width": 4}},
        },
    )
    assert info["nodes"]["_0"]["formats"] == {
        "data_in_0": "s8.4",
        "weight": "s8.4",
        "bias": "s8.4",
        "data_out_0": "s8.4",
    }


@pytest.mark.parametrize("name", ["fixed", "integer"])
@pytest.mark.parametrize("left", [None, "NA"])
def test_names_of_arithmetic(name: str, left: str | None) -> None:
    config = {"default": {"config": {"name": name, **WIDTHS}}, "relu": {"config": {"name": left}}}
    graph = calibrated(seeded(MLP), inputs(4, 6))
    _, info = quantize_transform_pass(graph, config)
    assert set(info["nodes"]) == {"fc1", "fc2"}


def test_modes_by_name_or_code() -> None:
    for spelled in ("trunc", "TRUNC", 3):
        graph, _ = quantised(seeded(MLP), inputs(4, 6), config={"default": rule(**WIDTHS, rounding=spelled)})
        assert graph.modules["fc1"].arithmetic.rounding is Rounding.TRUNC
