"""Products of data in expressions: every number against Python's integers, and what equal and small products are."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from mase_hw.catalogue import default_catalogue
from mase_hw.errors import UnsupportedError
from mase_hw.formats.signs import read_format
from mase_hw.opdef import Arithmetic
from mase_hw.ops.unrolled._lowering import network_of
from mase_hw.ops.unrolled._network import Looked, Masked, Network, Product, Program, Step
from mase_hw.ops.unrolled._placed import stages_of
from mase_hw.ops.unrolled.data._products import kinds_of

WIDE = "s56.0"
"""A result that loses nothing."""


def step(op: str, formats: str, shape: Sequence[int], *inputs: int, **more: object) -> Step:
    parameters = {key: value for key, value in more.items() if isinstance(value, Tensor)}
    attributes = {key: value for key, value in more.items() if key not in parameters}
    names = (*(f"data_in_{k}" for k in range(len(inputs or (0,)))), *parameters, "data_out_0")
    found = default_catalogue().get(op)
    assert found is not None
    return Step(op, found, Arithmetic.read(formats, names, attributes), parameters, inputs or (0,), tuple(shape))


def taken(begin: int, shape: tuple[int, ...], of: int, at: int = 0) -> Step:
    """A part of the input, in a shape."""
    size = int(torch.Size(shape).numel())
    return Step(
        f"part_{begin}", None, Arithmetic({}), {}, (at,), shape, torch.arange(begin, begin + size).view(shape), of
    )


def program(fmt: str, size: int, *steps: Step, levels: int = 3, beats: int = 1) -> Program:
    return Program((1, size), read_format(fmt), steps, levels, beats)


def made(network: Network, kind: type) -> list[int]:
    return [number for number in network.live() if isinstance(network.made.get(number), kind)]


@pytest.mark.parametrize("one", ["s4.0", "u3.0", "s1.0"])
@pytest.mark.parametrize("other", ["s4.0", "u4.0", "s5.0"])
def test_every_product_of_two_numbers(one: str, other: str) -> None:
    """Both of every sign, in the exact range that they have."""
    first, second = read_format(one), read_format(other)
    parts = Program(
        (1, 2),
        first,
        (taken(0, (1, 1), 2), taken(1, (1, 1), 2), step("mul", f"{one} {other} {WIDE}", (1, 1), 1, 2)),
        3,
        inputs=((1, first), (1, second)),
    )
    network = network_of(parts)
    codes = [range(fmt.min_mantissa, fmt.max_mantissa + 1) for fmt in (first, second)]
    found = {pair: network.evaluate(pair)[0] for pair in itertools.product(*codes)}
    assert found == {(a, b): a * b for a, b in found}
    (output,) = (output[0] for output in network.graph.outputs if output is not None)
    assert network.ends(output) == (min(found.values()), max(found.values()))


def test_squares_and_equal_products_are_one() -> None:
    """``a * b`` is ``b * a``; a square is never negative; of few bits it is a table."""
    whole = step("mul", f"s8.0 s8.0 {WIDE}", (1, 2), 1, 2)
    other = step("mul", f"s8.0 s8.0 {WIDE}", (1, 2), 2, 1)
    square = step("mul", f"s8.0 s8.0 {WIDE}", (1, 2), 1, 1)
    joined = step("cat", f"{WIDE} {WIDE} {WIDE} {WIDE}", (1, 6), 3, 4, 5, dim=1)
    given = program("s8.0", 4, taken(0, (1, 2), 4), taken(2, (1, 2), 4), whole, other, square, joined)
    network = network_of(given)
    assert len(made(network, Product)) == 4
    assert network.evaluate([-128, 5, 127, -7]) == [-16256, -35, -16256, -35, 16384, 25]
    squares = [n for n in made(network, Product) if len(set(network.operands(n))) == 1]
    assert [network.ends(number) for number in squares] == [(0, 16384)] * 2
    narrow = step("mul", f"s6.0 s6.0 {WIDE}", (1, 2), 0, 0)
    table = network_of(program("s6.0", 2, narrow))
    assert not made(table, Product) and len(made(table, Looked)) == 2
    assert table.evaluate([-32, 31]) == [1024, 961]


def test_small_products_are_tables_and_bits_choose() -> None:
    small = step("mul", f"s3.0 s3.0 {WIDE}", (1, 1), 1, 2)
    network = network_of(program("s3.0", 2, taken(0, (1, 1), 2), taken(1, (1, 1), 2), small))
    assert len(made(network, Looked)) == 1 and not made(network, Product)
    bit, data = read_format("u1.0"), read_format("s9.0")
    steps = (taken(0, (1, 1), 2), taken(1, (1, 1), 2), step("mul", f"u1.0 s9.0 {WIDE}", (1, 1), 1, 2))
    network = network_of(Program((1, 2), bit, steps, 3, inputs=((1, bit), (1, data))))
    assert len(made(network, Masked)) == 1 and not made(network, Product)
    assert [network.evaluate(pair)[0] for pair in ((0, -256), (1, -256), (1, 255), (0, 255))] == [0, -256, 255, 0]


def test_what_is_constant_is_a_coefficient() -> None:
    """A layer without weights gives its bias: no product is left, and what it is multiplied by is shifted and added."""
    bias = torch.tensor([3, 0, -5])
    layers = (
        step("linear", "s8.0 s4.0 s8.0 s8.0", (1, 3), weight=torch.zeros(3, 3), bias=bias),
        step("mul", f"s8.0 s8.0 {WIDE}", (1, 3), 0, 1),
    )
    network = network_of(program("s8.0", 3, *layers))
    assert not made(network, Product)
    assert network.evaluate([-128, 77, 100]) == [-384, 0, -500]
    alone = network_of(program("s8.0", 3, layers[0], step("mul", f"s8.0 s8.0 {WIDE}", (1, 3), 1, 1)))
    assert not made(alone, Product) and alone.evaluate([1, 2, 3]) == [9, 0, 25]


@pytest.mark.parametrize("mode", ["half_even", "half_up"])
def test_a_product_that_is_rounded_twice(mode: str) -> None:
    """Its cast and the next one are one, whatever both of them round."""
    layers = (
        taken(0, (1, 1), 2),
        taken(1, (1, 1), 2),
        step("mul", f"s4.2 s4.2 s8.3 {mode} saturate", (1, 1), 1, 2),
        step("cast", f"s8.3 s4.1 {mode} saturate", (1, 1), 3),
    )
    network = network_of(program("s4.2", 2, *layers))
    for pair in itertools.product(range(-8, 8), repeat=2):
        wanted = Fraction(pair[0] * pair[1])
        for drop in (1, 2):
            below, more = divmod(wanted / 2**drop, 1)
            up = more > Fraction(1, 2) or (more == Fraction(1, 2) and (mode == "half_up" or below % 2 == 1))
            wanted = Fraction(below + int(up))
        assert network.evaluate(pair) == [min(max(int(wanted), -8), 7)]


def test_a_product_by_a_stored_tensor_is_a_table_before_its_own_cast() -> None:
    """Its cast and the next one stay two: the table has the first of them."""
    stored = torch.tensor([3, -7])
    layers = (
        step("mul", "s5.2 s4.1 s8.3 half_up saturate", (1, 2), constant=stored.float()),
        step("cast", "s8.3 s5.1 half_up saturate", (1, 2), 1),
    )
    given = program("s5.2", 2, *layers)
    for code in range(-16, 16):
        exact = [code * int(factor) for factor in stored]
        assert network_of(given).evaluate([code, code]) == [min(max((each + 2) >> 2, -16), 15) for each in exact]


@pytest.mark.parametrize("drops", [(0, 3, 1), (2, 2, 4)])
def test_elements_that_drop_bits_are_multiplied_without_them(drops: tuple[int, ...]) -> None:
    """What is multiplied are the bits that are left; the product is shifted into its place."""
    layers = (
        step("cast", "s8.0 s8.0", (1, 3), drops=drops),
        step("mul", f"s8.0 s8.0 {WIDE}", (1, 3), 1, 0),
        step("mul", f"s8.0 s8.0 {WIDE}", (1, 3), 1, 1),
        step("cat", f"{WIDE} {WIDE} {WIDE}", (1, 6), 2, 3, dim=1),
    )
    network = network_of(program("s8.0", 3, *layers))
    for frame in ([-128, 127, -1], [77, -50, 100], [3, 7, -128]):
        kept = [value >> drop << drop for value, drop in zip(frame, drops, strict=True)]
        products = [a * b for a, b in zip(kept, frame, strict=True)]
        assert network.evaluate(frame) == [*products, *(value * value for value in kept)]
    widths = {min(network.graph.values[o].width for o in network.operands(n)) for n in made(network, Product)}
    assert widths == {8 - drop for drop in drops}


@pytest.mark.parametrize(("bits", "levels"), [(2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (16, 4), (17, 5)])
def test_a_product_counts_as_the_additions_of_a_tree_of_its_rows(bits: int, levels: int) -> None:
    """Of as many rows as the narrower operand has bits, the first two of which take one addition."""
    one, other = read_format(f"s{bits}.0"), read_format("s20.0")
    steps = (taken(0, (1, 1), 2), taken(1, (1, 1), 2), step("mul", f"{one} {other} {WIDE}", (1, 1), 1, 2))
    network = network_of(Program((1, 2), one, steps, 3, inputs=((1, one), (1, other))))
    assert [network.delay(number) for number in made(network, Product)] == [levels]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("transposed", [True, False])
def test_matrices_of_data(transposed: bool, causal: bool) -> None:
    """Heads that share groups, tokens that see what came before them: against loops over Python's integers."""
    tokens, heads, rows, groups, inner = 3, 4, 3, 2, 2
    columns, inner = (inner, inner) if transposed else (2, rows)
    shapes = (1, tokens, heads, inner), (1, rows, groups, columns)
    sizes = [torch.Size(shape).numel() for shape in shapes]
    out = (1, tokens, heads, rows if transposed else columns)
    how = {"transposed": transposed, "causal": causal}
    steps = (
        taken(0, shapes[0], sum(sizes)),
        taken(sizes[0], shapes[1], sum(sizes)),
        step("grouped_matmul", f"s5.0 s5.0 {WIDE}", out, 1, 2, **how),
    )
    network = network_of(program("s5.0", sum(sizes), *steps))
    draw = random.Random(4)
    for _ in range(5):
        frame = [draw.randrange(-16, 16) for _ in range(sum(sizes))]
        x, y = (
            torch.tensor(part).view(shape).tolist()
            for part, shape in zip((frame[: sizes[0]], frame[sizes[0] :]), shapes, strict=True)
        )
        wanted = []
        for t, h in itertools.product(range(tokens), range(heads)):
            seen = t + 1 if causal else rows
            g = h // (heads // groups)
            if transposed:
                sums = [sum(x[0][t][h][i] * y[0][r][g][i] for i in range(inner)) for r in range(rows)]
                wanted += [total if r < seen else 0 for r, total in enumerate(sums)]
            else:
                wanted += [sum(x[0][t][h][r] * y[0][r][g][c] for r in range(seen)) for c in range(columns)]
        assert network.evaluate(frame) == wanted


