"""Exact convolution of mantissas, whatever the device, and the attributes of a convolution in one form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.numerics import as_carrier, carrier
from mase_hw.numerics.exact_sums import EXACT_FLOAT32, exact_linear, full_precision, ranges_within, reduced_matmul
from mase_hw.ops._window import out_size

Pair = tuple[int, int]
BLOCKS = 16
"""Blocks of input channels between which a convolution is cut, at most."""


@dataclass(frozen=True)
class Geometry:
    """A convolution as hardware sees it; pairs are (vertical, horizontal).

    Args:
        stride: Pixels from one output position to the next.
        before: Zeros above and to the left of the image.
        after: Zeros below it and to its right.
        dilation: Pixels from one kernel element to the next.
        groups: Groups of channels.
    """

    stride: Pair
    before: Pair
    after: Pair
    dilation: Pair
    groups: int

    def out(self, size: Pair, kernel: Pair) -> Pair:
        """Rows and columns of output positions."""
        v, h = (
            out_size(s, k, step, b + a, d)
            for s, k, step, b, a, d in zip(
                size, kernel, self.stride, self.before, self.after, self.dilation, strict=True
            )
        )
        return v, h


def _pair(value: Any, dims: int) -> Pair:
    """Both directions of an attribute; the vertical one of a one-dimensional op comes from the caller."""
    values = tuple(value) if isinstance(value, tuple | list) else (value,) * dims
    return (int(values[0]), int(values[1])) if len(values) == 2 else (0, int(values[-1]))


def geometry_of(attributes: Mapping[str, Any], kernel: tuple[int, ...]) -> Geometry:
    """The geometry from the attributes of a module or a call, for a kernel of one or two dimensions.

    ``padding`` may be a number, a tuple, ``"valid"`` or ``"same"`` (an odd number of zeros has the odd one at the end).
    Four numbers are those on the top and on the left, at the bottom and on the right.
    """
    dims = len(kernel)
    stride, dilation = (_pair(attributes.get(name, 1), dims) for name in ("stride", "dilation"))
    padding = attributes.get("padding", 0)
    if dims == 1:
        stride, dilation = (1, stride[1]), (1, dilation[1])
    if padding == "same":
        sizes = kernel if dims == 2 else (1, kernel[0])
        total = tuple(d * (k - 1) for d, k in zip(dilation, sizes, strict=True))
        before = (total[0] // 2, total[1] // 2)
        after = (total[0] - before[0], total[1] - before[1])
    elif isinstance(padding, tuple | list) and len(padding) == 4:
        top, left, bottom, right = (int(v) for v in padding)
        before, after = (top, left), (bottom, right)
    else:
        before = after = _pair(0 if padding == "valid" else padding, dims)
    return Geometry(stride, before, after, dilation, int(attributes.get("groups", 1)))


def padded(attributes: Mapping[str, Any]) -> bool:
    """Whether anything but the image is in a window."""
    padding = attributes.get("padding", 0)
    if isinstance(padding, str):
        return padding != "valid"
    return any(padding) if isinstance(padding, tuple | list) else bool(padding)


def check(node: str, attributes: Mapping[str, Any]) -> None:
    """Refuse what the arithmetic does not cover.

    Raises:
        UnsupportedError: Padding with anything but zeros.
    """
    mode = attributes.get("padding_mode", "zeros")
    if mode != "zeros":
        raise UnsupportedError(
            "a convolution pads with zeros only",
            node=node,
            field="padding_mode",
            got=mode,
            expected="zeros",
            remedy="use padding_mode='zeros', or pad in front of the convolution",
        )


def exact_conv(x: Tensor, w: Tensor, b: Tensor | None, bound: int, g: Geometry, largest: int | None = None) -> Tensor:
    """``conv2d`` on mantissas, exact.

    Args:
        x: Integers of shape ``(N, C, H, W)``.
        w: Integers of shape ``(O, C / groups, KH, KW)``.
        b: Integers of shape ``(O,)`` in units of the products, or None.
        bound: Largest magnitude any partial sum can reach, the bias included.
        g: Stride, padding, dilation, groups.
        largest: Largest magnitude in ``x``, if it is known.

    Returns:
        Integers of shape ``(N, O, OH, OW)`` in the carrier of ``bound``, or a wider float one.
    """
    dtype = carrier(bound)
    if dtype == torch.float32 and (reduced_matmul() or reduced_conv()):
        dtype = torch.float64
    padding = g.before
    if g.before != g.after:
        x = F.pad(x, (g.before[1], g.after[1], g.before[0], g.after[0]))
        padding = (0, 0)
    if dtype == torch.int64 or x.device.type not in ("cpu", "cuda"):
        acc = _by_patches(x, w, bound, padding, g)
        return acc if b is None else acc + as_carrier(b, acc.dtype).view(-1, 1, 1)
    if dtype == torch.float64 and largest is not None:
        parts = _in_parts(x, w, b, bound, largest, padding, g)
        if parts is not None:
            return parts
    x, w = as_carrier(x, dtype), as_carrier(w, dtype)
    b = None if b is None else as_carrier(b, dtype)
    with full_precision(x.device):
        if x.device.type == "cpu":
            # oneDNN is asked for its direct algorithm, and ATen's own kernels are matrix products: sums of products
            # in any order, exact within the carrier.
            return F.conv2d(x, w, b, g.stride, padding, g.dilation, g.groups)
        # cuDNN may choose Winograd or FFT, whose intermediate values are no integers.
        with torch.backends.cudnn.flags(enabled=False):
            return F.conv2d(x, w, b, g.stride, padding, g.dilation, g.groups)


def _in_parts(
    x: Tensor, w: Tensor, b: Tensor | None, bound: int, largest: int, padding: Pair, g: Geometry
) -> Tensor | None:
    """As sums over ranges of input channels, each of which these weights leave exact in float32.

    None if that is not possible, would be no faster, or a gradient is wanted.
    """
    graded = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, w, b))
    if x.device.type != "cpu" or graded or largest > EXACT_FLOAT32 or reduced_matmul() or reduced_conv():
        return None
    channels = w.shape[1]
    # A group has channels of its own: what is cut are those of all groups, and one range is all there may be.
    blocks = next(n for n in range(BLOCKS, 0, -1) if channels % n == 0) if g.groups == 1 else 1
    # All weights of an output together are no more than this.
    exact = torch.float32 if bound <= largest * EXACT_FLOAT32 else torch.float64
    reach = w.detach().abs().reshape(w.shape[0], blocks, -1).sum(2, dtype=exact).double() * largest
    ranges = ranges_within(reach, EXACT_FLOAT32)
    if ranges is None:
        return None
    size = channels // blocks
    total: Tensor | None = None
    with full_precision(x.device):
        for found in ranges:
            part = slice(None) if g.groups > 1 else slice(found.start * size, found.stop * size)
            xs, ws = as_carrier(x[:, part], torch.float32), as_carrier(w[:, part], torch.float32)
            acc = F.conv2d(xs, ws, None, g.stride, padding, g.dilation, g.groups)
            total = acc.double() if total is None else total.add_(acc)
    assert total is not None  # there is always one
    return total if b is None else total.add_(as_carrier(b, torch.float64).view(-1, 1, 1))


def reduced_conv() -> bool:
    """Whether a CPU may compute float32 convolutions inexactly: oneDNN with fewer bits, NNPACK with transforms."""
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled):  # type: ignore[no-untyped-call]
        # Without oneDNN, NNPACK takes batches of 16 images and more, by Winograd or FFT; it has no float64.
        return True
    settings = (getattr(getattr(torch.backends, "mkldnn", None), "conv", None), torch.backends)
    return any(getattr(s, "fp32_precision", "ieee") not in ("ieee", "none") for s in settings)


def _by_patches(x: Tensor, w: Tensor, bound: int, padding: Pair, g: Geometry) -> Tensor:
    """As a matrix product of patches: any dtype, any device."""
    x = F.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    kernel = (w.shape[2], w.shape[3])
    for axis in (0, 1):
        reach = (kernel[axis] - 1) * g.dilation[axis] + 1
        x = x.unfold(2 + axis, reach, g.stride[axis])
    # (N, C, OH, OW, KH, KW) -> (N, OH, OW, C, KH, KW)
    patches = x[..., :: g.dilation[0], :: g.dilation[1]].permute(0, 2, 3, 1, 4, 5)
    inner, outer = patches.shape[3] // g.groups, w.shape[0] // g.groups
    parts = [
        exact_linear(
            patches[:, :, :, i * inner : (i + 1) * inner].flatten(3), w[i * outer : (i + 1) * outer].flatten(1), bound
        )
        for i in range(g.groups)
    ]
    return torch.cat(parts, dim=-1).permute(0, 3, 1, 2)
