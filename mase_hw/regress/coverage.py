"""Which lines and branches of the RTL the cases of the catalogue reach, and why they reach no others.

Verilator counts every block and every way of a decision, in each instance that a case elaborates. What no case reaches
is a gap: either a case is missing, or the gap has a reason, which stands in a file beside the baselines. A reason for
what is reached after all is as wrong as a gap without one.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mase_hw.catalogue import default_catalogue
from mase_hw.compiler.compile import compile
from mase_hw.errors import ConfigError
from mase_hw.hardware.library import library_modules, source
from mase_hw.host.resources import rtl_root
from mase_hw.model_spec import load_model
from mase_hw.regress.job import OpCase
from mase_hw.simulate.coverage import Coverage, Point
from mase_hw.simulate.engines import batch
from mase_hw.simulate.plan import SimulationOptions, Stalls

KINDS = ("line", "branch")
COUNTED = SimulationOptions("batch", coverage=True)
ASSERTION = "an assertion that held"
"""The reason of every block that does nothing but stop the simulation; nobody has to write it down."""
CONSTANT = "computed during elaboration"
"""That of every line in a function of type ``int``: this library computes parameters with them, and no signal."""
Place = tuple[str, str]
"""A module, and the text of a line in it: its number would change with every line above it."""


@dataclass(frozen=True)
class Gap:
    """A line of the RTL of which no case reached everything.

    Args:
        module: The module.
        line: Its number.
        text: What stands there.
        reason: Why that is right; empty if nobody says so.
    """

    module: str
    line: int
    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line} `{self.text}`: {self.reason or 'NO REASON'}"


def cover(ops: Iterable[str], out: Path, tell: Callable[[str], object] = lambda _: None) -> Coverage:
    """Play every case of some ops, at full rate and under stalls, and add up what was reached.

    Args:
        ops: Names of ops in hardware.
        out: Folder of builds and runs.
        tell: Told which case is played.

    Raises:
        SimulationError: If a case does not agree with its golden: what it reached proves nothing then.
        ConfigError: If an op is not in hardware.
        ToolError: If a tool is missing or a build fails.
    """
    counts: Counter[Point] = Counter()
    for op in ops:
        found = default_catalogue().get(op)
        if found is None or found.hardware is None:
            raise ConfigError("coverage is counted for ops in hardware", field="ops", got=op)
        for case in found.hardware.cases():
            tell(f"{op}-{case.name}")
            for point, count in _played(OpCase(op, case.name), out / f"{op}-{case.name}", out).counts.items():
                counts[point] += count
    return Coverage(dict(counts))


def cover_network(spec: str, out: Path) -> Coverage:
    """Simulate a network at full rate and under stalls: what the netlist places around ops is in no case of one.

    Args:
        spec: A model as the command line takes it, ``FILE.py:FUNCTION``.
        out: Folder of the bundle, the builds and the runs.

    Raises:
        SimulationError: If the design does not agree with its model.
        ConfigError: If there is no such model.
        ToolError: If a tool is missing or a build fails.
    """
    found = load_model(spec)
    design = compile(found.model, found.example_inputs, out=out / "bundle")
    counts: Counter[Point] = Counter()
    for stalls in (0.0, 0.4):
        result = design.simulate(engine="batch", coverage=True, stalls=stalls, work_dir=out / f"stalls{stalls}").result
        assert result.coverage is not None  # asked for
        counts.update(result.coverage.counts)
    return Coverage(dict(counts))


def _played(case: OpCase, home: Path, out: Path) -> Coverage:
    played = case.played(0)
    built = batch.build(case.dut(home / "mem"), home / "build", COUNTED, cache_dir=out / "runtime-cache")
    counts: Counter[Point] = Counter()
    for name, stalls in (("full_rate", Stalls.none()), ("stalls", Stalls.random(0.4, 0.4))):
        limits = case.limits(played.frames, stalls.slowdown)
        options = replace(COUNTED, stalls=stalls)
        result = batch.simulate(built, home / name, played.beats_in, played.beats_out, limits, options)
        coverage = result.raise_on_failure().coverage
        assert coverage is not None  # asked for with the build
        counts.update(coverage.counts)
    return Coverage(dict(counts))


def read_reasons(file: Path) -> dict[Place, str]:
    """Reasons by module and text of the line, from ``[[gap]]`` tables with ``module``, ``line`` and ``reason``.

    Raises:
        ConfigError: If the file is something else, or a reason is empty.
    """
    try:
        gaps = tomllib.loads(file.read_text(encoding="utf-8")).get("gap", [])
        found = {(str(g["module"]), str(g["line"]).strip()): str(g["reason"]).strip() for g in gaps}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError("reasons of gaps cannot be read", node=str(file), got=f"{error!r}") from error
    for place, reason in found.items():
        if not reason:
            raise ConfigError("a gap has an empty reason", node=str(file), got=place)
    return found


def gaps(coverage: Coverage, reasons: Mapping[Place, str], *, whole: bool = False) -> list[Gap]:
    """Every line with something that was never reached, in order.

    Args:
        coverage: What was reached.
        reasons: As :func:`read_reasons` gives them.
        whole: Whether every module of the library should be there: of one that is not, its first line is a gap.
    """
    sources = {module: source(rtl_root() / file).splitlines() for module, file in _library().items()}
    places = {(p.module, p.line) for kind in KINDS for p in coverage.missed(kind) if p.module in sources}
    if whole:
        places |= {(m, _header(m, sources[m])) for m in set(sources) - set(coverage.modules)}
    return [_gap(module, line, sources[module], reasons) for module, line in sorted(places)]


def _library() -> dict[str, str]:
    """The modules of which designs are made; those of a system stand around a design."""
    return {module: file for module, file in library_modules().items() if not file.startswith("system/")}


def _header(module: str, lines: Sequence[str]) -> int:
    """The line on which a module begins."""
    return next(number for number, line in enumerate(lines, 1) if line.startswith(f"module {module}"))


def idle(coverage: Coverage, reasons: Mapping[Place, str], *, whole: bool = False) -> list[Place]:
    """Reasons for what is reached, or is not there any more; unless it is the whole, of modules that were covered."""
    needed = {(gap.module, gap.text) for gap in gaps(coverage, {}, whole=whole)}
    known = reasons if whole else [place for place in reasons if place[0] in coverage.modules]
    return sorted(place for place in known if place not in needed)


def _gap(module: str, line: int, source: Sequence[str], reasons: Mapping[Place, str]) -> Gap:
    text = source[line - 1].strip()
    reason = reasons.get((module, text), "")
    if not reason and any("$fatal" in near for near in source[line - 1 : line + 1]):
        reason = ASSERTION
    if not reason and _in_constant_function(source[:line]):
        reason = CONSTANT
    return Gap(module, line, text, reason)


def _in_constant_function(before: Sequence[str]) -> bool:
    """Whether the last of these lines is in a function that makes an ``int``."""
    for text in reversed(before):
        if text.strip().startswith("function automatic int "):
            return True
        if "endfunction" in text or text.strip().startswith("function "):
            return False
    return False


def table(coverage: Coverage, found: Iterable[Gap]) -> str:
    """Lines and branches of every module and of all together, then every gap; Markdown."""
    known = set(_library())
    shares = {f"`{m}`": [coverage.share(kind, m) for kind in KINDS] for m in coverage.modules if m in known}
    shares["all"] = [(sum(a for a, _ in of), sum(b for _, b in of)) for of in zip(*shares.values(), strict=True)]
    lines = ["| module | lines | branches |", "|---|---|---|"]
    for module, of in shares.items():
        lines.append(f"| {module} | " + " | ".join(f"{reached} of {every}" for reached, every in of) + " |")
    lines += ["", "What no case reaches:", ""]
    lines += [f"- {gap}" for gap in found] or ["- nothing"]
    return "\n".join(lines) + "\n"
