"""Chooses test vectors, and measures which faults the vectors of a design would show.

Frames from which test vectors are chosen: extreme ones, some of the calibration data, random ones.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mase_hw.emit.netlist import Netlist
from mase_hw.emit.reference import PortTensor, Reference
from mase_hw.host.documents import Json
from mase_hw.ir import MaseGraph
from mase_hw.ir.inputs import input_dtype
from mase_hw.nn import QuantizeInput
from mase_hw.nn.streaming import streaming
from mase_hw.numerics import quantize
from mase_hw.vectors.casts import CastUse
from mase_hw.vectors.faults import Fault, Memories, WrongCast, detected
from mase_hw.vectors.playback import Playback, at_a_time, cut, frames_of, playbacks, stackable, steps
from mase_hw.vectors.watch import RANGE, TIES_NEGATIVE, TIES_POSITIVE, count_casts

SPARSE = 0.1
"""Share of elements that are not zero in a sparse frame."""


def extreme_frames(graph: MaseGraph) -> dict[str, Tensor]:
    """All inputs at their largest number, at their smallest, alternating, and zero; none twice.

    Args:
        graph: A quantised graph.

    Returns:
        Inputs by name of the model's input, frames along the first dimension.
    """
    made: dict[str, list[Tensor]] = {}
    for number, port in enumerate(Reference(graph).inputs):
        low, high = port.fmt.min_mantissa, port.fmt.max_mantissa
        count = max(1, torch.Size(port.shape).numel())
        # The second input begins with the other end, so that sums and differences of both are extreme too.
        alternating = torch.where((torch.arange(count) + number) % 2 == 0, high, low)
        flat = [torch.full((count,), high), torch.full((count,), low), alternating, torch.zeros(count)]
        made[port.name] = [mantissas.to(torch.float64) for mantissas in flat]
    kept: list[int] = []
    for index in range(4):
        if not any(all(torch.equal(m[index], m[other]) for m in made.values()) for other in kept):
            kept.append(index)
    return {
        port.name: _values(graph, port, torch.stack([made[port.name][i] for i in kept]))
        for port in Reference(graph).inputs
    }


def random_frames(graph: MaseGraph, count: int, seed: int) -> dict[str, Tensor]:
    """Frames of random numbers, of four kinds in turn.

    The whole range; a quarter of it, so that not everything saturates; few numbers among zeros, so that what one alone
    does is not lost in a sum; nothing but both ends and zero.

    Args:
        graph: A quantised graph.
        count: How many.
        seed: Of the numbers.
    """
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for port in Reference(graph).inputs:
        low, high = port.fmt.min_mantissa, port.fmt.max_mantissa
        size = max(1, torch.Size(port.shape).numel())
        unit, other = torch.rand(2, count, size, generator=generator, dtype=torch.float64)
        whole = torch.floor(low + unit * (high - low + 1)).clamp(low, high)
        kinds = (
            whole,
            torch.round(whole / 4),
            torch.where(other < SPARSE, whole, 0.0),
            torch.where(unit < 1 / 3, float(low), torch.where(unit < 2 / 3, 0.0, float(high))),
        )
        rows = [kinds[number % len(kinds)][number] for number in range(count)]
        found[port.name] = _values(graph, port, torch.stack(rows))
    return found


def real_frames(graph: MaseGraph, kept: Mapping[str, Tensor], example: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Frames of the calibration data, or the example if there are none, that differ once they are quantised.

    Args:
        graph: A quantised graph.
        kept: From :class:`mase_hw.passes.quantize.calibration.observers.FrameSample`.
        example: The inputs with which the graph was traced.
    """
    ports = Reference(graph).inputs
    given = dict(kept) if {port.name for port in ports} <= kept.keys() else dict(example)
    frames = Reference(graph).named({port.name: given[port.name] for port in ports})
    codes = [
        torch.cat([quantize(v, p.fmt, name=p.name).double().flatten() for p, v in _ports(ports, frames, graph, i)])
        for i in range(frames_of(graph, frames))
    ]
    kept_at = [i for i, code in enumerate(codes) if not any(torch.equal(code, other) for other in codes[:i])]
    return pick(graph, frames, kept_at)


