"""What a report says is what is stored, or what the latency model gives; bad input leaves nothing behind."""

from __future__ import annotations

import html
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

import mase_hw
from mase_hw import cli
from mase_hw.beat_times import WORKING
from mase_hw.catalogue import default_catalogue
from mase_hw.design.design import Design
from mase_hw.design.saved import attach_saved
from mase_hw.emit.estimate import estimate
from mase_hw.emit.schedule import predict
from mase_hw.errors import ConfigError, EmitError, SimulationError
from mase_hw.ir.draw import render
from mase_hw.report.page import _data, bundle_facts, write_report
from mase_hw.report.stages import agrees, rebuilt, timeline_of
from mase_hw.simulate.record import VERDICTS, verdicts


def text_of(page: Path) -> str:
    """What a reader sees of it: without tags, styles and scripts."""
    found = re.sub(r"<(style|script).*?</\1>", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", found)).split())


@pytest.fixture(scope="module")
def page(design: Design, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return design.report(tmp_path_factory.mktemp("page") / "report.html")


def test_figures_are_those_of_the_bundle(design: Design, page: Path) -> None:
    said, manifest = text_of(page), design.manifest
    assert f"{manifest['timing']['interval']:,} cycles per frame" in said
    area = estimate(design.record)
    assert f"{area['lut']:,} LUTs, estimated" in said
    for instance in manifest["instances"]:
        assert instance["name"] in said
    for memory in manifest["memories"]:
        assert memory["file"] in said
    multipliers = sum(i.get("multipliers") or 0 for i in manifest["instances"])
    assert f"{multipliers:,} multipliers" in said
    assert manifest["digest"] in said
    assert design.quantisation is not None
    assert f"{design.quantisation.outputs[0]:.1f} dB" in said


def test_what_was_proven_is_what_was_simulated(design: Design, page: Path) -> None:
    said = text_of(page)
    played = verdicts(design.path.with_name(f"{design.path.name}.work") / VERDICTS)
    assert [bool(each["stalls"]) for each in played] == [True, False]
    assert all(each["passed"] and each["beats_compared"] > 0 for each in played)
    beats = sum(each["beats_compared"] for each in played)
    assert f"{beats:,} beats compared, all equal" in said
    assert played[1]["measured"]["interval"] == design.timing["interval"]
    assert "with the engine cocotb passed" in said and "No simulation with stalls at its ports" not in said
    assert "It was never synthesised" in said


def test_queues_show_the_highest_level_seen(design: Design) -> None:
    found = {each["name"]: each for each in bundle_facts(design.path)["buffers"]}
    assert design.manifest["fifos"], "the design has a FIFO between fork and join"
    for fifo in design.manifest["fifos"]:
        seen = found[fifo["instance"]]
        assert seen["depth"] == fifo["depth"] and 0 < seen["peak"] <= fifo["depth"]


def test_the_netlist_of_a_bundle_is_that_of_its_graph(design: Design) -> None:
    assert design.graph is not None
    netlist = rebuilt(design.record, default_catalogue())
    assert netlist is not None
    schedule, theirs = predict(netlist, default_catalogue()), design.graph.meta["schedule"]
    assert agrees(schedule, design.record)
    assert {n: t for n, t in schedule.instances.items()} == theirs.instances


def test_stages_work_as_long_as_they_have_steps(design: Design) -> None:
    """In an interval of the steady state every module does the steps of a frame, no more and no less."""
    netlist = rebuilt(design.record, default_catalogue())
    assert netlist is not None
    timeline = timeline_of(netlist, default_catalogue())
    assert timeline is not None
    found = {stage["instance"]: stage for stage in bundle_facts(design.path)["stages"]}
    interval = design.timing["interval"]
    for name, part in timeline.parts.items():
        if not part.stages:
            continue
        longest = max(part.stages, key=lambda steps: steps.steps)
        frames = part.beats // part.stages[0].beats_in[0]
        for key, total in (("steady", interval), ("first", design.timing["last"] + 1)):
            runs = found[name][key]
            assert sum(length for _, _, length in runs) == total
            works = sum(length for state, _, length in runs if state == WORKING)
            assert works == longest.steps * frames, (name, key)
    assert any(stage["shares"][0] == 1.0 for stage in found.values()), "the slowest stage never waits"


def test_without_the_model_it_shows_what_it_can(design: Design, page: Path, tmp_path: Path) -> None:
    alone = mase_hw.load_design(design.path).report(tmp_path / "alone.html")
    said = text_of(alone)
    assert "needs the model" in said and "Steady state, one interval" in said
    # The picture is that of the bundle, and of the graph that it was compiled from.
    own, with_model = bundle_facts(design.path), bundle_facts(design.path, design.graph)
    assert design.graph is not None and own["picture"] == with_model["picture"] == render(design.graph)
    assert own["picture"] == (design.path / "report/network.svg").read_text() and "the picture" not in said
    shown = {name: each["instances"] for name, each in with_model["nodes"].items() if each["instances"]}
    assert {name: each["instances"] for name, each in own["nodes"].items()} == shown and shown
    network = re.compile(r'<div class="wide net">.*?</div>', re.DOTALL)
    drawn = [network.findall(each.read_text(encoding="utf-8")) for each in (alone, page)]
    assert drawn[0] == drawn[1] and "node-first" in drawn[0][0]
    assert bundle_facts(design.path)["stages"] == bundle_facts(design.path, design.graph)["stages"]


def test_same_report_twice(design: Design, page: Path, tmp_path: Path) -> None:
    assert design.report(tmp_path / "again.html").read_bytes() == page.read_bytes()


def test_no_network(page: Path) -> None:
    source = page.read_text(encoding="utf-8")
    # Names of XML namespaces are no addresses that a browser opens.
    found = re.findall(r"(?:src|href|action)\s*=\s*\"(?!#|data:)[^\"]*|url\((?!#)[^)]*|@import[^;]*", source)
    assert not found
    assert "fetch(" not in source and "XMLHttpRequest" not in source


@pytest.mark.usefixtures("without_pictures")
def test_comparison(design: Design, other: Design, tmp_path: Path) -> None:
    said = text_of(design.report(tmp_path / "against.html", against=other.path))
    ours, theirs = design.timing["interval"], other.timing["interval"]
    assert ours < theirs
    assert f"cycles per frame {ours:,} {theirs:,} {ours - theirs:+,}" in said
    assert "lanes of data_in_0" in said
    same = text_of(design.report(tmp_path / "same.html", against=design.path))
    count = len(design.manifest["instances"])
    assert f"All {count} instances are the same" in same


def failed(design: Design, tmp_path: Path) -> Path:
    """The bundle, whose record says that it failed: simulated with a changed weight."""
    folder = tmp_path / "broken"
    shutil.copytree(design.path, folder)
    # The simulator of the design itself: it reads its weights when it starts.
    (tmp_path / "runtime-cache").symlink_to(design.path.with_name("runtime-cache"), target_is_directory=True)
    memory = folder / next(m["file"] for m in design.manifest["memories"] if "last_weight" in m["file"])
    lines = memory.read_text().splitlines()
    good = memory.read_text()
    memory.write_text("\n".join([f"{int(lines[0], 16) ^ 0x7F:0{len(lines[0])}x}", *lines[1:]]) + "\n")
    with pytest.raises(SimulationError):
        Design(folder, verify=False).simulate(engine="batch", diagnose=False, waves=False)
    memory.write_text(good)
    return folder


@pytest.mark.usefixtures("without_pictures")
def test_failures_come_first(design: Design, tmp_path: Path) -> None:
    folder = failed(design, tmp_path)
    said = text_of(write_report(folder))
    assert "a simulation FAILED" in said
    assert said.index("What went wrong") < said.index("cycles to the first result")
    assert "expected" in said and "data_out_0: frame" in said


@pytest.mark.usefixtures("without_pictures")
def test_simulations_of_another_bundle_are_not_shown(design: Design, other: Design, tmp_path: Path) -> None:
    work = design.path.with_name(f"{design.path.name}.work")
    found = bundle_facts(other.path, work=work)
    assert not found["simulations"]
    assert any("of another bundle" in text for text in found["missing"])
    assert "never simulated" in text_of(write_report(other.path, tmp_path / "x.html", work=work))


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"version": 9, "verdicts": []}', '{"version": 1, "verdicts": [3]}']
)
def test_a_damaged_record_is_no_record(design: Design, tmp_path: Path, content: str) -> None:
    (tmp_path / VERDICTS).write_text(content)
    assert bundle_facts(design.path, work=tmp_path)["simulations"] == []


