"""The arithmetic of recurrent layers on mantissas: every sum exact, one cast at each place where a format begins.

The formats of a layer, beside those of its input part, its weights and its state:

- ``gate``: what goes into the tables of sigmoid and tanh, cast once from the exact sum of all parts,
- ``cell``: the cell state of an LSTM, cast once from ``f * c + i * g``,
- ``state``: its state, where the result has cell states besides; else the state has the format of the result.

What comes out of the tables has the width ``w`` of the state: sigmoids ``w`` fraction bits without a sign, tanh
``w - 1`` with one. The tanh of a cell state is looked up from its upper bits, at most :data:`TABLE_BITS`.

All casts round as the node does. What does not fit is treated as the node says where a number takes the format of the
state or of the result; everything inside saturates, since wrapping would make the sigmoid 1 a 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from mase_hw.exact_sums import exact_linear, exact_matmul
from mase_hw.formats import FixedFormat, Overflow
from mase_hw.nn.recurrence import GATES, beside, joined
from mase_hw.numerics import as_carrier, carrier, cast, magnitude, quantize
from mase_hw.opdef import Arithmetic
from mase_hw.ops import functions
from mase_hw.ops._functions import BY_NAME
from mase_hw.ops._lookup import TABLE_BITS

Look = Callable[[str, Arithmetic, Tensor], Tensor]
"""A table by the name of its memory, its arithmetic, and mantissas to look up."""
TABLES = {"SIGMOID_FILE": "sigmoid", "TANH_FILE": "tanh", "CELL_TANH_FILE": "tanh"}
"""The function in every memory of a layer."""
INSIDE = ("gate", "cell")
"""Formats that no result has: casts to them saturate."""


def look(memory: str, a: Arithmetic, x: Tensor) -> Tensor:
    """Output mantissas of a table; of one that hardware would not have, as exactly rounded as those it has."""
    source, target = a.formats["data_in_0"], a.formats["data_out_0"]
    if source.width > TABLE_BITS:
        exact = BY_NAME[TABLES[memory]](x.to(torch.float64) * source.scale, {})
        return quantize(exact, target, a.rounding, a.overflow)
    return functions.golden(TABLES[memory])(a, {"data_in_0": x})["data_out_0"]


def state_of(formats: Mapping[str, FixedFormat]) -> str:
    """Name of the format of the state."""
    return "state" if "state" in formats else "data_out_0"


def squashed(a: Arithmetic) -> dict[str, FixedFormat]:
    """Formats of what comes out of tables, ``sigmoid`` and ``tanh``, and of what a cell state is looked up from."""
    width, found = a.formats[state_of(a.formats)].width, {}
    found["sigmoid"], found["tanh"] = FixedFormat(width, width, signed=False), FixedFormat(width, width - 1)
    if "cell" in a.formats:
        cell = a.formats["cell"]
        bits = min(cell.width, max(TABLE_BITS, a.formats["gate"].width))  # hardware has no wider gates
        found["cell"] = FixedFormat(bits, cell.frac_width - (cell.width - bits))
    return found


def tables(a: Arithmetic) -> dict[str, Arithmetic]:
    """The tables of a layer: by the name of the memory, formats and cast modes."""
    kind, inner = a.attributes["kind"], squashed(a)

    def of(source: FixedFormat, target: FixedFormat, overflow: Overflow = Overflow.SATURATE) -> Arithmetic:
        return Arithmetic({"data_in_0": source, "data_out_0": target}, a.rounding, overflow)

    if kind == "rnn_relu":
        return {}
    if kind == "rnn_tanh":
        return {"TANH_FILE": of(a.formats["gate"], a.formats["data_out_0"], a.overflow)}
    found = {name: of(a.formats["gate"], inner[TABLES[name]]) for name in ("SIGMOID_FILE", "TANH_FILE")}
    if kind == "lstm":
        found["CELL_TANH_FILE"] = of(inner["cell"], inner["tanh"])
    return found


class Cell:
    """One time step of a layer.

    Args:
        a: The arithmetic.
        t: Mantissas of ``data_in_0 (..., T, H * G)``, ``weight`` and the optional ``bias``; these two may have a first
            dimension more, along which those of the data differ in their weights.
        look: Where tables are looked up.
    """

    def __init__(self, a: Arithmetic, t: Mapping[str, Tensor], look: Look = look) -> None:
        self.a, self.tables, self.inner, self.find = a, tables(a), squashed(a), look
        self.weight, self.bias = t["weight"], t.get("bias")
        if self.bias is not None and self.bias.dim() == 2:
            self.bias = self.bias.reshape(len(self.bias), *[1] * (t["data_in_0"].dim() - 3), -1)
        self.units, self.gates = self.weight.shape[-1], GATES[a.attributes["kind"]]
        self.name = state_of(a.formats)
        self.state = a.formats[self.name]
        self.dot_frac = self.state.frac_width + a.formats["weight"].frac_width
        self.dot_bound = self.units * magnitude(self.state) * magnitude(a.formats["weight"])
        self.weight = as_carrier(self.weight, carrier(self.dot_bound))  # once, not in every step

    def run(self, t: Mapping[str, Tensor], before: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The result, mantissas ``(..., T, H)`` or ``(..., T, H * 2)``, and what a hop after these begins with.

        Args:
            t: Mantissas of the input parts ``data_in_0 (..., T, H * G)``, of a layer that is streaming hops one after
                the other; of a layer that begins with states, those as ``data_in_1`` and ``data_in_2 (..., 1, H)``.
            before: What a hop begins with, ``h`` and ``c`` one above the other; zeros if None.
        """
        x = t["data_in_0"]
        if not self.a.attributes.get("streaming"):
            return self._steps(x, before if before is not None else self._given(t))
        states, after = self._steps(joined(x), before)
        return states.reshape(*x.shape[:-1], -1), after

    def _given(self, t: Mapping[str, Tensor]) -> tuple[Tensor, Tensor] | None:
        """State and cell state that a sequence is given, cast to their formats."""
        if "data_in_1" not in t:
            return None
        h, c = (
            t[name].squeeze(-2).expand(*t["data_in_0"].shape[:-2], self.units)
            for name in ("data_in_1", "data_in_2" if "data_in_2" in t else "data_in_1")
        )
        formats = self.a.formats
        h = self._cast(h, formats["data_in_1"].frac_width, self.name)
        return h, self._cast(c, formats["data_in_2"].frac_width, "cell") if "data_in_2" in t else h

    def _steps(self, x: Tensor, before: Sequence[Tensor] | Tensor | None) -> tuple[Tensor, Tensor]:
        step = {"rnn_relu": self._relu, "rnn_tanh": self._tanh, "gru": self._gru, "lstm": self._lstm}
        h = torch.zeros(*x.shape[:-2], self.units, dtype=carrier(magnitude(self.state)), device=x.device)
        c, states, cells = h, [], []
        if before is not None:
            h, c = as_carrier(before[0], h.dtype), before[1]
        for at in range(x.shape[-2]):
            parts = x[..., at, :].reshape(*h.shape, self.gates)
            h, c = step[self.a.attributes["kind"]](parts, h, c)
            states.append(h)
            cells.append(c)
        wide = torch.promote_types(h.dtype, c.dtype)
        after = torch.stack([as_carrier(h, wide), as_carrier(c, wide)])
        if not self.a.attributes.get("cells"):
            return torch.stack(states, dim=-2), after
        out = self.a.formats["data_out_0"]
        both = (
            self._cast(torch.stack(of, dim=-2), self.a.formats[name].frac_width, "data_out_0")
            for of, name in ((states, self.name), (cells, "cell"))
        )
        return beside(*(as_carrier(each, carrier(magnitude(out))) for each in both)), after

    def _sums(self, h: Tensor) -> Tensor:
        """``W h``, exact."""
        if self.weight.dim() == 2:
            return exact_linear(h, self.weight, self.dot_bound).reshape(*h.shape, self.gates)
        return exact_matmul(h.flatten(1, -2), self.weight.mT, self.dot_bound).reshape(*h.shape, self.gates)

    def _gate(self, x: Tensor, sums: Tensor, name: str = "gate") -> Tensor:
        """The sum of both parts, in the gate's format; or, for that of the state, as a relu leaves it."""
        source = self.a.formats["data_in_0"]
        exact, frac = _sum((x, source.frac_width, magnitude(source)), (sums, self.dot_frac, self.dot_bound))
        return self._cast(exact if name == "gate" else exact.clamp(min=0), frac, name)

    def _cast(self, exact: Tensor, frac: int, name: str) -> Tensor:
        overflow = Overflow.SATURATE if name in INSIDE else self.a.overflow
        return cast(exact, frac, self.a.formats[name], self.a.rounding, overflow)

    def _look(self, memory: str, x: Tensor) -> Tensor:
        return self.find(memory, self.tables[memory], x)

    def _relu(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        return self._gate(x, self._sums(h), self.name)[..., 0], c

    def _tanh(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        return self._look("TANH_FILE", self._gate(x, self._sums(h)))[..., 0], c

    def _gru(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        formats, sigmoid, tanh = self.a.formats, self.inner["sigmoid"], self.inner["tanh"]
        sums = self._sums(h)
        r, z = self._look("SIGMOID_FILE", self._gate(x[..., :2], sums[..., :2])).unbind(-1)
        hidden, frac, bound = sums[..., 2], self.dot_frac, self.dot_bound
        if self.bias is not None:
            fb = formats["bias"]
            bound_frac = max(frac, fb.frac_width)
            bound = (bound << (bound_frac - frac)) + (magnitude(fb) << (bound_frac - fb.frac_width))
            hidden, frac = _sum((hidden, frac, self.dot_bound), (self.bias, fb.frac_width, magnitude(fb)))
        gated, gated_bound = _product((r, magnitude(sigmoid)), (hidden, bound))
        source = formats["data_in_0"]
        new, frac = _sum(
            (x[..., 2], source.frac_width, magnitude(source)), (gated, frac + sigmoid.frac_width, gated_bound)
        )
        n = self._look("TANH_FILE", self._cast(new, frac, "gate"))
        one = 1 << sigmoid.frac_width
        mixed, mixed_bound = _product((one - z, one), (n, magnitude(tanh)))
        kept, kept_bound = _product((z, one), (h, magnitude(self.state)))
        exact, frac = _sum(
            (mixed, sigmoid.frac_width + tanh.frac_width, mixed_bound),
            (kept, sigmoid.frac_width + self.state.frac_width, kept_bound),
        )
        return self._cast(exact, frac, self.name), c

    def _lstm(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        sigmoid, tanh, cell = self.inner["sigmoid"], self.inner["tanh"], self.a.formats["cell"]
        gates = self._gate(x, self._sums(h))
        i, f, o = self._look("SIGMOID_FILE", gates[..., [0, 1, 3]]).unbind(-1)
        g = self._look("TANH_FILE", gates[..., 2])
        kept, kept_bound = _product((f, magnitude(sigmoid)), (c, magnitude(cell)))
        new, new_bound = _product((i, magnitude(sigmoid)), (g, magnitude(tanh)))
        exact, frac = _sum(
            (kept, sigmoid.frac_width + cell.frac_width, kept_bound),
            (new, sigmoid.frac_width + tanh.frac_width, new_bound),
        )
        c = self._cast(exact, frac, "cell")
        short = cast(c, cell.frac_width, self.inner["cell"], self.a.rounding, Overflow.SATURATE)
        out, _ = _product((o, magnitude(sigmoid)), (self._look("CELL_TANH_FILE", short), magnitude(tanh)))
        return self._cast(out, sigmoid.frac_width + tanh.frac_width, self.name), c


Bounded = tuple[Tensor, int]
"""Mantissas, and their largest magnitude."""
Aligned = tuple[Tensor, int, int]
"""Mantissas, their fraction width, and their largest magnitude."""


def _product(a: Bounded, b: Bounded) -> Bounded:
    """The exact product of two tensors, element by element."""
    bound = a[1] * b[1]
    dtype = carrier(bound)
    return as_carrier(a[0], dtype) * as_carrier(b[0], dtype), bound


def _sum(a: Aligned, b: Aligned) -> tuple[Tensor, int]:
    """The exact sum of two tensors, and its fraction width: the finer of the two."""
    frac = max(a[1], b[1])
    up_a, up_b = frac - a[1], frac - b[1]
    dtype = carrier((a[2] << up_a) + (b[2] << up_b))
    x, y = as_carrier(a[0], dtype), as_carrier(b[0], dtype)
    return (x * (1 << up_a) if up_a else x) + (y * (1 << up_b) if up_b else y), frac
