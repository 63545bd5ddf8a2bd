"""Convolution in one and two dimensions: exact products, sums and bias, one cast at the end.

``y[n, o, i, j] = cast(sum x[n, c, ...] * w[o, c, kh, kw] * 2**s[o] + b[o])`` over the channels of the group and the
kernel, zeros around the image; ``s`` is the optional ``weight_shift`` of weights with a format per output channel.
A convolution of one dimension is one of height 1. Images are streamed channels-last.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.formats import BlockFormat, FixedFormat, Overflow, ScaledUse
from mase_hw.layouts import Layout
from mase_hw.nn.values import OnValues, add_parts, cast_to, operands
from mase_hw.numerics import as_carrier, carrier, cast, magnitude, straight_through
from mase_hw.numerics.exact_sums import SumOfProducts, reduced_matmul
from mase_hw.opdef import LAYER_TENSORS, Arithmetic, Case, Hardware, OpDef, Request, SomeChannels
from mase_hw.ops._conv import (
    ConvParams,
    Geometry,
    build,
    check,
    exact_conv,
    geometry_of,
    latency,
    positions,
    reduced_conv,
    takes,
    tiled,
    work,
)
from mase_hw.ops._scaled import exact_sum, exact_sums
from mase_hw.ops._tensors import finest_bias
from mase_hw.ops.products._multipliers import IMPLEMENTATIONS, narrow
from mase_hw.ops.products._schedule import ORDERS


def case(
    name: str,
    shape: tuple[int, ...],
    weight: tuple[int, ...],
    lanes: tuple[int, int],
    formats: str = "s8.4 s8.7 s8.5 s8.1",
    frames: int = 3,
    **more: Any,
) -> Case:
    """A case from the shapes of image and weight, lanes in and out, and formats.

    Args:
        name: Unique within the op.
        shape: Of the images.
        weight: Shape of the weight.
        lanes: Of the input and of the output.
        formats: As :meth:`Arithmetic.read` takes them.
        frames: To stream in each run.
        more: ``unroll`` for a whole window in a beat, ``positions`` of a beat of the input and of the output, what a
            :class:`Request` has, and attributes.
    """
    how = {key: more.pop(key) for key in ("implementation", "narrow", "order") if key in more}
    inner = (weight[3], weight[2]) if more.pop("unroll", False) else (1, 1)
    beside = more.pop("positions", (1, 1))
    a = Arithmetic.read(formats, LAYER_TENSORS, more)
    out = geometry_of(a.attributes, weight[2:]).out((shape[2], shape[3]), (weight[2], weight[3]))
    shapes = {"data_in_0": shape, "weight": weight, "data_out_0": (shape[0], weight[0], *out)}
    shapes |= {name: weight[:1] for name in ("bias", "weight_shift") if name in a.formats}
    if isinstance(blocks := a.formats["weight"], BlockFormat):
        shapes["weight_shift"] = (weight[0], len(blocks.blocks(math.prod(weight[1:]))))
    parallelism = {"data_in_0": lanes[:1], "data_out_0": lanes[1:], "weight": (1, *inner, 1)}
    ends = zip(("data_in_0", "data_out_0"), beside, strict=True)
    layouts = {end: Layout.tiled(shapes[end], count) for end, count in ends}
    return Case(name, build(Request(name, a, shapes, parallelism, layouts, **how)), frames)


def cases_1d() -> Sequence[Case]:
    """What only one dimension has."""
    return [
        case(
            "one_dimension",
            (1, 3, 1, 9),
            (4, 3, 1, 4),
            (3, 2),
            "s8.4 s8.7 s8.5 s8.1 weight_shift=u1.0",
            padding=(0, 2),
            stride=(1, 2),
        )
    ]


def cases_of_positions() -> Sequence[Case]:
    """Beats of several positions: every way in which they meet windows, strides, groups and implementations."""
    two, four = (2, 2), (4, 4)
    shift = "s8.4 s8.7 s8.5 s8.1 weight_shift=u1.0"
    return [
        case("two_positions", (1, 4, 4, 6), (6, 4, 3, 3), (2, 3), padding=1, positions=two),
        case("two_unrolled", (1, 4, 5, 6), (3, 4, 3, 3), (2, 2), shift, padding=1, unroll=True, positions=two),
        case("four_strided", (1, 3, 5, 16), (4, 3, 3, 3), (3, 4), padding=1, stride=2, unroll=True, positions=four),
        case("four_to_two", (1, 3, 5, 16), (4, 3, 3, 3), (3, 2), padding=1, stride=2, positions=(4, 2)),
        case("two_to_one", (1, 2, 4, 8), (3, 2, 1, 2), (2, 3), stride=2, positions=(2, 1), unroll=True, frames=4),
        case("one_to_two", (1, 4, 4, 6), (6, 4, 3, 3), (4, 3), padding=1, positions=(1, 2)),
        case("two_depthwise", (1, 5, 4, 6), (5, 1, 3, 3), (2, 2), groups=5, padding=1, positions=two),
        case("four_depthwise", (1, 4, 5, 8), (4, 1, 3, 3), (4, 4), groups=4, padding=1, unroll=True, positions=four),
        case("two_groups", (1, 8, 3, 4), (6, 4, 3, 3), (2, 3), groups=2, padding=1, positions=two),
        case("two_pointwise", (1, 4, 3, 4), (3, 4, 1, 1), (4, 3), positions=two, frames=4),
        case("four_in_a_row", (1, 2, 1, 16), (3, 2, 1, 5), (2, 3), padding=(0, 2), positions=four),
        case("strided_shortcut", (1, 4, 4, 8), (6, 4, 1, 1), (4, 2), stride=2, positions=two),
        case("two_inputs_first", (1, 5, 2, 4), (7, 5, 1, 1), (2, 3), order="inputs_first", positions=two),
        case("two_packed", (1, 4, 3, 6), (6, 4, 3, 3), (4, 2), padding=1, implementation="packed", positions=two),
        case("two_uneven", (1, 3, 3, 4), (3, 3, 3, 3), (3, 3), padding=1, implementation="chain", positions=two),
        case("two_dilated", (2, 2, 4, 8), (2, 2, 2, 3), (2, 1), dilation=(1, 3), padding=(0, 3), positions=two),
        case("two_zero_point", (1, 3, 3, 4), (5, 3, 3, 3), (2, 2), "z8.-7 s4.0 s14.0 s16.0", padding=1, positions=two),
    ]


def cases_2d() -> Sequence[Case]:
    """Odd sizes, lanes that do not divide, every attribute, narrow, wide and mixed formats, every way to fold."""
    u4, sums = "u4.2 s4.3 u8.6 u5.1", "s4.0 s14.0 s16.0"
    packed, logic = (functools.partial(case, implementation=each) for each in ("packed", "logic"))
    return [
        case("same_3x3", (1, 4, 5, 6), (6, 4, 3, 3), (2, 3), padding=1),
        case("uneven_fold", (1, 5, 4, 5), (7, 5, 2, 3), (3, 2), "s8.4 s8.7 s8.5 s8.1 trunc", padding=(0, 1)),
        case("strided", (1, 3, 7, 8), (4, 3, 3, 3), (3, 4), "s8.4 s8.7 s8.5 s8.1 floor wrap", stride=2, padding=1),
        case("dilated", (1, 2, 7, 8), (2, 2, 3, 2), (2, 1), dilation=(2, 3), padding=(2, 1), stride=(1, 2)),
        case("pointwise_wires", (1, 4, 3, 4), (3, 4, 1, 1), (4, 3), frames=4),
        case("input_bound", (1, 2, 9, 9), (2, 2, 2, 1), (1, 2), stride=3),
        case("same_even_kernel", (1, 4, 4, 5), (2, 4, 2, 4), (4, 2), "s2.0 s2.1 s2.0 s3.0", padding="same"),
        case("depthwise", (1, 5, 5, 5), (5, 1, 3, 3), (2, 2), groups=5, padding=1),
        case("depthwise_strided", (1, 4, 6, 6), (4, 1, 3, 3), (4, 4), u4, groups=4, padding=1, stride=2),
        case("groups", (1, 8, 4, 4), (6, 4, 3, 3), (2, 3), "s8.4 s8.7 s8.5 s8.1 half_up", groups=2, padding=1),
        case("images", (2, 2, 3, 4), (2, 2, 3, 3), (2, 1), "s8.4 s8.7 - s8.2", padding=1),
        case("per_channel", (1, 4, 4, 4), (5, 4, 3, 3), (2, 2), "s8.4 s6.7 s8.5 s9.0 weight_shift=u2.0"),
        case("whole_image", (1, 3, 4, 4), (5, 3, 4, 4), (3, 2), "s16.8 s16.14 s16.10 s16.5"),
        case("beyond_float64", (1, 2, 3, 3), (4, 1, 2, 2), (1, 2), "s30.4 s28.6 s31.12 s32.-18", groups=2),
        case("chain", (1, 5, 5, 5), (5, 1, 3, 3), (2, 2), u4, groups=5, padding=1, implementation="chain"),
        packed("packed", (1, 4, 5, 6), (6, 4, 3, 3), (4, 3), padding=1, narrow=True),
        packed("packed_groups", (1, 8, 3, 4), (8, 4, 3, 3), (2, 4), groups=2, padding=1),
        packed("packed_unrolled", (1, 3, 5, 6), (4, 3, 3, 3), (1, 4), padding=1, unroll=True, narrow=True),
        logic("logic", (1, 4, 5, 6), (6, 4, 3, 3), (4, 3), padding=1),
        logic("logic_depthwise", (1, 5, 5, 5), (5, 1, 3, 3), (2, 2), u4, groups=5, padding=1),
        logic(
            "logic_unrolled", (1, 4, 4, 5), (4, 1, 3, 3), (2, 2), "u8.4 s8.7 - s10.3", groups=4, padding=1, unroll=True
        ),
        case("binary", (1, 4, 4, 5), (6, 4, 3, 3), (2, 3), "s8.4 b.3 s8.5 s8.1", padding=1),
        case("ternary", (1, 3, 4, 4), (4, 3, 3, 2), (2, 3), "u4.4 t.3 - s6.2", padding=1, unroll=True),
        case("blocks", (1, 4, 4, 5), (5, 4, 3, 3), (2, 2), "s8.4 x8.9.4 s8.5 s10.3 weight_shift=u3.0", padding=1),
        case("blocks_of_a_kernel", (1, 3, 3, 4), (4, 3, 2, 2), (2, 4), "u6.4 x5.6.32 - s9.2 weight_shift=u2.0"),
        packed(
            "blocks_over_columns",
            (1, 4, 4, 4),
            (3, 4, 3, 2),
            (4, 2),
            "s8.4 x5.3.16.e2m1 s8.5 s12.-6 weight_shift=u4.0 half_up",
            stride=2,
        ),
        case(
            "blocks_depthwise",
            (1, 5, 5, 5),
            (5, 1, 3, 3),
            (2, 2),
            "s8.4 x4.5.4 s8.5 s10.3 weight_shift=u3.0",
            groups=5,
            padding=1,
        ),
        logic("blocks_groups", (2, 8, 3, 4), (6, 4, 3, 3), (2, 3), "s8.4 x4.5.2 - s9.2 weight_shift=u3.0", groups=2),
        case("groups_of_weights", (1, 4, 4, 4), (3, 4, 3, 3), (2, 2), "s8.4 g4.9.8 s8.5 s10.3 weight_shift=u6.0"),
        case("blocks_pixel", (1, 6, 3, 3), (4, 6, 1, 1), (3, 2), "s8.4 x8.9.3 s8.5 s10.3 weight_shift=u3.0"),
        case("inputs_first", (1, 5, 2, 3), (7, 5, 1, 1), (2, 3), order="inputs_first"),
        case(
            "inputs_first_images",
            (2, 4, 2, 2),
            (6, 4, 1, 1),
            (1, 3),
            "u4.2 s4.3 u8.6 u5.1 weight_shift=u1.0",
            order="inputs_first",
        ),
        case("unrolled", (1, 3, 5, 6), (4, 3, 3, 3), (3, 4), padding=1, unroll=True, frames=6),
        case("unrolled_row", (1, 2, 1, 8), (3, 2, 1, 3), (2, 3), padding=(0, 1), unroll=True, frames=6),
        case(
            "unrolled_fold",
            (1, 5, 5, 6),
            (5, 5, 3, 2),
            (2, 3),
            "s8.4 s8.7 s8.5 s8.1 weight_shift=u1.0",
            padding=(1, 0),
            unroll=True,
        ),
        case("unrolled_strided", (1, 2, 7, 9), (3, 2, 3, 3), (2, 3), padding=1, stride=2, unroll=True, frames=6),
        case("zero_point", (1, 3, 4, 5), (5, 3, 3, 3), (2, 2), f"z8.-7 {sums}", padding=(2, 0, 1, 1), stride=(1, 2)),
        case("zero_point_depthwise", (1, 3, 4, 4), (3, 1, 3, 3), (2, 2), f"z8.127 {sums}", groups=3, padding=1),
        case(
            "zero_point_unrolled",
            (1, 3, 4, 5),
            (2, 3, 2, 3),
            (2, 2),
            f"zu8.200 {sums}",
            padding=1,
            unroll=True,
        ),
        case(
            "unrolled_depthwise", (1, 5, 5, 6), (5, 1, 3, 2), (2, 2), groups=5, dilation=(1, 3), padding=2, unroll=True
        ),
        case(
            "beyond_int64",
            (1, 3, 4, 5),
            (4, 3, 2, 3),
            (2, 2),
            "s34.20 s34.28 s40.30 s30.46 half_up wrap",
            padding=1,
        ),
        *cases_of_positions(),
    ]


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (N, C, H, W)`` or ``(N, C, L)``, ``weight (O, C / groups, KH, KW)`` or ``(O, C / groups, K)``.

    Optional ``bias (O,)`` and ``weight_shift (O,)``; N may be missing. The result is ``data_out_0``, likewise.
    """
    x, w, fx = t["data_in_0"], t["weight"], a.formats["data_in_0"]
    b, shift = _by_channel(t)
    sums = SumOfProducts.of(a.formats, math.prod(w.shape[1:]))
    dtype = carrier(sums.bound, wide=True)  # refuses what fits none, before anything is shifted
    g = geometry_of(a.attributes, tuple(w.shape[2:]))
    products, blocks = sums.products, isinstance(a.formats["weight"], BlockFormat) and shift is not None
    if blocks:
        # Every block is brought to the same step before the sum, not the sum behind it.
        fw, shift = a.formats["weight"], None
        most = fw.factors(a.formats["weight_shift"].max_mantissa)
        products *= most
        wide = carrier(magnitude(fw) * most)
        w = as_carrier(w, wide) * as_carrier(fw.spread(fw.factors(t["weight_shift"].to(torch.int64)), w.shape), wide)
    images, kernel = _images(x, w), w if w.dim() == 4 else w.unsqueeze(2)
    if fx.zero_point:
        # What stands for 0 surrounds the image.
        (top, left), (bottom, right) = g.before, g.after
        images = F.pad(images, (left, right, top, bottom), value=float(fx.zero_point))
        g = dataclasses.replace(g, before=(0, 0), after=(0, 0))
    if b is not None and shift is None and not blocks and sums.frac == sums.product_frac and dtype.is_floating_point:
        # No bit below the products: the convolution itself adds the bias, exactly. Where the bias alone is beyond
        # floats, the products need not be computed as integers for it.
        aligned = t["bias"] * (1 << (sums.frac - sums.bias_frac))
        acc = exact_conv(images, kernel, aligned, sums.bound, g, magnitude(fx))
    else:
        acc = exact_conv(images, kernel, None, products, g, magnitude(fx))
        acc = sums.finish(acc, b, shift, dtype)
    out = cast(acc, sums.frac, a.formats["data_out_0"], a.rounding, a.overflow)
    if not acc.dtype.is_floating_point and out.dtype != torch.int64 and any(v.requires_grad for v in t.values()):
        out = straight_through(out, _surrogate(a, t, images, sums, g))
    # The rank that came in: without the images, without the height.
    if w.dim() == 3:
        out = out.squeeze(2)
    return {"data_out_0": out if x.dim() == w.dim() else out.squeeze(0)}


