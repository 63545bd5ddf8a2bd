"""What was chosen for a target, for people and for programs."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from mase_hw.cost.resources import RESOURCES
from mase_hw.fit.candidates import Candidate
from mase_hw.fit.choose import Choice
from mase_hw.fit.prices import named
from mase_hw.fit.target import Goal

CONNECTORS = "(between layers)"
"""The row of what belongs to no layer: repacks and FIFOs."""


@dataclass(frozen=True)
class Point:
    """The least area for a rate.

    Args:
        interval: Cycles per frame.
        use: What it takes, by resource, FIFOs not counted.
    """

    interval: int
    use: Mapping[str, int]


@dataclass(frozen=True)
class Fit:
    """The design that was chosen for a target.

    Args:
        goal: The target.
        choice: What was chosen, and the netlist that follows.
        front: The least area for other rates, the fastest first; empty if it was not asked for.
    """

    goal: Goal
    choice: Choice
    front: Sequence[Point] = ()

    @property
    def interval(self) -> int:
        """Cycles per frame of the design."""
        return int(self.choice.manifest["timing"]["interval"])

    @property
    def limit(self) -> str:
        """The resource of which it takes the largest share."""
        return self._largest(self.choice.use)

    def _largest(self, use: Mapping[str, int]) -> str:
        limited = [name for name in RESOURCES if name in self.goal.budgets] or list(RESOURCES)
        return max(limited, key=lambda name: self.goal.share(name, use[name]))

    def layers(self) -> list[dict[str, Any]]:
        """What was chosen for every node, and last what stands between them."""
        found = [self._layer(name, each) for name, each in self.choice.chosen.items()]
        rest = {n: self.choice.use[n] - sum(int(layer[n]) for layer in found) for n in RESOURCES}
        return [*found, {"node": CONNECTORS, **rest}]

    def _layer(self, name: str, each: Candidate) -> dict[str, Any]:
        chosen = each.choice
        return {
            "node": name,
            **chosen,
            "cycles": each.cycles,
            "busy": each.cycles / self.interval,
            "multipliers": each.multipliers,
            **named(each.use),
        }

    def to_json(self) -> dict[str, Any]:
        """JSON types; the same model and target give the same."""
        timing = self.choice.manifest["timing"]
        return {
            "device": self.goal.device,
            "family": self.goal.family,
            "minimise": self.goal.minimise,
            "mhz": self.goal.mhz,
            "asked_interval": self.goal.interval,
            "interval": self.interval,
            "fps": self.goal.fps(self.interval),
            "latency": timing["last"] + 1,
            "bottleneck": timing["bottleneck"],
            "layers": self.layers(),
            "use": dict(self.choice.use),
            "budgets": dict(self.goal.budgets),
            "shares": {name: self.goal.share(name, self.choice.use[name]) for name in self.goal.budgets},
            "limit": self.limit,
            "proven": self.choice.proven,
            "gap": self.choice.gap,
            "front": [
                {"interval": p.interval, "fps": self.goal.fps(p.interval), **p.use, "limit": self._largest(p.use)}
                for p in self.front
            ],
        }

    def text(self) -> str:
        """Tables and sentences for people."""
        console = Console(file=(buffer := io.StringIO()), width=140)
        console.print(self._layer_table())
        for line in self._sentences():
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        if self.front:
            console.print("\nleast area by rate, FIFOs not counted:", highlight=False)
            console.print(self._front_table())
        return "\n".join(line.rstrip() for line in buffer.getvalue().rstrip().splitlines())

    def _layer_table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        table.add_column("node", overflow="fold")
        table.add_column("lanes")
        table.add_column("how", overflow="fold")
        for column in ("cycles", "busy", "multipliers", *(name.upper() for name in RESOURCES)):
            table.add_column(column, justify="right")
        for layer in self.layers():
            counts = [str(layer[name]) for name in RESOURCES]
            if "cycles" not in layer:
                table.add_row(layer["node"], "", "", "", "", "", *counts)
                continue
            sides = [[n for k, n in layer["lanes"].items() if k.startswith(side)] for side in ("data_in_", "data_out_")]
            lanes = " to ".join("+".join(map(str, side)) for side in sides)
            window = "x".join(map(str, layer.get("kernel", ())))
            how = " ".join(filter(None, (layer.get("implementation"), layer.get("order"), window)))
            busy = f"{layer['busy']:.1%}" if layer["multipliers"] else ""
            table.add_row(
                layer["node"], lanes, how, str(layer["cycles"]), busy, str(layer["multipliers"] or ""), *counts
            )
        return table

    def _sentences(self) -> list[str]:
        timing = self.choice.manifest["timing"]
        said = [
            "",
            f"{self.interval} cycles per frame, {self.goal.fps(self.interval):.6g} frames per second at "
            f"{self.goal.mhz:g} MHz; the last result of one frame after {timing['last'] + 1} cycles; "
            f"{timing['bottleneck']} needs most",
        ]
        for name in RESOURCES:
            number = self.choice.use[name]
            there = self.goal.budgets.get(name)
            share = "" if there is None else f" of {there} ({self.goal.share(name, number):.1%})"
            said.append(f"  {name.upper()}: {number}{share}")
        if self.goal.budgets:
            said.append(f"what limits it is {self.limit.upper()}")
        what = {"area": "area", "interval": "interval", "latency": "latency"}[self.goal.minimise]
        if self.choice.proven:
            said.append(f"proven: by the estimates no choice of lanes and implementations has less {what}")
        else:
            said.append(f"by the estimates no choice has {self.choice.gap:.2%} less {what}; not proven to be the best")
        return said

    def _front_table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for column in ("cycles", "frames/s", *(name.upper() for name in RESOURCES), "limit"):
            table.add_column(column, justify="right")
        for point in self.front:
            largest = self._largest(point.use)
            share = f"{largest.upper()} {self.goal.share(largest, point.use[largest]):.1%}"
            counts = (str(point.use[name]) for name in RESOURCES)
            table.add_row(str(point.interval), f"{self.goal.fps(point.interval):.6g}", *counts, share)
        return table
