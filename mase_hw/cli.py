"""The command ``mase-hw``.

Exit codes: 0 success; 1 the hardware is not proven equal to PyTorch, or a check found something; 2 the input or the
environment is not usable. Heavy imports (torch) happen in the commands that need them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from mase_hw._version import __version__
from mase_hw.errors import ConfigError, MaseHwError, SimulationError
from mase_hw.flow import cache_cli, explain_cli, prepare, regress_cli, synth_cli

if TYPE_CHECKING:
    from mase_hw.flow.design import Design

OK, FAILED, UNUSABLE = 0, 1, 2


@dataclass(frozen=True)
class Command:
    """One subcommand.

    Args:
        name: As typed.
        help: One line.
        configure: Adds its arguments.
        run: Does it; returns the exit code.
    """

    name: str
    help: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments without the program name; those of the process by default.

    Returns:
        The exit code.
    """
    arguments = _arguments(argv)
    try:
        code: int = arguments.run(arguments)
    except MaseHwError as error:
        print(f"mase-hw: {error}", file=sys.stderr)
        return FAILED if isinstance(error, SimulationError) else UNUSABLE
    except KeyboardInterrupt:
        print("mase-hw: interrupted", file=sys.stderr)
        return 130
    return code


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments; names of nodes may also follow options, which argparse alone does not allow."""
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    if rest and hasattr(arguments, "nodes") and not any(word.startswith("-") for word in rest):
        arguments.nodes = [*arguments.nodes, *rest]
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mase-hw", description="PyTorch model in; bit-exact, verified SystemVerilog accelerator out."
    )
    parser.add_argument("--version", action="version", version=f"mase-hw {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.help, description=command.help)
        command.configure(sub)
        sub.set_defaults(run=command.run)
    return parser


def _say(message: object) -> None:
    print(message, flush=True)


def _doctor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _doctor(arguments: argparse.Namespace) -> int:
    from mase_hw.flow.doctor import doctor

    return OK if doctor(Console(), as_json=arguments.json) else FAILED


def _compile_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION; the function returns (model, example_inputs"
        "[, calibration_batches[, test_inputs]])",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML: quantisation, parallelism (8 bits each)")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the bundle is written")
    parser.add_argument(
        "--frames", type=int, default=16, metavar="N", help="random test vectors if the function gives none (16)"
    )
    parser.add_argument("--simulate", action="store_true", help="simulate it and compare with PyTorch")
    _simulation_arguments(parser)


def _compile(arguments: argparse.Namespace) -> int:
    import mase_hw
    from mase_hw.model_spec import load_model

    if arguments.simulate:
        _refuse(arguments.out, arguments)
    spec = load_model(arguments.model)
    design = mase_hw.compile(
        spec.model,
        spec.example_inputs,
        arguments.config,
        out=arguments.out,
        calibration=spec.calibration,
        vectors=spec.vectors(arguments.frames, arguments.seed),
        progress=_say,
    )
    _say(f"bundle: {design.path}")
    return _judge(design, arguments) if arguments.simulate else OK


_STALLS_HELP = "probability of a stall a cycle (0), or none, random, single, long, slow_input or slow_output"
_RESET_HELP = "reset after so many cycles (40), input beats (in:5) or output beats (out:3); may be repeated"


def _stalls(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _simulation_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", default="cocotb", metavar="NAME", help="cocotb, fast or batch (cocotb)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of vectors, stalls and initial values (0)")
    parser.add_argument("--stalls", type=_stalls, default=0.0, metavar="P", help=_STALLS_HELP)
    parser.add_argument("--reset-at", action="append", default=[], metavar="WHEN", help=_RESET_HELP)
    parser.add_argument("--waves", action="store_true", help="write an FST (else only when something is wrong)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes of the batch engine (1)")
    parser.add_argument("--coverage", action="store_true", help="count lines and toggles (batch engine)")
    parser.add_argument("--intervene", metavar="FILE.py[:FUNCTION]", help="a test that intervenes (fast engine)")
    parser.add_argument("--no-diagnose", action="store_true", help="do not run a failure again with probes")
    parser.add_argument("--work", type=Path, metavar="FOLDER", help="where to build and run (BUNDLE.work)")


def _sim_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="folder written by compile")
    parser.add_argument("--model", metavar="MODEL", help="what it was compiled from, so that a failure is diagnosed")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the configuration it was compiled with")
    _simulation_arguments(parser)


def _sim(arguments: argparse.Namespace) -> int:
    import mase_hw

    if arguments.config is not None and arguments.model is None:
        raise ConfigError(
            "a configuration alone says nothing about a bundle",
            field="--config",
            got=str(arguments.config),
            expected="--model beside it",
            remedy="name the model too, or leave out --config; the bundle keeps the formats it was compiled with",
        )
    _refuse(arguments.bundle, arguments)
    design = mase_hw.load_design(arguments.bundle)
    if arguments.model is not None:
        from mase_hw.flow.attach import attach_model
        from mase_hw.model_spec import load_model

        spec = load_model(arguments.model)
        attach_model(
            design,
            lambda out: mase_hw.compile(
                spec.model, spec.example_inputs, arguments.config, out=out, calibration=spec.calibration
            ),
        )
    return _judge(design, arguments)


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of a simulation as arguments of ``Design.simulate``."""
    return {
        "engine": arguments.engine,
        "seed": arguments.seed,
        "stalls": arguments.stalls,
        "waves": True if arguments.waves else None,
        "work_dir": arguments.work,
        "jobs": arguments.jobs,
        "coverage": arguments.coverage,
        "intervene": arguments.intervene,
        "reset_at": arguments.reset_at,
    }


