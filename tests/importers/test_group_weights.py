"""Weights of GPTQ, AWQ and torchao: packed here by the tools' own rules, in plain Python, and found again exactly."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.errors import ConfigError
from mase_hw.importers import load_group_weights
from tests.unit.pipeline import EIGHT

Integers = list[list[int]]


def words(rows: Integers, bits: int, order: list[int]) -> Tensor:
    """Rows of integers in words of 32 bits: the integer of place ``order[k]`` lies ``k`` fields up."""
    if bits == 3:
        packed = [of_three(row) for row in rows]
    else:
        count = 32 // bits
        packed = [
            [sum(row[at + place] << (bits * k) for k, place in enumerate(order)) for at in range(0, len(row), count)]
            for row in rows
        ]
    return torch.from_numpy(np.array(packed, dtype=np.uint32).view(np.int32))


def of_three(row: list[int]) -> list[int]:
    """Three words for 32 integers, of which the 11th and the 22nd lie in two words each, as the tool's loop has it."""
    found = []
    for at in range(0, len(row), 32):
        q = row[at : at + 32]
        found += [
            sum(q[k] << (3 * k) for k in range(10)) | (q[10] & 3) << 30,
            q[10] >> 2 | sum(q[11 + k] << (3 * k + 1) for k in range(10)) | (q[21] & 1) << 31,
            q[21] >> 1 | sum(q[22 + k] << (3 * k + 2) for k in range(10)),
        ]
    return found


def turned(rows: Integers) -> Integers:
    return [list(column) for column in zip(*rows, strict=True)]


