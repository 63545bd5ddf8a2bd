"""Recurrent layers of ONNX: ``RNN``, ``GRU`` and ``LSTM``, as the layers of PyTorch that compute the same."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.importers.graph import Ref, Refused
from mase_hw.importers.onnx.step import Step

_META: Any = {"device": "meta", "batch_first": True}
_ORDER = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}
"""Where PyTorch's gates stand in ONNX: r, z, n in z, r, h, and i, f, g, o in i, o, f, c."""
MOST_WRITTEN = 64
"""Steps of a layer that PyTorch has not, each of which has hardware of its own."""
MOST_STEPS = 1 << 14
"""Steps of a sequence, beyond which a file is taken for a damaged one."""
_FUNCTIONS = {"RNN": ["tanh"], "GRU": ["sigmoid", "tanh"], "LSTM": ["sigmoid", "tanh", "tanh"]}


def _activations(s: Step, kind: str, directions: int) -> str:
    """The function of an ``RNN``; refuses all but those of PyTorch's layers."""
    usual = _FUNCTIONS[kind] * directions
    given = s.node.get("activations", None)
    names = usual if given is None else [str(name).lower() for name in given]
    if kind == "RNN" and names == ["relu"] * directions:
        return "relu"
    if names != usual:
        raise Refused(f"the activations {names!r:.100}", f"use those of the specification, {', '.join(usual)}")
    return "tanh"


def _refuse_others(s: Step, kind: str) -> None:
    """Refuse what PyTorch's layers do not have."""
    for name in ("activation_alpha", "activation_beta", "clip"):
        if s.node.get(name, None):
            raise Refused(f"the attribute {name}, which no layer in hardware has")
    if kind == "LSTM":
        s.node.fixed("input_forget", 0)
        if s.has(7) and bool(s.known(7, "the weights of the peepholes").any()):
            raise Refused("peepholes", "use an LSTM without them")


def _by_gate(values: Tensor, kind: str) -> Tensor:
    """Rows gate by gate in the order of PyTorch."""
    parts = values.float().chunk(len(_ORDER[kind]))
    return torch.cat([parts[i] for i in _ORDER[kind]]).contiguous()


def _layer(s: Step, kind: str, directions: int, function: str) -> nn.RNNBase:
    """The layer, with the weights of the file."""
    weight, state = s.known(1, "the weight"), s.known(2, "the weight of the state")
    bias = s.maybe_known(3, "the bias")
    gates, units = len(_ORDER[kind]), state.shape[-1]
    shapes = {
        "weights": (weight, [directions, gates * units, weight.shape[-1]]),
        "weights of the state": (state, [directions, gates * units, units]),
        "biases": (bias, [directions, 2 * gates * units]),
    }
    for name, (value, wanted) in shapes.items():
        if value is not None and list(value.shape) != wanted:
            raise Refused(f"{name} of the shape {list(value.shape)}, not {wanted}")
    if s.node.get("hidden_size", units) != units:
        raise Refused(f"a hidden_size of {s.node.get('hidden_size')} with {units} units")
    more: Any = {"nonlinearity": function} if kind == "RNN" else {}
    make: Any = {"RNN": nn.RNN, "GRU": nn.GRU, "LSTM": nn.LSTM}[kind]
    layer: nn.RNNBase = make(
        weight.shape[-1], units, bias=bias is not None, bidirectional=directions == 2, **more, **_META
    )
    for at in range(directions):
        end = "l0_reverse" if at else "l0"
        given = {f"weight_ih_{end}": weight[at], f"weight_hh_{end}": state[at]}
        if bias is not None:
            first, second = bias[at].chunk(2)
            given |= {f"bias_ih_{end}": first, f"bias_hh_{end}": second}
        for name, value in given.items():
            layer.register_parameter(name, nn.Parameter(_by_gate(value, kind)))
    return layer


