"""Networks of products of data nobody thought of: their goldens and their modules beside Python's fractions."""

from __future__ import annotations

import itertools
import math
import operator
import random
from fractions import Fraction
from pathlib import Path

import pytest
import torch

from mase_hw.catalogue import default_catalogue
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.formats.attributes import attributes_of
from mase_hw.opdef import Arithmetic
from mase_hw.ops.unrolled._lowering import network_of
from mase_hw.ops.unrolled._network import Product, Program, Step
from mase_hw.ops.unrolled.several import case, inputs_of

from .checks import CHECKS
from .conftest import Builder
from .groups import Place, group_dut, prefix_of
from .harness import Item
from .test_simulation import run

SIZE = 2
"""Elements of every tensor."""


def fixed(exact: Fraction, a: Arithmetic) -> int:
    """The mantissa of an exact number."""
    fmt, half = a.formats["data_out_0"], Fraction(1, 2)
    scaled = exact * Fraction(2) ** fmt.frac_width
    below = math.floor(scaled)
    more = scaled - below
    up = {
        Rounding.FLOOR: False,
        Rounding.TRUNC: more > 0 > scaled,
        Rounding.HALF_UP: more >= half,
        Rounding.HALF_EVEN: more > half or (more == half and below % 2 == 1),
        Rounding.HALF_AWAY: more > half or (more == half and scaled > 0),
    }[a.rounding]
    value, low, count = below + int(up), fmt.min_mantissa, 1 << fmt.width
    return (value - low) % count + low if a.overflow is Overflow.WRAP else min(max(value, low), low + count - 1)


def computed(program: Program, frame: list[int]) -> list[int]:
    """What the steps make of the mantissas of the inputs."""
    tensors = [frame]
    for step in program.steps:
        given, a = [tensors[k] for k in step.inputs], step.arithmetic
        if step.op is None:
            assert step.order is not None
            tensors.append([given[0][place] for place in step.order.reshape(-1).tolist()])
            continue
        scales = [Fraction(2) ** -a.formats[f"data_in_{k}"].frac_width for k in range(len(given))]
        values = [[m * scale for m in mantissas] for mantissas, scale in zip(given, scales, strict=True)]
        if step.op.name == "linear":
            scale = Fraction(2) ** -a.formats["weight"].frac_width
            rows = [[int(w) * scale for w in row] for row in step.parameters["weight"].tolist()]
            exact = [sum((x * w for x, w in zip(values[0], row, strict=True)), Fraction(0)) for row in rows]
        elif step.op.name == "cat":
            exact = list(itertools.chain(*values))
        else:
            way = {"mul": operator.mul, "add": operator.add, "sub": operator.sub}[step.op.name]
            exact = [way(x, y) for x, y in zip(*values, strict=True)]
        tensors.append([fixed(number, a) for number in exact])
    return tensors[-1]


class Drawn:
    """A random network of two or three inputs, most of whose steps are products."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.inputs = [self.format(7) for _ in range(self.random.choice((2, 3)))]
        taken, total = inputs_of([(1, SIZE)] * len(self.inputs))
        self.steps, self.formats = list(taken), [*self.inputs[:1], *self.inputs]
        for _ in range(self.random.randint(3, 7)):
            kind = self.random.choice(("mul", "mul", "mul", "add", "sub", "linear"))
            one, other = (self.random.choice(range(1, len(self.formats))) for _ in range(2))
            self.add(kind, [one] if kind == "linear" else [one, other])
        read = {number for step in self.steps for number in step.inputs}
        last = [number for number in range(1, len(self.formats)) if number not in read]
        self.add("cat", last[-4:])
        ports = tuple((SIZE, fmt) for fmt in self.inputs)
        levels = self.random.randint(0, 4)
        self.program = Program((1, total), self.inputs[0], tuple(self.steps), levels, inputs=ports)

    def format(self, most: int) -> FixedFormat:
        """A random format."""
        return FixedFormat(self.random.randint(1, most), self.random.randint(-1, 4), self.random.random() < 0.6)

    def add(self, op: str, inputs: list[int]) -> None:
        """A step with a result in a random format."""
        formats = {f"data_in_{k}": self.formats[number] for k, number in enumerate(inputs)}
        parameters, size = {}, SIZE * (len(inputs) if op == "cat" else 1)
        if op == "linear":
            formats["weight"] = FixedFormat(4, self.random.randint(0, 3))
            rows = [[self.random.randint(-8, 7) for _ in range(SIZE)] for _ in range(SIZE)]
            parameters["weight"] = torch.tensor(rows).float()
        self.formats.append(self.format(9 if op != "cat" else 16))
        modes = self.random.choice(list(Rounding)), self.random.choice(list(Overflow))
        attributes = attributes_of({"dim": 1} if op == "cat" else {})
        a = Arithmetic({**formats, "data_out_0": self.formats[-1]}, *modes, attributes)
        found = default_catalogue()[op]
        self.steps.append(Step(f"{op}_{len(self.steps)}", found, a, parameters, tuple(inputs), (1, size)))


@pytest.mark.parametrize("seed", range(30))
def test_bits(seed: int) -> None:
    """The network of values, value by value, and the goldens of the ops, both beside fractions."""
    drawn = Drawn(seed)
    network, program = network_of(drawn.program), drawn.program
    for _ in range(6):
        parts = [[drawn.random.randint(f.min_mantissa, f.max_mantissa) for _ in range(SIZE)] for f in drawn.inputs]
        frame = list(itertools.chain(*parts))
        wanted = computed(program, frame)
        assert network.evaluate(frame) == wanted
        assert program.run(torch.tensor([frame]).float()).reshape(-1).tolist() == wanted


def test_there_are_products() -> None:
    """Of random widths and signs."""
    networks = [network_of(Drawn(seed).program) for seed in range(30)]
    made = [(n, n.made[v]) for n in networks for v in n.live() if isinstance(n.made.get(v), Product)]
    signs = {tuple(n.ends(v)[0] < 0 for v in (p.one, p.other)) for n, p in made if isinstance(p, Product)}
    assert len(made) > 30 and signs == {(a, b) for a in (False, True) for b in (False, True)}


@pytest.mark.parametrize(
    "seeds",
    [range(5), *(pytest.param(range(k, k + 16), marks=pytest.mark.slow) for k in range(5, 325, 16))],
    ids=lambda seeds: f"from_{seeds.start}",
)
def test_modules(seeds: range, builder: Builder, shared: Path, tmp_path: Path) -> None:
    """Bits and every cycle at full rate, bits under stalls, of networks in one simulator."""
    op = default_catalogue()["frame_of_several"]
    group = tuple(Item(op, case(f"seed{seed}", Drawn(seed).program)) for seed in seeds)
    dut = group_dut(group, shared / "groups")
    built = builder(dut, dut.sources[-1].stem)
    for it in group:
        for check in ("full_rate", "random_stalls"):
            run(CHECKS[check], it, Place(built, prefix_of(group, it)), tmp_path / it.id / check)
