"""The quantised module: it trains, and it says what it is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import FormatError, GraphError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.nn import Quantized, QuantizeInput

LINEAR, RELU, FLATTEN = (default_catalogue()[name] for name in ("linear", "relu", "flatten"))
FORMATS = {
    "data_in_0": FixedFormat(8, 5),
    "weight": FixedFormat(8, 6),
    "bias": FixedFormat(8, 6),
    "data_out_0": FixedFormat(8, 5),
}


def layer(inputs: int, outputs: int, **formats: FixedFormat) -> Quantized:
    torch.manual_seed(0)
    float_layer = nn.Linear(inputs, outputs)
    return Quantized(LINEAR, Arithmetic({**FORMATS, **formats}), dict(float_layer.named_parameters()))


def relu() -> Quantized:
    formats = {"data_in_0": FORMATS["data_out_0"], "data_out_0": FixedFormat(7, 5, False)}
    return Quantized(RELU, Arithmetic(formats))


def regression() -> tuple[Tensor, Tensor]:
    """A smooth function of two inputs, inside the range of the formats."""
    torch.manual_seed(1)
    x = torch.rand(256, 2) * 2 - 1
    return x, (x[:, :1] * x[:, 1:] + 0.5 * x[:, :1]).clamp(-3, 3)


def test_an_ordinary_loop_trains_it() -> None:
    """Quantisation-aware training: the loss of the bit-true model falls well below that of a constant answer."""
    net = nn.Sequential(layer(2, 16), relu(), layer(16, 1, data_in_0=FixedFormat(7, 5, False)))
    x, y = regression()
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(150):
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.15 * losses[0] and losses[-1] < 0.15 * float(y.var())
    # What it learned are ordinary floats; what it computes lies on the grid.
    assert not torch.equal(net[0].weight, net[0].mantissa("weight") / 64)
    assert torch.equal(net(x) * 32, torch.round(net(x) * 32))


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("overflow", Overflow)
def test_gradients_are_those_of_the_float_layer_inside_the_range(rounding: Rounding, overflow: Overflow) -> None:
    module = layer(3, 2)
    module.arithmetic = Arithmetic(FORMATS, rounding, overflow)
    x = torch.tensor([[0.5, -0.25, 0.125]], requires_grad=True)
    module(x).sum().backward()
    on_grid = module.mantissa("weight") / 64
    assert x.grad is not None and torch.equal(x.grad, on_grid.sum(0, keepdim=True))
    assert torch.equal(module.weight.grad, torch.tensor([[0.5, -0.25, 0.125]] * 2))
    assert torch.equal(module.bias.grad, torch.ones(2))


def test_wide_accumulators_train_too() -> None:
    """More than 53 bits need integer arithmetic, which knows no gradients of its own."""
    wide = {"data_in_0": FixedFormat(30, 20), "weight": FixedFormat(30, 20), "data_out_0": FixedFormat(24, 10)}
    module = layer(6, 4, **wide)
    x = torch.randn(5, 6, requires_grad=True)
    module(x).sum().backward()
    assert x.grad is not None and torch.allclose(x.grad, module.weight.sum(0).expand(5, 6), atol=1e-4)
    assert module.weight.grad is not None and module.bias.grad is not None


def test_parameters_are_the_same_objects() -> None:
    weight = nn.Parameter(torch.ones(1, 2))
    formats = {k: v for k, v in FORMATS.items() if k != "bias"}
    module = Quantized(LINEAR, Arithmetic(formats), {"weight": weight})
    assert module.weight is weight and [name for name, _ in module.named_parameters()] == ["weight"]
    frozen = Quantized(LINEAR, Arithmetic(formats), {"weight": torch.ones(1, 2)})
    assert not frozen.weight.requires_grad and "weight" in frozen.state_dict()


def test_it_survives_the_state_dict() -> None:
    a, b = layer(3, 2), layer(3, 2)
    with torch.no_grad():
        a.weight.add_(0.3)
    b.load_state_dict(a.state_dict())
    x = torch.randn(4, 3)
    assert torch.equal(a(x), b(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_inputs_of_every_float(dtype: torch.dtype) -> None:
    x = torch.tensor([[0.5, -1.25, 3.0]], dtype=dtype)
    assert torch.equal(layer(3, 2)(x), layer(3, 2)(x.float())) and layer(3, 2)(x).dtype == torch.float32


def test_nan_names_the_tensor() -> None:
    module = layer(3, 2)
    with pytest.raises(FormatError, match=r"linear\.data_in_0"):
        module(torch.full((1, 3), float("nan")))
    with torch.no_grad():
        module.bias[1] = float("nan")
    with pytest.raises(FormatError, match=r"linear\.bias"):
        module(torch.zeros(1, 3))
    with pytest.raises(FormatError, match=r"fc1\.bias"):
        module.label = "fc1"
        module.check_parameters()
    with pytest.raises(FormatError, match="image"):
        QuantizeInput(FixedFormat(8, 4), "image")(torch.full((2,), float("nan")))


def test_the_boundary() -> None:
    enter = QuantizeInput(FixedFormat(4, 1), "image")
    assert enter(torch.tensor([0.25, 0.75, 9.0, -9.0])).tolist() == [0.0, 1.0, 3.5, -4.0]
    assert "image -> s4.1" in repr(enter)


def test_text() -> None:
    assert "linear, data_in_0=s8.5, weight=s8.6, bias=s8.6, data_out_0=s8.5" in repr(layer(3, 2))


def test_incomplete_formats() -> None:
    with pytest.raises(GraphError, match="no format for weight"):
        Quantized(LINEAR, Arithmetic({"data_out_0": FixedFormat(8, 4)}), {"weight": torch.ones(1, 1)})
    with pytest.raises(GraphError, match="'flatten' has no arithmetic"):
        Quantized(FLATTEN, Arithmetic({}))
