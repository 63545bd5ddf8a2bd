"""The subcommand ``check``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import FAILED, MEASURE, OK, loaded, model_arguments, whole
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice

HELP = "say of every layer whether it becomes hardware and what it costs, without writing anything"
_LIMITS = {"lut": "look-up tables", "ff": "flip-flops", "dsp": "DSP blocks", "bram": "block RAMs"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    model_arguments(parser)
    parser.add_argument("--device", metavar="NAME", help="a device that it should fit, such as xc7a35t")
    for name, what in _LIMITS.items():
        parser.add_argument(f"--{name}", type=whole, metavar="N", help=f"{what} that it may need at most")
    parser.add_argument("--measure", action="store_true", help=MEASURE)


def run(arguments: argparse.Namespace) -> int:
    """Check a model; 0 if it would be taken, and fits what was given.

    Raises:
        MaseHwError: If the function of the model, the configuration or the device is not usable.
    """
    from mase_hw.cost.devices import available
    from mase_hw.preflight.check import check

    limits = {name: getattr(arguments, name) for name in _LIMITS}
    available(arguments.device, limits)  # before a model is loaded for it
    settings, spec = loaded(arguments)
    with voice(arguments, aside=True) as say:
        found = check(
            spec.model,
            spec.example_inputs,
            settings,
            calibration=spec.calibration,
            device=arguments.device,
            limits=limits,
            measure=arguments.measure,
            progress=say,
        )
    return answer(arguments, OK if found.passed else FAILED, found.to_json(), found.text())
