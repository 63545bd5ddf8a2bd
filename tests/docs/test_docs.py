"""What the documentation says can be done is done here, and what it names exists."""

from __future__ import annotations

import argparse
import builtins
import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path

import pytest
import torch

from mase_hw import cli, errors
from mase_hw.catalogue import default_catalogue
from mase_hw.compiler.config import load_config
from mase_hw.errors import MaseHwError
from mase_hw.passes.base import GraphPass
from tests.docs.pages import PAGES, ROOT, Block, blocks, handwritten, prose, shown_files
from tests.docs.triggers import TRIGGERS
from tests.rtl import LIBRARY

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
TROUBLE = ROOT / "docs" / "troubleshooting.md"


def _can_run(block: Block) -> bool:
    return "transformers." not in block.text or importlib.util.find_spec("transformers") is not None


@every_page
def test_python_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks without a comment before them; those with one are run in test_examples.py.

    A text block with the comment ``printed`` is what the Python block before it prints.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    torch.manual_seed(0)
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks("python", "text", page=page):
        if block.language == "python" and not block.note and _can_run(block):
            capsys.readouterr()
            block.run(names)
        elif block.note == "printed":
            printed = [line.rstrip() for line in capsys.readouterr().out.strip().splitlines()]
            assert printed == block.text.splitlines(), block.id


