"""QONNX files as Brevitas writes them, of small networks with random weights, trained for no more than their ranges.

    python -m benchmarks.brevitas_files build/brevitas
    python -m benchmarks.quantised_files build/brevitas --simulate 2

Needs brevitas, and nothing of this project: it runs in an environment of its own.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import brevitas.nn as bnn
import brevitas.quant as bq
import torch
from brevitas.export import export_qonnx
from brevitas.quant.experimental.float_quant_ocp import Fp8e4m3OCPWeightPerTensorFloat
from torch import Tensor, nn

INT8 = {"act_quant": bq.Int8ActPerTensorFloat, "return_quant_tensor": True}
UINT8 = {"act_quant": bq.Uint8ActPerTensorFloat, "return_quant_tensor": True}
VECTOR, IMAGE = (1, 16), (1, 3, 14, 14)


def mlp(weight: Any, data: Any, bias: Any) -> nn.Module:
    """Two layers and a ReLU."""
    settings = {"bias": True, "weight_quant": weight, "bias_quant": bias}
    return nn.Sequential(
        bnn.QuantIdentity(act_quant=data, return_quant_tensor=True), bnn.QuantLinear(16, 24, **settings),
        bnn.QuantReLU(**UINT8), bnn.QuantLinear(24, 10, output_quant=bq.Int8ActPerTensorFloat, **settings),
    )  # fmt: skip


def cnv(weights: int, data: int) -> nn.Module:
    """Convolutions with a BatchNorm between each and its quantiser, of so many bits."""
    weight = bq.SignedBinaryWeightPerTensorConst if weights == 1 else bq.Int8WeightPerTensorFloat
    act = bq.SignedBinaryActPerTensorConst if data == 1 else bq.Int8ActPerTensorFloat
    settings = {"bias": False, "weight_quant": weight, "weight_bit_width": weights}
    layers = [bnn.QuantIdentity(act_quant=bq.Int8ActPerTensorFixedPoint, return_quant_tensor=True)]
    for inputs, outputs, pooled in ((3, 8, False), (8, 8, True), (8, 16, False)):
        layers += [bnn.QuantConv2d(inputs, outputs, 3, **settings), nn.BatchNorm2d(outputs)]
        layers += [bnn.QuantIdentity(act_quant=act, bit_width=data, return_quant_tensor=True)]
        layers += [nn.MaxPool2d(2)] if pooled else []
    return nn.Sequential(*layers, nn.Flatten(), bnn.QuantLinear(16 * 3 * 3, 10, **settings))


class Residual(nn.Module):
    """A depthwise convolution around which its input goes, and a pool."""

    def __init__(self) -> None:
        super().__init__()
        settings = {"padding": 1, "weight_quant": bq.Int8WeightPerChannelFloat, "weight_bit_width": 4}
        self.entry, self.last = bnn.QuantIdentity(**INT8), bnn.QuantIdentity(**INT8)
        self.first = bnn.QuantConv2d(3, 8, 3, bias=True, bias_quant=bq.Int32Bias, **settings)
        self.relu = bnn.QuantReLU(bit_width=4, **UINT8)
        self.second = bnn.QuantConv2d(8, 8, 3, groups=8, bias=False, **settings)
        act = bq.Int8ActPerTensorFloat
        self.add = bnn.QuantEltwiseAdd(input_quant=act, output_quant=act, return_quant_tensor=True)

    def forward(self, x: Tensor) -> Any:
        """``(N, 3, 14, 14)`` -> ``(N, 8, 7, 7)``."""
        x = self.relu(self.first(self.entry(x)))
        return self.last(nn.functional.avg_pool2d(self.add(x, self.second(x)).value, 2)).value


class Truncated(nn.Module):
    """A pool that drops the last bits of its sums."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.relu = bnn.QuantReLU(bit_width=6, **UINT8)
        self.pool = bnn.TruncAvgPool2d(kernel_size=2, stride=2, bit_width=6, float_to_int_impl_type=mode)

    def forward(self, x: Tensor) -> Any:
        """``(N, 3, 14, 14)`` -> ``(N, 3, 7, 7)``."""
        return self.pool(self.relu(x)).value


def networks() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    """Every network with the shape of a frame."""
    weight, channels = bq.Int8WeightPerTensorFloat, bq.Int8WeightPerChannelFloat
    fixed = bq.Int8WeightPerTensorFixedPoint, bq.Int8ActPerTensorFixedPoint, bq.Int8Bias
    float8 = bnn.QuantLinear(16, 8, bias=False, weight_quant=Fp8e4m3OCPWeightPerTensorFloat)
    return {
        "mlp_tensor": (mlp(weight, bq.Int8ActPerTensorFloat, None), VECTOR),
        "mlp_channel": (mlp(channels, bq.Int8ActPerTensorFloat, bq.Int32Bias), VECTOR),
        "mlp_shifted": (mlp(weight, bq.ShiftedUint8ActPerTensorFloat, bq.Int16Bias), VECTOR),
        "mlp_fixed": (mlp(*fixed), VECTOR),
        **{f"cnv_{w}w{a}a": (cnv(w, a), IMAGE) for w, a in ((1, 1), (1, 2), (2, 2), (4, 4))},
        "residual": (Residual(), IMAGE),
        **{f"trunc_{mode}": (Truncated(mode), IMAGE) for mode in ("floor", "round", "ceil")},
        "float8": (nn.Sequential(bnn.QuantIdentity(**INT8), float8), VECTOR),
    }


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    for name, (model, shape) in networks().items():
        for norm in (m for m in model.modules() if isinstance(m, nn.BatchNorm2d)):
            nn.init.uniform_(norm.weight, -1, 1.5)
            nn.init.normal_(norm.bias, 0, 0.2)
        for _ in range(40):
            model.train()(torch.randn(16, *shape[1:]))
        example = torch.randn(shape)
        model.eval()(example)
        export_qonnx(model, args=example, export_path=str(folder / f"{name}.onnx"), opset_version=13, dynamo=False)
        print(folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
