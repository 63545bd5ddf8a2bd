"""The version stands in one place, and the changelog is in a form from which a release can be made."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import mase_hw

KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
"""The headings of Keep a Changelog."""


def faults(changelog: str, version: str) -> list[str]:
    """What keeps a changelog from being the one of a version."""
    found = []
    releases = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    if releases[:1] != ["Unreleased"]:
        found.append("the first release is not 'Unreleased'")
    if releases[1:2] != [version]:
        found.append(f"the newest release is {releases[1:2]}, the version of the package {version}")
    for release, text in zip(releases, re.split(r"^## .+$", changelog, flags=re.MULTILINE)[1:], strict=True):
        kinds = re.findall(r"^### (.+)$", text, re.MULTILINE)
        if kinds != [kind for kind in KINDS if kind in kinds]:
            found.append(f"{release}: headings {kinds}, expected some of {KINDS}, each once, in this order")
        if release != "Unreleased" and not re.search(r"^- ", text, re.MULTILINE):
            found.append(f"{release}: nothing changed")
    return found


def test_the_changelog_is_that_of_the_version(root: Path) -> None:
    assert not faults((root / "CHANGELOG.md").read_text(encoding="utf-8"), mase_hw.__version__)
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"] and "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "mase_hw/_version.py"


def test_what_is_wrong_with_a_changelog_is_seen() -> None:
    good = "# Changelog\n\n## Unreleased\n\n## 1.0\n\n### Added\n\n- One.\n\n### Fixed\n\n- Two.\n"
    assert not faults(good, "1.0")
    assert "version of the package 1.1" in str(faults(good, "1.1"))
    assert "not 'Unreleased'" in str(faults(good.replace("## Unreleased\n\n", ""), "1.0"))
    assert "headings" in str(faults(good.replace("### Fixed", "### Mended"), "1.0"))
    assert "headings" in str(faults(good.replace("### Fixed", "### Added"), "1.0"))
    assert "nothing changed" in str(faults(good.split("### Added")[0], "1.0"))
