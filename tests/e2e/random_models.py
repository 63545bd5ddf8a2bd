"""Models drawn by chance: layers, functions, joins and moves of elements, each of what any step before has made."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EXAMPLES = 13
"""Frames that a step is tried on, more than any other dimension has."""
MOST = 160
"""Elements of a tensor of a frame."""
TRIES = 40
"""Draws of a step, of which most do not fit the tensor that they are for."""
FUNCTIONS = (torch.relu, torch.sigmoid, torch.tanh, F.gelu, F.silu)
JOINS = (torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum)

Step = Callable[..., Tensor]


def _anywhere(rng: random.Random, x: Tensor) -> Step:
    """What takes a tensor of any dimensions."""
    dim, last = rng.randrange(1, x.dim()), x.shape[-1]
    first = rng.randrange(x.shape[dim])
    places = [slice(None)] * dim + [slice(first, rng.randint(first + 1, x.shape[dim]), rng.choice((1, 1, 2)))]
    return rng.choice(
        (
            rng.choice(FUNCTIONS),
            nn.Linear(last, rng.randint(1, 12), bias=rng.random() < 0.7),
            nn.LayerNorm(last),
            nn.Sequential(nn.Linear(last, last), nn.Sigmoid()),
            partial(torch.softmax, dim=dim),
            partial(torch.flip, dims=(dim,)),
            partial(torch.sum, dim=dim, keepdim=True),
            partial(torch.cumsum, dim=dim),
            partial(torch.roll, shifts=rng.randint(1, 3), dims=dim),
            partial(torch.mul, other=rng.choice((0.5, 1.3, -0.7))),
            lambda y: y[tuple(places)],
        )
    )


def _rows(rng: random.Random, x: Tensor) -> Step:
    """What takes several rows."""
    a, b = rng.sample(range(1, x.dim()), 2)
    return rng.choice(
        (partial(torch.transpose, dim0=a, dim1=b), partial(torch.mean, dim=a), partial(torch.flatten, start_dim=1))
    )


def _sequence(rng: random.Random, x: Tensor) -> Step:
    return rng.choice((nn.GRU(x.shape[2], rng.randint(1, 5), batch_first=True), nn.Conv1d(x.shape[1], 3, 2)))


def _image(rng: random.Random, x: Tensor) -> Step:
    channels, kernel = x.shape[1], rng.choice((1, 2, 3, 3))
    return rng.choice(
        (
            nn.Conv2d(channels, rng.randint(1, 5), kernel, rng.choice((1, 1, 2)), rng.randint(0, kernel // 2)),
            nn.Conv2d(channels, channels, 3, padding=1, groups=channels),
            nn.MaxPool2d(2, rng.choice((1, 2))),
            nn.AvgPool2d(3, 1, 1),
            nn.Upsample(scale_factor=2),
            nn.AdaptiveAvgPool2d(1),
        )
    )


def _join(rng: random.Random, x: Tensor) -> Step:
    kinds: list[Step] = [*JOINS, *JOINS, partial(_cat, dim=rng.randrange(1, x.dim()))]
    return rng.choice([*kinds, *[torch.matmul, _scores] * (x.dim() > 2)])


def _scores(a: Tensor, b: Tensor) -> Tensor:
    return a @ b.transpose(-1, -2)


def _cat(a: Tensor, b: Tensor, dim: int) -> Tensor:
    return torch.cat((a, b), dim)


class RandomModel(nn.Module):
    """A model of a seed.

    Args:
        seed: What all is drawn with.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        rng = random.Random(seed)
        torch.manual_seed(seed)
        shapes = (
            (rng.randint(1, 12),),
            (rng.randint(1, 7), rng.randint(1, 10)),
            (rng.randint(1, 5), rng.randint(2, 7), rng.randint(2, 7)),
        )
        self.shape = rng.choice(shapes)
        self.max_parallelism = rng.choice((1, 2, 3, 4, 6, 8, 16, 64))
        self.layers = nn.ModuleList()
        self.steps: list[tuple[int | Step, tuple[int, ...]]] = []
        values = [torch.randn(EXAMPLES, *self.shape)]
        for _ in range(rng.randint(4, 12)):
            self._draw(rng, values)
        read = {index for _, operands in self.steps for index in operands}
        self.results = [index for index in range(1, len(values)) if index not in read][-4:]

    def _draw(self, rng: random.Random, values: list[Tensor]) -> None:
        """One more step, if one of those drawn fits."""
        for _ in range(TRIES):
            operands = (rng.choice((len(values) - 1, rng.randrange(len(values)))),)
            x = values[operands[0]]
            kinds = [_anywhere, _anywhere, _join, _join, *[_rows] * (x.dim() > 2), *[_sequence] * (x.dim() == 3)]
            kind = rng.choice([*kinds, *[_image] * 3 * (x.dim() == 4)])
            step = kind(rng, x)
            if kind is _join:
                alike = [i for i, each in enumerate(values) if each.dim() == x.dim()]
                operands += (rng.choice(alike),)
            try:
                with torch.no_grad():
                    made = _first(step(*(values[index] for index in operands)))
            except (RuntimeError, IndexError):  # shapes that do not go together
                continue
            if made.dim() < 2 or not 0 < made[0].numel() <= MOST or made.shape[0] != EXAMPLES:
                continue
            if isinstance(step, nn.Module):
                self.layers.append(step)
            self.steps.append((len(self.layers) - 1 if isinstance(step, nn.Module) else step, operands))
            values.append(made)
            return

    def forward(self, x: Tensor) -> Tensor | Sequence[Tensor]:
        values = [x]
        for step, operands in self.steps:
            called = self.layers[step] if isinstance(step, int) else step
            values.append(_first(called(*(values[index] for index in operands))))
        results = tuple(values[index] for index in self.results)
        return results if len(results) > 1 else results[0]


def _first(made: Tensor | tuple[Tensor, ...]) -> Tensor:
    """The result; of a recurrent layer, its outputs."""
    return made[0] if isinstance(made, tuple) else made
