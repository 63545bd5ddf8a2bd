"""Several positions a beat: intervals of CNNs beside their bound, and multipliers, with 1, 2 and 4 positions.

    python -m benchmarks.positions                                    # predicted: ResNet-8 and MobileNetV1-0.25
    python -m benchmarks.positions resnet8 --positions 1 2 4 --simulate 2
    python -m benchmarks.positions radio --positions 1 2 4 8 --simulate 4

Asked of the solver is the shortest interval that one position a beat allows, divided by the positions. A line says the
interval beside that of the slowest stage by itself (the bound), the multiplier blocks beside those of the first line,
and what repacks between numbers of positions. Simulated are random frames, in the batch engine, every bit compared.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.emit.schedule import Timeline

EXAMPLES = Path(__file__).parents[1] / "examples" / "mlperf_tiny.py"
SHORTEST = {"resnet8": 32 * 32, "mobilenet": 96 * 96, "radio": 64}
"""Positions of the largest image, which with one position a beat are the least cycles per frame."""
ALLOWED = 1.03
"""Interval over bound."""


def radio() -> tuple[nn.Module, Tensor]:
    """64 complex samples through two convolutions of 8 channels, and a linear layer."""
    torch.manual_seed(0)
    layers = [nn.Conv1d(2, 8, 5, padding=2), nn.ReLU(), nn.Conv1d(8, 8, 5, padding=2), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 4)).eval(), torch.rand(1, 2, 64)


def made(name: str) -> tuple[nn.Module, Tensor]:
    """A network, and an example of its input."""
    if name == "radio":
        return radio()
    spec = importlib.util.spec_from_file_location("mlperf_tiny", EXAMPLES)
    assert spec is not None and spec.loader is not None  # a file of this repository
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: tuple[nn.Module, Tensor] = getattr(module, name)()
    return found


def measured(name: str, positions: int, frames: int) -> tuple[dict[str, Any], bool]:
    """What is found of a network, and whether it is as fast as is allowed, with every bit right."""
    model, x = made(name)
    asked = SHORTEST[name] // positions
    settings = {
        "target": {"interval": asked},
        "hardware": {"positions": positions},
        "vectors": {"frames": 1, "faults": 4},
    }
    with tempfile.TemporaryDirectory() as folder:
        design = mase_hw.compile(model, x, settings, out=Path(folder) / "design")
        assert design.graph is not None
        stages = Timeline(design.graph.meta["netlist"], design.graph.catalogue).intervals()
        bound = max(*stages.values(), *(stream.beats for stream in design.streams.values()))
        instances, timing = design.manifest["instances"], design.timing
        found = {
            "interval": timing["interval"],
            "bound": bound,
            "fill": timing["fill"],
            "multipliers": sum(i.get("multipliers", 0) for i in instances),
            "turns": sum(i["module"] == "beat_turn" for i in instances),
        }
        good = timing["exact"] and timing["interval"] <= ALLOWED * min(bound, asked)
        if frames:
            torch.manual_seed(1)
            result = design.simulate(torch.rand(frames, *x.shape[1:]), engine="batch")
            found |= {"simulated": result.interval, "mismatches": result.result.mismatches}
            good = good and result.passed and result.interval == timing["interval"]
    return found, good


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for every network and number of positions; 1 if one of them misses its bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=["resnet8", "mobilenet"], metavar="NETWORK")
    parser.add_argument("--positions", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--simulate", type=int, default=0, metavar="FRAMES")
    given = parser.parse_args(arguments)
    well = True
    for name in given.networks:
        first: dict[str, Any] = {}
        for positions in given.positions:
            found, good = measured(name, positions, given.simulate)
            first, well = first or found, well and good
            share = found["multipliers"] / first["multipliers"]
            text = ", ".join(f"{key} {value:,}" for key, value in found.items())
            print(f"{name}, {positions} a beat: {text}, {share:.2f} times the multipliers{'' if good else ' (missed)'}")
            sys.stdout.flush()
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
