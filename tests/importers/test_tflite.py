"""TFLite: every integer of every tensor as LiteRT's reference kernels give it, in PyTorch and in hardware."""

from pathlib import Path

import numpy as np
import pytest
import torch

import mase_hw
from mase_hw.cli import main
from mase_hw.compiler.quantised_graph import calibrated_graph
from mase_hw.errors import ConfigError
from mase_hw.importers.graph import python_name
from mase_hw.nn import Quantized
from tests.importers.tflite_compare import Compared, compared
from tests.importers.tflite_files import File, executed
from tests.importers.tflite_mlperf import autoencoder, ds_cnn, mobilenet, resnet8
from tests.importers.tflite_networks import NETWORKS
from tests.importers.tflite_random import drawn

INT8 = {"curves", "slopes", "matrices", "transposed", "resized", "stored_matrices", "through_float"}
"""Networks of kernels that are for int8 only, or compute in float for uint8."""


@pytest.mark.parametrize("name", NETWORKS)
def test_every_integer_of_the_reference_kernels(name: str) -> None:
    result = compared(NETWORKS[name](), 40)
    assert result.differences() == dict.fromkeys(result.found, 0)
    tensors = {t for t in result.graph.meta["imported"].values()}
    assert set(result.found) == tensors  # none was left out
    assert all(len(np.unique(value)) > 5 for value in result.wanted.values())


@pytest.mark.parametrize("name", sorted({*NETWORKS} - INT8))
def test_uint8(name: str) -> None:
    """Older files, whose weights have a zero point as well."""
    result = compared(NETWORKS[name]().unsigned(), 24)
    assert result.differences() == dict.fromkeys(result.found, 0)


INT16 = ["strides", "depthwise", "dilated", "dense", "rows", "pools", "tensor_scales", "residual", "products",
         "side_by_side", "averages", "means", "orders", "transposed", "in_blocks", "around"]  # fmt: skip
"""Networks whose kernels there are for data of 16 bits."""


@pytest.mark.parametrize("name", INT16)
def test_int16(name: str) -> None:
    """Data of 16 bits, weights of 8, biases of 64."""
    result = compared(NETWORKS[name]().wide(), 24)
    assert result.differences() == dict.fromkeys(result.found, 0)
    assert max(np.abs(value).max() for value in result.wanted.values()) > 20_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["strides", "dense", "tensor_scales", "products", "means"])
