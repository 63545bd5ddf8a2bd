"""The LSTM of 8 bits as LiteRT's kernels compute it (``LstmStepInteger8x8_16``), from the input parts of its gates.

Its states are integers of 8 bits, its gates and cell states of 16. A gate is the input part plus the sum of products
with the state, brought to 12 fraction bits; sigmoid and tanh are those of :mod:`mase_hw.numerics.integer_functions`,
of 16 bits; products are rounded one by one. ``recurrence`` is the op of fixed point, which rounds exact sums once.

Sigmoid and tanh of 16 bits as tables, and how hardware has them: segments of a line, and what is left of it.

Both are odd about a point, so that half a table does: ``f(x) + f(-x)`` is the same for every ``x`` but 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import MULTIPLIER_BITS, FixedFormat, ScaledFormat, ScaledUse
from mase_hw.formats.attributes import Attributes, attributes_of
from mase_hw.hardware.params import Matrix, Params, Tensor3, port
from mase_hw.nn.recurrence import joined
from mase_hw.nn.streaming import AFTER, BEFORE
from mase_hw.numerics import carrier, magnitude, symbolic
from mase_hw.numerics.exact_sums import exact_linear
from mase_hw.numerics.integer_functions import Integers, Ints
from mase_hw.opdef import Arithmetic, Case, Hardware, Memory, OpDef, Request
from mase_hw.ops._tensors import lanes_within
from mase_hw.ops.recurrent.recurrence import idle_steps, state_latency

BITS, LOW_BITS = 16, 6
"""Bits of a number, and of a place within a segment."""
_HALF = 1 << (BITS - 1)


@functools.cache
def results(function: str, whole: int) -> Ints:
    """``logistic`` or ``tanh`` of every number of ``whole`` bits before the point, the most negative one first."""
    found: Ints = getattr(Integers(BITS), function)(np.arange(-_HALF, _HALF), whole)
    return found


def look_up(function: str, whole: int, x: Tensor) -> Tensor:
    """The same for the numbers of a tensor, int64."""
    return torch.from_numpy(results(function, whole)).to(x.device)[x + _HALF]


@dataclass(frozen=True)
class Split:
    """A table as ``fixed_split_lookup`` has it.

    Args:
        step: Bits that all results have as zeros.
        slope_bits: Of a slope.
        rest_bits: Of what is left.
        line: Slope and base of every segment.
        rest: What is left at every place.
    """

    step: int
    slope_bits: int
    rest_bits: int
    line: Memory
    rest: Memory

    @staticmethod
    @functools.cache
    def of(function: str, whole: int) -> Split:
        """The table of a function."""
        found = results(function, whole)
        above = found[1:_HALF][::-1]  # of -1, -2, ...
        above = np.append(above, found[0])
        above = (found[_HALF + 1] + found[_HALF - 1]) - above
        step = {"logistic": 1, "tanh": 2}[function]
        words = (-(-above >> step)).reshape(-1, 1 << LOW_BITS)
        slopes = np.maximum(words[:, -1] - words[:, 0], 0)
        rest = words - (slopes[:, None] * np.arange(1 << LOW_BITS) >> LOW_BITS)
        bases = rest.min(1)
        rest = rest - bases[:, None]
        width = BITS - step + 1
        slope_bits, rest_bits = (max(1, int(each.max()).bit_length()) for each in (slopes, rest))
        lines = (slopes << width) | (bases & ((1 << width) - 1))
        note = f"{function} of 16 bits, {whole} before the point"
        line = Memory(tuple(lines.tolist()), slope_bits + width, f"lines of {note}")
        return Split(step, slope_bits, rest_bits, line, Memory(tuple(rest.reshape(-1).tolist()), rest_bits, note))


GATES = 4
GATE_BITS = 3
"""Bits of a gate before the binary point."""
ATTRIBUTES = ("multiplier", "shift", "cell_frac", "clip", "out_multiplier", "out_shift", "streaming")
"""Multipliers of the four gates and their shifts, fraction bits of cell states, the largest of these (0: any), the
multiplier and the shift of results, and whether a frame goes on with the states of the one before."""
CELL_FRACS = range(9, 16)
Quadruple = tuple[int, int, int, int]
Pair = tuple[int, int]


def _dropped(x: Tensor, bits: Tensor | int) -> Tensor:
    """Half away from zero, int64."""
    bits = torch.as_tensor(bits, device=x.device)
    mask = (torch.ones_like(bits) << bits) - 1
    return (x >> bits) + ((x & mask) > (mask >> 1) + (x < 0).to(torch.int64)).to(torch.int64)


def _scaled(x: Tensor, multiplier: Tensor | int, shift: Tensor | int) -> Tensor:
    """``MultiplyByQuantizedMultiplier``: 31 bits of the shift are dropped, ties up, and then the others."""
    shift = torch.as_tensor(shift, device=x.device)
    first = shift.clamp(max=MULTIPLIER_BITS)
    once = (x * multiplier + (torch.ones_like(first) << (first - 1))) >> first
    return _dropped(once, shift - first)


def _saturated(x: Tensor) -> Tensor:
    return x.clamp(-(1 << (BITS - 1)), (1 << (BITS - 1)) - 1)


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (..., T, H * 4)`` of 12 fraction bits, ``weight (H * 4, H)`` -> ``data_out_0 (..., T, H)``."""
    x, weight, out = t["data_in_0"], t["weight"], a.formats["data_out_0"]
    given: dict[str, Any] = dict(a.attributes)
    units, result = weight.shape[1], carrier(magnitude(out))
    if symbolic(x):
        return {"data_out_0": x.new_zeros((*x.shape[:-1], units), dtype=result)}
    streaming = bool(given["streaming"])
    steps = joined(x) if streaming else x
    multiplier, shift = (
        torch.tensor(given[name], dtype=torch.int64, device=x.device).repeat(units) for name in ("multiplier", "shift")
    )
    bound = units * magnitude(a.formats["weight"]) * magnitude(out.centred)
    h = x.new_zeros((*steps.shape[:-2], units), dtype=torch.int64)
    c = h
    if t.get(BEFORE) is not None:
        h, c = (each.to(torch.int64) for each in t[BEFORE])
    frac, clip, zero = given["cell_frac"], given["clip"], out.zero_point
    found = []
    for part in steps.to(torch.int64).unbind(-2):
        sums = exact_linear(h, weight, bound).to(torch.int64)
        gates = torch.unflatten(_saturated(_scaled(sums, multiplier, shift) + part), -1, (units, GATES))
        i, f, o = (look_up("logistic", GATE_BITS, gates[..., k]) for k in (0, 1, 3))
        g = look_up("tanh", GATE_BITS, gates[..., 2])
        c = _saturated(_dropped(f * c, 15) + _dropped(i * g, 30 - frac))
        c = c.clamp(-clip, clip) if clip else c
        squashed = look_up("tanh", 15 - frac, c)
        h = _scaled(o * squashed, given["out_multiplier"], given["out_shift"]) + zero
        h = h.clamp(out.min_mantissa, out.max_mantissa) - zero
        found.append(h)
    states = (torch.stack(found, -2) + zero).to(result)
    if not streaming:
        return {"data_out_0": states}
    return {"data_out_0": states.reshape(*x.shape[:-1], units), AFTER: torch.stack([h, c])}


