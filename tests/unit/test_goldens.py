"""Every golden with hardware against its definition in Python's fractions, on every case of the catalogue.

What a case computes is taken from its formats and attributes alone; nothing of the package computes here. Ops with an
oracle in a test of their own are named with it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from mase_hw.catalogue import Arithmetic
from mase_hw.formats import FixedFormat, GroupFormat, Overflow
from mase_hw.numerics import as_carrier, carrier, magnitude
from tests.catalogue.harness import ITEMS, Item, expected, stimulus
from tests.unit import test_named_functions as named
from tests.unit.oracle import by_fraction

Values = npt.NDArray[Any]
"""Fractions of any shape."""
Inputs = Mapping[str, Values]


def fractions(mantissas: npt.NDArray[np.int64], fmt: FixedFormat) -> Values:
    """What mantissas stand for."""
    unit = Fraction(2) ** -fmt.frac_width
    values = [(int(m) - fmt.zero_point) * unit for m in mantissas.reshape(-1)]
    return np.array(values, dtype=object).reshape(mantissas.shape)


def cast(values: Values, a: Arithmetic, name: str = "data_out_0") -> Values:
    """The mantissas of values in the format of a port."""
    fmt = a.formats[name]
    target, modes = (fmt.width, fmt.frac_width, fmt.signed), (a.rounding.name, a.overflow.name)
    codes = [by_fraction(v, target, *modes) for v in values.reshape(-1)]
    return np.array(codes, dtype=object).reshape(values.shape)


def by_element(exact: Callable[..., Fraction]) -> Callable[[Arithmetic, Inputs], Values]:
    """An op of every element; a second operand is a stream, a stored tensor or a number."""

    def run(a: Arithmetic, t: Inputs) -> Values:
        factors = a.attributes.get("multipliers", (1,) * len(t))
        operands = np.broadcast_arrays(*(v * factor for v, factor in zip(t.values(), factors, strict=True)))
        if a.attributes.get("reversed"):
            operands = operands[::-1]
        return cast(np.frompyfunc(exact, len(operands), 1)(*operands), a)

    return run


def turned_beats(a: Arithmetic, t: Inputs) -> Values:
    """A beat has a matrix row by row, and leaves it column by column."""
    rows, columns = a.attributes["shape"]
    places = [row * columns + column for column in range(columns) for row in range(rows)]
    return cast(t["in_data"][..., places], a, "out_data")


def linear(a: Arithmetic, t: Inputs) -> Values:
    """Weights have a power of two for every output, or every block of it, if they have shifts; groups have a factor."""
    weight = t["weight"]
    if "weight_shift" in t:
        shift = t["weight_shift"].astype(int).reshape(len(weight), -1)
        block = getattr(a.formats["weight"], "block", weight.shape[1])
        factor = shift if isinstance(a.formats["weight"], GroupFormat) else 2**shift
        weight = weight * factor.astype(object)[:, np.arange(weight.shape[1]) // block]
    sums = np.tensordot(t["data_in_0"], weight, axes=([-1], [1]))
    return cast(sums + t.get("bias", Fraction(0)), a)


def pointwise(a: Arithmetic, t: Inputs) -> Values:
    """A linear layer of the channels of each pixel."""
    rows, weight = np.moveaxis(t["data_in_0"], -3, -1), t["weight"][..., 0, 0]
    return np.moveaxis(linear(a, {**t, "data_in_0": rows, "weight": weight}), -1, -3)


def grouped_matmul(a: Arithmetic, t: Inputs) -> Values:
    """Result by result: heads in succession share a part of every row of the matrix."""
    x, y = t["data_in_0"], t["data_in_1"]
    (batch, tokens, heads, inner), share = x.shape, x.shape[2] // y.shape[2]
    transposed = a.attributes["transposed"]
    results = y.shape[1] if transposed else y.shape[3]
    sums = np.empty((batch, tokens, heads, results), dtype=object)
    for b, token, head, result in np.ndindex(sums.shape):
        part = y[b, :, head // share]
        column = part[result] if transposed else part[:, result]
        seen = y.shape[1] - tokens + token + 1 if a.attributes["causal"] else y.shape[1]
        last = inner if transposed else seen
        exact = sum((x[b, token, head, i] * column[i] for i in range(last)), Fraction(0))
        sums[b, token, head, result] = Fraction(0) if transposed and result >= seen else exact
    return cast(sums, a)


def clamp(a: Arithmetic, t: Inputs) -> Values:
    """The limits are numbers, brought into the format of the output; values are held between them, and then cast."""
    values, fmt = t["data_in_0"], a.formats["data_out_0"]
    for name, keep in (("min", max), ("max", min)):
        if (value := a.attributes.get(name)) is not None:
            code = by_fraction(Fraction(value), (fmt.width, fmt.frac_width, fmt.signed), "HALF_EVEN", "SATURATE")
            limit = code / Fraction(2) ** fmt.frac_width
            values = np.array([keep(each, limit) for each in values.reshape(-1)], dtype=object)
    return cast(values, dataclasses.replace(a, overflow=Overflow.SATURATE))


def cat(a: Arithmetic, t: Inputs) -> Values:
    names = sorted(t, key=lambda name: int(name.removeprefix("data_in_")))
    return np.concatenate([cast(t[name], a) for name in names], axis=a.attributes["dim"])


def range_of(a: Arithmetic, t: Inputs) -> Values:
    dim, begin, length, step = (a.attributes[name] for name in ("dim", "begin", "length", "step"))
    return cast(np.take(t["data_in_0"], [begin + i * step for i in range(length)], axis=dim), a)


def result_of(a: Arithmetic, t: Inputs) -> Values:
    begin, length = a.attributes["begin"], a.attributes["length"]
    return cast(t["data_in_0"].reshape(-1)[begin : begin + length].reshape(a.attributes["out_shape"]), a)


def pad(a: Arithmetic, t: Inputs) -> Values:
    left, right, top, bottom = a.attributes["pad"]
    zero = a.formats["data_in_0"].zero_point  # numbers of one scale are moved as they are
    codes = cast(t["data_in_0"] + zero, a)
    return np.pad(codes, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=zero)


def enlarged(a: Arithmetic, t: Inputs) -> Values:
    rows, columns = (int(factor) for factor in a.attributes["scale_factor"])
    return cast(t["data_in_0"].repeat(rows, axis=2).repeat(columns, axis=3), a)


def reordered(a: Arithmetic, t: Inputs) -> Values:
    words = t["in_data"].reshape(-1)
    return cast(np.array([words[i] for i in a.attributes["sequence"]], dtype=object), a, "out_data")


def windows(a: Arithmetic, t: Inputs) -> Values:
    """The window at every position, cut out of an image with a margin; channels in groups, each repeated."""
    p = a.attributes
    margin = ((p["pad_h"], 99), (p["pad_w"], 99), (0, 0))
    bits = format(p["pad_value"] % 2 ** p["pad_width"], f"0{p['pad_width']}b") * (p["width"] // p["pad_width"])
    border = int(bits, 2) - (2 ** p["width"] if bits[0] == "1" else 0)
    image = np.pad(t["in_data"], margin, constant_values=Fraction(border))
    places = []
    for y in range(0, p["out_h"] * p["stride_h"], p["stride_h"]):
        for x in range(0, p["out_w"] * p["stride_w"], p["stride_w"]):
            window = image[y :: p["dilation_h"], x :: p["dilation_w"]][: p["kernel_h"], : p["kernel_w"]]
            for group in np.split(window, p["groups"], axis=2):
                places += [group.reshape(-1)] * p["repeats"]
    return cast(np.concatenate(places), a, "out_data")


def looked_up(a: Arithmetic, t: Inputs) -> Values:
    """The code that stands at the bits of each code; nothing is rounded."""
    fmt, codes = a.formats["data_in_0"], a.attributes["codes"]
    places = [int(x * 2**fmt.frac_width) % 2**fmt.width for x in t["data_in_0"].reshape(-1)]
    return np.array([codes[place] for place in places], dtype=object)


def rearranged(a: Arithmetic, t: Inputs) -> Values:
    """Loop by loop: blocks, passes over each, runs of the table, elements of a run, repetitions of an element."""
    p, x, places = a.attributes, t["data_in_0"].reshape(-1), []
    for base in range(0, x.size, p["block"]):
        for _ in range(p["passes"]):
            for start in p["starts"]:
                for i in range(p["run"]):
                    places += [Fraction(0) if start < 0 else x[base + start + i]] * p["hold"]
    return cast(np.array(places, dtype=object), a)


def top(places: bool) -> Callable[[Arithmetic, Inputs], Values]:
    """The first elements of every sorted row, or where they stood; of equal ones the first comes first."""

    def run(a: Arithmetic, t: Inputs) -> Values:
        x = t["data_in_0"]
        sign, found = (-1 if a.attributes["largest"] else 1), []
        for row in x.reshape(-1, x.shape[-1]):
            order = sorted(range(len(row)), key=lambda i, row=row: sign * row[i])[: a.attributes["count"]]
            found.append([Fraction(i) if places else row[i] for i in order])
        return cast(np.array(found, dtype=object).reshape(*x.shape[:-1], -1), a)

    return run


def leaving(a: Arithmetic, t: Inputs) -> Inputs:
    """The beats of the last pass leave, those before them go back."""
    back, out = a.attributes["split"]
    beats = list(t["in_data"].reshape(-1))
    return {"out_data": np.array(beats[back : back + out]), "back_data": np.array(beats[:back])}


# Ops of every element bring theirs.
ORACLES: dict[str, Callable[[Arithmetic, Inputs], Values | Inputs]] = {
    "loop_entry": lambda a, t: np.concatenate([t["in_data"], t["back_data"]]),
    "loop_exit": leaving,
    "top_values": top(places=False),
    "top_places": top(places=True),
    "clamp": clamp,
    **dict.fromkeys(
        ("batch_norm", "batch_norm1d", "batch_norm2d"),
        lambda a, t: cast(t["data_in_0"] * t["weight"] + t["bias"], a),
    ),
    "linear": linear,
    "pointwise": pointwise,
    "grouped_matmul": grouped_matmul,
    "cat": cat,
    "cat_part": cat,
    "rearrange": rearranged,
    "table": looked_up,
    "slice": range_of,
    "frame_result": result_of,
    "pad": pad,
    "interpolate": enlarged,
    "reorder": reordered,
    "turn": turned_beats,
    "replay": lambda a, t: cast(np.concatenate([t["in_data"]] * a.attributes["repeats"], axis=-2), a, "out_data"),
    "sliding_window": windows,
    **dict.fromkeys(
        ("skid_buffer", "register_slice", "fifo", "link", "repack"), lambda a, t: cast(t["in_data"], a, "out_data")
    ),
}

# Ops that another file holds against definitions of its own.
ELSEWHERE = {
    "test_arithmetic_goldens.py": r"div|\w+_quotient|floor|ceil|round|trunc|lt|le|gt|ge|eq|ne|where|choose|"
    r"stored_result|passed_on",
    "test_conv_golden.py": r"conv\dd",
    "test_pooling.py": r"\w*pool\dd|mean",
    "test_named_functions.py": "|".join(named.ORACLE),
    "test_pieces.py": r"prelu|relu6|hardtanh|leaky_relu|threshold|(?:hard|soft)shrink|hardsigmoid|sign|\w\w_number",
    "test_embedding.py": r"embedding",
    "test_positioned.py": r"positioned",
    "test_functions.py": r"\w*sigmoid|tanh\w*|\w*elu|silu|mish|hardswish|softplus|softsign|reciprocal|r?sqrt|log2?|"
    r"exp2?|erf|pow|sin|cos|inverse_power",
    "test_recurrence.py": r"(linear_)?recurrence",
    "test_requantize.py": r"requantize",
    "test_reductions.py": r"sum|mean_over|arg\w+|am\w+|cumsum",
    "test_statistics.py": r"var|std|norm",
    "test_block_round.py": r"block_round(_channels)?",
    "test_taps.py": r"taps",
    "../e2e/test_decode_sample.py": r"draw",
    "../importers/test_tflite_states.py": r"integer_lstm",
}
# Ops that are defined by a bound: at most 1 LSB from float64, and in order; every code of their tables is measured.
BOUNDED = {
    "test_softmax.py": r"softm\w\w|log_softmax",
    "test_softmax_masked.py": r"masked_softmax|softmax_where",
    "test_norms.py": r"\w+_norm",
}
ORACLES |= {it.op.name: by_element(it.op.oracle) for it in ITEMS if it.op.oracle is not None}
PROVEN = [it for it in ITEMS if it.op.name in ORACLES]
HERE = Path(__file__).parent


def test_every_golden_has_an_oracle() -> None:
    """An op that is added needs one, here or in a file of its own."""
    for name in {it.op.name for it in ITEMS} - set(ORACLES):
        files = [file for file, pattern in ELSEWHERE.items() if re.fullmatch(pattern, name)]
        bounds = [file for file, pattern in BOUNDED.items() if re.fullmatch(pattern, name)]
        assert files or bounds, f"{name} has no oracle"
        texts = [(HERE / file).read_text(encoding="utf-8") for file in files]
        assert all(any(other in text for other in ("Fraction", "mpmath", "LiteRT", "ml_dtypes")) for text in texts)
        assert all("test_within_one_lsb" in (HERE / file).read_text(encoding="utf-8") for file in bounds)


@pytest.mark.parametrize("it", PROVEN, ids=lambda it: it.id)
def test_golden(it: Item) -> None:
    """All bits of the random frames of a case and of its extremes."""
    tensors = stimulus(it, seed=11)
    if it.case.frames > 2:
        # Two random frames, and the four of extremes behind them.
        tensors = {name: tensor[it.case.frames - 2 :] for name, tensor in tensors.items()}
    results = expected(it, tensors)
    formats = {stream.name: stream.fmt for stream in it.streams}
    # Of an op of a graph they have the shape of the tensor.
    numbers = {n: as_carrier(torch.from_numpy(t[0]), carrier(magnitude(formats[n]))) for n, t in tensors.items()}
    first = it.op.golden(it.arithmetic, numbers)
    assert not it.op.mase_type or all(first[sink.name].shape == sink.tensor_shape for sink in it.sinks)
    for frame in range(len(results[it.sinks[0].name])):
        inputs = {name: fractions(tensor[frame], formats[name]) for name, tensor in tensors.items()}
        found = ORACLES[it.op.name](it.arithmetic, inputs)
        for name, wanted in (found if isinstance(found, dict) else {it.sinks[0].name: found}).items():
            assert results[name][frame].reshape(-1).tolist() == wanted.reshape(-1).tolist()


SYMBOLIC = r"(linear_)?recurrence|integer_lstm|var|std|norm|(layer|rms|group)_norm|softm\w\w|softmax_where|\w+_softmax"


@pytest.mark.parametrize("name", sorted({it.op.name for it in ITEMS if re.fullmatch(SYMBOLIC, it.op.name)}))
def test_results_without_numbers(name: str) -> None:
    """Of tensors that have a shape alone: the shape and the carrier of the results are those of numbers."""
    for it in (each for each in ITEMS if each.op.name == name):
        formats = {stream.name: stream.fmt for stream in it.streams}
        numbers = {
            port: as_carrier(torch.from_numpy(tensor[0]), carrier(magnitude(formats[port])))
            for port, tensor in stimulus(it).items()
        }
        found = [it.op.golden(it.arithmetic, each) for each in (numbers, {k: v.to("meta") for k, v in numbers.items()})]
        wanted, got = ({port: (value.shape, value.dtype) for port, value in each.items()} for each in found)
        assert got.items() <= wanted.items() and got, it.id
