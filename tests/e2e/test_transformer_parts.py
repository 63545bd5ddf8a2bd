"""Parts of transformers: rotary positions are rounded once, bags of ids, rows of ones, ids that a model gives."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import GraphError, MaseHwError, UnsupportedError
from mase_hw.model_spec import load_model
from tests.unit.oracle import by_fraction
from tests.unit.pipeline import OWN_FRAMES

TOKENS, SIZE, ROWS = 5, 6, 11


def halves(s: Any, x: Tensor) -> Tensor:
    """LLaMA and GPT-NeoX."""
    return x * s.cos + torch.cat((-x[..., SIZE // 2 :], x[..., : SIZE // 2]), -1) * s.sin


def differences(s: Any, x: Tensor) -> Tensor:
    """Half by half; the second operand of a difference is a product."""
    a, b = x[..., : SIZE // 2], x[..., SIZE // 2 :]
    cos, sin = s.cos[:, : SIZE // 2], s.sin[:, : SIZE // 2]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Rotary(nn.Module):
    """Rotary positions of tokens ``(N, T, size)``, whose angles belong to neighbours in the second half as well."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        angle = torch.arange(TOKENS)[:, None] / 3 ** (torch.arange(SIZE // 2) / 2)
        self.register_buffer("cos", angle.cos().repeat(1, 2))
        self.register_buffer("sin", angle.sin().repeat(1, 2))
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def stored(value: Tensor) -> list[list[Fraction]]:
    """A stored tensor in eight bits: the nearest multiples of ``2**-6``."""
    codes = [[by_fraction(Fraction(float(v)), (8, 6, True), "HALF_EVEN", "SATURATE") for v in row] for row in value]
    return [[Fraction(code, 64) for code in row] for row in codes]


@pytest.mark.parametrize("function", [halves, differences])
def test_rotary_positions_are_rounded_once(function: Any, tmp_path: Path) -> None:
    """By Python's fractions, with the most negative number, whose negative no format of the same width has."""
    net = Rotary(function).eval()
    codes = torch.randint(-128, 128, (12, TOKENS, SIZE), generator=torch.Generator().manual_seed(1))
    codes[0], codes[1, :, ::2] = -128, -128
    frames = codes / 64
    given = {"data_in_frac_width": 6, "weight_frac_width": 6}
    config = {
        "quantize": {
            "mul": {"config": given},
            "sum_of_products": {"config": {"data_out_width": 8, "data_out_frac_width": 6}},
        }
    }
    design = mase_hw.compile(net, frames[:1], config | OWN_FRAMES, out=tmp_path / "d", calibration=[frames])
    assert [str(s.fmt) for s in design.streams.values()] == ["s8.6", "s8.6"]
    modules = [i["module"] for i in design.manifest["instances"]]
    assert "fixed_unary" not in modules
    cos, sin = stored(net.cos), stored(net.sin)
    half = SIZE // 2
    wanted = torch.zeros_like(codes)
    for n, t, d in ((n, t, d) for n in range(12) for t in range(TOKENS) for d in range(SIZE)):
        other = codes[n, t, (d + half) % SIZE].item() * (-1 if d < half else 1)
        exact = codes[n, t, d].item() * cos[t][d] / 64 + other * sin[t][d] / 64
        wanted[n, t, d] = by_fraction(exact, (8, 6, True), "HALF_EVEN", "SATURATE")
    result = design.simulate(frames, stalls=0.3)
    assert result.passed and torch.equal(result.output * 64, wanted.double())


