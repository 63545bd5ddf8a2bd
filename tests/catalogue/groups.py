"""Several cases of the catalogue as one design: a simulator costs as much for one small module as for several."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mase_hw.simulate.build.simulator import Built
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.result import SimResult
from mase_hw.streams import Stream

from .harness import Item
from .memories import file_of, folder_of, write_memories

SIZE = 16
"""Cases in a design."""


@dataclass(frozen=True)
class Place:
    """Where a case is simulated: in a simulator of its own, or as one of several instances.

    Args:
        built: The simulator.
        prefix: What the names of its streams begin with there.
    """

    built: Built
    prefix: str = ""

    def seen(self, it: Item) -> Built:
        """The simulator as a run of the case sees it: with its own streams."""
        if not self.prefix:
            return self.built
        dut = dataclasses.replace(self.built.dut, streams=tuple(_named(self.prefix, s) for s in it.streams))
        return dataclasses.replace(self.built, dut=dut)

    def result(self, found: SimResult) -> SimResult:
        """A result with the names that the streams have in the case."""
        cut = len(self.prefix)
        ports = {name[cut:]: port for name, port in found.ports.items()}
        return dataclasses.replace(found, ports=ports, outputs={n[cut:]: v for n, v in found.outputs.items()})


def groups(items: Sequence[Item], size: int = SIZE) -> list[tuple[Item, ...]]:
    """Cases by module, a few together."""
    ordered = sorted(items, key=lambda it: it.hardware.module)
    return [tuple(ordered[begin : begin + size]) for begin in range(0, len(ordered), size)]


def prefix_of(group: Sequence[Item], it: Item) -> str:
    """What the names of the streams of a case begin with."""
    return f"c{[other.id for other in group].index(it.id)}_"


def group_dut(group: Sequence[Item], folder: Path) -> Dut:
    """A design with an instance of every case, each from its declared files, and no connection between them."""
    body = "".join(f"{line}\n" for line in _lines(group))
    name = f"group_{hashlib.sha256(body.encode()).hexdigest()[:16]}"
    source = folder / f"{name}.sv"
    if not source.exists():
        folder.mkdir(parents=True, exist_ok=True)
        source.write_text(f"module {name} (\n{body}")
    alone = [it.dut() for it in group]
    sources = dict.fromkeys(path for dut in alone for path in dut.sources)
    streams = tuple(_named(prefix_of(group, it), s) for it in group for s in it.streams)
    memories = [it for it in group if it.hardware.memories(it.arithmetic)]
    for it in memories:
        write_memories(f"{name}/{it.id}", it.hardware.memories(it.arithmetic))
    return Dut(name, (*sources, source), {}, streams, folder_of(name) if memories else None)


def _named(prefix: str, stream: Stream) -> Stream:
    names = {field: prefix + getattr(stream, field) for field in ("name", "valid", "ready")}
    return dataclasses.replace(stream, **names)


def _lines(group: Sequence[Item]) -> Iterator[str]:
    ports = ["input logic clk", "input logic rst"]
    for it in group:
        prefix = prefix_of(group, it)
        for stream in it.streams:
            there, back = ("input", "output") if stream.direction == "in" else ("output", "input")
            ports.append(f"{there} logic [{stream.bits - 1}:0] {prefix}{stream.name}")
            ports += [f"{there} logic {prefix}{stream.valid}", f"{back} logic {prefix}{stream.ready}"]
    yield ",\n".join(f"  {port}" for port in ports)
    yield ");"
    for it in group:
        yield from _instance(it, prefix_of(group, it))
    yield "endmodule"


def _instance(it: Item, prefix: str) -> Iterator[str]:
    dut = it.dut()
    given = dut.parameters | {name: f"mem/{it.id}/{file_of(name)}" for name in it.hardware.memories(it.arithmetic)}
    parameters = ", ".join(f".{name}({_literal(value)})" for name, value in given.items())
    pins = [".clk", ".rst"]
    pins += [f".{port}({prefix}{port})" for s in it.streams for port in (s.name, s.valid, s.ready)]
    pins += [f".{name}({value})" for name, value in dut.tied.items()]
    # An output that the case leaves open has no stream to go to.
    yield "  // verilator lint_off PINCONNECTEMPTY"
    yield f"  {dut.top} #({parameters}) {prefix}dut ({', '.join(pins)});"
    yield "  // verilator lint_on PINCONNECTEMPTY"


def _literal(value: int | str) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return str(int(value)) if value >= 0 else f"32'sh{int(value) & 0xFFFFFFFF:08x}"
