"""Every claim stands on its page, and every test that holds one exists and is run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.reference_claims import Claim, read
from tests.conftest import COLLECTED
from tests.docs.pages import PAGES, ROOT, prose

CLAIMS = read()
# Pages that explain words or decisions and list what is on other pages promise nothing of their own.
WITHOUT = {"claims.md", *(p.name for p in (ROOT / "docs" / "decisions").rglob("*.md"))}


def plain(text: str) -> str:
    """A text on one line."""
    return " ".join(text.split())


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda c: c.text[:50])
def test_the_page_says_so(claim: Claim) -> None:
    assert plain(claim.text) in plain(re.sub(r"^- ", "", prose(ROOT / claim.page), flags=re.MULTILINE)), claim.page
    assert claim.tests


def test_no_claim_is_listed_twice() -> None:
    assert len({claim.text for claim in CLAIMS}) == len(CLAIMS)


def test_every_page_has_a_claim() -> None:
    claimed = {ROOT / claim.page for claim in CLAIMS}
    assert not [page.name for page in PAGES if page not in claimed and page.name not in WITHOUT]


def test_everything_that_is_said_to_be_checked_is_claimed() -> None:
    bullets = [plain(bullet) for bullet in re.split(r"^- ", prose(ROOT / "docs/trust.md"), flags=re.MULTILINE)[1:]]
    claims = [plain(claim.text) for claim in CLAIMS if claim.page == "docs/trust.md"]
    assert len(bullets) >= 5
    assert not [bullet for bullet in bullets if not any(claim in bullet for claim in claims)]


def test_every_test_is_collected(pytestconfig: pytest.Config) -> None:
    """Long ones too: they are among what this run found, or, of a part of the tests, pytest is asked for each by name,
    and for one that is not there, which alone it must miss."""
    wanted = sorted({f"tests/{test}" for claim in CLAIMS for test in claim.tests})
    found = pytestconfig.stash[COLLECTED]
    if {test.partition("::")[0] for test in wanted} <= {name.partition("::")[0] for name in found}:
        named = found | {name.partition("[")[0] for name in found}
        assert not [test for test in wanted if "::" in test and test not in named]
        return
    absent = f"{Path(__file__).relative_to(ROOT)}::test_absent"
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *wanted, absent]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    missing = re.findall(r"^ERROR: not found: (\S+)", done.stdout + done.stderr, re.MULTILINE)
    assert [name.removeprefix(f"{ROOT}/") for name in missing] == [absent], done.stdout[-3000:] + done.stderr[-3000:]
