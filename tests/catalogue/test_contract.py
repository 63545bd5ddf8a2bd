"""What the catalogue says about the RTL is what the RTL says about itself."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from mase_hw.catalogue import OpDef, Request, default_catalogue, verilog_params
from mase_hw.errors import UnsupportedError
from mase_hw.hardware.library import with_dependences
from mase_hw.hardware.params import parameter_names, read_params
from mase_hw.host.resources import PACKAGE
from mase_hw.opdef import SUPPORT
from mase_hw.streams import Stream
from tests.rtl import LIBRARY

from .harness import HARDWARE_OPS, ITEMS, Item, files_of, hardware_of
from .headers import read_header, without_comments

# Those of a system stand around a design, not in it: tests/system.
RTL_FILES = sorted(p.relative_to(LIBRARY).as_posix() for f in ("lib", "ops") for p in LIBRARY.glob(f"{f}/*.sv"))

# Files that neither an op nor the netlist names, and why they are there.
UNUSED: dict[str, str] = {}

# Parameters that no design sets, and why they are there.
LEFT_AT_DEFAULT = {"stream_fifo": {"LUT_DEPTH": "a proof needs a small FIFO in block memory"}}

every_op = pytest.mark.parametrize("op", HARDWARE_OPS, ids=lambda op: op.name)
every_case = pytest.mark.parametrize("it", ITEMS, ids=lambda it: it.id)
every_file = pytest.mark.parametrize("file", RTL_FILES)


@every_op
def test_parameters_are_those_of_the_module(op: OpDef) -> None:
    header = read_header(LIBRARY / hardware_of(op).file)
    settable = [p for p in header.parameters if p.kind == "parameter"]
    files = [p for p in settable if p.default == '""']
    left = LEFT_AT_DEFAULT.get(header.name, {})
    assert set(left) <= {p.name for p in settable}
    names = [p.name for p in settable if p not in files and p.name not in left]
    assert names == list(parameter_names(hardware_of(op).params))
    assert {p.type for p in settable if p not in files} == {"int"}
    memories = {name for it in ITEMS if it.op is op for name in it.hardware.memories(it.arithmetic)}
    assert memories <= {p.name for p in files}


@every_case
def test_a_record_is_read_back_from_its_parameters(it: Item) -> None:
    kind, flat = type(it.case.params), verilog_params(it.case.params)
    assert read_params(kind, flat) == it.case.params
    name = next(iter(flat))
    assert getattr(it.case.params, name) == flat[name]
    with pytest.raises(TypeError, match=name):
        read_params(kind, {n: v for n, v in flat.items() if n != name})
    with pytest.raises(TypeError, match="WIDTHS"):
        read_params(kind, flat | {"WIDTHS": 1})


@every_case
def test_parameters_are_integers_of_32_bits(it: Item) -> None:
    for name, value in verilog_params(it.case.params).items():
        assert type(value) is int and -(2**31) <= value < 2**31, name


@every_case
def test_ports_are_those_of_the_module(it: Item) -> None:
    header = read_header(LIBRARY / it.hardware.file)
    wanted = {"clk": "input", "rst": "input"}
    for stream in it.streams:
        backward = "output" if stream.direction == "in" else "input"
        forward = "input" if stream.direction == "in" else "output"
        wanted |= {stream.name: forward, stream.valid: forward, stream.ready: backward}
    tied = it.hardware.tied(it.case.params)
    for port, expression in tied.items():
        assert port not in wanted, f"{port} carries a stream and is tied"
        # Every input needs a value, an output must have none.
        wanted[port] = "input" if expression else "output"
    assert header.ports == wanted


@every_file
def test_files(file: str) -> None:
    path = LIBRARY / file
    header = read_header(path)
    assert header.name == path.stem
    assert all(p.default for p in header.parameters), "a parameter without default"
    comment = path.read_text(encoding="utf-8").split("\nmodule ")[0]
    lines = comment.splitlines()
    assert all(line.startswith("//") for line in lines), "the header comment is followed by the module"
    assert lines[0] == "// SPDX-License-Identifier: Apache-2.0"
    assert lines[2].startswith(f"// {path.stem}: ")
    for section in ("Latency", "Throughput", "Golden"):
        assert re.search(rf"^// {section}:\s+\S", comment, re.MULTILINE), section
    for mentioned in re.findall(r"mase_hw/[\w/]+\.py", comment):
        assert (PACKAGE.parent / mentioned).is_file(), mentioned


@every_op
def test_declared_files(op: OpDef) -> None:
    """They exist, are named once, come after what they instantiate, and each is instantiated."""
    hardware, files = hardware_of(op), files_of(op)
    assert read_header(LIBRARY / hardware.file).name == hardware.module
    assert len(set(files)) == len(files)
    bodies = {}
    for file in files:
        bodies[file] = without_comments((LIBRARY / file).read_text(encoding="utf-8"))
    names = {file: read_header(LIBRARY / file).name for file in files}
    for at, file in enumerate(files):
        instance = re.compile(rf"^\s*{names[file]}\s+(?:#|u_\w+)\s*\(", re.MULTILINE)
        users = [other for other in files if instance.search(bodies[other]) and other != file]
        assert users or file == hardware.file or file in SUPPORT, f"{file} is declared but not used"
        assert all(files.index(user) > at for user in users), f"{file} comes after what needs it"


def test_every_file_is_used() -> None:
    used = {file for op in HARDWARE_OPS for file in files_of(op)}
    for source in (path for room in ("emit", "compiler") for path in (PACKAGE / room).rglob("*.py")):
        used |= set(re.findall(r'"((?:lib|ops)/\w+\.sv)"', source.read_text(encoding="utf-8")))
    used = {file for file in with_dependences(sorted(used)) if not file.startswith("system/")}
    assert used <= set(RTL_FILES)
    assert set(RTL_FILES) - used == set(UNUSED)
    assert all(UNUSED.values())


@every_op
def test_every_facet_is_complete(op: OpDef) -> None:
    hardware, cases = hardware_of(op), list(hardware_of(op).cases())
    assert op.golden is not None
    assert cases, "an op without cases is proven by nothing"
    assert not [name for name, count in Counter(c.name for c in cases).items() if count > 1]
    for case in cases:
        assert type(case.params) is hardware.params and case.frames >= 1
        assert re.fullmatch(r"\w+", case.name)
        streams = hardware.ports(case.params)
        assert {s.direction for s in streams} == {"in", "out"}
        inputs = {s.name for s in streams if s.direction == "in"}
        a = hardware.arithmetic(case.params)
        inner = set(op.inner.names(a.attributes)) if op.inner is not None else set()
        assert set(a.formats) == {s.name for s in streams} | inner
        for stream in streams:
            assert hardware.arithmetic(case.params).formats[stream.name] == stream.fmt
        assert inputs - set(hardware.static), "an op without activations"
        latency = hardware.latency(case.params)
        sink = next(s for s in streams if s.direction == "out")
        data = [s for s in streams if s.direction == "in" and s.name not in hardware.static]
        departures = latency.departures(*(np.arange(s.beats, dtype=np.int64) for s in data))
        assert departures.shape == (sink.beats,) and (np.diff(departures) > 0).all()
        assert latency.interval >= 1 and latency.fill == departures[0] >= 0
    # A parameter stream that no case has is a name spelled wrong.
    assert set(hardware.static) <= {s.name for case in cases for s in hardware.ports(case.params)}


@every_case
def test_latency_does_not_depend_on_when(it: Item) -> None:
    """The facet is about cycles from the first beat, whatever their number."""
    latency = it.hardware.latency(it.case.params)
    beats = [np.arange(s.beats, dtype=np.int64) for s in it.sources]
    assert (latency.departures(*(b + 1000 for b in beats)) == latency.departures(*beats) + 1000).all()


def _lanes(it: Item, stream: Stream) -> tuple[int, ...]:
    """Lanes as a request has them: where an op looks at positions, those of one position, unless it takes any order."""
    whole = it.hardware.positions is None or (it.hardware.layout == "any" and it.hardware.follows_input)
    return (stream.lane_dims[0] // (1 if whole else stream.positions), *stream.lane_dims[1:])


@every_case
def test_facets_build_the_parameters(it: Item) -> None:
    """The parameters, read back as a request, build themselves; primitives are refused."""
    arithmetic = it.arithmetic
    request = Request(
        "n",
        arithmetic,
        {s.name: s.tensor_shape for s in it.streams},
        {s.name: _lanes(it, s) for s in it.streams},
        {s.name: s.layout for s in it.streams if s.layout is not None},
        # The case says what was asked for, and what the weights are.
        implementation=it.implementation,
        family=it.family,
        order=it.order,
        narrow=bool(it.hardware.narrow(it.case.params)),
        fast=it.fast,
        levels=getattr(it.case.params, "share_levels", 0),
        slots=it.slots,
    )
    if it.op.mase_type:
        assert it.hardware.build(request) == it.case.params
    else:
        with pytest.raises(UnsupportedError, match="placed by the netlist"):
            it.hardware.build(request)


@pytest.mark.parametrize("op", [op for op in HARDWARE_OPS if op.mase_type], ids=lambda op: op.name)
def test_parallelism_beyond_the_tensor_is_refused(op: OpDef) -> None:
    it = next(it for it in ITEMS if it.op is op)
    shapes = {s.name: s.tensor_shape for s in it.streams}
    layouts = {s.name: s.layout for s in it.streams if s.layout is not None}
    for stream in it.streams:
        # Lanes of parameters follow those of the data.
        if stream.name in it.hardware.static or (stream.direction == "out" and it.hardware.follows_input):
            continue
        for lanes in ((stream.sizes[0] + 1,), (0,), (1, 2)):
            parallelism = {s.name: _lanes(it, s) for s in it.streams} | {stream.name: lanes}
            with pytest.raises(UnsupportedError, match="parallelism is not possible") as caught:
                it.hardware.build(Request("n", it.arithmetic, shapes, parallelism, layouts))
            assert caught.value.node == "n" and stream.name in str(caught.value)


def test_every_op_of_a_model_can_be_found() -> None:
    catalogue = default_catalogue()
    for op in catalogue:
        for module in op.modules:
            assert catalogue.of_module(module.__new__(module)) is op
        for function in op.functions:
            assert catalogue.of_target(function) is op
        for method in op.methods:
            assert catalogue.of_target(method) is op
    claimed = Counter(t for op in catalogue for t in (*op.modules, *op.functions, *op.methods))
    assert set(claimed.values()) == {1}
