"""QONNX: fixed point with the formats of the file, every number as the executor of QONNX gives it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mase_hw
from mase_hw.emit.port_entry import port_stream
from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat
from tests.importers.qonnx_networks import NETWORKS, Net, digest, inputs, stored_values


@pytest.mark.parametrize("name", NETWORKS)
def test_every_number_of_the_executor(name: str) -> None:
    net = NETWORKS[name]()
    made, x = net.model(), inputs(net)
    stored = stored_values(name)
    assert stored["digest"] == digest(made, x), "run python -m tests.importers.make_qonnx_values"
    want = np.array(stored["values"], np.float32).reshape(stored["shape"])
    found = mase_hw.import_model(made).model(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_array_equal(found, want)
    assert len(np.unique(want)) > 3


@pytest.mark.parametrize("name", ["depthwise", "binary", "real_scales", "signs", "odd_zero_points"])
def test_in_hardware(name: str, tmp_path: Path) -> None:
    net = NETWORKS[name]()
    x = torch.from_numpy(inputs(net))
    graph = mase_hw.import_model(net.model())
    result = mase_hw.compile(graph, graph.example, out=tmp_path / "design").simulate(x, engine="batch")
    assert result.passed and result.result.mismatches == 0 and result.result.beats_compared > 0
    assert torch.equal(result.outputs["data_out_0"], graph.model(x).detach().double())


def test_what_is_written_says_where_ties_go(tmp_path: Path) -> None:
    """The checkpoint, the manifest, the bundle's README, and what is made of a checkpoint."""
    made = NETWORKS["odd_zero_points"]()
    graph = mase_hw.import_model(made.model())
    graph.export(tmp_path / "net")
    again = mase_hw.MaseGraph.from_checkpoint(tmp_path / "net")
    assert again.meta["imported"] == graph.meta["imported"] != {}
    x = torch.from_numpy(inputs(made))
    assert torch.equal(again.model(x), graph.model(x))
    designs = [mase_hw.compile(g, graph.example, out=tmp_path / n) for g, n in ((graph, "a"), (again, "b"))]
    files = [{f.name: f.read_bytes() for f in (tmp_path / n).rglob("*") if f.is_file()} for n in ("a", "b")]
    assert files[0] == files[1] and designs[1].graph.meta["imported"] == graph.meta["imported"]
    entry = next(port for port in designs[0].manifest["ports"] if port["direction"] == "in")
    assert entry["format"]["zero_point"] == -37 and entry["format"]["odd_ties"] is True
    fmt = port_stream(next(port for port in designs[0].record.ports if port.direction == "in")).fmt
    assert fmt.odd_ties and "ties to odd steps" in str(fmt)
    readme = (tmp_path / "a" / "README.md").read_text(encoding="utf-8")
    assert "**integer = value / 0.03125 + -37**, then half to even" in readme


def test_exactly_the_formats_of_the_file() -> None:
    graph = mase_hw.import_model(NETWORKS["convolutions"]().model())
    formats = {m.label: m.arithmetic.formats for m in graph.model.modules() if hasattr(m, "label")}
    assert formats["net_conv3_1"]["data_in_0"] == FixedFormat(8, 4)
    assert formats["net_conv3_1"]["weight"] == FixedFormat(4, 2)
    assert formats["net_relu4"]["data_out_0"] == FixedFormat(4, 3, signed=False)


def net(frac: Any = 4, **options: Any) -> Net:
    made = Net(6, 1, 4)
    made.quant(frac, options.pop("bits", 8), **options)
    return made


