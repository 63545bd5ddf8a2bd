"""Average pooling of images and sequences, and the mean over them: an exact sum, an exact division, one rounding.

``count_include_pad`` and ``divisor_override`` change the divisor; it may differ from window to window (at the edges,
with ``ceil_mode``, of adaptive windows that do not divide), but never in what is summed: padding is zero.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from mase_hw.errors import UnsupportedError
from mase_hw.formats.attributes import Attributes
from mase_hw.hardware.latency import kept
from mase_hw.hardware.params import Cast, Image, Params
from mase_hw.numerics import carrier, magnitude, straight_through
from mase_hw.numerics.exact_sums import exact_linear
from mase_hw.opdef import Arithmetic, Case, Golden, Hardware, Latency, OpDef, Request
from mase_hw.ops import _pooling as pooling
from mase_hw.ops._cases import case
from mase_hw.ops._division import divide_cast, surrogate
from mase_hw.ops._pooling import Windows
from mase_hw.ops._scaled import AVERAGE
from mase_hw.ops._tensors import image, image_port, lanes_within, positions_of
from mase_hw.steps import Steps


class AvgPoolParams(Params, frozen=True):
    """Parameters of ``fixed_avg_pool2d``; window dimension 0 is along a row of the image, 1 down a column."""

    data_in_0: Image
    window: pooling.PoolWindow
    ceil_mode: bool
    adaptive: bool
    count_include_pad: bool
    divisor_override: int
    data_out_0: Image
    cast: Cast

    def attributes(self) -> Attributes:
        """The windows, and by what is divided."""
        found = pooling.attributes_of(self)
        divisor = self.divisor_override or None
        return (
            found
            if self.adaptive
            else {**found, "count_include_pad": self.count_include_pad, "divisor_override": divisor}
        )


class MeanPoolParams(AvgPoolParams, frozen=True):
    """The same for a mean over whole rows and columns."""

    def attributes(self) -> Attributes:
        """The dimensions."""
        over = [dim for dim, along in zip((2, 3), pooling.windows_of(self), strict=True) if not along.wires]
        return {"dim": tuple(over) or (3,), "keepdim": True}


def _divisors(windows: tuple[Windows, Windows], attributes: Attributes) -> list[list[int]]:
    """Divisor of every output position, rows by columns."""
    override = attributes.get("divisor_override")
    if override:
        return [[int(override)] * windows[1].out] * windows[0].out
    include = bool(attributes.get("count_include_pad", True))
    rows, columns = (along.counts(include) for along in windows)
    return [[row * column for column in columns] for row in rows]


def golden(a: Arithmetic, t: Mapping[str, Tensor], *, spatial: int) -> dict[str, Tensor]:
    """``data_in_0 (N, C, H, W)`` or, for one dimension, ``(N, C, L)`` -> ``data_out_0``, windows as in PyTorch."""
    x = t["data_in_0"]
    n, c, h, w = image("avg_pool", x.shape, spatial)
    windows = pooling.windows_for("avg_pool", (h, w), a.attributes, spatial)
    out = _average(a, x.reshape(n, c, h, w), windows, _divisors(windows, a.attributes))
    return {"data_out_0": out.reshape(*x.shape[: x.ndim - spatial], *out.shape[4 - spatial :])}


def golden_mean(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``data_in_0 (N, C, H, W)`` or ``(N, C, L)`` -> its mean over the dimensions ``dim`` of the image."""
    x = t["data_in_0"]
    windows, size = _mean_windows("mean", x.shape, a.attributes)
    out = _average(a, x.reshape(size), windows, _divisors(windows, {}))
    keep, dims = bool(a.attributes.get("keepdim", False)), _dims(x.ndim, a.attributes)
    shape = [1 if d in dims else s for d, s in enumerate(x.shape) if keep or d not in dims]
    return {"data_out_0": out.reshape(shape)}


def _average(a: Arithmetic, x: Tensor, windows: tuple[Windows, Windows], divisors: list[list[int]]) -> Tensor:
    fx, fy = a.formats["data_in_0"], a.formats["data_out_0"]
    rows, columns = windows
    across = columns.most * magnitude(fx)
    bound = rows.most * across
    carrier(bound)
    total = x
    if not columns.wires:
        total = exact_linear(total, columns.matrix().to(x.device), across)
    if not rows.wires:
        total = exact_linear(total.transpose(-1, -2), rows.matrix().to(x.device), bound).transpose(-1, -2)
    divisor = torch.tensor(divisors, dtype=torch.int64)
    limits = (bound, max(max(row) for row in divisors))
    out = divide_cast(total, divisor, limits, fx.frac_width, fy, a.modes)
    if x.requires_grad and not out.requires_grad and out.is_floating_point():
        sums = rows.matrix().to(x.device).double() @ x.double() @ columns.matrix().to(x.device).double().T
        out = straight_through(out, surrogate(sums, divisor.to(x.device), fx.frac_width, fy, a.overflow))
    return out


