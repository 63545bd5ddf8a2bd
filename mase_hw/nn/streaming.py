"""A stream that never ends, cut into frames: what remembers across frames, and how long.

A frame of such a model is one *hop* of its stream. A batch holds consecutive hops: the first one follows a reset, each
other one the hop before it. Within :func:`continuing`, a call follows the call before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

BEFORE, AFTER = "before", "after"
"""Among the tensors of a golden: what it remembers of the hops before (none after a reset), and what it hands on."""
CONTINUED = "_stream"
"""Attribute of a quantised module within :func:`continuing`; never part of a copy or a pickle."""


class Taps(nn.Module):
    """The columns that a causal window reads, of every window in turn.

    The window of output ``m`` has its last column at ``m * stride + phase`` of the stream, and ``kernel - 1`` others
    before it, ``dilation`` apart. What lies before the stream is zero. A layer with this kernel, the same stride and
    neither dilation nor padding does with the result what it does with the windows.

    Args:
        kernel: Columns of a window.
        dilation: Distance of its columns.
        stride: Columns from a window to the next; a hop has a multiple of it.
        phase: Last column of the first window, ``0 <= phase < stride``.

    Shapes:
        Hops ``(N, C, L)`` -> ``(N, C, L / stride * kernel)``; or both with a height of 1, ``(N, C, 1, L)``.
    """

    mase_leaf = True

    def __init__(self, kernel: int, dilation: int = 1, stride: int = 1, phase: int = 0) -> None:
        super().__init__()
        self.kernel, self.dilation, self.stride, self.phase = kernel, dilation, stride, phase

    def forward(self, x: Tensor) -> Tensor:
        """The columns of all windows of consecutive hops."""
        return taps(x, None, self.kernel, self.dilation, self.stride, self.phase)[0]

    def extra_repr(self) -> str:
        """The window, for ``print(model)``."""
        return f"kernel={self.kernel}, dilation={self.dilation}, stride={self.stride}, phase={self.phase}"


def remembered(kernel: int, dilation: int, phase: int) -> int:
    """Columns of hops before that windows of a hop read."""
    return max(0, (kernel - 1) * dilation - phase)


def taps(
    x: Tensor, before: Tensor | None, kernel: int, dilation: int, stride: int, phase: int
) -> tuple[Tensor, Tensor]:
    """As :class:`Taps`, behind what was remembered.

    Args:
        x: Hops ``(N, C, L)`` or ``(N, C, 1, L)``.
        before: The last columns ``(C, remembered(...))`` of the hops before; zeros if None.
        kernel: See :class:`Taps`, as for all that follow.
        dilation: See :class:`Taps`.
        stride: See :class:`Taps`.
        phase: See :class:`Taps`.

    Returns:
        The columns, and what is remembered then.
    """
    hops, channels, length = x.shape[0], x.shape[1], x.shape[-1]
    columns = remembered(kernel, dilation, phase)
    past = x.new_zeros(channels, columns) if before is None else before.to(x.dtype)
    stream = torch.cat((past, x.transpose(0, 1).reshape(channels, hops * length)), 1)
    first = torch.arange(0, hops * length, stride, device=x.device) + columns + phase - (kernel - 1) * dilation
    places = first[:, None] + dilation * torch.arange(kernel, device=x.device)
    found = stream[:, places.reshape(-1)].reshape(channels, hops, -1).transpose(0, 1)
    return found.reshape(*x.shape[:-1], length // stride * kernel), stream[:, stream.shape[1] - columns :]


def is_stateful(module: nn.Module) -> bool:
    """Whether a quantised module has a memory of the hops before."""
    arithmetic, op = getattr(module, "arithmetic", None), getattr(module, "op", None)
    asked = getattr(op, "stateful", None)
    return asked is not None and arithmetic is not None and bool(asked(arithmetic.attributes))


def streaming(model: nn.Module) -> bool:
    """Whether frames of a quantised model are hops of a stream: something in it remembers."""
    return any(map(is_stateful, model.modules()))


@contextmanager
def continuing(model: nn.Module) -> Iterator[None]:
    """Calls of a quantised model within the block are hops of one stream, which begins with the block.

    Nothing changes for a model that does not remember. Outside of such a block every call begins a stream.
    """
    modules = [module for module in model.modules() if is_stateful(module)]
    kept = [module.__dict__.get(CONTINUED) for module in modules]
    try:
        for module in modules:
            module.__dict__[CONTINUED] = {}
        yield
    finally:
        for module, old in zip(modules, kept, strict=True):
            if old is None:
                module.__dict__.pop(CONTINUED, None)
            else:
                module.__dict__[CONTINUED] = old


def resumed(module: nn.Module) -> dict[str, Tensor]:
    """What a golden takes besides its inputs, within :func:`continuing`."""
    found: Mapping[str, Tensor] = module.__dict__.get(CONTINUED) or {}
    return dict(found)


def keep(module: nn.Module, results: Mapping[str, Tensor]) -> None:
    """Keep what a golden hands on to the next hop, within :func:`continuing`."""
    if module.__dict__.get(CONTINUED) is not None and AFTER in results:
        module.__dict__[CONTINUED] = {BEFORE: results[AFTER].detach()}
