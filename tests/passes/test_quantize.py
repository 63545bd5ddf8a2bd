"""What quantisation does to a graph: which nodes, which formats, where casts go, and what it leaves alone."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized, QuantizeInput
from tests.ir.nets import untouched
from tests.unit.pipeline import (
    EIGHT,
    FIXED,
    MLP,
    WIDTHS,
    Functional,
    Heads,
    Twice,
    formats,
    inputs,
    quantised,
    rule,
    seeded,
)


def targets(graph: MaseGraph) -> list[tuple[str, str]]:
    """Nodes in order, with the op of those that are modules."""
    return [(n.name, getattr(graph.meta_of(n).module, "mase_op", n.op)) for n in graph.nodes]


def test_the_graph_of_an_mlp() -> None:
    graph, info = quantised(seeded(MLP), inputs(4, 6))
    assert targets(graph) == [
        ("x", "placeholder"),
        ("x_quantize", "quantize"),
        ("fc1", "linear"),
        ("relu", "relu"),
        ("fc2", "linear"),
        ("output", "output"),
    ]
    assert all(isinstance(graph.modules[n], Quantized) for n in ("fc1", "relu", "fc2"))
    assert isinstance(graph.modules["x_quantize"], QuantizeInput)
    assert set(graph.modules) == {"", "fc1", "relu", "fc2", "x_quantize"}
    assert list(info["nodes"]) == ["fc1", "relu", "fc2"] and info["casts"] == []
    assert info["inputs"] == {"x": {"node": "x_quantize", "format": formats(graph, "x_quantize")["data_out_0"]}}


def finest(values: Tensor, width: int) -> int:
    """The largest fraction width at which no value of a signed format is clipped, found by trying them all."""
    numbers = values.detach().double().numpy()
    low, high = -(2 ** (width - 1)), 2 ** (width - 1) - 1
    fits = [
        f for f in range(-30, 40) if low <= np.rint(numbers * 2.0**f).min() and np.rint(numbers * 2.0**f).max() <= high
    ]
    return max(fits)


@pytest.mark.parametrize("scale", [0.01, 1.0, 37.0])
@pytest.mark.parametrize("width", [3, 8, 14])
def test_formats_from_observed_ranges(width: int, scale: float) -> None:
    model, x = seeded(MLP), inputs(50, 6, scale=scale)
    config = {"default": rule(**dict.fromkeys(WIDTHS, width))}
    graph, info = quantised(model, x, config=config)
    hidden = model.fc1(x)
    expected = {
        "fc1": {"data_in_0": x, "weight": model.fc1.weight, "bias": model.fc1.bias, "data_out_0": hidden},
        "fc2": {"weight": model.fc2.weight, "bias": model.fc2.bias, "data_out_0": model.fc2(hidden.relu())},
    }
    for node, tensors in expected.items():
        found = formats(graph, node)
        products = sum(int(found[name].split(".")[1]) for name in ("data_in_0", "weight"))
        for name, values in tensors.items():
            # What a relu alone reads has one bit more, for relu drops the sign.
            bits = width + 1 if (node, name) == ("fc1", "data_out_0") else width
            frac = finest(values, bits)
            if name == "bias":
                # Bits below the LSB of the products would only widen the adder.
                frac = min(frac, products)
            if name.startswith("data_") and float(values.detach().min()) >= 0:
                assert found[name] == f"u{bits}.{finest(values / 2, bits)}", (node, name)
                continue
            assert found[name] == f"s{bits}.{frac}", (node, name)
            assert info["nodes"][node]["reasons"][name].startswith("observed [")
    # A relu drops the sign, and a layer takes what the one before it gives, unless told otherwise.
    hidden_format = formats(graph, "fc1")["data_out_0"]
    assert formats(graph, "relu") == {
        "data_in_0": hidden_format,
        "data_out_0": f"u{width}.{hidden_format.split('.')[1]}",
    }
    assert info["casts"] == []
    assert formats(graph, "fc2")["data_in_0"] == formats(graph, "relu")["data_out_0"]


def test_metadata_as_mase_shows_it() -> None:
    graph, _ = quantised(seeded(MLP), inputs(4, 6), config=FIXED)
    common = graph.node("fc1").meta["mase"]["common"]
    assert common["mase_op"] == "linear" and common["mase_type"] == "module_related_func"
    for branch, name, precision, shape in (
        ("args", "data_in_0", [8, 4], [4, 6]),
        ("args", "weight", [8, 6], [5, 6]),
        ("args", "bias", [8, 6], [5]),
        ("results", "data_out_0", [8, 4], [4, 5]),
    ):
        tensor = common[branch][name]
        assert (tensor["type"], tensor["precision"], tensor["signed"], tensor["shape"]) == (
            "fixed", precision, True, shape,
        )  # fmt: skip
    assert graph.node("relu").meta["mase"]["common"]["args"]["inplace"] is False
    assert graph.meta["mase"]["common"]["args"]["data_in_0"]["precision"] == [8, 4]
    assert graph.meta["mase"]["common"]["results"]["data_out_0"]["precision"] == [8, 4]


def test_functions_and_methods_become_modules() -> None:
    graph, info = quantised(seeded(Functional), inputs(2, 3, 4))
    kinds = dict(targets(graph))
    assert [kinds[n] for n in ("linear", "relu", "linear_1", "relu_1", "linear_2")] == [
        "linear", "relu", "linear", "relu", "linear",
    ]  # fmt: skip
    assert not any(n.op == "get_attr" for n in graph.nodes), "the weights live in the modules now"
    assert graph.modules["linear_1"].weight.shape == (4, 5) and "bias" not in dict(
        graph.modules["linear_1"].named_parameters()
    )
    assert isinstance(graph.modules["linear_2"].weight, nn.Parameter) and graph.modules["linear_2"].weight.requires_grad
    assert not graph.modules["linear_1"].weight.requires_grad, "a buffer is not trained"
    assert info["casts"] == []
    # The format goes on through view, size, dropout and reshape.
    assert formats(graph, "view")["data_out_0"] == formats(graph, "x_quantize")["data_out_0"]
    assert (
        formats(graph, "drop")["data_out_0"]
        == formats(graph, "relu")["data_in_0"]
        == formats(graph, "linear")["data_out_0"]
    )


@pytest.mark.parametrize(("kind", "shape"), [(MLP, (9, 6)), (Functional, (9, 3, 4)), (Heads, (9, 6)), (Twice, (9, 6))])
def test_wide_formats_compute_what_the_float_model_computes(kind: type[nn.Module], shape: tuple[int, ...]) -> None:
    """Every edge, weight and bias is where it was: at 20 bits the difference is tiny."""
    model, x = seeded(kind), inputs(*shape)
    graph, _ = quantised(model, x, config={"default": rule(**dict.fromkeys(WIDTHS, 20))})
    want, found = model(x), graph.model(x)
    pairs = zip(want, found, strict=True) if isinstance(want, tuple) else [(want, found)]
    for a, b in pairs:
        assert torch.allclose(a, b, atol=2e-4) and not torch.equal(a, b)


def test_casts_exactly_where_formats_differ() -> None:
    """fc1 gives s8.x; relu is told to give u6.3; fc2 is told to take s6.3."""
    config = {
        "by": "name",
        **EIGHT,
        "relu": rule(data_out_width=6, data_out_frac_width=3, data_out_signed=False),
        "fc2": rule(data_in_width=6, data_in_frac_width=3),
    }
    graph, info = quantised(seeded(MLP), inputs(4, 6), config=config)
    assert info["casts"] == ["fc2_cast"]
    assert [n.name for n in graph.nodes] == ["x", "x_quantize", "fc1", "relu", "fc2_cast", "fc2", "output"]
    assert formats(graph, "fc2_cast") == {"data_in_0": "u6.3", "data_out_0": "s6.3"}
    assert graph.meta_of(graph.node("fc2_cast")).common.mase_op == "cast"
    same = {**config, "fc2": rule(data_in_width=6, data_in_frac_width=3, data_in_signed=False)}
    assert quantised(seeded(MLP), inputs(4, 6), config=same)[1]["casts"] == []


def test_a_width_alone_differs_too() -> None:
    _, info = quantised(seeded(MLP), inputs(4, 6), config={**EIGHT, "overrides": {"relu": rule(data_in_width=5)}})
    assert info["nodes"]["relu"]["formats"]["data_in_0"].startswith("s5.")
    # fc1 gives 8 bits, relu takes 5 and gives 5, fc2 takes 8.
    assert info["casts"] == ["relu_cast", "fc2_cast"]


def test_one_input_two_formats() -> None:
    """The input enters in the first layer's format; only the other layer gets a cast."""
    config = {"by": "name", **EIGHT, "a": rule(data_in_frac_width=4), "b": rule(data_in_width=6, data_in_frac_width=2)}
    graph, info = quantised(seeded(Heads), inputs(2, 6), config=config)
    assert info["casts"] == ["b_cast"] and info["inputs"]["x"]["format"] == "s8.4"
    assert formats(graph, "b_cast") == {"data_in_0": "s8.4", "data_out_0": "s6.2"}
    assert [n.name for n in graph.node("x_quantize").users] == ["b_cast", "a"] or [
        n.name for n in graph.node("x_quantize").users
    ] == ["a", "b_cast"]
    assert list(graph.node("x").users) == [graph.node("x_quantize")]
    # The reader of a cast sees the value cast twice, never the float.
    x = inputs(2, 6)
    entered = torch.round(x * 16).clamp(-128, 127) / 16
    assert torch.equal(graph.modules["b_cast"](entered), torch.round(entered * 4).clamp(-32, 31) / 4)


def test_a_shared_module_is_quantised_at_each_place() -> None:
    config = {"by": "name", **EIGHT, "shared_1": rule(data_out_width=12)}
    model = seeded(Twice)
    graph, info = quantised(model, inputs(2, 6), config=config)
    assert [graph.node(n).target for n in ("first", "shared", "shared_1")] == ["first", "shared_quantized", "shared"]
    assert info["nodes"]["shared_1"]["formats"]["data_out_0"].startswith("s12.")
    assert info["nodes"]["shared"]["formats"]["data_out_0"].startswith("s8.")
    assert graph.modules["shared"].weight is graph.modules["shared_quantized"].weight, "training keeps them together"


def test_the_callers_model_is_untouched() -> None:
    model, x = seeded(Functional), inputs(2, 3, 4)
    before, forward = model(x), type(model).forward
    with untouched(model):
        quantised(model, x)
    assert torch.equal(model(x), before) and type(model).forward is forward


@pytest.mark.parametrize("config", [EIGHT, FIXED])
def test_the_callers_configuration_is_untouched(config: dict[str, Any]) -> None:
    given = copy.deepcopy(config)
    quantised(seeded(MLP), inputs(2, 6), config=given)
    assert given == config
