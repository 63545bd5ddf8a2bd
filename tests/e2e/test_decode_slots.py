"""Several sequences in turn in one design: each gives what it gives alone, whenever the tokens of the others come."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from examples import text_gpt
from mase_hw.design import decode
from mase_hw.emit.causality import Tokens
from mase_hw.emit.memory import slots as slots_of_design
from mase_hw.errors import ConfigError, MismatchError, UnsupportedError
from mase_hw.nn.recurrence import linear_recurrence
from mase_hw.report.page import bundle_facts, page
from mase_hw.simulate.arguments import check
from tests.e2e.test_decode import CONTEXT, IDS, alone, compiled

SLOTS = 4


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    return compiled(tmp_path_factory.mktemp("slots") / "design", decode={"context": CONTEXT, "slots": SLOTS})


def bench(design: mase_hw.Design, context: int = CONTEXT, **asked: Any) -> decode.Bench:
    graph, interval = design.graph, int(design.timing["interval"])
    assert graph is not None
    tokens = Tokens(graph.meta["netlist"], graph.catalogue, context)
    options = check(design.path, interval, **({"engine": "batch"} | asked))
    return decode.Bench(design.dut(), graph, design.streams, tokens, options, 100 * interval, lambda _: None)


def sequences(steps: int, seed: int) -> tuple[list[decode.Written], list[int]]:
    """Sequences of any lengths up to a whole context, and turns in any order that keep all slots busy."""
    rng = random.Random(seed)
    written: list[decode.Written] = []
    order: list[int] = []
    held: list[list[int]] = []
    while len(order) < steps:
        if len(held) < SLOTS:
            length = rng.choice([1, 2, 3, CONTEXT - 1, CONTEXT, CONTEXT])
            ids = tuple(rng.randrange(IDS) for _ in range(length))
            written.append(decode.Written(ids, rng.randint(1, length), (), ()))
            held.append([len(written) - 1] * len(written[-1].turns))
        chosen = rng.randrange(len(held))
        order.append(held[chosen].pop())
        if not held[chosen]:
            held.pop(chosen)
    return written, order + [number for rest in held for number in rest]


@pytest.mark.slow
@pytest.mark.parametrize("deep", [True, False])
def test_long_prompts_of_a_deep_model(deep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More tokens of prompts are inside than a FIFO of slots holds at least: with no more places they would wait."""
    if not deep:
        monkeypatch.setattr(slots_of_design, "tokens_inside", lambda timeline, _: dict.fromkeys(timeline.parts, 0))
    context, layers = 64, 5
    torch.manual_seed(1)
    net = text_gpt.TextGPT(context, 16, layers).eval()
    ids = torch.randint(len(text_gpt.LETTERS), (8, context))
    config = {"decode": {"context": context, "slots": SLOTS}, "vectors": {"faults": 1, "frames": 1}}
    design = mase_hw.compile(net, ids[:1], config, out=tmp_path / "design", calibration=[ids])
    depths = [fifo.depth for fifo in design.record.fifos if "_slots" in fifo.instance]
    assert len(depths) == 1 + 3 * layers and (max(depths) > 64) == deep and min(depths) == slots_of_design.LEAST
    found = design.generate(ids[:SLOTS, : context - 3].tolist(), 3)
    assert found.result is not None and found.result.passed
    assert (found.measured == found.predicted) == deep


class AtTheEntry(nn.Module):
    """A model whose first op needs the slot of a token when the token comes, or a cycle or two later."""

    def __init__(self, first: str) -> None:
        super().__init__()
        self.first, self.positions, self.out = first, nn.Parameter(torch.randn(6, 4) * 0.3), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        if self.first != "attention":
            x = (torch.relu(x) if self.first == "relu" else x) + self.positions
        result: Tensor = self.out(x + F.scaled_dot_product_attention(x, x, x, is_causal=True))
        return result


@pytest.mark.parametrize("first", [pytest.param("relu", marks=pytest.mark.slow), "positions", "attention"])
def test_a_token_waits_for_its_slot(first: str, tmp_path: Path) -> None:
    """Tokens that would be where their slots are needed before the slots wait, as long as predicted."""
    torch.manual_seed(0)
    x = torch.randn(8, 6, 4)
    settings = {"decode": {"context": 6, "slots": 4}}
    design = mase_hw.compile(AtTheEntry(first).eval(), x[:1], settings, out=tmp_path / first, calibration=[x])
    assert design.simulate(x[:2]).passed  # cycles other than predicted raise


INNER = pytest.param({"inner_stalls": 0.1}, marks=pytest.mark.slow)


