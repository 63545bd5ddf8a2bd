"""Interval of whole networks beside that of their slowest stage: predicted, and simulated with every bit compared.

    python -m benchmarks.rates                                     # predicted for 224 x 224, simulated at 32 x 32
    python -m benchmarks.rates resnet50 --picture 32 --lanes 16 --simulate 3

A line says which stage is the slowest, its cycles per frame, those of the whole network, and how many FIFOs and bits of
them stand on plain streams for that. Simulated are as many frames as are asked for, with random data, in the batch
engine. Seconds are of the processor, of this process and of those that it starts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

import torch
from torch import Tensor, nn

import mase_hw
from benchmarks.large_networks import NETWORKS, VGGS, made
from mase_hw.emit.schedule import Timeline
from mase_hw.model_spec import load_model

ROOT = Path(__file__).parents[1]
RUNS = (
    *((name, 224, lanes, 0) for name in ("resnet18", "resnet50", "mobilenet_v2", "vgg16") for lanes in (8, 16)),
    *((name, 32, 16, 4) for name in ("resnet18", "mobilenet_v2", "vgg", "resnet50")),
    ("vgg", 32, 8, 4),
    *((name, 0, 4, 8) for name in ("vit_block", "llama_block")),
)
"""Network, rows and columns of a picture, lanes at most, frames that are simulated."""


def block(name: str) -> tuple[nn.Module, Tensor]:
    """A block of a transformer, as the regressions have it."""
    spec = load_model(f"{ROOT / 'regress' / 'attention.py'}:{name}")
    return spec.model, spec.example_inputs


BLOCKS = ("vit_block", "bert_block", "causal_block", "llama_block")


def seconds() -> float:
    """Of the processor until now, here and in processes that have ended."""
    return sum(u.ru_utime + u.ru_stime for u in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


def line(name: str, picture: int, lanes: int, frames: int) -> tuple[str, bool]:
    """What is found of one network, and whether it is as fast as its slowest stage, with every bit right."""
    model, x = block(name) if name in BLOCKS else made(name, picture)
    settings: dict[str, Any] = {"hardware": {"max_parallelism": lanes}, "vectors": {"frames": 1, "faults": 8}}
    with tempfile.TemporaryDirectory() as folder:
        start = seconds()
        design = mase_hw.compile(model.eval(), x, settings, out=Path(folder) / "design")
        compiled = seconds()
        assert design.graph is not None
        timeline = Timeline(design.graph.meta["netlist"], design.graph.catalogue)
        stages = timeline.intervals()
        slowest = max(stages, key=lambda stage: stages[stage])
        timing, added = design.timing, [fifo for fifo in design.manifest["fifos"] if fifo["rate"]]
        bits = sum(fifo["depth"] * fifo["bits"] for fifo in added)
        good = timing["exact"] and timing["interval"] == stages[slowest]
        shape = "" if name in BLOCKS else f", {picture}"
        found = (
            f"{name}{shape}, {lanes} lanes: slowest stage {slowest} {stages[slowest]:,}, interval "
            f"{timing['interval']:,} ({'exact' if timing['exact'] else 'not exact'}), fill {timing['fill']:,}, "
            f"{len(added)} FIFOs of {bits:,} bits for it, compiled in {compiled - start:.0f} s"
        )
        if frames:
            torch.manual_seed(1)
            data = torch.rand(frames, *x.shape[1:]) * 2 - 1
            result = design.simulate(data, engine="batch")
            good = good and result.passed and result.interval == timing["interval"]
            verdict = result.result
            different = len(torch.unique(result.output)) if verdict.outputs else 0
            found += (
                f"; simulated: interval {result.interval:,}, fill {result.fill:,}, {verdict.mismatches} mismatches in "
                f"{verdict.beats_compared:,} beats ({different:,} different numbers), {seconds() - compiled:.0f} s"
                if result.interval is not None
                else f"; simulated: {verdict.failure}"
            )
    return found, bool(good)


def main() -> int:
    """Print one line a network; 1 if one is slower than its slowest stage, or has a wrong bit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", nargs="?", choices=sorted({*NETWORKS, *VGGS, *BLOCKS}), help="one network only")
    parser.add_argument("--picture", type=int, default=224, help="rows and columns of a picture")
    parser.add_argument("--lanes", type=int, default=16, help="lanes at most")
    parser.add_argument("--simulate", type=int, default=0, metavar="FRAMES", help="frames to simulate (none)")
    args = parser.parse_args()
    runs = RUNS if args.network is None else ((args.network, args.picture, args.lanes, args.simulate),)
    slow = 0
    for run in runs:
        found, good = line(*run)
        slow += not good
        print(found + ("" if good else "  NOT AS FAST AS ITS SLOWEST STAGE, OR WRONG"), flush=True)
    return int(slow > 0)


if __name__ == "__main__":
    sys.exit(main())
