"""The runner: what passes, what fails, what is run again, what is compared, and that nothing is lost."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mase_hw.errors import ConfigError, EmitError
from mase_hw.host.locks import locked
from mase_hw.host.pools import LocalPool
from mase_hw.regress.regress import brief
from tests.regress.conftest import RELU, Runner, network

GOOD = network(
    "good", "good", seeds="[0, 1]", configs="{ default = { quantize = { default = { config = { bias_width = 8 } } } } }"
)


def document(tmp_path: Path) -> dict[str, object]:
    loaded: dict[str, object] = json.loads((tmp_path / "out" / "results.json").read_text())
    return loaded


class Balanced(HTMLParser):
    """Counts tags that were opened and not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "input", "link", "img", "br"}:
            self.open.append(tag)
        self.foreign += [v or "" for k, v in attrs if k in {"src", "href"} and "//" in (v or "")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_html(text: str) -> None:
    parser = Balanced()
    parser.feed(text)
    assert not parser.open and not parser.foreign, "whole, and without any other file"


def test_pass_baseline_and_regression(runner: Runner, tmp_path: Path) -> None:
    """One story: no baseline, a new one, the same again, then a figure that was better before."""
    first = runner(RELU, GOOD)
    assert first.passed and not first.baseline and len(first.results) == 3
    assert all(r["compared"] > 0 and r["figures"]["cycles"] > 0 for r in first.results)
    figures = next(r["figures"] for r in first.results if r["job"].startswith("net.good"))
    assert set(figures) == {"fill", "interval", "cycles", "multipliers", "memory_bits"}
    assert figures["multipliers"] == 12 and figures["memory_bits"] == 12 * 8 + 3 * 8
    one, two = (r for r in first.results if r["job"].startswith("net.good"))
    assert one["folder"] != two["folder"] and one["build"] == two["build"]
    beats = [(tmp_path / "out" / r["folder"] / "beats" / "data_in_0.bin").read_bytes() for r in (one, two)]
    assert beats[0] != beats[1], "every seed has data of its own"
    assert not any((tmp_path / "out" / r["folder"] / "dump.fst").exists() for r in (one, two))

    assert runner(RELU, GOOD, update_baseline=True).passed
    baseline = tmp_path / "baseline.json"
    committed = json.loads(baseline.read_text())
    assert set(committed["small"]) == {r["job"] for r in first.results}

    original = json.loads(json.dumps(committed["small"]))
    committed["small"][one["job"]]["interval"] -= 1
    committed["small"][one["job"]]["cycles"] += 5
    committed["small"]["op.gone"] = {"cycles": 3}
    del committed["small"][two["job"]]
    baseline.write_text(json.dumps(committed))
    report = runner(RELU, GOOD)
    verdicts = {(d.job, d.figure): d.verdict for d in report.differences}
    assert verdicts == {
        (one["job"], "interval"): "worse",
        (one["job"], "cycles"): "better",
        (two["job"], ""): "new",
        ("op.gone", ""): "gone",
    }
    assert not report.passed and not report.failures and len(report.regressions) == 2 and len(report.gains) == 1
    assert document(tmp_path)["passed"] is False
    quality = ET.parse(tmp_path / "out" / "junit.xml").getroot()[1]
    assert (quality.get("tests"), quality.get("failures")) == ("4", "3")
    page = (tmp_path / "out" / "report.html").read_text()
    check_html(page)
    assert "FAILED" in page and "worse" in page

    # A gain alone fails as well, until it is recorded.
    gained = {job: dict(figures) for job, figures in json.loads(json.dumps(original)).items()}
    gained[one["job"]]["memory_bits"] += 1
    baseline.write_text(json.dumps({"small": gained}))
    report = runner(RELU, GOOD, failed=True)
    assert [(d.figure, d.verdict) for d in report.differences] == [("memory_bits", "better")] and not report.passed
    assert runner(RELU, GOOD, failed=True, update_baseline=True).passed
    assert json.loads(baseline.read_text())["small"] == original and runner(RELU, GOOD, failed=True).passed

    # Jobs that are chosen by name alone: of the others no figure is compared, and none is lost.
    wrong = {job: {**figures, "cycles": figures["cycles"] + 1} for job, figures in original.items()}
    baseline.write_text(json.dumps({"small": wrong}))
    chosen = runner(RELU, GOOD, only="op.relu.*", update_baseline=True)
    relu = [r["job"] for r in chosen.results]
    assert relu and all(job.startswith("op.relu.") for job in relu) and len(relu) < len(original)
    kept = {job: (original if job in relu else wrong)[job] for job in original}
    assert json.loads(baseline.read_text())["small"] == kept and chosen.passed
    with pytest.raises(ConfigError, match=r"(?s)no job of the matrix has such a name.*op\.gelu"):
        runner(RELU, GOOD, only="op.gelu*")


def test_failures_and_rerun(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = network("broken", "broken")
    report = runner(GOOD, broken)
    (failure,) = report.failures
    assert not report.passed and failure["status"] == "error" and "cannot be made" in failure["message"]
    root = ET.parse(tmp_path / "out" / "junit.xml").getroot()
    assert (root[0].get("tests"), root[0].get("errors")) == ("3", "1")
    page = (tmp_path / "out" / "report.html").read_text()
    check_html(page)
    assert "&lt;at all&gt;" in page and "<at all>" not in page
    with pytest.raises(ConfigError, match=r"(?s)not updated.*net\.broken"):
        runner(GOOD, broken, update_baseline=True)
    assert "cannot be made" in (tmp_path / "out" / "report.html").read_text(), "the run is reported all the same"

    again = runner(GOOD, broken, failed=True)
    assert len(again.kept) == 2 and [r["job"] for r in again.failures] == [failure["job"]] and not again.passed
    victim = tmp_path / "out" / "runs" / report.results[0]["job"] / "result.json"
    victim.write_text(victim.read_text()[:40])
    once_more = runner(GOOD, failed=True)
    assert len(once_more.kept) == 1, "half a result is none"
    assert once_more.passed
    waves = [r["waves"] for r in once_more.results]
    assert sorted(w is not None for w in waves) == [False, True], "what was run again has waves"

    monkeypatch.setattr("mase_hw.regress.regress.fingerprint", lambda jobs: "other sources")
    outdated = runner(GOOD, failed=True)
    assert len(outdated.kept) == len(outdated.outdated) == 2 and not outdated.passed
    assert "Run the whole matrix" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("how", ["once", pytest.param("always", marks=pytest.mark.slow)])
def test_a_worker_is_killed(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """The pool breaks as a whole; every other job still has its own result."""
    trap = tmp_path / "trap"
    trap.write_text(how)
    monkeypatch.setenv("REGRESS_DEADLY", str(trap))
    report = runner(network("deadly", "deadly"), RELU, GOOD, pool=LocalPool(2))
    assert [r["job"].split(".")[1] for r in report.results] == ["relu", "deadly", "good", "good"]
    assert report.passed == (how == "once")
    lost = [(r["job"], r["status"]) for r in report.failures]
    assert lost == ([] if how == "once" else [("net.deadly.default.default.cocotb.seed0", "lost")])
    if how == "always":
        assert "no result after 3 attempts" in report.failures[0]["message"]


def test_no_reports_of_an_earlier_regression(runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A regression that is interrupted leaves no report that says passed."""
    assert runner(RELU).passed

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mase_hw.regress.regress.run_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runner(RELU)
    assert not {"results.json", "junit.xml", "report.html"} & {p.name for p in (tmp_path / "out").iterdir()}


def test_named_stalls(runner: Runner) -> None:
    """Long stalls take their time, and more than a run at full rate would be given."""
    report = runner(RELU + 'stalls = ["none", "long"]\n')
    assert report.passed, [r["message"] for r in report.failures]
    cycles = {str(r["stalls"]): r["figures"]["cycles"] for r in report.results}
    assert cycles["long"] > 5 * cycles["0.0"]


def test_not_a_baseline(runner: Runner, tmp_path: Path) -> None:
    for text in ("{", "[]", '{"small": {"op": {"cycles": "few"}}}'):
        (tmp_path / "baseline.json").write_text(text)
        with pytest.raises(ConfigError, match="baseline"):
            runner(RELU)


def test_committed_baseline_covers_the_matrices() -> None:
    from mase_hw.regress.matrix import expand, load_matrix
    from mase_hw.regress.report import read_baseline

    folder = Path(__file__).resolve().parents[2] / "regress"
    for name in ("smoke", "full"):
        known = read_baseline(folder / "baseline.json", name)
        assert known is not None
        assert set(known) == {job.name for job in expand(load_matrix(folder / f"{name}.toml"), folder)}


def test_named_baseline_must_exist(runner: Runner, tmp_path: Path) -> None:
    """A name with a typo would otherwise pass with nothing compared."""
    with pytest.raises(ConfigError, match=r"(?s)no such baseline.*bsaeline\.json.*--update-baseline"):
        runner(RELU, baseline=tmp_path / "bsaeline.json")
    assert not (tmp_path / "out" / "runs").exists()


def test_one_regression_in_a_folder(runner: Runner, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "report.html").write_text("of the one that runs")
    with (
        locked(out / ".lock", "the folder"),
        pytest.raises(EmitError, match="another regression runs in this folder"),
    ):
        runner(RELU)
    assert (out / "report.html").exists()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("", ""),
        ("one line\n", "one line"),
        ("there is no such file\n  field: MODEL\n  got: a.py:f", "there is no such file (got: a.py:f)"),
        ("1 problem(s):\n  quantize.defalt: unknown key\n  where: x", "1 problem(s): quantize.defalt: unknown key"),
        ("Traceback (most recent call last):\n  File ...\nValueError: no", "ValueError: no"),
        ("hangs\n  what to do: nothing", "hangs"),
    ],
)
def test_brief(message: str, expected: str) -> None:
    assert brief(message) == expected
