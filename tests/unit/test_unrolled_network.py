"""Networks as one graph: every number against PyTorch's own arithmetic, and what positions share."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from mase_hw.catalogue import default_catalogue
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.formats.signs import read_format
from mase_hw.opdef import Arithmetic
from mase_hw.ops.unrolled import _lowering
from mase_hw.ops.unrolled._casts import at_once
from mase_hw.ops.unrolled._delays import DELAYS, delay_of
from mase_hw.ops.unrolled._lowering import network_of
from mase_hw.ops.unrolled._network import Program, Rounded, Saved, Step
from mase_hw.ops.unrolled._placed import stages_of
from mase_hw.ops.unrolled._solver import merged, plan

WIDE = "s40.0"
"""A result that loses nothing, so that it can be computed with integers alone."""


def step(op: str, formats: str, shape: Sequence[int], *inputs: int, **more: object) -> Step:
    """A step of the catalogue's op, from formats in the order of data, parameters and result."""
    parameters = {key: value for key, value in more.items() if isinstance(value, Tensor)}
    attributes = {key: value for key, value in more.items() if key not in parameters}
    names = (*(f"data_in_{k}" for k in range(len(inputs or (0,)))), *parameters, "data_out_0")
    found = default_catalogue().get(op)
    assert found is not None
    a = Arithmetic.read(formats, names, attributes)
    return Step(op, found, a, parameters, inputs or (0,), tuple(shape))


