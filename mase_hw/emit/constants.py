"""What the ports of a module carry: values of parameters in the order in which they are read, and formats."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import numpy as np
from torch import fx

from mase_hw.errors import EmitError
from mase_hw.ir import MaseGraph, MaseMetadata
from mase_hw.layouts import Layout
from mase_hw.nn import Quantized
from mase_hw.streams import IntArray, Stream


def order_of_constants(graph: MaseGraph, node: fx.Node) -> Layout:
    """The order in which the elements of ``data_in_0`` meet constants that are broadcast to it.

    A module that takes several positions a beat has a constant for all of them.

    Args:
        graph: A graph with hardware metadata.
        node: Whose constants they are.
    """
    shape = tuple(graph.tensor(node, "data_in_0").shape)
    described = graph.meta_of(node).hardware.layouts.get("data_in_0")
    layout = Layout.from_dict(described) if described else Layout.row_major(shape)
    op = graph.op_of(node)
    shared = op is not None and op.hardware is not None and op.hardware.positions is not None
    return Layout.channels_last(shape) if shared and layout.positions > 1 else layout


def broadcast_values(graph: MaseGraph, node: fx.Node, port: Stream, values: IntArray) -> IntArray:
    """A constant, broadcast to the data as PyTorch does, in the order of the data: one period of it.

    Args:
        graph: A graph with hardware metadata.
        node: Whose constant it is.
        port: The stream of the constant, of the shape of one period.
        values: Mantissas of any shape that broadcasts to ``data_in_0``.

    Returns:
        Mantissas of ``port.shape``.

    Raises:
        EmitError: If the constant does not repeat itself after a period.
    """
    shape = tuple(graph.tensor(node, "data_in_0").shape)
    layout = order_of_constants(graph, node)
    stream = layout.to_stream(np.broadcast_to(values, shape)[None]).reshape(-1, int(np.prod(port.shape)))
    if (stream != stream[:1]).any():
        raise EmitError("a constant is longer than its memory", node=f"{node.name}.{port.name}", expected=port.shape)
    period: IntArray = stream[0].reshape(port.shape)
    return period


def stored_values(graph: MaseGraph, node: fx.Node, port: Stream) -> IntArray:
    """A parameter as its memory streams it: one frame of mantissas, ``(1, *port.tensor_shape)``.

    Args:
        graph: A graph with hardware metadata.
        node: A quantised node.
        port: The stream of the parameter, under its name.
    """
    module = graph.meta_of(node).module
    assert isinstance(module, Quantized)  # only quantised modules have parameters in hardware
    values: IntArray = module.mantissa(port.name).cpu().long().numpy()
    if module.op.hardware is not None and port.name in module.op.hardware.broadcast:
        values = broadcast_values(graph, node, port, values)
    # A convolution of one dimension has a kernel of height 1.
    return values.reshape(1, *port.tensor_shape)


def valued(meta: MaseMetadata, ports: Iterable[Stream]) -> Iterator[Stream]:
    """Ports with the formats of a node: its module knows mantissas only, not what they stand for.

    Binary weights that come with two bits each, to fill lanes with 0, keep these.
    """
    formats = meta.module.arithmetic.formats if isinstance(meta.module, Quantized) else {}
    for port in ports:
        fmt = formats.get(port.name, port.fmt)
        yield dataclasses.replace(port, fmt=fmt if fmt.width == port.fmt.width else port.fmt)
