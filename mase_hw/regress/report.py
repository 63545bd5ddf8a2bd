"""What a regression showed, and its reports: JUnit XML for servers, JSON for programs, one HTML page for people.

The committed figures of every job, and what became something else.

In both directions: a gain that is not recorded can be lost again without anybody noticing.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from mase_hw.errors import ConfigError
from mase_hw.host.disk import write_whole, writing
from mase_hw.host.documents import Json, parse_json
from mase_hw.host.shown import rendered
from mase_hw.regress.job import Result, write_json

FIGURES = ("fill", "interval", "cycles", "multipliers", "memory_bits")
"""What is compared; less is better of all of them. Nothing here is an estimate, so there is no tolerance."""
_WORSE = frozenset({"worse", "gone"})
Figures = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Difference:
    """One figure that is not what the baseline says.

    Args:
        job: Name of the job.
        figure: One of :data:`FIGURES`, or empty for the job as a whole.
        before: The baseline's value.
        now: The measured value.
        verdict: ``worse``, ``better``, ``new`` (not in the baseline) or ``gone`` (only in the baseline).
    """

    job: str
    figure: str
    before: int | None
    now: int | None
    verdict: str

    @property
    def regression(self) -> bool:
        """Whether it fails the regression: a figure that nobody measures any more does, too."""
        return self.verdict in _WORSE

    @property
    def gain(self) -> bool:
        """Whether it is better than what was recorded."""
        return self.verdict == "better"

    @property
    def change(self) -> str:
        """In percent, or nothing."""
        if self.before is None or self.now is None or not self.before:
            return ""
        return f"{(self.now - self.before) / self.before:+.1%}"

    def to_json(self) -> Json:
        """The fields as JSON types."""
        return asdict(self)


def read_baseline(path: Path, matrix: str) -> dict[str, dict[str, int]] | None:
    """The figures of one matrix by job; None if the file or the matrix in it does not exist.

    Raises:
        ConfigError: If the file is not a baseline.
    """
    document = _read(path)
    return document.get(matrix) if document is not None else None


def write_baseline(path: Path, matrix: str, results: Iterable[Result], *, others: bool = False) -> None:
    """Put the figures of these results in place of the matrix's.

    Args:
        path: The file.
        matrix: Name of the matrix.
        results: Results of its jobs.
        others: Whether the figures of its other jobs stay.

    Raises:
        EmitError: If the file cannot be written.
        ConfigError: If what is there is not a baseline.
    """
    document = _read(path) or {}
    figures = {r["job"]: {f: int(r["figures"][f]) for f in FIGURES if f in r["figures"]} for r in results}
    document[matrix] = {**document.get(matrix, {}), **figures} if others else figures
    with writing("the baseline", path):
        write_json(path, document)


def compare(baseline: Figures, results: Iterable[Result]) -> list[Difference]:
    """Every difference of passed jobs, the worst kind first. Jobs that did not pass have failed already."""
    found: list[Difference] = []
    seen = set()
    for result in results:
        name, now = result["job"], result["figures"]
        seen.add(name)
        if result["status"] != "passed":
            continue
        if name not in baseline:
            found.append(Difference(name, "", None, None, "new"))
            continue
        before = baseline[name]
        for figure in FIGURES:
            a, b = before.get(figure), now.get(figure)
            if a != b:
                verdict = "new" if a is None else "gone" if b is None else "worse" if b > a else "better"
                found.append(Difference(name, figure, a, b, verdict))
    found += [Difference(name, "", None, None, "gone") for name in sorted(set(baseline) - seen)]
    return sorted(found, key=lambda d: (not d.regression, d.job))


def _read(path: Path) -> dict[str, dict[str, dict[str, int]]] | None:
    try:
        document = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise ConfigError("the baseline cannot be read", node=str(path), got=str(problem)) from problem
    whole = isinstance(document, dict) and all(
        isinstance(jobs, dict)
        and all(isinstance(f, dict) and all(type(v) is int for v in f.values()) for f in jobs.values())
        for jobs in document.values()
    )
    if not whole:
        raise ConfigError("not a baseline", node=str(path), expected="figures by matrix and job", remedy="restore it")
    return dict(document)


@dataclass(frozen=True)
class Report:
    """What a regression showed.

    Args:
        matrix: Name of the matrix.
        results: One of every job, in the order of the matrix.
        differences: From the baseline.
        baseline: Whether there was one.
        kept: Jobs whose result is an earlier regression's.
        outdated: Those of them that ran other sources than these.
        seconds: Wall time.
    """

    matrix: str
    results: list[Result]
    differences: list[Difference]
    baseline: bool
    kept: list[str]
    outdated: list[str]
    seconds: float

    @property
    def failures(self) -> list[Result]:
        """Every job that did not pass."""
        return [r for r in self.results if r["status"] != "passed"]

    @property
    def regressions(self) -> list[Difference]:
        """What became slower or larger, or is not measured any more."""
        return [d for d in self.differences if d.regression]

    @property
    def gains(self) -> list[Difference]:
        """What became faster or smaller without being recorded."""
        return [d for d in self.differences if d.gain]

    @property
    def passed(self) -> bool:
        """Whether every job passed with these sources, and every figure is that of the baseline."""
        return bool(self.results) and not (self.failures or self.regressions or self.gains or self.outdated)

    def to_json(self) -> Json:
        """Everything as JSON types."""
        return {
            "matrix": self.matrix,
            "passed": self.passed,
            "jobs": len(self.results),
            "failures": len(self.failures),
            "regressions": len(self.regressions),
            "gains": len(self.gains),
            "baseline": self.baseline,
            "kept": self.kept,
            "outdated": self.outdated,
            "seconds": round(self.seconds, 3),
            "differences": [d.to_json() | {"regression": d.regression} for d in self.differences],
            "results": self.results,
        }


REPORTS = ("results.json", "junit.xml", "report.html")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TEMPLATES = Path(__file__).resolve().parent / "templates"


def remove_reports(out: Path) -> None:
    """Remove those of an earlier regression.

    Raises:
        EmitError: If they cannot be removed.
    """
    with writing("the folder of the regression", out):
        for name in REPORTS:
            (out / name).unlink(missing_ok=True)


def write_reports(report: Report, out: Path) -> None:
    """Write all three into a folder, each of them whole.

    Raises:
        EmitError: If they cannot be written.
    """
    with writing("the reports", out):
        write_whole(out / "junit.xml", junit(report))
        write_whole(out / "report.html", html(report))
        write_json(out / "results.json", report.to_json())


def junit(report: Report) -> str:
    """Two suites: the jobs, and the figures of every job that the baseline knows."""
    root = ET.Element("testsuites", name=report.matrix)
    jobs = ET.SubElement(root, "testsuite", name=f"{report.matrix}.jobs")
    outdated = set(report.outdated)
    for result in report.results:
        case = ET.SubElement(
            jobs, "testcase", classname=result["build"], name=result["job"], time=f"{result['seconds']:.3f}"
        )
        if result["status"] != "passed":
            _problem(case, "failure" if result["status"] == "failed" else "error", result["kind"], result["message"])
        elif result["job"] in outdated:
            _problem(case, "error", "Outdated", "passed with other sources and was not run again")
    quality = ET.SubElement(root, "testsuite", name=f"{report.matrix}.quality")
    for difference in report.differences:
        name = f"{difference.job} {difference.figure}".strip()
        case = ET.SubElement(quality, "testcase", classname="quality", name=name, time="0")
        if difference.regression:
            text = f"{difference.verdict}: {difference.before} became {difference.now} {difference.change}"
            _problem(case, "failure", "Regression", text)
        elif difference.gain:
            text = f"not recorded: {difference.before} became {difference.now} {difference.change}"
            _problem(case, "failure", "Gain", text)
    for suite in (jobs, quality):
        cases = list(suite)
        suite.set("tests", str(len(cases)))
        suite.set("failures", str(sum(c.find("failure") is not None for c in cases)))
        suite.set("errors", str(sum(c.find("error") is not None for c in cases)))
        suite.set("skipped", "0")
        suite.set("time", f"{sum(float(c.get('time', '0')) for c in cases):.3f}")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def html(report: Report) -> str:
    """One page without any other file."""
    known: dict[tuple[str, str], str] = {(d.job, d.figure): d.verdict for d in report.differences}
    return rendered(_TEMPLATES / "regress.html.j2", report=report, figures=FIGURES, known=known)


def table(report: Report) -> str:
    """The differences as text."""
    rows = [("job", "figure", "baseline", "now", "change", "")]
    for d in report.differences:
        before, now = ("-" if v is None else str(v) for v in (d.before, d.now))
        rows.append((d.job, d.figure or "(job)", before, now, d.change, d.verdict))
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    cells = [
        [text.rjust(w) if 2 <= i <= 4 else text.ljust(w) for i, (text, w) in enumerate(zip(row, widths, strict=True))]
        for row in rows
    ]
    return "\n".join("  ".join(row).rstrip() for row in cells)


def _problem(case: ET.Element, tag: str, kind: str, message: str) -> None:
    clean = _NOT_XML.sub("\ufffd", message)
    lines = clean.strip().splitlines() or [kind]
    ET.SubElement(case, tag, type=kind, message=lines[0]).text = clean
