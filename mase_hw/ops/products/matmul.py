"""Products of two streams: exact products and sums, one cast at the end.

Every product of two matrices of data, batched or not, is lowered to :func:`grouped_matmul`, whose operands come in the
order in which attention has them: token by token, all heads of a token together. The first operand is used as it comes;
the second one is written into a buffer and read by address, as a layer reads its weights.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function

from mase_hw.formats import FixedFormat, Overflow, ScaledFormat, ScaledUse, steps_of
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Params, Tensor3, port
from mase_hw.nn.streaming import AFTER
from mase_hw.numerics import cast, magnitude, straight_through
from mase_hw.numerics.exact_sums import exact_matmul
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._scaled import PRODUCT
from mase_hw.ops._slots import AHEAD, SLOT, caches, not_in_turn, sequences, slot_port, slots_of
from mase_hw.ops._tensors import lanes_within
from mase_hw.ops.products._schedule import Schedule
from mase_hw.steps import Steps
from mase_hw.streams import Stream


def cases(build: Callable[[Request], Any]) -> list[Case]:
    """One lane and many, inner size 1, uneven folds, shared matrices, other numbers of tokens than of rows."""

    def case(
        kind: str,
        name: str,
        a: tuple[int, int, int, int],
        b: tuple[int, int],
        lanes: tuple[int, int],
        formats: str = "s8.4 s8.4 s9.1",
        frames: int = 4,
        **attributes: int,
    ) -> Case:
        """``a`` is batch, tokens, heads, size; ``b`` is groups, and the other size of the matrix."""
        batch, tokens, heads, inner = a
        (groups, other), transposed, slots = b, kind == "rows", attributes.pop("slots", 1)
        attributes = {"causal": False, "transposed": transposed, **attributes}
        numbers = Arithmetic.read(formats, ("data_in_0", "data_in_1", "data_out_0"), attributes)
        rows, columns = (other, inner) if transposed else (inner, other)
        shapes = {
            "data_in_0": a,
            "data_in_1": (batch, rows, groups, columns),
            "data_out_0": (batch, tokens, heads, other),
        }
        request = Request(
            f"{kind}_{name}", numbers, shapes, {"data_in_0": lanes[:1], "data_out_0": lanes[1:]}, slots=slots
        )
        # Every other time a slot is full, and the sequence begins anew by itself.
        begun = sequences(slots, tokens, slots)
        given = {SLOT: np.concatenate((begun, begun % slots)).reshape(-1).tolist()} if slots > 1 else {}
        return Case(request.node, build(request), frames, given=given)

    rows, sums = functools.partial(case, "rows"), functools.partial(case, "sums")
    return [
        rows("even", (1, 4, 2, 8), (2, 4), (4, 2)),
        rows("uneven", (1, 5, 1, 7), (1, 5), (3, 2), "s8.4 s8.4 s9.1 half_up wrap"),
        rows("serial", (1, 3, 1, 4), (1, 3), (1, 1), "s8.4 s8.4 s9.1 floor"),
        rows("one_element", (1, 3, 2, 1), (1, 5), (1, 2), "s8.4 s8.4 s8.4"),
        rows("one_tile", (1, 6, 1, 4), (1, 3), (4, 3), "s8.4 s8.4 s9.1 trunc wrap", frames=6),
        rows("one_tile_more_banks", (2, 2, 1, 6), (1, 4), (2, 4)),
        rows("grouped", (2, 3, 4, 6), (2, 5), (4, 3)),
        rows("few_tokens", (3, 1, 1, 5), (1, 4), (2, 3)),
        rows("scalar", (1, 1, 1, 1), (1, 1), (1, 1), frames=16),
        rows("two_bit", (1, 4, 1, 9), (1, 4), (4, 4), "s2.0 s2.0 s4.0"),
        rows("wide", (1, 3, 1, 6), (1, 5), (3, 2), "s16.9 s16.9 s16.0"),
        rows("beyond_float64", (1, 3, 1, 5), (1, 4), (2, 2), "s30.4 s28.6 s32.-20 floor"),
        rows("causal", (1, 6, 1, 4), (1, 6), (2, 2), causal=True),
        rows("causal_uneven", (2, 5, 2, 5), (1, 7), (2, 3), "s8.4 s8.4 s9.1 half_up wrap", causal=True),
        rows("causal_serial", (1, 4, 2, 3), (2, 4), (1, 1), causal=True),
        rows("causal_one_tile", (1, 4, 1, 3), (1, 4), (3, 4), causal=True, frames=6),
        rows("causal_one_word", (2, 7, 1, 3), (1, 7), (3, 2), causal=True),
        rows("causal_last_token", (1, 1, 4, 5), (2, 6), (2, 4), causal=True),
        rows("causal_held", (1, 9, 2, 4), (2, 9), (4, 2), causal=True, frames=6),
        rows("causal_held_long", (1, 20, 1, 6), (1, 20), (6, 1), causal=True),
        sums("even", (1, 4, 2, 4), (2, 8), (2, 4), "u4.4 s8.4 s8.4"),
        sums("uneven", (1, 5, 1, 5), (1, 7), (2, 3), "u4.4 s8.4 s8.3 half_up wrap"),
        sums("serial", (1, 3, 1, 3), (1, 4), (1, 1), "s8.4 s8.4 s9.1 trunc wrap"),
        sums("serial_seven", (1, 5, 1, 7), (1, 2), (1, 1)),
        sums("one_row", (1, 3, 2, 1), (1, 5), (1, 2), "s8.4 s8.4 s8.4"),
        sums("one_tile", (1, 6, 1, 4), (1, 3), (4, 3), "s5.3 s5.3 s8.4", frames=6),
        sums("one_word", (2, 3, 1, 7), (1, 4), (2, 4), "u4.4 u4.4 u6.3"),
        sums("grouped", (2, 3, 4, 5), (2, 6), (3, 4)),
        sums("few_tokens", (3, 1, 2, 4), (1, 5), (3, 2)),
        sums("two_bit", (1, 4, 1, 5), (1, 9), (4, 4), "s2.0 s2.0 s3.0"),
        sums("wide", (1, 3, 1, 6), (1, 5), (3, 2), "s16.9 s16.9 s16.0 floor"),
        sums("beyond_float64", (1, 3, 1, 5), (1, 4), (2, 2), "s30.4 s28.6 s32.-20"),
        sums("causal", (1, 6, 1, 6), (1, 4), (2, 2), "u4.4 s8.4 s8.3", causal=True),
        sums("causal_uneven", (2, 5, 2, 7), (1, 5), (3, 2), "s8.4 s8.4 s9.1 floor", causal=True),
        sums("causal_serial", (1, 4, 2, 4), (2, 3), (1, 1), causal=True),
        sums("causal_one_tile", (1, 4, 1, 4), (1, 5), (4, 2), "s8.4 s8.4 s9.1 trunc wrap", causal=True),
        sums("causal_one_word", (2, 7, 1, 7), (1, 3), (2, 3), causal=True),
        sums("causal_held", (1, 9, 2, 9), (2, 4), (2, 4), causal=True, frames=6),
        sums("causal_held_short", (2, 14, 1, 16), (1, 6), (1, 3), causal=True),
        sums("causal_last_token", (1, 1, 4, 6), (2, 5), (4, 2), causal=True),
        rows("slots", (1, 5, 2, 4), (1, 5), (2, 2), causal=True, slots=2, frames=6),
        rows("slots_serial", (1, 4, 4, 3), (2, 4), (1, 1), causal=True, slots=4, frames=10),
        rows("slots_one_tile", (1, 3, 1, 4), (1, 3), (4, 3), causal=True, slots=2, frames=8),
        sums("slots", (1, 5, 2, 5), (1, 4), (2, 2), "u4.4 s8.4 s8.3", causal=True, slots=2),
        sums("slots_serial", (1, 4, 4, 4), (2, 3), (1, 1), causal=True, slots=4, frames=10),
        sums("slots_one_tile", (1, 4, 1, 4), (1, 5), (4, 2), causal=True, slots=2, frames=8),
        rows("causal_beyond_int64", (2, 5, 2, 6), (1, 5), (3, 2), "s35.20 s34.28 s32.46 half_away wrap", causal=True),
    ]


class MatmulParams(Params, frozen=True):
    """Parameters of ``fixed_matmul``; see the module for their meaning."""

    data_in_0: Tensor3
    data_in_1: Tensor3
    slot: Tensor3
    data_out_0: Tensor3
    transposed: bool
    causal: bool
    capacity: int
    has_slot: bool
    streamed: bool
    cast: Cast

    def stream(self, name: str) -> Stream:
        """The stream of a port, matrix by matrix."""
        folded = super().stream(name)
        if name == SLOT:
            return folded
        if name == "data_in_1" and self.streamed:
            steps, lanes = self.schedule.steps(0).steps, self.schedule.banks * folded.lanes
            return dataclasses.replace(folded, shape=(steps, lanes), parallelism=(lanes,), layout=None)
        outer = (self.matrices, self.rows if name == "data_in_1" else self.tokens)
        return dataclasses.replace(folded, shape=(*outer, *folded.shape[1:]), parallelism=(*folded.parallelism, 1))

    def streaming(self) -> MatmulParams:
        """The same where the words of the steps come one behind the other."""
        return msgspec.structs.replace(self, streamed=True)

    def attributes(self) -> Attributes:
        """Which way round the second operand is, and whether tokens see what comes after them."""
        return {"transposed": self.transposed, "causal": self.causal, "slots": slots_of(self.slot.fmt)}

    @property
    def rows(self) -> int:
        """Rows of a matrix."""
        return self.data_out_0.size[0] if self.transposed else self.data_in_0.size[0]

    @property
    def matrices(self) -> int:
        """Matrices a frame."""
        return self.data_in_1.size[2] // self.rows

    @property
    def tokens(self) -> int:
        """Tokens a matrix serves."""
        return self.data_in_0.size[2] // self.matrices

    @property
    def schedule(self) -> Schedule:
        """What is multiplied in which step."""
        return Schedule(
            transposed=self.transposed,
            causal=self.causal,
            matrices=self.matrices,
            tokens=self.tokens,
            heads=self.data_in_0.size[1],
            groups=self.data_in_1.size[1],
            rows=self.rows,
            banks=self.data_out_0.lanes[0] if self.transposed else self.data_in_0.lanes[0],
            words=(self.data_in_0 if self.transposed else self.data_out_0).tiles[0],
            capacity=self.capacity,
            slots=self.has_slot,
            streamed=self.streamed,
        )


def grouped_matmul(a: Tensor, b: Tensor, transposed: bool, causal: bool = False) -> Tensor:
    """Vectors times matrices, head by head; what every product of two streams is lowered to.

    Args:
        a: ``(batch, tokens, heads, inner)``, with ``inner = rows`` unless transposed.
        b: ``(batch, rows, groups, columns)``; ``heads`` is a multiple of ``groups``, and heads in succession share one.
        transposed: The rows of ``b`` are multiplied by the vectors of ``a`` (``columns = inner``), each of which gives
            ``rows`` results; else they are weighed by its elements and summed.
        causal: Token ``t`` of ``tokens <= rows`` sees the first ``rows - tokens + t + 1`` rows alone: its results for
            others are 0 if transposed, and its elements there count nothing if not.

    Returns:
        ``(batch, tokens, heads, rows)`` if transposed, else ``(batch, tokens, heads, columns)``.
    """
    if has_torch_function((a, b)):  # tracing records one call
        result: Tensor = handle_torch_function(grouped_matmul, (a, b), a, b, transposed, causal)
        return result
    x, y = _by_group(a, b)
    x = torch.tril(x, b.shape[1] - a.shape[1]) if causal and not transposed else x
    sums = torch.matmul(x, y.transpose(-1, -2) if transposed else y)
    return _by_token(torch.tril(sums, b.shape[1] - a.shape[1]) if causal and transposed else sums, a.shape[2])


def _by_group(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """``(batch, groups, heads of a group, tokens, inner)`` and ``(batch, groups, 1, rows, columns)``."""
    grouped = a.reshape(a.shape[0], a.shape[1], b.shape[2], -1, a.shape[3])
    return grouped.permute(0, 2, 3, 1, 4), b.permute(0, 2, 1, 3).unsqueeze(2)


def _by_token(sums: Tensor, heads: int) -> Tensor:
    return sums.permute(0, 3, 1, 2, 4).flatten(2, 3)


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0`` and ``data_in_1`` as :func:`grouped_matmul` takes them -> ``data_out_0``."""
    x, y = t["data_in_0"], t["data_in_1"]
    if SLOT in t:
        return _in_slots(a, t)
    transposed, causal = bool(a.attributes["transposed"]), bool(a.attributes.get("causal", False))
    seen = y.shape[1] - x.shape[1]
    frac = a.formats["data_in_0"].frac_width + a.formats["data_in_1"].frac_width
    left, right = _by_group(x, y)
    right = right.transpose(-1, -2) if transposed else right
    left = torch.tril(left, seen) if causal and not transposed else left
    acc = exact_matmul(left, right, x.shape[-1] * magnitude(a.formats["data_in_0"]) * magnitude(a.formats["data_in_1"]))
    acc = _by_token(torch.tril(acc, seen) if causal and transposed else acc, x.shape[2])
    out = cast(acc, frac, a.formats["data_out_0"], a.rounding, a.overflow)
    if not acc.dtype.is_floating_point and out.dtype != torch.int64 and any(v.requires_grad for v in t.values()):
        out = straight_through(out, _surrogate(a, x, y, frac))
    return {"data_out_0": out}


