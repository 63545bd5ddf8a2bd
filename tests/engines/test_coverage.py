"""Coverage says what a run reached: counted by hand on a small module, and refused when a file is not whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mase_hw.errors import ConfigError, ResultsError
from mase_hw.simulate.arguments import check
from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.coverage import FILE, read_coverage
from mase_hw.simulate.plan import Stalls
from tests.engines.conftest import Builder, play
from tests.sim.conftest import slice_dut


@pytest.fixture(scope="module")
def built(builder: Builder) -> Built:
    return builder("batch", slice_dut(), "coverage", coverage=True)


def test_counts(built: Built, tmp_path: Path) -> None:
    """Changes of the handshake and of every data bit, counted again from the records of the run."""
    result = play("batch", built, tmp_path, stalls=Stalls.random(0.5, 0.5)).raise_on_failure()
    assert result.coverage is not None
    counts = {(p.kind, p.what): n for p, n in result.coverage.counts.items()}
    offered, taken = result.presented["data_out_0"], result.accepted["data_out_0"]
    gaps = 1 + int((offered[1:] != taken[:-1] + 1).sum())
    assert counts["toggle", "full:0->1"] == counts["toggle", "data_out_0_valid:0->1"] == gaps
    bits = (result.outputs["data_out_0"][..., None] >> np.arange(8)) & 1
    ups = ((bits[:-1] == 0) & (bits[1:] == 1)).sum(axis=0)
    for lane, bit in np.ndindex(2, 8):
        # One more if what the register held by chance before the first beat was the other value.
        assert counts["toggle", f"data[{lane}][{bit}]:0->1"] - ups[lane, bit] in (0, 1)
    assert counts["toggle", "stuck:0->1"] == 0 and any(p.what == "stuck:0->1" for p in result.coverage.missed("toggle"))


def test_report(built: Built, tmp_path: Path) -> None:
    result = play("batch", built, tmp_path).raise_on_failure()
    assert result.coverage is not None and result.coverage.modules == ["faulty_slice"]
    for kind in ("line", "branch", "toggle"):
        hit, total = result.coverage.share(kind)
        assert 0 < hit <= total and len(result.coverage.missed(kind)) == total - hit
        assert result.to_json()["coverage"]["faulty_slice"][kind] == {"hit": hit, "points": total}
        assert kind != "toggle" or hit < total
        assert f"{hit:7} of {total:5}" in result.report()


def test_shares_are_added(built: Built, tmp_path: Path) -> None:
    whole, shared = play("batch", built, tmp_path / "a").coverage, play("batch", built, tmp_path / "b", jobs=2).coverage
    assert whole is not None and shared is not None
    assert set(whole.counts) == set(shared.counts) and sum(shared.counts.values()) > 0
    assert not (tmp_path / "b" / FILE).exists() and (tmp_path / "b" / "parts" / "1" / FILE).exists()


def test_files_that_are_not_whole(built: Built, tmp_path: Path) -> None:
    play("batch", built, tmp_path).raise_on_failure()
    text = (tmp_path / FILE).read_text()
    for damaged in ("", text[:30], text[: len(text) // 2], text.replace("# SystemC", "# Other"), text + "C '' 3\n"):
        (tmp_path / FILE).write_text(damaged)
        with pytest.raises(ResultsError, match="coverage"):
            read_coverage([tmp_path / FILE])
    (tmp_path / FILE).unlink()
    with pytest.raises(ResultsError, match="coverage"):
        read_coverage([tmp_path / FILE])


def test_only_the_batch_engine(built: Built, builder: Builder, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="counts no coverage"):
        check(tmp_path / "bundle", engine="cocotb", coverage=True)
    plain = builder("batch", slice_dut(), "faulty_slice")
    assert not plain.coverage and play("batch", plain, tmp_path).coverage is None
