"""What is shown while pip installs: against a pip that says what the real one does."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from scripts.install import Reader

SAID = """\
Looking in indexes: https://index.example/simple
Requirement already satisfied: numpy>=1.26 in /venv/lib (from mase-hw==0.1.0) (2.3.1)
Collecting Jinja2<4,>=3.1 (from mase-hw==0.1.0)
  Downloading jinja2-3.1.6-py3-none-any.whl (134 kB)
Processing /wheels/typing_extensions-4.15.0-py3-none-any.whl (from mase-hw==0.1.0)
Obtaining file:///here
Collecting unexpected
Installing collected packages: typing-extensions, Jinja2, mase-hw
"""


def test_packages_are_counted_however_they_come() -> None:
    reader = Reader({"numpy", "jinja2", "typing-extensions", "torch"})
    for line in SAID.splitlines():
        reader.read(line)
    assert reader.found == {"numpy", "jinja2", "typing-extensions"}
    assert reader.to_install == 3
    reader = Reader(set())
    reader.read("Collecting ruamel.yaml[jinja2]>=0.18")
    assert reader.found == {"ruamel-yaml"}


def install(root: Path, folder: Path, code: int, terminal: bool) -> tuple[str, str]:
    """What is shown of such a pip, and its errors."""
    (folder / "pip").mkdir()
    (folder / "pip" / "__init__.py").touch()
    (folder / "pip" / "__main__.py").write_text(f"import sys; print({SAID!r}, end=''); sys.exit({code})\n")
    (folder / "expected").write_text("# pinned\nnumpy==2.3.1\nJinja2==3.1.6\ntyping_extensions==4.15.0\n")
    command = [sys.executable, "scripts/install.py", str(folder / "log"), str(folder / "expected"), "--", "x"]
    env = {**os.environ, "PYTHONPATH": str(folder)}
    if not terminal:
        done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == code
        return done.stdout, done.stderr
    ours, theirs = pty.openpty()
    child = subprocess.Popen(command, cwd=root, env=env, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert child.wait() == code
    assert child.stderr is not None
    with child.stderr:
        return shown.decode(), child.stderr.read().decode()


def test_a_terminal_sees_one_line(root: Path, tmp_path: Path) -> None:
    shown, errors = install(root, tmp_path, 0, terminal=True)
    assert shown.count("\n") == 1 and shown.count("\r") > 3
    assert "3 of 3 found" in shown and "of 3 installed" in shown
    assert shown.split("\r")[-2].strip().startswith("3 packages installed in ")
    assert not errors and (tmp_path / "log").read_text() == SAID


def test_elsewhere_one_line_is_left(root: Path, tmp_path: Path) -> None:
    shown, errors = install(root, tmp_path, 0, terminal=False)
    assert re.fullmatch(r"    3 packages installed in \d+ s\s+", shown) and not errors


def test_a_failure_shows_what_pip_said(root: Path, tmp_path: Path) -> None:
    shown, errors = install(root, tmp_path, 3, terminal=False)
    assert "stopped" in shown
    assert "Installing collected packages" in errors and "pip failed with exit code 3; all it said is in" in errors
