"""The score in the repository is good, complete, and of these sources, or says of which it is not."""

from __future__ import annotations

import dataclasses
import json
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.rtl import LIBRARY

from . import campaign, score
from .__main__ import main
from .ledger import Outcome
from .mutant import Mutant
from .score import Entry, Score

NAMES = [campaign.name(path) for path in campaign.sources()]


@pytest.fixture(scope="module")
def kept() -> Score:
    if not (campaign.ROOT / score.KEPT).is_file():
        pytest.skip("no campaign has been finished: `make mutation`")
    return score.read(campaign.ROOT / score.KEPT)


@pytest.fixture(scope="module")
def reasons() -> dict[str, dict[str, str]]:
    return score.read_reasons(campaign.ROOT / score.REASONS)


def test_the_kept_score(kept: Score, reasons: dict[str, dict[str, str]]) -> None:
    """Enough mutants of every file, nearly all of them dead, and a reason for each that lives."""
    assert not score.problems(kept, reasons)
    assert set(kept) <= set(NAMES)
    written = json.loads((campaign.ROOT / score.KEPT).read_text(encoding="utf-8"))
    assert written["totals"] == score.totals(kept)
    page = (campaign.ROOT / "docs" / "mutation.md").read_text(encoding="utf-8")
    assert "\n".join(score.lines(kept)) in page, "docs/mutation.md shows another score"
    if changed := score.changed_since(kept, campaign.place, NAMES):
        warnings.warn(f"regress/mutation.json is older than {', '.join(changed)}: `make mutation`", stacklevel=1)


def test_the_kept_mutants_are_those_of_the_sources(kept: Score) -> None:
    """Of every file that did not change since: the same mutants, chosen again."""
    changed = score.changed_since(kept, campaign.place, NAMES)
    for file, (_, entries) in kept.items():
        if file not in changed:
            chosen = campaign.chosen(campaign.place(file))
            assert [m.id for m in chosen] == [entry.id for entry in entries], file


def test_reasons_are_of_mutants(kept: Score, reasons: dict[str, dict[str, str]]) -> None:
    """A reason without its mutant is out of date, unless the file has changed since."""
    changed = score.changed_since(kept, campaign.place, NAMES)
    for file, some in reasons.items():
        known = {m.id for m in campaign.mutants_of(campaign.place(file))}
        assert file in changed or set(some) <= known, file


