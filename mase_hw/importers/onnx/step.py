"""One node of the source on its way into the graph: its inputs as values, and what all rules ask of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.importers.graph import MANY, Ref, Refused, Writer
from mase_hw.importers.onnx.source import Node
from mase_hw.ir.export.apart import SQUEEZED

MOST_LIST = 1 << 16


@dataclass
class Step:
    """A node with the values of its inputs.

    Args:
        node: The node.
        inputs: Its inputs; None for one that is left out.
        writer: Where the graph is written.
        opset: Version of the operations.
        readers: How often a result is read, by its name.
        of_many: Its inputs for many frames, where the file leaves their number open: the same data, and known values
            as the file computes them for so many. None if the file is for one frame.
        many: Whether ``inputs`` are those, so that shapes are for many frames.
        inside: Gives the results of a graph inside of the node for its inputs.
    """

    node: Node
    inputs: list[Ref | None]
    writer: Writer
    opset: int
    readers: dict[str, int]
    of_many: list[Ref | None] | None = None
    many: bool = False
    inside: Callable[[Any, list[Any]], list[Any]] | None = None

    def for_many(self) -> Step:
        """The same node for many frames."""
        assert self.of_many is not None  # the caller looked
        return dataclasses.replace(self, inputs=self.of_many, of_many=None, many=True)

    def sized(self, made: Ref, sizes: Callable[[Step], Sequence[int]]) -> Ref:
        """A result whose sizes the file gives; refuses what is not the frames one by one for any number of them.

        Args:
            made: The result.
            sizes: Its sizes, from the node for one frame or for many.
        """
        if self.of_many is None or not isinstance(made, fx.Node):
            return made
        given, have = self.for_many().shape(), self.writer.shape_of_many(made)
        why = None
        try:
            found = tuple(sizes(self.for_many()))
        except Refused as error:
            why = error.why.replace(str(MANY), "N")
        if why is not None or found != have:
            gives = why or f"of {_open(given)} it gives {_open(found)}, and of each frame alone {_open(have)}"
            raise Refused(
                f"it works along the batch, or fixes its size: {gives}",
                "if the model is for one frame, set the first size of its inputs to 1 in the file; else leave the "
                "batch as it is",
            )
        return made

    def has(self, index: int) -> bool:
        """Whether an input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def any(self, index: int) -> Ref:
        """An input, data or known."""
        if not self.has(index):
            raise Refused(f"input {index} is missing")
        return self.inputs[index]

    def data(self, index: int = 0) -> Ref:
        """An input of floats."""
        found = self.any(index)
        self.writer.like(found)
        return found

    def known(self, index: int, what: str) -> Tensor:
        """An input that must not depend on data."""
        found = self.any(index)
        if isinstance(found, fx.Node) or not isinstance(found, Tensor):
            raise Refused(f"{what} depends on data", "export the model with constants, and fold them")
        return found

    def maybe_known(self, index: int, what: str) -> Tensor | None:
        """The same, None if the input is left out."""
        return self.known(index, what) if self.has(index) else None

    def numbers(self, index: int, what: str) -> list[int]:
        """A known input of integers as a list."""
        return integers(self.known(index, what), what)

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """Shape of an input for one frame, or for many."""
        return (self.writer.shape_of_many if self.many else self.writer.shape)(self.any(index))

    def axis(self, value: int, dims: int) -> int:
        """An axis as one that is not negative."""
        if not -dims <= value < dims:
            raise Refused(f"the axis {value} of a tensor of {dims} dimensions")
        return value % dims

    def axes(self, index: int, dims: int) -> list[int] | None:
        """Axes; None if they are left out."""
        found = self.numbers(index, "a list of axes") if self.has(index) else None
        return None if found is None else [self.axis(a, dims) for a in found]

    @property
    def alone(self) -> bool:
        """Whether the file is for one frame, so that it may reduce or take away the dimension of it."""
        return self.of_many is None and not self.many

    def frame_axis(self, axis: int, index: int = 0) -> None:
        """Refuse to work along the dimension of the frames."""
        if self.writer.frames_dim(self.any(index)) == axis:
            if len(self.shape(index)) == 1 < self.shape(index)[0]:
                raise Refused(*SQUEEZED.split(": "))
            raise Refused("it works along the batch", "frames are computed one by one")

    def call(self, function: Any, *args: Any, **kwargs: Any) -> Ref:
        """:meth:`~mase_hw.importers.graph.Writer.call`."""
        return self.writer.call(function, *args, **kwargs)

    def table(self, rows: Tensor, places: Ref) -> Ref:
        """Rows of a stored tensor at places that are data."""
        count, size = rows.shape
        return self.layer(nn.Embedding(count, size, device="meta"), places, weight=rows)

    def layer(self, module: nn.Module, x: Ref | None = None, **parameters: Tensor | None) -> Ref:
        """A layer on a tensor, the first input unless it is given, with these parameters in the place of its own."""
        for name, value in parameters.items():
            if value is None:
                continue
            own = getattr(module, name)
            if tuple(own.shape) != tuple(value.shape):
                raise Refused(f"its {name} has the shape {list(value.shape)}, not {list(own.shape)}")
            if isinstance(own, nn.Parameter):
                module.register_parameter(name, nn.Parameter(value.to(torch.float32).contiguous()))
            else:
                module.register_buffer(name, value.to(torch.float32))
        made = self.writer.layer(module, self.data() if x is None else x)
        for name, value in parameters.items():
            if value is not None and isinstance(made, fx.Node):
                self.writer.weights[f"{made.target}.{name}"] = self.writer.noted(value)
        return made


