"""Parameter sets on which the catalogue test proves convolution."""

from __future__ import annotations

from collections.abc import Sequence

from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledFormat
from mase_hw.opdef import Arithmetic, Case, Request
from mase_hw.ops._conv import geometry_of
from mase_hw.ops._conv_hardware import build
from mase_hw.ops.products._linear_cases import fmt


def case(
    name: str,
    shape: tuple[int, ...],
    weight: tuple[int, ...],
    lanes: tuple[int, int],
    formats: tuple[str, str, str | None, str] = ("s8.4", "s8.7", "s8.5", "s8.1"),
    modes: tuple[Rounding, Overflow] = (Rounding.HALF_EVEN, Overflow.SATURATE),
    frames: int = 3,
    shift_width: int = 0,
    unroll: bool = False,
    multiply: str = "",
    narrow: bool = False,
    order: str = "",
    zero: int = 0,
    **attributes: object,
) -> Case:
    """A case from the shapes of image and weight, lanes in and out, formats (zero point) and attributes."""
    x, w, b, y = formats
    found = {"data_in_0": fmt(x), "weight": fmt(w), "data_out_0": fmt(y)}
    if zero:
        fx = found["data_in_0"]
        found["data_in_0"] = ScaledFormat.make(fx.width, 1.0, zero, signed=fx.signed)
    shapes = {"data_in_0": shape, "weight": weight}
    if b:
        found["bias"], shapes["bias"] = fmt(b), weight[:1]
    if shift_width:
        found["weight_shift"], shapes["weight_shift"] = FixedFormat(shift_width, 0, signed=False), weight[:1]
    g = geometry_of(attributes, weight[2:])
    out = g.out((shape[2], shape[3]), (weight[2], weight[3]))
    shapes["data_out_0"] = (shape[0], weight[0], *out)
    inner = (weight[3], weight[2]) if unroll else (1, 1)
    parallelism = {"data_in_0": lanes[:1], "data_out_0": lanes[1:], "weight": (1, *inner, 1)}
    arithmetic = Arithmetic(found, *modes, attributes)
    request = Request(name, arithmetic, shapes, parallelism, implementation=multiply, narrow=narrow, order=order)
    return Case(name, build(request), frames)


def cases_1d() -> Sequence[Case]:
    """What only one dimension has."""
    return [case("one_dimension", (1, 3, 1, 9), (4, 3, 1, 4), (3, 2), shift_width=1, padding=(0, 2), stride=(1, 2))]


