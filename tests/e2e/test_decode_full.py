"""What a design does with a sequence that goes past the last position of its context, a short one and one of 256."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mase_hw
from examples.text_gpt import LETTERS, TextGPT
from mase_hw.design import decode
from tests.e2e.test_decode_slots import bench

CONTEXTS = [6, pytest.param(256, marks=pytest.mark.slow)]
SINGLY = 5
"""Tokens of a sequence that enter one at a time, behind a prompt at full rate."""


def compiled(out: Path, context: int, **more: Any) -> mase_hw.Design:
    torch.manual_seed(2)
    model = TextGPT(tokens=context, width=8, layers=1).eval()
    model.scores.weight.data *= 4  # so that sequences do not end in one token over and over
    frames = torch.randint(len(LETTERS), (8, context))
    config = {"decode": {"context": context, **more}, "vectors": {"frames": 1, "faults": 1}}
    return mase_hw.compile(model, frames[:1, :3], config, out=out, calibration=[frames])


def written(context: int, count: int) -> list[decode.Written]:
    """So many sequences that fill the context."""
    rng = np.random.default_rng(context)
    ids = rng.integers(len(LETTERS), size=(count, context)).tolist()
    return [decode.Written(tuple(row), context - SINGLY, (), ()) for row in ids]


def scores(design: mase_hw.Design, sequences: list[decode.Written]) -> np.ndarray:
    """Of every token of each sequence, by the quantised model, which sees it alone."""
    stream = design.streams["data_out_0"]
    with torch.no_grad():
        found = [design.model(torch.tensor([each.tokens]))[0] for each in sequences]
    return np.array([(rows.double() * 2.0**stream.fmt.frac_width).long().numpy() for rows in found])


@pytest.mark.parametrize("context", CONTEXTS)
def test_one_sequence_behind_the_other(context: int, tmp_path: Path) -> None:
    """Without a reset the token behind the last position is the first one of the next sequence, three times."""
    design = compiled(tmp_path / "design", context)
    sequences = [*written(context, 2), decode.Written(written(context, 3)[2].tokens, 1, (), ())]
    found = bench(design, context).play(sequences)
    assert found.result is not None and found.result.passed and found.measured == found.predicted
    assert found.measured[2] == design.manifest["decode"]["cycles"]
    rows = found.result.outputs["data_out_0"].reshape(3, context, -1)[..., : len(LETTERS)]
    assert np.array_equal(rows, scores(design, sequences))


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_slot_that_is_full(context: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No token says that a sequence begins: it does in its slot behind the last position, amid another sequence."""
    design = compiled(tmp_path / "design", context, slots=2)
    first, second, third, fourth = written(context, 4)
    begun = decode.Written(second.tokens[: context - 2], context // 2, (), ())
    # The second sequence keeps the other slot, so that the third and the fourth follow the first one in theirs.
    turns = [0, 1, *[0] * SINGLY, 2, 2, *[1] * (len(begun.turns) - 2), *[2] * (SINGLY - 1), 3, 3, 3, 1]
    sequences = [first, begun, third, decode.Written(fourth.tokens[: context - SINGLY + 2], context - SINGLY, (), ())]
    monkeypatch.setattr(decode, "code", lambda slot, begins, slots: slot)
    assert len(turns) <= decode.MOST_TURNS
    found = bench(design, context).play(sequences, order=turns)
    assert found.result is not None
    found.result.raise_on_failure()
    assert found.measured == found.predicted
    rows = found.result.outputs["data_out_0"].reshape(sum(len(each.tokens) for each in sequences), -1)
    whole, prompt = first.turns[0] + begun.turns[0] + SINGLY, third.turns[0]
    assert np.array_equal(rows[whole : whole + prompt, : len(LETTERS)], scores(design, [third])[0, :prompt])


@pytest.mark.parametrize("context", CONTEXTS)
def test_by_itself(context: int, tmp_path: Path) -> None:
    """A sequence ends with the token behind the last position; what a prompt has beyond it is discarded."""
    design = compiled(tmp_path / "design", context, sample="greedy", length=context)
    prompts = [list(each.tokens) * 2 for each in written(context, 2)]
    lengths = [1, context - 3, context + 3]
    found = design.generate([prompts[n % 2][:length] for n, length in enumerate(lengths)])
    assert found.result is not None and found.result.passed and found.measured == found.predicted
    assert [len(tokens) for tokens in found.tokens] == [context, 4, 1]
    alone = design.model(torch.tensor([prompts[0][:context]]))[0, -1]
    assert found.tokens[2] == [int(alone)]
