"""The subcommand ``report``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import OK, attach_behind, behind_arguments, path, refuse_alone, settle
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice

HELP = "write one page that shows a bundle: time, area, what quantisation cost, what was proven"


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``report``."""
    parser.add_argument("bundle", type=path, metavar="BUNDLE", help="folder written by compile")
    parser.add_argument("--out", type=path, metavar="FILE", help="the page (BUNDLE.report.html)")
    behind_arguments(parser, "for all that needs the model")
    parser.add_argument("--against", type=path, metavar="BUNDLE", help="another bundle to compare with")
    parser.add_argument("--work", type=path, metavar="FOLDER", help="where it was simulated (BUNDLE.work)")


def run(arguments: argparse.Namespace) -> int:
    """Write the page; with ``--json`` print its figures instead.

    Raises:
        MaseHwError: If the bundle, the model or the file is not usable.
    """
    import mase_hw
    from mase_hw.report.charts import need_matplotlib
    from mase_hw.report.page import bundle_facts, printed, write_report

    refuse_alone(arguments)
    settle(arguments)
    if not arguments.json:
        need_matplotlib()
    bundle_facts(arguments.bundle)  # before a model is compiled for it
    design = mase_hw.load_design(arguments.bundle)
    with voice(arguments, aside=True) as say:
        attach_behind(design, arguments, say)
    graph = design.graph
    if arguments.json:
        other = None if arguments.against is None else bundle_facts(arguments.against)
        return answer(arguments, OK, printed(bundle_facts(arguments.bundle, graph, arguments.work), other), "")
    made = write_report(arguments.bundle, arguments.out, graph=graph, against=arguments.against, work=arguments.work)
    return answer(arguments, OK, {}, f"report: {made}")
