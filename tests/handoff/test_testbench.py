"""The bundle tests itself: copied to an empty folder, without mase_hw, and it sees what is wrong."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mase_hw
from mase_hw.simulate.build.tools import find_build_tools

BENCHES = ["pair_tb", "pair_axis_tb"]


@pytest.fixture(scope="module")
def built(
    pair: mase_hw.Design, tmp_path_factory: pytest.TempPathFactory, clean_env: dict[str, str], tiny: str
) -> dict[str, Path]:
    """A simulator of each testbench, built in a copy of the bundle that is not where it was emitted."""
    found = {}
    # Verilator's surroundings; nothing by which Python would find mase_hw.
    env = dict(find_build_tools(clean_env).env)
    env["MAKEFLAGS"] += tiny
    # Verilator's makefiles call Python; theirs sees no installed package, and says what it was called for.
    python = tmp_path_factory.mktemp("python") / "python3"
    python.write_text(f'#!/bin/sh\necho "$1" >> "{python.parent}/calls"\nexec "{sys.executable}" -I -S "$@"\n')
    python.chmod(0o755)
    env["MAKEFLAGS"] += f" PYTHON3={python}"
    found["calls"] = python.parent / "calls"
    objects = tmp_path_factory.mktemp("objects")  # Verilator's own are compiled once for both
    for bench in BENCHES:
        place = tmp_path_factory.mktemp("elsewhere") / "copy"
        shutil.copytree(pair.path, place)
        done = subprocess.run(
            ["verilator", "--binary", "--Mdir", str(objects), "-f", f"sim/{bench}.f"],
            cwd=place,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "%Warning" not in done.stderr
        found[bench] = place / f"V{bench}"
        shutil.copy(objects / f"V{bench}", found[bench])
    return found


def play(binary: Path, folder: Path) -> tuple[bool, str]:
    """Whether a testbench is content with a folder's vectors and memories, and what it says."""
    done = subprocess.run([str(binary)], cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    text = done.stdout + done.stderr
    assert (done.returncode == 0) == ("PASS" in text), text
    return done.returncode == 0, text


@pytest.mark.parametrize("bench", BENCHES)
def test_passes(pair: mase_hw.Design, built: dict[str, Path], bench: str) -> None:
    passed, text = play(built[bench], built[bench].parent)
    assert passed, text
    added = 2 if "axis" in bench else 0
    fill, interval = pair.timing["fill"] + added, pair.timing["interval"]
    assert f"fill {fill} cycles, interval {interval} cycles (promised {fill}, {interval})" in text


def test_what_the_readme_says_it_needs(pair: mase_hw.Design, built: dict[str, Path], root: Path) -> None:
    """No package of Python, so not mase_hw; but Python itself, which Verilator's own makefiles call."""
    calls = {Path(call).name for call in built["calls"].read_text().split()}
    assert calls == {"verilator_includer"}
    text = (pair.path / "README.md").read_text()
    assert "what it needs itself (a C++ compiler, GNU make, Perl, Python), without mase_hw." in text
    for page in (text, (root / "docs/handoff.md").read_text(), (root / "README.md").read_text()):
        assert "without python" not in page.lower() and "verilator alone" not in page.lower()


def flip(file: Path, line: int, mask: int = 1) -> None:
    """Change bits of a word, the lowest one by default."""
    lines = file.read_text().split("\n")
    lines[line] = f"{int(lines[line], 16) ^ mask:0{len(lines[line])}x}"
    file.write_text("\n".join(lines))


def unknown(file: Path) -> None:
    """Four bits that are 0 become unknown; a simulator of two states reads them as 0."""
    text = file.read_text()
    assert "0" in text
    file.write_text(text.replace("0", "x", 1))


def drop(file: Path) -> None:
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))


FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "expected beat": (lambda b: flip(b / "vectors/data_out_0.mem", 9), "data_out_0: frame 4, beat 1: got"),
    "other output": (lambda b: flip(b / "vectors/data_out_1.mem", 0), "data_out_1: frame 0, beat 0: got"),
    "stimulus": (lambda b: flip(b / "vectors/data_in_1.mem", 3), "FAIL"),
    "weight": (lambda b: flip(b / "mem/fc_weight.mem", 2), "data_out_0: frame"),
    "bias": (lambda b: flip(b / "mem/fc_bias.mem", 0), "data_out_0: frame"),
    "no memory": (lambda b: (b / "mem/fc_bias.mem").unlink(), "cannot open the memory file 'mem/fc_bias.mem'"),
    "no vectors": (lambda b: (b / "vectors/data_in_0.mem").unlink(), "cannot open the vector file"),
    "no results": (lambda b: (b / "vectors/data_out_1.mem").unlink(), "cannot open the vector file"),
    "short vectors": (lambda b: drop(b / "vectors/data_out_0.mem"), "file ended before specified final address"),
    "unknown bits": (
        lambda b: unknown(b / "vectors/data_out_1.mem"),
        "has 1 characters that are no hexadecimal digits",
    ),
    "weight that no vector shows": (
        lambda b: flip(b / "mem/fc_weight.mem", 2, 1 << 6),
        "fc_weight.mem' is not the file that was emitted",
    ),
    "short memory": (lambda b: drop(b / "mem/fc_weight.mem"), "file ended before specified final address"),
}


OFTEN = ("weight", "weight that no vector shows", "no memory")
"""Of the faults those in every run."""


@pytest.mark.parametrize("fault", [pytest.param(f, marks=[pytest.mark.slow] * (f not in OFTEN)) for f in FAULTS])
def test_sees_what_is_wrong(built: dict[str, Path], tmp_path: Path, fault: str) -> None:
    for bench in BENCHES:
        place = tmp_path / bench
        for folder in ("mem", "vectors"):
            shutil.copytree(built[bench].parent / folder, place / folder)
        change, message = FAULTS[fault]
        change(place)
        passed, text = play(built[bench], place)
        assert not passed and message in text, text
