"""Integers of up to 126 bits as two tensors of int64, for what no dtype of torch holds.

A :class:`Wide` stands where a golden has a tensor of mantissas: it has the operators and the functions that goldens
use, and no others. All arithmetic is modulo ``2**126``; :func:`mase_hw.numerics.carrier` sees to it that nothing is as
large. It is many times slower than int64, and taken only where a bound asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

LOW = 62
"""Bits of the lower tensor, which is not negative: two of them can be added."""
HALF = LOW // 2
"""Bits of a limb in a product."""
_LOW_MASK, _HALF_MASK = (1 << LOW) - 1, (1 << HALF) - 1
BITS = 64 + LOW
"""Of both, the sign included."""
LIMIT = 1 << (BITS - 1)
"""The largest magnitude."""
WIDE = torch.complex128
"""What a :class:`Wide` has as its ``dtype``: of torch's own the one of two numbers of 64 bits; no tensor has it."""

_PARTS = frozenset({"__getitem__", "expand", "flatten", "permute", "reshape", "transpose", "unflatten", "view"})
_PARTS |= {"chunk", "narrow", "split", "squeeze", "unbind", "unsqueeze"}
"""Methods that only move elements."""


@dataclass(frozen=True, eq=False)
class Wide:
    """The integers ``high * 2**62 + low``.

    Args:
        high: int64 of any shape.
        low: int64 of the same shape, from 0 to ``2**62 - 1``.
    """

    high: Tensor
    low: Tensor

    dtype = WIDE
    requires_grad = False

    @classmethod
    def of(cls, x: Tensor | Wide | int) -> Wide:
        """Integers of any dtype, or one of any size."""
        if isinstance(x, Wide):
            return x
        if isinstance(x, int):
            return cls.listed([x], ())
        x = x.to(torch.int64)
        return cls(x >> LOW, x & _LOW_MASK)

    @classmethod
    def listed(cls, values: Sequence[int], shape: Sequence[int], device: torch.device | None = None) -> Wide:
        """Python integers in a shape."""
        parts = [(v >> LOW, v & _LOW_MASK) for v in values]
        made = torch.tensor(parts, dtype=torch.int64, device=device).reshape(*shape, 2)
        return cls(made[..., 0], made[..., 1])

    def integers(self) -> list[int]:
        """The elements as Python integers, row by row."""
        pairs = zip(self.high.flatten().tolist(), self.low.flatten().tolist(), strict=True)
        return [(high << LOW) + low for high, low in pairs]

    def to(self, dtype: torch.dtype) -> Tensor:
        """As a tensor of a dtype that holds them, by the caller's choice."""
        return self.narrowed(0, True).to(dtype)

    @property
    def shape(self) -> torch.Size:
        """Of both tensors."""
        return self.high.shape

    @property
    def device(self) -> torch.device:
        """Of both tensors."""
        return self.high.device

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _PARTS:
            raise AttributeError(f"integers of two tensors have no {name}")
        return lambda *given, **named: _on_parts(getattr(Tensor, name), (self, *given), named)

    def __getitem__(self, at: Any) -> Wide:
        return Wide(self.high[at], self.low[at])

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, object] | None = None
    ) -> Any:
        if func.__name__ in _FUNCTIONS:
            return _FUNCTIONS[func.__name__](*args)
        return _on_parts(func, args, kwargs or {}) if func.__name__ in _MOVES else NotImplemented

    def __neg__(self) -> Wide:
        return _carried(-self.high, -self.low)

    def __add__(self, other: Tensor | Wide | int) -> Wide:
        other = Wide.of(other)
        return _carried(self.high + other.high, self.low + other.low)

    def __sub__(self, other: Tensor | Wide | int) -> Wide:
        other = Wide.of(other)
        return _carried(self.high - other.high, self.low - other.low)

    def __lshift__(self, bits: int) -> Wide:
        if bits >= LOW:
            zero = torch.zeros_like(self.low)
            return Wide(self._last() << (bits - LOW) if bits < BITS else zero, zero)
        return Wide((self.high << bits) | (self.low >> (LOW - bits)), (self.low << bits) & _LOW_MASK)

    def __rshift__(self, bits: int) -> Wide:
        if bits >= LOW:
            return Wide.of(self.high >> min(bits - LOW, 63))
        return Wide(self.high >> bits, ((self.high << (LOW - bits)) | (self.low >> bits)) & _LOW_MASK)

    def __mul__(self, other: Tensor | Wide | int) -> Wide:
        if isinstance(other, int) and other > 0 and other & (other - 1) == 0:
            return self << (other.bit_length() - 1)
        total: Wide | None = None
        factors = Wide.of(other)._limbs()
        for i, a in enumerate(self._limbs()):
            # What is above has a weight of 2**155 and more.
            for j, b in enumerate(factors[: 5 - i]):
                part = Wide.of(a * b) << HALF * (i + j)
                total = part if total is None else total + part
        assert total is not None  # there are always limbs
        return total

    def _last(self) -> Tensor:
        """The last 64 bits."""
        return (self.high << LOW) | self.low

    def _limbs(self) -> list[Tensor]:
        """Of 31 bits, the lowest first; the last one has the sign."""
        low, high = self.low, self.high
        return [low & _HALF_MASK, low >> HALF, high & _HALF_MASK, high >> HALF]

    __radd__ = add_ = __add__
    __rmul__ = mul_ = __mul__
    sub_ = __sub__

    def __lt__(self, other: Tensor | Wide | int) -> Tensor:
        return (self - other).high < 0

    def __ge__(self, other: Tensor | Wide | int) -> Tensor:
        return (self - other).high >= 0

    def sum(self, *given: Any, **named: Any) -> Wide:
        """As of a tensor."""
        return self._summed(Tensor.sum, given, named)

    def cumsum(self, *given: Any, **named: Any) -> Wide:
        """As of a tensor."""
        return self._summed(Tensor.cumsum, given, named)

    def _summed(self, function: Callable[..., Tensor], given: Sequence[Any], named: dict[str, object]) -> Wide:
        high, low, middle = (function(x, *given, **named) for x in (self.high, self.low & _HALF_MASK, self.low >> HALF))
        return _carried(high, low) + (Wide.of(middle) << HALF)

    def clamp(self, *, min: int) -> Wide:
        """Nothing below a number."""
        return _either(self >= min, self, min)

    def narrowed(self, drop: int, saturate: bool) -> Tensor:
        """The integers without their last bits, in int64.

        Args:
            drop: How many bits, from 0. The last bit that stays then says whether any of them or itself was set (a
                sticky bit), so that every rounding that drops two bits more is that of the exact integer.
            saturate: Whether what int64 does not hold becomes the nearest that it does, or an integer of the same sign
                that differs by a multiple of ``2**63``.
        """
        whole = self >> drop
        lost = (whole << drop) - self
        x, negative, ends = whole._last(), whole.high < 0, torch.iinfo(torch.int64)
        if saturate:
            x = torch.where(x >> LOW == whole.high, x, torch.where(negative, ends.min, ends.max))
        else:
            x = torch.where(negative, x | ends.min, x & ends.max)
        return x | ((lost.high | lost.low) != 0).to(torch.int64)


