"""The subcommand ``regress``."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path

from mase_hw.cli._common import FAILED, OK, path, whole
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice
from mase_hw.host.process import cores

HELP = "run a matrix of ops and networks, or a folder of bundles, and compare with the baseline"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("file", type=path, metavar="FILE", help="the matrix, TOML; or a folder of bundles")
    parser.add_argument("--out", type=path, required=True, metavar="FOLDER", help="builds, runs and reports")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="run only jobs with such names, as 'op.relu.*'")
    parser.add_argument("--failed", action="store_true", help="run only what has not passed in FOLDER, with waves")
    parser.add_argument("--waves", action="store_true", help="write an FST of every run")
    parser.add_argument("--jobs", type=whole, metavar="N", help="processes (one a core, at most 8)")
    parser.add_argument("--dask", metavar="SCHEDULER", help="run on this Dask cluster: its address or scheduler file")
    parser.add_argument("--baseline", type=path, metavar="FILE", help="figures to compare with (beside the matrix)")
    parser.add_argument("--update-baseline", action="store_true", help="write these figures as the new baseline")


def run(arguments: argparse.Namespace) -> int:
    """Run it; 0 only if every job passed and every figure is that of the baseline.

    Raises:
        MaseHwError: If the matrix, the baseline, a folder or the cluster is not usable.
    """
    from mase_hw.host.pools import LocalPool, dask_pool
    from mase_hw.regress.regress import RegressOptions, regress
    from mase_hw.regress.report import table

    width = arguments.jobs if arguments.jobs is not None else min(8, cores())
    arguments.kept = lambda: _kept(arguments.file, arguments.out)
    with voice(arguments) as say:
        with dask_pool(arguments.dask) if arguments.dask else nullcontext(LocalPool(width)) as pool:
            report = regress(
                arguments.file,
                arguments.out,
                options=RegressOptions(
                    arguments.only,
                    arguments.failed,
                    arguments.waves,
                    arguments.baseline,
                    arguments.update_baseline,
                ),
                pool=pool,
                tell=say,
            )
        if report.differences:
            say(table(report))
        if not report.baseline:
            say("there is no baseline for this matrix; --update-baseline makes one")
        if report.outdated:
            say(f"{len(report.outdated)} kept results ran other sources than these: run the whole matrix")
        if report.gains:
            say("what became better is recorded with --update-baseline, so that it is not lost again unnoticed")
    passed = len(report.results) - len(report.failures)
    text = (
        f"{'passed' if report.passed else 'FAILED'}: {passed} of {len(report.results)} jobs passed, "
        f"{len(report.regressions)} figures worse or gone, {len(report.gains)} better and not recorded, "
        f"{report.seconds:.1f} s; {arguments.out / 'report.html'}"
    )
    return answer(arguments, OK if report.passed else FAILED, report.to_json(), text)


def _kept(file: Path, out: Path) -> str:
    """What an interruption leaves."""
    done = len(list((out / "runs").glob("*/result.json")))
    return (
        f"no report was written; {done} results of jobs are kept in {out}, and "
        f"`mase-hw regress {file} --out {out} --failed` runs the others"
    )
