"""Bundle -> system: the shell's parameters from the manifest, the top level, and the software."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from mase_hw._version import __version__
from mase_hw.emit.bundle import FORMAT_VERSION, Bundle
from mase_hw.emit.port_entry import port_stream
from mase_hw.emit.read_bundle import read_file, read_manifest
from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.hardware.library import content, library_modules, rendered, source, with_dependences
from mase_hw.hardware.manifest import External, Manifest, Port, typed
from mase_hw.hardware.parameter_ports import LOADING, parameter_ports, reading
from mase_hw.hardware.prefix import other_prefix, prefixed, renamed, with_prefix
from mase_hw.host.documents import Json
from mase_hw.host.resources import rtl_root
from mase_hw.streams import ceil_div
from mase_hw.system.frames import Frame, Record
from mase_hw.system.images import images_of, outside_bytes
from mase_hw.system.options import SystemOptions
from mase_hw.system.vivado import add_vivado

SOFTWARE = "system/software"
"""Below ``rtl_templates``; a template of it ends in ``.j2``."""
SOC = "system/soc"
"""Below ``rtl_templates``: a LiteX SoC and a module class for one of one's own."""
OF_MEMORY, OF_STREAMS = ("mase_model", "mase_litex"), ("mase_axi_dma",)
"""What of the software is only for a system with a bus master, and only for one without."""
MORE_FRAMES = 4
"""That may be between the ends of frames at the input and at the output, besides those in the core."""


_SYMBOL = re.compile(r"\b(?:(?:mase|model|MASE|MODEL)_(?!hw\b)|Vsystem)")
"""How every symbol, macro and file of the software begins that another program may have too."""


def make_system(bundle: Path, out: Path, options: SystemOptions | None = None, weights: Path | None = None) -> Json:
    """Write the system of a bundle.

    Args:
        bundle: Folder that was emitted.
        out: Folder to write; an older system there is replaced as a whole.
        options: What may be chosen.
        weights: Folder that ``mase-hw weights`` wrote for the bundle: the self-test loads these parameters.

    Returns:
        The manifest of the system.

    Raises:
        EmitError: If the bundle is damaged, or the folder cannot be written.
        ConfigError: If the design has frames that memory cannot hold, or no vectors.
    """
    options = options or SystemOptions()
    raw = read_manifest(bundle)
    options = options.model_copy(update={"prefix": _prefix(raw, options.prefix)})
    raw, core = _core(bundle, raw, options.prefix)
    manifest = _by_token(typed(raw, str(bundle)))
    if (manifest.image or manifest.external) is not None and options.core_clock:
        raise ConfigError(
            "a core with a clock of its own cannot load parameters",
            field="--core-clock",
            expected="one clock, or parameters in ROM",
            remedy="leave it out",
        )
    if manifest.external is not None:
        _check_external(manifest.external, options)
    if manifest.caches is not None:
        raise UnsupportedError(
            "a system has no bus master that writes keys and values of a design that keeps them in external memory",
            field="decode.cache",
            got="external",
            remedy="compile the design without it, or connect the ports cache_* of the core yourself",
        )
    packed = options.elements == "packed"
    sides = [tuple(Frame.of(p, options.bus, packed) for p in ports) for ports in _ports(manifest)]
    records = (Record(sides[0]), Record(sides[1]))
    system = Bundle()
    for file, data in core.items():
        system.add(file, data)
    _add_hardware(system, manifest, records, options)
    images = images_of(bundle, manifest, weights)
    _add_software(system, manifest, records, options, _vectors(bundle, manifest, records, weights), images)
    system.manifest = {
        "format_version": FORMAT_VERSION,
        "generator": {"mase_hw": __version__},
        "kind": "system",
        "top": _name(manifest),
        "design": manifest.digest,
        "options": options.model_dump(),
        "frames": {way: _entries(record, manifest) for way, record in zip(("in", "out"), records, strict=True)},
        "interval": manifest.timing.interval,
        **({} if manifest.decode is None else {"decode": raw["decode"]}),
        **({} if manifest.image is None else {"image_words": manifest.image.words + 3}),
        **({} if manifest.external is None else {"outside_bytes": outside_bytes(manifest)}),
    }
    system.write(out)
    written: Json = json.loads(system.manifest_text())
    return written


