"""What was proven of a bundle, and what was not: simulations, evaluations, netlists, synthesis, as they are kept."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mase_hw.hardware.manifest import Fifo, Vectors
from mase_hw.host.disk import write_whole, writing
from mase_hw.host.documents import Json, parse_json
from mase_hw.simulate.engines.registry import ENGINES
from mase_hw.simulate.record import VERDICTS, verdicts

SYNTHESIS = "synth"


def simulations(work: Path, digest: str) -> tuple[list[Json], int]:
    """The simulations of this very bundle, and how many there are of others in the same folder."""
    found = verdicts(work / VERDICTS)
    own = [each for each in found if each.get("digest") == digest]
    return own, len(found) - len(own)


def syntheses(work: Path, top: str, estimated: Mapping[str, int]) -> list[Json]:
    """What synthesis left behind, by target."""
    found = _left(work, "report.json", lambda report: report["top"] == top and report["total"])
    return [{**report, "before": dict(estimated)} for report in found]


def energies(work: Path, digest: str) -> list[Json]:
    """What ``mase-hw power`` left behind of this very bundle, by target."""
    return _left(work, "power.json", lambda report: report["digest"] == digest and report["basis"])


def _left(work: Path, name: str, own: Callable[[Json], Any]) -> list[Json]:
    """The reports of a name in the folders of targets that are whole, and of this design."""
    found = []
    for path in sorted((work / SYNTHESIS).glob(f"*/{name}")):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            report = parse_json(path.read_text(encoding="utf-8"))
            if own(report) and isinstance(report["rows"], list):
                found.append(dict(report))
    return found


def buffers(played: Sequence[Json], fifos: Sequence[Fifo]) -> list[Json]:
    """Every buffer with its depth and the highest level that any simulation saw; None where none looked."""
    seen: dict[str, Json] = {}
    for each in played:
        for name, use in each.get("buffers", {}).items():
            before = seen.setdefault(name, {"name": name, "depth": use["depth"], "peak": 0, "waited": False})
            before["peak"], before["waited"] = max(before["peak"], use["peak"]), before["waited"] or use["waited"]
    for fifo in fifos:
        entry = seen.setdefault(fifo.instance, {"name": fifo.instance, "depth": fifo.depth, "peak": None})
        entry |= {"before": fifo.before, "bits": fifo.bits, "given": fifo.given}
        entry["why"] = "given" if fifo.given else "rate" if fifo.rate else "join"
    return sorted(seen.values(), key=lambda entry: ("before" not in entry, entry["name"]))


def not_checked(played: Sequence[Json], mapped: Sequence[Json], vectors: Vectors | None) -> list[str]:
    """What nobody looked at, in sentences that name the command that does."""
    passed = [each for each in played if each["passed"]]
    said = []
    if not played:
        said.append("It was never simulated: `mase-hw sim BUNDLE`.")
    for name in sorted(ENGINES):
        if played and not any(each["engine"] == name for each in passed):
            said.append(f"No simulation with the engine {name} passed: `mase-hw sim BUNDLE --engine {name}`.")
    if played and not any(each["stalls"] for each in passed):
        said.append("No simulation with stalls at its ports passed: `--stalls random`.")
    if played and not any(each["inner_stalls"] for each in passed):
        said.append("No simulation with stalls inside the design passed: `--inner-stalls 0.3`.")
    if played and not any(each["resets"] for each in passed):
        said.append("No simulation with a reset in the middle passed: `--reset-at 40`.")
    if played and not any(each["coverage"] for each in played):
        said.append("Lines and toggles were not counted: `--engine batch --coverage`.")
    if not mapped:
        said.append("It was never synthesised: `mase-hw synth BUNDLE`.")
    elif not any(each.get("replay") for each in mapped):
        said.append("No synthesised netlist was simulated.")
    if not any(each.get("place") for each in mapped):
        said.append("It was not placed and routed: `mase-hw synth BUNDLE --target ecp5 --place`.")
    if vectors is None or not vectors.faults:
        said.append("The fault coverage of the test vectors was not measured.")
    else:
        said += [f"No test vector shows a {what}." for what in _unseen(vectors.faults)]
    said.append("Timing on a board, clock-domain crossings and what surrounds the design were not looked at.")
    return said


def _unseen(faults: Json) -> list[str]:
    return [
        f"{'wrong cast' if kind == 'casts' else 'stuck bit of memory'}: {name}"
        for kind in ("casts", "memory")
        for name in faults.get(kind, {}).get("unseen", [])
    ]


EVALUATIONS = Path("report") / "evaluation.json"
VERSION = 1
MOST = 32
"""Evaluations that are kept."""


def keep_evaluation(bundle: Path, digest: str, found: Json) -> Path:
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
    with writing("what the evaluation showed", file):
        write_whole(file, json.dumps(document, indent=1) + "\n")
    return file


def evaluations(bundle: Path, digest: str) -> list[Json]:
    """What is kept in a bundle; nothing if there is none, or what is there is not ours or of another bundle."""
    try:
        found = parse_json((bundle / EVALUATIONS).read_text(encoding="utf-8"))
        entries = found["evaluations"] if (found["version"], found["digest"]) == (VERSION, digest) else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
    keys = {"criterion", "frames", "float", "quantised", "rtl", "data"}
    return [e for e in entries if isinstance(e, dict) and keys <= e.keys()] if isinstance(entries, list) else []
