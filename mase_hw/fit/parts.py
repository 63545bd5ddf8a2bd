"""Parts of a small network that may become one expression of their constants, a whole frame or a part of it per beat.

A part begins at the input or at a layer with weights, and ends at the result or before another such layer: what is
between two of them costs little in an expression, and takes a module of its own where it is folded. A network of
which a part became an expression is another graph, in which that part is a node with one way to be built; what is
chosen for the rest follows from it as for any graph.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from torch import fx

from mase_hw.errors import MaseHwError
from mase_hw.fit.target import Goal
from mase_hw.ir import MaseGraph
from mase_hw.ir.copies import copy_graph
from mase_hw.ir.module_paths import translations
from mase_hw.ops.unrolled._delays import DELAYS
from mase_hw.ops.unrolled.data._products import PRODUCTS
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.passes.mapping.unroll_frame import Part, axis_of, ends_of, nodes_between, part_of, put, unroll_args

MOST_PRODUCTS = 16_384
"""Products per frame of a network that is small, and per beat of an expression where nothing else meets a target."""
WEIGHT = "weight"


@dataclass(frozen=True)
class Framed:
    """A part of a network as one expression.

    Args:
        first: The node with which it begins; empty for the input.
        last: The one with which it ends; empty for the result.
        beats: Of a frame.
        products: In a beat.
        nodes: Those with hardware that it stands for.
        mhz: The clock for which its registers are placed; None for what the user's arguments say.
        carry_save: Whether its latest sums save carries, for that clock.
    """

    first: str
    last: str
    beats: int
    products: int
    nodes: tuple[str, ...]
    mhz: float | None = None
    carry_save: bool = False

    def asked(self, args: HardwareArgs) -> HardwareArgs:
        """The arguments of the hardware that ask for it."""
        part = {"unroll_first": self.first, "unroll_last": self.last, "unroll_beats": self.beats}
        clock = {} if self.mhz is None else {"unroll_mhz": self.mhz, "unroll_carry_save": self.carry_save}
        return args.model_copy(update={"unroll": "frame", **part, **clock})

    def __str__(self) -> str:
        whole = "the network" if not self.first and not self.last else f"{self.nodes[0]} to {self.nodes[-1]}"
        saved = ", carries saved" if self.carry_save else ""
        return f"{whole} as one expression, {self.beats} beat{'s' if self.beats > 1 else ''} per frame{saved}"


class Parts:
    """The parts of a graph that may become one expression, the largest first.

    Args:
        graph: Quantised.
        args: What the user asked of the hardware, which is kept.
        goal: What is to be reached.
        tokens: Of a frame, if they come one at a time.
    """

    def __init__(self, graph: MaseGraph, args: HardwareArgs, goal: Goal, tokens: int = 0) -> None:
        self.graph, self.args, self.goal = graph, args, goal
        self.refused: dict[str, str] = {}
        """Why a node cannot be in an expression, as far as that was found out."""
        self.why = _not_at_all(args, goal, tokens)
        said = args.model_fields_set & {"unroll_levels", "unroll_mhz", "unroll_carry_save"}
        self._mhz = goal.mhz if goal.family in DELAYS and not said else None
        self._made: dict[Framed, tuple[MaseGraph, Part, str]] = {}
        self._products = (
            {} if self.why else {n: _products(graph, n) for n in graph.nodes if WEIGHT in _tensors(graph, n)}
        )
        self._of_data = {} if self.why else {n: _of_data(graph, n) for n in graph.nodes}
        total = sum(self._products.values()) + sum(self._of_data.values())
        if not self.why and total > MOST_PRODUCTS:
            self.why = f"the network has {total:,} products per frame, more than {MOST_PRODUCTS:,}"
        self.all = () if self.why else tuple(sorted(self._found(), key=self._place))

    def _place(self, framed: Framed) -> tuple[int, ...]:
        """The largest parts first, which leave least to be folded: they show what others need not be tried for."""
        first = framed.products if self.goal.minimise == "area" else framed.beats
        return -len(framed.nodes), first, framed.products

    def of(self, framed: Framed) -> tuple[MaseGraph, Part, str]:
        """A copy of the graph in which a part is one node, the part, and the name of that node.

        Raises:
            MaseHwError: If it cannot be one.
        """
        if framed not in self._made:
            asked = unroll_args(framed.asked(self.args).model_copy(update={"family": self.goal.family}))
            copy = copy_graph(self.graph)
            part = part_of(copy, asked)
            self._made[framed] = copy, part, put(copy, part)
        return self._made[framed]

    def bad(self, framed: Framed) -> str:
        """Why a part cannot be an expression, if that is known; else empty."""
        return next((f"{node}: {self.refused[node]}" for node in framed.nodes if node in self.refused), "")

    def refuse(self, framed: Framed, error: MaseHwError) -> str:
        """Note why a part cannot be an expression, and say it."""
        got = f" ({error.got})" if error.got is not None else ""
        where = f"{error.node}: " if error.node else ""
        if error.node in framed.nodes:
            self.refused[error.node] = f"{error.message}{got}"
        return f"{where}{error.message}{got}"

    def _found(self) -> Iterator[Framed]:
        named = _named(self.graph, self.args)
        known: set[frozenset[fx.Node]] = set()
        firsts: list[fx.Node | None] = [None, *self._products]
        lasts = [None, *(node for node in self.graph.nodes if self._before_a_layer(node))]
        for first in firsts:
            for last in lasts:
                inside = nodes_between(self.graph, first, last)
                built = [node for node in self.graph.nodes if node in inside and not self.graph.is_implicit(node)]
                if not built or frozenset(inside) in known or named & {node.name for node in built}:
                    continue
                known.add(frozenset(inside))
                yield from self._in_beats(first, last, self._positions(inside), [node.name for node in built])

    def _positions(self, inside: Collection[fx.Node]) -> int:
        """Positions of the input of a part; one where there are several inputs or results, which come in one beat."""
        entries, results = ends_of(self.graph, inside)
        if len(entries) != 1 or len(results) != 1:
            return 1
        shape = tuple(self.graph.tensor(entries[0], "data_out_0").shape)
        axis = axis_of(shape, [str(self.graph.meta_of(node).common.mase_op) for node in inside])
        return shape[axis] if len(shape) > 2 and shape[0] == 1 else 1

    def _in_beats(
        self, first: fx.Node | None, last: fx.Node | None, positions: int, nodes: list[str]
    ) -> Iterator[Framed]:
        layers = [self._products.get(self.graph.node(name), 0) for name in nodes]
        products = sum(layers) + sum(self._of_data[self.graph.node(name)] for name in nodes)
        most = self.goal.interval or positions
        if not any(layers):
            return
        for beats in range(1, min(positions, most) + 1):
            if positions % beats == 0:
                ends = ("" if first is None else first.name), ("" if last is None else last.name)
                made = Framed(*ends, beats, math.ceil(products / beats), tuple(nodes), self._mhz)
                yield made
                if self._mhz is not None and self.goal.minimise == "latency":
                    yield dataclasses.replace(made, carry_save=True)

    def _before_a_layer(self, node: fx.Node) -> bool:
        """Whether a node with hardware is read by a layer with weights."""
        if self.graph.is_implicit(node) or not _tensors(self.graph, node):
            return False
        readers, seen = list(node.users), set()
        while readers:
            reader = readers.pop()
            if reader in self._products:
                return True
            if reader not in seen and reader.op != "output" and self.graph.is_implicit(reader):
                seen.add(reader)
                readers += reader.users
        return False


def _tensors(graph: MaseGraph, node: fx.Node) -> Collection[str]:
    """The tensors that a quantised node takes."""
    meta = graph.meta_of(node)
    return meta.common.args.tensors if meta.common.results.tensors and node.op != "output" else ()


def _products(graph: MaseGraph, node: fx.Node) -> int:
    """Products of a layer per frame: its weights, in as many positions as its result has."""
    weight = graph.tensor(node, WEIGHT).shape
    return math.prod(graph.tensor(node, "data_out_0").shape) // weight[0] * math.prod(weight)


def _of_data(graph: MaseGraph, node: fx.Node) -> int:
    """Products of two tensors of data that a node has per frame."""
    op = graph.meta_of(node).common.mase_op
    if op not in PRODUCTS or "data_in_1" not in _tensors(graph, node):
        return 0
    inner = graph.tensor(node, "data_in_0").shape[-1] if op != "mul" else 1
    return math.prod(graph.tensor(node, "data_out_0").shape) * inner


def _named(graph: MaseGraph, args: HardwareArgs) -> set[str]:
    """The nodes of which the configuration says how they are built."""
    keys = ("parallelism", "implementation", "order", "adder_levels", "fifo_depth", "memory", "parameters_at", "ahead")
    given = {key: getattr(args, key) for key in keys}
    of_tensors = ("fifo_depth", "memory", "parameters_at", "ahead")
    names = {n.rpartition(".")[0] if key in of_tensors else n for key, of in given.items() for n in of}
    paths: Mapping[str, list[str]] = translations(graph, sorted(names))
    return {node for name in names for node in paths.get(name, [name])}


def _not_at_all(args: HardwareArgs, goal: Goal, tokens: int) -> str:
    """Why no part of a network may be an expression; empty if it may."""
    reasons = {
        "target.whole_frames is 0": not goal.whole_frames,
        "tokens come one at a time": bool(tokens),
        "blocks may share hardware": bool(args.shared or goal.shared),
        "weights may be in external memory": bool(goal.external or args.reads_outside),
        "parameters are loaded": args.parameters != "rom",
        "max_parallelism bounds all lanes": "max_parallelism" in args.model_fields_set,
        "positions of a beat are said": args.positions != 1,
    }
    return next((reason for reason, there in reasons.items() if there), "")
