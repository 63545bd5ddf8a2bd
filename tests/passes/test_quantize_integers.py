"""Quantisation to scaled integers: which formats are chosen, what stands where, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw.errors import ConfigError
from mase_hw.formats import FixedFormat, ScaledFormat
from mase_hw.nn import Quantized
from mase_hw.passes import calibrate_analysis_pass, explain, quantize_transform_pass
from mase_hw.passes.quantize.calibration.observers import Points
from mase_hw.passes.quantize.integers.formats import aligned, from_statistics, of_range, of_weights, squared_error
from tests.passes.digits import accuracy, digits, digits_cnn
from tests.unit.pipeline import MLP, annotated, inputs, quantised, seeded

BITS = {"data_in_width": 8, "weight_width": 8, "data_out_width": 8}


def integers(**keys: Any) -> dict[str, Any]:
    """Scaled integers everywhere."""
    return {"default": {"config": {"name": "integer", **BITS, **keys}}}


class Net(nn.Module):
    """A convolution whose ReLU is pooled, a second one that two nodes read, and a layer on its elements."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.second = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.last = nn.Linear(2 * 4 * 3 * 3, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Images of 6 rows and columns to 5 numbers."""
        x = self.pool(torch.relu(self.first(x)))
        x = self.second(x)
        both = torch.cat((x, torch.relu(x)), 1)
        return self.last(both.flatten(1))


def modules(graph: Any) -> dict[str, Quantized]:
    """The quantised modules by node."""
    found = {n.name: graph.meta_of(n).module for n in graph.nodes}
    return {name: module for name, module in found.items() if isinstance(module, Quantized)}


@pytest.mark.parametrize("affine", [False, True], ids=["symmetric", "affine"])
@pytest.mark.parametrize("granularity", ["tensor", "channel"])
def test_a_network(affine: bool, granularity: str) -> None:
    """What computes, where it is requantised, and that it is the float model within the steps of 8 bits."""
    net, x = Net().eval(), torch.randn(16, 2, 6, 6)
    config = integers(weight_granularity=granularity, weight_affine=affine, data_affine=affine)
    graph, info = quantised(net, x, config=config)
    found = modules(graph)
    # The one reader that clamps is the requantisation; what several read, or the output, has one of its own.
    assert {name for name, m in found.items() if m.op.name == "requantize"} == {
        "relu",
        "relu_1",
        "second_requantize",
        "last_requantize",
        *info["casts"],
    }
    assert all(isinstance(f, ScaledFormat) for n, m in found.items() for k, f in m.arithmetic.formats.items()
               if k.startswith("data_") or k in ("weight", "bias")), found  # fmt: skip
    weight = found["first"].arithmetic.formats["weight"]
    assert isinstance(weight, ScaledFormat) and weight.zero_point == 0
    assert weight.channels == (4 if granularity == "channel" else 1)
    assert weight.width == (9 if affine else 8) and (affine or weight.min_mantissa == -127)
    relu = found["relu"].arithmetic.formats["data_out_0"]
    assert (relu.width, relu.signed, relu.zero_point, relu.min_mantissa) == (8, False, 0, 0)
    assert found["pool"].arithmetic.formats["data_out_0"] == relu
    assert ("bias" in found["second"].parameter_names) == (
        found["second"].arithmetic.formats["data_in_0"].zero_point != 0
    )
    with torch.no_grad():
        wanted, got = net(x), graph.model(x)
    assert (wanted - got).square().mean() < 3e-4 * wanted.square().mean()
    tensor = graph.meta_of(graph.node("first")).common.args["weight"]
    assert tensor.type == "integer" and tensor.precision == [weight.width] and tensor.fmt == weight
    assert "observed" in str(explain(graph, "relu")) and "* 0.0" in str(explain(graph, "relu"))


def test_every_result_is_of_its_format() -> None:
    """Mantissas of every node are integers within the limits of its format, found again from the values."""
    graph, _ = quantised(Net().eval(), torch.randn(8, 2, 6, 6), config=integers(data_affine=True))
    seen: dict[str, Tensor] = {}
    for name, module in modules(graph).items():
        module.register_forward_hook(lambda _m, _i, out, name=name: seen.update({name: out}))
    graph.model(3 * torch.randn(8, 2, 6, 6))
    assert set(seen) == set(modules(graph))
    for name, module in modules(graph).items():
        fmt = module.arithmetic.formats["data_out_0"]
        assert isinstance(fmt, ScaledFormat)
        if fmt.per_channel:
            continue
        steps = seen[name].double() / fmt.scale + fmt.zero_point
        assert (steps - steps.round()).abs().max() < 1e-2
        assert steps.round().min() >= fmt.min_mantissa and steps.round().max() <= fmt.max_mantissa


