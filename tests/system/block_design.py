"""What a script for Vivado does, replayed on a model of block designs and checked against a list of what is known.

The list is ``vivado_known.toml``. Nothing here is Vivado: a call, property, IP, pin, rule or connection that the list
has not is refused, and so is a design in which something is left open, in the wrong clock domain or without addresses.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.handoff.tcl import Command, TclError, run

KNOWN = tomllib.loads(Path(__file__).with_name("vivado_known.toml").read_text(encoding="utf-8"))
FILES = """
set slack 0.125
rename file vivado_file
proc file {args} {
    if {[lindex $args 0] ni {copy mkdir}} { return [uplevel 1 [list vivado_file {*}$args]] }
    record {} file_[lindex $args 0] {*}[lrange $args 1 end]
}
"""
"""What moves files is a stand-in too."""
COMMANDS = {
    name: Command(
        {option: entry["options"][option] for option in entry.get("options", {})},
        *entry.get("arguments", [0, 0]),
        result=entry.get("result", ""),
    )
    for name, entry in KNOWN["commands"].items()
} | {"file_copy": Command({"-force": 0}, 2, 2), "file_mkdir": Command({}, 1, 1)}
NOTHING: dict[str, Any] = {"properties": {}, "pins": {}, "interfaces": {}, "spaces": {}, "segments": {}}
"""Of an IP."""
_ATTRIBUTE = re.compile(r'X_INTERFACE_INFO = "([^ "]+) (\w+) (\w+)"')
LEAST = {
    "xilinx.com:interface:aximm:1.0": {
        *(f"{channel}{part}" for channel in ("AW", "AR", "R", "B", "W") for part in ("VALID", "READY")),
        *("AWADDR", "ARADDR", "WDATA", "RDATA", "BRESP", "RRESP"),
    },
    "xilinx.com:interface:axis:1.0": {"TDATA", "TVALID", "TREADY", "TLAST"},
}
"""Signals that an interface has at least."""
_SIGNALS = {"clock:1.0": "clock in", "reset:1.0": "reset_n in", "interrupt:1.0": "interrupt out"}


class Refused(Exception):
    """What Vivado would, or might, refuse."""


def check(condition: object, message: str) -> None:
    """Refuse with a message unless the condition holds."""
    if not condition:
        raise Refused(message)


def packaged(verilog: str) -> dict[str, Any]:
    """The pins and interfaces of an IP, from the attributes in its Verilog, as the list describes IPs."""
    ip: dict[str, Any] = {kind: {} for kind in NOTHING}
    if "parameter MEM_DIR" in verilog:
        ip["properties"]["CONFIG.MEM_DIR"] = {"values": "/.*"}
    clocked = re.search(r"ASSOCIATED_BUSIF ([\w:]+), ASSOCIATED_RESET (\w+)", verilog)
    check(clocked, "no clock names the interfaces that it clocks")
    assert clocked
    signals: dict[tuple[str, str], set[str]] = {}
    for info, interface, signal in _ATTRIBUTE.findall(verilog):
        kind = info.removeprefix("xilinx.com:signal:")
        if kind in _SIGNALS:
            ip["pins"][interface] = {"kind": _SIGNALS[kind]}
        else:
            check(info in LEAST, f"unknown interface {info}")
            signals.setdefault((interface, info), set()).add(signal)
    declared = {name: way for way, name in re.findall(r"(input|output) wire (?:\[[^]]*\] )?(\w+),?$", verilog, re.M)}
    described = {f"{i}_{s.lower()}" for (i, _), names in signals.items() for s in names} | ip["pins"].keys()
    check(declared.keys() == described, f"ports without an interface: {sorted(declared.keys() ^ described)}")
    for (interface, info), names in signals.items():
        check(LEAST[info] <= names, f"{interface} lacks signals")
        check(interface in clocked[1].split(":"), f"{interface} has no clock")
        valid = f"{interface}_tvalid" if "TVALID" in names else f"{interface}_awvalid"
        mode = "master" if declared[valid] == "output" else "slave"
        ip["interfaces"][interface] = {"mode": mode, "clock": "clk", "type": "axis" if "TVALID" in names else "aximm"}
        if "TVALID" in names:
            continue
        width = re.search(rf"\[(\d+):0\] {interface}_awaddr", verilog)
        assert width
        size = 1 << int(width[1]) + 1
        if mode == "master":
            ip["spaces"][interface] = {"interface": interface, "base": 0, "size": size}
        else:
            ip["segments"][f"{interface}/reg0"] = {"interface": interface, "size": size}
    check(ip["pins"].get(clocked[2], {}).get("kind") == "reset_n in", f"no reset {clocked[2]}")
    return ip


@dataclass
class Cell:
    """An instance: what the list says of its IP, and the properties that were set."""

    vlnv: str
    ip: dict[str, Any]
    preset: bool = False
    properties: dict[str, str] = field(default_factory=dict)

    def there(self, entry: dict[str, Any]) -> bool:
        """Whether a pin or an interface exists with these properties."""
        return "when" not in entry or int(self.properties.get(entry["when"], 0)) >= entry.get("least", 1)


class BlockDesign:
    """The state of Vivado as far as the list goes. Each call of a script is a method."""

    def __init__(self) -> None:
        self.board: dict[str, str] = {}
        self.project: list[str] = []
        self.files: list[Path] = []
        self.settings: dict[str, str] = {}
        self.ips: dict[str, dict[str, Any]] = {name: {**NOTHING, **ip} for name, ip in KNOWN["ips"].items()}
        self.package: dict[str, str] = {}
        self.cells: dict[str, Cell] = {}
        self.nets: list[tuple[str, str]] = []
        self.interfaces: list[tuple[str, str]] = []
        self.addresses: list[tuple[str, str, int, int]] = []
        self.done: list[str] = []
        self.copied: dict[str, str] = {}
        self.scoped: dict[str, str] = {}
        """The cell that a file of constraints is read for."""

    def play(self, calls: list[list[str]]) -> None:
        """Replay calls, which were recorded with what they return."""
        for name, *words in calls:
            options, plain = {}, []
            while words:
                word = words.pop(0)
                if word in COMMANDS[name].flags:
                    count = COMMANDS[name].flags[word]
                    options[word] = words.pop(0) if count else ""
                else:
                    plain.append(word)
            method = getattr(self, name.replace("ipx::", "ipx_"), None)
            if method is not None:
                method(options, *plain)
        check(self.done[-1:] == ["bitstream"], "no bitstream is written")

    def create_project(self, options: dict[str, str], name: str, folder: str) -> None:
        self.project, self.files, self.settings = [options["-part"], name, folder], [], {}

    def close_project(self, _: dict[str, str]) -> None:
        self.project = []

    def add_files(self, _: dict[str, str], file: str) -> None:
        check(Path(file).is_file(), f"there is no {file}")
        self.files.append(Path(file))

    def set_property(self, options: dict[str, str], *words: str) -> None:
        *pairs, target = options["-dict"].split() + list(words) if "-dict" in options else list(words)
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if target in self.cells:
                cell = self.cells[target]
                known = cell.ip["properties"].get(key)
                check(known, f"{cell.vlnv} has no property {key}")
                check(re.fullmatch(known["values"], value), f"{key} is {value}, not {known['values']}")
                cell.properties[key] = value
            else:
                known = KNOWN["properties"].get(key)
                kind = "xdc" if target in self.scoped else target
                check(known and known["of"] == kind, f"{target} has no property {key}")
                self.settings[key] = value
        if "board_part" in pairs:
            self.board = {"part": self.project[0], "board_part": self.settings["board_part"]}
            known = [{"part": b["part"], "board_part": b["board_part"]} for b in KNOWN["boards"].values()]
            check(self.board in known, f"{self.board} is no known board")

    def ipx_package_project(self, options: dict[str, str]) -> None:
        top = self.settings.get("top", "")
        source = next((file for file in self.files if file.stem == top), None)
        check(source and source.suffix == ".v", f"the top of an IP is one file of Verilog, not {source}")
        assert source
        self.package = options | {"verilog": source.read_text(encoding="utf-8")}

    def ipx_save_core(self, _: dict[str, str], core: str) -> None:
        check(core == "core", f"{core} is no core")
        part = self.package
        names = (part["-vendor"], part["-library"], self.settings["name"], self.settings["version"])
        part["vlnv"] = ":".join(names)

    def update_ip_catalog(self, _: dict[str, str]) -> None:
        check(self.settings.get("ip_repo_paths") == self.package["-root_dir"], "the IP is not in ip_repo_paths")
        self.ips[self.package["vlnv"]] = packaged(self.package["verilog"])

    def create_bd_design(self, _: dict[str, str], name: str) -> None:
        check("board_part" in self.settings, "no board")
        self.done.append(name)

    def create_bd_cell(self, options: dict[str, str], name: str) -> None:
        check(options["-type"] == "ip" and options["-vlnv"] in self.ips, f"no IP {options['-vlnv']}")
        check(name not in self.cells, f"two cells {name}")
        self.cells[name] = Cell(options["-vlnv"], self.ips[options["-vlnv"]])

    def apply_bd_automation(self, options: dict[str, str], cell: str) -> None:
        rule = KNOWN["rules"].get(options["-rule"])
        check(rule and rule["of"] == self.cells[cell].vlnv, f"no rule {options['-rule']} for {cell}")
        plain = options["-config"].replace('"', "").replace("{", "").replace("}", "")
        check(plain.split() == re.sub("[{}]", "", rule["config"]).split(), f"{options['-rule']}: {options['-config']}")
        self.cells[cell].preset = True

    def _find(self, kind: str, path: str) -> dict[str, Any]:
        name, _, rest = path.partition("/")
        check(name in self.cells, f"no cell {name}")
        cell = self.cells[name]
        found = cell.ip[kind].get(rest)
        check(found and cell.there(found), f"no {kind.removesuffix('s')} {path}")
        assert found
        return found

    def get_bd_cells(self, _: dict[str, str], name: str) -> None:
        check(name in self.cells, f"no cell {name}")

    def get_bd_pins(self, _: dict[str, str], path: str) -> None:
        self._find("pins", path)

    def get_bd_intf_pins(self, _: dict[str, str], path: str) -> None:
        self._find("interfaces", path)

    def connect_bd_net(self, _: dict[str, str], *pins: str) -> None:
        kinds = [self._find("pins", pin)["kind"].split() for pin in pins]
        check([way for _, way in kinds].count("out") == 1, f"{pins} need one driver")
        driver, load = pins if kinds[0][1] == "out" else pins[::-1]
        check(kinds[0][0] == kinds[1][0], f"{driver} is a {kinds[0][0]}, {load} a {kinds[1][0]}")
        check(load not in dict((b, a) for a, b in self.nets), f"{load} is connected twice")
        self.nets.append((driver, load))

    def connect_bd_intf_net(self, _: dict[str, str], *pins: str) -> None:
        modes = [self._find("interfaces", pin)["mode"] for pin in pins]
        check(sorted(modes) == ["master", "slave"], f"{pins} are {modes}")
        types = [self._find("interfaces", pin).get("type", "aximm") for pin in pins]
        check(types[0] == types[1], f"{pins} are {types}")
        taken = {pin for pair in self.interfaces for pin in pair}
        check(taken.isdisjoint(pins), f"{pins}: connected twice")
        first, second = pins
        self.interfaces.append((first, second) if modes[0] == "master" else (second, first))

    def get_bd_addr_spaces(self, _: dict[str, str], path: str) -> None:
        self._find("spaces", path)

    def _segment(self, pattern: str) -> str:
        name, _, rest = pattern.partition("/")
        check(name in self.cells, f"no cell {name}")
        found = [f"{name}/{one}" for one in self.cells[name].ip["segments"] if fnmatch.fnmatch(one, rest)]
        check(len(found) == 1, f"{pattern}: segments {found}")
        return found[0]

    def get_bd_addr_segs(self, _: dict[str, str], pattern: str) -> None:
        self._segment(pattern)

    def assign_bd_address(self, options: dict[str, str], pattern: str) -> None:
        space, segment = options["-target_address_space"], self._segment(pattern)
        offset, size = int(options["-offset"], 0), int(options["-range"], 0)
        self.addresses.append((space, segment, offset, size))

    def validate_bd_design(self, _: dict[str, str]) -> None:
        driver = {load: source for source, load in self.nets}
        joined = dict(self.interfaces) | {slave: master for master, slave in self.interfaces}
        for name, cell in self.cells.items():
            check("CONFIG.MEM_DIR" not in cell.ip["properties"] or cell.properties, f"{name}: MEM_DIR is not set")
            rules = {rule["of"] for rule in KNOWN["rules"].values()}
            check(cell.vlnv not in rules or cell.preset, f"{name} has not the preset of its board")
            for pin, entry in cell.ip["pins"].items():
                path = f"{name}/{pin}"
                if entry["kind"].endswith("in"):
                    check(not cell.there(entry) or path in driver, f"{path} is not connected")
                elif entry["kind"].startswith("interrupt") and cell.there(entry):
                    check(path in driver.values(), f"{path} is not connected")
            for pin, entry in cell.ip["interfaces"].items():
                path = f"{name}/{pin}"
                if cell.there(entry):
                    check(path in joined, f"{path} is not connected")
                    there = self._find("interfaces", joined[path])
                    clocks = (
                        driver[f"{name}/{entry['clock']}"],
                        driver[f"{joined[path].split('/')[0]}/{there['clock']}"],
                    )
                    check(clocks[0] == clocks[1], f"{path} and {joined[path]} have different clocks {clocks}")
        self._validate_addresses(joined)
        self.done.append("valid")

    def _validate_addresses(self, joined: dict[str, str]) -> None:
        reached = []
        for name, cell in self.cells.items():
            for space, entry in cell.ip["spaces"].items():
                if not cell.there(cell.ip["interfaces"][entry["interface"]]):
                    continue
                pending = [joined[f"{name}/{entry['interface']}"]]
                while pending:
                    slave = pending.pop()
                    between, _, pin = slave.partition("/")
                    if re.fullmatch(r"S\d\d_AXI", pin):
                        onward = {m: s for m, s in self.interfaces if re.fullmatch(rf"{between}/M\d\d_AXI", m)}
                        pending += onward.values()
                    else:
                        reached.append((f"{name}/{space}", slave))
        assigned = []
        for space, segment, offset, size in self.addresses:
            window, target = self._find("spaces", space), self._find("segments", segment)
            check(size & size - 1 == 0 and offset % size == 0, f"{segment}: {offset:#x} is no multiple of {size:#x}")
            inside = window["base"] <= offset and offset + size <= window["base"] + window["size"]
            check(inside, f"{segment}: {offset:#x} is outside the window of {space}")
            if "base" in target:
                inside = target["base"] <= offset and offset + size <= target["base"] + target["size"]
            else:
                inside = size >= max(target["size"], 0x1000)
            check(inside, f"{segment}: {size:#x} bytes at {offset:#x} are not what it has")
            assigned.append((space, f"{segment.split('/')[0]}/{target['interface']}"))
        for space in {space for space, *_ in self.addresses}:
            places = sorted((offset, size) for one, _, offset, size in self.addresses if one == space)
            apart = all(a + size <= b for (a, size), (b, _) in itertools.pairwise(places))
            check(apart, f"{space} has two slaves at one address")
        check(sorted(assigned) == sorted(reached), f"addresses for {assigned}, but masters reach {reached}")

    def make_wrapper(self, options: dict[str, str]) -> None:
        check(
            self.done == [options["-files"].removesuffix(".bd"), "valid"], "a wrapper of another design, or too early"
        )
        self.settings.pop("top", None)

    def read_xdc(self, options: dict[str, str], file: str) -> None:
        check(Path(file).is_file(), f"there is no {file}")
        cell = options["-ref"].removeprefix("module_")
        check(cell in self.cells and cell != options["-ref"], f"no module {options['-ref']}")
        ports = set(re.findall(r"\[get_ports (\w+)\]", Path(file).read_text(encoding="utf-8")))
        check(ports and ports <= self.cells[cell].ip["pins"].keys(), f"{cell} has not the ports {sorted(ports)}")
        self.scoped[file] = cell

    def _validate_crossings(self) -> None:
        """Two clocks of an IP of ours are different ones, and constraints for it are read when both are known."""
        driver = {load: source for source, load in self.nets}
        for name, cell in self.cells.items():
            if cell.vlnv == self.package["vlnv"]:
                pins = [pin for pin, entry in cell.ip["pins"].items() if entry["kind"] == "clock in"]
                clocks = sorted({driver[f"{name}/{pin}"] for pin in pins})
                check(len(clocks) == len(pins), f"{name}: {pins} are the same clock {clocks}")
                read = list(self.scoped.values()).count(name)
                check(read == len(pins) - 1, f"{name}: {read} files of constraints for the crossings of {clocks}")
        if self.scoped:
            order = (self.settings.get("PROCESSING_ORDER"), self.settings.get("USED_IN_SYNTHESIS"))
            check(order == ("LATE", "false"), f"constraints of crossings are read {order}")

    def launch_runs(self, options: dict[str, str], run: str) -> None:
        check(self.settings.get("top") == f"{self.done[0]}_wrapper", "the top is not the wrapper")
        self._validate_crossings()
        check((run, options["-to_step"]) == ("impl_1", "write_bitstream"), f"{run} to {options['-to_step']}")
        self.done.append("launched")

    def wait_on_run(self, _: dict[str, str], run: str) -> None:
        check(self.done[-1] == "launched" and run == "impl_1", "no run to wait for")
        self.done.append("bitstream")

    def open_run(self, _: dict[str, str], run: str) -> None:
        check(self.done[-1] == "bitstream" and run == "impl_1", f"{run} has no results")

    def file_copy(self, _: dict[str, str], source: str, target: str) -> None:
        check(self.done[-1:] == ["bitstream"], f"there is no {source} yet")
        self.copied[target] = source


def replay(script: Path, work: Path, *arguments: str) -> BlockDesign:
    """Run a script under stand-ins for Vivado's commands and check all that it does.

    Raises:
        Refused: If something of it is not known, or the design is incomplete.
        TclError: If the script fails, or a call is not what its command takes.
    """
    design = BlockDesign()
    design.play(run(script, COMMANDS, work, arguments, FILES))
    return design


__all__ = ["KNOWN", "BlockDesign", "Refused", "TclError", "packaged", "replay"]
