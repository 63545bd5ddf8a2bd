"""An op whose hardware an HLS tool makes of C++: what the tool takes, and what takes its RTL into the design.

The C++ is a function of one beat, a template of the node. For every node that function is put on streams, with the
types and constants of the node, as the top function of the tool. Its name ends with a digest of all that it is made of,
so RTL that was made of other C++ is never taken for it.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding
from mase_hw.hardware.beats import to_words
from mase_hw.hardware.library import rendered
from mase_hw.hardware.params import verilog_params
from mase_hw.host.resources import Generated
from mase_hw.opdef import EXTERNAL, Arithmetic, Golden
from mase_hw.streams import Stream

WRAPPER, MISSING_MODULE = "hls/wrapper.sv.j2", "hls/missing.sv.j2"
FILES = {"top.cpp": "hls/top.cpp.j2", "testbench.cpp": "hls/testbench.cpp.j2", "tool.tcl": "hls/tool.tcl.j2"}
"""What is made for the tool, and of which template."""
QUANTIZATION = {
    Rounding.HALF_EVEN: "AP_RND_CONV",
    Rounding.HALF_UP: "AP_RND",
    Rounding.FLOOR: "AP_TRN",
    Rounding.TRUNC: "AP_TRN_ZERO",
    Rounding.HALF_AWAY: "AP_RND_INF",
}
OVERFLOW = {Overflow.SATURATE: "AP_SAT", Overflow.WRAP: "AP_WRAP"}
TOOL, STAND_IN, MISSING = "tool", "stand-in", "missing"
"""What the RTL of a top function in a bundle is."""
WIDEST = 4096
"""Bits of a beat, which is a number of the tool's; up to 1024 without being told."""
MOST_CODES = 1 << 12
"""Inputs of which every code is in the vectors, and beats of random ones."""
_QUIET = (
    *("BLKSEQ", "CASEINCOMPLETE", "DECLFILENAME", "PINCONNECTEMPTY", "PINMISSING", "TIMESCALEMOD", "UNDRIVEN"),
    *("UNUSEDPARAM", "UNUSEDSIGNAL", "VARHIDDEN", "WIDTHEXPAND", "WIDTHTRUNC", "GENUNNAMED"),
)
"""What Verilator does not say of the RTL of a tool, which nobody can mend."""

_TIME_SCALE = re.compile(r"^[ \t]*`timescale[^\n]*\n", re.MULTILINE)


@dataclass(frozen=True)
class HlsOp:
    """What a user gives.

    Args:
        function: The function template, and what names begin with.
        root: Folder of the user's files.
        source: The file that defines it, below that.
        rtl: Folder of the tool's RTL, below ``root``; one folder in it for each top function.
        stand_in: File of the module that stands for it in simulation; empty for none.
        dependence_files: More SystemVerilog files that the stand-in needs.
        golden: The arithmetic.
    """

    function: str
    root: Path
    source: str
    rtl: str
    stand_in: str
    dependence_files: tuple[str, ...]
    golden: Golden

    def generated(self, node: str, params: Any, a: Arithmetic, ports: tuple[Stream, ...]) -> Generated:
        """The wrapper of a node, what is in it, and the files for the tool.

        Args:
            node: Name of the node.
            params: Record of the parameters.
            a: The arithmetic.
            ports: The streams of the module.

        Raises:
            UnsupportedError: If C++ of one beat cannot say what the node computes.
        """
        ports = tuple(sorted(ports, key=lambda port: (port.direction == "out", port.name)))
        refuse(node, ports)
        written = verilog_params(params)
        context: dict[str, Any] = {
            "node": node,
            "function": self.function,
            "source": Path(self.source).name,
            "rtl": self.rtl,
            "parameters": written,
            "ports": [_port(port, a) for port in ports],
            "lanes": ports[0].lanes,
            "wide": max(0, *(port.bits for port in ports if port.bits > 1024)) if _wide(ports) else 0,
        }
        context["top"] = top = f"{self.function}_{self._digest(context)}"
        tool = self.root / self.rtl / top
        texts = {f"{EXTERNAL}{top}/{path.name}": _quiet(path) for path in _sources(tool)}
        files: dict[str, Path] = {}
        context |= {"tool": top, "stand_in": False, "found": TOOL if texts else MISSING}
        if not texts and self.stand_in:
            files = {f"{EXTERNAL}{name}": self.root / name for name in (*self.dependence_files, self.stand_in)}
            context |= {"tool": Path(self.stand_in).stem, "stand_in": True, "found": STAND_IN}
        elif not texts:
            texts = {f"{EXTERNAL}{top}.sv": rendered(MISSING_MODULE, **context)}
        return Generated(
            f"hls_{node}",
            WRAPPER,
            context,
            files=files,
            texts=texts,
            beside=functools.partial(self._beside, context, a, ports),
        )

    def _digest(self, context: Mapping[str, Any]) -> str:
        """Of all that the top function is made of."""
        unnamed = {**context, "top": "", "node": ""}
        text = rendered("hls/top.cpp.j2", **unnamed) + (self.root / self.source).read_text(encoding="utf-8")
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def _beside(self, context: Mapping[str, Any], a: Arithmetic, ports: tuple[Stream, ...]) -> dict[str, str]:
        """Files for the tool, by their paths in the bundle."""
        folder = f"hls/{context['top']}"
        beats = vectors(self.golden, a, ports)
        count = len(next(iter(beats.values())).splitlines())
        found = {name: rendered(template, **context, beats=count) for name, template in FILES.items()}
        found[str(context["source"])] = (self.root / self.source).read_text(encoding="utf-8")
        found |= {f"{name}.dat": text for name, text in beats.items()}
        return {f"{folder}/{name}": text for name, text in found.items()}


