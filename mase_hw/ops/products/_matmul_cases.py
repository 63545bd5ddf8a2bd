"""Parameter sets on which the catalogue test proves the product of two streams."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from mase_hw.layouts import Layout
from mase_hw.opdef import Arithmetic, Case, Request
from mase_hw.ops._slots import SLOT, sequences


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
        **asked: Any,
    ) -> Case:
        """``a`` is batch, tokens, heads, size; ``b`` is groups, and the other size of the matrix.

        What is asked besides: ``slots``; ``beside``, tokens and rows of the matrix in a beat; and attributes of the op.
        """
        slots, beside = asked.pop("slots", 1), asked.pop("beside", (1, 1))
        batch, tokens, heads, inner = a
        (groups, other), transposed = b, kind == "rows"
        attributes = {"causal": False, "transposed": transposed, **asked}
        numbers = Arithmetic.read(formats, ("data_in_0", "data_in_1", "data_out_0"), attributes)
        rows, columns = (other, inner) if transposed else (inner, other)
        shapes = {
            "data_in_0": a,
            "data_in_1": (batch, rows, groups, columns),
            "data_out_0": (batch, tokens, heads, other),
        }
        layouts = {f"data_in_{n}": Layout.tokens(shapes[f"data_in_{n}"], rows) for n, rows in enumerate(beside)}
        offered = {"data_in_0": lanes[:1], "data_out_0": lanes[1:]}
        request = Request(f"{kind}_{name}", numbers, shapes, offered, layouts, slots=slots)
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
        rows("beside", (1, 4, 2, 8), (2, 4), (4, 2), beside=(2, 2)),
        rows("beside_uneven", (2, 6, 2, 5), (1, 6), (3, 4), "s8.4 u8.4 s9.1 half_up wrap", beside=(3, 2)),
        rows("beside_grouped", (2, 4, 4, 6), (2, 6), (4, 3), beside=(2, 3)),
        rows("beside_one_tile", (1, 4, 1, 4), (1, 4), (4, 4), frames=6, beside=(4, 4)),
        rows("beside_one_element", (1, 4, 2, 1), (1, 8), (1, 4), "s8.4 s8.4 s8.4", beside=(4, 2)),
        rows("beside_two_bit", (1, 8, 1, 9), (1, 4), (4, 2), "s2.0 s2.0 s4.0 trunc", beside=(8, 1)),
        rows("beside_wide", (3, 1, 2, 5), (1, 4), (2, 2), "s16.9 s16.9 s16.0", beside=(1, 2)),
        sums("beside", (1, 4, 2, 8), (2, 4), (2, 4), "u4.4 s8.4 s8.4", beside=(2, 2)),
        sums("beside_uneven", (2, 6, 2, 6), (1, 7), (4, 3), "u4.4 s8.4 s8.3 floor wrap", beside=(3, 2)),
        sums("beside_grouped", (2, 2, 4, 6), (2, 5), (3, 4), beside=(2, 3)),
        sums("beside_one_tile", (1, 4, 1, 4), (1, 3), (4, 3), "s5.3 s5.3 s8.4", frames=6, beside=(4, 4)),
        sums("beside_one_element", (1, 4, 2, 6), (1, 1), (3, 1), beside=(2, 3)),
        sums("beside_one_word", (2, 6, 1, 8), (1, 4), (2, 4), "u4.4 u4.4 u6.3", beside=(6, 1)),
        sums("beside_wide", (1, 3, 1, 6), (1, 5), (2, 2), "s30.4 s28.6 s32.-20", beside=(1, 2)),
        rows("causal_beside", (1, 6, 2, 4), (1, 6), (2, 4), causal=True, beside=(2, 2)),
        rows(
            "causal_beside_uneven",
            (2, 4, 2, 5),
            (1, 8),
            (2, 6),
            "s8.4 s8.4 s9.1 half_up wrap",
            causal=True,
            beside=(2, 2),
        ),
        rows("causal_beside_one_tile", (1, 6, 1, 3), (1, 6), (3, 6), causal=True, frames=6, beside=(3, 3)),
        rows("causal_beside_held", (1, 18, 2, 4), (2, 18), (4, 2), causal=True, beside=(2, 2)),
        sums("causal_beside", (1, 6, 2, 6), (1, 4), (4, 2), "u4.4 s8.4 s8.3", causal=True, beside=(2, 2)),
        sums("causal_beside_uneven", (2, 4, 2, 8), (2, 5), (6, 2), "s8.4 s8.4 s9.1 floor", causal=True, beside=(2, 2)),
        sums("causal_beside_held", (1, 18, 2, 18), (2, 4), (2, 4), causal=True, beside=(2, 2)),
        sums("causal_beside_one_tile", (1, 4, 1, 4), (1, 5), (4, 2), causal=True, beside=(4, 4)),
        rows("causal_beyond_int64", (2, 5, 2, 6), (1, 5), (3, 2), "s35.20 s34.28 s32.46 half_away wrap", causal=True),
    ]