def _in_slots(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same of tokens of several sequences: a product by itself of each, by the rows that it sees."""
    x, y = t["data_in_0"], t["data_in_1"]
    seen, after = caches(y.flatten(0, 1), t[SLOT], a.attributes["slots"], y.shape[1], t)
    alone = dataclasses.replace(a, attributes={**a.attributes, "causal": False})
    found = golden(alone, {"data_in_0": x.flatten(0, 1).unsqueeze(1), "data_in_1": seen})["data_out_0"]
    return {"data_out_0": found.reshape(*x.shape[:3], -1), AFTER: after}


def _surrogate(a: Arithmetic, x: Tensor, y: Tensor, frac: int) -> Tensor:
    """The result in float64, for the gradient only: int64 carries none."""
    fmt = a.formats["data_out_0"]
    sums = grouped_matmul(x.double(), y.double(), a.attributes["transposed"], a.attributes.get("causal", False))
    result = sums * math.ldexp(1.0, fmt.frac_width - frac)
    return result.clamp(fmt.min_mantissa, fmt.max_mantissa) if a.overflow is Overflow.SATURATE else result


def _exact(formats: Mapping[str, FixedFormat], shapes: Mapping[str, tuple[int, ...]]) -> FixedFormat:
    """The narrowest format that holds every sum that these formats allow."""
    fx, fy = formats["data_in_0"], formats["data_in_1"]
    bound = shapes["data_in_0"][-1] * magnitude(fx) * magnitude(fy)
    return FixedFormat(bound.bit_length() + 1, fx.frac_width + fy.frac_width)


def _exact_integers(formats: Mapping[str, FixedFormat], shapes: Mapping[str, tuple[int, ...]]) -> FixedFormat:
    """The same of scaled integers, at the product of their scales."""
    (x,), (y,) = (steps_of(formats[name]) for name in ("data_in_0", "data_in_1"))
    return ScaledFormat.make(_exact(formats, shapes).width, x * y)


def _integers(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    """Of exact sums of products of two streams: numbers without a zero point, which would add up."""
    if any(fmt.zero_point for fmt in formats.values()):
        return "numbers without a zero point; requantise them"
    return PRODUCT.wrong(formats, attributes)


def build(r: Request) -> MatmulParams:
    """Parameters for a node; the lanes of the rows of ``data_in_1`` follow those of what they meet."""
    formats, shapes = r.arithmetic.formats, r.shapes
    p_in = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shapes["data_in_0"])
    p_out = lanes_within(r.node, "data_out_0", r.parallelism["data_out_0"], shapes["data_out_0"])
    if "data_in_1" in r.parallelism:
        lanes_within(r.node, "data_in_1", r.parallelism["data_in_1"], shapes["data_in_1"])
    transposed = bool(r.arithmetic.attributes["transposed"])
    (_, tokens, *_), rows = shapes["data_in_0"], shapes["data_in_1"][1]
    # A single token sees every row: nothing is left out, and rows may be held as where nothing ever is.
    causal = bool(r.arithmetic.attributes.get("causal", False)) and tokens > 1
    slots = r.slots if causal else 1
    if slots > 1 and (tokens != rows or shapes["data_in_0"][0] > 1):
        raise not_in_turn(
            "a product of sequences in turn is that of whole sequences",
            node=r.node,
            got=f"{tokens} tokens by {rows} rows, {shapes['data_in_0'][0]} of them per frame",
            expected="as many tokens as rows, one sequence per frame",
        )
    made = MatmulParams(
        data_in_0=port(shapes["data_in_0"], formats["data_in_0"], p_in),
        data_in_1=port(shapes["data_in_1"], formats["data_in_1"], p_in if transposed else p_out),
        slot=slot_port(slots, tokens),
        data_out_0=port(shapes["data_out_0"], formats["data_out_0"], p_out),
        transposed=transposed,
        causal=causal,
        # Of slots the first row of a sequence never waits for the end of the one before it, a frame of each other slot
        # earlier.
        capacity=2 * rows if slots == 1 else min(AHEAD, tokens * (slots - 1)),
        has_slot=slots > 1,
        streamed=False,
        cast=r.arithmetic.modes,
    )
    return made if slots > 1 else msgspec.structs.replace(made, capacity=made.schedule.enough)


def _steps(p: MatmulParams, positions: Sequence[int]) -> tuple[Steps, ...]:
    # Operand register, product register, adder tree, accumulator, output FIFO.
    pipe = 4 + (p.data_in_0.lanes[0] - 1).bit_length()
    tokens = len(positions) or p.tokens
    return dataclasses.replace(p.schedule, positions=tuple(positions), tokens=tokens).stages(pipe)


def _work(p: MatmulParams) -> int:
    other = p.data_in_0.size[0] if p.transposed else p.data_out_0.size[0]
    return p.matrices * p.data_in_0.size[1] * int(p.schedule.limits.sum()) * other


OPS = (
    OpDef(
        name="grouped_matmul",
        mase_type="builtin_func",
        functions=(grouped_matmul,),
        attributes=("transposed", "causal"),
        golden=golden,
        exact=_exact,
        scaled=ScaledUse("product", _integers, sums=_exact_integers, at_zero=lambda _: True),
        formats=("data_in_0", "data_in_1", "data_out_0"),
        hardware=Hardware(
            module="fixed_matmul",
            params=MatmulParams,
            build=build,
            latency=lambda p: Latency.from_steps(*_steps(p, ())),
            at_positions=_steps,
            static=(SLOT,),
            cases=lambda: cases(build),
            work=_work,
            multipliers=lambda p: p.data_in_0.lanes[0] * p.data_out_0.lanes[0],
            layout="row_major",
        ),
    ),
)