def test_names_are_escaped(design: Design, tmp_path: Path) -> None:
    folder = tmp_path / "<img src=x onerror=alert(1)>&'\""
    shutil.copytree(design.path, folder)
    source = write_report(folder, tmp_path / "escaped.html", graph=design.graph).read_text(encoding="utf-8")
    assert "<img" not in source and "&lt;img" in source


def test_data_cannot_end_the_script() -> None:
    found: dict[str, Any] = {"a": "</script><b>&"}
    source = _data(found)
    assert "<" not in source and "&" not in source and json.loads(source) == found


def _listing(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def test_bundle_of_another_version(design: Design, tmp_path: Path) -> None:
    folder = tmp_path / "older"
    shutil.copytree(design.path, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "format_version": 0}))
    before = _listing(tmp_path)
    with pytest.raises(EmitError, match="another format version"):
        write_report(folder)
    with pytest.raises(EmitError, match="another format version"):
        write_report(design.path, tmp_path / "x.html", against=folder)
    assert _listing(tmp_path) == before


def test_modules_that_are_not_known(design: Design, tmp_path: Path) -> None:
    """A bundle whose modules are those of a custom op, or of another version: no timeline, and the rest is there."""
    first, *others = design.record.instances
    strange = msgspec.structs.replace(first, module="users_own")
    manifest = msgspec.structs.replace(design.record, instances=(strange, *others))
    assert rebuilt(manifest, default_catalogue()) is None


