"""Parameter sets on which the catalogue test proves the softmax with a mask."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from mase_hw.formats.attributes import attributes_of
from mase_hw.layouts import Layout
from mase_hw.opdef import Case, Request
from mase_hw.ops._cases import case
from mase_hw.ops._slots import SLOT, interleaved
from mase_hw.ops.rows.softmax import steps_case

Builder = Callable[[Request], Any]


def _case(
    build: Builder,
    name: str,
    shape: tuple[int, ...],
    lanes: int,
    formats: str,
    frames: int = 4,
    **attributes: Any,
) -> Case:
    slots, beside = attributes.get("slots", 1), attributes.pop("beside", 1)
    names = ("data_in_0", "data_out_0", "data_in_1")[: len([word for word in formats.split() if "." in word])]
    shapes = {tensor: shape for tensor in names if tensor != "data_out_0"}
    orders = {tensor: Layout.tokens(shape, beside) for tensor in shapes}
    made = case(
        lambda r: build(dataclasses.replace(r, layouts=orders)),
        name,
        shapes,
        lanes,
        formats,
        names,
        frames,
        **attributes,
    )
    # Any schedule: the timing does not depend on it.
    given = {SLOT: interleaved(frames * shape[1], slots)} if slots > 1 else {}
    own = attributes_of({k: v for k, v in attributes.items() if k in ("allowed", "hold", "scale")})
    return dataclasses.replace(made, attributes=own, given=given)


def cases(build: Builder) -> list[Case]:
    of = functools.partial(_case, build)
    return [
        of("causal", (1, 5, 2, 5), 1, "s8.4 u8.8", causal=True),
        of("causal_folded", (2, 3, 2, 7), 3, "s8.4 u8.8 half_up", causal=True),
        of("more_queries", (1, 6, 1, 4), 2, "u7.3 s8.7", causal=True),
        of("stored", (1, 4, 3, 7), 2, "s6.2 u8.8 floor wrap", allowed=("1b", "0", "7f", "40"), hold=3, scale=0.353),
        of("one_for_all", (1, 2, 2, 6), 6, "s16.12 s16.15", allowed=("2d",), scale=2.5),
        of("fast", (1, 3, 2, 6), 4, "s16.12 s16.15", fast=True, levels=2, causal=True),
        of("slots", (1, 5, 2, 5), 2, "s8.4 u8.8", causal=True, slots=2, frames=8),
        of(
            "slots_windows",
            (1, 4, 2, 4),
            3,
            "s8.4 u8.8",
            causal=True,
            slots=4,
            frames=12,
            allowed=("1", "3", "6", "c"),
            hold=2,
            scale=0.25,
        ),
        steps_case(build, (1, 5, 2, 5), 3, 0.0051, causal=True),
        of("beside", (1, 6, 2, 7), 3, "s8.4 u8.8 half_up", causal=True, beside=2),
        of("beside_more_keys", (2, 4, 1, 6), 2, "s8.4 u8.8", causal=True, beside=4),
        of("beside_stored", (1, 4, 3, 7), 2, "s6.2 u8.8", allowed=("1b", "0", "7f", "40"), hold=3, beside=2),
        of("beside_by_head", (2, 4, 2, 5), 5, "s6.2 u8.8", allowed=("1b", "3", "f", "10"), hold=1, beside=2),
        of("beside_one_for_all", (1, 4, 2, 6), 4, "s8.4 u8.8", allowed=("2d",), causal=True, beside=4),
        of("both", (2, 2, 2, 4), 1, "s8.4 u8.8", causal=True, allowed=("a", "d", "3", "4", "f", "0", "c", "7")),
    ]


def cases_where(build: Builder) -> list[Case]:
    of = functools.partial(_case, build)
    return [
        of("one_lane", (1, 4, 2, 3), 1, "s8.4 u8.8 u1.0", frames=5, scale=0.25),
        of("folded", (1, 2, 3, 7), 3, "s8.4 s8.6 u1.0 half_away wrap"),
        of("slots", (1, 6, 1, 6), 1, "s6.4 u8.8 s4.0", causal=True, slots=2, frames=8),
        of("causal", (1, 4, 2, 9), 2, "s14.11 u8.8 s2.0", causal=True, allowed=("1fe",)),
        of("beside", (1, 4, 2, 6), 2, "s8.4 u8.8 s2.0", allowed=("1f", "3e", "2d", "3f"), hold=2, scale=0.2, beside=2),
    ]
