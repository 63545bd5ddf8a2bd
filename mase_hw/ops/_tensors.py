"""What ops check of the lanes of a tensor, and how fine a bias is.

Images as streams: ``(N, C, H, W)`` travels channels-last, lanes along the channels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Port, port
from mase_hw.layouts import Layout
from mase_hw.opdef import Request
from mase_hw.streams import Stream


def lanes_within(node: str, name: str, lanes: tuple[int, ...], shape: tuple[int, ...]) -> int:
    """Parallelism along the innermost dimension, checked.

    Raises:
        UnsupportedError: If it exceeds the tensor, or an outer dimension is to be parallel.
    """
    size = shape[-1] if shape else 1
    if not 1 <= lanes[0] <= size or any(p != 1 for p in lanes[1:]):
        raise UnsupportedError(
            "this parallelism is not possible here",
            node=node,
            field=f"parallelism.{name}",
            got=list(lanes),
            expected=f"1 to {size} lanes along the innermost dimension, 1 along the others",
            remedy=f"lower hardware.parallelism.{node}.{name}",
        )
    return lanes[0]


ImageSize = tuple[int, int, int, int]
"""``(N, C, H, W)``."""


def image(node: str, shape: Sequence[int], spatial: int) -> ImageSize:
    """The sizes of an image or, with ``H = 1``, of a sequence ``(N, C, L)``.

    Args:
        node: For the error.
        shape: Of the tensor.
        spatial: Dimensions behind the channels.

    Raises:
        UnsupportedError: If the tensor is neither, for example because it has no batch dimension.
    """
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[3]
    if len(shape) == 3 and spatial == 1:
        return shape[0], shape[1], 1, shape[2]
    raise UnsupportedError(
        "this op needs a batch of images" if spatial == 2 else "this op needs a batch of sequences",
        node=node,
        field="data_in_0.shape",
        got=list(shape),
        expected="(N, C, H, W)" if spatial == 2 else "(N, C, L)",
        remedy="give the model inputs with a batch dimension: x.unsqueeze(0)",
    )


def image_port(size: ImageSize, fmt: FixedFormat, lanes: int, positions: int = 1) -> Port:
    """The port of an image, its four dimensions in the order of the stream; ``positions`` are columns of a beat."""
    n, c, h, w = size
    return port((n, h, w, c), fmt, lanes, positions, dims=4)


def positions_of(r: Request) -> tuple[int, int]:
    """Positions of a beat of the input and of the output of a node."""
    found = [r.layouts[name].positions if name in r.layouts else 1 for name in ("data_in_0", "data_out_0")]
    return found[0], found[1]


def as_they_come(
    attributes: Attributes, shapes: Mapping[str, tuple[int, ...]], arriving: int, wished: int
) -> tuple[int, int]:
    """Positions of a beat of an op that gives every position where it came, as many as arrive."""
    return arriving, arriving


def by_token(stream: Stream) -> Stream:
    """A stream of ``(..., tokens, heads, size)`` with lanes of one token, as it is with those of dimension 2 in a beat.

    Args:
        stream: Row-major, with the lanes of a token, 1, and the tokens of a beat.
    """
    (lanes, _, beside), (*outer, tokens, heads, size) = stream.parallelism, stream.shape
    if beside == 1:
        return dataclasses.replace(stream, parallelism=(lanes, *(1,) * (len(stream.shape) - 1)))
    return dataclasses.replace(
        stream,
        shape=(*outer, tokens // beside, heads, size * beside),
        parallelism=(lanes * beside,),
        layout=Layout.tokens(stream.shape, beside),
    )


def finest_bias(tensor: str, formats: Mapping[str, FixedFormat]) -> int | None:
    """A bias finer than the products would widen every sum for bits below their LSB."""
    return formats["data_in_0"].frac_width + formats["weight"].frac_width if tensor == "bias" else None
