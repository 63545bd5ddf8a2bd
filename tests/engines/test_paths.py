"""Folders of any name: umlauts, spaces, quotes, brackets, what shells and Verilator substitute, long ones and links."""

from __future__ import annotations

import pytest
import torch

import mase_hw
from mase_hw.simulate.build.simulator import from_verilator
from mase_hw.synth.synthesise import synthesise

PARTS = (
    "ü 名 [a] 'q' \"d\" $HOME ${PATH} #x %41 {b} &;(c)~*?`e`\\ \u0065\u0301=!+,@^|<>-:",
    "long" * 50,
    " ".join(["way"] * 40),
    "ß" * 100,
)


@pytest.fixture(scope="module")
def design(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    home = tmp_path_factory.mktemp("paths")
    folder = home.joinpath(*PARTS)
    folder.mkdir(parents=True)
    (home / "li nk").symlink_to(folder)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 2))
    return mase_hw.compile(model, (torch.randn(1, 4),), {"top": "tiny"}, out=home / "li nk" / "bü ndle")


@pytest.mark.parametrize("engine", ["cocotb", "fast", "batch"])
def test_every_engine_and_the_report(design: mase_hw.Design, engine: str) -> None:
    counted = engine == "batch"
    found = design.simulate(torch.randn(5, 4), engine=engine, seed=1, stalls=0.2, waves=not counted, coverage=counted)
    assert found.passed and found.frames == 5
    assert (found.result.coverage is not None) == counted
    assert counted or found.result.waves.stat().st_size > 0
    page = design.report(design.path.parent / f"{engine} ü.html")
    assert "tiny" in page.read_text(encoding="utf-8")


def test_synthesis(design: mase_hw.Design) -> None:
    assert synthesise(design, "ecp5").reached


def test_octal_digits_in_what_verilator_writes() -> None:
    """Its own folder is there, whatever the design's is."""
    assert from_verilator(rb'{"a\\303b": "/\303\274/\"q\"/\\\\101\\n"}') == {"a\\303b": '/ü/"q"/\\\\101\\n'}
