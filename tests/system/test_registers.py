"""What is committed of the registers is what their description gives."""

from __future__ import annotations

import re

import pytest

from scripts.registers import SOURCE, made

HEADER = SOURCE.parent / "software/mase_registers.h"


def test_every_file_is_that_of_the_description() -> None:
    pytest.importorskip("systemrdl", reason="the compiler of SystemRDL is in the extra 'registers'")
    for path, text in made().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run `python -m scripts.registers`"


def test_offsets_are_those_of_the_description() -> None:
    """In the header, in the page and in the RTL, read from each by itself."""
    description = dict(re.findall(r"\}\s*(\w+) @ (0x\w+);", SOURCE.read_text(encoding="utf-8")))
    assert len(description) == 31
    words = {name: int(offset, 16) for name, offset in description.items()}
    header = dict(re.findall(r"#define MASE_(\w+) 0x(\w\w)u\n", HEADER.read_text(encoding="utf-8")))
    assert {name: int(header[name], 16) for name in words} == words
    page = (SOURCE.parent / "REGISTERS.md").read_text(encoding="utf-8")
    assert {name: int(o, 16) for o, name in re.findall(r"^\| 0x(\w+) \| (\w+) \|", page, re.MULTILINE)} == words
    rtl = SOURCE.with_suffix(".sv").read_text(encoding="utf-8")
    written = re.findall(r"assign write_(\w+) = write && awaddr\[6:2\] == 5'd(\d+);", rtl)
    assert written and all(words[name.upper()] == 4 * int(index) for name, index in written)
    cases = [4 * int(index) for index in re.findall(r"^      5'd(\d+):", rtl, re.MULTILINE)]
    assert cases == sorted(words.values())
