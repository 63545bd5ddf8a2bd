"""The worked example of a custom op: compiled, simulated bit for bit, and proven over every input code."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mase_hw
from mase_hw.catalogue import Arithmetic, Latency, default_catalogue
from mase_hw.compiler.config import load_config
from mase_hw.compiler.quantised_graph import quantised_graph
from mase_hw.emit.passes import (
    emit_bram_transform_pass,
    emit_cocotb_transform_pass,
    emit_internal_rtl_transform_pass,
    emit_verilog_top_transform_pass,
)
from mase_hw.errors import SimulationError
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph
from mase_hw.ir.copies import copy_graph
from mase_hw.nn import Quantized
from mase_hw.numerics import cast
from mase_hw.ops._elementwise import registered
from tests.docs.pages import blocks
from tests.rtl import LIBRARY
from tests.unit.pipeline import RANGES

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "custom_op"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("leaky_shift", EXAMPLE / "leaky_shift.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("custom")


@pytest.fixture(scope="module")
def design(example: ModuleType, work: Path) -> mase_hw.Design:
    inputs = torch.randn(32, 12, generator=torch.Generator().manual_seed(1))
    return mase_hw.compile(
        example.network(), inputs[:1], out=work / "design", calibration=[inputs], custom_ops=example.CUSTOM_OPS
    )


def test_simulates_bit_for_bit(design: mase_hw.Design) -> None:
    inputs = torch.randn(20, 12, generator=torch.Generator().manual_seed(2)) * 2
    result = design.simulate(inputs, stalls=0.3)
    assert result.passed and result.frames == 20
    assert torch.equal(result.output, design.model(inputs))
    assert (result.output < 0).any(), "no negative output, so the slope was not tested"


def test_full_rate_timing_is_as_predicted(design: mase_hw.Design) -> None:
    inputs = torch.randn(6, 12, generator=torch.Generator().manual_seed(3))
    result = design.simulate(inputs)
    assert (result.fill, result.interval) == (result.predicted["fill"], result.predicted["interval"])


def test_every_input_code(example: ModuleType, work: Path) -> None:
    """One layer of the op alone, fed with all 64 codes of its input format, rounding half up and wrapping."""
    fmt = {"data_in_width": 6, "data_in_frac_width": 3, "data_out_width": 4, "data_out_frac_width": 2}
    config = {
        "quantize": {"leaky_shift": {"config": {"name": "fixed", **fmt, "rounding": "half_up", "overflow": "wrap"}}},
        "hardware": {"max_parallelism": 3},
    }
    model = nn.Sequential(example.LeakyShift(2))
    codes = torch.arange(-32, 32).reshape(8, 8) / 8
    alone = mase_hw.compile(model, codes[:1], config, out=work / "alone", custom_ops=example.CUSTOM_OPS)
    result = alone.simulate(codes)
    assert result.passed
    # Python integers, nothing of the package: x * 2^-2 or x in units of 2^-5, to units of 2^-2 half up, modulo 16.
    for x, y in zip(range(-32, 32), (result.output * 4).reshape(-1).tolist(), strict=True):
        fine = x if x < 0 else x << 2
        assert y == ((((fine + 4) >> 3) + 8) & 15) - 8


def test_bundle_and_metadata_name_the_files(design: mase_hw.Design, example: ModuleType) -> None:
    manifest = json.loads((design.path / "manifest.json").read_text())
    assert "rtl/external/leaky_shift.sv" in manifest["rtl"]
    copied = (design.path / "rtl/external/leaky_shift.sv").read_bytes()
    assert copied == (EXAMPLE / "rtl/leaky_shift.sv").read_bytes()
    assert "rtl/external/leaky_shift.sv" in (design.path / "rtl/files.f").read_text().split()
    graph = design.graph
    assert graph is not None
    nodes = [n for n in graph.nodes if graph.meta_of(n).common.mase_op == "leaky_shift"]
    assert [graph.meta_of(n)["common"]["args"]["shift"] for n in nodes] == [2, 4]
    hardware = graph.meta_of(nodes[0])["hardware"]
    assert (hardware["toolchain"], hardware["module"]) == ("EXTERNAL", "leaky_shift")
    assert hardware["dependence_files"][-1] == "external/leaky_shift.sv"
    assert hardware["verilog_param"]["SHIFT"] == 2


def test_checkpoint_of_the_compiled_graph(design: mase_hw.Design, example: ModuleType, tmp_path: Path) -> None:
    graph, inputs = design.graph, torch.randn(8, 12)
    assert graph is not None
    graph.export(tmp_path / "net")
    again = MaseGraph.from_checkpoint(tmp_path / "net", custom_ops=example.CUSTOM_OPS)
    assert torch.equal(again.model(inputs), graph.model(inputs))
    with pytest.raises(mase_hw.MaseHwError, match="custom_ops"):
        MaseGraph.from_checkpoint(tmp_path / "net")


class Dense(nn.Module):
    """A linear layer of a user's own, in the package's hardware."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        self.weight, self.bias = nn.Parameter(torch.randn(outputs, inputs)), nn.Parameter(torch.randn(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias


