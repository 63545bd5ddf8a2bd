"""Ports in the manifest, written and read. Without torch, so that a bundle is simulated without loading it."""

from __future__ import annotations

import dataclasses
from typing import Any

from mase_hw.formats import FixedFormat, ScaledFormat
from mase_hw.layouts import Layout
from mase_hw.streams import Stream


def port_entry(stream: Stream, tensor: str, path: str = "") -> dict[str, Any]:
    """Manifest entry of a port.

    Args:
        stream: What it carries.
        tensor: Name of the model's input, or of the node that computes the result.
        path: Keys and positions on the way to the tensor in what the model takes or returns, joined by dots.
    """
    return {
        "name": stream.name,
        "direction": stream.direction,
        "valid": stream.valid,
        "ready": stream.ready,
        "tensor": tensor,
        "path": path,
        "shape": list(stream.tensor_shape),
        "streamed": list(stream.shape),
        "layout": None if stream.layout is None else stream.layout.to_dict(),
        "format": format_entry(stream.fmt),
        "lanes": stream.lanes,
        "parallelism": list(stream.lane_dims),
        "beats": stream.beats,
        "bits": stream.bits,
        "beat_order": "streamed sizes, the last one fastest; lane 0 in the low bits; pad lanes are 0",
    }


def format_entry(fmt: FixedFormat) -> dict[str, Any]:
    """A format, and the factor that turns its integers into values: one, or a list along ``axis``."""
    if isinstance(fmt, ScaledFormat):
        limits = [fmt.min_mantissa, fmt.max_mantissa]
        several = fmt.channels > 1  # sums of weights that have a scale for each output, which nothing has quantised
        scale: Any = list(fmt.scales) if several else fmt.scales[0]
        found = {"type": "integer", "width": fmt.width, "signed": fmt.signed, "scale": scale}
        more = {"axis": fmt.axis} if several else {}
        ties = {"odd_ties": True} if fmt.odd_ties else {}
        return {**found, **more, "zero_point": fmt.zero_point, "limits": limits, **ties}
    return {
        "type": "fixed",
        "width": fmt.width,
        "frac_width": fmt.frac_width,
        "signed": fmt.signed,
        "scale": fmt.scale,
    }


def format_of_entry(entry: dict[str, Any]) -> FixedFormat:
    """The inverse of :func:`format_entry`."""
    if entry.get("type") != "integer":
        return FixedFormat(entry["width"], entry["frac_width"], entry["signed"])
    low, high = entry["limits"]
    scale, zero, ties = entry["scale"], entry["zero_point"], entry.get("odd_ties", False)
    axis = entry.get("axis", 0)
    fmt = ScaledFormat.make(entry["width"], scale, zero, signed=entry["signed"], axis=axis, low=low, high=high)
    return dataclasses.replace(fmt, odd_ties=ties)


def port_stream(entry: dict[str, Any]) -> Stream:
    """The stream of a manifest entry; the inverse of :func:`port_entry`."""
    fmt = format_of_entry(entry["format"])
    return Stream(
        entry["name"],
        entry["direction"],
        tuple(entry["streamed"]),
        fmt,
        tuple(entry["parallelism"]),
        entry["valid"],
        entry["ready"],
        layout=None if entry["layout"] is None else Layout.from_dict(entry["layout"]),
    )
