"""Images as streams: ``(N, C, H, W)`` travels channels-last, lanes along the channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.layouts import Layout
from mase_hw.ops._tensors import format_of, tensor_params
from mase_hw.streams import Direction, Stream, ceil_div

Image = tuple[int, int, int, int]
"""``(N, C, H, W)``."""
DIMS = 4


def image(node: str, shape: Sequence[int], spatial: int) -> Image:
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


def image_params(prefix: str, size: Image, fmt: FixedFormat, lanes: int) -> dict[str, int]:
    """The parameters of an image, its four dimensions in the order of the stream."""
    n, c, h, w = size
    return tensor_params(prefix, (n, h, w, c), fmt, (lanes,), dims=DIMS)


def image_of(params: Any, prefix: str) -> Image:
    """The sizes of an image, from the parameters."""
    c, w, h, n = (getattr(params, f"{prefix}_TENSOR_SIZE_DIM_{i}") for i in range(DIMS))
    return n, c, h, w


def tiles_of(params: Any, prefix: str) -> int:
    """Beats per pixel, from the parameters."""
    return ceil_div(getattr(params, f"{prefix}_TENSOR_SIZE_DIM_0"), getattr(params, f"{prefix}_PARALLELISM_DIM_0"))


def image_stream(params: Any, prefix: str, direction: Direction) -> Stream:
    """The stream of an image, from the parameters; the port is the prefix in lower case."""
    size = image_of(params, prefix)
    n, c, h, w = size
    lanes = tuple(getattr(params, f"{prefix}_PARALLELISM_DIM_{i}") for i in range(DIMS))
    layout = Layout.channels_last(size)
    return Stream(prefix.lower(), direction, (n, h, w, c), format_of(params, prefix), lanes, layout=layout)


def image_ports(params: Any) -> tuple[Stream, ...]:
    """One image in, one out."""
    return image_stream(params, "DATA_IN_0", "in"), image_stream(params, "DATA_OUT_0", "out")
