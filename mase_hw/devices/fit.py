"""Which layers are on which device, and with how many lanes: contiguous cuts of the network for a rate, with a proof.

The layers stand in their order, and each device has some of them in a row. What layers of a device cost is the sum of
what :mod:`mase_hw.fit` says of each, so the least area of every run of layers on every device is found by its solver,
and the best cuts of all by :mod:`mase_hw.devices.cuts`, which solves few of the runs.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
from torch import nn

from mase_hw.compiler.common_arguments import CommonArguments, Tell, unpacked
from mase_hw.compiler.config import CompileConfig, ConfigLike, load_config
from mase_hw.cost.devices import RESOURCES
from mase_hw.devices.cuts import NEVER, Cuts, Search
from mase_hw.emit.reference import Inputs
from mase_hw.errors import ConfigError
from mase_hw.fit.budget import HALVES, Impossible, Solution, solve
from mase_hw.fit.candidates import Candidate
from mase_hw.fit.choose import SPREAD, arguments
from mase_hw.fit.elimination import restricted
from mase_hw.fit.problem import INFEASIBLE, MEASURES, SHARE, WORDS, Numbers, Problem, named
from mase_hw.fit.space import Space
from mase_hw.fit.target import NOMINAL, Goal, TargetLike, goal
from mase_hw.ir import MaseGraph
from mase_hw.ir.module_paths import became, nodes_inside
from mase_hw.preflight.mapped import mapped_graph
from mase_hw.streams import ceil_div


@dataclass(frozen=True)
class Run:
    """What is on one device.

    Args:
        goal: The device, or what it has.
        nodes: In order; none if it is not needed.
        use: What they take by the estimates, without FIFOs and the ends of links.
        words: That they read of the device's external memory for a frame, which brings one a cycle at most.
    """

    goal: Goal
    nodes: tuple[str, ...]
    use: Mapping[str, int]
    words: int = 0


@dataclass(frozen=True)
class DevicesFit:
    """What was chosen for a list of devices.

    Args:
        interval: Cycles per frame that were asked for.
        runs: Of every device, in order.
        links: Cycles per frame of every stream between two devices, by the node whose result it carries.
        value: The shares of the devices that are used, added up.
        bound: No contiguous cuts have less.
        config: That ``compile_devices`` takes to make it.
    """

    interval: int
    runs: Sequence[Run]
    links: Mapping[str, int]
    value: float
    bound: float
    config: CompileConfig

    @property
    def proven(self) -> bool:
        """Whether no contiguous cuts take less by the estimates."""
        return self.bound >= self.value

    def text(self) -> str:
        """For people."""
        lines = []
        for number, run in enumerate(self.runs):
            shares = ", ".join(f"{n} {name.upper()} ({run.goal.share(name, n):.1%})" for name, n in run.use.items())
            ends = f"{run.nodes[0]} to {run.nodes[-1]}" if run.nodes else "nothing"
            words = f", {run.words:,} words of external memory a frame" if run.words else ""
            lines.append(f"device {number} ({run.goal.device or 'by numbers'}): {ends}; {shares}{words}")
        lines += [f"link of {tensor}: {n:,} cycles per frame" for tensor, n in self.links.items()]
        lines.append(f"at {self.interval:,} cycles per frame the shares of all devices add up to {self.value:.4f}")
        least = f"no contiguous cuts have less than {self.bound:.4f}"
        lines.append(f"proven: by the estimates {least}" if self.proven else f"not proven; by the estimates {least}")
        return "\n".join(lines)


def fit_devices(
    model: nn.Module,
    example_inputs: Inputs,
    devices: Sequence[TargetLike],
    config: ConfigLike = None,
    *,
    interval: int,
    spread: float = SPREAD,
    cuts: Sequence[str] | None = None,
    gap: float = 0.0,
    **common: Unpack[CommonArguments],
) -> DevicesFit:
    """Choose the cuts, and lanes and implementations of every layer.

    Args:
        model: As for :func:`mase_hw.compile`.
        example_inputs: One frame.
        devices: In order, each as a target without a rate: a device, or numbers of ``lut``, ``ff``, ``dsp``, ``bram``;
            with ``external`` it has a memory outside, which brings a word of ``hardware.external_bytes`` a cycle.
        config: The configuration, with ``links``; lanes that it gives are kept, ``hardware.device`` is not looked at.
        interval: Most cycles per frame.
        spread: How many times faster than that a layer may be, if it has a slower candidate: fewer candidates take less
            memory and time, and the proof holds among them.
        cuts: The modules, by path, before which may be cut, such as the blocks of a large network; before every layer
            if None. The proof holds among such cuts.
        gap: By how much the bound may be below what is found, as a share of it; the search ends then.
        common: ``calibration``, ``custom_ops`` and ``progress``; see
            :class:`mase_hw.compiler.common_arguments.CommonArguments`.

    Raises:
        ConfigError: If the rate, a device or the configuration is wrong, or no cuts meet it; then it is said whether
            that is proven, and how far the devices reach.
    """
    calibration, custom_ops, tell = unpacked(**common)
    settings = load_config(config)
    if not devices:
        raise ConfigError("there are no devices", field="devices", expected="one or more")
    goals = [goal({**_fields(each), "interval": interval}, settings.hardware.family) for each in devices]
    families = sorted({each.family for each in goals})
    if len(families) > 1:
        raise ConfigError(
            "the devices are of several families", field="devices", got=", ".join(families), expected="one"
        )
    again = {"external_buffer": 0} if settings.hardware.external_buffer is None and _outside(goals) else {}
    hardware = settings.hardware.model_copy(update={"family": families[0], "device": {}, **again})
    settings = settings.model_copy(update={"hardware": hardware})
    graph = mapped_graph(model, example_inputs, settings, calibration, tell, custom_ops)
    return _Search(graph, settings, goals, interval, spread, cuts, tell).found(gap)


def _outside(goals: Sequence[Goal]) -> bool:
    """Whether a device has a memory outside."""
    return any(each.external for each in goals)


def _fields(target: TargetLike) -> dict[str, object]:
    return dict(target) if isinstance(target, Mapping) else target.model_dump(exclude_unset=True)


class _Search:
    def __init__(
        self,
        graph: MaseGraph,
        settings: CompileConfig,
        goals: Sequence[Goal],
        interval: int,
        spread: float = SPREAD,
        cuts: Sequence[str] | None = None,
        tell: Tell = lambda _: None,
    ) -> None:
        self.graph, self.settings, self.goals, self.interval, self.tell = graph, settings, goals, interval, tell
        self.space = Space(
            graph, settings.hardware, unrolled=goals[0].unrolled, logic=goals[0].logic, external=_outside(goals)
        )
        self.outside = _outside(goals) or settings.hardware.reads_outside
        fastest, slowest = self.space.fastest()
        if interval < fastest:
            raise ConfigError(
                "no design is that fast, on any device",
                field="interval",
                got=interval,
                expected=f"{fastest} or more, which {slowest} needs",
            )
        self.candidates = self.space.candidates(interval, spread, tell=tell)
        tell("what stands between layers that are neighbours")
        self.problem = self.space.problem(self.candidates, interval)
        self.order = list(self.candidates)
        at = {name: index for index, name in enumerate(self.order)}
        self.streams: dict[tuple[str, str], list[int]] = {}
        """Of every result: the places of the node that gives it and of those that read it; -1 gives an input."""
        for (source, result), (reader, _) in self.space.links:
            self.streams.setdefault((source, result), [at[source]]).append(at[reader])
        for node in graph.nodes:
            if graph.meta_of(node).common.mase_op == "quantize":
                self.streams[node.name, "data_out_0"] = [-1, *(at[n] for n in self._behind(node) if n in at)]
        last = next(n for n in graph.nodes if n.op == "output")
        self.leaves = {at[n] for n in self._before(last) if n in at}
        self.places = self._places(cuts)
        self.run = functools.cache(self._run)
        self._room = functools.cache(self._sums)
        self._best = dict[tuple[int, int, int], Solution]()

    def _places(self, cuts: Sequence[str] | None) -> list[int]:
        """Numbers of layers before which may be cut; the first one and the end always."""
        count = len(self.order)
        if cuts is None:
            return list(range(count + 1))
        found = {0, count}
        for path in cuts:
            inside = [self.graph.node(name) for name in nodes_inside(self.graph, path)]
            # What only gives elements other names is where it is read.
            layers = {name for n in inside for name in ([n.name] if n.name in self.candidates else self._behind(n))}
            if not layers:
                gone = became(self.graph, path)
                raise ConfigError(
                    "no layer in hardware is in the module before which is to be cut, or reads what it gives",
                    field="cuts",
                    got=path if gone is None else f"{path}, which {gone}",
                    expected="the path of a module, or the name of a node",
                )
            found.add(min(index for index, name in enumerate(self.order) if name in layers))
        return sorted(found)

    def _behind(self, node: Any) -> list[str]:
        """The nodes with modules that read a result, also behind those that only rename elements."""
        found: list[str] = []
        for user in node.users:
            found += self._behind(user) if self.graph.is_implicit(user) else [user.name]
        return found

    def _before(self, node: Any) -> list[str]:
        found: list[str] = []
        for source in node.all_input_nodes:
            found += self._before(source) if self.graph.is_implicit(source) else [source.name]
        return found

    def _run(self, low: int, high: int, kind: int, closely: bool = True) -> Solution | Impossible:
        """The least area of some layers in a row, on a device like that of the given number.

        Args:
            low: The first layer.
            high: The one behind the last.
            kind: The device.
            closely: Whether its solver is asked where the relaxation leaves a gap.
        """
        inside = set(self.order[low:high])
        kept = {name: self._room(kind)[0][name] for name in self.order[low:high]}
        prices = {name: self.problem.prices[name] for name in kept}
        edges = [edge for edge in self.problem.edges if inside.issuperset(edge.ends)]
        for source, fast in self._fast_enough(low, high, kind).items():
            kept[source] = kept[source][fast]
            if not fast.any():
                return Impossible(True, None)
        problem = restricted(Problem(prices, edges), kept)
        found = solve(problem, self.weights(kind), self._budgets(kind), HALVES if closely else 0)
        if isinstance(found, Impossible):
            return found
        found = dataclasses.replace(found, chosen={name: int(kept[name][at]) for name, at in found.chosen.items()})
        best = self._best.get((low, high, kind))
        if best is None or found.value <= best.value:
            self._best[low, high, kind] = found
        return found

    def _budgets(self, kind: int) -> dict[int, int]:
        """Of every measure that is limited its most, on a device."""
        budgets = {RESOURCES.index(name): most for name, most in self.goals[kind].budgets.items()}
        if self.outside:  # a memory brings a word per cycle
            budgets[WORDS] = self.interval if self.goals[kind].external else 0
        return budgets

    def _sums(self, kind: int) -> tuple[dict[str, Numbers], list[int], list[Numbers]]:
        """What layers take at least on a device, each by itself.

        Returns:
            The candidates of every layer that are not beyond the budgets by themselves; then, of every number of
            layers, the least sum of shares and the least of every measure.
        """
        kept, shares, uses = dict[str, Numbers](), [0], [np.zeros(len(MEASURES), dtype=np.int64)]
        for name in self.order:
            prices = self.problem.prices[name]
            within = np.ones(len(prices), dtype=np.bool_)
            for measure, most in self._budgets(kind).items():
                within &= prices[:, measure] <= most
            kept[name] = np.flatnonzero(within)
            own = prices[within]
            shares.append(shares[-1] + int((own @ self.weights(kind)).min(initial=INFEASIBLE)))
            uses.append(uses[-1] + own.min(axis=0, initial=INFEASIBLE))
        return kept, shares, uses

    def least(self, low: int, high: int, kind: int) -> int | None:
        """What layers in a row cost at least, by what each costs; None if they do not fit."""
        _, shares, uses = self._room(kind)
        taken = uses[high] - uses[low]
        full = any(taken[measure] > most for measure, most in self._budgets(kind).items())
        return None if full else shares[high] - shares[low]

    def weights(self, kind: int) -> Any:
        """What resources count for: as their shares of the device."""
        most = self.goals[kind].budgets
        return np.array([*(SHARE // max(most.get(n, NOMINAL[n]), 1) + 1 for n in RESOURCES), 0], dtype=np.int64)

    def allowed(self, low: int, high: int, device: int) -> bool:
        """Whether what enters a run, and what leaves it, can: at the rate, and to one place."""
        for (source, result), (giver, *readers) in self.streams.items():
            if giver < low:
                inside = any(low <= reader < high for reader in readers)
                if inside and (max(readers) >= high or (giver < 0 and min(readers) < low)):
                    return False
                if inside and giver >= 0 and self.cycles(source, result, max(device - 1, 0), device) > self.interval:
                    return False
            elif giver < high and giver in self.leaves and any(reader >= high for reader in readers):
                return False
        return True

    def cycles(self, source: str, result: str, sends: int, receives: int) -> int:
        """Cycles per frame of a stream on a link, at least."""
        tensor, link = self.graph.tensor(self.graph.node(source), result), self.settings.links.of(sends, receives)
        assert tensor.fmt is not None  # it is quantised
        return ceil_div(math.prod(tensor.shape) * tensor.fmt.width, link.bits) * link.clock_ratio

    def crossing(self, source: str, result: str, at: int, sends: int, receives: int) -> int:
        """Cycles per frame of a stream on a link, with the lanes of a candidate: every beat is whole words."""
        stream, link = self.candidates[source][at].ports[result], self.settings.links.of(sends, receives)
        return stream.beats * ceil_div(stream.bits, link.bits) * link.clock_ratio

    def _fast_enough(self, low: int, high: int, kind: int) -> dict[str, npt.NDArray[np.bool_]]:
        """Of every node whose result leaves a run: which of its candidates have lanes that a link takes at the rate."""
        found: dict[str, npt.NDArray[np.bool_]] = {}
        for (source, result), (giver, *readers) in self.streams.items():
            if low <= giver < high <= max(readers, default=0):
                of = self._room(kind)[0][source]
                fast = np.array([self.crossing(source, result, n, kind, kind + 1) <= self.interval for n in of], bool)
                found[source] = found.get(source, True) & fast
        return found

    def _within(self, low: int, high: int, kind: int) -> bool:
        """Whether links leave all candidates of a run, so that longer ones cost no less."""
        return all(fast.all() for fast in self._fast_enough(low, high, kind).values())

    def found(self, gap: float = 0.0) -> DevicesFit:
        """The best cuts.

        Args:
            gap: By how much the bound may be below their value, as a share of it.

        Raises:
            ConfigError: If there are none.
        """
        count = len(self.order)
        rooms = [(each.budgets, each.external) for each in self.goals]
        alike = not self.settings.links.between  # else the links of two devices may differ
        kinds = [rooms.index(each) if alike else number for number, each in enumerate(rooms)]
        search = Search(self.places, kinds, self.allowed, self.least, self.run, self.tell, self._within)
        cuts = search.best(len(kinds), count, gap)
        if cuts.ends is not None:
            return self._fit(cuts, kinds)
        self.tell("no cuts; how many layers the devices before the last one take")
        before = (n for n in reversed(self.places) if search.best(len(kinds) - 1, n, NEVER).ends is not None)
        reached = next(before) if len(kinds) > 1 else 0
        raise ConfigError(
            "no contiguous cuts for these devices meet the rate"
            if cuts.bound >= NEVER
            else "no contiguous cuts were found that meet the rate",
            field="devices",
            got=f"{self.interval} cycles per frame; the devices before the last one take the first {reached} of "
            f"{count} layers at most",
            expected=f"room on the last one for {self.order[reached]} and what follows",
            remedy="raise the interval or the bits of the links, or give more or larger devices",
        )

    def _fit(self, cuts: Cuts, kinds: Sequence[int]) -> DevicesFit:
        assert cuts.ends is not None
        picked, chosen = dict[str, Candidate](), dict[str, int]()
        runs, places = list[Run](), dict[str, int]()
        on: dict[int, int] = {}
        for number, (low, high) in enumerate(zip((0, *cuts.ends), cuts.ends, strict=False)):
            use, words = dict.fromkeys(RESOURCES, 0), 0
            if high > low:
                solved = self._best[low, high, kinds[number]]
                chosen |= solved.chosen
                picked |= {name: self.candidates[name][at] for name, at in solved.chosen.items()}
                use, words = named(solved.total), int(solved.total[WORDS])
                places |= dict.fromkeys(self.order[low:high], number)
                on |= dict.fromkeys(range(low, high), number)
            runs.append(Run(self.goals[number], tuple(self.order[low:high]), use, words))
        links = {}
        for (source, result), (giver, *readers) in self.streams.items():
            for there in sorted({on[reader] for reader in readers} if giver >= 0 else ()):
                if there != on[giver]:
                    links[source] = self.crossing(source, result, chosen[source], on[giver], there)
        hardware = arguments(self.space.args, picked, self.space.twins).model_copy(update={"device": places})
        config = self.settings.model_copy(update={"hardware": hardware})
        return DevicesFit(self.interval, runs, links, cuts.value / SHARE, cuts.bound / SHARE, config)
