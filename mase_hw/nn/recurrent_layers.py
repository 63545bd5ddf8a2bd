"""``nn.RNN``, ``nn.GRU`` and ``nn.LSTM`` as what hardware has: linear layers, and recurrences behind them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mase_hw.nn.recurrence import GATES, Recurrence

RECURRENT = (nn.RNN, nn.GRU, nn.LSTM)


def kind_of(module: nn.RNNBase) -> str:
    """The kind of a layer's recurrences, a key of :data:`~mase_hw.nn.recurrence.GATES`."""
    return str(module.mode).lower()


class Layers(nn.Module):
    """All layers and directions of a recurrent module, written out.

    Args:
        module: The module; its tensors are copied, rows as a :class:`~mase_hw.nn.recurrence.Recurrence` has them.
        batched: Its input has a dimension of sequences.

    Shapes:
        As the module without an initial state; the result is ``(output, states)``, ``states`` a list with the last
        state ``(N, H)`` of every layer and direction.
    """

    def __init__(self, module: nn.RNNBase, batched: bool = True) -> None:
        super().__init__()
        self.batched, self.swapped = batched, batched and not module.batch_first
        self.directions = 2 if module.bidirectional else 1
        self.inputs, self.cells = nn.ModuleList(), nn.ModuleList()
        for layer in range(module.num_layers):
            for direction in range(self.directions):
                linear, cell = _parts(module, f"l{layer}{'_reverse' if direction else ''}")
                self.inputs.append(linear)
                self.cells.append(cell)

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The states of the last layer after every step, and the last ones of all layers."""
        if self.swapped:
            x = x.transpose(0, 1)
        if not self.batched:
            x = x.unsqueeze(0)
        states = []
        for layer in range(len(self.cells) // self.directions):
            found = []
            for direction in range(self.directions):
                at = layer * self.directions + direction
                given = torch.flip(x, (1,)) if direction else x
                h = self.cells[at](self.inputs[at](given))
                states.append(h[:, -1])
                found.append(torch.flip(h, (1,)) if direction else h)
            x = torch.cat(found, -1) if self.directions > 1 else found[0]
        if self.swapped:
            x = x.transpose(0, 1)
        return (x, states) if self.batched else (x.squeeze(0), [h.squeeze(0) for h in states])


def _parts(module: nn.RNNBase, suffix: str) -> tuple[nn.Linear, Recurrence]:
    """Input part and recurrence of one layer and direction."""
    kind, units = kind_of(module), module.hidden_size

    def by_unit(tensor: Tensor) -> Tensor:
        return tensor.detach().reshape(GATES[kind], units, -1).transpose(0, 1).reshape(tensor.shape).clone()

    weight = by_unit(module.get_parameter(f"weight_ih_{suffix}"))
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=module.bias, dtype=weight.dtype, device=weight.device)
    linear.weight = nn.Parameter(weight)
    late = None
    if module.bias:
        first, second = (module.get_parameter(f"bias_{part}_{suffix}").detach() for part in ("ih", "hh"))
        if kind == "gru":  # the last third is multiplied by the reset gate, together with the state's part
            late, second = second[-units:].clone(), torch.cat([second[:-units], torch.zeros_like(second[-units:])])
        linear.bias = nn.Parameter(by_unit(first + second))
    return linear, Recurrence(kind, by_unit(module.get_parameter(f"weight_hh_{suffix}")), late)