def _refuse(bundle: Path, arguments: argparse.Namespace) -> None:
    """Refuse bad options of a simulation before a model is compiled for it."""
    from mase_hw.flow.arguments import check

    check(bundle, **_options(arguments))


def _judge(design: Design, arguments: argparse.Namespace) -> int:
    from mase_hw.flow.failure import explainable

    diagnose = not arguments.no_diagnose
    simulation = design.simulate(check=False, progress=_say, diagnose=diagnose, **_options(arguments))
    _say(simulation.report())
    if diagnose and arguments.intervene is None and design.graph is None and explainable(simulation.result):
        _say("no diagnosis: a bundle has no model to compare its edges with; name it with --model and --config")
    return OK if simulation.passed else FAILED


def _lint_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help=".sv files or folders (default: our RTL)")


def _lint(arguments: argparse.Namespace) -> int:
    from mase_hw.flow.lint import lint, sources
    from mase_hw.resources import rtl_root

    files = sources(arguments.paths or [rtl_root()])
    complaints = lint(files)
    for complaint in complaints:
        _say(complaint)
    _say(f"{len(files)} files, {len(complaints)} complaints")
    return FAILED if complaints else OK


def _no_arguments(parser: argparse.ArgumentParser) -> None:
    """The command takes none."""


def _ops(arguments: argparse.Namespace) -> int:
    from mase_hw.catalogue import default_catalogue

    table = Table("op", "kind", "torch", "hardware", box=None, pad_edge=False)
    others = []
    for op in default_catalogue():
        if op.hardware is None and not op.implicit:
            others.append(op.name)
            continue
        targets = [*(m.__name__ for m in op.modules), *(f.__name__ for f in op.functions)]
        targets += [f".{method}()" for method in op.methods]
        module = op.hardware.module if op.hardware else "none needed"
        table.add_row(op.name, op.mase_type or "structural", ", ".join(dict.fromkeys(targets)) or "-", module)
    console = Console()
    console.print(table)
    console.print("\nKnown to the analysis passes, not in hardware:")
    console.print(", ".join(sorted(others)), highlight=False)
    return OK


COMMANDS = (
    Command("doctor", "show every tool that was found, its version and what is wrong", _doctor_arguments, _doctor),
    Command("compile", "turn a model into a bundle of SystemVerilog", _compile_arguments, _compile),
    Command("sim", "simulate a bundle and compare with PyTorch bit for bit", _sim_arguments, _sim),
    Command("explain", explain_cli.HELP, explain_cli.configure, explain_cli.run),
    Command("prepare", prepare.HELP, prepare.configure, prepare.run),
    Command("cache", cache_cli.HELP, cache_cli.configure, cache_cli.run),
    Command(
        "regress",
        "run a matrix of ops and networks and compare with the baseline",
        regress_cli.regress_arguments,
        regress_cli.run_regress,
    ),
    Command("synth", synth_cli.HELP, synth_cli.configure, synth_cli.run),
    Command("lint", "check the style of SystemVerilog files", _lint_arguments, _lint),
    Command("ops", "list the catalogue of ops", _no_arguments, _ops),
)
"""Every subcommand; a new one is a line here and its functions above."""


if __name__ == "__main__":
    sys.exit(main())