def refuse(node: str, ports: tuple[Stream, ...]) -> None:
    """Refuse streams that a function of one beat cannot have.

    Raises:
        UnsupportedError: If beats or lanes differ, there are several results, a beat is too wide, or a format is no
            plain fixed-point format.
    """
    said = "an HLS op reads a beat of every input and writes one beat"
    results = [port for port in ports if port.direction == "out"]
    if len(results) != 1:
        raise UnsupportedError(said, node=node, got=f"{len(results)} results", expected="one result")
    for port in ports:
        if (port.frame_beats, port.lanes) != (results[0].frame_beats, results[0].lanes):
            raise UnsupportedError(
                said,
                node=f"{node}.{port.name}",
                got=f"{port.frame_beats} beats of {port.lanes}",
                expected=f"{results[0].frame_beats} beats of {results[0].lanes}, as of {results[0].name}",
                remedy="give all tensors one shape and the same lanes, or write SystemVerilog (docs/custom_ops.md)",
            )
        if type(port.fmt) is not FixedFormat:
            raise UnsupportedError(
                "ap_fixed has no such format", node=f"{node}.{port.name}", got=str(port.fmt), expected="fixed point"
            )
        if port.bits > WIDEST:
            raise UnsupportedError(
                "a beat is wider than a number of the HLS tool",
                node=f"{node}.{port.name}",
                got=f"{port.bits} bits",
                expected=f"at most {WIDEST}",
                remedy="give it fewer lanes",
            )


def vectors(golden: Golden, a: Arithmetic, ports: tuple[Stream, ...]) -> dict[str, str]:
    """Beats for the test bench: every code of a single narrow input, else extreme and random ones; one a line.

    Args:
        golden: The arithmetic.
        a: Its formats and modes.
        ports: The streams, the result last.

    Returns:
        Words in hexadecimal by stream.
    """
    sources, result = ports[:-1], ports[-1]
    elements = max(1, torch.Size(sources[0].tensor_shape).numel())
    every = len(sources) == 1 and 1 << sources[0].fmt.width <= MOST_CODES
    frames = -(-(1 << sources[0].fmt.width) // elements) if every else max(4, -(-MOST_CODES // elements))
    tensors: dict[str, torch.Tensor] = {}
    generator = torch.Generator().manual_seed(0)
    for port in sources:
        low, high = port.fmt.min_mantissa, port.fmt.max_mantissa
        if every:
            flat = low + torch.arange(frames * elements) % (high - low + 1)
        else:
            unit = torch.rand(frames * elements, generator=generator, dtype=torch.float64)
            flat = (low + unit * (high - low)).round().long().clamp(low, high)
            flat[:elements], flat[elements : 2 * elements] = low, high
        tensors[port.name] = flat.reshape(frames, *port.tensor_shape)
    found = [golden(a, {n: t[i : i + 1].reshape(t.shape[1:]) for n, t in tensors.items()}) for i in range(frames)]
    tensors[result.name] = torch.stack([f["data_out_0"] for f in found]).long().reshape(frames, *result.tensor_shape)
    return {port.name: to_words(port, port.pack(tensors[port.name].numpy())) for port in ports}


def _wide(ports: tuple[Stream, ...]) -> bool:
    return any(port.bits > 1024 for port in ports)


def _port(port: Stream, a: Arithmetic) -> dict[str, object]:
    """A stream as templates print it."""
    fmt, out = port.fmt, port.direction == "out"
    modes = f", {QUANTIZATION[a.rounding]}, {OVERFLOW[a.overflow]}" if out else ""
    kind = "ap_fixed" if fmt.signed else "ap_ufixed"
    return {
        "name": port.name,
        "way": "output" if out else "input",
        "back": "input" if out else "output",
        "lanes": port.lanes,
        "width": fmt.width,
        "bits": port.bits,
        "bytes": 8 * -(-port.bits // 8),
        "type": f"{kind}<{fmt.width}, {fmt.width - fmt.frac_width}{modes}>",
    }


def _sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.suffix in (".v", ".sv")) if folder.is_dir() else []


def _quiet(path: Path) -> str:
    """A file of the tool, of which Verilator tells no more than what is wrong; no other module has a time scale."""
    off = "".join(f"// verilator lint_off {name}\n" for name in _QUIET)
    text = _TIME_SCALE.sub("", path.read_text(encoding="utf-8", errors="replace"))
    return f"// verilator lint_save\n{off}{text.rstrip()}\n// verilator lint_restore\n"
