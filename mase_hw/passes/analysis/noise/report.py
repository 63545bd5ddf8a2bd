"""What quantisation costs, node by node: the record of a noise analysis, as a table, JSON and a plot."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from mase_hw.passes.analysis.noise.plot import plot
from mase_hw.passes.analysis.noise.record import Kind, NodeNoise, ranking
from mase_hw.passes.analysis.noise.record import Noise as Noise


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

    def to_dict(self) -> dict[str, Any]:
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
