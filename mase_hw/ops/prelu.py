"""PReLU: ``cast(x)`` where x is not negative, ``cast(x * weight)`` below; one weight, or one per channel."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, ScaledFormat, ScaledUse, steps_of
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Params, Pixels, Vector, port
from mase_hw.numerics import as_carrier, carrier, cast, magnitude, straight_through
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._cases import case
from mase_hw.ops._scaled import exact_result, same_step
from mase_hw.ops._tensors import as_they_come, lanes_within, positions_of
from mase_hw.steps import Steps


class PreluParams(Params, frozen=True):
    """Parameters of ``fixed_prelu``; see the module for their meaning."""

    data_in_0: Pixels
    weight: Vector
    data_out_0: Pixels
    cast: Cast

    def repetitions(self) -> dict[str, int]:
        """One weight goes with every beat; several with every row, of as many positions as a beat has."""
        return {"weight": self.data_in_0.beats if self.weight.size[0] == 1 else math.prod(self.data_in_0.tiles[1:])}


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (N, C, ...)`` and ``weight (C,)``, or any shape and ``(1,)`` -> ``data_out_0`` of the same shape."""
    x, w = t["data_in_0"], t["weight"]
    source, factor, target = (a.formats[name] for name in ("data_in_0", "weight", "data_out_0"))
    up, down = max(0, factor.frac_width), max(0, -factor.frac_width)
    bound = max(magnitude(source) << up, (magnitude(source) * magnitude(factor)) << down)
    dtype = carrier(bound, wide=True)
    frac = 0 if isinstance(target, ScaledFormat) else source.frac_width + up  # exact, at the finer of both scales
    if w.numel() > 1:
        w = w.reshape(-1, *[1] * (x.dim() - 2))
    out = cast(_either(as_carrier(x, dtype), as_carrier(w, dtype), up, down), frac, target, a.rounding, a.overflow)
    if not dtype.is_floating_point and out.dtype != torch.int64 and any(v.requires_grad for v in t.values()):
        rough = _either(x.double(), w.double(), up, down) * math.ldexp(1.0, target.frac_width - frac)
        if a.overflow is Overflow.SATURATE:
            rough = rough.clamp(target.min_mantissa, target.max_mantissa)
        out = straight_through(out, rough)
    return {"data_out_0": out}


def _either(x: Tensor, w: Tensor, up: int, down: int) -> Tensor:
    return torch.where(x >= 0, x * (1 << up), x * w * (1 << down))


def exact_slopes(x: ScaledFormat, weight: FixedFormat) -> ScaledFormat:
    """The format in which every result is exact, for data of one scale and weights in fixed point."""
    up, down = max(0, weight.frac_width), max(0, -weight.frac_width)
    bound = max(magnitude(x) << up, (magnitude(x) * magnitude(weight)) << down)
    return ScaledFormat.make(bound.bit_length() + 1, steps_of(x)[0] / 2**up)


def _scaled(formats: Mapping[str, FixedFormat], attributes: Attributes) -> str:
    wrong, x, weight = exact_result(formats, attributes), formats["data_in_0"], formats["weight"]
    if wrong or isinstance(weight, ScaledFormat) or not isinstance(x, ScaledFormat):
        return wrong or "weights in fixed point"
    exact, out = exact_slopes(x, weight), formats["data_out_0"]
    fits = same_step(exact, out) and out.width >= exact.width
    return "" if fits else f"a result as exact as {exact}; requantise it"


def _in_hardware(formats: Mapping[str, FixedFormat]) -> FixedFormat:
    """The format of the result, with the fraction bits that scaled integers are finer than their data."""
    out = formats["data_out_0"]
    if not isinstance(out, ScaledFormat):
        return out
    return FixedFormat(out.width, max(0, formats["weight"].frac_width), out.signed)


def _build(r: Request) -> PreluParams:
    formats, shape, weights = r.arithmetic.formats, r.shapes["data_in_0"], math.prod(r.shapes["weight"])
    if weights > 1 and (len(shape) < 2 or shape[1] != weights):
        raise UnsupportedError(
            "the weights of a PReLU belong to dimension 1",
            node=r.node,
            field="weight",
            got=f"{weights} weights, data of shape {list(shape)}",
            expected="one weight, or one for every channel",
        )
    # Channels last, also where sizes of 1 would allow another order.
    streamed = (shape[0], *shape[2:], shape[1]) if len(shape) > 2 else shape
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], streamed)
    size, width = (streamed[-1], lanes) if weights > 1 else (1, 1)
    beside = positions_of(r)[0]
    return PreluParams(
        data_in_0=port(streamed, formats["data_in_0"], lanes, beside),
        weight=port((size,), formats["weight"], width, dims=1),
        data_out_0=port(streamed, _in_hardware(formats), lanes, beside),
        cast=r.arithmetic.modes,
    )


def _case(name: str, shape: tuple[int, ...], weights: int, lanes: int, formats: str, positions: int = 1) -> Case:
    shapes, names = {"data_in_0": shape, "weight": (weights,)}, ("data_in_0", "weight", "data_out_0")
    return case(_build, name, shapes, lanes, formats, names, 6, positions=positions)


def _cases() -> list[Case]:
    return [
        _case("per_channel", (2, 7, 5), 7, 3, "s8.4 s8.6 s8.4"),
        _case("one_weight", (1, 10, 3), 1, 4, "s8.4 s6.7 s7.3 half_up"),
        _case("serial", (1, 3, 4), 3, 1, "s16.9 u4.3 s12.8 trunc wrap"),
        _case("unsigned_weights", (1, 4, 4), 4, 2, "s8.4 u4.3 s8.4"),
        _case("coarse", (1, 4, 3), 4, 4, "u6.3 s4.-1 s9.4"),
        _case("two_positions", (1, 5, 3, 6), 5, 2, "s8.4 s8.6 s8.4", 2),
        _case("four_positions", (2, 3, 8), 1, 3, "s8.4 s6.7 s7.3", 4),
    ]


OPS = (
    OpDef(
        name="prelu",
        mase_type="module_related_func",
        modules=(nn.PReLU,),
        functions=tuple(dict.fromkeys((F.prelu, torch.prelu))),
        methods=("prelu",),
        parameters=("weight",),
        golden=golden,
        formats=("data_in_0", "weight", "data_out_0"),
        scaled=ScaledUse("slopes", _scaled),
        hardware=Hardware(
            module="fixed_prelu",
            params=PreluParams,
            build=_build,
            latency=lambda p: Latency.from_steps(Steps.registered(p.data_in_0.beats, pipe=2)),
            cases=_cases,
            follows_input=True,
            static=("weight",),
            layout="channels_last",
            positions=as_they_come,
        ),
    ),
)