def test_families_meet() -> None:
    """A node in fixed point among scaled integers: exact arithmetic and one rounding on each side."""
    config = {**integers(), "overrides": {"fc1": {"config": {"name": "fixed", "bias_width": 8}}}}
    graph, info = quantised(seeded(MLP), inputs(16, 6), config=config)
    found = modules(graph)
    assert all(type(f) is FixedFormat for f in found["fc1"].arithmetic.formats.values())
    assert all(isinstance(f, ScaledFormat) for f in found["fc2"].arithmetic.formats.values())
    assert info["casts"] and all(found[name].op.name == "requantize" for name in info["casts"])


def test_a_missing_width_is_refused() -> None:
    config = {"default": {"config": {"name": "integer", "data_in_width": 8, "data_out_width": 8}}}
    with pytest.raises(ConfigError, match="no width for weight") as info:
        quantised(seeded(MLP), inputs(4, 6), config=config)
    assert info.value.node == "fc1"


@pytest.mark.parametrize("width", range(1, 17))
def test_a_range_is_covered(width: int) -> None:
    """Both ends are within half a step, and 0 is a number of its own."""
    for low, high in ((-3.0, 5.0), (-0.1, 9.0), (0.0, 7.0), (2.0, 7.0), (-4.0, -1.0), (0.0, 0.0)):
        for affine in (False, True):
            fmt = of_range(low, high, width, None, affine)
            assert fmt.min_mantissa <= fmt.zero_point <= fmt.max_mantissa
            if width == 1 and low < 0.0:
                continue  # two numbers cannot stand for both signs and 0
            assert fmt.min_value - fmt.scale * 0.51 <= low and high <= fmt.max_value + fmt.scale * 0.51
            assert fmt.signed == (low < 0.0)


def test_the_squared_error_is_no_larger_than_without_clipping() -> None:
    torch.manual_seed(0)
    points = Points.exact(torch.randn(4000).double().numpy())
    for width in (2, 3, 4, 8):
        best, _ = from_statistics(points, width, None, False)
        whole = of_range(float(points.values.min()), float(points.values.max()), width, None, False)
        assert squared_error(points, best) <= squared_error(points, whole)
        if width <= 4:
            assert squared_error(points, best) < 0.8 * squared_error(points, whole)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("method", ["min_max", "mse"])
def test_weights_are_at_most_half_a_step_off(affine: bool, method: str) -> None:
    """Of a channel, as many different integers as the width has, or one fewer for a narrow range."""
    torch.manual_seed(1)
    weight = torch.randn(6, 50) * torch.tensor([0.01, 0.1, 1.0, 3.0, 10.0, 0.5])[:, None] + 0.2
    for width in (2, 4, 8):
        fmt, _ = of_weights("fc", weight, width, channels=True, affine=affine, narrow=True, method=method)
        assert fmt.channels == 6 and fmt.zero_point == 0
        codes = {high - low + 1 for low, high in fmt.limits}
        assert codes == {1 << width if affine else (1 << width) - 1}
        if method == "min_max":
            for row, scale, (low, high) in zip(weight, fmt.scales, fmt.limits * (6 // len(fmt.limits)), strict=True):
                steps = row.double() / scale
                assert steps.min() >= low - 0.51 and steps.max() <= high + 0.51


def test_integers_with_a_fraction_width_are_those_of_mase() -> None:
    graph, _ = quantised(seeded(MLP), inputs(4, 6), config=integers(
        bias_width=8, **{f"{k}_frac_width": 4 for k in ("data_in", "weight", "bias", "data_out")}
    ))  # fmt: skip
    assert {str(m.arithmetic.formats["weight"]) for m in modules(graph).values() if m.parameter_names} == {"s8.4"}


def test_eight_bits_on_digits_are_as_good_as_floats() -> None:
    d = digits()
    graph, _ = quantize_transform_pass(d.graph(), integers(weight_granularity="channel"))
    assert accuracy(graph.model, *d.test) >= accuracy(d.net, *d.test) - 0.001


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "keys", "least"),
    [
        (8, {"weight_granularity": "channel", "weight_affine": True, "data_affine": True}, 0.979),
        (4, {"weight_narrow": False}, 0.974),
        (3, {"weight_granularity": "channel", "weight_narrow": False}, 0.897),
    ],
)
def test_few_bits_on_digits(width: int, keys: dict[str, Any], least: float) -> None:
    """The convolutional network, by calibration alone; 98.06 % in floats."""
    d = digits_cnn()
    graph = annotated(d.net, d.test[0][:1])
    graph, _ = calibrate_analysis_pass(graph, {"data": d.train[0].split(512), "method": "mse", "weight_method": "mse"})
    widths = dict.fromkeys(BITS, width)
    graph, _ = quantize_transform_pass(graph, {**integers(**{**widths, **keys}), "output_width": 16})
    assert accuracy(graph.model, *d.test) >= least


