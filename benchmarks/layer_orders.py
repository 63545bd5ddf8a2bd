"""Latency of chains of linear layers in one order, and in alternating orders: simulated cycles, multipliers, interval.

``outputs_first`` computes an output tile after the other, ``inputs_first`` uses an input tile after the other. Bits,
multipliers and interval are the same; the last result of a frame comes earlier where the orders alternate.

    python -m benchmarks.layer_orders
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

import mase_hw

Lanes = dict[str, dict[str, int]]


def chain(*sizes: int) -> nn.Sequential:
    """Linear layers of these sizes with ReLUs between them."""
    layers: list[nn.Module] = []
    for wide, narrow in itertools.pairwise(sizes):
        layers += [nn.Linear(wide, narrow), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval()


def both(*lanes: int) -> Lanes:
    """Lanes of every layer, the same in and out."""
    return {f"_{2 * number}": {"data_in_0": n, "data_out_0": n} for number, n in enumerate(lanes)}


AUTOENCODER = (640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640)
NETWORKS = {
    "784-784-784-10": ((784, 784, 784, 10), both(8, 8, 8)),
    "autoencoder 640": (AUTOENCODER, both(8, 4, 4, 4, 1, 1, 4, 4, 4, 8)),
}


def measure(sizes: tuple[int, ...], lanes: Lanes, order: dict[str, str], out: Path) -> dict[str, Any]:
    """Simulate three frames."""
    torch.manual_seed(0)
    net, data = chain(*sizes), torch.randn(3, sizes[0])
    config = {"hardware": {"parallelism": lanes, "order": order}}
    design = mase_hw.compile(net, data[:1], config, out=out, calibration=[torch.randn(16, sizes[0])])
    alone, several = design.simulate(data[:1]), design.simulate(data)
    cycles = [beat for port in alone.result.accepted.values() for beat in port.tolist()]
    multipliers = sum(entry.get("multipliers") or 0 for entry in design.manifest["instances"])
    last = max(cycles) - min(cycles)
    return {"multipliers": multipliers, "first": several.fill, "last": last, "interval": several.interval}


def main() -> None:
    """Print both orders of every network."""
    for name, (sizes, lanes) in NETWORKS.items():
        alternating = {f"_{2 * number}": "inputs_first" for number in range(1, len(sizes) - 1, 2)}
        for label, order in (("outputs first", {}), ("alternating", alternating)):
            with tempfile.TemporaryDirectory() as folder:
                found = measure(sizes, lanes, order, Path(folder) / "design")
            print(f"{name:16} {label:14} " + ", ".join(f"{key} {value}" for key, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
