"""Every bit of a port has a pad and a pin, and the design between the pads is as it was; netlists written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from mase_hw.synth.pads import Pads
from mase_hw.synth.place import ROUTERS

NEXUS = ROUTERS["nexus"].pads
PINS = tuple(f"P{number}" for number in range(9))


def netlist() -> dict[str, Any]:
    """An inverter of two bits, one of whose inputs goes to an output as well, and a constant output."""
    ports = {
        "clk": {"direction": "input", "bits": [2]},
        "a": {"direction": "input", "bits": [3, 4]},
        "y": {"direction": "output", "bits": [5, 6, 3, "0"]},
    }
    cells = {
        f"inv{bit}": {"type": "INV", "parameters": {}, "connections": {"A": [3 + bit], "Z": [5 + bit]}}
        for bit in range(2)
    }
    cells["ccu"] = {"type": "CCU2", "parameters": {"INIT0": "0xFFFF"}, "connections": {"CIN": [3], "COUT": [7]}}
    cells["other"] = {"type": "CCU2", "parameters": {"INIT0": "0x96AA"}, "connections": {"CIN": [7]}}
    return {"modules": {"top": {"ports": ports, "cells": cells, "netnames": {"n": {"bits": [8]}}}}}


def test_every_bit_of_a_port_has_a_buffer_of_its_own_net() -> None:
    assert NEXUS is not None
    design, before = netlist(), netlist()["modules"]["top"]
    NEXUS.add(design, "top")
    top = design["modules"]["top"]
    for port, entry in before["ports"].items():
        for place, inner in enumerate(entry["bits"]):
            name = port if len(entry["bits"]) == 1 else f"{port}[{place}]"
            pad, outer = top["cells"][f"pad_{name}"], top["ports"][port]["bits"][place]
            into = entry["direction"] == "input"
            assert pad["type"] == ("IB" if into else "OB")
            assert pad["connections"] == ({"I": [outer], "O": [inner]} if into else {"O": [outer], "I": [inner]})
            assert pad["port_directions"] == {"I": "input", "O": "output"}
    outside = [bit for entry in top["ports"].values() for bit in entry["bits"]]
    assert len(set(outside)) == len(outside) == 7 and min(outside) == 9, "no net of the design, and none twice"
    assert {name: cell for name, cell in top["cells"].items() if name.startswith("inv")} == {
        name: cell for name, cell in before["cells"].items() if name.startswith("inv")
    }


def test_the_carry_that_is_not_read_is_open() -> None:
    assert NEXUS is not None
    design = netlist()
    NEXUS.add(design, "top")
    cells = design["modules"]["top"]["cells"]
    assert "CIN" not in cells["ccu"]["connections"] and cells["other"]["connections"]["CIN"] == [7]


def test_constraints_name_every_bit_once() -> None:
    assert NEXUS is not None
    said = NEXUS.constraints(netlist(), "top", PINS).splitlines()
    names = ["clk", "a[0]", "a[1]", "y[0]", "y[1]", "y[2]", "y[3]"]
    assert said == [
        f"ldc_set_location -site {{{pin}}} [get_ports {{{name}}}]" for name, pin in zip(names, PINS, strict=False)
    ]
    with pytest.raises(ValueError, match="shorter"):
        NEXUS.constraints(netlist(), "top", PINS[:6])


def test_a_nextpnr_that_makes_pads_is_left_to_it() -> None:
    design = netlist()
    Pads(None, ("--vopt", "cst={file}"), "cst", "IO_LOC {port} {pin};").add(design, "top")
    assert design == netlist()


def test_the_clock_has_a_buffer_behind_its_pad() -> None:
    pads = ROUTERS["gatemate"].pads
    assert pads is not None
    design = netlist()
    pads.add(design, "top")
    top = design["modules"]["top"]
    pad, buffer = (top["cells"][f"{name}_clk"]["connections"] for name in ("pad", "buffer"))
    assert (pad["I"], pad["Y"], buffer["O"]) == (top["ports"]["clk"]["bits"], buffer["I"], [2])
    nets = {net for cell in top["cells"].values() for nets in cell["connections"].values() for net in nets}
    assert len(nets - {"0"}) == 8 + 7 - 1, "those of the design but one, of seven pads, and of the buffer"
    assert [name for name in top["cells"] if name.startswith("buffer")] == ["buffer_clk"]
    assert top["cells"]["pad_y[3]"]["type"] == "CC_OBUF" and top["cells"]["pad_a[0]"]["type"] == "CC_IBUF"


def test_pins_of_packages_are_different_ones() -> None:
    for router in ROUTERS.values():
        for part in router.parts.values():
            assert isinstance(part.pins, int) == (router.pads is None or not router.pads.line)
            assert part.room == (part.pins if isinstance(part.pins, int) else len(set(part.pins)))