def _carried(high: Tensor, low: Tensor) -> Wide:
    """From any lower part."""
    return Wide(high + (low >> LOW), low & _LOW_MASK)


def _either(where: Tensor, x: Any, y: Any) -> Wide:
    x, y = Wide.of(x), Wide.of(y)
    return Wide(torch.where(where, x.high, y.high), torch.where(where, x.low, y.low))


def _on_parts(function: Callable[..., Any], given: Sequence[Any], named: dict[str, object]) -> Any:
    """A function that moves elements, on both tensors of each argument."""

    def part(x: Any, name: str) -> Any:
        if isinstance(x, list | tuple):
            return type(x)(part(each, name) for each in x)
        return getattr(x, name) if isinstance(x, Wide) else x

    high, low = (function(*part(tuple(given), name), **named) for name in ("high", "low"))
    return Wide(high, low) if isinstance(high, Tensor) else tuple(map(Wide, high, low))


def _differ(x: Any, y: Any) -> Tensor:
    differ: Tensor = (Wide.of(x) - y).narrowed(BITS, False) != 0
    return differ


_MOVES = frozenset({"cat", "stack", "tril"})
"""Functions that only move elements, by name."""
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: Wide.of(x) + y,
    "addcmul": lambda x, y, z: Wide.of(x) + Wide.of(y) * z,
    "mul": lambda x, y: Wide.of(x) * y,
    "sub": lambda x, y: Wide.of(x) - y,
    "maximum": lambda x, y: _either(Wide.of(x) >= y, x, y),
    "minimum": lambda x, y: _either(Wide.of(x) < y, x, y),
    "eq": lambda x, y: ~_differ(x, y),
    "ne": _differ,
    "lt": lambda x, y: Wide.of(x) < y,
    "le": lambda x, y: Wide.of(y) >= x,
    "gt": lambda x, y: Wide.of(y) < x,
    "ge": lambda x, y: Wide.of(x) >= y,
    "where": _either,
}
"""Functions of numbers, by name; the operators of a tensor come here as well."""