def test_parameters_and_the_hardware_of_the_package(work: Path, tmp_path: Path) -> None:
    linear = default_catalogue()["linear"]
    assert linear.hardware is not None
    dense = {
        "args": {"x": "data_in", "weight": "parameter", "bias": "parameter"},
        "toolchain": "INTERNAL",
        "module": linear.hardware.module,
        "file": linear.hardware.file,
        "dependence_files": list(linear.hardware.dependence_files),
        "golden": linear.golden,
        "like": "linear",
    }
    custom = {"modules": {Dense: dense}}
    torch.manual_seed(0)
    inputs = torch.randn(5, 6)
    model = nn.Sequential(Dense(6, 3))
    made = mase_hw.compile(model, inputs[:1], out=work / "dense", calibration=[inputs], custom_ops=custom)
    assert made.simulate(inputs).passed
    assert made.graph is not None and made.graph.meta_of(made.graph.node("_0"))["hardware"]["toolchain"] == "INTERNAL"
    # In float, the class is rebuilt from the attributes that its constructor names.
    MaseGraph(model, custom_ops=custom).export(tmp_path / "dense")
    again = MaseGraph.from_checkpoint(tmp_path / "dense", custom_ops=custom)
    assert torch.equal(again.model(inputs), model(inputs)) and isinstance(again.modules["0"], Dense)


class Turned(Dense):
    """The same with the weights of an input in a row."""

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


def test_parameters_of_an_external_module_are_transposed(work: Path) -> None:
    """interface[...]["transpose"] turns the memory image of an external module's parameter."""
    linear = default_catalogue()["linear"]
    assert linear.hardware is not None and linear.golden is not None
    root = work / "turned"
    root.mkdir()
    text = (LIBRARY / linear.hardware.file).read_text(encoding="utf-8")
    (root / "turned_linear.sv").write_text(text.replace("module fixed_linear", "module turned_linear"))

    def golden(a: Arithmetic, t: Mapping[str, Tensor]) -> Any:
        return linear.golden(a, {**t, "weight": t["weight"].T})  # type: ignore[misc]

    entry = {
        "args": {"x": "data_in", "weight": "parameter", "bias": "parameter"},
        "module": "turned_linear",
        "root": root,
        "dependence_files": list(linear.hardware.dependence_files),
        "golden": golden,
        "like": "linear",
    }
    torch.manual_seed(0)
    inputs, model = torch.randn(5, 6), nn.Sequential(Turned(6, 6))
    custom = {"modules": {Turned: entry}}
    made = mase_hw.compile(model, inputs[:1], out=work / "rows", calibration=[inputs], custom_ops=custom)
    assert made.graph is not None
    graph = copy_graph(made.graph)
    graph.node("_0").meta["mase"]["hardware"]["interface"]["weight"]["transpose"] = True
    for step in (emit_verilog_top_transform_pass, emit_internal_rtl_transform_pass, emit_bram_transform_pass):
        graph, _ = step(graph)
    graph, _ = emit_cocotb_transform_pass(graph, {"inputs": inputs, "project_dir": work / "columns"})
    assert mase_hw.load_design(work / "columns").simulate().passed  # the golden has them the other way round


def test_the_page_shows_the_example() -> None:
    root = EXAMPLE.parents[1]
    shown = [block for block in blocks("python", "systemverilog", page=root / "docs" / "custom_ops.md") if block.file]
    assert len(shown) == 4
    for block in shown:
        assert block.text in (root / block.file).read_text(encoding="utf-8"), block.id


def test_timing_of_a_module_without_steps(example: ModuleType, work: Path) -> None:
    """A latency facet that says only when results depart predicts what one with steps does, behind a re-packer too."""
    entry = example.CUSTOM_OPS["modules"][example.LeakyShift]

    def latency(params: Any) -> Latency:
        known = registered(params)
        return Latency(known.interval, lambda accepted: accepted + 1, known.beats)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), example.LeakyShift(2), nn.MaxPool2d(2), nn.Conv2d(6, 4, 1))
    lanes = {"_0": {"data_in_0": 1, "data_out_0": 2}, "_3": {"data_in_0": 3, "data_out_0": 1}}
    timings = []
    for facets in ({}, {"latency": latency}):
        design = mase_hw.compile(
            model,
            torch.randn(1, 3, 8, 8),
            {"hardware": {"parallelism": lanes}},
            out=work / "timing",
            custom_ops={"modules": {example.LeakyShift: {**entry, **facets}}},
        )
        assert {"stream_repack", "leaky_shift"} <= {part["module"] for part in design.manifest["instances"]}
        timings.append({key: design.timing[key] for key in ("fill", "last", "interval")})
    assert timings[0] == timings[1]


WRONG_LATENCY: dict[str, tuple[Callable[[Latency], Latency], str]] = {
    "first result": (
        lambda known: Latency(known.interval, lambda accepted: accepted + 3, known.beats),
        r"instances\.u__1\.timing\.first_out: promised (\d+) cycles, measured (\d+)",
    ),
    "frames": (
        lambda known: Latency(16 * known.interval, lambda accepted: accepted + 1, known.beats),
        r"timing\.interval: promised (\d+) cycles, measured (\d+)",
    ),
}


