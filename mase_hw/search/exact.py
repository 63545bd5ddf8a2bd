"""Points of a front made real: compiled, simulated bit for bit, scored by the hardware, and synthesised on request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mase_hw.compiler.compile import compile
from mase_hw.compiler.config import CompileConfig
from mase_hw.cost.devices import RESOURCES
from mase_hw.design.design import Design
from mase_hw.emit.estimate import estimate
from mase_hw.errors import ToolError
from mase_hw.host.disk import write_whole
from mase_hw.host.documents import Json
from mase_hw.model_spec import ModelSpec
from mase_hw.passes.evaluation import CriterionLike
from mase_hw.passes.mixed_precision.plan import Plan
from mase_hw.search.front import Point
from mase_hw.search.problem import family_of

Tell = Callable[[str], object]


@dataclass(frozen=True)
class Exact:
    """What a point of the front is as hardware.

    Args:
        digest: Of the trial.
        bundle: Its folder.
        hardware: Digest of the bundle.
        score: The criterion of what the hardware gave.
        interval: Cycles per frame, measured.
        beats: Beats that were compared, every bit.
        differs: What is not as the trial said, or not bit for bit; empty if everything is.
        synthesised: Counts of the mapped netlist by resource, and its relative energy of a frame (``mase-hw power``)
            where its cells have models; empty if it was not asked for.
    """

    digest: str
    bundle: str
    hardware: str
    score: float | None
    interval: int | None
    beats: int
    differs: Sequence[str]
    synthesised: Json = field(default_factory=dict)

    def to_json(self) -> Json:
        """As JSON types, with the verdict."""
        return {**asdict(self), "passed": self.passed}

    @property
    def passed(self) -> bool:
        """Whether the hardware is what the trial said."""
        return not self.differs


def make_front(
    plans: Sequence[tuple[Point, Plan]],
    spec: ModelSpec,
    folder: Path,
    *,
    criterion: CriterionLike,
    settings: CompileConfig,
    target: str | None = None,
    tell: Tell = lambda _: None,
) -> list[Exact]:
    """Compile and simulate points of a front, and compare with what their trials said.

    Args:
        plans: Points, each with its plan.
        spec: The model that was searched, with the data of the search.
        folder: Where the bundles are written, by digest; what is there already is not made again.
        criterion: As for the search.
        settings: The configuration of the search.
        target: A target of ``mase-hw synth`` to synthesise for; None for no synthesis.
        tell: Told what is done.

    Raises:
        MaseHwError: Whatever ``compile`` and ``simulate`` raise; a wrong bit is no error, it is in the result.
    """
    made = []
    for number, (point, plan) in enumerate(plans, start=1):
        tell(f"design {number} of {len(plans)}: trial {point.number + 1}, {point.digest}")
        file = folder / f"{point.digest}.json"
        if file.is_file():
            kept = Exact(**json.loads(file.read_text(encoding="utf-8")))
            if kept.passed and (target is None or kept.synthesised):
                made.append(kept)
                continue
        out = folder / point.digest
        design = compile(spec.model, spec.example_inputs, plan.config, out=out, calibration=spec.calibration)
        each = _judged(design, point, spec.labelled, criterion, family_of(settings))
        if target is not None:
            each = Exact(**{**asdict(each), "synthesised": _synthesised(design, target)})
        write_whole(file, json.dumps(asdict(each), indent=1))
        made.append(each)
    return made


def spread(front: Sequence[Point], most: int) -> list[Point]:
    """So many points of a front, the first and the last among them."""
    if most >= len(front):
        return list(front)
    places = [round(i * (len(front) - 1) / max(most - 1, 1)) for i in range(most)]
    return [front[i] for i in dict.fromkeys(places)]


def _judged(design: Design, point: Point, data: Iterable[Any], criterion: CriterionLike, family: str) -> Exact:
    played = design.simulate(engine="batch", check=False, diagnose=False)
    scored = design.evaluate(data, criterion, diagnose=False)
    expected = {"score": point.score, **{n: v for n, v in point.measures.items() if n in ("interval", *RESOURCES)}}
    area = estimate(design.record, family)
    there = {"score": scored.quantised, "interval": design.timing["interval"], **{n: area[n] for n in RESOURCES}}
    differs = [f"{n}: {there[n]}, the trial said {said}" for n, said in expected.items() if there[n] != said]
    if not played.passed:
        differs.append("its vectors: the hardware is not the quantised model")
    if not scored.passed or scored.rtl != scored.quantised:
        differs.append("its data: the hardware is not the quantised model")
    if played.interval is not None and played.interval != design.timing["interval"]:
        differs.append(f"interval measured: {played.interval}, predicted {design.timing['interval']}")
    beats = played.result.beats_compared
    return Exact(
        point.digest, str(design.path), design.manifest["digest"], scored.rtl, played.interval, beats, differs
    )  # fmt: skip


def _synthesised(design: Design, target: str) -> Json:
    from mase_hw.synth.power import MODELS, measure
    from mase_hw.synth.synthesise import synthesise

    counts = synthesise(design, target).to_json()["total"]
    try:
        return {"target": target, **counts, "energy": round(measure(design, target).total)}
    except ToolError as problem:
        if problem.field != MODELS:
            raise
        return {"target": target, **counts}
