"""Goldens where carriers, windows, attributes and gradients are at their limits: what mutants once lived on."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from mase_hw.catalogue import Arithmetic, default_catalogue
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledFormat
from mase_hw.nn.streaming import AFTER, BEFORE
from mase_hw.ops.pieces import constants

CATALOGUE = default_catalogue()
S8 = FixedFormat(8, 4)


def result(name: str, formats: dict[str, FixedFormat], tensors: dict[str, Tensor], *modes: Any, **given: Any) -> Tensor:
    """``data_out_0`` of an op."""
    golden = CATALOGUE[name].golden
    assert golden is not None
    return golden(Arithmetic(formats, *modes, attributes=given), tensors)["data_out_0"]


def integers(*shape: int, below: int, seed: int = 0) -> Tensor:
    """Random numbers of both signs, as float64."""
    some = torch.Generator().manual_seed(seed)
    return torch.randint(-below, below, shape, generator=some, dtype=torch.int64).double()


@pytest.mark.parametrize("bias", [FixedFormat(28, 0), FixedFormat(20, -6)], ids=str)
def test_a_bias_may_need_the_wider_carrier(bias: FixedFormat) -> None:
    """The products of a linear layer fit float32, the sums with the bias do not."""
    fmt = FixedFormat(4, 0)
    x, w, b = (integers(*s, below=n) for s, n in (((3, 5), 8), ((4, 5), 8), ((4,), 1 << (bias.width - 1))))
    formats = {"data_in_0": fmt, "weight": fmt, "bias": bias, "data_out_0": FixedFormat(30, 0)}
    got = result("linear", formats, {"data_in_0": x.float(), "weight": w.float(), "bias": b})
    wanted = x.to(torch.int64) @ w.to(torch.int64).T + (b.to(torch.int64) << -bias.frac_width)
    assert got.to(torch.int64).tolist() == wanted.tolist()


def test_a_shifted_product_may_need_the_wider_carrier() -> None:
    """An affine map whose bias is finer than its products."""
    formats = {"data_in_0": FixedFormat(10, 0), "weight": FixedFormat(10, 0), "bias": FixedFormat(8, 8)}
    x, w, b = (integers(50, below=n, seed=n) for n in (512, 511, 128))
    got = result(
        "batch_norm1d", {**formats, "data_out_0": FixedFormat(30, 8)}, {"data_in_0": x, "weight": w, "bias": b}
    )
    wanted = (x * w * 256 + b).to(torch.int64)
    assert got.to(torch.int64).tolist() == wanted.tolist() and int(wanted.abs().max()) > 1 << 24


def test_a_product_of_data_may_need_the_wider_carrier() -> None:
    """Every number fits float32, and so do single products; their sum does not."""
    formats = {"data_in_0": FixedFormat(12, 0), "data_in_1": FixedFormat(12, 0), "data_out_0": FixedFormat(34, 0)}
    x, y = (integers(2, 3, 1, 40, below=2048, seed=n) for n in (1, 2))
    got = result("grouped_matmul", formats, {"data_in_0": x.float(), "data_in_1": y.float()}, transposed=True)
    wanted = torch.einsum("bthk,bshk->bths", x, y)
    assert got.double().tolist() == wanted.tolist() and int(wanted.abs().max()) > 1 << 24


def test_a_shift_of_weights_may_need_the_wider_carrier() -> None:
    """The sums of a convolution fit float32 before their shift, and not after it."""
    fmt = FixedFormat(12, 0)
    formats = {"data_in_0": fmt, "weight": fmt, "bias": FixedFormat(12, 0), "data_out_0": FixedFormat(34, 0)}
    x, w, b = integers(1, 3, 4, 4, below=2048), integers(5, 3, 1, 1, below=2048), integers(5, below=2048)
    shift = torch.tensor([3, 3, 2, 1, 0])
    tensors = {"data_in_0": x.float(), "weight": w.float(), "bias": b.float(), "weight_shift": shift}
    got = result("conv2d", {**formats, "weight_shift": FixedFormat(2, 0, signed=False)}, tensors)
    sums = torch.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]) * 2.0 ** shift.view(-1, 1, 1) + b.view(-1, 1, 1)
    assert got.double().tolist() == sums.tolist()


def test_sums_of_an_lstm_of_integers_may_need_the_wider_carrier() -> None:
    """Of 600 units: what the products add to a gate, taken off its input part, leaves the states as they would be."""
    golden, units = CATALOGUE["integer_lstm"].golden, 600
    assert golden is not None
    given = {"multiplier": ((1 << 31) - 1,) * 4, "shift": (31,) * 4, "cell_frac": 15, "clip": 0}
    more = {"out_multiplier": 1 << 30, "out_shift": 53, "streaming": True}
    formats = {"data_in_0": FixedFormat(27, 12), "weight": S8, "data_out_0": ScaledFormat.make(8, 1.0, -128)}
    a = Arithmetic(formats, attributes=given | more)
    weight, gates = 127 - integers(4 * units, units, below=2).abs(), integers(1, 1, 4 * units, below=9000, seed=1)
    before = torch.stack([torch.full((1, units), 255.0), integers(1, units, below=9000, seed=2)])
    sums = weight.to(torch.int64).sum(1) * 255
    assert int(sums.min()) > 1 << 24
    found = [
        golden(a, {"data_in_0": x, "weight": w, BEFORE: before})[AFTER].tolist()
        for w, x in ((weight, gates - sums), (weight * 0, gates))
    ]
    assert found[0] == found[1]


def test_exact_constants_are_as_short_as_they_can_be() -> None:
    """Their common denominator, and no bit more; not rounded even where a coarse result would allow it."""
    coarse = Arithmetic({"data_in_0": FixedFormat(4, 0), "data_out_0": FixedFormat(8, 0)})
    for name, given, slopes, offsets in (
        ("leaky_relu", {"negative_slope": 0.125}, ((1, 8, 8), 3), ((0, 0, 0), 0)),
        ("leaky_relu", {"negative_slope": 0.5 + 2.0**-12}, ((2049, 4096, 4096), 12), ((0, 0, 0), 0)),
        ("relu6", {}, ((0, 1, 0), 0), ((0, 0, 6), 0)),
        ("threshold", {"threshold": 0.0, "value": -2.75}, ((0, 1, 1), 0), ((-11, 0, 0), 2)),
    ):
        found = constants(name, Arithmetic(coarse.formats, attributes=given))
        assert ((found.slopes, found.slope_frac), (found.offsets, found.offset_frac)) == (slopes, offsets)


@pytest.mark.parametrize("target", [FixedFormat(8, 0), FixedFormat(8, 5), FixedFormat(8, -9)], ids=str)
def test_rounded_constants_are_as_short_as_the_result_allows(target: FixedFormat) -> None:
    """Half a step moves the result by at most 1/128 of its LSB at the largest input; with a bit less it would not."""
    source = FixedFormat(6, 2)
    found = constants("hardsigmoid", Arithmetic({"data_in_0": source, "data_out_0": target}))
    allowed = Fraction(1, 2**7) / (Fraction(2) ** target.frac_width * 8)
    half_step = Fraction(1, 2) / Fraction(2) ** found.slope_frac
    assert half_step <= allowed and (half_step * 2 > allowed or found.slope_frac == 0)


@pytest.mark.parametrize("name", ["avg_pool2d", "max_pool2d"])
def test_one_window_is_a_pool(name: str) -> None:
    x = integers(1, 2, 3, 2, below=100)
    got = result(name, {"data_in_0": S8, "data_out_0": S8}, {"data_in_0": x}, kernel_size=(3, 2))
    per_channel = x.reshape(2, 6).to(torch.int64).tolist()
    wanted = [max(v) if name == "max_pool2d" else round(Fraction(sum(v), 6)) for v in per_channel]
    assert got.shape == (1, 2, 1, 1) and got.reshape(-1).to(torch.int64).tolist() == wanted


def test_a_pool_without_an_output_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="adaptive pooling cannot enlarge"):
        result(
            "adaptive_avg_pool2d",
            {"data_in_0": S8, "data_out_0": S8},
            {"data_in_0": torch.zeros(1, 1, 3, 3)},
            output_size=(0, 2),
        )


def test_defaults_of_attributes() -> None:
    """Concatenation is along the first dimension, padding by nothing adds nothing."""
    x, y = integers(2, 3, below=100), integers(4, 3, below=100, seed=1)
    formats = {"data_in_0": S8, "data_in_1": S8, "data_out_0": S8}
    assert torch.equal(result("cat", formats, {"data_in_0": x, "data_in_1": y}).double(), torch.cat([x, y]))
    image = integers(1, 2, 3, 4, below=100)
    assert torch.equal(result("pad", {"data_in_0": S8, "data_out_0": S8}, {"data_in_0": image}, pad=()).double(), image)


def test_two_channels_have_two_slopes() -> None:
    x, w = integers(1, 2, 3, below=100), torch.tensor([16.0, -16.0])
    formats = {"data_in_0": S8, "weight": FixedFormat(8, 4), "data_out_0": S8}
    got = result("prelu", formats, {"data_in_0": x, "weight": w})
    wanted = torch.where(x >= 0, x, x * torch.tensor([[1.0], [-1.0]]))
    assert torch.equal(got.double(), wanted.clamp(-128, 127))


def test_frames_of_a_buffer_stay_frames() -> None:
    golden = CATALOGUE["fifo"].golden
    assert golden is not None
    data = torch.arange(12.0)
    found = golden(Arithmetic({"in_data": S8, "out_data": S8}, attributes={"out_shape": (3, 2)}), {"in_data": data})
    assert found["out_data"].tolist() == data.reshape(2, 3, 2).tolist()


def test_the_largest_come_first_unless_the_smallest_are_asked_for() -> None:
    x = torch.tensor([[3.0, -1.0, 7.0, 3.0]])
    formats = {"data_in_0": S8, "data_out_0": S8}
    assert result("top_values", formats, {"data_in_0": x}, count=2).tolist() == [[7.0, 3.0]]
    assert result("top_values", formats, {"data_in_0": x}, count=2, largest=False).tolist() == [[-1.0, 3.0]]


def test_the_first_of_many_equals_comes_first() -> None:
    """A sort that need not be stable gives others, from rows of 17 elements on."""
    formats = {"data_in_0": S8, "data_out_0": FixedFormat(8, 0)}
    places = result("top_places", formats, {"data_in_0": torch.zeros(1, 100)}, count=3)
    assert places.tolist() == [[0.0, 1.0, 2.0]]


def test_every_beat_is_a_matrix_of_its_own() -> None:
    golden = CATALOGUE["turn"].golden
    assert golden is not None
    found = golden(Arithmetic({}, attributes={"shape": (3, 2)}), {"in_data": torch.arange(12).reshape(2, 6)})
    assert found["out_data"].tolist() == [[0, 2, 4, 1, 3, 5], [6, 8, 10, 7, 9, 11]]


def test_a_table_of_twelve_bits_is_looked_up() -> None:
    hardware = CATALOGUE["tanh"].hardware
    assert hardware is not None
    for width, files in ((12, {"TABLE_FILE"}), (13, {"TABLE_FILE", "OCTAVE_FILE"})):
        stored = hardware.memories(Arithmetic({"data_in_0": FixedFormat(width, 8), "data_out_0": S8}))
        assert set(stored) == files and (len(stored["TABLE_FILE"].words) == 1 << 12) == (width == 12)


def test_the_gradient_of_an_average_passes_its_rounding() -> None:
    """22 / 3 is above the largest number, and is rounded to it: nothing is saturated."""
    x = torch.tensor([[[[7.0, 7.0, 8.0]]]], requires_grad=True)
    formats = {"data_in_0": FixedFormat(8, 0), "data_out_0": FixedFormat(4, 0)}
    got = result("avg_pool2d", formats, {"data_in_0": x}, kernel_size=(1, 3))
    got.sum().backward()
    assert got.tolist() == [[[[7.0]]]]
    assert x.grad is not None and torch.allclose(x.grad, torch.full((1, 1, 1, 3), 1 / 3))


@pytest.mark.parametrize("overflow", Overflow, ids=lambda o: o.name)
@pytest.mark.parametrize("name", ["softshrink", "prelu", "batch_norm1d"])
def test_gradients_beyond_float64_stop_at_saturation(name: str, overflow: Overflow) -> None:
    """Inside the format the slope, outside nothing unless it wraps; and the values are those without a gradient."""
    source, target = FixedFormat(40, 4), FixedFormat(24, 4)
    x = torch.tensor([-(2.0**30), -1600.0, 3.0, 1600.0, 2.0**30], dtype=torch.float64)
    one = torch.full((1,), 2.0**16, dtype=torch.float64)
    formats = {"data_in_0": source, "data_out_0": target}
    given: dict[str, Any] = {}
    more: dict[str, Tensor] = {}
    slopes = [1.0, 1.0, 1.0, 1.0, 1.0]
    if name == "softshrink":
        # 3 LSB are 3/16, between the ends of the middle piece.
        given, slopes = {"lambd": 0.5 + 2.0**-20}, [1.0, 1.0, 0.0, 1.0, 1.0]
    else:
        formats |= {"weight": FixedFormat(18, 16)}
        more["weight"] = one
    if name == "batch_norm1d":
        formats |= {"bias": FixedFormat(8, 4)}
        more["bias"] = torch.zeros(1, dtype=torch.float64)
    plain = result(name, formats, {"data_in_0": x, **more}, Rounding.HALF_EVEN, overflow, **given)
    leaf = x.clone().requires_grad_()
    got = result(name, formats, {"data_in_0": leaf, **more}, Rounding.HALF_EVEN, overflow, **given)
    got.sum().backward()
    assert got.tolist() == plain.tolist()
    outer = 0.0 if overflow is Overflow.SATURATE else 1.0
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [s * (outer if i in (0, 4) else 1.0) for i, s in enumerate(slopes)]
