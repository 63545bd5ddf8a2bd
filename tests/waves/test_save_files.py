"""Save files of GTKWave and Surfer: read by parsers of their formats, and held against the waves themselves."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.design.design import Design
from mase_hw.simulate.waves import Mark, Shown, gtkwave, letters, listed, surfer

FST2VCD = shutil.which("fst2vcd")
needs_fst2vcd = pytest.mark.skipif(FST2VCD is None, reason="there is no fst2vcd (apt-get install gtkwave)")

# As in GTKWave's analyzer.h.
FLAGS = {2: "dec", 3: "bin", 5: "right", 9: "blank", 10: "signed", 23: "begin", 24: "end", 30: "shift"}


@dataclass
class Trace:
    """A signal of a save file of GTKWave."""

    name: str
    flags: set[str]
    groups: tuple[str, ...]
    shift: int | None


@dataclass
class Saved:
    """A save file of GTKWave, read line by line as its ``parsewavline`` does."""

    dump: str = ""
    marker: int = -1
    named: dict[str, int] = field(default_factory=dict)
    traces: list[Trace] = field(default_factory=list)


def read_gtkw(text: str) -> Saved:
    found, flags, groups, shift = Saved(), set[str](), list[str](), None
    times: list[int] = []
    for line in text.splitlines():
        if line.startswith("[*]"):
            continue
        if line.startswith("[dumpfile]"):
            found.dump = line.split('"')[1]
        elif line.startswith("*"):
            zoom, primary, *rest = line[1:].split()
            float(zoom)
            assert len(rest) == 26
            found.marker, times = int(primary), [int(each) for each in rest]
        elif line.startswith("[markername] "):
            letter = line.split()[1][0]
            found.named[line.split()[1][1:]] = times[ord(letter) - ord("A")]
        elif line.startswith("[fpshift_count] "):
            shift = int(line.split()[1])
            assert 0 < shift < 256 and "shift" in flags
        elif line.startswith("@"):
            bits = int(line[1:], 16)
            flags = {FLAGS[bit] for bit in range(40) if bits >> bit & 1}
        elif line.startswith("-"):
            assert "blank" in flags
            if "begin" in flags:
                groups.append(line[1:])
            else:
                assert "end" in flags and groups.pop() == line[1:]
        else:
            assert not line.startswith("["), line
            found.traces.append(Trace(line, set(flags), tuple(groups), shift))
            shift = None
    assert not groups
    return found


def read_sucl(text: str) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Items of Surfer as (name, format), dividers without a format; and cursor and markers."""
    items: list[tuple[str, str]] = []
    times: dict[str, int] = {}
    focus: int | None = None
    for line in text.splitlines():
        command, _, rest = line.split("#")[0].strip().partition(" ")
        assert ";" not in line
        if command == "variable_add":
            assert focus is None, "it would stand behind the item in focus"
            items.append((rest, ""))
        elif command == "divider_add":
            assert rest and " " not in rest and focus is None
            items.append((f"-{rest}", "-"))
        elif command == "item_focus":
            digits = rest.partition("_")[0]
            focus = int("".join("0123456789abcdef"["abcdefghijklmnop".index(letter)] for letter in digits), 16)
        elif command == "item_set_format":
            assert focus is not None and rest in ("Signed fixed point", "Unsigned fixed point")
            items[focus] = (items[focus][0], rest)
        elif command == "item_unfocus":
            focus = None
        elif command == "cursor_set":
            times["cursor"] = int(rest)
        elif command == "marker_set":
            name, time = rest.split()
            times[name] = int(time)
        else:
            assert command == "", line
    return items, times


def vcd_of(waves: Path) -> str:
    assert FST2VCD is not None
    return subprocess.run([FST2VCD, "-f", str(waves)], check=True, capture_output=True, text=True).stdout


