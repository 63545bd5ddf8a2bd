"""A manifest whose hashes were computed anew, but that says what cannot all be true at once."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import mase_hw
from mase_hw.emit.checks.contradictions import contradicted, contradictions
from mase_hw.errors import EmitError, ResultsError
from mase_hw.hardware.manifest import typed
from tests.emit.bundles import emit, rewrite
from tests.emit.designs import DESIGNS
from tests.unit.pipeline import inputs

Manifest = dict[str, Any]
FRAMES = 4


def port(m: Manifest, name: str = "data_in_0") -> dict[str, Any]:
    return next(p for p in m["ports"] if p["name"] == name)


def without(m: Manifest, name: str) -> None:
    m["ports"] = [p for p in m["ports"] if p["name"] != name]


def removed(m: Manifest, name: str) -> None:
    """A port and every mention of it but one."""
    without(m, name)
    m["vectors"]["files"].pop(name)
    m["handoff"]["axis_ports"] = [p for p in m["handoff"]["axis_ports"] if p["port"] != name]


CONTRADICTIONS: list[tuple[str, Callable[[Manifest], object]]] = [
    (r"data_in_0\.lanes: 2, .*make 3", lambda m: port(m).update(lanes=2)),
    (r"got `float` - at `\$\.ports\[0\]\.lanes", lambda m: port(m).update(lanes=3.0)),
    (r"data_in_0\.bits: 16, .*make 24", lambda m: port(m).update(bits=16)),
    (r"data_in_0\.beats: 1, .*make 2", lambda m: port(m).update(beats=1)),
    (r"data_in_0\.beats: 2, .*make 3", lambda m: port(m).update(parallelism=[2, 1])),
    (r"data_in_0\.bits: 24, .*make 27", lambda m: port(m)["format"].update(width=9)),
    (r"data_in_0\.format: .*'scale': 0\.5", lambda m: port(m)["format"].update(scale=0.5)),
    (r"'float' - at `\$\.ports\[0\]\.format\.type", lambda m: port(m)["format"].update(type="float")),
    (r"data_in_0\.shape: \[2, 3\], .*make \[1, 6\]", lambda m: port(m).update(shape=[2, 3])),
    (r"data_in_0\.beats: 2, .*make 1", lambda m: port(m).update(streamed=[1, 3])),
    (r"data_in_0: .*different numbers of elements", lambda m: port(m).update(layout=LAYOUT)),
    (r"data_in_0\.valid: '', .*'data_in_0_valid'", lambda m: port(m).update(valid="")),
    (r"unknown field `extra` - at `\$\.ports\[0\]", lambda m: port(m).update(extra=1)),
    ("data_in_0 is named 2 times", lambda m: m["ports"].append(port(m))),
    ("none has the direction 'in'.*vectors.files", lambda m: without(m, "data_in_0")),
    ("none has the direction 'out'.*vectors.files", lambda m: without(m, "data_out_0")),
    (r"missing required field `parallelism` - at `\$\.ports\[0\]", lambda m: port(m).pop("parallelism")),
    (r"got `int` - at `\$\.ports\[0\]\.streamed", lambda m: port(m).update(streamed=6)),
    (r">= 1 - at `\$\.vectors\.frames", lambda m: m["vectors"].update(frames=0)),
    (r"got `bool` - at `\$\.vectors\.frames", lambda m: m["vectors"].update(frames=True)),
    (r"got `str` - at `\$\.vectors\.frames", lambda m: m["vectors"].update(frames="4")),
    (r"vectors\.files", lambda m: m["vectors"]["files"].pop("data_out_0")),
    (r"vectors\.files", lambda m: m["vectors"]["files"].update(data_out_0="vectors/data_in_0.mem")),
    ("edges: not a list", lambda m: m.update(edges=[])),
    ("edges: not a list", lambda m: m["edges"].append(m["edges"][0])),
    (r"got `int` - at `\$\.edges\[\d\]", lambda m: m["edges"].append(7)),
    ("edges: data_out_0 is a port, but the end of none", lambda m: m["edges"].pop()),
    ("edges: data_in_0 is the end of one, but no port", lambda m: removed(m, "data_in_0")),
    ("clock: 'clock'", lambda m: m.update(clock="clock")),
    (r"'low' - at `\$\.reset\.active", lambda m: m["reset"].update(active="low")),
    (r"parameters: \{\}", lambda m: m.update(parameters={})),
    (r">= 1 - at `\$\.memories\[0\]\.words", lambda m: m["memories"][0].update(words=0)),
    (r"got `float` - at `\$\.memories\[0\]\.bits", lambda m: m["memories"][0].update(bits=2.5)),
    (r"rtl: no rtl/other\.sv", lambda m: m.update(top="other")),
    ("axis_ports: .*the port has 24 bits", lambda m: m["handoff"]["axis_ports"][0].update(tdata=32)),
    ("axis_ports: .*data_in_9.*the port has 0 bits", lambda m: m["handoff"]["axis_ports"][0].update(port="data_in_9")),
]
LAYOUT = {"shape": [1, 7], "factors": [7], "order": [0]}


def part(m: Manifest, module: str = "fixed_linear") -> dict[str, Any]:
    """The first instance of a module."""
    return next(entry for entry in m["instances"] if entry["module"] == module)


def narrower(m: Manifest) -> None:
    """Two lanes instead of three, everywhere in the entry of the port."""
    port(m).update(parallelism=[2, 1], lanes=2, bits=16, beats=3)
    (axis,) = (each for each in m["handoff"]["axis_ports"] if each["port"] == "data_in_0")
    axis.update(bits=16, tdata=16)


HARDWARE: list[tuple[str, Callable[[Manifest], object]]] = [
    (r"timing\.interval: \d+, but all instances one after the other", lambda m: m["timing"].update(interval=10**8)),
    (r"timing\.last: \d+, but all instances one after the other", lambda m: m["timing"].update(last=10**8)),
    (r"timing\.interval: 1, but u_fc\d takes \d+ cycles", lambda m: m["timing"].update(interval=1)),
    (
        r"timing\.fill: \d+, but u_fc\d gives the first result",
        lambda m: m["timing"].update(fill=m["timing"]["fill"] - 1),
    ),
    (r"timing\.fill: 0, but u_fc\d gives the first result", lambda m: m["timing"].update(fill=0)),
    (r"timing\.bottleneck: 'data_out_0' does not take", lambda m: m["timing"].update(bottleneck="data_out_0")),
    (r">= 1 - at `\$\.timing\.steady", lambda m: m["timing"].update(steady=0)),
    (r"timing\.steady: 1 is no frame", lambda m: m["timing"].update(exact=False)),
    (r"instances\.\w+\.timing\.first_in: \d+, but u_fc1 gives", lambda m: part(m)["timing"].update(first_out=1)),
    (r"instances\.\w+\.timing\.first_in: 0, but u_fc1", lambda m: part(m, "fixed_relu")["timing"].update(first_in=0)),
    (r"timing\.interval: \d+, but u_fc1 takes 1000 cycles", lambda m: part(m)["timing"].update(interval=1000)),
    (r"got `float` - at `\$\.instances\[\d\]\.timing\.interval", lambda m: part(m)["timing"].update(interval=2.5)),
    (r"u_fc1\.parameters\.ROUNDING: 3, but the top level has 0", lambda m: part(m)["parameters"].update(ROUNDING=3)),
    (r"u_fc1\.parameters\.OTHER: 1, but the top level has None", lambda m: part(m)["parameters"].update(OTHER=1)),
    (r"u_fc1\.module: 'fixed_conv2d', but .* 'fixed_linear'", lambda m: part(m).update(module="fixed_conv2d")),
    (r"u_fc1\.node: 'fc3', but the top level has 'fc1'", lambda m: part(m).update(node="fc3")),
    ("instances: u_relu is in the top level only", lambda m: m["instances"].remove(part(m, "fixed_relu"))),
    ("instances: u_fc9 is in the manifest only", lambda m: m["instances"].append(part(m) | {"name": "u_fc9"})),
    (
        "fifos: u_queue is no FIFO of the top level",
        lambda m: m["fifos"].append(
            {"instance": "u_queue", "before": "", "after": "", "depth": 4, "bits": 8, "given": False, "rate": False}
        ),
    ),
    ("fc1_bias.mem: 9 words of .* do not make its", lambda m: m["memories"][0].update(words=9)),
    ("fc1_bias.mem: 2 words of 1 bits, but its ROM has 2 of", lambda m: m["memories"][0].update(bits=1)),
    ("fc1_bias.mem: u_fc9_bias is no instance", lambda m: m["memories"][0].update(instance="u_fc9_bias")),
    (r"ports\.data_in_0: lanes, width \(2, 8\), but the top level has \(3, 8\)", narrower),
    (r"ports\.data_in_0: beats 3, but the top level has 2", narrower),
]


@pytest.mark.parametrize(("message", "change"), CONTRADICTIONS + HARDWARE)
def test_refused(older: Path, message: str, change: Callable[[Manifest], object]) -> None:
    rewrite(older, change, honest=False)
    with pytest.raises(
        EmitError, match=f"(?s)(?:contradicts itself|is damaged).*{message}.*what to do: emit"
    ) as caught:
        mase_hw.load_design(older)
    assert caught.value.node == str(older / "manifest.json")


@pytest.mark.parametrize("name", ["../b/rtl/top.sv", "manifest.json", "ABSOLUTE"])
def test_files_of_others(older: Path, name: str) -> None:
    """Also with the right hash."""
    name = str(older / "rtl/top.sv") if name == "ABSOLUTE" else name
    rewrite(older, lambda m: m["files"].update({name: m["files"]["rtl/top.sv"]}), honest=False)
    with pytest.raises(EmitError, match="is no file of this bundle"):
        mase_hw.load_design(older)


def leaves(document: object, place: str = "") -> Iterator[tuple[str, object]]:
    """Every figure and text of a document that is not empty, by its place."""
    if isinstance(document, dict | list):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from leaves(value, f"{place}.{key}")
    elif document not in ("", 0, None):
        yield place, document


@pytest.mark.parametrize("name", DESIGNS)
def test_no_design_contradicts_itself(name: str, tmp_path: Path) -> None:
    model, example, config = DESIGNS[name]
    design = mase_hw.compile(model, example, config, out=tmp_path / "b")
    assert contradictions(typed(design.manifest)) == []
    assert contradictions(typed(json.loads((design.path / "manifest.json").read_text()))) == []
    assert contradicted(typed(design.manifest), design.path) == []
    # Nothing gets lost in the records, and nothing has another kind.
    written = json.loads(msgspec.json.encode(typed(design.manifest)))
    assert {k: repr(v) for k, v in leaves(written)} == {k: repr(v) for k, v in leaves(design.manifest)}
    for fifo in copy.deepcopy(design.manifest)["fifos"]:
        for key, more in (("depth", 1), ("bits", -1)):
            told = {**design.manifest, "fifos": [each for each in design.manifest["fifos"] if each != fifo]}
            told["fifos"].append({**fifo, key: fifo[key] + more})
            assert [f"fifos.{fifo['instance']}.{key}" in said for said in contradicted(typed(told), design.path)] == [
                True
            ]


def test_every_changed_file_is_named(older: Path) -> None:
    """Not only the first one."""
    for name in ("rtl/top.sv", "mem/fc1_bias.mem"):
        (older / name).write_text("changed")
    (older / "mem/fc2_bias.mem").unlink()
    with pytest.raises(EmitError, match="3 files of the bundle are missing or were changed") as caught:
        mase_hw.load_design(older)
    assert caught.value.got == "changed: mem/fc1_bias.mem, rtl/top.sv; missing: mem/fc2_bias.mem"


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> mase_hw.Design:
    """A bundle with more frames than one; rows of five on three lanes, so that there are pad lanes."""
    model, example, config = DESIGNS["no_memory"]
    return mase_hw.compile(
        model, example, config, out=tmp_path_factory.mktemp("v") / "b", vectors=inputs(2 * FRAMES, 5)
    )


def shorter(text: str) -> str:
    """Without its last frame."""
    words = text.splitlines(keepends=True)
    return "".join(words[: len(words) // FRAMES * (FRAMES - 1)])


def longer(text: str) -> str:
    """With its first frame once more."""
    words = text.splitlines(keepends=True)
    return "".join(words + words[: len(words) // FRAMES])


def padded(text: str) -> str:
    """Bits in the pad lane of the third beat, the last one of the first row."""
    words = text.splitlines()
    words[2] = f"{int(words[2], 16) | 1 << 8:0{len(words[2])}x}"
    return "\n".join(words) + "\n"


def unknown(text: str) -> str:
    return "x" + text[1:]


SPOILT: dict[str, tuple[Callable[[str], str], tuple[str, ...], str]] = {
    "fewer results than stimuli": (shorter, ("data_out_0",), "data_in_0: 4, data_out_0: 3.*expected: 4 frames"),
    "fewer stimuli than results": (shorter, ("data_in_0",), "data_in_0: 3, data_out_0: 4.*expected: 4 frames"),
    "fewer of both than said": (shorter, ("data_in_0", "data_out_0"), "data_in_0: 3, data_out_0: 3.*expected: 4"),
    "more of both than said": (longer, ("data_in_0", "data_out_0"), "data_in_0: 5, data_out_0: 5.*expected: 4"),
    "a pad lane of a result": (padded, ("data_out_0",), "something in a pad lane.*line 3: "),
    "a pad lane of a stimulus": (padded, ("data_in_0",), "something in a pad lane.*line 3: "),
    "unknown bits": (unknown, ("data_out_0",), "cannot be read"),
}


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("name", SPOILT)
def test_vectors_that_do_not_fit(several: mase_hw.Design, tmp_path: Path, name: str, verify: bool) -> None:
    """A forger who computes every hash anew is still not told that all was compared."""
    change, ports, message = SPOILT[name]
    folder = tmp_path / "b"
    shutil.copytree(several.path, folder)
    for one in ports:
        file = folder / f"vectors/{one}.mem"
        file.write_text(change(file.read_text()))
        rewrite(folder, lambda m, f=file: m["files"].update({f"vectors/{f.name}": _hash(f)}), honest=False)  # type: ignore[misc]
    design = mase_hw.Design(folder, verify=verify)
    with pytest.raises(ResultsError, match=f"(?s){message}"):
        design.simulate(work_dir=tmp_path / "work")
    assert not (tmp_path / "work").exists(), "nothing was built"


def _hash(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_vector_of_no_port(several: mase_hw.Design, tmp_path: Path) -> None:
    """Without the checks of hashes: no KeyError either."""
    shutil.copytree(several.path, tmp_path / "b")
    rewrite(tmp_path / "b", lambda m: without(m, "data_out_0"), honest=False)
    design = mase_hw.Design(tmp_path / "b", verify=False)
    with pytest.raises(ResultsError, match="the vectors are not those of the ports"):
        design.vectors()


def test_another_bundle_in_the_folder(tmp_path: Path) -> None:
    """A design is the bundle that it emitted, or opened; what was written there since is another."""
    first = emit(tmp_path / "b", vectors=inputs(3, 6))
    opened = mase_hw.load_design(tmp_path / "b")
    second = emit(tmp_path / "b", vectors=inputs(3, 6, seed=9))
    for design in (first, opened):
        for given in (None, inputs(2, 6)):
            with pytest.raises(EmitError, match="holds another bundle than the one of this design") as caught:
                design.simulate(given, work_dir=tmp_path / "work")
            assert caught.value.node == str(tmp_path / "b")
    with pytest.raises(EmitError, match="holds another bundle"):
        mase_hw.Design(tmp_path / "b", first.graph)
    assert not (tmp_path / "work").exists(), "nothing was built"
    second.reopen()
    shutil.rmtree(tmp_path / "b")
    emit(tmp_path / "b", vectors=inputs(3, 6)).reopen()
    first.reopen()  # the same bytes are the same bundle
