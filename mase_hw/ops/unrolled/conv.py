"""Convolutions whose constants are shifts and additions: a window per cycle, from a line buffer if it needs one.

The arithmetic is that of :mod:`mase_hw.ops.conv`. A window, all channels of all its elements, is the vector of an
unrolled layer (:mod:`mase_hw.ops.unrolled.unrolled`), whose rows are the kernels; those of other groups are zero there.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mase_hw.formats import FixedFormat
from mase_hw.formats.attributes import Attributes, attributes_of
from mase_hw.hardware.params import AxisPair, Cast, Image, Params
from mase_hw.opdef import (
    ONE_INPUT,
    Arithmetic,
    Case,
    Generated,
    Hardware,
    Latency,
    OpDef,
    Request,
    verilog_params,
)
from mase_hw.ops import conv
from mase_hw.ops._conv import geometry_of, padded
from mase_hw.ops._tensors import image, image_port
from mase_hw.ops._window import Window, geometry, window_stage
from mase_hw.ops.unrolled import unrolled
from mase_hw.ops.unrolled.unrolled import SOLVERS, TEMPLATE, Stages, check_unchanged, context_of, figures, layer_of
from mase_hw.steps import Steps
from mase_hw.streams import ceil_div

OF_WINDOWS = "ops/fixed_unrolled_conv.sv.j2"


class WindowParams(Params, frozen=True):
    """Parameters of a module that takes a window per cycle.

    Geometry as in ``fixed_conv2d``; ``line_buffer_depth`` are rows of the line buffer, 0 if there is none.
    """

    data_in_0: Image
    data_in_0_zero_point: int
    kernel_size: AxisPair
    stride: AxisPair
    padding: AxisPair
    dilation: AxisPair
    line_buffer_depth: int
    data_out_0: Image
    cast: Cast

    @property
    def window(self) -> Window:
        """What is known of the windows."""
        return geometry(self, 1)

    def attributes(self) -> Attributes:
        """The geometry; groups are in the constants."""
        window = self.window
        pads = (*window.padding, *window.after)
        return attributes_of({"stride": window.stride, "padding": pads, "dilation": window.dilation})


class UnrolledConvParams(WindowParams, frozen=True):
    """Parameters of an unrolled convolution; the module is made for these and takes no others.

    The rest is as in :class:`~mase_hw.ops.unrolled.unrolled.UnrolledParams`.
    """

    solver: int
    levels: int
    stages: int
    adder_bits: int
    carry_bits: int
    register_bits: int


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """That of a convolution, with the constants among the attributes if they are not among the tensors."""
    given = {**a.attributes.get("parameters", {}), **t}
    own = unrolled.whole(a)
    groups = t["data_in_0"].shape[1] // given["weight"].shape[1]
    return conv.golden(dataclasses.replace(own, attributes={**own.attributes, "groups": groups}), given)


def layer_of_window(
    a: Arithmetic, parameters: Mapping[str, Tensor], channels: int
) -> tuple[Arithmetic, dict[str, Tensor]]:
    """The layer of a window: formats and constants, a row for every kernel, with zeros for channels of other groups."""
    weight, fmt = parameters["weight"].to(torch.int64), a.formats["weight"]
    if "weight_shift" in parameters:
        weight = weight * fmt.spread(fmt.factors(parameters["weight_shift"].to(torch.int64)), weight.shape)
    kernels = weight.flatten(1)
    groups, inside = channels // weight.shape[1], kernels.shape[1]
    rows = torch.zeros(len(kernels), groups * inside, dtype=torch.int64)
    for row, kernel in enumerate(kernels):
        group = row * groups // len(kernels)
        rows[row, group * inside : (group + 1) * inside] = kernel
    plain = {**a.formats, "weight": FixedFormat(fmt.width, fmt.frac_width)}
    kept = {name: value for name, value in parameters.items() if name == "bias"}
    return dataclasses.replace(a, formats=plain), {**kept, "weight": rows}


def windows(r: Request) -> dict[str, Any]:
    """What parameters say of the streams and the windows between them."""
    formats, weight = r.arithmetic.formats, tuple(r.parameters["weight"].shape)
    g = geometry_of(r.arithmetic.attributes, weight[2:])
    (n, c, h, w), (_, o, *out) = (image(r.node, r.shapes[x], len(weight) - 2) for x in ("data_in_0", "data_out_0"))
    kernel = (weight[-2] if len(weight) == 4 else 1, weight[-1])
    window = Window((h, w), (out[0], out[1]), kernel, g.stride, g.before, g.dilation, 1)
    plain = kernel == (1, 1) and window.size == window.out and g.before == (0, 0)
    return {
        "data_in_0": image_port((n, c, h, w), formats["data_in_0"], c),
        "data_in_0_zero_point": formats["data_in_0"].zero_point if padded(r.arithmetic.attributes) else 0,
        "kernel_size": kernel[::-1],
        "stride": g.stride[::-1],
        "padding": g.before[::-1],
        "dilation": g.dilation[::-1],
        "line_buffer_depth": 0 if plain else ceil_div(window.depth(1), window.row_beats),
        "data_out_0": image_port((n, o, out[0], out[1]), formats["data_out_0"], o),
        "cast": r.arithmetic.modes,
    }


def _build(r: Request) -> UnrolledConvParams:
    found = windows(r)
    sizes = {name: found[name].size[0] for name in ONE_INPUT}
    arithmetic, parameters = layer_of_window(r.arithmetic, r.parameters, sizes["data_in_0"])
    layer = dataclasses.replace(r, arithmetic=arithmetic, parameters=parameters)
    found |= figures(layer, sizes)
    return UnrolledConvParams(**found)


def latency_of(p: WindowParams, stages: int) -> Latency:
    """A window per cycle, then all stages."""
    images, window = p.data_in_0.size[3], p.window
    behind = Steps.registered(images * window.positions, pipe=stages)
    if not p.line_buffer_depth:
        return Latency.from_steps(behind)
    return Latency.from_steps(window_stage(window, 1, p.line_buffer_depth * window.row_beats, images), behind)


def order_of(p: WindowParams) -> list[int]:
    """The element of a kernel, which has them channel by channel, that comes on each lane of a window.

    A window has its elements one after the other, each with all channels.
    """
    channels, elements = p.data_in_0.size[0], math.prod(p.kernel_size)
    return [channel * elements + place for place in range(elements) for channel in range(channels)]


def _generated(node: str, p: UnrolledConvParams, a: Arithmetic) -> Generated:
    channels = p.data_in_0.size[0]
    arithmetic, parameters = layer_of_window(unrolled.whole(a), a.attributes["parameters"], channels)
    layer = layer_of(node, arithmetic, parameters, list(SOLVERS)[p.solver])
    stages = Stages(layer.graph, p.levels)
    check_unchanged(node, p, stages.figures)
    context = context_of(layer, stages, arithmetic, order_of(p), verilog_params(p))
    context["golden"] = "`mase_hw/ops/conv.py`"
    if not p.line_buffer_depth:
        return Generated(f"fixed_unrolled_{node}", TEMPLATE, context)
    context |= {"source": "window", "channels": channels, "what": "y = cast(W x + b) of constants, a window per beat"}
    return Generated(f"fixed_unrolled_{node}", OF_WINDOWS, context)


@functools.cache
def _cases() -> tuple[Case, ...]:
    case = functools.partial(unrolled.case, _build, frames=4)
    random = functools.partial(unrolled.random, bits=6)
    s8 = "s8.4 s6.4 s8.5 s8.2"
    return (
        case("one_element", (1, 6, 2, 3), random(4, 6, 1, 1), s8, bias=random(4, bits=8), frames=6),
        case("window", (1, 3, 5, 4), random(4, 3, 3, 3), s8, bias=random(4, bits=8), padding=1),
        case("strided", (2, 2, 4, 5), random(3, 2, 2, 3), "u6.4 s6.3 - s9.2 floor wrap", 0, stride=(2, 1)),
        case("row", (1, 2, 1, 9), random(3, 2, 1, 4), "s8.4 s6.4 - s9.3 half_up", 1, padding=(0, 2), stride=(1, 2)),
        case("shortcut", (1, 5, 5, 6), random(4, 5, 1, 1), "s6.3 s6.4 - s8.2", stride=2),
        case("depthwise", (1, 4, 4, 4), random(4, 1, 3, 3), "s8.4 s6.4 - s9.3", groups=4, padding=1),
        case("groups", (1, 4, 3, 5), random(6, 2, 2, 2), "s8.4 s6.4 - s9.3 trunc", groups=2, dilation=(1, 2)),
        case(
            "steps_by_channel",
            (1, 2, 4, 3),
            random(3, 2, 2, 2),
            "s8.4 s6.6 s8.5 s10.3 weight_shift=u2.0",
            bias=random(3, bits=8),
            weight_shift=torch.tensor([0, 3, 1]),
            padding=(1, 0, 0, 1),
        ),
    )


OPS = (
    OpDef(
        name="unrolled_conv",
        mase_type="module_related_func",
        parameters=("weight", "bias", "weight_shift"),
        golden=golden,
        hardware=Hardware(
            module="fixed_unrolled_conv",
            file=OF_WINDOWS,
            params=UnrolledConvParams,
            build=_build,
            latency=lambda p: latency_of(p, p.stages),
            cases=_cases,
            generated=_generated,
            layout="channels_last",
        ),
    ),
)
