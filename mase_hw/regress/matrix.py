"""The regression matrix: a TOML file that says what is run, and its expansion into jobs.

A job is plain data, so that it can be sent to another process or machine and written to a report.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from mase_hw.catalogue import default_catalogue
from mase_hw.emit.bundle import MANIFEST
from mase_hw.errors import ConfigError
from mase_hw.host.documents import Json, parse_toml
from mase_hw.passes.base import validate
from mase_hw.simulate.engines.registry import engine as engine_of
from mase_hw.simulate.plan import DEFAULT_ENGINE, MOST_STALLS, PATTERNS

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]+$")]


def _stall(value: object) -> float | str:
    if isinstance(value, str) and value in PATTERNS:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_STALLS:
        return float(value)
    raise ValueError(f"expected a probability from 0 to {MOST_STALLS} or one of {', '.join(PATTERNS)}")


FOLDER_STALLS: tuple[float | str, ...] = (0.0, 0.3)
"""How unwilling the surroundings of bundles in a folder are."""

Inner = Annotated[float, Field(ge=0, le=MOST_STALLS)]
"""A probability of stalls inside a design."""

Stall = Annotated[float | str, PlainValidator(_stall)]
"""A probability, or a name of :data:`mase_hw.simulate.plan.PATTERNS`."""


class Axes(BaseModel):
    """What every entry of a matrix is multiplied with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    engines: tuple[str, ...] = Field((DEFAULT_ENGINE,), min_length=1, description="simulation engines by name")
    seeds: tuple[int, ...] = Field((0,), min_length=1, description="seeds of data, stalls and initial register values")
    stalls: tuple[Stall, ...] = Field(
        (0.0,), min_length=1, description="probabilities of a stall in every cycle, or names of patterns"
    )
    timeout: float = Field(600.0, gt=0, description="seconds after which a simulator is killed")


class OpEntry(Axes):
    """Cases of the catalogue."""

    op: str = Field(default="*", description="pattern of op names, such as ``linear`` or ``*pool*``")
    case: str = Field(default="*", description="pattern of case names")
    every_module: bool = Field(
        default=False,
        description="only the first case of each RTL module of which the entries before this one have none",
    )


class NetworkEntry(Axes):
    """A network, in every configuration and folding."""

    name: Name = Field(description="what the network is called in reports")
    model: str = Field(
        description="``FILE.py:FUNCTION``, the file relative to the matrix, or ``PACKAGE.MODULE:FUNCTION``"
    )
    configs: dict[Name, str | Json] = Field(
        {"default": {}},
        min_length=1,
        description="configurations by name: a TOML file relative to the matrix, or a table",
    )
    foldings: dict[Name, Json] = Field(
        {"default": {}},
        min_length=1,
        description="tables by name that replace keys of ``hardware`` in the configuration",
    )
    frames: int = Field(8, ge=2, description="random frames, if the function of the model returns no test inputs")
    inner_stalls: tuple[Inner, ...] = Field(
        (0.0,), min_length=1, description="probabilities with which each edge inside the design closes in a cycle"
    )


class BundleEntry(Axes):
    """Bundles that were compiled already, each against its own vectors."""

    path: str = Field(description="a bundle, or a pattern of bundles such as ``build/*``, relative to the matrix")


class Matrix(BaseModel):
    """A matrix file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name = Field(description="name of the matrix, under which the baseline keeps its figures")
    op: tuple[OpEntry, ...] = Field((), description="entries of op cases")
    network: tuple[NetworkEntry, ...] = Field((), description="entries of networks")
    bundle: tuple[BundleEntry, ...] = Field((), description="entries of bundles")


@dataclass(frozen=True)
class Job:
    """One run.

    Args:
        name: Unique; names the run folder.
        build: Names the build folder; jobs with the same name share a build.
        kind: ``op``, ``network`` or ``bundle``.
        spec: What is built, as JSON types.
        engine: Simulation engine.
        seed: Of data, stalls and initial register values.
        stalls: Probability of a stall in every cycle, or the name of a pattern; 0 for none.
        timeout: Seconds after which the simulator is killed.
        inner_stalls: Probability with which each edge inside the design closes in a cycle.
    """

    name: str
    build: str
    kind: str
    spec: Json = field(hash=False)
    engine: str
    seed: int
    stalls: float | str
    timeout: float
    inner_stalls: float = 0.0

    @property
    def identity(self) -> str:
        """Hash of everything the matrix says about it."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self), sort_keys=True).encode()).hexdigest()


def load_matrix(path: Path) -> Matrix:
    """Read a matrix file; of a folder make the matrix of all bundles in it, at full rate and with stalls.

    Raises:
        ConfigError: If it cannot be read, is not TOML, or any key or value is wrong.
    """
    if path.is_dir():
        entry = BundleEntry(path="*", engines=("batch",), stalls=FOLDER_STALLS)
        return Matrix(name=_safe(path.resolve().name) or "bundles", bundle=(entry,))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:  # a NUL in its name, or bytes that are no text
        raise ConfigError(
            "the matrix cannot be read", node=str(path), got=str(error), expected="a TOML file"
        ) from error
    try:
        document = parse_toml(text)
    except ValueError as error:
        raise ConfigError("the matrix is not TOML", node=str(path), got=str(error)) from error
    return validate(str(path), Matrix, document)


