"""The pictures of a report, drawn by matplotlib as SVG that takes its colours from the page."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from mase_hw.errors import ConfigError
from mase_hw.host.documents import Json
from mase_hw.host.toolchain import of_extra
from mase_hw.report.stages import STATES

COLOURS = {
    "ink": "#0a0001",
    "muted": "#0a0002",
    "works": "#0a0003",
    "waits": "#0a0004",
    "held": "#0a0005",
    "accent": "#0a0006",
    "bad": "#0a0007",
    "line": "#0a0008",
}
"""What matplotlib draws with, by the name of the page's variable that takes its place."""
MOST_BINS = 360
MOST_HISTOGRAMS = 24
MOST_NAME = 30
"""Characters of a name beside a picture, unless more are needed to tell names apart."""
_ROW, _WIDTH = 0.27, 9.0


def need_matplotlib() -> None:
    """Refuse to draw before any work is done.

    Raises:
        ConfigError: If matplotlib is not installed.
    """
    problem = "a report needs matplotlib, which is not installed"
    otherwise = "; `mase-hw report BUNDLE --json` gives the figures without pictures"
    of_extra("plot", "matplotlib.figure", problem, error=ConfigError, otherwise=otherwise, field="report")


def timeline(found: Sequence[Json], key: str, prefix: str) -> str | None:
    """When every stage works, waits for input, or is held back.

    Cycles of which several share a column are stacked by their shares.

    Args:
        found: Of :func:`mase_hw.report.stages.stages`, as JSON types.
        key: ``first`` or ``steady``.
        prefix: Of all ids in the picture.
    """
    rows = [stage for stage in found if stage[key]]
    if not rows:
        return None
    cycles = sum(length for _, _, length in rows[0][key])
    figure, axes = _figure(len(rows) * _ROW + 0.75)
    bins = min(cycles, MOST_BINS)
    edges = np.linspace(0, cycles, bins + 1)
    for state, colour in enumerate(("works", "waits", "held")):
        shape: list[tuple[float, float, float, float]] = []
        for row, stage in enumerate(rows):
            shape += _bars(_shares(stage[key], edges), state, row, edges)
        _rectangles(axes, shape, COLOURS[colour])
    axes.set_xlim(0, cycles)
    _rows(axes, [stage["instance"] for stage in rows])
    axes.set_xlabel("cycle", color=COLOURS["muted"], fontsize=8)
    return _svg(figure, prefix, f"{STATES[0]}, {STATES[1]} or {STATES[2]}, by stage and cycle")


def _shares(runs: Sequence[Sequence[int]], edges: Any) -> Any:
    """Of every column, the share of its cycles in each state."""
    ends = np.array([first + length for _, first, length in runs], float)
    starts = np.array([first for _, first, _ in runs], float)
    states = np.array([state for state, _, _ in runs])
    shares = np.zeros((len(STATES), len(edges) - 1))
    for state in range(len(STATES)):
        mine = states == state
        # Cycles of the state before a point: whole runs, and a part of the one it lies in.
        before = np.zeros(len(edges))
        if mine.any():
            a, b = starts[mine], ends[mine]
            whole = np.concatenate([[0], np.cumsum(b - a)])
            index = np.searchsorted(b, edges, "right")
            inside = np.where(index < len(a), np.clip(edges - a[np.minimum(index, len(a) - 1)], 0, None), 0)
            before = whole[index] + inside
        shares[state] = np.diff(before) / np.diff(edges)
    return shares


def _bars(shares: Any, state: int, row: int, edges: Any) -> list[tuple[float, float, float, float]]:
    """Rectangles (left, right, bottom, top) of one state in a row; equal columns beside each other are one."""
    low = shares[:state].sum(axis=0)
    found: list[tuple[float, float, float, float]] = []
    for column in range(shares.shape[1]):
        part, start = float(shares[state, column]), float(low[column])
        if part < 0.004:
            continue
        bottom, top = row + 0.4 - 0.8 * start, row + 0.4 - 0.8 * (start + part)
        left, right = float(edges[column]), float(edges[column + 1])
        if found and found[-1][1] == left and np.allclose(found[-1][2:], (bottom, top)):
            left = found.pop()[0]
        found.append((left, right, bottom, top))
    return found


def _rectangles(axes: Any, found: Sequence[tuple[float, float, float, float]], colour: str) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if not found:
        return
    points = [p for a, b, low, high in found for p in ((a, low), (b, low), (b, high), (a, high), (a, low))]
    codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(found)
    axes.add_patch(PathPatch(Path(points, codes), facecolor=colour, edgecolor="none", linewidth=0))


