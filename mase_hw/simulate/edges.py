"""What the monitors inside a design counted: every edge must report, and must have carried what went in, whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from mase_hw.errors import ResultsError, SimulationError
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.result import PortResult

Edges = Mapping[str, tuple[int, int]]
"""Whole frames, and beats beyond them, by edge."""
_EDGE = re.compile(r"stream_check: (\d+) frames and (\d+) of \d+ beats on (.+)")


def read_edges(log: Path) -> Edges:
    """The counts of the monitors, as they print them when the simulation ends; empty if there is no log."""
    try:
        found = _EDGE.findall(log.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return {}
    return {name.strip(): (int(frames), int(beats)) for frames, beats, name in found}


def check_edges(dut: Dut, edges: Edges, ports: Mapping[str, PortResult], tail: str) -> None:
    """Check that every edge reported, and carried whole frames; what is left over would spoil the next frame.

    Args:
        dut: What was simulated. If its edges are known, all of them must report, and all streams must play as many
            whole frames; of another module nothing is known, and what reports is checked if whole frames were played.
        edges: From :func:`read_edges`.
        ports: What moved at the ports.
        tail: Where the log is and how it ends.

    Raises:
        ResultsError: If an edge did not report, or the streams did not play the same number of whole frames.
        SimulationError: If an edge carried something else.
    """
    _check_reports(dut, edges, tail)
    played = {divmod(port.expected, port.stream.frame_beats) for port in ports.values()}
    if len(played) != 1 or next(iter(played))[1]:
        if dut.edges is None:
            return
        counts = (f"{p.stream.name}: {p.expected} beats, {p.stream.frame_beats} a frame" for p in ports.values())
        raise ResultsError(
            "the streams of the design did not play the same number of whole frames, so not all of them were compared",
            got="\n    ".join(["", *counts]),
            expected="as many whole frames on every stream",
        )
    (wanted,) = played
    wrong = {name: seen for name, seen in edges.items() if seen != wanted}
    if wrong:
        raise SimulationError(
            "the results are right, but an edge inside the design did not carry a whole number of frames",
            node=next(iter(wrong)),
            got="\n    ".join(["", *(f"{name}: {a} frames and {b} beats" for name, (a, b) in wrong.items())]),
            expected=f"{wanted[0]} frames on every edge",
        )


def _check_reports(dut: Dut, edges: Edges, tail: str) -> None:
    """The edges that reported are those of which it is known that they must."""
    if dut.edges is None or set(dut.edges) == set(edges):
        return
    silent, unknown = sorted(set(dut.edges) - set(edges)), sorted(set(edges) - set(dut.edges))
    lists = (("said nothing", silent), ("not in the manifest", unknown))
    raise ResultsError(
        "the edges inside the design that reported are not those that it has, so nothing was proven about them",
        node=(silent or unknown)[0],
        got="".join(f"\n    {what}: {', '.join(names)}" for what, names in lists if names),
        expected=f"a report of each of the {len(dut.edges)} edges that the manifest names",
        remedy=f"emit the bundle again; its checks are compiled unless SYNTHESIS is defined; {tail}",
    )
