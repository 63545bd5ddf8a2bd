"""Networks without products: decision trees, whose leaves are added, and layers of truth tables.

Both compute with integers alone. Values enter and leave as floats, as those of every module; a result is a whole number
of steps of its format, so a float holds it exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.errors import GraphError
from mase_hw.formats import FixedFormat
from mase_hw.formats.attributes import Attributes
from mase_hw.host.documents import Json
from mase_hw.opdef import KnownOps

LEAF = -1
"""Feature of a node that is a leaf."""
MOST_INPUT_BITS = 12
"""Most bits that a table reads."""


class Tree(NamedTuple):
    """A decision tree, node by node, the root first and every node before its children.

    Args:
        feature: What a node compares; :data:`LEAF` of a leaf.
        threshold: A value goes to the left if it is at most this.
        left: Number of the left child; that of the node itself, of a leaf.
        right: Number of the right child; likewise.
        leaf: What a leaf adds to every result, in steps of the format of the leaves; 0 for nodes that are none.
    """

    feature: tuple[int, ...]
    threshold: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    leaf: tuple[tuple[int, ...], ...]

    @property
    def depth(self) -> int:
        """Comparisons one after the other, at most."""
        depths = [0] * len(self.feature)
        for node, feature in enumerate(self.feature):
            if feature != LEAF:
                depths[self.left[node]] = depths[self.right[node]] = depths[node] + 1
        return max(depths)


def reached(trees: Sequence[Tree], x: Tensor, thresholds: Sequence[Sequence[float]]) -> Tensor:
    """The leaf that every sample reaches in every tree.

    Args:
        trees: The trees.
        x: Samples, ``(N, features)``.
        thresholds: Of every node of every tree, in the numbers that ``x`` has.

    Returns:
        Numbers of nodes, ``(N, trees)``.
    """
    found = []
    for tree, limits in zip(trees, thresholds, strict=True):
        feature = torch.tensor([max(f, 0) for f in tree.feature], device=x.device)
        limit = torch.tensor(limits, dtype=torch.float64, device=x.device)
        children = torch.tensor([tree.left, tree.right], device=x.device)
        node = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        for _ in range(tree.depth):
            right = x.gather(1, feature[node][:, None])[:, 0].double() > limit[node]
            node = torch.where(right, children[1].gather(0, node), children[0].gather(0, node))
        found.append(node)
    return torch.stack(found, 1)


def grown(trees: Sequence[Tree], base: Sequence[int], leaves: Tensor) -> Tensor:
    """The sums of the leaves that were reached, ``(N, results)``, integers as float64."""
    total = torch.tensor(base, dtype=torch.float64, device=leaves.device).repeat(len(leaves), 1)
    for column, tree in enumerate(trees):
        total += torch.tensor(tree.leaf, dtype=torch.float64, device=leaves.device)[leaves[:, column]]
    return total


def forest_format(attributes: Attributes) -> FixedFormat:
    """The narrowest format that holds every sum of leaves."""
    base = np.array(attributes["base_leaf"], dtype=np.int64)
    low = high = base
    for tree in attributes["trees"]:
        rows = np.array([row for row, feature in zip(tree.leaf, tree.feature, strict=True) if feature == LEAF])
        low, high = low + rows.min(0), high + rows.max(0)
    least, most = int(low.min()), int(high.max())
    signed = least < 0
    bits = max((-least - 1).bit_length() if signed else 0, max(most, 0).bit_length(), 1) + signed
    return FixedFormat(bits, attributes["leaf_frac"], signed=signed)


class Forest(nn.Module):
    """A forest of decision trees: what every leaf says, added.

    Args:
        trees: The trees.
        base_leaf: What every result begins with, in steps of the leaves.
        leaf_frac: Fraction width of the leaves: a step is ``2 ** -leaf_frac``.
        features: Values of a sample.

    Shapes:
        ``(N, features)`` -> ``(N, results)``.

    Raises:
        GraphError: If there is no tree, or the trees have different numbers of results.
    """

    mase_leaf = True

    def __init__(self, trees: Sequence[Tree], base_leaf: Sequence[int], leaf_frac: int, features: int) -> None:
        super().__init__()
        self.trees, self.base_leaf = tuple(Tree(*tree) for tree in trees), tuple(base_leaf)
        self.leaf_frac, self.features = leaf_frac, features
        if not trees or any(len(row) != len(self.base_leaf) for tree in self.trees for row in tree.leaf):
            raise GraphError(
                "the trees of a forest have as many results as it has",
                node="forest",
                got=sorted({len(row) for tree in self.trees for row in tree.leaf}) or "no tree",
                expected=len(self.base_leaf),
            )

    def leaves(self, x: Tensor) -> Tensor:
        """Numbers of the leaves that samples reach, ``(N, trees)``."""
        return reached(self.trees, x, [tree.threshold for tree in self.trees])

    def forward(self, x: Tensor) -> Tensor:
        """The sum of the leaves, in float."""
        total = grown(self.trees, self.base_leaf, self.leaves(x))
        return (total * math.ldexp(1.0, -self.leaf_frac)).to(x.dtype)

    def extra_repr(self) -> str:
        """Its size, for ``print(model)``."""
        nodes = sum(feature != LEAF for tree in self.trees for feature in tree.feature)
        return f"{len(self.trees)} trees, {nodes} comparisons, {self.features} -> {len(self.base_leaf)}"

    def to_document(self) -> Json:
        """The constructor's arguments, for a checkpoint."""
        trees = [list(tree) for tree in self.trees]
        return {
            "trees": trees,
            "base_leaf": self.base_leaf,
            "leaf_frac": self.leaf_frac,
            "features": self.features,
        }

    @classmethod
    def from_document(cls, document: Json, tensors: Mapping[str, Tensor], catalogue: KnownOps) -> Forest:
        """Build the module that :meth:`to_document` describes."""
        return cls(document["trees"], document["base_leaf"], document["leaf_frac"], document["features"])