class IntegerLstmParams(Params, frozen=True):
    """Parameters of ``fixed_integer_lstm``; see the module for their meaning."""

    data_in_0: Tensor3
    weight: Matrix
    data_out_0: Tensor3
    data_out_0_zero_point: int
    multiplier: Quadruple
    shift: Quadruple
    cell_frac: int
    clip: int
    out_multiplier: int
    out_shift: int
    streaming: bool
    sigmoid: Pair
    tanh: Pair
    cell: Pair

    @property
    def tiles(self) -> int:
        """Beats of a state."""
        return self.weight.tiles[0]

    @property
    def rows(self) -> int:
        """Time steps a frame, of all its sequences."""
        return self.data_out_0.size[1] * self.data_out_0.size[2]

    def repetitions(self) -> dict[str, int]:
        """The weights come once for every time step."""
        return {"weight": self.rows}

    def attributes(self) -> Attributes:
        """What the arithmetic has beside formats."""
        return attributes_of({name: getattr(self, name) for name in ATTRIBUTES})


def _tables(cell_frac: int) -> dict[str, Split]:
    """The tables, by the beginning of the names of their memories."""
    return {
        "SIGMOID": Split.of("logistic", GATE_BITS),
        "TANH": Split.of("tanh", GATE_BITS),
        "CELL": Split.of("tanh", 15 - cell_frac),
    }


def _memories(a: Arithmetic) -> dict[str, Memory]:
    given: dict[str, Any] = dict(a.attributes)
    found = _tables(given["cell_frac"]).items()
    return {f"{name}_{part}_FILE": getattr(table, part.lower()) for name, table in found for part in ("LINE", "REST")}


