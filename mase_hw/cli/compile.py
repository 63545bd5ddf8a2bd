"""The subcommand ``compile``."""

from __future__ import annotations

import argparse

from mase_hw.cli._common import OK, judge, path, refuse_options, say, settle, simulation_arguments, whole

HELP = "turn a model into a bundle of SystemVerilog"


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of ``compile``."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION; the function returns (model, example_inputs"
        "[, calibration_batches[, test_inputs]])",
    )
    parser.add_argument("--config", type=path, metavar="FILE", help="TOML: quantisation, parallelism (8 bits each)")
    parser.add_argument("--out", type=path, required=True, metavar="FOLDER", help="where the bundle is written")
    parser.add_argument(
        "--frames", type=whole, metavar="N", help="test vectors at most, if the function gives none (16)"
    )
    parser.add_argument("--equalize", action="store_true", help="even out channels before quantising, where it helps")
    parser.add_argument("--simulate", action="store_true", help="simulate it and compare with PyTorch")
    parser.add_argument("--report", action="store_true", help="write the page that `report` writes (OUT.report.html)")
    simulation_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compile a model, and simulate it if asked to."""
    import mase_hw
    from mase_hw.compiler.config import load_config
    from mase_hw.model_spec import load_model
    from mase_hw.passes.base import validate
    from mase_hw.vectors.passes import VectorOptions

    settle(arguments)
    settings = load_config(arguments.config)
    asked = settings.vectors.model_dump()
    asked |= {} if arguments.frames is None else {"frames": arguments.frames}
    asked |= {"seed": arguments.seed} if arguments.seed else {}  # 0 may be what nobody asked for
    settings = settings.model_copy(update={"vectors": validate("compile", VectorOptions, asked)})
    if arguments.equalize:
        steps = dict.fromkeys(("cross_layer", "absorb_bias", "smooth_quant"), True)
        settings = settings.model_copy(update={"equalization": settings.equalization.model_copy(update=steps)})
    refuse_options(arguments.out, arguments)
    if arguments.report:
        from mase_hw.report.charts import need_matplotlib

        need_matplotlib()
    spec = load_model(arguments.model)
    design = mase_hw.compile(
        spec.model,
        spec.example_inputs,
        settings,
        out=arguments.out,
        calibration=spec.calibration,
        vectors=spec.test_inputs,
        progress=say,
        reproduce=arguments.reproduce,
    )
    say(f"bundle: {design.path}")
    code = judge(design, arguments) if arguments.simulate else OK
    if arguments.report:
        say(f"report: {design.report(work_dir=arguments.work)}")
    return code
