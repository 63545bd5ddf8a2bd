"""Operations of a TFLite file that the host computes if it is asked to: the integers of LiteRT's kernels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mase_hw.formats import ScaledFormat
from mase_hw.importers.tflite.softmax import Kernel, beta_of, result_format
from mase_hw.importers.tflite.step import Step, Value
from mase_hw.nn import QuantizeInput
from mase_hw.nn.on_host import OnHost


class Softmax(OnHost):
    """``SOFTMAX`` of int8 along the last dimension.

    Args:
        given: Format of the data.
        want: Format of the result, 1/256 with the zero point -128.
        beta: What the data is multiplied by.
    """

    def __init__(self, given: ScaledFormat, want: ScaledFormat, beta: float) -> None:
        super().__init__("a partition leaves SOFTMAX to the host, which gives the kernel's integers, exactly")
        self.given, self.want = given, want
        self.kernel = Kernel(given, beta)

    def forward(self, x: Tensor) -> Tensor:
        """Values of the integers of the data, ``(..., classes)`` -> those of the result."""
        codes = torch.round(x.detach().double() / self.given.scale).to(torch.int64).cpu().numpy()
        integers = torch.from_numpy(self.kernel.of_integers(codes)).double()
        return (self.want.scale * (integers - self.want.zero_point)).to(x.dtype).to(x.device)


def softmax(s: Step) -> Value:
    """``SOFTMAX`` on the host, and the rounding with which hardware takes what it gives."""
    x, want = s.data(), result_format(s)
    made = s.writer.computed(Softmax(x.fmt, want, beta_of(s)), [s.as_in_file(x)], x.shape)
    name, s.writer.source = s.writer.source, f"{s.writer.source}_quantize"
    entered = s.writer.computed(QuantizeInput(want, made.name), [made], x.shape)
    s.writer.sources[entered.name] = s.writer.source = name
    return s.result(entered, want, first=False)


RULES: dict[str, Callable[[Step], Value]] = {"SOFTMAX": softmax}
"""Operation -> what writes it for the host."""
