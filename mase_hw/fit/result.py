"""What was chosen for a target, for people and for programs.

The rates and areas among which one chooses, as an SVG: two axes, a line, and the chosen design.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.table import Table

from mase_hw.cost.devices import RESOURCES, missing
from mase_hw.emit.estimate import Part, estimate, of_one
from mase_hw.fit.candidates import Candidate
from mase_hw.fit.choose import Choice, Way
from mase_hw.fit.energy import energy
from mase_hw.fit.sharing import said_of
from mase_hw.fit.target import Goal
from mase_hw.host.documents import Json
from mase_hw.host.shown import Shown, paper

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
class Measuring:
    """How a design was come by all of whose modules were mapped by Yosys.

    Args:
        rounds: Designs that were chosen and measured, one after the other.
        settled: Whether the last one was chosen by counts of modules that were all measured before; else it is the
            best of those that were measured.
    """

    rounds: int
    settled: bool


@dataclass(frozen=True, repr=False)
class Fit(Shown):
    """The design that was chosen for a target.

    Args:
        goal: The target.
        choice: What was chosen, and the netlist that follows.
        front: The least area for other rates, the fastest first; empty if it was not asked for.
        measuring: How the counts of the design were measured; None if they are estimated.
    """

    goal: Goal
    choice: Choice
    front: Sequence[Point] = ()
    measuring: Measuring | None = None

    @property
    def interval(self) -> int:
        """Cycles per frame of the design."""
        return self.choice.manifest.timing.interval

    @property
    def proven(self) -> bool:
        """Whether no choice is better by the estimates, and these cover whatever decides that.

        Of a measured design: by what was measured, and the estimates of all other modules.
        """
        covered = not self.choice.not_estimated or not (self.goal.budgets or self.goal.minimise == "area")
        return self.choice.proven and covered and (self.measuring is None or self.measuring.settled)

    @property
    def limit(self) -> str:
        """The resource of which it takes the largest share."""
        return self._largest(self.choice.use)

    def _largest(self, use: Mapping[str, int]) -> str:
        limited = [name for name in RESOURCES if name in self.goal.budgets] or list(RESOURCES)
        return max(limited, key=lambda name: self.goal.share(name, use[name]))

    def layers(self) -> list[Json]:
        """What was chosen for every node, and last what stands between them; None for what is not estimated."""
        uses = {name: self._use(name) for name in self.choice.chosen}
        rest = {n: self.choice.use[n] - sum(int(use[n]) for use in uses.values()) for n in RESOURCES}
        found = [self._layer(name, each, uses[name]) for name, each in self.choice.chosen.items()]
        return [*found, {"node": CONNECTORS, **rest}]

    def _use(self, name: str) -> Json:
        """What a node takes, its memories included."""
        manifest = self.choice.manifest
        own = [i for i in manifest.instances if i.node == name and not i.module.startswith("stream_")]
        return estimate(Part(own, manifest.memories), self.goal.family, self.choice.measured)

    def _layer(self, name: str, each: Candidate, use: Json) -> Json:
        chosen = each.choice
        return {
            "node": name,
            **chosen,
            "cycles": each.cycles,
            "busy": each.cycles / self.interval,
            "multipliers": each.multipliers,
            **of_one(use),
        }

    @property
    def energy(self) -> float:
        """Relative energy of a frame, estimated (:mod:`mase_hw.fit.energy`)."""
        return energy(self.choice.manifest, self.goal.family)

    def to_json(self) -> Json:
        """JSON types; the same model and target give the same."""
        timing = self.choice.manifest.timing
        return {
            "device": self.goal.device,
            "family": self.goal.family,
            "minimise": self.goal.minimise,
            "mhz": self.goal.mhz,
            "asked_interval": self.goal.interval,
            "interval": self.interval,
            "fps": self.goal.fps(self.interval),
            "latency": timing.last + 1,
            "bottleneck": timing.bottleneck,
            "layers": self.layers(),
            "use": dict(self.choice.use),
            "energy": self.energy,
            "measured": None if self.measuring is None else asdict(self.measuring),
            "not_estimated": dict(self.choice.not_estimated),
            "budgets": dict(self.goal.budgets),
            "shares": {name: self.goal.share(name, self.choice.use[name]) for name in self.goal.budgets},
            "limit": self.limit,
            "proven": self.proven,
            "gap": self.choice.gap,
            "refused": dict(self.choice.refused),
            "ways": [self._way(way) for way in self.choice.ways],
            "front": [
                {"interval": p.interval, "fps": self.goal.fps(p.interval), **p.use, "limit": self._largest(p.use)}
                for p in self.front
            ],
        }

    def _way(self, way: Way) -> Json:
        """Of JSON types: what it takes, or whether nothing can be built so."""
        taken: Json = {"impossible": way.impossible} if way.interval is None else {"interval": way.interval, **way.use}
        several: Json = {} if way.positions is None else {"positions": way.positions}
        if (part := way.framed) is not None:
            several |= {"unroll_first": part.first, "unroll_last": part.last, "unroll_beats": part.beats}
            several |= {} if part.mhz is None else {"unroll_mhz": part.mhz, "unroll_carry_save": part.carry_save}
        why = {"why": way.why} if way.why else {}
        return {"shared": dict(way.shared), **several, "chosen": self._is_chosen(way), **taken, **why}

    def _is_chosen(self, way: Way) -> bool:
        args, part = self.choice.args, way.framed
        if self.choice.part is not None or part is not None:
            return part is not None and self.choice.part is not None and args == part.asked(args)
        return (way.shared == args.shared or not self.goal.shared) and way.positions in (None, args.positions)

    def headline(self) -> str:
        """What it reaches."""
        return self._sentences()[1]

    def text(self) -> str:
        """Tables and sentences for people."""
        console, buffer = paper(140)
        console.print(self._layer_table())
        for line in self._sentences():
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        if self.front:
            left = f", nor logic of {missing(self.choice.not_estimated)}" if self.choice.not_estimated else ""
            console.print(f"\nleast area by rate, FIFOs not counted{left}:", highlight=False)
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
            counts = ["?" if layer[name] is None else str(layer[name]) for name in RESOURCES]
            if "cycles" not in layer:
                table.add_row(layer["node"], "", "", "", "", "", *counts)
                continue
            sides = [[n for k, n in layer["lanes"].items() if k.startswith(side)] for side in ("data_in_", "data_out_")]
            lanes = " to ".join("+".join(map(str, side)) for side in sides)
            window = "x".join(map(str, layer.get("kernel", ())))
            places = " ".join(f"{tensor} outside" for tensor in layer.get("external", ()))
            how = " ".join(
                filter(None, (layer.get("unroll"), layer.get("implementation"), layer.get("order"), window, places))
            )
            busy = f"{layer['busy']:.1%}" if layer["multipliers"] else ""
            table.add_row(
                layer["node"], lanes, how, str(layer["cycles"]), busy, str(layer["multipliers"] or ""), *counts
            )
        return table

    def _sentences(self) -> list[str]:
        timing = self.choice.manifest.timing
        said = [
            "",
            f"{self.interval} cycles per frame, {self.goal.fps(self.interval):.6g} frames per second at "
            f"{self.goal.mhz:g} MHz; the last result of one frame after {timing.last + 1} cycles; "
            f"{timing.bottleneck} needs most",
        ]
        left = missing(self.choice.not_estimated)
        for name in RESOURCES:
            number = self.choice.use[name]
            there = self.goal.budgets.get(name)
            share = "" if there is None else f" of {there} ({self.goal.share(name, number):.1%})"
            open_ = f"; not proven to fit: no estimate of {left}" if left and there is not None else ""
            said.append(f"  {name.upper()}: {'at least ' if left else ''}{number}{share}{open_}")
        if left and not self.goal.budgets:
            said.append(f"not estimated, but for the multipliers and memories that they declare: {left}")
        if (outside := self.choice.manifest.external) is not None:
            said.append(f"  words of external memory: {outside.words_per_frame} per frame")
        said.append(f"  {self.energy:,.3g} units of energy per frame, roughly and relative (docs/power.md)")
        if self.goal.budgets:
            said.append(f"what limits it is {self.limit.upper()}")
        for way in self.choice.ways:
            if way.why and way.framed is not None:
                continue
            found = "is impossible" if way.impossible else "was not found"
            if way.interval is not None:
                counts = ", ".join(f"{way.use[name]} {name.upper()}" for name in RESOURCES)
                found = f"takes {way.interval} cycles per frame, {counts}"
            said.append(f"  {said_of(way)} {found}{'; chosen' if self._is_chosen(way) else ''}")
        worse = sum(bool(way.why) and not way.impossible for way in self.choice.ways)
        if worse:
            said.append(f"  {worse} other ways with a part as one expression are bound to be worse")
        said += [f"  {node} cannot be in an expression: {why}" for node, why in self.choice.refused.items()]
        return said + self._proof(left)

    def _proof(self, left: str) -> list[str]:
        """What is known of other choices; ``left`` has the modules of this one that are not estimated."""
        by, said = "the estimates", []
        if self.measuring is not None:
            by = "what was measured and the estimates of all other modules"
            number = self.measuring.rounds
            rounds = f"{number} round{'s' if number > 1 else ''}"
            said.append(f"these counts are measured: Yosys has mapped every module of the design ({rounds})")
        if self.measuring is not None and not self.measuring.settled:
            return [*said, "it is the best of the designs that were measured; not proven to be the best of all"]
        if self.proven:
            return [*said, f"proven: by {by} no choice of lanes and implementations has less {self.goal.minimise}"]
        if self.choice.proven:
            return [*said, f"not proven to be the best, as there is no estimate of {left}"]
        most = self.choice.gap / (1 + self.choice.gap)
        return [*said, f"by {by} no choice has {most:.2%} less {self.goal.minimise}; not proven to be the best"]

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


_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _EDGE = 640, 360, 70, 50, 20


def picture(fit: Fit) -> str:
    """Largest share of a resource by frames per second, the rate on a logarithmic axis.

    Args:
        fit: With a front.

    Returns:
        The text of an SVG file.
    """
    chosen = Point(fit.interval, fit.choice.use)
    points = sorted([*fit.front, chosen], key=lambda point: -point.interval)
    rates = [math.log10(fit.goal.fps(point.interval)) for point in points]
    low, high = math.floor(min(rates)), math.ceil(max(rates))
    high += high == low
    shares = [max(fit.goal.share(name, number) for name, number in point.use.items()) for point in points]
    top = max(*shares, 1e-3) * 1.1

    def at(rate: float, share: float) -> tuple[float, float]:
        x = _LEFT + (rate - low) / (high - low) * (_WIDTH - _LEFT - _EDGE)
        return round(x, 1), round(_HEIGHT - _BOTTOM - share / top * (_HEIGHT - _BOTTOM - _EDGE), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="12" fill="#333333">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
    ]
    for power in range(low, high + 1):
        x, y = at(power, 0)
        label = f"{10.0**power:g}"
        parts.append(f'<path d="M{x} {y}V{_EDGE}" stroke="#dddddd"/>')
        parts.append(f'<text x="{x}" y="{y + 18}" text-anchor="middle">{label}</text>')
    for fifth in range(6):
        share = top * fifth / 5
        x, y = at(low, share)
        parts.append(f'<path d="M{x} {y}H{_WIDTH - _EDGE}" stroke="#dddddd"/>')
        parts.append(f'<text x="{x - 8}" y="{y + 4}" text-anchor="end">{share:.3g}</text>')
    line = " ".join(f"{x},{y}" for x, y in (at(*each) for each in zip(rates, shares, strict=True)))
    parts.append(f'<polyline points="{line}" fill="none" stroke="#2a6fbb" stroke-width="2"/>')
    for point, rate, share in zip(points, rates, shares, strict=True):
        x, y = at(rate, share)
        colour, radius = ("#c23b22", 6) if point is chosen else ("#2a6fbb", 3)
        title = f"{point.interval} cycles, " + ", ".join(f"{number} {name}" for name, number in point.use.items())
        parts.append(f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}"><title>{title}</title></circle>')
    middle = (_LEFT + _WIDTH - _EDGE) // 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 12}" text-anchor="middle">frames per second</text>')
    parts.append(
        f'<text x="16" y="{_HEIGHT // 2}" text-anchor="middle" transform="rotate(-90 16 {_HEIGHT // 2})">'
        "largest share of a resource</text>"
    )
    return "\n".join([*parts, "</svg>", ""])
