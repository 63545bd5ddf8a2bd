"""Histograms of weights and activations beside the range that was chosen for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from mase_hw.errors import MaseHwError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.ir.evaluate import evaluate
from mase_hw.nn import Quantized
from mase_hw.passes.analysis.calibration.frames import KEPT

BINS = 48
MOST_NODES = 200
"""Tensors of which a histogram is made, of each kind."""


def weights(graph: MaseGraph) -> list[dict[str, Any]]:
    """Of every parameter the values before quantisation, and what became of them."""
    found = []
    for node in graph.nodes:
        module = graph.meta_of(node).module
        if not isinstance(module, Quantized):
            continue
        for name in module.parameter_names:
            value = getattr(module, name, None)
            if not isinstance(value, Tensor) or not value.dtype.is_floating_point or not value.numel():
                continue
            whole = module.mantissa(name).detach().cpu()
            zero = float(((whole == 0) & (value.detach().cpu() != 0)).double().mean())
            found.append(_entry(f"{node.name}.{name}", value, module.arithmetic.formats[name], zero))
            if len(found) >= MOST_NODES:
                return found
    return found


def activations(graph: MaseGraph) -> tuple[list[dict[str, Any]], int]:
    """Of every quantised result its values on the frames of the calibration data that were kept; and their number."""
    kept = graph.meta.get(KEPT)
    if not kept:
        return [], 0
    inputs = {n.name: kept[str(n.target)] for n in graph.nodes if n.op == "placeholder" and str(n.target) in kept}
    found: list[dict[str, Any]] = []

    def look(node: Any, value: Any) -> None:
        module = graph.meta_of(node).module
        if isinstance(module, Quantized) and isinstance(value, Tensor) and len(found) < MOST_NODES and value.numel():
            fmt = module.arithmetic.formats["data_out_0"]
            zero = float((value == 0).double().mean())
            found.append(_entry(node.name, value, fmt, zero))

    try:
        evaluate(graph.model, inputs, look)
    except (MaseHwError, KeyError):  # inputs that were not kept
        return [], 0
    return found, max((len(value) for value in kept.values()), default=0)


def _entry(name: str, value: Tensor, fmt: FixedFormat, zero: float) -> dict[str, Any]:
    """A histogram over the values and the range together; shares of what is at or beyond the ends, and of zeros."""
    flat = value.detach().cpu().double().reshape(-1).numpy()
    flat = flat[np.isfinite(flat)]
    low, high = float(flat.min(initial=fmt.min_value)), float(flat.max(initial=fmt.max_value))
    counts, edges = np.histogram(flat, bins=BINS, range=(low, high))
    half = fmt.scale / 2
    clipped = float(((flat < fmt.min_value - half) | (flat > fmt.max_value + half)).mean()) if flat.size else 0.0
    ends = float(((flat <= fmt.min_value) | (flat >= fmt.max_value)).mean()) if flat.size else 0.0
    return {
        "name": name,
        "format": str(fmt),
        "range": [fmt.min_value, fmt.max_value],
        "counts": counts.tolist(),
        "edges": [float(edges[0]), float(edges[-1])],
        "values": int(flat.size),
        "clipped": clipped,
        "at_ends": ends,
        "zero": zero,
    }
