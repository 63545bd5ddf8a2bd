"""The emit passes: each adds its part to the graph's bundle, and writes the bundle if told where."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from pydantic import Field
from torch import Tensor

from mase_hw.beat_times import Solved
from mase_hw.catalogue import Hardware
from mase_hw.emit.build import build_followed
from mase_hw.emit.bundle import PICTURE, Bundle, check_target
from mase_hw.emit.causality import Tokens, needed, refuse_states
from mase_hw.emit.checks.elaborate import check_elaboration
from mase_hw.emit.constants import stored_values
from mase_hw.emit.manifest import describe_design
from mase_hw.emit.memory.caches import move_caches
from mase_hw.emit.netlist import Instance, Netlist
from mase_hw.emit.port_entry import port_stream
from mase_hw.emit.reference import Reference
from mase_hw.emit.render import render_generated, render_top
from mase_hw.emit.schedule import predict
from mase_hw.emit.steady import steady_frame
from mase_hw.errors import ConfigError, EmitError, PassOrderError
from mase_hw.hardware.beats import to_words
from mase_hw.hardware.external import image, image_text
from mase_hw.hardware.keywords import KEYWORDS
from mase_hw.hardware.library import content, library_modules, rendered
from mase_hw.host.documents import Json
from mase_hw.host.resources import rtl_root
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotated import SOLVED
from mase_hw.ir.draw import render
from mase_hw.ops._slots import slots_of
from mase_hw.passes.base import Info, PassArgs, graph_pass
from mase_hw.passes.mapping.add_hardware_metadata import HARDWARE_ARGS, map_what_was_set
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.streams import IntArray, Stream

HARDWARE = "add_hardware_metadata_analysis_pass"
TOP = "emit_verilog_top_transform_pass"
MOST_TOP = 128
"""Characters of the top's name; longer ones are cut by other tools."""

VECTORS = "vectors"
"""Where a graph has the test vectors that were chosen for it: ``graph.meta[VECTORS]``, :class:`Vectors`."""


@dataclasses.dataclass(frozen=True)
class Vectors:
    """Test vectors and what is known of them.

    Args:
        inputs: By name of the model's input, frames along the first dimension.
        entry: What the manifest says of them.
        stacks: Whether two frames together were found to give what each gives alone.
    """

    inputs: Mapping[str, Tensor]
    entry: Json
    stacks: bool = False


class EmitArgs(PassArgs):
    """Arguments of every emit pass."""

    project_dir: Path | None = Field(
        default=None, description="where to write the bundle as it then is; None keeps it in memory for the next pass"
    )


class TopArgs(EmitArgs):
    """Arguments of ``emit_verilog_top_transform_pass``."""

    top_name: str = Field(default="top", description="module name of the top level")
    context: int = Field(
        default=0, ge=0, description="of a causal language model whose tokens come one at a time: those of a frame"
    )
    cache: Literal["block_ram", "external"] = Field(
        default="block_ram", description="where keys and values of a sequence are; with a context"
    )
    steady: bool = Field(
        default=True,
        description="find the first frame from which on the interval holds, to which simulations are held",
    )


class CocotbArgs(EmitArgs):
    """Arguments of ``emit_cocotb_transform_pass``."""

    inputs: Any = Field(
        default=None,
        description="inputs of the model; their quantised form and the results become the bundle's test vectors; "
        "those that ``choose_vectors_analysis_pass`` chose if none are given",
    )


def bundle_of(graph: MaseGraph) -> Bundle:
    """The bundle that the emit passes have filled so far."""
    bundle: Bundle = graph.meta["bundle"]
    return bundle


def write_bundle(graph: MaseGraph, args: EmitArgs) -> Json:
    """Write the bundle if told where; what a pass says of it."""
    bundle = bundle_of(graph)
    if args.project_dir is not None:
        bundle.write(args.project_dir)
    return {"files": list(bundle), "project_dir": str(args.project_dir) if args.project_dir else None}


