"""Relative energy of a frame: the digits CNN on Xilinx 7 with other widths and lanes, over real images.

    python -m benchmarks.energy            # minutes for each design

Each design is compiled with the trained network, its netlist simulated, and every change counted; see docs/power.md.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import digits_cnn
import digits_mlp

import mase_hw
from mase_hw.synth.power import measure

FRAMES = 16
ONE_LANE = {name: {"data_in_0": 1, "data_out_0": 1} for name in ("conv1", "conv2", "fc")}


def configuration(bits: int, parallelism: dict[str, dict[str, int]] | None, **hardware: Any) -> dict[str, Any]:
    """That of the example with so many bits and other lanes."""
    config = tomllib.loads(digits_cnn.CONFIG.read_text(encoding="utf-8"))
    for key in ("data_in_width", "weight_width", "data_out_width"):
        config["quantize"]["default"]["config"][key] = bits
    config["hardware"] |= {"family": "xc7", **hardware} | ({"parallelism": parallelism} if parallelism else {})
    return config


DESIGNS = {
    "8 bits": configuration(8, None),
    "4 bits": configuration(4, None),
    "8 bits, one lane": configuration(8, ONE_LANE),
}


def main() -> int:
    """Compile, measure and print each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/energy"), metavar="FOLDER")
    parser.add_argument("--only", choices=DESIGNS, metavar="DESIGN", help=", ".join(DESIGNS))
    arguments = parser.parse_args()
    digits = digits_mlp.load()
    model = digits_mlp.train(digits, digits_cnn.DigitsCNN, digits_cnn.EPOCHS)
    images, calibration = digits.test_images, list(digits.train_images.split(256))
    for name, config in DESIGNS.items():
        if arguments.only not in (None, name):
            continue
        out = arguments.out / name.replace(" ", "_").replace(",", "")
        design = mase_hw.compile(model, images[:1], config, out=out, calibration=calibration, vectors=images[:FRAMES])
        print(f"{name}: {design.timing['interval']} cycles\n{measure(design, 'xc7').text()}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