def _begins(s: Step, count: int, x: Ref, rows: bool, size: tuple[int, int]) -> list[Ref] | None:
    """What sequences begin with, ``(D, N, H)`` each; None for zeros."""
    given = [s.inputs[i] if s.has(i) else None for i in range(5, 5 + count)]
    zeros = all(v is None or (isinstance(v, Tensor) and not bool(v.any())) for v in given)
    states = [s.call(torch.permute, v, (1, 0, 2)) if rows and v is not None else v for v in given]
    for shape in (s.writer.shape(state) for state in states if state is not None):
        if len(shape) != 3 or (shape[0], shape[2]) != size or not (zeros or shape[1] == 1):
            raise Refused(f"initial states of the shape {list(shape)} for a layer of {size[1]} units and one frame")
    if zeros:
        return None
    if any(state is None for state in states):
        raise Refused("one initial state of two", "give both")
    found = []
    for state in states:
        if isinstance(state, Tensor) and isinstance(x, fx.Node):  # one for all sequences
            many = s.writer.method("size", x, 0)
            state = s.writer.method("expand", s.writer.constant(state), state.shape[0], many, state.shape[2])
        found.append(state)
    return found


def _for_states(s: Step, x: Ref, rows: bool) -> Ref:
    """A sequence; a known one is that of every frame whose states begin with data."""
    begin = next((v for v in s.inputs[5:7] if isinstance(v, fx.Node)), None)
    if begin is None or isinstance(x, fx.Node) or len(x) != 1:
        return x
    return s.writer.method("expand", s.writer.constant(x), s.writer.method("size", begin, 0 if rows else 1), -1, -1)


def _whole(s: Step, layer: nn.RNNBase, x: Ref, begins: list[Ref] | None) -> tuple[Ref, Ref]:
    """All states of a layer of PyTorch, and the last ones."""
    steps, directions = s.writer.shape(x)[1], 2 if layer.bidirectional else 1

    def like(count: int) -> Any:  # known without a step for each of the sequence
        last = torch.empty(directions, count, layer.hidden_size, device="meta")
        whole = torch.empty(count, steps, directions * layer.hidden_size, device="meta")
        return whole, (last, last) if isinstance(layer, nn.LSTM) else last

    given = [] if begins is None else [tuple(begins) if len(begins) > 1 else begins[0]]
    made = s.writer.layer(layer, x, *given, like=like)
    return s.call(operator.getitem, made, 0), s.call(operator.getitem, made, 1)


def _early(s: Step, layer: nn.RNNBase, x: Ref, begins: Ref | None) -> tuple[Ref, Ref]:
    """The same of a ``GRU`` whose reset gate stands before the product of the state, step by step."""
    steps, units = s.writer.shape(x)[1], layer.hidden_size
    if steps > MOST_WRITTEN:
        raise Refused(
            f"the reset gate before the product, over {steps} steps: each has hardware of its own, for at most "
            f"{MOST_WRITTEN}",
            "train it with linear_before_reset = 1, as PyTorch and newer versions of Keras have it",
        )

    def product(weight: Tensor, data: Ref, bias: Tensor | None = None) -> Ref:
        linear = nn.Linear(weight.shape[1], weight.shape[0], bias is not None)
        linear.weight = nn.Parameter(weight.detach().clone())
        if bias is not None:
            linear.bias = nn.Parameter(bias.detach().clone())
        return s.writer.layer(linear, data)

    def part(of: Ref, first: int, last: int) -> Ref:
        return s.call(operator.getitem, of, (slice(None), slice(first, last)))

    outputs, lasts = [], []
    for at in range(2 if layer.bidirectional else 1):
        end = "l0_reverse" if at else "l0"
        state, bias = layer.get_parameter(f"weight_hh_{end}"), None
        if layer.bias:
            bias = layer.get_parameter(f"bias_ih_{end}") + layer.get_parameter(f"bias_hh_{end}")
        given = product(layer.get_parameter(f"weight_ih_{end}"), s.call(torch.flip, x, (1,)) if at else x, bias)
        h = None if begins is None else s.call(operator.getitem, begins, at)
        states = []
        for step in range(steps):
            now = s.call(operator.getitem, given, (slice(None), step))
            gates, new = part(now, 0, 2 * units), part(now, 2 * units, 3 * units)
            if h is not None:
                gates = s.call(torch.add, gates, product(state[: 2 * units], h))
            gates = s.call(torch.sigmoid, gates)
            z = part(gates, units, 2 * units)
            if h is not None:
                reset = s.call(torch.mul, part(gates, 0, units), h)
                new = s.call(torch.add, new, product(state[2 * units :], reset))
            new = s.call(torch.tanh, new)
            rest = s.call(torch.neg, new) if h is None else s.call(torch.sub, h, new)
            h = s.call(torch.add, new, s.call(torch.mul, z, rest))
            states.append(s.call(torch.unsqueeze, h, 1))
        lasts.append(s.call(torch.unsqueeze, h, 0))
        whole = s.call(torch.cat, states, 1) if steps > 1 else states[0]
        outputs.append(s.call(torch.flip, whole, (1,)) if at else whole)
    if len(outputs) == 1:
        return outputs[0], lasts[0]
    return s.call(torch.cat, outputs, 2), s.call(torch.cat, lasts, 0)


