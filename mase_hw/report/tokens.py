"""What a token of a language model costs at every position: cycles beside its products and bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mase_hw.catalogue import Catalogue
from mase_hw.emit.causality import FAR
from mase_hw.emit.netlist import TOP, Netlist, Pin
from mase_hw.emit.schedule import Timeline
from mase_hw.hardware.manifest import Manifest
from mase_hw.ops.products._cache import CACHE, Cache
from mase_hw.report.stages import rebuilt
from mase_hw.steps import Counts

MOST_ROWS = 9
"""Positions that a page shows."""


@dataclass(frozen=True)
class TokenCosts:
    """Of every position of a sequence.

    Args:
        cycles: What the token takes if it enters an idle design.
        products: Multiplications of it.
        stages: The sum of the latencies of the stages on its longest path: what the token would take if it entered
            each of them after it has left the one before.
        slowest: Its products by the multipliers, of the stage that needs most, or the words that the token reads from
            external memory: no schedule gives tokens faster.
        read: Those words.
        state_bytes: What is read of keys, values and the states of linear recurrences.
        weight_bytes: What is read of weights and biases, at any position.
    """

    cycles: Counts
    products: Counts
    stages: Counts
    slowest: Counts
    read: Counts
    state_bytes: Counts
    weight_bytes: int

    def rows(self) -> list[dict[str, int]]:
        """Some positions, the first and the last among them, as a table shows them."""
        places = np.unique(np.linspace(0, len(self.cycles) - 1, MOST_ROWS).astype(int))
        names = ("cycles", "products", "stages", "slowest", "state_bytes", *(("read",) if self.read.any() else ()))
        return [{"position": int(at), **{name: int(getattr(self, name)[at]) for name in names}} for at in places]


def token_costs(manifest: Manifest, catalogue: Catalogue) -> TokenCosts | None:
    """Costs of the tokens of a bundle.

    Args:
        manifest: Of the bundle.
        catalogue: Where the ops of its modules are.

    Returns:
        None of a design that does not decode, or has a module that is not in the catalogue.
    """
    decode = manifest.decode
    netlist = None if decode is None else rebuilt(manifest, catalogue)
    if decode is None or netlist is None:
        return None
    context = decode.context
    products, slowest, state_bits = (np.zeros(context, np.int64) for _ in range(3))
    weight_bits = 0
    for instance in netlist.instances:
        op = catalogue.get(instance.op)
        facets = None if op is None else op.hardware
        if op is None or facets is None:
            continue
        params = facets.record(instance.parameters)
        for port in instance.ports:
            if port.name in facets.static:
                weight_bits += math.prod(port.tensor_shape) * port.repeat * port.fmt.width
        work, multipliers = facets.work(params), facets.multipliers(params)
        if not work or not multipliers:
            continue
        # A token meets the rows up to its own; everything else is the same for all tokens.
        rows = params.schedule.limits if getattr(params, "causal", False) else np.ones(context, np.int64)
        share = work * rows // rows.sum()
        least = -(-work * rows // (rows.sum() * multipliers))
        products += share
        slowest = np.maximum(slowest, least)
        if getattr(params, "causal", False):
            state_bits += share * params.data_in_1.fmt.width
        elif op.name == "linear_recurrence":
            state_bits += share * params.state.width
    cycles, stages = np.array(decode.cycles, np.int64), _longest(netlist, catalogue, context)
    read = np.array([0] * context if manifest.caches is None else manifest.caches.read, np.int64)
    slowest = np.maximum(slowest, read)
    return TokenCosts(cycles, products, stages, slowest, read, -(-state_bits // 8), -(-weight_bits // (8 * context)))


def _longest(netlist: Netlist, catalogue: Catalogue, context: int) -> Counts:
    """Of every position the sum of the latencies of stages on the longest path from an input to a result.

    The latency of a stage is that of the stage by itself: from when the token comes, with a beat in every cycle, to its
    last result. Forks and FIFOs are no stages.
    """
    timeline = Timeline(netlist, catalogue)
    begins = FAR * np.arange(context)
    words = {i.name: Cache.of(i.parameters).words for i in netlist.instances if i.op == CACHE}

    def beats(pin: Pin) -> Counts:
        """Of every token."""
        return words.get(pin.instance, np.full(context, timeline.beats(pin) // context))

    until: dict[str, Counts] = {TOP: np.zeros(context, np.int64)}
    for name, part in timeline.parts.items():
        until[name] = np.max([until[pin.instance] for pin in part.inputs], axis=0)
        if part.stages and part.instance.op != "fifo":
            offers = timeline.apart(name, lambda pin: np.repeat(begins, beats(pin)))
            ends = [cycles[np.cumsum(beats(pin)) - 1] for pin, cycles in offers.items()]
            until[name] = until[name] + np.max(ends, axis=0) - begins + 1
    ends = [until[timeline.into[Pin(TOP, stream.name)].instance] for stream in netlist.outputs]
    found: Counts = np.max(ends, axis=0)
    return found
