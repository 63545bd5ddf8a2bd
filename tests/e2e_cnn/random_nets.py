"""Random small convolutional networks with branches, and random ways to build them in hardware, from a seed.

A network grows step by step: an op is drawn, values that fit it are drawn, unused ones first, and the step is run on
the example, which gives the shape of its result. What nothing uses in the end becomes an output, or is joined. A
network prints itself as a listing of its steps, so that a failure can be written down by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from .random_config import configuration
from .random_layers import JOINS, MOST_PRODUCTS, Layers
from .random_steps import RandomNet, Shared


class Generator(Layers):
    """Draws one network."""

    def draw(self) -> RandomNet:
        """The network, in evaluation mode."""
        rng = self.rng
        for i in range(self.inputs):
            while not self._convolution(i):
                pass
        makers: list[tuple[Callable[[int], bool], int]] = [
            (self._convolution, 6),
            (self._batch_norm, 2),
            (self._pool, 2),
            (self._same_shape, 4),
            (self._constant, 1),
            (self._order, 2),
            (self._resize, 1),
            (self._part, 2),
            (self._sequence, 1),
            (self._join, 4),
            (self._around, 2),
            (self._again, 2),
        ]
        wanted = len(self.net.steps) + rng.randint(3, 7)
        for _ in range(60):
            if len(self.net.steps) >= wanted:
                break
            maker = rng.choices([m for m, _ in makers], [w for _, w in makers])[0]
            maker(self._pick())
        self._finish()
        for module in self.net.modules():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.uniform_(module.bias, -0.3, 0.3)
                nn.init.normal_(module.running_mean, 0, 0.3)
                nn.init.uniform_(module.running_var, 0.5, 2.0)
        return self.net.eval()

    def _join(self, i: int) -> bool:
        rng, x = self.rng, self.values[i]
        if rng.random() < 0.35:
            fits = [
                j for j, v in enumerate(self.values) if j != i and v.dim() == x.dim() and v.shape[2:] == x.shape[2:]
            ]
            parts = [i, *rng.sample(fits, min(len(fits), rng.choice([1, 1, 2])))]
            rng.shuffle(parts)
            return len(parts) > 1 and self._add("cat", parts, lambda *v: torch.cat(v, 1)) >= 0
        fits = [j for j, v in enumerate(self.values) if v.shape == x.shape and (j != i or rng.random() < 0.2)]
        if not fits:
            return False
        kind = rng.choice(list(JOINS))
        return self._add(kind, [i, rng.choice(fits)], JOINS[kind]) >= 0

    def _around(self, i: int) -> bool:
        """A residual block: one or two layers that keep the shape, and the way around them."""
        x, rng = self.values[i], self.rng
        if x.dim() != 4:
            return False
        at = i
        for _ in range(rng.choice([1, 2])):
            c = x.shape[1]
            groups = rng.choice([1, 1, c])
            layer = nn.Conv2d(c, c, rng.choice([1, 3]), padding="same", groups=groups)
            if layer.weight.numel() * x[:, 0].numel() > MOST_PRODUCTS:
                return False
            at = self._add("convolution 2d" if groups == 1 else "depthwise convolution 2d", [at], layer)
        kind = rng.choice(["add", "add", "mul"])
        return self._add(kind, rng.sample([at, i], 2), JOINS[kind]) >= 0

    def _again(self, i: int) -> bool:
        """A module that was called before, on something else."""
        x = self.values[i]
        before = []
        for step in self.net.steps:
            if isinstance(step.call, nn.Module) and not isinstance(step.call, nn.BatchNorm2d | nn.BatchNorm1d):
                then = self.values[step.reads[0]]
                if step.reads[0] != i and then.dim() == x.dim() and then.shape[1] == x.shape[1]:
                    before.append(step)
        if not before:
            return False
        step = self.rng.choice(before)
        try:
            return self._add("shared module", [i], Shared(step.call), f"again {step.text}") >= 0
        except RuntimeError:
            return False  # it does not fit this size

    def _head(self, i: int, size: int) -> int:
        """A value as a vector of a size."""
        x = self.values[i]
        if x.dim() == 4 and (x[0].numel() > 96 or self.rng.random() < 0.4):
            self._add("mean", [i], lambda v: v.mean([2, 3]))
            i = len(self.values) - 1
        elif x.dim() > 2:
            self._add("flatten", [i], lambda v: v.flatten(1))
            i = len(self.values) - 1
        self._linear(i, size)
        return len(self.values) - 1

    def _finish(self) -> None:
        """Results: what nothing uses, as it is or behind a linear; too many are joined. At times one from inside."""
        rng = self.rng
        most = rng.choice([1, 1, 2, 3])
        while len(fresh := [i for i, uses in enumerate(self.used) if not uses]) > most:
            size = rng.randint(2, 6)
            a, b = (self._head(i, size) for i in rng.sample(fresh, 2))
            if rng.random() < 0.5:
                self._add("add", [a, b], JOINS["add"])
            else:
                self._add("cat", [a, b], lambda *v: torch.cat(v, 1))
        for i in fresh:
            if rng.random() < 0.5:
                self._head(i, rng.randint(2, 6))
        self.net.results = [i for i, uses in enumerate(self.used) if not uses]
        if rng.random() < 0.2:
            inside = [i for i in range(self.inputs, len(self.values)) if i not in self.net.results]
            self.net.results += rng.sample(inside, min(1, len(inside)))


@dataclass
class Case:
    """A network and how it is built.

    Args:
        seed: Where all of it comes from.
        net: The float model, in evaluation mode.
        inputs: Frames that overlap, stacked along the first dimension, one tensor for each input.
        batch: Images per frame.
        config: For :func:`mase_hw.compile`.
    """

    seed: int
    net: RandomNet
    inputs: list[Tensor]
    batch: int
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def kinds(self) -> set[str]:
        """What the network is made of."""
        return {step.kind for step in self.net.steps}

    def frames(self) -> list[tuple[Tensor, ...]]:
        """The inputs frame by frame."""
        return list(zip(*(x.split(self.batch) for x in self.inputs), strict=True))

    def __str__(self) -> str:
        shapes = [[self.batch, *x.shape[1:]] for x in self.inputs]
        return f"seed {self.seed}: inputs {shapes}\n{self.net.listing(len(shapes))}\n{self.config}"


def random_case(seed: int, frames: int = 5) -> Case:
    """A network, frames for it and a configuration.

    Args:
        seed: Same seed, same case.
        frames: Frames that overlap in the design.
    """
    generator = Generator(seed)
    net = generator.draw()
    inputs = [torch.rand(frames * generator.batch, *v.shape[1:]) * 2 - 1 for v in generator.values[: generator.inputs]]
    for x in inputs:
        x[-generator.batch :] = torch.sign(x[-generator.batch :])
    return Case(seed, net, inputs, generator.batch, configuration(net, seed))
