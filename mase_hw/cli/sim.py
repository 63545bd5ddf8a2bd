"""The subcommand ``sim``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import judge, path, refuse_options, settle, simulation_arguments
from mase_hw.errors import ConfigError

HELP = "simulate a bundle and compare with PyTorch bit for bit"


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``sim``."""
    parser.add_argument("bundle", type=path, metavar="BUNDLE", help="folder written by compile")
    parser.add_argument("--model", metavar="MODEL", help="what it was compiled from, so that a failure is diagnosed")
    parser.add_argument("--config", type=path, metavar="FILE", help="the configuration it was compiled with")
    simulation_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Simulate a bundle."""
    import mase_hw

    if arguments.config is not None and arguments.model is None:
        raise ConfigError(
            "a configuration alone says nothing about a bundle",
            field="--config",
            got=str(arguments.config),
            expected="--model beside it",
            remedy="name the model too, or leave out --config; the bundle keeps the formats it was compiled with",
        )
    settle(arguments)
    refuse_options(arguments.bundle, arguments)
    design = mase_hw.load_design(arguments.bundle)
    if arguments.model is not None:
        from mase_hw.design.attach_model import attach_model
        from mase_hw.model_spec import load_model

        spec = load_model(arguments.model)
        attach_model(
            design,
            lambda out: mase_hw.compile(
                spec.model, spec.example_inputs, arguments.config, out=out, calibration=spec.calibration
            ),
        )
    return judge(design, arguments)