def refused(made: Net, *words: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        mase_hw.import_model(made.model())
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("scale", [0.0, -0.5, np.inf, np.nan])
def test_scales_that_cannot_be(scale: float) -> None:
    made = net()
    made.stored["t0"] = np.float32(scale)
    refused(made, "a scale of")


def test_offsets_widths_and_modes() -> None:
    made = net()
    made.stored["t1"] = np.float32(2.5)
    refused(made, "zero point of 2.5")
    made.stored["t1"] = np.float32(np.inf)
    refused(made, "zero point of inf, not an integer")
    made.stored["t1"] = np.float32([2, 4, 2, 6])
    refused(made, "zero points for each channel", "one zero point")
    made.stored["t1"] = np.float32(300)
    refused(made, "zero point of 300 beyond -128 to 127")
    made = net()
    made.stored["t2"] = np.float32(2.5)
    refused(made, "bit width", "whole numbers of bits")
    refused(net(mode="CEIL"), "rounding mode 'CEIL'")
    refused(net(mode="FLOOR"), "(quantisation)", "rounded half to even, by the host")
    refused(net(np.array([[4, 3, 2, 1]])), "a format for every element, and the host rounds it to one")


def test_real_scales_that_are_not_taken() -> None:
    made = net()
    made.quant(1, 6, zero=4, mode="HALF_UP")
    refused(made, "zero point of 4 is added before rounding", "the rounding mode ROUND")
    made = net()
    made.quant(1, 6, zero=3, mode="DOWN")
    refused(made, "DOWN with a zero point of 3")
    made = net()
    made.add("BipolarQuant", made.store(np.float32([0.3, 0.2, 0.3, 0.4])), domain="qonnx.custom_op.general")
    refused(made, "the signs of data with a scale for each channel")
    made = net()
    made.add("MatMul", made.weight(2, 4, 4, 3, scale=np.full((4, 1), 0.1) * np.arange(1, 5)[:, None]))
    refused(made, "a scale for each of what is not its outputs")
    made = net()
    made.add("MatMul", made.store(made.weights(4, 3)))
    made.quant(0, 8, scale=0.3)
    refused(made, "its weights are no integers")
    made = net()
    made.add("Sigmoid")
    made.add("MatMul", made.weight(2, 4, 4, 3, scale=0.3))
    refused(made, "sigmoid", "nothing behind it quantises its result")
    made = Net(11, 1, 4)
    made.version = 2
    made.quant(0, 8, scale=0.1)
    made.truncate([0.2, 0.0, 8.0, 0.8, 5.0])
    refused(made, "it truncates numbers of the format")


@pytest.mark.parametrize(("name", "options"), [("Sigmoid", {}), ("Tanh", {}), ("Softmax", {"axis": -1})])
@pytest.mark.parametrize("channels", [False, True])
def test_a_function_of_what_nothing_has_quantised(name: str, options: Any, channels: bool) -> None:
    """The remedy is true: with a Quant before it, the same model is taken."""
    scale = np.array([[0.1, 0.3, 0.2, 0.4]]) if channels else 0.1
    for before in (False, True):
        made = net()
        made.add("MatMul", made.weight(0, 8, 4, 4, scale=scale))
        if before:
            made.quant(0, 8, scale=0.05)
        made.add(name, **options)
        made.quant(0, 8, scale=0.01)
        if before or (name == "Softmax" and not channels):
            mase_hw.import_model(made.model())
        else:
            why = "a scale for each channel" if channels else "bits, and its table has at most 12"
            refused(made, f"/net/{name.lower()}", why, "put a quantisation before it (a Quant")


@pytest.mark.parametrize("scale", [0.25, 0.3])
def test_the_sign_of_zero(scale: float) -> None:
    """Of a code, and of a sum that is exactly 0."""
    made = net()
    made.add("BipolarQuant", made.store(np.float32(scale)), domain="qonnx.custom_op.general")
    made.add("MatMul", made.store(np.float32([[1, 1], [1, -1], [-1, 1], [-1, 1]])))
    weight = made.nodes[-1].input[1]
    made.add("BipolarQuant", made.store(np.float32(1.0)), of=weight, domain="qonnx.custom_op.general")
    made.nodes[-2].input[1] = made.nodes[-1].output[0]
    made.nodes[-2:] = [made.nodes[-1], made.nodes[-2]]
    made.last = made.nodes[-1].output[0]
    made.add("BipolarQuant", made.store(np.float32(scale)), domain="qonnx.custom_op.general")
    x = np.float32([[0, 0, 0, 0], [0.01, -0.01, 1, -1], [-1 / 16, 0, 1 / 16, 2], [-1, -1, -1, 0]])
    signs = np.where(np.rint(x * 16) >= 0, 1, -1)
    sums = signs @ np.array([[1, 1], [1, -1], [-1, 1], [-1, 1]])
    assert (sums == 0).any() and (sums < 0).any()
    with torch.no_grad():
        found = mase_hw.import_model(made.model()).model(torch.from_numpy(x)).numpy()
    np.testing.assert_array_equal(found, np.where(sums >= 0, np.float32(scale), -np.float32(scale)))


def test_what_no_quantisation_makes_exact() -> None:
    made = net()
    made.add("Sigmoid")
    refused(made, "sigmoid", "nothing behind it quantises it", "ask for a partition")
    made = Net(7, 1, 4)
    made.add("Abs")
    made.quant(3, 8)
    refused(made, "before that is quantised")


def test_a_relu_before_the_first_quantisation() -> None:
    """As Brevitas writes a QuantReLU that reads the input: the host rounds to what the relu leaves."""
    made = Net(7, 1, 40)
    made.add("Relu")
    made.quant(3, 8)
    x = np.random.default_rng(1).uniform(-20, 20, (9, 1, 40)).astype(np.float32)
    with torch.no_grad():
        found = mase_hw.import_model(made.model()).model(torch.from_numpy(x[:, 0])).numpy()
    np.testing.assert_array_equal(found, np.clip(np.rint(np.maximum(x[:, 0], 0) * 8), 0, 127) / 8)


def test_a_bias_of_floats() -> None:
    """Scales that are powers of two and a bias that nothing quantises: its own sums, rounded once."""
    made = net()
    made.add("MatMul", made.weight(2, 4, 4, 3))
    bias = np.array([0.3, -1.7, 0.001], np.float32)
    made.add("Add", made.store(bias))
    made.quant(2, 8)
    graph = mase_hw.import_model(made.model())
    x = np.random.default_rng(0).integers(-128, 128, (400, 4)) / 16
    weight = next(v for v in made.stored.values() if v.shape == (4, 3))
    codes = np.rint(weight.astype(np.float64) * 4).clip(-7, 7)
    want = (np.rint((x @ (codes / 4) + bias.astype(np.float64)) * 4) / 4).clip(-32, 31.75)
    found = graph.model(torch.from_numpy(x.astype(np.float32))).detach().numpy()
    np.testing.assert_array_equal(found, want)
    assert len(np.unique(want)) > 50


def test_every_reader_of_exact_values_has_them() -> None:
    """One sum, read as it is and quantised: no cast is shared."""
    made = net(2, bits=4)
    whole = made.add("MatMul", made.weight(1, 3, 4, 3))
    part = made.quant(0, 4, of=whole)
    made.add("Sub", part, of=whole)
    x = torch.arange(-8, 8).reshape(4, 4) / 4
    weight = torch.from_numpy(np.clip(np.round(made.stored["t3"] * 2), -3, 3) / 2).float()
    exact = x @ weight
    want = exact - exact.round().clamp(-8, 7)
    torch.testing.assert_close(mase_hw.import_model(made.model()).model(x).detach(), want, rtol=0, atol=0)


def test_a_cast_behind_what_has_the_format_of_its_input() -> None:
    """It is the one rounding: a PReLU would round to the format of its input else."""
    made = Net(9, 1, 3, 4)
    made.quant(4, 8)
    slopes = np.array([[0.5], [0.25], [0.125]], np.float32)
    made.add("PRelu", made.store(slopes))
    made.quant(1, 4, mode="FLOOR")
    x = (np.arange(-96, 96).reshape(16, 3, 4) / 16).astype(np.float32)
    exact = np.where(x < 0, x * slopes, x)
    want = np.clip(np.floor(exact * 2), -8, 7) / 2
    np.testing.assert_array_equal(mase_hw.import_model(made.model()).model(torch.from_numpy(x)).detach().numpy(), want)


def test_places_are_exact() -> None:
    made = Net(3, 1, 7)
    made.quant(4, 8)
    made.add("ArgMax", axis=1, keepdims=1)
    made.add("Cast", to=1)
    made.quant(0, 3, mode="FLOOR")
    x = made.r.permutation(np.arange(-35, 35) / 16).reshape(10, 7).astype(np.float32)
    found = mase_hw.import_model(made.model()).model(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_array_equal(found[:, 0], np.minimum(x.argmax(1), 3))


def test_what_would_be_rounded_to_the_format_of_its_input() -> None:
    for kind, *stored in (("PRelu", [0.3]), ("Clip", -0.8, 1.0)):
        made = Net(12, 1, 4)
        made.quant(2, 8)
        made.add(kind, *(made.store(np.float32(v)) for v in stored))
        made.add("MatMul", made.weight(2, 4, 4, 3))
        refused(made, "its result is not exact in fixed point")
