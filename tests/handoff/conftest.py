"""One bundle for the tests of this folder that only look at it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import mase_hw
from mase_hw.simulate.build.tools import find_build_tools
from tests.handoff.designs import emit


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    return emit(tmp_path_factory.mktemp("handoff") / "pair")


ONCE = """#!/bin/sh
# Calls the compiler; what it makes of a file of Verilator's own is kept for the next request of the same.
for word; do
    [ "$before" = -o ] && made=$word
    before=$word
done
case $word in {include}/*) ;; *) exec "$@" ;; esac
kept={folder}/$(printf '%s\\n' "$@" | sha256sum | cut -d' ' -f1)
[ -f "$kept" ] && exec cp "$kept" "$made"
"$@" && cp "$made" "$kept.$$" && mv "$kept.$$" "$kept"
"""


def of_tiny() -> str:
    """What a tiny design adds to MAKEFLAGS: compiling dominates, and most of that is Verilator's runtime.

    Its files are compiled as the bundle's own build compiles them, but once for all builds with the same tools and
    options, those of later runs as well.
    """
    tools = find_build_tools()
    folder = Path(sys.prefix) / "cache" / f"verilated-{tools.fingerprint[:20]}"
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "once"
    made = script.with_suffix(f".{os.getpid()}")
    made.write_text(ONCE.format(include=tools.include, folder=folder), encoding="utf-8")
    made.chmod(0o755)
    made.rename(script)
    return f" OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0 OBJCACHE={script}"


@pytest.fixture(scope="session")
def tiny() -> str:
    """See :func:`of_tiny`."""
    return of_tiny()
