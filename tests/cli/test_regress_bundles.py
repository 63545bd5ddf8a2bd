"""``mase-hw regress`` on a folder of bundles: every bundle against its own vectors, at full rate and with stalls."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import mase_hw
from mase_hw import cli
from tests.cli.conftest import Inline, Place


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs run in this process."""
    monkeypatch.setattr("mase_hw.host.pools.LocalPool", Inline)


def regress(folder: Path, out: Path, *words: str) -> int:
    return cli.main(["regress", str(folder), "--out", str(out), "--jobs", "1", *words])


def test_a_folder(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    """Two jobs a bundle, in JUnit; the interval is the predicted one; the baseline is kept in the folder."""
    folder = place.bundle.parent
    try:
        assert regress(folder, place.runs, "--update-baseline") == cli.OK
        root = ET.parse(place.runs / "junit.xml").getroot()
        names = [case.get("name") for case in root.iter("testcase")]
        assert names == ["bundle.net.batch.seed0", "bundle.net.batch.seed0.stalls0.3"]
        assert not list(root.iter("failure")) and not list(root.iter("error"))
        design = mase_hw.load_design(place.bundle)
        figures = json.loads((folder / "baseline.json").read_text())["designs"]
        assert figures[names[0]]["interval"] == design.timing["interval"]
        assert figures[names[0]]["multipliers"] == sum(i.get("multipliers", 0) for i in design.manifest["instances"])
        assert regress(folder, place.runs, "--failed") == cli.OK
        assert "0 jobs to run, 2 passed earlier" in capfd.readouterr().out
        worse = {name: {**each, "interval": each.get("interval", 9) - 1} for name, each in figures.items()}
        (folder / "baseline.json").write_text(json.dumps({"designs": worse}))
        assert regress(folder, place.runs, "--failed") == cli.FAILED
        assert "worse" in capfd.readouterr().out
    finally:
        (folder / "baseline.json").unlink(missing_ok=True)


def test_bundles_that_are_wrong(place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One that was changed, one of another version, one without vectors' file: each fails, and says why."""
    for name in ("changed", "older", "torn"):
        shutil.copytree(place.bundle, tmp_path / "all" / name)
    manifest = json.loads((place.bundle / "manifest.json").read_text())
    memory = tmp_path / "all" / "changed" / manifest["memories"][0]["file"]
    memory.write_text(memory.read_text().replace("0", "1", 1))
    (tmp_path / "all" / "older" / "manifest.json").write_text(json.dumps({**manifest, "format_version": 0}))
    (tmp_path / "all" / "torn" / manifest["vectors"]["files"]["data_in_0"]).unlink()
    assert regress(tmp_path / "all", tmp_path / "out") == cli.FAILED
    cases = {c.get("name"): c for c in ET.parse(tmp_path / "out" / "junit.xml").getroot().iter("testcase")}
    for name, why in (("changed", "changed after emission"), ("older", "another format version"), ("torn", "missing")):
        problem = cases[f"bundle.{name}.batch.seed0"].find("error")
        assert problem is not None and why in (problem.text or "")


def test_a_matrix_of_bundles(place: Place, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Engines, seeds and stalls of one's own, in a matrix; a pattern that matches nothing is refused."""
    matrix = tmp_path / "mine.toml"
    text = f'name = "mine"\n[[bundle]]\npath = "{place.bundle.parent}/n*"\nengines = ["batch"]\nseeds = [3]\n'
    matrix.write_text(text)
    assert regress(matrix, place.runs) == cli.OK
    assert "passed bundle.net.batch.seed3" in capfd.readouterr().out
    matrix.write_text(text.replace("/n*", "/x*"))
    assert regress(matrix, place.runs) == cli.UNUSABLE
    (tmp_path / "empty").mkdir()
    assert regress(tmp_path / "empty", tmp_path / "out") == cli.UNUSABLE
    assert "there are no bundles" in capfd.readouterr().err
