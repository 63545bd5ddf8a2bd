"""What a search is about, and one trial of it: quantise, map, estimate, and only then compute the accuracy."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from mase_hw.compiler.config import CompileConfig, load_config
from mase_hw.cost.devices import RESOURCES, missing
from mase_hw.emit.estimate import FAMILY, estimate
from mase_hw.emit.passes import bundle_of, emit_verilog_top_transform_pass
from mase_hw.errors import ConfigError, MaseHwError, SearchError, refuse_unknown
from mase_hw.fit.choose import Chooser, UnmetError
from mase_hw.fit.target import Target, goal
from mase_hw.hardware.manifest import Manifest
from mase_hw.host.disk import write_whole
from mase_hw.host.documents import Json, parse_json
from mase_hw.ir import MaseGraph
from mase_hw.ir.faithful.surroundings import ordinary
from mase_hw.passes.base import validate
from mase_hw.passes.evaluation import CriterionLike
from mase_hw.passes.evaluation.labelled import data_digest
from mase_hw.passes.mapping.add_hardware_metadata import add_hardware_metadata_analysis_pass
from mase_hw.passes.mixed_precision.candidates import CandidateScorer
from mase_hw.passes.mixed_precision.cost import COSTS, CostModel, cost_model
from mase_hw.passes.quantize.config import QuantizeArgs
from mase_hw.passes.verify import verify_analysis_pass
from mase_hw.search.space import INTERVAL, Space
from mase_hw.search.study import Chosen, Outcome, Trial

MAPPED = ("interval", "fill", *RESOURCES)
"""Measures of the hardware."""
SLOWEST = 1 << 48
Against = Sequence[str | CostModel]


class Problem:
    """A network, what is chosen of it, and by what a choice is judged.

    Args:
        criterion: As :func:`~mase_hw.passes.evaluation.evaluate_statistic` takes it.
        data: Iterable of ``(inputs, targets)``.
        settings: The configuration: of its tables ``hardware`` and ``target`` count here.
        space: What is chosen, and among what.
        against: What is to be least beside the criterion.
        fast_mode: Evaluate whole batches at once.

    Raises:
        ConfigError: If a setting is wrong.
        MaseHwError: If the network cannot be mapped at all, and has to be.
    """

    def __init__(
        self,
        criterion: CriterionLike,
        *,
        data: Iterable[Any],
        settings: CompileConfig,
        space: Space,
        against: Against,
        fast_mode: bool = True,
    ) -> None:
        self.graph, self.settings, self.criterion, self.space = space.graph, settings, criterion, space
        self.scorer = CandidateScorer(self.graph, data, criterion, fast_mode)
        self.against, self._costs = _measures(against)
        self._fast_mode = fast_mode
        searched = {"folding", "implementation"} & set(space.vary)
        self.maps = bool(searched) or settings.target.asked or any(name in MAPPED for name in self.against)
        if self.maps:
            self._refuse()
            self._look(searched)
        self.space.check()

    def identity(self, *more: Any) -> str:
        """A hash of everything that the outcome of a trial depends on, and of anything that is JSON."""
        hardware = [self.settings.hardware.model_dump(mode="json"), self.settings.target.model_dump(mode="json")]
        base, name = self.space.given.model_dump(mode="json"), self.scorer.name
        of_criterion = self.criterion if isinstance(self.criterion, Mapping) else name
        return self.scorer.fingerprint(
            base,
            self.space.choices,
            of_criterion,
            self.against,
            hardware if self.maps else [],
            data_digest(self.scorer.data),
            *more,
        )

    def attempt(self, chosen: Chosen) -> Outcome:
        """What comes of a choice; what is refused, or over a budget, has no score.

        Raises:
            ConfigError: If the criterion gives no number.
        """
        begin = time.perf_counter()
        measures: dict[str, float] = {}
        hardware: Json = {}
        try:
            graph = self.scorer.quantised(self.space.quantize(chosen))
            measures |= {name: float(cost(graph)) for name, cost in self._costs.items()}
            if self.maps:
                found, hardware = self._mapped(graph, chosen)
                measures |= found
        except UnmetError as error:
            return Outcome(None, measures, hardware, f"over the budget: {error.got}", seconds=_since(begin))
        except MaseHwError as error:
            reason = f"refused: {error.message}" + (f" ({error.node})" if error.node else "")
            return Outcome(None, measures, hardware, reason, seconds=_since(begin))
        score = self.scorer.score(graph)
        if score != score:
            return Outcome(None, measures, hardware, f"{self.scorer.name} is NaN", seconds=_since(begin))
        return Outcome(score, measures, hardware, seconds=_since(begin))

    def plan_tables(self, chosen: Chosen, outcome: Outcome) -> tuple[Json, Json]:
        """Arguments of ``quantize_transform_pass``, and the other tables of the configuration of a trial."""
        given = self.settings.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        given = {key: value for key, value in given.items() if key not in ("quantize", "hardware", "target")}
        return self.space.quantize(chosen), given | ({"hardware": outcome.hardware} if outcome.hardware else {})

    def save(self, folder: Path, identity: str) -> None:
        """Write what another process needs to make trials.

        Raises:
            ConfigError: If the criterion or a measure is a function, which other processes do not have.
            MaseHwError: If the network cannot be written.
        """
        named = isinstance(self.criterion, str | Mapping)
        if not named or any(name not in (*MAPPED, *COSTS) for name in self.against):
            raise ConfigError(
                "other processes know criteria and measures by name only",
                field="criterion" if not named else "against",
                got="a function",
                remedy="search in one process, or name it",
            )
        self.graph.export(folder / "model")
        torch.save(list(self.scorer.data), folder / "data.pt")
        document = {
            "identity": identity,
            "criterion": self.criterion,
            "settings": self.settings.model_dump(mode="json", exclude_unset=True),
            "base": self.space.given.model_dump(mode="json", exclude_unset=True),
            "against": list(self.against),
            "fast_mode": self._fast_mode,
            "space": self.space.document,
        }
        write_whole(folder / "problem.json", json.dumps(document, indent=1))

    def _mapped(self, graph: MaseGraph, chosen: Chosen) -> tuple[dict[str, float], Json]:
        """Measures of the hardware, and its arguments.

        Raises:
            UnmetError: If it is over a budget.
        """
        args = self.settings.hardware
        args = args.model_copy(update={"implementation": {**args.implementation, **self.space.hardware(chosen)}})
        target = self.settings.target
        if INTERVAL in chosen:
            target = target.model_copy(update={"interval": chosen[INTERVAL], "fps": None, "minimise": "area"})
        with ordinary():
            verify_analysis_pass(graph)
            if target.asked:
                choice = Chooser(graph, args, goal(target, args.family), nearest=False).choose()
                return _counted(choice.manifest, {**choice.use}), _given(choice.args)
            add_hardware_metadata_analysis_pass(graph, args)
            emit_verilog_top_transform_pass(graph, {"steady": False, "top_name": self.settings.top})
            manifest = bundle_of(graph).record
            return _counted(manifest, estimate(manifest, family_of(self.settings))), _given(args)

    def _look(self, searched: set[str]) -> None:
        """Find what there is to choose of the hardware, and whether its area is known."""
        graph = self.scorer.quantised(self.space.quantize(self.space.widest))
        args = self.settings.hardware
        with ordinary():
            verify_analysis_pass(graph)
            wanted = goal(Target(interval=SLOWEST, unrolled=self.settings.target.unrolled), family_of(self.settings))
            chooser = Chooser(graph, args, wanted, nearest=False)
            slowest = chooser.choose()
            if slowest.not_estimated and set(RESOURCES) & {*self.against, *goal_budgets(self.settings.target)}:
                raise ConfigError(
                    "the area of a module is not estimated, so that designs cannot be compared by it",
                    field="against",
                    got=missing(slowest.not_estimated),
                    expected="measures other than lut, ff, dsp and bram",
                )
            intervals = _ladder(chooser.fastest[0], slowest.manifest.timing.interval) if "folding" in searched else []
        most = self._most
        intervals = [each for each in intervals if most is None or each <= most] or intervals[:1]
        several: dict[str, Sequence[str]] = {}
        if "implementation" in searched:
            for name, options in chooser.space.options.items():
                of = options.wanted.hardware
                several[name] = [each for each in of.implementations if each not in of.delegates]
        self.space.with_hardware(intervals, {name: each for name, each in several.items() if len(each) > 1})

    @property
    def _most(self) -> int | None:
        """Cycles per frame at most, if the target says it."""
        target = self.settings.target
        return goal(target, self.settings.hardware.family).interval if target.asked else None

    def _refuse(self) -> None:
        """What a trial does not do, so that a plan would be another design."""
        settings = self.settings
        problems = {
            "rounding": settings.rounding.enabled,
            "hardware.shared": bool(settings.hardware.shared),
            "target.shared": bool(settings.target.shared),
            "hardware.unroll": bool(settings.hardware.unroll),
            "decode.context": bool(settings.decode.context),
            "passes": bool(settings.passes),
        }
        if found := [name for name, there in problems.items() if there]:
            raise ConfigError(
                "a trial maps the network without this, so that the design would be another one",
                field=found[0],
                got=", ".join(found),
                remedy="leave it out of the configuration of a search, and add it to the plan that is found",
            )


def run_trial(trial: Trial, *, folder: str, identity: str) -> Outcome:
    """Make a trial on a worker, which has the problem from its folder.

    Raises:
        SearchError: If the folder has another problem.
    """
    return _loaded(folder, identity).attempt(trial.chosen)


@functools.lru_cache(maxsize=1)
def _loaded(folder: str, identity: str) -> Problem:
    """The problem of a folder, for the whole life of a worker."""
    torch.set_num_threads(1)
    place = Path(folder)
    document: Json = parse_json((place / "problem.json").read_text(encoding="utf-8"))
    if document.pop("identity") != identity:
        raise SearchError("the folder of the search has another problem by now", node=folder, got=identity)
    graph = MaseGraph.from_checkpoint(place / "model")
    base = validate("base", QuantizeArgs, document.pop("base"))
    return Problem(
        document.pop("criterion"),
        data=torch.load(place / "data.pt", weights_only=True),
        settings=load_config(document.pop("settings")),
        space=Space(graph, base, **document.pop("space")),
        **document,
    )


def family_of(settings: CompileConfig) -> str:
    """The family for which a search estimates."""
    target, family = settings.target, settings.hardware.family
    return goal(target, family).family if target.asked else family or FAMILY


def goal_budgets(target: Target) -> list[str]:
    """Resources that a target limits."""
    limited = [name for name in RESOURCES if getattr(target, name) is not None]
    return list(RESOURCES) if target.device is not None else limited


def _measures(against: Against) -> tuple[tuple[str, ...], dict[str, CostModel]]:
    names: list[str] = []
    costs: dict[str, CostModel] = {}
    for each in against:
        if isinstance(each, str):
            refuse_unknown(each, (*MAPPED, *COSTS), "there is no such measure", field="against")
        name = each
        if not isinstance(each, str) or each in COSTS:
            name, costs[str(name)] = cost_model(each)
        names.append(str(name))
    if not names or len(set(names)) < len(names):
        raise ConfigError(
            "no measure, or one twice", field="against", got=names, expected="at least one that is to be least"
        )
    return tuple(names), costs


def _counted(manifest: Manifest, use: Mapping[str, Any]) -> dict[str, float]:
    timing = manifest.timing
    return {"interval": timing.interval, "fill": timing.fill, **{name: use[name] for name in RESOURCES}}


def _given(args: Any) -> Json:
    """Arguments as a configuration has them: those that are no default."""
    found: Json = args.model_dump(mode="json", exclude_defaults=True)
    return found


def _ladder(fastest: int, slowest: int) -> list[int]:
    """Cycles per frame, each about the square root of two times the one before."""
    found: list[int] = []
    power = 0
    while not found or found[-1] < slowest:
        found.append(min(int(fastest * 2 ** (power / 2)), slowest))
        power += 1
    return sorted(set(found))


def _since(begin: float) -> float:
    return round(time.perf_counter() - begin, 3)
