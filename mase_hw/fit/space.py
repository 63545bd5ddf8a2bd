"""What there is to choose in a graph: the candidates of its nodes, and the streams between them.

Nodes that share hardware are one, the first, whose cycles are those of all passes. Which layers are alike, so that the
candidates of one are those of the other: all but their names and values.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import fx

from mase_hw.fit.candidates import Candidate, Made, Options, Tried
from mase_hw.fit.problem import MEASURES, Edge, Numbers, Prices, Problem, Use
from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.nn.tables import MOST_INPUT_BITS
from mase_hw.ops.unrolled._neurons import most_bits
from mase_hw.passes.mapping.add_hardware_metadata import Wanted, wanted
from mase_hw.passes.mapping.args import TABLE, UNROLLED, HardwareArgs, with_node_names
from mase_hw.passes.mapping.shared_blocks import Shared, engines
from mase_hw.streams import Stream


class _Unlike(Exception):
    """A value of which it is not known when another one is the same."""


def kind(node: str, wanted: Wanted, args: HardwareArgs, passes: int = 1) -> Hashable:
    """What decides the candidates of a node; the same for two nodes only if their candidates are the same.

    Args:
        node: Its name.
        wanted: What it asks of the hardware.
        args: What the user asked of the hardware, with names of nodes.
        passes: Nodes that share its hardware.
    """
    places = [
        {place.rpartition(".")[2]: kept for place, kept in of.items() if place.startswith(f"{node}.")}
        for of in (args.memory, args.parameters_at, args.ahead)
    ]
    given = [args.parallelism.get(node), args.implementation.get(node), args.order.get(node), places]
    request = dataclasses.replace(wanted.request, node="")
    try:
        return id(wanted.hardware), passes, _frozen(request), _frozen(wanted.sizes), _frozen(given)
    except _Unlike:
        return node


def _frozen(value: Any) -> Hashable:
    """The same for the same values, of kinds that are known.

    Raises:
        _Unlike: For any other kind.
    """
    if value is None or isinstance(value, bool | int | float | str | enum.Enum):
        return type(value).__name__, value
    if isinstance(value, Mapping):
        return "mapping", tuple((_frozen(k), _frozen(v)) for k, v in value.items())
    if isinstance(value, tuple | list):
        return type(value).__name__, tuple(_frozen(each) for each in value)
    if isinstance(value, frozenset):
        return "set", tuple(sorted((_frozen(each) for each in value), key=repr))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
        return type(value).__qualname__, tuple((name, _frozen(each)) for name, each in fields)
    raise _Unlike


Candidates = dict[str, list[Candidate]]
Link = tuple[tuple[str, str], tuple[str, str]]
"""A node and its result, and what reads it; on the way back into blocks the result that has entered them."""


class Space:
    """Every choice that there is.

    Args:
        graph: Quantised, with common metadata.
        args: What the user asked of the hardware, which stays as it is.
        orders: Whether orders of layers are tried.
        unrolled: Weights, of all layers together, that may become additions; or the layers.
        logic: Whether multipliers may be made of look-up tables.
        external: Whether weights may be read from external memory.
        prices: What modules take; None for what is estimated of them.

    Raises:
        MaseHwError: As the hardware metadata pass.
    """

    def __init__(
        self,
        graph: MaseGraph,
        args: HardwareArgs,
        *,
        orders: bool = False,
        unrolled: int | Collection[str] = 0,
        logic: bool = False,
        external: bool = False,
        prices: Prices | None = None,
    ) -> None:
        self.prices = prices or Prices(args.family)
        self.graph, self.args = graph, with_node_names(graph, args)
        shared = engines(graph, args.shared)
        self.twins = {of[0].name: tuple(node.name for node in of) for each in shared for of in each.twins()}
        """Of every node whose hardware is shared all that share it; those that do not are left out."""
        others = {name for of in self.twins.values() for name in of[1:]}
        every = wanted(graph, args)
        found = {name: each for name, each in every.items() if name not in others}
        passes = {name: len(self.twins.get(name, (name,))) for name in found}
        alone = {name: each for name, each in found.items() if passes[name] == 1}
        self.small = _small(alone, unrolled) if isinstance(unrolled, int) else alone.keys() & set(unrolled)
        """The layers that may become additions."""
        ways = {UNROLLED: self.small, TABLE: _narrow(graph, alone)}
        own = {name: tuple(way for way, of in ways.items() if name in of) for name in found}
        self.kinds = {
            name: name if own[name] else kind(name, each, self.args, passes[name]) for name, each in found.items()
        }
        made: dict[Hashable, Made] = {key: {} for key in self.kinds.values()}
        self.options = {
            name: Options(
                graph,
                graph.node(name),
                each,
                self.args,
                Tried(orders, own[name], logic, external, self.prices),
                made[self.kinds[name]],
                passes[name],
            )
            for name, each in found.items()
        }
        self.links = _links(graph, every, shared, passes)
        self._tails: dict[tuple[int, int], int] = {}
        self._fastest: tuple[int, str] | None = None
        self._connectors: dict[tuple[Stream, Stream], tuple[Use, int]] = {}
        self._candidates: dict[tuple[int, float, int | None], Candidates] = {}
        self._problems: dict[tuple[int, int], tuple[Candidates, Problem]] = {}

    def fastest(self) -> tuple[int, str]:
        """The fewest cycles per frame that any choice can reach, and the node that needs them."""
        if self._fastest is None:
            cycles = {self.kinds[name]: options.fastest() for name, options in self._one_of_a_kind()}
            name = max(self.options, key=lambda n: cycles[self.kinds[n]])
            self._fastest = cycles[self.kinds[name]], name
        return self._fastest

    def _one_of_a_kind(self) -> list[tuple[str, Options]]:
        """A node for all that are alike, and its options."""
        examples = {self.kinds[name]: name for name in reversed(self.options)}
        return [(name, self.options[name]) for name in examples.values()]

    def candidates(
        self,
        interval: int,
        spread: float = math.inf,
        *,
        pace: int | None = None,
        tell: Callable[[str], object] = lambda _: None,
    ) -> Candidates:
        """Candidates of every node for a number of cycles per frame, but for those that others make needless.

        Args:
            interval: Cycles per frame.
            spread: As for :meth:`Options.within`.
            pace: Cycles per frame in which beats come where what ends later after its input is worse; None if that is
                of no account.
            tell: Told which layers are looked at.
        """
        key = interval, spread, pace
        if key not in self._candidates:
            found = {}
            kinds = self._one_of_a_kind()
            for number, (name, options) in enumerate(kinds, 1):
                tell(f"foldings of {name}, layer {number} of {len(kinds)} that differ")
                if pace is None:
                    found[self.kinds[name]] = self._cheapest(options.offered(interval, spread), interval)
                else:
                    of = options.within(interval, spread)
                    found[self.kinds[name]] = [of[i] for i in _needed(of, self._prices(of, pace))]
            self._candidates[key] = {name: found[self.kinds[name]] for name in self.options}
        return self._candidates[key]

    def _cheapest(self, of: list[Candidate], interval: int) -> list[Candidate]:
        """Those of at most so many cycles that no other one of them makes needless, with few of the others timed.

        What is too slow makes nothing needless, so those that it had done so are looked at again.
        """
        while True:
            kept = [of[i] for i in _needed(of, self._prices(of, None))]
            late = {id(each) for each in kept if each.cycles > interval}
            if not late:
                return kept
            of = [each for each in of if id(each) not in late]

    def intervals(self, most: int, spread: float) -> list[int]:
        """Cycles per frame of candidates, in rising order, all from an interval down to a part of it, some below."""
        found = {c.cycles for _, options in self._one_of_a_kind() for c in options.within(most, spread)}
        return sorted({*found, int(most / spread)})

    def problem(self, candidates: Candidates, interval: int) -> Problem:
        """The choice as numbers: resources.

        The same candidates are asked about with several budgets, so the problem of each is kept, with them: no other
        object has their ``id`` then.
        """
        key = id(candidates), interval
        if key not in self._problems:
            self._problems[key] = candidates, self._problem(candidates, interval)
        return self._problems[key][1]

    def _problem(self, candidates: Candidates, interval: int) -> Problem:
        each: dict[int, Numbers] = {}
        for of in candidates.values():
            if id(of) not in each:
                each[id(of)] = self._prices(of, None)
        prices = {name: each[id(of)] for name, of in candidates.items()}
        known: dict[tuple[int, str, int, str, int], Edge] = {}
        edges = []
        for link, times in self.links.items():
            (giver, result), (reader, argument) = link
            key = id(candidates[giver]), result, id(candidates[reader]), argument, times
            if key not in known:
                known[key] = self._edge(link, candidates, interval // times)
            edges.append(dataclasses.replace(known[key], ends=(giver, reader)))
        return Problem(prices, [edge for edge in edges if edge.prices.any() or not edge.possible.all()])

    def _prices(self, of: Sequence[Candidate], pace: int | None) -> Numbers:
        rows = [(*each.use, *(() if pace is None else (each.cycles, self._tail(each, pace)))) for each in of]
        return np.array(rows, dtype=np.int64).reshape(len(of), -1)

    def _tail(self, each: Candidate, pace: int) -> int:
        """Kept by the object, which the options keep."""
        key = (id(each), pace)
        if key not in self._tails:
            self._tails[key] = each.tail(pace)
        return self._tails[key]

    def _connector(self, have: Stream, want: Stream) -> tuple[Use, int]:
        key = have, want
        if key not in self._connectors:
            self._connectors[key] = self.prices.connector(have, want)
        return self._connectors[key]

    def _edge(self, link: Link, candidates: Candidates, interval: int) -> Edge:
        (giver, result), (reader, argument) = link
        rows, haves = _lanes(candidates[giver], result)
        columns, wants = _lanes(candidates[reader], argument)
        prices = np.zeros((len(haves), len(wants), len(MEASURES)), dtype=np.int64)
        possible = np.zeros((len(haves), len(wants)), dtype=np.bool_)
        for i, have in enumerate(haves):
            for j, want in enumerate(wants):
                use, cycles = self._connector(have.ports[result], want.ports[argument])
                prices[i, j], possible[i, j] = use, cycles <= interval
        return Edge((giver, reader), rows, columns, prices, possible)


def _small(found: Mapping[str, Wanted], left: int) -> set[str]:
    """The smallest layers that can become additions of their constants, as many as are found in reasonable time."""
    weights = {
        name: math.prod(each.request.shapes["weight"])
        for name, each in found.items()
        if UNROLLED in each.hardware.delegates
    }
    small: set[str] = set()
    for name in sorted(weights, key=lambda n: weights[n]):
        if weights[name] <= left:
            small.add(name)
            left -= weights[name]
    return small


def _narrow(graph: MaseGraph, found: Mapping[str, Wanted]) -> set[str]:
    """The layers whose neurons read so few bits that they can become truth tables."""
    narrow: set[str] = set()
    for name, each in found.items():
        module = graph.meta_of(graph.node(name)).module
        if TABLE not in each.hardware.delegates or not isinstance(module, Quantized):
            continue
        parameters = {key: module.mantissa(key) for key in module.parameter_names}
        if most_bits(module.arithmetic, parameters) <= MOST_INPUT_BITS:
            narrow.add(name)
    return narrow


def _needed(of: Sequence[Candidate], prices: Numbers) -> list[int]:
    """Those than which none with the same lanes is better, or as good and before it."""
    alike: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for i, each in enumerate(of):
        alike.setdefault(tuple(sorted(each.lanes.items())), []).append(i)
    kept: list[int] = []
    for group in alike.values():
        own = prices[group]
        no_worse = (own[:, None] <= own[None]).all(axis=2)
        better = no_worse & (~no_worse.T | np.triu(np.ones_like(no_worse), 1))
        kept += np.array(group)[~better.any(axis=0)].tolist()
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


def _readers(graph: MaseGraph, node: fx.Node, result: str) -> Iterator[tuple[fx.Node, str]]:
    """The inputs that read a result, and those behind nodes that only rename elements."""
    for user, name in graph.consumers(node, result):
        yield user, name
        if graph.is_implicit(user) and user.op != "output":
            yield from _readers(graph, user, "data_out_0")


def _links(
    graph: MaseGraph, nodes: Collection[str], shared: Sequence[Shared], passes: Mapping[str, int]
) -> dict[Link, int]:
    """Which result drives which data input, through nodes that only rename elements, and how often in a frame.

    Args:
        graph: The graph.
        nodes: All with a module.
        shared: Those that share hardware; what is chosen for the first of them is for all.
        passes: Of nodes that are chosen for.
    """
    first = {node.name: of[0].name for each in shared for of in each.twins() for node in of}
    drives: dict[tuple[str, str], tuple[str, str]] = {}
    links: dict[Link, int] = {}
    for node in graph.nodes:
        results = graph.meta_of(node).common.results.tensors
        sources = {name: drives.get((p.name, result)) for name, (p, result) in graph.sources(node).items()}
        if node.name in nodes:
            drives |= {(node.name, result): (first.get(node.name, node.name), result) for result in results}
            if node.name in passes:
                links |= {
                    (source, (node.name, name)): passes[node.name]
                    for name, source in sources.items()
                    if source is not None and name.startswith("data_in_")
                }
        elif node.op != "output" and results:
            source = next((each for each in sources.values() if each is not None), None)
            if source is not None:
                drives[node.name, "data_out_0"] = source
    for each in shared:
        last, result = each.results[0]
        begin = drives.get((each.enters[0].name, each.enters[1]))
        if begin is None:  # an input of the design, which has the lanes of what reads it
            inside = {node.name for node in each.copies[0]} & passes.keys()
            begin = next((n.name, a) for n, a in _readers(graph, *each.enters) if n.name in inside)
        if begin[0] != last.name:
            links[(last.name, result), begin] = each.passes - 1
    return links
