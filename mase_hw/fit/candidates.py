"""The foldings and implementations of every layer, with exact cycles per frame and their price.

What a folding costs in cycles depends on its *tiles* alone, ``ceil(size / lanes)`` for each side, so of the lanes that
give the same tiles the fewest are a candidate: about twice the root of the size, of which the divisors are a part.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from torch import fx

from mase_hw.catalogue import Hardware, Latency, verilog_params
from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.fit.problem import Prices, Use, nothing
from mase_hw.hardware.external import held_beats, source_size
from mase_hw.hardware.latency import timing_of
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.layouts import Layout
from mase_hw.ops.reorder import reorder_lanes, reorder_params
from mase_hw.passes.mapping.add_hardware_metadata import Wanted
from mase_hw.passes.mapping.args import KERNEL, MADE_FOR_WEIGHTS, WEIGHTS_FIRST, HardwareArgs, lane_dims
from mase_hw.passes.mapping.choices import OUTSIDE, asked_of, interface, tiled
from mase_hw.steps import Counts, Steps
from mase_hw.streams import Stream, ceil_div

IMPLEMENTATIONS = ("tree", "chain", "packed")
"""Those that are tried of every layer; ``unrolled`` is another one of the smallest, ``table`` of narrow ones."""
WEIGHT = "weight"
LOGIC = "logic"
"""One that takes look-up tables in place of multiplier blocks: tried where the target says so."""


NEVER = 1 << 63
"""Cycles per frame of what has no timing."""


class Clocked:
    """The timing of a module, computed when it is asked for: that takes nearly all the time of a search.

    Args:
        node: Whose it is, for errors.
        hardware: The facets of the module.
        params: Its parameters.
        passes: Of every frame.
    """

    def __init__(self, node: str, hardware: Hardware, params: Any, passes: int) -> None:
        self._timing = functools.partial(timing_of, node, hardware.latency, params)
        self._passes, self._ports = passes, hardware.ports(params)
        self._kept: Latency | None = None

    @functools.cached_property
    def cycles(self) -> int:
        """Per frame, exactly, of all passes; :data:`NEVER` if there is no such module."""
        try:
            found = self._timing()
        except (UnsupportedError, ConfigError):
            return NEVER
        self._kept = found if found.short else None
        return self._passes * found.interval

    @property
    def least(self) -> int:
        """Cycles per frame at least, without the timing: of a stream one beat per cycle."""
        beats = [port.beats for port in self._ports if port.name.startswith("data_")]
        return self._passes * max(beats, default=0)

    @property
    def latency(self) -> Latency:
        """The timing, which is kept only where it is short."""
        return self._timing() if self._kept is None else self._kept


class Choice(NamedTuple):
    """What is asked of a node; see :class:`Candidate`."""

    lanes: Mapping[str, int]
    kernel: tuple[int, int] | None
    implementation: str
    order: str = ""
    outside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Candidate:
    """One way to build a node.

    Args:
        lanes: Of every data stream, by name.
        kernel: Height and width of the window elements of a step; None where the op has no window that is unrolled.
        implementation: How products are computed; empty where the op has one way.
        order: In which order; empty for its own.
        use: What it takes, its memories included.
        ports: Its data streams, by name.
        multipliers: That it instantiates.
        clocked: Its timing.
        outside: Parameters that are moved to external memory.
        whole: Its beats are whole frames, or as many parts of one as they are, whatever lanes are asked for.
    """

    lanes: Mapping[str, int]
    kernel: tuple[int, int] | None
    implementation: str
    order: str
    use: Use
    ports: Mapping[str, Stream]
    multipliers: int
    clocked: Clocked
    outside: tuple[str, ...] = ()
    whole: bool = False

    @property
    def cycles(self) -> int:
        """Per frame, exactly, of all passes."""
        return self.clocked.cycles

    @property
    def latency(self) -> Latency:
        """Its timing."""
        return self.clocked.latency

    def tail(self, interval: int) -> int:
        """Cycles from the last beat of the input to the last one of the output, beats coming evenly over a frame.

        Of a module that is never stopped and never lacks room, so it is a bound for modules in a design.
        """
        stages = self.latency.steps
        if not stages:
            return self.cycles
        first = stages[0]
        came = [np.arange(beats, dtype=np.int64) * interval // beats for beats in first.beats_in]
        last = max(int(each[-1]) for each in came)
        for stage in stages:
            came = _left(stage, came)
        return int(came[0][-1]) - last

    @property
    def choice(self) -> Json:
        """For people and JSON."""
        chosen: Json = {"lanes": dict(self.lanes)}
        if self.kernel is not None and self.kernel != (1, 1):
            chosen[KERNEL] = list(self.kernel)
        if self.implementation:
            chosen["implementation"] = self.implementation
        if self.order:
            chosen["order"] = self.order
        if self.outside:
            chosen["external"] = list(self.outside)
        if self.whole:
            chosen["unroll"] = "frame"
        return chosen


def _left(stage: Steps, came: Sequence[Counts]) -> list[Counts]:
    """When the output beats of a stage are valid, from when its input beats come."""
    starts = []
    for beats, needed, delay in zip(came, stage.need_steps, stage.delay, strict=True):
        # Step k is done k - s cycles after step s at the earliest, s being a step that waits for a beat.
        starts.append((needed, np.maximum.accumulate(beats[: len(needed)] + delay - needed)))
    found = []
    for steps, pipe in zip(stage.emit_steps, stage.pipe, strict=True):
        begun = np.zeros(len(steps), dtype=np.int64)
        for needed, since in starts:
            at = np.searchsorted(needed, steps, "right") - 1
            begun = np.maximum(begun, np.where(at >= 0, since[np.maximum(at, 0)], 0) if len(since) else 0)
        found.append(steps + begun + pipe)
    return found


def tile_lanes(size: int) -> list[int]:
    """The fewest lanes for every number of tiles that a size can be cut into, in rising order."""
    found, tiles = [], 1
    while True:
        lanes = ceil_div(size, tiles)
        found.append(lanes)
        if lanes == 1:
            return sorted(found)
        # The fewest tiles that one lane less makes.
        tiles = ceil_div(size, lanes - 1)


Made = dict[tuple[Any, ...], Candidate | None]
"""Candidates by what was chosen for them; None for what cannot be built."""


@dataclass(frozen=True)
class Tried:
    """What candidates differ in besides lanes: orders, constants as structure, products in look-up tables, places.

    And what they are priced by; None for what is estimated for the family that was asked for.
    """

    orders: bool = False
    made: tuple[str, ...] = ()
    logic: bool = False
    external: bool = False
    prices: Prices | None = None


class Options:
    """The candidates of one node, made as they are asked for.

    Args:
        graph: With common metadata.
        node: The node.
        wanted: What it asks of the hardware.
        args: What the user asked of the hardware, with names of nodes.
        tried: What is tried besides lanes.
        made: What was made for nodes alike.
        passes: Nodes that share its module, through which every frame passes so often.
    """

    def __init__(
        self,
        graph: MaseGraph,
        node: fx.Node,
        wanted: Wanted,
        args: HardwareArgs,
        tried: Tried,
        made: Made | None = None,
        passes: int = 1,
    ) -> None:
        self.node, self.wanted, self.args, self.tried, self.passes = node, wanted, args, tried, passes
        self._graph, self.prices = graph, tried.prices or Prices(args.family)
        self._arguments = graph.meta_of(node).common.args
        self._made: Made = {} if made is None else made
        shapes = {n: s for n, s in wanted.sizes.items() if n.startswith("data_")}
        self.inside = {n: (s or (1,))[-1] for n, s in shapes.items() if n.startswith("data_in_")}
        self.outside = {n: (s or (1,))[-1] for n, s in shapes.items() if n.startswith("data_out_")}
        self._given = args.parallelism.get(node.name, {})
        self._ahead = {
            place.rpartition(".")[2]: part for place, part in args.ahead.items() if place.startswith(f"{node.name}.")
        }
        self._bound = (
            lane_dims(args.max_parallelism, "max_parallelism")[0]
            if "max_parallelism" in args.model_fields_set
            else None
        )

    def within(self, interval: int, spread: float = math.inf) -> list[Candidate]:
        """The candidates of at most so many cycles per frame, those that the user's own choices exclude left out.

        Args:
            interval: Cycles per frame.
            spread: Layers with multipliers are not made more than so many times faster than the interval, unless they
                cannot be slower.
        """
        return [each for each in self.offered(interval, spread) if each.cycles <= interval]

    def offered(self, interval: int, spread: float = math.inf) -> list[Candidate]:
        """The same with others that may take more cycles: none of them is timed yet."""
        found: dict[tuple[Any, ...], Candidate] = {}
        for lanes, kernel in self._foldings(interval, spread):
            ways = itertools.product(self._implementations, self._orders, self._places)
            for implementation, order, outside in ways:
                if order == WEIGHTS_FIRST and not outside and not self.args.order.get(self.node.name):
                    continue  # it is for weights from outside, each of which it takes once
                made = self._candidate(Choice(lanes, kernel, implementation, order, outside))
                if made is not None and made.clocked.least <= interval:
                    key = (*sorted(made.lanes.items()), made.kernel, made.implementation, made.order, made.outside)
                    found.setdefault(key, made)
        return [*found.values(), *self._made_for_weights()]

    def fastest(self) -> int:
        """The fewest cycles per frame of any candidate.

        Raises:
            MaseHwError: If nothing can be built.
        """
        most = {} if self.wanted.hardware.whole else {**self.inside, **self.outside}
        lanes = {name: self._limited(name, [size])[-1] for name, size in most.items()}
        options = [self._candidate(Choice(lanes, k, i)) for k in self._kernels() for i in self._implementations]
        cycles = [each.cycles for each in (*options, *self._made_for_weights()) if each is not None]
        if cycles:
            return min(cycles)
        return min(each.cycles for each in self._any())

    def _any(self) -> list[Candidate]:
        found = self.within(1 << 62)
        if found:
            return found
        for lanes, kernel in self._foldings(1 << 62, math.inf):
            self._build(Choice(lanes, kernel, self._implementations[0], self._orders[0]))
        raise UnsupportedError("no folding of this layer can be built", node=self.node.name)

    @property
    def _implementations(self) -> tuple[str, ...]:
        asked = self.args.implementation.get(self.node.name)
        if asked:
            return (asked,)
        if not self.wanted.hardware.implementations or not self.args.family:
            return ("",)
        tried = (*IMPLEMENTATIONS, LOGIC) if self.tried.logic else IMPLEMENTATIONS
        return tuple(name for name in tried if name in self.wanted.hardware.implementations) or ("",)

    @property
    def _orders(self) -> tuple[str, ...]:
        asked = self.args.order.get(self.node.name)
        if asked:
            return (asked,)
        if self.tried.orders and self.wanted.hardware.orders:
            return ("", "inputs_first")
        return ("", WEIGHTS_FIRST) if len(self._places) > 1 and self.passes == 1 else ("",)

    @property
    def _places(self) -> tuple[tuple[str, ...], ...]:
        """Parameters that may be moved to external memory: the weights, unless it is said where they are."""
        free = self.tried.external and self.args.parameters == "rom" and WEIGHT in self._arguments
        free = free and f"{self.node.name}.{WEIGHT}" not in self.args.parameters_at
        return ((), (WEIGHT,)) if free else ((),)

    def _kernels(self) -> list[tuple[int, int] | None]:
        if not self.wanted.hardware.unrolls:
            return [None]
        if KERNEL in self._given:
            window = self._given[KERNEL]
            if isinstance(window, int):
                return [(1, window)]
            return [(window[0], window[1])] if len(window) == 2 else [None]
        shape = self.wanted.request.shapes["weight"]
        whole = (shape[2], shape[3]) if len(shape) == 4 else (1, shape[2])
        return [(1, 1)] if whole == (1, 1) else [(1, 1), whole]

    def _limited(self, name: str, lanes: list[int]) -> list[int]:
        """Lanes that the user allows."""
        if name in self._given:
            return [lane_dims(self._given[name], f"parallelism.{self.node.name}.{name}")[0]]
        if self._bound is not None:
            size = {**self.inside, **self.outside}[name]
            lanes = [each for each in lanes if each <= self._bound] or [min(self._bound, size)]
        return lanes

    def _foldings(self, interval: int, spread: float) -> Iterator[tuple[dict[str, int], tuple[int, int] | None]]:
        if self.wanted.hardware.whole:
            yield {}, None
            return
        for kernel in self._kernels():
            if self._free:
                yield from ((lanes, kernel) for lanes in self._grid(kernel, interval, spread))
            else:
                yield from ((lanes, kernel) for lanes in self._alike())

    @property
    def _free(self) -> bool:
        """Whether input and output lanes are chosen one by one."""
        if self.wanted.hardware.follows_input or len(self.inside) != 1 or len(self.outside) != 1:
            return False
        if not self.wanted.hardware.unrolls:
            return bool(self.wanted.hardware.orders)
        return self.wanted.request.arithmetic.attributes.get("groups", 1) != self.inside["data_in_0"] or (
            self.inside["data_in_0"] == 1
        )

    def _alike(self) -> Iterator[dict[str, int]]:
        """As many lanes on every side, as far as its size allows."""
        sizes = {**self.inside, **self.outside}
        every = sorted({lanes for size in sizes.values() for lanes in tile_lanes(size)})
        allowed = [set(self._limited(name, every)) for name in sizes if name in self._given] or [set(every)]
        for lanes in sorted(set.union(*allowed)):
            yield {name: self._limited(name, [min(lanes, size)])[0] for name, size in sizes.items()}

    def _grid(self, kernel: tuple[int, int] | None, interval: int, spread: float) -> Iterator[dict[str, int]]:
        (name_in, size_in), (name_out, size_out) = *self.inside.items(), *self.outside.items()
        ins, outs = self._limited(name_in, tile_lanes(size_in)), self._limited(name_out, tile_lanes(size_out))
        whole = self._candidate(Choice({name_in: ins[0], name_out: outs[0]}, kernel, self._implementations[0]))
        if whole is None:
            yield from ({name_in: i, name_out: o} for i in ins for o in outs)
            return
        # The multipliers' own cycles follow from the tiles; streams may take more, so nothing slower is left out.
        unit = whole.cycles / (ceil_div(size_in, ins[0]) * ceil_div(size_out, outs[0]))
        tiles = [[ceil_div(size, lanes) for lanes in of] for size, of in ((size_in, ins), (size_out, outs))]
        for (i, t_in), (o, t_out) in itertools.product(enumerate(tiles[0]), enumerate(tiles[1])):
            cycles = unit * t_in * t_out
            slower = [unit * tiles[0][i - 1] * t_out] * (i > 0) + [unit * t_in * tiles[1][o - 1]] * (o > 0)
            needless = cycles * spread < interval and any(each <= interval for each in slower)
            if cycles <= interval + unit and not needless:
                yield {name_in: ins[i], name_out: outs[o]}

    def _candidate(self, choice: Choice) -> Candidate | None:
        key = (*sorted(choice.lanes.items()), *choice[1:])
        if key not in self._made:
            try:
                self._made[key] = self._build(choice)
            except (UnsupportedError, ConfigError):
                self._made[key] = None
        return self._made[key]

    def _made_for_weights(self) -> list[Candidate]:
        """The layer as additions of its constants or as truth tables; none if lanes or another way are asked for."""
        asked = self.args.implementation.get(self.node.name)
        if self._given or self._bound or asked or not self.args.family:
            return []
        if any(layout.beside > 1 for layout in self.wanted.layouts.values()):
            return []  # it takes one position a beat, so what follows would have another order
        found = [self._candidate(Choice({**self.inside, **self.outside}, None, way)) for way in self.tried.made]
        return [each for each in found if each is not None]

    def _as_made(self, way: str) -> tuple[Hardware, Json]:
        """The facets of a layer that is made for its weights, and what they are asked for."""
        other = self._graph.catalogue[self.wanted.hardware.delegates[way]].hardware
        assert other is not None
        asked = self.args.model_copy(update={"implementation": {self.node.name: way}, "order": {}})
        module = self._graph.meta_of(self.node).module
        return other, asked_of(self.node, self.wanted.hardware, [module], asked)

    def _build(self, choice: Choice) -> Candidate | None:
        lanes, kernel, implementation, order, outside = choice
        request, hardware = self.wanted.request, self.wanted.hardware
        parallelism: dict[str, tuple[int, ...]] = {name: (number,) for name, number in lanes.items()}
        chosen = set(lanes)
        if kernel is not None:
            parallelism["weight"] = (1, kernel[1], kernel[0], 1)
            chosen.add(KERNEL)
        more: Json = {
            "implementation": implementation or request.implementation,
            "order": order or request.order,
        }
        if implementation in MADE_FOR_WEIGHTS and self.wanted.hardware.delegates:
            hardware, more = self._as_made(implementation)
        asked = dataclasses.replace(request, parallelism=parallelism, chosen=frozenset(chosen), **more)
        params = hardware.build(asked)
        streams = hardware.ports(params)
        ports = {port.name: port for port in streams}
        data = {name: port for name, port in ports.items() if name.startswith("data_")}
        if hardware.whole:
            lanes = {name: port.lane_dims[0] for name, port in data.items()}
        if any(port.lane_dims[0] // port.positions != lanes.get(name) for name, port in data.items()):
            return None
        if order == "inputs_first" and not getattr(params, "INPUTS_FIRST", 0):
            return None
        args, between = moved(self.args, [f"{self.node.name}.{name}" for name in outside]), nothing()
        kept = interface(self.node, self._arguments, hardware, params, args, self.passes)
        if order == WEIGHTS_FIRST:
            params, ports, between = self._by_tile(hardware, params, ports)
        memories = {name: (ports[name], kept[name]) for name in hardware.static if name in ports and name in kept}
        late = [name for name, (_, where) in memories.items() if where.get("storage") == OUTSIDE]
        sources = [
            source_size(ports[name], self.passes, args.external_buffer, self._ahead.get(name, 1.0)) for name in late
        ]
        memories = {name: each for name, each in memories.items() if name not in late}
        clocked = Clocked(self.node.name, hardware, params, self.passes)
        multipliers = 0 if implementation in MADE_FOR_WEIGHTS else hardware.multipliers(params)
        use = self.prices.layer(hardware.module, verilog_params(params), memories, multipliers, self.passes)
        use = sum((self.prices.source(size, self.passes, args.external_memory) for size in sources), use + between)
        made = Candidate(dict(lanes), kernel, implementation, order, use, data, multipliers, clocked, outside)
        return dataclasses.replace(made, whole=hardware.whole)

    def _by_tile(
        self, hardware: Hardware, params: Any, ports: Mapping[str, Stream]
    ) -> tuple[Any, dict[str, Stream], Use]:
        """The module for one tile of its output channels, its ports, and the buffers of frames before and behind it.

        Raises:
            UnsupportedError: If there is no such module, or no weight is used twice in a frame.
        """
        params, tiles = tiled(self.node.name, hardware, params)
        if tiles == 1 or ports[WEIGHT].repeat == 1:
            raise UnsupportedError("every weight is taken once per frame as it is", node=self.node.name)
        made = {name: dataclasses.replace(port, parts=tiles) for name, port in ports.items() if name in hardware.static}
        taken, given = ports["data_in_0"], ports["data_out_0"]
        frames = held_beats(taken.beats, self._ahead.get("data_in_0", 1.0))
        before = {"WIDTH": taken.bits, "LEN": taken.beats, "REPEATS": tiles, "DEPTH": frames}
        shape = tuple(self._graph.tensor(self.node, "data_out_0").shape)
        last = hardware.layout == "channels_last"
        want = Layout.channels_last(shape) if last else Layout.row_major(shape)
        have, banks = want.cut_first(tiles), held_beats(1, self._ahead.get("data_out_0", 1.0))
        together = reorder_lanes(have, want, given.lanes, given.lanes)
        behind = reorder_params(self.node.name, given.fmt.width, have, want, together, banks)
        buffers = self.prices.of("replay_buffer", before)
        return params, made, buffers + self.prices.of("stream_reorder", verilog_params(behind))


def moved(args: HardwareArgs, places: Iterable[str]) -> HardwareArgs:
    """Arguments with some parameters in external memory."""
    at = dict.fromkeys(places, "external")
    return args.model_copy(update={"parameters_at": {**args.parameters_at, **at}}) if at else args
