"""Ports in the manifest, written and read. Without torch, so that a bundle is simulated without loading it."""

from __future__ import annotations

import dataclasses

from mase_hw.formats import FixedFormat, ScaledFormat
from mase_hw.hardware.manifest import Fixed, Order, Port, Scaled
from mase_hw.layouts import Layout
from mase_hw.streams import Stream


def port_record(stream: Stream, tensor: str, path: str = "", source: str = "") -> Port:
    """What the manifest says of a port.

    Args:
        stream: What it carries.
        tensor: Name of the model's input, or of the node that computes the result.
        path: Keys and positions on the way to the tensor in what the model takes or returns, joined by dots.
        source: What the file calls it from which the model was imported.
    """
    layout = stream.layout
    return Port(
        name=stream.name,
        direction=stream.direction,
        valid=stream.valid,
        ready=stream.ready,
        tensor=tensor,
        path=path,
        source=source,
        shape=stream.tensor_shape,
        streamed=stream.shape,
        layout=None if layout is None else Order(**layout.to_dict()),
        format=format_record(stream.fmt),
        lanes=stream.lanes,
        parallelism=stream.lane_dims,
        beats=stream.beats,
        bits=stream.bits,
        beat_order="streamed sizes, the last one fastest; lane 0 in the low bits; pad lanes are 0",
    )


def format_record(fmt: FixedFormat) -> Fixed | Scaled:
    """A format, and the factor that turns its integers into values: one, or several along ``axis``."""
    if not isinstance(fmt, ScaledFormat):
        return Fixed(width=fmt.width, frac_width=fmt.frac_width, signed=fmt.signed, scale=fmt.scale)
    several = fmt.channels > 1  # sums of weights that have a scale for each output, which nothing has quantised
    return Scaled(
        width=fmt.width,
        signed=fmt.signed,
        scale=fmt.scales if several else fmt.scales[0],
        zero_point=fmt.zero_point,
        limits=(fmt.min_mantissa, fmt.max_mantissa),
        axis=fmt.axis if several else 0,
        odd_ties=fmt.odd_ties,
    )


def format_of(record: Fixed | Scaled) -> FixedFormat:
    """The inverse of :func:`format_record`."""
    if isinstance(record, Fixed):
        return FixedFormat(record.width, record.frac_width, record.signed)
    (low, high), zero = record.limits, record.zero_point
    fmt = ScaledFormat.make(
        record.width, record.scale, zero, signed=record.signed, axis=record.axis, low=low, high=high
    )
    return dataclasses.replace(fmt, odd_ties=record.odd_ties)


def port_stream(port: Port) -> Stream:
    """The stream of a port of the manifest; the inverse of :func:`port_record`."""
    layout = port.layout
    return Stream(
        port.name,
        port.direction,
        port.streamed,
        format_of(port.format),
        port.parallelism,
        port.valid,
        port.ready,
        layout=None if layout is None else Layout(layout.shape, layout.factors, layout.order, layout.row),
    )
