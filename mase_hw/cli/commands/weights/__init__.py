"""The subcommand ``weights``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mase_hw.cli._common import OK, attach_behind, behind_arguments, path, quantised_of, settle
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice
from mase_hw.errors import ConfigError
from mase_hw.host.documents import Json

if TYPE_CHECKING:
    from mase_hw.cli.progress import Voice
    from mase_hw.compiler.weights import Weights
    from mase_hw.ir import MaseGraph
    from mase_hw.model_spec import ModelSpec

    Made = tuple[ModelSpec, MaseGraph, Json, list[str]]
    """The retrained model, that of the design with its parameters, the manifest, and what is said."""

HELP = "make of a retrained model the image for a design with parameters in RAM or in external memory"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("retrained", metavar="MODEL", help="the retrained model, as for compile")
    parser.add_argument(
        "--bundle", type=path, required=True, metavar="FOLDER", help="the design, also one on several devices"
    )
    parser.add_argument("--out", type=path, required=True, metavar="DIR", help="folder to write")
    behind_arguments(parser, "whose formats stay")
    parser.add_argument(
        "--criterion", default="accuracy", metavar="NAME", help="what is compared where MODEL has labelled data"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the folder of the weights.

    Raises:
        MaseHwError: If the model is not the one of the design with other parameters, or a value is out of range.
    """
    from mase_hw.compiler.quantised_model import is_quantised
    from mase_hw.design.evaluate import evaluate_models
    from mase_hw.devices.records import FILE

    settle(arguments)
    with voice(arguments, aside=True) as say:
        make = _of_devices if (arguments.bundle / FILE).is_file() else _of_one
        spec, graph, manifest, lines = make(arguments, say)
        found: Json = {"weights": manifest, "evaluation": None}
        if spec.labelled is not None:
            alone = None if is_quantised(spec.model) else spec.model
            evaluated = evaluate_models(graph, spec.labelled, arguments.criterion, alone, say)
            lines.append(evaluated.text())
            found["evaluation"] = evaluated.to_json()
    return answer(arguments, OK, found, "\n".join(lines))


def _of_one(arguments: argparse.Namespace, say: Voice) -> Made:
    """The weights of a design, written."""
    import mase_hw
    from mase_hw.compiler.weights import make_weights, replaceable
    from mase_hw.hardware.manifest import typed
    from mase_hw.model_spec import load_model

    design = mase_hw.load_design(arguments.bundle)
    replaceable(typed(design.manifest), str(design.path))
    spec = load_model(arguments.retrained)
    attach_behind(design, arguments, say)
    weights = make_weights(design, _quantised(arguments, spec, say))
    manifest = weights.write(arguments.out, design)
    return spec, weights.graph, manifest, [f"wrote {arguments.out}: {_said(weights)}"]


def _of_devices(arguments: argparse.Namespace, say: Voice) -> Made:
    """The weights of a design on several devices, written.

    Raises:
        ConfigError: If the model that it was compiled from is not named, which is not kept beside it.
    """
    from mase_hw.devices import compile_devices, load_devices, make_devices_weights
    from mase_hw.devices.weights import attach_devices
    from mase_hw.model_spec import load_model

    design = load_devices(arguments.bundle)
    if arguments.model is None:
        raise ConfigError(
            "the model behind a design on several devices is not kept beside it",
            field="--model",
            expected="what it was compiled from, and its configuration with --config",
        )
    if arguments.calibration is not None:
        raise ConfigError(
            "a design on several devices is not compiled with the state of a calibration",
            field="--calibration",
            got=str(arguments.calibration),
            remedy="leave it out",
        )
    behind, spec = load_model(arguments.model), load_model(arguments.retrained)
    say("compiling the model again, for its graphs")
    attach_devices(
        design,
        lambda out: compile_devices(
            behind.model, behind.example_inputs, arguments.config, out=out, calibration=behind.calibration
        ),
    )
    weights = make_devices_weights(design, _quantised(arguments, spec, say))
    manifest = weights.write(arguments.out, design)
    lines = [f"  device {number}: {_said(each)}" for number, each in weights.devices.items()]
    return spec, weights.graph, manifest, [f"wrote {arguments.out}", *lines]


def _quantised(arguments: argparse.Namespace, spec: ModelSpec, say: Voice) -> MaseGraph:
    from mase_hw.compiler.config import load_config

    return quantised_of(arguments, load_config(arguments.config), spec, say)


def _said(weights: Weights) -> str:
    return f"{(len(weights.image) + len(weights.outside)) // 4} words, CRC {weights.digest:08x}"
