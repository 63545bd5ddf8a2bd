"""The regression runner: a matrix of jobs, their results, what changed, and the reports.

The results are those of exactly the jobs of the matrix: one that gave none is lost, which fails. Reports are written
last, after older ones were removed, so that a regression which is killed leaves none that could be taken for its own.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import json
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from filelock import Timeout

from mase_hw.errors import ConfigError, EmitError
from mase_hw.host.locks import locked
from mase_hw.host.pools import LocalPool, Pool, carry_out
from mase_hw.host.progress import counter
from mase_hw.host.resources import PACKAGE, rtl_root, sim_root
from mase_hw.regress.job import Place, Result, blank, run_job
from mase_hw.regress.matrix import Job, expand, load_matrix
from mase_hw.regress.report import Report, compare, read_baseline, remove_reports, write_baseline, write_reports


def run_all(jobs: Iterable[Job], place: Place, pool: Pool, tell: Callable[[Result], None]) -> list[Result]:
    """Run every job; every job has a result.

    Args:
        jobs: The jobs.
        place: Where they run.
        pool: Who runs them.
        tell: Told every result when it comes.

    Returns:
        The results in the order of the jobs.
    """
    ordered = list(jobs)
    fresh = iter(ordered)
    results: dict[str, Result] = {}

    def finish(job: Job, result: Result) -> None:
        results[job.name] = result
        tell(result)

    carry_out(
        pool,
        functools.partial(run_job, place=place),
        lambda: next(fresh, None),
        finish,
        lambda job, problem, deaths: finish(job, _lost(job, place, problem, deaths)),
    )
    return [results[job.name] for job in ordered]


def _lost(job: Job, place: Place, problem: BaseException, deaths: int) -> Result:
    result = blank(job, place)
    result["kind"] = type(problem).__name__
    result["message"] = f"no result after {deaths} attempts, its worker was lost: {problem or type(problem).__name__}"
    return result


BASELINE = "baseline.json"
_SOURCES = (".py", ".sv", ".svh", ".j2", ".h", ".cpp")


@dataclass(frozen=True)
class RegressOptions:
    """What a regression runs, and what it compares with.

    Args:
        only: Pattern of job names; the others are neither run nor compared, and the baseline keeps their figures.
        failed: Run only what has no passed result in the folder of the results, with waves.
        waves: Write FST of every run.
        baseline: File of the figures to compare with; ``baseline.json`` beside the matrix, or in the folder,
            by default.
        update_baseline: Write the figures as the new baseline, if every job passed.
    """

    only: str = "*"
    failed: bool = False
    waves: bool = False
    baseline: Path | None = None
    update_baseline: bool = False


def regress(
    file: Path,
    out: Path,
    *,
    options: RegressOptions = RegressOptions(),
    pool: Pool | None = None,
    tell: Callable[[str], None] | None = None,
) -> Report:
    """Run a matrix.

    Args:
        file: The matrix; or a folder of bundles, each of which is simulated at full rate and with stalls.
        out: Folder of builds, runs and reports.
        options: What is run and compared.
        pool: Who runs the jobs; one process here by default.
        tell: Told what happens, a line at a time.

    Raises:
        ConfigError: If the matrix or the baseline is not usable, or the baseline that was named does not exist.
        EmitError: If the folder cannot be written, or another regression runs in it.
    """
    begin = time.perf_counter()
    only, failed, baseline = options.only, options.failed, options.baseline
    say = tell or (lambda _: None)
    matrix = load_matrix(file)
    jobs = [
        job for job in expand(matrix, file if file.is_dir() else file.parent) if fnmatch.fnmatchcase(job.name, only)
    ]
    if not jobs:
        raise ConfigError("no job of the matrix has such a name", node=matrix.name, field="only", got=only)
    if baseline is not None and not (baseline.exists() or options.update_baseline):
        # One that is merely missing beside the matrix is a first run; one that was named is a mistake.
        raise ConfigError(
            "there is no such baseline, so nothing would be compared",
            node=str(baseline),
            field="baseline",
            expected="an existing file",
            remedy="correct the name, or make it with --update-baseline",
        )
    baseline = baseline or (file / BASELINE if file.is_dir() else file.with_name(BASELINE))
    before = read_baseline(baseline, matrix.name)
    if before is not None:
        before = {name: figures for name, figures in before.items() if fnmatch.fnmatchcase(name, only)}
    out = out.resolve()
    try:
        # One at a time in a folder: each removes what earlier ones left of a job.
        with locked(out / ".lock", "the folder of the regression", wait=False):
            remove_reports(out)
            place = Place(str(out), uuid.uuid4().hex[:12], fingerprint(jobs), options.waves or failed)
            kept = {job.name: found for job in jobs if failed and (found := _earlier(out, job)) is not None}
            todo = [job for job in jobs if job.name not in kept]
            say(f"{matrix.name}: {len(todo)} jobs to run" + (f", {len(kept)} passed earlier" if kept else ""))
            ran = {r["job"]: r for r in run_all(todo, place, pool or LocalPool(1), _teller(say, len(todo)))}
            results = [ran.get(job.name) or kept[job.name] for job in jobs]
            report = Report(
                matrix.name,
                results,
                [] if before is None else compare(before, results),
                before is not None,
                list(kept),
                [name for name, result in kept.items() if result["sources"] != place.sources],
                time.perf_counter() - begin,
            )
            if options.update_baseline:
                if report.failures or report.outdated:
                    write_reports(report, out)
                    raise ConfigError(
                        "the baseline is not updated, because not every job passed with these sources",
                        node=str(baseline),
                        got=[r["job"] for r in report.failures] + report.outdated,
                        remedy=f"see {out / 'report.html'}",
                    )
                write_baseline(baseline, matrix.name, results, others=only != "*")
                say(f"wrote {baseline}")
                report = replace(report, differences=[], baseline=True)
            write_reports(report, out)
            return report
    except Timeout as problem:
        raise EmitError(
            "another regression runs in this folder", node=str(out), remedy="wait for it, or choose another folder"
        ) from problem


def _teller(say: Callable[[str], None], total: int) -> Callable[[Result], None]:
    """Tells every result when it comes."""
    done, count = 0, counter(say, "regressing", "jobs")

    def heard(result: Result) -> None:
        nonlocal done
        done += 1
        note = f" {result['kind']}: {brief(result['message'])}" if result["status"] != "passed" else ""
        if count is not None:
            count(done, total)
        say(f"[{done}/{total}] {result['status']:6} {result['job']} ({result['seconds']:.1f} s){note}")

    return heard


def fingerprint(jobs: Iterable[Job]) -> str:
    """Hash of the package, its RTL and benches, and of the files that the matrix names.

    What a model's file imports is not in it.
    """
    files = [p for root in (PACKAGE, rtl_root(), sim_root()) for p in root.rglob("*") if p.suffix in _SOURCES]
    for job in jobs:
        place = str(job.spec.get("model", "")).rpartition(":")[0]
        files += [Path(place)] if place.endswith(".py") else []
        files += [Path(job.spec["config"])] if isinstance(job.spec.get("config"), str) else []
    digest = hashlib.sha256()
    for path in sorted(set(files)):
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"{path.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def brief(message: str) -> str:
    """A message in one line: what is wrong, and what was found or the first of several problems."""
    lines = [line.strip() for line in message.strip().splitlines()]
    if len(lines) < 2 or lines[0].startswith("Traceback"):
        return lines[-1] if lines else ""
    if lines[0].endswith(":"):
        return f"{lines[0]} {lines[1]}"
    found = next((line for line in lines[1:] if line.startswith("got: ")), "")
    return f"{lines[0]} ({found})" if found else lines[0]


def _earlier(out: Path, job: Job) -> Result | None:
    """The result of an earlier regression, if it is whole, of the same job, and passed."""
    try:
        result: Result = json.loads((out / "runs" / job.name / "result.json").read_text(encoding="utf-8"))
        same = result["identity"] == job.identity and result["job"] == job.name
        return result if same and result["status"] == "passed" and result["sources"] and result["compared"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
