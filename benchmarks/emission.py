"""What the emitted files cost: linting the netlist of a chain of layers, and writing memories.

    python -m benchmarks.emission [--layers 60]

Seconds are of the processor, those of Verilator included. A weight is written as often as the network has it; the
figure is that of a layer of ResNet-18 with 512 x 512 kernels of 3 x 3, 8 bits, 16 lanes.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import mase_hw
from benchmarks.large_networks import conv_chain
from mase_hw.emit.passes import memory_text
from mase_hw.formats import FixedFormat
from mase_hw.host.toolchain import require, verilator_env
from mase_hw.streams import Stream

WEIGHTS = (512, 512 * 3 * 3)


def lint(layers: int) -> tuple[float, float, float]:
    """Seconds of ``verilator --lint-only -Wall``, KiB of the top level, and seconds of ``compile``."""
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        model, x = conv_chain(layers).eval(), torch.rand(1, 3, 32, 32)
        start = time.process_time()
        design = mase_hw.compile(model, x, {"hardware": {"max_parallelism": 16}}, out=Path(folder) / "design")
        compiled = time.process_time() - start
        top = design.manifest["top"]
        size = (design.path / "rtl" / f"{top}.sv").stat().st_size / 1024
        verilator = str(require("verilator")["verilator"].path)
        command = [verilator, "--lint-only", "-Wall", "--top-module", top, "-f", "rtl/files.f"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=design.path, env=verilator_env(), check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, size, compiled


def memories(rounds: int = 3) -> float:
    """Microseconds of the processor for a weight, the best of some rounds."""
    stream = Stream("weight", "in", WEIGHTS, FixedFormat(8, 6), (16,), "weight_valid", "weight_ready")
    weights = np.random.default_rng(0).integers(-128, 128, (1, *WEIGHTS))
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        memory_text(stream, weights)
        seconds.append(time.process_time() - start)
    return 1e6 * min(seconds) / weights.size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=60, help="convolutions of the chain, each with a relu")
    args = parser.parse_args()
    seconds, size, compiled = lint(args.layers)
    print(f"{args.layers} layers: lint {seconds:.1f} s, top level {size:.0f} KiB, compiled in {compiled:.1f} s")
    print(f"memories: {memories():.3f} us a weight")


if __name__ == "__main__":
    main()
