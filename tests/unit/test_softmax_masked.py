"""Softmax with a scale and a mask against float64: at most 1 LSB, in order, exactly 0 where nothing takes part."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.layouts import Layout
from mase_hw.nn.streaming import AFTER
from mase_hw.opdef import Arithmetic, Request
from mase_hw.ops._slots import SLOT
from mase_hw.ops.rows._rows import WORST, evaluate, exponent
from mase_hw.ops.rows.masked_softmax import OPS, attends, golden, masked_softmax, repeated, rows_of, softmax_where
from mase_hw.ops.rows.softmax import SOFTMAX
from mase_hw.ops.rows.softmax import golden as unmasked

U8, S8, S16 = FixedFormat(8, 8, signed=False), FixedFormat(8, 4), FixedFormat(16, 11)
PAIRS = [(S8, U8), (S8, FixedFormat(8, 6)), (S16, FixedFormat(16, 16, signed=False)), (FixedFormat(8, -1), U8)]
SCALES = [1.0, 0.25, 1 / math.sqrt(48), 3.7]
SHAPE = (2, 5, 3, 7)


def scores(source: FixedFormat) -> Tensor:
    """All over the range, and some that are close to each other, which a small scale makes closer."""
    torch.manual_seed(3)
    wide = torch.randint(source.min_mantissa, source.max_mantissa + 1, (20, *SHAPE[1:]))
    return torch.cat([wide, source.max_mantissa - torch.randint(0, 40, wide.shape)])


def by_hand(x: Tensor, keep: Tensor) -> Tensor:
    """Row by row over the elements that take part, in float64."""
    out = torch.zeros(x.shape, dtype=torch.float64).reshape(-1, x.shape[-1])
    for row, (values, kept) in enumerate(
        zip(x.reshape(out.shape), keep.expand(x.shape).reshape(out.shape), strict=True)
    ):
        if kept.any():
            out[row, kept] = F.softmax(values[kept].double(), 0)
    return out.reshape(x.shape)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("pair", PAIRS)
def test_within_one_lsb_and_in_order(pair: tuple[FixedFormat, FixedFormat], scale: float) -> None:
    source, target = pair
    x = scores(source)
    torch.manual_seed(5)
    mask = torch.rand(x.shape) > 0.4
    mask[0, 0] = False
    rows = tuple(f"{int(v):x}" for v in torch.randint(0, 128, (5,)))
    a = Arithmetic(
        {"data_in_0": source, "data_out_0": target, "data_in_1": FixedFormat(1, 0, signed=False)},
        attributes={"scale": scale, "causal": True, "allowed": rows, "hold": 3},
    )
    table = torch.tensor([[int(row, 16) >> s & 1 == 1 for s in range(7)] for row in rows])
    causal = torch.ones(5, 7).tril(2).bool()
    keep = mask & (causal & table)[:, None]
    out = golden(a, {"data_in_0": x, "data_in_1": mask.float()})["data_out_0"].double()
    exact = by_hand(x.double() * source.scale * scale, keep) * math.ldexp(1.0, target.frac_width)
    assert float((out - exact.clamp(max=target.max_mantissa)).abs().max()) <= 1
    assert (out[~keep] == 0).all()
    for row, values, kept in zip(out.reshape(-1, 7), x.reshape(-1, 7), keep.reshape(-1, 7), strict=True):
        assert (row[kept][values[kept].argsort()].diff() >= 0).all(), "a larger element got the smaller result"


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("pair", PAIRS)
def test_a_scale_is_within_one_lsb(pair: tuple[FixedFormat, FixedFormat], scale: float) -> None:
    source, target = pair
    x = scores(source)
    a = Arithmetic({"data_in_0": source, "data_out_0": target}, attributes={"scale": scale, "size": 7})
    out = unmasked(SOFTMAX, a, {"data_in_0": x})["data_out_0"].double()
    exact = F.softmax(x.double() * source.scale * scale, -1) * math.ldexp(1.0, target.frac_width)
    assert float((out - exact.clamp(max=target.max_mantissa)).abs().max()) <= 1
    assert (out.gather(-1, x.argsort(-1)).diff(dim=-1) >= 0).all()
    all_in = golden(a, {"data_in_0": x})["data_out_0"]
    assert torch.equal(all_in.double(), out), "a mask that allows everything changes a bit"


@pytest.mark.parametrize("scale", [0.1, 0.353, 2.5, 11.0])
@pytest.mark.parametrize(("width", "source", "frac"), [(8, 4, 14), (16, 12, 26), (14, 10, 8)])
def test_every_scaled_exponential(width: int, source: int, frac: int, scale: float) -> None:
    found = evaluate(exponent(width, source, frac, scale), torch.arange(1 << width))
    exact = torch.exp(-torch.arange(1 << width, dtype=torch.float64) * (scale * 2.0**-source)) * 2.0**frac
    assert int(found[0]) == 1 << frac and (found.diff() <= 0).all()
    assert float((found.double() - exact).abs().max()) <= WORST + 1e-6


@pytest.mark.parametrize("queries", [3, 5, 7, 9])
def test_causal_counts_from_the_end(queries: int) -> None:
    """As generation does: the last query sees every key. More queries than keys leave the first ones nothing."""
    keep = attends((1, queries, 2, 5), {"causal": True})
    assert torch.equal(keep[0, :, 1], torch.ones(queries, 5).tril(5 - queries).bool())


def test_sequences_in_turn() -> None:
    """Every token has the row of its position in its own sequence, which begins anew when it is told to, or is full."""
    torch.manual_seed(2)
    codes, allowed, following, at = [2, 3, 0, 0, 1, 2, 0, 1, 0, 0, 0, 1, 1], ("1", "2", "6", "d"), [0, 0], []
    for code in codes:
        begins, slot = divmod(code, 2)
        at.append(0 if begins else following[slot])
        following[slot] = (at[-1] + 1) % 4
    x = torch.randint(-128, 128, (1, len(codes), 2, 4))
    table = torch.tensor([[int(allowed[place], 16) >> s & 1 == 1 for s in range(4)] for place in at])[None, :, None]
    a = Arithmetic({"data_in_0": S8, "data_out_0": U8}, attributes={"allowed": allowed, "slots": 2})
    found = golden(a, {"data_in_0": x, SLOT: torch.tensor(codes)})
    exact = by_hand(x.double() / 16, table) * 256
    assert float((found["data_out_0"].double() - exact.clamp(max=255)).abs().max()) <= 1
    assert found[AFTER].tolist() == following


def masks() -> dict[str, Tensor]:
    torch.manual_seed(1)
    any_ = torch.rand(SHAPE) > 0.5
    return {
        "all differ": any_,
        "alike heads": any_[:, :, :1].expand(SHAPE),
        "alike queries": any_[:, :1].expand(SHAPE),
        "alike rows": any_[:1, :1, :1].expand(SHAPE),
        "alike batches": any_[:1].expand(SHAPE),
        "everything": torch.ones(SHAPE, dtype=torch.bool),
        "nothing": torch.zeros(SHAPE, dtype=torch.bool),
        "causal": torch.ones(5, 7).tril(2).bool()[:, None].expand(SHAPE),
        "strictly causal": torch.ones(5, 7).tril(1).bool()[:, None].expand(SHAPE),
    }


@pytest.mark.parametrize("name", masks())
def test_rows_of_a_mask(name: str) -> None:
    """They give the mask again, also for several frames, and are as few as the mask allows."""
    keep = masks()[name]
    rows = rows_of(keep)
    assert torch.equal(attends(SHAPE, rows), keep)
    assert torch.equal(attends((6, *SHAPE[1:]), rows), keep.repeat(3, 1, 1, 1))
    counts = {"all differ": 30, "alike heads": 10, "alike queries": 30, "alike rows": 1, "alike batches": 15}
    counts |= {"everything": 0, "nothing": 1, "causal": 0, "strictly causal": 5}
    assert len(rows.get("allowed", ())) == counts[name]


def test_a_window_is_causal_where_tokens_come_one_at_a_time() -> None:
    """And what sees a key behind it is not, nor is anything elsewhere."""
    window = torch.ones(6, 6).tril().triu(-2).bool()[:, None].expand(1, 6, 2, 6)
    for keep, causal in (
        (window, True),
        (window.flip(1), False),
        (window | torch.eye(6).roll(1, 1).bool()[:, None], False),
    ):
        found = rows_of(keep, decode=True)
        assert torch.equal(attends(tuple(keep.shape), found), keep) and len(found["allowed"]) == 6
        assert bool(found.get("causal")) == causal and "causal" not in rows_of(keep)


def test_the_float_functions() -> None:
    """What calibration and the float model compute; a row of which nothing takes part is 0, with a gradient."""
    torch.manual_seed(0)
    x = torch.randn(SHAPE, dtype=torch.float64, requires_grad=True)
    mask = torch.rand(2, 1, 1, 7) > 0.5
    mask[1] = False
    out = softmax_where(x, mask, scale=0.3, allowed=("7f", "0f", "70", "55", "01"), hold=3)
    keep = mask & attends(SHAPE, {"allowed": ("7f", "0f", "70", "55", "01"), "hold": 3})
    torch.testing.assert_close(out, by_hand(x.detach() * 0.3, keep))
    out.square().sum().backward()
    assert x.grad is not None and bool(x.grad.isfinite().all()) and not bool(x.grad[1].any())
    q, k, v = (torch.randn(1, 3, 5, 4) for _ in range(3))
    ours = masked_softmax((q @ k.mT).transpose(1, 2), 0.5, causal=True).transpose(1, 2) @ v
    torch.testing.assert_close(ours, F.scaled_dot_product_attention(q, k, v, is_causal=True))


def test_the_gradient_of_the_golden() -> None:
    x = torch.randint(-128, 128, SHAPE).float().requires_grad_()
    a = Arithmetic(
        {"data_in_0": S8, "data_out_0": FixedFormat(12, 12, signed=False)}, attributes={"causal": True, "scale": 0.5}
    )
    weights = torch.randn(SHAPE)
    (golden(a, {"data_in_0": x})["data_out_0"] * weights).sum().backward()
    real = (x.detach().double() / 16).requires_grad_()
    (masked_softmax(real, 0.5, causal=True) * 4096 * weights).sum().backward()
    assert x.grad is not None and real.grad is not None
    torch.testing.assert_close(x.grad.double(), real.grad / 16, rtol=1e-5, atol=1e-5)


def test_a_mask_that_is_too_large_is_refused() -> None:
    shape = (1, 1024, 2, 1024)
    more: dict[str, Any] = {"allowed": ("1",) * 2048, "scale": 1.0}
    a = Arithmetic({"data_in_0": S8, "data_out_0": U8}, attributes=more)
    hardware = OPS[0].hardware
    assert hardware is not None
    with pytest.raises(UnsupportedError, match="stored mask is too large"):
        hardware.build(Request("softmax", a, {"data_in_0": shape}, {"data_in_0": (1,)}))


@pytest.mark.parametrize("lanes", [1, 3, 4, 9])
def test_the_stored_mask(lanes: int) -> None:
    """Beat by beat the bits of the keys of its lanes, 0 behind the last one."""
    allowed = ("1ff", "0", "0a5", "1f0", "10f")
    attributes: dict[str, Any] = {"allowed": allowed, "shapes": {"data_in_0": (1, 5, 1, 9)}}
    attributes["parallelism"] = {"data_in_0": (lanes, 1, 1)}
    attributes["layouts"] = {"data_in_0": Layout.row_major((1, 5, 1, 9))}
    hardware = OPS[0].hardware
    assert hardware is not None
    a = Arithmetic({"data_in_0": S8, "data_out_0": U8}, attributes=attributes)
    stored = hardware.memories(a)["ALLOWED_FILE"]
    wanted = []
    for row in ("111111111", "000000000", "101001010", "000011111", "111100001"):  # key 0 first
        beats = [row[at : at + lanes] for at in range(0, 9, lanes)]
        wanted += [int(beat[::-1], 2) for beat in beats]
    assert stored.words == tuple(wanted) and stored.bits == lanes


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_rows_that_repeat_are_stored_once(heads: int) -> None:
    """Each for as many in turn as are equal, and only as many as there are until all begin again."""
    for length in range(heads, 7, heads):
        for rows in itertools.product(range(2), repeat=length):
            kept, hold = repeated(list(rows), heads)
            assert rows == tuple(kept[i // hold % len(kept)] for i in range(length))
            again = [n for n in range(1, len(kept)) if len(kept) % n == 0 and kept == kept[:n] * (len(kept) // n)]
            assert not again and (hold == 1 if len(set(rows)) == 1 else hold in (1, heads))


@pytest.mark.parametrize("beside", [1, 2, 3])
def test_rows_of_queries_of_a_beat_are_one_word(beside: int) -> None:
    """Bit ``key * beside + query``, for every head by itself; the memory has tiles of lanes of it."""
    queries, heads, keys = 6, 2, 4
    rows = [3, 5, 9, 14, 7, 6, 1, 12, 10, 15, 2, 8]
    attributes = {
        "scale": 1.0,
        "allowed": tuple(f"{row:x}" for row in rows),
        "shapes": {"data_in_0": (1, queries, heads, keys)},
        "layouts": {"data_in_0": SimpleNamespace(beside=beside)},
        "parallelism": {"data_in_0": (2 * beside,)},
    }
    hardware = OPS[0].hardware
    assert hardware is not None
    stored = hardware.memories(Arithmetic({"data_in_0": S8, "data_out_0": U8}, attributes=attributes))["ALLOWED_FILE"]
    wanted = []
    for first in range(0, queries, beside):
        for head in range(heads):
            bits = [rows[(first + query) * heads + head] >> key & 1 for key in range(keys) for query in range(beside)]
            tiles = [bits[at : at + 2 * beside] for at in range(0, len(bits), 2 * beside)]
            wanted += [sum(bit << i for i, bit in enumerate(tile)) for tile in tiles]
    assert list(stored.words) == wanted and stored.bits == 2 * beside
