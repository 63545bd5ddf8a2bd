"""Operations that remember: ``UNIDIRECTIONAL_SEQUENCE_LSTM`` and ``SVDF``, as their kernels of int8 compute.

A state is a tensor of the file that LiteRT keeps from one frame to the next until its variables are reset. So does the
hardware of an SVDF, and of an LSTM of one time step or beside an SVDF; other LSTMs begin every frame with the states
that a reset gives, as Keras defines a layer that is not stateful.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mase_hw.catalogue import Arithmetic
from mase_hw.formats import MULTIPLIER_BITS, FixedFormat, Rounding, ScaledFormat, quantize_multiplier
from mase_hw.formats.attributes import attributes_of
from mase_hw.importers.graph import Refused
from mase_hw.importers.tflite.kernels import MOST_SHIFT, twice
from mase_hw.importers.tflite.layers import Weights, exact_sums, largest_sums
from mase_hw.importers.tflite.source import STATE, Info
from mase_hw.importers.tflite.step import Step, Value, format_of, stored_scales
from mase_hw.nn import Quantized
from mase_hw.ops.movement.taps import WINDOW
from mase_hw.ops.recurrent.integer_lstm import CELL_FRACS, GATES

Float = np.float32
VARIANTS = {
    "peephole connections": (9, 10, 11),
    "a projection": (16, 17),
    "layer normalization": (20, 21, 22, 23),
}
"""What an LSTM may have besides, by the inputs that say so."""
_BIASES, _OUT_STATE, _CELL_STATE, _HIDDEN = 12, 18, 19, 4
_GATE = FixedFormat(16, 12)
_RELU, _MOST_SUM = 1, (1 << 31) - 1


def _state(s: Step, index: int, kind: str) -> Info:
    """What the file says of a state."""
    if not s.has(index):
        raise Refused(f"input {index} is missing")
    info = s.source.tensors[s.op.inputs[index]]
    if info.faults != (STATE,) or info.kind != kind or len(info.scales) != 1:
        raise Refused(f"a state of {info.kind} with {len(info.scales)} scales, not of {kind} with one")
    return info


def lstm(s: Step) -> Value:
    """``UNIDIRECTIONAL_SEQUENCE_LSTM`` as Keras has it: the input part is a layer, what is left ``integer_lstm``."""
    x, out = s.data(), format_of(s.out)
    found = [what for what, inputs in VARIANTS.items() if any(s.has(index) for index in inputs)]
    if found or not s.has(1):
        raise Refused(f"an LSTM with {found[0] if found else 'input gates coupled to forget gates'}",
                      "export a plain LSTM, as Keras does")  # fmt: skip
    if s.op.option("TimeMajor") or len(x.shape) != 3:
        raise Refused("time steps before the batch", "export it with the batch first")
    if len(s.op.inner) <= _HIDDEN:
        raise Refused("no scale of its hidden state", "quantise the model again")
    state, cell = _state(s, _OUT_STATE, "int8"), _state(s, _CELL_STATE, "int16")
    hidden = s.source.tensors[s.op.inner[_HIDDEN]]
    if len(hidden.scales) != 1 or {*state.zeros, *hidden.zeros} != {out.zero_point}:
        raise Refused("several zero points for one state")
    exponent = math.log2(cell.scales[0])
    frac = -round(exponent)
    if abs(exponent + frac) > 1e-3 or frac not in CELL_FRACS:
        raise Refused(f"cell states of the scale {cell.scales[0]:g}", "it is a power of two from 2^-15 to 2^-9")
    units, steps = s.out.shape[-1], x.shape[1]
    inner = _by_unit(s, 1, (units, x.shape[2]))
    scales = [_one_scale(s, 1 + gate) for gate in range(GATES)]
    biases = torch.stack([_bias(s, _BIASES + gate, units) for gate in range(GATES)], 1).reshape(-1)
    kept = Weights(inner, scales * units, biases)
    made, have = exact_sums(s, "linear", x, s.as_in_file(x), kept, (1, steps, GATES * units))
    ratios = [float(Float(scale) * Float(x.fmt.scale) / Float(_GATE.scale)) for scale in scales] * units
    multipliers, first = twice(ratios, max(largest_sums(x.fmt, inner, biases)))
    parts = s.requantised(made, have, _GATE, multipliers, Rounding.HALF_AWAY, first, "parts")

    weight = _by_unit(s, 5, (units, units))
    reach = max(largest_sums(out, weight, None))
    pairs = [
        _pair(float(Float(_one_scale(s, 5 + gate)) * Float(state.scales[0]) / Float(_GATE.scale)), reach)
        for gate in range(GATES)
    ]
    multiplier, shift = _pair(float(Float(2.0**-15 / float(Float(hidden.scales[0])) * 2.0**-15)), 1 << 30)
    clip = s.op.number("CellClip")
    alone = steps == 1 or any(op.operation == "SVDF" for op in s.source.operators)
    attributes = attributes_of(
        {
            "multiplier": tuple(pair[0] for pair in pairs),
            "shift": tuple(pair[1] for pair in pairs),
            "cell_frac": frac,
            "clip": int(min(Float(clip) / Float(cell.scales[0]), Float(32767))) if clip > 0 else 0,
            "out_multiplier": multiplier,
            "out_shift": shift,
            "streaming": alone,
        }
    )
    formats = {"data_in_0": _GATE, "weight": FixedFormat(8, 0), "data_out_0": out}
    module = Quantized(s.catalogue["integer_lstm"], Arithmetic(formats, attributes=attributes), {"weight": weight})
    return s.result(s.put(module, [parts], s.out.shape), out, first=False)


def _by_unit(s: Step, index: int, shape: tuple[int, int]) -> Tensor:
    """Weights of the four gates, the gates of a unit one below the other."""
    found = [s.known(index + gate, "a weight", "int8") for gate in range(GATES)]
    wrong = [list(each.shape) for each in found if tuple(each.shape) != shape]
    if wrong:
        raise Refused(f"weights of the shape {wrong[0]}, not {list(shape)}")
    return torch.stack(found, 1).reshape(-1, shape[1])


def _one_scale(s: Step, index: int) -> float:
    (scale,) = stored_scales(s.info(index), 0, 1, "a weight")
    return scale


def _bias(s: Step, index: int, count: int) -> Tensor:
    if not s.has(index):
        return torch.zeros(count, dtype=torch.int64)
    bias = s.known(index, "the bias", "int32").reshape(-1)
    if bias.numel() != count:
        raise Refused(f"a bias of {bias.numel()} numbers for {count}")
    return bias


def _pair(ratio: float, bound: int) -> tuple[int, int]:
    """Multiplier and shift of ``MultiplyByQuantizedMultiplier`` of integers up to a bound."""
    multiplier, shift = quantize_multiplier(ratio)
    left = MULTIPLIER_BITS - shift
    if not -MOST_SHIFT <= left < MULTIPLIER_BITS or bound << max(left, 0) >= 1 << 31:
        raise Refused(
            f"a ratio of its scales of {ratio:.3g}", "convert the model with data that shows the range of its results"
        )
    return multiplier, shift


def svdf(s: Step) -> Value:
    """``SVDF``: a layer, what it gave for so many frames, and products of these along time, ``rank`` of them summed."""
    x, want, rank = s.data(), format_of(s.out), s.op.option("Rank")
    feature, time = s.known(1, "the weight", "int8"), s.known(2, "the weight of time", "int16")
    state = _state(s, 4, "int16")
    filters, memory = time.shape
    if len(x.shape) != 2 or rank < 1 or filters % rank or tuple(feature.shape) != (filters, x.shape[1]):
        raise Refused(f"weights {list(feature.shape)} and {list(time.shape)} of the rank {rank} for {list(x.shape)}")
    if s.op.option("FusedActivationFunction") != _RELU or any(state.zeros):
        raise Refused("another activation than ReLU, or a state with a zero point, which the kernel does not take")
    units = filters // rank
    kept = ScaledFormat.make(16, state.scales[0])
    made, have = exact_sums(s, "linear", x, s.as_in_file(x), Weights(feature, [_one_scale(s, 1)], None), (1, filters))
    made = _scaled(s, made, have, kept, [x.fmt.scale, _one_scale(s, 1), kept.scale], largest_sums(x.fmt, feature, None))
    window = attributes_of(dict(zip(WINDOW, (memory, 1, 1, 0), strict=True)))
    taps = Quantized(s.catalogue["taps"], Arithmetic({"data_in_0": kept, "data_out_0": kept}, attributes=window))
    made = s.put(taps, [s.writer.reshape(made, (1, filters, 1, 1))], (1, filters, 1, memory), "memory")
    bias = _bias(s, 3, units) if s.has(3) else None
    along = Weights(time.reshape(units, rank, 1, memory), [_one_scale(s, 2)], bias)
    data = Value(made, kept, (1, 1, memory, filters), first=True)
    made, have = exact_sums(s, "conv2d", data, made, along, (1, units, 1, 1), "time_sums", groups=units)
    # What is beyond 32 bits wraps around in the kernel, and saturates here.
    made = s.writer.reshape(made, (1, units))
    made = _scaled(s, made, have, want, [kept.scale, _one_scale(s, 2), want.scale], [_MOST_SUM], "")
    return s.result(made, want, first=False)


def _scaled(
    s: Step, node: torch.fx.Node, have: ScaledFormat, want: ScaledFormat, scales: Sequence[float], bounds: list[int],
    part: str = "features",
) -> torch.fx.Node:  # fmt: skip
    """Sums at the scale of a result; the ratio is of two scales and of a third one, in float32."""
    one, other, third = map(Float, scales)
    found, first = twice([float(one * other / third)], max(bounds))
    return s.requantised(node, have, want, found, Rounding.HALF_AWAY, first, part)


RULES = {"UNIDIRECTIONAL_SEQUENCE_LSTM": lstm, "SVDF": svdf}
"""Operation -> what writes it."""