@graph_pass(TOP, args=TopArgs, needs=(HARDWARE,))
def emit_verilog_top_transform_pass(graph: MaseGraph, args: TopArgs) -> tuple[MaseGraph, Info]:
    """Build and verify the netlist, predict its timing, render ``rtl/<top>.sv``, start the manifest.

    Raises:
        EmitError: If the netlist is broken or the folder cannot be written.
        ConfigError: If the top's name is not a SystemVerilog identifier.
        GraphError: If tokens are to come one at a time, and a result of one waits for those after it.
    """
    modules = set(library_modules()) | {op.hardware.module for op in graph.catalogue if op.hardware is not None}
    if not args.top_name.isidentifier() or not args.top_name.isascii() or args.top_name in KEYWORDS | modules | {"TOP"}:
        raise ConfigError(
            "the top's name is no identifier that SystemVerilog allows",
            field="top_name",
            got=f"{args.top_name:.80}",
            expected="letters, digits and underscores, no keyword and no name of a library module",
        )
    if len(args.top_name) > MOST_TOP:
        raise ConfigError(
            "the top's name is too long for the files that carry it",
            field="top_name",
            got=f"{len(args.top_name)} characters",
            expected=f"at most {MOST_TOP}",
        )
    if args.project_dir is not None:
        check_target(args.project_dir)
    map_what_was_set(graph)
    solved = graph.meta.get(SOLVED) or Solved()
    netlist, followed = build_followed(graph, args.top_name, solved)
    if args.cache == "external" and args.context:
        given = graph.note(HARDWARE_ARGS, HardwareArgs) or HardwareArgs()
        move_caches(netlist, graph.catalogue, args.context, given.external_memory)
        followed = None
    if args.top_name in netlist.signals():
        raise ConfigError(
            "the top's name is that of a signal inside it", field="top_name", got=args.top_name, remedy="choose another"
        )
    if args.context and netlist.twins:
        raise ConfigError(
            "a token would enter the first of shared blocks when the one before has left the last, and the next pass "
            "waits for all of them",
            field="hardware.shared",
            got=f"a design that decodes {args.context} tokens",
            remedy="leave decode.context or hardware.shared out",
        )
    refuse_states(graph, netlist)
    if netlist.slot is not None and (netlist.loaded or not args.context):
        raise ConfigError(
            "sequences in turn need tokens that come one at a time, and parameters in ROM",
            field="hardware.slots",
            got="parameters that are loaded" if netlist.loaded else "no decode.context",
            remedy="set decode.slots instead, and leave hardware.parameters out",
        )
    schedule = predict(netlist, graph.catalogue, followed, solved)
    bundle = graph.meta["bundle"] = Bundle()
    steady = steady_frame(netlist, graph.catalogue, schedule, solved, followed) if args.steady else None
    described = describe_design(netlist, schedule, Reference(graph), graph.catalogue, steady)
    bundle.manifest |= msgspec.to_builtins(described)
    if args.context:
        tokens = Tokens(netlist, graph.catalogue, args.context)
        bundle.manifest["decode"] = {"context": args.context, "cycles": tokens.cycles([1] * args.context)}
        if netlist.slot is not None:
            slots = slots_of(netlist.slot.fmt)
            paces = [(n, tokens.pace(n, args.context - 1)) for n in sorted({*range(1, min(slots, 4) + 1), slots})]
            bundle.manifest["decode"] |= {"slots": slots, "slot_port": netlist.slot.name, "paces": paces}
    bundle.add(
        f"rtl/{netlist.name}.sv",
        render_top(
            netlist,
            schedule,
            needed(netlist, graph.catalogue),
            described.image,
            described.external,
            described.caches,
        ),
    )
    graph.meta["netlist"], graph.meta["schedule"] = netlist, schedule
    graph.meta.pop(VECTORS, None)  # what they show was measured on another netlist
    return graph, {**write_bundle(graph, args), "timing": bundle.manifest["timing"]}


@graph_pass("emit_internal_rtl_transform_pass", args=EmitArgs, needs=(TOP,))
def emit_internal_rtl_transform_pass(graph: MaseGraph, args: EmitArgs) -> tuple[MaseGraph, Info]:
    """Copy the library and op modules the design instantiates, elaborate them, write the file list, draw the graph.

    Raises:
        ConfigError: If a module is in none of the files of its op, or in two files.
        EmitError: If a file of a custom op is not there any more, or a module refuses its parameters.
    """
    bundle = bundle_of(graph)
    netlist: Netlist = graph.meta["netlist"]
    for path, text in rtl_files(graph).items():
        bundle.add(path, text)
    written = {path: bundle.read(path).decode(errors="replace") for path in bundle.manifest["rtl"]}
    check_elaboration(netlist, written, graph.catalogue)
    for made in netlist.generated.values():
        for path, text in (made.beside() if made.beside is not None else {}).items():
            bundle.add(path, text)
    bundle.add("rtl/files.f", "".join(f"{path}\n" for path in bundle.manifest["rtl"]))
    bundle.add(PICTURE, render(graph))
    return graph, write_bundle(graph, args)


def rtl_files(graph: MaseGraph) -> dict[str, str | bytes]:
    """Content of every RTL file by its path in the bundle, but for the top level, which is in the bundle already.

    Raises:
        EmitError: If a file of a custom op is not there any more.
    """
    netlist: Netlist = graph.meta["netlist"]
    texts = {file: text for made in netlist.generated.values() for file, text in made.texts.items()}
    found: dict[str, str | bytes] = {}
    for path in bundle_of(graph).manifest["rtl"]:
        file = path.removeprefix("rtl/")
        if file in texts:
            found[path] = texts[file]
        elif file in netlist.generated:
            found[path] = render_generated(netlist.generated[file])
        elif file != f"{netlist.name}.sv":
            found[path] = _read(netlist.external.get(file, rtl_root() / file))
    return found


def design_files(graph: MaseGraph) -> dict[str, bytes]:
    """Content of every RTL and memory file of a design that is not written, by its path in the bundle.

    Raises:
        EmitError: As :func:`rtl_files` and :func:`memory_files`.
    """
    bundle, netlist = bundle_of(graph), graph.meta["netlist"]
    top = f"rtl/{netlist.name}.sv"
    memories = memory_files(graph, netlist, bundle.manifest.get("external", {}).get("design", ""))
    found: dict[str, str | bytes] = {top: bundle.read(top), **rtl_files(graph), **memories}
    return {path: text.encode() if isinstance(text, str) else text for path, text in found.items()}


