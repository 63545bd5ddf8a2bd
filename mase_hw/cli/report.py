"""The subcommand ``report``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import OK, path, say, settle
from mase_hw.errors import ConfigError

HELP = "write one page that shows a bundle: time, area, what quantisation cost, what was proven"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("bundle", type=path, metavar="BUNDLE", help="folder written by compile")
    parser.add_argument("--out", type=path, metavar="FILE", help="the page (BUNDLE.report.html)")
    parser.add_argument("--model", metavar="MODEL", help="what it was compiled from, for all that needs the model")
    parser.add_argument("--config", type=path, metavar="FILE", help="the configuration it was compiled with")
    parser.add_argument("--against", type=path, metavar="BUNDLE", help="another bundle to compare with")
    parser.add_argument("--work", type=path, metavar="FOLDER", help="where it was simulated (BUNDLE.work)")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object; write no page")


def run(arguments: argparse.Namespace) -> int:
    """Write the page, or print its figures.

    Raises:
        MaseHwError: If the bundle, the model or the file is not usable.
    """
    from mase_hw.report.charts import need_matplotlib
    from mase_hw.report.write import as_json, bundle_facts, write_report

    if arguments.config is not None and arguments.model is None:
        raise ConfigError(
            "a configuration alone says nothing about a bundle",
            field="--config",
            got=str(arguments.config),
            expected="--model beside it",
            remedy="name the model too, or leave out --config",
        )
    settle(arguments)
    if not arguments.json:
        need_matplotlib()
    bundle_facts(arguments.bundle)  # before a model is compiled for it
    graph = None
    if arguments.model is not None:
        import mase_hw
        from mase_hw.design.attach_model import attach_model
        from mase_hw.model_spec import load_model

        spec, design = load_model(arguments.model), mase_hw.load_design(arguments.bundle)
        attach_model(
            design,
            lambda out: mase_hw.compile(
                spec.model, spec.example_inputs, arguments.config, out=out, calibration=spec.calibration
            ),
        )
        graph = design.graph
    if arguments.json:
        print(as_json(bundle_facts(arguments.bundle, graph, arguments.work)))
        return OK
    made = write_report(arguments.bundle, arguments.out, graph=graph, against=arguments.against, work=arguments.work)
    say(f"report: {made}")
    return OK
