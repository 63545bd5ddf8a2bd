"""The subcommand ``weights``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import OK, attach_behind, behind_arguments, calibration_of, path, settle
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice

HELP = "make of a retrained model the image for a design with parameters in RAM or in external memory"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    parser.add_argument("retrained", metavar="MODEL", help="the retrained model, as for compile")
    parser.add_argument("--bundle", type=path, required=True, metavar="FOLDER", help="the design")
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
    import mase_hw
    from mase_hw.compiler.config import load_config
    from mase_hw.compiler.quantised_graph import quantised_graph
    from mase_hw.compiler.quantised_model import is_quantised
    from mase_hw.compiler.weights import make_weights, replaceable
    from mase_hw.design.evaluate import evaluate_models
    from mase_hw.hardware.manifest import typed
    from mase_hw.model_spec import load_model

    settle(arguments)
    design = mase_hw.load_design(arguments.bundle)
    replaceable(typed(design.manifest), str(design.path))
    spec = load_model(arguments.retrained)
    with voice(arguments, aside=True) as say:
        attach_behind(design, arguments, say)
        calibration = calibration_of(arguments, spec.calibration)
        settings = load_config(arguments.config)
        graph = quantised_graph(spec.model, spec.example_inputs, settings, calibration, None, say)
        weights = make_weights(design, graph)
        manifest = weights.write(arguments.out, design)
        size = (len(weights.image) + len(weights.outside)) // 4
        lines = [f"wrote {arguments.out}: {size} words, CRC {weights.digest:08x}"]
        found = {"weights": manifest, "evaluation": None}
        if spec.labelled is not None:
            alone = None if is_quantised(spec.model) else spec.model
            evaluated = evaluate_models(weights.graph, spec.labelled, arguments.criterion, alone, say)
            lines.append(evaluated.text())
            found["evaluation"] = evaluated.to_json()
    return answer(arguments, OK, found, "\n".join(lines))
