"""The bundle that the tests of this folder share, and what they look at."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mase_hw
from tests.unit.pipeline import MLP, inputs, seeded

CONFIG = {"hardware": {"max_parallelism": 3}}


def emit(out: Path, **options: Any) -> mase_hw.Design:
    return mase_hw.compile(seeded(MLP), inputs(1, 6), CONFIG, out=out, **options)


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object], *, honest: bool) -> None:
    """Edit the manifest; an honest edit leaves the hash of the manifest as it was, a forged one computes it anew."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    if not honest:
        said = {key: value for key, value in manifest.items() if key != "digest"}
        manifest["digest"] = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(manifest))
