"""Cells that a model calls itself, once a step, become operations that hardware has."""

from __future__ import annotations

import torch
from torch import Tensor, fx, nn

from mase_hw.ir import MaseGraph
from mase_hw.passes.transforms.lowering.recurrent import annotated, indexed, inlined, refused

CELLS = (nn.RNNCell, nn.GRUCell, nn.LSTMCell)


class _Step(nn.Module):
    """One step of a cell. The gates' inputs and states are multiplied together: one exact sum, and one cast of it.

    Args:
        cell: The cell; its tensors are copied.
        states: States it is given: without any they are zeros.
    """

    def __init__(self, cell: nn.RNNCellBase, states: int) -> None:
        super().__init__()
        self.states = states
        self.relu = getattr(cell, "nonlinearity", "") == "relu"
        late = isinstance(cell, nn.GRUCell)
        gates = cell.weight_ih.shape[0] - (cell.hidden_size if late else 0)
        weights = [cell.weight_ih, *([cell.weight_hh] if states else [])]
        bias = cell.bias_ih + cell.bias_hh if cell.bias else None
        self.gates = _linear(torch.cat([w[:gates] for w in weights], 1), None if bias is None else bias[:gates])
        if late:
            given, kept = (cell.bias_ih[gates:], cell.bias_hh[gates:]) if cell.bias else (None, None)
            self.new = _linear(cell.weight_ih[gates:], given)
            if states:
                self.kept = _linear(cell.weight_hh[gates:], kept)
            elif kept is not None:
                self.bias = nn.Parameter(kept.detach().clone())

    def sums(self, x: Tensor, h: Tensor | None) -> Tensor:
        """What goes into the gates."""
        result: Tensor = self.gates(x if h is None else torch.cat((x, h), -1))
        return result

    def rnn(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """``nn.RNNCell``."""
        return torch.relu(self.sums(x, h)) if self.relu else torch.tanh(self.sums(x, h))

    def gru(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """``nn.GRUCell``."""
        r, z = torch.sigmoid(self.sums(x, h)).chunk(2, -1)
        new = self.new(x)
        if h is not None:
            new = new + r * self.kept(h)
        elif hasattr(self, "bias"):
            new = new + r * self.bias
        n = torch.tanh(new)
        return n - z * n if h is None else n + z * (h - n)

    def lstm(self, x: Tensor, h: Tensor | None = None, c: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """``nn.LSTMCell``."""
        i, f, g, o = self.sums(x, h).chunk(4, -1)
        new = torch.sigmoid(i) * torch.tanh(g)
        c = new if c is None else torch.sigmoid(f) * c + new
        return torch.sigmoid(o) * torch.tanh(c), c


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, dtype=weight.dtype, device=weight.device)
    made.weight = nn.Parameter(weight.detach().clone())
    if bias is not None:
        made.bias = nn.Parameter(bias.detach().clone())
    return made


class _Rnn(_Step):
    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        return self.rnn(x, h)


class _RnnFirst(_Step):
    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)


class _Gru(_Step):
    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        return self.gru(x, h)


class _GruFirst(_Step):
    def forward(self, x: Tensor) -> Tensor:
        return self.gru(x)


class _Lstm(_Step):
    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        return self.lstm(x, h, c)


class _LstmFirst(_Step):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.lstm(x)


BODIES = {
    (nn.RNNCell, 0): _RnnFirst,
    (nn.RNNCell, 1): _Rnn,
    (nn.GRUCell, 0): _GruFirst,
    (nn.GRUCell, 1): _Gru,
    (nn.LSTMCell, 0): _LstmFirst,
    (nn.LSTMCell, 2): _Lstm,
}


def lower_cell(graph: MaseGraph, node: fx.Node, module: nn.RNNCellBase) -> None:
    """Write a call of ``nn.RNNCell``, ``nn.GRUCell`` or ``nn.LSTMCell`` as linear layers, functions and products.

    Every call has hardware of its own: a sequence belongs into ``nn.RNN`` and its relatives.

    Args:
        graph: A float graph with common metadata.
        node: The call.
        module: The cell.

    Raises:
        UnsupportedError: If the result of an LSTM cell is read in another way than by its two parts.
    """
    sources = list(node.all_input_nodes)
    kind = next(cell for cell in CELLS if isinstance(module, cell))
    made = BODIES[kind, len(sources) - 1](module, len(sources) - 1)
    result = inlined(graph, node, sources, made)
    if isinstance(result, fx.Node):
        node.replace_all_uses_with(result)
    else:
        for user in list(node.users):
            index = indexed(user, node)
            if index not in (0, 1, -1, -2):
                raise refused(node, "the whole result is read at once", user.name, "h, c = cell(...)")
            user.replace_all_uses_with(result[index])
            graph.fx_graph.erase_node(user)
    graph.fx_graph.erase_node(node)
    annotated(graph, sources)
