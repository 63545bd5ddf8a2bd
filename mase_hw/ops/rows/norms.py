"""Layer norm, RMS norm and group norm: exact moments, one reciprocal square root a row, one cast.

:mod:`mase_hw.ops.rows._normalize` has the arithmetic and its error, at most 1 LSB. A row is the last dimension (layer
and RMS norm), or the channels of a group at all positions of an image (group norm; an instance norm is one with as many
groups as channels). Images travel channels-last, so the groups of a frame come interleaved: there is a moment for each
of them, and the frame is kept until it has come whole. ``lower_layers_transform_pass`` writes norms over several
dimensions and instance norms as these.

The module of the norms: its parameters, its streams, and when it moves.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, ScaledFormat, ScaledUse
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Params, Segments, Tensor3, Vector, port
from mase_hw.layouts import Layout
from mase_hw.numerics import as_carrier, carrier, cast, magnitude, straight_through, symbolic
from mase_hw.numerics.wide import WIDE
from mase_hw.opdef import LAYER_TENSORS, Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._cases import asked_of, order_of
from mase_hw.ops._piecewise import fit
from mase_hw.ops._tensors import as_they_come, lanes_within, positions_of
from mase_hw.ops.rows._normalize import check_fits, key_of, normalise, plan_of
from mase_hw.ops.rows._rows import abreast, relayout, row_shape
from mase_hw.steps import Steps
from mase_hw.streams import Stream

SCALE_LATENCY, BEFORE_PRODUCT, APPLY_LATENCY = 12, 2, 5
IMPLEMENTATIONS = ("parallel", "shared", "in_turn")
_NARROW = ("ecp5",)
"""Families whose blocks have two operands of 18 bits, which are a few bits short of what norms of 16 bits multiply."""


class NormParams(Params, frozen=True):
    """Parameters of ``fixed_normalize``: dimension 0 channels (or the row), 1 positions, 2 rows.

    Lanes along dimension 1 are neighbouring positions of the same rows, along dimension 2 neighbouring rows.
    """

    data_in_0: Tensor3
    has_weight: bool
    weight: Vector
    has_bias: bool
    bias: Vector
    data_out_0: Tensor3
    cast: Cast
    groups: int
    centre: bool
    epsilon: int
    epsilon_shift: int
    radicand_width: int
    radicand_frac: int
    scale_frac: int
    drop: int
    segments: Segments
    block: int
    shared: bool
    in_turn: int
    """0, 1, or 2 with registers in front of the multiplier."""

    @property
    def units(self) -> int:
        """Rows in a beat."""
        share, rows = self.data_in_0.size[0] // self.groups, self.data_in_0.lanes[2]
        return rows if self.groups == 1 else max(1, self.data_in_0.lanes[0] // share)

    @property
    def tiles(self) -> int:
        """Beats of a position."""
        return self.data_in_0.tiles[0]

    @property
    def turns(self) -> int:
        """Groups that follow each other in a position."""
        return self.groups if 1 in (self.units, self.groups) else self.tiles

    def repetitions(self) -> dict[str, int]:
        """The parameters come once for every position, or for all positions of a beat."""
        return dict.fromkeys(("weight", "bias"), math.prod(self.data_in_0.tiles[1:]))

    def stream(self, name: str) -> Stream:
        """The stream of a port; of several rows in a beat lane ``element * rows + row``."""
        made = super().stream(name)
        if not name.startswith("data_") or self.data_in_0.lanes[2] == 1:
            return made
        (lanes, _, rows), (size, _, number) = self.data_in_0.lanes, self.data_in_0.size
        layout, sizes = Layout.abreast(made.shape, rows), (1, number // rows, size * rows)
        return dataclasses.replace(made, shape=sizes, parallelism=(lanes * rows,), layout=layout)

    def attributes(self) -> Attributes:
        """The size of a row."""
        return {"normalized_shape": (self.data_in_0.size[0],)}


class GroupNormParams(NormParams, frozen=True):
    """The same over groups of the channels of images."""

    def positions(self, name: str) -> int:
        """Neighbouring positions of an image that a beat holds."""
        return self.data_in_0.lanes[1] if name.startswith("data_") else 1

    def layout(self, name: str) -> Layout | None:
        """Channels last."""
        if not name.startswith("data_"):
            return None
        images, positions, channels = getattr(self, name).shape
        return Layout.tiled((images, channels, positions), self.positions(name))

    def attributes(self) -> Attributes:
        """The number of groups."""
        return {"num_groups": self.groups}


def latency(p: NormParams) -> Latency:
    """A FIFO that holds a frame of rows until their scales are known, then the registers of the products.

    With multipliers in turn a step is a product, and its last one lets the next row in.
    """
    (_, positions, rows), turns = p.data_in_0.tiles, p.turns
    inner = p.tiles // turns
    note = 3 + (math.prod(p.data_in_0.lanes) // p.units - 1).bit_length() + SCALE_LATENCY + (p.in_turn == 2)
    if p.in_turn:
        each, length = np.arange(rows * positions * inner), positions * inner
        first = each // length * length
        return Latency.from_steps(
            Steps.at(
                len(each),
                needed=[first],
                freed=[first + length - 1],
                emitted=each,
                delay=[note + BEFORE_PRODUCT],
                room=[length],
                pipe=APPLY_LATENCY - BEFORE_PRODUCT,
                queue=APPLY_LATENCY - BEFORE_PRODUCT,
                queue_lag=0,
            )
        )
    row, position, turn, _ = (axis.reshape(-1) for axis in np.indices((rows, positions, turns, inner)))
    length = positions * turns * inner
    first = (positions - 1) * turns * inner + (turn + 1) * inner
    queue = Steps(
        needs=(row * length + np.where(position == 0, first, length),),
        frees=(np.arange(1, rows * length + 1),),
        emits=np.arange(1, rows * length + 1),
        delay=(note,),
        pipe=0,
        room=((positions - 1) * turns * inner + inner + note,),
        queue=0,
    )
    return Latency.from_steps(queue, Steps.registered(rows * length, pipe=APPLY_LATENCY))


LAYER, RMS, GROUP = "layer_norm", "rms_norm", "group_norm"


def epsilon(attributes: Attributes) -> float:
    """What is added to the variance; PyTorch's own for an RMS norm that does not say it."""
    eps = attributes.get("eps", 1e-5)
    return float(torch.finfo(torch.float32).eps if eps is None else eps)


