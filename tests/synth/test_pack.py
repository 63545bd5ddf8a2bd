"""Registers move into ECP5 multipliers only where that changes nothing; the netlists are written by hand."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mase_hw.emit.pack_ecp5 import pack

CLK, OTHER_CLK, RESET, ENABLE = 2, 3, 4, 5
WIDTH = 3
D_A, Q_A, D_B, Q_B, P, Q_P = 10, 20, 30, 40, 50, 60
MULTIPLIER = {"multipliers": 1, "operands": 2, "products": 1, "memories": 0, "outputs": 0, "flipflops": 12}


def flipflop(d: int, q: int, clk: int = CLK, **pins: int) -> dict[str, Any]:
    """As Yosys writes it: a string of digits with a space behind it."""
    parameters = {"CEMUX": "CE" if "CE" in pins else "1 ", "LSRMUX": "LSR", "CLKMUX": "CLK"}
    connections = {"CLK": [clk], "DI": [d], "Q": [q], "LSR": ["0"], **{pin: [bit] for pin, bit in pins.items()}}
    directions = {pin: "output" if pin == "Q" else "input" for pin in connections}
    return {
        "type": "TRELLIS_FF",
        "parameters": parameters,
        "port_directions": directions,
        "connections": connections,
    }


def netlist() -> dict[str, Any]:
    """Three bits by three bits, signed: the top bit of an operand on all pins above."""
    cells: dict[str, Any] = {}
    pins: dict[str, list[Any]] = {}
    for side, d, q in (("A", D_A, Q_A), ("B", D_B, Q_B)):
        for i in range(WIDTH):
            cells[f"{side.lower()}{i}"] = flipflop(d + i, q + i)
        pins |= {f"{side}{i}": [q + min(i, WIDTH - 1)] for i in range(18)}
    pins |= {f"P{i}": [P + i if i < 6 else 100 + i] for i in range(36)}
    for i in range(6):
        cells[f"p{i}"] = flipflop(P + i, Q_P + i)
    directions = {pin: "output" if pin[0] == "P" else "input" for pin in pins}
    cells["mult"] = {"type": "MULT18X18D", "parameters": {}, "port_directions": directions, "connections": pins}
    ports = {
        "clk": {"direction": "input", "bits": [CLK]},
        "a": {"direction": "input", "bits": [D_A + i for i in range(WIDTH)]},
        "b": {"direction": "input", "bits": [D_B + i for i in range(WIDTH)]},
        "p": {"direction": "output", "bits": [Q_P + i for i in range(6)]},
    }
    return {"modules": {"m": {"ports": ports, "cells": cells}}}


def test_all_registers_move() -> None:
    design = netlist()
    assert pack(design) == MULTIPLIER
    cells = design["modules"]["m"]["cells"]
    assert list(cells) == ["mult"]
    pins, modes = cells["mult"]["connections"], cells["mult"]["parameters"]
    assert [pins[f"A{i}"] for i in range(18)] == [[D_A], [D_A + 1]] + [[D_A + 2]] * 16
    assert [pins[f"P{i}"] for i in range(6)] == [[Q_P + i] for i in range(6)]
    assert (pins["CLK0"], pins["CE0"], pins["RST0"]) == ([CLK], ["1"], ["0"])
    assert {modes[f"REG_{what}_CLK"] for what in ("INPUTA", "INPUTB", "OUTPUT")} == {"CLK0"}


def test_a_shared_operand_keeps_its_register() -> None:
    design = netlist()
    design["modules"]["m"]["ports"]["copy"] = {"direction": "output", "bits": [Q_A]}
    assert pack(design)["operands"] == 2
    assert "a0" in design["modules"]["m"]["cells"], "another cell reads it"
    assert "a1" not in design["modules"]["m"]["cells"]


SPOILT = {
    "reset": ("a1", {"LSR": [RESET]}, (1, 1)),
    "enable": ("b0", {"CE": [ENABLE]}, (1, 1)),
    "clock_of_a_bit": ("a0", {"CLK": [OTHER_CLK]}, (1, 1)),
    "reset_of_the_product": ("p5", {"LSR": [RESET]}, (2, 0)),
    "clock_of_the_product": ("p5", {"CLK": [OTHER_CLK]}, (2, 0)),
}


@pytest.mark.parametrize("what", SPOILT)
def test_what_is_not_plain_stays(what: str) -> None:
    name, pins, (operands, products) = SPOILT[what]
    design = netlist()
    cell = design["modules"]["m"]["cells"][name]
    cell["connections"] |= pins
    cell["port_directions"] |= dict.fromkeys(pins, "input")
    cell["parameters"]["CEMUX"] = "CE" if "CE" in pins else "1"
    found = pack(design)
    assert (found["operands"], found["products"]) == (operands, products)
    assert name in design["modules"]["m"]["cells"]


def test_a_product_that_is_read_elsewhere_stays() -> None:
    design = netlist()
    design["modules"]["m"]["cells"]["spy"] = flipflop(P + 3, 90)
    assert pack(design)["products"] == 0


def test_an_operand_without_a_register_stays() -> None:
    design = netlist()
    cells = design["modules"]["m"]["cells"]
    del cells["a2"]
    before = copy.deepcopy({pin: bits for pin, bits in cells["mult"]["connections"].items() if pin[0] == "A"})
    found = pack(design)
    assert found["operands"] == 1
    assert {pin: bits for pin, bits in cells["mult"]["connections"].items() if pin[0] == "A"} == before


DO, Q_DO = 200, 300


def memory(width: int, **pins: int) -> dict[str, Any]:
    """A block RAM of one word, and an enabled flip-flop behind each bit: at port A, or at both."""
    used = [f"DO{'A' if i < 18 else 'B'}{i % 18}" for i in range(width)]
    connections: dict[str, list[Any]] = {pin: [DO + i] for i, pin in enumerate(used)}
    for side in "AB":
        connections |= {f"CLK{side}": [CLK], f"OCE{side}": ["1"], f"RST{side}": ["0"]}
    wide = format(36 if width > 18 else 18, "032b")
    parameters = {"DATA_WIDTH_A": wide, "DATA_WIDTH_B": wide, "REGMODE_A": "NOREG", "REGMODE_B": "NOREG"}
    parameters |= {"RESETMODE": "ASYNC", "CLKAMUX": "CLKA", "CLKBMUX": "CLKB"}
    directions = {pin: "output" if pin.startswith("DO") else "input" for pin in connections}
    ram = {"type": "DP16KD", "parameters": parameters, "port_directions": directions, "connections": connections}
    cells = {"ram": ram, **{f"q{i}": flipflop(DO + i, Q_DO + i, CE=ENABLE, **pins) for i in range(width)}}
    ports = {"q": {"direction": "output", "bits": [Q_DO + i for i in range(width)]}}
    return {"modules": {"m": {"ports": ports, "cells": cells}}}


@pytest.mark.parametrize(("width", "sides"), [(9, "A"), (20, "AB")])
def test_registers_behind_a_block_ram_move(width: int, sides: str) -> None:
    design = memory(width)
    found = pack(design)
    assert (found["memories"], found["outputs"], found["flipflops"]) == (1, 1, width)
    cells = design["modules"]["m"]["cells"]
    assert list(cells) == ["ram"]
    pins, modes = cells["ram"]["connections"], cells["ram"]["parameters"]
    assert [bit for pin, bit in pins.items() if pin.startswith("DO")] == [[Q_DO + i] for i in range(width)]
    assert {side for side in "AB" if modes[f"REGMODE_{side}"] == "OUTREG"} == set(sides)
    assert {side for side in "AB" if pins[f"OCE{side}"] == [ENABLE]} == set(sides)


STAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "reset": ("q1", {"LSR": [RESET]}),
    "other_enable": ("q1", {"CE": [RESET]}),
    "other_clock": ("q1", {"CLK": [OTHER_CLK]}),
    "clock_of_the_block": ("ram", {"CLKB": [OTHER_CLK]}),
    "reset_of_the_block": ("ram", {"RSTB": [RESET]}),
}


@pytest.mark.parametrize("what", STAYS)
def test_registers_behind_a_block_ram_stay(what: str) -> None:
    name, pins = STAYS[what]
    design = memory(20)
    cells = design["modules"]["m"]["cells"]
    cells[name]["connections"] |= pins
    before = copy.deepcopy(cells)
    assert pack(design)["outputs"] == 0
    assert cells == before


def test_an_output_that_is_read_at_once_stays() -> None:
    design = memory(9)
    design["modules"]["m"]["ports"]["spy"] = {"direction": "output", "bits": [DO + 3]}
    assert pack(design)["outputs"] == 0
