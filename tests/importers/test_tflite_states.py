"""TFLite operations that remember, LSTM and SVDF: the integers of LiteRT's kernels, in PyTorch and hardware."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mase_hw
from mase_hw.errors import UnsupportedError
from mase_hw.nn.streaming import streaming
from mase_hw.numerics.integer_functions import Integers
from tests.importers.test_tflite import in_hardware
from tests.importers.tflite_compare import compared
from tests.importers.tflite_files import File


def layers(seed: int, frac: int, clip: float = 0.0) -> File:
    """Two LSTMs and a layer behind them."""
    file = File(seed)
    x = file.input(1, 6, 5, scale=0.03, zero=int(file.random.integers(-20, 20)))
    y = file.lstm(x, 7, frac, clip)
    file.output(file.dense(file.lstm(y, 5, frac, zero=0), 3, keep=True))
    return file


def filters(rank: int, memory: int, bias: bool = True) -> File:
    """Two SVDFs and a layer behind them."""
    file = File(rank + memory)
    x = file.input(1, 6, scale=0.03, zero=-5)
    file.output(file.dense(file.svdf(file.svdf(x, 5, rank, memory, bias), 4, 1, 3), 3))
    return file


def one_step() -> File:
    """An LSTM of one time step in front of an SVDF: both go on."""
    file = File(2)
    x = file.input(1, 1, 6, scale=0.05, zero=4)
    y = file.lstm(x, 5)
    file.output(file.svdf(file.reshape(y, 1, 5), 4, 2, 3))
    return file


@pytest.mark.parametrize(("frac", "clip"), [(9, 0.0), (10, 0.0), (11, 1.5), (12, 0.0), (13, 0.7), (14, 0.0), (15, 0.0)])
def test_an_lstm(frac: int, clip: float) -> None:
    """Every scale of cell states, with a largest cell state and without: the numbers after every time step."""
    result = compared(layers(frac, frac, clip), 40, reset=True)
    assert result.differences() == dict.fromkeys(result.found, 0) and len(result.found) == 4
    assert all(len(np.unique(value)) > 60 for value in result.wanted.values())


@pytest.mark.parametrize(("rank", "memory", "bias"), [(1, 5, True), (2, 3, False), (3, 1, True)])
def test_an_svdf(rank: int, memory: int, bias: bool) -> None:
    result = compared(filters(rank, memory, bias), 60)
    assert result.differences() == dict.fromkeys(result.found, 0) and len(result.found) == 4
    assert streaming(result.graph.model)


def test_an_lstm_that_goes_on() -> None:
    """Of one time step: the states are those of the frame before. Frame by frame from a reset they would differ."""
    result = compared(one_step(), 40)
    assert result.differences() == dict.fromkeys(result.found, 0)
    again = compared(one_step(), 40, reset=True)
    assert sum(again.differences().values()) > 10


@pytest.mark.parametrize("make", [one_step, lambda: filters(2, 4)], ids=["lstm_and_svdf", "svdf"])
def test_streams_in_hardware(make: Callable[[], File], tmp_path: Path) -> None:
    in_hardware(compared(make(), 24), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("frac", "clip"), [(9, 0.0), (12, 1.0), (15, 0.0)])
def test_an_lstm_in_hardware(frac: int, clip: float, tmp_path: Path) -> None:
    in_hardware(compared(layers(frac, frac, clip), 6, reset=True), tmp_path)


def _with(index: int) -> Callable[[File, Any], None]:
    def change(file: File, op: Any) -> None:
        op.inputs[index] = op.inputs[12]

    return change


def _coupled(file: File, op: Any) -> None:
    for index in (1, 5, 12):
        op.inputs[index] = -1


def _time_major(file: File, op: Any) -> None:
    op.builtinOptions.timeMajor = True


def _other_scale(file: File, op: Any) -> None:
    file.graph.tensors[op.inputs[19]].quantization.scale = [0.0003]


def _large(file: File, op: Any) -> None:
    file.graph.tensors[op.inputs[5]].quantization.scale = [9000.0]


def _other_zero(file: File, op: Any) -> None:
    file.graph.tensors[op.inputs[18]].quantization.zeroPoint = [1]


def _no_hidden(file: File, op: Any) -> None:
    op.intermediates = op.intermediates[:4]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_with(10), "peephole connections"),
        (_with(16), "a projection"),
        (_with(21), "layer normalization"),
        (_coupled, "input gates coupled to forget gates"),
        (_time_major, "time steps before the batch"),
        (_other_scale, "cell states of the scale 0.0003"),
        (_large, "a ratio of its scales"),
        (_other_zero, "several zero points for one state"),
        (_no_hidden, "no scale of its hidden state"),
    ],
)
def test_other_lstms_are_refused(change: Callable[[File, Any], None], why: str) -> None:
    file = layers(1, 12)
    change(file, file.graph.operators[0])
    with pytest.raises(UnsupportedError, match=why):
        mase_hw.import_model(file.data())


def test_other_svdfs_are_refused() -> None:
    file = filters(1, 4)
    file.graph.operators[0].builtinOptions.fusedActivationFunction = 0
    with pytest.raises(UnsupportedError, match="another activation than ReLU"):
        mase_hw.import_model(file.data())
    file = filters(1, 4)
    file.graph.operators[0].builtinOptions.rank = 3
    with pytest.raises(UnsupportedError, match="of the rank 3"):
        mase_hw.import_model(file.data())


def test_a_state_is_no_data() -> None:
    """Another operation that reads it is refused."""
    file = filters(1, 4)
    state = file.graph.operators[0].inputs[4]
    y = file.function("ABS", file.result((1, 20), 1.0))
    file.graph.operators[-1].inputs = [state]
    file.output(y)
    with pytest.raises(UnsupportedError, match="a state"):
        mase_hw.import_model(file.data())


def test_functions_of_16_bits_are_near_the_real_ones() -> None:
    """gemmlowp's are off by few LSBs of 15 fraction bits, and odd about a point but at the most negative number."""
    x = np.arange(-32768, 32768)
    for whole in range(7):
        found = Integers(16).tanh(x, whole)
        assert np.abs(found / 32768 - np.tanh(x / 2.0 ** (15 - whole))).max() < 4e-3
        assert (found[1:] == -found[1:][::-1]).all()
    found = Integers(16).logistic(x, 3)
    assert np.abs(found / 32768 - 1 / (1 + np.exp(-x / 4096))).max() < 3e-4
