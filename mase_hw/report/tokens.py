"""What a token of a language model costs at every position: cycles beside its products and bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mase_hw.catalogue import Catalogue
from mase_hw.hardware.manifest import Manifest
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
        stages: Its products by the multipliers, stage after stage, as if no stage worked beside another one.
        slowest: The same of the stage that needs most, or the words that the token reads from external memory: no
            schedule gives a token in fewer cycles.
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
    products, stages, slowest, state_bits = (np.zeros(context, np.int64) for _ in range(4))
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
        stages += least
        slowest = np.maximum(slowest, least)
        if getattr(params, "causal", False):
            state_bits += share * params.data_in_1.fmt.width
        elif op.name == "linear_recurrence":
            state_bits += share * params.state.width
    cycles = np.array(decode.cycles, np.int64)
    read = np.array([0] * context if manifest.caches is None else manifest.caches.read, np.int64)
    slowest = np.maximum(slowest, read)
    return TokenCosts(cycles, products, stages, slowest, read, -(-state_bits // 8), -(-weight_bits // (8 * context)))