@pytest.mark.parametrize("name", ["minimum", "add"])
def test_few_bits_are_no_tampering(name: str, tmp_path: Any) -> None:
    """What compares every layer with the float model knows that multipliers are rounded, and are those of formats."""
    import mase_hw

    class Both(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = getattr(torch, name)(x, torch.relu(x))
            return y

    x = torch.randn(32, 3, 4, 5, generator=torch.Generator().manual_seed(1))
    config = {"quantize": integers(data_in_width=5, data_out_width=5, multiplier_width=4)}
    design = mase_hw.compile(Both(), x[:1], config, out=tmp_path / "design", calibration=[x])
    with torch.no_grad():
        wanted, got = Both()(x), design.model(x)
    assert (wanted - got).square().mean() < 0.01 * wanted.square().mean()


def test_what_is_true_is_a_bit(tmp_path: Any) -> None:
    """A comparison with a number and a sign need no range, and have no scale."""
    import mase_hw

    class Masked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * (x > 0.3).float() + torch.sign(x)

    x = torch.randn(64, 10, generator=torch.Generator().manual_seed(1))
    design = mase_hw.compile(
        Masked(), x[:1], {"quantize": integers(data_affine=True)}, out=tmp_path / "design", calibration=[x]
    )
    with torch.no_grad():
        near = (Masked()(x) - design.model(x)).abs() < 0.05
    assert near.float().mean() > 0.98  # others are within a step of 0.3
    result = design.simulate(x[:8], engine="batch")
    assert result.passed and result.result.mismatches == 0


def test_an_average_by_another_divisor() -> None:
    """Is not within the range of its data."""
    x = torch.randn(64, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    for divisor, border in ((1, 0), (3, 1)):
        net = nn.AvgPool2d(2, padding=border, divisor_override=divisor)
        for affine in (False, True):
            graph, _ = quantised(net, x, config=integers(data_affine=affine))
            error = (graph.model(x) - net(x)).square().mean()
            assert error < 1e-3 * net(x).square().mean()


class Branches(nn.Module):
    """A sum of two branches and of that with one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(8, 6), nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        left = self.left(x)
        found: Tensor = torch.relu(3 * self.right(x) + left) + left
        return found


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("width", [4, 8, 9])
def test_sums_of_8_bits_need_no_multipliers(width: int, affine: bool) -> None:
    """The steps of what is added are powers of two of each other, and so is that of the sum; not with fewer bits."""
    net = seeded(Branches)
    keys = {"data_in_width": width, "weight_width": width, "data_out_width": width, "data_affine": affine}
    graph, _ = quantised(net, inputs(64, 8), config=integers(**keys))
    sums = [module for module in modules(graph).values() if module.op.name == "add"]
    assert len(sums) == 2
    factors = [factor for module in sums for factor in module.arithmetic.attributes.get("multipliers", (1, 1))]
    assert all(factor & (factor - 1) == 0 for factor in factors) == (width >= 8)


class Inputs(nn.Module):
    """Sums of two inputs of the model, and of one with stored numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("stored", torch.tensor([0.3, -1.7, 2.9, 0.1]))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x + 3 * y, x - self.stored


def test_sums_of_inputs_and_of_stored_numbers_need_no_multipliers() -> None:
    """Each has a range of its own; with steps of their own, both operands would be multiplied."""
    data = (torch.rand(64, 4) * 2 - 1, torch.rand(64, 4) * 3 - 1.5)
    graph, _ = quantised(seeded(Inputs), *data, config=integers(data_in_width=8, data_out_width=8))
    sums = [module for module in modules(graph).values() if module.op.name in ("add", "sub")]
    assert len(sums) == 2
    for module in sums:
        factors = module.arithmetic.attributes.get("multipliers", (1, 1))
        assert all(factor & (factor - 1) == 0 for factor in factors)


@pytest.mark.parametrize("zero", [0, -3, 100])
def test_a_step_is_fitted_to_another(zero: int) -> None:
    """The smallest power of two that is no finer, over all of the range."""
    for step in (0.01, 0.0101, 0.3, 7.0):
        have = ScaledFormat.make(8, 0.0137, zero)
        found = aligned(have, Fraction(step))
        power = math.log2(found.scale / step)
        assert power == round(power) and have.scale <= found.scale < 2 * have.scale
        assert (found.zero_point == 0) == (zero == 0)
        for code in (have.min_mantissa, have.max_mantissa):
            away = (code - zero) * have.scale / found.scale + found.zero_point
            assert found.min_mantissa - 0.5 <= away <= found.max_mantissa + 0.5
    assert aligned(ScaledFormat.make(8, 0.25), Fraction(1)).scale == 0.25
