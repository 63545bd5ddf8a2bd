"""Functions of one value that torch has under one name, against mpmath: in tables, in pieces, and in models."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import pytest
import torch
from mpmath import mpf
from torch import Tensor, nn

import mase_hw
from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.ops._functions import FUNCTIONS

from . import test_functions as common

INFINITY = mpf("inf")


def within(function: Callable[[mpf], mpf], low: float, high: float) -> Callable[[mpf], mpf]:
    """Beyond the ends of its domain a function has the value that it has there."""
    return lambda x: function(min(max(x, mpf(low)), mpf(high)))


def pole(function: Callable[[mpf], mpf], poles: dict[float, mpf]) -> Callable[[mpf], mpf]:
    return lambda x: next((value for at, value in poles.items() if x == at), None) or function(x)


def whole(function: Callable[[mpf], mpf], value: mpf) -> Callable[[mpf], mpf]:
    """The poles of the gamma function and its relatives."""
    return lambda x: value if x <= 0 and x == int(x) else function(x)


above = float("inf")
# By the definitions in PyTorch's documentation; nothing here is shared with the package.
ORACLE: dict[str, Callable[..., mpf]] = {
    "expm1": mpmath.expm1,
    "log1p": within(pole(mpmath.log1p, {-1: -INFINITY}), -1, above),
    "log10": within(pole(mpmath.log10, {0: -INFINITY}), 0, above),
    "tan": mpmath.tan,
    "asin": within(mpmath.asin, -1, 1),
    "acos": within(mpmath.acos, -1, 1),
    "atan": mpmath.atan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "asinh": mpmath.asinh,
    "acosh": within(mpmath.acosh, 1, above),
    "atanh": within(pole(mpmath.atanh, {-1: -INFINITY, 1: INFINITY}), -1, 1),
    "sinc": mpmath.sincpi,
    "erfc": mpmath.erfc,
    "erfinv": within(pole(mpmath.erfinv, {-1: -INFINITY, 1: INFINITY}), -1, 1),
    "erfcx": lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
    "ndtr": common.phi,
    "ndtri": within(pole(lambda x: mpmath.sqrt(2) * mpmath.erfinv(2 * x - 1), {0: -INFINITY, 1: INFINITY}), 0, 1),
    "log_ndtr": lambda x: mpmath.log(common.phi(x)),
    "entr": lambda x: -x * mpmath.log(x) if x > 0 else -INFINITY if x < 0 else mpf(0),
    "lgamma": whole(lambda x: mpmath.log(abs(mpmath.gamma(x))), INFINITY),
    "digamma": whole(mpmath.digamma, -INFINITY),
    "i0": lambda x: mpmath.besseli(0, x),
    "i0e": lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)),
    "i1": lambda x: mpmath.besseli(1, x),
    "i1e": lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)),
    "bessel_j0": lambda x: mpmath.besselj(0, x),
    "bessel_j1": lambda x: mpmath.besselj(1, x),
    "bessel_y0": lambda x: mpmath.bessely(0, x) if x > 0 else -INFINITY,
    "bessel_y1": lambda x: mpmath.bessely(1, x) if x > 0 else -INFINITY,
    "airy_ai": mpmath.airyai,
    "spherical_bessel_j0": mpmath.sinc,
    "modified_bessel_i0": lambda x: mpmath.besseli(0, x),
    "modified_bessel_i1": lambda x: mpmath.besseli(1, x),
    "modified_bessel_k0": lambda x: mpmath.besselk(0, x) if x > 0 else INFINITY,
    "modified_bessel_k1": lambda x: mpmath.besselk(1, x) if x > 0 else INFINITY,
    "scaled_modified_bessel_k0": lambda x: mpmath.exp(x) * mpmath.besselk(0, x) if x > 0 else INFINITY,
    "scaled_modified_bessel_k1": lambda x: mpmath.exp(x) * mpmath.besselk(1, x) if x > 0 else INFINITY,
    "logit": within(pole(lambda x: mpmath.log(x / (1 - x)), {0: -INFINITY, 1: INFINITY}), 0, 1),
    "polygamma": lambda x, n: whole(lambda x: mpmath.psi(n, x), INFINITY)(x),
    "exponential": lambda x, base: mpmath.power(base, x),
}
ATTRIBUTES: dict[str, dict[str, Any]] = {"polygamma": {"n": 1}, "exponential": {"base": 1.7}}


def test_every_function_has_an_oracle() -> None:
    assert {function.name for function in FUNCTIONS} == {*ORACLE, *common.ORACLE}


@pytest.mark.parametrize("name", ORACLE)
def test_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every code of a table to the last bit, also beyond the domain; codes of 16 bits to 1 LSB."""
    monkeypatch.setitem(common.ORACLE, name, ORACLE[name])
    attributes = ATTRIBUTES.get(name, {})
    a = common.arithmetic(FixedFormat(8, 5), FixedFormat(12, 8), attributes=attributes)
    codes = common.all_codes(FixedFormat(8, 5))
    assert common.computed(name, a, codes) == [common.oracle(name, code, a) for code in codes.tolist()]
    for source in (FixedFormat(16, 15), FixedFormat(16, 13)):
        a = common.arithmetic(source, FixedFormat(16, 12), attributes=attributes)
        some = sorted({*range(-(1 << 15), 1 << 15, 1499), -(1 << source.frac_width) % (1 << 15), 0, -1, 1})
        found = common.computed(name, a, torch.tensor(some))
        assert all(abs(got - common.oracle(name, code, a)) <= 1 for got, code in zip(found, some, strict=True))


