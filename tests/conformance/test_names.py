"""The map of the names of MASE and AFE, the module that has them, and the two examples that are written with them."""

from __future__ import annotations

import pkgutil
import runpy
import sys
from pathlib import Path

import pytest

import mase_hw.compat
from scripts.reference_names import entries

EXAMPLES = Path(__file__).parents[2] / "examples"
DOCUMENTS = ("add_metadata", "ir", "afe", "lecture")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_name_of_the_map_exists(document: str) -> None:
    """The map lists names of the documents with ours, each of which exists, and says what differs."""
    rows = entries(document)
    assert len(rows) > 10 and all(differs for _, _, differs in rows)
    for _, ours, _ in rows:
        assert pkgutil.resolve_name(ours) is not None, ours


def test_the_old_names_are_importable_from_one_module() -> None:
    """What is called as in the documents is imported from ``mase_hw.compat``."""
    lists = {document: entries(document) for document in DOCUMENTS}
    theirs = {name for rows in lists.values() for names, _, _ in rows for name in names if name.endswith("_pass")}
    theirs |= {name for document in ("afe", "lecture") for names, _, _ in lists[document] for name in names}
    for name in theirs - {"CompileStep"}:
        assert getattr(mase_hw.compat, name) is not None
    with pytest.raises(AttributeError):
        _ = mase_hw.compat.no_such_name


def run(example: str, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [example, "--out", str(out)])
    runpy.run_path(str(EXAMPLES / example), run_name="__main__")


def test_the_flow_of_the_lecture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Init, common, quantize by type, name and regex_name, hardware metadata, emit, simulate run as in the lecture."""
    run("mase_flow.py", tmp_path / "out", monkeypatch)
    said = capsys.readouterr().out
    for line in (
        "by name: weights {'fc1': [8, 6], 'fc2': [4, 3]}",
        "by regex_name: weights {'fc1': [4, 3], 'fc2': [4, 3]}",
        "by type: weights {'fc1': [8, 6], 'fc2': [8, 6]}",
        "passed: 8 beats compared, 0 mismatches",
    ):
        assert line in said


def test_a_driver_in_the_style_of_afe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Import, record, calibrate, quantise, evaluate, search and dump run as a driver for AFE has them."""
    run("afe_flow.py", tmp_path / "out", monkeypatch)
    said = capsys.readouterr().out
    assert "8 bits: 0.99" in said and "fewest bits: 6" in said and "width: 12 satisfied (searching 2 to 12)" in said
    kinds = {"arrays.npz", "configuration.json", "configuration.yaml", "graph.json", "statistics.json"}
    assert {path.name.removeprefix("net_8.") for path in (tmp_path / "out").glob("net_8.*")} == kinds