def hierarchy(vcd: str) -> dict[str, str]:
    """Identifier by path of every signal, with its bits as GTKWave appends them."""
    scopes: list[str] = []
    found: dict[str, str] = {}
    for line in vcd.partition("$enddefinitions")[0].splitlines():
        words = line.split()
        if words[:1] == ["$scope"]:
            scopes.append(words[2])
        elif words[:1] == ["$upscope"]:
            scopes.pop()
        elif words[:1] == ["$var"]:
            found[".".join([*scopes, words[4]]) + "".join(words[5:-1])] = words[3]
    return found


def edges(vcd: str, clock: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Every rising edge, with the values right before it."""
    values: dict[str, str] = {}
    pending: dict[str, str] = {}
    time = 0
    for line in vcd.partition("$enddefinitions $end")[2].splitlines():
        if line.startswith("#"):
            if pending.get(clock) == "1" and values.get(clock) == "0":
                yield time, dict(values)
            values |= pending
            pending, time = {}, int(line[1:])
        elif line.startswith("b"):
            bits, name = line[1:].split()
            pending[name] = bits
        elif line.startswith(("0", "1", "x", "z")):
            pending[line[1:]] = line[0]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 16), nn.Linear(16, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x)))


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Design:
    """A bundle with a wrong weight in its last layer, with ten lanes and more at its output."""
    torch.manual_seed(0)
    data = torch.randn(8, 6)
    config = {"hardware": {"max_parallelism": 12}, "vectors": {"frames": 6}}
    folder = tmp_path_factory.mktemp("waves") / "net"
    mase_hw.compile(Net().eval(), data[:1], config, out=folder, calibration=[data])
    manifest = json.loads((folder / "manifest.json").read_text())
    memory = folder / next(m["file"] for m in manifest["memories"] if "last_bias" in m["file"])
    lines = memory.read_text().splitlines()
    # The highest lane of the last beat: a bit that stands high in its word.
    word = int(lines[-1], 16) ^ (1 << (4 * len(lines[-1]) - 6))
    memory.write_text("\n".join([*lines[:-1], f"{word:0{len(lines[-1])}x}"]) + "\n")
    return Design(folder, verify=False)


@pytest.fixture(scope="module")
def run(broken: Design) -> Any:
    """Failed, with waves."""
    found = broken.simulate(engine="batch", waves=True, check=False)
    assert not found.passed and found.result.waves is not None
    return found.result


@needs_fst2vcd
def test_every_signal_is_in_the_waves(broken: Design, run: Any) -> None:
    there = hierarchy(vcd_of(run.waves))
    saved = read_gtkw(run.waves.with_suffix(".gtkw").read_text())
    assert saved.dump == run.waves.name and len(saved.traces) > 30
    assert {each.name for each in saved.traces} <= there.keys()
    items, _ = read_sucl(run.waves.with_suffix(".sucl").read_text())
    without_bits = {name.partition("[")[0] for name in there}
    assert {name for name, _ in items if not name.startswith("-")} <= without_bits
    nodes = {entry["node"] for entry in broken.manifest["instances"]}
    assert {each.groups[0] for each in saved.traces if each.groups} == {*nodes, "ports"}


@needs_fst2vcd
def test_numbers_are_those_of_the_formats(broken: Design, run: Any) -> None:
    """The shift of GTKWave and the bits that Surfer reads are the fraction width that the manifest says."""
    saved = {each.name: each for each in read_gtkw(run.waves.with_suffix(".gtkw").read_text()).traces}
    items = dict(read_sucl(run.waves.with_suffix(".sucl").read_text())[0])
    looked = 0
    for port in broken.manifest["ports"]:
        fmt = port["format"]
        high, low = fmt["width"] - 1 - fmt["frac_width"], -fmt["frac_width"]
        name = f"top.waves.ports.{port['name']}.lane_0"
        trace = saved[f"{name}[{high}:{low}]"]
        assert trace.shift == fmt["frac_width"] and ("signed" in trace.flags) == fmt["signed"]
        assert items[name] == f"{'Signed' if fmt['signed'] else 'Unsigned'} fixed point"
        looked += 1
    last = next(i for i in broken.manifest["instances"] if i["name"] == "u_last")
    width, frac = (last["parameters"][f"WEIGHT_PRECISION_{i}"] for i in (0, 1))
    trace = saved[f"top.waves.node_last.weight.lane_0[{width - 1 - frac}:{-frac}]"]
    assert trace.shift == frac and trace.groups == ("last", "weight") and looked == 2


@needs_fst2vcd
@pytest.mark.parametrize("engine", ["batch", pytest.param("cocotb", marks=pytest.mark.slow)])
def test_the_marker_is_at_the_first_wrong_beat(broken: Design, run: Any, engine: str) -> None:
    """Found again from the waves and the expected words alone."""
    if engine != "batch":
        run = broken.simulate(engine=engine, check=False).result
    vcd = vcd_of(run.waves)
    names = hierarchy(vcd)
    port = next(p for p in broken.manifest["ports"] if p["direction"] == "out")
    bits = port["bits"]
    data, valid, ready, clock, reset = (
        names[f"top.{each}"]
        for each in (f"data_out_0[{bits - 1}:0]", "data_out_0_valid", "data_out_0_ready", "clk", "rst")
    )
    words = (broken.path / broken.manifest["vectors"]["files"]["data_out_0"]).read_text().split()
    beat, at = 0, None
    for time, values in edges(vcd, clock):
        if values.get(reset) != "0" or values.get(valid) != "1":
            continue
        if int(values[data], 2) != int(words[beat], 16):
            at = time
            break
        beat += values[ready] == "1"
    assert at is not None
    saved = read_gtkw(run.waves.with_suffix(".gtkw").read_text())
    assert saved.marker == at and saved.named == {"first_wrong_beat": at}
    assert read_sucl(run.waves.with_suffix(".sucl").read_text())[1] == {"cursor": at, "first_wrong_beat": at}
    lane = run.first_mismatch.lane
    assert lane >= 8, "the wrong lane is none of the first ones, and it is listed nevertheless"
    assert any(f"data_out_0.lane_{lane}[" in each.name for each in saved.traces)


def test_odd_formats() -> None:
    """One bit, no fraction, a negative one, more fraction than bits; numbers of items beyond sixteen."""
    streams = [
        Shown("a", "bit", "u_a.bit", 1, 1, 3, False),
        Shown("a", "whole", "u_a.whole", 2, 8, 0, True),
        Shown("b", "large", "u_b.large", 1, 4, -3, True),
        Shown("b", "small", "u_b.small", 20, 4, 9, False),
    ]
    saved = read_gtkw(gtkwave("dump.fst", "t.u_dut", streams, Mark(35, "data_out_0", 0)))
    by_name = {each.name: each for each in saved.traces}
    assert by_name["t.u_dut.waves.node_a.bit.lane_0"].shift is None
    assert by_name["t.u_dut.waves.node_a.whole.lane_1[7:0]"].shift is None
    assert by_name["t.u_dut.waves.node_b.large.lane_0[6:3]"].shift is None
    assert by_name["t.u_dut.waves.node_b.small.lane_7[-6:-9]"].shift == 9
    assert len([name for name in by_name if "small.lane" in name]) == 8
    items, times = read_sucl(surfer("t.u_dut", streams, None))
    assert times == {} and all(kind for name, kind in items if "lane_" in name)
    assert [letters(number) for number in (0, 15, 16, 27)] == ["a", "p", "ba", "bl"]
    port = Shown("ports", "data_out_0", "data_out_0", 20, 8, 0, True, "data_out_0")
    assert listed(port, Mark(1, "data_out_0", 17))[-1] == 17 and len(listed(port, Mark(1, "other", 17))) == 8


def test_a_pass_leaves_no_marker(broken: Design, tmp_path: Path) -> None:
    text = gtkwave("dump.fst", "top", [], None)
    assert read_gtkw(text).marker == -1 and read_gtkw(text).named == {}
