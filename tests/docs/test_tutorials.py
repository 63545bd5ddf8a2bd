"""The tutorials, step by step in an empty folder: what they show as files is written, what they call is called."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from mase_hw import cli
from mase_hw.host.toolchain import require, verilator_env
from tests.docs.pages import ROOT, Block, blocks

TUTORIALS = sorted((ROOT / "docs").glob("tutorial_*.md"))
KINDS = ("python", "toml", "systemverilog", "text", "sh")
NOTES = ("", "not run", "slow", "slow, fails", "shows")


def environment() -> dict[str, str]:
    """Of a user who has the package, and a Verilator, in the path."""
    verilator = Path(require("verilator")["verilator"].path).parent
    places = [str(Path(sys.executable).parent), str(verilator), os.environ["PATH"]]
    return verilator_env() | {"PATH": os.pathsep.join(places), "PYTHONPATH": str(ROOT)}


def called(block: Block) -> str:
    """Run the commands of a block, and give what they print; those of ``mase-hw`` in this process, which is warm."""
    lines = block.text.splitlines()
    if all(line.startswith("mase-hw ") for line in lines):
        said = StringIO()
        for line in lines:
            command, _, file = line.partition(" > ")
            told = StringIO()
            with redirect_stdout(told):
                assert cli.main(shlex.split(command)[1:]) == cli.OK, f"{block.id}: {line}\n{told.getvalue()}"
            if file:
                Path(file).write_text(told.getvalue(), encoding="utf-8")
            said.write(told.getvalue())
        return said.getvalue()
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) == block.note.endswith("fails"), f"{block.id}\n{done.stdout}"
    return done.stdout


def assert_shown(block: Block, printed: str) -> None:
    """Every line of the block is printed, in this order; ``...`` stands for anything."""
    left = iter(printed.splitlines())
    for line in block.text.splitlines():
        pattern = re.escape(line).replace(re.escape("..."), ".*")
        assert any(re.fullmatch(pattern, candidate) for candidate in left), f"{block.id}: {line}\n{printed}"


def follow(page: Path, slow: bool) -> None:
    """Do what a page says, in the current folder; its slow steps too, or what stands before them only."""
    Path("examples").symlink_to(ROOT / "examples")
    printed, skipped = "", False
    for block in blocks(*KINDS, page=page):
        assert block.note in NOTES or block.file, block.id
        if block.file:
            Path(block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "sh" and block.note != "not run":
            skipped = block.note.startswith("slow") and not slow
            printed = "" if skipped else called(block)
        elif block.note == "shows" and not skipped:
            assert_shown(block, printed)


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda p: p.stem)
def test_tutorial(page: Path, workplace: Path) -> None:
    """Without its slow steps, which the tests below take."""
    follow(page, slow=False)


def test_the_fault_of_the_tutorial_is_put_in(workplace: Path) -> None:
    """One line of the copied RTL changes, the one that the page blames."""
    follow(ROOT / "docs" / "tutorial_mismatch.md", slow=False)
    given = (ROOT / "examples" / "custom_op" / "rtl" / "leaky_shift.sv").read_text(encoding="utf-8").splitlines()
    faulty = Path("mine/rtl/leaky_shift.sv").read_text(encoding="utf-8").splitlines()
    assert [line.split() for line, was in zip(faulty, given, strict=True) if line != was] == [
        ["assign", "kept", "=", "FineW'(data_in_0[i]);"]
    ]


@pytest.mark.slow
def test_the_mismatch_is_found(workplace: Path) -> None:
    follow(ROOT / "docs" / "tutorial_mismatch.md", slow=True)


@pytest.mark.slow
def test_to_the_bitstream(workplace: Path) -> None:
    follow(ROOT / "docs" / "tutorial_bitstream.md", slow=True)
    bitstream = (workplace / "build" / "board" / "board.bit").read_bytes()
    assert b"Part: LFE5U-85F" in bitstream[:200] and len(bitstream) > 1_000_000


def test_a_wrong_line_is_seen() -> None:
    block = Block(TUTORIALS[0], 1, "text", "shows", "a 1\n... c\n")
    assert_shown(block, "a 1\nother\nb c\n")
    for printed in ("a 2\nb c\n", "b c\na 1\n", "a 1\nb\n"):
        with pytest.raises(AssertionError):
            assert_shown(block, printed)
