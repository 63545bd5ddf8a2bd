"""The energy of a bundle is on its page, and that of another one is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mase_hw.design.design import Design
from mase_hw.report.page import bundle_facts, write_report
from mase_hw.synth.power import BASIS, Power, Row

from .test_report import text_of


@pytest.mark.usefixtures("without_pictures")
def test_energy_of_this_very_bundle(design: Design, other: Design, tmp_path: Path) -> None:
    rows = [Row("u_first", "fixed_linear", 900.0, 400.0, 50.0, 25.0, 10.0, 0.5), Row("", "top", 5, 20, 0, 0, 1, 1.0)]
    for number, (name, made) in enumerate({"xc7": design, "ecp5": other}.items()):
        folder = tmp_path / "work" / "synth" / name
        folder.mkdir(parents=True)
        found = Power("top", name, "tools", made.manifest["digest"], 4, 40 + number, rows)
        (folder / "power.json").write_text(json.dumps(found.to_json()))
    (tmp_path / "work" / "synth" / "ice40").mkdir()
    (tmp_path / "work" / "synth" / "ice40" / "power.json").write_text("{")
    (shown,) = bundle_facts(design.path, work=tmp_path / "work")["energy"]
    assert shown["target"] == "xc7" and shown["total"] == 1400
    text = text_of(write_report(design.path, tmp_path / "page.html", work=tmp_path / "work"))
    assert "Energy of a frame on xc7" in text and "Energy of a frame on ecp5" not in text
    assert "1,400 units a frame, over 4 frames; 42 in a cycle with nothing to do" in text
    assert "u_first fixed_linear 900 400 50 25 98% (top) top 5 20 0 0 1.79%" in text and BASIS[1:] in text
    bare = write_report(design.path, tmp_path / "bare.html", work=tmp_path / "none")
    assert "Energy of a frame" not in text_of(bare)