@pytest.mark.parametrize("levels", [0, 1, 2, 3, 6])
def test_a_product_that_takes_longer_than_a_stage_has_one_by_itself(levels: int) -> None:
    """No stage has more additions one after the other than it has room for, but of one product; none is in vain."""
    steps = (
        step("linear", "s8.0 s4.0 s12.0", (1, 2), weight=torch.tensor([[1, 3], [-2, 5]])),
        step("mul", "s12.0 s8.0 s20.0", (1, 2), 1, 0),
        step("linear", f"s20.0 s4.0 {WIDE}", (1, 1), 2, weight=torch.tensor([[3, -7]])),
    )
    given = program("s8.0", 2, *steps, levels=levels)
    stages, network = stages_of(given), network_of(given)
    depth: dict[int, int] = {}
    for number in stages.numbers:
        before = [depth[o] for o in stages.operands(number) if stages.of(o) == stages.of(number)]
        depth[number] = max(before, default=0) + network.delay(number)
        assert all(stages.of(operand) <= stages.of(number) for operand in stages.operands(number))
    if levels:
        deep = [n for n, found in depth.items() if found > levels]
        assert all(isinstance(network.made.get(n), Product) and depth[n] == network.delay(n) for n in deep)
    assert stages.count == _fewest(network, levels)
    assert network.evaluate([-128, 127]) == [3 * (-128 + 3 * 127) * -128 - 7 * (256 + 5 * 127) * 127]


