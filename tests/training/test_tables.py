"""Layers of tables: what is trained is what the words say, and what the hardware computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError, GraphError, UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.nn.tables import TableLayer, thresholds
from mase_hw.training import TableLinear


def unsigned(width: int, frac: int = 0) -> dict[str, Any]:
    """A configuration whose input has this format."""
    given = {"data_in_width": width, "data_in_frac_width": frac, "data_in_signed": False, "data_out_width": 8}
    return {"default": {"config": given}}


def looked_up(layer: TableLayer, frame: list[int]) -> list[int]:
    """Words by codes, in plain Python."""
    bits, found = layer.data_format.width, []
    for sources, words in zip(layer.table_sources, layer.table_words, strict=True):
        address = "".join(f"{frame[source]:0{bits}b}" for source in reversed(sources))
        found.append(words[int(address, 2)])
    return found


class Gates(nn.Module):
    """Thermometer codes, two layers of gates, and the votes of three groups."""

    def __init__(self) -> None:
        super().__init__()
        self.coded = thresholds(torch.tensor([[0.5, 2.0, 4.5]]).repeat(5, 1), FixedFormat(3, 0, signed=False))
        self.first = TableLinear(15, 24, fan_in=2, seed=1)
        self.second = TableLinear(24, 21, fan_in=3, learn_sources=True, seed=2)

    def forward(self, x: Tensor) -> Tensor:
        votes: Tensor = self.second(self.first(self.coded(x))).reshape(-1, 3, 7).sum(2)
        return votes


def test_gates(tmp_path: Path) -> None:
    """A network of tables of one bit: gradients in training, the same numbers in evaluation, and a design."""
    net = Gates()
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(0, 8, (60, 5), generator=draw).float()
    trained = net(x)
    trained.var().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name
    net.eval()
    assert torch.equal(net(x), trained)  # nothing is softer in training
    wanted = []
    for frame in x.tolist():
        bits = [int(value > limit) for value in frame for limit in (0.5, 2.0, 4.5)]
        votes = looked_up(net.second, looked_up(net.first, bits))
        wanted.append([sum(votes[at : at + 7]) for at in (0, 7, 14)])
    assert trained.tolist() == wanted
    config = {"hardware": {"unroll": "frame", "unroll_levels": 2}, "quantize": unsigned(3)}
    design = mase_hw.compile(net, x[:1], config, out=tmp_path / "b", vectors=x)
    assert design.graph.model(x).tolist() == wanted
    assert design.manifest["timing"]["interval"] == 1
    for result in (design.simulate(engine="batch"), design.simulate(stalls=0.4, engine="batch")):
        assert result.passed, result


@pytest.mark.parametrize(("bits", "out_bits", "fan_in"), [(2, 3, 3), (1, 2, 6), (4, 4, 1)])
def test_networks_within_tables(bits: int, out_bits: int, fan_in: int, tmp_path: Path) -> None:
    """Words of several bits: those of the small network at every code, within its rounding; and a design."""
    layer = TableLinear(7, 9, fan_in=fan_in, bits=bits, out_bits=out_bits, hidden=8, seed=3)
    draw = torch.Generator().manual_seed(0)
    step = 0.5**bits if bits > 1 else 1.0
    codes = torch.randint(0, 1 << bits, (50, 7), generator=draw)
    x = codes * step
    for _ in range(3):
        layer(x)  # which moves the averages of the normalisation
    layer.eval()
    found = layer(x)
    assert found.unique().numel() > 1
    with torch.no_grad():  # the network again, in float64
        read = x.double()[:, layer.get_buffer("sources")]
        inner = torch.relu(torch.einsum("nof,ofh->noh", read, layer.first.double()) + layer.offset.double())
        z = layer.norm.double()((inner * layer.second).sum(2) + (read * layer.direct).sum(2))
        most = (1 << out_bits) - 1
        exact = (z / 4 + 0.5).clamp(0, 1) * most
    words = found.double() * (1 << out_bits if out_bits > 1 else 1)
    assert (words - exact).abs().max() <= 0.5001
    assert words.to(torch.int64).tolist() == [looked_up(layer, frame) for frame in codes.tolist()]
    config = {"quantize": unsigned(bits, bits if bits > 1 else 0)}
    design = mase_hw.compile(layer, x[:1], config, out=tmp_path / "b", vectors=x)
    assert torch.equal(design.graph.model(x), found)
    assert design.simulate(engine="batch").passed


def test_it_learns() -> None:
    """A rule of three of eight bits, which no table sees from the start."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(0, 2, (400, 8), generator=draw).float()
    wanted = ((x[:, 1] + x[:, 4] + x[:, 6]) >= 2).float()
    layer = TableLinear(8, 12, fan_in=3, learn_sources=True, seed=0)

    def errors() -> float:
        return float(((layer(x).mean(1) > 0.5).float() != wanted).float().mean())

    layer.eval()
    before = errors()
    layer.train()
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.05)
    for _ in range(150):
        optimiser.zero_grad()
        nn.functional.binary_cross_entropy_with_logits((layer(x).mean(1) - 0.5) * 8, wanted).backward()
        optimiser.step()
    layer.eval()
    assert errors() < 0.1 < before


def test_of_several_rows(tmp_path: Path) -> None:
    """Tables over positions: in a frame per beat, and refused as a module by itself."""
    layer = TableLinear(3, 4, fan_in=2, seed=5)
    layer.eval()
    x = torch.randint(0, 2, (6, 2, 3), generator=torch.Generator().manual_seed(0)).float()
    assert torch.equal(layer(x), torch.stack([layer(x[:, 0]), layer(x[:, 1])], 1))
    config: dict[str, Any] = {"quantize": unsigned(1)}
    with pytest.raises(UnsupportedError, match="several rows") as caught:
        mase_hw.compile(layer, x[:1], config, out=tmp_path / "b")
    assert "unroll" in str(caught.value.remedy)
    config["hardware"] = {"unroll": "frame"}
    design = mase_hw.compile(layer, x[:1], config, out=tmp_path / "b", vectors=x)
    assert torch.equal(design.graph.model(x), layer(x)) and design.simulate(engine="batch").passed


def test_refused() -> None:
    """Tables of too many bits, a negative number of neurons, words that are missing."""
    with pytest.raises(ConfigError, match="no layer of tables"):
        TableLinear(8, 8, fan_in=4, bits=4, hidden=8)
    with pytest.raises(ConfigError, match="interpolated between inputs of one bit"):
        TableLinear(8, 8, fan_in=2, bits=2)
    with pytest.raises(ConfigError, match="no layer of tables"):
        TableLinear(8, 8, fan_in=2, hidden=-1)
    with pytest.raises(GraphError, match="a word for every code"):
        TableLayer(
            torch.zeros(2, 3), torch.zeros(2, 4), FixedFormat(1, 0, signed=False), FixedFormat(1, 0, signed=False)
        )
