"""How far the slots of tokens run ahead of the tokens, of sequences in turn.

An instance takes the slot of a token from a FIFO of its own. Slots enter with the tokens, so the FIFO has to hold those
of all tokens that may be on their way: with fewer places tokens would wait at the entry for one that is far inside. The
FIFO takes a cycle, and a memory of positions behind it another one. Where a token would be there before its slot, it
waits at the entry of the design, so that the slots are ahead of the tokens everywhere.
"""

from __future__ import annotations

import dataclasses
from math import ceil

import msgspec
import numpy as np

from mase_hw.catalogue import Catalogue
from mase_hw.emit.delays import reconvergent
from mase_hw.emit.depths import unlimited
from mase_hw.emit.fifos import put_fifos
from mase_hw.emit.netlist import TOP, Netlist, Pin
from mase_hw.emit.schedule import Timeline
from mase_hw.steps import Steps

LEAST = 32
"""Places of a FIFO of slots at least: one of fewer is no smaller."""
ENTRY = 2
"""Places of a FIFO in which a token waits for its slot: as many as it takes to pass a beat in every cycle."""


def hold_slots(netlist: Netlist, catalogue: Catalogue) -> None:
    """Make the FIFOs of slots as deep as they have to be.

    Args:
        netlist: The design, with all other FIFOs.
        catalogue: Where the latency facets of its parts are.
    """
    if netlist.slot is None:
        return
    inside = tokens_inside(Timeline(netlist, catalogue), netlist.slot.beats)
    readers = {net.source.instance: net.sink.instance for net in netlist.nets}
    for at, fifo in enumerate(netlist.instances):
        if fifo.name not in netlist.aside or fifo.module != "stream_fifo":
            continue
        reader = readers[fifo.name]
        while reader not in inside:  # a memory of positions
            reader = readers[reader]
        depth = max(LEAST, inside[reader])
        netlist.instances[at] = dataclasses.replace(
            fifo, parameters={**fifo.parameters, "DEPTH": depth}, unread={"count": depth.bit_length()}
        )
        netlist.fifos[:] = [
            msgspec.structs.replace(each, depth=depth) if each.instance == fifo.name else each for each in netlist.fifos
        ]


def wait_for_slots(netlist: Netlist, catalogue: Catalogue) -> None:
    """Put FIFOs behind the inputs of the design, a cycle each, until no instance has a token before its slot.

    Args:
        netlist: The design without FIFOs.
        catalogue: Where the latency facets of its parts are.
    """
    if netlist.slot is None:
        return
    timeline = Timeline(netlist, catalogue)
    network, edges = timeline.network(buffers={pin: unlimited() for pin in reconvergent(timeline)})
    network.advance()
    readers = {net.source.instance: net.sink.instance for net in netlist.nets}
    early = 0
    for fifo in netlist.aside:
        if netlist.instance(fifo).module != "stream_fifo":
            continue  # it divides the slots, and takes no cycle
        reader, takes = readers[fifo], 1
        while reader in netlist.memories:
            reader, takes = readers[reader], takes + 1
        part = timeline.parts[reader]
        if takes == 1 and (part.facets is None or part.facets.at_positions is None):
            continue  # it holds the token until its slot comes
        early = max(early, *(takes - network.edges[edges[pin]].when_offered(0) for pin in part.inputs))
    for _ in range(early):
        entries = [net.sink for net in netlist.nets if net.source in {Pin(TOP, s.name) for s in netlist.inputs}]
        put_fifos(netlist, Timeline(netlist, catalogue), dict.fromkeys(entries, ENTRY))


def tokens_inside(timeline: Timeline, context: int) -> dict[str, int]:
    """Of every part, how many tokens at most have entered the design and have not left the part.

    Along one way from an input, what has entered is in one of its parts: in places for beats that came, in results that
    wait, or between the two. Any way gives a bound; the least of them counts. Besides there is the token of which some
    beats have entered, and the one of which some have left.

    Args:
        timeline: The design.
        context: Tokens of a frame.
    """
    held: dict[Pin, float] = {Pin(TOP, stream.name): 0.0 for stream in timeline.netlist.inputs}
    found: dict[str, int] = {}
    for name, part in timeline.parts.items():
        came = [held[pin] for pin in part.inputs]
        if part.stages:
            first, *others = part.stages
            frames = part.beats // first.beats_in[0]
            each = (before + _held(first, at, frames, context) for at, before in enumerate(came))
            inside = min(each) + sum(_held(stage, 0, frames, context) for stage in others)
        else:
            inside = came[0] + context / part.beats  # a fork, of which one branch may be a beat ahead
        found[name] = ceil(inside) + 2
        for port in part.instance.ports:
            if port.direction == "out":
                branches = range(part.instance.branches) if part.instance.branches else (None,)
                held |= {Pin(name, port.name, branch): inside for branch in branches}
    return found


def _held(stage: Steps, at: int, frames: int, context: int) -> float:
    """Tokens inside a stage at most, between one of its inputs and its results.

    Args:
        stage: Its steps.
        at: The input.
        frames: Its frames per frame of the design.
        context: Tokens of that.
    """
    came, most = len(stage.free_steps[at]), 0.0
    for steps, queue in zip(stage.emit_steps, stage.queue, strict=True):
        # A step that waits for a result to be taken: the beats that those before it have freed are in no place.
        freed = np.searchsorted(stage.free_steps[at], steps, side="left")
        between = freed / came - np.arange(len(steps)) / len(steps)
        most = max(most, float(between.max()) + queue / len(steps))
    most += stage.room[at] / came
    return most * context / frames
