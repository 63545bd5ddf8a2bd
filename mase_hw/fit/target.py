"""What a design is to reach and what it may take: a device or numbers, a rate, and what is to be least."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from mase_hw.cost.devices import DEVICES, RESOURCES, Kind, Resources, device_of
from mase_hw.cost.fabrics import FABRICS
from mase_hw.errors import ConfigError
from mase_hw.passes.base import validate

SLOWEST = 1 / 3600
"""The lowest rate, in frames per second: one frame an hour."""
ESTIMATED = tuple(FABRICS)
"""Families whose use of a device is estimated before synthesis."""
NOMINAL: Mapping[str, int] = {"lut": 53_200, "ff": 106_400, "dsp": 220, "bram": 280}
"""What resources count for that nobody limits: as their shares of a device of this mix, that of an xc7z020."""
NEVER_ASKED = ("mhz", "unrolled", "whole_frames", "logic", "external", "shared", "positions")
"""Settings that ask for nothing by themselves."""
Minimise = Literal["area", "interval", "latency"]


class Target(BaseModel):
    """What a design is to reach; also the table ``target`` of a configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    device: str | None = Field(
        default=None, examples=["xc7a35t"], description="a device whose capacity is the budget; its family is taken"
    )
    fps: float | None = Field(default=None, examples=[1000.0], description="least rate, in frames per second")
    mhz: float = Field(default=100.0, description="frequency of the clock with which ``fps`` becomes cycles per frame")
    interval: StrictInt | None = Field(
        default=None, examples=[4096], description="most cycles per frame, in place of ``fps``"
    )
    latency_ns: float | None = Field(
        default=None,
        examples=[500.0],
        description="most nanoseconds from the first input to the last result of one frame, at ``mhz``; the latency is "
        "then what is least",
    )
    lut: StrictInt | None = Field(default=None, examples=[50000], description="most look-up tables of six inputs")
    ff: StrictInt | None = Field(default=None, examples=[100000], description="most flip-flops")
    dsp: StrictInt | None = Field(default=None, examples=[200], description="most DSP blocks")
    bram: StrictInt | None = Field(default=None, examples=[280], description="most block RAMs of 18 Kbit")
    minimise: Minimise | None = Field(
        default=None,
        examples=["latency"],
        description="what is least: ``area`` (the shares of the device, added up, at the rate that is asked for or at "
        "any; the default with a rate), ``interval`` (cycles per frame; the default without one) or ``latency`` "
        "(cycles to the last result of one frame)",
    )
    unrolled: StrictInt = Field(
        default=256,
        ge=0,
        description="weights, of all layers together, that may become additions in place of multipliers, the smallest "
        "layers first; 0 for none; finding the additions of 1,000 weights takes up to seven seconds",
    )
    whole_frames: StrictInt = Field(
        default=256,
        ge=0,
        description="products of a beat (weights times positions) at most of a part of a small network, or all of it, "
        "that may become one expression of its constants (``hardware.unroll``); 0 for none; more are tried where "
        "nothing else meets the target, or what does has a multiplier for every other product of a beat; finding one "
        "of 12,160 products took 13 seconds of a processor",
    )
    logic: bool = Field(
        default=False,
        description="whether multipliers may be made of look-up tables, so that those that are left over buy products; "
        "the choice takes much longer then, of a chain of 60 layers two minutes in place of four seconds",
    )
    external: bool = Field(
        default=False,
        description="whether weights may be read from external memory, whose words per frame are then no more than the "
        "cycles per frame",
    )
    shared: list[str] = Field(
        default_factory=list,
        examples=[["encoder.layer"]],
        description="modules whose children are equal blocks, which may share the hardware of one, or of any number "
        "that divides theirs; their tensors have one format, whatever is chosen",
    )
    positions: list[Annotated[StrictInt, Field(ge=1)]] = Field(
        default_factory=list,
        examples=[[1, 2, 4]],
        description="numbers of neighbouring positions of an image or sequence that a beat may have "
        "(``hardware.positions``), of which the best is chosen",
    )

    @property
    def asked(self) -> bool:
        """Whether anything is asked for."""
        return any(getattr(self, name) is not None for name in type(self).model_fields if name not in NEVER_ASKED)


TargetLike = Target | Mapping[str, object]
"""A target, or its fields."""


@dataclass(frozen=True)
class Goal:
    """A target in cycles and numbers.

    Args:
        interval: Most cycles per frame; None for no limit.
        budgets: Most of every resource that is limited.
        family: Of FPGAs.
        minimise: What is to be least.
        mhz: Frequency of the clock.
        device: Its name; None if there are only numbers.
        unrolled: Weights, of all layers together, that may become additions.
        whole_frames: Products of a beat at most of a part that may become one expression.
        logic: Whether multipliers may be made of look-up tables.
        external: Whether weights may be read from external memory.
        shared: Modules whose children may share hardware.
        positions: Numbers of positions of a beat; none to leave them as they are.
        latency: Most cycles from the first input to the last result of one frame; None for no limit.
        measured: What is known of modules by measurement, and counts in place of what is estimated.
    """

    interval: int | None
    budgets: Mapping[str, int]
    family: str
    minimise: Minimise
    mhz: float
    device: str | None = None
    unrolled: int = 256
    whole_frames: int = 256
    logic: bool = False
    external: bool = False
    shared: tuple[str, ...] = ()
    positions: tuple[int, ...] = ()
    latency: int | None = None
    measured: Mapping[Kind, Resources] = field(default_factory=dict)

    def fps(self, interval: int) -> float:
        """Frames per second at a number of cycles per frame."""
        return self.mhz * 1e6 / interval

    def share(self, resource: str, number: int) -> float:
        """What a number is of what there is; of a nominal device where nothing is limited."""
        return number / self.budgets.get(resource, NOMINAL[resource])