def _build(r: Request) -> IntegerLstmParams:
    formats, shapes = r.arithmetic.formats, r.shapes
    given: dict[str, Any] = dict(r.arithmetic.attributes)
    lanes = lanes_within(r.node, "data_out_0", r.parallelism["data_out_0"], shapes["data_out_0"])
    # Input lanes follow from those of the result: the gates of a unit come together.
    lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shapes["data_in_0"])
    x, y = formats["data_in_0"], formats["data_out_0"]
    if (x.width, x.signed, y.width, y.signed) != (BITS, True, 8, True) or given["cell_frac"] not in CELL_FRACS:
        raise UnsupportedError(
            "an LSTM of integers cannot have these formats",
            node=r.node,
            got=f"{x} for gates, {y} for its result, {given['cell_frac']} fraction bits of cell states",
            expected=f"16 and 8 bits with a sign, {CELL_FRACS[0]} to {CELL_FRACS[-1]} fraction bits",
            remedy="take the op recurrence, which has any format of fixed point",
        )
    tables = _tables(int(given["cell_frac"]))
    widths: dict[str, Any] = {name.lower(): (table.slope_bits, table.rest_bits) for name, table in tables.items()}
    return IntegerLstmParams(
        data_in_0=port(shapes["data_in_0"], x, lanes * GATES),
        weight=port(shapes["weight"], formats["weight"], lanes, lanes * GATES, dims=2),
        data_out_0=port(shapes["data_out_0"], y, lanes),
        data_out_0_zero_point=y.zero_point,
        **widths,
        **given,
    )


def _pipe(p: IntegerLstmParams) -> int:
    """Operand register, product register, adder tree, accumulator, cell, memory of the state or output FIFO."""
    return 14 + math.ceil(math.log2(p.weight.lanes[0]))


def _pauses(p: IntegerLstmParams) -> int:
    """Time steps of a sequence behind which the next one waits for the state."""
    return p.data_out_0.size[1] - 1 + int(p.streaming)


def cases() -> list[Case]:
    """Tiles that divide and that do not, one lane, one unit, one time step, several sequences, every kind of shift."""

    def case(name: str, shape: tuple[int, ...], lanes: int, zero: int, frames: int = 3, **more: Any) -> Case:
        given: dict[str, Any] = {
            "multiplier": (1518500250, 1073741824, 1999999999, 1234567891), "shift": (37, 36, 35, 36),
            "cell_frac": 11, "clip": 0, "out_multiplier": 1610612736, "out_shift": 54, "streaming": False,
        }  # fmt: skip
        formats = {
            "data_in_0": FixedFormat(BITS, 12),
            "weight": FixedFormat(8, 0),
            "data_out_0": ScaledFormat.make(8, 1.0, zero),
        }
        a = Arithmetic(formats, attributes=attributes_of(given | more))
        units = shape[-1]
        shapes = {
            "data_in_0": (*shape[:-1], units * GATES),
            "weight": (units * GATES, units),
            "data_out_0": shape,
        }
        parallelism = {"data_in_0": (GATES * lanes,), "data_out_0": (lanes,)}
        return Case(name, _build(Request(name, a, shapes, parallelism)), frames, attributes=a.attributes)

    return [
        case("plain", (1, 5, 4), 2, -7),
        case("no_zero_point", (1, 3, 5), 2, 0, cell_frac=9),
        case("unit", (2, 4, 1), 1, 127, cell_frac=15, out_shift=53),
        case("large_ratios", (1, 3, 3), 3, -128, shift=(31, 33, 29, 26), out_shift=51),
        case("clipped", (1, 4, 6), 2, 3, clip=3000, cell_frac=12),
        case("small_ratios", (1, 2, 2), 1, 20, shift=(44, 62, 31, 40), cell_frac=13),
        case("dense", (1, 2, 17), 1, -3, 2, cell_frac=10),
        case("stream", (1, 1, 4), 2, 5, 8, streaming=True),
        case("stream_of_steps", (1, 3, 5), 2, -9, 4, streaming=True, cell_frac=14),
        case("fine_result", (1, 6, 5), 2, 0, cell_frac=9, out_shift=46),
        case("few_bits_twice", (1, 4, 6), 2, 4, out_multiplier=1500, out_shift=33),
    ]


OPS = (
    OpDef(
        name="integer_lstm",
        mase_type="module_related_func",
        attributes=ATTRIBUTES,
        stateful=lambda attributes: bool(attributes.get("streaming")),
        parameters=("weight",),
        golden=golden,
        formats=("data_in_0", "weight", "data_out_0"),
        scaled=ScaledUse("requantisation", lambda *_: ""),
        hardware=Hardware(
            module="fixed_integer_lstm",
            params=IntegerLstmParams,
            build=_build,
            latency=lambda p: state_latency(p.data_out_0, p.tiles, _pipe(p), _pauses(p)),
            cases=cases,
            work=lambda p: p.rows * p.weight.size[0] * p.weight.size[1],
            multipliers=lambda p: p.weight.lanes[0] * p.weight.lanes[1],
            idle=lambda p: p.data_out_0.size[2] * _pauses(p) * idle_steps(p.tiles, _pipe(p)),
            layout="row_major",
            static=("weight",),
            memories=_memories,
        ),
    ),
)
