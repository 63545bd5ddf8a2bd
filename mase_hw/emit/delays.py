"""One FIFO before a fork in place of several behind it.

Where branches of a fork wait for about the same time, each in a FIFO of its own, the stream may wait once, before it
is divided. What lies between the fork and these FIFOs moves behind that FIFO. A module there that others read without
delay as well is copied, if it is cheap. (Moving registers over the fork of a circuit is retiming: Leiserson and Saxe,
"Retiming synchronous circuitry", Algorithmica 1991. Here a stream has elastic buffers in place of registers, so it is
the network of beats that says whether the design is as fast as before.)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from mase_hw.catalogue import Catalogue
from mase_hw.emit.netlist import TOP, Instance, Pin
from mase_hw.emit.schedule import Timeline
from mase_hw.hardware.memories import block_rams

COPY = 4
"""Block RAMs that a copied module must save for each of its lanes.

A layer norm of one lane takes 900 LUTs and 10 DSP blocks of Xilinx 7, whose devices have about 200 LUTs and one DSP
block for every block RAM of 18 Kbit.
"""


@dataclass(frozen=True)
class Delay:
    """A stream that waits before it is divided.

    Args:
        fork: Instance that divides it.
        pins: Data inputs whose FIFOs it makes shorter.
        gain: Block RAMs that are expected to be saved.
    """

    fork: str
    pins: tuple[Pin, ...]
    gain: int


@dataclass(frozen=True)
class _Waiting:
    """The FIFO before a data input: what it takes, and for how much of a frame beats wait in it."""

    bits: int
    beats: int
    depth: int

    @property
    def blocks(self) -> int:
        return block_rams(self.depth, self.bits)

    @property
    def share(self) -> Fraction:
        return Fraction(self.depth, self.beats)

    def waiting(self, share: Fraction) -> _Waiting:
        """The same stream, waiting for so much of a frame."""
        return dataclasses.replace(self, depth=-(-share.numerator * self.beats // share.denominator))


def reconvergent(timeline: Timeline) -> list[Pin]:
    """Inputs of joins that lie on a cycle of the undirected netlist; every input of the design is a node by itself."""
    links = [(source.instance or source.port, pin.instance, pin) for pin, source in timeline.data_pins().items()]
    behind: dict[str, list[tuple[str, Pin]]] = {}
    for a, b, pin in links:
        behind.setdefault(a, []).append((b, pin))
        behind.setdefault(b, []).append((a, pin))
    # A spanning forest: every other link closes a cycle with what leads from its ends to where they meet.
    above: dict[str, str] = {}
    order: dict[str, int] = {}
    tree: dict[Pin, str] = {}
    for root in behind:
        todo = [] if root in order else [root]
        above.setdefault(root, root)
        while todo:
            order[node := todo.pop()] = len(order)
            for other, pin in behind[node]:
                if other not in above:
                    above[other], tree[pin] = node, other
                    todo.append(other)
    top = {node: node for node in behind}
    """The nodes that cycles join become one; of each, the node that comes first."""

    def find(node: str) -> str:
        while top[node] != node:
            top[node] = node = top[top[node]]
        return node

    for a, b, pin in links:
        if pin not in tree:
            while (a := find(a)) != (b := find(b)):
                late = max(a, b, key=order.__getitem__)
                top[late] = above[late]
    joins = {name for name, part in timeline.parts.items() if len(part.inputs) > 1}
    return [pin for _, end, pin in links if end in joins and (pin not in tree or find(tree[pin]) != tree[pin])]


def find_delays(timeline: Timeline, depths: Mapping[Pin, int], catalogue: Catalogue) -> list[Delay]:
    """Delays that promise fewer block RAMs, the best ones first, none of which shortens the same FIFO as another.

    Args:
        timeline: The design without FIFOs.
        depths: Depth of the FIFO before every data input that has one.
        catalogue: Where the modules are described.
    """
    streams = {net.sink: net.stream for net in timeline.netlist.nets}
    queues = {pin: _Waiting(streams[pin].bits, timeline.beats(timeline.into[pin]), d) for pin, d in depths.items() if d}
    behind: dict[str, dict[Pin, bool]] = {}
    for pin in queues:
        for fork, moves in _forks(timeline, pin, queues):
            behind.setdefault(fork, {})[pin] = moves
    readers: dict[str, list[Pin]] = {}
    for sink, source in timeline.into.items():
        readers.setdefault(source.instance, []).append(sink)
    found = []
    for fork, moved in behind.items():
        enters = Pin(fork, "in_data")
        stream = _Waiting(streams[enters].bits, timeline.beats(timeline.into[enters]), 1)
        longest = sorted(moved, key=lambda pin: -queues[pin].share)
        for pins in (tuple(longest[: many + 1]) for many in range(len(longest))):
            if len(pins) == 1 and not moved[pins[0]]:
                continue  # its FIFO stands at the fork already
            gain = _gain({pin: queues[pin] for pin in pins}, stream)
            price = _price(timeline, readers, fork, pins, catalogue) if gain > 0 else None
            if price is not None and gain > price:
                found.append(Delay(fork, pins, gain - price))
    chosen: list[Delay] = []
    for delay in sorted(found, key=lambda delay: -delay.gain):
        if not any(set(delay.pins) & set(other.pins) for other in chosen):
            chosen.append(delay)
    return chosen


def tightest(delay: Delay, timeline: Timeline, depths: Mapping[Pin, int]) -> Pin:
    """The input that waits least. It gets no FIFO, so that it holds the beats back before the fork."""
    return min(delay.pins, key=lambda pin: Fraction(depths[pin], timeline.beats(timeline.into[pin])))


def _forks(timeline: Timeline, pin: Pin, queues: Container[Pin]) -> Iterator[tuple[str, bool]]:
    """Every fork upstream up to a join or another FIFO, and whether any module is passed on the way to it."""
    passed = False
    while (source := timeline.into[pin]).instance != TOP:
        part = timeline.parts[source.instance]
        outs = [port for port in part.instance.ports if port.direction == "out"]
        if len(part.inputs) != 1 or len(outs) != 1:
            return
        if part.instance.branches:
            yield source.instance, passed
        else:
            passed = True
        pin = next(p for p, s in _data_inputs(timeline, part.instance) if s == part.inputs[0])
        if pin in queues:
            return


def _data_inputs(timeline: Timeline, instance: Instance) -> Iterator[tuple[Pin, Pin]]:
    for port in instance.ports:
        if port.direction == "in":
            yield Pin(instance.name, port.name), timeline.into[Pin(instance.name, port.name)]


def _gain(queues: Mapping[Pin, _Waiting], stream: _Waiting) -> int:
    """Block RAMs saved if the stream waits for as long as the input that waits least, and the others for the rest."""
    least = min(queue.share for queue in queues.values())
    rest = sum(queue.waiting(queue.share - least).blocks for queue in queues.values())
    return sum(queue.blocks for queue in queues.values()) - stream.waiting(least).blocks - rest


def _price(
    timeline: Timeline, readers: Mapping[str, Sequence[Pin]], fork: str, pins: Sequence[Pin], catalogue: Catalogue
) -> int | None:
    """What copies of modules count, in block RAMs; None if it cannot be done, or one of them multiplies.

    Args:
        timeline: The design.
        readers: Of every instance: the inputs that read it.
        fork: Where the stream is divided.
        pins: Data inputs that are to read the stream that waits, behind modules of one data input each.
        catalogue: Where the modules are described.
    """
    passed = set()
    for pin in pins:
        source = timeline.into[pin]
        while source.instance != fork and source.instance not in passed:
            passed.add(source.instance)
            source = timeline.parts[source.instance].inputs[0]
    kept: set[str] = set()
    """Those that something else reads as well, so that they are copied instead of moved."""
    for name in [fork, *(name for name in timeline.parts if name in passed)][::-1]:
        if any(pin not in pins and (pin.instance not in passed or pin.instance in kept) for pin in readers[name]):
            kept.add(name)
    if fork not in kept:
        return None
    price = 0
    for name in kept - {fork}:
        instance = timeline.parts[name].instance
        op = catalogue.get(instance.op)
        if op is None or op.hardware is None or not op.mase_type:
            continue
        if op.hardware.multipliers(op.hardware.record(instance.parameters)):
            return None
        price += COPY * max(port.lanes for port in instance.ports)
    return price
