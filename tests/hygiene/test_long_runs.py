"""Every test that only long runs have stands in its file, and so does what it says proves the same in every run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import CASES, CI, COLLECTED, KEPT, LONG_RUNS, OFTEN, ROOT, SAMPLED


def test_every_one_is_collected(pytestconfig: pytest.Config) -> None:
    """Those of the files that this run looked at; the files and functions of the others are there."""
    found = pytestconfig.stash[COLLECTED]
    files = {name.partition("::")[0] for name in found}
    kept = (f"{function}[{case}]" for function, cases in KEPT.items() for case in cases)
    for name in (*(name for moved in LONG_RUNS for name in moved["tests"]), *kept, *SAMPLED, *CI):
        file, _, rest = name.partition("::")
        if file in files and any(other.startswith(name.partition("[")[0]) for other in found):
            assert name in found or any(other.startswith(f"{name}[") for other in found), name
        else:
            function = rest.partition("[")[0]
            assert re.search(rf"^def {function}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), name


def test_none_is_listed_twice() -> None:
    names = [name for moved in LONG_RUNS for name in moved["tests"]]
    assert len(names) == len(set(names)) and all(moved["stays"] for moved in LONG_RUNS) and all(KEPT.values())
    elsewhere = {function for function in (*names, *KEPT) if "[" not in function}
    assert not elsewhere & SAMPLED.keys() and not KEPT.keys() & {name.partition("[")[0] for name in names}
    assert not elsewhere & {name.partition("[")[0] for name in names if "[" in name}


def test_cases_that_are_sampled(pytestconfig: pytest.Config) -> None:
    """As many of what nothing else makes long as the file says, rounded up, run every time."""
    stayed = [name.partition("[")[0] for name in pytestconfig.stash[OFTEN]]
    for function, every in SAMPLED.items():
        assert every >= 2
        assert stayed.count(function) == -(-pytestconfig.stash[CASES][function] // every), function


@pytest.mark.parametrize("moved", LONG_RUNS, ids=lambda moved: Path(moved["tests"][0].partition("::")[0]).stem)
def test_files_that_stay_are_there(moved: dict[str, str]) -> None:
    for name in re.findall(r"test_\w+\.py", moved["stays"]):
        assert list((ROOT / "tests").rglob(name)), name
