"""FIFOs before joins hold what waits for another input, not what a slow layer behind the join holds up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.emit import fifos
from mase_hw.emit.depths import shorter
from mase_hw.emit.netlist import Pin
from mase_hw.hardware.memories import block_rams

TOKENS, WIDTH = 128, 16
PRODUCTS = "scaled_dot_product_attention_matmul"
QUERIES, SCORES = f"{PRODUCTS}.data_in_0", f"{PRODUCTS}_1.data_in_0"


class Attention(nn.Module):
    """Attention of one head, and a projection behind it that is slower than the products."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.out(nn.functional.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x)))
        return y


def compiled(out: Path) -> mase_hw.Design:
    torch.manual_seed(3)
    frames = torch.randn(2, TOKENS, WIDTH)
    lanes = {PRODUCTS: 4, f"{PRODUCTS}_1": 4, "out": 1}
    parallelism = {node: {"data_in_0": of, "data_out_0": of} for node, of in lanes.items()}
    settings = {"hardware": {"max_parallelism": 2, "parallelism": parallelism}, "vectors": {"frames": 1, "faults": 1}}
    return mase_hw.compile(Attention().eval(), frames[:1], settings, out=out, calibration=[frames])


def depths(design: mase_hw.Design) -> dict[str, int]:
    return {fifo["before"]: fifo["depth"] for fifo in design.manifest["fifos"]}


def test_scores_do_not_wait_for_a_slow_projection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The product waits instead, with the queries that wait before it in any case: no cycle and no bit differs."""
    design = compiled(tmp_path / "design")
    with monkeypatch.context() as patch:
        patch.setattr(fifos, "shorter", lambda *_: {})
        long = compiled(tmp_path / "long")
    bits = {fifo["before"]: fifo["bits"] for fifo in design.manifest["fifos"]}
    blocks = [block_rams(depths(each)[SCORES], bits[SCORES]) for each in (design, long)]
    assert blocks == [1, 4] and depths(design)[QUERIES] == depths(long)[QUERIES]
    assert design.timing == long.timing and design.timing["exact"] and design.timing["bottleneck"] == "u_out"
    frames = torch.randn(3, TOKENS, WIDTH)
    simulation = design.simulate(frames, engine="batch")
    assert simulation.passed
    assert (simulation.fill, simulation.interval) == (design.timing["fill"], design.timing["interval"])
    assert design.simulate(frames, engine="batch", stalls=0.3).passed


def test_what_is_too_short_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries wait for all keys: with fewer places the design stops. Other FIFOs get shorter all the same."""
    needed: list[int] = []

    def wrong(timeline: Any, chosen: Mapping[Pin, int], fixed: Mapping[Pin, int]) -> dict[Pin, int]:
        pin = next(pin for pin in chosen if f"{pin}" == f"u_{QUERIES}")
        needed.append(chosen[pin])
        return shorter(timeline, chosen, fixed) | {pin: chosen[pin] // 2}

    monkeypatch.setattr(fifos, "shorter", wrong)
    found = depths(compiled(tmp_path / "design"))
    assert found == {QUERIES: needed[0], SCORES: 512}, "a block RAM has 512 words of 32 bits"
