"""The subcommand ``evaluate``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import (
    FAILED,
    OK,
    PLAN_HELP,
    THREADS_HELP,
    attach,
    calibration_argument,
    data_argument,
    labelled_of,
    loaded,
    model_arguments,
    path,
    quantised_of,
    settle,
    unfinished,
    whole,
)
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice

HELP = "say how good the float model, the quantised one and the hardware are on labelled data"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    model_arguments(parser, PLAN_HELP)
    calibration_argument(parser)
    data_argument(parser)
    parser.add_argument(
        "--criterion", default="accuracy", metavar="NAME", help="accuracy, top_k, mse, sqnr, perplexity"
    )
    parser.add_argument("--bundle", type=path, metavar="FOLDER", help="simulate this bundle of the model too")
    parser.add_argument("--engine", default="batch", metavar="NAME", help="cocotb, fast or batch (batch)")
    parser.add_argument("--jobs", type=whole, default=1, metavar="N", help="processes of the batch engine (1)")
    parser.add_argument("--threads", type=whole, default=1, metavar="N", help=THREADS_HELP)
    parser.add_argument("--work", type=path, metavar="FOLDER", help="where to build and run (BUNDLE.work)")


def run(arguments: argparse.Namespace) -> int:
    """Evaluate; 1 if the hardware is not the quantised model.

    Raises:
        MaseHwError: If the model, the configuration, the data or the bundle is not usable.
    """
    import mase_hw
    from mase_hw.design.evaluate import evaluate_models
    from mase_hw.passes.evaluation import make_criterion

    settle(arguments)
    make_criterion(arguments.criterion)
    design = None if arguments.bundle is None else mase_hw.load_design(arguments.bundle)
    if design is not None:
        arguments.kept = lambda: f"no result was kept; {unfinished(design.path)}"
    settings, spec = loaded(arguments)
    data = labelled_of(arguments, spec)
    with voice(arguments, aside=True) as say:
        if design is None:
            graph = quantised_of(arguments, settings, spec, say)
            found = evaluate_models(graph, data, arguments.criterion, spec.model, say)
        else:
            attach(design, spec, arguments, say)
            found = design.evaluate(
                data,
                arguments.criterion,
                float_model=spec.model,
                engine=arguments.engine,
                jobs=arguments.jobs,
                threads=arguments.threads,
                work_dir=arguments.work,
                progress=say,
            )
    return answer(arguments, OK if found.passed else FAILED, found.to_json(), found.text())
