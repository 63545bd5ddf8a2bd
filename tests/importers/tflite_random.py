"""Networks of int8 drawn by a seed: any operation behind any other, odd sizes, borders, strides, zero points."""

from __future__ import annotations

import numpy as np

from tests.importers.tflite_files import File, Value

ACTIVATIONS = ("", "relu", "relu6", "relu_n1_to_1")


def drawn(seed: int) -> File:
    """An image through five to nine operations, of which some read an earlier tensor of the same shape as well."""
    f, r = File(seed), np.random.default_rng(seed)
    size = tuple(int(n) for n in r.integers(5, 11, 2))
    channels = next(c for c in r.permutation([1, 2, 3, 4]) if c not in size)
    x = f.input(1, *size, int(channels), scale=float(r.uniform(0.005, 0.05)), zero=int(r.integers(-128, 128)))
    seen = [x]
    for _ in range(int(r.integers(5, 10))):
        x = _next(f, r, x, seen)
        seen.append(x)
    if r.random() < 0.7:
        x = f.mean(x, 1, 2, scale=x.scale * float(r.uniform(0.3, 1.1)))
    f.output(f.dense(x, int(r.integers(2, 9)), channels=bool(r.random() < 0.5)))
    return f


def _next(f: File, r: np.random.Generator, x: Value, seen: list[Value]) -> Value:
    """One operation more."""
    h, w = x.shape[1:3]
    activation = str(r.choice(ACTIVATIONS, p=[0.5, 0.3, 0.1, 0.1]))
    kernel = (int(r.integers(1, min(h, 3) + 1)), int(r.integers(1, min(w, 3) + 1)))
    stride = (1, 1) if min(h, w) < 4 else (int(r.integers(1, 3)), int(r.integers(1, 3)))
    same, channels = bool(r.random() < 0.6), bool(r.random() < 0.7)
    alike = [v for v in seen if v.shape == x.shape]
    kind = int(r.integers(10))
    if kind <= 2:
        dilation = (int(r.integers(1, 3)), 1) if same else (1, 1)
        outputs = next(int(c) for c in r.permutation(np.arange(1, 7)) if c not in (h, w))
        y = f.conv(x, outputs, kernel, stride, same, dilation, activation, channels)
        return y if y.shape[3] not in y.shape[1:3] else f.conv(x, 11, kernel, stride, same, dilation, activation)
    if kind == 3:
        return f.depthwise(x, int(r.integers(1, 3)), kernel, (1, 1), True, activation=activation, channels=channels)
    if kind == 4:
        odd = (1 + 2 * int(h > 3), 1 + 2 * int(w > 3))
        return f.pool(x, str(r.choice(["MAX", "AVERAGE"])), odd, (1, 1), True, activation)
    if kind in (5, 6):
        other = alike[int(r.integers(len(alike)))]
        name = str(r.choice(["ADD", "SUB"]))
        return f.binary(name, x, other, (x.scale + other.scale) * float(r.uniform(0.3, 0.9)), activation)
    if kind == 7:
        other = f.stored(r.integers(-128, 128, x.shape[3]), float(r.uniform(0.005, 0.02)), int(r.integers(-50, 50)))
        return f.binary("MUL", x, other, x.scale * other.scale * float(r.uniform(30, 90)), activation)
    if kind == 8:
        return f.function("HARD_SWISH", x, x.scale * float(r.uniform(0.7, 1.2)), int(r.integers(-100, 40)))
    return f.function("QUANTIZE", x, x.scale * float(r.uniform(0.3, 3)), int(r.integers(-100, 100)))