class Packed:
    """A layer of random integers, zero points and half-precision scales, and its tensors in a file."""

    def __init__(
        self, outputs: int, inputs: int, group: int, layout: str, bits: int = 4, seed: int = 0, mixed: bool = False
    ) -> None:
        numbers, most, groups = random.Random(seed), (1 << bits) - 1, -(-inputs // group)
        self.codes = [[numbers.randint(0, most) for _ in range(inputs)] for _ in range(outputs)]
        self.zeros = [[numbers.randint(layout == "gptq", most) for _ in range(groups)] for _ in range(outputs)]
        self.scales = torch.tensor(
            [[numbers.uniform(0.002, 0.03) for _ in range(groups)] for _ in range(outputs)], dtype=torch.float16
        )
        rule = list(range(32 // bits))
        less = [[z - (layout == "gptq") for z in row] for row in self.zeros]
        if layout == "awq":
            rule = [0, 2, 4, 6, 1, 3, 5, 7]
            weight = words(turned(self.codes), bits, rule)
        else:
            weight = words(self.codes, bits, rule).T.contiguous()
        self.tensors = {"qweight": weight, "qzeros": words(turned(less), bits, rule), "scales": self.scales.T}
        self.of = [i // group for i in range(inputs)]
        if mixed:
            numbers.shuffle(self.of)
            self.tensors["g_idx"] = torch.tensor(self.of, dtype=torch.int32)

    def values(self) -> list[list[Fraction]]:
        scales = [[Fraction(float(s)) for s in row] for row in self.scales]
        return [
            [(q - self.zeros[o][self.of[i]]) * scales[o][self.of[i]] for i, q in enumerate(row)]
            for o, row in enumerate(self.codes)
        ]


def named(**layers: Packed) -> dict[str, Tensor]:
    return {f"{name}.{part}": value for name, of in layers.items() for part, value in of.tensors.items()}


@pytest.mark.parametrize("layout", ["gptq", "gptq_v2", "awq"])
@pytest.mark.parametrize(("group", "inputs"), [(32, 128), (64, 64), (128, 256)])
def test_what_is_packed_is_found(layout: str, group: int, inputs: int) -> None:
    of = Packed(16, inputs, group, layout, seed=group)
    model = nn.Sequential(nn.Linear(inputs, 16))
    tensors = named(**{"0": of})
    tensors["0.bias"] = torch.arange(16, dtype=torch.float16)
    tensors["0.g_idx"] = torch.arange(inputs, dtype=torch.int32) // group
    rules = load_group_weights(model, tensors, layout)
    assert model[0].weight.tolist() == [[float(v) for v in row] for row in of.values()]
    assert [[Fraction(v) for v in row] for row in model[0].weight.tolist()] == of.values()
    assert model[0].bias.tolist() == list(range(16))
    assert rules == {"overrides": {"_0": {"config": {
        "name": "groups", "weight_width": 5, "weight_block_size": group}}}}  # fmt: skip


@pytest.mark.parametrize("bits", [2, 3, 8])
def test_other_widths_of_gptq(bits: int) -> None:
    of, model = Packed(32, 64, 32, "gptq", bits, seed=bits), nn.Sequential(nn.Linear(64, 32))
    rules = load_group_weights(model, named(**{"0": of}))
    assert [[Fraction(v) for v in row] for row in model[0].weight.tolist()] == of.values()
    assert rules["overrides"]["_0"]["config"]["weight_width"] == bits + 1


def test_weights_of_torchao() -> None:
    of, model = Packed(8, 64, 32, "gptq_v2"), nn.Sequential(nn.Linear(64, 8))
    given = SimpleNamespace(
        qdata=torch.tensor(of.codes, dtype=torch.int8),
        zero_point=torch.tensor(of.zeros, dtype=torch.int8),
        scale=of.scales.float(),
        block_size=(1, 32),
    )
    del model[0].weight
    model[0].__dict__["weight"] = given
    rules = load_group_weights(model, layout="torchao")
    assert [[Fraction(v) for v in row] for row in model[0].weight.tolist()] == of.values()
    assert rules["overrides"]["_0"]["config"]["weight_block_size"] == 32


def test_scales_of_float32_leave_products_exact() -> None:
    of, model = Packed(8, 64, 32, "gptq"), nn.Sequential(nn.Linear(64, 8))
    fine = of.scales.float() * (1 + 2.0**-22)
    load_group_weights(model, named(**{"0": of}) | {"0.scales": fine.T})
    weight = model[0].weight.double()
    scales = weight[:, ::32] / (torch.tensor(of.codes) - torch.tensor(of.zeros).repeat_interleave(32, 1))[:, ::32]
    there = scales.isfinite()
    assert bool(((scales / fine - 1).abs() <= 2.0**-20)[there].all())


@pytest.mark.parametrize(
    ("change", "layout", "what"),
    [
        ({"0.g_idx": torch.arange(64) // 33}, "gptq", "other sizes"),
        ({"0.g_idx": torch.arange(32) // 32}, "gptq", "other sizes"),
        ({"0.qweight": torch.zeros(7, 8, dtype=torch.int32)}, "gptq", "qweight"),
        ({"0.scales": torch.zeros(2, 9)}, "gptq", "scales"),
        ({"1.qweight": torch.zeros(8, 8)}, "gptq", "no linear layer"),
        ({}, "awq", "qweight"),
        ({}, "marlin", "no such layout"),
        ({}, "torchao", "no weights in groups"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Tensor], layout: Any, what: str) -> None:
    tensors = named(**{"0": Packed(8, 64, 32, "gptq")}) | change
    with pytest.raises(ConfigError, match=what):
        load_group_weights(nn.Sequential(nn.Linear(64, 8)), tensors, layout)
    del tensors["0.qzeros"]
    with pytest.raises(ConfigError):
        load_group_weights(nn.Sequential(nn.Linear(64, 8)), tensors, layout)


def test_groups_that_are_no_runs_of_inputs(tmp_path: Path) -> None:
    """The weights by input are those of the file, and every bit of the simulation is that of the graph."""
    torch.manual_seed(3)
    of, x = Packed(16, 64, 16, "gptq", seed=4, mixed=True), torch.randn(12, 64)
    model = nn.Sequential(nn.Linear(64, 16), nn.ReLU())
    rules = load_group_weights(model, named(**{"0": of}))
    bias = model[0].linear.bias.detach().clone()
    model[0].linear.bias.data.zero_()
    by_input = model[0](torch.eye(64)).T.tolist()
    assert [[Fraction(v) for v in row] for row in by_input] == of.values()
    model[0].linear.bias.data.copy_(bias)
    config = {"quantize": {**EIGHT, **rules}}
    design = mase_hw.compile(model, x[:1], config, out=tmp_path / "net", calibration=[x], vectors=x)
    assert design.simulate(engine="batch", stalls=0.4).passed


@pytest.mark.parametrize("layout", ["gptq", "awq"])
def test_in_hardware(layout: Any, tmp_path: Path) -> None:
    """Two layers of a checkpoint: every bit of the simulation, and of the exact weights in the graph."""
    torch.manual_seed(2)
    first, second = Packed(32, 64, 32, layout, seed=1), Packed(8, 32, 32, layout, seed=2)
    model, x = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8)), torch.randn(12, 64)
    rules = load_group_weights(model, named(**{"0": first, "2": second}), layout)
    config = {"quantize": {**EIGHT, **rules}}
    config["hardware"] = {"parallelism": {"_0": {"data_in_0": 8, "data_out_0": 4}}}
    design = mase_hw.compile(model, x[:1], config, out=tmp_path / "net", calibration=[x], vectors=x)
    for name, of in (("0", first), ("2", second)):
        module = design.graph.modules[name]
        fmt, factors = module.arithmetic.formats["weight"], module.get_buffer("weight_shift").tolist()
        held = [
            [int(m) * factors[o][i // 32] * Fraction(2) ** -fmt.frac_width for i, m in enumerate(row)]
            for o, row in enumerate(module.mantissa("weight").tolist())
        ]
        assert held == of.values()
    for stalls in (0.0, 0.4):
        assert design.simulate(engine="batch", stalls=stalls).passed