def test_what_is_killed_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only mutants that survived, and those that were never judged, are judged when nothing else is asked for."""
    path = LIBRARY / "lib/skid_buffer.sv"
    mutants = campaign.chosen(path)
    file, fates = mutants[0].file, ["killed", "refused", "equivalent", "survived"]
    judged = [entry(m.id, fate) for m, fate in zip(mutants, fates, strict=False)]
    kept = tmp_path / "score.json"
    score.write({file: (score.digest_of(path), judged)}, kept, 1)
    asked: list[str] = []

    def judge(some: Sequence[Mutant], *rest: object) -> dict[str, Outcome]:
        asked.extend(m.id for m in some)
        return {m.id: Outcome("killed", "now") for m in some}

    monkeypatch.setattr(campaign, "judge", judge)
    now = campaign.update([path], kept, tmp_path, 1, lambda text: None, alive=True)
    assert asked == [m.id for m in mutants[3:]]
    verdicts = [e.verdict for e in now[file][1]]
    # The reason of the one that was equivalent is not in the repository.
    assert verdicts == ["killed", "refused", "survived", *["killed"] * (len(mutants) - 3)]


def test_what_changed_is_named(tmp_path: Path) -> None:
    """Code, not comments; files that are new or gone."""
    files = ["lib/skid_buffer.sv", "lib/loop_counter.sv", "lib/stream_join.sv"]
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(LIBRARY / file, tmp_path / file)
    judged: Score = {file: (score.digest_of(tmp_path / file), []) for file in files}
    skid, row = (tmp_path / file for file in files[:2])
    skid.write_text(skid.read_text() + "// another comment\n")
    assert score.changed_since(judged, tmp_path.joinpath, files) == []
    row.write_text(row.read_text().replace("endmodule", "  logic more;\nendmodule"))
    assert score.changed_since(judged, tmp_path.joinpath, files) == [files[1]]
    (tmp_path / files[2]).unlink()
    assert score.changed_since(judged, tmp_path.joinpath, files[:2]) == files[1:]
    del judged[files[0]]
    assert score.changed_since(judged, tmp_path.joinpath, files[:2]) == sorted(files)


def test_python_changes_when_its_code_does(tmp_path: Path) -> None:
    path = tmp_path / "golden.py"
    digests = []
    for text in ('"""A."""\nx = 1\n', '"""B."""\n# why\nx  =  1\n', '"""A."""\nx = 2\n'):
        path.write_text(text)
        digests.append(score.digest_of(path))
    assert digests[0] == digests[1] != digests[2]


def entry(id: str, verdict: str, by: str = "x") -> Entry:
    return Entry(id, 1, "constant", "1 -> 2", verdict, by)


def test_a_poor_score_is_refused() -> None:
    """Too few mutants, too many that live, one that lives without a reason, a reason for one that is dead."""
    good: Score = {"a.sv": ("", [entry(f"k{i}", "killed") for i in range(490)] + [entry("s", "survived", "open: why")])}
    good["b.py"] = ("", [entry(f"g{i}", "killed") for i in range(20)] + [entry("e", "equivalent", "equivalent: 0")])
    reasons = {"a.sv": {"s": "open: why"}, "b.py": {"e": "equivalent: 0"}}
    assert score.problems(good, reasons) == []
    totals = score.totals(good)
    assert totals["golden"] == {"killed": 20, "survived": 0, "equivalent": 1, "refused": 0, "percent": 100.0}
    assert totals["all"]["percent"] == round(100 * 510 / 511, 2)
    (found,) = score.problems(good, {**reasons, "a.sv": reasons["a.sv"] | {"k0": "equivalent: it is not"}})
    assert "k0 has a reason to live" in found
    (found,) = score.problems(good, {**reasons, "b.py": {"e": "equivalent: 1"}})
    assert found.startswith("reasons have changed")
    good["a.sv"][1][-1] = entry("s", "survived", "")
    (found,) = score.problems(good, {"b.py": reasons["b.py"]})
    assert found.startswith("a.sv:1: s lives without a reason")
    good["a.sv"][1].extend(entry(f"s{i}", "survived", "open: why") for i in range(10))
    assert any("98.0 % are the least" in problem for problem in score.problems(good, {}))
    few: Score = {"a.sv": good["a.sv"], "b.py": ("", [])}
    few["a.sv"] = ("", few["a.sv"][1][:499])
    assert any("500 are the least" in problem for problem in score.problems(few, {}))


def test_reasons_decide_about_survivors_only() -> None:
    """A new reason makes an equivalent one, a lost one a survivor; what was killed stays killed."""
    judged: Score = {"a.sv": ("", [entry("k", "killed"), entry("s", "survived", ""), entry("e", "equivalent")])}
    now = score.with_reasons(judged, {"a.sv": {"k": "equivalent: no", "s": "equivalent: yes"}})
    assert [(e.verdict, e.by) for e in now["a.sv"][1]] == [
        ("killed", "x"),
        ("equivalent", "equivalent: yes"),
        ("survived", ""),
    ]


def test_a_score_is_read_as_it_was_written(tmp_path: Path) -> None:
    wrote: Score = {"a.sv": ("12", [entry("a", "killed", 'full_rate: "bits"')]), "b.py": ("34", [])}
    score.write(wrote, tmp_path / "score.json", 7)
    assert score.read(tmp_path / "score.json") == wrote
    lines = (tmp_path / "score.json").read_text().splitlines()
    assert sum('"killed", "full' in line for line in lines) == 1, "a mutant a line, so that a difference shows it"


def test_refused_mutants_count_apart() -> None:
    """What is no design proves nothing, for or against."""
    some: Score = {"a.sv": ("", [entry("k", "killed"), entry("r", "refused"), entry("e", "equivalent")])}
    assert score.totals(some)["all"]["percent"] == 100.0
    worse = {"a.sv": ("", [*some["a.sv"][1], dataclasses.replace(some["a.sv"][1][0], verdict="survived")])}
    assert score.totals(worse)["all"]["percent"] == 50.0


def test_a_mutant_can_be_shown(kept: Score, capsys: pytest.CaptureFixture[str]) -> None:
    file, (_, entries) = next((f, part) for f, part in kept.items() if f.endswith("skid_buffer.sv"))
    if score.changed_since({file: kept[file]}, campaign.place, [file]):
        pytest.skip("the file changed since it was judged")
    assert main(["show", entries[0].id]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"--- {file}") and shown.count("\n+") == 2
    assert main(["show", "no such mutant"]) == 2
