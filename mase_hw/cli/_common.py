"""What the subcommands share: exit codes, printing, and the options of a simulation."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mase_hw.errors import ConfigError
from mase_hw.host.documents import Json

if TYPE_CHECKING:
    from mase_hw.cli.progress import Voice
    from mase_hw.compiler.config import CompileConfig
    from mase_hw.design.design import Design
    from mase_hw.ir import MaseGraph
    from mase_hw.model_spec import ModelSpec

OK, FAILED, UNUSABLE, UNWRITABLE, BROKEN, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""Exit codes; ``docs/simulation.md`` says what each means."""
MEASURE = "let Yosys map every module that it has not mapped before, and count what was mapped in place of estimates"
"""Of the option ``--measure``."""


MOST_NAME, MOST_PATH = 255, 4096
"""Bytes of a name and of a whole path on Linux."""


def path(text: str) -> Path:
    """A path on the command line that a file system can have.

    Raises:
        argparse.ArgumentTypeError: If it is empty, or longer than any file system takes.
    """
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError("a name without characters, or with one that no name has")
    made = Path(text)
    longest = max((len(os.fsencode(part)) for part in made.parts), default=0)
    if longest > MOST_NAME or len(os.fsencode(made.absolute())) >= MOST_PATH:
        raise argparse.ArgumentTypeError(f"{text[:40]}... is longer than file systems take")
    return made


def settle(arguments: argparse.Namespace) -> None:
    """Make all paths absolute, because the file of a model, which is about to run, may change the folder."""
    for name, value in vars(arguments).items():
        if isinstance(value, Path):
            setattr(arguments, name, value.absolute())


def whole(text: str) -> int:
    """A whole number on the command line, of 64 bits: a seed, a number of frames.

    Raises:
        argparse.ArgumentTypeError: If it is none.
    """
    try:
        number = int(text)
    except ValueError:  # also for thousands of digits
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number") from None
    if not -(1 << 63) <= number < 1 << 64:
        raise argparse.ArgumentTypeError(f"{text[:40]} has more than 64 bits")
    return number


def model_arguments(parser: argparse.ArgumentParser, config: str = "the configuration, TOML (8 bits each)") -> None:
    """The arguments of a command that works on a model."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="as for compile: FILE.py:FUNCTION, PACKAGE.MODULE:FUNCTION, FILE.onnx or FILE.tflite",
    )
    parser.add_argument("--config", type=path, metavar="FILE", help=config)


def loaded(arguments: argparse.Namespace) -> tuple[CompileConfig, ModelSpec]:
    """The configuration and the model of a command.

    Raises:
        MaseHwError: If one of them is not usable.
    """
    from mase_hw.compiler.config import load_config
    from mase_hw.model_spec import load_model

    settle(arguments)
    return load_config(arguments.config), load_model(arguments.model)


def refuse_suffix(arguments: argparse.Namespace, option: str, suffix: str, what: str) -> None:
    """Refuse a file that is to be written, if its name does not say what it is.

    Raises:
        ConfigError: If it ends in something else.
    """
    file = getattr(arguments, option)
    if file is not None and file.suffix.lower() != suffix:
        raise ConfigError(what, field=f"--{option}", got=str(file), expected=f"a name that ends in {suffix}")


def refuse_beside(arguments: argparse.Namespace, options: Iterable[str], why: str, remedy: str) -> None:
    """Refuse options for one design where there are several.

    Args:
        arguments: Of the command line.
        options: Those that are refused.
        why: What is wrong with them.
        remedy: What else can be done than to leave out the option.

    Raises:
        ConfigError: If there is one.
    """
    for option in options:
        if given := getattr(arguments, option.replace("-", "_")):
            raise ConfigError(why, field=f"--{option}", got=given, remedy=f"leave out --{option}{remedy}")


_BUDGETS = {"lut": "look-up tables", "ff": "flip-flops", "dsp": "DSP blocks", "bram": "block RAMs of 18 Kbit"}


def target_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that choose lanes and implementations: the keys of the table ``target`` of a configuration."""
    parser.add_argument("--target", type=path, metavar="FILE", help="TOML whose table `target` has what follows")
    parser.add_argument("--device", metavar="NAME", help="a device that it must fit, such as xc7z020")
    parser.add_argument("--fps", type=float, metavar="N", help="frames per second that it must reach")
    parser.add_argument("--mhz", type=float, metavar="N", help="frequency of the clock (100)")
    parser.add_argument("--interval", type=whole, metavar="N", help="cycles per frame at most, in place of --fps")
    for name, what in _BUDGETS.items():
        parser.add_argument(f"--{name}", type=whole, metavar="N", help=f"{what} that it may need at most")
    parser.add_argument(
        "--minimise",
        choices=("area", "interval", "latency"),
        metavar="WHAT",
        help="area, interval or latency: what is to be least (area with a rate, else interval)",
    )
    parser.add_argument(
        "--unrolled", type=whole, metavar="N", help="weights of small layers that may become additions (256)"
    )
    parser.add_argument(
        "--whole-frames", type=whole, metavar="N", help="products of a beat of what may become one expression (256)"
    )
    parser.add_argument(
        "--logic", action="store_true", default=None, help="multipliers may be made of look-up tables, where it pays"
    )
    parser.add_argument(
        "--external", action="store_true", default=None, help="weights may be read from external memory, where it pays"
    )
    parser.add_argument(
        "--shared", action="append", metavar="MODULE", help="a module whose children may share hardware, where it pays"
    )
    parser.add_argument(
        "--positions", action="append", type=whole, metavar="N", help="positions that a beat may have, where it pays"
    )
    parser.add_argument("--latency-ns", type=float, metavar="NS", help="most nanoseconds to the last result of a frame")


