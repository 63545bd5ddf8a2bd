"""A plan of sums for one position, at any position: what repeats over an image, a sequence or the rows of a layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mase_hw.ops.unrolled._beats import Tile
from mase_hw.ops.unrolled._network import BEAT, Elements, Network
from mase_hw.ops.unrolled._solver import Plan
from mase_hw.ops.unrolled._trees import Signed, moved

ROW = 1 << 16
"""Distance of neighbouring rows among positions."""


def of_vector(numbers: Sequence[int], number: int, _: int) -> int:
    """The element that an input of a vector is, at any position."""
    return numbers[number]


def pixel(
    network: Network, image: Elements, inputs: Sequence[tuple[int, int, int]], tile: Tile, number: int, at: int
) -> int | None:
    """The element of an image that an input of a convolution is at a position of the tile; None outside the image.

    Args:
        network: Where elements of other beats go.
        image: Elements by channel, row and column.
        inputs: Channel, and row and column within a stride.
        tile: What repeats.
        number: Of the input.
        at: The position.
    """
    channel, row, column = inputs[number]
    at_row = (at + ROW // 2) // ROW
    y, x = at_row * tile.stride[0] + row, (at - at_row * ROW) * tile.stride[1] + column
    if not 0 <= x < image.shape[2]:
        return None
    return tile.element(network, image[channel, :, x], y)


class Repeated:
    """A plan at any position.

    Args:
        network: Where its sums go.
        planned: The plan.
        element: The element of an input at a position; None outside the image.

    The position of a term in the network is its beat, counted down.
    """

    def __init__(self, network: Network, planned: Plan, element: Callable[[int, int], int | None]) -> None:
        self.network, self.planned, self.element = network, planned, element
        self._known: dict[tuple[int, int], Signed | None] = {}

    def term(self, term: Signed | None, at: int) -> Signed | None:
        """A sum of the plan, there."""
        if term is None:
            return None
        (value, shift, own), sign = term
        return moved(self._value(value, at + own), shift, sign < 0)

    def _value(self, number: int, at: int) -> Signed | None:
        if (number, at) not in self._known:
            value = self.planned.graph.values[number]
            if number in self.planned.graph.ranges:
                found = self.element(number, at)
                varies = found is not None and self.network.constant(found) is None
                self._known[number, at] = (
                    ((found % BEAT, 0, -(found // BEAT)), 1) if found is not None and varies else None
                )
            else:
                one = moved(self._value(value.a, at + value.a_at), value.a_shift, False)
                other = moved(self._value(value.b, at + value.b_at), value.b_shift, value.minus)
                self._known[number, at] = self.network.sum_of(one, other)
        return self._known[number, at]