def recurrent(s: Step) -> list[Ref]:
    """``RNN``, ``GRU`` and ``LSTM``: all states, the last ones, and of an LSTM the last cell states."""
    kind, layout = s.node.operation, s.node.get("layout", 0)
    way = s.node.get("direction", "forward")
    if way not in ("forward", "reverse", "bidirectional") or layout not in (0, 1):
        raise Refused(f"the direction {way!r:.40} with the layout {layout}")
    directions = 2 if way == "bidirectional" else 1
    function = _activations(s, kind, directions)
    _refuse_others(s, kind)
    if len(s.shape()) != 3:
        raise Refused(f"data of the shape {list(s.shape())}; a sequence has three dimensions")
    x = s.data() if layout else s.call(torch.permute, s.data(), (1, 0, 2))
    x = _for_states(s, x, bool(layout))
    frames, steps = s.writer.shape(x)[:2]
    if frames != 1 or s.writer.frames_dim(x) not in (0, None):
        raise Refused("its sequences are not those of the frames", "give each frame one sequence")
    if steps > MOST_STEPS:
        raise Refused(f"a sequence of {steps} steps; there are at most {MOST_STEPS}")
    if s.has(4) and s.numbers(4, "the lengths of sequences") != [steps] * frames:
        raise Refused(f"sequences that end before {steps} steps", "give all of them the same length")
    early = kind == "GRU" and not s.node.get("linear_before_reset", 0)
    if way == "reverse":
        x = s.call(torch.flip, x, (1,))
    layer = _layer(s, kind, directions, function)
    if s.writer.shape(x)[2] != layer.input_size:
        raise Refused(f"weights for {layer.input_size} inputs, and data of {s.writer.shape(x)[2]}")
    size = (directions, layer.hidden_size)
    begins = _begins(s, 2 if kind == "LSTM" else 1, x, bool(layout), size)
    if early:
        output, last = _early(s, layer, x, None if begins is None else begins[0])
    else:
        output, last = _whole(s, layer, x, begins)
    if way == "reverse":
        output = s.call(torch.flip, output, (1,))
    several = s.writer.reshape(output, (frames, steps, directions, layer.hidden_size))
    results = [s.call(torch.permute, several, (0, 1, 2, 3) if layout else (1, 2, 0, 3))]
    for state in [s.call(operator.getitem, last, i) for i in (0, 1)] if kind == "LSTM" else [last]:
        results.append(s.call(torch.permute, state, (1, 0, 2)) if layout else state)
    return results


RULES = {"RNN": recurrent, "GRU": recurrent, "LSTM": recurrent}
"""Operation -> what writes it."""