class Tables(nn.Module):
    """Bags of ids in all modes, and ids as rows of ones."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.mean, self.most = nn.EmbeddingBag(ROWS, 3), nn.EmbeddingBag(ROWS, 3, mode="max")
        self.sum = nn.EmbeddingBag(ROWS, 3, mode="sum", padding_idx=2)
        self.read = nn.Linear(ROWS, 2)
        with torch.no_grad():
            self.sum.weight[2] = 9.0  # PyTorch leaves it out, whatever it is

    def forward(self, ids: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        weighted = F.embedding_bag(ids, self.mean.weight, per_sample_weights=weights, mode="sum")
        ones = F.one_hot(ids, ROWS)
        return self.mean(ids), self.most(ids), self.sum(ids), weighted, ones, self.read(ones.float())


def test_bags_and_rows_of_ones(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(4)
    ids, weights = torch.randint(ROWS, (20, 4), generator=generator), torch.rand(20, 4, generator=generator)
    net = Tables().eval()
    design = mase_hw.compile(net, (ids[:1], weights[:1]), OWN_FRAMES, out=tmp_path / "d", calibration=[(ids, weights)])
    assert [str(s.fmt) for s in design.streams.values()][:2] == ["u4.0", "u8.8"]
    assert str(design.streams["data_out_4"].fmt) == "u1.0"
    result = design.simulate((ids, weights), stalls=0.3)
    assert result.passed
    with torch.no_grad():
        wanted = net(ids, weights)
    for found, real in zip(result.outputs.values(), wanted, strict=True):
        assert float((found - real).abs().max()) < 0.1
    assert torch.equal(result.outputs["data_out_4"], F.one_hot(ids, ROWS).double())


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (nn.EmbeddingBag(ROWS, 3, padding_idx=1), "without offsets"),
        (nn.EmbeddingBag(ROWS, 3, max_norm=1.0), "without max_norm"),
        (nn.Sequential(nn.Identity(), nn.EmbeddingBag(ROWS, 3, mode="max", padding_idx=1)), "a padding id"),
    ],
)
def test_bags_that_are_refused(layer: nn.Module, text: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="embedding_bag") as caught:
        mase_hw.compile(layer.eval(), torch.zeros(1, 4, dtype=torch.int64), out=tmp_path / "d")
    assert text in str(caught.value) and not (tmp_path / "d").exists()


def test_a_language_model_gives_ids(root: Path, tmp_path: Path) -> None:
    """The largest score of the quantised model, the first of equals, behind each token; ids saturate."""
    spec = load_model(f"{root}/regress/attention.py:gpt")
    design = mase_hw.compile(
        spec.model.eval(), spec.example_inputs, OWN_FRAMES, out=tmp_path / "d", calibration=spec.calibration
    )
    scores: list[Tensor] = []
    head = design.model.get_submodule("head")
    hook = head.register_forward_hook(lambda module, given, out: scores.append(out))
    with torch.no_grad():
        design.model(spec.test_inputs)
    hook.remove()
    result = design.simulate(spec.test_inputs)
    assert result.passed and result.interval == design.timing["interval"]
    assert str(design.streams["data_out_0"].fmt) == "u5.0"
    largest = scores[0].max(-1, keepdim=True).values
    first = [[row.index(True) for row in frame] for frame in (scores[0] == largest).tolist()]
    assert result.output.tolist() == first
    with torch.no_grad():
        assert (result.output == spec.model(spec.test_inputs)).double().mean() > 0.8
    # 20 words, ids of 5 bits: as floats they are not looked up by the model, and hardware takes the last row.
    beyond = spec.test_inputs.float()
    beyond[:, 2] = torch.tensor([20.0, 31.0] * 4)
    last = beyond.clamp(max=19)
    assert design.simulate(beyond).passed
    assert torch.equal(design.simulate(beyond).output, design.simulate(last).output)


class Attention(nn.Module):
    """One head; what is wrong with it is in the classes below."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.q, self.k, self.v = (nn.Linear(4, 4) for _ in range(3))


class Drops(Attention):
    """In evaluation as well, in three places."""

    def forward(self, x: Tensor) -> Tensor:
        y = F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), dropout_p=0.1)
        y = F.dropout(y, 0.2)
        return y + F.alpha_dropout(x, p=0.3, training=True)


def test_dropout_that_is_left_on_is_named_everywhere(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="different results for the same input") as caught:
        mase_hw.compile(Drops().eval(), torch.randn(1, 3, 4), out=tmp_path / "d")
    said = str(caught.value)
    for text in ("(dropout_p = 0.1)", "F.dropout(y, 0.2) (dropout with p = 0.2)", "(alpha_dropout with p = 0.3)"):
        assert text in said and "test_transformer_parts.py:" in said, said
    assert "training=self.training" in said and not (tmp_path / "d").exists()


class Largest(Attention):
    """A mask by what no hardware computes."""

    def forward(self, x: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(x).transpose(1, 2)
        least = scores.cummax(-1).values[..., -1:]
        return scores.masked_fill(scores < least, -1e9).softmax(-1) @ self.v(x).cumprod(-1)


class Keeps(Attention):
    """Keys of the call before."""

    def forward(self, x: Tensor) -> Tensor:
        keys = self.k(x)
        self.past = keys.detach() + getattr(self, "past", keys).detach()
        return F.scaled_dot_product_attention(self.q(x), self.past, self.v(x))


@pytest.mark.parametrize(
    ("model", "texts"),
    [
        (Largest, ["cummax", "cumprod", "2 node(s)"]),
        (Keeps, ["changes itself", "model.past", "an input and an output"]),
    ],
)
def test_masks_and_caches_that_hardware_cannot_have(model: Any, texts: list[str], tmp_path: Path) -> None:
    """All at once, by name, before anything is written."""
    with pytest.raises(MaseHwError) as caught:
        mase_hw.compile(model().eval(), torch.randn(1, 3, 4), out=tmp_path / "d")
    assert all(text in str(caught.value) for text in texts), str(caught.value)
    assert not (tmp_path / "d").exists()


class Chosen(Attention):
    """A mask that depends on data, and keys and values of another stream in front."""

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = torch.cat((keys, self.k(x)), 1), torch.cat((values, self.v(x)), 1)
        keep = keys.abs().sum(-1) > 0.5
        return F.scaled_dot_product_attention(self.q(x), keys, values, attn_mask=keep[:, None]), keys


def test_masks_of_data_and_caches_that_are_inputs(tmp_path: Path) -> None:
    """Both are streams like others: every bit, and near the float model."""
    generator = torch.Generator().manual_seed(7)
    given = tuple(torch.randn(12, tokens, 4, generator=generator) for tokens in (3, 2, 2))
    net = Chosen().eval()
    design = mase_hw.compile(net, tuple(t[:1] for t in given), OWN_FRAMES, out=tmp_path / "d", calibration=[given])
    result = design.simulate(given, stalls=0.3)
    assert result.passed
    with torch.no_grad():
        wanted = net(*given)
    assert float((result.outputs["data_out_1"] - wanted[1]).abs().max()) < 0.05
    assert float((result.outputs["data_out_0"] - wanted[0]).abs().median()) < 0.05
