"""How much of a frame must have come before its first result may leave, for the monitors of a simulation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mase_hw.catalogue import Catalogue
from mase_hw.emit.netlist import TOP, Netlist, Pin
from mase_hw.emit.schedule import Part, Timeline
from mase_hw.steps import Steps


def needed(netlist: Netlist, catalogue: Catalogue) -> Iterator[tuple[str, str, int]]:
    """Every output and input that it depends on, and the beats of the frame without which the frame does not begin.

    They follow from the steps of the modules alone, whatever waits for what: the step that completes a beat comes after
    those before it, and needs what they need. A number of 0 or below counts back from the begin of the frame: an output
    that begins with another input, as a concatenation does, needs only frames before.

    Args:
        netlist: The design.
        catalogue: Where the latency facets of its parts are.
    """
    timeline = Timeline(netlist, catalogue)
    for output in netlist.outputs:
        wanted = {timeline.into[Pin(TOP, output.name)]: 1}
        for part in reversed(timeline.parts.values()):
            for pin, beats in _of_part(part, wanted).items():
                wanted[pin] = max(wanted.get(pin, beats), beats)
        for stream in netlist.inputs:
            pin = Pin(TOP, stream.name)
            if pin in wanted:
                yield output.name, stream.name, wanted[pin]


def _of_part(part: Part, wanted: dict[Pin, int]) -> dict[Pin, int]:
    """Beats of what a part reads, counted from the begin of the frame, for those that are wanted of it."""
    name = part.instance.name
    ports = [port.name for port in part.instance.ports if port.direction == "out"]
    if part.instance.branches:
        asked = [beats for pin, beats in wanted.items() if pin.instance == name]
        return {part.inputs[0]: max(asked)} if asked else {}
    outputs = [wanted.get(Pin(name, port)) for port in ports]
    if all(beats is None for beats in outputs):
        return {}
    if not part.known:
        # Nothing is known of what it needs, but that a frame of its only input begins before the frame of its result,
        # and that it does not run a whole frame ahead of one of several.
        (steps,) = part.stages
        frame = (max(beats for beats in outputs if beats is not None) - 1) // steps.beats_out[0]
        ahead = [0 if len(part.inputs) == 1 else beats for beats in steps.beats_in]
        frames = zip(part.inputs, steps.beats_in, ahead, strict=True)
        return {pin: frame * size + 1 - less for pin, size, less in frames}
    counts = outputs
    for steps in reversed(part.stages):
        counts = [_of_stage(steps, counts, index) for index in range(len(steps.need_steps))]
    found: dict[Pin, int] = {}
    for pin, beats in zip(part.inputs, counts, strict=True):
        if beats is not None:
            found[pin] = max(found.get(pin, beats), beats)
    return found


def _of_stage(steps: Steps, outputs: list[int | None], index: int) -> int | None:
    """Beats of an input that a stage needs for so many of its outputs; None if it needs none at all."""
    needs = steps.need_steps[index]
    if not len(needs):
        return None
    found = []
    for beats, emits in zip(outputs, steps.emit_steps, strict=True):
        if beats is None:
            continue
        frame, beat = divmod(beats - 1, len(emits))
        begun = int(np.searchsorted(needs, emits[beat], side="right"))
        # Where none of this frame is needed yet, those of the frame before are.
        whole = frame * steps.beats_in[index]
        found.append(whole + begun if begun else whole - steps.beats_in[index] + len(needs))
    return max(found, default=None)
