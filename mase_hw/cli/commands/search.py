"""The subcommand ``search``."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mase_hw.cli._common import (
    FAILED,
    OK,
    calibration_argument,
    calibration_of,
    data_argument,
    labelled_of,
    loaded,
    model_arguments,
    path,
    refuse_suffix,
    settle,
    whole,
)
from mase_hw.cli.answers import answer
from mase_hw.cli.progress import Voice, voice
from mase_hw.errors import ConfigError, refuse_unknown
from mase_hw.host.documents import Json

if TYPE_CHECKING:
    from mase_hw.compiler.config import CompileConfig
    from mase_hw.model_spec import ModelSpec

HELP = "find bits, formats and lanes of every layer: a plan, which is a configuration of compile"
METHODS = ("noise", "trials")
_LIMITS = {
    "interval": "cycles per frame",
    "lut": "look-up tables",
    "ff": "flip-flops",
    "dsp": "DSP blocks",
    "bram": "block RAMs of 18 Kbit",
}
_OF_TRIALS = ("report", "exact", "synth", "storage", "dask")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    model_arguments(parser)
    calibration_argument(parser)
    parser.add_argument("--out", type=path, required=True, metavar="FILE.toml", help="where the plan is written")
    parser.add_argument(
        "--method", default="noise", metavar="NAME", help="noise (two precisions) or trials (a Pareto front) (noise)"
    )
    data_argument(parser)
    parser.add_argument("--criterion", metavar="NAME", help="accuracy, top_k, mse, perplexity or sqnr (accuracy)")
    parser.add_argument("--target", type=float, metavar="X", help="what the criterion has to reach; noise needs it")
    noise = parser.add_argument_group("noise")
    noise.add_argument("--cost", default="bit_operations", metavar="NAME", help="bit_operations or memory_bits")
    noise.add_argument("--low", type=whole, default=4, metavar="BITS", help="what every layer has at first")
    noise.add_argument("--high", type=whole, default=8, metavar="BITS", help="what a raised layer has")
    trials = parser.add_argument_group("trials")
    trials.add_argument(
        "--vary",
        default="widths,folding",
        metavar="LIST",
        help="what is chosen: widths, formats, folding, implementation",
    )
    trials.add_argument(
        "--against",
        default="interval,lut,dsp",
        metavar="LIST",
        help="what is to be least: interval, fill, lut, ff, dsp, bram, bit_operations, memory_bits",
    )
    trials.add_argument("--widths", default="2,3,4,5,6,7,8", metavar="LIST", help="bits to choose from")
    trials.add_argument(
        "--formats",
        default="fixed,ternary,binary",
        metavar="LIST",
        help="of weights, to choose from: fixed, integer, binary, ternary, mxint, mxfp, groups",
    )
    trials.add_argument("--device", metavar="NAME", help="a device that it must fit, such as xc7z020")
    for name, what in _LIMITS.items():
        trials.add_argument(f"--{name}", type=whole, metavar="N", help=f"{what} at most; what needs more is pruned")
    trials.add_argument("--trials", type=whole, default=100, metavar="N", help="trials in all (100)")
    trials.add_argument("--seed", type=whole, default=0, metavar="N", help="of the sampler (0)")
    trials.add_argument("--sampler", default="nsga2", metavar="NAME", help="nsga2, tpe or random (nsga2)")
    trials.add_argument("--window", type=whole, default=16, metavar="N", help="trials under way at a time (16)")
    trials.add_argument("--storage", type=path, metavar="FOLDER", help="trials are kept there, and gone on with")
    trials.add_argument("--jobs", type=whole, default=1, metavar="N", help="processes (1)")
    trials.add_argument("--dask", metavar="SCHEDULER", help="run on this Dask cluster: its address or scheduler file")
    trials.add_argument("--report", type=path, metavar="FILE.html", help="write the front as one page to look at")
    trials.add_argument(
        "--exact", type=whole, default=0, metavar="N", help="points of the front to compile and simulate (0)"
    )
    trials.add_argument("--synth", metavar="TARGET", help="synthesise these points too: xc7, ecp5, ... as for synth")


def run(arguments: argparse.Namespace) -> int:
    """Search, and write the plan; 1 if a point of the front is other hardware than its trial said.

    Raises:
        MaseHwError: If the model, the data or a setting is not usable, or nothing that was tried is good enough.
    """
    from mase_hw.compiler.quantised_graph import calibrated_graph
    from mase_hw.passes.evaluation import against

    settle(arguments)
    _check(arguments)
    settings, spec = loaded(arguments)
    calibration = calibration_of(arguments, spec.calibration)
    if arguments.criterion == "sqnr" and arguments.data is None and spec.labelled is None:
        if spec.calibration is None:
            raise ConfigError("there is no data to search on", node=arguments.model, remedy="return calibration data")
        data: Any = list(against(spec.model, spec.calibration))
    else:
        data = labelled_of(arguments, spec)
    arguments.criterion = arguments.criterion or "accuracy"
    arguments.kept = lambda: _kept(arguments)
    code = OK
    with voice(arguments, aside=True) as say:
        graph = calibrated_graph(spec.model, spec.example_inputs, settings, calibration=calibration, progress=say)
        if arguments.method == "noise":
            plan, found, text = _by_noise(arguments, graph, data, say, settings)
        else:
            spec = replace(spec, calibration=calibration, labelled=data)
            plan, found, text = _by_trials(arguments, graph, say, settings, spec)
            code = OK if all(each["passed"] for each in found["exact"]) else FAILED
    made = plan.save(arguments.out)
    found = {"method": arguments.method, "criterion": arguments.criterion, **found, "plan": made, "facts": plan.facts}
    return answer(arguments, code, found, f"{text}\nplan: {made}")


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what cannot be before a model is loaded for it."""
    refuse_unknown(arguments.method, METHODS, "there is no such method", field="--method")
    if arguments.method == "noise":
        if arguments.target is None:
            raise ConfigError("a search by noise needs a target", field="--target", remedy="such as --target 0.96")
        idle = [name for name in (*_OF_TRIALS, "device", *_LIMITS) if getattr(arguments, name)]
        if idle:
            raise ConfigError("this belongs to trials", field=f"--{idle[0]}", remedy="add --method trials")
    if arguments.exact and arguments.storage is None:
        raise ConfigError("designs are kept with the trials", field="--exact", remedy="add --storage FOLDER")
    if arguments.synth is not None and not arguments.exact:
        raise ConfigError("no point is to be compiled", field="--synth", remedy="add --exact N")
    if arguments.dask is not None and arguments.storage is None:
        raise ConfigError(
            "the workers of a cluster need a folder in common", field="--dask", remedy="add --storage FOLDER"
        )
    for option, suffix, what in (("out", ".toml", "a plan is a TOML file"), ("report", ".html", "a report is a page")):
        refuse_suffix(arguments, option, suffix, what)
        file = getattr(arguments, option)
        if file is not None and not file.parent.is_dir():
            raise ConfigError("there is no such folder", field=f"--{option}", got=str(file.parent))


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


