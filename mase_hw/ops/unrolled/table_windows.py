"""Convolutions whose kernels are truth tables: windows from a line buffer, or parts of a whole frame per beat.

A window, all channels of all its elements, is the row of a layer of tables (:mod:`mase_hw.ops.unrolled.tables`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from mase_hw.formats.attributes import attributes_of
from mase_hw.nn.tables import TableWindows
from mase_hw.opdef import Arithmetic, Case, Hardware, OpDef, Request
from mase_hw.ops._conv import geometry_of
from mase_hw.ops.unrolled import conv, tables
from mase_hw.ops.unrolled._lowering import network_of
from mase_hw.ops.unrolled._network import Network, Program, Step
from mase_hw.ops.unrolled.conv import OF_WINDOWS
from mase_hw.ops.unrolled.tabled import NAME, TabledConvParams, conv_latency, figures, windowed
from mase_hw.ops.unrolled.unrolled import check_lanes


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (N, C, H, W)`` -> ``data_out_0 (N, out, H', W')``: the words of all tables for every window."""
    x, kernel = t["data_in_0"], tuple(a.attributes["kernel_size"])
    g = geometry_of(a.attributes, kernel)
    (top, left), (bottom, right) = g.before, g.after
    padded = F.pad(x.double(), (left, right, top, bottom))
    windows = F.unfold(padded, kernel, stride=g.stride).transpose(1, 2)
    found = tables.tables(a, {"data_in_0": windows})["data_out_0"]
    size = g.out((x.shape[2], x.shape[3]), kernel)
    return {"data_out_0": found.transpose(1, 2).reshape(len(x), -1, *size)}


def _network(node: str, a: Arithmetic, channels: int) -> Network:
    """The tables of a window."""
    kernel, out = a.attributes["kernel_size"], len(a.attributes["table_sources"])
    layer = next(op for op in tables.OPS if op.name == tables.TABLES)
    names = {name: a.attributes[name] for name in ("table_sources", "table_words", "formats")}
    inner = dataclasses.replace(a, attributes=attributes_of(names))
    step = Step(node, layer, inner, {}, (0,), (1, out))
    return network_of(Program((1, channels * kernel[0] * kernel[1]), a.formats["data_in_0"], (step,), 0))


def _build(r: Request) -> TabledConvParams:
    a, channels = r.arithmetic, r.shapes["data_in_0"][1]
    kernel, out = tuple(a.attributes["kernel_size"]), r.shapes["data_out_0"][1]
    found = conv.windows(dataclasses.replace(r, parameters={"weight": torch.empty(out, channels, *kernel)}))
    check_lanes(r, {"data_in_0": channels, "data_out_0": out})
    found |= figures(_network(r.node, a, channels))
    return TabledConvParams(**found)


def _cases() -> tuple[Case, ...]:
    draw = torch.Generator().manual_seed(0)

    def case(name: str, shape: tuple[int, ...], formats: str, out: int, fan_in: int, **geometry: object) -> Case:
        given = Arithmetic.read(formats, ("data_in_0", "data", "words"), geometry)
        data, words = given.formats["data"], given.formats["words"]
        kernel = tuple(given.attributes["kernel_size"])
        sources = torch.randint(shape[1] * kernel[0] * kernel[1], (out, fan_in), generator=draw)
        ends = words.min_mantissa, words.max_mantissa + 1
        content = torch.randint(*ends, (out, 1 << (fan_in * data.width)), generator=draw)
        layer = {
            "table_sources": tuple(map(tuple, sources.tolist())),
            "table_words": tuple(map(tuple, content.tolist())),
        }
        attributes = attributes_of({**given.attributes, **layer, "formats": {"data": data, "words": words}})
        a = Arithmetic({"data_in_0": given.formats["data_in_0"], "data_out_0": words}, attributes=attributes)
        size = geometry_of(attributes, kernel).out((shape[2], shape[3]), kernel)
        shapes = {"data_in_0": shape, "data_out_0": (shape[0], out, *size)}
        return Case(name, _build(Request(name, a, shapes, {})), 6, attributes=attributes)

    return (
        case("trained", (1, 2, 5, 4), "u1.0 u1.0 u1.0", 4, 6, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1)),
        case("rounded", (2, 1, 4, 5), "s5.2 s3.1 u3.1", 3, 3, kernel_size=(2, 3), stride=(2, 1), padding=(0, 1)),
        case(
            "trained_element", (1, 6, 2, 3), "u2.2 u2.2 s2.0", 5, 3, kernel_size=(1, 1), stride=(1, 1), padding=(0, 0)
        ),
    )


OPS = (
    OpDef(
        name="table_windows",
        mase_type="module",
        modules=(TableWindows,),
        attributes=("table_sources", "table_words", "formats", "kernel_size", "stride", "padding"),
        golden=golden,
        exact_out=tables.words_format,
        hardware=Hardware(
            module=f"{NAME}_conv",
            file=OF_WINDOWS,
            params=TabledConvParams,
            build=_build,
            latency=conv_latency,
            cases=_cases,
            generated=lambda node, p, a: windowed(node, p, _network(node, a, p.data_in_0.size[0])),
            layout="channels_last",
        ),
    ),
)