def codes_of(x: Tensor, low: int) -> Tensor:
    """Numbers from 0 on, of mantissas whose smallest one is ``low``."""
    return x.to(torch.int64) - low


def look_up(codes: Tensor, bits: int, sources: Tensor, words: Tensor) -> Tensor:
    """What tables say.

    Args:
        codes: Of the inputs, ``(N, in)``, from 0 to ``2 ** bits - 1``.
        bits: Of a code.
        sources: The inputs of every table, ``(out, fan_in)``; the first one has the lowest bits of the address.
        words: Of every table, ``(out, 2 ** (bits * fan_in))``.

    Returns:
        The words, ``(N, out)``.
    """
    address = torch.zeros(len(codes), len(sources), dtype=torch.int64, device=codes.device)
    for place, column in enumerate(sources.T):
        address |= codes[:, column] << (bits * place)
    return words.gather(1, address.T).T


class TableLayer(nn.Module):
    """A layer of truth tables: every result is looked up with the codes of a few inputs.

    A code is the mantissa of an input in ``data_format``, counted from the smallest one; inputs are rounded to that
    format if they are finer, and saturate.

    Args:
        sources: The inputs of every table, ``(out, fan_in)``; the first one has the lowest bits of the address.
        words: Of every table, ``(out, 2 ** (bits * fan_in))``, mantissas of the result.
        data_format: Of the inputs.
        word_format: Of the results.

    Shapes:
        ``(..., in)`` -> ``(..., out)``.

    Raises:
        GraphError: If a table has another number of words, or reads more than 12 bits.
    """

    mase_leaf = True

    def __init__(self, sources: Tensor, words: Tensor, data_format: FixedFormat, word_format: FixedFormat) -> None:
        super().__init__()
        self.data_format, self.word_format = data_format, word_format
        self.register_buffer("sources", sources.to(torch.int64))
        self.register_buffer("words", words.to(torch.int64))
        read = sources.shape[1] * data_format.width
        if read > MOST_INPUT_BITS or tuple(words.shape) != (len(sources), 1 << read):
            raise GraphError(
                "a table has a word for every code of its inputs",
                node="tables",
                got=f"words {list(words.shape)} for sources {list(sources.shape)} of {data_format.width} bits",
                expected=f"at most {MOST_INPUT_BITS} bits, and {1 << min(read, MOST_INPUT_BITS)} words a table",
            )

    @property
    def table_sources(self) -> tuple[tuple[int, ...], ...]:
        """The inputs of every table, as an attribute of the op."""
        return tuple(map(tuple, self.get_buffer("sources").tolist()))

    @property
    def table_words(self) -> tuple[tuple[int, ...], ...]:
        """The words of every table, likewise."""
        return tuple(map(tuple, self.get_buffer("words").tolist()))

    @property
    def formats(self) -> dict[str, FixedFormat]:
        """Of data and words, likewise."""
        return {"data": self.data_format, "words": self.word_format}

    def forward(self, x: Tensor) -> Tensor:
        """The words as values."""
        fmt = self.data_format
        steps = torch.round(x.detach().double() * math.ldexp(1.0, fmt.frac_width))
        codes = codes_of(steps.clamp(fmt.min_mantissa, fmt.max_mantissa), fmt.min_mantissa).reshape(-1, x.shape[-1])
        found = look_up(codes, fmt.width, self.get_buffer("sources"), self.get_buffer("words"))
        values = (found.double() * math.ldexp(1.0, -self.word_format.frac_width)).to(x.dtype)
        return values.reshape(*x.shape[:-1], -1)

    def extra_repr(self) -> str:
        """Its size, for ``print(model)``."""
        out, fan_in = self.get_buffer("sources").shape
        return f"{out} tables of {fan_in} inputs, {self.data_format} -> {self.word_format}"

    def to_document(self) -> Json:
        """The constructor's arguments that are no tensors, for a checkpoint."""
        return {"data_format": self.data_format, "word_format": self.word_format}

    @classmethod
    def from_document(cls, document: Json, tensors: Mapping[str, Tensor], catalogue: KnownOps) -> TableLayer:
        """Build the module that :meth:`to_document` describes."""
        return cls(tensors["sources"], tensors["words"], document["data_format"], document["word_format"])


