"""What compile says of a quantisation, against the same computed by hand from the model and the quantised model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.compiler.config import load_config
from mase_hw.compiler.quantised_graph import quantised_graph
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.passes.quantize.quantisation_summary import SUMMARY, Summary
from tests.unit.pipeline import MLP, rule

FRACTIONS = {"data_in_frac_width": 5, "weight_frac_width": 6, "bias_frac_width": 6, "data_out_frac_width": 6}
WIDTHS = {"data_in_width": 8, "weight_width": 8, "bias_width": 8, "data_out_width": 8}


def frames(count: int = 40) -> Tensor:
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(5))


def net() -> MLP:
    torch.manual_seed(1)
    return MLP()


def quantised(model: nn.Module, calibration: Any = None, **keys: Any) -> tuple[MaseGraph, Summary]:
    config = {"quantize": {"default": rule(**(keys or {**WIDTHS, **FRACTIONS})), "output_width": 1}}
    graph = quantised_graph(model, frames(1), load_config(config), calibration, None, lambda _: None)
    found = graph.meta[SUMMARY]
    assert isinstance(found, Summary)
    return graph, found


def power(x: Tensor) -> float:
    return float(x.double().square().sum())


def test_noise_at_the_output() -> None:
    model = net()
    graph, summary = quantised(model, [frames()])
    with torch.no_grad():
        wanted, found = model(frames()), graph.model(frames())
    assert summary.frames == 40 and len(summary.outputs) == 1
    assert summary.outputs[0] == pytest.approx(10 * math.log10(power(wanted) / power(wanted - found)), rel=1e-6)


def test_every_node_by_hand() -> None:
    """Noise, clipping and zeros of every layer, from the activations of the float model."""
    model = net()
    with torch.no_grad():
        model.fc1.weight *= 4  # so that something is clipped
    graph, summary = quantised(model, [frames()])
    with torch.no_grad():
        first = model.fc1(frames())
        wanted = {"fc1": first, "relu": model.relu(first), "fc2": model.fc2(model.relu(first))}
    values = {}
    handles = [
        graph.model.get_submodule(name).register_forward_hook(lambda m, i, o, name=name: values.update({name: o}))
        for name in wanted
    ]
    with torch.no_grad():
        graph.model(frames())
    for handle in handles:
        handle.remove()
    assert [node.node for node in summary.nodes] == list(wanted)
    clipped = zeros = total = 0
    for node in summary.nodes:
        a, b = wanted[node.node], values[node.node]
        module = graph.meta_of(graph.node(node.node)).module
        assert isinstance(module, Quantized)
        fmt = module.arithmetic.formats["data_out_0"]
        beyond = [
            v for v in a.flatten().tolist() if v < fmt.min_value - fmt.scale / 2 or v > fmt.max_value + fmt.scale / 2
        ]
        lost = [1 for v, w in zip(a.flatten().tolist(), b.flatten().tolist(), strict=True) if v != 0 and w == 0]
        assert node.clipped == pytest.approx(len(beyond) / a.numel())
        assert node.zeros == pytest.approx(len(lost) / a.numel())
        assert node.snr == pytest.approx(10 * math.log10(power(a) / power(a - b)), rel=1e-6)
        clipped, zeros, total = clipped + len(beyond), zeros + len(lost), total + a.numel()
    assert clipped > 0 and summary.clipped == pytest.approx(clipped / total)
    assert summary.zeros == pytest.approx(zeros / total)


def test_the_remedy_is_one() -> None:
    """What is named as the remedy of the worst node makes its result better."""
    for keys in (
        {**WIDTHS, "weight_width": 3},
        {**WIDTHS, "data_out_width": 4, "data_in_width": 12, "weight_width": 12},
    ):
        model = net()
        _, before = quantised(model, [frames()], **keys)
        worst = before.worst()[0]
        key, _, value = worst.remedy.partition(": ")[2].partition(" (")[0].partition(" = ")
        name = worst.node
        assert (key == "weight_width") == (keys["weight_width"] == 3)
        config = {
            "quantize": {
                "default": rule(**keys),
                "overrides": {name: rule(**{key: int(value) + 2})},
                "output_width": 1,
            }
        }
        graph = quantised_graph(model, frames(1), load_config(config), [frames()], None, lambda _: None)
        after = next(n for n in graph.meta[SUMMARY].nodes if n.node == name)
        assert after.snr > worst.snr + 3, worst.remedy


def test_nodes_that_add_nothing_are_not_blamed() -> None:
    _, summary = quantised(net(), [frames()])
    assert "relu" not in [node.node for node in summary.worst()]
    assert next(n for n in summary.nodes if n.node == "relu").added == pytest.approx(0.0, abs=1e-3)


def test_calibration_data_is_counted() -> None:
    _, summary = quantised(net(), [frames(40), frames(30), frames(1)])
    assert (summary.calibrated, summary.batches, summary.rows) == (True, 3, 71)
    assert "3 batches, 71 rows" in summary.lines()[0]
    _, summary = quantised(nn.Linear(6, 2), [torch.randn(1, 6)])
    assert summary.lines()[0] == "quantised 1 node; value ranges from 1 batch, 1 row"
    _, summary = quantised(net())
    assert (summary.calibrated, summary.batches, summary.rows, summary.frames) == (False, 1, 1, 1)
    assert "the example: give calibration data" in summary.lines()[0]


def test_parameters_by_hand() -> None:
    model = net()
    with torch.no_grad():
        model.fc1.weight[0, 0], model.fc1.weight[0, 1] = 9.0, 1e-4
    _, summary = quantised(model, [frames()])
    both = [p.detach() for p in model.parameters()]
    beyond = sum(int(((p > 127 / 64 + 1 / 64) | (p < -2 - 1 / 64)).sum()) for p in both)
    zero = sum(int(((p != 0) & (torch.round(p * 64) == 0)).sum()) for p in both)
    count = sum(p.numel() for p in both)
    assert beyond == 1 and zero >= 1
    assert summary.parameters_clipped == pytest.approx(beyond / count)
    assert summary.parameters_zero == pytest.approx(zero / count)


def test_parameters_of_one_bit_and_of_zeros_are_named() -> None:
    _, summary = quantised(net(), [frames()], **{**WIDTHS, **FRACTIONS, "weight_width": 1, "weight_frac_width": 0})
    named = [text for text in summary.warnings if "weight of fc" in text]
    assert len(named) == 2 and all("overrides.fc" in text and "weight_width" in text for text in named)
    model = net()
    with torch.no_grad():
        model.fc2.weight *= 1e-4
    _, summary = quantised(model, [frames()])
    assert [text for text in summary.warnings if "weight of fc2 became all zero in s8.6" in text]
    assert summary.lines()[-1].startswith("warning: weight of fc2")
    _, summary = quantised(net(), [frames()])
    assert summary.warnings == ()


@pytest.mark.parametrize(
    ("layer", "scale", "fmt", "says"),
    [
        (nn.Softmax(1), 0.1, "u8.10", "1, which wraps to 0 in u8.10"),
        (nn.Sigmoid(), 1.0, "u8.8", "1, which wraps to 0 in u8.8"),
        (nn.Tanh(), 0.1, None, ""),
        (nn.Softmax(1), 30.0, None, ""),
        (nn.Linear(6, 3), 1.0, None, ""),
    ],
)
def test_what_wraps_holds_what_was_observed_and_says_what_it_does_not(
    layer: nn.Module, scale: float, fmt: str | None, says: str
) -> None:
    torch.manual_seed(2)
    data = frames() * scale
    wraps = {**WIDTHS, "overflow": "wrap"}
    config = {"quantize": {"default": rule(**wraps), "output_width": 1}}
    graph = quantised_graph(nn.Sequential(layer), data[:1], load_config(config), [data], None, lambda _: None)
    summary = graph.meta[SUMMARY]
    assert summary.clipped == 0, "the default method clips"
    module = next(m for n in graph.nodes if isinstance(m := graph.meta_of(n).module, Quantized))
    assert fmt is None or str(module.arithmetic.formats["data_out_0"]) == fmt
    near = isinstance(layer, nn.Tanh) and module.arithmetic.formats["data_out_0"].max_value < 1
    assert [says in text and 'config.overflow = "saturate"' in text for text in summary.warnings] == (
        [True] if says or near else []
    )
    node = next(n.name for n in graph.nodes if isinstance(graph.meta_of(n).module, Quantized))
    config["quantize"]["overrides"] = {node: {"config": {"overflow": "saturate"}}}
    graph = quantised_graph(nn.Sequential(layer), data[:1], load_config(config), [data], None, lambda _: None)
    assert not graph.meta[SUMMARY].warnings, "it does what was said"


def test_results_that_wrapped_are_named() -> None:
    given = {**WIDTHS, **FRACTIONS, "data_out_frac_width": 9, "overflow": "wrap"}
    _, summary = quantised(net(), [frames()], **given)
    named = [text for text in summary.warnings if "of the results of fc2 wrap in s8.9" in text]
    assert len(named) == 1 and "overrides.fc2" in named[0]


def test_at_most_ten_lines(tmp_path: Path) -> None:
    said: list[str] = []
    design = mase_hw.compile(net(), frames(1), out=tmp_path / "d", calibration=[frames()], progress=said.append)
    summary = design.quantisation
    assert summary is not None and len(summary.lines()) <= 10
    assert [line for line in said if line in summary.lines()] == summary.lines()
    assert mase_hw.load_design(tmp_path / "d").quantisation is None
    assert summary.to_dict()["outputs"] == summary.outputs