def _images(x: Tensor, w: Tensor) -> Tensor:
    """``(N, C, H, W)`` from what the op takes; the kernel says how many dimensions an image has."""
    x = x if x.dim() == w.dim() else x.unsqueeze(0)
    return x if w.dim() == 4 else x.unsqueeze(2)


def _by_channel(t: Mapping[str, Tensor]) -> tuple[Tensor | None, Tensor | None]:
    """The bias and the shifts of channels, as they broadcast to images."""
    bias, shift = (t[name][..., None, None] if name in t else None for name in ("bias", "weight_shift"))
    return bias, shift


def _surrogate(a: Arithmetic, t: Mapping[str, Tensor], images: Tensor, sums: SumOfProducts, g: Geometry) -> Tensor:
    """The result in float64, for the gradient only: int64 carries none."""
    fmt, w = a.formats["data_out_0"], t["weight"].double()
    if "weight_shift" in t:
        fw = a.formats["weight"]
        w = w * fw.spread(fw.factors(t["weight_shift"]).double(), w.shape)
    x = F.pad(images.double(), (g.before[1], g.after[1], g.before[0], g.after[0]))
    acc = F.conv2d(x, w if w.dim() == 4 else w.unsqueeze(2), None, g.stride, 0, g.dilation, g.groups)
    result = sums.finish(acc, _by_channel(t)[0], None) * math.ldexp(1.0, fmt.frac_width - sums.frac)
    return result.clamp(fmt.min_mantissa, fmt.max_mantissa) if a.overflow is Overflow.SATURATE else result


