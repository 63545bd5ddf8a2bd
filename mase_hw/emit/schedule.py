"""The timing of a whole design, from the latency facets of its parts.

Every module maps the cycles in which beats are offered to it to the cycles in which its own beats are first valid
(:class:`mase_hw.catalogue.Latency`). Following one frame through an idle design with always-ready outputs gives the
fill latency; the slowest module, or port, gives the interval.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mase_hw.catalogue import Catalogue, Cycles
from mase_hw.emit.netlist import TOP, Instance, Netlist, Pin
from mase_hw.ops.structural import RepackParams, repack_latency
from mase_hw.streams import ceil_div


@dataclass(frozen=True)
class NodeTiming:
    """Timing of one instance within the design.

    Args:
        first_in: Cycle in which the first beat is offered to it.
        first_out: Cycle in which its first beat is valid.
        interval: Cycles a frame in steady state.
    """

    first_in: int
    first_out: int
    interval: int


@dataclass(frozen=True)
class Schedule:
    """Predicted timing of a design; cycle 0 accepts the first input beat.

    Args:
        fill: Cycles to the first beat of the first output.
        last: Cycles to the last beat of the first frame.
        interval: Cycles a frame in steady state.
        bottleneck: Instance or port that sets the interval.
        instances: Timing by instance name.
        exact: Whether ``fill`` and ``last`` are exact. With a fork they are lower bounds: a slow reader holds others
            back, which is not followed.
    """

    fill: int
    last: int
    interval: int
    bottleneck: str
    instances: dict[str, NodeTiming]
    exact: bool = True


def predict(netlist: Netlist, catalogue: Catalogue) -> Schedule:
    """Predict fill latency and interval of a design."""
    valid: dict[Pin, Cycles] = {Pin(TOP, s.name): np.arange(s.beats, dtype=np.int64) for s in netlist.inputs}
    intervals = {s.name: s.beats for s in (*netlist.inputs, *netlist.outputs)}
    timings: dict[str, NodeTiming] = {}
    into = {n.sink: n.source for n in netlist.nets}
    for instance in netlist.instances:
        if instance.op == "rom_source":
            continue
        offered = [
            valid[into[Pin(instance.name, p.name)]]
            for p in instance.ports
            if p.direction == "in" and into[Pin(instance.name, p.name)] in valid
        ]
        departures, interval = _run(instance, offered, catalogue)
        for port in instance.ports:
            if port.direction == "out":
                for branch in range(instance.branches) if instance.branches else (None,):
                    valid[Pin(instance.name, port.name, branch)] = departures
        timings[instance.name] = NodeTiming(int(offered[0][0]), int(departures[0]), interval)
        intervals[instance.name] = interval
    outputs = [valid[into[Pin(TOP, s.name)]] for s in netlist.outputs]
    bottleneck = max(intervals, key=lambda name: intervals[name])
    exact = not any(i.op == "fork" for i in netlist.instances)
    last = max(int(o[-1]) for o in outputs)
    return Schedule(int(outputs[0][0]), last, intervals[bottleneck], bottleneck, timings, exact)


def _run(instance: Instance, offered: list[Cycles], catalogue: Catalogue) -> tuple[Cycles, int]:
    beats = len(offered[0])
    if instance.op == "fork":
        return offered[0], beats
    if instance.op == "repack":
        params = RepackParams(**{k: int(v) for k, v in instance.parameters.items()})
        departures = repack_latency(params).departures(offered[0])
        rows = beats // ceil_div(params.IN_SIZE, params.IN_LANES)
        out_beats = rows * params.IN_SIZE // params.OUT_SIZE * ceil_div(params.OUT_SIZE, params.OUT_LANES)
        return departures, max(beats, out_beats)
    facets = catalogue[instance.op].hardware
    assert facets is not None  # only ops with hardware become instances
    latency = facets.latency(facets.params(**instance.parameters))
    return latency.departures(offered[0]), latency.interval
