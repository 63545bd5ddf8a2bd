"""Whatever a file quantises is taken exactly or refused, wherever the quantiser stands."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from onnx import helper

import mase_hw
from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.formats import FixedFormat
from mase_hw.nn import Quantized
from tests.importers.graphs import node
from tests.importers.qonnx_networks import DOMAIN, Net

S = 0.0625
FINE = 0.07
"""A scale that is a power of two, and one that is none."""


def grid(value: Any, scale: float, bits: int, zero: int = 0, signed: bool = True) -> Any:
    """``Quant`` with ``ROUND``, in float64."""
    step = float(np.float32(scale))
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return (np.clip(np.rint(value / step + zero), low, high) - zero) * step


def matrix(n: Net, scale: float = 0.25, bits: int = 4) -> Any:
    stored = next(v for v in n.stored.values() if v.ndim == 2 and v.size > 8).astype(np.float64)
    return grid(stored, scale, bits).clip(-7 * scale)


def product(n: Net, step: float, columns: int = 3, rows: int = 4) -> str:
    n.add("MatMul", n.weight(0, 4, rows, columns, scale=0.25))
    return n.quant(0, 8, scale=2 * step)


def negative(n: Net, s: float) -> Callable[[Any], Any]:
    n.quant(0, 4, scale=4 * s)
    n.add("Neg")
    product(n, s)
    return lambda x: grid(-grid(x, 4 * s, 4) @ matrix(n), 2 * s, 8)


def in_a_row(n: Net, s: float) -> Callable[[Any], Any]:
    n.quant(0, 6, scale=s)
    n.quant(0, 4, scale=2 * s)
    n.quant(0, 3, scale=4 * s)
    return lambda x: grid(grid(grid(x, s, 6), 2 * s, 4), 4 * s, 3)


def several_of_one_sum(n: Net, s: float) -> Callable[[Any], Any]:
    a = n.quant(0, 8, scale=s)
    sums = n.add("MatMul", n.weight(0, 4, 4, 5, scale=0.25), of=a)
    fine, coarse = n.quant(0, 6, scale=2 * s, of=sums), n.quant(0, 6, scale=2 * s, of=sums, mode="FLOOR")
    n.add("Add", coarse, of=fine)
    n.quant(0, 8, scale=s)

    def result(x: Any) -> Any:
        b = grid(x, s, 8) @ matrix(n)
        step = float(np.float32(2 * s))
        return grid(grid(b, 2 * s, 6) + np.floor(b / step).clip(-32, 31) * step, s, 8)

    return result


def behind_moves(n: Net, s: float) -> Callable[[Any], Any]:
    """Of an input that is moved before."""
    n.add("Reshape", n.store(np.int64([-1, 2, 2])))
    n.add("Transpose", perm=[0, 2, 1])
    n.quant(0, 4, scale=2 * s)
    n.add("Reshape", n.store(np.int64([-1, 4])))
    product(n, s)
    return lambda x: grid(grid(x.reshape(-1, 2, 2).transpose(0, 2, 1).reshape(-1, 4), 2 * s, 4) @ matrix(n), 2 * s, 8)


def behind_split(n: Net, s: float) -> Callable[[Any], Any]:
    a = n.quant(0, 8, scale=s)
    sums = n.add("MatMul", n.weight(0, 4, 4, 6, scale=0.25), of=a)
    n.nodes.append(node("Split", sums, "p1 p2", "/net/split", axis=1))
    first, second = n.quant(0, 4, scale=2 * s, of="p1"), n.quant(0, 6, scale=4 * s, of="p2")
    n.add("Concat", second, of=first, axis=1)
    n.quant(0, 8, scale=s)

    def result(x: Any) -> Any:
        b = grid(x, s, 8) @ matrix(n)
        return grid(np.concatenate([grid(b[:, :3], 2 * s, 4), grid(b[:, 3:], 4 * s, 6)], 1), s, 8)

    return result


def padded(n: Net, s: float) -> Callable[[Any], Any]:
    n.quant(0, 6, scale=s)
    n.add("Pad", n.store(np.int64([0, 1, 0, 2])))
    n.quant(0, 4, scale=2 * s, zero=2)
    return lambda x: grid(np.pad(grid(x, s, 6), ((0, 0), (1, 2))), 2 * s, 4, 2)


def signs_beside(n: Net, s: float) -> Callable[[Any], Any]:
    start = n.quant(0, 6, scale=s)
    n.add("BipolarQuant", n.store(np.float32(0.5)), domain=DOMAIN)
    n.add("Add", start)
    n.quant(0, 8, scale=2 * s)
    return lambda x: (lambda a: grid(np.where(a >= 0, 0.5, -0.5) + a, 2 * s, 8))(grid(x, s, 6))


def side_by_side(kind: str, scale: float, bits: int, zero: int, signed: int) -> Callable[[Net, float], Any]:
    """Two of several scales, zero points or signs, which nothing quantises together."""

    def build(n: Net, s: float) -> Callable[[Any], Any]:
        start = n.quant(0, 6, scale=s)
        n.add("Relu", of=start)
        first = n.quant(0, bits, scale=scale * s, signed=signed)
        second = n.quant(0, 4, scale=2 * s, of=start, zero=zero)
        n.add(kind, second, of=first, **({"axis": 1} if kind == "Concat" else {}))
        product(n, s, rows=8 if kind == "Concat" else 4)
        join: Any = {"Concat": lambda a, b: np.concatenate([a, b], 1), "Max": np.maximum, "Min": np.minimum}[kind]

        def result(x: Any) -> Any:
            a = grid(x, s, 6)
            both = grid(np.maximum(a, 0), scale * s, bits, 0, bool(signed)), grid(a, 2 * s, 4, zero)
            return grid(join(*both) @ matrix(n), 2 * s, 8)

        return result

    return build


PLACES: dict[str, Callable[[Net, float], Any]] = {
    f.__name__: f for f in (in_a_row, several_of_one_sum, behind_moves, behind_split, padded, signs_beside)
}
PLACES |= {
    f"{kind}_{name}".lower(): side_by_side(kind, *given)
    for kind in ("Concat", "Max", "Min")
    for name, given in {
        "multiple": (8, 4, 0, 1), "alike": (2, 5, 0, 0), "zero": (2, 5, 3, 0), "multiple_and_zero": (4, 4, 3, 1)
    }.items()
}  # fmt: skip


@pytest.mark.parametrize("s", [S, FINE])
@pytest.mark.parametrize("name", [*PLACES, "negative"])
def test_exact(name: str, s: float) -> None:
    n = Net(1, 1, 4)
    build = negative if name == "negative" else PLACES[name]
    result = build(n, s)
    if name == "negative" and s == FINE:
        with pytest.raises(UnsupportedError, match="nothing behind it quantises its result"):
            mase_hw.import_model(n.model())
        return
    x = np.random.default_rng(5).standard_normal((300, 4)).astype(np.float32)
    found = mase_hw.import_model(n.model()).model(torch.from_numpy(x)).detach().numpy()
    want = result(x.astype(np.float64))
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-5)
    assert len(np.unique(want)) > 5


@pytest.mark.parametrize("s", [S, FINE])
def test_weights_alone(s: float) -> None:
    """Nothing quantises the data: compile would choose a format for it, and another one for the weights."""
    n = Net(1, 1, 4)
    n.add("MatMul", n.weight(0, 4, 4, 3, scale=s))
    with pytest.raises(UnsupportedError, match="reads the input x before that is quantised"):
        mase_hw.import_model(n.model())
    n = Net(1, 1, 4)
    n.quant(0, 6, scale=s)  # the remedy
    n.add("MatMul", n.weight(0, 4, 4, 3, scale=s))
    mase_hw.import_model(n.model())


@pytest.mark.parametrize("scale", [0.1, 0.5])
def test_signs_alone(scale: float) -> None:
    """The signs of an input are for the host, which is exact."""
    n = Net(1, 1, 8)

    def signs(rows: int, columns: int) -> None:
        n.add("BipolarQuant", n.store(np.float32(1)), domain=DOMAIN)
        last = n.last
        weight = n.add("BipolarQuant", n.store(np.float32(scale)), of=n.store(n.weights(rows, columns)), domain=DOMAIN)
        n.last = last
        n.add("MatMul", weight)

    signs(8, 5)
    signs(5, 3)
    with pytest.raises(UnsupportedError, match=r"before that is quantised[\s\S]*import_model\(file, host=True\)"):
        mase_hw.import_model(n.model())
    x = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)
    first, second = (np.where(v >= 0, 1, -1) for v in n.stored.values() if v.ndim == 2)
    hidden = np.where(np.where(x >= 0, 1, -1) @ first >= 0, 1, -1)
    found = mase_hw.import_model(n.model(), host=True).model(torch.from_numpy(x)).detach().double().numpy()
    np.testing.assert_allclose(found, (hidden @ second) * float(np.float32(scale)), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("mode", ["ROUND", "FLOOR"])
def test_an_input_that_is_truncated(mode: str) -> None:
    """Trunc rounds to the scale of what it is given first; a Quant before it is the remedy."""
    for before in (False, True):
        n = Net(1, 1, 4)
        n.version = 2
        if before:
            n.quant(0, 8, scale=S)
        n.truncate([S, 0.0, 8.0, 2 * S, 4.0], mode)
        if before:
            mase_hw.import_model(n.model())
            continue
        with pytest.raises(UnsupportedError, match="truncates the input x, which nothing has quantised"):
            mase_hw.import_model(n.model())


def test_scales_that_nothing_holds() -> None:
    n = Net(1, 1, 4)
    start = n.quant(0, 6, scale=S)
    first, second = n.quant(0, 4, scale=0.1, of=start), n.quant(0, 4, scale=0.23, of=start)
    n.add("Concat", second, of=first, axis=1)
    product(n, S, rows=8)
    with pytest.raises(UnsupportedError, match="several scales, which no common scale holds exactly"):
        mase_hw.import_model(n.model())


def test_scales_of_a_bias() -> None:
    """Those that have another dimension would make a matrix of it; the remedy is the shape of the bias."""
    for shape in ((3, 1), (3,)):
        n = Net(1, 1, 4)
        n.quant(0, 6, scale=S)
        scales = np.float32([0.01, 0.02, 0.03]).reshape(shape)
        n.add("Gemm", n.weight(0, 4, 4, 3, scale=0.25), n.weight(0, 8, 3, scale=scales))
        n.quant(0, 8, scale=S)
        if len(shape) == 1:
            mase_hw.import_model(n.model())
            continue
        with pytest.raises(UnsupportedError, match=r"shape \[3, 1\] for stored numbers of the shape \[3\]"):
            mase_hw.import_model(n.model())


@pytest.mark.parametrize(
    ("kind", "domain", "attributes"),
    [("FloatQuant", DOMAIN, {}), ("MultiThreshold", DOMAIN, {"out_dtype": "UINT4"}), ("FixedQuant", DOMAIN, {}),
     ("Quant", "finn.custom_op.general", {}), ("BipolarQuant", "brevitas", {})],
)  # fmt: skip
def test_quantisers_that_are_not_known(kind: str, domain: str, attributes: Any) -> None:
    n = Net(1, 1, 4)
    n.quant(0, 6, scale=S)
    n.add(kind, *(n.store(np.float32(1)) for _ in range(3)), domain=domain, **attributes)
    made = n.model()
    if domain != DOMAIN:
        made.opset_import.append(helper.make_opsetid(domain, 1))
    why = "data that are minifloats" if kind == "FloatQuant" else ""
    with pytest.raises(UnsupportedError, match=rf"\({kind}\): {why}"):
        mase_hw.import_model(made)


@pytest.mark.parametrize(
    ("bits", "mantissa", "most", "kind"),
    [
        (4, 3, 448.0, ml_dtypes.float8_e4m3fn),
        (2, 1, 6.0, ml_dtypes.float4_e2m1fn),
        (3, 2, 28.0, ml_dtypes.float6_e3m2fn),
    ],
)
@pytest.mark.parametrize("scale", [0.125, 0.3])
def test_stored_minifloats(bits: int, mantissa: int, most: float, kind: Any, scale: float) -> None:
    """They have the values of another library, and the sums are those of these values."""
    n = Net(3, 1, 8)
    n.quant(2, 6)
    given = n.weights(8, 5) * np.float32(scale) * np.exp2(n.r.integers(-6, 5, (8, 5))).astype(np.float32)
    numbers = (scale, float(bits), float(mantissa), 2.0 ** (bits - 1) - 1, most)
    last = n.last
    more = {"has_inf": 0, "has_nan": 0, "has_subnormal": 1, "saturation": 1, "rounding_mode": "ROUND"}
    made = n.add("FloatQuant", *(n.store(np.float32(v)) for v in numbers), of=n.store(given), domain=DOMAIN, **more)
    n.last = last
    n.add("MatMul", made)
    n.quant(4, 16)
    graph = mase_hw.import_model(n.model())
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(4)) * 4
    codes = np.clip(given / np.float32(scale), -most, most).astype(kind).astype(np.float64)
    wanted = codes * np.float64(np.float32(scale))
    entered = np.clip(np.rint(x.double().numpy() * 4), -32, 31) / 4
    sums = np.clip(np.rint(entered @ wanted * 16), -(2**15), 2**15 - 1) / 16
    assert np.array_equal(graph.model(x).detach().double().numpy(), sums)


def unquantised(n: Net) -> None:
    """Pixels that the file shifts before it multiplies them, and sums that it leaves in float."""
    n.add("Sub", n.store(np.float32(-1)))
    n.add("Div", n.store(np.float32(2)))
    n.add("MatMul", n.weight(0, 4, 4, 3, scale=0.3))


def test_the_format_of_an_input_is_given() -> None:
    """Two functions of it become one table, whose results are exact without a quantiser."""
    n = Net(4, 1, 4)
    unquantised(n)
    with pytest.raises(UnsupportedError, match="before that is quantised"):
        mase_hw.import_model(n.model())
    with pytest.raises(ConfigError, match="no such input"):
        mase_hw.import_model(n.model(), inputs={"z": FixedFormat(2, 0)})
    x = torch.from_numpy(n.r.integers(-2, 2, (40, 4))).float()
    graph = mase_hw.import_model(n.model(), inputs={"x": FixedFormat(2, 0)})
    ops = [m.op.name for m in graph.model.modules() if isinstance(m, Quantized)]
    assert sorted(ops) == ["linear", "table"]
    wanted = (x.double().numpy() + 1) / 2 @ matrix(n, 0.3)
    unit = 0.5 * float(np.float32(0.3))
    np.testing.assert_array_equal(np.rint(graph.model(x).detach().double().numpy() / unit), np.rint(wanted / unit))
    assert np.unique(wanted).size > 20


def test_what_ends_in_float_is_refused() -> None:
    """Numbers that nothing quantises are on no grid; left out, they left the results as they were before them."""
    n = Net(5, 1, 4)
    n.quant(0, 4, scale=FINE)
    n.add("MatMul", n.weight(0, 4, 4, 3, scale=0.25))
    for kind, number in (("Sub", 0.81), ("Div", 3.3), ("Mul", -0.76), ("Add", -1.16)):
        n.add(kind, n.store(np.float32(number)))
    with pytest.raises(UnsupportedError, match="nothing behind it quantises its result"):
        mase_hw.import_model(n.model())
