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

import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor

from mase_hw.formats import FixedFormat, Overflow
from mase_hw.nn.recurrence import GATES, beside, joined
from mase_hw.numerics import as_carrier, carrier, cast, magnitude, quantize
from mase_hw.numerics.exact_sums import exact_linear, exact_matmul
from mase_hw.numerics.observing import note_look_up
from mase_hw.numerics.wide import WIDE, Wide
from mase_hw.opdef import Arithmetic
from mase_hw.ops import functions
from mase_hw.ops._functions import BY_NAME, TABLE_BITS, address, entry, key_of, table

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
    return functions.golden(TABLES[memory], a, {"data_in_0": x})["data_out_0"]


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


_ALIGNED = 1 << 16
"""Elements of the input that are brought to the gates' order at once."""
Size = tuple[int, int]
"""The largest magnitude of mantissas, and their fraction width."""


class Cell:
    """One time step of a layer, in the carrier of the largest number that a step has.

    Gate by gate, so that what belongs together lies together; what is added to each other has one fraction width from
    the start, in the input parts, the weights and the bias.

    Args:
        a: The arithmetic.
        t: Mantissas of ``data_in_0 (..., T, H * G)``, ``weight`` and the optional ``bias``; these two may have a first
            dimension more, along which those of the data differ in their weights.
        replaced: Tables by the name of their memory, in place of those that the formats ask for: their entries, or
            those of one for each index of the first dimension of the data, one after the other.
    """

    def __init__(
        self, a: Arithmetic, t: Mapping[str, Tensor], replaced: Mapping[str, Tensor] = MappingProxyType({})
    ) -> None:
        self.a, self.tables, self.inner = a, tables(a), squashed(a)
        self.units, self.gates = t["weight"].shape[-1], GATES[a.attributes["kind"]]
        self.name = state_of(a.formats)
        given, state, weight = (_size(a.formats[name]) for name in ("data_in_0", self.name, "weight"))
        dot = (self.units * state[0] * weight[0], state[1] + weight[1])
        self.sums = [_sum(given, dot)]
        shifts = [(self.sums[0][1] - given[1], self.sums[0][1] - dot[1])] * self.gates
        bias_shift = 0
        if a.attributes["kind"] == "gru":
            sigmoid, tanh = _size(self.inner["sigmoid"]), _size(self.inner["tanh"])
            new = _sum(given, _product(sigmoid, _sum(dot, _size(a.formats["bias"])) if "bias" in t else dot))
            mixed = _product((1 << sigmoid[1], sigmoid[1]), _sum(tanh, state))
            self.sums += [new, mixed]
            shifts[2] = (new[1] - given[1], new[1] - sigmoid[1] - dot[1])
            bias_shift = new[1] - sigmoid[1]
        elif a.attributes["kind"] == "lstm":
            sigmoid, tanh = _size(self.inner["sigmoid"]), _size(self.inner["tanh"])
            self.sums += [_sum(_product(sigmoid, _size(a.formats["cell"])), _product(sigmoid, tanh))]
        self.bound = max(bound for bound, _ in self.sums)
        self.carrier = carrier(self.bound, wide=True)
        self.given_shifts = [left for left, _ in shifts]
        lefts = [left for _, left in shifts]
        whole = torch.int64 if self.carrier is WIDE else self.carrier
        carrier(weight[0] << max(lefts))  # a weight is no wider than that
        self.weight = self._aligned(t["weight"], -2, lefts, whole)
        self.bias = None
        if "bias" in t:
            self.bias = _left(as_carrier(t["bias"], self.carrier), bias_shift - a.formats["bias"].frac_width)
            if t["bias"].dim() == 2:
                self.bias = self.bias.reshape(len(t["bias"]), *[1] * (t["data_in_0"].dim() - 3), -1)
        self.replaced = replaced
        stored = dict(replaced)
        if not (torch.is_grad_enabled() and any(value.requires_grad for value in t.values())):
            keys = {name: key_of(TABLES[name], at) for name, at in self.tables.items()}
            stored = {name: table(key) for name, key in keys.items() if key[2].width <= TABLE_BITS} | stored
        self.stored = {name: as_carrier(entries, whole) for name, entries in stored.items()}

    def _aligned(self, x: Tensor, dim: int, shifts: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Gate by gate what stands unit by unit, in a carrier, each gate shifted left by so many bits."""
        by_gate = torch.unflatten(x, dim, (self.units, self.gates)).transpose(dim - 1, dim)
        if dtype is WIDE:
            factors = Wide.listed([1 << left for left in shifts], (self.gates, *[1] * -dim), x.device)
            aligned: Tensor = (Wide.of(by_gate) * factors).flatten(dim - 1, dim)
            return aligned
        found = torch.empty(by_gate.shape, dtype=dtype, device=x.device).copy_(by_gate).flatten(dim - 1, dim)
        at = 0
        for left, gates in itertools.groupby(shifts):
            size = len(list(gates)) * self.units
            if left:
                found.narrow(dim, at, size).mul_(1 << left)
            at += size
        return found

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
            t[name].squeeze(-2).expand(*t["data_in_0"].shape[:-2], self.units).clone()
            for name in ("data_in_1", "data_in_2" if "data_in_2" in t else "data_in_1")
        )
        formats = self.a.formats
        h = self._cast(h, formats["data_in_1"].frac_width, self.name)
        return h, self._cast(c, formats["data_in_2"].frac_width, "cell") if "data_in_2" in t else h

    def _steps(self, x: Tensor, before: Sequence[Tensor] | Tensor | None) -> tuple[Tensor, Tensor]:
        step = {"rnn_relu": self._relu, "rnn_tanh": self._tanh, "gru": self._gru, "lstm": self._lstm}
        h = as_carrier(x.new_zeros(*x.shape[:-2], self.units), self.carrier)
        c, states, cells = h, [], []
        if before is not None:
            h, c = (as_carrier(each, self.carrier) for each in (before[0], before[1]))
        run = step[self.a.attributes["kind"]]
        size = max(1, x.shape[-2] * _ALIGNED // max(1, x.numel()))
        for several in torch.split(x.movedim(-2, 0), size):
            for part in self._aligned(several, -1, self.given_shifts, self.carrier):
                found = run(part, h, c)
                h, c = (as_carrier(each, self.carrier) for each in found)
                states.append(found[0])
                cells.append(found[1])
        state = self.a.formats[self.name]
        cell = self.a.formats.get("cell", state)
        wide = torch.promote_types(carrier(magnitude(state)), carrier(magnitude(cell)))
        after = torch.stack([as_carrier(h, wide), as_carrier(c, wide)])
        if not self.a.attributes.get("cells"):
            return as_carrier(torch.stack(states, dim=-2), carrier(magnitude(state))), after
        out = self.a.formats["data_out_0"]
        both = (
            self._cast(torch.stack(of, dim=-2), fmt.frac_width, "data_out_0")
            for of, fmt in ((states, state), (cells, cell))
        )
        return beside(*(as_carrier(each, carrier(magnitude(out))) for each in both)), after

    def _dot(self, h: Tensor) -> Tensor:
        """``W h``, exact, ``(..., G * H)``."""
        if self.weight.dim() == 2:
            return as_carrier(exact_linear(h, self.weight, self.bound), self.carrier)
        found = exact_matmul(h.flatten(1, -2), self.weight.mT, self.bound)
        return as_carrier(found, self.carrier).reshape(*h.shape[:-1], -1)

    def _cast(self, exact: Tensor, frac: int, name: str) -> Tensor:
        overflow = Overflow.SATURATE if name in INSIDE else self.a.overflow
        return cast(exact, frac, self.a.formats[name], self.a.rounding, overflow, own=True)

    def _look(self, memory: str, x: Tensor) -> Tensor:
        at = self.tables[memory]
        if memory not in self.stored:
            return as_carrier(look(memory, at, x), self.carrier)
        place, size = address(at.formats["data_in_0"], x), 1 << at.formats["data_in_0"].width
        if memory in self.replaced:
            note_look_up(place)
            if len(self.stored[memory]) > size:
                place = place + torch.arange(len(x), device=x.device).reshape(-1, *[1] * (x.dim() - 1)) * size
        return as_carrier(entry(self.stored[memory], place), self.carrier)

    def _relu(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        exact = (self._dot(h) + x).clamp(min=0)
        return self._cast(exact, self.sums[0][1], self.name), c

    def _tanh(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        return self._look("TANH_FILE", self._cast(self._dot(h) + x, self.sums[0][1], "gate")), c

    def _gru(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        sums, two = self._dot(h), 2 * self.units
        gates = self._cast(sums[..., :two] + x[..., :two], self.sums[0][1], "gate")
        r, z = self._look("SIGMOID_FILE", gates).chunk(2, -1)
        hidden = sums[..., two:] if self.bias is None else sums[..., two:] + self.bias
        new = torch.addcmul(x[..., two:], r, hidden)
        n = self._look("TANH_FILE", self._cast(new, self.sums[1][1], "gate"))
        # (1 - z) * n + z * h
        one = self.inner["sigmoid"].frac_width
        frac = self.sums[2][1] - one
        n = _left(n, frac - self.inner["tanh"].frac_width)
        exact = torch.addcmul(_left(n, one), z, _left(h, frac - self.a.formats[self.name].frac_width) - n)
        return self._cast(exact, frac + one, self.name), c

    def _lstm(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        sigmoid, tanh, cell = (
            fmt.frac_width for fmt in (self.inner["sigmoid"], self.inner["tanh"], self.a.formats["cell"])
        )
        gates, two = self._cast(self._dot(h) + x, self.sums[0][1], "gate"), 2 * self.units
        i, f = self._look("SIGMOID_FILE", gates[..., :two]).chunk(2, -1)
        g, o = (
            self._look("TANH_FILE", gates[..., two : -self.units]),
            self._look("SIGMOID_FILE", gates[..., -self.units :]),
        )
        frac = self.sums[1][1]
        exact = torch.addcmul(i * _left(g, frac - sigmoid - tanh), f, _left(c, frac - sigmoid - cell))
        c = self._cast(exact, frac, "cell")
        short = cast(c, cell, self.inner["cell"], self.a.rounding, Overflow.SATURATE)
        out = o * self._look("CELL_TANH_FILE", short)
        return self._cast(out, sigmoid + tanh, self.name), c


def _left(x: Tensor, bits: int) -> Tensor:
    return x * (1 << bits) if bits else x


def _size(fmt: FixedFormat) -> Size:
    return magnitude(fmt), fmt.frac_width


def _product(a: Size, b: Size) -> Size:
    return a[0] * b[0], a[1] + b[1]


def _sum(a: Size, b: Size) -> Size:
    frac = max(a[1], b[1])
    return (a[0] << frac - a[1]) + (b[0] << frac - b[1]), frac
