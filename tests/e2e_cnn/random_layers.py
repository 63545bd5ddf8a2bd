"""Random steps that read one value: layers, activations, poolings, changes of order."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .random_steps import Constant, OneInput, RandomNet, Step, TwoInputs

MOST_ELEMENTS = 400
"""Largest tensor: a simulation takes seconds."""
MOST_PRODUCTS = 12_000
"""Most multiplications of one layer."""

SAME_SHAPE: dict[str, Callable[[], Callable[[Tensor], Tensor]]] = {
    "relu": nn.ReLU,
    "relu function": lambda: torch.relu,
    "relu method": lambda: lambda x: x.relu(),
    "relu6": nn.ReLU6,
    "leaky_relu": lambda: nn.LeakyReLU(0.1),
    "hardswish": nn.Hardswish,
    "hardsigmoid": lambda: F.hardsigmoid,
    "hardtanh": lambda: nn.Hardtanh(-0.5, 0.75),
    "clamp": lambda: lambda x: x.clamp(-0.7, 0.9),
    "abs": lambda: torch.abs,
    "neg": lambda: lambda x: -x,
    "sigmoid": nn.Sigmoid,
    "tanh": lambda: torch.tanh,
    "silu": nn.SiLU,
    "gelu": lambda: F.gelu,
    "elu": nn.ELU,
    "add number": lambda: lambda x: x + 0.375,
    "subtract from number": lambda: lambda x: 1 - x,
    "multiply number": lambda: lambda x: x * 0.7,
}
JOINS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
}


def _gate(x: Tensor) -> Tensor:
    data, gate = x.chunk(2, 1)
    return data * gate


class Layers:
    """A network that grows; every method tries to add a step and says whether it could.

    Args:
        seed: Same seed, same network.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        torch.manual_seed(seed)
        self.batch = self.rng.choice([1, 1, 1, 1, 1, 2])
        count = self.rng.choice([1, 1, 1, 2])
        self.net: RandomNet = TwoInputs() if count == 2 else OneInput()
        size = (self.rng.randint(3, 8), self.rng.randint(3, 8))
        shapes = [(self.batch, self.rng.randint(1, 5), *size) for _ in range(count)]
        self.values: list[Tensor] = [torch.rand(shape) * 2 - 1 for shape in shapes]
        self.inputs = count
        self.used = [0] * count

    def _pick(self) -> int:
        """A value to go on with: mostly one that nothing uses yet."""
        fresh = [i for i, uses in enumerate(self.used) if not uses]
        return self.rng.choice(fresh) if fresh and self.rng.random() < 0.8 else self.rng.randrange(len(self.values))

    def _add(self, kind: str, reads: Sequence[int], call: Callable[..., Any], text: str = "") -> int:
        """A step; a module becomes part of the network."""
        if isinstance(call, nn.Module):
            call.eval()
            self.net.layers[f"m{len(self.net.layers)}"] = call
            text = text or repr(call)
        with torch.no_grad():
            value = call(*(self.values[i] for i in reads))
        if value.numel() > MOST_ELEMENTS * self.batch:
            return -1
        self.net.steps.append(Step(kind, tuple(reads), call, text or kind))
        self.values.append(value)
        self.used.append(0)
        for i in reads:
            self.used[i] += 1
        return len(self.values) - 1

    def _convolution(self, i: int) -> bool:
        """Any kernel, stride, padding, dilation and groups that leave something of the image."""
        rng, x = self.rng, self.values[i]
        if x.dim() == 2:
            return self._linear(i)
        c, space = x.shape[1], x.shape[2:]
        kernel = [rng.choice([1, 2, 3, 3]) for _ in space]
        dilation = [rng.choice([1, 1, 1, 2]) for _ in space]
        stride = [rng.choice([1, 1, 2]) for _ in space]
        padding: Any = [rng.randint(0, k - 1) for k in kernel]
        if any(d * (k - 1) + 1 > s + 2 * p for d, k, s, p in zip(dilation, kernel, space, padding, strict=True)):
            return False
        shape, groups, out = rng.choice(["plain", "plain", "plain", "groups", "depthwise"]), 1, rng.randint(1, 8)
        divisors = [g for g in range(2, c + 1) if c % g == 0]
        if shape != "plain" and divisors:
            groups = c if shape == "depthwise" else rng.choice(divisors)
            out = groups * rng.choice([1, 1, 2])
        else:
            shape = "plain"
        if rng.random() < 0.15:
            stride, padding = [1 for _ in space], "same"
        kind = nn.Conv2d if x.dim() == 4 else nn.Conv1d
        layer = kind(c, out, kernel, stride, padding, dilation, groups, bias=rng.random() < 0.7)  # type: ignore[arg-type]
        products = math.prod(space) * layer.weight.numel() * self.batch
        name = {"plain": "convolution", "groups": "grouped convolution", "depthwise": "depthwise convolution"}[shape]
        return products <= MOST_PRODUCTS and self._add(f"{name} {len(space)}d", [i], layer) >= 0

    def _linear(self, i: int, out: int | None = None) -> bool:
        x = self.values[i]
        layer = nn.Linear(x.shape[-1], out or self.rng.randint(1, 9), bias=self.rng.random() < 0.7)
        return layer.weight.numel() <= MOST_PRODUCTS // 4 and self._add("linear", [i], layer) >= 0

    def _batch_norm(self, i: int) -> bool:
        x = self.values[i]
        return (
            x.dim() > 2
            and self._add("batch norm", [i], (nn.BatchNorm2d if x.dim() == 4 else nn.BatchNorm1d)(x.shape[1])) >= 0
        )

    def _pool(self, i: int) -> bool:
        rng, x = self.rng, self.values[i]
        if x.dim() == 2:
            return False
        space = x.shape[2:]
        two = len(space) == 2
        if rng.random() < 0.3:
            kind = rng.choice(["adaptive average", "adaptive maximum"])
            out = [rng.randint(1, min(s, 4)) for s in space]
            table: dict[tuple[str, bool], Any] = {
                ("adaptive average", True): nn.AdaptiveAvgPool2d,
                ("adaptive average", False): nn.AdaptiveAvgPool1d,
                ("adaptive maximum", True): nn.AdaptiveMaxPool2d,
                ("adaptive maximum", False): nn.AdaptiveMaxPool1d,
            }
            return self._add(kind, [i], table[kind, two](out if two else out[0])) >= 0
        kernel = [rng.randint(1, min(3, s)) for s in space]
        stride = [rng.randint(1, 2) for _ in space]
        padding = [rng.randint(0, k // 2) for k in kernel]
        ceil = rng.random() < 0.3
        sizes = [a if two else a[0] for a in (kernel, stride, padding)]
        if rng.random() < 0.5:
            return self._add("max pool", [i], (nn.MaxPool2d if two else nn.MaxPool1d)(*sizes, ceil_mode=ceil)) >= 0
        counted = rng.random() < 0.5
        return self._add("average pool", [i], (nn.AvgPool2d if two else nn.AvgPool1d)(*sizes, ceil, counted)) >= 0

    def _same_shape(self, i: int) -> bool:
        if self.rng.random() < 0.1 and self.values[i].dim() > 2:
            return self._add("prelu", [i], nn.PReLU(self.rng.choice([1, self.values[i].shape[1]]))) >= 0
        kind = self.rng.choice(list(SAME_SHAPE))
        return self._add(kind, [i], SAME_SHAPE[kind]()) >= 0

    def _constant(self, i: int) -> bool:
        shape = list(self.values[i].shape[1:])
        if len(shape) > 1 and self.rng.random() < 0.6:
            shape[1:] = [1 for _ in shape[1:]]
        kind = self.rng.choice(list(JOINS))
        module = Constant(JOINS[kind], torch.rand(shape) * 2 - 1)
        return self._add(f"{kind} constant", [i], module, f"{kind} constant of {shape}") >= 0

    def _order(self, i: int) -> bool:
        """Elements change places, by name only or in a buffer."""
        x, rng = self.values[i], self.rng
        if x.dim() == 4 and x.shape[1] % 2 == 0 and rng.random() < 0.5:
            if rng.random() < 0.3:
                return self._add("channel shuffle", [i], nn.ChannelShuffle(2)) >= 0
            c, h, w = x.shape[1:]
            return (
                self._add(
                    "channel shuffle",
                    [i],
                    lambda v: v.reshape(v.size(0), 2, c // 2, h, w).transpose(1, 2).reshape(v.size(0), c, h, w),
                )
                >= 0
            )
        if x.dim() == 4 and rng.random() < 0.6:
            order = rng.choice([(0, 1, 3, 2), (0, 2, 1, 3), (0, 2, 3, 1), (0, 3, 1, 2)])
            return self._add("permute", [i], lambda v: v.permute(order), f"permute {order}") >= 0
        if x.dim() > 2 and x[0].numel() <= 128:
            return self._add("flatten", [i], lambda v: v.flatten(1)) >= 0
        return False

    def _part(self, i: int) -> bool:
        """A part of a tensor, or both halves of its channels multiplied."""
        rng, x = self.rng, self.values[i]
        if x.shape[1] % 2 == 0 and rng.random() < 0.3:
            return self._add("gate", [i], _gate) >= 0
        dim = rng.randrange(1, x.dim())
        size = x.shape[dim]
        if size < 2:
            return False
        begin = rng.randrange(size)
        end = rng.randint(begin + 1, size)
        if rng.random() < 0.3:
            return (
                self._add("slice", [i], lambda v: v.narrow(dim, begin, end - begin), f"narrow {dim, begin, end}") >= 0
            )
        if begin and rng.random() < 0.3:
            return self._add("slice", [i], lambda v: v.split([begin, size - begin], dim)[1], f"split {dim, begin}") >= 0
        cut = (*[slice(None)] * dim, slice(begin, end, rng.choice([1, 1, 2])))
        return self._add("slice", [i], lambda v: v[cut], f"{cut}") >= 0

    def _resize(self, i: int) -> bool:
        x, rng = self.values[i], self.rng
        if x.dim() != 4:
            return False
        if rng.random() < 0.5:
            return self._add("upsample", [i], nn.Upsample(scale_factor=2)) >= 0
        amounts = tuple(rng.randint(0, 2) for _ in range(4))
        return any(amounts) and self._add("pad", [i], lambda v: F.pad(v, amounts), f"pad {amounts}") >= 0

    def _sequence(self, i: int) -> bool:
        """Rows one after the other: an image becomes a sequence."""
        if self.values[i].dim() != 4 or self._add("flatten to sequence", [i], lambda v: v.flatten(2)) < 0:
            return False
        at = len(self.values) - 1
        return self._convolution(at) or self._pool(at) or True
