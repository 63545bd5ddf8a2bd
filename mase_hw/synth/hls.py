"""C++ for an HLS tool, compiled natively and compared with the golden: every beat of its test bench, bit for bit.

The types are those of the tool: the open ``ap_types`` headers (Apache 2.0), which lie in the packages da4ml and hls4ml.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mase_hw.design.design import Design
from mase_hw.emit.read_bundle import read_file
from mase_hw.errors import ConfigError, ToolError
from mase_hw.hardware.manifest import Hls
from mase_hw.host.documents import Json
from mase_hw.host.resources import sim_root
from mase_hw.ir.custom.hls import MISSING, STAND_IN, TOOL
from mase_hw.simulate.build.tools import find_build_tools, first_errors, run_tool

HEADER = "ap_fixed.h"
PLACES = (("da4ml", "codegen/hls/source/ap_types/include"), ("hls4ml", "templates/vivado/ap_types"))
"""Packages with the headers, and where they lie in them."""
_SAID = {
    TOOL: "the RTL is the tool's; what it says is what `mase-hw sim` finds",
    STAND_IN: "the RTL is a stand-in: that of the HLS tool is untried",
    MISSING: "there is no RTL: the HLS tool has not run, and nothing of it is tried",
}


@dataclass(frozen=True)
class CheckedNode:
    """One node.

    Args:
        node: Its name.
        top: The top function.
        rtl: What its RTL in the bundle is.
        passed: Whether its C++ gives the bits of the golden.
        said: What the test bench printed: how many beats are equal, or the first one that differs.
    """

    node: str
    top: str
    rtl: str
    passed: bool
    said: str


@dataclass(frozen=True)
class Checked:
    """All nodes of a design whose RTL an HLS tool makes."""

    nodes: tuple[CheckedNode, ...]

    @property
    def passed(self) -> bool:
        """Whether the C++ of every node gives the bits of the golden."""
        return all(node.passed for node in self.nodes)

    def text(self) -> str:
        """Two lines a node."""
        return "\n".join(f"{n.node} ({n.top}): {n.said}\n  {_SAID[n.rtl]}" for n in self.nodes)

    def to_json(self) -> Json:
        """The fields as JSON types."""
        nodes = [{"node": n.node, "top": n.top, "rtl": n.rtl, "passed": n.passed, "said": n.said} for n in self.nodes]
        return {"passed": self.passed, "nodes": nodes}


def headers(folder: Path | None = None) -> Path:
    """Where the ``ap_types`` headers lie.

    Args:
        folder: Where they are; looked up in the installed packages if None.

    Raises:
        ToolError: If there are none.
    """
    if folder is not None:
        places = [folder]
    else:
        specs = ((importlib.util.find_spec(name), path) for name, path in PLACES)
        places = [Path(root) / path for spec, path in specs if spec for root in spec.submodule_search_locations or ()]
    for place in places:
        if (place / HEADER).is_file():
            return place
    raise ToolError(
        f"there are no headers of ap_types ({HEADER})",
        got=", ".join(map(str, places)) or "neither da4ml nor hls4ml is installed",
        expected="the open headers, which lie in the packages da4ml and hls4ml, or the include folder of Vitis HLS",
        remedy="pip install 'mase-hw[hls]', or name their folder (--headers)",
    )


def check_hls(design: Design, *, include: Path | None = None, progress: Callable[[str], None] | None = None) -> Checked:
    """Compile the C++ of every HLS node with its test bench, and run it.

    Args:
        design: A bundle with such nodes.
        include: Folder of the ``ap_types`` headers; those of an installed package if None.
        progress: Told before each compilation.

    Returns:
        What was found of every node.

    Raises:
        ConfigError: If the design has no such node.
        EmitError: If a file of the bundle was changed.
        ToolError: If there are no headers or no compiler, or the C++ does not compile.
    """
    if not design.record.hls:
        raise ConfigError(
            "no node of the design is made by an HLS tool",
            node=str(design.path),
            expected='a custom op with toolchain = "HLS"',
            remedy="see docs/hls.md",
        )
    place = headers(include)
    said: dict[str, tuple[bool, str]] = {}
    for entry in design.record.hls:
        if entry.top not in said:
            if progress is not None:
                progress(f"compiling {entry.top}")
            said[entry.top] = _run(design, entry, place)
    return Checked(tuple(CheckedNode(e.node, e.top, e.rtl, *said[e.top]) for e in design.record.hls))


def _run(design: Design, entry: Hls, include: Path) -> tuple[bool, str]:
    """Whether the test bench of a top function is content, and its last line."""
    folder = f"hls/{entry.top}/"
    names = [name for name in design.record.files if name.startswith(folder)]
    files = {name.removeprefix(folder): read_file(design.path, design.record.files, name) for name in names}
    return run_testbench(files, include, entry.node)


def run_testbench(files: Mapping[str, bytes], include: Path, node: str) -> tuple[bool, str]:
    """Compile a top function with its test bench, and run that.

    Args:
        files: What the HLS tool takes, by name.
        include: Folder of the ``ap_types`` headers.
        node: Whose C++ it is, for errors.

    Returns:
        Whether every beat was equal, and the last line that was printed.

    Raises:
        ToolError: If there is no compiler, or the C++ does not compile.
    """
    tools = find_build_tools()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        for name, content in files.items():
            (work / name).write_bytes(content)
        # What is ours of these, the streams, comes last: the headers of Vitis HLS have their own.
        flags = ["-std=c++17", "-O1", "-w", f"-I{include}", f"-I{sim_root() / 'hls'}"]
        built = run_tool([*tools.compiler, *flags, "top.cpp", "testbench.cpp", "-o", "testbench"], tools.env, work)
        if built.returncode:
            raise ToolError(
                "the C++ of an HLS node does not compile",
                node=node,
                got=first_errors(built.stdout),
                expected="a function template of one beat, and the headers of ap_types",
                remedy="correct it; hls in the bundle has what is compiled, and docs/hls.md says what it may use",
            )
        done = run_tool([str(work / "testbench")], tools.env, work)
    lines = done.stdout.strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else f"ended with {done.returncode}"
