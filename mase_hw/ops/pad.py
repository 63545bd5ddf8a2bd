"""Zeros around an image: the pixels are cast, the zeros are zero in every format: the zero point of scaled integers."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor, nn
from torch.nn import functional

from mase_hw.errors import UnsupportedError
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Image, Params
from mase_hw.numerics import cast
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._cases import case
from mase_hw.ops._scaled import BORDER
from mase_hw.ops._tensors import image, image_port, lanes_within, positions_of
from mase_hw.steps import Steps


class PadParams(Params, frozen=True):
    """Parameters of ``fixed_zero_pad2d``: both tensors, and columns and rows of zeros."""

    data_in_0: Image
    padding_left: int
    padding_right: int
    padding_top: int
    padding_bottom: int
    data_out_0: Image
    cast: Cast
    data_in_0_zero_point: int

    def attributes(self) -> Attributes:
        """How much is added."""
        return {"pad": (self.padding_left, self.padding_right, self.padding_top, self.padding_bottom)}


def _amounts(node: str, attributes: Attributes, rank: int) -> list[int]:
    """Left, right, top, bottom; the function calls it ``pad``, the modules ``padding``.

    Raises:
        UnsupportedError: If anything but columns and rows grows, or something is cut off.
    """
    value = attributes.get("pad", attributes.get("padding", ()))
    spatial = max(rank - 2, 0)
    given = [int(v) for v in value] if isinstance(value, Sequence) else [int(value)] * 2 * spatial
    outer = given[2 * spatial :]
    if spatial not in (1, 2) or any(outer) or any(v < 0 for v in given):
        raise UnsupportedError(
            "only rows and columns of zeros can be added to an image",
            node=node,
            field="pad",
            got=value,
            expected="(left, right, top, bottom), none of them negative, of an image (N, C, H, W)",
            remedy="pad the last two dimensions only (the last one of (N, C, L)); slice a tensor to cut it",
        )
    return (given[: 2 * spatial] + [0] * 4)[:4]


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (N, C, H, W)`` or ``(N, C, L)`` -> ``data_out_0`` with zeros around it."""
    x = t["data_in_0"]
    amounts = _amounts("pad", a.attributes, x.ndim)
    source, target = a.formats["data_in_0"], a.formats["data_out_0"].mantissas
    pixels = cast(x, source.frac_width, target, a.rounding, a.overflow)
    return {"data_out_0": functional.pad(pixels, amounts[: 2 * (x.ndim - 2)], value=float(source.zero_point))}


def _build(r: Request) -> PadParams:
    formats, shape = r.arithmetic.formats, r.shapes["data_in_0"]
    left, right, top, bottom = _amounts(r.node, r.arithmetic.attributes, len(shape))
    size = image(r.node, shape, len(shape) - 2)
    n, c, h, w = size
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], (n, h, w, c))
    beside = positions_of(r)[0]
    return PadParams(
        data_in_0=image_port(size, formats["data_in_0"], lanes, beside),
        padding_left=left,
        padding_right=right,
        padding_top=top,
        padding_bottom=bottom,
        data_out_0=image_port((n, c, h + top + bottom, w + left + right), formats["data_out_0"], lanes, beside),
        cast=r.arithmetic.modes,
        data_in_0_zero_point=formats["data_in_0"].zero_point,
    )


def _positions(attributes: Attributes, shapes: Mapping[str, tuple[int, ...]], arriving: int, _: int) -> tuple[int, int]:
    """As many as arrive, where they divide the width of the result."""
    beside = math.gcd(arriving, shapes["data_out_0"][-1])
    return beside, beside


@functools.cache
def _latency(p: PadParams) -> Latency:
    tiles, w, h, n = p.data_out_0.tiles
    left = p.padding_left // p.data_in_0.lanes[1]
    pixel = np.zeros((n, h, w, tiles), dtype=np.int64)
    pixel[:, p.padding_top : h - p.padding_bottom, left : left + p.data_in_0.tiles[1]] = 1
    sent = np.cumsum(pixel.reshape(-1))
    # A zero waits for the pixel behind it, if there is one.
    needs = np.minimum(sent + 1 - pixel.reshape(-1), sent[-1])
    every = np.arange(1, sent.size + 1, dtype=np.int64)
    steps = Steps((needs,), (sent,), every, delay=(1,), pipe=1, room=(2,), queue=1, queue_lag=0)
    return Latency.from_steps(steps)


def _cases() -> list[Case]:
    return [
        case(_build, "around", (1, 3, 3, 4), 2, pad=(1, 1, 1, 1)),
        case(_build, "zero_point", (1, 3, 2, 2), 2, "z8.-77 s8.0", pad=(0, 1, 2, 1)),
        case(_build, "uneven", (2, 2, 2, 3), 1, "s8.4 u4.1 half_up wrap", pad=(2, 0, 0, 3)),
        case(_build, "two_columns", (1, 3, 3, 4), 2, pad=(2, 4, 1, 0), positions=2),
        case(_build, "around_columns", (1, 3, 3, 4), 2, pad=(1, 1, 1, 1), positions=2),
        case(_build, "three_on_the_left", (1, 2, 2, 8), 1, "s8.4 s6.3", pad=(3, 1, 0, 0), positions=4),
        case(_build, "rows_of_four", (2, 2, 2, 8), 1, "s8.4 s6.3", pad=(0, 0, 2, 1), positions=4),
    ]


def _check(node: str, attributes: Attributes) -> None:
    value, mode = attributes.get("value"), attributes.get("mode", "constant")
    if mode != "constant" or value not in (None, 0, 0.0):
        raise UnsupportedError(
            "an image is padded with zeros in hardware; any other finite number is added by a pass",
            node=node,
            field="mode" if mode != "constant" else "value",
            got=mode if mode != "constant" else value,
            expected="constant" if mode != "constant" else 0,
            remedy="run lower_layers_transform_pass before calibration (compile does), and pad with a number that a "
            "format holds",
        )


OPS = (
    OpDef(
        name="pad",
        mase_type="implicit_func",
        modules=(nn.ZeroPad1d, nn.ZeroPad2d, nn.ConstantPad1d, nn.ConstantPad2d),
        functions=(functional.pad,),
        attributes=("padding", "value"),
        golden=golden,
        scaled=BORDER,
        default_out=lambda formats: formats["data_in_0"],
        check=_check,
        hardware=Hardware(
            module="fixed_zero_pad2d",
            params=PadParams,
            build=_build,
            latency=_latency,
            cases=_cases,
            follows_input=True,
            layout="channels_last",
            positions=_positions,
        ),
    ),
)