@pytest.mark.usefixtures("without_pictures")
def test_places_that_cannot_be_written(design: Design, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(EmitError, match="cannot be written"):
        design.report(tmp_path / "file" / "report.html")
    with pytest.raises(ConfigError, match="in the bundle"):
        design.report(design.path / "report.html")
    with pytest.raises(ConfigError, match="there is a folder"):
        design.report(tmp_path)
    assert [path.name for path in _listing(tmp_path)] == ["file"] and (tmp_path / "file").read_text() == "kept"
    assert not (design.path / "report.html").exists()


@pytest.mark.usefixtures("without_pictures")
def test_nothing_is_half_written(design: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = design.report(tmp_path / "report.html")
    before = target.read_bytes()

    def full(self: Path, *_: Any, **__: Any) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(EmitError, match="No space left"):
        design.report(target)
    assert target.read_bytes() == before and _listing(tmp_path) == [target]


def test_without_matplotlib(design: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match=r"pip install 'mase-hw\[plot\]'"):
        design.report(tmp_path / "x.html")
    assert not _listing(tmp_path)


def test_command(design: Design, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(design.path), "--out", str(tmp_path / "x.html")]) == cli.OK
    assert (tmp_path / "x.html").is_file() and "x.html" in capsys.readouterr().out
    assert cli.main(["report", str(design.path), "--json"]) == cli.OK
    said = json.loads(capsys.readouterr().out)
    assert said["timing"]["interval"] == design.timing["interval"] and said["stages"]
    assert cli.main(["report", str(tmp_path)]) == cli.UNUSABLE
    assert cli.main(["report", str(design.path), "--config", "net.toml"]) == cli.UNUSABLE


def test_compile_writes_it_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n\ndef build():\n    return torch.nn.Linear(4, 3), torch.rand(1, 4), [torch.rand(8, 4)]\n"
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["compile", "net.py:build", "--out", "made", "--report"]) == cli.OK
    said = text_of(tmp_path / "made.report.html")
    assert "never simulated" in said and "signal-to-noise" in said
    again = ["report", "made", "--model", "net.py:build", "--out", "again.html"]
    assert cli.main(again) == cli.OK, "its weights are drawn with the same seed in every call"


TRAINED = """
import time
import torch

def build():
    torch.manual_seed(time.time_ns())
    print("trained")
    return torch.nn.Linear(4, 3), torch.rand(1, 4), [torch.rand(8, 4)], torch.rand(5, 4)
"""


def test_a_function_that_trains_runs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it gave is kept beside the bundle, and the next bundle of that name does not take it for its own."""
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(TRAINED)
    compiling = ["compile", "net.py:build", "--out", "made"]
    assert cli.main([*compiling, "--save-model"]) == cli.OK
    assert cli.main(["report", "made", "--json"]) == cli.OK
    said = capsys.readouterr()
    assert said.out.count("trained") == 1 and "the model behind it" in said.err
    assert json.loads(said.out[said.out.index("\n{") :])["quantisation"]
    assert cli.main(["report", "made", "--model", "net.py:build"]) == cli.UNUSABLE
    assert "does not give the hardware" in capsys.readouterr().err
    design = mase_hw.load_design("made")
    attach_saved(design, print)
    given, expected = design.vectors()
    steps = {name: 2.0**-stream.fmt.frac_width for name, stream in design.streams.items()}
    outputs = design.model(torch.as_tensor(given["data_in_0"]).float() * steps["data_in_0"])
    assert torch.equal(outputs / steps["data_out_0"], torch.as_tensor(expected["data_out_0"]).float())

    assert cli.main(compiling) == cli.OK
    assert cli.main(["report", "made", "--json"]) == cli.OK
    assert "is of another bundle, so it is not used" in capsys.readouterr().err
    Path("made.model.mz").unlink()
    assert cli.main([*compiling, "--save-model"]) == cli.UNUSABLE
    assert "a file is in the place of the model" in capsys.readouterr().err