def _fewest(network: Network, levels: int) -> int:
    """Stages if every value is computed as early as can be; 1 without registers in between."""
    places: dict[int, tuple[int, int]] = {}
    for number in network.live():
        stage, used = max((places[operand] for operand in network.operands(number)), default=(0, 0))
        delay = min(network.delay(number), levels)
        places[number] = (stage, used + delay) if used + delay <= levels else (stage + 1, delay)
    return max(stage for stage, _ in places.values()) + 1


def test_for_a_clock_a_product_takes_the_time_of_a_block() -> None:
    """By itself it is the longest step: 655 ps of a register and 6,400 of the block; of 19 bits two more are added."""
    narrow, wide = (step("mul", f"{fmt} {fmt} {WIDE}", (1, 1), 1, 2) for fmt in ("s18.0", "s19.0"))

    def of(both: Step, fmt: str, mhz: float) -> int:
        steps = (taken(0, (1, 1), 2), taken(1, (1, 1), 2), both)
        return stages_of(Program((1, 2), read_format(fmt), steps, 3, mhz=mhz, family="ecp5")).count

    assert of(narrow, "s18.0", 141.0) == of(wide, "s19.0", 93.0) == 1
    for both, fmt, mhz, most in ((narrow, "s18.0", 143.0, 142), (wide, "s19.0", 95.0, 94)):
        with pytest.raises(UnsupportedError) as caught:
            of(both, fmt, mhz)
        assert caught.value.expected == f"at most {most} MHz"


