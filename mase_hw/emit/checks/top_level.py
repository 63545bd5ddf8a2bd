"""What a manifest says of the hardware that its own top level contradicts: ports, instances, parameters, memories."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from mase_hw.hardware.manifest import Manifest

_PORT = re.compile(r"^    (?:input|output) logic \[(\d+):0\]\[(\d+):0\] (\w+),?$", re.MULTILINE)
_INSTANCE = re.compile(r"^  // (\w+): \w+\n  (\w+) #\(\n(.*?)  \) (\w+) \(\n", re.MULTILINE | re.DOTALL)
_PARAMETER = re.compile(r"^      \.(\w+)\((.*)\),?$", re.MULTILINE)
_CHECK = re.compile(r"\.NAME \(\"([^\"]*)\"\),\s*\.FRAME\((\d+)\)")
_FIFO, _ROM = "stream_fifo", "rom_source"


def other_hardware(manifest: Manifest, folder: Path) -> Iterator[str]:
    """Everything in a manifest that the RTL beside it says otherwise.

    Args:
        manifest: As read.
        folder: Of the bundle.
    """
    text = (folder / f"rtl/{manifest.top}.sv").read_text(encoding="utf-8")
    yield from _ports(manifest, text)
    tops = {manifest.top: text}
    tops = {top: (folder / f"rtl/{top}.sv").read_text(encoding="utf-8") for top in manifest.devices} or tops
    built = {
        (manifest.devices[top].begins if manifest.devices else "") + name: (
            node,
            module.removeprefix(manifest.prefix),
            dict(_PARAMETER.findall(said)),
        )
        for top, text in tops.items()
        for node, module, said, name in _parts(text)
    }
    yield from _instances(manifest, built)
    parameters = {name: said for name, (_, _, said) in built.items()}
    yield from _fifos(manifest, {name: parameters[name] for name, (_, module, _) in built.items() if module == _FIFO})
    yield from _memories(manifest, parameters, folder)


def _parts(text: str) -> list[tuple[str, str, str, str]]:
    return [found.groups() for found in _INSTANCE.finditer(text.partition("`ifndef SYNTHESIS")[0])]  # type: ignore[misc]


def _ports(manifest: Manifest, text: str) -> Iterator[str]:
    """Lanes and bits of the ports, and the beats that their monitors count as a frame."""
    built = {name: (int(lanes) + 1, int(width) + 1) for lanes, width, name in _PORT.findall(text)}
    beats: dict[str, int] = {}
    for name, frame in _CHECK.findall(text):
        beats |= {end: int(frame) for end in name.split(" to ") if "." not in end}
    for entry in manifest.ports:
        name = entry.name
        for key, said, has in (
            ("lanes, width", (entry.lanes, entry.format.width), built.get(name)),
            ("beats", entry.beats, beats.get(name)),
        ):
            if said != has:
                yield f"ports.{name}: {key} {said}, but the top level has {has}"


def _instances(manifest: Manifest, built: Mapping[str, tuple[str, str, Mapping[str, str]]]) -> Iterator[str]:
    """Instances of the top level, their modules and their parameters."""
    begins = tuple(each.begins for each in manifest.devices.values()) or ("",)
    named = {entry.name: entry for entry in manifest.instances if entry.name.startswith(begins)}
    for name in sorted(named.keys() ^ built.keys()):
        yield f"instances: {name} is " + ("in the manifest only" if name in named else "in the top level only")
    for name in named.keys() & built.keys():
        entry, (node, module, parameters) = named[name], built[name]
        for key, said, has in (("node", entry.node, node), ("module", entry.module, module)):
            if said != has:
                yield f"instances.{name}.{key}: {said!r}, but the top level has {has!r}"
        for key, value in entry.parameters.items():
            if str(value) != parameters.get(key):
                yield f"instances.{name}.parameters.{key}: {value}, but the top level has {parameters.get(key)}"


def _fifos(manifest: Manifest, built: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Depths and widths of the FIFOs."""
    named = {entry.instance: entry for entry in manifest.fifos}
    for name in sorted(named.keys() ^ built.keys()):
        yield f"fifos: {name} is " + ("no FIFO of the top level" if name in named else "missing")
    for name in named.keys() & built.keys():
        for key, parameter in (("depth", "DEPTH"), ("bits", "WIDTH")):
            if str(getattr(named[name], key)) != built[name][parameter]:
                yield f"fifos.{name}.{key}: {getattr(named[name], key)}, but the top level has {built[name][parameter]}"


def _memories(manifest: Manifest, built: Mapping[str, Mapping[str, str]], folder: Path) -> Iterator[str]:
    """Words and bits of the memories, by the size of their files."""
    for entry in manifest.memories:
        words, bits, file = entry.words, entry.bits, folder / entry.file
        if entry.instance not in built:
            yield f"memories.{entry.file}: {entry.instance} is no instance of the top level"
        if file.is_file() and file.stat().st_size != words * ((bits + 3) // 4 + 1):
            yield f"memories.{entry.file}: {words} words of {bits} bits do not make its {file.stat().st_size} bytes"
        depth, width = (built.get(entry.instance, {}).get(key) for key in ("DEPTH", "WIDTH"))
        if "MEM_FILE" in built.get(entry.instance, {}) and (str(words), str(bits)) != (depth, width):
            yield f"memories.{entry.file}: {words} words of {bits} bits, but its ROM has {depth} of {width}"
