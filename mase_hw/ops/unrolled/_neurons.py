"""Neurons as truth tables: what a row of a linear layer gives for every combination of the numbers that it reads.

A weight of 0 reads nothing, an element that is always the same number has no bit, and one whose range is smaller than
its format has as many bits as it has numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.nn.tables import MOST_INPUT_BITS
from mase_hw.opdef import Arithmetic
from mase_hw.ops import linear
from mase_hw.ops.unrolled._network import Elements, Network
from mase_hw.ops.unrolled._tables import looked


@dataclasses.dataclass(frozen=True)
class Rows:
    """A layer ``cast(W x + b)`` whose weights have one step.

    Args:
        arithmetic: Formats of data, weight, bias and result, and cast modes.
        weight: Mantissas ``(out, in)``.
        bias: Of every row; None without one.
    """

    arithmetic: Arithmetic
    weight: Tensor
    bias: Tensor | None

    @classmethod
    def of(cls, a: Arithmetic, parameters: Mapping[str, Tensor]) -> Rows:
        """Of the parameters of a layer, whose weights may have steps by row or block."""
        weight, fmt = parameters["weight"].to(torch.int64), a.formats["weight"]
        if "weight_shift" in parameters:
            weight = weight * fmt.spread(fmt.factors(parameters["weight_shift"].to(torch.int64)), weight.shape)
        weight = weight.flatten(1)
        bits = max(int(weight.abs().max()).bit_length(), 1) + 1
        formats = {name: own for name, own in a.formats.items() if name != "weight_shift"}
        plain = {**formats, "weight": FixedFormat(bits, fmt.frac_width)}
        return cls(dataclasses.replace(a, formats=plain), weight, parameters.get("bias"))

    def read(self) -> list[list[int]]:
        """The inputs that every row reads."""
        return [np.flatnonzero(row).tolist() for row in self.weight.numpy()]

    def results(self, row: int, columns: Sequence[int], grid: Tensor) -> Tensor:
        """What a row gives for values of some inputs, all others being 0.

        Args:
            row: The row.
            columns: The inputs; there is one at least.
            grid: Mantissas, ``(N, columns)``.
        """
        given = {"data_in_0": grid, "weight": self.weight[row : row + 1, list(columns)].float()}
        if self.bias is not None:
            given["bias"] = self.bias[row : row + 1]
        return linear.golden(self.arithmetic, given)["data_out_0"][:, 0].to(torch.int64)


def most_bits(a: Arithmetic, parameters: Mapping[str, Tensor]) -> int:
    """The bits that the neuron of a linear layer or convolution reads which reads most, however they may be."""
    read = parameters["weight"].flatten(1).count_nonzero(1)
    width: int = a.formats["data_in_0"].width
    return int(read.max()) * width if len(read) else 0


def neurons(network: Network, node: str, inputs: Sequence[int], rows: Rows) -> Elements:
    """The results of a layer, each as a table.

    Args:
        network: The network.
        node: Of the layer, for errors.
        inputs: Numbers of the inputs.
        rows: The layer.

    Raises:
        UnsupportedError: If a neuron reads too many bits.
    """
    read = rows.read()
    found = [sum(_bits(network, inputs[column]) for column in columns) for columns in read]
    if max(found, default=0) > MOST_INPUT_BITS:
        raise too_many(node, max(found), sum(bits > MOST_INPUT_BITS for bits in found), len(found))
    return np.array([_neuron(network, inputs, rows, row, columns) for row, columns in enumerate(read)])


def too_many(node: str, bits: int, beyond: int, neurons_of_layer: int) -> UnsupportedError:
    """The refusal of a layer whose neurons read too many bits."""
    return UnsupportedError(
        "a layer becomes truth tables where every neuron reads few bits",
        node=node,
        field=f"hardware.implementation.{node}",
        got=f"{bits} bits read by one neuron; {beyond} of {neurons_of_layer} neurons read too many",
        expected=f"at most {MOST_INPUT_BITS} bits, inputs with a weight of 0 not counted",
        remedy="give the data fewer bits or the neurons more weights of 0, or choose another implementation",
    )


def _bits(network: Network, element: int) -> int:
    low, high = network.ends(element)
    return (high - low).bit_length()


def _neuron(network: Network, inputs: Sequence[int], rows: Rows, row: int, columns: Sequence[int]) -> int:
    if not columns:
        return network.graph.constant(int(rows.results(row, [0], torch.zeros(1, 1))))
    numbers = [inputs[column] for column in columns]
    values = [_values(network, number) for number in numbers]
    places = torch.meshgrid(*values, indexing="ij")
    grid = torch.stack([place.reshape(-1) for place in places], 1).float()
    table = rows.results(row, columns, grid).numpy().reshape([len(each) for each in values])
    return looked(network, numbers, table)


def _values(network: Network, number: int) -> Tensor:
    """The mantissas that an element may be, in the order of its numbers."""
    low, high = network.ends(number)
    return torch.arange(low, high + 1)
