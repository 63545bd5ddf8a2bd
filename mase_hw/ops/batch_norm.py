"""Batch normalisation that could not be folded: one product and one sum for each channel, exact, one cast.

In evaluation mode it is ``y = s x + t`` with ``s = gamma / sqrt(var + eps)`` and ``t = beta - s mean`` (Ioffe and
Szegedy, arXiv:1502.03167). ``s`` and ``t`` are computed in float64 and held as ``weight`` and ``bias``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mase_hw.errors import UnsupportedError
from mase_hw.formats import Overflow
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.params import Cast, Params, Pixels, port
from mase_hw.numerics import as_carrier, carrier, cast, magnitude, straight_through
from mase_hw.opdef import Arithmetic, Case, Hardware, Latency, OpDef, Request
from mase_hw.ops._binary import streamed_shape
from mase_hw.ops._cases import case
from mase_hw.ops._tensors import as_they_come, finest_bias, lanes_within, positions_of
from mase_hw.steps import Steps

MOMENTS = ("weight", "bias", "running_mean", "running_var")


class AffineParams(Params, frozen=True):
    """Parameters of ``fixed_affine``."""

    data_in_0: Pixels
    weight: Pixels
    bias: Pixels
    data_out_0: Pixels
    cast: Cast

    def repetitions(self) -> dict[str, int]:
        """The constants come again and again along the data; the positions of a beat share them."""
        return {"weight": self.data_in_0.beats // self.weight.beats, "bias": self.data_in_0.beats // self.bias.beats}


def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0``; ``weight`` and ``bias`` that broadcast to it -> ``data_out_0`` of the shape of ``data_in_0``."""
    fx, fw, fb = (a.formats[name] for name in ("data_in_0", "weight", "bias"))
    product_frac = fx.frac_width + fw.frac_width
    frac = max(product_frac, fb.frac_width)
    shift, bias_shift = frac - product_frac, frac - fb.frac_width
    dtype = carrier((magnitude(fx) * magnitude(fw) << shift) + (magnitude(fb) << bias_shift), wide=True)

    def combine(to: torch.dtype) -> Tensor:
        x, w, b = (as_carrier(t[name], to) for name in ("data_in_0", "weight", "bias"))
        return x * w * (1 << shift) + b * (1 << bias_shift)

    exact = combine(dtype)
    out = cast(exact, frac, a.formats["data_out_0"], a.rounding, a.overflow)
    if not dtype.is_floating_point and out.dtype != torch.int64 and any(v.requires_grad for v in t.values()):
        fmt = a.formats["data_out_0"]
        smooth = combine(torch.float64) * math.ldexp(1.0, fmt.frac_width - frac)
        if a.overflow is Overflow.SATURATE:
            smooth = smooth.clamp(fmt.min_mantissa, fmt.max_mantissa)
        out = straight_through(out, smooth)
    return {"data_out_0": out}


def derive(node: str, given: Mapping[str, Tensor], attributes: Attributes, rank: int) -> dict[str, Tensor]:
    """Scale and shift of every channel, shaped to broadcast to data of ``rank`` dimensions, channels second.

    Raises:
        UnsupportedError: If there are no running statistics, so that the result depends on the batch.
    """
    mean, var = given.get("running_mean"), given.get("running_var")
    if mean is None or var is None:
        raise UnsupportedError(
            "this batch normalisation has no running statistics",
            node=node,
            expected="running_mean and running_var",
            remedy="use track_running_stats=True and train it",
        )
    wide = {name: value.detach().double() for name, value in given.items()}
    scale = (wide["running_var"] + float(attributes.get("eps", 1e-5))).rsqrt()
    if "weight" in wide:
        scale = scale * wide["weight"]
    shift = -scale * wide["running_mean"]
    if "bias" in wide:
        shift = shift + wide["bias"]
    trained = any(value.requires_grad for value in given.values())
    shape = (-1, *[1] * (rank - 2))
    return {
        name: nn.Parameter(value.reshape(shape).to(mean.dtype), requires_grad=trained)
        for name, value in (("weight", scale), ("bias", shift))
    }