def goal(target: TargetLike, family: str) -> Goal:
    """Check a target.

    Args:
        target: What was asked for.
        family: The family of the configuration of the hardware; empty for none.

    Raises:
        ConfigError: If a number cannot be, a device is unknown or cannot be estimated, or families contradict.
    """
    asked = target if isinstance(target, Target) else validate("target", Target, target)
    _check_numbers(asked)
    budgets = {name: number for name in RESOURCES if (number := getattr(asked, name)) is not None}
    wanted, device = family or ESTIMATED[0], None
    if asked.device is not None:
        found = device_of(asked.device)
        device, wanted = found.name, found.target
        budgets = {**found.capacity(), **budgets}
        if family and family != wanted:
            raise ConfigError(
                "the device is of another family than the hardware is configured for",
                field="target.device",
                got=f"{device}, of {wanted}",
                expected=f"a device of {family}",
                remedy="leave hardware.family out, or choose another device",
            )
    if wanted not in ESTIMATED:
        raise ConfigError(
            "what a design takes of this family is not estimated",
            field="target" if device is None else "target.device",
            got=wanted if device is None else f"{device}, of {wanted}",
            expected=f"a family of: {', '.join(ESTIMATED)}",
            remedy=_nearest(budgets),
        )
    interval = asked.interval if asked.fps is None else int(asked.mhz * 1e6 / asked.fps)
    if interval is None and not budgets and asked.latency_ns is None:
        raise ConfigError(
            "the target says neither how fast the design is to be nor what it may take",
            field="target",
            expected="device, fps, interval, latency_ns, or numbers of lut, ff, dsp and bram",
        )
    if interval is not None and interval < 1:
        raise ConfigError(
            "more frames than cycles",
            field="target.fps",
            got=f"{asked.fps} frames per second at {asked.mhz} MHz",
            expected=f"at most {asked.mhz * 1e6:.0f}, one frame a cycle",
        )
    default: Minimise = "interval" if interval is None else "area"
    latency = None if asked.latency_ns is None else int(asked.latency_ns * asked.mhz / 1000 + 1e-9)
    least = "latency" if latency is not None else asked.minimise or default
    given = (
        asked.unrolled,
        asked.whole_frames,
        asked.logic,
        asked.external,
        tuple(asked.shared),
        tuple(asked.positions),
        latency,
    )
    return Goal(interval, budgets, wanted, least, asked.mhz, device, *given)


def _check_numbers(asked: Target) -> None:
    if not (math.isfinite(asked.mhz) and 0 < asked.mhz <= 1e5):
        raise ConfigError(
            "no frequency of a clock", field="target.mhz", got=asked.mhz, expected="megahertz, above 0 and up to 100000"
        )
    if asked.fps is not None and not (math.isfinite(asked.fps) and asked.fps >= SLOWEST):
        raise ConfigError(
            "no rate of frames",
            field="target.fps",
            got=asked.fps,
            expected=f"frames per second, at least one frame an hour ({SLOWEST:.6f})",
            remedy="raise it; or leave it out, and the fastest design within the budgets is chosen",
        )
    if asked.interval is not None and asked.fps is not None:
        raise ConfigError(
            "a rate is given twice",
            field="target.interval",
            got=f"interval {asked.interval} and fps {asked.fps}",
            remedy="leave one of them out",
        )
    if asked.interval is not None and not 1 <= asked.interval <= 1 << 48:
        raise ConfigError(
            "no number of cycles per frame", field="target.interval", got=asked.interval, expected="1 to 2^48"
        )
    if asked.latency_ns is not None:
        _check_latency(asked, asked.latency_ns)
    for name in RESOURCES:
        number = getattr(asked, name)
        if number is not None and number < 1:
            raise ConfigError(
                "a budget of nothing",
                field=f"target.{name}",
                got=number,
                expected="1 or more",
                remedy="leave it out for no limit; the least that this model can take is what `minimise` of area finds",
            )


def _check_latency(asked: Target, latency: float) -> None:
    if not (math.isfinite(latency) and latency * asked.mhz >= 1000):
        raise ConfigError(
            "a latency of less than a cycle",
            field="target.latency_ns",
            got=latency,
            expected=f"at least {1000 / asked.mhz:g} ns, a cycle at {asked.mhz:g} MHz",
        )
    if asked.minimise not in (None, "latency"):
        raise ConfigError(
            "with a limit of the latency it is the latency that is least",
            field="target.minimise",
            got=asked.minimise,
            expected="latency",
            remedy="leave target.minimise or target.latency_ns out",
        )


def _nearest(budgets: Mapping[str, int]) -> str:
    """The device nearest in size whose family is estimated."""
    known = [each for each in DEVICES.values() if each.target in ESTIMATED]
    lut = budgets.get("lut", 0)
    near = min(known, key=lambda each: (abs(each.lut - lut), each.name))
    return f"the nearest device that is estimated is {near.name}; or give numbers of lut, ff, dsp and bram"