@pytest.mark.parametrize("asked", [{}, {"stalls": 0.3, "seed": 5}, INNER])
def test_any_order(design: mase_hw.Design, asked: dict[str, Any]) -> None:
    """A thousand steps: every score of each sequence is that of the model, which saw it alone."""
    written, order = sequences(1000 if asked else 120, seed=len(asked))
    found = bench(design, **asked).play(written, order=order)
    assert found.result is not None
    found.result.raise_on_failure()
    tokens = sum(len(each.tokens) for each in written)
    assert len(order) >= (1000 if asked else 120) and tokens > len(order)
    assert found.result.beats_compared == tokens * (design.streams["data_out_0"].beats // CONTEXT)
    if not asked:
        assert found.measured == found.predicted
    # Independent of the bench: the rows of a sequence, wherever they stand among the others.
    rows = found.result.outputs["data_out_0"].reshape(tokens, -1)[:, :IDS]
    begun = [0] * len(written)
    at = 0
    for number in order[:40]:
        ids, begin = list(written[number].tokens), begun[number]
        count = written[number].turns[0] if not begin else 1
        with torch.no_grad():
            frame = torch.tensor([ids + [0] * (CONTEXT - len(ids))])
            wanted = design.model(frame)[0, begin : begin + count].double().numpy()
        scale = 2.0 ** -design.streams["data_out_0"].fmt.frac_width
        assert np.array_equal(rows[at : at + count] * scale, wanted)
        at, begun[number] = at + count, begin + count


def test_several_prompts_at_once(design: mase_hw.Design) -> None:
    prompts = [[3, 1, 4, 1, 5], [9], [2, 6, 5], [3, 5], [8, 9], [7] * (CONTEXT - 5)]
    found = design.generate(prompts, 6)
    assert found.measured == found.predicted
    for prompt, written in zip(prompts, found.sequences, strict=True):
        chosen, scores = alone(design, prompt, 6)
        assert list(written.chosen) == chosen and [s.tolist() for s in written.scores] == scores
    # One sequence by itself takes what a token takes; four of them are done in little more.
    one = design.generate(prompts[1:2], 6)
    assert one.measured[0] == design.manifest["decode"]["cycles"][:6]
    last = [sum(cycles) for cycles in found.measured]
    assert last[1] < 2 * sum(one.measured[0])
    with pytest.raises(ConfigError, match="a reset would end all sequences"):
        design.generate(prompts, 2, abort=3)


def test_how_fast_tokens_follow(design: mase_hw.Design) -> None:
    """The pace of sequences in turn, where hardware can show it: of first tokens, over and over."""
    decoding = design.manifest["decode"]
    assert (decoding["slots"], decoding["slot_port"]) == (SLOTS, "data_in_1")
    paces = dict(map(tuple, decoding["paces"]))
    assert paces[1] == decoding["cycles"][-1] and list(paces) == [1, 2, 3, 4]
    assert paces[4] < paces[2] < paces[1] and 3 * paces[4] < paces[1]
    shown = page(bundle_facts(design.path), None)
    said = shown[shown.index("with sequences in turn") :].split("</p>")[0]
    assert f"{paces[3]} with 3, {paces[4]} with 4." in said, said
    assert design.timing["interval"] / CONTEXT <= paces[4]
    for slots in (1, SLOTS):
        with_slots = bench(design)
        written = [decode.Written((number % IDS,), 1, (), ()) for number in range(8 * slots)]
        entries = [decode._Entry(n, 0, 1, after=n - slots, slot=n % slots) for n in range(len(written))]
        predicted = with_slots.tokens.interleaved([(1, 0, e.after) for e in entries if e.after is not None])
        ends = np.array(predicted)
        for number in range(slots, len(ends)):
            ends[number] += ends[number - slots]
        assert -(-(ends[-1] - ends[-1 - slots]) // slots) == with_slots.tokens.pace(slots, 0)
        if slots == SLOTS:
            found = with_slots.play(written)
            assert [cycles for (cycles,) in found.measured] == predicted


def test_the_context_is_full(design: mase_hw.Design) -> None:
    """Behind the last position a sequence begins anew in its slot by itself, and the others notice nothing."""
    whole = [tuple((k * n + n) % IDS for k in range(CONTEXT)) for n in (1, 2, 3)]
    written = [decode.Written(ids, CONTEXT, (), ()) for ids in whole]
    (inputs, outputs) = [name for name, s in design.streams.items() if s.direction == "in"], "data_out_0"
    assert inputs == ["data_in_0", "data_in_1"]
    frames = design.simulate(torch.tensor(whole), engine="batch", work_dir=f"{design.path}.work")
    played = bench(design).play(written)
    assert played.result is not None
    assert np.array_equal(frames.result.outputs[outputs], played.result.outputs[outputs])


def test_sequences_that_press_on(design: mase_hw.Design, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sequence begins in a slot while tokens of the one before are under way: its first row waits for them."""
    lengths = [CONTEXT, 7, CONTEXT, 1, 2, 9, CONTEXT]
    rng = random.Random(1)
    written = [decode.Written(tuple(rng.randrange(IDS) for _ in range(n)), n, (), ()) for n in lengths]
    entries = [decode._Entry(number, 0, n, after=-1) for number, n in enumerate(lengths)]
    monkeypatch.setattr(decode.Bench, "_in_turn", lambda *_: (entries, []))
    found = bench(design).play(written)
    assert found.result is not None
    found.result.raise_on_failure()
    assert found.result.beats_compared == sum(lengths) * (design.streams["data_out_0"].beats // CONTEXT)


def test_a_wrong_slot_is_seen(design: mase_hw.Design, monkeypatch: pytest.MonkeyPatch) -> None:
    """One token that is told to another sequence than its own."""
    real = decode.code
    calls = []

    def other(slot: int, begins: bool, slots: int) -> int:
        calls.append(slot)
        return real(slot ^ (len(calls) == 3), begins, slots)

    monkeypatch.setattr(decode, "code", other)
    with pytest.raises(MismatchError):
        design.generate([[1, 2], [3, 4], [5]], 3)


def test_refused(tmp_path: Path) -> None:
    for settings in ({"decode": {"slots": 2}}, {"decode": {"context": CONTEXT, "slots": 3}}):
        with pytest.raises(ConfigError, match="slots"):
            compiled(tmp_path / "wrong", **settings)
    ram = {"parameters_at": {"out.weight": "ram"}}
    with pytest.raises(ConfigError, match="parameters in ROM"):
        compiled(tmp_path / "ram", decode={"context": CONTEXT, "slots": 2}, hardware=ram)


class Mixed(nn.Module):
    """Attention behind what passes something from token to token: a state, a window, or the token before."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.ids, self.out = kind, nn.Embedding(IDS, 8), nn.Linear(8, IDS)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.conv, self.attention = nn.Conv1d(8, 8, 2, padding=1), nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.ids(ids)
        if self.kind == "state":
            x = linear_recurrence(x, torch.sigmoid(x))
        elif self.kind == "recurrent layer":
            x = self.rnn(x)[0]
        elif self.kind == "sum so far":
            x = x + torch.cumsum(x, 1)
        elif self.kind == "window":
            x = self.conv(x.transpose(1, 2))[..., : ids.shape[1]].transpose(1, 2)
        else:
            x = x + F.pad(x, (0, 0, 1, -1))
        mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        result: Tensor = self.out(self.attention(x, x, x, attn_mask=mask, need_weights=False)[0])
        return result


@pytest.mark.parametrize("kind", ["state", "recurrent layer", "sum so far", "window", "token before"])
def test_only_attention_may_know_other_tokens(kind: str, tmp_path: Path) -> None:
    ids = torch.randint(IDS, (4, CONTEXT))
    settings = {"decode": {"context": CONTEXT, "slots": 2}}
    with pytest.raises(UnsupportedError, match="from one token on to the next"):
        mase_hw.compile(Mixed(kind).eval(), ids[:1], settings, out=tmp_path / "d", calibration=[ids])


def test_a_model_without_attention_needs_no_slots(tmp_path: Path) -> None:
    ids = torch.randint(IDS, (4, CONTEXT))
    model = nn.Sequential(nn.Embedding(IDS, 8), nn.Linear(8, IDS)).eval()
    with pytest.raises(ConfigError, match="sequences need no slots"):
        mase_hw.compile(
            model, ids[:1], {"decode": {"context": CONTEXT, "slots": 2}}, out=tmp_path / "d", calibration=[ids]
        )


def test_lanes_for_the_cycles_of_a_token(tmp_path: Path) -> None:
    """With as many multipliers a token by itself takes fewer cycles than where the lanes are those of the best rate."""
    cycles = {}
    for least in ("interval", "latency"):
        target = {"dsp": 40, "unrolled": 0, "minimise": least}
        decoding = {"context": CONTEXT, "slots": SLOTS}
        made = compiled(tmp_path / least, decode=decoding, target=target, hardware={"family": "ecp5"})
        assert sum(entry.multipliers or 0 for entry in made.record.instances) <= target["dsp"]
        cycles[least] = made.manifest["decode"]["cycles"][-1]
    assert cycles["latency"] < cycles["interval"]
