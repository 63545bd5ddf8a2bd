"""Language models that generate: token by token the RTL gives what the quantised model gives for the whole sequence."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError, GraphError, MismatchError
from mase_hw.nn.recurrence import linear_recurrence
from mase_hw.report.page import bundle_facts, page

CONTEXT, WIDTH, HEADS, IDS = 10, 8, 2, 11
PROMPTS = [[3, 1, 4, 1, 5], [9], [2, 6, 5]]
CHOSEN = 6


class Causal(nn.Module):
    """A block with learned positions, queries, keys and values from one layer."""

    def __init__(self, causal: bool = True) -> None:
        super().__init__()
        self.causal = causal
        self.ids, self.places = nn.Embedding(IDS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, IDS)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.ids(ids) + self.places(torch.arange(CONTEXT))
        parts = self.qkv(self.norm(x)).view(-1, CONTEXT, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=self.causal)
        return self.out(x + y.transpose(1, 2).reshape(-1, CONTEXT, WIDTH))


class Names(Causal):
    """The same, giving the next id."""

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids).argmax(-1)


def compiled(out: Path, kind: type[nn.Module] = Causal, **settings: object) -> mase_hw.Design:
    torch.manual_seed(5)
    model = kind().eval()
    # Scores far apart for any token, so that sequences do not end in one token over and over.
    model.out.weight.data *= 4
    sequences = torch.randint(IDS, (16, CONTEXT))
    config = {"decode": {"context": CONTEXT}, "vectors": {"faults": 4, "frames": 2}, **settings}
    return mase_hw.compile(model, sequences[:1, :3], config, out=out, calibration=[sequences])


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    return compiled(tmp_path_factory.mktemp("decode") / "design")


def alone(design: mase_hw.Design, prompt: list[int], count: int) -> tuple[list[int], list[list[float]]]:
    """The loop of a host that knows nothing of frames: all ids so far, and 0 behind them."""
    ids, scores = list(prompt), []
    for _ in range(count):
        found = design.model(torch.tensor([ids + [0] * (CONTEXT - len(ids))]))[0, len(ids) - 1].tolist()
        scores.append(found)
        ids.append(max(range(IDS), key=lambda i: (found[i], -i)))
    return ids[len(prompt) :], scores


def test_every_token(design: mase_hw.Design) -> None:
    found = design.generate(PROMPTS, CHOSEN)
    assert found.result is not None and found.result.mismatches == 0
    entered = sum(len(prompt) + CHOSEN - 1 for prompt in PROMPTS)
    stream = design.streams["data_out_0"]
    beats = stream.beats // CONTEXT
    assert found.result.beats_compared == entered * beats
    rows, at = found.result.outputs["data_out_0"].reshape(entered, -1), 0
    for prompt, written in zip(PROMPTS, found.sequences, strict=True):
        chosen, scores = alone(design, prompt, CHOSEN)
        assert list(written.chosen) == chosen and [s.tolist() for s in written.scores] == scores
        at += len(prompt) - 1
        hardware = rows[at : at + CHOSEN, :IDS] * 2.0**-stream.fmt.frac_width
        assert hardware.tolist() == scores
        at += CHOSEN
    assert len({token for row in found.tokens for token in row}) > 2


def test_every_cycle(design: mase_hw.Design) -> None:
    """As predicted, for each length of the prompt; a token alone takes what the manifest says of its position."""
    assert design.timing["exact"]
    cycles = design.manifest["decode"]["cycles"]
    assert len(cycles) == CONTEXT and cycles == sorted(cycles)
    assert sum(cycles) > design.timing["last"] > max(cycles)
    found = design.generate([*PROMPTS, list(range(CONTEXT))[:5]], CHOSEN)
    assert found.measured == found.predicted
    assert found.measured[1] == cycles[:CHOSEN] and found.measured[0][1:] == cycles[5 : 5 + CHOSEN - 1]
    assert found.result is not None
    # A token enters in the cycle after the last result of the one before.
    came, went = (found.result.ports[name] for name in ("data_in_0", "data_out_0"))
    results = went.cycles.accepted[design.streams["data_out_0"].beats // CONTEXT - 1 :: 3]
    first = len(PROMPTS[0])
    assert (came.cycles.presented[first : first + 5] == results[first - 1 : first + 4] + 1).all()


def test_what_a_token_costs(design: mase_hw.Design) -> None:
    """Products and bytes at every position, from the sizes of the layers; the page has the table."""
    found = bundle_facts(design.path)["decode"]
    cycles, widths = design.manifest["decode"]["cycles"], [8 * 3 * WIDTH, 8 * IDS]
    bits = {i["name"]: i["parameters"] for i in design.manifest["instances"] if i["module"] == "fixed_linear"}
    stored = sum(
        size * p["WEIGHT_PRECISION_0"] + size // WIDTH * p["BIAS_PRECISION_0"]
        for size, p in zip(widths, bits.values(), strict=True)
    )
    norm = next(i["parameters"] for i in design.manifest["instances"] if i["module"] == "fixed_normalize")
    stored += WIDTH * (norm["WEIGHT_PRECISION_0"] + norm["BIAS_PRECISION_0"])
    assert found["weight_bytes"] == math.ceil(stored / 8)
    keys = [i["parameters"] for i in design.manifest["instances"] if i["module"] == "fixed_matmul"]
    for row in found["tokens"]:
        rows = row["position"] + 1
        assert row["products"] == sum(widths) + 2 * rows * WIDTH
        assert row["state_bytes"] == math.ceil(sum(rows * WIDTH * p["DATA_IN_1_PRECISION_0"] for p in keys) / 8)
        assert row["cycles"] == cycles[row["position"]] > row["slowest"] < row["stages"]
        assert row["cycles"] < 1.15 * row["stages"], "stages overlap, or follow each other at once"
    assert [row["position"] for row in found["tokens"]][:: len(found["tokens"]) - 1] == [0, CONTEXT - 1]
    assert "bytes of keys, values and states" in page(bundle_facts(design.path), None)


def test_how_well_the_next_token_is_told(design: mase_hw.Design) -> None:
    """Perplexity of float and quantised model on the calibration data, and how often they agree; on the page."""
    torch.manual_seed(5)
    model = Causal().eval()
    model.out.weight.data *= 4
    ids = torch.randint(IDS, (16, CONTEXT))  # as they are in `compiled`
    assert design.graph is not None and design.quantisation is not None
    found = design.quantisation.next_tokens
    losses, likeliest = [], []
    for each in (model, design.model):
        with torch.no_grad():
            shares = torch.softmax(each(ids).double(), -1)[:, :-1]
        losses.append(-shares.gather(-1, ids[:, 1:, None]).log().mean())
        likeliest.append(shares.argmax(-1))
    same = float((likeliest[0] == likeliest[1]).double().mean())
    assert found is not None and found.tokens == 16 * (CONTEXT - 1) and found.agree == same < 1
    assert [found.float_model, found.quantised] == pytest.approx([math.exp(loss) for loss in losses], rel=1e-6)
    said = page(bundle_facts(design.path, design.graph), None)
    assert f"perplexity {found.float_model:.4f} of the float model, {found.quantised:.4f} of the quantised one" in said
    assert "--criterion perplexity" in said


def test_a_prompt_at_once_and_token_by_token(design: mase_hw.Design) -> None:
    chosen = design.generate([[7]], CHOSEN, simulate=False)
    assert chosen.result is None and not chosen.measured
    whole = [7, *chosen.tokens[0]]
    singly, at_once = design.generate([[7]], CHOSEN), design.generate([whole[:CHOSEN]], 1)
    assert singly.result is not None and at_once.result is not None
    assert len(singly.measured[0]) == CHOSEN and len(at_once.measured[0]) == 1
    assert at_once.measured[0][0] < sum(singly.measured[0])
    assert np.array_equal(singly.result.outputs["data_out_0"], at_once.result.outputs["data_out_0"])


@pytest.mark.parametrize("abort", [1, 30, None])
def test_resets_within_sequences(design: mase_hw.Design, abort: int | None) -> None:
    """None: in the last cycle before the first result of the token that is given up."""
    with pytest.raises(ConfigError, match="must not have given results") as error:
        design.generate(PROMPTS, CHOSEN, abort=10_000)
    latest = int(str(error.value).partition("expected: 0 to ")[2].split()[0])
    found = design.generate(PROMPTS, CHOSEN, abort=latest if abort is None else abort)
    assert found.result is not None and found.measured == found.predicted
    rows = sum(2 * (len(prompt) + CHOSEN - 1) - 1 for prompt in PROMPTS)
    assert found.result.beats_compared == rows * (design.streams["data_out_0"].beats // CONTEXT)


def test_stalls(design: mase_hw.Design) -> None:
    for asked in ({"stalls": 0.4, "seed": 3}, {"stalls": "long", "abort": 5}):
        found = design.generate(PROMPTS, CHOSEN, **asked)
        assert found.result is not None and found.result.passed and found.measured != found.predicted


def test_a_full_context_is_followed_by_the_next_sequence(design: mase_hw.Design) -> None:
    """Without a reset; and a frame of :meth:`simulate` is a sequence."""
    prompts = [[1, 2, 3, 4], [4, 3, 2, 1], [5, 5, 5, 5]]
    found = design.generate(prompts, CONTEXT - 3)
    assert found.result is not None and found.measured == found.predicted
    ids = torch.tensor([sequence.tokens for sequence in found.sequences])
    assert ids.shape == (3, CONTEXT) and not torch.equal(ids[0], ids[1])
    frames = design.simulate(ids, engine="batch", work_dir=f"{design.path}.work")
    assert np.array_equal(frames.result.outputs["data_out_0"], found.result.outputs["data_out_0"])
    with pytest.raises(ConfigError, match=r"at most 10 tokens that enter"):
        design.generate(prompts, CONTEXT - 2)
    with pytest.raises(ConfigError, match="in the batch engine alone"):
        design.generate(prompts, 1, engine="fast")


def test_a_choice_of_ones_own(design: mase_hw.Design) -> None:
    seen: list[tuple[int, ...]] = []

    def second(scores: np.ndarray) -> int:
        seen.append(scores.shape)
        return int(np.argsort(scores)[-2])

    found = design.generate([[1]], 3, choose=second)
    assert seen == [(IDS,)] * 3 and found.tokens != design.generate([[1]], 3, simulate=False).tokens
    assert all(np.sort(s)[-2] == s[token] for s, token in zip(found.sequences[0].scores, found.tokens[0], strict=True))


def test_a_wrong_bit_is_seen(design: mase_hw.Design, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the reference says of the last token of all is changed in one bit."""
    from mase_hw.design import decode

    class Wrong(decode.Reference):
        def run(self, *args: object, **kwargs: object) -> tuple[dict, dict]:
            stimulus, expected = super().run(*args, **kwargs)
            expected["data_out_0"][2, 0, len(PROMPTS[2]) + CHOSEN - 2, 0] ^= 1
            return stimulus, expected

    written = design.generate(PROMPTS, CHOSEN, simulate=False)
    monkeypatch.setattr(decode, "Reference", Wrong)
    with pytest.raises(MismatchError, match="differ in 1 of"):
        design.generate(PROMPTS, CHOSEN)
    monkeypatch.undo()
    assert design.generate(PROMPTS, CHOSEN).tokens == written.tokens


