"""The golden of a convolution against sums written out in Python integers, on every carrier and for every attribute."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mase_hw.catalogue import Arithmetic, OpDef, default_catalogue
from mase_hw.errors import UnsupportedError
from mase_hw.formats import BlockFormat, FixedFormat, Overflow, Rounding
from mase_hw.nn.quantized import Quantized
from mase_hw.numerics import as_carrier, carrier, magnitude
from mase_hw.ops._conv import exact_conv, geometry_of
from mase_hw.ops._window import Window

S8 = {
    "data_in_0": FixedFormat(8, 4),
    "weight": FixedFormat(8, 7),
    "bias": FixedFormat(8, 6),
    "data_out_0": FixedFormat(8, 3),
}
WIDE = {
    "data_in_0": FixedFormat(28, 4),
    "weight": FixedFormat(25, 6),
    "bias": FixedFormat(31, 12),
    "data_out_0": FixedFormat(32, -18),
}

# No bit of the bias is below the products, so the convolution itself adds it.
COARSE = {**WIDE, "bias": FixedFormat(31, 3)}

# The bias alone is beyond floats, the products are not.
FAR = {
    "data_in_0": FixedFormat(8, 10),
    "weight": FixedFormat(24, 20),
    "bias": FixedFormat(24, -4),
    "data_out_0": FixedFormat(60, 30),
}


def conv(dims: int) -> OpDef:
    """The op of that many dimensions."""
    return default_catalogue()[f"conv{dims}d"]


def random(rng: np.random.Generator, fmt: FixedFormat, shape: tuple[int, ...]) -> torch.Tensor:
    """Mantissas over the whole range, the extremes among them."""
    values = rng.integers(fmt.min_mantissa, fmt.max_mantissa, shape, endpoint=True)
    values.reshape(-1)[:1] = fmt.min_mantissa
    values.reshape(-1)[1:2] = fmt.max_mantissa
    return as_carrier(torch.from_numpy(values), carrier(magnitude(fmt)))


def round_half_even(value: Fraction) -> int:
    return round(value)


def by_hand(
    x: Any, w: Any, b: Any, s: Any, f: dict[str, FixedFormat], stride: Any, pads: Any, dilation: Any, groups: int
) -> list[int]:
    """Every output mantissa in order, from Python integers and fractions; images of two dimensions."""
    images, channels, height, width = len(x), len(x[0]), len(x[0][0]), len(x[0][0][0])
    outs, kh, kw = len(w), len(w[0][0]), len(w[0][0][0])
    (top, bottom), (left, right) = pads
    rows = range(0, height + top + bottom - (kh - 1) * dilation[0], stride[0])
    cols = range(0, width + left + right - (kw - 1) * dilation[1], stride[1])
    out, fmt = [], f["data_out_0"]
    for n, o in itertools.product(range(images), range(outs)):
        first = o // (outs // groups) * (channels // groups)
        for row, col in itertools.product(rows, cols):
            total = Fraction(0)
            for c, i, j in itertools.product(range(channels // groups), range(kh), range(kw)):
                y, z = row - top + i * dilation[0], col - left + j * dilation[1]
                if 0 <= y < height and 0 <= z < width:
                    total += x[n][first + c][y][z] * w[o][c][i][j]
            total *= Fraction(2) ** (s[o] - f["data_in_0"].frac_width - f["weight"].frac_width)
            total += Fraction(b[o]) / Fraction(2) ** f["bias"].frac_width
            mantissa = round_half_even(total * Fraction(2) ** fmt.frac_width)
            out.append(min(max(mantissa, fmt.min_mantissa), fmt.max_mantissa))
    return out


ATTRIBUTES: dict[str, tuple[dict[str, Any], Any, tuple[int, ...], tuple[int, ...]]] = {
    "plain": ({}, ((0, 0), (0, 0)), (2, 3, 5, 6), (4, 3, 3, 2)),
    "numbers": ({"stride": 2, "padding": 1, "dilation": 1}, ((1, 1), (1, 1)), (1, 2, 6, 5), (3, 2, 3, 3)),
    "pairs": (
        {"stride": (1, 2), "padding": (2, 1), "dilation": (2, 1)},
        ((2, 2), (1, 1)),
        (1, 2, 6, 5),
        (3, 2, 3, 2),
    ),
    "same": ({"padding": "same", "dilation": (1, 2)}, ((0, 1), (2, 2)), (1, 2, 4, 6), (2, 2, 2, 3)),
    "four_sides": ({"padding": (0, 1, 2, 0)}, ((0, 2), (1, 0)), (1, 2, 4, 4), (2, 2, 3, 2)),
    "valid": ({"padding": "valid"}, ((0, 0), (0, 0)), (1, 1, 3, 3), (1, 1, 2, 2)),
    "groups": ({"groups": 2, "padding": 1}, ((1, 1), (1, 1)), (1, 4, 3, 3), (6, 2, 3, 3)),
    "depthwise": ({"groups": 4, "padding": 1, "stride": 2}, ((1, 1), (1, 1)), (1, 4, 5, 5), (4, 1, 3, 3)),
    "multiplier": ({"groups": 3}, ((0, 0), (0, 0)), (1, 3, 3, 3), (6, 1, 2, 2)),
}


@pytest.mark.parametrize("formats", [S8, WIDE, COARSE, FAR], ids=["s8", "beyond_float64", "coarse_bias", "far_bias"])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_golden_is_the_sum(name: str, formats: dict[str, FixedFormat]) -> None:
    attributes, pads, image, kernel = ATTRIBUTES[name]
    rng = np.random.default_rng(len(name))
    tensors = {
        "data_in_0": random(rng, formats["data_in_0"], image),
        "weight": random(rng, formats["weight"], kernel),
        "bias": random(rng, formats["bias"], kernel[:1]),
    }
    pair = {k: v if isinstance(v, tuple) else (v, v) for k, v in attributes.items() if k in ("stride", "dilation")}
    plain = {k: v.to(torch.int64).tolist() for k, v in tensors.items()}
    for shift in (None, torch.tensor([i % 3 for i in range(kernel[0])])):
        used = formats if shift is None else {**formats, "weight_shift": FixedFormat(2, 0, signed=False)}
        given = tensors if shift is None else {**tensors, "weight_shift": shift}
        got = conv(2).golden(Arithmetic(used, attributes=attributes), given)["data_out_0"]  # type: ignore[misc]
        wanted = by_hand(
            plain["data_in_0"],
            plain["weight"],
            plain["bias"],
            [0] * kernel[0] if shift is None else shift.tolist(),
            formats,
            pair.get("stride", (1, 1)),
            pads,
            pair.get("dilation", (1, 1)),
            attributes.get("groups", 1),
        )
        assert got.reshape(-1).to(torch.int64).tolist() == wanted


def test_blocks_of_weights_have_powers_of_two() -> None:
    """Along the channels of a place of the kernel, then its columns, then its rows."""
    rng = np.random.default_rng(2)
    formats = {**S8, "weight": BlockFormat(8, 7, True, 5, 2), "weight_shift": FixedFormat(2, 0, signed=False)}
    shapes = {"data_in_0": (1, 3, 3, 3), "weight": (2, 3, 2, 2), "bias": (2,), "weight_shift": (2, 3)}
    tensors = {name: random(rng, formats[name], shape) for name, shape in shapes.items()}
    golden = conv(2).golden
    assert golden is not None
    got = golden(Arithmetic(formats), tensors)["data_out_0"]
    x, w, b, shift = (value.to(torch.int64).tolist() for value in tensors.values())
    for o, c, i, j in np.ndindex(2, 3, 2, 2):
        w[o][c][i][j] <<= shift[o][((i * 2 + j) * 3 + c) // 5]
    none = ((0, 0), (0, 0))
    assert got.reshape(-1).tolist() == by_hand(x, w, b, [0, 0], formats, (1, 1), none, (1, 1), 1)


def test_sums_of_integers_with_a_bias() -> None:
    """Beyond float64, as a device without it has all of them."""
    x, w, b = torch.tensor([[[[3, -5]]]]), torch.tensor([[[[1 << 55]]], [[[-7]]]]), torch.tensor([11, -(1 << 60)])
    found = exact_conv(x, w, b, 1 << 61, geometry_of({}, (1, 1)))
    assert found.tolist() == [[[[v * k + c for v in (3, -5)]] for k, c in ((1 << 55, 11), (-7, -(1 << 60)))]]


def test_one_dimension_is_height_one() -> None:
    rng = np.random.default_rng(1)
    attributes = {"stride": 2, "padding": 3, "dilation": 2}
    x, w, b = (random(rng, S8[n], s) for n, s in (("data_in_0", (2, 3, 9)), ("weight", (4, 3, 3)), ("bias", (4,))))
    line = conv(1).golden(Arithmetic(S8, attributes=attributes), {"data_in_0": x, "weight": w, "bias": b})  # type: ignore[misc]
    pairs = {"stride": (1, 2), "padding": (0, 3), "dilation": (1, 2)}
    image = conv(2).golden(  # type: ignore[misc]
        Arithmetic(S8, attributes=pairs), {"data_in_0": x.unsqueeze(2), "weight": w.unsqueeze(2), "bias": b}
    )
    assert line["data_out_0"].shape == (2, 4, 6)
    assert torch.equal(line["data_out_0"], image["data_out_0"].squeeze(2))
    alone = conv(1).golden(Arithmetic(S8, attributes=attributes), {"data_in_0": x[0], "weight": w, "bias": b})  # type: ignore[misc]
    assert torch.equal(alone["data_out_0"], line["data_out_0"][0])


@pytest.mark.parametrize("size", [(64, 12), (128, 9), (16, 28)])
def test_sums_that_fill_float32_are_exact(size: tuple[int, int]) -> None:
    """A 3x3 kernel of stride 1 is what a library would hand to Winograd, whose intermediate values are no integers."""
    channels, pixels = size
    # The largest sums just fit 24 bits, and all magnitudes are near the largest.
    width = 1 + (((1 << 24) // (channels * 9)).bit_length() - 1) // 2
    fmt = FixedFormat(width, 0)
    formats = {"data_in_0": fmt, "weight": fmt, "data_out_0": FixedFormat(26, 0)}
    rng = np.random.default_rng(channels)
    x, w = (
        torch.from_numpy(rng.choice([fmt.min_mantissa, fmt.max_mantissa, fmt.max_mantissa - 1], shape))
        for shape in ((2, channels, pixels, pixels), (32, channels, 3, 3))
    )
    got = conv(2).golden(Arithmetic(formats, attributes={"padding": 1}), {"data_in_0": x.float(), "weight": w.float()})  # type: ignore[misc]
    padded = np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)))
    wanted = np.zeros((2, 32, pixels, pixels), dtype=np.int64)
    for i, j in itertools.product(range(3), range(3)):
        wanted += np.einsum("nchw,oc->nohw", padded[:, :, i : i + pixels, j : j + pixels], w.numpy()[:, :, i, j])
    assert np.array_equal(got["data_out_0"].to(torch.int64).numpy(), wanted)


@pytest.mark.parametrize("largest, parts", [(26, 1), (40, 2), (90, 4), (127, 6), (127, 0)])
@pytest.mark.parametrize("groups", [1, 2])
def test_sums_beyond_float32(largest: int, parts: int, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that these weights leave exact in float32, range by range of the channels, and weights that do not."""
    channels = 272 * groups
    wide = 8 if parts else 20
    fx, fw = FixedFormat(8, 0, signed=False), FixedFormat(wide, 0)
    formats = {"data_in_0": fx, "weight": fw, "bias": FixedFormat(26, 0), "data_out_0": FixedFormat(40, 0)}
    rng = np.random.default_rng(largest)
    w = rng.choice([largest, largest - 1], (6, 272, 3, 3)) * (1 if parts else 1000)
    w[1::2] *= rng.choice([-1, 1], w[1::2].shape)
    x, b = rng.choice([255, 254], (2, channels, 6, 6)), rng.integers(-(2**25), 2**25, 6)
    dtypes = []
    plain = torch.conv2d
    monkeypatch.setattr(F, "conv2d", lambda x, *args: dtypes.append(x.dtype) or plain(x, *args))
    given = {"data_in_0": torch.from_numpy(x).float(), "weight": torch.from_numpy(w).float()}
    a = Arithmetic(formats, attributes={"padding": 1, "groups": groups})
    found = conv(2).golden(a, {**given, "bias": torch.from_numpy(b).double()})  # type: ignore[misc]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))).reshape(2, groups, 272, 8, 8)
    wanted = np.zeros((2, groups, 6 // groups, 6, 6), dtype=np.int64)
    for i, j in itertools.product(range(3), range(3)):
        kernel = w[:, :, i, j].reshape(groups, -1, 272)
        wanted += np.einsum("ngchw,goc->ngohw", padded[..., i : i + 6, j : j + 6], kernel)
    wanted = wanted.reshape(2, 6, 6, 6) + b[:, None, None]
    assert np.abs(wanted).max() > 1 << 24
    assert np.array_equal(found["data_out_0"].to(torch.int64).numpy(), wanted)
    # Groups are not cut.
    cut = 0 if groups > 1 and parts > 1 else parts
    assert dtypes == ([torch.float32] * cut or [torch.float64])


@pytest.mark.parametrize("name", ATTRIBUTES)
@pytest.mark.parametrize("dims", [1, 2])
def test_some_channels(name: str, dims: int) -> None:
    """What gives some output channels, one or several times each, gives what they are among all."""
    attributes, _, image, kernel = ATTRIBUTES[name]
    if dims == 1:
        attributes = {k: v if isinstance(v, int | str) else v[1] for k, v in attributes.items()}
        image, kernel = (*image[:2], image[3]), (*kernel[:2], kernel[3])
    rng = np.random.default_rng(len(name))
    formats = {**S8, "weight_shift": FixedFormat(2, 0, signed=False)}
    t = {"data_in_0": random(rng, formats["data_in_0"], (3, *image[1:])), "weight": random(rng, S8["weight"], kernel)}
    t |= {"bias": random(rng, S8["bias"], kernel[:1]), "weight_shift": torch.arange(kernel[0]) % 3}
    a = Arithmetic(formats, attributes=attributes)
    golden, channels = conv(dims).golden, conv(dims).channels
    assert golden is not None and channels is not None
    whole = golden(a, t)["data_out_0"]
    for numbers in ([0], [kernel[0] - 1, 0, kernel[0] - 1], list(range(kernel[0]))):
        found = channels(a, t, numbers)
        assert found is not None
        apart, tensors, dim = found
        assert torch.equal(golden(apart, tensors)["data_out_0"], whole.index_select(dim, torch.tensor(numbers)))
    assert channels(a, {**t, "data_in_0": t["data_in_0"][0]}, [0]) is None, "one image without a dimension for images"


@pytest.mark.parametrize("formats", [S8, WIDE], ids=["float", "int64"])
def test_gradient_is_straight_through(formats: dict[str, FixedFormat]) -> None:
    """Where nothing saturates, the gradient of the quantised module is that of the float convolution."""
    torch.manual_seed(0)
    wide_out = {**formats, "data_out_0": FixedFormat(formats["data_out_0"].width + 8, formats["data_out_0"].frac_width)}
    float_module = nn.Conv2d(2, 3, 3, stride=2, padding=1, groups=1)
    parameters = {"weight": float_module.weight.detach().clone(), "bias": float_module.bias.detach().clone()}  # type: ignore[union-attr]
    parameters = {k: nn.Parameter(v.clamp(-0.9, 0.9)) for k, v in parameters.items()}
    module = Quantized(conv(2), Arithmetic(wide_out, attributes={"stride": 2, "padding": 1}), parameters)
    x = (torch.rand(2, 2, 5, 5) * 4 - 2).requires_grad_()
    weights = torch.rand(2, 3, 3, 3)
    (module(x) * weights).sum().backward()
    grads = [x.grad, parameters["weight"].grad, parameters["bias"].grad]
    assert all(g is not None and float(g.abs().max()) > 0 for g in grads)
    y = x.detach().clone().requires_grad_()
    leaves = {k: v.detach().clone().requires_grad_() for k, v in parameters.items()}
    (torch.conv2d(y, leaves["weight"], leaves["bias"], 2, 1) * weights).sum().backward()  # type: ignore[no-untyped-call]
    for got, wanted in zip(grads, (y.grad, leaves["weight"].grad, leaves["bias"].grad), strict=True):
        # Values differ by their rounding, so gradients agree to a few of its steps.
        assert torch.allclose(got.float(), wanted, atol=0.6)  # type: ignore[union-attr, arg-type]


def test_reduced_precision_is_not_used() -> None:
    """A process that allows TF32 or bfloat16 gets the same bits."""
    rng = np.random.default_rng(3)
    tensors = {n: random(rng, S8[n], s) for n, s in (("data_in_0", (1, 8, 6, 6)), ("weight", (4, 8, 3, 3)))}
    formats = {k: v for k, v in S8.items() if k != "bias"}
    wanted = conv(2).golden(Arithmetic(formats), tensors)["data_out_0"]  # type: ignore[misc]
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        got = conv(2).golden(Arithmetic(formats), tensors)["data_out_0"]  # type: ignore[misc]
    finally:
        torch.set_float32_matmul_precision(before)
    assert torch.equal(got.double(), wanted.double())


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
def test_transforms_are_not_used() -> None:
    """Without oneDNN, torch gives 16 images and more to NNPACK, whose Winograd transforms are not exact."""
    rng = np.random.default_rng(4)
    formats = {"data_in_0": FixedFormat(8, 0), "weight": FixedFormat(8, 0), "data_out_0": FixedFormat(23, 0)}
    shapes = (("data_in_0", (16, 16, 8, 8)), ("weight", (4, 16, 3, 3)))
    tensors = {n: random(rng, formats[n], s) for n, s in shapes}
    wanted = torch.conv2d(tensors["data_in_0"].double(), tensors["weight"].double())
    module = Quantized(conv(2), Arithmetic(formats), {"weight": tensors["weight"]})
    with torch.backends.mkldnn.flags(enabled=False), torch.no_grad():
        got = conv(2).golden(Arithmetic(formats), tensors)["data_out_0"]  # type: ignore[misc]
        on_values = module(tensors["data_in_0"])
    assert torch.equal(got.double(), wanted) and torch.equal(on_values.double(), wanted)


@pytest.mark.parametrize("mode", ["circular", "reflect", "replicate"])
def test_other_padding_is_refused(mode: str) -> None:
    check = conv(2).check
    assert check is not None
    check("n", {"padding_mode": "zeros"})
    with pytest.raises(UnsupportedError, match="zeros only") as caught:
        check("n", {"padding_mode": mode})
    assert caught.value.node == "n" and caught.value.field == "padding_mode"


def brute_force_depth(window: Window, steps: int, depth: int) -> int:
    """Cycles between the last two of several images, a line buffer simulated cycle by cycle."""
    images = 7
    needs = [i * window.image_beats + int(n) for i in range(images) for n in np.maximum.accumulate(window.needs)]
    frees = [i * window.image_beats + int(n) for i in range(images) for n in window.frees]
    accepted = usable = freed = at = step = cycle = 0
    pending: list[tuple[int, int]] = []
    starts = []
    while at < len(needs):
        while pending and pending[0][0] <= cycle:
            freed = pending.pop(0)[1]
        usable = accepted
        if accepted < images * window.image_beats and accepted - freed < depth:
            accepted += 1
        if step or usable >= needs[at]:
            if at % window.positions == 0 and step == 0:
                starts.append(cycle)
            step += 1
            if step == steps:
                pending.append((cycle + 2, frees[at]))
                at, step = at + 1, 0
        cycle += 1
        assert cycle < 100_000, "the line buffer is too small for a window"
    return starts[-1] - starts[-2]


@pytest.mark.parametrize("seed", range(12))
def test_line_buffer_is_as_small_as_can_be(seed: int) -> None:
    """One beat less and something waits, or a window never becomes complete."""
    rng = np.random.default_rng(seed)

    def pair(low: int, high: int) -> tuple[int, int]:
        return int(rng.integers(low, high)), int(rng.integers(low, high))

    size, kernel, stride, dilation = pair(3, 8), pair(1, 4), pair(1, 3), pair(1, 3)
    padding = tuple(int(rng.integers(0, k)) for k in kernel)
    out = tuple(
        (s + 2 * p - d * (k - 1) - 1) // t + 1
        for s, p, d, k, t in zip(size, padding, dilation, kernel, stride, strict=True)
    )
    if min(out) < 1:
        pytest.skip("no output position")
    window = Window(size, out, kernel, stride, padding, dilation, int(rng.integers(1, 3)))  # type: ignore[arg-type]
    steps = int(rng.integers(1, 10))
    best = max(window.positions * steps, window.image_beats)
    depth = window.depth(steps)
    assert brute_force_depth(window, steps, depth) == best
    if depth > window.least_depth:
        assert brute_force_depth(window, steps, depth - 1) > best


def test_line_buffer_is_rows_and_a_window() -> None:
    """With padding that keeps the size: kernel - 1 rows, the window's width, and the next pixel or two."""
    for rows, kernel, tiles in ((28, 5, 1), (14, 3, 4), (56, 3, 16)):
        window = Window((rows, rows), (rows, rows), (kernel, kernel), padding=(kernel // 2,) * 2, tiles=tiles)
        depth = window.depth(kernel * kernel * tiles)
        assert depth <= ((kernel - 1) * rows + kernel + 2) * tiles
    # Without padding the first rows of the next image are loaded beside the last ones: at most twice as much.
    window = Window((14, 14), (10, 10), (5, 5))
    assert window.least_depth == 4 * 14 + 5 and window.depth(25) <= 2 * window.least_depth


def test_modes_are_those_of_the_cast() -> None:
    x, w = torch.tensor([[[[3.0]]]]), torch.tensor([[[[1.0]]]])
    formats = {"data_in_0": FixedFormat(4, 1), "weight": FixedFormat(4, 0), "data_out_0": FixedFormat(2, 0)}
    results = {
        (r, o): int(conv(2).golden(Arithmetic(formats, r, o), {"data_in_0": x, "weight": w})["data_out_0"])  # type: ignore[misc]
        for r in Rounding
        for o in Overflow
    }
    # 1.5 in a format from -2 to 1.
    assert results[Rounding.FLOOR, Overflow.SATURATE] == 1 and results[Rounding.TRUNC, Overflow.WRAP] == 1
    assert results[Rounding.HALF_UP, Overflow.SATURATE] == 1 and results[Rounding.HALF_EVEN, Overflow.WRAP] == -2