def test_int16_in_hardware(name: str, tmp_path: Path) -> None:
    in_hardware(compared(NETWORKS[name]().wide(), 6), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_in_hardware(name: str, tmp_path: Path) -> None:
    in_hardware(compared(NETWORKS[name](), 6), tmp_path)


@pytest.mark.slow
def test_uint8_in_hardware(tmp_path: Path) -> None:
    in_hardware(compared(NETWORKS["averages"]().unsigned(), 6), tmp_path)


def test_branches_of_other_ranges_in_hardware(tmp_path: Path) -> None:
    in_hardware(compared(NETWORKS["joined"](), 6), tmp_path)


def in_hardware(result: Compared, tmp_path: Path) -> None:
    """From the graph through ``compile`` to the simulation of what was emitted: the integers of the kernels."""
    design = mase_hw.compile(result.graph, result.graph.example, out=tmp_path / "design")
    made = design.simulate(list(result.inputs.values()), work_dir=tmp_path / "work", engine="batch")
    assert made.passed and made.result.mismatches == 0 and made.result.beats_compared > 0
    assert (made.fill, made.interval) == (design.timing["fill"], design.timing["interval"])
    assert len(made.outputs) == len(result.outputs)
    for values, name in zip(made.outputs.values(), result.outputs, strict=True):
        fmt = result.formats[name]
        codes = np.rint(values.numpy() / fmt.scale) + fmt.zero
        np.testing.assert_array_equal(codes, result.wanted[name])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_drawn_networks_in_hardware(seed: int, tmp_path: Path) -> None:
    in_hardware(compared(drawn(seed), 4, seed), tmp_path)


@pytest.mark.parametrize("ten", range(4))
def test_drawn_networks(ten: int) -> None:
    """Any operation behind any other."""
    distinct = []
    for seed in range(10 * ten, 10 * ten + 10):
        result = compared(drawn(seed), 12, seed)
        assert result.differences() == dict.fromkeys(result.found, 0), seed
        distinct += [len(np.unique(value)) for value in result.wanted.values()]
    assert np.median(distinct) > 20


def test_from_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "net.tflite"
    file.write_bytes(NETWORKS["dense"]().data())
    assert main(["compile", str(file), "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "manifest.json").is_file()


def test_commands_take_what_is_quantised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Formats with their scales; lanes for a device; a picture; and noise, of which there is nothing to say."""
    file = tmp_path / "net.tflite"
    file.write_bytes(NETWORKS["dense"]().data())
    graph = mase_hw.import_model(file)
    modules = {m.label: m.arithmetic.formats for m in graph.model.modules() if isinstance(m, Quantized)}
    assert main(["explain", str(file)]) == 0
    said = capsys.readouterr().out
    assert modules and all(f"{n}: {fmt}," in said for formats in modules.values() for n, fmt in formats.items())
    assert "zero " in said and all(f"\n{node}\n" in f"\n{said}" for node in modules)
    assert main(["explain", str(file), "none"]) != 0
    assert main(["draw", str(file), "--out", str(tmp_path / "net.svg")]) == 0
    assert (tmp_path / "net.svg").is_file()
    assert main(["fit", str(file), "--device", "xc7z020", "--interval", "4000"]) == 0
    capsys.readouterr()
    assert main(["noise", str(file)]) != 0
    assert "the model is quantised already" in capsys.readouterr().err
    batches = [torch.zeros(2, *next(iter(graph.example.values())).shape[1:])]
    with pytest.raises(ConfigError, match="quantised already"):
        calibrated_graph(graph.model, graph.example, calibration=batches)


def test_names_and_formats_of_the_file() -> None:
    graph = mase_hw.import_model(NETWORKS["strides"]().data())
    assert set(graph.meta["imported"]) == {n.name for n in graph.fx_graph.nodes if n.op not in ("output",)}
    modules = {m.label: m.arithmetic.formats for m in graph.model.modules() if isinstance(m, Quantized)}
    assert modules["t3_sums"]["weight"].channels == 4 and modules["t3_sums"]["data_in_0"].zero_point == -7
    assert modules["t3"]["data_out_0"].limits[0][0] == modules["t3"]["data_out_0"].zero_point


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/layer1/Conv.0", "layer1_Conv_0"),
        ("a/_b", "a__b"),
        ("9/1x1", "_9_1x1"),
        ("//;", "node"),
        ("lambda", "_lambda"),
        ("of.a.converter/" * 3 + "here.it.is/Conv2d_c;3", "of_a_converter_of_a_converter_here_it_is_Conv2d_c_3"),
        ("x" * 300, "x" * 60),
    ],
)
def test_names_of_nodes(source: str, name: str) -> None:
    assert python_name(source) == name


def test_inputs_and_results_in_float() -> None:
    """What converters put around a model of integers: the host does it."""
    f = File(3)
    given = f.input(1, 6, dtype=np.float32)
    x = f.function("QUANTIZE", given, 0.05, -3)
    y = f.dense(x, 4)
    last = f.tensor(y.shape, dtype=np.float32, name="values")
    f.operation("DEQUANTIZE", [y.index], [last])
    f.graph.outputs = [last]
    codes = np.random.default_rng(0).integers(-128, 128, (9, 6))
    values = ((codes + 3) * x.scale).astype(np.float32)
    want = np.rint(executed(f.data(), values)["values"][:, 0] / y.scale)
    with torch.no_grad():
        found = mase_hw.import_model(f.data()).model(torch.from_numpy(values)).numpy()
    np.testing.assert_array_equal(np.rint(found / y.scale), want)
    assert len(np.unique(want)) > 10


SMALL = {
    "resnet8": lambda: resnet8(8, 4),
    "ds_cnn": lambda: ds_cnn(13, 6, 4, 1),
}
WHOLE = {"resnet8": resnet8, "ds_cnn": ds_cnn, "mobilenet": mobilenet, "autoencoder": autoencoder}


@pytest.mark.parametrize("name", WHOLE)
def test_mlperf_tiny(name: str) -> None:
    """The whole topologies."""
    file, last = WHOLE[name]()
    result = compared(file, 3)
    assert result.differences() == dict.fromkeys(result.found, 0)
    assert f"t{last.index}" in result.found and all(
        len(np.unique(v)) > 20 for v in result.wanted.values() if v.size > 99
    )


@pytest.mark.parametrize("name", SMALL)
def test_small_mlperf_tiny_in_hardware(name: str, tmp_path: Path) -> None:
    """Up to what the softmax reads."""
    file, last = SMALL[name]()
    result = compared(file, 3, outputs=[f"t{last.index}"])
    in_hardware(result, tmp_path)
    assert len(np.unique(result.wanted[f"t{last.index}"])) > 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet8", "ds_cnn"])
def test_whole_mlperf_tiny_in_hardware(name: str, tmp_path: Path) -> None:
    file, _ = WHOLE[name]()
    in_hardware(compared(file, 2), tmp_path)


def test_results_that_are_named(tmp_path: Path) -> None:
    file, last = ds_cnn(13, 6, 8, 1)
    place = tmp_path / "net.tflite"
    place.write_bytes(file.data())
    assert main(["compile", f"{place}:t{last.index}", "--out", str(tmp_path / "out")]) == 0
    two = mase_hw.import_model(place, outputs=["t3", f"t{last.index}"])
    assert [v.shape for v in two.model(*two.example.values())] == [(1, 7, 3, 8), (1, 12)]
    with pytest.raises(ConfigError, match="does not compute"):
        mase_hw.import_model(place, outputs=["t1"])  # a weight
