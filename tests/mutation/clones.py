"""Many mutants in one model: each is a renamed copy of the whole design, and a plusarg chooses which copy is clocked.

So a mutant is simulated as it is written, and most of the time of a build (the C++ compiler's headers, the driver) is
paid once for all of them. The unmodified design is copy 0: it shows that the harness around the copies is right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mase_hw.simulate.dut import Dut

TOP = "mutants"
_MEMORY = re.compile(r"^%Warning: mem/((?:\./)*)\w+\.mem")
_MODULE = re.compile(r"^\s*module\s+(\w+)", re.MULTILINE)


def clone(texts: Mapping[str, str], number: int) -> dict[str, str]:
    """The sources of a design with a number behind the name of every module.

    Args:
        texts: The sources by path.
        number: Of the copy.
    """
    names = [match[1] for text in texts.values() for match in _MODULE.finditer(text)]
    # A name is a module's where it is declared, or followed by parameters or by the name of an instance.
    used = re.compile(rf"(?<![\w.\"`])({'|'.join(names)})(?=\s*(?:#\s*\(|\(|;)|\s+u_\w+)")
    return {path: used.sub(rf"\1__{number}", text) for path, text in texts.items()}


def harness(dut: Dut, numbers: Sequence[int]) -> str:
    """A module with the ports of a design around its copies; ``+mutant=N`` is the number of the one that lives.

    The others have no clock and constant inputs, so that they cost nothing and can do no harm.
    """
    ports, lines = ["  input logic clk", "  input logic rst"], []
    pins: dict[int, list[str]] = {n: [f"    .clk(clk && chosen == {n})", "    .rst"] for n in numbers}
    for s in dut.streams:
        inward = s.direction == "in"
        for name, bits, given in ((s.name, s.bits, inward), (s.valid, 1, inward), (s.ready, 1, not inward)):
            ports.append(f"  {'input' if given else 'output'} logic [{bits - 1}:0] {name}")
            alive = {n: f"{{{bits}{{chosen == {n}}}}}" for n in numbers}
            for n in numbers:
                if given:
                    pins[n].append(f"    .{name}({name} & {alive[n]})")
                else:
                    lines.append(f"  logic [{bits - 1}:0] {name}_{n};")
                    pins[n].append(f"    .{name}({name}_{n})")
            if not given:
                lines.append(f"  assign {name} = {' | '.join(f'({name}_{n} & {alive[n]})' for n in numbers)};")
    for n in numbers:
        pins[n] += [f"    .{name}({value})" for name, value in dut.tied.items()]
    parameters = {
        n: ", ".join(f".{name}({_literal(value, n)})" for name, value in dut.parameters.items()) for n in numbers
    }
    comma = ",\n"
    copies = [f"  {dut.top}__{n} #({parameters[n]}) u_{n} (\n{comma.join(pins[n])}\n  );" for n in numbers]
    return "\n".join(
        [
            f"module {TOP} (\n{comma.join(ports)}\n);",
            "  // Outputs that nobody reads.",
            "  // verilator lint_off PINCONNECTEMPTY",
            "  int chosen;",
            '  initial if ($value$plusargs("mutant=%d", chosen) == 0) chosen = 0;',
            *lines,
            *copies,
            "endmodule\n",
        ]
    )


def write(dut: Dut, copies: Mapping[int, Mapping[Path, str]], folder: Path) -> Dut:
    """Write copies of a design and the harness around them.

    Args:
        dut: The design.
        copies: By number, the sources that differ from those of the design.
        folder: Where to.

    Returns:
        What to build.
    """
    sources: list[Path] = []
    for number, changed in copies.items():
        texts = {str(p): changed.get(p, p.read_text(encoding="utf-8")) for p in dut.sources}
        for path, text in clone(texts, number).items():
            sources.append(folder / f"copy_{number}" / f"{Path(path).stem}__{number}.sv")
            sources[-1].parent.mkdir(parents=True, exist_ok=True)
            sources[-1].write_text(text, encoding="utf-8")
    sources.append(folder / f"{TOP}.sv")
    sources[-1].write_text(harness(dut, list(copies)), encoding="utf-8")
    return Dut(TOP, tuple(sources), {}, dut.streams, dut.memory)


def foreign(line: str, number: int) -> bool:
    """Whether a simulator complains, in this line of its log, about a memory file of another copy."""
    match = _MEMORY.search(line)
    return match is not None and len(match[1]) // 2 != number


def _literal(value: int | str, number: int) -> str:
    if isinstance(value, str):
        # Every copy reads the same file, each by a name of its own.
        return f'"{value}"'.replace("mem/", "mem/" + "./" * number, 1)
    return str(int(value)) if value >= 0 else f"32'sh{int(value) & 0xFFFFFFFF:08x}"
