"""Inference on values gives the bits of the golden, whatever the formats, and knows when it cannot."""

from __future__ import annotations

import copy
import gc
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.nn import Quantized, QuantizeInput
from mase_hw.nn.values import on_grid, operands
from mase_hw.numerics import dequantize, quantize

CATALOGUE = default_catalogue()
CONV: dict[str, Any] = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "padding_mode": "zeros"}
OPS: dict[str, tuple[tuple[int, ...], tuple[int, ...] | None, list[dict[str, Any]]]] = {
    "linear": ((5, 12), (7, 12), [{}]),
    "relu": ((4, 3, 9), None, [{}]),
    "cast": ((40,), None, [{}]),
    "conv1d": ((2, 4, 9), (6, 2, 3), [{**CONV, "groups": 2, "padding": 1}, {**CONV, "groups": 2, "stride": 2}]),
    "conv2d": (
        (2, 4, 7, 6),
        (6, 2, 3, 3),
        [{**CONV, "groups": 2, "padding": (1, 2)}, {**CONV, "groups": 2, "dilation": 2, "padding": "same"}],
    ),
    "max_pool1d": ((2, 3, 9), None, [{"kernel_size": 3, "stride": 2, "padding": 1}]),
    "adaptive_max_pool1d": ((2, 3, 9), None, [{"output_size": 4}]),
    "adaptive_max_pool2d": ((2, 3, 7, 8), None, [{"output_size": (3, 2)}]),
    "max_pool2d": ((2, 3, 7, 8), None, [{"kernel_size": 2}, {"kernel_size": 3, "stride": 1, "padding": 1}]),
}


def golden(module: Quantized, *inputs: Tensor) -> Tensor:
    """The definition, step by step: mantissas, the op's golden, values."""
    formats = module.arithmetic.formats
    t = {f"data_in_{i}": quantize(x, formats[f"data_in_{i}"]) for i, x in enumerate(inputs)}
    t |= {name: module.mantissa(name) for name in module.parameter_names}
    assert module.op.golden is not None
    return dequantize(module.op.golden(module.arithmetic, t)["data_out_0"], formats["data_out_0"])


def same(a: Tensor, b: Tensor) -> bool:
    """The same bits; zeros have no sign."""
    return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


