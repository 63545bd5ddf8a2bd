"""The energy of a choice by the estimates: its three terms, and the order of designs whose netlists were measured."""

from __future__ import annotations

import functools
import itertools

import torch
from torch import nn

from mase_hw.compiler.config import load_config
from mase_hw.compiler.quantised_graph import quantised_graph
from mase_hw.emit.estimate import Part, estimate
from mase_hw.emit.passes import bundle_of, emit_verilog_top_transform_pass
from mase_hw.fit.energy import CLOCKED, MULTIPLIED, WORKING, energy
from mase_hw.hardware.manifest import Manifest
from mase_hw.passes import add_hardware_metadata_analysis_pass
from mase_hw.preflight.fit import fit

MEASURED = {
    (4, 4, 8): 107_555,
    (4, 4, 4): 82_601,
    (2, 2, 8): 164_330,
    (4, 1, 8): 184_975,
    (1, 4, 8): 227_857,
    (1, 1, 8): 348_333,
}
"""Units of a frame on xc7 by the lanes of input and output of both layers, and the bits: ``docs/power.md``."""


@functools.cache
def manifest(into: int, out: int, bits: int) -> Manifest:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 10)).eval()
    config = {"name": "fixed", "data_in_width": bits, "weight_width": bits, "data_out_width": bits}
    lanes = {"data_in_0": into, "data_out_0": out}
    settings = load_config(
        {
            "quantize": {"default": {"config": config}},
            "hardware": {"family": "xc7", "parallelism": {"0": lanes, "2": lanes}},
        }
    )
    data = torch.rand(64, 16)
    graph = quantised_graph(model, data[:1], settings, [data], None, lambda _: None)
    add_hardware_metadata_analysis_pass(graph, settings.hardware)
    emit_verilog_top_transform_pass(graph, {"steady": False})
    return bundle_of(graph).record


def test_designs_are_in_the_order_of_what_was_measured() -> None:
    found = {key: energy(manifest(*key)) for key in MEASURED}
    for one, other in itertools.combinations(MEASURED, 2):
        assert (found[one] < found[other]) == (MEASURED[one] < MEASURED[other]), (one, other)


def test_the_three_terms() -> None:
    made = manifest(4, 1, 8)
    first = next(each for each in made.instances if each.work == 16 * 24)
    assert first.timing is not None and first.timing.interval == made.timing.interval == 96
    # All that is not the second layer's, or a memory of it, works in all of the 96 cycles; that one in 60.
    last = {each.name for each in made.instances if each.node in ("2", "_2")}
    luts = {
        each.name: estimate(Part([each], [m for m in made.memories if m.instance == each.name]))["lut"]
        for each in made.instances
    }
    assert last < set(luts)
    slow = sum(lut for name, lut in luts.items() if name not in last)
    fast = sum(lut for name, lut in luts.items() if name in last)
    least = CLOCKED * estimate(made)["ff"] * 96 + MULTIPLIED * (16 * 24 + 24 * 10)
    assert least < energy(made) <= least + WORKING * 96 * (slow + fast)
    assert energy(made) >= least + WORKING * 60 * fast


def test_fit_says_it() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    found = fit(model, torch.rand(1, 8), target={"interval": 64})
    assert found.to_json()["energy"] == energy(found.choice.manifest, "xc7")
    assert "units of energy per frame, roughly and relative" in found.text()
