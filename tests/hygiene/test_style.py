"""The sources are formatted, linted and typed, and hold nothing that belongs to one machine."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mase_hw.host.lint import lint
from tests.rtl import bench

MAX_LINES = 600
PICTURE_BYTES = 64_000
MAX_BYTES = 400_000
TEXT = {
    ".py",
    ".sv",
    ".svh",
    ".c",
    ".rdl",
    ".j2",
    ".sh",
    ".toml",
    ".txt",
    ".md",
    ".h",
    ".cpp",
    ".vlt",
    ".tcl",
    ".xdc",
    ".yml",
    "",
}
CODE = {".py", ".sv", ".svh", ".j2", ".sh", ".c", ".rdl", ".h", ".cpp"}

# Written in pieces, so that this file does not contain them.
FORBIDDEN = {
    "a lint warning switched off for everything": re.compile(r"-W" r"no-"),
    "a lint waiver for everything": re.compile(r"-W" r"future-|lint_off\s*(?:\*/)?\s*$", re.MULTILINE),
    "an absolute path of one machine": re.compile(r"(?<![\w.~*])/(?:ho" r"me|ro" r"ot|wo" r"rk|tm" r"p)/"),
    "an open end": re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b"),
}


def sources(root: Path) -> list[Path]:
    """Every file that is, or is about to be, in the repository."""
    # The owner of a clone need not be the user who tests it.
    command = ["git", "-c", f"safe.directory={root}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
        files = [root / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        # An unpacked archive has no git: everything but hidden and generated folders.
        skip = {"build", "dist", "__pycache__"}
        relative = [p.relative_to(root) for p in root.rglob("*") if p.is_file()]
        files = [root / p for p in relative if not any(part in skip or part.startswith(".") for part in p.parts)]
    return sorted(path for path in files if path.is_file())


@pytest.mark.parametrize(
    "command", [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy", "--strict"]], ids=" ".join
)
def test_python(command: list[str], root: Path, clean_env: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=root, env=clean_env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_systemverilog(root: Path) -> None:
    found = sources(root)
    benches = [bench(path.with_suffix("")) for path in found if path.match("tests/*/rtl/*.sv.j2")]
    complaints = lint([*(path for path in found if path.suffix in {".sv", ".svh"}), *benches])
    assert not complaints, "\n".join(complaints)


def test_files_are_small(root: Path) -> None:
    lengths = {
        path.relative_to(root): len(path.read_text(encoding="utf-8").splitlines())
        for path in sources(root)
        if path.suffix in CODE or path.name == "Makefile"
    }
    long = {str(path): lines for path, lines in lengths.items() if lines > MAX_LINES}
    assert not long, f"more than {MAX_LINES} lines: {long}"


def test_files_are_sources(root: Path) -> None:
    """Nothing generated, binary or large is kept but the picture of the start page."""
    strange = []
    for path in sources(root):
        content = path.read_bytes()
        picture = path == root / "docs" / "report.png"
        if len(content) > (PICTURE_BYTES if picture else MAX_BYTES) or (b"\0" in content and not picture):
            strange.append(f"{path.relative_to(root)}: {len(content)} bytes")
    assert not strange, "\n".join(strange)


def test_nothing_forbidden(root: Path) -> None:
    found = []
    for path in sources(root):
        if path.suffix not in TEXT or path.name == "LICENSE":
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            what = [reason for reason, pattern in FORBIDDEN.items() if pattern.search(line)]
            found += [f"{path.relative_to(root)}:{number}: {reason}: {line.strip()}" for reason in what]
    assert not found, "\n".join(found)