def test_ids_from_the_hardware(tmp_path: Path, design: mase_hw.Design) -> None:
    """With `argmax` in the model the hardware names the next token itself, the first one of equals."""
    names = compiled(tmp_path / "names", Names)
    found = names.generate(PROMPTS, CHOSEN)
    assert found.tokens == design.generate(PROMPTS, CHOSEN, simulate=False).tokens
    assert found.measured == found.predicted


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="waits for tokens that come after") as error:
        compiled(tmp_path / "both", lambda: Causal(causal=False))
    assert "token 0 needs 10 beats of data_in_0, 1 per token" in str(error.value)
    with pytest.raises(ConfigError, match="does not fit the context"):
        mase_hw.compile(Causal(), torch.zeros(1, 11).long(), {"decode": {"context": CONTEXT}}, out=tmp_path / "long")


class Growing(Causal):
    """Keys and values of later tokens are larger than those of earlier ones."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.Identity()  # type: ignore[assignment]
        self.places.weight.data *= torch.linspace(0.01, 8, CONTEXT)[:, None]


def test_formats_hold_keys_and_values_of_whole_sequences(tmp_path: Path) -> None:
    """Those of the last token fit, which a range seen of the first ones does not hold; shorter data are refused."""
    design = compiled(tmp_path / "growing", Growing)
    assert design.graph is not None
    torch.manual_seed(5)
    model, ids = Growing().eval(), torch.randint(IDS, (16, CONTEXT))
    parts = model.qkv(model.ids(ids) + model.places.weight).detach()
    products = [i["parameters"] for i in design.manifest["instances"] if i["module"] == "fixed_matmul"]
    for p, seen in zip(products, (parts[..., WIDTH : 2 * WIDTH], parts[..., 2 * WIDTH :]), strict=True):
        most = 2.0 ** (p["DATA_IN_1_PRECISION_0"] - 1 - p["DATA_IN_1_PRECISION_1"])
        assert float(seen[:, :4].abs().max()) < most / 2 < most and float(seen[:, -1].abs().max()) <= most
    with pytest.raises(ConfigError, match="does not have the shape"):
        config = {"decode": {"context": CONTEXT}}
        mase_hw.compile(model, ids[:1, :3], config, out=tmp_path / "short", calibration=[ids[:, :4]])


class LinearAttention(nn.Module):
    """Keys times values, of which a share decays: a state of fixed size."""

    def __init__(self, decay: str = "of every key") -> None:
        super().__init__()
        self.decay, self.of_heads = decay, nn.Parameter(torch.tensor([0.75, 0.9]))
        self.ids, self.parts, self.out = nn.Embedding(IDS, WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(WIDTH, IDS)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.ids(ids)
        queries, keys, values, gates = (part.unflatten(-1, (HEADS, -1)) for part in self.parts(x).chunk(4, -1))
        new, gates = keys.unsqueeze(-1) * values.unsqueeze(-2), torch.sigmoid(gates).unsqueeze(-1)
        # As RWKV and gated linear attention have it, gated RetNet, RetNet, and what is simplest.
        kinds = {"of every key": gates, "of every head": gates[..., :1, :], "stored": self.of_heads[:, None, None]}
        state = linear_recurrence(new, kinds.get(self.decay, 0.875))
        return self.out(x + (queries.unsqueeze(-1) * state).sum(-2).flatten(-2))


KINDS = ["stored", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("of every key", "of every head", "0.875"))]


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_of_fixed_size(kind: str, tmp_path: Path) -> None:
    """What came before is in the state: every bit and cycle, the same cycles at every position."""
    design = compiled(tmp_path / "linear", lambda: LinearAttention(kind))
    assert len(set(design.manifest["decode"]["cycles"])) == 1
    found = design.generate(PROMPTS, CHOSEN)
    assert found.measured == found.predicted and [found.tokens[1]] == [alone(design, PROMPTS[1], CHOSEN)[0]]
    both = design.model(torch.tensor([[1] * CONTEXT, [2] + [1] * (CONTEXT - 1)]))
    assert (both[0] != both[1]).any(-1)[:4].all(), "what comes later depends on the first token"
    depths = {i["name"]: i["parameters"].get("DEPTH") for i in design.manifest["instances"]}
    beats = {"stored": HEADS * (WIDTH // HEADS) ** 2 // 4, "0.875": WIDTH // HEADS // 4}  # of four lanes, for one token
    assert depths.get("u_linear_recurrence_constant") == beats.get(kind)
    for asked in ({"stalls": 0.3}, {"abort": 20}):
        again = design.generate(PROMPTS, CHOSEN, **asked)
        assert again.result is not None and again.result.mismatches == 0


class Each(nn.Module):
    """Something of every number."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x)


def test_tokens_must_come_one_after_the_other(tmp_path: Path) -> None:
    x = torch.randn(1, 6, 4)
    config = {"decode": {"context": 6}, "vectors": {"faults": 2}}
    with pytest.raises(GraphError, match="does not carry one token after the other"):
        mase_hw.compile(Each(), x.repeat(2, 1, 1), config, out=tmp_path / "two")
    done = mase_hw.compile(Each(), x, config, out=tmp_path / "one")
    assert done.manifest["decode"]["cycles"] == [done.manifest["decode"]["cycles"][0]] * 6
    with pytest.raises(ConfigError, match="does not take ids and give scores"):
        done.generate([[1]], 1)
    plain = mase_hw.compile(Each(), x, {"vectors": {"faults": 2}}, out=tmp_path / "plain")
    assert "decode" not in plain.manifest
    with pytest.raises(ConfigError, match="not compiled for tokens that come one at a time"):
        plain.generate([[1]], 1)
