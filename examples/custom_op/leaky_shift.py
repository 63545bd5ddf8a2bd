"""A custom op of your own: leaky ReLU whose slope is a power of two, with its module in ``rtl/leaky_shift.sv``.

Nothing of the package is edited. ``CUSTOM_OPS`` tells the compiler what ``LeakyShift`` is; run this file, and a small
network with it becomes hardware that is simulated bit for bit against PyTorch.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.catalogue import Arithmetic
from mase_hw.numerics import as_carrier, carrier, cast, magnitude

RTL = Path(__file__).resolve().parent / "rtl"


class LeakyShift(nn.Module):
    """``x`` where it is not negative, else ``x * 2**-shift``: a leaky ReLU without a multiplier."""

    def __init__(self, shift: int = 3) -> None:
        super().__init__()
        self.shift = shift

    def forward(self, x: Tensor) -> Tensor:
        """Any shape in, the same shape out."""
        return torch.where(x < 0, x * 2.0**-self.shift, x)


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The arithmetic of the hardware on mantissas: exact with ``shift`` more fraction bits, then one cast."""
    shift, fmt = int(a.attributes["shift"]), a.formats["data_in_0"]
    # The narrowest dtype in which every value is exact.
    x = as_carrier(t["data_in_0"], carrier(magnitude(fmt) << shift))
    fine = torch.where(x < 0, x, x * (1 << shift))
    return {"data_out_0": cast(fine, fmt.frac_width + shift, a.formats["data_out_0"], a.rounding, a.overflow)}


CUSTOM_OPS = {
    "modules": {
        LeakyShift: {
            "args": {"x": "data_in", "shift": "config"},  # shift becomes the parameter SHIFT
            "toolchain": "EXTERNAL",
            "root": RTL,
            "module": "leaky_shift",
            "golden": golden,
            "like": "relu",  # one stream in, one out, one register between them
        }
    }
}


def network() -> nn.Module:
    """A small network that uses the op twice, with different shifts."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 16), LeakyShift(2), nn.Linear(16, 6), LeakyShift(4))


def main() -> int:
    """Compile and simulate; 0 if every bit is equal."""
    model = network()
    inputs = torch.randn(32, 12)
    design = mase_hw.compile(
        model, inputs[:1], out="build/custom_op", calibration=[inputs], custom_ops=CUSTOM_OPS, progress=print
    )
    simulation = design.simulate(inputs, stalls=0.3, progress=print)
    print(simulation.report())
    return 0 if simulation.passed else 1


if __name__ == "__main__":
    sys.exit(main())