def _by_trials(
    arguments: argparse.Namespace,
    graph: Any,
    say: Voice,
    settings: CompileConfig,
    spec: ModelSpec,
) -> Found:
    from rich.console import Console

    from mase_hw.compiler.config import with_target
    from mase_hw.host.pools import LocalPool, dask_pool
    from mase_hw.host.progress import counter
    from mase_hw.search.exact import make_front, spread
    from mase_hw.search.page import write_page
    from mase_hw.search.search import search

    try:
        widths = tuple(int(each) for each in arguments.widths.split(","))
    except ValueError:
        raise ConfigError(
            "not a list of widths", field="--widths", got=f"{arguments.widths:.80}", expected="such as 3,4,6,8"
        ) from None
    limits = {name: value for name in ("device", *_LIMITS) if (value := getattr(arguments, name)) is not None}
    if limits:
        settings = with_target(settings, {**settings.target.model_dump(exclude_unset=True), **limits})
    done, count = 0, counter(say, "searching", "trials")

    def tell(line: str) -> None:
        nonlocal done
        done += 1
        say(line)
        if count is not None:
            count(done, arguments.trials)

    alone = nullcontext(LocalPool(arguments.jobs) if arguments.jobs != 1 else None)
    with dask_pool(arguments.dask) if arguments.dask else alone as pool:
        found = search(
            graph,
            arguments.criterion,
            data=spec.labelled,
            config=settings,
            base=_uniform(settings, 8),
            vary=arguments.vary.split(","),
            widths=widths,
            formats=arguments.formats.split(","),
            against=arguments.against.split(","),
            trials=arguments.trials,
            seed=arguments.seed,
            sampler=arguments.sampler,
            window=arguments.window,
            storage=arguments.storage,
            pool=pool,
            progress=tell,
        )
    plan = found.choose(target=arguments.target)
    made = []
    if arguments.exact:
        made = make_front(
            [(point, found.plan(point)) for point in spread(found.front, arguments.exact)],
            spec,
            arguments.storage / "front",
            criterion=arguments.criterion,
            settings=settings,
            target=arguments.synth,
            tell=say,
        )
    console = Console(width=110)
    with console.capture() as capture:
        console.print(found.table().draw())
    text = capture.get().rstrip()
    if found.pruned:
        text += f"\n{len(found.pruned)} configurations were pruned before they were scored"
    if made:
        wrong = [f"{each.digest}: {'; '.join(each.differs)}" for each in made if not each.passed]
        beats = sum(each.beats for each in made)
        text += f"\n{len(made)} points compiled and simulated, {beats:,} beats compared: "
        text += "all are what their trials said" if not wrong else "NOT what their trials said:\n" + "\n".join(wrong)
    exact = [each.to_json() for each in made]
    if arguments.report is not None:
        text += f"\nreport: {write_page(found, arguments.report, exact, arguments.model)}"
    shown = {"trials": found.trials, "pruned": len(found.pruned), "target": arguments.target, "exact": exact}
    return plan, {**shown, "front": found.document()["front"]}, text


def _kept(arguments: argparse.Namespace) -> str:
    """What an interruption leaves."""
    if arguments.method != "trials":
        return "no plan was written"
    if arguments.storage is not None and arguments.storage.is_dir():
        return f"the trials that were done are kept in {arguments.storage}, and the same command goes on with them"
    return "no plan was written; with --storage FOLDER trials are kept"
