"""Layers of truth tables that are trained: what a table says is computed from its inputs by a few parameters.

In training a layer computes with ordinary tensor operations on numbers that are on the grids of its formats, rounded
with straight-through gradients; nothing is softer than what the tables will say. In evaluation, and in hardware, it is
a :class:`mase_hw.nn.tables.TableLayer` whose words are its results for all codes of its inputs.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.errors import ConfigError
from mase_hw.formats import FixedFormat
from mase_hw.nn.tables import MOST_INPUT_BITS, TableLayer, TableWindows

_SHARP = 4.0
"""By what the choice of an input is sharpened before its softmax."""
_FEW = 6
"""Inputs of a look-up table."""


class TableLinear(TableLayer):
    """A layer of tables, trained.

    Args:
        in_features: Inputs.
        out_features: Tables.
        fan_in: Inputs of a table.
        bits: Of every input and every result, which are numbers ``0, 1, ... 2 ** bits - 1`` over ``2 ** bits``; of
            one bit 0 and 1.
        out_bits: Of a result, if it has others.
        learn_sources: Every table learns which inputs it reads, as a weighted sum of all that becomes the largest.
        learn_fan_in: Every table learns which of its inputs it does without: it reads 0 in their place, and
            :meth:`luts` becomes smaller.
        hidden: Neurons of the hidden layer of a network between the inputs and the rounding, with batch normalisation,
            as NeuraLUT (arXiv 2403.00849) has them; 8 do. With 0, for inputs and results of one bit, every word has a
            parameter, and its sign is the bit; for the gradient a table is then the multilinear function between its
            words (with a fan-in of 2 a differentiable logic gate).
        seed: Of the sources and parameters.

    Shapes:
        ``(N, in_features)`` -> ``(N, out_features)``; in evaluation of any number of dimensions.

    Raises:
        ConfigError: If a table would read more than 12 bits, or words would be interpolated between inputs of several.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        fan_in: int = 4,
        bits: int = 1,
        out_bits: int | None = None,
        learn_sources: bool = False,
        learn_fan_in: bool = False,
        hidden: int = 0,
        seed: int = 0,
    ) -> None:
        out_bits = bits if out_bits is None else out_bits
        if not 1 <= fan_in * bits <= MOST_INPUT_BITS or hidden < 0:
            raise ConfigError(
                "this is no layer of tables",
                field="hidden" if hidden < 0 else "fan_in",
                got=hidden if hidden < 0 else f"{fan_in} inputs of {bits} bits",
                expected="0 neurons or more" if hidden < 0 else f"at most {MOST_INPUT_BITS} bits in all",
            )
        if not hidden and (bits, out_bits) != (1, 1):
            raise ConfigError(
                "words are interpolated between inputs of one bit",
                field="bits",
                got=f"{bits} and {out_bits}",
                expected="1",
                remedy="give hidden=8, for a network",
            )
        draw = torch.Generator().manual_seed(seed)
        # Every input is read about equally often, and by no table twice if there are enough.
        rounds = [torch.randperm(in_features, generator=draw) for _ in range(-(-out_features * fan_in // in_features))]
        sources = torch.cat(rounds)[: out_features * fan_in].reshape(out_features, fan_in)
        words = torch.zeros(out_features, 1 << (fan_in * bits), dtype=torch.int64)
        super().__init__(sources, words, _unit(bits), _unit(out_bits))
        self.in_features = in_features
        if not hidden:
            self.word = nn.Parameter(torch.randn(words.shape, generator=draw))
        else:
            scale = 1 / math.sqrt(fan_in)
            self.first = nn.Parameter(torch.randn(out_features, fan_in, hidden, generator=draw) * scale)
            self.offset = nn.Parameter(torch.randn(out_features, hidden, generator=draw) * scale)
            self.second = nn.Parameter(torch.randn(out_features, hidden, generator=draw) / math.sqrt(hidden))
            self.direct = nn.Parameter(torch.randn(out_features, fan_in, generator=draw) * scale)
            self.norm = nn.BatchNorm1d(out_features)
        if learn_fan_in:
            self.reads = nn.Parameter(torch.full((out_features, fan_in), 0.5))
        if learn_sources:
            start = 0.1 * torch.randn(out_features, fan_in, in_features, generator=draw)
            self.choice = nn.Parameter(start.scatter_add(2, sources[..., None], torch.ones(*sources.shape, 1)))

    def train(self, mode: bool = True) -> TableLinear:
        """As every module; sources and words are made from what was trained when that ends."""
        ends = self.training and not mode
        super().train(mode)
        if ends:
            self._harden()
        return self

    @torch.no_grad()
    def _harden(self) -> None:
        sources, words = self.get_buffer("sources"), self.get_buffer("words")
        if hasattr(self, "choice"):
            sources.copy_(self.choice.argmax(2))
        bits, (out, fan_in) = self.data_format.width, sources.shape
        address = torch.arange(words.shape[1], device=words.device)
        codes = torch.stack([address >> (bits * place) & ((1 << bits) - 1) for place in range(fan_in)], 1)
        x = (codes * math.ldexp(1.0, -self.data_format.frac_width)).float()
        for start in range(0, len(x), 256):
            part = x[start : start + 256, None].expand(-1, out, -1)
            steps = torch.round(self._values(part) * math.ldexp(1.0, self.word_format.frac_width))
            words[:, start : start + 256] = steps.T.to(torch.int64)

    def forward(self, x: Tensor) -> Tensor:
        """In training what the tables would say, with gradients; else what they say."""
        if not self.training:
            return super().forward(x)
        fmt = self.data_format
        step = math.ldexp(1.0, -fmt.frac_width)
        x = _straight(x, torch.round(x / step).clamp(0, fmt.max_mantissa) * step)
        if hasattr(self, "choice"):
            soft = torch.softmax(self.choice * _SHARP, 2)
            hard = F.one_hot(self.choice.argmax(2), self.in_features).to(soft.dtype)
            read = F.linear(x, _straight(soft, hard).flatten(0, 1)).reshape(len(x), *self.choice.shape[:2])
        else:
            read = x[:, self.get_buffer("sources")]
        return self._values(read)

    def luts(self) -> Tensor:
        """About how many look-up tables of six inputs the tables take, with gradients: a term of the loss.

        One of up to six bits is one of them for every bit of its result, and a part of one as far as it reads fewer; of
        more bits each doubles it.
        """
        out, fan_in = self.get_buffer("sources").shape
        read = self._read() if hasattr(self, "reads") else torch.ones(out, fan_in)
        bits = read.sum(1) * self.data_format.width
        return self.word_format.width * torch.where(bits > _FEW, 2 ** (bits - _FEW), bits / _FEW).sum()

    def _read(self) -> Tensor:
        """For every input of every table 1 if it is read, else 0."""
        soft = torch.sigmoid(self.reads * _SHARP)
        return _straight(soft, (self.reads > 0).to(soft.dtype))

    def _values(self, read: Tensor) -> Tensor:
        """The results of tables that read ``(N, out, fan_in)``."""
        fmt = self.word_format
        if hasattr(self, "reads"):
            read = read * self._read()
        if hasattr(self, "word"):
            # The one of four words, of eight and so on: the first input has the lowest bit of the address.
            soft = torch.sigmoid(self.word)
            words = _straight(soft, (self.word > 0).to(soft.dtype))[None]
            for place in reversed(range(read.shape[2])):
                low, high = words.chunk(2, 2)
                at = read[:, :, place, None]
                words = low + (high - low) * at
            return words[..., 0]
        inner = torch.relu(torch.einsum("nof,ofh->noh", read, self.first) + self.offset)
        z = (inner * self.second).sum(2) + (read * self.direct).sum(2)
        z = self.norm(z)
        most, step = fmt.max_mantissa, math.ldexp(1.0, -fmt.frac_width)
        z = torch.clamp(z / 4 + 0.5, 0, 1) * most
        return _straight(z, torch.round(z)) * step


class TableConv2d(TableLinear, TableWindows):
    """A convolution of tables, trained: the tables of a :class:`TableLinear` over every window of an image.

    Args:
        in_channels: Channels of an image.
        out_channels: Tables, a channel of the result each.
        kernel_size: Rows and columns of a window, or both as one number.
        stride: From one window to the next, likewise.
        padding: Pixels of 0 around the image, likewise.
        options: As :class:`TableLinear` takes them: ``fan_in``, ``bits``, ``out_bits``, ``learn_sources``,
            ``learn_fan_in``, ``hidden`` and ``seed``.

    Shapes:
        ``(N, in_channels, H, W)`` -> ``(N, out_channels, H', W')``.

    Raises:
        ConfigError: As :class:`TableLinear`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        *,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        **options: Any,
    ) -> None:
        kernel = _pair(kernel_size)
        super().__init__(in_channels * math.prod(kernel), out_channels, **options)
        self.kernel_size, self.stride, self.padding = kernel, _pair(stride), _pair(padding)

    def forward(self, x: Tensor) -> Tensor:
        """In training what the tables would say, with gradients; else what they say."""
        if not self.training:
            return TableWindows.forward(self, x)
        return self.images(x, super().forward(self.windows(x)))


def _pair(given: int | tuple[int, int]) -> tuple[int, int]:
    return (given, given) if isinstance(given, int) else given


def _unit(bits: int) -> FixedFormat:
    """The format of results: whole numbers of one bit, else fractions."""
    return FixedFormat(bits, 0 if bits == 1 else bits, signed=False)


def _straight(soft: Tensor, hard: Tensor) -> Tensor:
    """The second in value, with the gradient of the first."""
    return soft + (hard - soft).detach()
