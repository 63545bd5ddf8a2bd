"""The subcommand ``compile``."""

from __future__ import annotations

import argparse
from pathlib import Path

from mase_hw.cli import devices, partitioned
from mase_hw.cli._common import (
    OK,
    calibration_argument,
    calibration_of,
    judge,
    path,
    refuse_options,
    settle,
    simulation_arguments,
    target_arguments,
    target_of,
    unfinished,
    whole,
)
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import voice
from mase_hw.host.documents import Json

HELP = "turn a model into a bundle of SystemVerilog"


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``compile``."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION, whose function returns (model, example_inputs"
        "[, calibration_batches[, test_inputs[, labelled_batches]]]), FILE.onnx or FILE.tflite",
    )
    parser.add_argument("--config", type=path, metavar="FILE", help="TOML: quantisation, parallelism (8 bits each)")
    calibration_argument(parser)
    parser.add_argument("--out", type=path, required=True, metavar="FOLDER", help="where the bundle is written")
    parser.add_argument(
        "--frames", type=whole, metavar="N", help="test vectors at most, if the function gives none (16)"
    )
    parser.add_argument("--equalize", action="store_true", help="even out channels before quantising, where it helps")
    parser.add_argument(
        "--save-model", action="store_true", help="keep the quantised model (OUT.model.pt, .mz) for sim and report"
    )
    parser.add_argument("--simulate", action="store_true", help="simulate it and compare with PyTorch")
    parser.add_argument("--report", action="store_true", help="write the page that `report` writes (OUT.report.html)")
    target_arguments(parser)
    partitioned.configure(parser)
    simulation_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compile a model, and simulate it if asked to.

    Raises:
        MaseHwError: If the model, the configuration, an option or a folder is not usable.
    """
    import mase_hw
    from mase_hw.compiler.config import load_config, with_target
    from mase_hw.design.saved import save_model
    from mase_hw.model_spec import load_model
    from mase_hw.passes.base import validate
    from mase_hw.vectors.passes import VectorOptions

    settle(arguments)
    settings = with_target(load_config(arguments.config), target_of(arguments))
    asked = settings.vectors.model_dump()
    asked |= {} if arguments.frames is None else {"frames": arguments.frames}
    asked |= {"seed": arguments.seed} if arguments.seed else {}  # 0 may be what nobody asked for
    settings = settings.model_copy(update={"vectors": validate("compile", VectorOptions, asked)})
    if arguments.equalize:
        steps = dict.fromkeys(("cross_layer", "absorb_bias", "smooth_quant"), True)
        settings = settings.model_copy(update={"equalization": settings.equalization.model_copy(update=steps)})
    refuse_options(arguments.out, arguments)
    partitioned.refuse(arguments)
    if arguments.report:
        from mase_hw.report.charts import need_matplotlib

        need_matplotlib()
    before = _digest(arguments.out)
    arguments.kept = lambda: _kept(arguments.out, before)
    spec = load_model(arguments.model, host=arguments.partition)
    if settings.hardware.device:
        with voice(arguments) as say:
            return devices.run(arguments, settings, spec, say)
    if arguments.partition:
        with voice(arguments) as say:
            return partitioned.run(arguments, settings, spec, say)
    calibration = calibration_of(arguments, spec.calibration)
    with voice(arguments) as say:
        design = mase_hw.compile(
            spec.model,
            spec.example_inputs,
            settings,
            out=arguments.out,
            calibration=calibration,
            vectors=spec.test_inputs,
            progress=say,
            reproduce=arguments.reproduce,
        )
        say(f"bundle: {design.path}")
        if arguments.save_model:
            say(f"model: {save_model(design)}.pt, .mz")
        code, verdict = judge(design, arguments, say) if arguments.simulate else (OK, None)
        page = design.report(work_dir=arguments.work) if arguments.report else None
        if page is not None:
            say(f"report: {page}")
    summary = design.quantisation
    found: Json = {
        "bundle": design.path,
        "digest": design.manifest["digest"],
        "timing": design.timing,
        "multipliers": sum(entry.multipliers for entry in design.record.instances),
        "quantisation": None if summary is None else summary.to_dict(),
        "simulation": verdict,
        "report": page,
    }
    return answer(arguments, code, found, "")


def _digest(bundle: Path) -> bytes | None:
    """What tells one bundle in a folder from another; None if there is none."""
    try:
        return (bundle / "manifest.json").read_bytes()
    except OSError:
        return None


def _kept(bundle: Path, before: bytes | None) -> str:
    """What an interruption leaves of a bundle that is written whole or not at all."""
    if _digest(bundle) != before:
        return f"the bundle {bundle} is written and whole; {unfinished(bundle)}"
    return f"no bundle was written to {bundle}" if before is None else f"the bundle in {bundle} is the older one"