def _dims(rank: int, attributes: Attributes) -> tuple[int, ...]:
    dim = attributes.get("dim")
    if dim is None:
        return tuple(range(rank))
    return tuple(sorted({int(d) % rank for d in (dim if isinstance(dim, Sequence) else [dim])}))


def _mean_windows(
    node: str, shape: Sequence[int], attributes: Attributes
) -> tuple[tuple[Windows, Windows], tuple[int, int, int, int]]:
    dims, rank = _dims(len(shape), attributes), len(shape)
    if rank not in (3, 4) or not dims or not set(dims) <= set(range(2, rank)):
        raise UnsupportedError(
            "a mean is computed over the rows and columns of an image only",
            node=node,
            field="dim",
            got=f"dim {attributes.get('dim')} of {list(shape)}",
            expected="dimensions 2 and 3 of (N, C, H, W), or 2 of (N, C, L)",
            remedy="name these dimensions, for example x.mean((2, 3)); permute the tensor first if the channels are "
            "not its second dimension",
        )
    size = image(node, shape, rank - 2)
    over = [d in dims for d in (2, 3)] if rank == 4 else [False, True]
    along = [Windows(s, 1, s, s) if mean else Windows(s, s) for s, mean in zip(size[2:], over, strict=True)]
    return (along[0], along[1]), size


def _params(
    r: Request,
    size: tuple[int, int, int, int],
    windows: tuple[Windows, Windows],
    attributes: Attributes,
    kind: type[AvgPoolParams] = AvgPoolParams,
) -> AvgPoolParams:
    formats = r.arithmetic.formats
    n, c, h, w = size
    lanes = lanes_within(r.node, "data_in_0", r.parallelism["data_in_0"], (n, h, w, c))
    come, leave = pooling.positions(windows[1], positions_of(r)[0])
    return kind(
        data_in_0=image_port(size, formats["data_in_0"], lanes, come),
        window=pooling.window_params(windows),
        ceil_mode=bool(attributes.get("ceil_mode", False)),
        adaptive=windows[0].adaptive,
        count_include_pad=bool(attributes.get("count_include_pad", True)),
        divisor_override=int(attributes.get("divisor_override") or 0),
        data_out_0=image_port((n, c, windows[0].out, windows[1].out), formats["data_out_0"], lanes, leave),
        cast=r.arithmetic.modes,
    )


def _build(r: Request, spatial: int) -> AvgPoolParams:
    size = image(r.node, r.shapes["data_in_0"], spatial)
    windows = pooling.windows_for(r.node, size[2:], r.arithmetic.attributes, spatial)
    return _params(r, size, windows, r.arithmetic.attributes)


def _build_mean(r: Request) -> AvgPoolParams:
    windows, size = _mean_windows(r.node, r.shapes["data_in_0"], r.arithmetic.attributes)
    return _params(r, size, windows, {}, MeanPoolParams)


def _positions(
    attributes: Attributes, shapes: Mapping[str, tuple[int, ...]], arriving: int, _: int, *, spatial: int = 0
) -> tuple[int, int]:
    """Of a pool over so many dimensions, or of a mean."""
    shape = shapes["data_in_0"]
    if not spatial:
        return pooling.positions(_mean_windows("mean", shape, attributes)[0][1], arriving)
    size = image("avg_pool", shape, spatial)
    return pooling.positions(pooling.windows_for("avg_pool", size[2:], attributes, spatial)[1], arriving)


@kept
def _latency(p: AvgPoolParams) -> Latency:
    stages = pooling.schedule(pooling.beat_windows_of(p), p.data_in_0.size[3], p.data_in_0.tiles[0])
    beats = p.data_out_0.beats
    return Latency.from_steps(*stages, Steps.registered(beats, pipe=3), Steps.queued(beats, 2))


_case_1d, _case_2d = (functools.partial(case, functools.partial(_build, spatial=spatial)) for spatial in (1, 2))


def _cases_2d() -> Sequence[Case]:
    inside: dict[str, Any] = {"kernel_size": 3, "stride": 1, "padding": 1, "count_include_pad": False}
    return [
        _case_2d("thirds", (1, 3, 6, 7), 2, formats="s8.4 s12.7 half_up", kernel_size=3),
        _case_2d("without_padding", (1, 5, 5, 4), 3, formats="s8.4 s5.1 trunc wrap", **inside),
        _case_2d(
            "ceil", (1, 3, 5, 6), 1, formats="s16.9 s8.4", kernel_size=(2, 3), stride=(2, 4), padding=1, ceil_mode=True
        ),
        _case_2d("override", (2, 3, 3, 4), 2, formats="u8.6 u7.5", kernel_size=(3, 2), stride=1, divisor_override=5),
        _case_2d("four_columns", (1, 3, 6, 8), 2, "u8.4 u9.5", kernel_size=(3, 2), stride=(1, 2), positions=4),
        _case_2d("columns", (1, 2, 5, 8), 2, "u8.4 u9.5", kernel_size=3, stride=2, padding=1, positions=4),
        _case_2d("columns_without_padding", (1, 3, 4, 6), 2, "s8.4 s9.5", **inside, positions=2),
        _case_2d("few_bits", (1, 2, 3, 6), 2, formats="s3.0 s2.-4 floor", kernel_size=(3, 2)),
        _case_2d("columns_around", (1, 2, 3, 8), 2, "u8.4 u9.5", kernel_size=(1, 4), padding=(0, 1), positions=2),
    ]


