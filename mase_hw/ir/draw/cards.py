"""What a picture of a graph says about every node: a card with its op, shapes, formats, lanes and timing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from mase_hw.catalogue import Arithmetic
from mase_hw.ir.annotated import AnnotatedGraph
from mase_hw.ir.metadata import MaseMetadata, TensorMetadata


@dataclass(frozen=True)
class Look:
    """How nodes of a kind look.

    Args:
        legend: What the kind is called.
        head: Colour of the head.
        body: Colour of the body.
        text: Colour of the text in the head; where it is not white, also of the border and of the formats.
    """

    legend: str
    head: str
    body: str
    text: str = "#ffffff"

    @property
    def line(self) -> str:
        """Colour of the border, and of the formats in the body."""
        return self.head if self.text == "#ffffff" else self.text


_TIMES = " \u00d7 "

KINDS = {
    "boundary": Look("input, output", "#334155", "#f8fafc"),
    "parameter": Look("parameter", "#b45309", "#fffbeb"),
    "implicit": Look("no hardware of its own", "#e2e8f0", "#f8fafc", "#475569"),
    "number": Look("number known when compiling", "#fef3c7", "#fffbeb", "#92400e"),
    "float": Look("not quantised", "#1d4ed8", "#eff6ff"),
    "fixed": Look("fixed point", "#15803d", "#f0fdf4"),
    "convert": Look("change of format", "#6d28d9", "#f5f3ff"),
    "external": Look("custom op", "#be185d", "#fdf2f8"),
    "unknown": Look("no op of the catalogue", "#b91c1c", "#fef2f2"),
}


@dataclass(frozen=True)
class Card:
    """A node as people see it.

    Args:
        name: Node name.
        op: Name of its op.
        kind: Key of :data:`KINDS`.
        rows: Label, text, and format of every line.
        details: Everything else, for the tooltip.
        result: Format of its only result, which its edges carry; empty if there are several or none.
    """

    name: str
    op: str
    kind: str
    rows: tuple[tuple[str, str, str], ...] = ()
    details: tuple[str, ...] = ()
    result: str = ""


def make_card(graph: AnnotatedGraph, node: fx.Node) -> Card:
    """The card of a node, as complete as its metadata."""
    meta = node.meta.get("mase")
    op = graph.op_of(node)
    name = op.name if op is not None else _target(graph, node)
    if not isinstance(meta, MaseMetadata):
        return Card(node.name, name, _kind(graph, node, None))
    common, hardware = meta.common, meta.hardware
    rows = []
    results = common.results.tensors
    # The output shows what it returns; its argument and its result are the same.
    for key, tensor in results.items():
        rows.append(
            ("out" if len(results) == 1 else key.replace("data_out_", "out "), shape(tensor), precision(tensor))
        )
    for key, value in common.results.items():
        if key not in results and node.op != "output":
            rows.append(("is", _short(value.value), ""))
    if node.op != "output":
        for key, tensor in common.args.tensors.items():
            if not key.startswith("data_in"):
                rows.append((key, shape(tensor), precision(tensor)))
    lanes = {k: v for k, v in hardware.parallelism.items() if k.startswith("data_")}
    if lanes:
        rows.append(("lanes", " → ".join(_lanes(v) for v in lanes.values()), ""))
    if hardware.latency:
        rows.append(
            ("cycles", f"{hardware.latency['interval']:,} a frame, first after {hardware.latency['fill']:,}", "")
        )
    result = precision(next(iter(results.values()))) if len(results) == 1 else ""
    return Card(node.name, name, _kind(graph, node, meta), tuple(rows), _details(node, meta), result)


def _kind(graph: AnnotatedGraph, node: fx.Node, meta: MaseMetadata | None) -> str:
    if node.op in ("placeholder", "output"):
        return "boundary"
    if node.op == "get_attr":
        return "parameter"
    op = graph.op_of(node)
    if op is None:
        return "unknown"
    if meta is not None and meta.common.results and not meta.common.results.tensors:
        return "number"
    if op.name in ("quantize", "cast"):
        return "convert"
    if graph.is_implicit(node):
        return "implicit"
    if op.hardware is not None and op.hardware.toolchain == "EXTERNAL":
        return "external"
    module = meta.module if meta is not None else None
    return "fixed" if isinstance(getattr(module, "arithmetic", None), Arithmetic) else "float"


def _target(graph: AnnotatedGraph, node: fx.Node) -> str:
    if node.op in ("placeholder", "output"):
        return {"placeholder": "input"}.get(node.op, node.op)
    if node.op == "get_attr":
        return "constant"
    if node.op == "call_module":
        return type(graph.model.get_submodule(str(node.target))).__name__
    return str(node._pretty_print_target(node.target)).rsplit(".", 1)[-1]


def shape(tensor: TensorMetadata) -> str:
    """A shape as people write it, outermost dimension first."""
    return _TIMES.join(map(str, tensor.shape)) or "scalar"


def precision(tensor: TensorMetadata) -> str:
    """A format: ``s8.4`` is signed, 8 bits, 4 of them behind the point; ``float32``."""
    if tensor.torch_dtype is not None and tensor.torch_dtype.is_complex:
        return str(tensor.torch_dtype).removeprefix("torch.")
    if tensor.fmt is not None:
        if tensor.torch_dtype is not None and not tensor.torch_dtype.is_floating_point:
            return str(tensor.torch_dtype).removeprefix("torch.")
        return str(tensor.fmt)
    return f"{tensor.type}{tensor.precision[0]}" if tensor.precision else ""


def _short(value: Any) -> str:
    if isinstance(value, torch.Size):
        return _TIMES.join(map(str, value))
    text = str(value).removeprefix("torch.")
    return text if len(text) <= 24 else text[:23] + "\u2026"


def _lanes(dims: Any) -> str:
    """Lanes innermost first, without the outer ones that are 1."""
    values = list(dims)
    while len(values) > 1 and values[-1] == 1:
        values.pop()
    return _TIMES.join(map(str, reversed(values)))


def _details(node: fx.Node, meta: MaseMetadata) -> tuple[str, ...]:
    plain = {k: v for k, v in meta.common.args.items() if not isinstance(v, TensorMetadata)}
    lines = [f"{node.op} {node.target if isinstance(node.target, str) else getattr(node.target, '__name__', '')}"]
    # Addresses of objects differ from run to run.
    lines += [re.sub(r" at 0x[0-9a-f]+", "", f"{key} = {value!r}")[:100] for key, value in plain.items()]
    for key, tensor in meta.common.args.tensors.items():
        lines.append(f"{key}: {shape(tensor)} {precision(tensor)}")
    if meta.hardware.module:
        lines.append(f"module {meta.hardware.module} ({meta.hardware.toolchain})")
    return tuple(lines)
