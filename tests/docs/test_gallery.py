"""The gallery says what its examples show; the site of the documentation is built without a warning."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import gallery
from tests.docs.pages import PAGES, ROOT

POINTS = 1.0
"""Scores of a training in float may differ a little from machine to machine; those of hardware and model may not."""
TABLES = {"digits_vit": 0.01, "text_gpt": 0.01}
"""So may ranges and formats, and with them what tables of functions take: this share of the bits of these examples."""


def cells(row: str) -> tuple[list[float], int, list[str]]:
    """Scores; bits of memory; and the other figures of the hardware, which no machine changes."""
    parts = [part.strip() for part in row.strip("|").split("|")]
    scores = [float(part.rstrip("%")) for part in parts[2:5]]
    return scores, int(parts[6].replace(",", "")), [parts[5], *parts[7:]]


def assert_on_the_page(row: str) -> None:
    """The page has this row."""
    name = row.split("`")[1]
    scores, bits, hardware = cells(row)
    said, shown, expected = cells(gallery.shown()[name])
    assert hardware == expected
    assert abs(bits - shown) <= TABLES.get(name, 0.0) * shown
    assert scores[1] == scores[2], "what the quantised model reaches, its hardware reaches"
    assert all(abs(a - b) <= POINTS for a, b in zip(scores, said, strict=True))


def test_the_page_has_every_example() -> None:
    """Of those that run by themselves; the others are models for the commands, or flows that ``names.md`` shows."""
    files = (ROOT / "examples").glob("*.py")
    named = {path.stem for path in files if "__main__" in path.read_text(encoding="utf-8")} - {"afe_flow", "mase_flow"}
    assert set(gallery.shown()) == set(gallery.EXAMPLES) == named


@pytest.mark.slow
@pytest.mark.parametrize("name", gallery.EXAMPLES)
def test_every_example_shows_what_the_page_says(name: str, tmp_path: Path) -> None:
    assert_on_the_page(gallery.run(name, tmp_path / name))


def test_a_failed_example_has_no_row() -> None:
    with pytest.raises(ValueError, match="digits_mlp did not pass"):
        gallery.row("digits_mlp", "FAILED MismatchError", {})


def built(place: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of a checkout with every warning an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place / "site")]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(place)}
    return subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the site is made of, to be broken."""
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "mkdocs.yml"):
        shutil.copy(ROOT / name, tmp_path / name)
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("docs", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignore)
    return tmp_path


def test_the_site(checkout: Path) -> None:
    """Every page is in the navigation, every link leads somewhere, and every public name has its docstring."""
    (checkout / "mase_hw").symlink_to(ROOT / "mase_hw")
    done = built(checkout)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    site = checkout / "site"
    for page in PAGES:
        if page.parent == ROOT / "docs":
            assert (site / page.with_suffix(".html").name).is_file()
    start = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="tutorial_bitstream.html"' in start and 'docs/tutorial_bitstream.md"' not in start
    names = (site / "reference" / "mase_hw.html").read_text(encoding="utf-8")
    for name in ("mase_hw.compile", "mase_hw.Design", "mase_hw.Design.simulate", "mase_hw.load_design"):
        assert f'id="{name}"' in names, name
    assert not re.search(r":(?:class|func|mod):", names)
    assert (site / "search" / "search_index.json").stat().st_size > 100_000


def test_the_site_without_a_page_of_its_navigation_is_refused(checkout: Path) -> None:
    """A page that is not listed, and a link that leads nowhere; without the reference, which takes most of the time."""
    text = (checkout / "mkdocs.yml").read_text(encoding="utf-8")
    (checkout / "mkdocs.yml").write_text(re.sub(r"  - mkdocstrings:\n(?: {6,}.*\n)+", "", text), encoding="utf-8")
    assert built(checkout).returncode == 0
    page = checkout / "docs" / "streams.md"
    page.write_text(page.read_text(encoding="utf-8") + "\n[lost](nowhere.md#there)\n", encoding="utf-8")
    (checkout / "docs" / "unlisted.md").write_text("# Unlisted\n", encoding="utf-8")
    done = built(checkout)
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr and "unlisted.md" in done.stderr
