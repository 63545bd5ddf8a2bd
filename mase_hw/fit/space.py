"""What there is to choose in a graph: the candidates of its nodes, and the streams between them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from mase_hw.cost.resources import RESOURCES
from mase_hw.fit.candidates import Candidate, Options
from mase_hw.fit.prices import connector
from mase_hw.fit.problem import Edge, Numbers, Problem
from mase_hw.ir import MaseGraph
from mase_hw.passes.analysis.add_hardware_metadata import wanted
from mase_hw.passes.analysis.hardware_args import HardwareArgs, with_node_names

Candidates = dict[str, list[Candidate]]


class Space:
    """Every choice that there is.

    Args:
        graph: Quantised, with common metadata.
        args: What the user asked of the hardware, which stays as it is.
        orders: Whether orders of layers are tried.

    Raises:
        MaseHwError: As the hardware metadata pass.
    """

    def __init__(self, graph: MaseGraph, args: HardwareArgs, *, orders: bool = False) -> None:
        self.graph, self.args = graph, with_node_names(graph, args)
        found = wanted(graph, args)
        self.options = {
            name: Options(graph, graph.node(name), each, self.args, orders=orders) for name, each in found.items()
        }
        self.links = _links(graph, found)
        self._tails: dict[tuple[int, int], int] = {}

    def fastest(self) -> tuple[int, str]:
        """The fewest cycles per frame that any choice can reach, and the node that needs them."""
        cycles = {name: options.fastest() for name, options in self.options.items()}
        name = max(cycles, key=lambda n: cycles[n])
        return cycles[name], name

    def candidates(self, interval: int, spread: float = math.inf, *, pace: int | None = None) -> Candidates:
        """Candidates of every node for a number of cycles per frame, but for those that others make needless.

        Args:
            interval: Cycles per frame.
            spread: As for :meth:`Options.within`.
            pace: Cycles per frame in which beats come where what ends later after its input is worse; None if that is
                of no account.
        """
        found = {}
        for name, options in self.options.items():
            of = options.within(interval, spread)
            found[name] = [of[i] for i in _needed(of, self._prices(of, pace))]
        return found

    def problem(self, candidates: Candidates, interval: int, *, pace: int | None = None) -> Problem:
        """The choice as numbers: resources, and with a pace the cycles that a node ends after its input."""
        prices = {name: self._prices(of, pace) for name, of in candidates.items()}
        edges = [self._edge(link, candidates, interval, pace) for link in self.links]
        return Problem(prices, [edge for edge in edges if edge.prices.any() or not edge.possible.all()])

    def _prices(self, of: Sequence[Candidate], pace: int | None) -> Numbers:
        rows = [(*each.use, *(() if pace is None else (self._tail(each, pace),))) for each in of]
        return np.array(rows, dtype=np.int64).reshape(len(of), -1)

    def _tail(self, each: Candidate, pace: int) -> int:
        """Kept by the object, which the options keep."""
        key = (id(each), pace)
        if key not in self._tails:
            self._tails[key] = each.tail(pace)
        return self._tails[key]

    def _edge(
        self, link: tuple[tuple[str, str], tuple[str, str]], candidates: Candidates, interval: int, pace: int | None
    ) -> Edge:
        (giver, result), (reader, argument) = link
        rows, haves = _lanes(candidates[giver], result)
        columns, wants = _lanes(candidates[reader], argument)
        prices = np.zeros((len(haves), len(wants), len(RESOURCES) + (pace is not None)), dtype=np.int64)
        possible = np.zeros((len(haves), len(wants)), dtype=np.bool_)
        for i, have in enumerate(haves):
            for j, want in enumerate(wants):
                use, cycles = connector(have.ports[result], want.ports[argument], self.args.family)
                prices[i, j, : len(RESOURCES)], possible[i, j] = use, cycles <= interval
        return Edge((giver, reader), rows, columns, prices, possible)


def _needed(of: Sequence[Candidate], prices: Numbers) -> list[int]:
    """Those than which none with the same lanes is better, or as good and before it."""
    alike: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for i, each in enumerate(of):
        alike.setdefault(tuple(sorted(each.lanes.items())), []).append(i)
    kept = []
    for group in alike.values():
        for i in group:
            no_worse = [j for j in group if j != i and (prices[j] <= prices[i]).all()]
            if not any((prices[j] < prices[i]).any() or j < i for j in no_worse):
                kept.append(i)
    return sorted(kept)


def _lanes(candidates: Sequence[Candidate], port: str) -> tuple[Numbers, list[Candidate]]:
    """For every candidate the number of its lanes among those that occur, and a candidate for each of these."""
    seen: dict[int, int] = {}
    examples: list[Candidate] = []
    numbers = []
    for each in candidates:
        lanes = each.ports[port].lanes
        if lanes not in seen:
            seen[lanes] = len(examples)
            examples.append(each)
        numbers.append(seen[lanes])
    return np.array(numbers, dtype=np.int64), examples


def _links(graph: MaseGraph, nodes: Collection[str]) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """Which result drives which data input, through nodes that only rename elements."""
    drives: dict[tuple[str, str], tuple[str, str]] = {}
    links = []
    for node in graph.nodes:
        results = graph.meta_of(node).common.results.tensors
        sources = {name: drives.get((p.name, result)) for name, (p, result) in graph.sources(node).items()}
        if node.name in nodes:
            drives |= {(node.name, result): (node.name, result) for result in results}
            links += [
                (source, (node.name, name))
                for name, source in sources.items()
                if source is not None and name.startswith("data_in_")
            ]
        elif node.op != "output" and results:
            source = next((each for each in sources.values() if each is not None), None)
            if source is not None:
                drives[node.name, "data_out_0"] = source
    return links
