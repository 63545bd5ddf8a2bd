"""ResNet-18 at 64x64 with its large layers in external memory: words per frame, the interval they allow, and every bit.

    python -m benchmarks.external [--width 64] [--frames 3]

Layers of at least 65,536 weights are read from a memory of 8 bytes per cycle and a latency of 40 cycles; convolutions
among them take the whole frame for one tile of their output channels after the other. Exit code 0 only if no bit and no
cycle differs, and if the interval is within 1 % of the larger of the words and the slowest stage.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

import mase_hw
from benchmarks.large_networks import resnet
from mase_hw.emit.estimate import estimate

LARGE, PIXELS, LANES = 65_536, 64, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=64, help="channels of the first stage")
    parser.add_argument("--frames", type=int, default=3)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = resnet((2, 2, 2, 2), bottleneck=False, width=arguments.width)
    with torch.no_grad():  # norms have the statistics of pictures
        model.train()(torch.randn(8, 3, PIXELS, PIXELS))
    layers = {n: m for n, m in model.eval().named_modules() if isinstance(m, nn.Conv2d | nn.Linear)}
    large = LARGE * arguments.width**2 // 64**2
    outside = {name for name, layer in layers.items() if layer.weight.numel() >= large}
    hardware = {
        "max_parallelism": LANES,
        "parallelism": {n: {"data_in_0": 8, "data_out_0": 1} for n, m in layers.items() if isinstance(m, nn.Conv2d)}
        | {next(iter(layers)): {"data_in_0": 3, "data_out_0": LANES}},
        "parameters_at": {f"{name}.weight": "external" for name in sorted(outside)},
        "order": {n: "weights_first" for n in sorted(outside) if isinstance(layers[n], nn.Conv2d)},
        "memory": {f"{name}.bias": "lut" for name in layers},
        "external_burst": 8,
        "family": "xc7",
        "rate_fifos": False,
    }
    config = {"hardware": hardware, "vectors": {"frames": arguments.frames, "faults": 1}}
    pictures = torch.randn(arguments.frames, 3, PIXELS, PIXELS)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        design = mase_hw.compile(model, pictures[:1], config, out=Path(folder) / "bundle", calibration=[pictures[:1]])
        entry = design.manifest["external"]
        slowest = max(i["timing"]["interval"] for i in design.manifest["instances"] if "timing" in i)
        use = estimate(design.record, "xc7")
        print(f"compiled in {time.process_time() - begin:.0f} s; {entry['words_per_frame']:,} words per frame")
        print(f"interval {design.timing['interval']:,}, slowest stage {slowest:,}; {use['bram']:.0f} RAMB18")
        found = design.simulate(pictures, engine="batch", waves=False, check=False)
    print(found)
    bound = max(entry["words_per_frame"], slowest)
    sys.exit(not found.passed or found.interval != design.timing["interval"] or found.interval > 1.01 * bound)


if __name__ == "__main__":
    main()