def _on_values(a: Arithmetic, t: Mapping[str, Tensor]) -> OnValues | None:
    last, g = cast_to(a), geometry_of(a.attributes, tuple(t["weight"].shape[2:]))
    found = operands(a, t, last, split=g.groups == 1)
    if last is None or found is None or g.before != g.after:
        return None
    (((first, weight), *rest), bias), dims = found, t["weight"].dim()

    def one(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        if dims == 3:
            return F.conv1d(x, w, b, g.stride[1], g.before[1], g.dilation[1], g.groups)
        return F.conv2d(x, w, b, g.stride, g.before, g.dilation, g.groups)

    def run(x: Tensor) -> Tensor | None:
        if x.dim() != dims:
            return None
        if not rest:
            return one(x, weight, bias)
        sums = [one(x[:, part], more, None) for part, more in rest]
        return add_parts([one(x[:, first], weight, bias), *sums], last)

    return OnValues(run, last, lambda: not (reduced_matmul() or reduced_conv()))


def _channels(a: Arithmetic, t: Mapping[str, Tensor], numbers: Sequence[int]) -> SomeChannels | None:
    """Some output channels; where there are groups, each with the input channels of its own."""
    x, w = t["data_in_0"], t["weight"]
    if x.dim() != w.dim():
        return None
    own = {name: value[list(numbers)] for name, value in t.items() if name != "data_in_0"}
    if (groups := int(a.attributes.get("groups", 1))) == 1:
        return a, {"data_in_0": x, **own}, 1
    read, outputs = w.shape[1], w.shape[0] // groups
    data = x[:, [number // outputs * read + place for number in numbers for place in range(read)]]
    apart = dataclasses.replace(a, attributes={**a.attributes, "groups": len(numbers)})
    return apart, {"data_in_0": data, **own}, 1


def _sums(formats: Mapping[str, FixedFormat], shapes: Mapping[str, tuple[int, ...]]) -> FixedFormat:
    """The narrowest format that holds every sum that these formats allow."""
    _, *each = shapes["weight"]
    return exact_sum(formats, math.prod(each), -len(each))


def _op(name: str, module: type[nn.Module], function: Callable[..., Any], cases: Callable[[], Sequence[Case]]) -> OpDef:
    """An entry; both dimensions have the same RTL."""
    return OpDef(
        name=name,
        mase_type="module_related_func",
        modules=(module,),
        functions=(function,),
        attributes=("kernel_size", "stride", "padding", "dilation", "groups", "padding_mode"),
        parameters=("weight", "bias", "weight_shift"),
        golden=golden,
        on_values=_on_values,
        channels=_channels,
        finest=finest_bias,
        scaled=ScaledUse("sums", exact_sums, _sums),
        ternary=("weight",),
        blocks=("weight",),
        check=check,
        formats=("data_in_0", "weight", "bias", "data_out_0"),
        hardware=Hardware(
            module="fixed_conv2d",
            params=ConvParams,
            build=build,
            latency=latency,
            cases=cases,
            takes=takes,
            tiled=tiled,
            work=work,
            multipliers=lambda p: p.multipliers,
            implementations=IMPLEMENTATIONS,
            delegates={"unrolled": "unrolled_conv", "table": "tabled_conv"},
            orders=ORDERS,
            narrow=lambda p: ("weight",) * narrow(p),
            registers_static=True,
            layout="channels_last",
            positions=positions,
            unrolls=True,
            static=("weight", "bias", "weight_shift"),
        ),
    )


OPS = (
    _op("conv1d", nn.Conv1d, F.conv1d, cases_1d),
    _op("conv2d", nn.Conv2d, F.conv2d, cases_2d),
)
