"""Mixed precision of the digits networks against every set of layers, configured by hand."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from torch import nn

from mase_hw.nn import Quantized
from mase_hw.passes import quantize_transform_pass
from mase_hw.passes.mixed_precision import noise_based_mixed_precision_quantization
from tests.passes.digits import Digits, accuracy, digits, digits_cnn
from tests.unit.pipeline import WIDTHS, rule

FRAMES = 500
"""Of the training set, for the search and for the table."""


def network(kind: str, seed: int) -> Digits:
    """One of the networks, trained from another start; with fewer images to score."""
    full = digits_cnn(seed) if kind == "cnn" else digits(seed)
    return dataclasses.replace(full, train=(full.train[0][:FRAMES], full.train[1][:FRAMES]))


def layers_of(net: nn.Module) -> list[str]:
    return [name for name, module in net.named_modules() if isinstance(module, nn.Linear | nn.Conv2d)]


def by_hand(d: Digits, raised: tuple[str, ...], low: int, high: int) -> tuple[float, float]:
    """Accuracy with some layers raised, and bits x MACs of all, counted by hand."""
    graph = d.graph()
    overrides, above = {}, False
    for node in graph.nodes:
        if node.op != "call_module" or graph.is_implicit(node):
            continue
        layer = node.name in raised
        if graph.meta_of(node).common.mase_op in ("linear", "conv2d"):
            above = layer
        if above:  # what follows a layer goes with it
            overrides[node.name] = rule(**(dict.fromkeys(WIDTHS, high) if layer else {"data_in_width": high}))
    config = {"default": rule(**dict.fromkeys(WIDTHS, low)), "overrides": overrides}
    made, _ = quantize_transform_pass(graph, config)
    return accuracy(made.model, *d.train), price(made.model, d)


def price(model: nn.Module, d: Digits) -> float:
    """Bits x MACs for one image, from the formats and the shapes that pass by."""
    total = 0.0

    def hook(module: Quantized, given: object, result: object) -> None:
        nonlocal total
        formats = module.arithmetic.formats
        weight = module.arithmetic.formats.get("weight")
        if weight is None:
            return
        macs = result[0].numel() * getattr(module, "weight").shape[1:].numel()  # type: ignore[index]  # noqa: B009
        total += macs * formats["data_in_0"].width * weight.width

    handles = [m.register_forward_hook(hook) for m in model.modules() if isinstance(m, Quantized)]
    model(d.train[0][:1])
    for handle in handles:
        handle.remove()
    return total


CASES = [
    pytest.param(kind, seed, low, high, marks=[] if seed == 0 and (low, high) != (5, 8) else pytest.mark.slow)
    for kind in ("mlp", "cnn")
    for seed in (0, 1, 2)
    for low, high in ((4, 8), (3, 6), (5, 8))
]


@pytest.mark.parametrize(("kind", "seed", "low", "high"), CASES)
def test_never_much_above_the_cheapest_set(kind: str, seed: int, low: int, high: int) -> None:
    d = network(kind, seed)
    layers = layers_of(d.net)
    sets = [chosen for count in range(len(layers) + 1) for chosen in itertools.combinations(layers, count)]
    table = [by_hand(d, chosen, low, high) for chosen in sets]
    worst, best = table[0][0], table[-1][0]
    for share in (0.5, 0.9):
        target = worst + share * (best - worst)
        found = noise_based_mixed_precision_quantization(
            d.graph(), {"low": low, "high": high}, "accuracy", target, data=[d.train]
        )
        assert accuracy(found.graph.model, *d.train) >= target
        cheapest = min(cost for score, cost in table if score >= target)
        ratio = price(found.graph.model, d) / cheapest
        print(f"{kind} seed {seed} {low}/{high} target {target:.4f}: {ratio:.3f} times the cheapest")
        assert ratio <= 1.15
