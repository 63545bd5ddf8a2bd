"""What evaluations of a bundle showed, kept in it: ``report/evaluation.json``, of which the manifest has no hash."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mase_hw.documents import parse_json
from mase_hw.host.disk import not_written, write_whole

EVALUATIONS = Path("report") / "evaluation.json"
VERSION = 1
MOST = 32
"""Evaluations that are kept."""


def keep_evaluation(bundle: Path, digest: str, found: Mapping[str, Any]) -> Path:
    """Add an evaluation to a bundle; an earlier one by the same criterion on the same data is replaced.

    Args:
        bundle: Its folder.
        digest: Of its manifest.
        found: Of :meth:`mase_hw.design.evaluate.Evaluated.to_json`.

    Returns:
        The file.

    Raises:
        EmitError: If it cannot be written.
    """
    file = bundle / EVALUATIONS
    same = ("criterion", "data")
    kept = [each for each in evaluations(bundle, digest) if any(each.get(key) != found[key] for key in same)]
    document = {"version": VERSION, "digest": digest, "evaluations": [*kept, dict(found)][-MOST:]}
    try:
        write_whole(file, json.dumps(document, indent=1) + "\n")
    except OSError as problem:
        raise not_written("what the evaluation showed", file, problem) from problem
    return file


def evaluations(bundle: Path, digest: str) -> list[dict[str, Any]]:
    """What is kept in a bundle; nothing if there is none, or what is there is not ours or of another bundle."""
    try:
        found = parse_json((bundle / EVALUATIONS).read_text(encoding="utf-8"))
        entries = found["evaluations"] if (found["version"], found["digest"]) == (VERSION, digest) else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
    keys = {"criterion", "frames", "float", "quantised", "rtl", "data"}
    return [e for e in entries if isinstance(e, dict) and keys <= e.keys()] if isinstance(entries, list) else []