def integers(*size: int, bits: int = 4, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(-(1 << (bits - 1)), 1 << (bits - 1), size, generator=draw)


def computed(program: Program, frames: Tensor) -> list[list[int]]:
    network = network_of(program)
    return [network.evaluate(frame.reshape(-1).tolist()) for frame in frames]


def corners(shape: Sequence[int], fmt: FixedFormat, count: int = 6) -> Tensor:
    """Random frames, and those of extremes."""
    draw = torch.Generator().manual_seed(3)
    ends = fmt.min_mantissa, fmt.max_mantissa
    frames = torch.randint(ends[0], ends[1] + 1, (count, *shape), generator=draw)
    return torch.cat([frames, *[torch.full((1, *shape), end) for end in ends]])


@pytest.mark.parametrize("mhz", [None, 120.0], ids=["sums", "carry_save"])
@pytest.mark.parametrize("seed", range(6))
def test_values_that_a_window_reads_twice(seed: int, mhz: float | None) -> None:
    """As behind a nearest upsampling: terms of the same value cancel, or count twice."""
    order = torch.arange(12).reshape(1, 2, 6).repeat_interleave(2, 2)
    weight, kernel = integers(3, 2, 3, bits=3, seed=seed), "s5.0 s3.0 " + WIDE
    steps = (
        Step("twice", None, Arithmetic({}), {}, (0,), (1, 2, 12), order, 12),
        step("conv1d", kernel, (1, 3, 12), 1, weight=weight, padding=1),
        Step("again", None, Arithmetic({}), {}, (2,), (1, 36), torch.arange(36).reshape(1, 36)),
        step("linear", "s40.0 s3.0 " + WIDE, (1, 2), 3, weight=integers(2, 36, bits=3, seed=seed + 9)),
    )
    chosen = steps[:2] if seed % 2 else steps
    fmt, saved = FixedFormat(5, 0), mhz is not None
    program = Program((1, 2, 6), fmt, chosen, 3, mhz=mhz, family="ecp5" if saved else "", carry_save=saved)
    frames = corners((2, 6), fmt)
    twice = frames.repeat_interleave(2, 2).double()
    wanted = functional.conv1d(twice, weight.double(), padding=1)
    if not seed % 2:
        wanted = functional.linear(wanted.flatten(1), steps[3].parameters["weight"].double())
    assert computed(program, frames) == wanted.reshape(len(frames), -1).long().tolist()


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups", "kernel"),
    [
        ((1, 1), (1, 1), (1, 1), 1, (3, 3)),
        ((2, 1), (1, 0), (1, 1), 1, (3, 2)),
        ((3, 2), (2, 2), (1, 1), 2, (2, 3)),
        ((1, 2), (2, 3), (2, 3), 1, (3, 3)),
        ((1, 1), (0, 0), (1, 1), 4, (1, 1)),
        ((5, 5), (0, 0), (1, 1), 2, (2, 2)),
    ],
)
def test_a_convolution(stride, padding, dilation, groups, kernel) -> None:  # type: ignore[no-untyped-def]
    """Every window: sums of integers as PyTorch's float64 convolution has them."""
    weight, bias = integers(4, 4 // groups, *kernel, seed=1), integers(4, bits=7, seed=2)
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    frames = corners((4, 7, 8), FixedFormat(5, 0))
    wanted = functional.conv2d(frames.double(), weight.double(), bias.double(), **how)
    layer = step("conv2d", f"s5.0 s4.0 s7.0 {WIDE}", (1, *wanted.shape[1:]), weight=weight, bias=bias, **how)
    program = Program((1, 4, 7, 8), FixedFormat(5, 0), (layer,), 3)
    assert computed(program, frames) == wanted.flatten(1).to(torch.int64).tolist()


def test_what_positions_share() -> None:
    """An average of three neighbours with equal weights: one addition for each pair, not two for each window."""
    weight = torch.ones(1, 1, 4, dtype=torch.int64)
    layer = step("conv1d", f"u4.0 s4.0 {WIDE}", (1, 1, 13), weight=weight)
    network = network_of(Program((1, 1, 16), FixedFormat(4, 0, signed=False), (layer,), 3))
    additions = [number for number in network.live() if network.graph.values[number].a >= 0]
    # x[i] + x[i + 1] at 15 places, and a pair of these at 13: 39 additions without sharing.
    assert len(additions) == 15 + 13


def test_the_solver_runs_once_for_equal_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    inner = _lowering.plan
    monkeypatch.setattr(_lowering, "plan", lambda *given: ran.append(given) or inner(*given))
    _lowering._plan.cache_clear()
    weight = integers(5, 3, seed=9)
    layers = (
        step("linear", f"s4.0 s4.0 {WIDE}", (1, 32, 5), weight=weight),
        step("sum", f"{WIDE} {WIDE}", (1, 5), 1, dim=1),
    )
    program = Program((1, 32, 3), FixedFormat(4, 0), layers, 3)
    frames = corners((32, 3), FixedFormat(4, 0), 2)
    wanted = (frames @ weight.T).sum(1)
    assert computed(program, frames) == wanted.tolist()
    assert len(ran) == 1 + 5  # the layer, and each sum of 32, whose ranges differ


@pytest.mark.parametrize("mode", ["half_even", "half_up", "floor", "trunc", "half_away"])
@pytest.mark.parametrize("overflow", ["saturate", "wrap"])
def test_casts_between_layers(mode: str, overflow: str) -> None:
    """A layer, ReLU and another layer with narrow results: as the goldens have it, for every code of the input."""
    first, bias, second = integers(3, 2, seed=4), integers(3, bits=6, seed=6), integers(2, 3, seed=5)
    layers = (
        step("linear", f"s4.2 s4.3 s6.5 s5.3 {mode} {overflow}", (1, 3), weight=first, bias=bias),
        step("relu", f"s5.3 u3.2 {mode} {overflow}", (1, 3), 1),
        step("linear", f"u3.2 s4.3 s4.1 {mode} {overflow}", (1, 2), 2, weight=second),
    )
    program = Program((1, 2), FixedFormat(4, 2), layers, 1)
    codes = torch.cartesian_prod(torch.arange(-8, 8), torch.arange(-8, 8))
    assert computed(program, codes) == program.run(codes.float()).to(torch.int64).tolist()


@pytest.mark.parametrize(
    ("fmt", "weight", "result"),
    [("u3.1", 7, "s1.0"), ("u4.0", 5, "s3.0"), ("u4.0", 7, "u4.0")],
)
def test_results_that_come_round_to_where_others_end(fmt: str, weight: int, result: str) -> None:
    """The largest sum may come round to what it would be with a limit, while others between come round elsewhere."""
    layer = step("linear", f"{fmt} s4.0 {result} floor wrap", (1, 1), weight=torch.tensor([[weight]]))
    source, out = read_format(fmt), read_format(result)
    codes = torch.arange(source.min_mantissa, source.max_mantissa + 1)[:, None]
    least, count, drop = out.min_mantissa, 1 << out.width, source.frac_width - out.frac_width
    wanted = [[((v * weight >> drop) - least) % count + least] for (v,) in codes.tolist()]
    assert computed(Program((1, 1), source, (layer,), 1), codes) == wanted
    elements = ((out.width, out.frac_width, out.signed),)
    wide = f"s12.{source.frac_width}"
    cast = step("cast", f"{wide} {result} floor wrap", (1, 1), 1, elements=elements)
    first = step("linear", f"{fmt} s4.0 {wide} floor saturate", (1, 1), weight=torch.tensor([[weight]]))
    assert computed(Program((1, 1), source, (first, cast), 1), codes) == wanted


def test_pooling_concatenation_tables_and_means() -> None:
    """Maxima with borders, elements elsewhere and of two formats, a table, a mean of eight: against PyTorch's."""
    fmt = FixedFormat(4, 1)
    layers = (
        step("max_pool2d", "s4.1 s4.1", (1, 2, 3, 2), 0, kernel_size=3, stride=2, padding=1),
        step("sigmoid", "s4.1 u5.5", (1, 2, 3, 2), 1),
        step("cat", "s4.1 u5.5 s8.5", (1, 4, 3, 2), 1, 2, dim=1),
        step("mean_over", "s8.5 s6.3", (1, 3, 2), 3, dim=1, keepdim=False),
    )
    frames = corners((2, 5, 4), fmt)
    pooled = functional.max_pool2d(frames.double(), 3, 2, 1)
    squashed = (torch.sigmoid(pooled / 2) * 32).round().clamp(0, 31)
    wanted = torch.cat([pooled * 16, squashed], 1).mean(1) / 4
    found = computed(Program((1, 2, 5, 4), fmt, layers, 2), frames)
    assert found == wanted.round().flatten(1).to(torch.int64).tolist()


@pytest.mark.parametrize("levels", [0, 1, 2, 5])
def test_registers(levels: int) -> None:
    """Every value is held from its stage to its last reader's, no stage is too deep, and moving values saves bits."""
    weight = integers(6, 2, 3, 3, bits=5, seed=7)
    layers = (
        step("conv2d", "s4.0 s5.0 s6.-3", (1, 6, 4, 4), weight=weight, padding=1),
        step("relu", "s6.-3 u5.-3", (1, 6, 4, 4), 1),
        step("max_pool2d", "u5.-3 u5.-3", (1, 6, 2, 2), 2, kernel_size=2),
    )
    program = Program((1, 2, 4, 4), FixedFormat(4, 0), layers, levels)
    stages = stages_of(program)
    kept, network = set(stages.kept()), stages.network
    depth: dict[int, int] = {}
    for number in stages.numbers:
        operands = [operand for operand in stages.operands(number) if network.graph.moves(operand)]
        for operand in operands:
            assert stages.of(operand) <= stages.of(number)
            assert {(operand, at) for at in range(stages.of(operand), stages.of(number))} <= kept
        same = [depth[operand] for operand in operands if stages.of(operand) == stages.of(number)]
        depth[number] = max(same, default=0) + network.delay(number)
    outputs = [output[0] for output in network.graph.outputs if output is not None]
    assert all({(n, at) for at in range(stages.of(n), stages.count - 1)} <= kept for n in outputs)
    if levels:
        assert max(depth.values()) <= levels
        assert stages.count == math.ceil(network.graph.levels / levels)
        early = sum(network.graph.values[n].width for n, _ in _held_early(stages))
        assert sum(network.graph.values[n].width for n, _ in kept) <= early
    else:
        assert stages.count == 1 and not kept


def _held_early(stages) -> set[tuple[int, int]]:  # type: ignore[no-untyped-def]
    """What registers hold if every value is computed as early as it can be."""
    values = stages.graph.values
    at = {n: max(values[n].level - 1, 0) // stages.levels for n in range(len(values))}
    last: dict[int, int] = {}
    for number in stages.numbers:
        for operand in stages.operands(number):
            last[operand] = max(last.get(operand, 0), at[number])
    last |= {output[0]: stages.count - 1 for output in stages.graph.outputs}
    return {(n, s) for n, end in last.items() if stages.graph.moves(n) for s in range(at[n], end)}


@pytest.mark.parametrize(
    ("layer", "size", "got"),
    [
        (step("mean_over", "s9.0 s4.0", (1, 1), 0, dim=1, keepdim=True), 6, "rounded as half_even"),
        (step("log_softmax", "s4.0 s8.3", (1, 3), 0, dim=1), 3, "log_softmax"),
    ],
)
def test_what_is_refused(layer: Step, size: int, got: str) -> None:
    program = Program((1, size), layer.arithmetic.formats["data_in_0"], (layer,), 3)
    with pytest.raises(UnsupportedError) as caught:
        network_of(program)
    assert got in str(caught.value) and caught.value.node == layer.node


def test_a_sum_that_is_an_element_as_it_is_stored() -> None:
    """Biases that equal what flips a sign bit leave the input itself; so does a weight of one without a bias."""
    weight, bias = torch.tensor([[1, 0], [0, 1], [4, 0]]), torch.tensor([8, 7, 32])
    layer = step("linear", "s4.0 s4.0 s7.0 s8.0", (1, 3), weight=weight, bias=bias)
    codes = torch.cartesian_prod(torch.arange(-8, 8), torch.arange(-8, 8))
    wanted = codes @ weight.T + bias
    assert computed(Program((1, 2), FixedFormat(4, 0), (layer,), 1), codes) == wanted.tolist()


def in_beats(program: Program, frames: Tensor) -> Tensor:
    """What a network whose frames come in several beats computes, the elements in the order of PyTorch."""
    given, shape = program.layout(program.shape), program.steps[-1].shape
    streams = given.to_stream(frames.reshape(-1, *program.shape).numpy())
    found = np.array([network_of(program).evaluate(stream.tolist()) for stream in streams])
    return torch.from_numpy(program.layout(shape).from_stream(found).copy()).reshape(-1, *shape[1:])


@pytest.mark.parametrize("beats", [2, 3, 4, 6, 12])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"), [(3, 1, 1, 1), (5, 1, 2, 1), (4, 2, 1, 1), (2, 1, 0, 3), (3, 3, 4, 2)]
)
def test_windows_over_beats(beats: int, kernel: int, stride: int, padding: int, dilation: int) -> None:
    """Two convolutions of a sequence, with a border, whatever part of it a beat is; PyTorch computes the same."""
    first, second = integers(3, 2, kernel, seed=4), integers(2, 3, 3, seed=5)
    middle = functional.conv1d(torch.zeros(1, 2, 12), first.float(), None, stride, padding, dilation).shape
    how = {"stride": stride, "padding": padding, "dilation": dilation}
    layers = (
        step("conv1d", f"s4.0 s4.0 {WIDE}", middle, weight=first, **how),
        step("relu", f"{WIDE} u30.0", middle, 1),
        step("conv1d", f"u30.0 s4.0 {WIDE}", (1, 2, middle[-1]), 2, weight=second, padding=1),
    )
    program = Program((1, 2, 12), FixedFormat(4, 0), layers, 3, beats, 2)
    frames = corners((2, 12), program.fmt)
    inner = functional.conv1d(frames.double(), first.double(), None, stride, padding, dilation).relu()
    wanted = functional.conv1d(inner, second.double(), padding=1)
    assert torch.equal(in_beats(program, frames), wanted.to(torch.int64))


@pytest.mark.parametrize("beats", [1, 2, 4, 8])
def test_sums_over_beats(beats: int) -> None:
    """Weights that differ from position to position, a mean of all, and a maximum, of what single positions give."""
    each, last = integers(5, 3, seed=1), integers(4, 40, seed=2)
    order = torch.arange(40).reshape(1, 40)
    layers = (
        step("linear", f"s4.0 s4.0 {WIDE}", (1, 8, 5), weight=each),
        step("relu", f"{WIDE} u30.0", (1, 8, 5), 1),
        Step("flatten", None, Arithmetic({}), {}, (2,), (1, 40), order),
        step("linear", f"u30.0 s4.0 {WIDE}", (1, 4), 3, weight=last),
        step("mean_over", "u30.0 s40.3", (1, 5), 2, dim=1, keepdim=False),
        step("amax", "u30.0 u30.0", (1, 5), 2, dim=1, keepdim=False),
        step("cat", f"{WIDE} s40.3 u30.0 s40.3", (1, 14), 4, 5, 6, dim=1),
    )
    program = Program((1, 8, 3), FixedFormat(4, 0), layers, 3, beats)
    frames = corners((8, 3), program.fmt)
    inner = (frames.double() @ each.double().T).relu()
    parts = 8 * (inner.flatten(1) @ last.double().T), inner.sum(1), 8 * inner.amax(1)
    assert torch.equal(in_beats(program, frames), torch.cat(parts, 1).to(torch.int64))


def test_a_beat_costs_what_it_computes() -> None:
    """Half as many positions a beat need little more than half of the adders, whatever the border."""
    layers = (step("conv1d", f"s4.0 s4.0 {WIDE}", (1, 4, 64), weight=integers(4, 2, 5, seed=4), padding=2),)
    programs = [Program((1, 2, 64), FixedFormat(4, 0), layers, 3, beats, 2) for beats in (1, 2, 4, 8, 16)]
    bits = [stages_of(program).figures["adder_bits"] for program in programs]
    assert all(later < 0.6 * before for before, later in itertools.pairwise(bits))


@pytest.mark.parametrize("fmt", [FixedFormat(4, 1), FixedFormat(4, 1, signed=False)])
@pytest.mark.parametrize("reader", ["linear", "conv1d", "amax", "none"])
def test_elements_that_drop_bits(fmt: FixedFormat, reader: str) -> None:
    """Every element without bits of its own: as Python's integers have it, and sums of them have fewer bits to add."""
    drops, name = [0, 3, 1, 4, 2, 1], str(fmt)
    frames = corners((1, 6), fmt, 40)
    kept = torch.tensor(
        [[v >> k << k if k < 4 else 0 for v, k in zip(f[0].tolist(), drops, strict=True)] for f in frames]
    )
    layers = [step("cast", f"{name} {name}", (1, 1, 6), drops=tuple(drops))]
    wanted = kept
    if reader == "linear":
        weight = integers(3, 6, seed=4)
        layers.append(step("linear", f"{name} s4.1 s40.2", (1, 1, 3), 1, weight=weight))
        wanted = kept @ weight.T
    elif reader == "conv1d":
        weight = integers(2, 1, 3, seed=4)
        layers.append(step("conv1d", f"{name} s4.1 s40.2", (1, 2, 4), 1, weight=weight))
        wanted = functional.conv1d(kept[:, None].double(), weight.double()).flatten(1).long()
    elif reader == "amax":
        layers.append(step("amax", f"{name} {name}", (1, 1), 1, dim=2, keepdim=False))
        wanted = kept.amax(1, keepdim=True)
    program = Program((1, 1, 6), fmt, tuple(layers), 2)
    assert computed(program, frames) == wanted.tolist() == program.run(frames.float()).flatten(1).long().tolist()
    if reader == "linear":
        whole = Program((1, 1, 6), fmt, (step("linear", f"{name} s4.1 s40.2", (1, 1, 3), weight=weight),), 2)
        bits = [sum(n.graph.values[v].width for v in n.live()) for n in (network_of(program), network_of(whole))]
        assert bits[0] < bits[1]


@pytest.mark.parametrize("mode", ["half_even", "floor"])
@pytest.mark.parametrize("overflow", ["saturate", "wrap"])
def test_elements_with_formats_of_their_own(mode: str, overflow: str) -> None:
    """Every element rounded into its own format, as Python's fractions have it, by itself and in front of a layer."""
    elements = ((3, 1, True), (0, 0, True), (4, 2, False), (6, 3, True), (2, -1, True), (30, 2, True))
    weight = integers(3, 6, seed=4)

    def of(code: int, width: int, frac: int, signed: bool) -> int:
        if not width:
            return 0
        low, count = -(1 << (width - 1)) if signed else 0, 1 << width
        exact = Fraction(code, 4) * Fraction(2) ** frac
        value = math.floor(exact) if mode == "floor" else round(exact)
        kept = (value - low) % count + low if overflow == "wrap" else min(max(value, low), low + count - 1)
        return int(kept * Fraction(2) ** (3 - frac))

    layers = (
        step("cast", f"s6.2 s31.3 {mode} {overflow}", (1, 6), elements=elements),
        step("linear", "s31.3 s4.1 s40.4", (1, 3), 1, weight=weight),
    )
    frames = corners((6,), FixedFormat(6, 2), 40)
    kept = [[of(code, *each) for code, each in zip(f, elements, strict=True)] for f in frames.tolist()]
    alone, both = (Program((1, 6), FixedFormat(6, 2), layers[:count], 2) for count in (1, 2))
    assert computed(alone, frames) == kept == alone.run(frames.float()).to(torch.int64).tolist()
    assert computed(both, frames) == (torch.tensor(kept) @ weight.T).tolist()


def test_a_value_in_several_columns_is_one() -> None:
    """Sums over pairs share what they have of one value: the bits are the same, the additions fewer."""
    inputs, matrix = np.array([7, 3, 7, 5, 3]), np.array([[1, 2, 3, 4, 5], [0, 1, -1, 0, -1]])
    numbers, summed = merged(inputs, matrix)
    assert numbers.tolist() == [7, 3, 5] and summed.tolist() == [[4, 7, 4], [-1, 0, 0]]
    pairs = [(i, j) for i in range(5) for j in range(5) if i != j]
    order = torch.tensor([[3 * i + k for i in pair for k in range(3)] for pair in pairs])
    weight = integers(4, 6)
    joined = Step("pairs", None, Arithmetic({}), {}, (0,), (1, 20, 6), order.reshape(1, 20, 6))
    steps = (joined, step("linear", f"s4.0 s4.0 {WIDE}", (1, 20, 4), 1, weight=weight.float()))
    program = Program((1, 5, 3), FixedFormat(4, 0), steps, 3)
    frames = corners((5, 3), program.fmt)
    wanted = frames.reshape(len(frames), -1)[:, order] @ weight.T
    assert computed(program, frames) == wanted.reshape(len(frames), -1).tolist()
    graph = network_of(program).graph
    alone = plan(weight.tolist(), [0] * 4, [(-8, 7)] * 6).graph
    additions = sum(value.a >= 0 for value in graph.values)
    assert additions < 0.8 * 20 * sum(value.a >= 0 for value in alone.values)


def latest(program: Program) -> int:
    """Additions one after the other from the input to the last result."""
    network = network_of(program)
    outputs = [output for output in network.graph.outputs if output is not None]
    return max(network.graph.values[number].level for number, _ in outputs)


def test_a_constant_is_added_to_what_waits() -> None:
    """Three inputs and a bias take two additions in a row, or three where what waits is counted by four times."""
    for weight, additions in (([[1, 1, 1]], 2), ([[1, 1, -1]], 2), ([[-1, -1, -1]], 2), ([[2, -4, 1]], 3)):
        layer = step("linear", f"s4.0 s4.0 s7.0 {WIDE}", (1, 1), weight=torch.tensor(weight), bias=torch.tensor([37]))
        program = Program((1, 3), FixedFormat(4, 0), (layer,), 3)
        frames = torch.cartesian_prod(*[torch.tensor([-8, -3, 0, 7])] * 3)
        assert computed(program, frames) == (frames @ torch.tensor(weight).T + 37).tolist()
        assert latest(program) == additions


@pytest.mark.parametrize("mode", ["half_even", "half_up", "floor"])
@pytest.mark.parametrize("bits", [4, 6])
def test_carries_that_are_saved(mode: str, bits: int) -> None:
    """Layers with biases, negative and shifted terms: as the goldens have it, in fewer stages for a clock."""
    first, bias, second = integers(5, 14, bits=bits, seed=2), integers(5, bits=9, seed=3), integers(3, 5, seed=4)
    layers = (
        step("linear", f"s5.2 s{bits}.3 s9.5 s8.3 {mode} saturate", (1, 5), weight=first, bias=bias),
        step("relu", f"s8.3 u6.2 {mode} saturate", (1, 5), 1),
        step("linear", "u6.2 s4.3 s40.5", (1, 3), 2, weight=second),
    )
    plain = Program((1, 14), FixedFormat(5, 2), layers, 3, mhz=100.0, family="ecp5")
    program = dataclasses.replace(plain, carry_save=True)
    frames = corners((14,), FixedFormat(5, 2), 20)
    assert computed(program, frames) == program.run(frames.float()).to(torch.int64).tolist()
    network = network_of(program)
    saved = [number for number in network.live() if isinstance(network.made.get(number), Saved)]
    assert saved and not any(isinstance(made, Saved) for made in network_of(plain).made.values())
    assert stages_of(program).count <= stages_of(plain).count
    assert _arrives(program) < _arrives(plain)


def _arrives(program: Program) -> int:
    """Picoseconds from the input to the last result."""
    network, there = network_of(program), dict[int, int]()
    for number in network.live():
        before = max((there[operand] for operand in network.operands(number)), default=0)
        there[number] = before + delay_of(network, DELAYS[program.family], number)
    return max(there[output[0]] for output in network.graph.outputs if output is not None)


@pytest.mark.parametrize("mode", ["half_even", "half_up", "floor"])
@pytest.mark.parametrize(
    ("first", "second", "one"),
    [
        ("s8.5", "s4.2", True),  # the first cast loses nothing
        ("s8.3", "s4.1", True),
        ("s7.3", "u3.0", True),
        ("s8.4", "s6.4", True),
        ("s8.3", "s5.2", False),  # half of the second LSB is the first one; only what is rounded to even needs two
        ("s5.2", "s7.1", False),  # the first range is the smaller one
        ("s5.2", "s8.3", False),
    ],
)
def test_two_casts_are_one(mode: str, first: str, second: str, one: bool) -> None:
    """Sums and their ties, cast twice as PyTorch's operators do it, by one cast where that is possible."""
    weight, bias = torch.tensor([[1, 3], [-2, 5], [0, 0], [1, 0]]), torch.tensor([3, -70, 21, 0])
    layers = (
        step("linear", f"s4.2 s4.3 s9.5 {first} {mode} saturate", (1, 4), weight=weight, bias=bias),
        step("cast", f"{first} {second} {mode} saturate", (1, 4), 1),
    )
    codes = torch.cartesian_prod(torch.arange(-8, 8), torch.arange(-8, 8))
    found, frac = codes.double() @ weight.T.double() + bias, 5
    for fmt in map(read_format, (first, second)):
        found, frac = _rounded(found / 2.0 ** (frac - fmt.frac_width), mode), fmt.frac_width
        found = found.clamp(fmt.min_mantissa, fmt.max_mantissa)
    program = Program((1, 2), FixedFormat(4, 2), layers, 2)
    assert computed(program, codes) == found.to(torch.int64).tolist()
    made = network_of(program).made
    twice = any(isinstance(made.get(each.value), Rounded) for each in made.values() if isinstance(each, Rounded))
    assert twice == (not one and (mode == "half_even" or second != "s5.2"))


def _rounded(x: Tensor, mode: str) -> Tensor:
    return x.floor() if mode == "floor" else (x + 0.5).floor() if mode == "half_up" else x.round()


def test_casts_that_stay_apart() -> None:
    """Another reader of what is between needs it; of a wrapped number the second cast sees what is left."""
    weight = torch.tensor([[1, 3], [-2, 5]])
    cast = step("cast", "s6.3 s4.1", (1, 2), 1)
    both = step("cat", "s6.3 s4.1 s6.3", (1, 4), 1, 2, dim=1)
    wraps = step("linear", "s4.2 s4.3 s6.3 half_even wrap", (1, 2), weight=weight)
    plain = step("linear", "s4.2 s4.3 s6.3", (1, 2), weight=weight)
    codes = torch.cartesian_prod(torch.arange(-8, 8), torch.arange(-8, 8))
    for layers in ((plain, cast, both), (wraps, cast)):
        program = Program((1, 2), FixedFormat(4, 2), layers, 2)
        assert computed(program, codes) == program.run(codes.float()).to(torch.int64).tolist()
        assert not at_once(layers, {"linear"})
    assert at_once((plain, cast), {"linear"}) and not at_once((plain, cast), {"conv2d"})
