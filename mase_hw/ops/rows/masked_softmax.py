"""Softmax of the elements that a mask allows, as attention needs it.

Scores are ``(batch, queries, heads, keys)``, token-major. What a mask excludes takes no part in the maximum and the sum
and is exactly 0; a row of which nothing takes part is 0, as in ``scaled_dot_product_attention``. Everything else is as
in :mod:`mase_hw.ops.rows.softmax`, with its bounds and its order: they hold for the elements that take part.

Masks may be combined: ``causal`` (a key at most as far from the end as the query), ``allowed`` (rows of bits that are
stored) and, in ``softmax_where``, data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import handle_torch_function, has_torch_function

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, ScaledUse
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, ExponentTables, Params, Tensor3, port
from mase_hw.layouts import Layout
from mase_hw.nn.streaming import AFTER, BEFORE
from mase_hw.numerics import as_carrier, carrier, magnitude, straight_through, symbolic
from mase_hw.opdef import Arithmetic, Case, Golden, Hardware, Latency, Memory, OpDef, Request
from mase_hw.ops._slots import SLOT, not_in_turn, positions, slot_port, slots_of
from mase_hw.ops._tensors import by_token, lanes_within
from mase_hw.ops.rows._masked_cases import Builder, cases, cases_where
from mase_hw.ops.rows._rows import evaluate, tiles_of
from mase_hw.ops.rows.softmax import (
    SOFTMAX,
    divisor_factor,
    exponentials,
    gradient_of,
    result_format,
    rows_latency,
    shares,
    shares_cast,
    stepped,
)
from mase_hw.steps import Steps
from mase_hw.streams import Stream

TRUTH = FixedFormat(1, 0, signed=False)
"""Of a mask."""
Row = TypeVar("Row", int, str)
_MOST = 1 << 20
"""Bits of a stored mask."""


def masked_softmax(
    input: Tensor, scale: float = 1.0, causal: bool = False, allowed: Sequence[str] = (), hold: int = 1
) -> Tensor:
    """Softmax of ``scale * input`` over the keys that a mask allows.

    Args:
        input: Scores ``(batch, queries, heads, keys)``.
        scale: Above 0.
        causal: Query ``t`` of ``T`` takes keys ``s <= t + S - T`` of ``S``.
        allowed: Rows of bits as hexadecimal numbers, bit ``s`` for key ``s``, over and over; see :func:`rows_of`.
        hold: Rows in turn that take the same bits.
    """
    more: dict[str, Any] = {"scale": scale, "causal": causal, "allowed": allowed, "hold": hold}
    if has_torch_function((input,)):  # tracing records one call
        result: Tensor = handle_torch_function(masked_softmax, (input,), input, **more)
        return result
    return _float(input * scale, attends(input.shape, more, input.device))


def softmax_where(
    input: Tensor,
    mask: Tensor,
    scale: float = 1.0,
    causal: bool = False,
    allowed: Sequence[str] = (),
    hold: int = 1,
) -> Tensor:
    """The same where a mask that is data, and broadcasts to the scores, is not 0 as well."""
    more: dict[str, Any] = {"scale": scale, "causal": causal, "allowed": allowed, "hold": hold}
    if has_torch_function((input, mask)):  # tracing records one call
        result: Tensor = handle_torch_function(softmax_where, (input, mask), input, mask, **more)
        return result
    return _float(input * scale, attends(input.shape, more, input.device) & (mask != 0))


def _float(x: Tensor, keep: Tensor) -> Tensor:
    # Not -inf, whose row without any other element would have no gradient.
    found = functional.softmax(x.masked_fill(~keep, torch.finfo(x.dtype).min), -1)
    return torch.where(keep, found, torch.zeros_like(found))


def attends(shape: Sequence[int], given: Mapping[str, Any], device: Any = None) -> Tensor:
    """Which keys take part, in the shape of the scores.

    Args:
        shape: Of the scores, ``(batch, queries, heads, keys)``.
        given: ``causal``, ``allowed`` and ``hold`` of :func:`masked_softmax`; ``queries`` if a batch has several times
            as many; ``positions`` of the queries if they are not one sequence.
        device: Of the result.
    """
    queries, keys = shape[-3], shape[-1]
    keep = torch.ones(*shape, dtype=torch.bool, device=device)
    if given.get("causal"):
        period = int(given.get("queries", queries))
        place = torch.arange(keys, device=device) - keys + period
        at = torch.tensor(given.get("positions", range(queries)), device=device)
        keep &= place <= (at % period)[:, None, None]
    if given.get("allowed"):
        table = torch.tensor([[bool(int(row, 16) >> s & 1) for s in range(keys)] for row in given["allowed"]])
        if len(table) > 1 and "positions" in given:
            return keep & table.to(device)[list(given["positions"])][:, None]
        held = table.to(device).repeat_interleave(int(given.get("hold", 1)), 0)
        keep &= held.repeat(keep.numel() // held.numel(), 1).reshape(shape)
    return keep


def rows_of(keep: Tensor, decode: bool = False) -> dict[str, Any]:
    """A mask ``(batch, queries, heads, keys)`` as ``causal``, ``allowed`` and ``hold``, with as few rows as do.

    With ``decode`` one that excludes what comes after a query, and more, as a sliding window does, is causal as well.
    What every frame has in its place is what is known of a batch, so all of it counts.
    """
    _, queries, heads, keys = keep.shape
    before = (torch.arange(keys) <= torch.arange(queries)[:, None] + keys - queries)[:, None]
    if bool((keep.to("cpu") == before).all()):
        return {"causal": True}
    if bool(keep.all()):
        return {}
    rows = keep.reshape(-1, keys).tolist()
    words = [f"{sum(1 << s for s, bit in enumerate(row) if bit):x}" for row in rows]
    words, hold = repeated(words, heads)
    more = {"causal": True} if decode and not bool((keep.to("cpu") & ~before).any()) else {}
    return {**more, "allowed": tuple(words), "hold": hold}


def repeated(rows: list[Row], heads: int) -> tuple[list[Row], int]:
    """As few rows as do, over and over, and how many in turn each stands for."""
    hold = next(n for n in (len(rows), heads, 1) if all(row == rows[i // n * n] for i, row in enumerate(rows)))
    rows = rows[::hold]
    period = next(n for n in range(1, len(rows) + 1) if len(rows) % n == 0 and rows == rows[:n] * (len(rows) // n))
    return rows[:period], 1 if period == len(rows) == 1 else hold


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (N, T, H, S)``, and ``data_in_1`` of the same shape if the mask is data -> ``data_out_0``."""
    x, target = t["data_in_0"], result_format(a)
    if symbolic(x):
        return {"data_out_0": as_carrier(x, carrier(magnitude(target)))}
    handed: dict[str, Tensor] = {}
    given: Mapping[str, Any] = a.attributes
    if SLOT in t:
        before = t[BEFORE].tolist() if BEFORE in t else ()
        places, following = positions(t[SLOT], a.attributes["slots"], x.shape[-1], before)
        handed[AFTER] = torch.tensor(following)
        given = {**given, "positions": [position for _, position in places]}
    keep = attends(x.shape, given, x.device)
    if "data_in_1" in t:
        keep = keep & (t["data_in_1"] != 0)
    out = _exact(a, x.detach(), keep)
    if x.requires_grad and out.is_floating_point():
        low = torch.finfo(torch.float64).min
        smooth = gradient_of(SOFTMAX, a, x, -1, lambda v: v.masked_fill(~keep, low))
        out = straight_through(out, torch.where(keep, smooth, torch.zeros_like(smooth)))
    return {"data_out_0": as_carrier(out, carrier(magnitude(target))), **handed}


