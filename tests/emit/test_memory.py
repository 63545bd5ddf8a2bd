"""Memory and vector files, decoded by code of their own, hold the quantised numbers in the documented order."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor, nn

import mase_hw
from tests.unit.oracle import by_fraction
from tests.unit.pipeline import inputs, rule, seeded

Matrix = list[list[int]]


class Layer(nn.Module):
    """Seven inputs, five outputs: no lanes but 1, 7 and 5 divide."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(7, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


def lanes_of(line: str, width: int, lanes: int, signed: bool) -> list[int]:
    """Lane 0 in the low bits; two's complement."""
    assert len(line) == -(-width * lanes // 4), "every line has all its digits"
    bits = f"{int(line, 16):0{width * lanes}b}"
    assert len(bits) == width * lanes, "no bit beyond the last lane"
    numbers = [int(bits[len(bits) - (k + 1) * width : len(bits) - k * width], 2) for k in range(lanes)]
    return [n - 2**width if signed and n >= 2 ** (width - 1) else n for n in numbers]


def decode_weight(text: str, fmt: tuple[int, int, bool], p_in: int, p_out: int) -> Matrix:
    """A beat is a tile of p_out x p_in, lane = output * p_in + input; input tiles first, then output tiles."""
    weight = [[0] * 7 for _ in range(5)]
    in_tiles, out_tiles = -(-7 // p_in), -(-5 // p_out)
    lines = text.splitlines()
    assert len(lines) == in_tiles * out_tiles
    for k, line in enumerate(lines):
        for lane, value in enumerate(lanes_of(line, fmt[0], p_in * p_out, fmt[2])):
            i, o = k % in_tiles * p_in + lane % p_in, k // in_tiles * p_out + lane // p_in
            if i < 7 and o < 5:
                weight[o][i] = value
            else:
                assert value == 0, "pad lanes are 0"
    return weight


def decode_rows(text: str, fmt: tuple[int, int, bool], rows: int, size: int, lanes: int) -> Matrix:
    """Row-major, innermost dimension first; the last beat of a row is filled with zeros."""
    lines, beats = text.splitlines(), -(-size // lanes)
    assert len(lines) == rows * beats
    found = []
    for row in range(rows):
        flat = [v for line in lines[row * beats : (row + 1) * beats] for v in lanes_of(line, fmt[0], lanes, fmt[2])]
        assert not any(flat[size:]), "pad lanes are 0"
        found.append(flat[:size])
    return found


def mantissas(values: Any, fmt: tuple[int, int, bool]) -> Any:
    if isinstance(values, list):
        return [mantissas(v, fmt) for v in values]
    return by_fraction(Fraction(values), fmt, "HALF_EVEN", "SATURATE")


def emit(tmp_path: Path, formats: dict[str, tuple[int, int, bool]], p_in: int, p_out: int) -> mase_hw.Design:
    keys: dict[str, Any] = {}
    for name, (width, frac, signed) in formats.items():
        keys |= {f"{name}_width": width, f"{name}_frac_width": frac, f"{name}_signed": signed}
    config = {
        "quantize": {"default": rule(**keys)},
        "hardware": {"parallelism": {"fc": {"data_in_0": p_in, "data_out_0": p_out}}},
    }
    return mase_hw.compile(seeded(Layer), inputs(2, 7), config, out=tmp_path / "b", vectors=inputs(6, 7, seed=5))


S8 = {"data_in": (8, 4, True), "weight": (8, 8, True), "bias": (8, 7, True), "data_out": (8, 5, True)}
ODD = {"data_in": (5, 1, True), "weight": (3, 3, False), "bias": (13, 12, True), "data_out": (11, 6, True)}


@pytest.mark.parametrize("formats", [S8, ODD], ids=["s8", "odd"])
@pytest.mark.parametrize(("p_in", "p_out"), [(1, 1), (7, 5), (2, 3), (3, 2), (7, 1), (1, 5), (4, 4)])
def test_files(tmp_path: Path, formats: dict[str, tuple[int, int, bool]], p_in: int, p_out: int) -> None:
    design, model = emit(tmp_path, formats, p_in, p_out), seeded(Layer)
    weight = (design.path / "mem/fc_weight.mem").read_text()
    assert decode_weight(weight, formats["weight"], p_in, p_out) == mantissas(
        model.fc.weight.tolist(), formats["weight"]
    )
    bias = (design.path / "mem/fc_bias.mem").read_text()
    assert decode_rows(bias, formats["bias"], 1, 5, p_out) == [mantissas(model.fc.bias.tolist(), formats["bias"])]
    entries = {m["file"]: m for m in design.manifest["memories"]}
    for name, text in (("weight", weight), ("bias", bias)):
        entry = entries[f"mem/fc_{name}.mem"]
        assert entry["words"] == len(text.splitlines()) and entry["instance"] == f"u_fc_{name}"
        assert entry["bits"] == formats[name][0] * (p_out * p_in if name == "weight" else p_out)


@pytest.mark.parametrize("formats", [S8, ODD], ids=["s8", "odd"])
def test_vectors(tmp_path: Path, formats: dict[str, tuple[int, int, bool]]) -> None:
    """Three frames of two rows; the results are those of Python integers."""
    design, model, x = emit(tmp_path, formats, 3, 2), seeded(Layer), inputs(6, 7, seed=5)
    entry = design.manifest["vectors"]
    assert (entry["frames"], entry["sources"]) == (3, {"given": 3})
    assert entry["files"] == {"data_in_0": "vectors/data_in_0.mem", "data_out_0": "vectors/data_out_0.mem"}
    stimulus = decode_rows((design.path / "vectors/data_in_0.mem").read_text(), formats["data_in"], 6, 7, 3)
    assert stimulus == mantissas(x.tolist(), formats["data_in"])
    w, b = (mantissas(getattr(model.fc, n).tolist(), formats[n]) for n in ("weight", "bias"))
    product_frac = formats["data_in"][1] + formats["weight"][1]
    expected = []
    for row in stimulus:
        sums = [Fraction(sum(p * q for p, q in zip(row, column, strict=True)), 2**product_frac) for column in w]
        exact = [s + Fraction(bias, 2 ** formats["bias"][1]) for s, bias in zip(sums, b, strict=True)]
        expected.append([by_fraction(v, formats["data_out"], "HALF_EVEN", "SATURATE") for v in exact])
    assert decode_rows((design.path / "vectors/data_out_0.mem").read_text(), formats["data_out"], 6, 5, 2) == expected
