"""What is added to a design for the simulator only: monitors, and connectors that close its edges at random.

What is synthesised stays as it is. Monitors are bound into the modules of the library from outside. The stalled top
level is made from the text of the very file that is simulated otherwise: every ``stream_check`` in it names a net and
its two ends, and at the end that reads it a connector is put in between.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from mase_hw.errors import EmitError
from mase_hw.host.disk import not_written, write_whole
from mase_hw.resources import sim_root
from mase_hw.simulate.build.snapshot import checked, read_source
from mase_hw.simulate.dut import Dut

MONITORS = ("exercise_edge", "exercise_buffer", "exercise_replay")
CONNECTOR = "exercise_stall"
"""What stands on a stalled edge."""
WATCHED = ("replay_buffer", "skid_buffer", "stream_check", "stream_fifo")
"""Modules of the library that have a monitor."""
ADDED = (*MONITORS, CONNECTOR, *(f"bind_{module}" for module in WATCHED))
"""Every source of the simulator that may be added to a design."""


def watched(dut: Dut) -> Dut:
    """The same design with monitors in the modules that it has, for the simulator only.

    Args:
        dut: A design.
    """
    there = {source.stem for source in dut.sources}
    bound = [f"bind_{module}" for module in WATCHED if module in there]
    monitors = MONITORS if bound else ()
    return dataclasses.replace(dut, sources=(*(file_of(name) for name in (*monitors, *bound)), *dut.sources))


def file_of(name: str) -> Path:
    """A source of the simulator."""
    return sim_root() / "exercise" / f"{name}.sv"


_CHECK = re.compile(
    r"stream_check #\(\s*\.WIDTH\((?P<bits>\d+)\),\s*\.NAME \(\"(?P<source>[^\"]*?) to (?P<sink>[^\"]*)\"\),"
    r"\s*\.FRAME\((?P<frame>\d+)\)\s*\) check_(?P<net>\w+) \("
)
_PARTS = ("", "_valid", "_ready")
INNER = "inner"
"""Where the stalled top level is written, in a work folder."""


def with_inner_stalls(dut: Dut, folder: Path) -> Dut:
    """The same design with a connector on every edge of its top level.

    Args:
        dut: A design as mase_hw writes it.
        folder: Where the stalled top level is written.

    Raises:
        EmitError: If the folder cannot be written, or the top level is not what it was, or not one of mase_hw.
    """
    source = dut.sources[-1]  # the top level comes last
    given = checked(source, read_source(source), dut.digests)
    text = stalled(given.decode(encoding="utf-8", errors="replace"), source)
    file = folder.resolve() / source.name
    try:
        write_whole(file, text)
    except OSError as problem:
        raise not_written("the stalled top level", folder, problem) from problem
    sources = tuple(file if path == source else path for path in dut.sources)
    return dataclasses.replace(dut, sources=(file_of(CONNECTOR), *sources))


def stalled(text: str, source: Path) -> str:
    """The text of a top level with a connector on every edge.

    Args:
        text: As :func:`mase_hw.emit.render.render_top` writes it.
        source: Where it is from, for errors.

    Raises:
        EmitError: If it is something else.
    """
    checks = list(_CHECK.finditer(text))
    if len(checks) != text.count("stream_check #("):
        raise _strange(source, f"{len(checks)} of {text.count('stream_check #(')} stream checks can be read")
    names = set(re.findall(r"\w+", text))
    for salt, check in enumerate(checks, 1):
        net, bits = check["net"], int(check["bits"])
        behind = f"{net}_stalled"
        while any(f"{behind}{part}" in names for part in _PARTS):
            behind += "_"
        declared = f"\n  logic {net}_ready;\n"
        if text.count(declared) != 1:
            raise _strange(source, f"{net} is not declared")
        # Declared before it is used, and after what it uses.
        parameters = {"WIDTH": bits, "FRAME": int(check["frame"]), "SALT": salt, "EDGES": len(checks)}
        text = text.replace(declared, declared + _connector(net, behind, bits, parameters))
        text = _moved(text, check["sink"], net, behind, source)
    return text


def _moved(text: str, sink: str, net: str, behind: str, source: Path) -> str:
    """With the reader of a net behind its connector."""
    instance, dot, _ = sink.rpartition(".")
    if dot:
        begin = text.find(f") {instance} (\n")
        end = text.find("\n  );", begin)
        forms = ["({})"] * 3
    else:
        begin, end = text.find("\n  assign "), len(text)
        forms = [f"assign {sink} = {{}};", f"assign {sink}_valid = {{}};", f"assign {{}} = {sink}_ready;"]
    block = text[max(begin, 0) : end]
    for part, form in zip(_PARTS, forms, strict=True):
        before, after = form.format(f"{net}{part}"), form.format(f"{behind}{part}")
        if begin < 0 or block.count(before) != 1:
            raise _strange(source, f"{sink} does not read {net}{part}")
        block = block.replace(before, after)
    return text[:begin] + block + text[end:]


def _connector(net: str, behind: str, bits: int, parameters: Mapping[str, int]) -> str:
    given = ", ".join(f".{name}({value})" for name, value in parameters.items())
    return f"""
  logic [{bits - 1}:0] {behind};
  logic {behind}_valid;
  logic {behind}_ready;
  exercise_stall #({given}) stall_{net} (
      .clk,
      .rst,
      .in_data  ({net}),
      .in_valid ({net}_valid),
      .in_ready ({net}_ready),
      .out_data ({behind}),
      .out_valid({behind}_valid),
      .out_ready({behind}_ready)
  );
"""


def _strange(source: Path, what: str) -> EmitError:
    return EmitError(
        "the top level is not as mase_hw writes it, so its edges cannot be stalled",
        node=str(source),
        got=what,
        remedy="emit the bundle again, or leave out inner_stalls",
    )