def _cases_1d() -> Sequence[Case]:
    return [_case_1d("fives", (1, 3, 1, 11), 2, kernel_size=5, stride=2, padding=2, formats="s8.4 s8.4 floor")]


def _cases_adaptive() -> Sequence[Case]:
    return [
        _case_2d("whole", (1, 5, 7, 7), 2, formats="s8.4 s8.5", output_size=(1, 1)),
        _case_2d("does_not_divide", (1, 2, 5, 7), 2, output_size=(3, 4), formats="s8.4 s8.4 half_away"),
        _case_2d("uneven_rows", (1, 2, 5, 4), 2, output_size=(3, 2)),
        _case_2d("columns_uneven_rows", (1, 2, 5, 8), 2, output_size=(3, 2), positions=2),
    ]


def _cases_adaptive_1d() -> Sequence[Case]:
    return [_case_1d("uneven", (1, 3, 1, 8), 2, output_size=(1, 3))]


def _cases_mean() -> Sequence[Case]:
    return [
        case(_build_mean, "image", (1, 3, 3, 5), 2, "s8.4 s8.6", dim=(2, 3)),
        case(_build_mean, "columns", (1, 3, 3, 8), 2, "s8.4 s8.6", dim=(2, 3), positions=2),
        case(_build_mean, "rows_of_columns", (1, 3, 3, 8), 2, "s8.4 s8.6", dim=(2,), positions=4),
    ]


def _check(node: str, attributes: Attributes) -> None:
    """Refuse a divisor that is not a positive number."""
    override = attributes.get("divisor_override")
    if override is not None and int(override) < 1:
        raise UnsupportedError(
            "an average is divided by a positive number only",
            node=node,
            field="divisor_override",
            got=override,
            expected="1 or more",
            remedy="divide by a positive number, and negate the result",
        )


def _check_mean(node: str, attributes: Attributes) -> None:
    if attributes.get("dtype") is not None:
        raise UnsupportedError(
            "a mean has the format of its configuration",
            node=node,
            field="dtype",
            got=attributes["dtype"],
            remedy=f"leave dtype out, and set data_out_width of {node} in the configuration",
        )


def _op(
    name: str, function: Golden, hardware: Hardware, attributes: str, *, check: Any = _check, **targets: Any
) -> OpDef:
    return OpDef(
        name=name,
        mase_type=targets.pop("kind", "module_related_func"),
        attributes=tuple(attributes.split()),
        golden=function,
        scaled=AVERAGE,
        check=check,
        hardware=hardware,
        **targets,
    )


def _hardware(
    build: Any, cases: Any, positions: Any = _positions, params: type[AvgPoolParams] = AvgPoolParams
) -> Hardware:
    return Hardware(
        module="fixed_avg_pool2d",
        params=params,
        build=build,
        latency=_latency,
        cases=cases,
        follows_input=True,
        layout="channels_last",
        positions=positions,
    )


def _pool(name: str, spatial: int, cases: Any, attributes: str, *targets: Any) -> OpDef:
    function, build = functools.partial(golden, spatial=spatial), functools.partial(_build, spatial=spatial)
    beside = functools.partial(_positions, spatial=spatial)
    hardware = _hardware(build, cases, beside)
    return _op(name, function, hardware, attributes, modules=targets[:1], functions=targets[1:])


_SLIDING = "kernel_size stride padding ceil_mode count_include_pad divisor_override"
OPS = (
    _pool("avg_pool1d", 1, _cases_1d, _SLIDING, nn.AvgPool1d, functional.avg_pool1d),
    _pool("avg_pool2d", 2, _cases_2d, _SLIDING, nn.AvgPool2d, functional.avg_pool2d),
    _pool(
        "adaptive_avg_pool1d", 1, _cases_adaptive_1d, "output_size", nn.AdaptiveAvgPool1d,
        functional.adaptive_avg_pool1d,
    ),
    _pool(
        "adaptive_avg_pool2d", 2, _cases_adaptive, "output_size", nn.AdaptiveAvgPool2d,
        functional.adaptive_avg_pool2d,
    ),
    _op(
        "mean", golden_mean, _hardware(_build_mean, _cases_mean, params=MeanPoolParams), "dim keepdim",
        check=_check_mean, kind="builtin_func", functions=(torch.mean,), methods=("mean",),
    ),
)  # fmt: skip
