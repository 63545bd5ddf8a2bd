"""``compile`` of a configuration with ``hardware.device``: a bundle for each device, and one of all of them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mase_hw.cli._common import FAILED, OK, refuse_beside, simulation_options
from mase_hw.cli.answers import answer
from mase_hw.host.documents import Json

if TYPE_CHECKING:
    from mase_hw.cli.progress import Voice
    from mase_hw.compiler.config import CompileConfig
    from mase_hw.model_spec import ModelSpec

_NOT_BESIDE = ("calibration", "reproduce", "save-model", "partition")


def run(arguments: argparse.Namespace, settings: CompileConfig, spec: ModelSpec, say: Voice) -> int:
    """Compile for the devices, simulate the whole and write the reports if asked to.

    Raises:
        ConfigError: If an option is for one design only.
        MaseHwError: As :func:`mase_hw.compile_devices`.
    """
    from mase_hw.devices import compile_devices

    why = "there is a design for each device, and this is for one"
    refuse_beside(arguments, _NOT_BESIDE, why, ", or hardware.device")
    design = compile_devices(
        spec.model,
        spec.example_inputs,
        settings,
        out=arguments.out,
        calibration=spec.calibration,
        vectors=spec.test_inputs,
        progress=say,
    )
    code, verdict = OK, None
    if arguments.simulate:
        found = design.simulate(check=False, progress=say, **simulation_options(arguments))
        say(found.report())
        code = OK if found.passed else FAILED
        verdict = {**found.result.to_json(), "frames": found.frames}
    pages = [each.report() for each in (*design.designs.values(), design.whole)] if arguments.report else []
    for page in pages:
        say(f"report: {page}")
    answered: Json = {
        "devices": {str(number): each.path for number, each in design.designs.items()},
        "whole": design.whole.path,
        "timing": design.timing,
        "simulation": verdict,
        "reports": pages,
    }
    return answer(arguments, code, answered, "")
