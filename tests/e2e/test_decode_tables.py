"""A first block whose queries, keys and values are rows of tables: token by token as the quantised model has them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import mase_hw
from tests.e2e.test_decode import CHOSEN, CONTEXT, PROMPTS, WIDTH, Causal, alone, compiled

MOST = 16 * CONTEXT * 3 * WIDTH


@pytest.mark.parametrize("slots", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_tables_in_hardware(slots: int, tmp_path: Path) -> None:
    """The model has no products left but those of its attention and its last layer."""
    decode = {"context": CONTEXT, "slots": slots}
    design = compiled(tmp_path / "design", decode=decode, token_tables=MOST, hardware={"max_parallelism": 2})
    modules = [instance["module"] for instance in design.manifest["instances"]]
    assert modules.count("fixed_linear") == 1 and "fixed_normalize" not in modules
    assert modules.count("fixed_embedding") == 4 and modules.count("fixed_positioned") == 1
    found = design.generate(PROMPTS, CHOSEN)
    assert found.result is not None and found.result.passed and found.measured == found.predicted
    assert found.tokens == [alone(design, prompt, CHOSEN)[0] for prompt in PROMPTS]
    plain = compiled(tmp_path / "plain", decode=decode, hardware={"max_parallelism": 2})
    saved = [b - a for a, b in zip(*(d.manifest["decode"]["cycles"] for d in (design, plain)), strict=True)]
    assert min(saved) > 0


def test_ids_and_positions_are_exact_in_few_bits(tmp_path: Path) -> None:
    """Numbers of rows have as many bits as they need: 4 for an id, 8 with its position, where data has 3."""
    narrow = {"default": {"config": {"data_in_width": 3, "weight_width": 8, "data_out_width": 8}}}
    design = compiled(tmp_path / "design", token_tables=MOST, quantize=narrow)
    bits = {port.name: port.bits for port in design.record.ports}
    assert bits["data_in_0"] == 4
    torch.manual_seed(5)
    net = Causal().eval()
    net.out.weight.data *= 4
    ids = torch.randint(11, (32, CONTEXT), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        tables = [m for m in design.model.modules() if getattr(getattr(m, "op", None), "name", "") == "embedding"]
        assert {len(m.weight) for m in tables} == {16 * CONTEXT}
        agree = (design.model(ids).argmax(-1) == net(ids).argmax(-1)).double().mean()
    assert agree > 0.5  # a wrong row is right by chance once in eleven times
    assert isinstance(design, mase_hw.Design)
