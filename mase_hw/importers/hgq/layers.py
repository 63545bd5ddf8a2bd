"""The layers of HGQ2 and Keras that come in, by the name of their class; images lie channels last."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.formats import FixedFormat
from mase_hw.importers.exact import exact_format
from mase_hw.importers.graph import Known, Ref, Refused, Writer
from mase_hw.importers.hgq.grids import Grids, numbers


@dataclass
class Call:
    """A call of a layer.

    Args:
        writer: Of the graph.
        grids: The formats of its values.
        layer: The layer of Keras.
        given: Its inputs.
    """

    writer: Writer
    grids: Grids
    layer: Any
    given: list[Ref]

    def inputs(self) -> list[Ref]:
        """What it reads, as its quantisers of inputs give it."""
        if not getattr(self.layer, "enable_iq", False):
            return self.given
        found = self.layer.iq
        quantisers = list(found) if len(self.given) > 1 else [found]
        names = [f"{self.layer.name}_iq{'' if len(quantisers) == 1 else i}" for i in range(len(quantisers))]
        return [self.grids.rounded(x, q, n) for x, q, n in zip(self.given, quantisers, names, strict=True)]

    def x(self) -> Ref:
        """The same of its only input."""
        if len(self.given) != 1:
            raise Refused(f"{len(self.given)} inputs", "give it one")
        return self.inputs()[0]

    def result(self, x: Ref) -> Ref:
        """What it gives: an activation, if it has one, and its quantiser of outputs."""
        x = activated(self, x, getattr(self.layer, "activation", None))
        if getattr(self.layer, "enable_oq", False):
            x = self.grids.rounded(x, self.layer.oq, f"{self.layer.name}_oq")
        return x

    def moved(self, x: Ref, function: Callable[..., Any], *args: Any) -> Ref:
        """A call that only moves numbers, or leaves some out."""
        return self.grids.moved(x, self.writer.call(function, x, *args))

    def weights(self, made: nn.Linear | nn.Conv1d | nn.Conv2d, x: Ref, weight: Tensor) -> Ref:
        """A layer on ``x`` with weights, and the quantised bias where it has one for each output."""
        bias = None if self.layer.qbias is None else numbers(self.layer.qbias).reshape(-1)
        made.weight = nn.Parameter(_exact(weight), requires_grad=False)
        made.bias = None if bias is None else nn.Parameter(_exact(bias), requires_grad=False)
        found = self.writer.layer(made, x)
        known, fmt = self.grids.formats.get(x), exact_format(weight)
        finer = 0 if bias is None or known is None else exact_format(bias).frac_width - known.frac_width
        if finer > fmt.frac_width:  # the products are as fine as the bias
            wide = FixedFormat(fmt.width + finer - fmt.frac_width, finer)
            self.writer.weights[f"{found.target}.weight"] = Known(wide)
        return found


def _exact(value: Tensor) -> Tensor:
    made = value.float()
    if not torch.equal(made.double(), value):
        raise Refused("stored numbers that float32 does not hold", "train it in float32")
    return made


def activated(c: Call, x: Ref, activation: Any) -> Ref:
    """An activation of Keras."""
    name = getattr(activation, "__name__", activation)
    if name in (None, "linear"):
        return x
    if name != "relu":
        why = f"the activation {name}"
        raise Refused(why, "use relu, or leave it out: of logits the largest is that of their softmax as well")
    return c.writer.call(F.relu, x)


def dense(c: Call) -> Ref:
    """``QDense`` along the last dimension."""
    weight = numbers(c.layer.qkernel).T.contiguous()
    outputs, inner = weight.shape
    return c.result(c.weights(nn.Linear(inner, outputs), c.x(), weight))


def einsum(c: Call) -> Ref:
    """``QEinsumDense`` whose equation is a matrix: every letter of the kernel is in one of data and result."""
    x, kernel = c.x(), numbers(c.layer.qkernel)
    shape, equation = c.writer.shape(x), c.layer.equation.replace(" ", "")
    before, result = equation.split("->")
    data, stored = before.split(",")
    dots = "".join(chr(ord("0") + i) for i in range(len(shape) - len(data.replace("...", ""))))
    data, result = (text.replace("...", dots) for text in (data, result))
    inner, outer = ([c for c in stored if c in text] for text in (data, result))
    if set(inner) & set(outer) or len(inner) + len(outer) != len(stored) or result[0] != data[0]:
        raise Refused(f"the equation {equation}", "a letter of the kernel is one of the data, or one of the result")
    free = [letter for letter in data if letter in result]
    sizes = dict(zip(data, shape, strict=True)) | dict(zip(stored, kernel.shape, strict=True))
    count = [math.prod(sizes[letter] for letter in letters) for letters in (outer, inner)]
    weight = kernel.permute([stored.index(letter) for letter in outer + inner]).reshape(count)
    bias = c.layer.qbias
    if bias is not None and numbers(bias).numel() != count[0]:
        raise Refused(f"a bias along {c.layer.bias_axes}", "give it one for each output")
    turned = c.moved(x, torch.permute, [data.index(letter) for letter in free + inner])
    turned = c.grids.moved(x, c.writer.reshape(turned, [*(sizes[v] for v in free), count[1]]))
    made = c.weights(nn.Linear(count[1], count[0]), turned, weight.contiguous())
    made = c.writer.reshape(made, [sizes[letter] for letter in free + outer])
    return c.result(c.writer.call(torch.permute, made, [(free + outer).index(letter) for letter in result]))


def conv(c: Call) -> Ref:
    """``QConv1D`` and ``QConv2D``."""
    layer, x = c.layer, c.x()
    _channels_last(layer)
    rank = len(layer.kernel_size)
    weight = numbers(layer.qkernel).permute(rank + 1, rank, *range(rank)).contiguous()
    stride, dilation = tuple(layer.strides), tuple(layer.dilation_rate)
    span = [(k - 1) * d + 1 for k, d in zip(layer.kernel_size, dilation, strict=True)]
    pads = _pads(layer.padding, c.writer.shape(x)[1:-1], span, stride)
    turned = _first(c, x)
    if any(map(any, pads)):
        turned = c.moved(turned, F.pad, [n for pair in reversed(pads) for n in pair])
    kind: Any = {1: nn.Conv1d, 2: nn.Conv2d}[rank]
    more = {"stride": stride, "dilation": dilation, "groups": layer.groups}
    made = kind(weight.shape[1] * layer.groups, weight.shape[0], tuple(layer.kernel_size), **more)
    return c.result(_last(c, c.weights(made, turned, weight)))


def _pads(how: str, sizes: Sequence[int], span: Sequence[int], stride: Sequence[int]) -> list[tuple[int, int]]:
    """Zeros before and behind every dimension."""
    found = []
    for size, window, step in zip(sizes, span, stride, strict=True):
        more = max((math.ceil(size / step) - 1) * step + window - size, 0) if how == "same" else 0
        found.append((window - 1, 0) if how == "causal" else (more // 2, more - more // 2))
    return found


def _channels_last(layer: Any) -> None:
    if layer.data_format != "channels_last":
        raise Refused("channels first", "use channels_last")


def _first(c: Call, x: Ref) -> Ref:
    dims = len(c.writer.shape(x))
    return c.moved(x, torch.permute, (0, dims - 1, *range(1, dims - 1)))


def _last(c: Call, x: Ref) -> Ref:
    dims = len(c.writer.shape(x))
    return c.moved(x, torch.permute, (0, *range(2, dims), 1))


def pool(c: Call) -> Ref:
    """Maxima and means of windows, and of the whole of an image."""
    kind, layer, x = type(c.layer).__name__, c.layer, c.x()
    _channels_last(layer)
    sizes = c.writer.shape(x)[1:-1]
    whole = "Global" in kind
    window = sizes if whole else tuple(layer.pool_size)
    stride = sizes if whole else tuple(layer.strides)
    if not whole and layer.padding != "valid":
        raise Refused("padding of windows", 'use padding="valid"')
    name = ("max_pool" if "Max" in kind else "avg_pool") + f"{len(sizes)}d"
    turned = _first(c, x)
    made = c.writer.call(getattr(F, name), turned, window, stride)
    if "Max" in kind:
        made = c.grids.moved(turned, made)
    last = _last(c, made)
    if whole and not layer.keepdims:
        last = c.grids.moved(last, c.writer.reshape(last, (1, c.writer.shape(last)[-1])))
    return c.result(last)


def merged(c: Call) -> Ref:
    """Sums and differences."""
    first, *more = c.inputs()
    function = torch.sub if "Subtract" in type(c.layer).__name__ else torch.add
    for other in more:
        first = c.writer.call(function, first, other)
    return c.result(first)


def joined(c: Call) -> Ref:
    """``Concatenate``."""
    return c.writer.call(torch.cat, c.given, c.layer.axis)


def quantiser(c: Call) -> Ref:
    """A ``Quantizer`` in the place of a layer."""
    return c.grids.rounded(c.given[0], c.layer, c.layer.name)


def relu(c: Call) -> Ref:
    """``ReLU`` without a limit or a slope."""
    layer = c.layer
    if layer.max_value is not None or layer.negative_slope or layer.threshold:
        raise Refused("a limit, a slope or a threshold", "use the plain ReLU")
    return c.writer.call(F.relu, c.given[0])


def activation(c: Call) -> Ref:
    """``Activation``."""
    return activated(c, c.given[0], c.layer.activation)


def reshaped(c: Call) -> Ref:
    """``Flatten`` and ``Reshape``."""
    x = c.given[0]
    shape = c.writer.shape(x)
    count = math.prod(shape[1:])
    sizes = [count] if type(c.layer).__name__ == "Flatten" else [int(n) for n in c.layer.target_shape]
    rest = math.prod(n for n in sizes if n != -1)
    return c.grids.moved(x, c.writer.reshape(x, (1, *(count // rest if n == -1 else n for n in sizes))))


def permuted(c: Call) -> Ref:
    """``Permute``, which counts dimensions from 1."""
    return c.moved(c.given[0], torch.permute, (0, *c.layer.dims))


def same(c: Call) -> Ref:
    """What computes in training only."""
    return c.given[0]


_WINDOWS = [f"{g}{k}Pooling{n}D" for g in ("", "Global") for k in ("Max", "Average") for n in (1, 2)]
LAYERS: dict[str, Callable[[Call], Ref]] = {
    **dict.fromkeys(("QDense", "QBatchNormDense"), dense),
    **dict.fromkeys(("QEinsumDense", "QEinsumDenseBatchnorm"), einsum),
    **dict.fromkeys(("QConv1D", "QConv2D"), conv),
    **dict.fromkeys([f"{q}{name}" for q in ("", "Q") for name in _WINDOWS], pool),
    **dict.fromkeys(("QAdd", "QSubtract", "Add", "Subtract"), merged),
    **dict.fromkeys(("Flatten", "Reshape"), reshaped),
    **dict.fromkeys(("Dropout", "Identity", "GaussianNoise", "GaussianDropout", "ActivityRegularization"), same),
    "Activation": activation,
    "Concatenate": joined,
    "Permute": permuted,
    "Quantizer": quantiser,
    "ReLU": relu,
}
"""Class of a layer -> what writes it."""
