"""SOFTMAX on the host: every integer as LiteRT's reference kernel gives it."""

import numpy as np
import pytest

import mase_hw
from mase_hw.errors import UnsupportedError
from mase_hw.formats import ScaledFormat
from mase_hw.importers.tflite.host import Softmax
from tests.importers.tflite_files import File, executed, schema


def file_of(classes: int, scale: float, beta: float = 1.0, result: tuple[float, int] = (1 / 256, -128)) -> File:
    f = File(1)
    options = schema.SoftmaxOptionsT()
    options.beta = beta
    f.output(f.function("SOFTMAX", f.input(1, classes, scale=scale, zero=-9), *result, options))
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
    x = ScaledFormat.make(8, float(np.float32(scale)), -9)
    kernel = Softmax(x, ScaledFormat.make(8, 1 / 256, -128), float(np.float32(beta)))
    np.testing.assert_array_equal(kernel.of_integers(given.astype(np.int64)), wanted)
    assert len(np.unique(wanted)) > (60 if 1 < classes < 20 and 0.02 < scale < 0.2 else 0)


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
    with pytest.raises(UnsupportedError, match=words):
        mase_hw.import_model(file().data(), host=True)  # type: ignore[operator]