def expand(matrix: Matrix, folder: Path) -> list[Job]:
    """Every job of a matrix; those of one build are far apart, so that builds do not wait for each other.

    Args:
        matrix: The matrix.
        folder: What relative paths in it are relative to.

    Raises:
        ConfigError: If a pattern matches nothing, an engine is unknown, a name is used twice, or nothing is left.
    """
    played: set[str] = set()
    jobs = [job for op in matrix.op for job in _op_jobs(op, played)]
    jobs += [job for network in matrix.network for job in _network_jobs(network, folder.resolve())]
    jobs += [job for bundle in matrix.bundle for job in _bundle_jobs(bundle, folder.resolve())]
    if not jobs:
        raise ConfigError("the matrix is empty, so nothing would be proven", node=matrix.name)
    seen: dict[str, Job] = {}
    for job in jobs:
        if job.name in seen and job != seen[job.name]:
            raise ConfigError("two entries of the matrix make the same job", node=matrix.name, got=job.name)
        seen[job.name] = job
    rank: dict[str, int] = {}
    order: list[tuple[int, int, Job]] = []
    for job in seen.values():
        rank[job.build] = rank.get(job.build, -1) + 1
        order.append((rank[job.build], len(order), job))
    return [job for *_, job in sorted(order, key=lambda item: item[:2])]


def _runs(axes: Axes, build: str, kind: str, spec: Json, inside: tuple[float, ...] = (0.0,)) -> Iterator[Job]:
    for engine, seed, stalls, inner in itertools.product(axes.engines, axes.seeds, axes.stalls, inside):
        engine_of(engine)
        rate: float | str = 0.0 if stalls == "none" else stalls
        suffix = "" if rate == 0 else f".{rate}" if isinstance(rate, str) else f".stalls{rate:g}"
        suffix += f".inner{inner:g}" if inner else ""
        name = f"{build}.{engine}.seed{seed}{suffix}"
        yield Job(name, f"{build}.{engine}", kind, spec, engine, seed, rate, axes.timeout, inner)


def _op_jobs(entry: OpEntry, played: set[str]) -> Iterator[Job]:
    """The jobs of an entry; ``played`` has the RTL modules of the entries before it, and gets those of this one."""
    found = False
    for op in default_catalogue():
        if op.hardware is None or not fnmatch.fnmatchcase(op.name, entry.op):
            continue
        cases = [case for case in op.hardware.cases() if fnmatch.fnmatchcase(case.name, entry.case)]
        found = found or bool(cases)
        if entry.every_module:
            cases = [] if op.hardware.module in played else cases[:1]
        played.update(op.hardware.module for _ in cases)
        for case in cases:
            build = f"op.{op.name}.{_safe(case.name)}"
            yield from _runs(entry, build, "op", {"op": op.name, "case": case.name})
    if not found:
        raise ConfigError("no op case matches", field="op", got=f"op {entry.op!r}, case {entry.case!r}")


def _network_jobs(entry: NetworkEntry, folder: Path) -> Iterator[Job]:
    place, _, function = entry.model.rpartition(":")
    model = f"{folder / place}:{function}" if place.endswith(".py") else entry.model
    for (config, settings), (folding, hardware) in itertools.product(entry.configs.items(), entry.foldings.items()):
        spec = {
            "model": model,
            "config": str(folder / settings) if isinstance(settings, str) else settings,
            "hardware": hardware,
            "frames": entry.frames,
            "seeds": sorted(set(entry.seeds)),
        }
        build = f"net.{entry.name}.{config}.{folding}"
        yield from _runs(entry, build, "network", spec, entry.inner_stalls)


def _bundle_jobs(entry: BundleEntry, folder: Path) -> Iterator[Job]:
    *parts, last = (folder / entry.path).parts  # an absolute path stays as it is
    fixed = next((i for i, part in enumerate(parts) if set(part) & set("*?[")), len(parts))
    start = Path(*parts[:fixed])
    found = sorted(each.parent for each in start.glob(str(Path(*parts[fixed:], last, MANIFEST))))
    if not found:
        raise ConfigError(
            "there are no bundles",
            node=str(folder),
            field="bundle.path",
            got=entry.path,
            expected=f"folders with a {MANIFEST}, as `mase-hw compile` writes them",
        )
    for bundle in found:
        # The content is part of the job: a result of an earlier bundle in the same folder is none of this one.
        content = hashlib.sha256((bundle / MANIFEST).read_bytes()).hexdigest()
        name = "_".join(_safe(part) for part in bundle.relative_to(start).parts)
        yield from _runs(entry, f"bundle.{name}", "bundle", {"bundle": str(bundle), "content": content})


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)
