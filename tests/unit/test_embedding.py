"""Embeddings: the table in fractions, ids that are no row, and whole designs."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.catalogue import default_catalogue
from mase_hw.errors import FormatError, MaseHwError, UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.numerics.observing import look_ups
from mase_hw.opdef import Arithmetic
from mase_hw.ops.embedding import sample_table
from tests.unit.oracle import by_fraction

ROWS, SIZE = 11, 3


@pytest.mark.parametrize("rounding", ["HALF_EVEN", "FLOOR"])
def test_golden(rounding: str) -> None:
    """A row of the table, cast once; beyond the table the last row."""
    generator = torch.Generator().manual_seed(1)
    table = torch.randint(-32, 32, (ROWS, SIZE), generator=generator)
    formats = {"data_in_0": FixedFormat(5, 0, False), "weight": FixedFormat(6, 4), "data_out_0": FixedFormat(4, 2)}
    a = Arithmetic(formats, Rounding[rounding], Overflow.WRAP)
    op = default_catalogue()["embedding"]
    assert op.golden is not None
    found = op.golden(a, {"data_in_0": torch.arange(32).float(), "weight": table.float()})["data_out_0"].tolist()
    for code, row in enumerate(found):
        values = [Fraction(int(m), 16) for m in table[min(code, ROWS - 1)]]
        assert row == [by_fraction(v, (4, 2, True), rounding, "WRAP") for v in values]


class Words(nn.Module):
    def __init__(self, places: bool = True) -> None:
        super().__init__()
        self.words = nn.Embedding(ROWS, 5)
        self.places = nn.Embedding(8, 5)
        self.out = nn.Linear(5, 2)
        self.with_places = places

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        if self.with_places:
            x = x + self.places(torch.arange(ids.shape[1], device=ids.device))
        result: Tensor = self.out(x)
        return result


def compiled(path: Path, **hardware: Any) -> Any:
    torch.manual_seed(2)
    ids = torch.randint(0, ROWS, (6, 7))
    return mase_hw.compile(Words().eval(), ids[:1], hardware or None, out=path, calibration=[ids])


@pytest.mark.parametrize("lanes", [1, 2, 5])
def test_a_design_of_ids(lanes: int, tmp_path: Path) -> None:
    """Every row is read; positions are a constant; timing is as predicted."""
    config = {"hardware": {"parallelism": {"words": {"data_out_0": lanes}}}}
    design = compiled(tmp_path / "d", **config)
    ids = torch.arange(14 * 7).reshape(14, 7) % ROWS
    assert str(design.streams["data_in_0"].fmt) == "u4.0"
    for stalls in (None, 0.4):
        result = design.simulate(ids, stalls=stalls, engine="batch")
        assert result.passed and result.frames == 14
    assert "places" not in {node.name for node in design.graph.nodes}


@pytest.mark.parametrize("ids", [[0, ROWS], [-1, 0], [0, 999]])
def test_an_id_that_is_no_row_is_refused(ids: list[int], tmp_path: Path) -> None:
    design = compiled(tmp_path / "d")
    with pytest.raises(FormatError, match="no row of the table") as error:
        design.simulate(torch.tensor([ids * 3 + [1]]), engine="batch")
    assert f"0 to {ROWS - 1}" in str(error.value) and "ids" in str(error.value)
    with pytest.raises(MaseHwError, match="index"):
        mase_hw.compile(Words(False).eval(), torch.tensor([ids]), out=tmp_path / "e")
    assert not (tmp_path / "e").exists()


def test_a_table_that_changes_is_refused(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Embedding(ROWS, 4, max_norm=1.0), nn.Linear(4, 2)).eval()
    with pytest.raises(UnsupportedError, match="max_norm"):
        mase_hw.compile(model, torch.zeros(1, 3, dtype=torch.int64), out=tmp_path / "d")
    assert not (tmp_path / "d").exists()


def test_a_checkpoint_keeps_the_number_of_rows(tmp_path: Path) -> None:
    from mase_hw.ir import MaseGraph

    design = compiled(tmp_path / "d")
    design.graph.export(tmp_path / "kept")
    again = MaseGraph.from_checkpoint(tmp_path / "kept")
    ids = torch.arange(7)[None]
    assert torch.equal(again.model(ids), design.model(ids))
    with pytest.raises(FormatError):
        again.model(ids + 5)


@pytest.mark.parametrize("signed", [False, True])
def test_a_sample_table_has_every_number_of_its_format(signed: bool) -> None:
    table = sample_table(Arithmetic({"data_out_0": FixedFormat(2, 0, signed)}, attributes={"table": (16, 4)}))
    assert set(table.flatten().tolist()) == ({-2, -1, 0, 1} if signed else {0, 1, 2, 3})


def test_a_wrong_bit_of_the_table_and_the_words_that_are_read() -> None:
    """Another table is read as it is stored, and only its rows that ids name."""
    op, rows, size, lanes = default_catalogue()["embedding"], 7, 5, 2
    assert op.hardware is not None and op.hardware.reads is not None
    fmt, ids = FixedFormat(8, 6), torch.tensor([[5, 0, 5]])
    table = torch.arange(-17, 18).reshape(rows, size)
    more = {"parameters": {"weight": table}, "parallelism": {"data_in_0": (1,), "data_out_0": (lanes,)}}
    formats = {"data_in_0": FixedFormat(3, 0, signed=False), "weight": fmt, "data_out_0": fmt}
    (stored,) = op.hardware.memories(Arithmetic(formats, attributes=more)).values()
    at = 5 * 3 + 1  # the third and the fourth number of row 5
    words = [word ^ (1 << 8) if number == at else word for number, word in enumerate(stored.words)]
    golden = op.hardware.reads(Arithmetic(formats), "TABLE_FILE", dataclasses.replace(stored, words=tuple(words)))
    assert golden is not None
    with look_ups() as found:
        out = golden(Arithmetic(formats), {"data_in_0": ids, "weight": table})["data_out_0"]
    wanted = table[ids].clone()
    wanted[0, [0, 2], 3] ^= 1
    assert torch.equal(out.to(torch.int64), wanted)
    assert set(torch.cat(found).tolist()) == {0, 1, 2, 15, 16, 17}
