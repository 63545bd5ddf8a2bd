"""Element types of ONNX as those of torch, which has none for integers of 4 bits that computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mase_hw.importers.graph import Refused

DTYPES = {
    1: torch.float32,
    2: torch.uint8,
    3: torch.int8,
    4: torch.uint16,
    5: torch.int16,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
    10: torch.float32,
    11: torch.float64,
    16: torch.float32,
}
"""Element types of the format -> of torch; halves are taken as what they are a part of, float32."""
BFLOAT16 = 16
NIBBLES = {21: torch.uint8, 22: torch.int8}
"""Those of 4 bits -> of the :class:`Nibbles` that stand for them."""
_TYPES = {
    torch.uint8: (8, False),
    torch.int8: (8, True),
    torch.uint16: (16, False),
    torch.int16: (16, True),
    torch.int32: (32, True),
}


class Nibbles(Tensor):
    """Stored integers of 4 bits, each in a byte of torch; what only moves them gives such again."""

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call a function; a result of another type than bytes is an ordinary tensor."""
        plain: Any = super()  # torch gives it no types
        made = plain.__torch_function__(func, types, args, kwargs or {})
        bytes_still = not isinstance(made, Nibbles) or made.dtype in NIBBLES.values()
        return made if bytes_still else made.as_subclass(Tensor)


def zeros_of(number: int) -> Tensor | None:
    """0 as an integer of an element type; None if quantisation has no such type."""
    dtype = NIBBLES.get(number) or DTYPES.get(number)
    if dtype not in _TYPES or dtype is torch.int32:
        return None
    zero = torch.zeros((), dtype=dtype)
    return zero.as_subclass(Nibbles) if number in NIBBLES else zero


def bits_of(value: Tensor) -> tuple[int, bool]:
    """Width and sign of the integers of a file.

    Raises:
        Refused: If these are no integers that quantisation has.
    """
    if value.dtype not in _TYPES:
        raise Refused(f"quantised numbers of the type {value.dtype}", "quantise to integers of 4, 8 or 16 bits")
    width, signed = _TYPES[value.dtype]
    return (4 if isinstance(value, Nibbles) else width), signed


def name_of(value: Tensor) -> str:
    """The element type, as a message says it."""
    if value.dtype not in _TYPES:
        return str(value.dtype)
    width, signed = bits_of(value)
    return f"{'' if signed else 'u'}int{width}"


def integers_like(values: Tensor, like: Tensor) -> Tensor:
    """Whole numbers as integers of the type that others have."""
    made = values.to(like.dtype)
    return made.as_subclass(Nibbles) if isinstance(like, Nibbles) else made


def nibbles(raw: bytes, dims: Sequence[int], number: int) -> Tensor:
    """Integers of 4 bits, of which two are in a byte, the first in its low bits.

    Raises:
        Refused: If the bytes are not as many as the shape needs.
    """
    count = math.prod(dims)
    if len(raw) != (count + 1) // 2:
        raise Refused(f"{len(raw)} bytes of data are not what {list(dims)} numbers of 4 bits take")
    pairs = np.frombuffer(raw, np.uint8)
    codes = np.stack([pairs & 15, pairs >> 4], axis=1).reshape(-1)[:count].reshape(dims)
    whole = codes if NIBBLES[number] is torch.uint8 else (codes.astype(np.int8) ^ 8) - 8
    return torch.from_numpy(np.ascontiguousarray(whole)).as_subclass(Nibbles)