@pytest.mark.parametrize("block", list(blocks("toml")), ids=lambda b: b.id)
def test_configurations_are_valid(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(block.text, encoding="utf-8")
    assert load_config(path)


def examples() -> dict[str, str]:
    """The messages in troubleshooting.md by name."""
    return {b.note.removeprefix("example: "): b.text for b in blocks("text", page=TROUBLE)}


def assert_shown(name: str, error: MaseHwError) -> None:
    """The page shows this message; line breaks and what ``...`` stands for aside."""
    said = f"{type(error).__name__}: {error}".replace(f"{Path.cwd()}/", "")
    shown = " ".join(examples()[name].split())
    pattern = re.escape(shown).replace(re.escape("..."), ".*")
    said = " ".join(said.split())
    assert re.fullmatch(pattern, said), f"docs/troubleshooting.md shows {name!r} as\n{shown}\nbut it is\n{said}"


@pytest.mark.parametrize("name", TRIGGERS)
def test_troubleshooting_shows_real_messages(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MaseHwError) as caught:
        TRIGGERS[name]()
    assert_shown(name, caught.value)
    assert not (tmp_path / "build" / "refused").exists(), "nothing is written"


def anchors(page: Path) -> set[str]:
    """Anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@every_page
def test_links_resolve(page: Path) -> None:
    for text, target in re.findall(r"\[([^\]]+)\]\(([^)\s]+)\)", prose(page)):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.is_file() and path.is_relative_to(ROOT), f"{page.name}: [{text}]({target})"
        assert not anchor or anchor in anchors(path), f"{page.name}: no heading for {target}"


def test_every_page_is_listed() -> None:
    listed = set(re.findall(r"\]\((\w+\.md)\)", (ROOT / "docs/contents.md").read_text(encoding="utf-8")))
    assert listed == {page.name for page in (ROOT / "docs").glob("*.md")} - {"contents.md"}


def test_the_navigation_of_the_site_lists_every_page() -> None:
    """Building the site, which refuses a page that is missing, takes too long for every run."""
    docs, navigation = ROOT / "docs", (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    assert {
        path
        for path in {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
        if path not in re.findall(r"[\w/-]+\.md", navigation)
    } == set()


def test_the_front_page_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= 6 * 1024


def commands(page: Path, program: str) -> list[list[str]]:
    """Every call of a program on a page, in prose and in shell blocks, as words."""
    found = re.findall(rf"`({program}(?: [^`]*)?)`", prose(page))
    for block in blocks("sh", page=page):
        found += [line.partition("#")[0] for line in block.text.splitlines() if line.startswith(f"{program} ")]
    return [call.split() for call in found]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.name)
def test_what_only_a_checkout_has_is_said_at_once(page: Path) -> None:
    """A page whose commands need files that are not installed says so in its first line, or how they come."""
    lines = [line for block in blocks("sh", page=page) for line in block.text.splitlines()]
    first = page.read_text(encoding="utf-8").splitlines()[2]
    if any(re.match(r"make |python -m (benchmarks|scripts|tests)|.*\b(tests|regress)/", line) for line in lines):
        assert "checkout" in first
    if any("examples/" in line for line in lines):
        assert "`mase-hw new --example`" in first


def options_of(command: str) -> set[str]:
    """The options of a subcommand."""
    parser = argparse.ArgumentParser()
    cli.configure(parser, command)
    return set(parser._option_string_actions)


@every_page
def test_commands_exist(page: Path) -> None:
    known = {command: options_of(command) for command in cli.COMMANDS}
    for words in commands(page, "mase-hw"):
        if len(words) == 1 or words[1] in ("--help", "--version"):
            continue
        assert words[1] in known, " ".join(words)
        # Behind `env` stands another program.
        used = {word for word in words if word.startswith("--") and words[1] != "env"}
        assert used <= known[words[1]], " ".join(words)


@every_page
def test_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for words in commands(page, "make"):
        for word in words[1:]:
            name, is_variable, _ = word.partition("=")
            if not re.fullmatch(r"[A-Z_]+", name) and is_variable:
                continue
            wanted = rf"^{name} \?=" if is_variable else rf"^{re.escape(name)}:.*## "
            if not name.startswith(("-", '"')) and not name.endswith('"'):
                assert re.search(wanted, makefile, re.MULTILINE), " ".join(words)


def all_passes() -> set[str]:
    """Names of every pass in the package."""
    found = set()
    for file in [
        file
        for place in ("passes", "emit", "fit", "vectors", "partition")
        for file in (ROOT / "mase_hw" / place).rglob("*.py")
    ]:
        dotted = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found |= {v.name for v in vars(importlib.import_module(dotted)).values() if isinstance(v, GraphPass)}
    return found


@every_page
def test_passes_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"\b\w+_(?:analysis|transform)_pass\b", text))
    of_modules = {"quantize_module_transform_pass"}
    assert named <= all_passes() | of_modules | set(re.findall(r"^def (\w+_pass)\(", text, re.MULTILINE))


@every_page
def test_errors_exist(page: Path) -> None:
    named = set(re.findall(r"\b[A-Z]\w*Error\b", prose(page)))
    assert not [name for name in named if not hasattr(errors, name) and not hasattr(builtins, name)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a page about former names has some
@every_page
def test_names_exist(page: Path) -> None:
    for dotted in set(re.findall(r"\bmase_hw(?:\.[A-Za-z_]\w*)+", prose(page))):
        assert pkgutil.resolve_name(dotted) is not None


@every_page
def test_paths_exist(page: Path) -> None:
    folders = "mase_hw|rtl_templates|tests|docs|examples|scripts"
    for path in set(re.findall(rf"`((?:{folders})/[\w./]*)`", prose(page))) - set(shown_files(page)):
        assert (ROOT / path).exists(), path


def test_ops_exist() -> None:
    page = (ROOT / "docs/ops.md").read_text(encoding="utf-8")
    named = {name.removesuffix("()") for name in re.findall(r"`(\w+)`", page)}
    missing = {op.name for op in default_catalogue() if op.hardware is not None and op.mase_type} - named
    assert not missing
    for module in re.findall(r"`((?:fixed|stream)_\w+)`", page):
        assert list(LIBRARY.glob(f"*/{module}.sv")) or module in (
            "fixed_unrolled",
            "fixed_unrolled_conv",
            "fixed_tabled",
            "fixed_tabled_conv",
            "fixed_frame",
        ), module


@every_page
def test_style(page: Path) -> None:
    # A generated table has its rows in one line each, however long.
    assert not [line for line in handwritten(page).splitlines() if len(line) > 120]
    lines = page.read_text(encoding="utf-8").splitlines()
    assert not [number for number, line in enumerate(lines, 1) if "\N{EM DASH}" in line or line != line.rstrip()]
