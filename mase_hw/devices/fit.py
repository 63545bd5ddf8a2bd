"""Which layers are on which device, and with how many lanes: contiguous cuts of the network for a rate, with a proof.

The layers stand in their order, and each device has some of them in a row. What layers of a device cost is the sum of
what :mod:`mase_hw.fit` says of each, so the least area of every run of layers on every device is found by its solver,
and the best cuts by dynamic programming over them (R. Bellman, "Dynamic Programming", 1957). Each of the runs has a
bound, and the same sums of bounds bound all choices. A run that a device cannot hold is not tried with more layers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from mase_hw.compiler.config import CompileConfig, ConfigLike, load_config
from mase_hw.compiler.quantised_graph import Tell
from mase_hw.cost.devices import RESOURCES
from mase_hw.emit.reference import Inputs
from mase_hw.errors import ConfigError
from mase_hw.fit.budget import Impossible, Solution, solve
from mase_hw.fit.candidates import Candidate
from mase_hw.fit.choose import SPREAD, arguments
from mase_hw.fit.problem import WORDS, Problem, named
from mase_hw.fit.space import Space
from mase_hw.fit.target import NOMINAL, Goal, TargetLike, goal
from mase_hw.ir import MaseGraph
from mase_hw.ir.custom.spec import CustomOps
from mase_hw.ir.module_paths import nodes_at
from mase_hw.preflight.mapped import mapped_graph
from mase_hw.streams import ceil_div

NEVER = 1 << 60
"""More than any sum of shares."""


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
    calibration: Iterable[Any] | None = None,
    custom_ops: CustomOps | None = None,
    progress: Tell | None = None,
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
        calibration: Batches from which value ranges are observed.
        custom_ops: A user's own ops.
        progress: Told what is being done.

    Raises:
        ConfigError: If the rate, a device or the configuration is wrong, or no cuts meet it; then it is said whether
            that is proven, and how far the devices reach.
    """
    tell, settings = progress or (lambda _: None), load_config(config)
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
    tell("choosing cuts, lanes and implementations")
    search = _Search(graph, settings, goals, interval, spread, cuts)
    return search.found()


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
    ) -> None:
        self.graph, self.settings, self.goals, self.interval = graph, settings, goals, interval
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
        self.candidates = self.space.candidates(interval, spread)
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

    def _places(self, cuts: Sequence[str] | None) -> list[int]:
        """Numbers of layers before which may be cut; the first one and the end always."""
        count = len(self.order)
        if cuts is None:
            return list(range(count + 1))
        found = {0, count}
        for path in cuts:
            inside = set(nodes_at(self.graph, path))
            at = next((index for index, name in enumerate(self.order) if name in inside), None)
            if at is None:
                raise ConfigError(
                    "no layer in hardware is in the module before which is to be cut",
                    field="cuts",
                    got=path,
                    expected="the path of a module, or the name of a node",
                )
            found.add(at)
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

    def _run(self, low: int, high: int, kind: int) -> Solution | Impossible:
        """The least area of some layers in a row, on a device like that of the given number."""
        inside = set(self.order[low:high])
        prices = {name: self.problem.prices[name] for name in self.order[low:high]}
        edges = [edge for edge in self.problem.edges if inside.issuperset(edge.ends)]
        budgets = {RESOURCES.index(name): most for name, most in self.goals[kind].budgets.items()}
        if self.outside:  # a memory brings a word per cycle
            budgets[WORDS] = self.interval if self.goals[kind].external else 0
        return solve(Problem(prices, edges), self.weights(kind), budgets)

    def weights(self, kind: int) -> Any:
        """What resources count for: as their shares of the device."""
        most = self.goals[kind].budgets
        return np.array([*((1 << 24) // max(most.get(n, NOMINAL[n]), 1) + 1 for n in RESOURCES), 0], dtype=np.int64)

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

    def found(self) -> DevicesFit:
        """The best cuts.

        Raises:
            ConfigError: If there are none.
        """
        count = len(self.order)
        rooms = [(each.budgets, each.external) for each in self.goals]
        kinds = [rooms.index(each) for each in rooms]
        # Of every number of layers on the devices so far: the least sum and the cuts, and a bound of the sum.
        best: list[tuple[int, tuple[int, ...]] | None] = [(0, ()), *[None] * count]
        below = [0, *[NEVER] * count]
        reached = 0
        for device, kind in enumerate(kinds):
            # How many layers are on the devices before this one at most.
            reached = max((n for n, each in enumerate(best) if each is not None), default=0)
            then: list[tuple[int, tuple[int, ...]] | None] = [None] * (count + 1)
            bounds = [NEVER] * (count + 1)
            for low in self.places:
                if best[low] is None and below[low] >= NEVER:
                    continue
                # What is left over behind the last device is not made.
                for high in (
                    each for each in self.places if each >= low and (device + 1 < len(kinds) or each == count)
                ):
                    if high == low:
                        value = bound = 0
                    elif not self.allowed(low, high, device):
                        continue
                    else:
                        solved = self.run(low, high, kind)
                        if isinstance(solved, Impossible):
                            if solved.proven:
                                break
                            value, bound = NEVER, 0
                        else:
                            value, bound = solved.value, solved.bound
                    bounds[high] = min(bounds[high], below[low] + bound)
                    before = best[low]
                    if before is not None and value < NEVER:
                        sum_ = before[0] + value
                        known = then[high]
                        if known is None or sum_ < known[0]:
                            then[high] = (sum_, (*before[1], high))
            best, below = then, bounds
        chosen = best[count]
        if chosen is None:
            raise ConfigError(
                "no contiguous cuts for these devices meet the rate"
                if below[count] >= NEVER
                else "no contiguous cuts were found that meet the rate",
                field="devices",
                got=f"{self.interval} cycles per frame; the devices before the last one take the first {reached} of "
                f"{count} layers at most",
                expected=f"room on the last one for {self.order[reached]} and what follows",
                remedy="raise the interval or the bits of the links, or give more or larger devices",
            )
        return self._fit(chosen[0], below[count], chosen[1], kinds)

    def _fit(self, value: int, bound: int, cuts: Sequence[int], kinds: Sequence[int]) -> DevicesFit:
        picked: dict[str, Candidate] = {}
        runs, places = list[Run](), dict[str, int]()
        on: dict[int, int] = {}
        for number, (low, high) in enumerate(zip((0, *cuts), cuts, strict=False)):
            use, words = dict.fromkeys(RESOURCES, 0), 0
            if high > low:
                solved = self.run(low, high, kinds[number])
                assert isinstance(solved, Solution)  # it was chosen
                picked |= {name: self.candidates[name][at] for name, at in solved.chosen.items()}
                use, words = named(solved.total), int(solved.total[WORDS])
                places |= dict.fromkeys(self.order[low:high], number)
                on |= dict.fromkeys(range(low, high), number)
            runs.append(Run(self.goals[number], tuple(self.order[low:high]), use, words))
        links = {}
        for (source, result), (giver, *readers) in self.streams.items():
            for there in sorted({on[reader] for reader in readers} if giver >= 0 else ()):
                if there != on[giver]:
                    links[source] = self.cycles(source, result, on[giver], there)
        hardware = arguments(self.space.args, picked, self.space.twins).model_copy(update={"device": places})
        config = self.settings.model_copy(update={"hardware": hardware})
        unit = float(1 << 24)
        return DevicesFit(self.interval, runs, links, value / unit, min(bound, value) / unit, config)
