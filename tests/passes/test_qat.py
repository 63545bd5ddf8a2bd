"""Training in low precision recovers what quantising after training lost, on real images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mase_hw.ir import MaseGraph
from mase_hw.nn import Quantized
from mase_hw.passes import calibrate_analysis_pass
from mase_hw.passes.quantize.quantize import quantize_transform_pass
from tests.ir.nets import annotated


def digits() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    from sklearn.datasets import load_digits  # here, since importing it takes seconds
    from sklearn.model_selection import train_test_split

    data = load_digits()
    x = torch.as_tensor(data.images / 16.0).float().flatten(1)
    y = torch.as_tensor(data.target).long()
    parts = train_test_split(x, y, test_size=0.2, random_state=0, stratify=data.target)
    return (parts[0], parts[2]), (parts[1], parts[3])


def train(model: nn.Module, data: tuple[Tensor, Tensor], epochs: int, rate: float) -> None:
    """An ordinary loop, for float and quantised models alike."""
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(epochs):
        for batch in torch.randperm(len(data[0])).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(data[0][batch]), data[1][batch]).backward()
            optimiser.step()


def accuracy(model: nn.Module, data: tuple[Tensor, Tensor]) -> float:
    with torch.no_grad():
        return float((model(data[0]).argmax(1) == data[1]).double().mean())


def quantised(model: nn.Module, data: Tensor, weights: int) -> MaseGraph:
    graph = annotated(model, {"input": data[:1]})
    calibrate_analysis_pass(graph, {"data": data.split(256), "weight_method": "mse" if weights > 2 else "min_max"})
    widths = {"data_in_width": 8, "weight_width": weights, "bias_width": 8, "data_out_width": 8}
    return quantize_transform_pass(graph, {"default": {"config": {"name": "fixed", **widths}}})[0]


def test_training_recovers_low_precision() -> None:
    """8 bits after training cost nothing; 2-bit weights cost points that training wins back; 4 bits are within one."""
    torch.manual_seed(0)
    learned, held_out = digits()
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    train(net, learned, 25, 2e-3)
    net.eval()
    float_score = accuracy(net, held_out)
    assert float_score > 0.95
    assert accuracy(quantised(net, learned[0], 8).model, held_out) >= float_score - 0.005
    for bits in (2, 4):
        graph = quantised(net, learned[0], bits)
        before, layer = (
            accuracy(graph.model, held_out),
            next(m for m in graph.modules.values() if isinstance(m, Quantized) and m.mase_op == "linear"),
        )
        formats, mantissas = dict(layer.arithmetic.formats), layer.mantissa("weight")
        train(graph.model, learned, 8, 1e-3)
        after = accuracy(graph.model, held_out)
        assert dict(layer.arithmetic.formats) == formats, "training keeps the formats"
        assert not torch.equal(layer.mantissa("weight"), mantissas), "hardware gets what was learned"
        print(f"{bits} bits: float {float_score:.4f}, after quantising {before:.4f}, after training {after:.4f}")
        if bits == 2:
            assert before < float_score - 0.05 and after > before + 0.04
        else:
            assert after >= float_score - 0.01