@pytest.mark.parametrize("name", WRONG_LATENCY)
def test_a_latency_that_is_not_that_of_the_module(name: str, example: ModuleType, work: Path, tmp_path: Path) -> None:
    """The error names the node, the op, the facet and both figures; only ops of the package are to be reported."""
    wrong, said = WRONG_LATENCY[name]
    entry = {**example.CUSTOM_OPS["modules"][example.LeakyShift], "latency": lambda p: wrong(registered(p))}
    torch.manual_seed(0)
    inputs = torch.randn(6, 8)
    design = mase_hw.compile(
        nn.Sequential(nn.Linear(8, 8), example.LeakyShift(2)), inputs[:1], out=tmp_path / "wrong", vectors=inputs,
        custom_ops={"modules": {example.LeakyShift: entry}},
    )  # fmt: skip
    for told in (design, mase_hw.load_design(design.path)):
        with pytest.raises(SimulationError, match="every bit is right, but the design does not take") as caught:
            told.simulate(engine="batch", work_dir=work / "wrong.work")
        failure = caught.value
        assert failure.node == "_1 (custom op LeakyShift)" and failure.field == "custom_ops.LeakyShift.latency"
        found = re.search(said, str(failure.got))
        assert found is not None and int(found[1]) > int(found[2]), failure.got
        assert "`latency` of this custom op" in str(failure.remedy) and "report" not in str(failure.remedy)


class Quadruple(nn.Module):
    """Four times its input, whose range it leaves."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 4


def quadruple(a: Arithmetic, t: Mapping[str, Tensor]) -> dict[str, Tensor]:
    source, target = a.formats["data_in_0"], a.formats["data_out_0"]
    return {"data_out_0": cast(t["data_in_0"], source.frac_width - 2, target, a.rounding, a.overflow)}


def test_its_format_is_what_was_observed(example: ModuleType) -> None:
    """``like`` is about the hardware: a relu never leaves the range of its input."""
    entry = {**example.CUSTOM_OPS["modules"][example.LeakyShift], "args": {"x": "data_in"}, "golden": quadruple}
    torch.manual_seed(0)
    inputs, layers = torch.randn(64, 6), (nn.Linear(6, 5), Quadruple(), nn.Linear(5, 3))

    def formats(*layers: nn.Module, **keys: Any) -> Mapping[str, FixedFormat]:
        config = load_config({"calibrate": RANGES})
        custom = {"modules": {Quadruple: {**entry, **keys}}}
        made = quantised_graph(nn.Sequential(*layers), inputs[:1], config, [inputs], custom, lambda _: None)
        node = next(n for n in made.nodes if made.meta_of(n).common.mase_op == "quadruple")
        module = made.meta_of(node).module
        assert isinstance(module, Quantized)
        return module.arithmetic.formats

    def as_input(given: Mapping[str, FixedFormat]) -> FixedFormat:
        return given["data_in_0"]

    with torch.no_grad():
        low, high = (float(end) for end in (4 * layers[0](inputs)).aminmax())
    for keys in ({}, {"default_out": None}):
        assert formats(*layers, **keys)["data_out_0"] == FixedFormat.covering(low, high, 8), "nothing is clipped"
    found = formats(*layers, default_out=as_input)
    assert found["data_out_0"] == found["data_in_0"]
    for first in ((), layers[:1]):  # what leaves the model has 16 bits, of an op that says its format as well
        assert formats(*first, Quadruple())["data_out_0"].width == 16
        found = formats(*first, Quadruple(), default_out=as_input)
        at, out = found["data_in_0"], found["data_out_0"]
        assert (out.width, out.max_value) == (16, at.max_value + at.scale - out.scale), "the same range, finer"


def test_a_whole_definition_of_another_package(tmp_path: Path) -> None:
    """An ``OpDef`` whose module lies in the package's own folder, without a file that is named."""

    class Positive(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x)

    relu = default_catalogue()["relu"]
    assert relu.hardware is not None
    own = (LIBRARY / relu.hardware.file).read_text(encoding="utf-8").replace("fixed_relu", "my_positive")
    (tmp_path / "rtl").mkdir()
    (tmp_path / "rtl" / "my_positive.sv").write_text(own, encoding="utf-8")
    hardware = dataclasses.replace(relu.hardware, module="my_positive", file="", root=tmp_path / "rtl")
    bare: dict[str, Any] = {"functions": (), "methods": (), "attributes": (), "scaled": None}
    op = dataclasses.replace(relu, name="positive", modules=(Positive,), hardware=hardware, **bare)
    x = torch.randn(8, 6)
    net = nn.Sequential(nn.Linear(6, 5), Positive())
    custom = {"modules": {Positive: op}}
    design = mase_hw.compile(net, x[:1], out=tmp_path / "out", calibration=[x], custom_ops=custom)
    assert design.simulate(x, engine="batch").passed
    assert (tmp_path / "out" / "rtl" / "external" / "my_positive.sv").is_file()
