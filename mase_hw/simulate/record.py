"""Keeps what simulations of a bundle showed in its work folder, for reports; the last of every kind."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from pathlib import Path

from mase_hw.host.disk import write_whole
from mase_hw.host.documents import Json, parse_json
from mase_hw.simulate.coverage import KINDS
from mase_hw.simulate.plan import SimulationOptions, Stalls
from mase_hw.simulate.result import SimResult

VERDICTS = "verdicts.json"
VERSION = 1
MOST = 64
"""Kinds of simulations that are kept."""
_KIND = ("digest", "engine", "stalls", "inner_stalls", "resets", "intervenes", "coverage_counted", "own_vectors")


def record(
    digest: str,
    options: SimulationOptions,
    result: SimResult,
    frames: int,
    own_vectors: bool,
    measured: Json,
) -> None:
    """Add a simulation to the record of its work folder; an earlier one of the same kind is replaced.

    A record that cannot be written is no failure of the simulation.

    Args:
        digest: Of the bundle.
        options: How it was simulated.
        result: What came of it.
        frames: Frames that were played.
        own_vectors: Whether these were the vectors of the bundle.
        measured: Fill and interval.
    """
    entry = {
        "digest": digest,
        "engine": options.engine,
        "seed": options.seed,
        "stalls": _stalls(options.stalls),
        "inner_stalls": 0.0 if options.inner is None else options.inner.probability,
        "resets": len(options.reset_at),
        "intervenes": options.intervene is not None,
        "coverage_counted": options.coverage,
        "own_vectors": own_vectors,
        "frames": frames,
        "passed": result.passed,
        "beats_compared": result.beats_compared,
        "mismatches": result.mismatches,
        "cycles": result.cycles,
        "measured": dict(measured),
        "edges": len(result.edges),
        "failure": None if result.failure is None else f"{type(result.failure).__name__}: {result.failure}",
        "diagnosis": None if result.diagnosis is None else result.diagnosis.report(),
        "waves": None if result.waves is None else result.waves.name,
        "coverage": _coverage(result),
        "buffers": {} if result.exercise is None else {n: asdict(use) for n, use in result.exercise.buffers.items()},
        "not_exercised": {} if result.exercise is None else result.exercise.missing,
    }
    path = options.work / VERDICTS
    kept = [each for each in verdicts(path) if any(each.get(name) != entry[name] for name in _KIND)]
    with contextlib.suppress(OSError):
        write_whole(path, json.dumps({"version": VERSION, "verdicts": [*kept, entry][-MOST:]}, indent=1) + "\n")


def verdicts(path: Path) -> list[Json]:
    """What is recorded in a file; nothing if there is none, or one that is not ours."""
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
        entries = found["verdicts"] if found["version"] == VERSION else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []


def _stalls(stalls: Stalls) -> Json | None:
    """What stalls there were; None for full rate."""
    found = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(stalls).items()}
    return {name: value for name, value in found.items() if value not in (0, [0, 0])} or None


def _coverage(result: SimResult) -> dict[str, list[int]] | None:
    if result.coverage is None:
        return None
    return {kind: list(result.coverage.share(kind)) for kind in KINDS}
