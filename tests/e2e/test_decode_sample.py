"""The next token from the hardware: the highest score, or one of the highest by random numbers that all agree on."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
import torch

import mase_hw
from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.opdef import Arithmetic
from mase_hw.ops.rows.draw import golden, random_numbers
from tests.e2e.test_decode import CONTEXT, IDS, PROMPTS, Causal, compiled


def test_the_generator_is_marsaglias() -> None:
    """The first number of the paper's own seed, and a period that is not short."""
    assert random_numbers(2463534242, 1) == [723471715 >> 16]
    assert len(set(random_numbers(1, 5000))) > 4500


def drawn(weights: list[int], seed: int, tokens: int) -> list[int]:
    """What the golden draws of the same weights for each token of a sequence."""
    row = torch.tensor([[weights] * tokens])
    a = Arithmetic.read("u16.16 u8.0 u8.0", ("data_in_0", "data_in_1", "data_out_0"), {"seed": seed})
    ids = torch.arange(len(weights)).expand_as(row)
    found: list[int] = golden(a, {"data_in_0": row, "data_in_1": ids})["data_out_0"].flatten().tolist()
    return found


@pytest.mark.parametrize("weights", [[30000, 20000, 10000, 5536], [1, 0, 3], [0, 0, 0], [65535]])
def test_weights_are_probabilities(weights: list[int]) -> None:
    """Fractions by the definition, of every token; and over many of them, as often as they should."""
    tokens, total = 4000, sum(weights)
    found = drawn(weights, 12345, tokens)
    for token, r in zip(found, random_numbers(12345, tokens), strict=True):
        share = Fraction(r, 1 << 16)
        sums = [Fraction(sum(weights[: i + 1]), total) if total else Fraction(0) for i in range(len(weights))]
        reached = [i for i, s in enumerate(sums) if total and int(share * total) < s * total]
        assert token == (reached[0] if reached else len(weights) - 1)
    for token, count in Counter(map(int, found)).items():
        if total:
            assert weights[token] and abs(count / tokens - weights[token] / total) < 0.03


class Equals(Causal):
    """Scores of which many are equal."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.relu(super().forward(ids) - 1.5)


def test_greedy_takes_the_first_of_equals(tmp_path: Path) -> None:
    scores = compiled(tmp_path / "scores", Equals)
    design = compiled(tmp_path / "greedy", Equals, decode={"context": CONTEXT, "sample": "greedy"})
    found = design.generate(PROMPTS, 6)
    assert found.result is not None and found.measured == found.predicted
    whole = scores.generate(PROMPTS, 6, simulate=False)
    assert found.tokens == whole.tokens
    ties = [s for written in whole.sequences for s in written.scores if (s == s.max()).sum() > 1]
    assert ties
    assert [p.fmt.width for p in design.streams.values()] == [4, 4]


def test_top_k_in_slots(tmp_path: Path) -> None:
    """Beside a loop that knows nothing of the design but the scores that it is made of."""
    decode = {"context": CONTEXT, "sample": "top_k", "candidates": 4, "seed": 99, "slots": 2, "temperature": 2.0}
    design = compiled(tmp_path / "top_k", decode=decode)
    found = design.generate([*PROMPTS, [1], [9]], 6)
    assert found.result is not None and found.measured == found.predicted
    # The same prompt gives the same sequence, in whichever slot; and not the greedy one.
    assert found.tokens[1] == found.tokens[4]
    scores = compiled(tmp_path / "scores")
    assert found.tokens != scores.generate([*PROMPTS, [1], [9]], 6, simulate=False).tokens
    numbers = random_numbers(99, CONTEXT)
    for prompt, tokens in zip([*PROMPTS, [1], [9]], found.tokens, strict=True):
        ids = list(prompt)
        for token in tokens:
            with torch.no_grad():
                row = scores.model(torch.tensor([ids + [0] * (CONTEXT - len(ids))]))[0, len(ids) - 1].double()
            best = sorted(range(IDS), key=lambda i: (-float(row[i]), i))[:4]
            shares = torch.softmax(row[best] / 2.0, 0)
            at = numbers[len(ids) - 1] / (1 << 16)
            sums = [float(shares[: i + 1].sum()) for i in range(4)]
            # Where the number is not just at a border, a softmax in floats says the same.
            if all(abs(at - s) > 1e-3 for s in sums):
                assert token == best[next(i for i, s in enumerate(sums) if at < s)]
            ids.append(token)


class Two(Causal):
    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = super().forward(ids)
        return scores, torch.relu(scores)


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="does not give the scores"):
        compiled(tmp_path / "two", Two, decode={"context": CONTEXT, "sample": "greedy"})
    with pytest.raises(ConfigError, match="sample"):
        mase_hw.compile(Causal(), torch.zeros(1, 4).long(), {"decode": {"sample": "greedy"}}, out=tmp_path / "none")
