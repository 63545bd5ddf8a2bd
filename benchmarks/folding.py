"""Processor seconds of the folding solver for networks of 60 layers: interval and latency, with and without OR-Tools.

    python -m benchmarks.folding
    python -m benchmarks.folding --network residual --minimise latency

The time is that of the choice, from the quantised graph to lanes and implementations; reading and quantising the model
before it, and the netlist with its FIFOs behind it, are what every compilation needs and are given beside it.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from mase_hw.compiler.config import CompileConfig
from mase_hw.fit import cp_sat
from mase_hw.fit.choose import Chooser
from mase_hw.fit.target import goal
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.preflight.mapped import mapped_graph

LAYERS = 60
DEVICE = "xc7z020"


class Residual(nn.Module):
    """Two convolutions beside their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(torch.relu(self.first(x))) + x)


def network(name: str) -> tuple[nn.Module, Tensor]:
    """60 convolutions of 8, 16 and 32 channels on 32 x 32 pixels: a chain, or residual blocks."""
    torch.manual_seed(0)
    widths = [8, 16, 32]
    layers: list[nn.Module] = []
    inside = 3
    for outside in widths:
        layers += [nn.Conv2d(inside, outside, 3, 1 if inside == 3 else 2, 1), nn.ReLU()]
        count = LAYERS // len(widths) - 1
        if name == "residual":
            layers += [Residual(outside) for _ in range(count // 2)]
            count %= 2
        for _ in range(count):
            layers += [nn.Conv2d(outside, outside, 3, padding=1), nn.ReLU()]
        inside = outside
    return nn.Sequential(*layers).eval(), torch.rand(1, 3, 32, 32)


def measured(name: str, minimise: str, extra: bool) -> dict[str, Any]:
    """Seconds of one choice."""
    wanted = goal({"device": DEVICE, "minimise": minimise}, "")
    start = time.process_time()
    graph = mapped_graph(*network(name), CompileConfig(hardware=HardwareArgs(family="xc7")), None, lambda _: None)
    mapped = time.process_time()
    building = 0.0

    def built(self: Chooser, *given: Any) -> Any:
        nonlocal building
        began = time.process_time()
        choice = own(self, *given)
        building += time.process_time() - began
        return choice

    own = Chooser._built
    with mock.patch.object(Chooser, "_built", built), mock.patch.object(cp_sat, "installed", lambda: extra):
        choice = Chooser(graph, HardwareArgs(), wanted).choose()
    done = time.process_time()
    timing = choice.manifest["timing"]
    return {
        "choice": done - mapped - building,
        "model": mapped - start,
        "netlist": building,
        "interval": timing["interval"],
        "last": timing["last"],
        "proven": choice.proven,
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", choices=("chain", "residual"), nargs="+", default=("chain", "residual"))
    parser.add_argument("--minimise", choices=("interval", "latency"), nargs="+", default=("interval", "latency"))
    parser.add_argument("--without", action="store_true", help="only without OR-Tools")
    options = parser.parse_args()
    print("network   minimise  OR-Tools  choice  model  netlist  interval  latency  proven")
    extras = [extra for extra in (True, False) if not extra or (cp_sat.installed() and not options.without)]
    for name, minimise, extra in product(options.network, options.minimise, extras):
        found = measured(name, minimise, extra)
        print(
            f"{name:9} {minimise:9} {'yes' if extra else 'no':8} {found['choice']:6.1f}s {found['model']:5.1f}s "
            f"{found['netlist']:7.1f}s {found['interval']:9} {found['last'] + 1:8}  {found['proven']}",
            flush=True,
        )


if __name__ == "__main__":
    main()
