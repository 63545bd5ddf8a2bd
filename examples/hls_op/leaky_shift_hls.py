"""A custom op in C++ for an HLS tool: the leaky ReLU of ``examples/custom_op``, with its C++ in ``src``.

Run this file: the C++ is compiled natively and compared with the golden bit for bit, and the network is simulated with
the module that stands for what Vitis HLS would make of it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import mase_hw
from mase_hw.synth.hls import check_hls

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "custom_op"))
from leaky_shift import LeakyShift, golden, network  # noqa: E402

CUSTOM_OPS = {
    "modules": {
        LeakyShift: {
            "args": {"x": "data_in", "shift": "config"},  # shift becomes Node::SHIFT
            "toolchain": "HLS",
            "root": HERE / "src",
            "module": "leaky_shift_hls",  # the function, in leaky_shift_hls.h
            "stand_in": "leaky_shift_stand_in.sv",
            "golden": golden,
            "like": "relu",  # one stream in, one out, one register between them
        }
    }
}


def main() -> int:
    """Compile, compare the C++, simulate; 0 if every bit is equal."""
    inputs = torch.randn(32, 12)
    design = mase_hw.compile(
        network(), inputs[:1], out="build/hls_op", calibration=[inputs], custom_ops=CUSTOM_OPS, progress=print
    )
    checked = check_hls(design)
    print(checked.text())
    simulation = design.simulate(inputs, stalls=0.3, progress=print)
    print(simulation.report())
    return 0 if checked.passed and simulation.passed else 1


if __name__ == "__main__":
    sys.exit(main())
