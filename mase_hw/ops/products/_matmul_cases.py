"""Parameter sets on which the catalogue test proves the product of two streams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mase_hw.layouts import Layout
from mase_hw.opdef import Arithmetic, Case, Request
from mase_hw.ops._slots import SLOT, sequences


def cases(build: Callable[[Request], Any]) -> list[Case]:
    """One lane and many, inner size 1, uneven folds, shared matrices, other numbers of tokens than of rows."""

    def case(
        name: str,
        a: tuple[int, int, int, int],
        b: tuple[int, int],
        lanes: tuple[int, int],
        formats: str = "s8.4 s8.4 s9.1",
        frames: int = 4,
        slots: int = 1,
        beside: tuple[int, int] = (1, 1),
        **attributes: bool,
    ) -> Case:
        """``a`` is batch, tokens, heads, size; ``b`` is groups, and the other size of the matrix.

        ``beside`` are tokens, and rows of the matrix, in a beat.
        """
        batch, tokens, heads, inner = a
        groups, other = b
        numbers = Arithmetic.read(formats, ("data_in_0", "data_in_1", "data_out_0"), {"causal": False} | attributes)
        rows, columns = (other, inner) if attributes["transposed"] else (inner, other)
        shapes = {
            "data_in_0": a,
            "data_in_1": (batch, rows, groups, columns),
            "data_out_0": (batch, tokens, heads, other),
        }
        layouts = {f"data_in_{n}": Layout.tokens(shapes[f"data_in_{n}"], rows) for n, rows in enumerate(beside)}
        offered = {"data_in_0": lanes[:1], "data_out_0": lanes[1:]}
        request = Request(name, numbers, shapes, offered, layouts, slots=slots)
        # Every other time a slot is full, and the sequence begins anew by itself.
        begun = sequences(slots, tokens, slots)
        given = {SLOT: np.concatenate((begun, begun % slots)).reshape(-1).tolist()} if slots > 1 else {}
        return Case(name, build(request), frames, given=given)

    return [
        case("rows_even", (1, 4, 2, 8), (2, 4), (4, 2), transposed=True),
        case("rows_uneven", (1, 5, 1, 7), (1, 5), (3, 2), "s8.4 s8.4 s9.1 half_up wrap", transposed=True),
        case("rows_serial", (1, 3, 1, 4), (1, 3), (1, 1), "s8.4 s8.4 s9.1 floor", transposed=True),
        case("rows_one_element", (1, 3, 2, 1), (1, 5), (1, 2), "s8.4 s8.4 s8.4", transposed=True),
        case("rows_one_tile", (1, 6, 1, 4), (1, 3), (4, 3), "s8.4 s8.4 s9.1 trunc wrap", transposed=True, frames=6),
        case("rows_one_tile_more_banks", (2, 2, 1, 6), (1, 4), (2, 4), transposed=True),
        case("rows_grouped", (2, 3, 4, 6), (2, 5), (4, 3), transposed=True),
        case("rows_few_tokens", (3, 1, 1, 5), (1, 4), (2, 3), transposed=True),
        case("rows_scalar", (1, 1, 1, 1), (1, 1), (1, 1), transposed=True, frames=16),
        case("rows_two_bit", (1, 4, 1, 9), (1, 4), (4, 4), "s2.0 s2.0 s4.0", transposed=True),
        case("rows_wide", (1, 3, 1, 6), (1, 5), (3, 2), "s16.9 s16.9 s16.0", transposed=True),
        case("rows_beyond_float64", (1, 3, 1, 5), (1, 4), (2, 2), "s30.4 s28.6 s32.-20 floor", transposed=True),
        case("rows_causal", (1, 6, 1, 4), (1, 6), (2, 2), transposed=True, causal=True),
        case(
            "rows_causal_uneven",
            (2, 5, 2, 5),
            (1, 7),
            (2, 3),
            "s8.4 s8.4 s9.1 half_up wrap",
            transposed=True,
            causal=True,
        ),
        case("rows_causal_serial", (1, 4, 2, 3), (2, 4), (1, 1), transposed=True, causal=True),
        case("rows_causal_one_tile", (1, 4, 1, 3), (1, 4), (3, 4), transposed=True, causal=True, frames=6),
        case("rows_causal_one_word", (2, 7, 1, 3), (1, 7), (3, 2), transposed=True, causal=True),
        case("rows_causal_last_token", (1, 1, 4, 5), (2, 6), (2, 4), transposed=True, causal=True),
        case("rows_causal_held", (1, 9, 2, 4), (2, 9), (4, 2), transposed=True, causal=True, frames=6),
        case("rows_causal_held_long", (1, 20, 1, 6), (1, 20), (6, 1), transposed=True, causal=True),
        case("sums_even", (1, 4, 2, 4), (2, 8), (2, 4), "u4.4 s8.4 s8.4", transposed=False),
        case("sums_uneven", (1, 5, 1, 5), (1, 7), (2, 3), "u4.4 s8.4 s8.3 half_up wrap", transposed=False),
        case("sums_serial", (1, 3, 1, 3), (1, 4), (1, 1), "s8.4 s8.4 s9.1 trunc wrap", transposed=False),
        case("sums_serial_seven", (1, 5, 1, 7), (1, 2), (1, 1), transposed=False),
        case("sums_one_row", (1, 3, 2, 1), (1, 5), (1, 2), "s8.4 s8.4 s8.4", transposed=False),
        case("sums_one_tile", (1, 6, 1, 4), (1, 3), (4, 3), "s5.3 s5.3 s8.4", transposed=False, frames=6),
        case("sums_one_word", (2, 3, 1, 7), (1, 4), (2, 4), "u4.4 u4.4 u6.3", transposed=False),
        case("sums_grouped", (2, 3, 4, 5), (2, 6), (3, 4), transposed=False),
        case("sums_few_tokens", (3, 1, 2, 4), (1, 5), (3, 2), transposed=False),
        case("sums_two_bit", (1, 4, 1, 5), (1, 9), (4, 4), "s2.0 s2.0 s3.0", transposed=False),
        case("sums_wide", (1, 3, 1, 6), (1, 5), (3, 2), "s16.9 s16.9 s16.0 floor", transposed=False),
        case("sums_beyond_float64", (1, 3, 1, 5), (1, 4), (2, 2), "s30.4 s28.6 s32.-20", transposed=False),
        case("sums_causal", (1, 6, 1, 6), (1, 4), (2, 2), "u4.4 s8.4 s8.3", transposed=False, causal=True),
        case("sums_causal_uneven", (2, 5, 2, 7), (1, 5), (3, 2), "s8.4 s8.4 s9.1 floor", transposed=False, causal=True),
        case("sums_causal_serial", (1, 4, 2, 4), (2, 3), (1, 1), transposed=False, causal=True),
        case(
            "sums_causal_one_tile",
            (1, 4, 1, 4),
            (1, 5),
            (4, 2),
            "s8.4 s8.4 s9.1 trunc wrap",
            transposed=False,
            causal=True,
        ),
        case("sums_causal_one_word", (2, 7, 1, 7), (1, 3), (2, 3), transposed=False, causal=True),
        case("sums_causal_held", (1, 9, 2, 9), (2, 4), (2, 4), transposed=False, causal=True, frames=6),
        case("sums_causal_held_short", (2, 14, 1, 16), (1, 6), (1, 3), transposed=False, causal=True),
        case("sums_causal_last_token", (1, 1, 4, 6), (2, 5), (4, 2), transposed=False, causal=True),
        case("rows_slots", (1, 5, 2, 4), (1, 5), (2, 2), transposed=True, causal=True, slots=2, frames=6),
        case("rows_slots_serial", (1, 4, 4, 3), (2, 4), (1, 1), transposed=True, causal=True, slots=4, frames=10),
        case("rows_slots_one_tile", (1, 3, 1, 4), (1, 3), (4, 3), transposed=True, causal=True, slots=2, frames=8),
        case("sums_slots", (1, 5, 2, 5), (1, 4), (2, 2), "u4.4 s8.4 s8.3", transposed=False, causal=True, slots=2),
        case("sums_slots_serial", (1, 4, 4, 4), (2, 3), (1, 1), transposed=False, causal=True, slots=4, frames=10),
        case("sums_slots_one_tile", (1, 4, 1, 4), (1, 5), (4, 2), transposed=False, causal=True, slots=2, frames=8),
        case("rows_beside", (1, 4, 2, 8), (2, 4), (4, 2), transposed=True, beside=(2, 2)),
        case(
            "rows_beside_uneven",
            (2, 6, 2, 5),
            (1, 6),
            (3, 4),
            "s8.4 u8.4 s9.1 half_up wrap",
            transposed=True,
            beside=(3, 2),
        ),
        case("rows_beside_grouped", (2, 4, 4, 6), (2, 6), (4, 3), transposed=True, beside=(2, 3)),
        case("rows_beside_one_tile", (1, 4, 1, 4), (1, 4), (4, 4), transposed=True, frames=6, beside=(4, 4)),
        case("rows_beside_one_element", (1, 4, 2, 1), (1, 8), (1, 4), "s8.4 s8.4 s8.4", transposed=True, beside=(4, 2)),
        case(
            "rows_beside_two_bit", (1, 8, 1, 9), (1, 4), (4, 2), "s2.0 s2.0 s4.0 trunc", transposed=True, beside=(8, 1)
        ),
        case("rows_beside_wide", (3, 1, 2, 5), (1, 4), (2, 2), "s16.9 s16.9 s16.0", transposed=True, beside=(1, 2)),
        case("sums_beside", (1, 4, 2, 8), (2, 4), (2, 4), "u4.4 s8.4 s8.4", transposed=False, beside=(2, 2)),
        case(
            "sums_beside_uneven",
            (2, 6, 2, 6),
            (1, 7),
            (4, 3),
            "u4.4 s8.4 s8.3 floor wrap",
            transposed=False,
            beside=(3, 2),
        ),
        case("sums_beside_grouped", (2, 2, 4, 6), (2, 5), (3, 4), transposed=False, beside=(2, 3)),
        case(
            "sums_beside_one_tile",
            (1, 4, 1, 4),
            (1, 3),
            (4, 3),
            "s5.3 s5.3 s8.4",
            transposed=False,
            frames=6,
            beside=(4, 4),
        ),
        case("sums_beside_one_element", (1, 4, 2, 6), (1, 1), (3, 1), transposed=False, beside=(2, 3)),
        case("sums_beside_one_word", (2, 6, 1, 8), (1, 4), (2, 4), "u4.4 u4.4 u6.3", transposed=False, beside=(6, 1)),
        case("sums_beside_wide", (1, 3, 1, 6), (1, 5), (2, 2), "s30.4 s28.6 s32.-20", transposed=False, beside=(1, 2)),
        case("rows_causal_beside", (1, 6, 2, 4), (1, 6), (2, 4), transposed=True, causal=True, beside=(2, 2)),
        case(
            "rows_causal_beside_uneven",
            (2, 4, 2, 5),
            (1, 8),
            (2, 6),
            "s8.4 s8.4 s9.1 half_up wrap",
            transposed=True,
            causal=True,
            beside=(2, 2),
        ),
        case(
            "rows_causal_beside_one_tile",
            (1, 6, 1, 3),
            (1, 6),
            (3, 6),
            transposed=True,
            causal=True,
            frames=6,
            beside=(3, 3),
        ),
        case("rows_causal_beside_held", (1, 18, 2, 4), (2, 18), (4, 2), transposed=True, causal=True, beside=(2, 2)),
        case(
            "sums_causal_beside",
            (1, 6, 2, 6),
            (1, 4),
            (4, 2),
            "u4.4 s8.4 s8.3",
            transposed=False,
            causal=True,
            beside=(2, 2),
        ),
        case(
            "sums_causal_beside_uneven",
            (2, 4, 2, 8),
            (2, 5),
            (6, 2),
            "s8.4 s8.4 s9.1 floor",
            transposed=False,
            causal=True,
            beside=(2, 2),
        ),
        case("sums_causal_beside_held", (1, 18, 2, 18), (2, 4), (2, 4), transposed=False, causal=True, beside=(2, 2)),
        case("sums_causal_beside_one_tile", (1, 4, 1, 4), (1, 5), (4, 2), transposed=False, causal=True, beside=(4, 4)),
        case(
            "rows_causal_beyond_int64",
            (2, 5, 2, 6),
            (1, 5),
            (3, 2),
            "s35.20 s34.28 s32.46 half_away wrap",
            transposed=True,
            causal=True,
        ),
    ]
