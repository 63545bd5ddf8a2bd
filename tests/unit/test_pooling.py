"""Pooling, means, enlarging and padding against loops over Python integers and fractions, window by window."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from mase_hw.catalogue import Arithmetic, OpDef, Request, default_catalogue
from mase_hw.errors import FormatError, UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.nn import Quantized
from tests.unit.oracle import by_fraction

CATALOGUE = default_catalogue()
S8 = FixedFormat(8, 4)
MODES = list(itertools.product(Rounding, Overflow))


def windows(size: int, kernel: int, stride: int, padding: int, dilation: int, out: int) -> list[list[int]]:
    """Positions of every window, those in the padding included."""
    return [[o * stride - padding + k * dilation for k in range(kernel)] for o in range(out)]


def pooled(image: np.ndarray, rows: list[list[int]], columns: list[list[int]], reduce: Callable[..., Any]) -> list[Any]:
    """``reduce`` of the values inside the image of every window of ``(H, W)``, row by row."""
    height, width = image.shape

    def inside(row: list[int], column: list[int]) -> Iterator[int]:
        for y, x in itertools.product(row, column):
            if 0 <= y < height and 0 <= x < width:
                yield int(image[y, x])

    return [reduce(list(inside(row, column)), row, column) for row in rows for column in columns]


def run(name: str, fmt: tuple[FixedFormat, FixedFormat], modes: Any, x: Tensor, **attributes: Any) -> np.ndarray:
    """The golden of an op."""
    golden = CATALOGUE[name].golden
    assert golden is not None
    a = Arithmetic({"data_in_0": fmt[0], "data_out_0": fmt[1]}, *modes, attributes=attributes)
    return np.asarray(golden(a, {"data_in_0": x})["data_out_0"].to(torch.int64).numpy())


def mantissas(shape: tuple[int, ...], fmt: FixedFormat, seed: int = 0) -> Tensor:
    """Random mantissas, both ends of the range among them."""
    rng = np.random.default_rng([seed, *shape])
    values = rng.integers(fmt.min_mantissa, fmt.max_mantissa, shape, endpoint=True)
    values.reshape(-1)[:2] = fmt.min_mantissa, fmt.max_mantissa
    return torch.from_numpy(values).to(torch.float32 if fmt.width <= 24 else torch.int64)


GEOMETRIES = [
    # size, kernel, stride, padding, dilation, ceil_mode
    ((6, 7), (2, 2), (2, 2), (0, 0), (1, 1), False),
    ((6, 7), (3, 2), (2, 3), (1, 1), (1, 1), True),
    ((5, 9), (3, 3), (1, 1), (1, 1), (1, 1), False),
    ((9, 8), (3, 2), (1, 2), (1, 0), (2, 3), True),
    ((4, 5), (4, 5), (3, 1), (2, 2), (1, 1), True),
    ((7, 7), (2, 1), (3, 4), (1, 0), (1, 1), True),
]


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_maximum(geometry: Any) -> None:
    size, kernel, stride, padding, dilation, ceil = geometry
    x = mantissas((2, 3, *size), S8)
    attributes = dict(kernel_size=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil)
    got = run("max_pool2d", (S8, S8), (), x, **attributes)
    # The shape, and nothing else, from PyTorch.
    out = functional.max_pool2d(x, **attributes).shape
    assert got.shape == tuple(out)
    rows, columns = (windows(size[d], kernel[d], stride[d], padding[d], dilation[d], out[2 + d]) for d in (0, 1))
    wanted = [pooled(image, rows, columns, lambda v, _r, _c: max(v)) for image in x.numpy().reshape(-1, *size)]
    assert got.reshape(6, -1).tolist() == wanted


@pytest.mark.parametrize("geometry", [g for g in GEOMETRIES if g[4] == (1, 1)])
@pytest.mark.parametrize("include", [True, False])
def test_average(geometry: Any, include: bool) -> None:
    size, kernel, stride, padding, _, ceil = geometry
    x = mantissas((1, 2, *size), S8, 1)
    attributes = dict(kernel_size=kernel, stride=stride, padding=padding, ceil_mode=ceil, count_include_pad=include)
    out = functional.avg_pool2d(x, **attributes).shape
    rows, columns = (windows(size[d], kernel[d], stride[d], padding[d], 1, out[2 + d]) for d in (0, 1))

    def average(values: list[int], row: list[int], column: list[int]) -> Fraction:
        if not include:
            return Fraction(sum(values), len(values))
        # Positions up to the end of the padding count.
        return Fraction(
            sum(values),
            sum(y < size[0] + padding[0] for y in row) * sum(c < size[1] + padding[1] for c in column),
        )

    exact = [v for image in x.numpy().reshape(-1, *size) for v in pooled(image, rows, columns, average)]
    # PyTorch agrees about the divisors.
    assert np.allclose(functional.avg_pool2d(x.double(), **attributes).reshape(-1), [float(v) for v in exact])
    for target, (rounding, overflow) in itertools.product((S8, FixedFormat(5, 6), FixedFormat(3, 1, False)), MODES):
        got = run("avg_pool2d", (S8, target), (rounding, overflow), x, **attributes)
        assert got.shape == tuple(out)
        fmt = (target.width, target.frac_width, target.signed)
        assert got.reshape(-1).tolist() == [by_fraction(v / 16, fmt, rounding.name, overflow.name) for v in exact]


@pytest.mark.parametrize("out", [(1, 1), (3, 5), (5, 7), (2, None)])
def test_adaptive(out: Any) -> None:
    size = (5, 7)
    x = mantissas((1, 2, *size), S8, 2)
    rows, columns = (
        [list(range(o * s // n, -(-(o + 1) * s // n))) for o in range(n)]
        for s, n in zip(size, (w or s for s, w in zip(size, out, strict=True)), strict=True)
    )
    images = x.numpy().reshape(-1, *size)
    most = [v for image in images for v in pooled(image, rows, columns, lambda v, _r, _c: max(v))]
    assert run("adaptive_max_pool2d", (S8, S8), (), x, output_size=out).reshape(-1).tolist() == most
    mean = [v for image in images for v in pooled(image, rows, columns, lambda v, _r, _c: Fraction(sum(v), len(v)))]
    for rounding, overflow in MODES:
        got = run("adaptive_avg_pool2d", (S8, FixedFormat(7, 6)), (rounding, overflow), x, output_size=out)
        assert got.reshape(-1).tolist() == [
            by_fraction(v / 16, (7, 6, True), rounding.name, overflow.name) for v in mean
        ]


def test_one_dimension_is_one_row() -> None:
    """``(N, C, L)`` gives what the same sequence gives as an image of one row, and keeps its rank."""
    x = mantissas((2, 3, 11), S8, 3)
    for name, one, attributes in (
        ("max_pool", "max_pool1d", dict(kernel_size=3, stride=2, padding=1)),
        ("avg_pool", "avg_pool1d", dict(kernel_size=(4,), stride=None, ceil_mode=True)),
        ("adaptive_avg_pool", "adaptive_avg_pool1d", dict(output_size=4)),
        ("adaptive_max_pool", "adaptive_max_pool1d", dict(output_size=[3])),
    ):
        got = run(one, (S8, S8), (), x, **attributes)
        real = getattr(functional, one)(x.double(), **attributes)
        assert got.shape == tuple(real.shape)
        if name.endswith("max_pool"):
            assert got.tolist() == real.to(torch.int64).tolist()
        else:
            assert np.abs(got - real.numpy()).max() <= 0.5


@pytest.mark.parametrize(("dim", "keepdim"), [((2, 3), False), ([-1, -2], True), (3, False), (2, True)])
def test_mean(dim: Any, keepdim: bool) -> None:
    x = mantissas((2, 3, 5, 7), S8, 4)
    got = run("mean", (S8, FixedFormat(10, 7)), (), x, dim=dim, keepdim=keepdim)
    exact = x.to(torch.int64).sum(dim, keepdim=keepdim)
    count = x.numel() // exact.numel()
    wanted = [
        by_fraction(Fraction(int(v), count * 16), (10, 7, True), "HALF_EVEN", "SATURATE") for v in exact.reshape(-1)
    ]
    assert got.shape == tuple(exact.shape) and got.reshape(-1).tolist() == wanted


def test_wide_sums_are_exact() -> None:
    """Numerators beyond float64, and shifts beyond any bit, in every mode."""
    wide = FixedFormat(40, 20)
    x = mantissas((1, 1, 6, 6), wide, 5)
    for target in (FixedFormat(45, 34), FixedFormat(8, -30), FixedFormat(8, -90), FixedFormat(60, 50)):
        for rounding, overflow in MODES:
            got = run("avg_pool2d", (wide, target), (rounding, overflow), x, kernel_size=3)
            sums = [int(x[0, 0, y : y + 3, c : c + 3].sum()) for y in (0, 3) for c in (0, 3)]
            fmt = (target.width, target.frac_width, target.signed)
            wanted = [by_fraction(Fraction(v, 9 << 20), fmt, rounding.name, overflow.name) for v in sums]
            assert got.reshape(-1).tolist() == wanted
    with pytest.raises(FormatError, match="widest carrier"):
        run("avg_pool2d", (wide, FixedFormat(60, 120)), (), x, kernel_size=3)


@pytest.mark.parametrize("factor", [2, 3, 5, 7])
def test_enlarging(factor: int) -> None:
    x = mantissas((1, 2, 5, 6), S8, 6)
    for mode in ("nearest", "nearest-exact"):
        for attributes in (dict(scale_factor=float(factor)), dict(size=(5 * factor, 6 * factor))):
            got = run("interpolate", (S8, S8), (), x, mode=mode, **attributes)
            assert got.tolist() == functional.interpolate(x, mode=mode, **attributes).to(torch.int64).tolist()
    got = run("interpolate", (S8, S8), (), x[:, :, 0], scale_factor=(factor,))
    assert got.tolist() == x[:, :, 0].to(torch.int64).repeat_interleave(factor, -1).tolist()


def test_padding() -> None:
    x = mantissas((1, 2, 3, 4), S8, 7)
    for pad in ((1, 2, 3, 0), (0, 1), (2, 0, 0, 0)):
        got = run("pad", (S8, S8), (), x, pad=pad)
        assert got.tolist() == functional.pad(x, pad).to(torch.int64).tolist()
    assert run("pad", (S8, S8), (), x, padding=1).shape == (1, 2, 5, 6)
    assert run("pad", (S8, S8), (), x[0], padding=(0, 2)).tolist() == functional.pad(x[0], (0, 2)).long().tolist()


REFUSED: dict[str, tuple[str, tuple[int, ...], dict[str, Any], str]] = {
    "indices": ("max_pool2d", (1, 1, 4, 4), dict(kernel_size=2, return_indices=True), "return_indices"),
    "no batch": ("max_pool2d", (3, 4, 4), dict(kernel_size=2), "data_in_0.shape"),
    "no position": ("max_pool1d", (1, 1, 1), dict(kernel_size=2, dilation=3, padding=2, stride=2), "padding"),
    "enlarging": ("adaptive_avg_pool2d", (1, 1, 4, 4), dict(output_size=8), "output_size"),
    "divisor": ("avg_pool2d", (1, 1, 4, 4), dict(kernel_size=2, divisor_override=-2), "divisor_override"),
    "all dimensions": ("mean", (1, 2, 4, 4), dict(dim=None), "dim"),
    "channels": ("mean", (1, 2, 4, 4), dict(dim=1), "dim"),
    "another type": ("mean", (1, 2, 4, 4), dict(dim=(2, 3), dtype=torch.float64), "dtype"),
    "bilinear": ("interpolate", (1, 1, 4, 4), dict(scale_factor=2, mode="bilinear"), "mode"),
    "half a pixel": ("interpolate", (1, 1, 4, 4), dict(scale_factor=1.5), "scale_factor"),
    "smaller": ("interpolate", (1, 1, 4, 4), dict(size=(2, 4)), "size"),
    "reflected": ("pad", (1, 1, 4, 4), dict(pad=(1, 1), mode="reflect"), "mode"),
    "ones": ("pad", (1, 1, 4, 4), dict(pad=(1, 1), value=1.0), "value"),
    "cut": ("pad", (1, 1, 4, 4), dict(pad=(-1, 1)), "pad"),
    "channel of zeros": ("pad", (1, 1, 4, 4), dict(pad=(0, 0, 0, 0, 1, 0)), "pad"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """By the check or when the hardware is built, naming the node and the attribute."""
    op_name, shape, attributes, field = REFUSED[name]
    op: OpDef = CATALOGUE[op_name]
    assert op.check is not None and op.hardware is not None
    request = Request(
        "some_node",
        Arithmetic({"data_in_0": S8, "data_out_0": S8}, attributes=attributes),
        {"data_in_0": shape},
        {"data_in_0": (1,)},
    )
    with pytest.raises(UnsupportedError) as caught:
        op.check("some_node", attributes)
        op.hardware.build(request)
    assert caught.value.node == "some_node" and caught.value.field == field
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "attributes", "layer"),
    [
        ("max_pool2d", dict(kernel_size=3, stride=2, padding=1), nn.MaxPool2d(3, 2, 1)),
        ("avg_pool2d", dict(kernel_size=3, stride=2, padding=1), nn.AvgPool2d(3, 2, 1)),
        ("adaptive_avg_pool2d", dict(output_size=(2, 3)), nn.AdaptiveAvgPool2d((2, 3))),
        ("interpolate", dict(scale_factor=2), nn.Upsample(scale_factor=2)),
        ("pad", dict(padding=(1, 0, 2, 1)), nn.ZeroPad2d((1, 0, 2, 1))),
    ],
)
def test_gradients_are_those_of_the_float_layer(name: str, attributes: dict[str, Any], layer: nn.Module) -> None:
    """Straight through the rounding, where nothing saturates; also for sums that need 64-bit integers."""
    torch.manual_seed(0)
    for fmt in (FixedFormat(16, 10), FixedFormat(40, 30)):
        out = dataclasses.replace(fmt, frac_width=fmt.frac_width + 1)
        module = Quantized(CATALOGUE[name], Arithmetic({"data_in_0": fmt, "data_out_0": out}, attributes=attributes))
        x = torch.rand(1, 2, 6, 7, dtype=torch.float64, requires_grad=True)
        weight = torch.rand(layer(x).shape, dtype=torch.float64)
        (module(x) * weight).sum().backward()
        got, x.grad = x.grad, None
        (layer(x) * weight).sum().backward()
        assert got is not None and x.grad is not None
        assert torch.allclose(got, x.grad, rtol=1e-5)
