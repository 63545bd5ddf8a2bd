"""Recurrent layers and cells of a program: a call of ``aten.gru`` and its relatives is a layer of ``torch.nn``."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.ir.export.aten import NotTaken
from mase_hw.ir.export.layers import META

_LAYERS: dict[str, tuple[Any, int, dict[str, object]]] = {
    "rnn_tanh": (nn.RNN, 1, {"nonlinearity": "tanh"}),
    "rnn_relu": (nn.RNN, 1, {"nonlinearity": "relu"}),
    "gru": (nn.GRU, 3, {}),
    "lstm": (nn.LSTM, 4, {}),
}
_CELLS: dict[str, tuple[Any, int, dict[str, object]]] = {
    "rnn_tanh_cell": (nn.RNNCell, 1, {"nonlinearity": "tanh"}),
    "rnn_relu_cell": (nn.RNNCell, 1, {"nonlinearity": "relu"}),
    "gru_cell": (nn.GRUCell, 3, {}),
    "lstm_cell": (nn.LSTMCell, 4, {}),
}
RECURRENT = frozenset({*_LAYERS, *_CELLS})
"""Names of these operations."""


def write_recurrent(program: Any, node: fx.Node, name: str) -> Any:
    """Write a call as a layer; gives its result, or a tuple of them, as the operation gives them.

    Args:
        program: The :class:`~mase_hw.ir.export.convert.ProgramImport` that writes the graph.
        node: The call.
        name: Its operation, one of :data:`RECURRENT`.

    Raises:
        NotTaken: If it is no layer of ``torch.nn``.
    """
    cell, (x, states, *rest) = name in _CELLS, node.args
    assert isinstance(x, fx.Node)
    begins: list[Any] = list(states) if isinstance(states, list | tuple) else [states]
    weights: list[Any] = [w for w in rest if w is not None] if cell else list(rest[0])  # type: ignore[arg-type]
    frames = 0
    options: dict[str, object] = {"bias": len(weights) > 2}
    if str(node.target).endswith(".data"):
        raise NotTaken("its sequences are packed: give all of them the same length")
    if not cell:
        biased, layers, dropout, training, two, first = rest[1:7]
        if training and dropout:
            raise NotTaken("a dropout that is left on is random: export the model in evaluation mode")
        frames = 0 if first else 1
        options = {"bias": biased, "num_layers": layers, "bidirectional": two, "batch_first": first}
    if any(w not in program.paths and w not in program.static for w in weights):
        raise NotTaken("its weights are computed: store them")
    for weight in weights:
        program.value(weight)
    paths = [program.own(program.paths[w], node) for w in weights]
    layer, names = _layer(name, [program.attribute(p) for p in paths], options)
    inputs = [program.value(x)]
    if any(b not in program.static or bool(program.static[b].any()) for b in begins):
        given = [_begin(program, b, inputs[0], frames, 0 if cell else 1, node) for b in begins]
        inputs.append(tuple(given) if name.startswith("lstm") else given[0])
    made = program.graph.call_module(program.layers.recurrent(layer, names, paths, node.name), tuple(inputs))
    values = node.meta["val"] if isinstance(node.meta["val"], tuple | list) else [node.meta["val"]]
    doubled: list[Tensor | None] = [None] * len(values)
    if program.two[inputs[0]] is not None:  # otherwise the graph does for one frame at a time
        given = program.two[inputs[0]].shape
        shapes = [(*given[:-1], v.shape[-1]) if cell or not i else (len(v), given[frames], v.shape[-1])
                  for i, v in enumerate(values)]  # fmt: skip
        doubled = [torch.empty(shape, dtype=v.dtype, device="meta") for shape, v in zip(shapes, values, strict=True)]
    program.data.add(made)
    program.two[made] = (
        (doubled[0], tuple(doubled[1:])) if name == "lstm" else doubled[0] if len(doubled) == 1 else tuple(doubled)
    )
    if len(doubled) == 1:
        return made
    parts = [_part(program, made, i) for i in (0, 1)]
    return (parts[0], *(_part(program, parts[1], i) for i in (0, 1))) if name == "lstm" else tuple(parts)


def _layer(name: str, weights: Sequence[Tensor], options: dict[str, object]) -> tuple[nn.Module, list[str]]:
    """The layer, on the meta device, and the names of its parameters in order."""
    kind, gates, function = {**_LAYERS, **_CELLS}[name]
    inputs, units = weights[0].shape[1], weights[0].shape[0] // gates
    if name not in _CELLS and weights[1].shape[1] != units:
        options = {**options, "proj_size": weights[1].shape[1]}
    made = kind(inputs, units, **options, **function, **META)
    return made, [key for key, _ in made.named_parameters()]


def _begin(program: Any, state: fx.Node, x: fx.Node, frames: int, dim: int, node: fx.Node) -> fx.Node:
    """What sequences begin with; what is stored begins all of them."""
    made: fx.Node = program.value(state)
    if made in program.data:
        return made
    many = program.emit(("call_method", "size", (x, frames), {}), node)
    sizes = [many if i == dim else n for i, n in enumerate(state.meta["val"].shape)]
    result: fx.Node = program.emit(("call_method", "expand", (made, *sizes), {}), node)
    return result


def _part(program: Any, whole: fx.Node, index: int) -> fx.Node:
    """One result of a layer."""
    made: fx.Node = program.graph.call_function(operator.getitem, (whole, index))
    program.two[made] = program.two[whole][index]
    program.data.add(made)
    return made
