"""What quantisation costs, node by node: the record of a noise analysis, as a table, JSON and a plot.

Drawing a noise report: which layer hurts, at a glance.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from mase_hw.errors import ConfigError
from mase_hw.host.documents import Json
from mase_hw.host.toolchain import of_extra
from mase_hw.passes.quantize.noise.record import Kind, NodeNoise, ranking
from mase_hw.passes.quantize.noise.record import Noise as Noise

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
    problem, otherwise = "drawing needs matplotlib, which is not installed", ", or use the table or the JSON"
    drawing = of_extra("plot", "matplotlib.figure", problem, error=ConfigError, otherwise=otherwise, field="plot")
    names = _chosen(nodes)
    if not names:
        raise ConfigError("there is no quantised node to draw", field="plot", got="an empty report")
    figure = drawing.Figure(figsize=(10, 1.6 + 0.32 * len(names)), layout="constrained", dpi=120)
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


@dataclass(frozen=True)
class NoiseReport:
    """Noise of every computing node.

    Args:
        nodes: By name, in order of execution; inputs of the hardware and casts are nodes of their own.
        batches: Batches of data seen.
    """

    nodes: dict[str, NodeNoise]
    batches: int

    def ranking(self, by: Kind = "local") -> list[str]:
        """Names of the quantised nodes from the smallest to the largest SQNR: the worst first.

        Equal ones are in order of execution.

        Raises:
            ConfigError: If ``by`` is neither ``local`` nor ``cumulative``.
        """
        return ranking(self.nodes, by)

    def to_dict(self) -> Json:
        """Plain dicts; an infinite number is the text ``inf`` or ``-inf``, and NaN is ``nan``, since JSON has none."""
        return {
            "batches": self.batches,
            "nodes": {name: _plain(dataclasses.asdict(node)) for name, node in self.nodes.items()},
        }

    def to_json(self) -> str:
        """:meth:`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """Headings (``>`` for right-aligned) and cells of the table."""
        headings = ["node", "op", "format"]
        for kind in ("local", "cumul."):
            headings += [f">{kind} SQNR dB", f">{kind} cosine", f">{kind} mean abs", f">{kind} max abs"]
        headings += [">saturated", ">used bits"]
        return headings, [self._row(name) for name in self.nodes]

    def _row(self, name: str) -> list[str]:
        node = self.nodes[name]
        cells = [name, node.op, node.format or "float"]
        for noise in (node.local, node.cumulative):
            cells += [f"{noise.sqnr_db:.1f}", f"{noise.cosine:.6f}", f"{noise.mean_abs:.3g}", f"{noise.max_abs:.3g}"]
        bits = "" if node.width is None else f"{node.cumulative.used_bits} of {node.width}"
        return [*cells, "" if node.width is None else f"{node.cumulative.saturation:.2%}", bits]

    def table(self) -> Table:
        """For rich; the worst node by local SQNR is marked."""
        headings, rows = self.rows()
        worst = (self.ranking() or [""])[0]
        table = Table(title=f"Quantisation noise over {self.batches} batch(es)", title_justify="left")
        for heading in headings:
            table.add_column(heading.removeprefix(">"), justify="right" if heading.startswith(">") else "left")
        for row in rows:
            table.add_row(*row, style="bold red" if row[0] == worst else None)
        return table

    def plot(self, path: Any) -> None:
        """Draw local and cumulative SQNR of every node as a PNG, SVG or PDF; needs matplotlib.

        Raises:
            ConfigError: If matplotlib is not installed, the kind of file is unknown, or it cannot be written.
        """
        plot(self.nodes, path)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
