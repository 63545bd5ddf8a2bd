"""Files that are quantised, with nodes that hardware does not have: what the whole computes, and what runs where."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mase_hw
from mase_hw import cli
from mase_hw.errors import UnsupportedError
from mase_hw.nn.on_host import OnHost
from mase_hw.partition import PartitionedDesign, compile_partitioned
from tests.importers.qdq_networks import I8, Qdq, evaluated
from tests.importers.tflite_files import File, Value, executed
from tests.importers.tflite_mlperf import resnet8, softmax


def gated(f: File) -> File:
    """A softmax in the middle, whose data something passes by, and one at the end."""
    x = f.dense(f.input(1, 6, scale=0.02, zero=3), 5)
    y = softmax(f, Value(x.index, x.shape, x.scale, x.zero))
    z = f.dense(f.binary("MUL", x, y, 0.01), 4)
    f.output(softmax(f, z))
    return f


def values_of(f: File, codes: Any) -> torch.Tensor:
    about = f.graph.tensors[f.graph.inputs[0]].quantization
    return torch.from_numpy((codes.astype(np.float64) - about.zeroPoint[0]) * float(np.float32(about.scale[0])))


def compared_with_kernels(
    f: File, shape: tuple[int, ...], out: Path, frames: int, distinct: int = 20
) -> PartitionedDesign:
    """Every integer of the whole, in PyTorch and from the hardware, as LiteRT gives it."""
    graph = mase_hw.import_model(f.data(), host=True)
    design = compile_partitioned(graph, graph.example, out=out)
    codes = np.random.default_rng(3).integers(-128, 128, (frames, *shape)).astype(np.int8)
    wanted = executed(f.data(), codes)[f.graph.tensors[f.graph.outputs[0]].name][:, 0]
    found = design(values_of(f, codes))
    np.testing.assert_array_equal(np.rint(found.double().numpy() * 256) - 128, wanted)
    assert len(np.unique(wanted)) > distinct
    simulated = design.simulate(values_of(f, codes[:3]), engine="batch")
    assert simulated.passed and set(simulated.segments) == set(design.designs)
    assert all(s.result.mismatches == 0 and s.result.beats_compared for s in simulated.segments.values())
    assert torch.equal(simulated.output, found[:3])
    return design


def test_a_softmax_in_the_middle_and_at_the_end(tmp_path: Path) -> None:
    design = compared_with_kernels(gated(File(5)), (6,), tmp_path / "out", 200)
    assert [part.where for part in design.parts] == ["hardware", "host", "hardware", "host"]
    assert set(design.parts[2].inputs) == {"t4", "t3"}  # what the host gives, and what passes it by
    assert all("exactly" in why or "leaves" in why for why in design.host.values()), design.host
    assert "SOFTMAX" in design.report()
    assert json.loads((tmp_path / "out" / "partition.json").read_text())["host"] == design.host


@pytest.mark.slow
def test_a_classifier(tmp_path: Path) -> None:
    file, _ = resnet8(8, 4)
    compared_with_kernels(file, (8, 8, 3), tmp_path / "out", 30, 1)


def attention(between: bool = True) -> Qdq:
    """Layers around what hardware has not, and what passes it by; functions of the host, which rounds them.

    Args:
        between: Whether nothing quantises what a function in the middle reads.
    """
    n = Qdq(3, (1, 6))
    n.quantise(0.013)
    weight, _ = n.weights(6, 5, channels=5, axis=1)
    n.add("MatMul", weight)
    kept = n.quantise(0.05)
    n.add("LogSoftmax", axis=-1)
    if between:
        n.add("Sin")
    n.quantise(0.03, I8(120))
    n.add("Mul", kept)
    n.quantise(0.02)
    weight, _ = n.weights(5, 4)
    n.add("MatMul", weight)
    n.quantise(0.01)
    n.add("Tan")
    n.add("Softmax", axis=-1)
    n.quantise(0.0043, I8(-128))
    return n


def test_onnx(tmp_path: Path) -> None:
    net = attention()
    made = net.model()
    with pytest.raises(UnsupportedError) as caught:
        mase_hw.import_model(made)
    assert "logsoftmax6" in str(caught.value) and "ask for a partition" in str(caught.value)
    graph = mase_hw.import_model(made, host=True)
    design = compile_partitioned(graph, graph.example, out=tmp_path / "out")
    assert [part.where for part in design.parts] == ["hardware", "host", "hardware", "host"]
    assert all("it on the host, in float32" in why or "leaves the model" in why for why in design.host.values())
    x = net.frames(60)
    found = design(torch.from_numpy(x[:, 0]))
    wanted = evaluated(made, x)
    # A softmax in float32 moves a code over a half at most rarely; then the result moves by what that code stands for.
    assert (np.abs(found.numpy() - wanted).max(1) > 1e-6).sum() <= 1 and len(np.unique(wanted)) > 40


@pytest.mark.slow
def test_onnx_in_hardware(tmp_path: Path) -> None:
    net = attention()
    graph = mase_hw.import_model(net.model(), host=True)
    design = compile_partitioned(graph, graph.example, out=tmp_path / "out")
    x = torch.from_numpy(net.frames(3)[:, 0])
    simulated = design.simulate(x, engine="batch")
    assert simulated.passed and torch.equal(simulated.output, design(x))


def test_fixed_point_keeps_what_it_has() -> None:
    """With scales that are powers of two, the softmax is hardware, and only the function at the end is not."""
    net = attention(between=False)
    for name, value in net.stored.items():
        if value.dtype == np.float32:
            net.stored[name] = np.exp2(np.round(np.log2(value)))
        elif not value.shape:
            net.stored[name] = I8(0)
    graph = mase_hw.import_model(net.model(), host=True)
    on_host = [n.name for n in graph.nodes if isinstance(graph.modules.get(str(n.target)), OnHost)]
    assert on_host == ["net_tan16", "net_softmax17", "net_dequantizelinear19"]


def test_names_of_the_user(tmp_path: Path) -> None:
    """A node that is wanted on the host runs there as it is quantised, to the last bit."""
    f = gated(File(5))
    graph = mase_hw.import_model(f.data(), host=True)
    design = compile_partitioned(graph, graph.example, out=tmp_path / "out", host=["t5*"])
    assert design.host["t5"] == design.host["t5_product"] == "wanted on the host"
    codes = np.random.default_rng(4).integers(-128, 128, (20, 6)).astype(np.int8)
    wanted = executed(f.data(), codes)[f.graph.tensors[f.graph.outputs[0]].name][:, 0]
    np.testing.assert_array_equal(np.rint(design(values_of(f, codes)).double().numpy() * 256) - 128, wanted)
    with pytest.raises(UnsupportedError, match="wanted in hardware cannot be"):
        compile_partitioned(graph, graph.example, out=tmp_path / "other", hardware=["t4"])
    assert not (tmp_path / "other").exists()


def test_without_asking_it_is_refused(tmp_path: Path) -> None:
    graph = mase_hw.import_model(gated(File(5)).data(), host=True)
    with pytest.raises(UnsupportedError, match=r"for the host[^$]*t4; t9[^$]*--partition"):
        mase_hw.compile(graph, graph.example, out=tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_nothing_is_left() -> None:
    net = Qdq(1, (1, 4))
    net.add("Softmax")
    net.quantise(0.01)
    with pytest.raises(UnsupportedError, match="nothing of the model is left"):
        mase_hw.import_model(net.model(), host=True)


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "net.tflite"
    file.write_bytes(gated(File(5)).data())
    out = tmp_path / "out"
    given = ["compile", str(file), "--out", str(out), "--partition", "--simulate", "--frames", "2", "--json"]
    assert cli.main(given) == cli.OK
    found = json.loads(capsys.readouterr().out)
    assert [p["where"] for p in found["parts"]] == ["hardware", "host", "hardware", "host"]
    assert all(v["passed"] and v["mismatches"] == 0 and v["frames"] == 2 for v in found["simulation"].values())
    assert "kernel's integers, exactly" in found["host"]["t4"]
