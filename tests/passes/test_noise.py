"""Noise analysis against numpy: every figure of every node, local and cumulative."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from mase_hw.errors import ConfigError, FormatError, GraphError, PassOrderError
from mase_hw.ir import MaseGraph
from mase_hw.passes import analyse_noise, noise_analysis_pass
from mase_hw.passes.quantize.noise.report import Noise, NoiseReport
from tests.ir.nets import snapshot
from tests.unit.pipeline import EIGHT, MLP, WIDTHS, Functional, Twice, annotated, inputs, quantised, rule, seeded

Array = npt.NDArray[np.float64]
# Narrow, with every kind of node: an input, a cast, saturation, a node in float.
MIXED = {
    "by": "name",
    "default": rule(**WIDTHS),
    "fc1": rule(weight_width=5, data_out_width=6, data_out_frac_width=4),
    "relu": rule(data_in_width=5, data_in_frac_width=3, data_out_width=4, data_out_frac_width=2),
    "fc2": rule(data_in_width=4),
}
FORMATS = {"x_quantize": None, "fc1": (6, 4), "relu_cast": (5, 3), "relu": (4, 2), "fc2": None}


def numpy_noise(want: Array, got: Array, width: int, frac: int, signed: bool) -> dict[str, Any]:
    """The definitions of the documentation, on whole arrays."""
    step = 2.0**-frac
    low, high = (-(2 ** (width - 1)) if signed else 0), (2 ** (width - 1) if signed else 2**width) - 1
    error, noise = got - want, np.square(got - want).sum()
    mantissas = np.rint(got / step).astype(int)
    used = next(
        bits
        for bits in range(1, 64)
        if mantissas.min() >= (-(2 ** (bits - 1)) if signed else 0)
        and mantissas.max() <= (2 ** (bits - 1) if signed else 2**bits) - 1
    )
    saturated = ((want > (high + 0.5) * step) & (mantissas == high)) | (
        (want < (low - 0.5) * step) & (mantissas == low)
    )
    return {
        "sqnr_db": 10 * np.log10(np.square(want).sum() / noise) if noise else math.inf,
        "cosine": (want * got).sum() / np.linalg.norm(want) / np.linalg.norm(got),
        "mean_abs": np.abs(error).mean(),
        "max_abs": np.abs(error).max(),
        "saturation": saturated.mean(),
        "used_bits": used,
    }


def to_grid(values: Array, width: int, frac: int, signed: bool) -> Array:
    """Half-even and saturating, in numpy."""
    low, high = (-(2 ** (width - 1)), 2 ** (width - 1) - 1) if signed else (0, 2**width - 1)
    return np.clip(np.rint(values * 2.0**frac), low, high) / 2.0**frac


def agree(found: Noise, expected: dict[str, Any], name: str) -> None:
    for field, value in expected.items():
        # Both sum in float64, in another order.
        assert math.isclose(getattr(found, field), value, rel_tol=1e-9, abs_tol=1e-12), (name, field)


@pytest.fixture
def net() -> tuple[Any, MaseGraph, list[torch.Tensor]]:
    # In float64, in which a batch's size makes no difference that could be seen.
    model, data = seeded(MLP).double(), [inputs(n, 6, seed=n, scale=3.0).double() for n in (40, 1, 23)]
    graph, _ = quantised(model, torch.cat(data), config=MIXED)
    return model, graph, data


def parts(graph: MaseGraph, name: str) -> dict[str, tuple[int, int, bool]]:
    """Formats of a node, from the module, as numbers."""
    return {key: (f.width, f.frac_width, f.signed) for key, f in graph.modules[name].arithmetic.formats.items()}  # type: ignore[union-attr]


def test_every_figure_against_numpy(net: tuple[Any, MaseGraph, list[torch.Tensor]]) -> None:
    model, graph, data = net
    report = analyse_noise(model, graph, data)
    assert list(report.nodes) == list(FORMATS) and report.batches == 3
    x = torch.cat(data).numpy()
    state = {key: value.numpy() for key, value in model.state_dict().items()}
    hidden = x @ state["fc1.weight"].T + state["fc1.bias"]
    positive = np.maximum(hidden, 0)
    last = positive @ state["fc2.weight"].T + state["fc2.bias"]

    def linear(name: str, entering: Array) -> Array:
        form = parts(graph, name)
        weight, bias = (to_grid(state[f"{name}.{p}"], *form[p]) for p in ("weight", "bias"))
        return to_grid(to_grid(entering, *form["data_in_0"]) @ weight.T + bias, *form["data_out_0"])

    def relu(entering: Array) -> Array:
        form = parts(graph, "relu")
        return to_grid(np.maximum(to_grid(entering, *form["data_in_0"]), 0), *form["data_out_0"])

    def cast(entering: Array) -> Array:
        form = parts(graph, "relu_cast")
        return to_grid(to_grid(entering, *form["data_in_0"]), *form["data_out_0"])

    entered = to_grid(x, *parts(graph, "x_quantize")["data_out_0"])
    q1 = linear("fc1", entered)
    q2 = cast(q1)
    q3 = relu(q2)
    cumulative = {"x_quantize": entered, "fc1": q1, "relu_cast": q2, "relu": q3, "fc2": linear("fc2", q3)}
    local = {
        "x_quantize": entered,
        "fc1": linear("fc1", x),
        "relu_cast": cast(hidden),
        "relu": relu(hidden),
        "fc2": linear("fc2", positive),
    }
    exact = {"x_quantize": x, "fc1": hidden, "relu_cast": hidden, "relu": positive, "fc2": last}
    for name in FORMATS:
        width, frac, signed = parts(graph, name)["data_out_0"]
        assert FORMATS[name] in (None, (width, frac))
        node = report.nodes[name]
        agree(node.local, numpy_noise(exact[name], local[name], width, frac, signed), f"{name} local")
        agree(node.cumulative, numpy_noise(exact[name], cumulative[name], width, frac, signed), f"{name} cumulative")
        assert (node.format, node.width) == (f"{'s' if signed else 'u'}{width}.{frac}", width)
    assert report.nodes["relu"].local.saturation > 0.05, "the case is to saturate"
    assert report.nodes["relu"].local.used_bits == 4 and report.nodes["fc1"].cumulative.used_bits == 6


def test_batches_do_not_matter(net: tuple[Any, MaseGraph, list[torch.Tensor]]) -> None:
    model, graph, data = net
    whole, split = analyse_noise(model, graph, [torch.cat(data)]), analyse_noise(model, graph, torch.cat(data).split(7))
    for name, node in whole.nodes.items():
        for kind in ("local", "cumulative"):
            a, b = getattr(node, kind), getattr(split.nodes[name], kind)
            agree(a, {field: getattr(b, field) for field in a.__dataclass_fields__}, name)


def test_the_worst_node_is_named_by_its_own_noise() -> None:
    """One layer at 3 bits; the layers behind it have noisy results, but not of their own making."""
    model, x = seeded(Twice), inputs(64, 6)
    config = {"default": rule(**WIDTHS), "overrides": {"first": rule(weight_width=3)}}
    graph, _ = quantised(model, x, config=config)
    report = analyse_noise(model, graph, [x])
    assert report.ranking()[0] == "first"
    assert report.nodes["shared_1"].cumulative.sqnr_db < 25 < report.nodes["shared_1"].local.sqnr_db


def test_a_graph_instead_of_the_model_and_functions() -> None:
    model, x = seeded(Functional), inputs(8, 3, 4)
    graph, _ = quantised(model, x)
    floating = annotated(model, x)
    a, b = analyse_noise(floating, graph, [x]), analyse_noise(model, graph, [{"x": x}])
    assert a.to_dict() == b.to_dict()
    assert list(a.nodes) == ["x_quantize", "linear", "relu", "linear_1", "relu_1", "linear_2"]


def test_a_node_in_float_has_no_noise_of_its_own() -> None:
    model, x = seeded(MLP), inputs(16, 6)
    config = {"default": rule(**WIDTHS), "overrides": {"fc2": {"config": {"name": None}}}}
    graph, _ = quantised(model, x, config=config)
    node = analyse_noise(model, graph, [x]).nodes["fc2"]
    assert (
        node.format is None and node.width is None and node.local == Noise(math.inf, node.local.cosine, 0, 0, 0, None)
    )
    assert 10 < node.cumulative.sqnr_db < 60 and math.isclose(node.local.cosine, 1)


def test_exactly_representable_and_all_zero() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    model[0].weight.data = torch.tensor([[0.5, -1.0], [-1.0, -1.0]])
    x = torch.tensor([[1.0, 0.25], [0.5, 0.5]])
    graph, _ = quantised(model, x)
    report = analyse_noise(model, graph, [x])
    assert all(node.cumulative.sqnr_db == math.inf and node.cumulative.max_abs == 0 for node in report.nodes.values())
    zero = analyse_noise(model, graph, [x * 0]).nodes["_1"].cumulative
    assert (zero.sqnr_db, zero.cosine, zero.mean_abs, zero.used_bits) == (math.inf, 1.0, 0.0, 1)


def test_wrapping_counts_what_lies_beyond_the_range() -> None:
    model = nn.Sequential(nn.Linear(1, 1, bias=False))
    model[0].weight.data.fill_(1.0)
    x = torch.tensor([[-3.0], [-2.0], [0.5], [1.75], [1.9], [2.5], [3.0], [4.0]])
    keys = {**WIDTHS, "data_out_width": 4, "data_out_frac_width": 2, "data_out_signed": True, "overflow": "wrap"}
    graph, _ = quantised(model, x, config={"default": rule(**keys)})
    # s4.2 holds -2 to 1.75, and up to 1.875 rounds into it: 1.9, 2.5, 3, 4 and -3 lie beyond.
    assert analyse_noise(model, graph, [x]).nodes["_0"].cumulative.saturation == 5 / 8
    graph, _ = quantised(model, x, config={"default": rule(**{**keys, "overflow": "saturate"})})
    assert analyse_noise(model, graph, [x]).nodes["_0"].cumulative.saturation == 5 / 8


def test_nothing_is_disturbed(net: tuple[Any, MaseGraph, list[torch.Tensor]]) -> None:
    model, graph, data = net
    model.train()
    before, copies = snapshot(graph), [batch.clone() for batch in data]
    analyse_noise(model, graph, data)
    assert str(snapshot(graph)) == str(before) and model.training
    assert all(torch.equal(a, b) for a, b in zip(data, copies, strict=True))


def test_in_place_activations_do_not_overwrite_what_is_compared() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True)).eval()
    x = inputs(32, 6)
    graph, _ = quantised(model, x)
    node = analyse_noise(model, graph, [x]).nodes["_0"]
    assert node.cumulative.sqnr_db > 30, "compared with the negative values, not with what relu made of them"


def test_json_and_table(net: tuple[Any, MaseGraph, list[torch.Tensor]], tmp_path: Path) -> None:
    model, graph, data = net
    report = analyse_noise(model, graph, data)
    read = json.loads(report.to_json())
    assert read["nodes"]["fc1"]["local"]["sqnr_db"] == report.nodes["fc1"].local.sqnr_db
    assert report.table().row_count == 5
    graph, info = noise_analysis_pass(graph, {"float_graph": model, "data": data, "file_name": tmp_path / "noise.txt"})
    assert info == read
    text = (tmp_path / "noise.txt").read_text()
    assert f"{report.nodes['relu'].local.sqnr_db:.1f}" in text and "relu_cast" in text
    infinite = NoiseReport({"n": _node(math.inf)}, 1)
    assert json.loads(infinite.to_json())["nodes"]["n"]["local"]["sqnr_db"] == "inf"


def _node(sqnr: float) -> Any:
    from mase_hw.passes.quantize.noise.report import NodeNoise

    noise = Noise(sqnr, 1.0, 0.0, 0.0, 0.0, 3)
    return NodeNoise("linear", "s8.4", 8, noise, noise)


def test_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    values = (math.inf, 30.0, -5.0, -math.inf)
    report = NoiseReport({f"node_{i}": _node(value) for i, value in enumerate(values)}, 1)
    report.plot(tmp_path / "new" / "noise.png")
    picture = (tmp_path / "new" / "noise.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 5000
    report.plot(tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == picture, "the same report gives the same picture"
    report.plot(tmp_path / "noise.svg")
    assert (tmp_path / "noise.svg").stat().st_size > 5000


def test_plot_is_refused_clearly(tmp_path: Path) -> None:
    report = NoiseReport({"n": _node(1.0)}, 1)
    with pytest.raises(ConfigError, match=r"\.png, \.svg, \.pdf"):
        report.plot(tmp_path / "noise.bmp")
    with (
        mock.patch.dict("sys.modules", {"matplotlib.figure": None}),
        pytest.raises(ConfigError, match=r"mase-hw\[plot\]"),
    ):
        report.plot(tmp_path / "noise.png")
    assert not list(tmp_path.iterdir())


def test_what_does_not_belong_together_is_refused() -> None:
    model, x = seeded(MLP), inputs(8, 6)
    graph, _ = quantised(model, x)
    with pytest.raises(GraphError, match="not quantised"):
        analyse_noise(model, annotated(model, x), [x])
    with pytest.raises(GraphError, match="quantised itself"):
        analyse_noise(graph, graph, [x])
    with pytest.raises(GraphError, match="do not belong together"):
        analyse_noise(seeded(Twice), graph, [x])
    with pytest.raises(PassOrderError, match="run quantize_transform_pass first"):
        noise_analysis_pass(annotated(model, x), {"float_graph": model, "data": [x]})
    with pytest.raises(ConfigError, match="local or cumulative"):
        analyse_noise(model, graph, [x]).ranking("both")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="there is no data"):
        analyse_noise(model, graph, [])
    with pytest.raises(ConfigError, match="shape of dummy_in"):
        analyse_noise(model, graph, [inputs(8, 7)])
    with torch.no_grad():
        model.fc1.weight[0, 0] = float("inf")
    with pytest.raises(FormatError, match="not finite"):
        analyse_noise(model, graph, [x])


def test_eight_bits_are_the_default_of_this_file() -> None:
    """The rule of thumb of 6 dB a bit: 8 bits that are used lie between 25 and 50 dB."""
    model, x = seeded(MLP), inputs(200, 6)
    graph, _ = quantised(model, x, config=EIGHT)
    assert all(25 < node.local.sqnr_db < 50 for node in analyse_noise(model, graph, [x]).nodes.values())
