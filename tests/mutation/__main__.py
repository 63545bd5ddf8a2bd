"""``python -m tests.mutation``: run mutants, keep the score, say what is out of date."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from . import campaign, score


def main(argv: list[str] | None = None) -> int:
    """The command; returns 0 if the score is good and complete."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="judge the chosen mutants and bring the score up to date")
    run.add_argument("files", nargs="*", help="files to judge, below the repository; all if none is named")
    run.add_argument("--changed", action="store_true", help="only files that changed since they were judged")
    run.add_argument("--alive", action="store_true", help="only mutants that survived when they were last judged")
    run.add_argument("--keep", action="store_true", help="judge nothing: write what an interrupted run has decided")
    run.add_argument("--jobs", type=int, default=1, help="processes")
    run.add_argument("--seed", type=int, default=campaign.SEED, help="of the choice of mutants")
    run.add_argument("--score", type=Path, default=campaign.ROOT / score.KEPT, help="the file to keep the score in")
    run.add_argument(
        "--work", type=Path, default=campaign.ROOT / "build" / "mutation", help="scratch, and what is done"
    )
    commands.add_parser("reasons", help="write the reasons of survivors into the score, judge nothing")
    commands.add_parser("check", help="say what is wrong with the score, and which files changed since")
    commands.add_parser("show", help="print one mutant as a difference").add_argument("id")
    arguments = parser.parse_args(argv)
    if arguments.command == "show":
        return show(arguments.id)
    if arguments.command == "reasons":
        campaign.explain(campaign.ROOT / score.KEPT)
    if arguments.command == "run":
        files = [campaign.place(file) for file in arguments.files] or campaign.sources()
        if arguments.alive:
            judged = score.read(arguments.score)
            names = [campaign.name(path) for path in files]
            stale = score.changed_since(judged, campaign.place, names)
            files = [campaign.place(name) for name in names if name in judged and name not in stale]
        if arguments.changed and arguments.score.is_file():
            names = [campaign.name(path) for path in files]
            stale = score.changed_since(score.read(arguments.score), campaign.place, names)
            files = [campaign.place(name) for name in stale if name in names]
        say = lambda text: print(f"==> {text}", flush=True)  # noqa: E731
        work = arguments.work.resolve()
        if arguments.keep:
            campaign.keep(files, arguments.score, work, say, arguments.seed)
        else:
            campaign.update(files, arguments.score, work, arguments.jobs, say, arguments.seed, arguments.alive)
    return check(arguments.score if arguments.command == "run" else campaign.ROOT / score.KEPT)


def check(kept: Path) -> int:
    """Print the totals and everything that is wrong; files that changed since are no fault of the score."""
    result = score.read(kept)
    print("\n".join(score.lines(result)))
    names = [campaign.name(path) for path in campaign.sources()]
    for file in score.changed_since(result, campaign.place, names):
        print(f"changed since it was judged: {file}")
    wrong = score.problems(result, score.read_reasons(campaign.ROOT / score.REASONS))
    for problem in wrong:
        print(problem)
    return 1 if wrong else 0


def show(name: str) -> int:
    """Print a mutant as a difference."""
    for path in campaign.sources():
        for mutant in campaign.mutants_of(path):
            if mutant.id == name:
                text = path.read_text(encoding="utf-8")
                sides = (text.splitlines(keepends=True), mutant.apply(text).splitlines(keepends=True))
                sys.stdout.writelines(difflib.unified_diff(*sides, mutant.file, f"{mutant.file} ({name})", n=2))
                return 0
    print(f"there is no mutant {name}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