def some_format(rng: random.Random) -> FixedFormat:
    width = rng.choice([1, 2, 4, 8, 8, 8, 12, 16, 22, 24, 30])
    return FixedFormat(width, rng.choice([width - 1, width // 2, rng.randint(-6, 30)]), rng.random() < 0.6)


def module_of(name: str, rng: random.Random, modes: tuple[Rounding, Overflow]) -> tuple[Quantized, Tensor]:
    shape, weight, attributes = OPS[name]
    names = ["data_in_0", "data_out_0", *(["weight", "bias"] if weight else [])]
    formats = {each: some_format(rng) for each in names}
    parameters: dict[str, Tensor] = {}
    if weight is not None:
        generator = torch.Generator().manual_seed(rng.randrange(1 << 30))
        peak = formats["weight"].max_value * 1.2 + formats["weight"].scale
        parameters["weight"] = (torch.rand(weight, generator=generator) * 2 - 1) * peak
        if rng.random() < 0.7:
            parameters["bias"] = torch.randn(weight[0], generator=generator) * formats["bias"].max_value
        if rng.random() < 0.3:
            parameters["weight_shift"] = torch.randint(0, 4, weight[:1], generator=generator)
            formats["weight_shift"] = FixedFormat(2, 0, signed=False)
    formats = {k: v for k, v in formats.items() if k in parameters or k.startswith("data")}
    fmt = formats["data_in_0"]
    ends = [-fmt.max_value * 1.3, -fmt.scale / 2, -0.0, fmt.scale * 1.5, fmt.max_value, float("inf"), -float("inf")]
    x = torch.randn(shape) * fmt.max_value
    x.view(-1)[: len(ends)] = torch.tensor(ends)
    arithmetic = Arithmetic(formats, *modes, rng.choice(attributes))
    return Quantized(CATALOGUE[name], arithmetic, parameters), x.float()


def test_every_op_that_offers_it_is_here() -> None:
    assert {op.name for op in CATALOGUE if op.on_values is not None} == set(OPS)


@pytest.mark.parametrize("name", OPS)
def test_the_bits_of_the_golden(name: str) -> None:
    """Random formats; most of them are computed on values, and those with many bits or other modes are not."""
    rng, used = random.Random(name), 0
    torch.manual_seed(0)
    common = (Rounding.HALF_EVEN, Overflow.SATURATE)
    for turn in range(150):
        modes = common if turn % 4 else (rng.choice(list(Rounding)), rng.choice(list(Overflow)))
        module, x = module_of(name, rng, modes)
        try:
            want = golden(module, x)
        except FormatError:  # more than 64 bits, or an infinity that cannot be pooled
            continue
        enter = QuantizeInput(module.arithmetic.formats["data_in_0"], "x")
        for context in (torch.no_grad, torch.inference_mode):
            with context():
                used += module._on_values() is not None
                assert same(module(x), want), module  # brought onto the grid here
                assert same(module(enter(x)), want), module  # known to be on it
        assert same(module(x).detach(), want), module  # with gradients
    assert used >= 40


def linear(**formats: FixedFormat) -> Quantized:
    torch.manual_seed(3)
    base = {"data_in_0": FixedFormat(8, 5), "weight": FixedFormat(8, 7), "data_out_0": FixedFormat(8, 4)}
    return Quantized(CATALOGUE["linear"], Arithmetic({**base, **formats}), {"weight": torch.randn(6, 5)})


def test_sums_are_exact_up_to_the_last_bit() -> None:
    """The bound is that of the weights there are: at 2**24 it is float32, one more and it is not."""
    x, w = FixedFormat(12, 0, signed=False), FixedFormat(13, 0)
    a = Arithmetic({"data_in_0": x, "weight": w, "bias": FixedFormat(20, 0), "data_out_0": FixedFormat(22, 2)})
    weight = torch.tensor([[4095.0, -1.0]])  # 4096 * 4095 = 2**24 - 4096
    for bias, fits in ((4096.0, True), (4097.0, False), (-4096.0, True), (-4097.0, False)):
        t = {"weight": weight, "bias": torch.tensor([bias])}
        assert (operands(a, t) is not None) is fits
        module = Quantized(CATALOGUE["linear"], a, t)
        ends = torch.tensor([[4095.0, 4095.0], [0.0, 4095.0], [4095.0, 0.0]])
        with torch.no_grad():
            assert same(module(ends), golden(module, ends))


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_a_write_is_seen(context: Any) -> None:
    """What a module made is on the grid until somebody writes to it, to a view of it, or it is another format."""
    module, enter = linear(), QuantizeInput(FixedFormat(8, 5), "x")
    x = torch.randn(9, 5)
    writes = [
        lambda y: y.add_(0.01),
        lambda y: y.view(-1)[3:5].fill_(0.013),
        lambda y: y.t().mul_(0.7),
        lambda y: nn.functional.dropout(y, 0.5, True, True),
        lambda y: y.copy_(x),
    ]
    with context():
        for write in writes:
            y = enter(x)
            fmt = module.arithmetic.formats["data_in_0"]
            assert on_grid.knows(y, fmt) and on_grid.knows(y.flatten(), fmt) and on_grid.knows(y[2:4], fmt)
            write(y)
            assert not on_grid.knows(y, fmt) and not on_grid.knows(y.flatten(), fmt)
            assert same(module(y), golden(module, y))
        pairs = torch.view_as_complex(enter(torch.full((3, 10), -9.0)).view(3, 5, 2))
        negated = pairs.conj().imag  # a view that reads the smallest number as one beyond the largest
        assert negated.is_neg() and not on_grid.knows(negated, fmt) and same(module(negated), golden(module, negated))
        other = QuantizeInput(FixedFormat(8, 9), "x")(x)
        assert not on_grid.knows(other, fmt) and same(module(other), golden(module, other))
        # Read as integers, and back: a view, but of other numbers.
        assert not on_grid.knows(enter(x).view(torch.int32), fmt)


def test_copies_and_other_tensors_are_not_known() -> None:
    enter, fmt = QuantizeInput(FixedFormat(8, 5), "x"), FixedFormat(8, 5)
    with torch.no_grad():
        y = enter(torch.randn(9, 5))
        assert not any(on_grid.knows(z, fmt) for z in (y.clone(), copy.deepcopy(y), y * 1.0, torch.randn(9, 5)))
        gc.collect()
        known = on_grid._known
        before = set(known)
        del y
        assert len(before - set(known)) == 1, "nothing is kept of a tensor that is gone"


def test_a_hook_that_changes_the_result() -> None:
    module, enter = linear(), QuantizeInput(FixedFormat(8, 5), "x")
    x = torch.randn(9, 5)

    def change(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
        output.data.mul_(0.77)  # past the version counter

    enter.register_forward_hook(change)
    with torch.no_grad():
        y = enter(x)
        assert same(module(y), golden(module, y))


@pytest.mark.parametrize("change", [lambda w: w.data.mul_(0.5), lambda w: w.mul_(0.5), lambda w: w.numpy().fill(0.3)])
def test_new_weights_are_used(change: Any) -> None:
    module, x = linear(), torch.randn(9, 5)
    with torch.no_grad():
        before = module(x)
        change(module.weight)
        after = module(x)
        assert same(after, golden(module, x)) and not torch.equal(before, after)
        module.arithmetic = Arithmetic({**module.arithmetic.formats, "data_out_0": FixedFormat(6, 2)})
        assert same(module(x), golden(module, x))
        module.weight[0, 0] = float("nan")
        with pytest.raises(FormatError, match=r"linear\.weight"):
            module(x)


def test_nan_in_an_input_is_refused_by_name() -> None:
    module, x = linear(), torch.full((2, 5), float("nan"))
    with torch.no_grad(), pytest.raises(FormatError, match=r"linear\.data_in_0"):
        module(x)


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_reduced_precision_and_autocast(precision: str) -> None:
    module, x = linear(), torch.randn(200, 5)
    want, before = golden(module, x), torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        with torch.no_grad():
            assert same(module(x), want)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                assert same(module(x), want)
    finally:
        torch.set_float32_matmul_precision(before)


def test_results_are_ordinary_tensors() -> None:
    """Nothing of this is in a saved tensor, and a result of inference mode may be used anywhere."""
    with torch.inference_mode():
        y = linear()(torch.randn(9, 5))
    assert not y.__dict__ and not y.requires_grad and not y.is_inference()
    with torch.inference_mode():
        assert torch.is_inference_mode_enabled() and (y * 2).is_inference()
