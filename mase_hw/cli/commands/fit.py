"""The subcommand ``fit``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import MEASURE, OK, model_arguments, path, refuse_suffix, settle, target_arguments, target_of
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice

HELP = "choose lanes and implementations of every layer for a device and a rate, without writing a design"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    model_arguments(parser)
    target_arguments(parser)
    parser.add_argument("--measure", action="store_true", help=MEASURE)
    parser.add_argument("--plot", type=path, metavar="FILE.svg", help="draw rates and areas among which one chooses")


def run(arguments: argparse.Namespace) -> int:
    """Choose, and print the choice.

    Raises:
        MaseHwError: If the target cannot be met, or something is wrong with the model or the configuration.
    """
    from mase_hw.compiler.config import load_config, with_target
    from mase_hw.fit.result import picture
    from mase_hw.fit.target import goal
    from mase_hw.ir.draw.picture import write_picture
    from mase_hw.model_spec import load_model
    from mase_hw.preflight.fit import fit

    refuse_suffix(arguments, "plot", ".svg", "the plot is an SVG")
    settle(arguments)
    settings = with_target(load_config(arguments.config), target_of(arguments))
    goal(settings.target, settings.hardware.family)  # before a model is loaded for it
    spec = load_model(arguments.model)
    with voice(arguments, aside=True) as say:
        found = fit(
            spec.model,
            spec.example_inputs,
            settings,
            measure=arguments.measure,
            calibration=spec.calibration,
            progress=say,
        )
    document = found.to_json()
    if arguments.plot is not None:
        write_picture(arguments.plot, lambda: picture(found))
        document["plot"] = arguments.plot
    return answer(arguments, OK, document, found.text())
