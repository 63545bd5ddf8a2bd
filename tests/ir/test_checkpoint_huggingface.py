"""Checkpoints and pictures of transformers: hundreds of nodes, tied weights, buffers that are not in the state dict."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from torch.utils._pytree import tree_leaves

from mase_hw.ir import MaseGraph
from mase_hw.passes import verify_analysis_pass
from tests.ir.checkpoints import files_of
from tests.ir.huggingface_models import NETWORKS, needed

pytestmark = needed


@pytest.mark.parametrize("name", NETWORKS)
def test_round_trip(name: str, tmp_path: Path) -> None:
    network = NETWORKS[name]
    inputs = network.example(2, 7)
    made = MaseGraph(network.build(), hf_input_names=list(network.inputs), add_metadata_args={"dummy_in": inputs})
    made.export(tmp_path / "a")
    again = MaseGraph.from_checkpoint(tmp_path / "a")
    again.export(tmp_path / "b")
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    results = [tree_leaves(g.model(**inputs)) for g in (made, again)]
    assert results[0] and len(results[0]) == len(results[1])
    for old, new in zip(*results, strict=True):
        assert torch.equal(old, new) if isinstance(old, torch.Tensor) else old == new
    verify_analysis_pass(again)
    again.draw(tmp_path / "net.svg")
    ElementTree.parse(tmp_path / "net.svg")