def _exact(a: Arithmetic, x: Tensor, keep: Tensor) -> Tensor:
    size = x.shape[-1]
    source = a.formats["data_in_0"]
    x = as_carrier(x, carrier(1 << source.width))  # of a distance
    most = x.masked_fill(~keep, source.min_mantissa).amax(-1, keepdim=True)
    plan = exponentials(a, size, SOFTMAX)
    terms = evaluate(plan, (most - x).clamp(min=0)).masked_fill_(~keep, 0)
    total = as_carrier(terms, carrier(size << plan.frac)).sum(-1, keepdim=True).clamp(min=1)
    return shares_cast(a, plan, terms, total, size)


class MaskedSoftmaxParams(Params, frozen=True):
    """Parameters of ``fixed_masked_softmax``; ``allowed`` counts rows of a stored mask."""

    data_in_0: Tensor3
    data_in_1: Tensor3
    slot: Tensor3
    data_out_0: Tensor3
    has_mask: bool
    has_slot: bool
    causal: bool
    queries: int
    allowed: int
    hold: int
    cast: Cast
    exponent: ExponentTables
    divisor_factor: int
    share_levels: int

    def absent(self) -> tuple[str, ...]:
        """The mask may be stored, or causal, and all queries of one sequence."""
        return (*([] if self.has_mask else ["data_in_1"]), *super().absent())

    def fmt(self, name: str) -> FixedFormat:
        """The format of a port; the result has a step of its own."""
        return stepped(super().fmt(name), self.divisor_factor if name == "data_out_0" else 1)

    def stream(self, name: str) -> Stream:
        """The stream of a port, several queries in a beat."""
        folded = super().stream(name)
        return folded if name == SLOT else by_token(folded)

    def attributes(self) -> Attributes:
        """The mask that is not data, and what its memory depends on."""
        own: Attributes = {"causal": self.causal, "queries": self.queries, "hold": self.hold}
        if self.has_slot:
            own["slots"] = slots_of(self.slot.fmt)
        scores, shape = self.stream("data_in_0"), self.data_in_0.shape
        own["shapes"], own["parallelism"] = {"data_in_0": shape}, {"data_in_0": scores.lane_dims}
        own["layouts"] = {"data_in_0": scores.layout or Layout.row_major(shape)}
        return own


