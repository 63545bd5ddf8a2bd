"""The subcommand ``search``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mase_hw.cli._common import (
    OK,
    calibration_argument,
    calibration_of,
    labelled_of,
    model_arguments,
    path,
    settle,
    whole,
)
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import Voice, voice
from mase_hw.errors import ConfigError
from mase_hw.host.documents import Json

if TYPE_CHECKING:
    from mase_hw.compiler.config import CompileConfig

HELP = "find the bits that every layer needs: a plan, which is a configuration of compile"
METHODS = ("noise", "widths")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    model_arguments(parser)
    calibration_argument(parser)
    parser.add_argument("--out", type=path, required=True, metavar="FILE.toml", help="where the plan is written")
    parser.add_argument("--method", default="noise", metavar="NAME", help="noise (two precisions) or widths (noise)")
    parser.add_argument(
        "--data", type=path, metavar="FILE.npz", help="labelled data (what the function of MODEL gives)"
    )
    parser.add_argument("--criterion", metavar="NAME", help="accuracy, top_k, mse, perplexity or sqnr (accuracy)")
    parser.add_argument("--target", type=float, metavar="X", help="what the criterion has to reach; noise needs it")
    parser.add_argument("--cost", default="bit_operations", metavar="NAME", help="bit_operations or memory_bits")
    parser.add_argument("--low", type=whole, default=4, metavar="BITS", help="of noise: what every layer has at first")
    parser.add_argument("--high", type=whole, default=8, metavar="BITS", help="of noise: what a raised layer has")
    parser.add_argument("--widths", default="2,3,4,5,6,7,8", metavar="LIST", help="of widths: bits to choose from")
    parser.add_argument("--trials", type=whole, default=100, metavar="N", help="of widths: trials in all (100)")
    parser.add_argument("--seed", type=whole, default=0, metavar="N", help="of widths: of the sampler (0)")
    parser.add_argument("--sampler", default="tpe", metavar="NAME", help="of widths: tpe, nsga2 or random (tpe)")
    parser.add_argument(
        "--storage", type=path, metavar="FILE", help="of widths: trials are kept there, and gone on with"
    )


def run(arguments: argparse.Namespace) -> int:
    """Search, and write the plan.

    Raises:
        MaseHwError: If the model, the data or a setting is not usable, or nothing that was tried is good enough.
    """
    from mase_hw.compiler.config import load_config
    from mase_hw.compiler.quantised_graph import calibrated_graph
    from mase_hw.model_spec import load_model
    from mase_hw.passes.evaluation import against

    settle(arguments)
    _check(arguments)
    settings, spec = load_config(arguments.config), load_model(arguments.model)
    calibration = calibration_of(arguments, spec.calibration)
    if arguments.criterion == "sqnr" and arguments.data is None and spec.labelled is None:
        if spec.calibration is None:
            raise ConfigError("there is no data to search on", node=arguments.model, remedy="return calibration data")
        data: Any = list(against(spec.model, spec.calibration))
    else:
        data = labelled_of(arguments, spec)
    arguments.criterion = arguments.criterion or "accuracy"
    arguments.kept = lambda: _kept(arguments)
    with voice(arguments, aside=True) as say:
        graph = calibrated_graph(spec.model, spec.example_inputs, settings, calibration=calibration, progress=say)
        search = _by_noise if arguments.method == "noise" else _widths
        plan, found, text = search(arguments, graph, data, say, settings)
    made = plan.save(arguments.out)
    found = {"method": arguments.method, "criterion": arguments.criterion, **found, "plan": made, "facts": plan.facts}
    return answer(arguments, OK, found, f"{text}\nplan: {made}")


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot be before a model is loaded for it."""
    if arguments.method not in METHODS:
        raise ConfigError("there is no such method", field="--method", got=arguments.method, expected="noise or widths")
    if arguments.method == "noise" and arguments.target is None:
        raise ConfigError("a search by noise needs a target", field="--target", remedy="such as --target 0.96")
    if arguments.out.suffix != ".toml":
        raise ConfigError(
            "a plan is a TOML file", field="--out", got=str(arguments.out), expected="a name that ends in .toml"
        )
    if not arguments.out.parent.is_dir():
        raise ConfigError("there is no such folder", field="--out", got=str(arguments.out.parent))


Found = tuple[Any, Json, str]


def _uniform(settings: CompileConfig, bits: int) -> Json:
    """Everything at so many bits; the family, and what else is no width, are those of the default rule."""
    from mase_hw.passes.mixed_precision import uniform
    from mase_hw.passes.quantize.config import given_keys

    default = settings.quantize.default
    given = {} if default is None else given_keys(default.config)
    return uniform(bits, **{key: value for key, value in given.items() if value and not key.endswith("_width")})


def _by_noise(arguments: argparse.Namespace, graph: Any, data: Any, say: Voice, settings: CompileConfig) -> Found:
    from mase_hw.passes.mixed_precision import noise_based_mixed_precision_quantization

    found = noise_based_mixed_precision_quantization(
        graph,
        {"low": _uniform(settings, arguments.low), "high": _uniform(settings, arguments.high)},
        arguments.criterion,
        arguments.target,
        data=data,
        cost=arguments.cost,
        progress=say,
    )
    shown = {
        "score": found.score,
        "target": arguments.target,
        "raised": list(found.raised),
        "lowered": list(found.lowered),
        "cost": found.cost,
        "proven": found.proven,
    }
    raised = ", ".join(found.raised) or "nothing"
    text = f"{arguments.criterion} {found.score:.6g} with {arguments.high} bits for {raised}, else {arguments.low}"
    return found.plan, shown, f"{text}; {arguments.cost} {found.cost['mixed']:,.6g}, all high {found.cost['high']:,.6g}"


def _widths(arguments: argparse.Namespace, graph: Any, data: Any, say: Voice, settings: CompileConfig) -> Found:
    from rich.console import Console

    from mase_hw.host.progress import counter
    from mase_hw.passes.mixed_precision import search_widths

    try:
        widths = tuple(int(each) for each in arguments.widths.split(","))
    except ValueError:
        raise ConfigError(
            "not a list of widths", field="--widths", got=f"{arguments.widths:.80}", expected="such as 3,4,6,8"
        ) from None
    done, count = 0, counter(say, "searching", "trials")

    def tell(line: str) -> None:
        nonlocal done
        done += 1
        say(line)
        if count is not None:
            count(done, arguments.trials)

    found = search_widths(
        graph,
        arguments.criterion,
        data=data,
        base=_uniform(settings, 8),
        widths=widths,
        cost=arguments.cost,
        trials=arguments.trials,
        seed=arguments.seed,
        sampler=arguments.sampler,
        storage=arguments.storage,
        progress=tell,
    )
    plan = found.choose(target=arguments.target)
    listed = [{"widths": dict(p.widths), "score": p.score, "cost": p.cost} for p in found.front]
    console = Console(width=110)
    with console.capture() as capture:
        console.print(found.table().draw())
    return plan, {"trials": found.trials, "target": arguments.target, "front": listed}, capture.get().rstrip()


def _kept(arguments: argparse.Namespace) -> str:
    """What an interruption leaves."""
    storage: Path | None = arguments.storage if arguments.method == "widths" else None
    if storage is not None and storage.is_file():
        return f"the trials that were done are kept in {storage}, and the same command goes on with them"
    return "no plan was written" + ("; with --storage FILE trials are kept" if arguments.method == "widths" else "")
