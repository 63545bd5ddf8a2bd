"""SOFTMAX in hardware and on the host: every integer as LiteRT's reference kernel gives it."""

from pathlib import Path

import numpy as np
import pytest
import torch

import mase_hw
from mase_hw.errors import UnsupportedError
from tests.importers.test_tflite import in_hardware
from tests.importers.tflite_compare import compared
from tests.importers.tflite_files import File, executed, schema
from tests.importers.tflite_mlperf import softmax


def file_of(classes: int, scale: float, beta: float = 1.0, result: tuple[float, int] = (1 / 256, -128)) -> File:
    f = File(1)
    options = schema.SoftmaxOptionsT()
    options.beta = beta
    f.output(f.function("SOFTMAX", f.input(1, classes, scale=scale, zero=-9), *result, options))
    return f


def log_of(classes: int, scale: float) -> File:
    f = File(1)
    x = f.input(1, classes, scale=scale, zero=-9)
    f.output(f.function("LOG_SOFTMAX", x, 1 / 16, 127, schema.LogSoftmaxOptionsT()))
    return f


def codes(r: np.random.Generator, rows: int, classes: int) -> np.ndarray:
    """Rows of which some lie near together, so that no class has all."""
    reach = r.choice([3, 20, 128], (rows, 1))
    return np.clip(r.integers(-128, 128, (rows, classes)) % (2 * reach) - reach, -128, 127).astype(np.int8)


@pytest.mark.parametrize(
    ("classes", "scale", "beta"),
    [(2, 0.02, 1.0), (10, 0.0481, 1.0), (10, 0.11, 1.0), (12, 0.31, 0.37), (100, 0.07, 1.0), (3, 1.7, 2.5),
     (1, 0.1, 1.0), (33, 0.0004, 1.0), (5, 1e-6, 3.0)],
)  # fmt: skip
def test_every_integer_of_the_reference_kernel(classes: int, scale: float, beta: float) -> None:
    given = codes(np.random.default_rng(classes), 400 if classes > 9 else 3000, classes)
    (wanted,) = (
        v[:, 0] for name, v in executed(file_of(classes, scale, beta).data(), given).items() if name != "input"
    )
    values = torch.from_numpy((given.astype(np.float64) + 9) * float(np.float32(scale)))
    for host in (False, True):
        with torch.no_grad():
            found = mase_hw.import_model(file_of(classes, scale, beta).data(), host=host).model(values)
        np.testing.assert_array_equal(np.rint(found.double().numpy() * 256) - 128, wanted)
    assert len(np.unique(wanted)) > (60 if 1 < classes < 20 and 0.02 < scale < 0.2 else 0)


@pytest.mark.parametrize(
    ("classes", "scale"), [(2, 0.02), (10, 0.0481), (10, 0.11), (12, 0.31), (100, 0.07), (1, 0.1), (33, 0.0004)]
)
def test_logarithms_of_the_reference_kernel(classes: int, scale: float) -> None:
    given = codes(np.random.default_rng(classes), 400 if classes > 9 else 3000, classes)
    data = log_of(classes, scale).data()
    (wanted,) = (v[:, 0] for name, v in executed(data, given).items() if name != "input")
    with torch.no_grad():
        found = mase_hw.import_model(data).model(torch.from_numpy((given.astype(np.float64) + 9) * np.float32(scale)))
    np.testing.assert_array_equal(np.rint(found.double().numpy() * 16) + 127, wanted)
    assert len(np.unique(wanted)) > (60 if classes > 1 and scale > 0.04 else 0)


@pytest.mark.slow
@pytest.mark.parametrize("logarithms", [False, True])
def test_rows_in_hardware(logarithms: bool, tmp_path: Path) -> None:
    """Of a matrix; and a single element that has all, whose reciprocal saturates."""
    f = File(3)
    x = f.input(1, 3, 5, scale=0.11, zero=-9)
    f.output(f.function("LOG_SOFTMAX", x, 1 / 16, 127, schema.LogSoftmaxOptionsT()) if logarithms else softmax(f, x))
    result = compared(f, 40)
    assert result.differences() == dict.fromkeys(result.found, 0)
    assert {-128, 127} < set(result.wanted[result.outputs[0]].reshape(-1).tolist())
    in_hardware(result, tmp_path)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (lambda: file_of(4, 0.1, result=(1 / 255, -128)), "as the kernel asks for"),
        (lambda: file_of(4, 1e-12), "which the kernel does not take"),
        (lambda: file_of(4, 0.1, float("nan")), "Beta is nan"),
        (lambda: file_of(4, 0.1, -1.0), "Beta is -1"),
    ],
)
def test_what_the_kernel_does_not_take(file: object, words: str) -> None:
    for host in (False, True):
        with pytest.raises(UnsupportedError, match=words):
            mase_hw.import_model(file().data(), host=host)  # type: ignore[operator]


def test_rows_of_many() -> None:
    with pytest.raises(UnsupportedError, match="rows of 4096 elements"):
        mase_hw.import_model(file_of(4096, 0.1).data())
