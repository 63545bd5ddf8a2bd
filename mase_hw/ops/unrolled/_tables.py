"""Tables of several values, and decision trees: comparisons, whose results say which leaf is reached.

The leaves of a tree have numbers, whose bits are functions of its comparisons. A bit is one table if it depends on few
of them, and else a choice between those of two subtrees; what a leaf adds is a table of the number. Equal tables of
equal values are one, whichever trees they are in.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mase_hw.formats import FixedFormat
from mase_hw.formats.attributes import Attributes
from mase_hw.nn.tables import LEAF, Tree
from mase_hw.ops._conv import geometry_of
from mase_hw.ops.unrolled._network import Above, Elements, Looked, Network

MOST_CODES = 1 << 10
"""Most input codes of a table."""
FEW = 6
"""Inputs of a look-up table of most families."""


def limits(tree: Tree, fmt: FixedFormat) -> list[int]:
    """The thresholds of a tree as mantissas; beyond the range of the format just so far that all is said."""
    low, high = fmt.min_mantissa - 1, fmt.max_mantissa
    scale = math.ldexp(1.0, fmt.frac_width)
    return [math.floor(min(max(threshold * scale, low), high)) for threshold in tree.threshold]


def looked(network: Network, operands: Sequence[int], table: npt.NDArray[np.int64]) -> int:
    """What a table says of values.

    Args:
        network: The network.
        operands: Numbers of the values.
        table: Results, a dimension for every operand, from its smallest number on.

    Returns:
        The number of the result; it depends on no operand that does not matter.
    """
    numbers = list(operands)
    for place in reversed(range(len(numbers))):
        first = numbers.index(numbers[place])
        if first != place:  # twice the same value: both have the same number
            table = np.moveaxis(np.diagonal(table, axis1=first, axis2=place), -1, first)
            del numbers[place]
        elif (table == table.take([0], place)).all():
            table = np.take(table, np.array(0), place)
            del numbers[place]
    if not numbers:
        return network.graph.constant(int(table))
    low, high = network.ends(numbers[0])
    if len(numbers) == 1 and (table == np.arange(low, high + 1)).all():
        return numbers[0]
    made = Looked(tuple(numbers), tuple(map(int, table.reshape(-1))))
    return network.enter(made, (int(table.min()), int(table.max())), 1)


def words_of(network: Network, number: int) -> tuple[int, ...]:
    """The words of a table as bits of the network, the value that was named first highest in the address.

    Args:
        network: The network.
        number: Of a value that is looked up.
    """
    made = network.made[number]
    assert isinstance(made, Looked)
    values = [network.graph.values[operand] for operand in made.values]
    words = np.zeros([1 << value.width for value in values], dtype=object)
    sizes, places = [], []
    for operand, value in zip(made.values, values, strict=True):
        low, high = network.ends(operand)
        sizes.append(high - low + 1)
        places.append(slice(low + value.constant, high + value.constant + 1))
    words[tuple(places)] = np.array(made.table, dtype=object).reshape(sizes) + network.graph.values[number].constant
    return tuple(map(int, words.reshape(-1)))


def counted(
    network: Network, inputs: Elements, matrix: npt.NDArray[np.int64]
) -> tuple[Elements, npt.NDArray[np.int64]]:
    """A linear op with a table in place of values of one bit that one row adds: how many of some are 1."""
    if not len(inputs):
        return inputs, matrix
    bits = np.array([network.ends(int(number)) == (0, 1) for number in inputs])
    alone = np.count_nonzero(matrix, 0) == 1
    found, columns, kept = list(inputs), list(matrix.T), np.ones(len(inputs), dtype=bool)
    for row in matrix:
        for weight in np.unique(row[bits & alone]):
            together = np.flatnonzero(bits & alone & (row == weight) & (row != 0)).tolist()
            for at in range(0, len(together) - 1, FEW):
                some = together[at : at + FEW]
                table = np.indices((2,) * len(some)).sum(0)
                found.append(looked(network, [int(inputs[place]) for place in some], table))
                columns.append(matrix[:, some[0]])
                kept[some] = False
    kept = np.concatenate([kept, np.ones(len(found) - len(kept), dtype=bool)])
    return np.array(found)[kept], np.array(columns).reshape(len(found), -1)[kept].T


def table_layer(
    network: Network,
    inputs: Sequence[int],
    fmt: FixedFormat,
    sources: Sequence[Sequence[int]],
    words: Sequence[Sequence[int]],
) -> Elements:
    """The results of a layer of tables.

    Args:
        network: The network.
        inputs: Numbers of the inputs, in their format.
        fmt: That format.
        sources: The inputs of every table, that with the lowest bits of the address first.
        words: Of every table.
    """
    found = []
    for columns, content in zip(sources, words, strict=True):
        numbers = [inputs[column] for column in reversed(columns)]
        whole = np.array(content, dtype=np.int64).reshape((1 << fmt.width,) * len(numbers))
        ends = [network.ends(number) for number in numbers]
        parts = tuple(slice(low - fmt.min_mantissa, high - fmt.min_mantissa + 1) for low, high in ends)
        found.append(looked(network, numbers, whole[parts]))
    return np.array(found, dtype=np.int64)


def windows_of(pixels: Elements, zero: int, attributes: Attributes) -> Elements:
    """The windows of images, a row each, channel by channel.

    Args:
        pixels: Elements ``(N, C, H, W)``.
        zero: The element around the image.
        attributes: Of the convolution, its ``kernel_size`` among them.
    """
    kernel = attributes["kernel_size"]
    g = geometry_of(attributes, kernel)
    around = [(0, 0), (0, 0), *zip(g.before, g.after, strict=True)]
    padded = np.pad(pixels, around, constant_values=zero)
    views = np.lib.stride_tricks.sliding_window_view(padded, kernel, (2, 3))[:, :, :: g.stride[0], :: g.stride[1]]
    return views.transpose(0, 2, 3, 1, 4, 5).reshape(-1, pixels.shape[1] * math.prod(kernel))


@dataclass(frozen=True, eq=False)
class _Node:
    """A node of a tree, whose comparison may be either way: the number of that, and the children.

    Args:
        above: Whether the value is larger, or where there are no children the number of the leaf.
        left: Where it is not.
        right: Where it is.
        leaves: Leaves of it.
    """

    above: int
    left: _Node | None = None
    right: _Node | None = None
    leaves: int = 1


def leaves_of(network: Network, inputs: Sequence[int], fmt: FixedFormat, tree: Tree) -> list[int]:
    """What a tree adds to every result, as numbers of the network."""
    rows: list[tuple[int, ...]] = []
    root = _grown(network, inputs, tree, limits(tree, fmt), 0, {}, rows)
    columns = np.array(rows, dtype=np.int64).T
    tested = _tested(root)
    if len(tested) <= FEW:
        places = np.array([_reached(root, dict(zip(tested, way, strict=True)), ()).above for way in _ways(len(tested))])
        shape = (2,) * len(tested)
        return [looked(network, tested, column[places].reshape(shape)) for column in columns]
    bits = max((root.leaves - 1).bit_length(), 1)
    codes = _codes(root, 0, bits)
    index = [_bit(network, root, codes, place) for place in reversed(range(bits))]
    words = np.zeros((len(columns), 1 << bits), dtype=np.int64)
    words[:, [codes[leaf] for leaf in range(root.leaves)]] = columns
    shape = tuple(network.ends(number)[1] - network.ends(number)[0] + 1 for number in index)
    assert set(shape) == {2}  # every bit of the number of a leaf is both, or there are too many
    return [looked(network, index, column.reshape(shape)) for column in words]


def _grown(
    network: Network,
    inputs: Sequence[int],
    tree: Tree,
    thresholds: Sequence[int],
    node: int,
    known: dict[int, tuple[int, int]],
    rows: list[tuple[int, ...]],
) -> _Node:
    """A subtree without comparisons whose result is known, as the values have a range or were compared before."""
    feature = tree.feature[node]
    if feature == LEAF:
        rows.append(tree.leaf[node])
        return _Node(len(rows) - 1)
    limit, number = thresholds[node], inputs[feature]
    low, high = known.get(feature, network.ends(number))
    sides = []
    for child, ends in ((tree.left[node], (low, min(high, limit))), (tree.right[node], (max(low, limit + 1), high))):
        if ends[0] <= ends[1]:
            sides.append(_grown(network, inputs, tree, thresholds, child, {**known, feature: ends}, rows))
    if len(sides) == 1:
        return sides[0]
    above = network.enter(Above(number, limit), (0, 1), 1)
    return _Node(above, sides[0], sides[1], sides[0].leaves + sides[1].leaves)


def _children(node: _Node) -> tuple[_Node, _Node] | None:
    return None if node.left is None or node.right is None else (node.left, node.right)


def _tested(node: _Node) -> list[int]:
    """The comparisons of a subtree, each once."""
    children = _children(node)
    return list(dict.fromkeys([node.above, *_tested(children[0]), *_tested(children[1])])) if children else []


def _ways(count: int) -> list[tuple[int, ...]]:
    return list(itertools.product((0, 1), repeat=count))


def _codes(node: _Node, first: int, bits: int) -> list[int]:
    """Numbers for the leaves of a subtree, in their order: the highest bit is a comparison where that is possible."""
    children = _children(node)
    if children is None:
        return [first]
    left, right = children
    half = 1 << (bits - 1) if bits else 0
    if max(left.leaves, right.leaves) <= half:
        return _codes(left, first, bits - 1) + _codes(right, first + half, bits - 1)
    return list(range(first, first + node.leaves))


def _bit(network: Network, root: _Node, codes: Sequence[int], place: int) -> int:
    """A bit of the number of the leaf that is reached."""

    @functools.cache
    def value(node: _Node) -> int | None:
        """The bit, if it is the same in all of a subtree."""
        children = _children(node)
        if children is None:
            return codes[node.above] >> place & 1
        found = {value(child) for child in children}
        return found.pop() if len(found) == 1 else None

    def made(node: _Node) -> int:
        fixed = value(node)
        if fixed is not None:
            return network.graph.constant(fixed)
        tested, ends = {node.above}, list(_children(node) or ())
        while True:
            # Comparisons and the subtrees behind them: one is opened while all of that fits into one table.
            opened: list[tuple[int, int, _Node, list[_Node]]] = []
            for end in ends:
                if value(end) is None:
                    others = [each for each in [*ends, *(_children(end) or ())] if each is not end]
                    if len(tested | {end.above}) + sum(value(each) is None for each in others) <= FEW:
                        opened.append((end.leaves, len(opened), end, others))
            if not opened:
                break
            _, _, end, ends = max(opened)
            tested.add(end.above)
        behind = [end for end in ends if value(end) is None]
        above = sorted(tested)
        table = np.zeros((2,) * (len(above) + len(behind)), dtype=np.int64)
        for way in _ways(table.ndim):
            reached = _reached(node, dict(zip(above, way, strict=False)), ends)
            fixed = value(reached)
            table[way] = way[len(above) + behind.index(reached)] if fixed is None else fixed
        return looked(network, [*above, *map(made, behind)], table)

    return made(root)


def _reached(node: _Node, known: dict[int, int], ends: Sequence[_Node]) -> _Node:
    """The one of some subtrees that is reached; any leaf is one."""
    children = _children(node)
    while children is not None and node not in ends:
        node = children[known[node.above]]
        children = _children(node)
    return node
