"""Functions of linear pieces, and PReLU, against rational numbers; and every way a model can call an activation."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.nn import Quantized
from mase_hw.ops.pieces import COMPARISONS, PIECES, constants
from tests.ir.nets import Of
from tests.unit.pipeline import annotated, quantised, rule
from tests.unit.test_functions import arithmetic, rounded
from tests.unit.test_named_functions import ORACLE as NAMED

HALF, SIXTH = Fraction(1, 2), Fraction(1, 6)


# By the definitions in PyTorch's documentation, on rational numbers.
def compared(name: str, x: Fraction, number: float) -> Fraction:
    return Fraction(int(getattr(operator, name)(x, Fraction(number))))


ORACLE: dict[str, Callable[..., Fraction]] = {
    "relu6": lambda x: min(max(x, Fraction(0)), Fraction(6)),
    "hardtanh": lambda x, min_val=-1.0, max_val=1.0: min(max(x, Fraction(min_val)), Fraction(max_val)),
    "leaky_relu": lambda x, negative_slope=0.01: x if x >= 0 else x * Fraction(negative_slope),
    "threshold": lambda x, threshold, value: x if x > Fraction(threshold) else Fraction(value),
    "hardshrink": lambda x, lambd=0.5: Fraction(0) if abs(x) <= Fraction(lambd) else x,
    "softshrink": lambda x, lambd=0.5: (
        x - Fraction(lambd) if x > Fraction(lambd) else x + Fraction(lambd) if x < -Fraction(lambd) else Fraction(0)
    ),
    "hardsigmoid": lambda x: min(max(x * SIXTH + HALF, Fraction(0)), Fraction(1)),
    "sign": lambda x: Fraction((x > 0) - (x < 0)),
    **{f"{name}_number": partial(compared, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
}
# Attributes, and whether the constants are short enough to be exact.
ATTRIBUTES: list[tuple[str, dict[str, Any], bool]] = [
    ("relu6", {}, True),
    ("hardtanh", {}, True),
    ("hardtanh", {"min_val": -2.3, "max_val": 4.5}, False),
    ("leaky_relu", {}, False),
    ("leaky_relu", {"negative_slope": 0.125}, True),
    ("leaky_relu", {"negative_slope": -1.5}, True),
    ("threshold", {"threshold": 0.5, "value": 20.0}, True),
    ("threshold", {"threshold": -0.3, "value": -2.7}, False),
    ("sign", {}, True),
    *((f"{name}_number", {"number": 0.75}, True) for name in ("lt", "le", "gt", "ge", "eq", "ne")),
    ("hardshrink", {}, True),
    ("hardshrink", {"lambd": 0.3}, False),
    ("softshrink", {}, True),
    ("softshrink", {"lambd": 0.7}, False),
    ("hardsigmoid", {}, False),
]
FORMATS = [
    (FixedFormat(8, 4), FixedFormat(8, 4)),
    (FixedFormat(8, 3), FixedFormat(6, 5, signed=False)),
    (FixedFormat(6, 2, signed=False), FixedFormat(12, 9)),
    (FixedFormat(12, 8), FixedFormat(7, 2)),
    (FixedFormat(16, 9), FixedFormat(16, 11)),
    (FixedFormat(5, -1), FixedFormat(8, 1)),
]


def computed(name: str, a: Arithmetic, mantissas: Tensor, **parameters: Tensor) -> list[int]:
    golden = default_catalogue()[name].golden
    assert golden is not None
    return golden(a, {"data_in_0": mantissas, **parameters})["data_out_0"].to(torch.int64).tolist()


def limited(value: Fraction, fmt: FixedFormat) -> Fraction:
    return min(max(value, Fraction(fmt.min_mantissa)), Fraction(fmt.max_mantissa))


def test_every_function_has_an_oracle() -> None:
    assert set(ORACLE) == {function.name for function in PIECES} == {name for name, _, _ in ATTRIBUTES}


@pytest.mark.parametrize(("name", "attributes", "short"), ATTRIBUTES, ids=str)
@pytest.mark.parametrize(("source", "target"), FORMATS, ids=str)
@pytest.mark.parametrize("rounding", [Rounding.HALF_EVEN, Rounding.FLOOR], ids=str)
def test_pieces(
    name: str,
    attributes: dict[str, Any],
    short: bool,
    source: FixedFormat,
    target: FixedFormat,
    rounding: Rounding,
) -> None:
    """Equal bits where the constants are exact, else less than 1 LSB and 1/32 off.

    Every code of up to 12 bits; of 16 bits every 17th, the ends, and all within 1/4 of where a piece may end.
    """
    inputs: list[int] = [*range(source.min_mantissa, source.max_mantissa + 1)]
    if source.width > 12:
        ends = [0.0, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, 6.0, *(float(v) for v in attributes.values())]
        quarter = 2.0 ** (source.frac_width - 2)
        near = {e for end in ends for e in inputs[int(end * 4 * quarter - quarter) - inputs[0] :][: int(2 * quarter)]}
        inputs = sorted({*inputs[::17], *inputs[-40:], *near})
    check_pieces(name, arithmetic(source, target, rounding, attributes=attributes), short, inputs)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "attributes", "short"), ATTRIBUTES, ids=str)
@pytest.mark.parametrize("rounding", [Rounding.HALF_EVEN, Rounding.FLOOR], ids=str)
def test_pieces_at_every_code(name: str, attributes: dict[str, Any], short: bool, rounding: Rounding) -> None:
    """All 65,536 codes of 16 bits."""
    source, target = FORMATS[4]
    every = [*range(source.min_mantissa, source.max_mantissa + 1)]
    check_pieces(name, arithmetic(source, target, rounding, attributes=attributes), short, every)


def check_pieces(name: str, a: Arithmetic, short: bool, inputs: list[int]) -> None:
    target, step = a.formats["data_out_0"], Fraction(2) ** -a.formats["data_in_0"].frac_width
    results = computed(name, a, torch.tensor(inputs))
    for code, got in zip(inputs, results, strict=True):
        real = ORACLE[name](code * step, **a.attributes) * Fraction(2) ** target.frac_width
        if short:
            assert got == limited(Fraction(rounded(real, a.rounding)), target), code
        else:
            most = HALF + Fraction(1, 32) if a.rounding is Rounding.HALF_EVEN else 1 + Fraction(1, 32)
            assert abs(got - limited(real, target)) < most, code


def parsed(text: str) -> FixedFormat:
    width, frac = text[1:].split(".")
    return FixedFormat(int(width), int(frac), text[0] == "s")


@pytest.mark.parametrize("overflow", Overflow)
@pytest.mark.parametrize(("source", "weight", "target"), [("s8.4", "s8.6", "s7.3"), ("s20.9", "u16.17", "s30.28")])
def test_prelu(source: str, weight: str, target: str, overflow: Overflow) -> None:
    """One weight for every channel, in dimension 1; and one for all."""
    fx, fw, fy = (
        FixedFormat(int(f[1:].split(".")[0]), int(f.split(".")[1]), f[0] == "s") for f in (source, weight, target)
    )
    a = Arithmetic({"data_in_0": fx, "weight": fw, "data_out_0": fy}, Rounding.HALF_UP, overflow)
    some = torch.Generator().manual_seed(4)
    x = torch.randint(fx.min_mantissa, fx.max_mantissa + 1, (3, 5, 2, 4), generator=some)
    for weights in (5, 1):
        w = torch.randint(fw.min_mantissa, fw.max_mantissa + 1, (weights,), generator=some)
        results = torch.tensor(computed("prelu", a, x, weight=w))
        for index in torch.cartesian_prod(*(torch.arange(n) for n in x.shape)).tolist():
            code = int(x[tuple(index)])
            factor = Fraction(1) if code >= 0 else int(w[index[1] % weights]) * Fraction(2) ** -fw.frac_width
            real = rounded(code * factor * Fraction(2) ** (fy.frac_width - fx.frac_width), a.rounding)
            if overflow is Overflow.SATURATE:
                wanted = int(limited(Fraction(real), fy))
            else:
                wanted = (real - fy.min_mantissa) % (1 << fy.width) + fy.min_mantissa
            assert int(results[tuple(index)]) == wanted


def test_gradients() -> None:
    """Through narrow and wide carriers alike; to the weight of a PReLU too."""
    catalogue, target = default_catalogue(), FixedFormat(8, 4)
    for width in (8, 50):
        source = FixedFormat(width, 4)
        # The constants of functions of pieces are too long for very wide inputs.
        for name, attributes, _ in ATTRIBUTES if width == 8 else []:
            if name.endswith("_number"):
                continue  # true or false has no gradient
            a = arithmetic(source, target, attributes=attributes)
            x = (torch.arange(-30, 31) / 8 + 1 / 16).requires_grad_()
            Quantized(catalogue[name], a)(x).sum().backward()
            y = x.detach().double().requires_grad_()
            function = getattr(F, name, None) or getattr(torch, name)
            result = function(y, **attributes)
            result.sum().backward()
            assert x.grad is not None and y.grad is not None
            inside = (result >= -8) & (result <= 127 / 16)
            assert torch.allclose(x.grad[inside].double(), y.grad[inside], atol=0.01), name
        formats = {"data_in_0": source, "weight": FixedFormat(8, 6), "data_out_0": target}
        weight = nn.Parameter(torch.tensor([0.5, -1.0]))
        x = torch.tensor([[1.0, 2.0], [-1.0, -0.5]], requires_grad=True)
        Quantized(catalogue["prelu"], Arithmetic(formats), {"weight": weight})(x).sum().backward()
        assert weight.grad is not None and weight.grad.tolist() == [-1.0, -0.5]
        assert x.grad is not None and x.grad.tolist() == [[1.0, 1.0], [0.5, -1.0]]


@pytest.mark.parametrize("name", ["relu6", "hardtanh"])
def test_limits_that_no_code_reaches_need_not_fit(name: str) -> None:
    """Of data below 2**-60, as in a network that was not trained, 6 would be a constant of more than 64 bits."""
    source = FixedFormat(8, 67)
    low = 0.0 if name == "relu6" else -6.0
    a = arithmetic(source, FixedFormat(8, 66), attributes={"min_val": low, "max_val": 6.0})
    codes = torch.arange(-128, 128)
    golden = default_catalogue()[name].golden
    assert golden is not None
    found = golden(a, {"data_in_0": codes})["data_out_0"]
    kept = [max(code, 0) if name == "relu6" else code for code in codes.tolist()]
    assert found.tolist() == [round(Fraction(code, 2)) for code in kept]


def test_refused() -> None:
    wide = FixedFormat(40, 20)
    with pytest.raises(FormatError, match="too large constants"):
        constants("hardtanh", arithmetic(wide, FixedFormat(8, 4), attributes={"min_val": -5e8, "max_val": 5e8}))
    for low, high, fits in ((-2048.0, 1.0, True), (-2049.0, 1.0, False), (1.0, 2047.0, True), (1.0, 2048.0, False)):
        # The offsets are small; as codes of the input the ends are 2**20 times as large.
        a = arithmetic(wide, FixedFormat(8, 4), attributes={"min_val": low, "max_val": high})
        if fits:
            found = constants("hardtanh", a)
            assert (found.low, found.high) == (int(low) << 20, (int(high) << 20) + 1)
        else:
            with pytest.raises(FormatError, match="too large constants"):
                constants("hardtanh", a)
    for value, fits in ((2.0**30 - 1, True), (2.0**30, False)):
        a = arithmetic(FixedFormat(8, 4), FixedFormat(40, 0), attributes={"threshold": 0.0, "value": value})
        if fits:
            assert constants("threshold", a).offsets == (2**30 - 1, 0, 0)
        else:
            with pytest.raises(FormatError, match="too large constants"):
                constants("threshold", a)
    check = default_catalogue()["hardtanh"].check
    assert check is not None
    with pytest.raises(UnsupportedError, match="finite") as caught:
        check("n", {"min_val": float("-inf"), "max_val": 1.0})
    assert caught.value.node == "n" and caught.value.field == "min_val"


FORMS: dict[str, list[Callable[[Tensor], Tensor]]] = {
    "relu6": [nn.ReLU6(), F.relu6, lambda x: F.relu6(x, inplace=False)],
    "leaky_relu": [nn.LeakyReLU(0.2), lambda x: F.leaky_relu(x, 0.2), lambda x: F.leaky_relu(x, negative_slope=0.2)],
    "elu": [nn.ELU(0.3), lambda x: F.elu(x, 0.3), lambda x: F.elu(x, alpha=0.3)],
    "selu": [nn.SELU(), F.selu, torch.selu],
    "celu": [nn.CELU(1.7), lambda x: F.celu(x, 1.7), lambda x: torch.celu(x, alpha=1.7)],
    "gelu": [nn.GELU("tanh"), lambda x: F.gelu(x, approximate="tanh")],
    "silu": [nn.SiLU(), F.silu],
    "mish": [nn.Mish(), F.mish],
    "sigmoid": [nn.Sigmoid(), F.sigmoid, torch.sigmoid, lambda x: x.sigmoid(), torch.special.expit],
    "hardsigmoid": [nn.Hardsigmoid(), F.hardsigmoid],
    "tanh": [nn.Tanh(), F.tanh, torch.tanh, lambda x: x.tanh()],
    "hardtanh": [nn.Hardtanh(-0.5, 2.0), lambda x: F.hardtanh(x, -0.5, 2.0),
                 lambda x: F.hardtanh(x, -0.5, max_val=2.0)],
    "hardswish": [nn.Hardswish(), F.hardswish],
    "softplus": [nn.Softplus(2.0, 15.0), lambda x: F.softplus(x, 2.0, 15.0),
                 lambda x: F.softplus(x, beta=2.0, threshold=15.0)],
    "softsign": [nn.Softsign(), F.softsign],
    "logsigmoid": [nn.LogSigmoid(), F.logsigmoid],
    "softshrink": [nn.Softshrink(0.7), lambda x: F.softshrink(x, 0.7), lambda x: F.softshrink(x, lambd=0.7)],
    "hardshrink": [nn.Hardshrink(0.3), lambda x: F.hardshrink(x, 0.3),
                   lambda x: torch.hardshrink(x, 0.3), lambda x: x.hardshrink(0.3)],
    "tanhshrink": [nn.Tanhshrink(), F.tanhshrink],
    "sin": [torch.sin, lambda x: x.sin()],
    "cos": [torch.cos, lambda x: x.cos()],
    "exp2": [torch.exp2, torch.special.exp2, lambda x: x.exp2()],
    "log2": [torch.log2, lambda x: x.log2()],
    "pow": [lambda x: torch.pow(x, 2), lambda x: x.pow(2)],
    "sign": [torch.sign, torch.sgn, lambda x: x.sign()],
    **{f.__name__: [partial(f, number=0.75)] for f in COMPARISONS.values()},
    "threshold": [nn.Threshold(0.3, -2.7), lambda x: F.threshold(x, 0.3, -2.7),
                  lambda x: torch.threshold(x, 0.3, -2.7)],
    "exp": [torch.exp, lambda x: x.exp()],
    "erf": [torch.erf, torch.special.erf, lambda x: x.erf()],
    "reciprocal": [torch.reciprocal, lambda x: x.reciprocal()],
    "sqrt": [torch.sqrt, lambda x: x.sqrt()],
    "rsqrt": [torch.rsqrt, lambda x: x.rsqrt()],
    "log": [torch.log, lambda x: x.log()],
    "prelu": [nn.PReLU(), lambda x: F.prelu(x, torch.full((1,), 0.25))],
}  # fmt: skip
FIXED = {
    "default": rule(data_in_width=12, data_in_frac_width=8, data_out_width=12, data_out_frac_width=8,
                    weight_width=8, weight_frac_width=4)
}  # fmt: skip


@pytest.mark.parametrize("name", [*FORMS])
def test_forms(name: str) -> None:
    """Modules, functions and methods give the same op with the same attributes, and the same bits."""
    x = torch.linspace(0.2, 4.0, 40)
    x = x if name in ("log", "log2", "sqrt", "rsqrt", "reciprocal") else x - 2
    results, given = [], []
    for form in FORMS[name]:
        model = Of(form)
        if name == "prelu" and not isinstance(form, nn.Module):
            model = Weighted()
        graph, info = quantised(model, x, config=FIXED)
        (entry,) = info["nodes"].items()
        assert entry[1]["op"] == name
        module = graph.meta_of(graph.node(entry[0])).module
        assert isinstance(module, Quantized)
        given.append({k: v for k, v in module.arithmetic.attributes.items() if k != "inplace"})
        results.append(graph.model(x))
        assert (results[-1] - model(x).float()).abs().max() <= 1 / 32, "far from the float model"
    assert all(torch.equal(results[0], other) for other in results)
    assert all(other == given[0] for other in given)


class Weighted(nn.Module):
    """PReLU as a function of a stored weight."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.full((1,), 0.25))

    def forward(self, x: Tensor) -> Tensor:
        return F.prelu(x, self.slope)


def test_forms_cover_every_op() -> None:
    names = {op.name for op in default_catalogue() if op.hardware and op.hardware.module in MODULES}
    # What only a pass makes has no form; functions that are all alike are in test_named_functions.
    assert names - {"inverse_power", "table"} == set(FORMS) | set(NAMED)
    assert annotated(Of(nn.ReLU6()), torch.ones(3)) is not None


MODULES = {"fixed_function", "fixed_pieces", "fixed_prelu"}