def test_kinds_of_products_are_counted() -> None:
    """By the bits of the operands, each with a sign; beyond four kinds those that are nearest count as one."""
    formats = [
        read_format(f"{sign}{bits}.0") for sign, bits in (("s", 8), ("u", 8), ("s", 9), ("s", 12), ("s", 4), ("s", 5))
    ]
    size = len(formats)
    steps = [taken(k, (1, 1), size) for k in range(size)]
    widths = [str(fmt) for fmt in formats]
    pairs = [(0, 0), (0, 1), (2, 0), (3, 3), (4, 5), (1, 2)]
    steps += [step("mul", f"{widths[a]} {widths[b]} {WIDE}", (1, 1), a + 1, b + 1) for a, b in pairs]
    steps.append(step("cat", " ".join([WIDE] * 7), (1, 6), *range(size + 1, size + 7), dim=1))
    network = network_of(Program((1, size), formats[0], tuple(steps), 3, inputs=tuple((1, fmt) for fmt in formats)))
    few = kinds_of(network, [n for n in network.live() if isinstance(network.made.get(n), Product)][:3])
    assert few.products == (2, 1, 0, 0) and few.product_bits == (9, 8, 8, 8, 0, 0, 0, 0)
    found = kinds_of(network, network.live())
    assert found.products == (1, 1, 3, 1) and found.product_bits == (12, 12, 9, 9, 9, 8, 5, 4)


@pytest.mark.parametrize(
    ("op", "formats", "size", "got"),
    [
        ("mul", f"s31.0 s31.0 {WIDE}", 2, "sums of products of 62 bits"),
        ("mul", f"s4.0 s4.0 {WIDE}", 5000, "5000 and 5000 elements"),
    ],
)
def test_what_is_too_large_is_refused(op: str, formats: str, size: int, got: str) -> None:
    both = step(op, formats, (1, size), 0, 0)
    with pytest.raises(UnsupportedError) as caught:
        network_of(program(formats.split()[0], size, both))
    assert got in str(caught.value) and caught.value.node == "mul" and caught.value.field == "hardware.unroll"