def build(r: Request) -> MaskedSoftmaxParams:
    """Parameters for a node."""
    a, shape = r.arithmetic, r.shapes["data_in_0"]
    allowed = tuple(a.attributes.get("allowed", ()))
    if len(allowed) * shape[-1] > _MOST:
        raise UnsupportedError(
            "the stored mask is too large",
            node=r.node,
            field="allowed",
            got=f"{len(allowed)} rows of {shape[-1]} bits",
            expected=f"at most {_MOST} bits",
            remedy="use is_causal, which is counted and not stored, or the same mask for all heads",
        )
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shape)
    beside = r.layouts["data_in_0"].beside if "data_in_0" in r.layouts else 1
    if "data_in_1" in r.parallelism:
        lanes_within(r.node, "data_in_1", r.parallelism["data_in_1"], shape)
    causal, queries = bool(a.attributes.get("causal", False)), int(a.attributes.get("queries", shape[-3]))
    slots, hold = r.slots if causal else 1, int(a.attributes.get("hold", 1))
    stored, held = _stored(a, shape, beside)
    one = math.prod(shape[:-2]) == queries == shape[-1] and (
        len(allowed) < 2 or (len(allowed), hold) == (queries, shape[-2])
    )
    if slots > 1 and (beside > 1 or not one):
        raise not_in_turn(
            "a softmax of sequences in turn is that of whole sequences, with a stored row for each position",
            node=r.node,
            got=f"{queries} queries of {shape[-1]} keys, {beside} in a beat, {len(allowed)} rows of bits for {hold}",
            expected="as many queries as keys, and rows that all heads share, one in a beat",
        )
    plan = exponentials(a, shape[-1], SOFTMAX)
    return MaskedSoftmaxParams(
        data_in_0=port(shape, a.formats["data_in_0"], lanes, 1, beside),
        data_in_1=port(shape, a.formats.get("data_in_1", TRUTH), lanes, 1, beside),
        slot=slot_port(slots, queries),
        data_out_0=port(shape, result_format(a), lanes, 1, beside),
        has_mask="data_in_1" in a.formats,
        has_slot=slots > 1,
        causal=causal,
        queries=queries,
        allowed=len(stored),
        hold=held,
        cast=a.modes,
        exponent=plan.parameters(r.fast),
        divisor_factor=divisor_factor(a, plan.frac, shape[-1])[0],
        share_levels=r.levels or 1,
    )


