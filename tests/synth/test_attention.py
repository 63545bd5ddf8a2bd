"""The netlist of a small attention for no family, simulated in every run; whole blocks are in ``test_foldings``."""

from __future__ import annotations

from pathlib import Path

import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.synth.synthesise import synthesise

from .conftest import compiled

TOKENS, SIZE = 2, 2


class Attention(nn.Module):
    """Queries, keys and values side by side; a token sees those before it."""

    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(*x.chunk(3, -1), is_causal=True)


def test_the_netlist_of_an_attention(tmp_path: Path) -> None:
    """Both products, softmax, the zeros of what is not seen: 0 mismatches at full rate and with stalls."""
    design = compiled(Attention(), (TOKENS, 3 * SIZE), tmp_path / "attention", max_parallelism=1)
    modules = [instance["module"] for instance in design.manifest["instances"]]
    assert modules.count("fixed_matmul") == 2 and modules.count("fixed_masked_softmax") == 1
    report = synthesise(design, "generic")
    assert report.replay is not None and report.replay["mismatches"] == 0
    assert report.replay["beats"] == 2 * 16 * TOKENS * SIZE
    assert report.total["dsp"] == 0 and report.total["lut"] > 100
