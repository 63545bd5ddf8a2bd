"""The capacities of Lattice devices are those that nextpnr has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mase_hw.cost.devices import DEVICES, DSP_KINDS, available, device_of
from mase_hw.errors import ConfigError
from mase_hw.hardware.memories import FAMILIES
from mase_hw.host.toolchain import find
from mase_hw.synth.place import ROUTERS
from mase_hw.synth.tools import run_nextpnr

EMPTY = {"modules": {"top": {"attributes": {"top": "1"}, "ports": {}, "cells": {}, "netnames": {}}}}


COLUMNS = {
    "ecp5": ("TRELLIS_COMB", "TRELLIS_FF", "MULT18X18D", "DP16KD"),
    "nexus": ("OXIDE_COMB", "OXIDE_FF", "MULT9_CORE", "OXIDE_EBR"),
    "ice40": ("ICESTORM_LC", "ICESTORM_LC", "ICESTORM_DSP", "ICESTORM_RAM"),
    "gowin": ("LUT4", "DFF", "MULT9X9", "BSRAM"),
    "gatemate": ("CPE_LT", "CPE_FF", "", "RAM_HALF"),
}
"""What nextpnr calls look-up tables, flip-flops, multiplier blocks, if there are any, and block RAMs."""
PLACED = [(target, part) for target in COLUMNS for part in ROUTERS[target].parts]


def printed(target: str, part: str, folder: Path) -> dict[str, int]:
    """How many of each cell nextpnr says that there are."""
    router = ROUTERS[target]
    if find(router.program).problem:
        pytest.skip(f"{router.program} is not installed: mase-hw[families]")
    (folder / "empty.json").write_text(json.dumps(EMPTY), encoding="utf-8")
    arguments = [*router.parts[part].options, *router.options, "--json", "empty.json", "--pack-only"]
    log = run_nextpnr(router.program, arguments, folder, "nextpnr.log", lambda _: None)
    return {kind: int(number) for kind, number in re.findall(r"(\w+): +\d+/ *(\d+) ", log)}


@pytest.mark.slow
@pytest.mark.parametrize(("target", "part"), PLACED)
def test_lattice_devices_have_what_nextpnr_counts(target: str, part: str, tmp_path: Path) -> None:
    """And the one of Cologne Chip."""
    has = {**printed(target, part, tmp_path), "": 0}
    capacity = dict(zip(("lut", "ff", "dsp", "bram"), (has[kind] for kind in COLUMNS[target]), strict=True))
    assert capacity == DEVICES[part].capacity()


def test_every_device_is_complete_and_says_where_it_is_from() -> None:
    for name, device in DEVICES.items():
        assert name == device.name == name.lower() and device.source
        assert device.target in FAMILIES and device.target in DSP_KINDS
        assert min(number for name, number in device.capacity().items() if name != "dsp") > 0
        assert (device.dsp > 0) == (DSP_KINDS[device.target] != "none")
        # Two flip-flops for each look-up table of AMD, one for each of Lattice, three for four of Gowin.
        each = {"xc7": 2, "xcup": 2, "gowin": 3 / 4}
        assert device.ff == device.lut * each.get(device.target, 1)


def test_budgets_of_a_device_and_of_numbers() -> None:
    assert available("XC7Z020", {"dsp": 100, "lut": None}) == (
        {"lut": 53_200, "ff": 106_400, "dsp": 100, "bram": 280},
        18_432,
    )
    assert available(None, {"dsp": 3})[0] == {"dsp": 3}
    with pytest.raises(ConfigError, match="did you mean 'xc7z020'"):
        device_of("xc7z02")
    with pytest.raises(ConfigError, match="unknown resource"):
        available(None, {"bramm": 1})
    with pytest.raises(ConfigError, match="cannot be negative"):
        available("xc7z020", {"lut": -1})