def _memories(a: Arithmetic) -> dict[str, Memory]:
    size = a.attributes["shapes"]["data_in_0"][-1]
    found = exponentials(a, size, SOFTMAX).memories()
    beside = a.attributes["layouts"]["data_in_0"].beside
    rows, _ = _stored(a, a.attributes["shapes"]["data_in_0"], beside)
    if rows:
        lanes = a.attributes["parallelism"]["data_in_0"][0]
        tiles = range(tiles_of(size * beside, lanes))
        words = tuple(row >> tile * lanes & ((1 << lanes) - 1) for row in rows for tile in tiles)
        found["ALLOWED_FILE"] = Memory(words, lanes, "which keys take part")
    return found


def _stored(a: Arithmetic, shape: Sequence[int], beside: int) -> tuple[list[int], int]:
    """The rows of bits in the order of the memory, and how many rows in turn take each.

    Args:
        a: With the rows of every query and head.
        shape: ``(..., queries, heads, keys)``.
        beside: Queries of a beat, whose rows are one: bit ``key * beside + query``.
    """
    rows, hold = [int(row, 16) for row in a.attributes.get("allowed", ())], int(a.attributes.get("hold", 1))
    if beside == 1 or not rows:
        return rows, hold
    queries, heads, keys = math.prod(shape[:-2]), shape[-2], shape[-1]

    def beat(first: int, head: int) -> int:
        found = (rows[((first + query) * heads + head) // hold % len(rows)] for query in range(beside))
        return sum((row >> key & 1) << key * beside + query for query, row in enumerate(found) for key in range(keys))

    return repeated([beat(first, head) for first in range(0, queries, beside) for head in range(heads)], heads)


def _positions(
    attributes: Attributes, shapes: Mapping[str, tuple[int, ...]], arriving: int, mask: int
) -> tuple[int, int]:
    """As many queries of a beat as arrive."""
    queries, size = int(attributes.get("queries", shapes["data_in_0"][1])), math.prod(shapes["data_in_0"][2:])
    several = 1 if size == 1 or queries % arriving else arriving
    return several, several


def _latency(p: MaskedSoftmaxParams) -> Latency:
    return rows_latency(p, *([Steps.registered(p.data_in_0.beats, 2, pipe=0)] if p.has_mask else []))


def _op(
    name: str, function: Callable[..., Tensor], cases: Callable[[Builder], list[Case]], inputs: tuple[str, ...]
) -> OpDef:
    compute: Golden = golden
    return OpDef(
        name=name,
        mase_type="module_related_func",
        functions=(function,),
        attributes=("scale", "causal", "allowed", "hold"),
        golden=compute,
        scaled=ScaledUse("shares", shares),
        formats=(*inputs, "data_out_0"),
        hardware=Hardware(
            module="fixed_masked_softmax",
            params=MaskedSoftmaxParams,
            build=build,
            static=(SLOT,),
            latency=_latency,
            cases=lambda: cases(build),
            follows_input=True,
            fast=True,
            levels=1,
            layout="row_major",
            positions=_positions,
            memories=_memories,
        ),
    )


OPS = (
    _op("masked_softmax", masked_softmax, cases, ("data_in_0",)),
    _op("softmax_where", softmax_where, cases_where, ("data_in_0", "data_in_1")),
)
"""With a mask that is known, and with one that is data."""
