"""Drawing a noise report: which layer hurts, at a glance."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mase_hw.errors import ConfigError
from mase_hw.passes.analysis.noise.record import NodeNoise, ranking

KINDS = (".png", ".svg", ".pdf")
MOST = 120
"""Nodes that are legible in one figure; of more, the worst are drawn."""
LOCAL, CUMULATIVE, WORST, CLIPPED = "#4878a8", "#202020", "#c03028", "#e0a030"


def plot(nodes: Mapping[str, NodeNoise], path: str | os.PathLike[str]) -> None:
    """Draw one row a node: a bar for local SQNR (the worst three in red), a line for cumulative SQNR, and saturation.

    Nodes are in order of execution from the top. A node without any noise has an empty bar that says so. Needs
    matplotlib; the process's own figures and settings are not touched.

    Args:
        nodes: What is drawn, by name, in order of execution.
        path: File to write, ending in ``.png``, ``.svg`` or ``.pdf``; its folder is made.

    Raises:
        ConfigError: If matplotlib is not installed, the kind of file is another one, it cannot be written, or there
            is no node to draw.
    """
    target = Path(path)
    if target.suffix.lower() not in KINDS:
        raise ConfigError("this kind of picture is not known", field="plot", got=target.name, expected=", ".join(KINDS))
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ConfigError(
            "drawing needs matplotlib, which is not installed",
            field="plot",
            got=str(error),
            remedy="pip install 'mase-hw[plot]', or use the table or the JSON",
        ) from error
    names = _chosen(nodes)
    if not names:
        raise ConfigError("there is no quantised node to draw", field="plot", got="an empty report")
    figure = Figure(figsize=(10, 1.6 + 0.32 * len(names)), layout="constrained", dpi=120)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[5, 1.2])
    _sqnr(left, nodes, names)
    _saturation(right, nodes, names)
    shown = "" if len(names) == len(nodes) else f", the {len(names)} worst of {len(nodes)} nodes"
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(f"Quantisation noise{shown}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Neither dates nor versions: the same report gives the same picture.
        nothing: dict[str, Any] = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
        figure.savefig(target, metadata=nothing[target.suffix.lower()])
    except OSError as error:
        raise ConfigError("the picture cannot be written", field="plot", got=f"{target}: {error}") from error


def _chosen(nodes: Mapping[str, NodeNoise]) -> list[str]:
    worst = set(ranking(nodes)[:MOST])
    return [name for name in nodes if name in worst]


def _sqnr(axes: Any, nodes: Mapping[str, NodeNoise], names: list[str]) -> None:
    drawn = [nodes[name] for name in names]
    bad = {name for name in ranking(nodes)[:3] if math.isfinite(nodes[name].local.sqnr_db)}
    rows = range(len(names))
    # A bar without end cannot be drawn; no bar with a note is clearer than one of some length.
    axes.barh(
        rows,
        [_finite(node.local.sqnr_db) or 0.0 for node in drawn],
        color=[WORST if name in bad else LOCAL for name in names],
        label="local: this node alone",
        height=0.65,
    )
    pairs = [
        (row, value)
        for row, node in zip(rows, drawn, strict=True)
        if (value := _finite(node.cumulative.sqnr_db)) is not None
    ]
    axes.plot(
        [value for _, value in pairs],
        [row for row, _ in pairs],
        color=CUMULATIVE,
        marker="o",
        markersize=4,
        linewidth=1,
        label="cumulative: the whole network up to here",
    )
    for row, node in zip(rows, drawn, strict=True):
        value = node.local.sqnr_db
        text = f"{value:.1f}" if math.isfinite(value) else ("no noise" if value > 0 else "nothing left")
        axes.annotate(
            text,
            (0, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=WORST if value == -math.inf else "white" if math.isfinite(value) and value > 3 else "black",
        )
    axes.set_yticks(list(rows), [f"{name}  ({node.format})" for name, node in zip(names, drawn, strict=True)])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("SQNR in dB (shorter is worse; three worst in red)")
    axes.margins(x=0.08)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)


def _saturation(axes: Any, nodes: Mapping[str, NodeNoise], names: list[str]) -> None:
    shares = [100 * nodes[name].cumulative.saturation for name in names]
    axes.barh(range(len(names)), shares, color=CLIPPED, height=0.65)
    for row, share in enumerate(shares):
        axes.annotate(
            f"{share:.2g} %", (share, row), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.set_xlim(0, max(1.0, 1.5 * max(shares)))
    axes.set_xlabel("saturated, %")
    axes.tick_params(axis="y", left=False)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