def pick(graph: MaseGraph, frames: Mapping[str, Tensor], numbers: list[int]) -> dict[str, Tensor]:
    """Some frames, in this order."""
    firsts = torch.tensor(numbers, dtype=torch.long)[:, None]
    return {name: frames[name][(firsts * step + torch.arange(step)).flatten()] for name, step in steps(graph).items()}


def _ports(
    ports: list[PortTensor], frames: Mapping[str, Tensor], graph: MaseGraph, index: int
) -> list[tuple[PortTensor, Tensor]]:
    frame = cut(graph, frames, index, index + 1)
    return [(port, frame[port.name]) for port in ports]


def _values(graph: MaseGraph, port: PortTensor, mantissas: Tensor) -> Tensor:
    """Inputs of the model, of its element type, that become these mantissas wherever the type can hold them."""
    node = next(n for n in graph.nodes if n.op == "placeholder" and str(n.target) == port.name)
    dtype = input_dtype(graph, node) or torch.get_default_dtype()
    values: Tensor = port.fmt.values(mantissas)
    if not dtype.is_floating_point and dtype is not torch.bool:
        limits = torch.iinfo(dtype)
        values = values.round().clamp(float(limits.min), float(limits.max))
    places = [m.places for user in node.users if isinstance(m := graph.meta_of(user).module, QuantizeInput)]
    if any(places):
        values = values.clamp(0, min(p for p in places if p is not None) - 1)
    shape = (len(mantissas) * port.shape[0], *port.shape[1:]) if port.shape else (len(mantissas),)
    return values.to(dtype).reshape(shape)


RANDOM = 40
"""Random frames to choose from."""
ROUNDS, ROUND = 4, 128
"""How often as many random frames are searched for what no frame has shown so far."""
CHOOSING = 128
"""Bits of memories for which vectors are chosen."""
LEAST = 16
"""Bits that are simulated however large the network is, and frames below which there is no choice."""
LEAST_CASTS = 32
"""Wrong casts that are simulated however large the network is."""
FEWEST = 4
"""Frames that are looked at however large the network is; of long recurrences whose frames go alone, one."""
SECONDS, RATE = 8, 100_000_000
"""About what may be spent on choosing, and again on measuring; and multiplications and results that a second computes.

The work is counted, not timed, so that the same model has the same vectors on every machine.
"""
BUDGET = SECONDS * RATE
STEP = 500_000
"""What the time steps of a recurrence cost besides, each: its calls, for a frame alone and all its faults."""
STACKED = 4
"""How often that much, for all frames at a time: faults are tried in parts that fit into memory, and casts apart."""
HEAVY = 64
"""Bits of memories that one wrong cast counts for: it stands for all the casts of a node."""
SHOWN = 20
"""Faults that no vector shows, listed by name."""


@dataclass(frozen=True)
class Seen:
    """What the vectors of a design show of its faults.

    Args:
        bits: Bits in memories, those that only fill words up not counted.
        tried: How many of them were simulated, one at a time, as the other one.
        seen: How many of these change an output.
        unseen: Some of the others.
        casts: Faults of rounding and saturation that were simulated; of a large network a sample.
        casts_seen: How many of these change an output.
        casts_unseen: The others.
        left_out: Memories whose bits are not among ``bits``.
        frames: How many frames were looked at.
    """

    bits: int
    tried: int
    seen: int
    unseen: tuple[str, ...]
    casts: int
    casts_seen: int
    casts_unseen: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    frames: int = 0

    def to_json(self, seed: int) -> Json:
        """The fields as JSON types, with the seed of the sample."""
        return {
            "frames": self.frames,
            "seconds": SECONDS,
            "memory": {
                "bits": self.bits,
                "tried": self.tried,
                "seen": self.seen,
                "seed": seed,
                "unseen": list(self.unseen),
                "left_out": list(self.left_out),
            },
            "casts": {"tried": self.casts, "seen": self.casts_seen, "unseen": list(self.casts_unseen)},
        }


