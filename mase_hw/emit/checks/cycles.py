"""What a manifest says of cycles that cannot all be true, so that nothing waits for what no design takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mase_hw.hardware.manifest import InstanceTiming, Manifest
from mase_hw.ops.products._cache import READER

FIRST_IN, FIRST_OUT = ("data_in_0", "in_data"), ("data_out_0", "out_data", "out_data[0]")
"""The ports of an instance between which its own delay is, one of each."""
_SPARE, _MORE = 4, 4096


def other_cycles(manifest: Manifest) -> Iterator[str]:
    """Everything that the timing of a manifest contradicts in that of its instances.

    A frame that is alone in the design passes one instance after the other at the slowest, and so does the next one: no
    design takes many times as long as all of its instances together.

    Args:
        manifest: As read.
    """
    timing, instances = manifest.timing, {e.name: e.timing for e in manifest.instances if e.timing is not None}
    each = {name: own.interval for name, own in instances.items()}
    each |= {entry.name: entry.beats for entry in manifest.ports}
    each |= {} if manifest.caches is None else {READER: sum(manifest.caches.read)}
    slowest, steady = max(each.values()), timing.steady
    if each.get(timing.bottleneck) != slowest:
        yield f"timing.bottleneck: {timing.bottleneck!r} does not take the {slowest} cycles of the slowest part"
    if timing.exact and timing.interval < slowest:
        yield f"timing.interval: {timing.interval}, but {timing.bottleneck} takes {slowest} cycles"
    if steady is not None and not timing.exact:
        yield f"timing.steady: {steady!r} is no frame after which an exact interval holds"
    most = sum(each.values()) + sum(max(0, own.first_out - own.first_in) for own in instances.values())
    for key in ("last", "interval"):
        if (said := getattr(timing, key)) > _SPARE * most + _MORE:
            yield f"timing.{key}: {said}, but all instances one after the other take about {most} cycles"
    yield from _along(manifest, instances)


def _along(manifest: Manifest, instances: Mapping[str, InstanceTiming]) -> Iterator[str]:
    """The first result of an instance is the first input of what reads it, or the first result of the design."""
    fill = manifest.timing.fill
    for edge in manifest.edges:
        (giver, given), (taker, taken) = (end.rpartition(".")[::2] for end in edge.split(" to "))
        if giver not in instances or given not in FIRST_OUT:
            continue
        first = instances[giver].first_out
        if taker in instances and taken in FIRST_IN and instances[taker].first_in != first:
            said = instances[taker].first_in
            yield f"instances.{taker}.timing.first_in: {said}, but {giver} gives in cycle {first}"
        if taken == "data_out_0" and not taker and fill != first:
            yield f"timing.fill: {fill}, but {giver} gives the first result in cycle {first}"
