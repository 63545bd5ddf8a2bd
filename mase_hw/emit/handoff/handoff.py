"""The files that other people's tools and testbenches want, as one more emit pass."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from mase_hw._version import __version__
from mase_hw.emit import pack_ecp5
from mase_hw.emit.bundle import Bundle
from mase_hw.emit.handoff.options import HandoffOptions
from mase_hw.emit.handoff.ports import HandoffPort, handoff_ports
from mase_hw.emit.handoff.readme import readme_context
from mase_hw.emit.passes import EmitArgs, bundle_of, write_bundle
from mase_hw.emit.yosys import MAPPERS
from mase_hw.errors import ConfigError
from mase_hw.hardware.beats import count_words
from mase_hw.hardware.library import content, library_modules, rendered
from mase_hw.hardware.manifest import Manifest, Vectors
from mase_hw.hardware.parameter_ports import parameter_ports
from mase_hw.hardware.prefix import other_prefix, prefixed, renamed, with_prefix
from mase_hw.host.documents import Json
from mase_hw.host.resources import rtl_root, sim_root
from mase_hw.ir import MaseGraph
from mase_hw.passes.base import Info, graph_pass

FRAMES = 8
"""Least number of frames the testbenches play in a run: enough for a steady interval."""
BENCH = ("tb_file.sv", "tb_source.sv", "tb_sink.sv")
"""What the testbenches are made of, besides a top level of their own."""
BOUNDARY = "lib/skid_buffer.sv"
PACKER = "pack_ecp5.py"
"""Script of the ECP5 flow; a bundle gets the file of this package that ``mase-hw synth`` uses."""


class HandoffArgs(EmitArgs):
    """Arguments of ``emit_handoff_transform_pass``."""

    options: HandoffOptions = Field(
        default_factory=HandoffOptions, description="what an integrator may choose: the table ``handoff``"
    )


@dataclass(frozen=True)
class Top:
    """One module that can be the top of a tool's run.

    Args:
        name: Module.
        axis: Whether its ports are AXI4-Stream.
        files: Its RTL in compilation order.
        list: The file below ``rtl`` that lists them.
        clock: Its clock.
        delay: Cycles that its boundaries add to the fill latency.
    """

    name: str
    axis: bool
    files: list[str]
    list: str
    clock: str
    delay: int


@graph_pass(
    "emit_handoff_transform_pass",
    args=HandoffArgs,
    needs=(
        "emit_verilog_top_transform_pass",
        "emit_internal_rtl_transform_pass",
        "emit_bram_transform_pass",
        "emit_cocotb_transform_pass",
    ),
)
def emit_handoff_transform_pass(graph: MaseGraph, args: HandoffArgs) -> tuple[MaseGraph, Info]:
    """Add what an integrator needs: AXI4-Stream wrapper, testbenches, scripts, constraints, example and README.

    Raises:
        ConfigError: If a module of the design has the name of one that would be added.
        EmitError: If the folder cannot be written.
    """
    add_handoff(bundle_of(graph), args.options)
    return graph, {**write_bundle(graph, args), "handoff": bundle_of(graph).manifest["handoff"]}


def add_handoff(bundle: Bundle, options: HandoffOptions) -> None:
    """Add the files of the handoff to a bundle that has RTL, memories and vectors.

    Raises:
        ConfigError: If a module of the design has the name of one that would be added.
    """
    _put_prefix(bundle, options.prefix)
    manifest, prefix = bundle.record, options.prefix
    ports = handoff_ports(manifest)
    tops = _tops(manifest, options)
    _check_names(manifest, tops)
    if options.axis and options.registered:
        _add_static(bundle, f"rtl/{BOUNDARY}", rtl_root() / BOUNDARY, prefix)
    context = _context(manifest, options, ports, tops)
    if options.axis:
        _render(bundle, f"rtl/{tops[-1].name}.v", "top/axis.v.j2", {**context, "name": tops[-1].name})
        bundle.add(f"rtl/{tops[-1].list}", "".join(f"{file}\n" for file in tops[-1].files))
    for file in BENCH:
        _add_static(bundle, f"sim/{file}", sim_root() / "testbench" / file, prefix)
    files = _checked_files(bundle, manifest, ports)
    for top in tops:
        bench = _bench(manifest, ports, top, files)
        _render(bundle, f"sim/{bench['name']}.sv", "testbench/testbench.sv.j2", {**context, **bench})
        _render(bundle, f"sim/{bench['name']}.f", "testbench/verilator.f.j2", {**context, **bench})
    bundle.manifest["handoff"] = _entry(options, ports, tops)
    for path, template in (
        (f"{manifest.top}.core", "synth/fusesoc.core.j2"),
        ("synth/files.tcl", "synth/files.tcl.j2"),
        ("synth/fusesoc_yosys.tcl", "synth/fusesoc_yosys.tcl.j2"),
        ("synth/yosys_verilog.ys", "synth/yosys_verilog.ys.j2"),
        ("synth/ecp5.sh", "synth/ecp5.sh.j2"),
        ("synth/clock.xdc", "synth/clock.xdc.j2"),
        ("synth/clock.sdc", "synth/clock.sdc.j2"),
        ("synth/vivado.tcl", "synth/vivado.tcl.j2"),
        ("synth/vivado_ip.tcl", "synth/vivado_ip.tcl.j2"),
        ("synth/quartus.tcl", "synth/quartus.tcl.j2"),
        (f"examples/{manifest.top}_example.v", "synth/example.v.j2"),
    ):
        _render(bundle, path, template, context)
    for device, mapper in MAPPERS.items():
        more = {"device": device, "family": mapper.title, "commands": mapper.script(tops[-1].name)}
        _render(bundle, f"synth/yosys_{device}.ys", "synth/yosys.ys.j2", {**context, **more})
    bundle.add(f"synth/{PACKER}", Path(pack_ecp5.__file__).read_bytes())
    _render(bundle, "README.md", "synth/README.md.j2", {**context, **readme_context(manifest, ports)})


def _put_prefix(bundle: Bundle, prefix: str) -> None:
    """Give the RTL and the memories of a bundle the prefix that is asked for."""
    has = bundle.manifest.get("prefix", "")
    if prefix and not has:
        hardware = {path: bundle.read(path) for path in bundle if path.startswith(("rtl/", "mem/"))}
        bundle.manifest, files = prefixed(bundle.manifest, hardware, prefix)
        for path in hardware:
            bundle.remove(path)
        for path, content in files.items():
            bundle.add(path, content)
        bundle.add("rtl/files.f", "".join(f"{path}\n" for path in bundle.manifest["rtl"]))
        _render(bundle, "sim/simulate.py", "top/simulate.py.j2", {"top": bundle.manifest["top"]})
    elif prefix != has:
        raise other_prefix(prefix, has, "run emit_verilog_top_transform_pass and those behind it again")


def _add_static(bundle: Bundle, path: str, source: Path, prefix: str) -> None:
    """Add a file with one module that is the same in every bundle, but for the prefix."""
    names = library_modules().keys() | {source.stem}
    bundle.add(renamed(path, prefix), with_prefix(content(source), path, names, prefix))


def _tops(manifest: Manifest, options: HandoffOptions) -> list[Top]:
    """The native top, and the wrapper if there is one."""
    files = list(manifest.rtl)
    native = Top(manifest.top, False, files, "files.f", manifest.clock, 0)
    if not options.axis:
        return [native]
    name = f"{native.name}_axis"
    needed = renamed(f"rtl/{BOUNDARY}", options.prefix)
    boundary = [needed] if options.registered and needed not in files else []
    delay = 2 if options.registered else 0
    return [native, Top(name, True, [*files, *boundary, f"rtl/{name}.v"], "files_axis.f", "aclk", delay)]


def _check_names(manifest: Manifest, tops: list[Top]) -> None:
    modules = {Path(file).stem for file in manifest.rtl}
    added = {
        *(manifest.prefix + Path(file).stem for file in BENCH),
        f"{manifest.top}_example",
        *(f"{top.name}_tb" for top in tops),
    }
    added |= {top.name for top in tops if top.axis}
    clash = sorted(modules & added)
    if clash:
        raise ConfigError(
            "a module of the design has the name of a module of the handoff",
            field="top_name",
            got=clash,
            remedy="choose another name for the top, or for the custom op",
        )


def _context(manifest: Manifest, options: HandoffOptions, ports: list[HandoffPort], tops: list[Top]) -> Json:
    """What every template may use."""
    boundary = "every TDATA, TVALID, TREADY and TLAST comes from a flip-flop (one skid buffer a port)"
    return {
        "version": __version__,
        "core": manifest.top,
        "prefix": options.prefix,
        "ports": ports,
        "inputs": [p for p in ports if p.into],
        "outputs": [p for p in ports if not p.into],
        "errors": [p for p in ports if p.into],
        "memory": bool(manifest.parameters),
        "loading": parameter_ports(manifest),
        "stored": manifest.image is not None,
        "outside": manifest.external is not None or manifest.caches is not None,
        "memories": sorted({entry.file for entry in manifest.memories}),
        "vectors": sorted(_vectors(manifest).files.values()),
        "registered": options.registered,
        "boundary": boundary if options.registered else "not registered",
        "options": options,
        "tops": tops,
        "top": tops[-1],
        "packer": PACKER,
        "yosys": {device: mapper.title for device, mapper in MAPPERS.items()},
    }


def _bench(manifest: Manifest, ports: list[HandoffPort], top: Top, files: list[Json]) -> Json:
    """Figures of the testbench of a top, which looks at these files before anything reads them."""
    first = next(p for p in ports if not p.into)
    timing, vectors = manifest.timing, _vectors(manifest).frames
    fill, interval, last = timing.fill, timing.interval, timing.last
    return {
        "name": f"{top.name}_tb",
        "dut": top.name,
        "axis": top.axis,
        "list": top.list,
        "vector_frames": vectors,
        "frames": max(FRAMES, vectors),
        "fill": fill + top.delay,
        "interval": interval,
        "exact": timing.exact,
        "watchdog": 8 * (last + interval) + 512,
        "tail": last + interval + 128,
        # Memories fetch their first words, and external memory brings what is held of it.
        "begin": 8 + (0 if manifest.external is None else manifest.external.primed),
        "cut": fill + interval + interval // 2 + 1,
        "files": files,
        "ports": [
            {
                "name": p.name,
                "into": p.into,
                "bus": p.bus,
                "width": p.tdata if top.axis else p.bits,
                "beats": p.beats,
                "file": p.file,
                "seed": p.seed,
                # Latency and interval are those from the first input to the first output.
                "last": f"unused_{p.name}_last" if p.into and not top.axis else f"{p.name}_last",
                "timed": p.name if p in (ports[0], first) else f"unused_{p.name}",
            }
            for p in ports
        ],
    }


def _vectors(manifest: Manifest) -> Vectors:
    assert manifest.vectors is not None  # of the pass before
    return manifest.vectors


def _checked_files(bundle: Bundle, manifest: Manifest, ports: list[HandoffPort]) -> list[Json]:
    """The files that a testbench looks at before anything reads them: vectors, and memories with their CRC-32."""
    frames = _vectors(manifest).frames
    found: list[Json] = [{"folder": "{VECTOR_DIR", "file": p.file, "words": p.beats * frames, "crc": ""} for p in ports]
    files = {entry.file for entry in manifest.memories} | ({manifest.external.file} if manifest.external else set())
    for file in sorted(files):
        content = bundle.read(file)
        words, crc = count_words(content), f"{zlib.crc32(content.replace(bytes([13]), b'')):08x}"
        found.append({"folder": "{MEM_DIR", "file": file.removeprefix("mem/"), "words": words, "crc": crc})
    return [entry | {"name": f"file_{index}"} for index, entry in enumerate(found)]


def _entry(options: HandoffOptions, ports: list[HandoffPort], tops: list[Top]) -> Json:
    """What the manifest says of the handoff."""
    return {
        "options": options.model_dump(exclude={"prefix"}),
        "tops": [
            {"name": t.name, "axis": t.axis, "list": f"rtl/{t.list}", "clock": t.clock, "added_fill": t.delay}
            for t in tops
        ],
        "testbenches": [f"sim/{t.name}_tb.sv" for t in tops],
        "axis_ports": [{"port": p.name, "bus": p.bus, "tdata": p.tdata, "bits": p.bits} for p in ports]
        if options.axis
        else [],
    }


def _render(bundle: Bundle, path: str, template: str, context: Json) -> None:
    bundle.add(path, rendered(template, **context))