def target_of(arguments: argparse.Namespace) -> Json | None:
    """The target that the options say, in place of the configuration's; None if they say none.

    Raises:
        ConfigError: If the file with the target is not usable, or has none.
    """
    keys = ("device", "fps", "mhz", "interval", *_BUDGETS, "minimise", "unrolled", "logic", "external", "shared")
    keys += ("positions", "latency_ns", "whole_frames")
    said = {key: value for key in keys if (value := getattr(arguments, key)) is not None}
    if arguments.target is not None:
        from mase_hw.compiler.config import load_config

        said = {**load_config(arguments.target).target.model_dump(exclude_unset=True), **said}
        if not said:
            raise ConfigError(
                "the file has no target",
                node=str(arguments.target),
                field="--target",
                expected='a table `target`, as in a configuration, such as device = "xc7z020" and fps = 1000',
            )
    return said or None


PLAN_HELP = "the configuration, TOML, or a plan (8 bits each)"
CALIBRATION_HELP = "value ranges that `calibrate` saved, instead of the data that the function gives"


def calibration_argument(parser: argparse.ArgumentParser) -> None:
    """The option of a command that needs value ranges."""
    parser.add_argument("--calibration", type=path, metavar="FILE.json", help=CALIBRATION_HELP)


def calibration_of(arguments: argparse.Namespace, given: Any) -> Any:
    """What value ranges come from: the file, or the data that the function of the model gave.

    Raises:
        ConfigError: If the file is no state of a calibration.
    """
    if arguments.calibration is None:
        return given
    from mase_hw.passes import CalibrationState

    return CalibrationState.load(arguments.calibration)


def quantised_of(arguments: argparse.Namespace, settings: CompileConfig, spec: ModelSpec, say: Voice) -> MaseGraph:
    """The model quantised as ``compile`` does it, with value ranges of the file or of its own data.

    Raises:
        MaseHwError: If the model cannot be quantised so.
    """
    from mase_hw.compiler.quantised_graph import quantised_graph

    calibration = calibration_of(arguments, spec.calibration)
    return quantised_graph(spec.model, spec.example_inputs, settings, calibration, None, say)


def data_argument(parser: argparse.ArgumentParser) -> None:
    """The option of a command that needs labelled data."""
    parser.add_argument(
        "--data", type=path, metavar="FILE.npz", help="labelled data (what the function of MODEL gives)"
    )


def labelled_of(arguments: argparse.Namespace, spec: ModelSpec) -> Any:
    """Labelled data: of the file, or what the function of the model gave.

    Raises:
        ConfigError: If there is none, or the file is none.
    """
    if arguments.data is not None:
        from mase_hw.passes.evaluation import labelled_file

        return labelled_file(arguments.data)
    if spec.labelled is None:
        raise ConfigError(
            "there is no labelled data",
            node=arguments.model,
            expected="(model, example_inputs, calibration_batches, test_inputs, labelled_batches), or --data FILE.npz",
            remedy="return batches of (inputs, targets) as the fifth, or name a file",
        )
    return spec.labelled if isinstance(spec.labelled, list | tuple) else list(spec.labelled)


def unfinished(bundle: Path) -> str:
    """What an interrupted simulation leaves."""
    return f"the simulation was not finished and says nothing, and what was built for it is kept in {bundle}.work"


def behind_arguments(parser: argparse.ArgumentParser, why: str) -> None:
    """The options that name the model behind a bundle.

    Args:
        parser: Of a command.
        why: What the model is needed for.
    """
    parser.add_argument("--model", metavar="MODEL", help=f"what it was compiled from, {why} (--save-model)")
    parser.add_argument("--config", type=path, metavar="FILE", help="the configuration it was compiled with")
    calibration_argument(parser)


def attach_behind(design: Design, arguments: argparse.Namespace, say: Voice) -> None:
    """Give a design the graph behind it: of the model that is named, else of the one that was kept beside the bundle.

    Raises:
        MaseHwError: If the model or the configuration is not usable, or gives other hardware.
    """
    from mase_hw.design.saved import attach_saved
    from mase_hw.model_spec import load_model

    if arguments.model is not None:
        attach(design, load_model(arguments.model), arguments, say)
    else:
        attach_saved(design, say)