def noise(nodes: Sequence[Json], prefix: str) -> str | None:
    """Signal-to-noise ratio of every node's result; one without noise has no bar."""
    if not nodes:
        return None
    figure, axes = _figure(len(nodes) * _ROW + 0.75)
    worst = sorted((n for n in nodes if n["added"] > 0), key=lambda n: -n["added"])[:3]
    values = [n["snr"] if math.isfinite(n["snr"]) else 0.0 for n in nodes]
    colours = [COLOURS["bad" if n in worst else "accent"] for n in nodes]
    axes.barh(range(len(nodes)), values, height=0.7, color=colours)
    for row, node in enumerate(nodes):
        text = f"{node['snr']:.1f} dB" if math.isfinite(node["snr"]) else "no noise"
        axes.text(max(values[row], 0) + 0.6, row, text, va="center", fontsize=7, color=COLOURS["muted"])
    axes.set_xlim(min(0, *values), max(*values, 1) * 1.12 + 4)
    _rows(axes, [n["node"] for n in nodes])
    axes.set_xlabel("signal-to-noise ratio in decibels", color=COLOURS["muted"], fontsize=8)
    return _svg(figure, prefix, "signal-to-noise ratio by node")


def histograms(found: Sequence[Json], prefix: str) -> str | None:
    """Values of tensors, with the ends of the range of their formats; those that lose most at the ends come first."""
    chosen = sorted(found, key=lambda each: (-(each["clipped"] or 0), -each["zero"]))[:MOST_HISTOGRAMS]
    chosen = [each for each in found if each in chosen]
    if not chosen:
        return None
    columns = 3
    rows = -(-len(chosen) // columns)
    figure, grid = _grid(rows, columns)
    for axes, each in zip(grid, chosen, strict=False):
        edges = np.linspace(each["edges"][0], each["edges"][1], len(each["counts"]) + 1)
        axes.stairs(np.log1p(each["counts"]), edges, fill=True, color=COLOURS["accent"])
        for end in each["range"]:
            axes.axvline(end, color=COLOURS["bad"], linewidth=1)
        axes.set_title(f"{each['name']}  {each['format']}", fontsize=7.5, color=COLOURS["ink"], parse_math=False)
        axes.set_yticks([])
        axes.locator_params(axis="x", nbins=5)
        _plain(axes)
    for axes in grid[len(chosen) :]:
        axes.set_axis_off()
    return _svg(figure, prefix, "histograms of values, with the ends of their ranges")


def _figure(height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    return figure, figure.subplots()


def _grid(rows: int, columns: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, 1.35 * rows + 0.1), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).reshape(-1))


def _rows(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), shortened(names), parse_math=False)
    for name, label in zip(names, axes.get_yticklabels(), strict=True):
        label.set_gid(f"name-{name}")
    axes.set_ylim(len(names) - 0.4, -0.6)
    _plain(axes)


def shortened(names: Sequence[str]) -> list[str]:
    """Names that fit beside a picture: cut in the middle, since names of a model often differ at their ends alone.

    As many characters stay as tell all of them apart.
    """
    for most in range(MOST_NAME, max(map(len, names), default=0) + 1):
        head = (most - 1) // 3
        found = [n if len(n) <= most else f"{n[:head]}\u2026{n[head + 1 - most :]}" for n in names]
        if len(set(found)) == len(set(names)):
            return found
    return list(names)


def _plain(axes: Any) -> None:
    axes.set_facecolor("none")
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(COLOURS["line"])
    axes.tick_params(colors=COLOURS["muted"], labelsize=7.5, length=2)
    for label in axes.get_yticklabels():
        label.set_color(COLOURS["ink"])


def _svg(figure: Any, prefix: str, title: str) -> str:
    """The picture as SVG for a page: ids of its own, colours of the page, text as text, no date."""
    import matplotlib

    figure.patch.set_visible(False)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": prefix}):
        figure.savefig(buffer := io.StringIO(), format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'href="#', f'href="#{prefix}-', text)
    text = re.sub(r"url\(#", f"url(#{prefix}-", text)
    text = re.sub(r'(<g id="[^"]*?name-([^"]+)">)', r"\1<title>\2</title>", text)
    for name, colour in COLOURS.items():
        text = text.replace(colour, f"var(--{name})")
    head, _, rest = text.partition(">")
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{title}">{rest}'