class TableWindows(TableLayer):
    """A convolution whose kernels are truth tables: those of a :class:`TableLayer` over every window of an image.

    Args:
        sources: The elements of a window that every table reads, ``(out, fan_in)``, counted channel by channel, and in
            a channel row by row.
        words: As for :class:`TableLayer`.
        data_format: Of the pixels; those around the image are 0.
        word_format: Of the results.
        kernel_size: Rows and columns of a window.
        stride: From one window to the next.
        padding: Pixels of 0 above and below, and to the left and the right.

    Shapes:
        ``(N, in, H, W)`` -> ``(N, out, H', W')``.

    Raises:
        GraphError: As :class:`TableLayer`.
    """

    def __init__(
        self,
        sources: Tensor,
        words: Tensor,
        data_format: FixedFormat,
        word_format: FixedFormat,
        kernel_size: tuple[int, int] = (1, 1),
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__(sources, words, data_format, word_format)
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def windows(self, x: Tensor) -> Tensor:
        """The windows of images, ``(N * H' * W', in * elements of a kernel)``."""
        found = F.unfold(x, self.kernel_size, padding=self.padding, stride=self.stride)
        return found.transpose(1, 2).reshape(-1, found.shape[1])

    def images(self, x: Tensor, results: Tensor) -> Tensor:
        """Results of all windows of ``x`` as images."""
        axes = zip(x.shape[2:], self.kernel_size, self.stride, self.padding, strict=True)
        rows, columns = ((size + 2 * pad - kernel) // step + 1 for size, kernel, step, pad in axes)
        return results.reshape(len(x), rows, columns, -1).permute(0, 3, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """The words as values."""
        return self.images(x, TableLayer.forward(self, self.windows(x)))

    def to_document(self) -> Json:
        """The constructor's arguments that are no tensors, for a checkpoint."""
        geometry = {"kernel_size": self.kernel_size, "stride": self.stride, "padding": self.padding}
        return {**super().to_document(), **geometry}

    @classmethod
    def from_document(cls, document: Json, tensors: Mapping[str, Tensor], catalogue: KnownOps) -> TableWindows:
        """Build the module that :meth:`to_document` describes."""
        geometry = (tuple(document[name]) for name in ("kernel_size", "stride", "padding"))
        formats = document["data_format"], document["word_format"]
        return cls(tensors["sources"], tensors["words"], *formats, *geometry)


def thresholds(limits: Tensor, data_format: FixedFormat) -> TableLayer:
    """Every input beside each of its limits: 1 where it is larger, else 0; a thermometer code.

    Args:
        limits: In values, ``(in, limits of one)``.
        data_format: Of the inputs, at most 12 bits.

    Returns:
        A layer ``(N, in)`` -> ``(N, in * limits of one)`` of one-bit results, those of an input side by side.
    """
    step = math.ldexp(1.0, -data_format.frac_width)
    values = torch.arange(data_format.min_mantissa, data_format.max_mantissa + 1).double() * step
    words = values[None, :] > limits.double().reshape(-1, 1)
    sources = torch.arange(len(limits)).repeat_interleave(limits.shape[1])[:, None]
    return TableLayer(sources, words, data_format, FixedFormat(1, 0, signed=False))


class GroupSum(nn.Module):
    """Votes: the sums of as many groups of neighbouring inputs.

    Args:
        groups: How many; they divide the inputs.

    Shapes:
        ``(..., inputs)`` -> ``(..., groups)``.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        """The sum of every group."""
        return x.reshape(*x.shape[:-1], self.groups, -1).sum(-1)
