"""The bundle that the tests of this folder share, and what they look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mase_hw
from tests.unit.pipeline import MLP, inputs, seeded

CONFIG = {"hardware": {"max_parallelism": 3}}


def emit(out: Path, **options: Any) -> mase_hw.Design:
    return mase_hw.compile(seeded(MLP), inputs(1, 6), CONFIG, out=out, **options)


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
