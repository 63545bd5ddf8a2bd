"""The module around a language model that chooses its tokens, which enter it again without a host."""

from __future__ import annotations

import msgspec
import numpy as np

from mase_hw._version import __version__
from mase_hw.design.decode import generate
from mase_hw.emit.causality import Tokens
from mase_hw.emit.passes import VECTORS, Vectors, bundle_of, memory_text
from mase_hw.emit.port_entry import format_of, port_record
from mase_hw.emit.reference import Reference
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.hardware.headers import instance
from mase_hw.hardware.library import content, rendered, source, with_dependences
from mase_hw.hardware.manifest import Generation
from mase_hw.hardware.manifest import Vectors as VectorFiles
from mase_hw.host.resources import rtl_root
from mase_hw.ir import MaseGraph
from mase_hw.options.decode import DecodeOptions
from mase_hw.passes.base import Info
from mase_hw.streams import Stream, ceil_div

LOOP = "lib/token_loop.sv"
MOST_CHOSEN = 16
"""Tokens of the example that software plays: each takes the model a whole sequence."""
MOST_SLOTS = 4
"""Slots whose sequences it plays."""
RESTART = 8
"""Cycles between the reset of a design and the next prompt, in which its memories have their first words ready."""


def add_generation(graph: MaseGraph, options: DecodeOptions) -> tuple[MaseGraph, Info]:
    """Add the module to a bundle that has its RTL.

    Args:
        graph: With a bundle of ids ``(1, context)`` to ids, and ``slot`` where sequences are in turn.
        options: What ends a sequence.

    Raises:
        UnsupportedError: If the design gives something else, or ids that are no inputs of it; or if its parameters are
            not in ROM.
    """
    bundle = bundle_of(graph)
    design = bundle.record
    slots, context = options.slots, options.context
    ids, *_, chosen = design.ports
    formats = [format_of(port.format) for port in (ids, chosen)]
    several = len(design.ports) != (2 if slots == 1 else 3)
    whole = all(fmt.frac_width == 0 and not fmt.signed and type(fmt) is FixedFormat for fmt in formats)
    if several or not whole or ids.shape != (1, context) or chosen.shape != ids.shape:
        raise UnsupportedError(
            "the design does not take ids and give the next ones",
            field="decode.stop, decode.length",
            got=", ".join(f"{port.name} {list(port.shape)} of {format_of(port.format)}" for port in design.ports),
            expected=f"ids [1, {context}], and ids [1, {context}]",
            remedy='set decode.sample = "greedy" or "top_k", or leave decode.stop and decode.length out',
        )
    width, core = (fmt.width for fmt in formats)
    largest = 1 << width
    if core > width or options.stop >= largest:
        raise UnsupportedError(
            "a token that is chosen, or the one that ends a sequence, is no token that enters",
            field="decode.stop",
            got=f"ids of {core} bits, stop {options.stop}",
            expected=f"ids of {width} bits, below {largest}",
            remedy="give the scores as many ids as the embedding has, and a stop that is one of them",
        )
    if design.image is not None or design.external is not None:
        raise UnsupportedError(
            "a design that generates by itself is reset behind a sequence, and would lose parameters that are loaded",
            field="hardware.parameters",
            got="ram or external",
            expected="rom",
            remedy="leave decode.stop and decode.length out, or hardware.parameters",
        )
    name = f"{design.top}_generate"
    length = min(options.length or context, context)
    token = FixedFormat(width + 1 + (slots - 1).bit_length(), 0, signed=False)
    taken = Stream("data_in_0", "in", (1, context), token)
    given = Stream("data_out_0", "out", (1, length), token)
    flight = context * ceil_div(design.timing.last, design.timing.interval)
    parameters: dict[str, object] = {
        "ID_WIDTH": width, "CORE_WIDTH": core, "CONTEXT": context, "LENGTH": length, "STOP": options.stop,
        "SLOTS": slots, "FLIGHT": flight, "RESTART": RESTART,
    }  # fmt: skip
    parameters |= {
        f"{way}_{key}": f"data_{way}_0{end}"
        for way in ("in", "out")
        for key, end in (("data", ""), ("valid", "_valid"), ("ready", "_ready"))
    }
    signals = {ids.name: "core_in", chosen.name: "core_out"}
    if slots > 1 and design.decode is not None:
        signals[design.decode.slot_port] = "core_slot"
    text = rendered(
        "top/generate.sv.j2",
        version=__version__,
        name=name,
        core=design.top,
        memory=bool(design.parameters),
        width=token.width,
        id_width=width,
        core_width=core,
        slot_width=max(1, (slots - 1).bit_length()),
        slotted=slots > 1,
        loop=instance(source(rtl_root() / LOOP), "token_loop", "u_loop", parameters),
        connected=[(f"{port}{end}", f"{to}{end}") for port, to in signals.items() for end in ("", "_valid", "_ready")],
    )
    files = [file for file in with_dependences([LOOP]) if f"rtl/{file}" not in design.rtl]
    for file in files:
        bundle.add(f"rtl/{file}", content(rtl_root() / file))
    bundle.add(f"rtl/{name}.sv", text)
    entry = Generation(
        top=name,
        rtl=(*(f"rtl/{file}" for file in files), f"rtl/{name}.sv"),
        ports=(port_record(taken, ids.tensor), port_record(given, chosen.tensor)),
        length=length,
        stop=options.stop,
        restart=RESTART + 2 if slots == 1 else 0,
    )
    entry = _with_example(graph, entry, (taken, given), width, slots)
    bundle.manifest["decode"]["generate"] = msgspec.to_builtins(entry)
    return graph, {"modified": True, "top": name}


def _with_example(
    graph: MaseGraph, loop: Generation, streams: tuple[Stream, Stream], width: int, slots: int
) -> Generation:
    """What software plays of a system: the begins of test vectors as prompts, and the sequences that they give.

    One prompt of a design with one slot. With more, one for each of some slots, and another one for the first of them.
    """
    bundle = bundle_of(graph)
    vectors: Vectors = graph.meta[VECTORS]
    context, most = streams[0].beats, min(loop.length, MOST_CHOSEN)
    (frames,) = Reference(graph).named(vectors.inputs).values()
    varied = int(np.argmax([len(frame.unique()) for frame in frames]))
    longest = max((context + 1) // 2, context - most + 1)
    used = min(slots, MOST_SLOTS)
    count = 1 if slots == 1 else used + 1
    # Each begins a token later and has one less than the one before, as far as there are so many.
    prompts = [frames[varied, at : max(longest, at + 1)].tolist() for at in (n % longest for n in range(count))]
    written = generate(graph, context, prompts, 0, loop=loop)
    files = {}
    sides: list[list[list[int]]] = [prompts, [list(each.chosen) for each in written]]
    for stream, rows in zip(streams, sides, strict=True):
        values = np.zeros((count, 1, stream.beats), np.int64)
        for at, tokens in enumerate(rows):
            values[at, 0, : len(tokens)] = tokens
            values[at, 0, len(tokens) - 1] += 1 << width
            values[at] += (at % used) << (width + 1)
        files[stream.name] = f"vectors/generate_{stream.name}.mem"
        bundle.add(files[stream.name], memory_text(stream, values))
    cycles = 0
    if slots == 1:
        rest = streams[1].beats - len(written[0].chosen)
        cycles = rest + sum(Tokens(graph.meta["netlist"], graph.catalogue, context).cycles(written[0].turns))
    return msgspec.structs.replace(loop, vectors=VectorFiles(frames=count, files=files), cycles=cycles)