def attach(design: Design, spec: ModelSpec, arguments: argparse.Namespace, say: Voice) -> None:
    """Give a design its graph, if the model gives its hardware.

    Raises:
        MaseHwError: If the model or the configuration is not usable, or gives other hardware.
    """
    import mase_hw
    from mase_hw.design.design import attach_model

    calibration = calibration_of(arguments, spec.calibration)
    say("compiling the model again, for its graph")
    attach_model(
        design,
        lambda out: mase_hw.compile(
            spec.model, spec.example_inputs, arguments.config, out=out, calibration=calibration
        ),
    )


def refuse_alone(arguments: argparse.Namespace) -> None:
    """Refuse what describes a model if no model is named.

    Raises:
        ConfigError: If there is one.
    """
    for option in ("config", "calibration"):
        if getattr(arguments, option) is not None and arguments.model is None:
            raise ConfigError(
                "this alone says nothing about a bundle",
                field=f"--{option}",
                got=str(getattr(arguments, option)),
                expected="--model beside it",
                remedy=f"name the model too, or leave out --{option}; a bundle keeps the formats it was compiled with",
            )


THREADS_HELP = "threads of each process of the batch engine (1)"
_STALLS_HELP = "probability of a stall a cycle (0), or none, random, single, long, slow_input or slow_output"
_INNER_HELP = "probability of a stall a cycle on every edge inside the design (0)"
_RESET_HELP = "reset after so many cycles (40), input beats (in:5) or output beats (out:3); may be repeated"


def _stalls(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def simulation_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a simulation."""
    parser.add_argument("--engine", default="cocotb", metavar="NAME", help="cocotb, fast or batch (cocotb)")
    parser.add_argument("--seed", type=whole, default=0, metavar="N", help="of vectors, stalls and initial values (0)")
    parser.add_argument("--stalls", type=_stalls, default=0.0, metavar="P", help=_STALLS_HELP)
    parser.add_argument("--inner-stalls", type=float, default=0.0, metavar="P", help=_INNER_HELP)
    parser.add_argument("--reset-at", action="append", default=[], metavar="WHEN", help=_RESET_HELP)
    parser.add_argument("--waves", action="store_true", help="write an FST (else only when something is wrong)")
    parser.add_argument("--jobs", type=whole, default=1, metavar="N", help="processes of the batch engine (1)")
    parser.add_argument("--threads", type=whole, default=1, metavar="N", help=THREADS_HELP)
    parser.add_argument("--coverage", action="store_true", help="count lines and toggles (batch engine)")
    parser.add_argument("--intervene", metavar="FILE.py[:FUNCTION]", help="a test that intervenes (fast engine)")
    parser.add_argument("--no-diagnose", action="store_true", help="do not run a failure again with probes")
    parser.add_argument("--reproduce", type=path, metavar="FOLDER", help="leave there what repeats a failure elsewhere")
    parser.add_argument("--work", type=path, metavar="FOLDER", help="where to build and run (BUNDLE.work)")


def simulation_options(arguments: argparse.Namespace) -> Json:
    """The options of a simulation as arguments of ``Design.simulate``."""
    from mase_hw.simulate.arguments import Asked

    given = {**vars(arguments), "waves": True if arguments.waves else None, "work_dir": arguments.work}
    return {name: given[name] for name in Asked.__annotations__}


def refuse_options(bundle: Path, arguments: argparse.Namespace) -> None:
    """Refuse bad options of a simulation before a model is compiled for it."""
    from mase_hw.simulate.arguments import check

    check(bundle, **simulation_options(arguments))


def judge(design: Design, arguments: argparse.Namespace, say: Voice) -> tuple[int, Json]:
    """Simulate, report, and say with the exit code whether every bit was equal.

    Args:
        design: The design.
        arguments: With the options of a simulation.
        say: Told what is done, and the verdict.

    Returns:
        The exit code, and the verdict as JSON types.
    """
    diagnose = not arguments.no_diagnose
    simulation = design.simulate(check=False, progress=say, diagnose=diagnose, **simulation_options(arguments))
    say(simulation.report())
    found = {
        **simulation.result.to_json(),
        "frames": simulation.frames,
        "fill": {"predicted": design.timing["fill"], "measured": simulation.fill},
        "interval": {"predicted": design.timing["interval"], "measured": simulation.interval},
    }
    if not simulation.passed and arguments.reproduce is not None:
        from mase_hw.design.reproduce import reproduce_simulation

        options = {**simulation_options(arguments), "diagnose": diagnose}
        script = reproduce_simulation(design, arguments.reproduce, **options)
        say(f"`python {script}` repeats it")
        found["reproduce"] = str(script)
    return (OK if simulation.passed else FAILED), found
