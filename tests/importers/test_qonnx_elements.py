"""QONNX with a scale and bits for every element, as HGQ trains them: the numbers by numpy, and a design of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mase_hw
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.formats.elements import holding
from mase_hw.nn import Quantized
from tests.importers.qonnx_networks import Net

FRACS, BITS = np.array([[3, 1, 0, 2, 4]]), np.array([[5, 3, 0, 4, 6]])
"""Of the values between the layers; one is pruned."""
ROUND: dict[str, Callable[..., Any]] = {
    "ROUND": np.round,
    "FLOOR": np.floor,
    "HALF_UP": lambda v: np.sign(v) * np.floor(np.abs(v) + 0.5),
}


def quantised(x: np.ndarray, frac: Any, bits: Any, signed: int, mode: str = "ROUND") -> np.ndarray:
    """What QONNX' definition gives element by element; one of 0 bits is 0."""
    bits = np.broadcast_to(np.asarray(bits, float), x.shape)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0 * bits, 2**bits - 1)
    codes = ROUND[mode](np.clip(x * 2.0 ** np.asarray(frac, float), low, high))
    return np.where(bits == 0, 0.0, codes * 2.0 ** -np.asarray(frac, float))


def network(mode: str) -> tuple[Net, Any]:
    """Two layers, whose weights have bits of their own, and what numpy computes of them."""
    n = Net(5, 1, 6)
    r = np.random.default_rng(1)
    fracs, bits = r.integers(0, 5, (6, 5)), r.choice([0, 2, 3, 4, 6], (6, 5))
    n.quant(3, 6)
    n.add("MatMul", n.weight(fracs, bits, 6, 5, narrow=0))
    first = n.stored["t3"]
    n.add("Relu")
    n.quant(FRACS, BITS, signed=0, mode=mode)
    n.add("MatMul", n.weight(2, 4, 5, 3))
    second = next(v for v in n.stored.values() if v.shape == (5, 3))
    n.quant(2, 8)

    def computed(x: np.ndarray) -> np.ndarray:
        inner = quantised(x, 3, 6, 1) @ quantised(first, fracs, bits, 1)
        inner = quantised(np.maximum(inner, 0), FRACS, BITS, 0, mode)
        return quantised(inner @ np.round(np.clip(second * 4, -7, 7)) / 4, 2, 8, 1)

    return n, computed


@pytest.mark.parametrize("mode", list(ROUND))
def test_every_element_is_rounded_by_itself(mode: str) -> None:
    """Weights and values as numpy has them, and the same through a checkpoint."""
    net, computed = network(mode)
    x = np.random.default_rng(2).uniform(-4, 4, (40, 6)).astype(np.float32)
    graph = mase_hw.import_model(net.model())
    found = graph.model(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_array_equal(found, computed(x.astype(np.float64)))
    assert len(np.unique(found)) > 10


def test_in_hardware(tmp_path: Path) -> None:
    """A frame per beat: every bit and cycle; fewer bits to add than with one width; what is pruned is not read."""
    net, computed = network("ROUND")
    x = np.random.default_rng(3).uniform(-4, 4, (24, 6)).astype(np.float32)
    graph = mase_hw.import_model(net.model())
    graph.export(tmp_path / "net")
    graph = mase_hw.MaseGraph.from_checkpoint(tmp_path / "net")
    design = mase_hw.compile(graph, torch.zeros(1, 6), {"hardware": {"unroll": "frame"}}, out=tmp_path / "design")
    result = design.simulate(torch.from_numpy(x), engine="batch")
    assert result.passed and result.result.beats_compared > 0
    np.testing.assert_array_equal(result.output.numpy(), computed(x.astype(np.float64)))


def test_a_stream_has_one_format(tmp_path: Path) -> None:
    graph = mase_hw.import_model(network("ROUND")[0].model())
    with pytest.raises(UnsupportedError, match="whole frame per beat"):
        mase_hw.compile(graph, torch.zeros(1, 6), out=tmp_path / "design")
    assert not (tmp_path / "design").exists()


def test_weights_take_the_finest_scale() -> None:
    """Stored numbers of any scales are integers of one format, so a folded design takes them as well."""
    graph = mase_hw.import_model(network("ROUND")[0].model())
    layers = [m for m in graph.model.modules() if isinstance(m, Quantized) and "weight" in m.parameter_names]
    assert layers[0].arithmetic.formats["weight"].frac_width == 4


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bits": np.array([[1, 2, 3, 4, 5]]), "signed": 1}, "one bit with a sign"),
        ({"bits": np.array([[0, 2, 3, 4, 5]]), "signed": 1, "mode": "FLOOR"}, "0 bits"),
        ({"bits": np.array([[2.5, 2, 3, 4, 5]])}, "whole"),
        ({"bits": BITS, "narrow": 1}, "narrow"),
        ({"bits": BITS, "zero": 1}, "zero point"),
        ({"bits": BITS[:, :4]}, "broadcast"),
        ({"bits": BITS, "scale": np.full((1, 5), 0.3)}, "powers of two"),
    ],
)
def test_what_is_refused(change: dict[str, Any], said: str) -> None:
    n = Net(5, 1, 5)
    n.quant(3, 6)
    n.add("Relu")
    n.quant(FRACS, change.pop("bits"), **{"signed": 0, **change})
    with pytest.raises(UnsupportedError, match=said):
        mase_hw.import_model(n.model())


def test_an_input_of_the_model() -> None:
    """The host rounds to one format, so it is quantised before it has formats by element."""
    n = Net(5, 1, 5)
    n.quant(FRACS, BITS, signed=0)
    n.add("MatMul", n.weight(2, 4, 5, 3))
    n.quant(2, 8)
    with pytest.raises(UnsupportedError, match="a format for every element"):
        mase_hw.import_model(n.model())


def test_the_format_that_holds_all() -> None:
    assert holding([(4, 2, True), (3, 5, False), (0, 9, True)]) == FixedFormat(7, 5)
    assert holding([(2, -3, False)]) == FixedFormat(2, -3, signed=False)
    assert holding([(0, 0, True)]) == FixedFormat(1, 0, signed=False)
