"""A program keeps the memory that it has given back."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys

import pytest

from mase_hw.host.process import keep_freed

PROGRAM = """\
import resource, sys
from mase_hw.host.process import keep_freed
if sys.argv[1] == "kept":
    keep_freed()
for number in range(4):
    if number == 1:  # from the second time on there is something to use again
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [b"x" * (30 << 20) for _ in range(4)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="what another C library does is not known")
def test_blocks_are_used_again(clean_env: dict[str, str]) -> None:
    """Counted by the pages that the system has to find: those of twelve blocks, or hardly any."""
    command = [sys.executable, "-c", PROGRAM]
    given, kept = (
        int(subprocess.run([*command, how], env=clean_env, capture_output=True, check=True).stdout)
        for how in ("given", "kept")
    )
    assert given > 50_000 and kept < given / 10


def test_another_library_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    keep_freed()
