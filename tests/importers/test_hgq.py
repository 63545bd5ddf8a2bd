"""Models of HGQ2: against layers of its shape in numpy, and itself where it is installed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import mase_hw
from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.formats import FixedFormat, ScaledFormat
from mase_hw.importers import from_hgq
from mase_hw.nn import Quantized
from tests.importers import hgq_models as hgq

FRAME = {"hardware": {"unroll": "frame"}}
GIVEN = FixedFormat(12, 7)
"""Of inputs that are wider and finer than the first quantiser."""


class Drawn:
    """Quantisers and layers of random numbers."""

    def __init__(self, seed: int) -> None:
        self.r = np.random.default_rng(seed)

    def quantiser(self, *shape: int, k: int = 1, mode: str = "RND", overflow: str = "WRAP") -> hgq.Quantizer:
        """Bits of its own for each element, of which some have none."""
        i, f = self.r.integers(-1, 3, (1, *shape)), self.r.integers(-1, 5, (1, *shape))
        return hgq.Quantizer(np.full((1, *shape), k), i, f, mode, overflow)

    def numbers(self, *shape: int, frac: int = 3) -> Any:
        """Numbers whose steps differ; some are 0."""
        fracs = self.r.integers(0, frac + 1, shape)
        return np.asarray(self.r.integers(-5, 6, shape) * 2.0**-fracs, np.float32)

    def dense(self, name: str, inner: int, outer: int, **more: Any) -> hgq.QDense:
        """A layer, whose bias is finer than its products may be."""
        bias = self.numbers(outer, frac=11)
        return hgq.QDense(name, qkernel=self.numbers(inner, outer), qbias=bias, **more)

    def inputs(self, *shape: int, frac: int = 7) -> Any:
        """Numbers of :data:`GIVEN`."""
        return np.asarray(self.r.integers(-(2**11), 2**11, shape) * 2.0**-frac, np.float32)


def classifier(seed: int, mode: str = "RND", overflow: str = "WRAP") -> hgq.Model:
    """Two layers, 8 to 8 to 4."""
    d = Drawn(seed)
    first = d.dense("first", 8, 8, activation=hgq.relu, iq=d.quantiser(8, mode=mode, overflow=overflow))
    second = d.dense("second", 8, 4, iq=d.quantiser(8, k=0, mode=mode, overflow=overflow))
    return hgq.sequence((8,), first, second)


def assert_same(model: hgq.Model, x: Any, inputs: Any = None) -> mase_hw.MaseGraph:
    graph = from_hgq(model, inputs=inputs)
    wanted = model.predict(x)
    np.testing.assert_array_equal(graph.model(torch.from_numpy(x)).detach().numpy(), wanted)
    assert len(np.unique(wanted)) > 10
    return graph


@pytest.mark.parametrize("overflow", ["WRAP", "SAT"])
@pytest.mark.parametrize("mode", list(hgq.ROUND))
def test_every_bit(mode: str, overflow: str) -> None:
    """Inputs that the first quantiser rounds, and that it wraps or saturates."""
    assert_same(classifier(1, mode, overflow), Drawn(2).inputs(200, 8), {"x": GIVEN})


def test_inputs_of_the_first_quantiser() -> None:
    """Without formats of inputs, those that the first quantiser leaves as they are."""
    model = classifier(3)
    x = (
        model.outputs[0]
        ._keras_history.operation._inbound_nodes[0]
        .input_tensors[0]
        ._keras_history.operation.iq.of(Drawn(4).inputs(200, 8).astype(np.float64))
    )
    graph = assert_same(model, x.astype(np.float32))
    assert graph.meta["imported"]["x"] == "x" and tuple(graph.example["x"].shape) == (1, 8)
    weights = [m for m in graph.model.modules() if isinstance(m, Quantized) and "weight" in m.parameter_names]
    assert len(weights) == 2


def image(seed: int) -> hgq.Model:
    """A convolution, a pooling and a layer."""
    d = Drawn(seed)
    kernel = d.numbers(3, 2, 2, 3)
    return hgq.sequence(
        (4, 5, 2),
        hgq.QConv2D("conv", qkernel=kernel, qbias=d.numbers(3), activation=hgq.relu, iq=d.quantiser(4, 5, 2)),
        hgq.QMaxPooling2D("pool", iq=d.quantiser(4, 5, 3, k=0)),
        hgq.Flatten("flat"),
        d.dense("last", 12, 3, oq=d.quantiser(3), iq=hgq.Quantizer(0, 2, 3)),
    )


def residual(seed: int, finer: int = 0, last: int = 0) -> hgq.Model:
    """One tensor that two quantisers read: elements of the same formats, beside finer ones in one of the two."""
    d = Drawn(seed)
    x = hgq.InputLayer("x").tensor(6)
    a = d.dense("a", 6, 6, activation=hgq.relu, iq=d.quantiser(6))(x)
    each = [hgq.Quantizer(0, 2, [f]) for f in ([1, 1, 3, 1, 2, last], [1, 1, 1, 1, 1, last])]
    b = d.dense("b", 6, 6, iq=each[finer])(a)
    total = hgq.QAdd("sum", iq=[each[1 - finer], d.quantiser(6)])(a, b)
    return hgq.Model([x], [d.dense("c", 6, 3, iq=d.quantiser(6))(total)])


def test_images() -> None:
    """Channels last, in the numbers and in the order of a flattened image."""
    assert_same(image(5), Drawn(6).inputs(60, 4, 5, 2), {"x": GIVEN})


def test_equations() -> None:
    """Products along other dimensions, one of whose results is turned."""
    d = Drawn(7)
    first = hgq.QEinsumDense("e0", equation="bnc,cf->bnf", qkernel=d.numbers(5, 4), qbias=d.numbers(4))
    second = hgq.QEinsumDense("e1", equation="...nf,nm->...mf", qkernel=d.numbers(3, 2), iq=d.quantiser(3, 4))
    third = hgq.QEinsumDense("e2", equation="bmf,mfo->bo", qkernel=d.numbers(2, 4, 3), iq=d.quantiser(2, 4))
    first.iq, first.enable_iq = d.quantiser(3, 5), True
    assert_same(hgq.sequence((3, 5), first, second, third), d.inputs(60, 3, 5), {"x": GIVEN})


def alike(seed: int, finer: int = 0) -> hgq.Model:
    """The same, where the elements of one of them are alike."""
    return residual(seed, finer, last=1)


def turned(seed: int) -> hgq.Model:
    """The same the other way round."""
    return alike(seed, finer=1)


@pytest.mark.parametrize("made", [classifier, residual, alike, turned])
def test_in_hardware(made: Any, tmp_path: Path) -> None:
    """A frame per beat: every bit and cycle is that of the model."""
    model = made(8)
    size = model.inputs[0].shape[1]
    x = Drawn(9).inputs(24, size)
    graph = assert_same(model, x, {"x": GIVEN})
    design = mase_hw.compile(graph, torch.zeros(1, size), FRAME, out=tmp_path / "design")
    result = design.simulate(torch.from_numpy(x), engine="batch")
    assert result.passed and result.result.beats_compared > 0
    np.testing.assert_array_equal(result.output.numpy(), model.predict(x))


def test_elements_that_are_alike(tmp_path: Path) -> None:
    """One format for the tensor, symmetric as well, is that of any stream."""
    d = Drawn(10)
    first = d.dense("a", 6, 4, iq=hgq.Quantizer(1, 2, 3, overflow="SAT_SYM"))
    second = d.dense("b", 4, 3, iq=hgq.Quantizer(1, 2, 3, mode="RND_CONV", overflow="SAT_SYM"))
    model = hgq.sequence((6,), first, second)
    graph = assert_same(model, d.inputs(100, 6), {"x": GIVEN})
    design = mase_hw.compile(graph, torch.zeros(1, 6), out=tmp_path / "design")
    assert design.simulate(torch.from_numpy(d.inputs(8, 6)), engine="batch").passed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"activation": np.tanh}, "the activation tanh"),
        ({"iq": hgq.Quantizer(1, [[1, 2, 1]], 3, overflow="SAT_SYM")}, "SAT_SYM of data whose elements differ"),
        ({"iq": hgq.Quantizer(1, 2, 3, overflow="WRAP_SM")}, "WRAP_SM"),
        ({"iq": hgq.Quantizer(1, 40, 3)}, "44 bits"),
        ({"iq": None}, "before that is quantised"),
        ({"qkernel": np.full((3, 2), 1 + 2.0**-30)}, "float32 does not hold"),
    ],
)
def test_refused(change: dict[str, Any], said: str) -> None:
    more = {"iq": hgq.Quantizer(1, 2, 3), "qkernel": np.ones((3, 2)), **change}
    with pytest.raises(UnsupportedError, match=said) as caught:
        from_hgq(hgq.sequence((3,), hgq.QDense("layer", **more)))
    assert caught.value.node is not None and caught.value.node.startswith("layer")


def test_refused_as_a_whole() -> None:
    """Every layer at once; what is no model; inputs that it has not."""

    class QSoftmax(hgq.Layer):
        pass

    equation = hgq.QEinsumDense("e", equation="bc,bc->bc", qkernel=np.ones((1, 3)), iq=hgq.Quantizer(1, 2, 3))
    model = hgq.sequence((3,), QSoftmax("s"))
    x = model.inputs[0]
    with pytest.raises(UnsupportedError, match="no such layer is known") as caught:
        from_hgq(hgq.Model([x], [model.outputs[0], equation(x)]))
    assert caught.value.node == "s; e" and "the equation bc,bc->bc" in str(caught.value)
    with pytest.raises(ConfigError, match="not a model"):
        from_hgq(torch.nn.Linear(2, 2))
    with pytest.raises(ConfigError, match="no such input"):
        from_hgq(classifier(1), inputs={"y": GIVEN})
    with pytest.raises(UnsupportedError, match="scaled integers"):
        from_hgq(classifier(1), inputs={"x": ScaledFormat.make(8, 0.3)})


def test_hgq2() -> None:
    """Its own layers, traced on a part of the range, so that numbers wrap: what ``predict`` gives."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    layers, utils = pytest.importorskip("hgq.layers"), pytest.importorskip("hgq.utils")
    keras = pytest.importorskip("keras")
    d = Drawn(11)
    made = {
        (8,): [layers.QDense(8, activation="relu"), layers.QBatchNormDense(4)],
        (6, 6, 2): [
            layers.QConv2D(3, 3, strides=2, padding="same", activation="relu"),
            layers.QAveragePooling2D(2),
            keras.layers.Flatten(),
            layers.QDense(3),
        ],
        (4, 5): [
            layers.QEinsumDenseBatchnorm("bnc,cf->bnf", (4, 6), bias_axes="f", activation="relu"),
            layers.QConv1D(3, 2),
            layers.QGlobalMaxPooling1D(),
            layers.QDense(3, enable_oq=True),
        ],
    }
    for shape, parts in made.items():
        model = keras.Sequential([keras.layers.Input(shape, name="x"), *parts])
        for part in model._flatten_layers():
            if hasattr(part, "kif") and hasattr(part, "_f"):
                width = keras.ops.convert_to_numpy(part._f)
                part._f.assign(width + d.r.integers(-3, 3, width.shape))
        x = d.inputs(300, *shape)
        utils.trace_minmax(model, x[:100] / 4)
        graph = from_hgq(model, inputs={"x": GIVEN})
        wanted = model.predict(x, verbose=0)
        np.testing.assert_array_equal(graph.model(torch.from_numpy(x)).detach().numpy(), wanted)
        assert len(np.unique(wanted)) > 50
