"""The functions of one value that hardware computes from memory: one line each.

A function is any torch function of one value, evaluated in float64 on the CPU when a table is made, and in the gradient
of the quantised module. Beyond the ends of its domain it has the value that it has at the end, so ``log`` and ``rsqrt``
saturate and ``sqrt`` gives 0 below zero, and ``asin`` stays what it is at -1 and 1; an infinite value saturates like
any other.

A table over every input code: ``out = cast(f(x))``, exact by construction.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function_unary

from mase_hw.errors import FormatError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.formats.attributes import Attributes, attributes_of
from mase_hw.numerics import as_carrier, carrier, magnitude, quantize
from mase_hw.numerics.observing import note_look_up
from mase_hw.opdef import Arithmetic, Memory

RELATED, BUILTIN = "module_related_func", "builtin_func"


@dataclass(frozen=True)
class Function:
    """A function of one value.

    Args:
        name: ``mase_op``.
        f: The function on floats; takes the attributes as keyword arguments.
        targets: Module classes, functions and names of methods that are this function.
        attributes: Names of what ``f`` takes beside the value; those missing in a call have torch's default.
        kind: ``mase_type``.
    """

    name: str
    f: Callable[..., Tensor]
    targets: tuple[Any, ...]
    attributes: tuple[str, ...] = ()
    kind: str = RELATED

    def given(self, attributes: Mapping[str, object]) -> Attributes:
        """Those attributes of a node that the function takes."""
        return attributes_of({name: attributes[name] for name in self.attributes if name in attributes})

    def domain(self, attributes: Attributes) -> tuple[float, float]:
        """The least and the largest value for which the function is a number, infinite where there is none.

        Raises:
            ValueError: If it is nowhere a number, or also between two such values not everywhere.
        """
        return _domain(self, tuple(sorted(self.given(attributes).items())))

    def __call__(self, x: Tensor, attributes: Attributes) -> Tensor:
        """Values of the function, same shape and dtype; infinite where it has a pole."""
        x = x.clamp(*self.domain(attributes))
        result = self.f(x, **self.given(attributes))
        if bool(torch.isnan(result).any()):  # a pole with two signs, as of digamma: what is right of it
            right = torch.nextafter(x, torch.full_like(x, math.inf))
            result = torch.where(torch.isnan(result), self.f(right, **self.given(attributes)), result)
        return result


@functools.lru_cache(maxsize=256)
def _domain(function: Function, given: tuple[tuple[str, Any], ...]) -> tuple[float, float]:
    """By bisection; the places that are tried first are no whole numbers, at which some functions have poles."""

    def known(places: list[float]) -> list[bool]:
        values = function.f(torch.tensor(places, dtype=torch.float64), **dict(given))
        return (~torch.isnan(values)).tolist()

    def end(inside: float, outside: float) -> float:
        while (middle := (inside + outside) / 2) not in (inside, outside):
            inside, outside = (middle, outside) if known([middle])[0] else (inside, middle)
        return inside

    right = [1.1 * 2.0**k for k in range(-20, 21)]
    places = [-x for x in reversed(right)] + right
    found = known(places)
    numbers = [place for place, number in zip(places, found, strict=True) if number]
    first, after = (found.index(True), len(found) - found[::-1].index(True)) if numbers else (0, 0)
    if not all(found[first:after]) or not numbers:
        raise ValueError(f"not a number at {places[found.index(False)]:.4g}")
    low = end(places[first], places[first - 1]) if first else -math.inf
    high = end(places[after - 1], places[after]) if after < len(places) else math.inf
    return low, high


def _of(name: str, f: Callable[..., Tensor], *targets: Any, attributes: str = "") -> Function:
    """A function that has a module: what it is computed with, and all that it is called in a model."""
    return Function(name, f, tuple(dict.fromkeys(targets)), tuple(attributes.split()))


def _plain(names: str, attributes: str = "", f: Callable[..., Tensor] | None = None) -> Function:
    """A function that has one name everywhere: function of torch and math, method, and those that write in place.

    Args:
        names: The name, and others that it has, separated by a slash.
        attributes: As those of a function.
        f: What it is computed with, if not the function of torch.
    """
    name, *others = names.split("/")
    found: list[Any] = []
    for n in (form for each in (name, *others) for form in (each, f"{each}_")):
        found += [getattr(place, n) for place in (torch, torch.special, math) if hasattr(place, n)]
        found += [n] if hasattr(Tensor, n) else []
    return Function(name, f or found[0], tuple(dict.fromkeys(found)), tuple(attributes.split()), BUILTIN)


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """Both forms without the cancellation of ``1 + erf`` and ``1 + tanh`` far below zero."""
    if approximate == "tanh":
        return x * torch.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3))
    if approximate == "none":
        return x * torch.erfc(-x * math.sqrt(0.5)) / 2
    return F.gelu(x, approximate=approximate)  # which says what is wrong with it


def inverse_power(input: Tensor, scale: float = 1.0, offset: float = 1.0, exponent: float = 0.75) -> Tensor:
    """``(offset + scale * x) ** -exponent``, the factor of local response normalisation; below 0 what it is at 0.

    Args:
        input: Any shape.
        scale: Factor of the value.
        offset: What is added.
        exponent: Of the reciprocal.
    """
    if has_torch_function_unary(input):
        return handle_torch_function(inverse_power, (input,), input, scale, offset, exponent)
    return (offset + scale * input.clamp(min=0)) ** -exponent


def exponential(input: Tensor, base: float) -> Tensor:
    """``base ** x``.

    Args:
        input: Any shape.
        base: A positive number.
    """
    if has_torch_function_unary(input):
        return handle_torch_function(exponential, (input,), input, base)
    return torch.pow(base, input)


NAMES = """
exp expm1 exp2 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan asin/arcsin acos/arccos atan/arctan sinh cosh
asinh/arcsinh acosh/arccosh atanh/arctanh sinc erf erfc erfinv erfcx ndtr ndtri log_ndtr entr lgamma/gammaln digamma/psi
i0 i0e i1 i1e bessel_j0 bessel_j1 bessel_y0 bessel_y1 airy_ai spherical_bessel_j0 modified_bessel_i0 modified_bessel_i1
modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1
"""
"""Functions that have the same name wherever they stand, and after a slash other names of them."""

FUNCTIONS = (
    _of("sigmoid", torch.sigmoid, nn.Sigmoid, F.sigmoid, torch.sigmoid, torch.sigmoid_, torch.special.expit,
        "sigmoid", "sigmoid_"),
    _of("tanh", torch.tanh, nn.Tanh, F.tanh, torch.tanh, torch.tanh_, math.tanh, "tanh", "tanh_"),
    _of("elu", F.elu, nn.ELU, F.elu, F.elu_, attributes="alpha"),
    _of("selu", F.selu, nn.SELU, F.selu, F.selu_, torch.selu, torch.selu_),
    _of("celu", F.celu, nn.CELU, F.celu, F.celu_, torch.celu, torch.celu_, attributes="alpha"),
    _of("gelu", _gelu, nn.GELU, F.gelu, attributes="approximate"),
    _of("silu", F.silu, nn.SiLU, F.silu),
    _of("mish", F.mish, nn.Mish, F.mish),
    _of("hardswish", F.hardswish, nn.Hardswish, F.hardswish),
    _of("softplus", F.softplus, nn.Softplus, F.softplus, attributes="beta threshold"),
    _of("softsign", F.softsign, nn.Softsign, F.softsign),
    _of("logsigmoid", F.logsigmoid, nn.LogSigmoid, F.logsigmoid),
    Function("inverse_power", inverse_power, (inverse_power,), ("scale", "offset", "exponent")),
    _of("tanhshrink", F.tanhshrink, nn.Tanhshrink, F.tanhshrink),
    *(_plain(names) for names in NAMES.split()),
    _plain("logit", "eps"),
    _plain("polygamma", "n", lambda input, n: torch.polygamma(n, input)),
    Function("exponential", exponential, (exponential,), ("base",), kind=BUILTIN),
    Function("pow", torch.pow, (torch.pow, math.pow, operator.pow, torch.float_power, "pow", "pow_", "float_power"),
        ("exponent",), kind=BUILTIN),
)  # fmt: skip
"""Adding a function is one line, or one word, here, and its oracle in the tests."""

TABLE = Function("table", torch.clone, (), kind=BUILTIN)
"""No function of a model: what a table of codes says, which a source or a pass gives."""

BY_NAME = {function.name: function for function in (*FUNCTIONS, TABLE)}


TABLE_BITS = 12
"""Inputs of up to so many bits are looked up; wider ones are computed piecewise."""

CODES: Final = "codes"
"""Attribute: the result for every code of the input, by the bits of the code, where a source defines a function so."""
Key = tuple[str, tuple[tuple[str, Any], ...], FixedFormat, FixedFormat, Rounding, Overflow]
"""Function, its attributes, formats of input and output, cast modes: all that fixes a table."""


def key_of(name: str, a: Arithmetic) -> Key:
    """What a table of this function depends on; the attribute ``codes`` is a table, in place of the function."""
    given = tuple(sorted(BY_NAME[name].given(a.attributes).items()))
    if CODES in a.attributes:
        given = ((CODES, tuple(a.attributes[CODES])),)
    return (name, given, a.formats["data_in_0"], a.formats["data_out_0"], a.rounding, a.overflow)


def codes(fmt: FixedFormat) -> Tensor:
    """The mantissas of all codes of a format in order of address: the bits of a code, read as unsigned."""
    addresses = torch.arange(1 << fmt.width, dtype=torch.int64)
    return torch.where(addresses > fmt.mantissas.max_mantissa, addresses - (1 << fmt.width), addresses)


def values(name: str, attributes: Attributes, mantissas: Tensor, fmt: FixedFormat) -> Tensor:
    """The function in float64 at the values that mantissas of a format stand for; on the CPU."""
    with torch.no_grad():
        return BY_NAME[name](fmt.values(mantissas.to(torch.float64)), attributes)


@functools.lru_cache(maxsize=256)
def table(key: Key) -> Tensor:
    """Output mantissas by address, in their carrier.

    Raises:
        FormatError: If the function is infinite at a code and overflow wraps; a table of codes that does not fit.
    """
    name, given, source, target, rounding, overflow = key
    if given and given[0][0] == CODES:
        words = torch.tensor(given[0][1], dtype=torch.int64)
        low, high = target.min_mantissa, target.max_mantissa
        if len(words) != 1 << source.width or int(words.min()) < low or int(words.max()) > high:
            raise FormatError(
                "a table does not fit its formats",
                field=CODES,
                got=f"{len(words)} codes from {int(words.min())} to {int(words.max())}",
                expected=f"{1 << source.width} codes from {low} to {high}",
            )
        return as_carrier(words, carrier(magnitude(target)))
    exact = values(name, attributes_of(dict(given)), codes(source), source)
    return quantize(exact, target, rounding, overflow, name=name)


def look_up(key: Key, mantissas: Tensor, given: Tensor | None = None) -> Tensor:
    """The table's entries for mantissas of any shape, on their device; those of another table if one is given."""
    place = address(key[2], mantissas)
    if given is not None:
        note_look_up(place)
    return entry(table(key) if given is None else given, place)


def address(fmt: FixedFormat, mantissas: Tensor) -> Tensor:
    """The bits of codes of a format for a table, read as unsigned."""
    return mantissas.to(torch.int32) & ((1 << fmt.width) - 1)


def entry(values: Tensor, at: Tensor) -> Tensor:
    """The entries of a table of one dimension at places of any shape, on their device."""
    return values.to(at.device).index_select(0, at.reshape(-1)).reshape(at.shape)


def memory(key: Key) -> Memory:
    """The table as the hardware reads it."""
    width = key[3].width
    return Memory(tuple(int(v) & ((1 << width) - 1) for v in table(key).to(torch.int64).tolist()), width)


def entries(key: Key, stored: Memory) -> Tensor:
    """Output mantissas by address, in their carrier, of a memory as the hardware reads it."""
    target = key[3]
    words = torch.tensor(stored.words, dtype=torch.int64)
    mantissas = torch.where(words > target.mantissas.max_mantissa, words - (1 << target.width), words)
    return mantissas.to(table(key).dtype)