def _read(path: Path) -> bytes:
    try:
        return content(path)
    except OSError as error:
        raise EmitError("an RTL file cannot be read", node=str(path), got=error.strerror) from error


@graph_pass("emit_bram_transform_pass", args=EmitArgs, needs=(TOP,))
def emit_bram_transform_pass(graph: MaseGraph, args: EmitArgs) -> tuple[MaseGraph, Info]:
    """Write the memory files: every parameter of every node, quantised, in the order its module reads it."""
    bundle = bundle_of(graph)
    files = memory_files(graph, graph.meta["netlist"], bundle.manifest.get("external", {}).get("design", ""))
    for file, text in files.items():
        bundle.add(file, text)
    return graph, {**write_bundle(graph, args), "words": {file: text.count("\n") for file, text in files.items()}}


def memory_files(graph: MaseGraph, netlist: Netlist, external: str = "") -> dict[str, str]:
    """Content of every memory file by its path in the bundle, from the parameters as they are now.

    Args:
        graph: With the parameters.
        netlist: Of it.
        external: The number of the design in the image in external memory, if it reads one.
    """
    files: dict[str, str] = {}
    for net in netlist.nets:
        if net.source.instance not in netlist.memories:
            continue
        port = next(p for p in netlist.instance(net.sink.instance).ports if p.name == net.sink.port)
        reader = netlist.instance(net.sink.instance)
        sets: list[IntArray] = []
        for name in netlist.twins.get(reader.node, (reader.node,)):
            node = graph.node(name)
            sets.append(stored_values(graph, node, port))
            op = graph.hardware_op(node)
            if op is not None and op.hardware is not None:
                _check_codes(reader, op.hardware, port, sets[-1])
        file = f"mem/{netlist.memories[net.source.instance]}"
        files[file] = memory_text(dataclasses.replace(port, repeat=1), np.concatenate(sets))
    if netlist.outside is not None:
        found = netlist.outside_sources
        texts = [files[f"mem/{netlist.memories[instance.name]}"] for instance, _ in found]
        words = image([tensor for _, tensor in found], texts, external)
        files[netlist.outside.file] = image_text(words, netlist.outside.bits)
    for _, name, memory in netlist.tables:
        digits = (memory.bits + 3) // 4
        files[f"mem/{name}"] = "".join(f"{word:0{digits}x}\n" for word in memory.words)
    return files


def _check_codes(instance: Instance, facets: Hardware, port: Stream, values: IntArray) -> None:
    """Refuse a code that the module was chosen without; parameters may have changed since."""
    params = facets.record(instance.parameters)
    lowest = port.fmt.mantissas.min_mantissa
    if port.name in facets.narrow(params) and values.min() <= lowest:
        raise EmitError(
            "a parameter has the most negative code, which it had not when its module was chosen",
            node=f"{instance.node}.{port.name}",
            got=int(values.min()),
            expected=f"{lowest + 1} or more",
            remedy="run add_hardware_metadata_analysis_pass again",
        )


def memory_text(stream: Stream, tensor: IntArray) -> str:
    """Tensors ``(frames, *shape)`` as ``$readmemh`` words, one beat per line."""
    return to_words(stream, stream.pack(tensor))


@graph_pass(
    "emit_cocotb_transform_pass",
    args=CocotbArgs,
    needs=(TOP, "emit_internal_rtl_transform_pass", "emit_bram_transform_pass"),
)
def emit_cocotb_transform_pass(graph: MaseGraph, args: CocotbArgs) -> tuple[MaseGraph, Info]:
    """Write test vectors, given or chosen before, and the script that simulates the bundle against them.

    Raises:
        PassOrderError: If there are none, and none were chosen.
    """
    bundle = bundle_of(graph)
    chosen: Vectors | None = graph.meta.get(VECTORS)
    if args.inputs is None and chosen is None:
        raise PassOrderError(
            "there are no test vectors",
            field="inputs",
            got=f"passes run so far: {', '.join(graph.completed)}",
            remedy="give inputs, or run choose_vectors_analysis_pass first",
        )
    known = {} if args.inputs is not None or chosen is None else dict(chosen.entry)
    inputs = args.inputs if chosen is None or args.inputs is not None else chosen.inputs
    stacks = args.inputs is None and chosen is not None and chosen.stacks
    stimulus, expected = Reference(graph).run(inputs, stacks=stacks)
    frames = len(next(iter(stimulus.values())))
    streams = {port.name: port_stream(port) for port in bundle.record.ports}
    for name, tensor in {**stimulus, **expected}.items():
        bundle.add(f"vectors/{name}.mem", memory_text(streams[name], tensor))
    bundle.manifest["vectors"] = {"frames": frames, "files": {n: f"vectors/{n}.mem" for n in streams}, **known}
    script = rendered("top/simulate.py.j2", top=bundle.manifest["top"])
    bundle.add("sim/simulate.py", script)
    return graph, {**write_bundle(graph, args), "frames": frames}
