"""Models with the attributes of those of HGQ2 0.2, which compute in exact numbers of numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
ROUND: dict[str, Callable[[Array], Array]] = {
    "RND": lambda v: np.floor(v + 0.5),
    "RND_CONV": np.rint,
    "TRN": np.floor,
    "TRN_ZERO": np.trunc,
}


class History(NamedTuple):
    """Where a tensor comes from."""

    operation: Any
    node_index: int
    tensor_index: int


class Tensor:
    """A symbolic tensor; the number of frames is open."""

    def __init__(self, operation: Any, shape: Sequence[int]) -> None:
        self.shape = (None, *shape)
        self._keras_history = History(operation, len(operation._inbound_nodes), 0)


class Node:
    """A call of a layer."""

    def __init__(self, given: Sequence[Tensor]) -> None:
        self.input_tensors = list(given)


class Layer:
    """What all layers have; a call with arrays computes."""

    enable_iq = enable_oq = False
    iq: Any = None
    oq: Any = None
    activation: Any = None

    def __init__(self, name: str, **attributes: Any) -> None:
        self.name = name
        self._inbound_nodes: list[Node] = []
        for key, value in attributes.items():
            setattr(self, key, value)
        self.enable_iq, self.enable_oq = self.iq is not None, self.oq is not None

    def computed(self, *given: Array) -> Array:
        """The result for arrays, activation and quantisers apart."""
        return given[0]

    def of(self, *given: Array) -> Array:
        """The result for arrays."""
        if self.enable_iq:
            quantisers = self.iq if len(given) > 1 else [self.iq]
            given = tuple(q.of(x) for q, x in zip(quantisers, given, strict=True))
        x = self.computed(*given)
        x = np.maximum(x, 0) if getattr(self.activation, "__name__", "") == "relu" else x
        found: Array = self.oq.of(x) if self.enable_oq else x
        return found

    def __call__(self, *given: Tensor) -> Tensor:
        """The result for symbolic tensors."""
        shape = self.of(*(np.zeros((1, *(n for n in t.shape if n is not None))) for t in given)).shape[1:]
        made = Tensor(self, shape)
        self._inbound_nodes.append(Node(given))
        return made


class InputLayer(Layer):
    """An input."""

    def tensor(self, *shape: int) -> Tensor:
        """Its tensor."""
        made = Tensor(self, shape)
        self._inbound_nodes.append(Node([]))
        return made


class Fixed:
    """The inner quantiser: signs, integer and fraction bits."""

    def __init__(self, k: Any, i: Any, f: Any, round_mode: str, overflow_mode: str) -> None:
        self.kif = tuple(np.array(v, np.float32) for v in (k, i, f))
        self.round_mode, self.overflow_mode = round_mode, overflow_mode


class Quantizer(Layer):
    """A quantiser, inside of a layer or as one."""

    scaler: Any = None
    affine: Any = None

    def __init__(self, k: Any, i: Any, f: Any, mode: str = "RND", overflow: str = "WRAP", name: str = "q") -> None:
        super().__init__(name)
        self.quantizer = Fixed(k, i, f, mode, overflow)

    def computed(self, *given: Array) -> Array:
        (x,) = given
        k, i, f = (np.broadcast_to(v, x.shape).astype(np.float64) for v in self.quantizer.kif)
        codes, bits = ROUND[self.quantizer.round_mode](x * 2.0**f), k + np.maximum(i, -f) + f
        high, low = 2.0 ** (bits - k) - 1, -k * 2.0 ** (bits - k)
        if self.quantizer.overflow_mode == "WRAP":
            codes = (codes - low) % 2.0**bits + low
        else:
            codes = np.clip(codes, -k * high if self.quantizer.overflow_mode == "SAT_SYM" else low, high)
        return np.where(k + i + f > 0, codes * 2.0**-f, 0.0)


def relu(x: Any) -> Any:
    """The name is what counts."""
    return np.maximum(x, 0)


class QDense(Layer):
    """A product along the last dimension."""

    qkernel: Array
    qbias: Array | None = None

    def computed(self, *given: Array) -> Array:
        made: Array = given[0] @ self.qkernel
        return made if self.qbias is None else made + self.qbias


class QEinsumDense(QDense):
    """An equation."""

    equation: str
    bias_axes = "f"

    def computed(self, *given: Array) -> Array:
        made: Array = np.einsum(self.equation, given[0], self.qkernel)
        return made if self.qbias is None else made + self.qbias


class QConv2D(QDense):
    """A convolution, channels last, padded to the same size or not at all."""

    data_format, padding, groups = "channels_last", "same", 1
    strides = dilation_rate = (1, 1)

    @property
    def kernel_size(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.qkernel.shape[:2]

    def computed(self, *given: Array) -> Array:
        (x,), (rows, columns) = given, self.kernel_size
        if self.padding == "same":
            pads = [((n - 1) // 2, n // 2) for n in (rows, columns)]
            x = np.pad(x, [(0, 0), *pads, (0, 0)])
        windows = np.lib.stride_tricks.sliding_window_view(x, (rows, columns), (1, 2))
        made: Array = np.einsum("nyxcij,ijco->nyxo", windows, self.qkernel)
        return made if self.qbias is None else made + self.qbias


class QMaxPooling2D(Layer):
    """Maxima of windows."""

    data_format, padding, pool_size, strides = "channels_last", "valid", (2, 2), (2, 2)

    def computed(self, *given: Array) -> Array:
        n, rows, columns, channels = given[0].shape
        cut = given[0][:, : rows // 2 * 2, : columns // 2 * 2]
        made: Array = cut.reshape(n, rows // 2, 2, columns // 2, 2, channels).max((2, 4))
        return made


class Flatten(Layer):
    """Channels last, so that they are innermost."""

    def computed(self, *given: Array) -> Array:
        return given[0].reshape(len(given[0]), -1)


class QAdd(Layer):
    """A sum."""

    def computed(self, *given: Array) -> Array:
        return given[0] + given[1]


class Model:
    """Layers from inputs to outputs."""

    def __init__(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        self.inputs, self.outputs = list(inputs), list(outputs)

    def predict(self, x: npt.NDArray[Any]) -> Array:
        """The first output for the first input."""

        def value(tensor: Tensor) -> Array:
            layer, index, _ = tensor._keras_history
            given = layer._inbound_nodes[index].input_tensors
            found: Array = layer.of(*map(value, given)) if given else np.asarray(x, np.float64)
            return found

        return value(self.outputs[0])


def sequence(shape: Sequence[int], *layers: Layer) -> Model:
    """A model of layers one after the other."""
    first = last = InputLayer("x").tensor(*shape)
    for layer in layers:
        last = layer(last)
    return Model([first], [last])