def _check_external(memory: External, options: SystemOptions) -> None:
    """Refuse a system that cannot bring the words of external memory.

    Raises:
        ConfigError: If it has no bus master, or one of another width.
    """
    if options.data != "memory":
        raise ConfigError(
            "a system whose frames come on streams does not read parameters from memory",
            field="--data",
            expected="memory",
            remedy="leave it out, or connect the ports parameters_* of the core yourself",
        )
    if options.bus != memory.bits:
        raise ConfigError(
            "the bus is not as wide as a word of external memory",
            field="--bus",
            got=options.bus,
            expected=f"{memory.bits}, the bits of external_bytes",
            remedy="choose that bus, or compile the design with other external_bytes",
        )


def _by_token(manifest: Manifest) -> Manifest:
    """A manifest in which the frames of a design that decodes are its tokens: a job is some of them.

    Of one that generates by itself they are prompts and sequences, each filled up to the longest one.

    Raises:
        ConfigError: If the tokens of a port do not lie one after the other.
    """
    if manifest.decode is None:
        return manifest
    if _generates(manifest):
        loop = manifest.decode.generate
        assert loop is not None
        timing = manifest.timing
        if loop.cycles:
            timing = msgspec.structs.replace(timing, interval=loop.cycles, last=loop.cycles)
        rtl = (*manifest.rtl, *loop.rtl)
        return msgspec.structs.replace(
            manifest, top=loop.top, rtl=rtl, ports=loop.ports, timing=timing, vectors=loop.vectors
        )
    context, ports = manifest.decode.context, []
    for port in manifest.ports:
        if port.layout is not None:
            raise ConfigError(
                "a system takes tokens whose features come in the order of the tensor",
                node=port.name,
                got=port.layout,
                expected="row-major",
                remedy="connect the core's own streams, which the bundle's README describes",
            )
        sizes = {"shape": _one(port.shape), "streamed": _one(port.streamed), "beats": port.beats // context}
        ports.append(msgspec.structs.replace(port, **sizes))
    timing = manifest.timing
    average = ceil_div(timing.interval, context)
    timing = msgspec.structs.replace(timing, interval=average)
    return msgspec.structs.replace(manifest, ports=tuple(ports), timing=timing)


def _generates(manifest: Manifest) -> bool:
    """Whether a system has a design that generates by itself: prompts go in, and sequences come out."""
    decode = manifest.decode
    return decode is not None and decode.generate is not None and decode.generate.vectors is not None


def _one(sizes: Sequence[int]) -> tuple[int, ...]:
    """Sizes of one token of a sequence."""
    return (sizes[0], 1, *sizes[2:])


def _prefix(raw: Json, asked: str) -> str:
    """The prefix of a system: that of the bundle, or else the one that is asked for."""
    has: str = raw.get("prefix", "")
    if has and asked not in ("", has):
        raise other_prefix(asked, has, "leave it out, or compile the bundle without one")
    return has or asked


def _core(bundle: Path, raw: Json, prefix: str) -> tuple[Json, dict[str, bytes]]:
    """The manifest of a bundle, and its RTL and memories, under a prefix."""
    files = {
        file: read_file(bundle, raw["files"], file)
        for file in (
            *raw["rtl"],
            *raw.get("decode", {}).get("generate", {}).get("rtl", ()),
            *(file for file in raw["files"] if file.startswith("mem/")),
        )
    }
    return (raw, files) if prefix == raw.get("prefix", "") else prefixed(raw, files, prefix)


def _entries(record: Record, manifest: Manifest) -> list[Json]:
    """Where the frame of every port lies, and what software needs to make it of a tensor."""
    ports = {port.name: msgspec.to_builtins(port) for port in manifest.ports}
    return [
        {**frame.entry(), "offset": offset, **{key: ports[frame.port][key] for key in ("shape", "layout", "format")}}
        for offset, frame in record.parts
    ]


def _name(manifest: Manifest) -> str:
    return f"{manifest.top}_system"


def _ports(manifest: Manifest) -> list[list[Port]]:
    return [[port for port in manifest.ports if port.direction == direction] for direction in ("in", "out")]


def _add_hardware(system: Bundle, manifest: Manifest, records: tuple[Record, Record], options: SystemOptions) -> None:
    shell = f"system_{options.data}"
    library = with_dependences([f"system/{shell}.sv"])
    files = list(manifest.rtl)
    for name in library:
        if (path := renamed(f"rtl/{name}", options.prefix)) not in files:
            files.insert(len(files) - 1, path)
            module = content(rtl_root() / name)
            system.add(path, with_prefix(module, path, library_modules().keys(), options.prefix))
    widths = [("ADDR_WIDTH", options.address_bits)] if options.data == "memory" else []
    widths.append(("DATA_WIDTH", options.bus))
    bursts = [("BURST", options.burst), ("OUTSTANDING", options.outstanding)] if options.data == "memory" else []
    name = _name(manifest)
    ports, names = _shell_ports(shell, dict(widths))
    text = rendered(
        "system/top.sv.j2",
        version=__version__,
        name=name,
        core=manifest.top,
        shell=options.prefix + shell,
        core_parameters={name: name for name in manifest.parameters} | ({"FRAMES": 1} if _generates(manifest) else {}),
        memory=bool(manifest.parameters),
        parameters=[
            *widths,
            *bursts,
            *_sides(records),
            ("OUT_SIGNED", sum(int(frame.signed) << i for i, frame in enumerate(records[1].frames))),
            ("FLIGHT", _flight(manifest) + MORE_FRAMES),
            *([] if manifest.external is None else [("EXTERNAL", 1)]),
            ("CORE_CLOCK", int(options.core_clock)),
            ("DIGEST", f"64'h{manifest.digest[:16]}"),
        ],
        ports=ports,
        names=names,
        streams=[] if options.data == "memory" else _streams(records),
        bus=options.bus,
        core_clock=options.core_clock,
        prefix=options.prefix,
        signals=[*LOADING, *reading(options.bus)[slice(1, None if options.data == "memory" else 5)]],
        of_core=parameter_ports(manifest),
        stored=manifest.image is not None,
        outside=manifest.external is not None,
        reading=options.data == "memory",
        inputs=records[0].frames,
        outputs=records[1].frames,
        joined=_joined,
    )
    files.append(f"rtl/{name}.sv")
    system.add(files[-1], text)
    system.add("rtl/files.f", "".join(f"{file}\n" for file in files))
    system.add("rtl/top.f", f"{name}\n")
    if options.core_clock:
        for page in ("clocks.xdc", "clocks.sdc"):
            system.add(f"constraints/{page}", (rtl_root() / "system/constraints" / page).read_bytes())
    add_vivado(system, manifest, name, options)
    for page in ("REGISTERS.md", "NOTICE"):
        system.add(page, (rtl_root() / "system" / page).read_bytes())


def _flight(manifest: Manifest) -> int:
    """Frames in the core at most; of a design that decodes the tokens of whole sequences."""
    if manifest.decode is not None and _generates(manifest):
        return manifest.decode.slots
    tokens = 1 if manifest.decode is None else manifest.decode.context
    return tokens * ceil_div(manifest.timing.last, tokens * manifest.timing.interval)


def _streams(records: tuple[Record, Record]) -> list[Json]:
    """The interfaces of either direction: one is called as ever, several after their ports."""
    signals = ("tdata", "tkeep", "tlast", "tuser", "tvalid", "tready")
    found = []
    for name, record in zip(("s_axis", "m_axis"), records, strict=True):
        several = len(record.frames) > 1
        names = [f"{name}_{frame.port}" if several else name for frame in record.frames]
        parts = [signal for signal in signals if name == "m_axis" or signal != "tuser"]
        found.append({"shell": name, "names": names, "signals": parts})
    return found


def _joined(frames: tuple[Frame, ...], suffix: str) -> str:
    names = [f"{frame.port}{suffix}" for frame in reversed(frames)]
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


def _sides(records: tuple[Record, Record]) -> list[tuple[str, int | str]]:
    found: list[tuple[str, int | str]] = []
    for side, count, record in zip(("IN", "OUT"), ("INPUTS", "OUTPUTS"), records, strict=True):
        several = len(record.frames) > 1
        if several:
            found += [(count, len(record.frames)), (f"{side}_BITS", sum(f.lanes * f.width for f in record.frames))]
        for key in ("width", "slot", "lanes", "row", "size"):
            values = [getattr(frame, key) for frame in record.frames]
            joined = ", ".join(f"32'd{value}" for value in reversed(values))
            found.append((f"{side}_{key.upper()}", f"{{{joined}}}" if several else values[0]))
    return found


def _shell_ports(shell: str, widths: dict[str, int]) -> tuple[str, list[str]]:
    """The ports of a shell that are those of the system as well, as text and by name: not streams, nor the core's."""
    text = source(rtl_root() / f"system/{shell}.sv")
    text = text.partition("\n) (\n")[2]
    ports = re.split(r"    // (?:AXI4-Stream: frames in|the core)\n", text)[0].rstrip().rstrip(",")
    # Columns are aligned for the widths that are written in the shell.
    ports = re.sub(r"(?<=\S) +", " ", ports).replace("[ ", "[")
    ports = re.sub(r"(\w+_WIDTH)(/8)?-1:", lambda of: f"{widths[of[1]] // (8 if of[2] else 1) - 1}:", ports)
    return ports, re.findall(r"(\w+)(?:,|$)\s*(?://.*)?$", ports, re.MULTILINE)


def _vectors(
    bundle: Path, manifest: Manifest, records: tuple[Record, Record], weights: Path | None
) -> tuple[list[list[int]], list[list[int]]]:
    """Of every job of one frame: the integers of all inputs, and the bytes of all outputs."""
    if manifest.vectors is None:
        raise ConfigError(
            "the bundle has no vectors for the self-test", node=str(bundle), remedy="emit it with vectors or examples"
        )
    files = manifest.vectors.files
    ports = {port.name: port for port in manifest.ports}
    others = None if weights is None else np.load(weights / "vectors.npz")

    def played(frame: Frame) -> list[list[int]]:
        if others is not None:
            return frame.from_beats(port_stream(ports[frame.port]).pack(others[frame.port]))
        return frame.from_vectors(
            ports[frame.port], read_file(bundle, manifest.files, files[frame.port]).decode("ascii")
        )

    inputs = [
        [value for part in parts for value in part] for parts in zip(*map(played, records[0].frames), strict=True)
    ]
    outputs = [
        [byte for frame, part in zip(records[1].frames, parts, strict=True) for byte in frame.pack(part)]
        for parts in zip(*map(played, records[1].frames), strict=True)
    ]
    return inputs, outputs


def _add_software(
    system: Bundle,
    manifest: Manifest,
    records: tuple[Record, Record],
    options: SystemOptions,
    vectors: tuple[list[list[int]], list[list[int]]],
    images: Mapping[str, Sequence[int]],
) -> None:
    slots = manifest.decode.slots if manifest.decode is not None and _generates(manifest) else 0
    context = {
        "version": __version__,
        "top": manifest.top,
        "digest": manifest.digest,
        "options": options,
        "limit": (1 << options.address_bits) - 1,
        "interval": manifest.timing.interval,
        "image_words": 0 if manifest.image is None else manifest.image.words + 3,
        "outside_bytes": outside_bytes(manifest),
        "images": images,
        "wide": any(frame.width + (not frame.signed) > 32 for record in records for frame in record.frames),
        "input": records[0],
        "output": records[1],
        "inputs": vectors[0],
        "outputs": vectors[1],
        "cycles": _cycles(manifest, records),
        "letters": _letters(options.letters, manifest, records),
        "last": 1 << records[0].frames[0].width - 1 - (slots - 1).bit_length() if slots else 0,
        "slots": slots,
    }
    found = {}
    for path in sorted((rtl_root() / SOFTWARE).iterdir()):
        if path.suffix == ".j2":
            text = rendered(f"{SOFTWARE}/{path.name}", **context)
            found[f"software/{path.stem}"] = text
        elif not path.stem.startswith(OF_STREAMS if options.data == "memory" else OF_MEMORY):
            found[f"software/{path.name}"] = path.read_text(encoding="utf-8")
    if options.data == "memory":
        found |= {f"soc/{path.name}": path.read_text(encoding="utf-8") for path in (rtl_root() / SOC).glob("*.*")}
    for file, text in found.items():
        system.add(_renamed_symbols(file, options.prefix), _renamed_symbols(text, options.prefix))


def _cycles(manifest: Manifest, records: tuple[Record, Record]) -> tuple[int, ...]:
    """The cycles of every token of a design that takes ids and gives scores or ids; none of any other design."""
    one = len(records[0].frames) == len(records[1].frames) == 1 and records[0].size == 1 and not _generates(manifest)
    return manifest.decode.cycles if manifest.decode is not None and one else ()


def _letters(letters: str, manifest: Manifest, records: tuple[Record, Record]) -> list[str]:
    """String literals of C for the ids.

    Raises:
        ConfigError: If the design gives other numbers of ids, or none.
    """
    if letters and not _cycles(manifest, records) and not _generates(manifest):
        raise ConfigError("only a design that decodes ids writes text", field="--letters", remedy="leave it out")
    ids = records[1].size if records[1].size > 1 and not _generates(manifest) else len(letters)
    if letters and len(letters) != ids:
        raise ConfigError("every id has a character", field="--letters", got=len(letters), expected=f"{ids} characters")
    shown = (letter if letter.isprintable() else " " for letter in letters)
    return ["".join(f"\\{byte:03o}" for byte in letter.encode()) for letter in shown]


def _renamed_symbols(text: str, prefix: str) -> str:
    """Text of the software, or the path of a file of it, with the prefix before every name that others may see."""
    return _SYMBOL.sub(lambda found: (prefix.upper() if found[0].isupper() else prefix) + found[0], text)
