"""TFLite: every integer of every tensor as LiteRT's reference kernels give it, in PyTorch and in hardware."""

from pathlib import Path

import numpy as np
import pytest
import torch

import mase_hw
from mase_hw.cli import main
from mase_hw.nn import Quantized
from tests.importers.tflite_compare import compared
from tests.importers.tflite_files import File
from tests.importers.tflite_networks import NETWORKS


@pytest.mark.parametrize("name", NETWORKS)
def test_every_integer_of_the_reference_kernels(name: str) -> None:
    result = compared(NETWORKS[name](), 40)
    assert result.differences() == dict.fromkeys(result.found, 0)
    tensors = {t for t in result.graph.meta["imported"].values()}
    assert set(result.found) == tensors  # none was left out
    assert all(len(np.unique(value)) > 5 for value in result.wanted.values())


SLOW = ["depthwise", "dilated", "scales", "products", "side_by_side"]
"""Networks whose hardware takes longer than what it adds to that of the others is worth in every run."""


@pytest.mark.parametrize(
    "name", ["strides", "depthwise", "residual", *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)]
)
def test_in_hardware(name: str, tmp_path: Path) -> None:
    result = compared(NETWORKS[name](), 6)
    assert not any(result.differences().values())
    design = mase_hw.compile(result.graph, result.graph.example, out=tmp_path / "design")
    simulated = design.simulate(list(result.inputs.values()), work_dir=tmp_path / "work")
    assert simulated.passed and simulated.result.mismatches == 0 and simulated.result.beats_compared > 0
    with torch.no_grad():
        model = result.graph.model(*result.inputs.values())
    for output, value in zip(simulated.outputs.values(), model if isinstance(model, tuple) else [model], strict=True):
        assert torch.equal(output, value.double())


def test_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "net.tflite"
    file.write_bytes(NETWORKS["dense"]().data())
    assert main(["compile", str(file), "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "manifest.json").is_file()


def test_names_and_formats_of_the_file() -> None:
    graph = mase_hw.import_model(NETWORKS["strides"]().data())
    assert set(graph.meta["imported"]) == {n.name for n in graph.fx_graph.nodes if n.op not in ("output",)}
    modules = {m.label: m.arithmetic.formats for m in graph.model.modules() if isinstance(m, Quantized)}
    assert modules["t3_sums"]["weight"].channels == 4 and modules["t3_sums"]["data_in_0"].zero_point == -7
    assert modules["t3"]["data_out_0"].limits[0][0] == modules["t3"]["data_out_0"].zero_point


def test_inputs_and_results_in_float() -> None:
    """What converters put around a model of integers: the host does it."""
    f = File(3)
    given = f.input(1, 6, dtype=np.float32)
    x = f.function("QUANTIZE", given, 0.05, -3)
    y = f.dense(x, 4)
    last = f.tensor(y.shape, dtype=np.float32, name="values")
    f.operation("DEQUANTIZE", [y.index], [last])
    f.graph.outputs = [last]
    graph = mase_hw.import_model(f.data())
    codes = torch.randint(-128, 128, (5, 6), generator=torch.Generator().manual_seed(0))
    plain = File(3)
    z = plain.dense(plain.input(1, 6, scale=0.05, zero=-3), 4)
    plain.output(z)
    want = mase_hw.import_model(plain.data()).model((codes + 3) * x.scale)
    assert want.unique().numel() > 10
    assert torch.equal(graph.model((codes + 3) * x.scale) * (z.scale / y.scale), want)
