"""A frame packed by the rule of docs/bundle.md alone gives the bundle's own vectors, bit for bit.

The packer below is that page in Python integers: no code of mase_hw is in it.
"""

from __future__ import annotations

import itertools
import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from tests.unit.pipeline import rule, seeded

Port = dict[str, Any]
Index = tuple[int, ...]


def to_integer(value: float, fmt: dict[str, Any]) -> int:
    """Rule 1."""
    exact = Fraction(value) / Fraction(fmt["scale"])
    low, high = (
        (-(2 ** (fmt["width"] - 1)), 2 ** (fmt["width"] - 1) - 1) if fmt["signed"] else (0, 2 ** fmt["width"] - 1)
    )
    return max(low, min(high, round(exact)))  # a Fraction rounds half to even


def mixed(digits: list[int], sizes: list[int]) -> int:
    """The number with these digits, the last one fastest."""
    number = 0
    for digit, size in zip(digits, sizes, strict=True):
        number = number * size + digit
    return number


def place_of(index: Index, port: Port) -> tuple[int, list[int], int]:
    """Rules 2 and 3: flat index, its digits, place in the stream."""
    flat = mixed(list(index), port["shape"])
    layout = port["layout"]
    if layout is None:
        return flat, [], flat
    factors, order = layout["factors"], layout["order"]
    digits, rest = [0] * len(factors), flat
    for i in reversed(range(len(factors))):
        digits[i], rest = rest % factors[i], rest // factors[i]
    return flat, digits, mixed([digits[i] for i in order], [factors[i] for i in order])


def beat_of(place: int, port: Port) -> tuple[int, int, int, int]:
    """Rules 4 and 5: row, column, beat, lane."""
    length = port["streamed"][-1] if port["streamed"] else 1
    row, column, lanes = place // length, place % length, port["parallelism"][0]
    return row, column, row * -(-length // lanes) + column // lanes, column % lanes


def pack(frame: Any, port: Port) -> list[str]:
    """Rules 6 and 7: the lines of one frame, nested lists of floats."""
    words, width = [0] * port["beats"], port["format"]["width"]
    for index in itertools.product(*(range(size) for size in port["shape"])):
        value = frame
        for i in index:
            value = value[i]
        _, _, beat, lane = beat_of(place_of(index, port)[2], port)
        words[beat] |= (to_integer(value, port["format"]) & (2**width - 1)) << (width * lane)
    return [f"{word:0{-(-port['bits'] // 4)}x}" for word in words]


class Rows(nn.Module):
    """Three dimensions, rows that do not divide by the lanes, two inputs of different formats."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 7), nn.Linear(3, 3)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.a(x).relu(), self.b(y)


class Transposed(nn.Module):
    """The result changes its dimensions after it was computed."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x).reshape(1, 3, 2, 3).permute(0, 3, 1, 2)


FRAMES = 3
NARROW = rule(data_in_width=7, data_in_frac_width=3, data_out_width=11, data_out_frac_width=5)
CASES: dict[str, tuple[nn.Module, list[tuple[int, ...]], dict[str, Any]]] = {
    "rows": (
        seeded(Rows),
        [(2, 3, 5), (1, 3)],
        {"quantize": {"by": "name", "default": NARROW, "b": rule(data_in_width=5)}},
    ),
    "image": (nn.Conv2d(3, 4, 3, padding=1), [(1, 3, 4, 5)], {}),
    "flattened": (nn.Sequential(nn.Conv2d(3, 5, 1), nn.Flatten()), [(1, 3, 2, 4)], {}),
    "shuffled": (nn.Sequential(nn.Conv2d(3, 8, 1), nn.PixelShuffle(2), nn.Flatten()), [(1, 3, 2, 3)], {}),
    "transposed": (seeded(Transposed), [(3, 4)], {}),
    "one": (nn.Linear(1, 1), [(1, 1)], {}),
}


@pytest.mark.parametrize("lanes", [1, 2, 3])
@pytest.mark.parametrize("name", CASES)
def test_the_rule_gives_the_vectors(name: str, lanes: int, tmp_path: Path) -> None:
    model, shapes, config = CASES[name]
    generator = torch.Generator().manual_seed(5)
    frames = [[(torch.rand(shape, generator=generator) - 0.5) * 12 for shape in shapes] for _ in range(FRAMES)]
    stacked = tuple(torch.cat(tensors) for tensors in zip(*frames, strict=True))
    design = mase_hw.compile(
        model.eval(),
        tuple(frames[0]),
        config | {"hardware": {"max_parallelism": lanes}},
        out=tmp_path / "b",
        vectors=stacked,
    )
    manifest = json.loads((tmp_path / "b/manifest.json").read_text())
    seen = set()
    for side in ("in", "out"):
        ports = [port for port in manifest["ports"] if port["direction"] == side]
        for number, port in enumerate(ports):
            lines = []
            for frame in frames:
                with torch.no_grad():
                    results = frame if side == "in" else design.model(*frame)
                tensors = results if isinstance(results, list | tuple) else (results,)
                lines += pack(tensors[number].tolist(), port)
            assert (tmp_path / "b" / manifest["vectors"]["files"][port["name"]]).read_text().split() == lines, port[
                "name"
            ]
            seen.add(port["layout"] is None)
    assert seen == {"rows": {True}, "transposed": {True, False}}.get(name, {False})


def test_the_example_of_the_page(root: Path) -> None:
    """Its figures follow from its rule, and it names all that the rule uses."""
    page = (root / "docs/bundle.md").read_text(encoding="utf-8").partition("### The order of elements on a port")[2]
    port = json.loads(re.search(r"<!-- port -->\n```json\n(.*?)```", page, re.DOTALL)[1])  # type: ignore[index]
    rows = re.findall(r"^\| \[([\d, ]+)\] \|(.*)\|$", page, re.MULTILINE)
    assert len(rows) == 4
    for index, rest in rows:
        flat, digits, place = place_of(tuple(map(int, index.split(","))), port)
        row, column, beat, lane = beat_of(place, port)
        said = [[int(number) for number in cell.split(",")] for cell in rest.split("|")]
        assert said == [[flat], digits, [place], [row, column], [beat], [lane]]
