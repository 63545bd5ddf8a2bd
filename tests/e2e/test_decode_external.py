"""Keys and values in external memory: bits and cycles of every token, at the stated memory and at a slower one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mase_hw
from mase_hw.catalogue import default_catalogue
from mase_hw.emit.schedule import predict
from mase_hw.errors import ConfigError, MaseHwError, UnsupportedError
from mase_hw.report.stages import agrees, rebuilt
from mase_hw.report.tokens import token_costs
from mase_hw.simulate.plan import Reset
from tests.parameters.test_external import Slow

CONTEXT, WIDTH, HEADS, GROUPS, IDS = 27, 8, 4, 2, 11
PROMPTS, CHOSEN = [[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8], [2] * 17], 8
STATED = {"external_bytes": 4, "external_latency": 9, "max_parallelism": 2}


class Attention(nn.Module):
    """Two vectors for each key and each value."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, (HEADS + 2 * GROUPS) * 4), nn.Linear(HEADS * 4, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).split((HEADS * 4, GROUPS * 4, GROUPS * 4), -1)
        q, k, v = (each.view(-1, CONTEXT, each.shape[-1] // 4, 4).transpose(1, 2) for each in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return x + self.out(y.transpose(1, 2).reshape(-1, CONTEXT, HEADS * 4))


class Causal(nn.Module):
    """Two layers of attention; the other hardware has next to nothing to do."""

    def __init__(self) -> None:
        super().__init__()
        self.ids, self.places = nn.Embedding(IDS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.layers, self.out = nn.Sequential(Attention(), Attention()), nn.Linear(WIDTH, IDS)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.layers(self.ids(ids) + self.places(torch.arange(CONTEXT))))


def compiled(
    out: Path, cache: str = "external", decode: dict[str, Any] | None = None, **hardware: Any
) -> mase_hw.Design:
    torch.manual_seed(5)
    model = Causal().eval()
    model.out.weight.data *= 4
    sequences = torch.randint(IDS, (16, CONTEXT))
    config = {
        "decode": {"context": CONTEXT, "cache": cache, **(decode or {})},
        "vectors": {"faults": 1, "frames": 3},
        "hardware": {**STATED, **hardware},
    }
    return mase_hw.compile(model, sequences[:1, :3], config, out=out, calibration=[sequences])


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    return compiled(tmp_path_factory.mktemp("decode") / "design")


def test_every_bit_and_cycle(design: mase_hw.Design) -> None:
    """Of two sequences, of a prompt at full rate, and of whole frames one behind the other."""
    caches = design.manifest["caches"]
    assert 3 * caches["block"] < CONTEXT and design.timing["exact"]
    for asked in ({}, {"abort": 7}):
        found = design.generate(PROMPTS, CHOSEN, **asked)
        assert found.result is not None and found.result.mismatches == 0 and found.measured == found.predicted
    entered = [len(prompt) + CHOSEN - 1 for prompt in PROMPTS]
    assert found.measured[1][1:] == design.manifest["decode"]["cycles"][len(PROMPTS[1]) : entered[1]]
    frames = design.simulate(engine="batch", waves=False)
    assert frames.passed and (frames.fill, frames.interval) == (design.timing["fill"], design.timing["interval"])


def test_what_a_token_reads(design: mase_hw.Design) -> None:
    """Rows of all blocks but the last two, for each vector, in words of 32 bits; no token is faster than that."""
    block = design.manifest["caches"]["block"]
    products = [i["parameters"] for i in design.manifest["instances"] if i["module"] == "fixed_matmul"]
    assert len(products) == 4
    bits = sum(HEADS * 4 * p["DATA_IN_1_PRECISION_0"] for p in products)
    costs = token_costs(design.record, default_catalogue())
    assert costs is not None
    for token, read in enumerate(design.manifest["caches"]["read"]):
        assert read * 32 == bits * block * max(token // block - 1, 0)
        assert design.manifest["decode"]["cycles"][token] > costs.slowest[token] >= read
    netlist = rebuilt(design.record, default_catalogue())
    assert netlist is not None and agrees(predict(netlist, default_catalogue()), design.record)


def test_stalls_and_resets(design: mase_hw.Design) -> None:
    found = design.generate(PROMPTS, CHOSEN, stalls=0.4, abort=5)
    assert found.result is not None and found.result.passed
    for at in (Reset(900), Reset(40, "in"), Reset(70, "out")):
        assert design.simulate(engine="batch", waves=False, reset_at=(at,), stalls=0.2).passed


@pytest.mark.slow
def test_stalls_inside(design: mase_hw.Design) -> None:
    assert design.simulate(engine="batch", waves=False, inner_stalls=0.2, stalls=0.2).passed


def test_a_slower_memory(design: mase_hw.Design) -> None:
    """Words, requests, words that are written and their acknowledgements wait: the same bits in more cycles."""
    found = Slow(design).simulate(engine="batch", waves=False, check=False)
    assert found.passed and found.interval is not None and found.interval > 1.1 * design.timing["interval"]
    slow = Slow(design).simulate(engine="batch", waves=False, stalls=0.3, reset_at=(Reset(1700), Reset(30, "out")))
    assert slow.passed


@pytest.mark.slow
def test_as_in_block_ram(design: mase_hw.Design, tmp_path: Path) -> None:
    """Every score, and the cycles of all tokens that read nothing from outside."""
    inside = compiled(tmp_path / "inside", "block_ram")
    ours, theirs = (each.generate(PROMPTS, CHOSEN).result for each in (design, inside))
    assert ours is not None and theirs is not None
    assert np.array_equal(ours.outputs["data_out_0"], theirs.outputs["data_out_0"])
    near = 2 * design.manifest["caches"]["block"]
    assert design.manifest["decode"]["cycles"][:near] == inside.manifest["decode"]["cycles"][:near]


BROKEN = {
    "read before it is stored": ("cache_reader", "&& (!new_q || stored_q[id_q] != '0)", ""),
    "asked for without room": ("cache_reader", "room[id_q] && left_q", "left_q"),
    "asked for too fast": ("cache_reader", "left_q == '0 &&", ""),
    "the next piece": ("cache_reader", "* 32'(Blocks);", "* 32'(Blocks - 1);"),
    "shared once": ("cache_reader", "share_last   = share_q ==", "share_last   = 1'b1 || share_q =="),
    "a block too many": ("cache_reader", "unit_q == blocks_q - BlockW'(1)", "unit_q == blocks_q"),
    "stored early": ("cache_writer", "ends          = sent_q && away_q == '0", "ends          = sent_q"),
    "another place": ("cache_blocks", "unit_last ? 32'(Skip)", "unit_last ? 32'(Skip + 1)"),
    "overwritten": ("cache_blocks", "begun_q || !waits_q[place_q]", "1'b1"),
    "turned": ("cache_blocks", "= {data, row_q};", "= {row_q, data};"),
    "freed early": ("external_cache", "if (block_ends && second_q)", "if (block_ends)"),
    "near too long": ("external_cache", "far = tile < near_q", "far = tile + TileW'(1) < near_q"),
}


LATE = ("external_memory", "%Pending]      <= now_q + 64'(LATENCY)", "%Pending]      <= now_q + 64'(LATENCY + 400)")
"""Words that are written are there much later than stated: only then does a token wait for them."""
WAITS = ("read before it is stored", "stored early")


def changed(design: mase_hw.Design, folder: Path, *changes: tuple[str, str, str]) -> mase_hw.Design:
    """A copy with changes of modules: a text that occurs once, and what stands there instead."""
    shutil.copytree(design.path, folder)
    for module, old, new in changes:
        path = folder / f"rtl/lib/{module}.sv"
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))
    return mase_hw.Design(folder, design.graph, verify=False)


@pytest.mark.slow
def test_words_that_are_there_late(design: mase_hw.Design, tmp_path: Path) -> None:
    """Tokens wait until a block is stored."""
    found = Slow(changed(design, tmp_path / "late", LATE)).simulate(engine="batch", waves=False, check=False)
    assert found.passed and found.interval is not None and found.interval > 2 * design.timing["interval"]


@pytest.mark.slow
@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_module_is_seen(design: mase_hw.Design, fault: str, tmp_path: Path) -> None:
    # Of words of 16 bytes several are in one of memory.
    whole = compiled(tmp_path / "wide", external_bytes=16) if fault == "turned" else design
    broken = changed(whole, tmp_path / "broken", BROKEN[fault], *[LATE] * (fault in WAITS))
    with pytest.raises(MaseHwError):
        if fault not in WAITS:
            broken.simulate(engine="batch", waves=False, diagnose=False)
        Slow(broken).simulate(engine="batch", waves=False, diagnose=False)


def test_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="stay on the chip: two blocks of rows") as error:
        compiled(tmp_path / "far", external_latency=4000)
    assert "or faster memory" in str(error.value)
    with pytest.raises(ConfigError, match="those of one sequence, whose tokens a host gives"):
        compiled(tmp_path / "slots", decode={"slots": 2})
    with pytest.raises(UnsupportedError, match="with parameters in ROM"):
        compiled(tmp_path / "ram", parameters_at={"out.weight": "ram"})
    with pytest.raises(ConfigError, match="nothing of this model keeps keys and values"):
        config = {"decode": {"context": 6, "cache": "external"}}
        mase_hw.compile(nn.Linear(4, 4), torch.randn(1, 6, 4), config, out=tmp_path / "none")
