"""Bit-true inference of a quantised model beside the float model: time a batch, side by side.

    python -m benchmarks.quantised_inference --batch 256

Both models run on the same inputs in turn; what is shown is the median. Of an encoder layer, a GRU, a norm and softmax
(alone with ``--only rows``) it is the least processor time, in formats as ``compile`` chooses them. The quantised model
computes the same bits as the hardware. Exit code 1 if a ratio is above ``--limit``, and with ``--only rows`` if
one is above its bar.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.large_networks import NETWORKS
from benchmarks.layer_orders import chain
from mase_hw.compiler.config import load_config
from mase_hw.compiler.quantised_graph import quantised_graph
from mase_hw.ir import MaseGraph
from mase_hw.passes import (
    add_common_metadata_analysis_pass,
    calibrate_analysis_pass,
    fold_batch_norm_transform_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)

PICTURES = 4
"""Pictures in a batch of the large networks, at most."""
WIDTHS = {"data_in_width": 8, "weight_width": 8, "bias_width": 8, "data_out_width": 8}


def cnn() -> nn.Sequential:
    """A small convolutional net for 8 x 8 images."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10),
    ).eval()  # fmt: skip


def clamped() -> nn.Module:
    """MobileNetV2 as it was published, with ReLU6, and weights (He 2015) that keep what passes from vanishing."""
    net = NETWORKS["mobilenet_v2"][0]()
    for layer in list(net.modules()):
        for name, child in layer.named_children():
            if isinstance(child, nn.ReLU):
                setattr(layer, name, nn.ReLU6())
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return net.eval()


def quantised(model: nn.Module, x: Tensor) -> nn.Module:
    """The model in 8 bits."""
    graph, _ = init_metadata_analysis_pass(MaseGraph(model))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"input": x[:1]}, "add_value": False})
    graph, _ = fold_batch_norm_transform_pass(graph)
    graph, _ = calibrate_analysis_pass(graph, {"data": [x]})
    graph, _ = quantize_transform_pass(graph, {"default": {"config": {"name": "fixed", **WIDTHS}}})
    return graph.model.eval()


class States(nn.Module):
    """All states of a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(16, 32, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """``(N, T, 16)`` -> ``(N, T, 32)``."""
        states: Tensor = self.gru(x)[0]
        return states


def encoder() -> nn.Module:
    """An encoder layer of width 16 with two heads."""
    return nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).eval()


ROWS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], float]] = {
    "encoder layer, 6 tokens": (encoder, (1000, 6, 16), 2.5),
    "GRU, 10 steps": (lambda: States().eval(), (1000, 10, 16), 2.5),
    "LayerNorm, 64": (lambda: nn.LayerNorm(64).eval(), (4096, 64), 10.0),
    "softmax, 16": (lambda: nn.Softmax(-1), (4096, 16), 10.0),
    "softmax, 1,000": (lambda: nn.Softmax(-1), (256, 1000), 10.0),
}
"""Model, shape of its batch, and bar."""


def least(model: nn.Module, x: Tensor, seconds: float) -> tuple[float, float]:
    """Least processor seconds a batch, float and quantised, run in turn."""
    pair = (model, quantised_graph(model, x[:1], load_config(None), [x], None, lambda _: None).model.eval())
    found = [math.inf, math.inf]
    with torch.inference_mode():
        for each in pair:
            each(x)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for place, each in enumerate(pair):
                start = time.process_time()
                each(x)
                found[place] = min(found[place], time.process_time() - start)
    return found[0], found[1]


def rows(seconds: float) -> int:
    """Print the table of :data:`ROWS`; how many are above their bars."""
    print(f"{'model':26} {'float':>10} {'quantised':>10} {'ratio':>6} {'bar':>5}   (least processor time)")
    above = 0
    for name, (model, shape, bar) in ROWS.items():
        plain, exact = least(model(), torch.randn(*shape), seconds)
        above += exact / plain > bar
        print(f"{name:26} {plain * 1e3:>7.3f} ms {exact * 1e3:>7.3f} ms {exact / plain:>6.2f} {bar:>5}", flush=True)
    return above


def compare(model: nn.Module, x: Tensor, seconds: float) -> tuple[float, float]:
    """Median seconds a batch, float and quantised, run in turn."""
    pair = (model, quantised(model, x))
    times: tuple[list[float], list[float]] = ([], [])
    with torch.inference_mode():
        for each in pair:
            for _ in range(5):
                each(x)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for each, found in zip(pair, times, strict=True):
                start = time.perf_counter()
                each(x)
                found.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> int:
    """Print the table; see the module."""
    parser = argparse.ArgumentParser(description="Quantised inference beside float.")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=2.0, help="largest ratio that is good enough")
    parser.add_argument("--only", choices=("rows",), help="encoder layer, GRU, norm and softmax alone")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    above = rows(arguments.seconds)
    if arguments.only:
        return int(above > 0)
    most = arguments.batch
    models: dict[str, tuple[nn.Module, tuple[int, ...], int]] = {
        "digits MLP 64-64-32-10": (chain(64, 64, 32, 10), (64,), most),
        "MLP 784-512-512-10": (chain(784, 512, 512, 10), (784,), most),
        "MLP 3 x 784, batch 1": (chain(784, 784, 784, 784), (784,), 1),
        "CNN 8x8": (cnn(), (1, 8, 8), most),
        "ResNet-18, 64x64": (NETWORKS["resnet18"][0]().eval(), (3, 64, 64), min(most, PICTURES)),
        "MobileNetV2, 64x64": (clamped(), (3, 64, 64), min(most, PICTURES)),
    }
    worst = 0.0
    print(f"{'model':26} {'float':>10} {'quantised':>10} {'ratio':>6}   (batch {most}, of pictures {PICTURES})")
    for name, (model, shape, batch) in models.items():
        plain, exact = compare(model, torch.rand(batch, *shape), arguments.seconds)
        worst = max(worst, exact / plain)
        print(f"{name:26} {plain * 1e3:>7.3f} ms {exact * 1e3:>7.3f} ms {exact / plain:>6.2f}")
    return int(worst > arguments.limit)


if __name__ == "__main__":
    raise SystemExit(main())