def _open(sizes: Sequence[int]) -> str:
    """Sizes for many frames, as one writes them for any number."""
    named = ("N" if n == MANY else f"{n // MANY}N" if n and n % MANY == 0 else str(n) for n in sizes)
    return f"[{', '.join(named)}]"


def integers(value: Tensor, what: str) -> list[int]:
    """The integers of a tensor."""
    if value.dtype.is_floating_point or value.dim() > 1 or value.numel() > MOST_LIST:
        raise Refused(f"{what} is no list of integers")
    return [int(v) for v in value.reshape(-1).tolist()]


def scalar(value: Ref, dims: int) -> Any:
    """A known tensor of one element as a number, if that gives results of the same shape; anything else as it is."""
    if isinstance(value, Tensor) and value.numel() == 1 and value.dim() <= dims and value.dtype != torch.bool:
        return value.item()
    return value


def padded_window(
    sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], node: Node
) -> list[tuple[int, int]]:
    """What is padded before and after every spatial dimension, from ``pads`` or ``auto_pad``."""
    mode = node.get("auto_pad", "NOTSET")
    pads = node.maybe_ints("pads")
    if mode == "NOTSET":
        pads = [0] * (2 * len(kernel)) if pads is None else pads
        if len(pads) != 2 * len(kernel) or any(not 0 <= p < 1 << 16 for p in pads):
            raise Refused(f"the padding {pads} of {len(kernel)} dimensions")
        return list(zip(pads[: len(kernel)], pads[len(kernel) :], strict=True))
    if mode == "VALID":
        return [(0, 0)] * len(kernel)
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise Refused(f"auto_pad is {mode!r:.60}")
    found = []
    for size, k, s, d in zip(sizes, kernel, stride, dilation, strict=True):
        total = max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0)
        less, more = total // 2, total - total // 2
        found.append((less, more) if mode == "SAME_UPPER" else (more, less))
    return found


def window(node: Node, dims: int, kernel: Sequence[int] | None = None) -> tuple[list[int], list[int], list[int]]:
    """Kernel, stride and dilation of a window over ``dims`` dimensions."""
    given = node.maybe_ints("kernel_shape")
    if kernel is None:
        kernel = node.ints("kernel_shape")
    elif given is not None and list(given) != list(kernel):
        raise Refused(f"kernel_shape {given} and weights of {list(kernel)}")
    stride, dilation = node.ints("strides", [1] * dims), node.ints("dilations", [1] * dims)
    for what, values in (("kernel", kernel), ("stride", stride), ("dilation", dilation)):
        if len(values) != dims or any(not 0 < v < 1 << 16 for v in values):
            raise Refused(f"a {what} of {list(values)} over {dims} dimensions")
    return list(kernel), stride, dilation