def _integer_epsilon(a: Arithmetic) -> float:
    """The same in squared LSBs of scaled integers, whose last bit is 1, so that the norm is one of integers."""
    fmt, eps = a.formats["data_in_0"], epsilon(a.attributes)
    return eps / fmt.scale**2 if isinstance(fmt, ScaledFormat) else eps


def _scaled(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    """Of a norm, which does not depend on the scale of its data: the others in fixed point, or in steps of the result.

    What multiplies and what is added say how many steps of the result they stand for, so that its scale costs nothing.
    """
    x, others = formats["data_in_0"], [fmt for name, fmt in formats.items() if name != "data_in_0"]
    if x.per_channel:
        return "data of one scale"
    if not any(isinstance(fmt, ScaledFormat) for fmt in others):
        return ""
    out = formats["data_out_0"]
    plain = all(isinstance(fmt, ScaledFormat) and not (fmt.per_channel or fmt.zero_point) for fmt in others)
    if not plain or "weight" not in formats or (isinstance(out, ScaledFormat) and out.lows):
        return "all but its data in fixed point, or with one scale and without a zero point and limits; requantise them"
    if any(math.frexp(fmt.scale / out.scale)[0] != 0.5 for fmt in others):
        return "a weight and a bias whose steps are that of the result times powers of two"
    return ""


def _in_steps(a: Arithmetic) -> Arithmetic:
    """The same counted in steps of a result of scaled integers: fixed point in all tensors but the data."""
    out = a.formats["data_out_0"]
    if not isinstance(out, ScaledFormat):
        return a
    formats = {
        name: fmt
        if name == "data_in_0"
        else FixedFormat(fmt.width, 1 - math.frexp(fmt.scale / out.scale)[1], fmt.signed)
        for name, fmt in a.formats.items()
    }
    return dataclasses.replace(a, formats=formats)


def _scaled_rms(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    return _scaled(formats, attributes) or ("data without a zero point" if formats["data_in_0"].zero_point else "")


def rows_of(kind: str, a: Arithmetic, x: Tensor) -> Tensor:
    """The same elements as ``(..., rows, elements of a row)``."""
    if kind == GROUP:
        groups = int(a.attributes["num_groups"])
        return x.reshape(x.shape[0], groups, -1)
    dims = len(_normalized(a.attributes, x.shape))
    return x.reshape(*x.shape[: x.ndim - dims], -1)


def _normalized(attributes: Attributes, shape: Sequence[int]) -> Sequence[int]:
    given: Any = attributes.get("normalized_shape", shape[-1:])
    return given if isinstance(given, list | tuple | torch.Size) else (int(given),)


def _spread(kind: str, value: Tensor, rank: int) -> Tensor:
    """Weight or bias, shaped to broadcast to the data."""
    return value.reshape(-1, *[1] * (rank - 2)) if kind == GROUP else value


def golden(kind: str, a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0``, optional ``weight`` and ``bias`` -> ``data_out_0`` of the shape of ``data_in_0``."""
    a = _in_steps(a)
    x, target = t["data_in_0"], a.formats["data_out_0"]
    given = {name: fmt for name, fmt in a.formats.items() if name in t or name == "data_out_0"}
    a = Arithmetic(given, a.rounding, a.overflow, a.attributes)
    dtype = carrier(magnitude(target))
    if symbolic(x):
        return {"data_out_0": as_carrier(x, dtype)}
    rows = rows_of(kind, a, x.detach())
    plan = plan_of(a, rows.shape[-1], kind != RMS, _integer_epsilon(a))
    frac, wide = check_fits(a, plan)
    squares = plan.size * magnitude(a.formats["data_in_0"]) ** 2
    rows = as_carrier(rows, carrier(min(squares, (1 << 63) - 1)))
    element, row = normalise(plan, key_of(a), rows, torch.int64 if wide is WIDE else wide)
    exact, have = as_carrier(element, wide).mul_(as_carrier(row, wide)).reshape(x.shape), plan.frac
    if "weight" in t:
        exact = exact.mul_(_spread(kind, as_carrier(t["weight"].detach(), wide), x.ndim))
        have += a.formats["weight"].frac_width
    if frac > have:
        exact = exact.mul_(1 << (frac - have))
    if "bias" in t:
        bias = as_carrier(t["bias"].detach(), wide) * (1 << (frac - a.formats["bias"].frac_width))
        exact = exact.add_(_spread(kind, bias, x.ndim))
    out = as_carrier(cast(exact, frac, target, a.rounding, a.overflow, own=True), dtype)
    if any(v.requires_grad for v in t.values()) and out.is_floating_point():
        out = straight_through(out, _surrogate(kind, a, t))
    return {"data_out_0": out}


def _surrogate(kind: str, a: Arithmetic, t: Mapping[str, Tensor]) -> Tensor:
    """The float function in units of the output, for the gradient only."""
    values = {name: value.double() * a.formats[name].scale for name, value in t.items()}
    x, target = values["data_in_0"], a.formats["data_out_0"]
    rows = rows_of(kind, a, x)
    if kind != RMS:
        rows = rows - rows.mean(-1, keepdim=True)
    y = (rows / (rows.square().mean(-1, keepdim=True) + epsilon(a.attributes)).sqrt()).reshape(x.shape)
    y = y * _spread(kind, values["weight"], x.ndim) if "weight" in t else y
    y = y + _spread(kind, values["bias"], x.ndim) if "bias" in t else y
    y = y * math.ldexp(1.0, target.frac_width)
    return y.clamp(target.min_mantissa, target.max_mantissa) if a.overflow is Overflow.SATURATE else y


def _sizes(kind: str, r: Request) -> tuple[tuple[int, int, int], int]:
    """Rows, positions and channels, and groups."""
    shape = r.shapes["data_in_0"]
    if kind == GROUP:
        return (shape[0], math.prod(shape[2:]), shape[1]), int(r.arithmetic.attributes["num_groups"])
    dims = _normalized(r.arithmetic.attributes, shape)
    if len(dims) != 1:
        raise UnsupportedError(
            "this norm is over several dimensions yet",
            node=r.node,
            field="normalized_shape",
            got=list(dims),
            remedy="run lower_layers_transform_pass before the graph is calibrated, as compile does",
        )
    rows, size = row_shape(r)
    return (rows, 1, size), 1


def _whole_groups(lanes: int, channels: int, groups: int) -> int:
    """The most lanes, no more than offered, that are a part of a group or whole groups."""
    share = channels // groups
    fits = [n for n in range(1, lanes + 1) if groups == 1 or share % n == 0 or n % share == 0]
    return fits[-1]


def _build(kind: str, r: Request) -> NormParams:
    a, (shape, groups) = _in_steps(r.arithmetic), _sizes(kind, r)
    has = {name: name in r.shapes for name in ("weight", "bias")}
    given = {name: fmt for name, fmt in a.formats.items() if has.get(name, True)}
    a = Arithmetic(given, a.rounding, a.overflow, a.attributes)
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shape)
    lanes = _whole_groups(lanes, shape[-1], groups)
    beside = (lanes, positions_of(r)[0], 1) if kind == GROUP else (lanes, 1, abreast(r))
    plan = plan_of(a, shape[1] * shape[2] // groups, kind != RMS, _integer_epsilon(a))
    check_fits(a, plan)
    cut = fit(key_of(a))
    one = FixedFormat(1, 0, signed=False)
    formats = {name: a.formats[name] if has[name] else one for name in has}
    way = _implementation(r)
    block = 0 if way == "parallel" else 18
    if way == "in_turn" and groups > 1:
        raise UnsupportedError(
            "rows of several groups come interleaved, so that they cannot take multipliers in turn",
            node=r.node,
            field=f"hardware.implementation.{r.node}",
            got=f"in_turn, with {groups} groups",
            expected="one group",
            remedy="ask for shared",
        )
    return (GroupNormParams if kind == GROUP else NormParams)(
        data_in_0=port(shape, a.formats["data_in_0"], *beside),
        has_weight=has["weight"],
        weight=port(shape[-1:], formats["weight"], lanes, dims=1),
        has_bias=has["bias"],
        bias=port(shape[-1:], formats["bias"], lanes, dims=1),
        data_out_0=port(shape, a.formats["data_out_0"], *beside),
        cast=a.modes,
        groups=groups,
        centre=plan.centre,
        epsilon=plan.epsilon,
        epsilon_shift=plan.epsilon_shift,
        radicand_width=plan.radicand,
        radicand_frac=plan.radicand_frac,
        scale_frac=plan.scale,
        drop=plan.drop,
        segments=Segments(cut.segments, cut.step, cut.frac, *cut.widths),
        block=block,
        # Rows whose scales follow each other too fast need both products of the root at once.
        shared=way == "in_turn" or (block > 0 and shape[-1] // groups >= 3 * lanes),
        in_turn=(2 if r.fast else 1) if way == "in_turn" else 0,
    )


def _implementation(r: Request) -> str:
    """How the products are computed.

    Raises:
        ConfigError: If there is no such implementation.
    """
    asked = r.implementation or ("shared" if r.family in _NARROW else "parallel")
    if asked not in IMPLEMENTATIONS:
        raise ConfigError(
            "there is no such implementation of a norm",
            node=r.node,
            field=f"hardware.implementation.{r.node}",
            got=asked,
            expected=", ".join(IMPLEMENTATIONS),
        )
    return asked


def _case(
    kind: str,
    name: str,
    shape: tuple[int, ...],
    lanes: int,
    formats: str,
    frames: int = 4,
    **attributes: Any,
) -> Case:
    channels = shape[1:2] if kind == GROUP else shape[-1:]
    own: dict[str, object]
    own = {"num_groups": attributes.pop("groups", 1)} if kind == GROUP else {"normalized_shape": channels}
    eps: Attributes = {"eps": attributes.get("eps", 1e-5)}
    layouts = order_of(attributes, shape)
    a = Arithmetic.read(formats, LAYER_TENSORS, {**own, **eps})
    shapes = {"data_in_0": shape} | {n: channels for n in ("weight", "bias") if n in a.formats}
    request = Request(name, a, shapes, {"data_in_0": (lanes,)}, layouts, **asked_of(attributes))
    return Case(name, _build(kind, request), frames, attributes=eps)


def _cases(kind: str) -> Callable[[], list[Case]]:
    def case(*given: Any, **more: Any) -> Case:
        return _case(kind, *given, **more)

    def layer() -> list[Case]:
        return [
            case("one_lane", (1, 4, 9), 1, "s8.4 s8.6 s8.6 s8.4"),
            case("uneven_fold", (2, 3, 7), 3, "u8.4 - - s8.5 half_up"),
            case("one_beat", (9, 4), 4, "s6.2 s6.4 - s7.3", eps=1e-3),
            case("fine_bias", (3, 6), 2, "s4.1 s4.2 s22.20 s6.3 floor"),
            case("one_element", (3, 1), 1, "s8.4 s8.6 s8.6 s8.4"),
            case("beyond_int64", (2, 12), 2, "s32.16 s24.20 s22.18 s24.19"),
            case("large_bias", (2, 6), 2, "s8.4 s8.6 s16.2 s18.3"),
            case("one_block_a_product", (4, 9), 3, "s16.9 s16.14 s16.12 s16.12", implementation="shared"),
            case("rows_too_short_to_share", (9, 4), 2, "s16.9 - - s16.12", implementation="shared"),
            case("in_turn", (9, 4), 1, "u12.9 - s16.14 s16.12", implementation="in_turn"),
            case("in_turn_one_beat", (9, 3), 3, "s16.9 s16.14 s16.12 s16.12", implementation="in_turn"),
            case("fast", (9, 4), 1, "u12.9 - s16.14 s16.12", implementation="in_turn", fast=True),
            case("two_rows", (1, 4, 7), 3, "s8.4 s8.6 s8.6 s8.4", beside=2),
            case("three_rows", (6, 4), 4, "u8.4 - - s8.5 half_up", beside=3, implementation="shared"),
            case("two_rows_in_turn", (4, 5), 2, "s16.9 s16.14 s16.12 s16.12", beside=2, implementation="in_turn"),
            case("fast_one_beat", (9, 3), 3, "s16.9 s16.14 s16.12 s16.12", implementation="in_turn", fast=True),
        ]

    def rms() -> list[Case]:
        return [
            case("fold", (3, 10), 2, "s8.5 s8.6 - s8.4", eps=1e-6),
            case("two_rows", (4, 5), 2, "s8.5 s8.6 - s8.4", beside=2),
            case("no_weight", (4, 5), 1, "s16.9 - - s16.12 trunc", eps=0.0),
            case("shared", (6, 3), 1, "s16.9 - - s16.13", implementation="shared"),
            case("in_turn", (4, 7), 2, "s16.9 s16.14 - s16.12", implementation="in_turn"),
            case("fast", (4, 7), 2, "s16.9 s16.14 - s16.12", implementation="in_turn", fast=True),
        ]

    def group() -> list[Case]:
        return [
            case("part_of_a_group", (1, 8, 5), 2, "s8.4 s8.6 s8.6 s8.4", groups=2),
            case("several_groups", (2, 6, 4), 4, "s8.4 s8.6 s8.6 s8.4", groups=3),
            case("instances", (1, 5, 6), 2, "s8.4 - - s8.5", groups=5, eps=1e-2),
            case("two_positions", (1, 6, 2, 4), 2, "s8.4 s8.6 s8.6 s8.4", groups=2, positions=2),
            case("groups_of_a_beat", (2, 6, 6), 4, "s8.4 s8.6 s8.6 s8.4", groups=3, positions=3),
            case("four_positions", (1, 3, 8), 2, "s8.4 s8.6 s8.6 s8.4", groups=1, positions=4),
            case("positions_in_turn", (1, 3, 4), 1, "s8.4 - - s8.4", groups=1, positions=2, implementation="in_turn"),
            case("one_group", (1, 3, 4), 2, "s8.4 s8.6 s8.6 s8.4", groups=1),
            case("in_turn", (1, 3, 4), 1, "s8.4 s8.6 s8.6 s8.4", groups=1, implementation="in_turn"),
            case("no_positions", (3, 4, 1), 1, "u6.3 u6.5 u8.6 s8.4", groups=2),
            case("shared", (2, 6, 2), 1, "s16.9 s16.14 - s16.12", groups=2, implementation="shared"),
        ]

    return {LAYER: layer, RMS: rms, GROUP: group}[kind]


def _finest(tensor: str, formats: Mapping[str, FixedFormat]) -> int | None:
    """A bias whose width is left out has the LSB of a product of the weight with a number as wide as the input.

    That takes the number to be about one: where epsilon makes it far smaller, the result, once known, is finer.
    """
    if tensor != "bias":
        return None
    products = (formats["weight"].frac_width if "weight" in formats else 0) + formats["data_in_0"].width - 2
    return max(products, formats["data_out_0"].frac_width) if "data_out_0" in formats else products


def _op(kind: str, attributes: str, **targets: Any) -> OpDef:
    return OpDef(
        name=kind,
        mase_type="module_related_func",
        attributes=tuple(attributes.split()),
        parameters=("weight",) if kind == RMS else ("weight", "bias"),
        golden=functools.partial(golden, kind),
        finest=_finest,
        # A mean takes a zero point of the data off.
        scaled=ScaledUse("around", _scaled_rms if kind == RMS else _scaled, at_zero=lambda _: kind == RMS),
        relayout=None if kind == GROUP else relayout,
        formats=tuple(n for n in ("data_in_0", "weight", "bias", "data_out_0") if n != "bias" or kind != RMS),
        hardware=Hardware(
            module="fixed_normalize",
            params=GroupNormParams if kind == GROUP else NormParams,
            build=functools.partial(_build, kind),
            latency=latency,
            cases=_cases(kind),
            follows_input=True,
            static=("weight",) if kind == RMS else ("weight", "bias"),
            layout="channels_last" if kind == GROUP else "rows",
            positions=as_they_come,
            memories=lambda a: fit(key_of(_in_steps(a))).memories(),
            implementations=IMPLEMENTATIONS,
            fast=True,
        ),
        **targets,
    )


OPS = (
    _op(LAYER, "normalized_shape eps", modules=(nn.LayerNorm,), functions=(functional.layer_norm, torch.layer_norm)),
    _op(RMS, "normalized_shape eps", modules=(nn.RMSNorm,), functions=(functional.rms_norm, torch.rms_norm)),
    _op(GROUP, "num_groups eps", modules=(nn.GroupNorm,), functions=(functional.group_norm, torch.group_norm)),
)