def _evaluated(node: str, attributes: Attributes) -> None:
    if attributes.get("training"):
        raise UnsupportedError(
            "a batch normalisation in training normalises with the batch itself",
            node=node,
            field="training",
            got=True,
            expected=False,
            remedy="call model.eval(), or pass training=self.training",
        )


def _build(r: Request) -> AffineParams:
    formats, shape, beside = r.arithmetic.formats, r.stream_shapes["data_in_0"], positions_of(r)[0]
    constants = [streamed_shape(r, name) for name in ("weight", "bias")]
    if beside > 1:
        images, channels, *space = r.shapes["data_in_0"]
        shape, constants = (images, *space, channels), [(channels,)] * 2
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], shape)
    return AffineParams(
        data_in_0=port(shape, formats["data_in_0"], lanes, beside),
        weight=port(constants[0], formats["weight"], lanes),
        bias=port(constants[1], formats["bias"], lanes),
        data_out_0=port(shape, formats["data_out_0"], lanes, beside),
        cast=r.arithmetic.modes,
    )


def _case(name: str, shape: tuple[int, ...], lanes: int, formats: str, positions: int = 1) -> Case:
    """Of data ``(N, L, C)``, as it travels."""
    images, length, channels = shape
    shapes = {"data_in_0": (images, channels, length), "weight": (channels, 1), "bias": (channels, 1)}
    names = ("data_in_0", "weight", "bias", "data_out_0")
    return case(_build, name, shapes, lanes, formats, names, 6, positions=positions)


def _cases() -> list[Case]:
    return [
        _case("plain", (2, 3, 8), 4, "s8.4 s8.6 s8.4 s8.4"),
        _case("uneven", (1, 3, 7), 3, "u6.3 s8.6 s8.6 s9.3 half_up wrap"),
        _case("fine_bias", (1, 2, 5), 5, "s8.4 s4.1 s12.10 s8.4"),
        _case("unsigned", (1, 2, 5), 2, "u6.3 u6.3 u6.3 u9.2"),
        _case("two_bit", (1, 2, 3), 1, "s2.0 s2.0 s2.0 s3.-1"),
        _case("wide", (1, 2, 3), 2, "s16.9 s16.9 s30.20 s16.2 trunc"),
        _case("two_positions", (2, 6, 5), 2, "s8.4 s8.6 s8.4 s8.4", 2),
        _case("four_positions", (1, 8, 3), 3, "u6.3 s8.6 s8.6 s9.3", 4),
    ]


def _op(name: str, kind: str, cases: Callable[[], list[Case]], **targets: Any) -> OpDef:
    return OpDef(
        name=name,
        mase_type=kind,
        parameters=MOMENTS,
        derive=derive,
        golden=golden,
        check=_evaluated,
        finest=finest_bias,
        formats=("data_in_0", "weight", "bias", "data_out_0"),
        hardware=Hardware(
            module="fixed_affine",
            params=AffineParams,
            build=_build,
            latency=lambda p: Latency.from_steps(Steps.registered(p.data_in_0.beats, 1, 2, skid=True)),
            cases=cases,
            work=lambda p: math.prod(p.data_in_0.shape),
            multipliers=lambda p: math.prod(p.data_in_0.lanes),
            follows_input=True,
            static=("weight", "bias"),
            broadcast=("weight", "bias"),
            layout="channels_last",
            positions=as_they_come,
        ),
        **targets,
    )


OPS = (
    _op("batch_norm1d", "module", _cases, modules=(nn.BatchNorm1d,), attributes=("eps", "momentum")),
    _op("batch_norm2d", "module", lambda: _cases()[:1], modules=(nn.BatchNorm2d,), attributes=("eps", "momentum")),
    _op(
        "batch_norm",
        "module_related_func",
        lambda: _cases()[:1],
        functions=(nn.functional.batch_norm, torch.batch_norm),
    ),
)