@pytest.mark.parametrize(("exponent", "low"), [(0.5, 0.0), (-1.5, 0.0), (1 / 3, 0.0), (-3, -1e300)])
def test_any_exponent(exponent: float, low: float) -> None:
    """A power with a fraction is one of numbers of 0 and more; below it has the value at 0."""
    source, target = FixedFormat(8, 4), FixedFormat(12, 8)
    a = Arithmetic({"data_in_0": source, "data_out_0": target}, attributes={"exponent": exponent})
    codes = common.all_codes(source).tolist()
    for got, code in zip(common.computed("pow", a, torch.tensor(codes)), codes, strict=True):
        x = max(mpf(code) / 16, mpf(low))
        value = (INFINITY if exponent < 0 else mpf(0)) if x == 0 else mpmath.power(x, exponent)
        assert got == max(-2048, min(2047, int(mpmath.nint(mpmath.re(value) * 256)) if value != INFINITY else 2047))


def test_a_power_of_a_negative_number_is_refused() -> None:
    examine = default_catalogue()["exponential"].check
    assert examine is not None
    with pytest.raises(UnsupportedError, match="not a number at"):
        examine("n", {"base": -2.0})


class Each(nn.Module):
    """One result for each function."""

    def __init__(self, calls: tuple[Callable[[Tensor], Tensor], ...]) -> None:
        super().__init__()
        self.calls = calls

    def forward(self, x: Tensor) -> list[Tensor]:
        return [call(x) for call in self.calls]


CALLS = (
    torch.log1p, torch.special.expm1, torch.atan, torch.arctan, lambda x: x.sinh(), torch.cosh, torch.tan, torch.asinh,
    torch.atanh, torch.asin, torch.sinc, torch.logit, torch.erfc, torch.lgamma, torch.special.erfcx, torch.exp2,
    lambda x: 2**x, lambda x: torch.pow(0.7, x), lambda x: x**0.7, lambda x: torch.polygamma(1, x + 0.5),
)  # fmt: skip
WRITTEN = (torch.log1p, torch.atan, torch.tan, torch.asin, torch.acos, torch.logit, *CALLS[16:19])
"""What the older exporter of PyTorch writes as ONNX, as one operation or several."""
FEW = (torch.log1p, lambda x: x.atan(), lambda x: 2**x)
"""A function, a method and an operator, which every form of a model can have."""


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["few", "all"])
@pytest.mark.parametrize("form", ["module", "program", "onnx"])
def test_in_a_model(form: str, few: bool, tmp_path: Path) -> None:
    """16 bits give 60 dB and more, the RTL is the quantised model, in each form in which a model comes."""
    calls = FEW if few else CALLS if form != "onnx" else WRITTEN
    model, frames = Each(calls).eval(), torch.rand(24, 7, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1
    source: Any = model
    if form == "program":
        source = torch.export.export(model, (frames[:1],))
    if form == "onnx":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, (frames[:1],), str(tmp_path / "m.onnx"), dynamo=False, opset_version=17)
        source = mase_hw.import_model(tmp_path / "m.onnx")
    width = {name: 16 for name in ("data_in_width", "weight_width", "data_out_width")}
    config = {"quantize": {"default": {"config": {"name": "fixed", **width}}}, "calibrate": {"method": "min_max"}}
    design = mase_hw.compile(source, frames[:1], config, out=tmp_path / "out", calibration=[frames], vectors=frames[:2])
    with torch.no_grad():
        for wanted, got in zip(model(frames), design.model(frames), strict=True):
            noise = (wanted.double() - got.double()).square().sum()
            assert wanted.double().square().sum() >= 10**6 * noise
    if form == "module":
        assert design.simulate(frames[:3], stalls=0.3).passed


def test_check_takes_them() -> None:
    assert mase_hw.check(Each((torch.log1p, torch.digamma)), torch.rand(1, 4) + 1).passed
