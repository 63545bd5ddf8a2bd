"""Weights in block floating point: the rules of the specification, layers against fractions, and what is refused."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mase_hw import compile
from mase_hw.compiler.weights import Weights
from mase_hw.errors import ConfigError, FormatError, UnsupportedError
from mase_hw.formats import MINIFLOATS, BlockFormat, FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.numerics import quantize
from mase_hw.passes import verify_analysis_pass
from mase_hw.training import prepare
from tests.parameters.designs import weights_of
from tests.unit.pipeline import EIGHT, MLP, inputs, quantised, seeded

SPAN = 15


def blocks(*ops: str, **keys: Any) -> dict[str, Any]:
    """8 bits, but an exponent by block for the weights of these ops."""
    return {"by": "type", **EIGHT, **{op: {"config": {"name": "mxint"} | keys} for op in ops or ("linear",)}}


def exponent(values: list[Fraction]) -> int | None:
    """``floor(log2(max))``, by comparison with powers of two."""
    peak = max(map(abs, values))
    return None if peak == 0 else next(e for e in range(-200, 200) if Fraction(2) ** e <= peak < Fraction(2) ** (e + 1))


ELEMENTS = {  # exponent bits, bias, mantissa bits, the exponent of the largest number: section 5.3 of the specification
    "e5m2": (5, 15, 2, 15),
    "e4m3": (4, 7, 3, 8),
    "e3m2": (3, 3, 2, 4),
    "e2m3": (2, 1, 3, 2),
    "e2m1": (2, 1, 1, 2),
}


def numbers(element: str) -> list[Fraction]:
    """What is not negative, by code."""
    exponent_bits, bias, mantissa_bits, largest = ELEMENTS[element]
    found = []
    for e, m in itertools.product(range(2**exponent_bits), range(2**mantissa_bits)):
        if e - bias > largest or (element == "e4m3" and e == 15 and m == 7):
            continue  # infinities and NaN of E5M2, NaN of E4M3
        found.append((Fraction(m, 2**mantissa_bits) + (e > 0)) * Fraction(2) ** (max(e, 1) - bias))
    return found


def nearest(value: Fraction, known: list[Fraction]) -> Fraction:
    """The nearest number, of two the one with an even code; the largest one beyond it."""
    code = min(range(len(known)), key=lambda at: (abs(known[at] - abs(value)), at % 2))
    return known[code] if value >= 0 else -known[code]


def by_hand(rows: list[list[float]], width: int, block: int, bits: int = 8, element: str = "") -> list[list[Fraction]]:
    """The values of weights: section 6.3 of the specification, with exponents within 15 of the largest."""
    last = 2 ** (bits - 1) - 1
    known, most_of = (numbers(element), ELEMENTS[element][3]) if element else ([], 0)
    cut = [[[Fraction(w) for w in row[at : at + block]] for at in range(0, len(row), block)] for row in rows]
    found = [[exponent(each) for each in row] for row in cut]
    found = [[None if e is None else min(last, max(-last, e - most_of)) for e in row] for row in found]
    largest = max((e for row in found for e in row if e is not None), default=0)
    made = []
    for row, exponents in zip(cut, found, strict=True):
        values: list[Fraction] = []
        for each, e in zip(row, exponents, strict=True):
            scale = Fraction(2) ** max(e or 0, largest - SPAN)
            if element:
                values += [nearest(w / scale, known) * scale for w in each]
                continue
            step = scale / 2 ** (width - 2)
            most = 2 ** (width - 1) - 1
            values += [max(-most, min(most, round(w / step))) * step for w in each]  # round is half to even
        made.append(values)
    return made


def layer(graph: MaseGraph, name: str) -> Quantized:
    module = graph.meta_of(graph.node(name)).module
    assert isinstance(module, Quantized)
    return module


def learned(model: Any, x: Tensor, optimiser: torch.optim.Optimizer, steps: int) -> MaseGraph:
    """Trained for some steps, and frozen: what it computes then is what it computed, and no longer what it did."""
    before = model(x).detach()
    for _ in range(steps):
        optimiser.zero_grad()
        (model(x) - 1).square().sum().backward()
        optimiser.step()
    model.round_steps()
    model.eval()
    with torch.no_grad():
        trained = model(x)
        graph: MaseGraph = model.freeze()
        assert torch.equal(graph.model(x), trained) and not torch.equal(trained, before)
    return graph


def is_kept_and_learns(graph: MaseGraph, name: str, x: Tensor, folder: Path) -> None:
    """A checkpoint brings back the same arithmetic, and the weights of the layer have a gradient."""
    graph.export(folder / "kept")
    again = MaseGraph.from_checkpoint(folder / "kept")
    assert torch.equal(again.model(x), graph.model(x))
    module = layer(graph, name)
    assert layer(again, name).arithmetic == module.arithmetic
    weight = module.get_parameter("weight").requires_grad_()
    module(x).sum().backward()
    assert weight.grad is not None and bool(weight.grad.any())


def stored(module: Quantized) -> list[list[Fraction]]:
    """The values that hardware multiplies by, from mantissas and shifts."""
    fmt, mantissas = module.arithmetic.formats["weight"], module.mantissa("weight")
    assert isinstance(fmt, BlockFormat)
    rows = [[int(m) for m in row] for row in mantissas.movedim(1, -1).flatten(1).tolist()]
    shifts = module.get_buffer("weight_shift").tolist() if "weight_shift" in module.parameter_names else None
    return [
        [m * Fraction(2) ** ((shifts[o][i // fmt.block] if shifts else 0) - fmt.frac_width) for i, m in enumerate(row)]
        for o, row in enumerate(rows)
    ]


def spread_weights(out: int, features: int, seed: int, octaves: int) -> nn.Linear:
    """Weights whose blocks of four differ by so many powers of two, with zeros and ties among them."""
    layer, numbers = nn.Linear(features, out), random.Random(seed)
    with torch.no_grad():
        for o, at in itertools.product(range(out), range(0, features, 4)):
            scale = 2.0 ** -numbers.randint(0, octaves)
            for i in range(at, min(at + 4, features)):
                layer.weight[o, i] = scale * numbers.choice([0.0, numbers.randint(-64, 64) / 64, numbers.gauss(0, 1)])
        layer.weight[0, :4] = 0.0
    return layer


def element_blocks(element: str, block: int, *ops: str) -> dict[str, Any]:
    """The configuration of weights whose elements are minifloats."""
    config = blocks(*ops, weight_block_size=block)
    for op in ops or ("linear",):
        config[op]["config"] |= {"name": "mxfp", "weight_element": element}
    return config


@pytest.mark.parametrize("octaves", [0, 6, 24])
@pytest.mark.parametrize(
    ("width", "block", "bits", "element"),
    [
        *((8, 4, 8, ""), (4, 4, 8, ""), (2, 8, 8, ""), (12, 16, 8, ""), (8, 32, 8, ""), (5, 4, 3, "")),
        *((0, 4, 8, element) for element in ELEMENTS),
    ],
)
def test_layers_against_fractions(width: int, block: int, bits: int, element: str, octaves: int) -> None:
    net = nn.Sequential(spread_weights(6, 22, width + octaves, octaves))
    x = inputs(16, 22)
    integers = {"weight_width": width, "weight_block_size": block, "weight_exponent_width": bits}
    config = element_blocks(element, block) if element else blocks(**integers)
    graph, _ = quantised(net, x, config=config)
    verify_analysis_pass(graph)
    module = layer(graph, "_0")
    weight = by_hand(net[0].weight.double().tolist(), width, block, bits, element)
    assert stored(module) == weight
    formats = module.arithmetic.formats
    data, bias, out = formats["data_in_0"], formats["bias"], formats["data_out_0"]
    biases = [int(m) * Fraction(2) ** -bias.frac_width for m in module.mantissa("bias").tolist()]
    entered = [
        [max(data.min_mantissa, min(data.max_mantissa, round(Fraction(v) * 2**data.frac_width))) for v in row]
        for row in x.double().tolist()
    ]
    wanted = []
    for row in entered:
        values = [Fraction(m, 2**data.frac_width) for m in row]
        sums = [sum((w * v for w, v in zip(of, values, strict=True)), b) for of, b in zip(weight, biases, strict=True)]
        wanted.append(
            [max(out.min_mantissa, min(out.max_mantissa, round(s * Fraction(2) ** out.frac_width))) for s in sums]
        )
    with torch.no_grad():
        for given in (module(x), module.in_mantissas([x])):  # on values, and in mantissas
            assert (given.double() * 2.0**out.frac_width).tolist() == wanted


@pytest.mark.parametrize(
    ("element", "kind"),
    [
        ("e5m2", "float8_e5m2"),
        ("e4m3", "float8_e4m3fn"),
        ("e3m2", "float6_e3m2fn"),
        ("e2m3", "float6_e2m3fn"),
        ("e2m1", "float4_e2m1fn"),
    ],
)
def test_elements_are_those_of_another_library(element: str, kind: str) -> None:
    """Every number that ml_dtypes has, those half-way between two, and beside them."""
    dtype = getattr(ml_dtypes, kind)
    codes = np.arange(1 << MINIFLOATS[element].bits, dtype=np.uint8)
    every = codes.view(dtype).astype(np.float32) if codes.itemsize == 1 else codes
    known = np.unique(np.abs(every[np.isfinite(every)]))
    assert [Fraction(float(v)) for v in known] == numbers(element)
    halves = (known[1:] + known[:-1]) / 2
    tried = np.concatenate([known, halves, np.nextafter(halves, 0), np.nextafter(halves, np.inf), known * 1.1])
    tried = np.concatenate([tried, -tried]).astype(np.float32)
    wanted = np.clip(tried, -known[-1], known[-1]).astype(dtype).astype(np.float64)
    fine = MINIFLOATS[element].top - MINIFLOATS[element].emax
    fmt = BlockFormat(MINIFLOATS[element].top + 2, fine, True, 32, 8, element)
    assert quantize(torch.from_numpy(tried), fmt).double().mul(2.0**-fine).tolist() == wanted.tolist()


@pytest.mark.parametrize(("element", "block"), [("", 4), ("e2m1", 4), ("e4m3", 8), ("e3m2", 32)])
@pytest.mark.parametrize(("groups", "kernel"), [(1, (2, 3)), (2, (3, 1)), (8, (3, 3))])
def test_convolutions_against_fractions(element: str, block: int, groups: int, kernel: tuple[int, int]) -> None:
    """Blocks run along channels, columns and rows of a kernel, in the order of the sum."""
    torch.manual_seed(groups + block)
    net = nn.Sequential(nn.Conv2d(8, 8, kernel, groups=groups, stride=2, padding=1))
    with torch.no_grad():
        net[0].weight.mul_(2.0 ** torch.randint(-9, 1, net[0].weight.shape))
    x = torch.rand(2, 8, 5, 6) * 2 - 1
    named = blocks("conv2d", weight_width=4, weight_block_size=block)
    graph, _ = quantised(net, x, config=element_blocks(element, block, "conv2d") if element else named)
    verify_analysis_pass(graph)
    module, weight = layer(graph, "_0"), net[0].weight
    rows = weight.double().movedim(1, -1).flatten(1)
    values = by_hand(rows.tolist(), 4, block, 8, element)
    assert stored(module) == values
    formats = module.arithmetic.formats
    data, bias, out = formats["data_in_0"], formats["bias"], formats["data_out_0"]
    exact = torch.tensor([[float(v) for v in row] for row in values], dtype=torch.float64)
    exact = exact.reshape(8, *kernel, 8 // groups).movedim(-1, 1)
    entered = torch.round(x.double() * 2**data.frac_width).clamp(data.min_mantissa, data.max_mantissa)
    biases = module.mantissa("bias").double() * 2.0**-bias.frac_width
    # 53 bits are enough for these sums: 16 of a product with its shift below that of the largest, and 72 of them.
    sums = nn.functional.conv2d(entered * 2.0**-data.frac_width, exact, biases, 2, 1, 1, groups)
    wanted = torch.round(sums * 2.0**out.frac_width).clamp(out.min_mantissa, out.max_mantissa)
    with torch.no_grad():
        for given in (module(x), module.in_mantissas([x])):
            assert torch.equal(given.double() * 2.0**out.frac_width, wanted)


def test_the_exponent_of_a_block() -> None:
    fmt = BlockFormat(8, 6)
    assert [fmt.exponent(p) for p in (1.0, 1.999, 2.0, 0.75, 2.0**-140, 1e38, 0.0)] == [0, 0, 1, -1, -127, 126, None]
    assert BlockFormat(8, 6, True, 32, 3).exponent(1e9) == 3
    assert (fmt.min_mantissa, fmt.max_mantissa, BlockFormat(2, 0).max_mantissa) == (-127, 127, 1)
    made, shifts = BlockFormat.shared([1.0, 0.0, 2.0**-20, 0.3], 8, 32, 8)
    assert (made.frac_width, shifts) == (6 + SPAN, (SPAN, 0, 0, SPAN - 2))
    for peak in (float("inf"), float("nan")):
        with pytest.raises(FormatError, match="not finite"):
            fmt.exponent(peak)


@pytest.mark.parametrize(
    "wrong",
    [
        (1, 0),
        (34, 0),
        (6, 0, True, 4, 8, "e2m1"),
        (8, 0, True, 4, 8, "e9m9"),
        (8, 0, False),
        (8, 0, True, 0),
        (8, 0, True, 4, 1),
        (8, 0, True, 4, 9),
    ],
)
def test_formats_that_do_not_exist(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(FormatError, match="block floating point"):
        BlockFormat(*wrong)


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"weight_width": 13}, "2 to 12"),
        ({"weight_frac_width": 4}, "weight_frac_width"),
        ({"weight_signed": False}, "weight_signed"),
        ({"weight_granularity": "channel"}, "weight_granularity"),
        ({"name": "mxfp", "weight_width": 5, "weight_element": "e2m1"}, "weight_width"),
    ],
)
def test_keys_that_such_weights_cannot_have(keys: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        quantised(seeded(MLP), inputs(32, 6), config=blocks(**keys))


def test_other_ops_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"relu.*cannot have mxint weights"):
        quantised(seeded(MLP), inputs(32, 6), config=blocks("linear", "relu"))
    fmt = FixedFormat(8, 4)
    graph, _ = quantised(seeded(MLP), inputs(32, 6), config=blocks(weight_block_size=4))
    module = layer(graph, "fc1")
    formats = {**module.arithmetic.formats, "data_in_0": BlockFormat(8, 4), "data_out_0": fmt}
    with pytest.raises(UnsupportedError, match="takes no mxint data_in_0"):
        Quantized(module.op, type(module.arithmetic)(formats), {"weight": module.get_parameter("weight")})


def test_a_network(tmp_path: Path) -> None:
    """Blocks beside fixed point, in hardware with stalls; the weights in memory; kept, and trained."""
    torch.manual_seed(3)
    net = nn.Sequential(spread_weights(9, 22, 5, 9), nn.ReLU(), nn.Linear(9, 6), nn.ReLU(), spread_weights(4, 6, 7, 3))
    x = inputs(24, 22)
    config: dict[str, Any] = {"quantize": blocks(weight_block_size=4, weight_width=5)}
    config["quantize"]["overrides"] = {"_2": {"config": {"name": "fixed"}}}
    lanes = {"_0": {"data_in_0": 2, "data_out_0": 4}, "_4": {"data_in_0": 2, "data_out_0": 3}}
    config["hardware"] = {"parallelism": lanes}
    design = compile(net, x[:1], config, out=tmp_path / "design", calibration=[x], vectors=x)
    for stalls in (0.0, 0.4):
        assert design.simulate(engine="batch", stalls=stalls).passed
    instances = {i["node"]: i["parameters"] for i in design.manifest["instances"] if "WEIGHT_BLOCK" in i["parameters"]}
    assert [p["WEIGHT_BLOCK"] for p in instances.values()] == [4, 0, 4]
    files = {m["file"]: m for m in design.manifest["memories"]}
    # Three output tiles of six blocks; a word has the shifts of four lanes.
    assert files["mem/_0_weight_shift.mem"]["words"] == 3 * 6


def test_an_image(tmp_path: Path) -> None:
    """Kernels in blocks, and a layer behind the flattened image, whose inputs come in the order of its columns."""
    torch.manual_seed(5)
    net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.Flatten(), nn.Linear(24, 3))
    with torch.no_grad():
        for at in (0, 2, 4):
            net[at].weight.mul_(2.0 ** torch.randint(-6, 1, net[at].weight.shape))
    x = torch.rand(6, 2, 4, 4) * 2 - 1
    config: dict[str, Any] = {"quantize": element_blocks("e2m1", 4, "linear", "conv2d")}
    config["quantize"]["linear"]["config"]["weight_element"] = "e4m3"
    config["hardware"] = {"parallelism": {"_0": {"data_in_0": 2, "data_out_0": 2}, "_2": {"data_in_0": 4}}}
    design = compile(net, x[:1], config, out=tmp_path / "design", calibration=[x], vectors=x)
    for stalls in (0.0, 0.4):
        assert design.simulate(engine="batch", stalls=stalls).passed
    blocks_of = {i["node"]: i["parameters"].get("WEIGHT_BLOCK") for i in design.manifest["instances"]}
    assert (blocks_of["_0"], blocks_of["_2"], blocks_of["_4"]) == (4, 4, 4)
    assert [i["module"] for i in design.manifest["instances"]].count("stream_reorder") == 1
    with torch.no_grad():
        assert torch.equal(torch.cat([design.model(image[None]) for image in x]), design.model(x))


@pytest.mark.parametrize("element", ["", "e2m1"])
def test_kept_and_trained(element: str, tmp_path: Path) -> None:
    x = inputs(32, 6)
    integers = blocks(weight_block_size=2, weight_width=4)
    graph, info = quantised(seeded(MLP), x, config=element_blocks(element, 2) if element else integers)
    named, kind = ("mxfp4 e2m1", "mxfp") if element else ("mxint4", "mxint")
    assert info["nodes"]["fc1"]["formats"]["weight"].startswith(f"{named} in blocks of 2")
    tensor = graph.tensor(graph.node("fc1"), "weight")
    assert (tensor.type, tensor.block_size, tensor.exponent_width, tensor.element) == (kind, 2, 8, element or None)
    is_kept_and_learns(graph, "fc1", x, tmp_path)


KINDS = [
    *({"name": "mxint", "weight_width": width} for width in (4, 12)),
    *({"name": "mxfp", "weight_element": element} for element in ELEMENTS),
    *({"name": "groups", "weight_width": width} for width in (4, 10)),
]


@pytest.mark.parametrize("op", ["linear", "conv2d"])
@pytest.mark.parametrize("keys", KINDS, ids=lambda keys: "_".join(map(str, keys.values())))
def test_trained(op: str, keys: dict[str, Any]) -> None:
    """Steps that are learned, and those of wide mantissas, which follow the range; the format stays what it is."""
    torch.manual_seed(7)
    of = {"linear": nn.Linear(16, 6), "conv2d": nn.Conv2d(4, 6, 2)}[op]
    x = torch.rand(8, 16) if op == "linear" else torch.rand(8, 4, 4, 4)
    config = blocks(op, weight_block_size=4, **keys)
    model = prepare(nn.Sequential(of, nn.ReLU()), x[:1], {"quantize": config}, calibration=[x])
    graph = learned(model, x, torch.optim.Adam(model.parameters(), lr=1e-2), 3)
    fmt = layer(graph, "_0").arithmetic.formats["weight"]
    assert isinstance(fmt, BlockFormat) and (fmt.kind, fmt.block) == (keys["name"], 4)
    assert fmt.element == keys.get("weight_element", "")


def test_other_weights_for_the_same_hardware(tmp_path: Path) -> None:
    """Numbers of a minifloat lie apart by more than a step: to round is no fault, to be beyond the largest is one."""
    net = nn.Sequential(nn.Linear(16, 4, bias=False))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([1.0, 1.25, -1.5, 0.125]).repeat(4, 4))
    x = inputs(8, 16)
    config = {"quantize": element_blocks("e4m3", 4), "hardware": {"parameters": "ram"}}
    design = compile(net, x[:1], config, out=tmp_path / "design", calibration=[x])

    def scaled(factor: float) -> Weights:
        other = nn.Sequential(nn.Linear(16, 4, bias=False))
        with torch.no_grad():
            other[0].weight.copy_(net[0].weight * factor)
        return weights_of(design, other, x[:1], config, [x])

    assert len({scaled(factor).digest for factor in (1.0, 0.9, 1.1)}) == 3
    with pytest.raises(ConfigError, match="outside the range"):
        scaled(1.25)


@pytest.mark.parametrize(
    ("lanes", "order", "what"),
    [(4, "outputs_first", "weights of two blocks"), (2, "inputs_first", "one output tile after the other")],
)
def test_mappings_that_are_refused(lanes: int, order: str, what: str, tmp_path: Path) -> None:
    x = inputs(24, 22)
    hardware = {"parallelism": {"_0": {"data_in_0": lanes, "data_out_0": 2}}, "order": {"_0": order}}
    config = {"quantize": blocks(weight_block_size=6), "hardware": hardware}
    net = nn.Sequential(spread_weights(9, 22, 5, 9))
    with pytest.raises(UnsupportedError, match=what):
        compile(net, x[:1], config, out=tmp_path / "design", calibration=[x])


@pytest.mark.parametrize(
    ("net", "shape", "block", "most", "lanes"),
    [
        (nn.Sequential(nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 3)), (12,), 4, 6, {"_0_blocks": 4, "_0": 4, "_2": 4}),
        (nn.Sequential(nn.Conv2d(6, 8, 3), nn.ReLU()), (6, 5, 5), 9, 4, {"_0_blocks": 4, "_0": 3}),
    ],
)
def test_lanes_that_nobody_asked_for_divide_a_block(
    net: nn.Module, shape: tuple[int, ...], block: int, most: int, lanes: dict[str, int], tmp_path: Path
) -> None:
    """A convolution has blocks of channels at all elements of its kernel; its inputs have them along the channels."""
    x = torch.rand(6, *shape, generator=torch.Generator().manual_seed(3)) - 0.5
    quantize = blocks("linear", "conv2d", weight_block_size=block, data_in_width=14, data_in_block_size=block)
    config = {"quantize": quantize, "hardware": {"max_parallelism": most}}
    design = compile(net.eval(), x[:1], config, out=tmp_path / "design", calibration=[x], vectors=x)
    made = {i["node"]: i["parameters"].get("DATA_IN_0_PARALLELISM_DIM_0") for i in design.manifest["instances"]}
    assert lanes.items() <= made.items()
    assert design.simulate(engine="batch", stalls=0.3).passed


def test_inputs_in_blocks(tmp_path: Path) -> None:
    """Three layers of one tensor share its blocks; images have them along the channels; minifloats need none."""
    torch.manual_seed(9)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.image, self.first, self.second, self.last = (
                nn.Conv2d(4, 8, 2),
                nn.Linear(32, 8),
                nn.Linear(32, 8),
                nn.Linear(8, 3),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.relu(self.image(x)).flatten(1)
            result: torch.Tensor = self.last(self.first(y) * torch.sigmoid(self.second(y)))
            return result

    x = torch.rand(12, 4, 3, 3) * 2 - 1
    every = {"name": "fixed", "data_in_width": 14, "weight_width": 6, "data_out_width": 14}
    shared = {"name": "mxint", "weight_width": 6, "weight_block_size": 8, "data_in_block_size": 8}
    rules: dict[str, Any] = {
        "conv2d": {"config": shared | {"weight_block_size": 4, "data_in_block_size": 4, "data_in_element": "e2m3"}},
        "linear": {"config": shared | {"data_in_block_width": 5}},
    }
    last = {"name": "minifloat", "weight_element": "e3m2", "data_in_element": "e3m2", "data_in_width": 10}
    overrides = {"last": {"config": last | {"data_in_block_size": None, "weight_width": None}}}
    quantize = {"by": "type", "default": {"config": every}, **rules, "overrides": overrides}
    config = {"quantize": quantize, "hardware": {"max_parallelism": 4}}
    design = compile(Net(), x[:1], config, out=tmp_path / "design", calibration=[x], vectors=x)
    for stalls in (0.0, 0.4):
        found = design.simulate(engine="batch", stalls=stalls)
        assert found.passed and (stalls or found.interval == found.predicted["interval"])
    made = {i["node"]: i["parameters"] for i in design.manifest["instances"] if i["module"] == "fixed_block_round"}
    assert {node: p["BLOCK"] for node, p in made.items()} == {"image_blocks": 4, "first_blocks": 8, "last_blocks": 0}
    graph = design.graph
    assert graph.tensor(graph.node("last"), "weight").type == "minifloat"
    fmt = layer(graph, "last").arithmetic.formats["weight"]
    assert str(fmt) == "minifloat e3m2" and fmt.frac_width == 4
    graph.export(tmp_path / "kept")
    again = MaseGraph.from_checkpoint(tmp_path / "kept")
    assert torch.equal(again.model(x), graph.model(x))


def test_a_place_of_a_table_is_no_number_in_a_block() -> None:
    """With blocks for all ops, those that read numbers have them."""
    config: dict[str, Any] = {
        "by": "type",
        "default": {"config": EIGHT["default"]["config"] | {"data_in_block_size": 4}},
    }
    graph, _ = quantised(nn.Sequential(nn.Embedding(5, 8), nn.Linear(8, 3)), torch.arange(5)[None], config=config)
    assert [n.name for n in graph.nodes if n.name.endswith("_blocks")] == ["_1_blocks"]


@pytest.mark.parametrize(("keys", "bits"), [({"data_in_block_width": 12}, 12), ({"data_in_element": "e4m3"}, 19)])
def test_a_grid_too_narrow_for_blocks(keys: dict[str, Any], bits: int) -> None:
    config = blocks(data_in_block_size=4, **keys)
    with pytest.raises(ConfigError, match="bits for them") as caught:
        quantised(seeded(MLP), inputs(32, 6), config=config)
    assert caught.value.expected is not None and caught.value.expected.startswith(f"{bits} to 52 bits")


def test_exponents_by_least_error() -> None:
    """A block whose largest number rounds to the next power of two, and one in which it stands alone."""
    net = nn.Sequential(nn.Linear(4, 3, bias=False))
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.97, 1.97, 1.97, 1.97], [1.0, 0.4, 0.4, 0.4], [1.5, 1.0, 0.5, 0.25]]))
    x = inputs(16, 4)
    errors = {}
    for rule in ("largest", "least_error"):
        config = blocks(weight_block_size=4, weight_width=3, weight_block_exponent=rule)
        graph, _ = quantised(net, x, config=config)
        values = torch.tensor([[float(v) for v in row] for row in stored(layer(graph, "_0"))])
        errors[rule] = (values - net[0].weight.detach()).square().sum(1).tolist()
    tried = []
    for row in net[0].weight.double().tolist():
        at = next(e for e in range(-9, 9) if 2.0**e <= max(row) < 2.0 ** (e + 1))
        steps = [2.0 ** (at + d - 1) for d in (-1, 0, 1)]
        tried.append(min(sum((min(3, round(w / s)) * s - w) ** 2 for w in row) for s in steps))
    assert errors["least_error"] == pytest.approx(tried, rel=1e-5, abs=1e-9)
    assert errors["least_error"][0] < errors["largest"][0]