def cases_2d() -> Sequence[Case]:
    """Odd sizes, lanes that do not divide, every attribute, narrow, wide and mixed formats, every way to fold."""
    half_up, floor, trunc = Rounding.HALF_UP, Rounding.FLOOR, Rounding.TRUNC
    s2, s8, s16 = ("s2.0", "s2.1", "s2.0", "s3.0"), ("s8.4", "s8.7", "s8.5", "s8.1"), ("s16.8", "s16.14", "s16.10")
    u4 = ("u4.2", "s4.3", "u8.6", "u5.1")
    sums = ("s8.0", "s4.0", "s14.0", "s16.0")
    return [
        case("same_3x3", (1, 4, 5, 6), (6, 4, 3, 3), (2, 3), padding=1),
        case("uneven_fold", (1, 5, 4, 5), (7, 5, 2, 3), (3, 2), modes=(trunc, Overflow.SATURATE), padding=(0, 1)),
        case("strided", (1, 3, 7, 8), (4, 3, 3, 3), (3, 4), modes=(floor, Overflow.WRAP), stride=2, padding=1),
        case("dilated", (1, 2, 7, 8), (2, 2, 3, 2), (2, 1), dilation=(2, 3), padding=(2, 1), stride=(1, 2)),
        case("pointwise_wires", (1, 4, 3, 4), (3, 4, 1, 1), (4, 3), frames=4),
        case("input_bound", (1, 2, 9, 9), (2, 2, 2, 1), (1, 2), stride=3),
        case("same_even_kernel", (1, 4, 4, 5), (2, 4, 2, 4), (4, 2), s2, padding="same"),
        case("depthwise", (1, 5, 5, 5), (5, 1, 3, 3), (2, 2), groups=5, padding=1),
        case("depthwise_strided", (1, 4, 6, 6), (4, 1, 3, 3), (4, 4), u4, groups=4, padding=1, stride=2),
        case("groups", (1, 8, 4, 4), (6, 4, 3, 3), (2, 3), modes=(half_up, Overflow.SATURATE), groups=2, padding=1),
        case("images", (2, 2, 3, 4), (2, 2, 3, 3), (2, 1), ("s8.4", "s8.7", None, "s8.2"), padding=1),
        case("per_channel", (1, 4, 4, 4), (5, 4, 3, 3), (2, 2), ("s8.4", "s6.7", "s8.5", "s9.0"), shift_width=2),
        case("whole_image", (1, 3, 4, 4), (5, 3, 4, 4), (3, 2), (*s16, "s16.5")),
        case("beyond_float64", (1, 2, 3, 3), (4, 1, 2, 2), (1, 2), ("s30.4", "s28.6", "s31.12", "s32.-18"), groups=2),
        case("chain", (1, 5, 5, 5), (5, 1, 3, 3), (2, 2), u4, groups=5, padding=1, multiply="chain"),
        case("packed", (1, 4, 5, 6), (6, 4, 3, 3), (4, 3), padding=1, multiply="packed", narrow=True),
        case("packed_groups", (1, 8, 3, 4), (8, 4, 3, 3), (2, 4), groups=2, padding=1, multiply="packed"),
        case(
            "packed_unrolled",
            (1, 3, 5, 6),
            (4, 3, 3, 3),
            (1, 4),
            padding=1,
            unroll=True,
            multiply="packed",
            narrow=True,
        ),
        case("logic", (1, 4, 5, 6), (6, 4, 3, 3), (4, 3), padding=1, multiply="logic"),
        case("logic_depthwise", (1, 5, 5, 5), (5, 1, 3, 3), (2, 2), u4, groups=5, padding=1, multiply="logic"),
        case(
            "logic_unrolled",
            (1, 4, 4, 5),
            (4, 1, 3, 3),
            (2, 2),
            ("u8.4", "s8.7", None, "s10.3"),
            groups=4,
            padding=1,
            unroll=True,
            multiply="logic",
        ),
        case("binary", (1, 4, 4, 5), (6, 4, 3, 3), (2, 3), ("s8.4", "b.3", "s8.5", "s8.1"), padding=1),
        case("ternary", (1, 3, 4, 4), (4, 3, 3, 2), (2, 3), ("u4.4", "t.3", None, "s6.2"), padding=1, unroll=True),
        case("inputs_first", (1, 5, 2, 3), (7, 5, 1, 1), (2, 3), order="inputs_first"),
        case("inputs_first_images", (2, 4, 2, 2), (6, 4, 1, 1), (1, 3), u4, shift_width=1, order="inputs_first"),
        case("unrolled", (1, 3, 5, 6), (4, 3, 3, 3), (3, 4), padding=1, unroll=True, frames=6),
        case("unrolled_row", (1, 2, 1, 8), (3, 2, 1, 3), (2, 3), padding=(0, 1), unroll=True, frames=6),
        case("unrolled_fold", (1, 5, 5, 6), (5, 5, 3, 2), (2, 3), s8, padding=(1, 0), unroll=True, shift_width=1),
        case("unrolled_strided", (1, 2, 7, 9), (3, 2, 3, 3), (2, 3), padding=1, stride=2, unroll=True, frames=6),
        case("zero_point", (1, 3, 4, 5), (5, 3, 3, 3), (2, 2), sums, zero=-7, padding=(2, 0, 1, 1), stride=(1, 2)),
        case("zero_point_depthwise", (1, 3, 4, 4), (3, 1, 3, 3), (2, 2), sums, groups=3, zero=127, padding=1),
        case(
            "zero_point_unrolled",
            (1, 3, 4, 5),
            (2, 3, 2, 3),
            (2, 2),
            ("u8.0", *sums[1:]),
            zero=200,
            padding=1,
            unroll=True,
        ),
        case(
            "unrolled_depthwise", (1, 5, 5, 6), (5, 1, 3, 2), (2, 2), groups=5, dilation=(1, 3), padding=2, unroll=True
        ),
    ]
