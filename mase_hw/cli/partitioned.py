"""``compile --partition``: what of a model can be hardware, a bundle for each segment, and the rest on the host."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mase_hw.cli._common import FAILED, OK, refuse_beside, simulation_options
from mase_hw.cli.answers import answer
from mase_hw.errors import ConfigError
from mase_hw.host.documents import Json

if TYPE_CHECKING:
    from mase_hw.cli.progress import Voice
    from mase_hw.compiler.config import CompileConfig
    from mase_hw.model_spec import ModelSpec

_NOT_BESIDE = ("calibration", "report", "reproduce", "save-model")
_FRAMES = 16


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of a partition."""
    parser.add_argument(
        "--partition", action="store_true", help="leave to PyTorch on the host what hardware cannot have, and say why"
    )
    where = "with --partition: {}, by name or with wildcards; may be repeated"
    parser.add_argument(
        "--host", action="append", default=[], metavar="NODE", help=where.format("a node that stays on the host")
    )
    parser.add_argument(
        "--hardware", action="append", default=[], metavar="NODE", help=where.format("the only nodes in hardware")
    )


def refuse(arguments: argparse.Namespace) -> None:
    """Refuse options that do not go together.

    Raises:
        ConfigError: Nodes without a partition, or a partition with what is for one design.
    """
    if not arguments.partition:
        for name in ("host", "hardware"):
            if getattr(arguments, name):
                raise ConfigError(
                    "nodes are placed by a partition only",
                    field=f"--{name}",
                    got=", ".join(getattr(arguments, name)),
                    remedy="ask for it with --partition",
                )
        return
    why = "a partition has a design for each segment, and this is for one"
    refuse_beside(arguments, _NOT_BESIDE, why, "; the bundle of each segment takes the other commands")


def run(arguments: argparse.Namespace, settings: CompileConfig, spec: ModelSpec, say: Voice) -> int:
    """Compile the segments, and simulate them if asked to.

    Raises:
        MaseHwError: As :func:`mase_hw.compile_partitioned`.
    """
    from mase_hw.partition import compile_partitioned

    design = compile_partitioned(
        spec.model,
        spec.example_inputs,
        settings,
        out=arguments.out,
        host=arguments.host,
        hardware=arguments.hardware or None,
        calibration=spec.calibration,
        progress=say,
    )
    say(f"partition: {design.path}")
    code, verdict = OK, None
    if arguments.simulate:
        frames = _FRAMES if arguments.frames is None else arguments.frames
        options = {**simulation_options(arguments), "diagnose": not arguments.no_diagnose}
        found = design.simulate(spec.vectors(frames, arguments.seed), check=False, progress=say, **options)
        for name, simulation in found.segments.items():
            say(f"{name}: {simulation.report()}")
        code = OK if found.passed else FAILED
        verdict = {name: {**each.result.to_json(), "frames": each.frames} for name, each in found.segments.items()}
    answered: Json = {
        "partition": design.path,
        "parts": design.info["parts"],
        "host": design.host,
        "simulation": verdict,
    }
    return answer(arguments, code, answered, design.report())
