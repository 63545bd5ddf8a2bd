"""Parameter sets on which products of two streams are proven."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.opdef import Arithmetic, Case, Request

EVEN = (Rounding.HALF_EVEN, Overflow.SATURATE)
S8, S9 = FixedFormat(8, 4), FixedFormat(9, 1)


def cases(build: Callable[[Request], Any]) -> list[Case]:
    """One lane and many, inner size 1, uneven folds, shared matrices, other numbers of tokens than of rows."""

    def case(
        name: str,
        a: tuple[int, int, int, int],
        b: tuple[int, int],
        lanes: tuple[int, int],
        formats: tuple[FixedFormat, FixedFormat, FixedFormat] = (S8, S8, S9),
        modes: tuple[Rounding, Overflow] = EVEN,
        *,
        transposed: bool,
        causal: bool = False,
        frames: int = 4,
    ) -> Case:
        """``a`` is batch, tokens, heads, size; ``b`` is groups, and the other size of the matrix."""
        batch, tokens, heads, inner = a
        groups, other = b
        arithmetic = Arithmetic(
            dict(zip(("data_in_0", "data_in_1", "data_out_0"), formats, strict=True)),
            *modes,
            {"transposed": transposed, "causal": causal},
        )
        rows, columns = (other, inner) if transposed else (inner, other)
        shapes = {
            "data_in_0": a,
            "data_in_1": (batch, rows, groups, columns),
            "data_out_0": (batch, tokens, heads, other),
        }
        request = Request(name, arithmetic, shapes, {"data_in_0": lanes[:1], "data_out_0": lanes[1:]})
        return Case(name, build(request), frames)

    u4, s2, s5, s16 = FixedFormat(4, 4, signed=False), FixedFormat(2, 0), FixedFormat(5, 3), FixedFormat(16, 9)
    up_wrap, floor, trunc = (
        (Rounding.HALF_UP, Overflow.WRAP),
        (Rounding.FLOOR, Overflow.SATURATE),
        (Rounding.TRUNC, Overflow.WRAP),
    )
    wide = (FixedFormat(30, 4), FixedFormat(28, 6), FixedFormat(32, -20))
    return [
        case("rows_even", (1, 4, 2, 8), (2, 4), (4, 2), transposed=True),
        case("rows_uneven", (1, 5, 1, 7), (1, 5), (3, 2), modes=up_wrap, transposed=True),
        case("rows_serial", (1, 3, 1, 4), (1, 3), (1, 1), modes=floor, transposed=True),
        case("rows_one_element", (1, 3, 2, 1), (1, 5), (1, 2), (S8, S8, S8), transposed=True),
        case("rows_one_tile", (1, 6, 1, 4), (1, 3), (4, 3), modes=trunc, transposed=True, frames=6),
        case("rows_one_tile_more_banks", (2, 2, 1, 6), (1, 4), (2, 4), transposed=True),
        case("rows_grouped", (2, 3, 4, 6), (2, 5), (4, 3), transposed=True),
        case("rows_few_tokens", (3, 1, 1, 5), (1, 4), (2, 3), transposed=True),
        case("rows_scalar", (1, 1, 1, 1), (1, 1), (1, 1), transposed=True, frames=16),
        case("rows_two_bit", (1, 4, 1, 9), (1, 4), (4, 4), (s2, s2, FixedFormat(4, 0)), transposed=True),
        case("rows_wide", (1, 3, 1, 6), (1, 5), (3, 2), (s16, s16, FixedFormat(16, 0)), transposed=True),
        case("rows_beyond_float64", (1, 3, 1, 5), (1, 4), (2, 2), wide, floor, transposed=True),
        case("rows_causal", (1, 6, 1, 4), (1, 6), (2, 2), transposed=True, causal=True),
        case("rows_causal_uneven", (2, 5, 2, 5), (1, 7), (2, 3), modes=up_wrap, transposed=True, causal=True),
        case("rows_causal_serial", (1, 4, 2, 3), (2, 4), (1, 1), transposed=True, causal=True),
        case("rows_causal_one_tile", (1, 4, 1, 3), (1, 4), (3, 4), transposed=True, causal=True, frames=6),
        case("rows_causal_one_word", (2, 7, 1, 3), (1, 7), (3, 2), transposed=True, causal=True),
        case("rows_causal_last_token", (1, 1, 4, 5), (2, 6), (2, 4), transposed=True, causal=True),
        case("rows_causal_held", (1, 9, 2, 4), (2, 9), (4, 2), transposed=True, causal=True, frames=6),
        case("rows_causal_held_long", (1, 20, 1, 6), (1, 20), (6, 1), transposed=True, causal=True),
        case("sums_even", (1, 4, 2, 4), (2, 8), (2, 4), (u4, S8, FixedFormat(8, 4)), transposed=False),
        case("sums_uneven", (1, 5, 1, 5), (1, 7), (2, 3), (u4, S8, FixedFormat(8, 3)), up_wrap, transposed=False),
        case("sums_serial", (1, 3, 1, 3), (1, 4), (1, 1), modes=trunc, transposed=False),
        case("sums_serial_seven", (1, 5, 1, 7), (1, 2), (1, 1), transposed=False),
        case("sums_one_row", (1, 3, 2, 1), (1, 5), (1, 2), (S8, S8, S8), transposed=False),
        case("sums_one_tile", (1, 6, 1, 4), (1, 3), (4, 3), (s5, s5, FixedFormat(8, 4)), transposed=False, frames=6),
        case(
            "sums_one_word", (2, 3, 1, 7), (1, 4), (2, 4), (u4, u4, FixedFormat(6, 3, signed=False)), transposed=False
        ),
        case("sums_grouped", (2, 3, 4, 5), (2, 6), (3, 4), transposed=False),
        case("sums_few_tokens", (3, 1, 2, 4), (1, 5), (3, 2), transposed=False),
        case("sums_two_bit", (1, 4, 1, 5), (1, 9), (4, 4), (s2, s2, FixedFormat(3, 0)), transposed=False),
        case("sums_wide", (1, 3, 1, 6), (1, 5), (3, 2), (s16, s16, FixedFormat(16, 0)), floor, transposed=False),
        case("sums_beyond_float64", (1, 3, 1, 5), (1, 4), (2, 2), wide, transposed=False),
        case("sums_causal", (1, 6, 1, 6), (1, 4), (2, 2), (u4, S8, FixedFormat(8, 3)), transposed=False, causal=True),
        case("sums_causal_uneven", (2, 5, 2, 7), (1, 5), (3, 2), modes=floor, transposed=False, causal=True),
        case("sums_causal_serial", (1, 4, 2, 4), (2, 3), (1, 1), transposed=False, causal=True),
        case("sums_causal_one_tile", (1, 4, 1, 4), (1, 5), (4, 2), modes=trunc, transposed=False, causal=True),
        case("sums_causal_one_word", (2, 7, 1, 7), (1, 3), (2, 3), transposed=False, causal=True),
        case("sums_causal_held", (1, 9, 2, 9), (2, 4), (2, 4), transposed=False, causal=True, frames=6),
        case("sums_causal_held_short", (2, 14, 1, 16), (1, 6), (1, 3), transposed=False, causal=True),
        case("sums_causal_last_token", (1, 1, 4, 6), (2, 5), (4, 2), transposed=False, causal=True),
    ]