@dataclass(frozen=True)
class Chosen:
    """Test vectors.

    Args:
        inputs: By name of the model's input, frames along the first dimension.
        sources: How many frames come from where: ``extreme``, ``calibration``, ``random``.
        stacks: What :func:`stacked` said, if it was asked.
    """

    inputs: dict[str, Tensor]
    sources: dict[str, int]
    stacks: bool | None = None


def choose(
    graph: MaseGraph, kept: Mapping[str, Tensor], example: Mapping[str, Tensor], frames: int, seed: int
) -> Chosen:
    """Choose frames so that faults show: extreme ones first, then whichever shows most that is not seen yet.

    A greedy cover: W. J. Chvatal, "A greedy heuristic for the set-covering problem", Math. Oper. Res. 4, 1979.

    Args:
        graph: A graph whose top level was emitted.
        kept: Frames of the calibration data.
        example: The inputs with which the graph was traced, if there is no calibration data.
        frames: How many at most.
        seed: Of random frames, and of the bits for which is chosen.
    """
    extreme, real = extreme_frames(graph), real_frames(graph, kept, example)
    if streaming(graph.model):
        return _hops(
            {"extreme": extreme, "calibration": real, "random": random_frames(graph, frames, seed)}, graph, frames
        )
    memories, ends = Memories(graph), frames_of(graph, extreme)
    stacks = stacked(graph, extreme)
    most = ends + frames_of(graph, real) + RANDOM
    calls = calls_of(graph) * (STACKED if stacks else most)
    wanted, tries = _affordable(min(CHOOSING, memories.bits), most, cost_of(graph), calls)
    # Half of what can be tried besides the extreme ones is real, spread evenly.
    rest = max(2, tries - ends)
    step = -(-frames_of(graph, real) // max(1, rest - min(RANDOM, rest // 2)))
    parts = {"extreme": extreme, "calibration": pick(graph, real, list(range(0, frames_of(graph, real), step)))}
    if tries:
        parts["random"] = random_frames(graph, max(1, rest - frames_of(graph, parts["calibration"])), seed)
    counts = {"random": 0} | {name: frames_of(graph, part) for name, part in parts.items()}
    pool = {name: torch.cat([part[name].to(extreme[name].dtype) for part in parts.values()]) for name in extreme}
    if not tries or frames <= ends:
        # Too large to try them, and to simulate many: the extreme ones, and a real one. Or there is no room for others.
        picked = list(range(min(frames, ends + 1)))
    else:
        faults: list[Fault] = [*memories.sample(wanted, f"choose {seed}")]
        known: list[Playback] = []
        faults += cast_faults(count_casts(graph, pool, stacks, known))
        every = known if _frames(known) == frames_of(graph, pool) else playbacks(graph, pool, stacks=stacks)
        table = detected(memories, every, faults)
        more, shown = _search(memories, faults, table, seed, stacks)
        pool = {name: torch.cat([part, more[name]]) for name, part in pool.items()} if more else pool
        counts["random"] += shown.shape[1]
        weights = torch.tensor([HEAVY if isinstance(fault, WrongCast) else 1 for fault in faults])
        picked = cover(torch.cat([table, shown], dim=1), list(range(min(ends, frames))), frames, weights)
    starts = {"extreme": 0, "calibration": ends, "random": ends + counts["calibration"]}
    sources = {n: sum(starts[n] <= i < starts[n] + counts[n] for i in picked) for n in starts}
    return Chosen(pick(graph, pool, picked), sources, stacks)


def _hops(parts: Mapping[str, Mapping[str, Tensor]], graph: MaseGraph, frames: int) -> Chosen:
    """Frames of a stream: in order, since each one's result depends on those before it; the last third is random."""
    inputs: list[dict[str, Tensor]] = []
    sources: dict[str, int] = {}
    for name, part in parts.items():
        left = frames - sum(sources.values())
        wanted = left - frames // 3 if name == "calibration" else left
        sources[name] = max(0, min(wanted, frames_of(graph, part)))
        inputs.append(cut(graph, part, 0, sources[name]))
    whole = {name: torch.cat([part[name].to(parts["extreme"][name].dtype) for part in inputs]) for name in inputs[0]}
    return Chosen(whole, sources, False)


def stacked(graph: MaseGraph, inputs: Mapping[str, Tensor]) -> bool:
    """Whether several frames are simulated at a time.

    Not if the frames are hops of a stream, or the graph does not allow it
    (:func:`mase_hw.vectors.playback.stackable`), and not in a network so large that only the fewest frames are looked
    at: there it would save nothing, and asking takes four of them.

    Args:
        graph: A graph whose top level was emitted.
        inputs: Frames by name of the model's input.
    """
    if streaming(graph.model):
        return False
    return cost_of(graph) * LEAST * FEWEST <= BUDGET and stackable(graph, inputs)


def _affordable(faults: int, frames: int, cost: int, calls: int) -> tuple[int, int]:
    """How many faults and frames can be tried with each other; none if these were too few, or calls take the most."""
    if calls > BUDGET // 2:
        return (0, 0)
    scale = min(1.0, math.sqrt((BUDGET - calls) / (cost * max(LEAST, faults) * frames)))
    faults, frames = int(faults * scale), int(frames * scale)
    return (faults, frames) if scale == 1.0 or frames >= LEAST else (0, 0)


def frames_to_try(graph: MaseGraph, frames: int, stacks: bool) -> int:
    """Of so many frames, how many can be looked at: all, but for large networks, and for long streams the first."""
    if streaming(graph.model):
        frames = min(frames, at_a_time(graph))
    calls = 0 if stacks else calls_of(graph)
    return min(frames, max(1 if calls else FEWEST, BUDGET // (cost_of(graph) * LEAST + 2 * calls)))


def _search(
    memories: Memories, faults: Sequence[Fault], table: Tensor, seed: int, stacks: bool
) -> tuple[dict[str, Tensor], Tensor]:
    """More random frames that show a fault which no column of the table shows, and their columns."""
    graph, parts, columns = memories.graph, [], [table[:, :0]]
    unseen = [i for i, row in enumerate(table.any(1).tolist()) if not row]
    room = (BUDGET - STACKED * calls_of(graph)) // cost_of(graph)
    for number in range(ROUNDS if stacks else 0):
        room -= ROUND * len(unseen)
        if not unseen or room < 0:
            break
        drawn = random_frames(graph, ROUND, (seed << 32) + number + 1)
        shown = detected(memories, playbacks(graph, drawn, stacks=stacks), [faults[i] for i in unseen])
        found = torch.tensor(cover(shown, [], ROUND) if bool(shown.any()) else [], dtype=torch.long)
        column = torch.zeros(len(faults), len(found), dtype=torch.bool)
        column[torch.tensor(unseen)] = shown[:, found]
        parts.append(pick(graph, drawn, found.tolist()))
        columns.append(column)
        unseen = [i for i, row in zip(unseen, shown.tolist(), strict=True) if not any(row)]
    joined = {name: torch.cat([part[name] for part in parts]) for name in parts[0]} if parts else {}
    return joined, torch.cat(columns, dim=1)


def cover(table: Tensor, first: Sequence[int], most: int, weights: Tensor | None = None) -> list[int]:
    """Columns that together have as many rows with a True as a greedy choice gives.

    Args:
        table: Booleans of shape ``(faults, frames)``.
        first: Columns to begin with.
        most: How many columns at most.
        weights: What each row counts; 1 if None.

    Returns:
        Columns in the order in which they were chosen; of several that are as good, the first. At least one.
    """
    picked = list(first)
    open_rows = ~table[:, picked].any(1) if picked else torch.ones(table.shape[0], dtype=torch.bool)
    worth = torch.ones(table.shape[0], dtype=torch.long) if weights is None else weights.long()
    while len(picked) < most:
        gain = (table & open_rows[:, None]).long().T @ worth
        best = int(gain.argmax()) if gain.numel() else 0
        if not int(gain[best]):
            break
        picked.append(best)
        open_rows &= ~table[:, best]
    return picked or [0]


def cast_faults(uses: Mapping[str, CastUse]) -> list[Fault]:
    """The faults of rounding and saturation that can be told from the right casts at all.

    Args:
        uses: By node, over many frames.
    """
    found: list[Fault] = []
    for node, use in uses.items():
        found += [WrongCast(node, TIES_POSITIVE)] if use.rounds and use.values > use.negative else []
        found += [WrongCast(node, TIES_NEGATIVE)] if use.rounds and use.negative else []
        found += [WrongCast(node, RANGE)] if use.grows else []
    return found


def measure(
    graph: MaseGraph,
    inputs: Mapping[str, Tensor],
    uses: Mapping[str, CastUse],
    most: int,
    seed: int,
    stacks: bool,
    known: Sequence[Playback] = (),
) -> Seen:
    """What share of the faults frames show, by simulating a sample of them.

    Args:
        graph: A graph whose top level was emitted.
        inputs: The frames; only the first ones of many in a large network.
        uses: What they exercise of the casts.
        most: Bits of memories to simulate at most; fewer in a large network.
        seed: Of the sample, which is drawn independently of that for which vectors are chosen.
        stacks: What :func:`stacked` said.
        known: The first frames, if they were simulated already, each alone or all at a time.
    """
    memories, casts = Memories(graph), cast_faults(uses)
    total = frames_to_try(graph, frames_of(graph, inputs), stacks)
    calls = calls_of(graph)
    room = max(0, BUDGET - STACKED * calls) // (cost_of(graph) * total)
    bits = memories.sample(max(LEAST, min(most, room)), f"measure {seed}")
    if len(casts) > (some := max(LEAST_CASTS, room)):
        kept = sorted(random.Random(f"casts {seed}").sample(range(len(casts)), some))
        casts = [casts[number] for number in kept]
    faults: list[Fault] = [*bits, *casts]
    open_faults = list(range(len(faults)))
    # What few frames show need not be simulated on all others, unless all cost hardly more than one.
    begin, size, most = 0, 4 if room >= len(faults) else 1, at_a_time(graph)
    size = total if streaming(graph.model) or (stacks and calls) else size
    while begin < total and open_faults:
        size = min(size, most, total - begin)
        parts = known[begin : begin + size] if not stacks else known if not begin else []
        if _frames(parts) != size:
            parts = playbacks(graph, cut(graph, inputs, begin, begin + size), stacks=stacks)
        shown = detected(memories, parts, [faults[i] for i in open_faults]).any(1)
        open_faults = [i for i, seen in zip(open_faults, shown.tolist(), strict=True) if not seen]
        begin, size = begin + size, 2 * size
    unseen = [str(faults[i]) for i in open_faults if i < len(bits)]
    unseen_casts = [str(faults[i]) for i in open_faults if i >= len(bits)]
    return Seen(
        memories.bits,
        len(bits),
        len(bits) - len(unseen),
        tuple(unseen[:SHOWN]),
        len(casts),
        len(casts) - len(unseen_casts),
        tuple(unseen_casts),
        tuple(memories.left_out),
        total,
    )


def _frames(parts: Sequence[Playback]) -> int:
    return sum(part.frames for part in parts)


def cost_of(graph: MaseGraph) -> int:
    """About what one frame costs: multiplications, and elements of the results."""
    netlist: Netlist = graph.meta["netlist"]
    cost = 1
    for instance in netlist.instances:
        op = graph.catalogue.get(instance.op)
        if op is None or op.hardware is None or not op.mase_type:
            continue
        cost += op.hardware.work(op.hardware.record(instance.parameters))
        cost += sum(port.beats * port.lanes for port in instance.ports if port.direction == "out")
    return cost


def calls_of(graph: MaseGraph) -> int:
    """What one frame alone costs besides, however few results it has: recurrences go through it step by step."""
    netlist: Netlist = graph.meta["netlist"]
    calls = 0
    for instance in netlist.instances:
        op = graph.catalogue.get(instance.op)
        if op is not None and op.hardware is not None and op.hardware.idle is not None:
            shapes = {port.name: port.tensor_shape for port in instance.ports}
            step = math.prod(shapes["weight"] if "weight" in shapes else shapes["data_in_0"][2:])
            calls += STEP * op.hardware.work(op.hardware.record(instance.parameters)) // step
    return calls
