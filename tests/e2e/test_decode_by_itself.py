"""Designs that generate by themselves: a prompt goes in, and tokens come out until one of them ends the sequence."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import mase_hw
from mase_hw.errors import ConfigError, MaseHwError, UnsupportedError
from tests.e2e.test_decode import CONTEXT, Names, compiled

STOP, LENGTH = 4, 5
# One ends by its stop token, some by their length; one fills the context, and one has more tokens than that.
GIVEN = [[3, 1, 4, 1, 5], [9], [2, 6, 5], [1] * CONTEXT, [2] * (CONTEXT + 4), [3] * (CONTEXT - 2), [7], [3, 1]]


def by_the_model(design: mase_hw.Design, prompt: list[int], stop: int = STOP, length: int = LENGTH) -> list[int]:
    """The rest of a sequence, as a host says it that has the model alone."""
    ids, chosen = prompt[:CONTEXT], list[int]()
    while len(ids) <= CONTEXT and len(chosen) < length and stop not in chosen:
        with torch.no_grad():
            row = design.model(torch.tensor([ids + [0] * (CONTEXT - len(ids))]))
        chosen.append(int(row[0, len(ids) - 1]))
        ids = [*ids, chosen[-1]]
    return chosen


def loop(design: mase_hw.Design, stop: int = STOP, length: int = LENGTH) -> list[list[int]]:
    """All prompts."""
    return [by_the_model(design, prompt, stop, length) for prompt in GIVEN]


def said(found: Any) -> list[int]:
    """Tokens as they left the hardware, with the marks of their ends."""
    assert found.result is not None
    return [int(token) for token in found.result.outputs["data_out_0"].reshape(-1)]


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    decode = {"context": CONTEXT, "sample": "greedy", "stop": STOP, "length": LENGTH}
    return compiled(tmp_path_factory.mktemp("itself") / "design", decode=decode)


def test_until_a_token_or_a_length(design: mase_hw.Design) -> None:
    found = design.generate(GIVEN)
    assert found.tokens == loop(design)
    assert said(found) == [t + 16 * (i == len(row) - 1) for row in found.tokens for i, t in enumerate(row)]
    ends = [(row[-1] == STOP, len(row) == LENGTH) for row in found.tokens]
    assert (True, False) in ends and (False, True) in ends and (False, False) in ends
    # A token takes what it takes if a host gives it; between two sequences there is a reset.
    cycles = design.manifest["decode"]["cycles"]
    assert found.measured == found.predicted and found.measured[1] == cycles[: len(found.tokens[1])]
    assert found.result is not None
    times = found.result.ports["data_out_0"].cycles.accepted
    (first, second), restart = found.measured[:2], design.manifest["decode"]["generate"]["restart"]
    assert times[len(first)] - times[len(first) - 1] == second[0] + restart - 1
    # A host may still give tokens one by one, and go on behind the token that ends a sequence.
    by_host = design.generate([[9]], 3)
    assert by_host.measured == [cycles[:3]] and by_host.tokens[0][:2] == found.tokens[1] == [5, STOP]


@pytest.mark.parametrize("at", [3, "in:4", "out:6", 251])
def test_resets(design: mase_hw.Design, at: int | str) -> None:
    """Within a prompt, behind a sequence, amid one: what comes behind it is as if nothing had been."""
    again = design.generate(GIVEN, reset_at=at)
    assert again.measured == again.predicted and again.tokens == loop(design)


def test_stalls(design: mase_hw.Design) -> None:
    for asked in ({"stalls": 0.4, "seed": 3}, {"stalls": "long", "reset_at": "out:3"}):
        found = design.generate(GIVEN, **asked)
        assert found.result is not None and found.result.passed and found.measured != found.predicted


@pytest.mark.slow
def test_inner_stalls(design: mase_hw.Design) -> None:
    found = design.generate(GIVEN, inner_stalls=0.1, stalls=0.2)
    assert found.result is not None and found.result.passed


def test_in_slots_until_the_context_is_full(tmp_path: Path) -> None:
    """Drawn tokens of several sequences in turn, which end where the context does or with a token."""
    decode = {"context": CONTEXT, "sample": "top_k", "candidates": 4, "stop": STOP, "slots": 2}
    design = compiled(tmp_path / "slots", decode=decode)
    found = design.generate(GIVEN)
    assert found.tokens == loop(design, length=CONTEXT) and found.measured == found.predicted
    assert any(STOP not in row for row in found.tokens) and any(len(row) > LENGTH for row in found.tokens)
    # Each slot has its number, and its sequences one after the other; tokens of the other one are between them.
    tokens = said(found)
    assert {token // 32 for token in tokens} == {0, 1} and [t // 32 for t in tokens] != sorted(t // 32 for t in tokens)
    rows = [list[int]() for _ in range(2)]
    whole = []
    for token in tokens:
        rows[token // 32].append(token % 16)
        if token % 32 >= 16:
            whole.append(rows[token // 32])
            rows[token // 32] = []
    assert sorted(whole) == sorted(found.tokens) and rows == [[], []]
    for asked in ({"stalls": 0.4, "seed": 7}, {"reset_at": "out:7"}):
        again = design.generate(GIVEN, **asked)
        assert again.result is not None and again.result.passed
        assert sorted(said(again)) == sorted(tokens)


BROKEN = {
    "stop": ("64'(core_out) == 64'(STOP) || full", "full"),
    "length": ("|| full ||", "||"),
    "context": ("|| entered_q[result_slot] == CountW'(CONTEXT)", ""),
    "excess": ("discards_q || prompt_ends", "1'b0"),
    "reset": ("rst || wait_q == WaitW'(RESTART + 1)", "rst"),
    "feedback": ("token_q[turn];", "token_q[turn] ^ ID_WIDTH'(1);"),
    "mark": ("assign prompt_ends = in_data[ID_WIDTH] || ", "assign prompt_ends = "),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_module_is_seen(design: mase_hw.Design, what: str, tmp_path: Path) -> None:
    before, after = BROKEN[what]
    shutil.copytree(design.path, tmp_path / "broken")
    file = tmp_path / "broken/rtl/lib/token_loop.sv"
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))
    broken = mase_hw.Design(tmp_path / "broken", None, verify=False)
    broken.graph = design.graph
    with pytest.raises(MaseHwError):
        broken.generate(GIVEN)


def test_refused(design: mase_hw.Design, tmp_path: Path) -> None:
    at = {"context": CONTEXT}
    with pytest.raises(ConfigError, match="stop and length are of a model with"):
        compiled(tmp_path / "none", decode={"stop": 1})
    with pytest.raises(UnsupportedError, match="does not take ids and give the next ones"):
        compiled(tmp_path / "scores", decode=at | {"stop": 1})
    with pytest.raises(UnsupportedError, match="is no token that enters"):
        compiled(tmp_path / "far", decode=at | {"stop": 16, "sample": "greedy"})
    with pytest.raises(UnsupportedError, match="would lose parameters that are loaded"):
        ram = {"parameters_at": {"out.weight": "ram"}}
        compiled(tmp_path / "ram", decode=at | {"length": 2, "sample": "greedy"}, hardware=ram)
    for asked in ({"abort": 3}, {"choose": max}, {"engine": "fast"}):
        with pytest.raises(ConfigError):
            design.generate(GIVEN, **asked)


def test_ids_that_the_model_gives(tmp_path: Path) -> None:
    """A model that ends with an `argmax` needs no `sample`; under a prefix the names of all files have it."""
    settings = {"decode": {"context": CONTEXT, "length": 3}, "handoff": {"prefix": "mine_"}}
    design = compiled(tmp_path / "names", Names, **settings)
    entry = design.manifest["decode"]["generate"]
    assert entry["top"] == "mine_top_generate" and all(Path(f).name.startswith("mine_") for f in entry["rtl"])
    found = design.generate(GIVEN)
    assert found.tokens == loop(design, stop=-1, length=3) and found.measured == found.predicted
    with pytest.raises(ConfigError, match="nothing says how many tokens"):
        compiled(tmp_path / "plain", Names).generate(GIVEN)
